//! An endpoint under test: its clock, its outputs in a step, and what must hold for either role:
//!
//! - every datagram is held for reassembly, answered, reported or counted;
//! - a repeated datagram moves no peer and changes no SA;
//! - held octets stay within their limit, and events are short;
//! - the clock advances: timers fire a bounded number of times.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use crypto::rand::Seed;
use engine::config::Config;
use engine::counters::DropReason;
use engine::endpoint::{Effect, Endpoint};
use engine::ikev1::fragments;
use engine::node::{Event, Input, Node};
use engine::plane::{InboundChange, Offloads, OutboundChange};
use engine::sa::{ChildId, Direction, Path, Sa, Via};
use engine::time::{Calendar, Duration, Instant};
use wire::{ikev2, isakmp};

/// All test certificates are valid at this time.
pub const CALENDAR: Calendar = Calendar(1_800_000_000);
/// Longer than any lifetime.
pub const SILENCE: Duration = Duration::from_secs(40 * 3_600);
/// Timers that may fire in one step.
pub const MAX_WAKES: usize = 20_000;
/// Octets of an event in words.
const MAX_EVENT: usize = 16_384;

/// What a node sent.
pub type Sent = Vec<(Path, Vec<u8>)>;

/// The endpoint, and our knowledge of it.
pub struct Watched {
    endpoint: Endpoint,
    /// The time.
    pub now: Instant,
    /// Installed SAs.
    pub installed: Installed,
    /// Its events, without the messages.
    pub facts: Vec<String>,
    /// Datagrams that were accepted from a peer.
    taken: BTreeSet<Vec<u8>>,
}

/// Installed SAs, by child, SPI and direction.
#[derive(Debug, Default)]
pub struct Installed(BTreeSet<(ChildId, u32, Direction)>);

/// The outputs of one input.
#[derive(Default)]
pub struct Answer {
    /// Datagrams to the network.
    pub datagrams: Sent,
    /// Paths on which phase 1 completed.
    pub established: Vec<Path>,
    /// Connections whose peer moved, and to which path.
    pub moved: Vec<(String, Path)>,
    /// Connections that have a new child, or a new IKE SA of IKEv2.
    pub risen: Vec<String>,
    /// Number of inbound SAs installed in the plane.
    pub installs: usize,
    events: usize,
    changes: usize,
    /// Whether the datagram was accepted from a peer.
    pub is_taken: bool,
}

impl Watched {
    /// An idle endpoint at this address.
    pub fn new(config: Config, seed: u8, address: IpAddr) -> Self {
        let mut watched = Self {
            endpoint: Endpoint::new(
                config,
                &Seed::new([seed; 32]),
                Offloads::default(),
                vec![address],
            ),
            now: Instant(1),
            installed: Installed::default(),
            facts: Vec::new(),
            taken: BTreeSet::new(),
        };
        watched.drain();
        watched.input(Input::Calendar(CALENDAR));
        watched
    }

    /// Its control plane.
    pub fn node(&self) -> &Node {
        &self.endpoint.node
    }

    /// Handles one input.
    pub fn input(&mut self, input: Input<'_>) -> Answer {
        self.endpoint.handle(input, self.now);
        self.drain()
    }

    /// Handles one datagram, which may cause at most this many messages.
    pub fn datagram(&mut self, path: Path, octets: &[u8], max_messages: usize) -> Answer {
        let (held, dropped) = (self.held(), self.dropped());
        let answer = self.input(Input::Datagram(path, octets));
        let header = header(&path, octets);
        let is_fragment = header.as_ref().is_some_and(AnyHeader::is_fragment);
        let is_noticed = self.dropped() > dropped
            || !answer.datagrams.is_empty()
            || answer.events > 0
            || answer.changes > 0;
        assert!(
            is_noticed || (is_fragment && self.held() > held),
            "not counted: {header:?}"
        );
        let messages = count(&answer.datagrams);
        assert!(messages <= max_messages, "{messages} messages");
        if self.taken.contains(octets) {
            let is_still = answer.moved.is_empty() && answer.changes == 0;
            assert!(is_still, "{header:?}");
        } else if answer.is_taken {
            self.taken.insert(octets.to_vec());
        }
        answer
    }

    /// Runs the next timer before `until`. `None`: there is none, and the clock is at `until`.
    pub fn wake(&mut self, until: Instant) -> Option<Answer> {
        let due = self.endpoint.deadline().map(|deadline| deadline.at);
        let Some(due) = due.filter(|due| *due <= until) else {
            self.now = until;
            return None;
        };
        self.now = self.now.max(due);
        Some(self.input(Input::Wake))
    }

    fn drain(&mut self) -> Answer {
        let mut answer = Answer::default();
        while let Some(effect) = self.endpoint.poll(self.now) {
            match effect {
                Effect::Message(path, octets) => {
                    assert_eq!(path.local.is_ipv4(), path.remote.is_ipv4(), "{path:?}");
                    answer.datagrams.push((path, octets));
                }
                Effect::Inbound(change) => {
                    answer.changes += 1;
                    answer.installs += usize::from(self.installed.inbound(change));
                }
                Effect::Outbound(change) => {
                    answer.changes += 1;
                    self.installed.outbound(change);
                }
                Effect::Event(event) => self.note(&event, &mut answer),
                Effect::IkeKeys(..)
                | Effect::Radius(..)
                | Effect::Keep(_)
                | Effect::Sealed(..)
                | Effect::Reply(_)
                | Effect::Opened(_) => {}
            }
        }
        assert!(self.held() <= fragments::MAX_HELD);
        answer
    }

    fn note(&mut self, event: &Event, answer: &mut Answer) {
        answer.events += 1;
        match event {
            Event::Message { is_sent, .. } => answer.is_taken |= !is_sent,
            Event::IkeEstablished {
                connection,
                version,
                path,
                ..
            } => {
                // In aggressive mode of IKEv1, the peer has not heard the third message yet.
                let is_both = *version == 2;
                answer.risen.extend(is_both.then(|| connection.clone()));
                answer.established.push(*path);
            }
            Event::ChildEstablished { connection, .. } => answer.risen.push(connection.clone()),
            Event::PathMoved { connection, path } => answer.moved.push((connection.clone(), *path)),
            _ => {}
        }
        let text = format!("{event:?}");
        assert!(
            text.len() < MAX_EVENT,
            "a long event: {} octets",
            text.len()
        );
        if !matches!(event, Event::Message { .. }) {
            self.facts.push(text);
        }
    }

    fn dropped(&self) -> u64 {
        let drops = self.endpoint.node.drops();
        DropReason::ALL.iter().map(|reason| drops.of(*reason)).sum()
    }

    fn held(&self) -> usize {
        self.endpoint.node.status(self.now).fragment_octets
    }
}

impl Installed {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether an SA was installed.
    fn inbound(&mut self, change: &InboundChange) -> bool {
        match change {
            InboundChange::Install(sa) => {
                self.install(sa, Direction::Inbound);
                return true;
            }
            InboundChange::Remove(child, spi) => {
                self.0.remove(&(*child, *spi, Direction::Inbound));
            }
            InboundChange::Move(..)
            | InboundChange::Lead(..)
            | InboundChange::Proven(..)
            | InboundChange::Calendar(..) => {}
        }
        false
    }

    fn outbound(&mut self, change: &OutboundChange) {
        match change {
            OutboundChange::Install(sa) => self.install(sa, Direction::Outbound),
            OutboundChange::Remove(child, spi) => {
                self.0.remove(&(*child, *spi, Direction::Outbound));
            }
            _ => {}
        }
    }

    fn install(&mut self, sa: &Sa, direction: Direction) {
        assert_eq!(sa.direction, direction);
        self.0.insert((sa.child, sa.spi(), direction));
    }
}

impl Answer {
    /// Sources of authenticated messages.
    pub fn proven(&self) -> impl Iterator<Item = SocketAddr> {
        let moved = self.moved.iter().map(|(_, path)| path);
        let paths = self.established.iter().chain(moved);
        paths.map(|path| path.remote)
    }
}

/// The header of a message of either version.
#[derive(Debug)]
pub enum AnyHeader {
    /// IKEv1.
    V1(isakmp::Header),
    /// IKEv2.
    V2(ikev2::Header),
}

impl AnyHeader {
    /// Whether the receiver has no SA for it yet.
    pub fn is_first(&self) -> bool {
        match self {
            Self::V1(header) => header.cookies.responder == isakmp::Cookie::ZERO,
            Self::V2(header) => header.spis.responder == ikev2::Spi::ZERO,
        }
    }

    fn is_fragment(&self) -> bool {
        match self {
            Self::V1(header) => header.next_payload == isakmp::PayloadKind::Fragment,
            Self::V2(header) => header.next_payload == ikev2::PayloadKind::EncryptedFragment,
        }
    }

    /// Whether a fragment with this body comes after the first one of its message.
    fn is_later_fragment(&self, body: &[u8]) -> bool {
        let is_number_1 = match self {
            Self::V1(_) => body.get(6) == Some(&1),
            Self::V2(_) => body.get(4..6) == Some(&[0, 1]),
        };
        self.is_fragment() && !is_number_1
    }
}

/// The header of an IKE message, after its marker if there is one.
pub fn header(path: &Path, octets: &[u8]) -> Option<AnyHeader> {
    Some(parse(path, octets)?.0)
}

/// The number of messages. The fragments of one count once.
pub fn count(datagrams: &[(Path, Vec<u8>)]) -> usize {
    let is_counted = |(path, octets): &&(Path, Vec<u8>)| {
        parse(path, octets).is_none_or(|(header, body)| !header.is_later_fragment(body))
    };
    datagrams.iter().filter(is_counted).count()
}

fn parse<'a>(path: &Path, octets: &'a [u8]) -> Option<(AnyHeader, &'a [u8])> {
    let message = match path.via {
        Via::Udp => octets,
        _ => octets.strip_prefix(&[0; 4])?,
    };
    let first = isakmp::Header::parse(message).map(|(it, body)| (AnyHeader::V1(it), body));
    let second = || ikev2::Header::parse(message).map(|(it, body)| (AnyHeader::V2(it), body));
    first.or_else(|_| second()).ok()
}
