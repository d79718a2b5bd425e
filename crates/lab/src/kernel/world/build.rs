//! The elements of a road.

use std::net::{Ipv4Addr, SocketAddrV4};

use crypto::hash::Hash;
use crypto::rand::Seed;
use engine::sa::Mode;
use engine::selector::TrafficSelector;

use super::addresses::{GATEWAY, NAT, POOL, SERVER, SERVER_PORT, STATION};
use super::plan::{Plan, Station};
use crate::kernel::host::{self, Control, Stack};
use crate::kernel::nat::Nat;
use crate::kernel::random::Random;
use crate::kernel::{Element, Fault, Host, Kernel, Link, Port, Router, Target};
use crate::scenario::Role;

/// Behind the gateway.
const PRIVATE: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(10, 10, 0, 0), Ipv4Addr::new(10, 10, 0, 255));

/// Where elements are.
pub(super) struct Places {
    pub(super) station: u32,
    pub(super) gateway: Option<u32>,
    /// Who answers: the last host.
    pub(super) server: u32,
    /// Up and down link of each joint.
    pub(super) links: Vec<(u32, u32)>,
    /// The link up to the gateway, or the last one.
    pub(super) outer_link: u32,
}

impl Places {
    /// The address that the station talks to.
    pub(super) fn far_end(&self, plan: &Plan) -> Ipv4Addr {
        let ends_at_gateway = Some(self.server) == self.gateway;
        if plan.is_published() || ends_at_gateway {
            GATEWAY
        } else {
            SERVER
        }
    }

    /// The address under which `from` reaches the host `to`.
    pub(super) fn address_of(&self, to: u32, from: u32, plan: &Plan, kernel: &Kernel) -> Ipv4Addr {
        if from == self.station {
            return self.far_end(plan);
        }
        let stack = kernel.host(to).and_then(|host| host.stack.as_ref());
        let own = stack.map_or(STATION, Stack::address);
        match plan.tunnel.as_ref().map(|tunnel| tunnel.mode) {
            Some(Mode::Tunnel) => own,
            Some(Mode::Transport) => POOL.0,
            None if plan.has_nat() => NAT,
            None => own,
        }
    }
}

/// Elements by number: two links for each joint, then what stands between.
pub(super) fn build(plan: &Plan) -> Result<(Kernel, Places), Fault> {
    let mut kernel = Kernel::default();
    let joints = plan.joints.len();
    let number = |index: usize| (2 * joints + index) as u32;
    let mut links = Vec::new();
    for (index, joint) in plan.joints.iter().enumerate() {
        let back = format!("{} back", joint.name);
        let ways = [(&joint.name, &joint.up, "up"), (&back, &joint.down, "down")];
        let [first, second] = ways.map(|(name, shape, purpose)| {
            let shape = shape.clone().try_map(|trace| trace.replay());
            let shape = shape.map_err(|why| Fault::Element(name.clone(), why.to_string()))?;
            let link = Link::new(shape, Random::new(plan.seed, purpose, index as u64));
            let to = onward(plan, index, purpose == "up", &number);
            Ok(kernel.add(name, Element::Link(link, to)))
        });
        links.push((first?, second?));
    }
    let mut gateway = None;
    let (mut station, mut server) = (number(0), number(0));
    for (index, one) in plan.stations.iter().enumerate() {
        let added = kernel.add(&one.name, element(plan, index, one));
        match one.role {
            Role::Station => station = added,
            Role::Gateway => {
                gateway = Some((index, added));
                server = added;
            }
            Role::Server => server = added,
            Role::Nat | Role::Relay => {}
        }
    }
    let outer = gateway.map_or(joints, |(index, _)| index).saturating_sub(1);
    let places = Places {
        station,
        gateway: gateway.map(|(_, number)| number),
        server,
        outer_link: links.get(outer).map_or(0, |link| link.0),
        links,
    };
    Ok((kernel, places))
}

/// Where the link of a joint leads: what stands at its end or, past a relay, the next link.
fn onward(plan: &Plan, joint: usize, is_up: bool, number: &impl Fn(usize) -> u32) -> Target {
    let end = if is_up { joint + 1 } else { joint };
    let is_relay = plan.stations[end].role == Role::Relay;
    if is_relay {
        let next = if is_up { joint + 1 } else { joint - 1 };
        return link(next, is_up);
    }
    Target {
        element: number(end),
        port: Port(u8::from(!is_up && end > 0)),
    }
}

fn link(joint: usize, is_up: bool) -> Target {
    Target {
        element: 2 * joint as u32 + u32::from(!is_up),
        port: Port(0),
    }
}

fn element(plan: &Plan, index: usize, station: &Station) -> Element {
    let nat = || {
        let nat = Nat::new(station.nat.clone());
        Element::Nat(Box::new(Router::new(
            nat,
            link(index - 1, false),
            link(index, true),
        )))
    };
    match station.role {
        Role::Station => Element::Host(Box::new(host(plan, index, station))),
        Role::Gateway | Role::Server => Element::Host(Box::new(host(plan, index, station))),
        // a relay has no element of its own to go through: it takes its number and no packet
        Role::Relay => Element::Sink(crate::kernel::Sink::default()),
        Role::Nat => nat(),
    }
}

fn host(plan: &Plan, index: usize, station: &Station) -> Host {
    let has_nat = plan.has_nat();
    let address = station.address(has_nat);
    let is_station = station.role == Role::Station;
    let toward_world = if is_station {
        link(index, true)
    } else {
        link(index - 1, false)
    };
    let mut host = host::Plan::new(address, toward_world);
    if let Some(costs) = &station.costs {
        host.costs = costs.clone();
    }
    let is_last = index + 1 == plan.stations.len();
    if station.role == Role::Gateway && !is_last {
        host.doors.push(link(index, true));
        host.routes.push((PRIVATE.0, PRIVATE.1, Port(1)));
        if plan.is_published() {
            let server = SocketAddrV4::new(SERVER, SERVER_PORT);
            for port in [SERVER_PORT, host::stack::DISCARD_PORT] {
                let server = SocketAddrV4::new(*server.ip(), port);
                host.published.push((port, server));
            }
        }
    }
    let control = plan
        .tunnel
        .as_ref()
        .filter(|_| station.role != Role::Server);
    let control = control.map(|tunnel| {
        let ends_at_gateway = plan.stations.last().map(|one| one.role) == Some(Role::Gateway);
        let inside = if ends_at_gateway {
            TrafficSelector::host(GATEWAY.into())
        } else {
            TrafficSelector::subnet(PRIVATE.0.into(), PRIVATE_BITS)
        };
        let config = if is_station {
            tunnel.station(inside, plan.mtu_bytes())
        } else {
            tunnel.gateway(inside, plan.mtu_bytes())
        };
        let seed = seed(plan.seed, &station.name);
        Control::new(config, address, &seed, plan.calendar)
    });
    let stack = Stack::new(address, stack_mtu(plan, station), plan.seed);
    Host::new(host, control, Some(stack))
}

const PRIVATE_BITS: u8 = 24;

/// Packets of a stack: what its link carries. The planes tell TCP what fits under protection by
/// its maximum segment size.
fn stack_mtu(plan: &Plan, station: &Station) -> u32 {
    let is_first = station.role == Role::Station;
    let joint = if is_first {
        plan.joints.first()
    } else {
        plan.joints.last()
    };
    let mtu = joint.and_then(|joint| joint.up.mtu);
    mtu.unwrap_or(DEFAULT_MTU).min(DEFAULT_MTU)
}

/// Ethernet's, which TCP takes where a link says nothing.
const DEFAULT_MTU: u32 = 1500;

/// The seed of one host's secrets.
fn seed(seed: u64, name: &str) -> Seed {
    let digest = Hash::Sha256.digest(&[&seed.to_be_bytes(), name.as_bytes()]);
    let mut octets = [0; 32];
    octets.copy_from_slice(digest.as_ref());
    Seed::new(octets)
}
