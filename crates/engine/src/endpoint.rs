//! A node and both packet planes on one thread: what a host does, without its sockets, its TUN
//! device and its clock. The lab, tests, fuzz targets and benches drive a host through this.
//!
//! Give it an input, then call [`Endpoint::poll`] until it returns `None`. It carries changes from
//! control to the planes and notices back, answers questions of control about this host, and
//! releases packets that waited for a tunnel. Its driver owns what differs from host to host: the
//! clock, the network, and the cost of work.
//!
//! The daemon does not use it. There, each plane lives in the thread that reads its device, so that
//! a packet never waits for a signature (`docs/design/control-and-packets.md`), and bounded queues
//! connect the threads.

mod ledger;
pub mod network;
pub mod pair;

use core::ops::Range;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use crypto::rand::Seed;

use ledger::Ledger;
pub use pair::{Act, Pair};

use crate::config::Config;
use crate::counters::DropCounters;
use crate::ike::{MessageKeys, Spis};
use crate::node::{Event, Input, Node, Output, Ways};
use crate::plane::{
    Datagrams, InboundChange, InboundPlane, Notice, Offloads, OutboundChange, OutboundPlane,
    Packets, Received, Verdict,
};
use crate::sa::{Path, Secret, Via};
use crate::time::{Deadline, Instant};
use crate::work::Work;

/// A node and its planes.
pub struct Endpoint {
    /// Control. Give it inputs only through [`Endpoint::handle`].
    pub node: Node,
    /// The plane for packets from the network.
    pub inbound: InboundPlane,
    /// The plane for packets to the network.
    pub outbound: OutboundPlane,
    /// The host's own addresses, at most one per family. Empty if its link is down.
    pub addresses: Vec<IpAddr>,
    /// How often control has asked for a report of the inbound plane.
    pub reports: usize,
    deadline: Option<Deadline>,
    /// A change from control. The last poll returned it, the next one applies it.
    change: Option<Change>,
    ledger: Ledger,
    /// Answers of the planes to changes, in order. Control uses the first answer about an SA.
    told: VecDeque<Notice>,
    wants_addresses: bool,
    wants_report: bool,
    /// Messages and notices from packets for control, in order.
    waiting: VecDeque<Waiting>,
    opened: VecDeque<Vec<u8>>,
    sealed: Datagrams,
    /// Sealed packets and replies that have not left yet.
    leaving: VecDeque<Step>,
    packets: Packets,
    /// Whether control has had an input since packets were last released.
    may_release: bool,
}

/// What an endpoint does, as its driver sees it.
pub enum Effect<'a> {
    /// An IKE message to send: a UDP payload, with the non-ESP marker if the path has one.
    Message(Path, Vec<u8>),
    /// A sealed packet to send: a UDP payload, or a whole IP packet if the path is raw.
    Sealed(Path, &'a [u8]),
    /// A packet for the TUN device: an ICMP answer to a packet from there.
    Reply(&'a [u8]),
    /// A packet for the TUN device: an opened one. These come after all other effects of an input.
    Opened(Vec<u8>),
    /// Control changes the inbound plane. The change is applied before the next effect.
    Inbound(&'a InboundChange),
    /// Control changes the outbound plane. The change is applied before the next effect.
    Outbound(&'a OutboundChange),
    /// A past fact. Its cause is left out, because only a log needs it.
    Event(Event),
    /// Keys of an IKE SA, as in [`Output::IkeKeys`].
    IkeKeys(Spis, MessageKeys),
    /// A datagram for a server of RADIUS.
    Radius(SocketAddr, Vec<u8>),
    /// Secrets for the next process, as in [`Output::Keep`].
    Keep(Secret),
}

enum Change {
    Inbound(InboundChange),
    Outbound(OutboundChange),
}

enum Waiting {
    Message(Path, Vec<u8>),
    Notice(Notice),
}

/// An [`Effect`] that does not borrow its octets or change yet.
enum Step {
    Done(Effect<'static>),
    Changes,
    /// A range of the sealed octets.
    Seals(Path, Range<usize>),
    /// The number of a reply.
    Replies(usize),
}

impl Endpoint {
    /// A new host. Poll it to start its connections.
    pub fn new(config: Config, seed: &Seed, offloads: Offloads, addresses: Vec<IpAddr>) -> Self {
        Self {
            node: Node::new(config, seed),
            inbound: InboundPlane::new(offloads),
            outbound: OutboundPlane::new(seed.stream("outbound", 0), offloads),
            addresses,
            deadline: None,
            change: None,
            ledger: Ledger::default(),
            told: VecDeque::new(),
            wants_addresses: false,
            wants_report: false,
            reports: 0,
            waiting: VecDeque::new(),
            opened: VecDeque::new(),
            sealed: Datagrams::new(),
            leaving: VecDeque::new(),
            packets: Packets::new(),
            may_release: false,
        }
    }

    /// Gives control an input. Poll until `None` before the next input; this is asserted.
    pub fn handle(&mut self, input: Input<'_>, now: Instant) {
        self.node.handle(input, now);
        self.may_release = true;
    }

    /// Takes a datagram from the network: a UDP payload, or a whole IP packet if the path is raw.
    pub fn receive(&mut self, path: Path, octets: &mut [u8], now: Instant) {
        if path.via == Via::Udp {
            return self.handle(Input::Datagram(path, octets), now);
        }
        let received = Received {
            path,
            traffic_class: 0,
            interface: 0,
            segment_bytes: octets.len(),
            bytes: &mut *octets,
        };
        self.inbound.open(0, received, now, &mut self.packets);
        for write in self.packets.writes() {
            let mut packet = write.header.to_vec();
            for slice in write.slices {
                packet.extend_from_slice(&octets[slice.range.clone()]);
            }
            self.opened.push_back(packet);
        }
        for message in self.packets.control() {
            let octets = octets[message.slice.range.clone()].to_vec();
            let message = Waiting::Message(message.path, octets);
            self.waiting.push_back(message);
        }
        let notices = self.packets.notices().iter().cloned();
        self.waiting.extend(notices.map(Waiting::Notice));
        self.packets.clear();
    }

    /// Seals a frame from the TUN device, or holds it until its tunnel is up. Returns whether it
    /// was sealed.
    pub fn send(&mut self, frame: &mut [u8], now: Instant) -> bool {
        debug_assert!(self.leaving.is_empty(), "poll before the next packet");
        self.sealed.clear();
        let verdict = self.outbound.seal(frame, now, &mut self.sealed);
        self.take_sealed();
        verdict == Verdict::Sealed
    }

    /// Lets keys rest that no packet has used since the last call, in both planes.
    pub fn rest(&mut self) {
        self.inbound.rest();
        self.outbound.rest();
    }

    /// The next effect. `None`: it waits for [`Endpoint::deadline`] or an input.
    pub fn poll(&mut self, now: Instant) -> Option<Effect<'_>> {
        let step = self.step(now)?;
        Some(match (step, &self.change) {
            (Step::Done(effect), _) => effect,
            (Step::Seals(path, range), _) => Effect::Sealed(path, self.sealed.octets(range)),
            (Step::Replies(number), _) => Effect::Reply(self.sealed.reply(number)),
            (Step::Changes, Some(Change::Inbound(change))) => Effect::Inbound(change),
            (Step::Changes, Some(Change::Outbound(change))) => Effect::Outbound(change),
            (Step::Changes, None) => return None,
        })
    }

    /// Its own addresses for traffic to each peer of the node: those of the peer's family.
    pub fn ways(&self) -> Ways {
        let peers = self.node.peers().into_iter();
        let ways = peers.map(|peer| {
            let own = self.addresses.iter();
            let own = own.filter(|own| own.is_ipv4() == peer.is_ipv4());
            (peer, own.copied().collect())
        });
        Ways(ways.collect())
    }

    /// When it needs [`Input::Wake`], and why.
    pub fn deadline(&self) -> Option<&Deadline> {
        self.deadline.as_ref()
    }

    /// In builds with debug assertions, panics if control has forgotten an SA that is in a plane.
    pub fn check(&self) {
        self.ledger.check(&self.node);
    }

    /// Messages and packets dropped, by reason.
    pub fn drops(&self) -> DropCounters {
        let mut all = self.node.drops().clone();
        all.merge(&self.outbound.report().drops);
        all.merge(&self.inbound.report().drops);
        all
    }

    /// All work of control and planes so far.
    pub fn work(&self) -> Work {
        let mut all = self.node.work().clone();
        all.merge(&self.outbound.report().work);
        all.merge(&self.inbound.report().work);
        all
    }

    /// Takes the next step.
    fn step(&mut self, now: Instant) -> Option<Step> {
        self.apply(now);
        loop {
            if let Some(step) = self.leaving.pop_front() {
                return Some(step);
            }
            match self.node.poll() {
                Output::Datagram(path, octets) => {
                    return Some(Step::Done(Effect::Message(path, octets)));
                }
                Output::Event(event, _) => return Some(Step::Done(Effect::Event(event))),
                Output::IkeKeys(spis, keys) => {
                    return Some(Step::Done(Effect::IkeKeys(spis, keys)));
                }
                Output::Inbound(change) => {
                    self.change = Some(Change::Inbound(change));
                    return Some(Step::Changes);
                }
                Output::Outbound(change) => {
                    self.change = Some(Change::Outbound(change));
                    return Some(Step::Changes);
                }
                Output::Radius(to, datagram) => {
                    return Some(Step::Done(Effect::Radius(to, datagram)));
                }
                Output::Keep(octets) => return Some(Step::Done(Effect::Keep(octets))),
                Output::WantsReport => {
                    self.wants_report = true;
                    self.reports += 1;
                }
                Output::WantsAddresses => self.wants_addresses = true,
                Output::Wait(deadline) => {
                    self.deadline = deadline;
                    if !self.go_on(now) {
                        let opened = self.opened.pop_front()?;
                        return Some(Step::Done(Effect::Opened(opened)));
                    }
                }
            }
        }
    }

    fn apply(&mut self, now: Instant) {
        let told = match self.change.take() {
            Some(Change::Inbound(change)) => {
                self.ledger.inbound(&change);
                self.inbound.apply(change)
            }
            Some(Change::Outbound(change)) => {
                self.ledger.outbound(&change);
                self.outbound.apply(change, now)
            }
            None => None,
        };
        self.told.extend(told);
    }

    /// Gives control its next input when it has no more outputs: first answers to its questions,
    /// then input from packets. Returns whether there was something to do.
    fn go_on(&mut self, now: Instant) -> bool {
        if core::mem::take(&mut self.wants_report) {
            let report = self.inbound.report();
            self.handle(Input::Report(&report.associations), now);
        } else if let Some(notice) = self.told.pop_front() {
            self.handle(Input::Notice(notice), now);
        } else if core::mem::take(&mut self.wants_addresses) {
            self.handle(Input::Ways(self.ways()), now);
        } else if core::mem::take(&mut self.may_release) {
            self.sealed.clear();
            self.outbound.release(now, &mut self.sealed);
            self.take_sealed();
        } else {
            match self.waiting.pop_front() {
                Some(Waiting::Message(path, octets)) => {
                    self.handle(Input::Datagram(path, &octets), now);
                }
                Some(Waiting::Notice(notice)) => self.handle(Input::Notice(notice), now),
                None => return false,
            }
        }
        true
    }

    /// Queues what the outbound plane produced: packets and replies leave first. Its notices reach
    /// control before other waiting input.
    fn take_sealed(&mut self) {
        for run in self.sealed.runs() {
            for start in run.range.clone().step_by(run.segment_bytes.max(1)) {
                let end = run.range.end.min(start + run.segment_bytes.max(1));
                let step = Step::Seals(run.path, start..end);
                self.leaving.push_back(step);
            }
        }
        let replies = 0..self.sealed.replies().count();
        self.leaving.extend(replies.map(Step::Replies));
        for notice in self.sealed.notices().iter().rev() {
            self.waiting.push_front(Waiting::Notice(notice.clone()));
        }
    }
}
