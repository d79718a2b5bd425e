//! A host's real control plane and both packet planes, driven as in the daemon.

use std::net::IpAddr;

use crypto::rand::Seed;
use engine::config::Config;
use engine::counters::{DropCounters, DropReason};
use engine::ike::Step;
use engine::node::{Command, Event, Input, Node, Output, SOCKETS};
use engine::plane::{Datagrams, InboundPlane, Notice, Offloads, OutboundPlane, Packets, Received};
use engine::sa::{Path, Via};
use engine::time::{Calendar, Instant};
use engine::work::Work;
use wire::ip::{Flow, protocol};

use super::Send;
use crate::kernel::ip;

/// Messages and failures that a log keeps. The node counts later ones.
pub const LOG_ENTRIES: usize = 1000;
/// Octets of the largest UDP payload over IPv4.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;

/// One IKE message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// When it left, or when work on it began.
    pub at: Instant,
    /// Its place in the exchange.
    pub step: Step,
    /// Sent by us.
    pub is_sent: bool,
    /// UDP payload octets, all datagrams together.
    pub bytes: usize,
    /// How many datagrams.
    pub datagrams: usize,
    /// Names of the payloads.
    pub payloads: String,
}

/// Control's events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The first [`LOG_ENTRIES`] messages.
    pub messages: Vec<Message>,
    /// When the first child came up.
    pub established: Option<Instant>,
    /// Children that came up, renewals included.
    pub children: u64,
    /// Paths that moved.
    pub moved: u64,
    /// The first [`LOG_ENTRIES`] failures, each a sentence.
    pub failures: Vec<String>,
}

/// A node and its planes.
pub struct Control {
    node: Node,
    outbound: OutboundPlane,
    inbound: InboundPlane,
    datagrams: Datagrams,
    packets: Packets,
    addresses: Vec<IpAddr>,
    due: Option<Instant>,
    inner: Option<IpAddr>,
    work: Work,
    unstamped: usize,
    begun: Vec<Send>,
    next_id: u16,
    own_drops: DropCounters,
    sealed_bytes: u64,
    /// The events so far.
    pub log: Log,
}

const OFFLOADS: Offloads = Offloads {
    has_vnet_header: false,
    has_udp_segments: false,
};

impl Control {
    /// A node with this configuration and at most one address per family. Its connections start at
    /// time 0.
    pub fn new(config: Config, addresses: Vec<IpAddr>, seed: &Seed, calendar: Calendar) -> Self {
        let mut control = Self {
            node: Node::new(config, seed),
            outbound: OutboundPlane::new(seed.stream("outbound", 0), OFFLOADS),
            inbound: InboundPlane::new(OFFLOADS),
            datagrams: Datagrams::new(),
            packets: Packets::new(),
            addresses,
            due: None,
            inner: None,
            work: Work::default(),
            unstamped: 0,
            begun: Vec::new(),
            next_id: 1,
            own_drops: DropCounters::default(),
            sealed_bytes: 0,
            log: Log::default(),
        };
        // messages of connections that start at once leave when the host is first woken
        let mut begun = Vec::new();
        control.drain(Instant(0), &mut begun);
        control.input(Input::Calendar(calendar), Instant(0), &mut begun);
        control.due = Some(Instant(0));
        control.begun = begun;
        control
    }

    /// Messages and packets dropped, by reason.
    pub fn drops(&self) -> DropCounters {
        let mut all = self.node.drops().clone();
        all.merge(&self.outbound.report().drops);
        all.merge(&self.inbound.report().drops);
        all.merge(&self.own_drops);
        all
    }

    /// All work of control and planes so far.
    pub fn work(&self) -> Work {
        let mut all = self.node.work().clone();
        all.merge(&self.outbound.report().work);
        all.merge(&self.inbound.report().work);
        all
    }

    /// The number of established tunnels.
    pub fn established(&self) -> usize {
        self.node.established()
    }

    /// Octets of all IP packets that carry sealed ones, without IKE messages.
    pub fn sealed_bytes(&self) -> u64 {
        self.sealed_bytes
    }

    /// When it wants to be woken.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn take_inner_address(&mut self) -> Option<IpAddr> {
        self.inner.take()
    }

    /// Control's work since the last call.
    pub(super) fn take_work(&mut self) -> Work {
        let new = since(self.node.work(), &self.work);
        self.work.merge(&new);
        new
    }

    /// The messages of the ending job leave now.
    pub(super) fn stamp_sent(&mut self, at: Instant) {
        for message in &mut self.log.messages[self.unstamped..] {
            if message.is_sent {
                message.at = at;
            }
        }
        self.unstamped = self.log.messages.len();
    }

    /// The messages of the job that has ended have left.
    pub(super) fn departed(&mut self, now: Instant) {
        self.node.handle(Input::Departed, now);
        self.drain(now, &mut Vec::new());
    }

    pub(super) fn wake(&mut self, now: Instant, sends: &mut Vec<Send>) {
        sends.append(&mut self.begun);
        self.input(Input::Wake, now, sends);
    }

    /// Whether a packet for our address is IKE, ESP or AH.
    pub(super) fn takes(&self, flow: &Flow) -> bool {
        path_of(flow).is_some()
    }

    /// Handles a packet that [`Control::takes`]. Returns the resulting clear packets.
    pub(super) fn open(
        &mut self,
        mut octets: Vec<u8>,
        flow: &Flow,
        now: Instant,
        sends: &mut Vec<Send>,
    ) -> Vec<Vec<u8>> {
        let Some(path) = path_of(flow) else {
            return Vec::new();
        };
        let start = match path.via {
            Via::Raw => 0,
            Via::Udp | Via::UdpWithMarker => {
                (flow.transport + wire::ip::udp::HEADER_LEN).min(flow.total_len)
            }
        };
        let bytes = &mut octets[start..flow.total_len];
        if path.via == Via::Udp {
            self.input(Input::Datagram(path, bytes), now, sends);
            return Vec::new();
        }
        let mut packets = std::mem::take(&mut self.packets);
        let received = Received {
            path,
            traffic_class: 0,
            segment_bytes: bytes.len(),
            bytes: &mut *bytes,
        };
        self.inbound.open(0, received, now, &mut packets);
        let opened = packets.writes().map(|write| {
            let mut packet = write.header.to_vec();
            for slice in write.slices {
                packet.extend_from_slice(&bytes[slice.range.clone()]);
            }
            packet
        });
        let opened: Vec<Vec<u8>> = opened.collect();
        for message in packets.control() {
            let payload = &bytes[message.slice.range.clone()];
            self.input(Input::Datagram(message.path, payload), now, sends);
        }
        let notices = packets.notices().to_vec();
        packets.clear();
        self.packets = packets;
        self.notice(notices, now, sends);
        opened
    }

    /// Seals a clear packet. Returns whether anything resulted.
    pub(super) fn seal(&mut self, mut clear: Vec<u8>, now: Instant, sends: &mut Vec<Send>) -> bool {
        let mut datagrams = std::mem::take(&mut self.datagrams);
        self.outbound.seal(&mut clear, now, &mut datagrams);
        self.send(datagrams, now, sends)
    }

    /// Sends packets whose tunnel is now up.
    fn release(&mut self, now: Instant, sends: &mut Vec<Send>) {
        let mut datagrams = std::mem::take(&mut self.datagrams);
        self.outbound.release(now, &mut datagrams);
        self.send(datagrams, now, sends);
    }

    fn send(&mut self, mut datagrams: Datagrams, now: Instant, sends: &mut Vec<Send>) -> bool {
        let first = sends.len();
        for run in datagrams.runs() {
            for sealed in datagrams.bytes(run).chunks(run.segment_bytes.max(1)) {
                match run.path.via {
                    Via::Udp | Via::UdpWithMarker => self.datagram(run.path, sealed, sends),
                    Via::Raw => sends.push(Send::Out(sealed.to_vec())),
                }
            }
        }
        let lengths = sends[first..].iter().map(|send| match send {
            Send::Out(packet) | Send::Own(packet) => packet.len() as u64,
        });
        self.sealed_bytes += lengths.sum::<u64>();
        let replies = datagrams.replies().map(|reply| Send::Own(reply.to_vec()));
        sends.extend(replies);
        let is_sealed = !datagrams.is_empty();
        let notices = datagrams.notices().to_vec();
        datagrams.clear();
        self.datagrams = datagrams;
        self.notice(notices, now, sends);
        is_sealed
    }

    /// The host has another address. Packets with the former one are not sent.
    pub(super) fn attach(&mut self, address: IpAddr) {
        self.addresses[0] = address;
    }

    /// Tells the node which address of ours leads to a peer.
    pub(super) fn moved(&mut self, remote: IpAddr, now: Instant, sends: &mut Vec<Send>) {
        let moved = Input::LocalAddress {
            remote,
            among: Vec::new(),
            local: self.local(remote),
        };
        self.input(moved, now, sends);
    }

    /// Our address towards a peer.
    fn local(&self, remote: IpAddr) -> Option<IpAddr> {
        let mut own = self.addresses.iter();
        own.find(|own| own.is_ipv4() == remote.is_ipv4()).copied()
    }

    /// Executes a user's command.
    pub(super) fn command(&mut self, command: Command, now: Instant, sends: &mut Vec<Send>) {
        self.input(Input::Command(command), now, sends);
    }

    fn notice(&mut self, notices: Vec<Notice>, now: Instant, sends: &mut Vec<Send>) {
        for notice in notices {
            self.input(Input::Notice(notice), now, sends);
        }
    }

    fn input(&mut self, input: Input<'_>, now: Instant, sends: &mut Vec<Send>) {
        self.node.handle(input, now);
        self.drain(now, sends);
        self.release(now, sends);
    }

    /// Drains to `Wait`, and answers the node's questions afterwards.
    fn drain(&mut self, now: Instant, sends: &mut Vec<Send>) {
        let (mut asked, mut told) = (Vec::new(), Vec::new());
        let mut wants_report = false;
        loop {
            match self.node.poll() {
                Output::Datagram(path, payload) => self.datagram(path, &payload, sends),
                Output::Outbound(change) => {
                    told.extend(self.outbound.apply(change, now));
                }
                Output::Inbound(change) => {
                    told.extend(self.inbound.apply(change));
                }
                Output::Event(event, _) => self.note(event, now),
                Output::IkeKey(..) => {}
                Output::WantsReport => wants_report = true,
                Output::WantsLocalAddress { remote, among } => asked.push((remote, among)),
                Output::Wait(deadline) => {
                    self.due = deadline.map(|deadline| deadline.at);
                    if std::mem::take(&mut wants_report) {
                        let report = self.inbound.report();
                        self.node.handle(Input::Report(&report.associations), now);
                    } else if let Some(notice) = told.pop() {
                        self.node.handle(Input::Notice(notice), now);
                    } else if let Some((remote, among)) = asked.pop() {
                        let local = self.local(remote);
                        let answer = Input::LocalAddress {
                            remote,
                            among,
                            local,
                        };
                        self.node.handle(answer, now);
                    } else {
                        return;
                    }
                }
            }
        }
    }

    fn datagram(&mut self, path: Path, payload: &[u8], sends: &mut Vec<Send>) {
        if payload.len() > MAX_DATAGRAM_BYTES {
            self.own_drops.count(DropReason::TooBig);
            return;
        }
        // a real socket refuses a source that is not the host's address
        let (local, remote) = (path.local.ip(), path.remote.ip());
        if !self.addresses.contains(&local) || local.is_ipv4() != remote.is_ipv4() {
            self.own_drops.count(DropReason::SendFailed);
            return;
        }
        self.next_id = self.next_id.wrapping_add(1);
        let from = (local, path.local.port());
        let packet = ip::udp(from, (remote, path.remote.port()), payload, self.next_id);
        sends.push(Send::Out(packet));
    }

    fn note(&mut self, event: Event, now: Instant) {
        let log = &mut self.log;
        match event {
            Event::Message {
                step,
                is_sent,
                bytes,
                datagrams,
                payloads,
                ..
            } if log.messages.len() < LOG_ENTRIES => log.messages.push(Message {
                at: now,
                step,
                is_sent,
                bytes,
                datagrams,
                payloads,
            }),
            Event::ChildEstablished { .. } => {
                log.established = log.established.or(Some(now));
                log.children += 1;
            }
            Event::InnerAddress { addresses, .. } => {
                self.inner = addresses.first().copied();
            }
            Event::PathMoved { .. } => log.moved += 1,
            Event::NegotiationFailed { reason, .. }
            | Event::PeerComplains {
                complaint: reason, ..
            } if log.failures.len() < LOG_ENTRIES => log.failures.push(reason),
            _ => {}
        }
    }
}

/// How a packet came, if it is for one of our UDP sockets, or is ESP or AH.
fn path_of(flow: &Flow) -> Option<Path> {
    if flow.protocol != protocol::UDP {
        let is_ipsec = [protocol::ESP, protocol::AH].contains(&flow.protocol);
        return is_ipsec.then(|| Path::raw(flow.destination, flow.source));
    }
    let (from, to) = flow.ports?;
    let (_, via) = SOCKETS.into_iter().find(|(port, _)| *port == to)?;
    Some(Path {
        via,
        local: (flow.destination, to).into(),
        remote: (flow.source, from).into(),
    })
}

/// The work in `all` since `before`, an earlier state of it.
pub fn since(all: &Work, before: &Work) -> Work {
    let mut new = Work::default();
    for &(task, times, bytes) in all.entries() {
        let old = before.entries().iter().find(|entry| entry.0 == task);
        let (old_times, old_bytes) = old.map_or((0, 0), |entry| (entry.1, entry.2));
        if times > old_times {
            new.add(task, times - old_times, bytes - old_bytes);
        }
    }
    new
}
