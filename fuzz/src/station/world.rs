//! The station under test, its hostile gateways, and what must hold after each step:
//!
//! - every datagram is held for assembly, answered, told of or counted;
//! - nothing is sent but to a gateway that is configured, or where an authentic message came from;
//! - without the end of phase 1 no SA is installed;
//! - what was taken once and comes again moves nobody and changes no SA;
//! - sessions, SAs and octets held stay within their bounds;
//! - the clock moves on: timers fire a bounded number of times;
//! - what is taken down gives everything back.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crypto::rand::Seed;
use engine::config::{Config, Connection, IdentityPattern, InnerFamilies, LocalMethod, Start};
use engine::counters::DropReason;
use engine::identity::Identity;
use engine::ikev1::fragments;
use engine::node::{Command, Event, Input, Node, Output};
use engine::plane::{Change, Notice};
use engine::sa::{ChildId, Direction, Path};
use engine::time::{Duration, Instant};
use wire::isakmp::{Header, PayloadKind};

use super::gateway::Gateway;
use crate::phase_2::Sealed;
use crate::responder::script::Op;
use crate::responder::world::{self, CALENDAR, MAX_WAKES, NAMES, SILENCE, Sent, count, pki};

/// The station's address.
const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
/// Messages that one datagram may cause: an answer, quick modes, deletes of what was replaced.
const MAX_MESSAGES: usize = 64;
/// ISAKMP SAs that one connection of a station may have at a time.
const MAX_SESSIONS: usize = 16;

/// The flag of a proof that is a gateway's own.
pub const UNDER_OWN_KEYS: u8 = 0x80;

/// The station and those who speak to it.
pub struct Stage {
    node: Node,
    now: Instant,
    due: Option<Instant>,
    /// Begun connections and their gateways, in one order.
    connections: Vec<Arc<Connection>>,
    gateways: Vec<Gateway>,
    allowed: BTreeSet<IpAddr>,
    installed: BTreeSet<(ChildId, u32, Direction)>,
    facts: Vec<String>,
    /// Datagrams that were taken for a gateway's.
    taken: BTreeSet<Vec<u8>>,
}

/// What one input made the station do.
#[derive(Default)]
struct Answer {
    datagrams: Sent,
    asked: Vec<IpAddr>,
    events: usize,
    changes: usize,
    is_taken: bool,
    is_moved: bool,
}

impl Stage {
    /// At rest.
    pub fn new() -> Self {
        let mut stage = Self {
            node: Node::new(config(Vec::new()), &Seed::new([6; 32])),
            now: Instant(1),
            due: None,
            connections: Vec::new(),
            gateways: Vec::new(),
            allowed: BTreeSet::new(),
            installed: BTreeSet::new(),
            facts: Vec::new(),
            taken: BTreeSet::new(),
        };
        stage.drain();
        stage.input(Input::Calendar(CALENDAR));
        stage
    }

    /// One step; what the station sends in it. The words are those of the responder's script, said
    /// from the other side: a peer is a gateway, `Begin` lets the station set out, `Exchange` lets
    /// the gateway answer, `Prove` answer with changes or, with [`UNDER_OWN_KEYS`], with payloads
    /// of the script's.
    pub fn play(&mut self, op: &Op) -> Sent {
        match op {
            Op::Datagram { from, octets } => self.datagram(path(*from), octets),
            Op::Wait(span) => self.wait(Duration::from_millis(u64::from(*span) * 10)),
            Op::Begin { kind, .. } => self.begin(*kind),
            Op::Order { what } => self.order(*what),
            Op::Exchange { peer } => self.answer(*peer, &[]),
            Op::Prove {
                peer,
                flags,
                first,
                chain,
            } if flags & UNDER_OWN_KEYS != 0 => {
                let (flags, first) = (*flags, *first);
                let sealed = Sealed {
                    flags,
                    first,
                    chain,
                };
                let said = self
                    .gateway(*peer)
                    .and_then(|gateway| Some((gateway.path, gateway.prove(&sealed)?)));
                said.map_or_else(Sent::new, |(path, octets)| self.datagram(path, &octets))
            }
            Op::Prove { peer, chain, .. } => self.answer(*peer, chain),
            Op::Phase2 {
                peer,
                flags,
                exchange,
                id,
                first,
                chain,
            } => {
                let (flags, first) = (*flags, *first);
                let sealed = Sealed {
                    flags,
                    first,
                    chain,
                };
                let said = self.gateway(*peer).and_then(|gateway| {
                    Some((gateway.path, gateway.phase_2(*exchange, *id, &sealed)?))
                });
                said.map_or_else(Sent::new, |(path, octets)| self.datagram(path, &octets))
            }
            Op::Again { peer, from } => {
                let last = self.gateway(*peer).map(|it| it.last_sent.clone());
                last.map_or_else(Sent::new, |last| self.datagram(path(*from), &last))
            }
            Op::Reflect { peer } => {
                let last = self.gateway(*peer);
                let last = last.map(|gateway| (gateway.path, gateway.last_heard.clone()));
                last.map_or_else(Sent::new, |(path, last)| self.datagram(path, &last))
            }
        }
    }

    /// Everything is taken down: nothing is left.
    pub fn end(&mut self) {
        for connection in self.connections.clone() {
            let down = Command::Down(connection.name.clone());
            self.input(Input::Command(down));
        }
        self.gateways.clear();
        self.wait(SILENCE);
        assert_eq!(self.node.established(), 0);
        assert!(self.installed.is_empty(), "{:?}", self.installed);
    }

    /// What the station has told, without the messages.
    pub fn facts(&self) -> &[String] {
        &self.facts
    }

    /// How the station stands.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// A connection more, or the same once more.
    fn begin(&mut self, kind: u8) -> Sent {
        let name = NAMES[usize::from(kind) % NAMES.len()];
        if self.connections.iter().any(|one| one.name == name) {
            return self.input(Input::Command(Command::Up(name.to_owned())));
        }
        let number = u8::try_from(self.connections.len()).expect("few");
        let path = path(number);
        let own = world::config();
        let mut own = own.connections.iter();
        let own = own.find(|one| one.name == name).expect("one of them");
        let gateway = Gateway::new(number, Arc::clone(own), path);
        self.gateways.push(gateway);
        self.allowed.insert(path.remote.ip());
        let connection = connection_to(path.remote, name);
        self.connections.push(Arc::new(connection));
        let config = config(self.connections.clone());
        self.input(Input::Configure(Arc::new(config)))
    }

    fn gateway(&mut self, number: u8) -> Option<&mut Gateway> {
        let count = self.gateways.len().max(1);
        self.gateways.get_mut(usize::from(number) % count)
    }

    fn answer(&mut self, number: u8, changes: &[u8]) -> Sent {
        let now = self.now;
        let said = self.gateway(number);
        let said = said.map(|gateway| (gateway.answer(changes, now), gateway.path));
        let Some((messages, path)) = said else {
            return Sent::new();
        };
        let sent = messages.iter().map(|octets| self.datagram(path, octets));
        sent.collect::<Vec<Sent>>().concat()
    }

    fn datagram(&mut self, path: Path, octets: &[u8]) -> Sent {
        let (held, dropped) = (self.held(), self.dropped());
        self.node.handle(Input::Datagram(path, octets), self.now);
        let answer = self.drain();
        let message = match path.local.port() {
            500 => Some(octets),
            _ => octets.strip_prefix(&[0; 4]),
        };
        let header = message.and_then(|message| Header::parse(message).ok());
        let header = header.map(|(header, _)| header);
        let is_fragment = header.is_some_and(|h| h.next_payload == PayloadKind::Fragment);
        let is_noticed = self.dropped() > dropped
            || !answer.datagrams.is_empty()
            || answer.events > 0
            || answer.changes > 0;
        assert!(
            is_noticed || (is_fragment && self.held() > held),
            "not counted: {header:?}"
        );
        let messages = count(&answer.datagrams);
        assert!(messages <= MAX_MESSAGES, "{messages} messages");
        if self.taken.contains(octets) {
            assert!(!answer.is_moved && answer.changes == 0, "{header:?}");
        } else if answer.is_taken {
            self.taken.insert(octets.to_vec());
        }
        self.follow(answer)
    }

    fn wait(&mut self, span: Duration) -> Sent {
        let until = self.now + span;
        let mut sent = Sent::new();
        for _ in 0..MAX_WAKES {
            let Some(due) = self.due.filter(|due| *due <= until) else {
                self.now = until;
                return sent;
            };
            self.now = self.now.max(due);
            sent.extend(self.input(Input::Wake));
        }
        panic!("the clock stands still at {:?}", self.now);
    }

    fn order(&mut self, what: u8) -> Sent {
        let name = NAMES[usize::from(what >> 4) % NAMES.len()].to_owned();
        let child = ChildId(u32::from(what >> 4));
        let remote = path(what >> 4).remote.ip();
        let local = [OWN, [192, 0, 2, 9].into()][usize::from(what >> 7)];
        let input = match (what & 15) % 9 {
            0 => Input::Command(Command::RekeyChildren(name)),
            1 => Input::Command(Command::RekeyIke(name)),
            2 => Input::Command(Command::Down(name)),
            3 => Input::Notice(Notice::SoftLimit { child }),
            4 => Input::Notice(Notice::Acquire { child }),
            5 => {
                let path = path(what >> 4 | 8);
                self.allowed.insert(path.remote.ip());
                Input::Notice(Notice::PathMoved { child, path })
            }
            6 => Input::LocalAddress {
                remote,
                local: Some(local),
            },
            7 => Input::LocalAddress {
                remote,
                local: None,
            },
            _ => Input::Report(&[]),
        };
        self.input(input)
    }

    fn input(&mut self, input: Input<'_>) -> Sent {
        self.node.handle(input, self.now);
        let answer = self.drain();
        self.follow(answer)
    }

    /// What was sent reaches the gateways; what was asked is answered.
    fn follow(&mut self, answer: Answer) -> Sent {
        let Answer {
            mut datagrams,
            asked,
            ..
        } = answer;
        for (path, datagram) in &datagrams {
            let to = path.remote.ip();
            assert!(self.allowed.contains(&to), "sent to {to}");
            for gateway in &mut self.gateways {
                gateway.hear(*path, datagram, self.now);
            }
        }
        for remote in asked {
            let local = Some(OWN);
            datagrams.extend(self.input(Input::LocalAddress { remote, local }));
        }
        datagrams
    }

    fn drain(&mut self) -> Answer {
        let mut answer = Answer::default();
        loop {
            match self.node.poll() {
                Output::Datagram(path, octets) => answer.datagrams.push((path, octets)),
                Output::Plane(direction, change) => {
                    answer.changes += 1;
                    self.change(direction, change);
                }
                Output::Event(event) => {
                    answer.events += 1;
                    answer.is_taken |= matches!(event, Event::Message { is_sent: false, .. });
                    answer.is_moved |= matches!(event, Event::PathMoved { .. });
                    self.note(&event);
                }
                Output::WantsLocalAddress(remote) => answer.asked.push(remote),
                Output::IkeKey(..) | Output::WantsReport => {}
                Output::Wait(deadline) => {
                    self.due = deadline.map(|deadline| deadline.at);
                    break;
                }
            }
        }
        let status = self.node.status(self.now);
        assert!(status.fragment_octets <= fragments::MAX_OCTETS);
        for connection in &status.connections {
            let sessions = connection.sessions.len();
            assert!(sessions <= MAX_SESSIONS, "{sessions} sessions");
        }
        answer
    }

    fn change(&mut self, direction: Direction, change: Change) {
        match change {
            Change::Install(sa) => {
                assert_eq!(sa.direction, direction);
                let has_keys = self.gateways.iter().any(Gateway::has_keys);
                assert!(has_keys, "an SA without phase 1");
                self.installed.insert((sa.child, sa.spi, direction));
            }
            Change::Remove(child, spi, direction) => {
                self.installed.remove(&(child, spi, direction));
            }
            _ => {}
        }
    }

    fn note(&mut self, event: &Event) {
        if let Event::PathMoved { path, .. } = event {
            self.allowed.insert(path.remote.ip());
        }
        let text = format!("{event:?}");
        assert!(text.len() < 16_384, "a long event: {} octets", text.len());
        if !matches!(event, Event::Message { .. }) {
            self.facts.push(text);
        }
    }

    fn dropped(&self) -> u64 {
        let drops = self.node.drops();
        DropReason::ALL.iter().map(|reason| drops.of(*reason)).sum()
    }

    fn held(&self) -> usize {
        self.node.status(self.now).fragment_octets
    }
}

/// As the station sees it: eight addresses by the low bits, and port 4500 by bit 3.
pub fn path(from: u8) -> Path {
    let port = if from & 8 == 0 { 500 } else { 4_500 };
    Path {
        local: (OWN, port).into(),
        remote: ([198, 51, 100, 2 + (from & 7)], port).into(),
    }
}

fn config(connections: Vec<Arc<Connection>>) -> Config {
    Config {
        connections,
        pools: Vec::new(),
        ..world::config()
    }
}

/// The side of a station to one of the responder's connections.
pub fn connection_to(gateway: SocketAddr, name: &str) -> Connection {
    let all = world::config();
    let found = all.connections.iter().find(|one| one.name == name);
    let theirs = Arc::clone(found.expect("a connection"));
    drop(all);
    let mut connection = Connection {
        remote_addrs: vec![gateway],
        start: Start::AtOnce,
        pools: Vec::new(),
        wants_inner: InnerFamilies {
            v4: true,
            v6: false,
        },
        ..Arc::into_inner(theirs).expect("the only one")
    };
    let identity = if name.ends_with("rsa") {
        let (key, certificate) = pki().station.clone();
        let chain = vec![certificate];
        connection.local.method = LocalMethod::Signature { key, chain };
        "station@example"
    } else {
        "ms.psk.example"
    };
    connection.local.identity = Identity::parse(identity).expect("an identity");
    connection.remote.identities =
        vec![IdentityPattern::parse("gateway.example").expect("a pattern")];
    let net = &mut connection.children[0];
    net.remote = core::mem::take(&mut net.local);
    connection
}
