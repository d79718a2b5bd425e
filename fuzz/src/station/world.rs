//! The client under test, its hostile gateways, and what must hold after each step:
//!
//! - what holds for either role (`crate::watch`);
//! - it sends only to configured gateways, to sources of authenticated messages, or to addresses
//!   that a gateway has named under keys, apart from one answer to a datagram, sent back to its
//!   source and not longer than it;
//! - without the right proof of a gateway no SA is installed;
//! - sessions stay within their limit;
//! - a connection that is taken down releases everything.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use engine::config::{Config, Connection, IdentityPattern, InnerFamilies, Start};
use engine::identity::Identity;
use engine::node::{Command, Input, Node, Ways};
use engine::plane::Notice;
use engine::sa::{ChildId, Path};
use engine::time::Duration;

use super::Host;
use crate::responder::{Said, Talker, world};
use crate::script::Op;
use crate::watch::{Answer, MAX_WAKES, SILENCE, Sent, Watched};

/// The client's address.
const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
/// Messages that one datagram may cause: an answer, quick modes, deletes of replaced SAs.
const MAX_MESSAGES: usize = 64;
/// ISAKMP SAs that one connection of a client may have at a time.
const MAX_SESSIONS: usize = 16;

/// The flag of a proof under a gateway's own keys.
pub const UNDER_OWN_KEYS: u8 = 0x80;

/// The client and its gateways.
pub struct Stage<H> {
    station: Watched,
    /// Started connections and their gateways, in the same order.
    connections: Vec<Arc<Connection>>,
    gateways: Vec<H>,
    /// Configured gateways, and sources of authenticated messages.
    allowed: BTreeSet<IpAddr>,
}

/// A datagram that may be answered, wherever it comes from.
#[derive(Clone, Copy)]
struct Question {
    from: IpAddr,
    bytes: usize,
}

impl<H: Host> Default for Stage<H> {
    /// The idle state.
    fn default() -> Self {
        Self {
            station: Watched::new(config::<H>(Vec::new()), 6, OWN),
            connections: Vec::new(),
            gateways: Vec::new(),
            allowed: BTreeSet::new(),
        }
    }
}

impl<H: Host> Stage<H> {
    /// Plays one step. Returns what the client sends. The steps are those of the responder's
    /// script, seen from the other side: a peer is a gateway, `Begin` starts a connection of the
    /// client, `Exchange` makes the gateway answer, `Prove` makes it answer with changes or, with
    /// [`UNDER_OWN_KEYS`], with payloads of the script.
    pub fn play(&mut self, op: &Op) -> Sent {
        match op {
            Op::Datagram { from, octets } => self.datagram(path(*from), octets),
            Op::Wait(span) => self.wait(Duration::from_millis(u64::from(*span) * 10)),
            Op::Begin { kind, .. } => self.begin(*kind),
            Op::Order { what } => self.order(*what),
            Op::Exchange { peer } => self.answer(*peer, &[]),
            Op::Prove { peer, sealed } if sealed.flags & UNDER_OWN_KEYS != 0 => {
                self.say(*peer, |gateway| gateway.prove(sealed))
            }
            Op::Prove { peer, sealed } => self.answer(*peer, &sealed.chain),
            Op::Phase2 {
                peer,
                exchange,
                id,
                sealed,
            } => self.say(*peer, |gateway| gateway.protected(*exchange, *id, sealed)),
            Op::Again { peer, from } => {
                let last = self.gateway(*peer).map(|it| it.last_sent().to_vec());
                last.map_or_else(Sent::new, |last| self.datagram(path(*from), &last))
            }
            Op::Reflect { peer } => {
                let last = self.gateway(*peer);
                let last = last.map(|gateway| (gateway.path(), gateway.last_heard().to_vec()));
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
        let station = &self.station;
        assert_eq!(station.node().established(), 0);
        assert!(station.installed.is_empty(), "{:?}", station.installed);
    }

    /// The client's events, without the messages.
    pub fn facts(&self) -> &[String] {
        &self.station.facts
    }

    /// The state of the client.
    pub fn node(&self) -> &Node {
        self.station.node()
    }

    /// Starts another connection, or the same one again.
    fn begin(&mut self, kind: u8) -> Sent {
        let name = name::<H>(kind);
        if self.connections.iter().any(|one| one.name == name) {
            return self.input(Input::Command(Command::Up(name.to_owned())));
        }
        let number = u8::try_from(self.connections.len()).expect("few");
        let path = path(number);
        let own = world::config::<H::Peer>();
        let mut own = own.connections.iter();
        let own = own.find(|one| one.name == name).expect("one of them");
        let gateway = H::new(number, Arc::clone(own), path);
        self.gateways.push(gateway);
        self.allowed.insert(path.remote.ip());
        let connection = connection_to::<H>(path.remote, name);
        self.connections.push(Arc::new(connection));
        let config = config::<H>(self.connections.clone());
        self.input(Input::Configure(Arc::new(config)))
    }

    fn gateway(&mut self, number: u8) -> Option<&mut H> {
        let count = self.gateways.len().max(1);
        self.gateways.get_mut(usize::from(number) % count)
    }

    /// A gateway sends a message of its own.
    fn say(&mut self, number: u8, say: impl FnOnce(&mut H) -> Said) -> Sent {
        let said = self.gateway(number);
        let Some((said, path)) = said.map(|gateway| (say(gateway), gateway.path())) else {
            return Sent::new();
        };
        let sent = said.iter().map(|octets| self.datagram(path, octets));
        sent.collect::<Vec<Sent>>().concat()
    }

    fn answer(&mut self, number: u8, changes: &[u8]) -> Sent {
        let now = self.station.now;
        self.say(number, |gateway| gateway.answer(changes, now))
    }

    fn datagram(&mut self, path: Path, octets: &[u8]) -> Sent {
        let answer = self.station.datagram(path, octets, MAX_MESSAGES);
        let question = Question {
            from: path.remote.ip(),
            bytes: octets.len(),
        };
        self.follow(answer, Some(question))
    }

    fn wait(&mut self, span: Duration) -> Sent {
        let until = self.station.now + span;
        let mut sent = Sent::new();
        for _ in 0..MAX_WAKES {
            let Some(answer) = self.station.wake(until) else {
                return sent;
            };
            sent.extend(self.follow(answer, None));
        }
        panic!("the clock stands still at {:?}", self.station.now);
    }

    fn order(&mut self, what: u8) -> Sent {
        let name = name::<H>(what >> 4).to_owned();
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
                Input::Notice(Notice::PathMoved {
                    child,
                    path,
                    bytes: 100,
                })
            }
            6 => Input::Ways(Ways::of_one(local, self.station.node().peers())),
            7 => {
                let mut ours = Ways::of_one(local, self.station.node().peers());
                ours.0.insert(remote, Vec::new());
                Input::Ways(ours)
            }
            _ => Input::Report(&[]),
        };
        self.input(input)
    }

    fn input(&mut self, input: Input<'_>) -> Sent {
        let answer = self.station.input(input);
        self.follow(answer, None)
    }

    /// The gateways receive what was sent.
    fn follow(&mut self, answer: Answer, question: Option<Question>) -> Sent {
        let has_proven = self.gateways.iter().any(H::has_proven);
        assert!(answer.installs == 0 || has_proven, "an SA without a proof");
        for connection in &self.station.node().status(self.station.now).connections {
            let sessions = connection.sessions.len();
            assert!(sessions <= MAX_SESSIONS, "{sessions} sessions");
            // Those that a gateway has named under keys (RFC 4555 §3.4).
            let named = connection.sessions.iter().flat_map(|it| &it.peer_addresses);
            self.allowed.extend(named);
        }
        let moved = answer.moved.iter().map(|path| path.remote.ip());
        self.allowed.extend(moved);
        self.check_strangers(&answer.datagrams, question);
        for (path, datagram) in &answer.datagrams {
            for gateway in &mut self.gateways {
                gateway.hear(*path, datagram, self.station.now);
            }
        }
        answer.datagrams
    }

    /// An unproven address gets at most one answer, with a bound to its length.
    fn check_strangers(&self, sent: &Sent, question: Option<Question>) {
        let is_stranger = |path: &Path| !self.allowed.contains(&path.remote.ip());
        let mut left = question;
        for (path, datagram) in sent.iter().filter(|(path, _)| is_stranger(path)) {
            let (to, bytes) = (path.remote.ip(), datagram.len());
            let question = left.take();
            let is_answer =
                question.is_some_and(|it| it.from == to && bytes <= it.bytes * H::ANSWER_FACTOR);
            assert!(is_answer, "{bytes} octets sent to {to}");
        }
    }
}

/// The path as the client sees it: eight addresses by the low bits, and port 4500 by bit 3.
pub fn path(from: u8) -> Path {
    let remote = [198, 51, 100, 2 + (from & 7)];
    match from & 8 {
        0 => Path::udp((OWN, 500), (remote, 500)),
        _ => Path::udp_with_marker((OWN, 4_500), (remote, 4_500)),
    }
}

fn name<H: Host>(number: u8) -> &'static str {
    let all = H::Peer::NAMES;
    all[usize::from(number) % all.len()]
}

fn config<H: Host>(connections: Vec<Arc<Connection>>) -> Config {
    Config {
        connections,
        pools: Vec::new(),
        ..world::config::<H::Peer>()
    }
}

/// The client's side of one of the responder's connections.
pub fn connection_to<H: Host>(gateway: SocketAddr, name: &str) -> Connection {
    let all = world::config::<H::Peer>();
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
    let (identity, method) = H::client(name);
    connection.local.identity = Identity::parse(&identity).expect("an identity");
    if let Some(method) = method {
        connection.local.method = method;
    }
    connection.remote.identities =
        vec![IdentityPattern::parse("gateway.example").expect("a pattern")];
    let net = &mut connection.children[0];
    net.remote = core::mem::take(&mut net.local);
    connection
}
