//! The client under test, its hostile gateways, and what must hold after each step:
//!
//! - what holds for either role (`crate::watch`);
//! - it sends only to configured gateways, to sources of authenticated messages, or to addresses
//!   that a gateway has named under keys, apart from one answer to a datagram, sent back to its
//!   source and not longer than it; with MOBIKE, where a message comes from says nothing;
//! - without the right proof of its gateway a connection has no SA;
//! - sessions stay within their limit;
//! - a connection that is taken down releases everything.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use engine::config::{Config, Connection, IdentityPattern, InnerFamilies, Start};
use engine::identity::Identity;
use engine::node::{Command, Input, Node, Ways};
use engine::plane::Notice;
use engine::sa::{ChildId, Path, Via};
use engine::time::Duration;

use super::Host;
use crate::responder::{Said, Talker, world};
use crate::script::Op;
use crate::watch::{Answer, MAX_WAKES, SILENCE, Sent, Watched};

/// The client's addresses.
const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const OWN_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1));
/// Messages that one datagram may cause: an answer, quick modes, deletes of replaced SAs.
const MAX_MESSAGES: usize = 64;
/// ISAKMP SAs that one connection of a client may have at a time.
const MAX_SESSIONS: usize = 16;

/// The flag of a proof under a gateway's own keys.
pub const UNDER_OWN_KEYS: u8 = 0x80;
/// The flag of a message under keys that arrives over IPv6.
pub const OVER_V6: u8 = 0x40;

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
                self.say(*peer, sealed.flags, |gateway| gateway.prove(sealed))
            }
            Op::Prove { peer, sealed } => self.answer(*peer, &sealed.chain),
            Op::Phase2 {
                peer,
                exchange,
                id,
                sealed,
            } => self.say(*peer, sealed.flags, |gateway| {
                gateway.protected(*exchange, *id, sealed)
            }),
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
    fn say(&mut self, number: u8, flags: u8, say: impl FnOnce(&mut H) -> Said) -> Sent {
        let said = self.gateway(number);
        let Some((said, mut path)) = said.map(|gateway| (say(gateway), gateway.path())) else {
            return Sent::new();
        };
        if flags & OVER_V6 != 0 {
            let port = if path.via == Via::Udp {
                0
            } else {
                bit::NAT_PORT
            };
            path = self::path(number & bit::HOST | bit::V6 | port);
        }
        let sent = said.iter().map(|octets| self.datagram(path, octets));
        sent.collect::<Vec<Sent>>().concat()
    }

    fn answer(&mut self, number: u8, changes: &[u8]) -> Sent {
        let now = self.station.now;
        self.say(number, 0, |gateway| gateway.answer(changes, now))
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
                let family = if what & 15 == 5 { 0 } else { bit::V6 };
                Input::Notice(Notice::PathMoved {
                    child: ChildId(u32::from(what >> 6)),
                    path: path(what >> 4 & bit::HOST | bit::NAT_PORT | family),
                    bytes: 100,
                })
            }
            6 => Input::Ways(self.ways(local)),
            7 => {
                let mut ours = self.ways(local);
                ours.0.insert(remote, Vec::new());
                Input::Ways(ours)
            }
            _ => Input::Report(&[]),
        };
        self.input(input)
    }

    /// Every peer is reached, over IPv4 from this address.
    fn ways(&self, local: IpAddr) -> Ways {
        let peers = self.station.node().peers().into_iter();
        let own = |peer: IpAddr| if peer.is_ipv4() { local } else { OWN_V6 };
        Ways(peers.map(|peer| (peer, vec![own(peer)])).collect())
    }

    fn input(&mut self, input: Input<'_>) -> Sent {
        let answer = self.station.input(input);
        self.follow(answer, None)
    }

    /// The gateways receive what was sent.
    fn follow(&mut self, answer: Answer, question: Option<Question>) -> Sent {
        self.check_proofs(&answer);
        for connection in &self.station.node().status(self.station.now).connections {
            let sessions = &connection.sessions;
            assert!(
                sessions.len() <= MAX_SESSIONS,
                "{} sessions",
                sessions.len()
            );
            // Those that a gateway has named under keys (RFC 4555 §3.4).
            let named = sessions.iter().flat_map(|it| &it.peer_addresses);
            self.allowed.extend(named);
            let has_mobike = !sessions.is_empty() && sessions.iter().all(|it| it.has_mobike);
            for (_, path) in answer.moved.iter().filter(|it| it.0 == connection.name) {
                let is_named = self.allowed.contains(&path.remote.ip());
                assert!(is_named || !has_mobike, "moved to {path:?}");
                self.allowed.insert(path.remote.ip());
            }
        }
        self.check_strangers(&answer.datagrams, question);
        for (path, datagram) in &answer.datagrams {
            for gateway in &mut self.gateways {
                gateway.hear(*path, datagram, self.station.now);
            }
        }
        answer.datagrams
    }

    /// Whoever has no right AUTH of its gateway has no SA.
    fn check_proofs(&self, answer: &Answer) {
        let has_proven = self.gateways.iter().any(H::has_proven);
        assert!(answer.installs == 0 || has_proven, "an SA without a proof");
        for name in &answer.risen {
            let mut all = self.connections.iter().zip(&self.gateways);
            let gateway = all.find(|(connection, _)| connection.name == *name);
            let has_proven = gateway.is_some_and(|(_, gateway)| gateway.has_proven());
            assert!(has_proven, "{name} is up without a proof");
        }
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

/// What a number says of a path.
mod bit {
    /// One of eight hosts.
    pub const HOST: u8 = 7;
    /// Port 4500.
    pub const NAT_PORT: u8 = 8;
    /// IPv6.
    pub const V6: u8 = 16;
}

/// The path as the client sees it.
pub fn path(from: u8) -> Path {
    let host = 2 + (from & bit::HOST);
    let (own, remote) = match from & bit::V6 {
        0 => (OWN, IpAddr::from([198, 51, 100, host])),
        _ => {
            let remote = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, host.into());
            (OWN_V6, remote.into())
        }
    };
    match from & bit::NAT_PORT {
        0 => Path::udp((own, 500), (remote, 500)),
        _ => Path::udp_with_marker((own, 4_500), (remote, 4_500)),
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
