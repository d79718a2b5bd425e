//! How the tunnels of a scenario are protected: each by its own policy, and what that costs.

use std::net::Ipv4Addr;
use std::rc::Rc;

use super::tunnel::{Proof, Tunnel};
use crate::cost::{self, Direction, Policy};
use crate::kernel::cpu::{Costs, PacketCosts};
use crate::scenario::graph::POOLS;
use crate::scenario::{self, Catalogue, Fault, Graph, NODES_MAX, NoRoad, Role, Scenario};

/// The tunnels of a graph with their policies; those that protect nothing are taken out of it.
pub(super) fn tunnels(
    graph: &mut Graph,
    scenario: &Scenario,
    catalogue: &Catalogue,
) -> Result<(Vec<Tunnel>, Vec<Policy>), Fault> {
    let (mut tunnels, mut policies) = (Vec::new(), Vec::new());
    let mut ends: Vec<scenario::Tunnel> = Vec::new();
    for one in &graph.tunnels {
        let policy = scenario.policy_named(&one.policy, catalogue)?;
        let tunnel = Tunnel::of(&policy);
        let tunnel =
            tunnel.map_err(|why| scenario.fault(&[&scenario.policy_key(&one.policy)], why))?;
        let Some(mut tunnel) = tunnel else { continue };
        let mut names: Vec<&str> = Vec::new();
        for other in ends.iter().chain([one]).filter(|other| other.to == one.to) {
            if !names.contains(&&*other.policy) {
                names.push(&other.policy);
            }
        }
        let rank = names.iter().position(|name| *name == one.policy);
        tunnel.rank = rank.unwrap_or_default();
        tunnels.push(tunnel);
        policies.push(policy);
        ends.push(one.clone());
    }
    graph.tunnels = ends;
    Ok((tunnels, policies))
}

/// The inner addresses of one policy at a gateway: 254 from [`POOLS`], whatever the others are.
pub(super) fn peers(
    roles: impl Iterator<Item = Role>,
    gateway: usize,
    rank: usize,
) -> (Ipv4Addr, Ipv4Addr) {
    let before = roles.take(gateway).filter(|role| *role == Role::Gateway);
    let number = before.count() + rank * NODES_MAX;
    let [a, b, ..] = POOLS.first.octets();
    // 64 nodes at most, and four policies
    let number = u8::try_from(number).unwrap_or(u8::MAX);
    let host = |host| Ipv4Addr::new(a, b, number, host);
    (host(1), host(254))
}

/// How a node protects the packets of one of its tunnels.
pub(super) struct Protection<'a> {
    /// As the scenario names the policy.
    pub(super) name: &'a str,
    pub(super) policy: &'a Policy,
    /// The inner addresses of the gateway's peers under this policy.
    pub(super) peers: (Ipv4Addr, Ipv4Addr),
}

/// What a node's tunnels cost it; none if it has no tunnel.
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
            peers.push((low.into(), high.into(), packet(tunnel)?));
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
    /// Of a policy; none where it protects nothing.
    fn of(policy: &Policy) -> Result<Option<Self>, String> {
        let Some(esp) = policy.suite.ipsec() else {
            return Ok(None);
        };
        if policy.is_outer_v6 {
            return Err("the simulated road is IPv4".into());
        }
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
            rank: 0,
        }))
    }
}
