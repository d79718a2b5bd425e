//! Access to radio links in a world: who asks whom, with which dialogue, and at which addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use engine::mip4::tunnel::UdpWish;
use engine::time::{Duration, Instant};
use wire::ip::{ipv4, udp};

use super::blueprint::Blueprint;
use super::mobility;

use crate::kernel::Target;
use crate::kernel::dialogue::Script;
use crate::kernel::host::stack::Security;
use crate::kernel::host::{Detection, Entrance, Protects, Supplicant};
use crate::scenario::graph::setup::TunnelSetup;
use crate::scenario::{Network, Role};

/// The header in UDP of a tunnel to a home agent (RFC 3519 §3.3).
const TUNNEL_BYTES: usize = 4;
/// When measured stations ask for access: the tunnels of all others are up by then.
const BEGINS: Duration = Duration::from_secs(10);

/// What an access point expects of a station that comes to its radio: its addresses there, and the
/// dialogue.
pub(super) fn expected(
    blueprint: &Blueprint,
    station: usize,
    radio: usize,
) -> (Vec<IpAddr>, Option<Script>) {
    let own = blueprint.graph.port(station, radio);
    let addresses = own.map(|port| port.address).into_iter();
    let addresses = addresses.chain(blueprint.home(station));
    let point = blueprint.joints[radio].far;
    let script = blueprint.dialogues.get(&(station, point)).cloned();
    (addresses.collect(), script)
}

/// The dialogues that a server of RADIUS has, by station.
pub(super) fn asked(blueprint: &Blueprint, server: usize) -> BTreeMap<u32, Script> {
    let all = blueprint.dialogues.iter();
    let own = all.filter(|((_, point), _)| blueprint.nodes[*point].radius == Some(server));
    own.map(|((station, _), script)| (*station as u32, script.clone()))
        .collect()
}

/// How a node comes onto its link, which may be the radio of this access point.
pub(super) fn entrance(
    blueprint: &Blueprint,
    index: usize,
    mtu: u32,
    point: Option<Target>,
) -> Entrance {
    let node = &blueprint.nodes[index];
    if node.role != Role::Station {
        return Entrance::default();
    }
    let first = blueprint.graph.ports_of(index).next().copied();
    let radio = first.map(|port| port.link);
    let script = radio.and_then(|radio| expected(blueprint, index, radio).1);
    let is_measured = blueprint.is_measured(index);
    let script = script.filter(|_| is_measured);
    let has_tunnel = !blueprint.tunnels_at(index).is_empty();
    let tunnel = blueprint.tunnels_at(index).into_iter().next();
    let (asking, waiting) = match tunnel {
        Some((tunnel, set)) if !set.trusted.is_empty() => (Some(tunnel), None),
        other => (None, other),
    };
    let has_outer = !blueprint.outers(index).is_empty();
    let waiting = waiting.filter(|(_, set)| is_measured && set.is_at_router || has_outer);
    let goes_home = blueprint.goes_home(index);
    let roaming = match goes_home {
        true => mobility::outer(blueprint, index, mtu),
        false if has_tunnel => mobility::of(blueprint, index, mtu),
        false => None,
    };
    let in_tunnel = blueprint.mtu_in_tunnel(index, mtu);
    let within = goes_home.then(|| mobility::of(blueprint, index, in_tunnel));
    Entrance {
        begins: is_measured.then_some(Instant(0) + BEGINS),
        supplicant: script
            .zip(point)
            .map(|(script, point)| Supplicant::new(index as u32, script, point)),
        frames: node.frames.clone(),
        agents: blueprint.agents(index),
        routers: blueprint.routers(index),
        roaming: roaming.map(Box::new),
        within: within.flatten().map(Box::new),
        detection: asking.map(|tunnel| {
            let ours = blueprint.agents_that_may_be_inside(index);
            Detection::new(tunnel.connection_name(), ours)
        }),
        place: first.map(|port| port.address),
        connection: waiting.map(|(tunnel, _)| tunnel.connection_name()),
        ..Entrance::default()
    }
}

impl Blueprint {
    /// Whether a link is the radio of an access point.
    pub(in crate::kernel) fn is_radio(&self, joint: usize) -> bool {
        self.nodes[self.joints[joint].far].role == Role::AccessPoint
    }

    /// The link behind an access point.
    pub(in crate::kernel) fn behind(&self, point: usize) -> Option<usize> {
        self.joints.iter().position(|it| it.near.contains(&point))
    }

    /// Whether there is an access point.
    pub(in crate::kernel) fn has_radio(&self) -> bool {
        (0..self.joints.len()).any(|joint| self.is_radio(joint))
    }

    /// Whether an access point is at one of a link's ends.
    pub(super) fn is_bridged(&self, joint: usize) -> bool {
        let mut near = self.joints[joint].near.iter();
        let is_point = |node: &usize| self.nodes[*node].role == Role::AccessPoint;
        self.is_radio(joint) || near.any(is_point)
    }

    /// Whether the way of a station onto its link is measured: that of each flow's station, in a
    /// world with access points.
    pub(super) fn is_measured(&self, station: usize) -> bool {
        let mut programs = self.programs.iter();
        self.has_radio() && programs.any(|program| program.station == station)
    }

    /// The flows in TLS of a station, with the security of both ends.
    pub(in crate::kernel) fn secured(
        &self,
        station: usize,
    ) -> impl Iterator<Item = (usize, &[Security; 2])> {
        let all = self.securities.iter();
        let own = all.filter(move |(flow, _)| self.programs[**flow].station == station);
        own.map(|(flow, both)| (*flow, both))
    }

    /// A mobile node's home address.
    pub(super) fn home(&self, station: usize) -> Option<IpAddr> {
        let mut mobile = self.setup.mobile.iter();
        let own = mobile.find(|it| it.layer.station == station);
        own.map(|it| it.home.into())
    }

    /// The home address of a node that is a guest on a link.
    pub(in crate::kernel) fn visitor(&self, station: usize, joint: usize) -> Option<IpAddr> {
        let mut mobile = self.setup.mobile.iter();
        let own = mobile.find(|it| it.layer.station == station)?;
        let segment = |link: usize| {
            self.graph
                .segments
                .iter()
                .position(|it| it.links.contains(&link))
        };
        (segment(own.link) != segment(joint)).then_some(own.home.into())
    }

    /// Of each of a station's addresses on a radio, the network and the router there.
    fn routers(&self, station: usize) -> Vec<(IpAddr, Network, IpAddr)> {
        let ports = self.graph.ports.iter().filter(|port| port.node == station);
        let radios = ports.filter(|port| self.is_radio(port.link));
        let routers = radios.map(|port| {
            let segment = &self.graph.segments[port.segment];
            (port.address, segment.network, segment.head)
        });
        routers.collect()
    }

    /// A station's addresses on links of foreign agents that are hosts there, and these agents.
    pub(super) fn agents(&self, station: usize) -> Vec<(IpAddr, IpAddr)> {
        let ports = self.graph.ports.iter().filter(|port| port.node == station);
        let visits = ports.filter(|port| self.visitor(station, port.link).is_some());
        let with_agents = visits.filter_map(|port| {
            let mut others = self.graph.ports.iter();
            let agent = others.find(|other| {
                let role = self.nodes[other.node].role;
                other.segment == port.segment && other.is_near && role == Role::ForeignAgent
            })?;
            Some((port.address, agent.address))
        });
        with_agents.collect()
    }

    /// The largest packet that a station's tunnel carries, and the tunnel to a home agent outside
    /// around it.
    fn mtu_in_tunnel(&self, station: usize, mtu: u32) -> u32 {
        let mut tunnels = self.setup.tunnels.iter();
        let Some(set) = tunnels.find(|set| set.from == station) else {
            return mtu;
        };
        set.largest_packet(self.tunnel_mtu(set).min(mtu))
    }

    /// The largest packet of a tunnel on its path. That of a mobile node may be inside a tunnel of
    /// Mobile IP, and that in one between routers.
    pub(super) fn tunnel_mtu(&self, set: &TunnelSetup) -> u32 {
        let mtu = self.mtu_bytes(set.from, set.to);
        let ports = self.graph.ports.iter().filter(|port| port.node == set.from);
        let mut away = ports.filter(|port| self.visitor(set.from, port.link).is_some());
        match away.next() {
            Some(_) if set.is_at_router => {
                let header = ipv4::HEADER_LEN as u32;
                u32::from(self.carried_mtu(mtu)).saturating_sub(header)
            }
            _ if set.leads_home => {
                let around = self.outers(set.from).into_iter();
                let around = around.map(|outer| match outer.layer.udp {
                    UdpWish::Never => ipv4::HEADER_LEN,
                    UdpWish::BehindNat | UdpWish::Always => {
                        ipv4::HEADER_LEN + udp::HEADER_LEN + TUNNEL_BYTES
                    }
                });
                mtu.saturating_sub(around.max().unwrap_or_default() as u32)
            }
            _ => mtu,
        }
    }

    /// The addresses of a router's tunnels: those between routers come first.
    pub(super) fn tunnel_addresses(&self, router: usize) -> Vec<IpAddr> {
        let ports = self.graph.ports_of(router);
        let mut own: Vec<(bool, IpAddr)> = ports
            .map(|port| {
                (
                    !port.is_near && !self.is_between(router, port.link),
                    port.address,
                )
            })
            .collect();
        own.sort_by_key(|(is_inward, _)| *is_inward);
        own.into_iter().map(|(_, address)| address).collect()
    }

    /// Whether the other end of a router's link is another router with tunnels.
    fn is_between(&self, router: usize, joint: usize) -> bool {
        let joint = &self.joints[joint];
        let mut ends = joint.near.iter().chain([&joint.far]);
        ends.any(|node| *node != router && self.nodes[*node].ends_tunnels)
    }

    /// What the tunnels of a router protect.
    pub(super) fn protects(&self, router: usize) -> Vec<Protects> {
        let sets = self.setup.tunnels.iter();
        let own = sets.filter_map(|set| {
            let (from, to) = match router {
                it if it == set.from => (set.pool, set.inside),
                it if it == set.to => (set.inside, set.pool),
                _ => return None,
            };
            Some(Protects {
                from,
                to,
                is_of_station: !self.nodes[set.from].ends_tunnels,
            })
        });
        own.collect()
    }
}
