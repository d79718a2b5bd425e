//! A host's real control plane and both packet planes: which packets they take, the IP packets that
//! they send, and the log of their events.

use std::net::IpAddr;

use crypto::rand::Seed;
use engine::config::Config;
use engine::counters::{DropCounters, DropReason};
use engine::endpoint::{Effect, Endpoint};
use engine::ike::Step;
use engine::node::{Command, Event, Input, via_of};
use engine::plane::Offloads;
use engine::sa::{Path, Secret, Via};
use engine::time::{Calendar, Instant};
use engine::work::{Task, Work};
use wire::ip::{Flow, protocol};

use super::Send;
use super::carried::Meter;
use crate::cost::operation_of;
use crate::kernel::ip;

/// Messages and failures that a log keeps. The node counts later ones.
pub const LOG_ENTRIES: usize = 1000;
/// The name of the child of AH around another one, which takes no packets of programs.
pub const AROUND: &str = "net-ah";
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
    /// The operations of key exchanges that the node did before it sent this message, or when it
    /// had received it, by their names in profiles.
    pub work: Vec<String>,
}

/// Control's events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The first [`LOG_ENTRIES`] messages.
    pub messages: Vec<Message>,
    /// When the first child came up that takes the packets of programs.
    pub established: Option<Instant>,
    /// Such children that came up, renewals included.
    pub children: u64,
    /// Paths that moved.
    pub moved: u64,
    /// The first [`LOG_ENTRIES`] addresses after the one at the beginning.
    pub stays: Vec<Stay>,
    /// The first [`LOG_ENTRIES`] failures, each a sentence.
    pub failures: Vec<String>,
}

/// Another address of the host, and what came to it until the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// Since when.
    pub since: Instant,
    /// The address.
    pub address: IpAddr,
    /// When the first message of the peer came.
    pub answered: Option<Instant>,
    /// When the first packet came out of a tunnel.
    pub heard: Option<Instant>,
}

/// A node and its planes.
pub struct Control {
    endpoint: Endpoint,
    sender: Sender,
    /// The host was woken for the first time.
    is_begun: bool,
    inner: Option<IpAddr>,
    meter: Meter,
    /// Of the work that has its message in the log.
    told: Meter,
    kept: Option<Secret>,
    unstamped: usize,
    begun: Vec<Send>,
    sealed_bytes: u64,
    /// The events so far.
    pub log: Log,
}

/// Puts UDP payloads into IP packets of the host.
struct Sender {
    addresses: Vec<IpAddr>,
    next_id: u16,
    drops: DropCounters,
}

impl Control {
    /// A node with this configuration and at most one address per family. Its connections start at
    /// time 0.
    pub fn new(config: Config, addresses: Vec<IpAddr>, seed: &Seed, calendar: Calendar) -> Self {
        let mut control = Self {
            endpoint: Endpoint::new(config, seed, Offloads::default(), addresses.clone()),
            sender: Sender {
                addresses,
                next_id: 1,
                drops: DropCounters::default(),
            },
            is_begun: false,
            inner: None,
            meter: Meter::default(),
            told: Meter::default(),
            kept: None,
            unstamped: 0,
            begun: Vec::new(),
            sealed_bytes: 0,
            log: Log::default(),
        };
        // messages of connections that start at once leave when the host is first woken
        let mut begun = Vec::new();
        control.drain(Instant(0), &mut begun);
        control.input(Input::Calendar(calendar), Instant(0), &mut begun);
        control.begun = begun;
        control
    }

    /// Messages and packets dropped, by reason.
    pub fn drops(&self) -> DropCounters {
        let mut all = self.endpoint.drops();
        all.merge(&self.sender.drops);
        all
    }

    /// All work of control and planes so far.
    pub fn work(&self) -> Work {
        self.endpoint.work()
    }

    /// The same node after a crash, with what the former one has kept.
    pub fn take_over(&mut self, former: &Self, now: Instant) {
        if let Some(kept) = &former.kept {
            self.input(Input::Kept(&kept.0), now, &mut Vec::new());
            self.kept = Some(kept.clone());
        }
    }

    /// Whether the log has a message of this kind.
    pub fn has_logged(&self, is_it: impl Fn(Step) -> bool) -> bool {
        self.log.messages.iter().any(|message| is_it(message.step))
    }

    /// Forgets what the log has before the first message of this kind, and what has failed, and
    /// that there was a tunnel.
    pub fn log_from(&mut self, is_first: impl Fn(Step) -> bool) {
        let messages = &mut self.log.messages;
        let first = messages.iter().position(|message| is_first(message.step));
        let first = first.unwrap_or(messages.len());
        messages.drain(..first);
        self.unstamped = self.unstamped.min(messages.len());
        self.log.failures.clear();
        (self.log.established, self.log.children) = (None, 0);
    }

    /// The number of established tunnels.
    pub fn established(&self) -> usize {
        self.endpoint.node.established()
    }

    /// Octets of all IP packets that carry sealed ones, without IKE messages.
    pub fn sealed_bytes(&self) -> u64 {
        self.sealed_bytes
    }

    /// When it wants to be woken.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.is_begun {
            true => self.endpoint.deadline().map(|deadline| deadline.at),
            false => Some(Instant(0)),
        }
    }

    pub(super) fn take_inner_address(&mut self) -> Option<IpAddr> {
        self.inner.take()
    }

    /// Control's work since the last call.
    pub(super) fn take_work(&mut self) -> Work {
        self.meter.take(self.endpoint.node.work())
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
        self.input(Input::Departed, now, &mut Vec::new());
    }

    pub(super) fn wake(&mut self, now: Instant, sends: &mut Vec<Send>) {
        self.is_begun = true;
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
            Via::Udp | Via::UdpWithMarker | Via::UdpWithType | Via::UdpWithSkip => {
                (flow.transport + wire::ip::udp::HEADER_LEN).min(flow.total_len)
            }
        };
        let bytes = &mut octets[start..flow.total_len];
        self.endpoint.receive(path, bytes, now);
        self.drain(now, sends)
    }

    /// Seals a clear packet. Returns whether all of it was sealed.
    pub(super) fn seal(&mut self, mut clear: Vec<u8>, now: Instant, sends: &mut Vec<Send>) -> bool {
        let is_sealed = self.endpoint.send(&mut clear, now);
        self.drain(now, sends);
        is_sealed
    }

    /// The host has another address. Packets with the former one are not sent.
    pub(super) fn attach(&mut self, address: IpAddr) {
        for own in [&mut self.sender.addresses, &mut self.endpoint.addresses] {
            match own.first_mut() {
                Some(first) => *first = address,
                None => own.push(address),
            }
        }
    }

    /// The host has no address on its present link.
    pub(super) fn detach(&mut self) {
        self.sender.addresses.clear();
        self.endpoint.addresses.clear();
    }

    /// Tells the node which addresses it has.
    pub(super) fn moved(&mut self, now: Instant, sends: &mut Vec<Send>) {
        let own = self.sender.addresses.first().copied();
        if let Some(address) = own.filter(|_| self.log.stays.len() < LOG_ENTRIES) {
            self.log.stays.push(Stay {
                since: now,
                address,
                answered: None,
                heard: None,
            });
        }
        let ways = self.endpoint.ways();
        self.input(Input::Ways(ways), now, sends);
    }

    /// Executes a user's command.
    pub(super) fn command(&mut self, command: Command, now: Instant, sends: &mut Vec<Send>) {
        self.input(Input::Command(command), now, sends);
    }

    fn input(&mut self, input: Input<'_>, now: Instant, sends: &mut Vec<Send>) {
        self.endpoint.handle(input, now);
        self.drain(now, sends);
    }

    /// Does everything that follows from the last input. Returns the opened packets.
    fn drain(&mut self, now: Instant, sends: &mut Vec<Send>) -> Vec<Vec<u8>> {
        let mut opened = Vec::new();
        let logged = self.log.messages.len();
        while let Some(effect) = self.endpoint.poll(now) {
            match effect {
                Effect::Message(path, payload) => {
                    sends.extend(self.sender.datagram(path, &payload));
                }
                Effect::Sealed(path, octets) => {
                    let packet = match path.via {
                        Via::Udp | Via::UdpWithMarker | Via::UdpWithType | Via::UdpWithSkip => {
                            self.sender.datagram(path, octets)
                        }
                        Via::Raw => Some(Send::Out(octets.to_vec())),
                    };
                    if let Some(Send::Out(packet)) = &packet {
                        self.sealed_bytes += packet.len() as u64;
                    }
                    sends.extend(packet);
                }
                Effect::Reply(packet) => sends.push(Send::Own(packet.to_vec())),
                Effect::Opened(packet) => opened.push(packet),
                Effect::Event(Event::InnerAddress { addresses, .. }) => {
                    self.inner = addresses.first().copied();
                }
                Effect::Event(event) => self.log.note(event, now),
                Effect::Inbound(_)
                | Effect::Outbound(_)
                | Effect::IkeKeys(..)
                | Effect::Radius(..) => {}
                Effect::Keep(secrets) => self.kept = Some(secrets),
            }
        }
        self.log_work(logged);
        if let (Some(stay), false) = (self.log.stays.last_mut(), opened.is_empty()) {
            stay.heard.get_or_insert(now);
        }
        opened
    }

    /// Notes what was computed since the last message was logged with those from here on.
    fn log_work(&mut self, logged: usize) {
        let messages = &mut self.log.messages[logged..];
        if messages.is_empty() {
            return;
        }
        let first = |is_sent| messages.iter().position(|it| it.is_sent == is_sent);
        let (received, sent) = (first(false), first(true));
        for &(task, times, _) in self.told.take(self.endpoint.node.work()).entries() {
            let place = match is_of_the_peers(task) {
                true => received.or(sent),
                false => sent.or(received),
            };
            let named = operation_of(task).zip(place);
            for (name, place) in (0..times).filter_map(|_| named.clone()) {
                messages[place].work.push(name);
            }
        }
    }
}

impl Sender {
    fn datagram(&mut self, path: Path, payload: &[u8]) -> Option<Send> {
        if payload.len() > MAX_DATAGRAM_BYTES {
            self.drops.count(DropReason::TooBig);
            return None;
        }
        // a real socket refuses a source that is not the host's address
        let (local, remote) = (path.local.ip(), path.remote.ip());
        if !self.addresses.contains(&local) || local.is_ipv4() != remote.is_ipv4() {
            self.drops.count(DropReason::SendFailed);
            return None;
        }
        self.next_id = self.next_id.wrapping_add(1);
        let from = (local, path.local.port());
        let packet = ip::udp(from, (remote, path.remote.port()), payload, self.next_id);
        Some(Send::Out(packet))
    }
}

impl Log {
    fn note(&mut self, event: Event, now: Instant) {
        if let (Some(stay), Event::Message { is_sent: false, .. }) = (self.stays.last_mut(), &event)
        {
            stay.answered.get_or_insert(now);
        }
        match event {
            Event::Message {
                step,
                is_sent,
                bytes,
                datagrams,
                payloads,
                ..
            } if self.messages.len() < LOG_ENTRIES => self.messages.push(Message {
                at: now,
                step,
                is_sent,
                bytes,
                datagrams,
                payloads,
                work: Vec::new(),
            }),
            Event::ChildEstablished { child, .. } if child != AROUND => {
                self.established = self.established.or(Some(now));
                self.children += 1;
            }
            Event::PathMoved { .. } => self.moved += 1,
            Event::NegotiationFailed { reason, .. }
            | Event::PeerComplains {
                complaint: reason, ..
            } if self.failures.len() < LOG_ENTRIES => self.failures.push(reason),
            _ => {}
        }
    }
}

/// Whether an end does this with what the peer has sent, and nothing of its own.
fn is_of_the_peers(task: Task) -> bool {
    matches!(
        task,
        Task::Agree(_) | Task::KeySecret(_) | Task::Verify(_) | Task::VerifyCurve(_)
    )
}

/// How a packet came, if it is for one of our UDP sockets, or is ESP or AH.
fn path_of(flow: &Flow) -> Option<Path> {
    if flow.protocol != protocol::UDP {
        let is_ipsec = [protocol::ESP, protocol::AH].contains(&flow.protocol);
        return is_ipsec.then(|| Path::raw(flow.destination, flow.source));
    }
    let (from, to) = flow.ports?;
    let via = via_of(to)?;
    Some(Path {
        via,
        local: (flow.destination, to).into(),
        remote: (flow.source, from).into(),
    })
}
