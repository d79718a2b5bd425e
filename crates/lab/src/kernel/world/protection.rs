//! The protection of the tunnels of a scenario, each by its own policy, and its cost.

use std::net::IpAddr;
use std::rc::Rc;

use super::tunnel::{Proof, Tunnel};
use crate::cost::{self, Direction, Policy};
use crate::kernel::cpu::{Costs, PacketCosts};
use crate::scenario::{self, Catalogue, Fault, Graph, NoTandem, Scenario};

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
        tunnel.is_outer_v6 = graph.address(one.from).is_some_and(|own| own.is_ipv6());
        if policy.is_outer_v6 && !tunnel.is_outer_v6 {
            let why = "its outer header is IPv6 and the path is IPv4: add family = 6";
            return Err(fault(why.to_owned()));
        }
        policy.is_outer_v6 = tunnel.is_outer_v6;
        tunnels.push(tunnel);
        policies.push(policy);
        ends.push(one.clone());
    }
    graph.tunnels = ends;
    Ok((tunnels, policies))
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
) -> Result<Option<Costs>, NoTandem> {
    let device = scenario.device(node, computer, catalogue)?;
    let packet = |tunnel: &Protection<'_>| {
        let service = |direction| {
            let service = device.service(tunnel.policy, direction);
            service.map_err(|missing| scenario.unpriced((node, tunnel.name), missing))
        };
        Ok::<_, NoTandem>(PacketCosts {
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
            .ok_or("it has no [keys], and the event kernel sets up tunnels with IKE")?;
        let proof = match keys.proof {
            cost::Proof::Rsa2048 => Proof::Certificates,
            cost::Proof::Psk => Proof::Shared,
            cost::Proof::Rsa3072 | cost::Proof::Rsa4096 => {
                return Err("the simulator has only certificates with keys of 2048 bits".into());
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
