//! A host's part as a firewall between a private network and others: SKIP outside, tunnels to home
//! agents inside. It has no disk: a bound of n counts as stored at once.

use engine::counters::DropCounters;
use engine::firewall::Event;
use engine::firewall::endpoint::{Effect, Endpoint};
use engine::plane::TooBig;
use engine::time::Instant;
use engine::work::Work;
use wire::ip::Flow;

use super::Send;
use super::carried::{Datagrams, Gate, Meter, Takes, bytes_of};
use super::control::LOG_ENTRIES;
use crate::kernel::Port;

const TAKES: Takes = Takes {
    messages: false,
    skip: true,
};

/// A firewall.
pub struct Wall {
    endpoint: Endpoint,
    datagrams: Datagrams,
    meter: Meter,
    /// Its first events.
    pub log: Vec<(Instant, Event)>,
}

impl Wall {
    /// A firewall at its beginning.
    pub fn new(endpoint: Endpoint) -> Self {
        let mut wall = Self {
            endpoint,
            datagrams: Datagrams::default(),
            meter: Meter::default(),
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
        self.meter.take(&self.endpoint.work())
    }

    pub(super) fn wake(&mut self, now: Instant, sends: &mut Vec<Send>) {
        self.endpoint.handle_timeout(now);
        self.drain(now, sends);
    }

    /// Does everything that follows from the last input.
    fn drain(&mut self, now: Instant, sends: &mut Vec<Send>) {
        while let Some(effect) = self.endpoint.poll() {
            match effect {
                Effect::Sealed(path, octets) => {
                    sends.push(Send::Out(self.datagrams.sealed(&path, octets)));
                }
                Effect::Opened(packet) => sends.push(Send::Out(packet)),
                Effect::StoreN(entry, bound) => self.endpoint.n_is_stored(entry, bound, now),
                Effect::Event(event) if self.log.len() < LOG_ENTRIES => {
                    self.log.push((now, event));
                }
                Effect::KeepN(..) | Effect::Event(_) => {}
            }
        }
    }
}

impl Gate for Wall {
    fn takes(flow: &Flow) -> bool {
        TAKES.path_of(flow).is_some()
    }

    fn open(&mut self, mut octets: Vec<u8>, flow: &Flow, now: Instant, sends: &mut Vec<Send>) {
        let Some(path) = TAKES.path_of(flow) else {
            return;
        };
        let bytes = bytes_of(&mut octets, flow, &path);
        self.endpoint.receive(path, bytes, now);
        self.drain(now, sends);
    }

    fn too_big(&mut self, report: &TooBig<'_>, now: Instant) {
        self.endpoint.too_big(report, now);
    }

    fn pass(
        &mut self,
        mut octets: Vec<u8>,
        (flow, port): (&Flow, Port),
        now: Instant,
        sends: &mut Vec<Send>,
    ) {
        if port != Port(0) && self.endpoint.carries(flow.source, flow.destination) {
            self.endpoint.send(&mut octets, now);
            self.drain(now, sends);
        } else if self.endpoint.forwards(&octets) {
            sends.push(Send::Out(octets));
        }
    }
}
