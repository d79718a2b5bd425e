//! A host's part as a firewall between a private network and others: SKIP outside, tunnels to home
//! agents inside. It has no disk: a bound of n counts as stored at once.

use std::net::IpAddr;

use engine::counters::DropCounters;
use engine::firewall::Event;
use engine::firewall::endpoint::{Effect, Endpoint};
use engine::sa::{Path, Via};
use engine::skip;
use engine::time::Instant;
use engine::work::Work;
use wire::ip::{Flow, icmp, protocol, udp};

use super::Send;
use super::control::{LOG_ENTRIES, since};
use super::mobile::report_of;
use crate::kernel::ip;

/// A firewall.
pub struct Wall {
    endpoint: Endpoint,
    next_id: u16,
    work: Work,
    /// Its first events.
    pub log: Vec<(Instant, Event)>,
}

impl Wall {
    /// A firewall at its beginning.
    pub fn new(endpoint: Endpoint) -> Self {
        let mut wall = Self {
            endpoint,
            next_id: 1,
            work: Work::default(),
            log: Vec::new(),
        };
        // At first it has only bounds of n to store.
        wall.drain(Instant(0), &mut Vec::new());
        wall
    }

    /// Packets dropped, by reason.
    pub fn drops(&self) -> DropCounters {
        self.endpoint.drops()
    }

    /// TCP's maximum segment size passes as it is.
    pub fn keep_mss(&mut self) {
        self.endpoint.keep_mss();
    }

    /// What our own links carry.
    pub fn set_link_mtu(&mut self, mtu: u16) {
        self.endpoint.set_link_mtu(mtu, Instant(0));
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
        self.drain(now, sends);
    }

    /// Whether a packet for our address is for the planes.
    pub(super) fn takes(flow: &Flow) -> bool {
        path_of(flow).is_some()
    }

    /// Handles a packet that [`Wall::takes`].
    pub(super) fn open(
        &mut self,
        mut octets: Vec<u8>,
        flow: &Flow,
        now: Instant,
        sends: &mut Vec<Send>,
    ) {
        let Some(path) = path_of(flow) else { return };
        let start = match path.via {
            Via::UdpWithSkip => (flow.transport + udp::HEADER_LEN).min(flow.total_len),
            _ => 0,
        };
        let bytes = &mut octets[start..flow.total_len];
        self.endpoint.receive(path, bytes, now);
        self.drain(now, sends);
    }

    /// Takes an ICMP message. Returns whether it is about a packet of ours.
    pub(super) fn too_big(&mut self, told: &icmp::TooBig<'_>, now: Instant) -> bool {
        let Some(report) = report_of(told) else {
            return false;
        };
        self.endpoint.too_big(&report, now);
        true
    }

    /// Handles a packet that is for another address.
    pub(super) fn pass(
        &mut self,
        mut octets: Vec<u8>,
        (flow, is_from_inside): (&Flow, bool),
        now: Instant,
        sends: &mut Vec<Send>,
    ) {
        if is_from_inside && self.endpoint.carries(flow.source, flow.destination) {
            self.endpoint.send(&mut octets, now);
            self.drain(now, sends);
        } else if self.endpoint.forwards(&octets) {
            sends.push(Send::Out(octets));
        }
    }

    /// Does everything that follows from the last input.
    fn drain(&mut self, now: Instant, sends: &mut Vec<Send>) {
        while let Some(effect) = self.endpoint.poll() {
            match effect {
                Effect::Sealed(path, octets) => sends.push(Send::Out(match path.via {
                    Via::UdpWithSkip => self.datagram(&path, &octets),
                    _ => octets,
                })),
                Effect::Opened(packet) => sends.push(Send::Out(packet)),
                Effect::StoreN(entry, bound) => self.endpoint.n_is_stored(entry, bound, now),
                Effect::Event(event) if self.log.len() < LOG_ENTRIES => {
                    self.log.push((now, event));
                }
                Effect::Event(_) => {}
            }
        }
    }

    fn datagram(&mut self, path: &Path, payload: &[u8]) -> Vec<u8> {
        self.next_id = self.next_id.wrapping_add(1);
        let ends = [path.local, path.remote].map(|end| (end.ip(), end.port()));
        ip::udp::<IpAddr>(ends[0], ends[1], payload, self.next_id)
    }
}

/// How a packet came, if it is of SKIP, or in a tunnel of a home agent.
fn path_of(flow: &Flow) -> Option<Path> {
    match (flow.protocol, flow.ports) {
        (protocol::UDP, Some((from, to))) if to == skip::udp::PORT => {
            let ends = ((flow.destination, to), (flow.source, from));
            Some(Path::udp_with_skip(ends.0, ends.1))
        }
        (protocol::SKIP | protocol::IPV4, _) => Some(Path::raw(flow.destination, flow.source)),
        _ => None,
    }
}
