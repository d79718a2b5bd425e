//! A firewall with both packet planes on one thread: what such a host does, without its sockets,
//! its links and its clock. The lab and tests drive a firewall through this, as they drive other
//! hosts of Mobile IPv4 through [`crate::mip4::endpoint`].
//!
//! Give it an input, then call [`Endpoint::poll`] until it returns `None`. An opened packet that
//! [`Firewall::returns`] goes through the outbound plane, as the host's routes do it with a TUN
//! device.

use std::collections::VecDeque;
use std::net::IpAddr;

use crypto::rand::Seed;
use wire::ip::Flow;

use super::access::EntryId;
use super::{Config, Event, Fault, Firewall, Output};
use crate::counters::{DropCounters, DropReason};
use crate::plane::{
    Datagrams, InboundChange, InboundPlane, MAX_NESTED, Offloads, OutboundChange, OutboundPlane,
    Packets, Received, TooBig, Verdict,
};
use crate::sa::Path;
use crate::time::{Calendar, Deadline, Instant};
use crate::work::Work;

/// A firewall's host.
pub struct Endpoint {
    firewall: Firewall,
    inbound: InboundPlane,
    outbound: OutboundPlane,
    sealed: Datagrams,
    packets: Packets,
    effects: VecDeque<Effect>,
    /// What our own links carry.
    link_mtu: Option<u16>,
    /// Packets between both sides that nothing allows.
    refused: DropCounters,
}

/// What a firewall's host does, as its driver sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A packet to send: a whole IP packet if the path is raw, else a UDP payload.
    Sealed(Path, Vec<u8>),
    /// A packet that came out of SKIP, to forward inside; or ICMP about a packet of
    /// [`Endpoint::send`], to its sender.
    Opened(Vec<u8>),
    /// Write this bound of an entry's n to disk, then say [`Endpoint::n_is_stored`].
    StoreN(EntryId, u32),
    /// Keep this n of an entry on disk.
    KeepN(EntryId, u32),
    /// A past fact.
    Event(Event),
}

impl Endpoint {
    /// A firewall without bindings. `calendar` is the calendar time of `now`.
    pub fn new(
        config: Config,
        seed: &Seed,
        calendar: Calendar,
        now: Instant,
    ) -> Result<Self, Fault> {
        let mut endpoint = Self {
            firewall: Firewall::new(config)?,
            inbound: InboundPlane::new(Offloads::default()),
            outbound: OutboundPlane::new(seed.stream("outbound", 0), Offloads::default()),
            sealed: Datagrams::new(),
            packets: Packets::new(),
            effects: VecDeque::new(),
            link_mtu: None,
            refused: DropCounters::default(),
        };
        endpoint.set_calendar(calendar, now);
        endpoint.follow(now);
        Ok(endpoint)
    }

    /// The clock was set.
    pub fn set_calendar(&mut self, calendar: Calendar, now: Instant) {
        self.inbound.apply(InboundChange::Calendar(calendar, now));
        self.outbound
            .apply(OutboundChange::Calendar(calendar, now), now);
    }

    /// The bound of [`Effect::StoreN`] is on the disk.
    pub fn n_is_stored(&mut self, entry: EntryId, bound: u32, now: Instant) {
        self.firewall.n_is_stored(entry, bound);
        self.follow(now);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.firewall.handle_timeout(now);
        self.follow(now);
    }

    /// Takes what came for us: a whole IP packet if the path is raw, else a UDP payload.
    pub fn receive(&mut self, path: Path, octets: &mut [u8], now: Instant) {
        let received = Received {
            path,
            traffic_class: 0,
            interface: 0,
            segment_bytes: octets.len(),
            bytes: &mut *octets,
        };
        self.inbound.open(0, received, now, &mut self.packets);
        let mut packets = core::mem::take(&mut self.packets);
        // A binding holds before its first packet is answered.
        for notice in packets.notices() {
            self.firewall.handle(notice, now);
        }
        self.follow(now);
        for write in packets.writes() {
            let mut packet = write.header.to_vec();
            for slice in write.slices {
                packet.extend_from_slice(&octets[slice.range.clone()]);
            }
            self.route(packet, 0, now);
        }
        packets.clear();
        self.packets = packets;
    }

    /// What our own links carry. Without it SAs learn by reports alone.
    pub fn set_link_mtu(&mut self, mtu: u16, now: Instant) {
        self.link_mtu = Some(mtu);
        self.firewall.set_link_mtu(mtu);
        self.follow(now);
    }

    /// From now on, TCP's maximum segment size passes as it is
    /// ([`OutboundPlane::keep_mss`](crate::plane::OutboundPlane::keep_mss)).
    pub fn keep_mss(&mut self) {
        self.inbound.keep_mss();
        self.outbound.keep_mss();
    }

    /// An ICMP report that a packet of ours did not fit.
    pub fn too_big(&mut self, report: &TooBig<'_>, now: Instant) {
        self.outbound.too_big(report, now);
        let mut sealed = core::mem::take(&mut self.sealed);
        self.outbound.release(now, &mut sealed);
        self.send_on(sealed, 0, now);
    }

    /// Whether a packet passes from one side to the other as it is. All others are counted.
    pub fn forwards(&mut self, packet: &[u8]) -> bool {
        let flow = Flow::of(packet);
        let passes = flow.is_ok_and(|flow| self.firewall.forwards(&flow));
        if !passes {
            self.refused.count(DropReason::ClearPacket);
        }
        passes
    }

    /// Whether a packet from inside is to be sealed.
    pub fn carries(&self, source: IpAddr, destination: IpAddr) -> bool {
        self.firewall.seals(source, destination)
    }

    /// Seals a packet from inside. Returns whether all of it went.
    pub fn send(&mut self, frame: &mut [u8], now: Instant) -> bool {
        self.seal(frame, 0, now)
    }

    /// The next effect. `None`: it waits for [`Endpoint::deadline`] or an input.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Endpoint::handle_timeout`] is due.
    pub fn deadline(&self) -> Option<Deadline> {
        self.firewall.deadline()
    }

    /// The machine, for its status.
    pub fn firewall(&self) -> &Firewall {
        &self.firewall
    }

    /// Packets dropped, by reason.
    pub fn drops(&self) -> DropCounters {
        let mut all = self.outbound.report().drops;
        all.merge(&self.inbound.report().drops);
        all.merge(&self.refused);
        all
    }

    /// Keepalives of nodes behind NATs so far.
    pub fn keepalives(&self) -> u64 {
        self.inbound.report().keepalives
    }

    /// All work of the planes so far.
    pub fn work(&self) -> Work {
        let mut all = self.outbound.report().work;
        all.merge(&self.inbound.report().work);
        all
    }

    /// A packet for the device leaves it again towards the outbound plane, or inside.
    fn route(&mut self, mut packet: Vec<u8>, depth: usize, now: Instant) {
        let returns = Flow::of(&packet)
            .is_ok_and(|flow| self.firewall.returns(flow.source, flow.destination));
        match returns && depth < MAX_NESTED {
            true => drop(self.seal(&mut packet, depth, now)),
            false => self.effects.push_back(Effect::Opened(packet)),
        }
    }

    fn seal(&mut self, frame: &mut [u8], depth: usize, now: Instant) -> bool {
        let mut sealed = core::mem::take(&mut self.sealed);
        let verdict = self.outbound.seal(frame, now, &mut sealed);
        self.send_on(sealed, depth, now);
        verdict == Verdict::Sealed
    }

    /// Does what the outbound plane wants.
    fn send_on(&mut self, mut sealed: Datagrams, depth: usize, now: Instant) {
        for notice in sealed.notices() {
            self.firewall.handle(notice, now);
        }
        for run in sealed.runs() {
            for octets in sealed.bytes(run).chunks(run.segment_bytes.max(1)) {
                let effect = Effect::Sealed(run.path, octets.to_vec());
                self.effects.push_back(effect);
            }
        }
        // ICMP to the sender, who may be behind a tunnel too.
        for reply in sealed.replies() {
            self.route(reply.to_vec(), depth + 1, now);
        }
        sealed.clear();
        self.sealed = sealed;
        self.follow(now);
    }

    /// Does what the machine wants after an input.
    fn follow(&mut self, now: Instant) {
        while let Some(output) = self.firewall.poll() {
            match output {
                Output::Inbound(change) => drop(self.inbound.apply(change)),
                Output::Outbound(change) => drop(self.outbound.apply(change, now)),
                Output::WantsReport => {
                    let report = self.inbound.report();
                    self.firewall.report(&report.associations, now);
                }
                Output::StoreN { entry, bound } => {
                    self.effects.push_back(Effect::StoreN(entry, bound));
                }
                Output::KeepN { entry, n } => self.effects.push_back(Effect::KeepN(entry, n)),
                Output::Event(event) => self.effects.push_back(Effect::Event(event)),
            }
        }
        let Some(mtu) = self.link_mtu else {
            return;
        };
        while let Some((child, _)) = self.outbound.link_to_ask(now) {
            let answer = OutboundChange::LinkMtu(child, mtu);
            self.outbound.apply(answer, now);
        }
    }
}
