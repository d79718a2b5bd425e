//! A host's part as a foreign agent, which is also the router of its visitors' link. Port 0 leads
//! to that link.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use engine::counters::DropCounters;
use engine::mip4::endpoint::{Effect, Endpoint};
use engine::mip4::foreign_agent::{Datagram, Mac};
use engine::plane::TooBig;
use engine::time::Instant;
use engine::work::Work;
use wire::ip::{Flow, Ipv4, protocol, udp};
use wire::mip4::{PORT, is_solicitation};

use super::Send;
use super::carried::{Datagrams, Gate, Meter, Takes, bytes_of};
use crate::kernel::{Port, ip};

/// The type of a home agent's answer (RFC 5944 §3.4).
const REGISTRATION_REPLY: u8 = 3;

const TAKES: Takes = Takes {
    messages: true,
    skip: false,
};

/// A foreign agent.
pub struct Agent {
    endpoint: Endpoint,
    /// Its address on the visitors' link.
    address: Ipv4Addr,
    datagrams: Datagrams,
    meter: Meter,
}

impl Agent {
    /// A foreign agent with this address on its visitors' link.
    pub fn new(endpoint: Endpoint, address: Ipv4Addr) -> Self {
        Self {
            endpoint,
            address,
            datagrams: Datagrams::default(),
            meter: Meter::default(),
        }
    }

    /// Messages and packets dropped, by reason.
    pub fn drops(&self) -> DropCounters {
        self.endpoint.drops()
    }

    /// TCP's maximum segment size passes as it is.
    pub fn keep_mss(&mut self) {
        self.endpoint.keep_mss();
    }

    /// What our own links carry.
    pub fn set_link_mtu(&mut self, mtu: u16) {
        self.endpoint.set_link_mtu(mtu);
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.endpoint.deadline().map(|deadline| deadline.at)
    }

    /// The work of the planes since the last call.
    pub(super) fn take_work(&mut self) -> Work {
        self.meter.take(&self.endpoint.work())
    }

    pub(super) fn wake(&mut self, now: Instant, sends: &mut Vec<Send>) {
        self.endpoint.handle_timeout(now);
        self.drain(sends);
    }

    /// Takes a packet of its visitors' link that is for the agent itself. Returns others.
    pub(super) fn hear(
        &mut self,
        octets: Vec<u8>,
        (flow, is_ours): (&Flow, bool),
        now: Instant,
        sends: &mut Vec<Send>,
    ) -> Option<Vec<u8>> {
        let payload = &octets[flow.transport..flow.total_len];
        if flow.protocol == protocol::ICMP
            && is_solicitation(payload)
            && let IpAddr::V4(source) = flow.source
        {
            self.endpoint.solicited(link_address(source), now);
        } else if let (Some((from, PORT)), IpAddr::V4(source), IpAddr::V4(to), true) =
            (flow.ports, flow.source, flow.destination, is_ours)
            // An answer of a home agent comes by the same link, if there is only one.
            && payload.get(udp::HEADER_LEN) != Some(&REGISTRATION_REPLY)
        {
            let ttl = Ipv4::new(&octets[..]).map_or(0, |packet| packet.ttl());
            let datagram = Datagram {
                from: SocketAddrV4::new(source, from),
                to: SocketAddrV4::new(to, PORT),
                ttl,
                mac: Some(link_address(source)),
                payload: payload.get(udp::HEADER_LEN..).unwrap_or_default(),
            };
            self.endpoint.hear_visitor(datagram, now);
        } else {
            return Some(octets);
        }
        self.drain(sends);
        None
    }

    fn onward(&self, packet: Vec<u8>) -> Send {
        let to = Flow::of(&packet).ok().map(|flow| flow.destination);
        match to.is_some_and(|to| self.endpoint.has_visitor(to)) {
            true => Send::On(Port(0), packet),
            false => Send::Out(packet),
        }
    }

    /// Does everything that follows from the last input.
    fn drain(&mut self, sends: &mut Vec<Send>) {
        while let Some(effect) = self.endpoint.poll() {
            match effect {
                Effect::Datagram {
                    from,
                    to,
                    is_direct,
                    payload,
                    ..
                } => {
                    let [from, to] = [from, to].map(|end| (IpAddr::V4(*end.ip()), end.port()));
                    let packet = self.datagrams.packet(from, to, &payload);
                    sends.push(match is_direct {
                        true => Send::On(Port(0), packet),
                        false => Send::Out(packet),
                    });
                }
                Effect::Advertise(to, message) => {
                    let packet = ip::icmp((self.address, to), &message);
                    sends.push(Send::On(Port(0), packet));
                }
                Effect::Sealed(_, packet) => sends.push(Send::Out(packet)),
                Effect::Opened(packet) => sends.push(self.onward(packet)),
                _ => {}
            }
        }
    }
}

impl Gate for Agent {
    fn takes(flow: &Flow) -> bool {
        TAKES.path_of(flow).is_some()
    }

    fn open(&mut self, mut octets: Vec<u8>, flow: &Flow, now: Instant, sends: &mut Vec<Send>) {
        let Some(path) = TAKES.path_of(flow) else {
            return;
        };
        let bytes = bytes_of(&mut octets, flow, &path);
        self.endpoint.receive(path, bytes, now);
        self.drain(sends);
    }

    fn too_big(&mut self, report: &TooBig<'_>, now: Instant) {
        self.endpoint.too_big(report, now);
    }

    /// Of a visitor into its tunnel, for a visitor onto the link.
    fn pass(
        &mut self,
        mut octets: Vec<u8>,
        (flow, port): (&Flow, Port),
        now: Instant,
        sends: &mut Vec<Send>,
    ) {
        if port == Port(0) && self.endpoint.carries(flow.source, flow.destination) {
            self.endpoint.send(&mut octets, now);
            self.drain(sends);
        } else {
            sends.push(self.onward(octets));
        }
    }
}

/// Nothing here has a link-layer address of its own.
fn link_address(source: Ipv4Addr) -> Mac {
    let [a, b, c, d] = source.octets();
    Mac([2, 0, a, b, c, d])
}
