//! The protection of the tunnels of a scenario, each by its own policy, and its cost.

use std::net::IpAddr;
use std::rc::Rc;

use super::tunnel::{Proof, Tunnel};
use crate::cost::{self, Direction, Policy, Suite};
use crate::kernel::cpu::{Costs, PacketCosts};
use crate::kernel::pki;
use crate::scenario::graph::setup::{Setup, TunnelSetup};
use crate::scenario::{self, Catalogue, Fault, Scenario, Uncomputable};

/// The tunnels of a setup, in its order.
pub(super) fn tunnels(setup: &Setup, scenario: &Scenario) -> Result<Vec<Tunnel>, Fault> {
    let tunnels = setup.tunnels.iter().map(|set| {
        let tunnel = Tunnel::of(set);
        tunnel.map_err(|why| scenario.fault(&[&set.policy_key], why))
    });
    let tunnels: Vec<Tunnel> = tunnels.collect::<Result<_, _>>()?;
    let all = || setup.tunnels.iter().zip(&tunnels);
    for (set, tunnel) in all().filter(|(_, tunnel)| tunnel.is_resumed) {
        let is_alone = |(other, it): (&TunnelSetup, &Tunnel)| {
            other.to == set.to && it.is_resumed != tunnel.is_resumed
        };
        if all().any(is_alone) {
            let what = "another tunnel of its gateway does not go on from a session that was lost";
            return Err(scenario.fault(&[&set.policy_key], what));
        }
    }
    Ok(tunnels)
}

/// How a node protects the packets of one of its tunnels.
pub(super) struct Protection {
    /// Index of the station.
    pub(super) station: usize,
    pub(super) policy: Policy,
    /// The inner addresses of the gateway's peers under this policy.
    pub(super) peers: (IpAddr, IpAddr),
}

/// The cost of what a node of Mobile IPv4 or SKIP computes; none if it is neither.
pub(super) fn carrier_costs(
    (index, node): (usize, &str),
    computer: &scenario::Computer,
    setup: &Setup,
    scenario: &Scenario,
    catalogue: &Catalogue,
) -> Result<Option<Costs>, Uncomputable> {
    let own = setup.skip.iter();
    let own = own.filter(|it| [it.station, it.firewall].contains(&index));
    let own: Vec<_> = own.collect();
    let mut mobile = setup.mobile.iter();
    let is_mobile = mobile.any(|it| [it.layer.station, it.layer.agent].contains(&index));
    if own.is_empty() && !is_mobile {
        return Ok(None);
    }
    let device = scenario.device(node, computer, catalogue)?;
    for set in &own {
        for direction in [Direction::Seal, Direction::Open] {
            let service = device.service(&set.protection, direction);
            service.map_err(|missing| scenario.unpriced((node, set.station), missing))?;
        }
    }
    let policy = Policy::of(Suite::none());
    Ok(Some(Costs {
        control: Rc::new(move |work| device.work_time(&policy, work)),
        ..Costs::free()
    }))
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
        if policy.around.is_some() && set.has_nat {
            return Err("it has two layers, which pass no NAT");
        }
        if keys.proof.is_eap() && set.rank > 0 {
            return Err("another policy of its gateway comes first, and EAP must");
        }
        if keys.is_resumed && set.is_at_router {
            return Err("it goes on from a session that was lost, and only gateways give tickets");
        }
        let proof = match keys.proof {
            cost::Proof::Rsa2048 => Proof::Certificates(pki::Kind::Rsa2048),
            cost::Proof::EcdsaP256 => Proof::Certificates(pki::Kind::P256),
            cost::Proof::Ed25519 => Proof::Certificates(pki::Kind::Ed25519),
            cost::Proof::MlDsa(set) => Proof::Certificates(pki::Kind::MlDsa(set)),
            cost::Proof::Psk => Proof::Shared,
            cost::Proof::EapMsChapV2 => Proof::Password,
            cost::Proof::EapTls => Proof::Tls,
            cost::Proof::Rsa3072 | cost::Proof::Rsa4096 => {
                return Err("the simulator's RSA keys have 2048 bits");
            }
        };
        Ok(Self {
            mode: policy.mode,
            esp: *esp,
            around: policy.around,
            ike: keys.proposal,
            is_aggressive: keys.exchange == cost::Exchange::Aggressive,
            proof,
            asks_cookie: keys.asks_cookie,
            fragments: keys.fragments,
            is_resumed: keys.is_resumed,
            forces_udp: policy.is_udp_encapsulated,
            is_outer_v6: policy.is_outer_v6,
            is_inner_v6: set.pool.is_v6(),
            rank: set.rank,
        })
    }
}
