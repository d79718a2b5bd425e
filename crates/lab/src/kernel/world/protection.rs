//! The protection of the tunnels of a scenario, each by its own policy, and its cost.

use std::net::IpAddr;
use std::rc::Rc;

use engine::sa::Mode;

use super::tunnel::{Proof, Tunnel};
use crate::cost::{self, Direction, Policy};
use crate::kernel::cpu::{Costs, PacketCosts};
use crate::scenario::graph::{POOLS, POOLS_V6};
use crate::scenario::{
    self, Catalogue, Fault, Graph, NODES_MAX, Network, NoRoad, POLICIES_MAX, Role, Scenario,
};

/// The tunnels of a graph with their policies. Those whose policy protects nothing are left out.
pub(super) fn tunnels(
    graph: &mut Graph,
    scenario: &Scenario,
    catalogue: &Catalogue,
) -> Result<(Vec<Tunnel>, Vec<Policy>), Fault> {
    let (mut tunnels, mut policies): (Vec<Tunnel>, Vec<Policy>) = (Vec::new(), Vec::new());
    let mut ends: Vec<scenario::Tunnel> = Vec::new();
    for one in &graph.tunnels {
        let fault = |why: String| scenario.fault(&[&scenario.policy_key(&one.policy)], why);
        let mut policy = scenario.policy_named(&one.policy, catalogue)?;
        let Some(mut tunnel) = Tunnel::of(&policy).map_err(fault)? else {
            continue;
        };
        let is_v6 = |address: Option<IpAddr>| address.is_some_and(|address| address.is_ipv6());
        tunnel.is_outer_v6 = is_v6(graph.address(one.from));
        tunnel.is_inner_v6 = match (tunnel.mode, graph.behind(one.to)) {
            (Mode::Transport, _) => tunnel.is_outer_v6,
            (Mode::Tunnel, Some(segment)) => segment.network.is_v6(),
            (Mode::Tunnel, None) => is_v6(graph.address(one.to)),
        };
        if policy.is_outer_v6 && !tunnel.is_outer_v6 {
            let why = "its outer header is IPv6 and the road is IPv4: add family = 6";
            return Err(fault(why.to_owned()));
        }
        policy.is_outer_v6 = tunnel.is_outer_v6;
        let others = ends
            .iter()
            .zip(&tunnels)
            .filter(|(other, _)| other.to == one.to);
        let mut next = 0;
        let alike = others.clone().find(|(other, its)| {
            let families = |it: &Tunnel| (it.is_outer_v6, it.is_inner_v6);
            other.policy == one.policy && families(its) == families(&tunnel)
        });
        for (_, other) in others {
            next = next.max(other.rank + 1);
        }
        tunnel.rank = alike.map_or(next, |(_, other)| other.rank);
        if tunnel.rank >= POLICIES_MAX {
            let why = format!("more than {POLICIES_MAX} policies at one gateway, families apart");
            return Err(fault(why));
        }
        tunnels.push(tunnel);
        policies.push(policy);
        ends.push(one.clone());
    }
    graph.tunnels = ends;
    Ok((tunnels, policies))
}

/// The inner addresses of one policy at a gateway, or in transport mode those that represent its
/// peers: 254 addresses, whatever the other policies are.
pub(super) fn peers(
    roles: impl Iterator<Item = Role>,
    gateway: usize,
    tunnel: &Tunnel,
) -> (IpAddr, IpAddr) {
    let before = roles.take(gateway).filter(|role| *role == Role::Gateway);
    // 64 nodes at most, and four policies
    let number = before.count() + tunnel.rank * NODES_MAX;
    let number = u8::try_from(number).unwrap_or(u8::MAX);
    let network = match (tunnel.is_inner_v6, POOLS.first, POOLS_V6.first) {
        (false, IpAddr::V4(first), _) => {
            let [a, b, ..] = first.octets();
            Network::v4([a, b, number, 0])
        }
        (_, _, first) => {
            let [a, b, c] = match first {
                IpAddr::V6(first) => [0, 1, 2].map(|at| first.segments()[at]),
                IpAddr::V4(_) => [0; 3],
            };
            Network::v6([a, b, c, number.into()])
        }
    };
    let host = |number| network.host(number).unwrap_or(network.first);
    (host(1), host(254))
}

/// How a node protects the packets of one of its tunnels.
pub(super) struct Protection<'a> {
    /// The name of the policy in the scenario.
    pub(super) name: &'a str,
    pub(super) policy: &'a Policy,
    /// The inner addresses of the gateway's peers under this policy.
    pub(super) peers: (IpAddr, IpAddr),
}

/// The cost of a node's tunnels; none if it has no tunnel.
pub(super) fn costs(
    node: &str,
    computer: &scenario::Computer,
    tunnels: &[Protection<'_>],
    scenario: &Scenario,
    catalogue: &Catalogue,
) -> Result<Option<Costs>, NoRoad> {
    let device = scenario.device(node, computer, catalogue)?;
    let packet = |tunnel: &Protection<'_>| {
        let service = |direction| {
            let service = device.service(tunnel.policy, direction);
            service.map_err(|missing| scenario.unpriced((node, tunnel.name), missing))
        };
        Ok::<_, NoRoad>(PacketCosts {
            seal: service(Direction::Seal)?,
            open: service(Direction::Open)?,
        })
    };
    let Some(first) = tunnels.first() else {
        return Ok(None);
    };
    let mut peers = Vec::new();
    for (index, tunnel) in tunnels.iter().enumerate() {
        let is_known = |other: &Protection<'_>| other.peers == tunnel.peers;
        if !tunnels[..index].iter().any(is_known) && index > 0 {
            let (low, high) = tunnel.peers;
            peers.push((low, high, packet(tunnel)?));
        }
    }
    let (packet, policy) = (packet(first)?, first.policy.clone());
    Ok(Some(Costs {
        packet,
        peers,
        control: Rc::new(move |work| device.work_time(&policy, work)),
    }))
}

impl Tunnel {
    /// The protection of a policy; none if it protects nothing.
    fn of(policy: &Policy) -> Result<Option<Self>, String> {
        let Some(esp) = policy.suite.ipsec() else {
            return Ok(None);
        };
        let keys = policy
            .keys
            .ok_or("it has no [keys]: the kernel brings tunnels up by IKE")?;
        let proof = match keys.proof {
            cost::Proof::Rsa2048 => Proof::Certificates,
            cost::Proof::Psk => Proof::Shared,
            cost::Proof::Rsa3072 | cost::Proof::Rsa4096 => {
                return Err("the simulator's certificates have keys of 2048 bits".into());
            }
        };
        Ok(Some(Self {
            mode: policy.mode,
            esp: *esp,
            ike: keys.proposal,
            is_aggressive: keys.exchange == cost::Exchange::Aggressive,
            proof,
            forces_udp: policy.is_udp_encapsulated,
            is_outer_v6: false,
            is_inner_v6: false,
            rank: 0,
        }))
    }
}
