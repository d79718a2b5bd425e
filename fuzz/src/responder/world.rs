//! The gateway under test, the addresses around it, and what must hold after each step:
//!
//! - every datagram is held for assembly, answered, told of or counted;
//! - a first message is answered by one message at most, to where it came from;
//! - what was taken once and comes again moves nobody and changes no SA;
//! - a timer sends nothing to an address that has not proven itself;
//! - half-open exchanges and octets held stay within their bounds;
//! - the clock moves on: timers fire a bounded number of times;
//! - when everybody falls silent, everything is given back.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use crypto::cert::{Certificate, TrustStore};
use crypto::rand::Seed;
use crypto::rsa::PrivateKey;
use engine::config::{
    Child, Config, Connection, IdentityPattern, Limits, LocalAuth, LocalMethod, Pool, RemoteAuth,
    RemoteMethod,
};
use engine::counters::DropReason;
use engine::identity::Identity;
use engine::ikev1::fragments;
use engine::node::{Command, Event, Input, Node, Output};
use engine::plane::{Change, Notice};
use engine::sa::{ChildId, Direction, Mode, Path, Secret};
use engine::time::{Calendar, Duration, Instant};
use wire::isakmp::{Cookie, Header, PayloadKind};

use super::peer::Peer;
use super::script::Op;
use crate::phase_2::Sealed;

/// What peers and gateway share.
pub const SECRET: &[u8] = b"a shared secret";
/// All test certificates are valid then.
pub const CALENDAR: Calendar = Calendar(1_800_000_000);
/// Suites of phase 1: quick ones, since an input makes many handshakes.
pub const SUITE: &str = "aes128-sha1-modp768";

/// Peers of one input at most: each costs two shared values.
const MAX_PEERS: usize = 6;
/// Timers that may fire in one step.
pub const MAX_WAKES: usize = 20_000;
/// Messages that one datagram may cause: deletes of many children.
const MAX_MESSAGES: usize = 256;
/// Longer than any life.
pub const SILENCE: Duration = Duration::from_secs(40 * 3_600);

/// The gateway and those who speak to it.
pub struct Stage {
    node: Node,
    now: Instant,
    due: Option<Instant>,
    proven: BTreeSet<SocketAddr>,
    installed: BTreeSet<(ChildId, u32, Direction)>,
    peers: Vec<Peer>,
    facts: Vec<String>,
    /// Datagrams that were taken for a peer's.
    taken: BTreeSet<Vec<u8>>,
}

/// What the gateway sent.
pub type Sent = Vec<(Path, Vec<u8>)>;

/// What one input made the gateway do.
#[derive(Default)]
struct Answer {
    datagrams: Sent,
    events: usize,
    changes: usize,
    is_taken: bool,
    is_moved: bool,
}

impl Stage {
    /// At rest.
    pub fn new() -> Self {
        let now = Instant(1);
        let mut stage = Self {
            node: Node::new(config(), &Seed::new([5; 32])),
            now,
            due: None,
            proven: BTreeSet::new(),
            installed: BTreeSet::new(),
            peers: Vec::new(),
            facts: Vec::new(),
            taken: BTreeSet::new(),
        };
        stage.drain();
        stage.input(Input::Calendar(CALENDAR));
        stage
    }

    /// One step; what the gateway sends in it.
    pub fn play(&mut self, op: &Op) -> Sent {
        match op {
            Op::Datagram { from, octets } => self.datagram(path(*from), octets),
            Op::Wait(span) => self.wait(Duration::from_millis(u64::from(*span) * 10)),
            Op::Begin { kind, from } => self.begin(*kind, *from),
            Op::Order { what } => self.order(*what),
            Op::Exchange { peer } => self.speak(*peer, Peer::third),
            Op::Prove {
                peer,
                flags,
                first,
                chain,
            } => self.speak(*peer, |peer| peer.prove(*flags, *first, chain)),
            Op::Phase2 {
                peer,
                flags,
                exchange,
                id,
                first,
                chain,
            } => self.speak(*peer, |peer| {
                let (flags, first) = (*flags, *first);
                let sealed = Sealed {
                    flags,
                    first,
                    chain,
                };
                peer.phase_2(*exchange, *id, &sealed)
            }),
            Op::Again { peer, from } => {
                let last = self.peer(*peer).map(|peer| peer.last_sent.clone());
                last.map_or_else(Sent::new, |last| self.datagram(path(*from), &last))
            }
            Op::Reflect { peer } => {
                let last = self
                    .peer(*peer)
                    .map(|peer| (peer.path, peer.last_heard.clone()));
                last.map_or_else(Sent::new, |(path, last)| self.datagram(path, &last))
            }
        }
    }

    /// Silence: all that was held for peers is given back.
    pub fn end(&mut self) {
        self.peers.clear();
        self.wait(SILENCE);
        let status = self.node.status(self.now);
        assert_eq!(self.node.established(), 0);
        assert_eq!(status.half_open, 0);
        assert!(self.installed.is_empty(), "{:?}", self.installed);
        assert!(status.pools.iter().all(|(_, lent, _)| *lent == 0));
    }

    /// What the gateway has told, without the messages.
    pub fn facts(&self) -> &[String] {
        &self.facts
    }

    /// How the gateway stands.
    pub fn node(&self) -> &Node {
        &self.node
    }

    fn begin(&mut self, kind: u8, from: u8) -> Sent {
        if self.peers.len() == MAX_PEERS {
            return Sent::new();
        }
        let number = u8::try_from(self.peers.len()).expect("few");
        self.peers.push(Peer::new(number, kind, path(from)));
        self.speak(number, Peer::first)
    }

    fn peer(&mut self, number: u8) -> Option<&mut Peer> {
        let count = self.peers.len().max(1);
        self.peers.get_mut(usize::from(number) % count)
    }

    /// A peer says something; what the gateway answers reaches all.
    fn speak(&mut self, number: u8, say: impl FnOnce(&mut Peer) -> Option<Vec<u8>>) -> Sent {
        let said = self
            .peer(number)
            .and_then(|peer| Some((peer.path, say(peer)?)));
        said.map_or_else(Sent::new, |(path, message)| self.datagram(path, &message))
    }

    fn datagram(&mut self, path: Path, octets: &[u8]) -> Sent {
        let (held, dropped) = (self.held(), self.dropped());
        let answer = self.input(Input::Datagram(path, octets));
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
        if header.is_none_or(|header| header.cookies.responder == Cookie::ZERO) {
            assert!(messages <= 1, "{messages} messages");
            let is_back = |(to, _): &(Path, Vec<u8>)| to.remote == path.remote;
            assert!(answer.datagrams.iter().all(is_back));
        }
        if self.taken.contains(octets) {
            assert!(!answer.is_moved && answer.changes == 0, "{header:?}");
        } else if answer.is_taken {
            self.taken.insert(octets.to_vec());
        }
        self.hear(answer)
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
            let answer = self.input(Input::Wake);
            for (path, _) in &answer.datagrams {
                assert!(self.proven.contains(&path.remote), "by a timer: {path:?}");
            }
            sent.extend(self.hear(answer));
        }
        panic!("the clock stands still at {:?}", self.now);
    }

    fn order(&mut self, what: u8) -> Sent {
        let name = NAMES[usize::from(what >> 4) % NAMES.len()].to_owned();
        let child = ChildId(u32::from(what >> 4));
        let input = match what % 8 {
            0 => Input::Command(Command::RekeyChildren(name)),
            1 => Input::Command(Command::RekeyIke(name)),
            2 => Input::Command(Command::Down(name)),
            3 => Input::Notice(Notice::SoftLimit { child }),
            4 => Input::Notice(Notice::Acquire { child }),
            5 => {
                let path = path(what >> 4 | 8);
                self.proven.insert(path.remote);
                Input::Notice(Notice::PathMoved { child, path })
            }
            6 => Input::Configure(Arc::new(config())),
            _ => Input::Report(&[]),
        };
        let answer = self.input(input);
        self.hear(answer)
    }

    fn hear(&mut self, answer: Answer) -> Sent {
        for (path, datagram) in &answer.datagrams {
            for peer in &mut self.peers {
                peer.hear(*path, datagram, self.now);
            }
        }
        answer.datagrams
    }

    fn input(&mut self, input: Input<'_>) -> Answer {
        self.node.handle(input, self.now);
        self.drain()
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
                Output::IkeKey(..) | Output::WantsReport | Output::WantsLocalAddress(_) => {}
                Output::Wait(deadline) => {
                    self.due = deadline.map(|deadline| deadline.at);
                    break;
                }
            }
        }
        let status = self.node.status(self.now);
        assert!(status.half_open <= LIMITS.half_open_total);
        assert!(status.fragment_octets <= fragments::MAX_OCTETS);
        let mut sessions = status.connections.iter().flat_map(|one| &one.sessions);
        assert!(sessions.all(|session| session.children.len() <= LIMITS.children));
        answer
    }

    fn change(&mut self, direction: Direction, change: Change) {
        match change {
            Change::Install(sa) => {
                assert_eq!(sa.direction, direction);
                self.installed.insert((sa.child, sa.spi, direction));
            }
            Change::Remove(child, spi, direction) => {
                self.installed.remove(&(child, spi, direction));
            }
            _ => {}
        }
    }

    fn note(&mut self, event: &Event) {
        if let Event::IkeEstablished { path, .. } | Event::PathMoved { path, .. } = event {
            self.proven.insert(path.remote);
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

/// Messages, the fragments of one counted once.
pub fn count(datagrams: &[(Path, Vec<u8>)]) -> usize {
    let is_first = |(path, octets): &&(Path, Vec<u8>)| {
        let message = match path.local.port() {
            500 => Some(&octets[..]),
            _ => octets.strip_prefix(&[0; 4]),
        };
        let header = message.and_then(|message| Header::parse(message).ok());
        header.is_none_or(|(header, body)| {
            header.next_payload != PayloadKind::Fragment || body.get(6) == Some(&1)
        })
    };
    datagrams.iter().filter(is_first).count()
}

/// Where a datagram comes from: eight addresses by the low bits, and port 4500 by bit 3.
pub fn path(from: u8) -> Path {
    let host = 2 + (from & 7);
    let (port, own) = if from & 8 == 0 {
        (500, 500)
    } else {
        (44_500, 4_500)
    };
    Path {
        local: ([192, 0, 2, 1], own).into(),
        remote: ([198, 51, 100, host], port).into(),
    }
}

/// Of connections; the mode is the first letter.
pub const NAMES: [&str; 4] = ["a-psk", "a-rsa", "m-psk", "m-rsa"];

const LIMITS: Limits = Limits {
    half_open: 4,
    half_open_total: 8,
    half_open_per_address: 3,
    half_open_lifetime: Duration::from_secs(30),
    quick_modes: 4,
    children: 4,
};

/// The gateway's, made of parts that are read once.
pub fn config() -> Config {
    let connections = NAMES.iter().map(|name| connection(name)).collect();
    Config {
        connections,
        pools: vec![Pool {
            name: "inner".into(),
            first: [10, 99, 0, 1].into(),
            last: [10, 99, 0, 6].into(),
            dns: vec![[10, 10, 0, 53].into()],
        }],
        limits: LIMITS,
    }
}

fn connection(name: &str) -> Arc<Connection> {
    let (is_aggressive, is_signed) = (name.starts_with('a'), name.ends_with("rsa"));
    let (method, remote) = if is_signed {
        let (key, chain) = pki().gateway.clone();
        (
            LocalMethod::Signature { key, chain },
            RemoteMethod::Signature(Arc::clone(&pki().trust)),
        )
    } else {
        let secret = Arc::new(Secret(SECRET.to_vec()));
        (
            LocalMethod::PresharedKey(Arc::clone(&secret)),
            RemoteMethod::PresharedKey(secret),
        )
    };
    let identities = ["*@example", "*.psk.example"];
    let local = LocalAuth {
        identity: Identity::parse("gateway.example").expect("an identity"),
        method,
    };
    let remote = RemoteAuth {
        identities: identities
            .iter()
            .map(|text| IdentityPattern::parse(text).expect("a pattern"))
            .collect(),
        method: remote,
    };
    let suites = vec![SUITE.parse().expect("a suite")];
    Arc::new(Connection {
        revision: 1,
        is_aggressive,
        pools: vec![0],
        is_legacy: true,
        ..Connection::new(name, suites, local, remote, children())
    })
}

fn children() -> Vec<Child> {
    let suites = |words: &[&str]| {
        words
            .iter()
            .map(|word| word.parse().expect("one"))
            .collect()
    };
    let mut net = Child::new(
        "net",
        Mode::Tunnel,
        suites(&["aes128gcm16", "des-md5", "aes128gcm16-modp768"]),
    );
    net.local = vec!["10.10.0.0/24".parse().expect("a selector")];
    let host = Child::new(
        "host",
        Mode::Transport,
        suites(&["aes128-sha1-esn", "null-md5"]),
    );
    vec![net, host]
}

/// Keys and certificates, which are for tests only and worth nothing.
pub struct Pki {
    /// The gateway's key and chain.
    pub gateway: (Arc<PrivateKey>, Vec<Certificate>),
    /// A peer's key and certificate.
    pub station: (Arc<PrivateKey>, Certificate),
    trust: Arc<TrustStore>,
}

/// Read once.
pub fn pki() -> &'static Pki {
    static PKI: OnceLock<Pki> = OnceLock::new();
    PKI.get_or_init(|| {
        let certificate = |text| {
            let all = Certificate::all_from_pem(text).expect("a certificate");
            all.into_iter().next().expect("one")
        };
        let key = |text| Arc::new(PrivateKey::from_pem(text).expect("a key"));
        Pki {
            gateway: (
                key(keys!("gateway.key")),
                vec![
                    certificate(keys!("gateway.crt")),
                    certificate(keys!("mid.crt")),
                ],
            ),
            station: (key(keys!("station.key")), certificate(keys!("station.crt"))),
            trust: Arc::new(TrustStore {
                authorities: vec![certificate(keys!("ca.crt"))],
                ..TrustStore::default()
            }),
        }
    })
}

macro_rules! keys {
    ($name:literal) => {
        include_str!(concat!(
            "../../../crates/engine/src/ikev1/tests/keys/",
            $name
        ))
    };
}
use keys;
