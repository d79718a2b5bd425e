//! A host's part as a foreign agent, which is also the router of its visitors' link. Port 0 leads
//! to that link.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use engine::counters::DropCounters;
use engine::mip4::endpoint::{Effect, Endpoint};
use engine::mip4::foreign_agent::{Datagram, Mac};
use engine::sa::{Encapsulation, Path, Via};
use engine::time::Instant;
use engine::work::Work;
use wire::ip::{Flow, Ipv4, icmp, protocol, udp};
use wire::mip4::{PORT, is_solicitation};

use super::Send;
use super::control::since;
use super::mobile::report_of;
use crate::kernel::{Port, ip};

/// A foreign agent.
pub struct Agent {
    endpoint: Endpoint,
    /// Its address on the visitors' link.
    address: Ipv4Addr,
    next_id: u16,
    work: Work,
}

impl Agent {
    /// A foreign agent with this address on its visitors' link.
    pub fn new(endpoint: Endpoint, address: Ipv4Addr) -> Self {
        Self {
            endpoint,
            address,
            next_id: 1,
            work: Work::default(),
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
        let new = since(&self.endpoint.work(), &self.work);
        self.work.merge(&new);
        new
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

    /// Whether a packet for our address is for the machine or its planes.
    pub(super) fn takes(flow: &Flow) -> bool {
        path_of(flow).is_some()
    }

    /// Handles a packet that [`Agent::takes`].
    pub(super) fn open(
        &mut self,
        mut octets: Vec<u8>,
        flow: &Flow,
        now: Instant,
        sends: &mut Vec<Send>,
    ) {
        let Some(path) = path_of(flow) else { return };
        let start = match path.via {
            Via::UdpWithType => (flow.transport + udp::HEADER_LEN).min(flow.total_len),
            _ => 0,
        };
        let bytes = &mut octets[start..flow.total_len];
        self.endpoint.receive(path, bytes, now);
        self.drain(sends);
    }

    /// Takes an ICMP message. Returns whether it is about a packet of a tunnel of ours.
    pub(super) fn too_big(&mut self, told: &icmp::TooBig<'_>, now: Instant) -> bool {
        let Some(report) = report_of(told) else {
            return false;
        };
        self.endpoint.too_big(&report, now);
        true
    }

    /// Forwards a packet: of a visitor into its tunnel, for a visitor onto the link.
    pub(super) fn pass(
        &mut self,
        mut octets: Vec<u8>,
        (flow, is_from_link): (&Flow, bool),
        now: Instant,
        sends: &mut Vec<Send>,
    ) {
        if is_from_link && self.endpoint.carries(flow.source, flow.destination) {
            self.endpoint.send(&mut octets, now);
            self.drain(sends);
        } else {
            sends.push(self.onward(octets));
        }
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
                    self.next_id = self.next_id.wrapping_add(1);
                    let ends = [from, to].map(|end| (*end.ip(), end.port()));
                    let packet = ip::udp(ends[0], ends[1], &payload, self.next_id);
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

/// Nothing here has a link-layer address of its own.
fn link_address(source: Ipv4Addr) -> Mac {
    let [a, b, c, d] = source.octets();
    Mac([2, 0, a, b, c, d])
}

/// How a packet came, if it is a message of Mobile IPv4, or in a tunnel.
fn path_of(flow: &Flow) -> Option<Path> {
    match (flow.protocol, flow.ports) {
        (protocol::UDP, Some((from, PORT))) => {
            let ends = ((flow.destination, PORT), (flow.source, from));
            Some(Path::udp_with_type(ends.0, ends.1))
        }
        (other, _) => Encapsulation::of(other).map(|_| Path::raw(flow.destination, flow.source)),
    }
}
