//! The protection of the tunnels of a scenario, each by its own policy, and its cost.

use std::net::IpAddr;
use std::rc::Rc;

use super::tunnel::{Proof, Tunnel};
use crate::cost::{self, Direction, Policy};
use crate::kernel::cpu::{Costs, PacketCosts};
use crate::scenario::graph::setup::{Setup, TunnelSetup};
use crate::scenario::{self, Catalogue, Fault, Scenario, Uncomputable};

/// The tunnels of a setup, in its order.
pub(super) fn tunnels(setup: &Setup, scenario: &Scenario) -> Result<Vec<Tunnel>, Fault> {
    let tunnels = setup.tunnels.iter().map(|set| {
        let tunnel = Tunnel::of(set);
        tunnel.map_err(|why| scenario.fault(&[&set.policy_key], why))
    });
    tunnels.collect()
}

/// How a node protects the packets of one of its tunnels.
pub(super) struct Protection {
    /// Index of the station.
    pub(super) station: usize,
    pub(super) policy: Policy,
    /// The inner addresses of the gateway's peers under this policy.
    pub(super) peers: (IpAddr, IpAddr),
}

/// The cost of a node's tunnels; none if it has no tunnel.
pub(super) fn costs(
    node: &str,
    computer: &scenario::Computer,
    tunnels: &[Protection],
    scenario: &Scenario,
    catalogue: &Catalogue,
) -> Result<Option<Costs>, Uncomputable> {
    let device = scenario.device(node, computer, catalogue)?;
    let packet = |tunnel: &Protection| {
        let service = |direction| {
            let service = device.service(&tunnel.policy, direction);
            service.map_err(|missing| scenario.unpriced((node, tunnel.station), missing))
        };
        Ok::<_, Uncomputable>(PacketCosts {
            seal: service(Direction::Seal)?,
            open: service(Direction::Open)?,
        })
    };
    let Some(first) = tunnels.first() else {
        return Ok(None);
    };
    let mut peers = Vec::new();
    for (index, tunnel) in tunnels.iter().enumerate() {
        let is_known = |other: &Protection| other.peers == tunnel.peers;
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
    /// The tunnel of a setup, whose policy protects something.
    fn of(set: &TunnelSetup) -> Result<Self, &'static str> {
        let policy = &set.protection;
        let esp = policy.suite.ipsec().ok_or("it protects nothing")?;
        let keys = policy
            .keys
            .ok_or("it has no [keys], and the event kernel sets up tunnels with IKE")?;
        let proof = match keys.proof {
            cost::Proof::Rsa2048 => Proof::Certificates,
            cost::Proof::Psk => Proof::Shared,
            cost::Proof::Rsa3072 | cost::Proof::Rsa4096 => {
                return Err("the simulator has only certificates with keys of 2048 bits");
            }
        };
        Ok(Self {
            mode: policy.mode,
            esp: *esp,
            ike: keys.proposal,
            is_aggressive: keys.exchange == cost::Exchange::Aggressive,
            proof,
            forces_udp: policy.is_udp_encapsulated,
            is_outer_v6: policy.is_outer_v6,
            is_inner_v6: set.pool.is_v6(),
            rank: set.rank,
        })
    }
}
