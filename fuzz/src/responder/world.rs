//! The gateway under test, the addresses around it, and what must hold after each step:
//!
//! - what holds for either role (`crate::watch`);
//! - a first message gets at most one message as answer, to its source;
//! - a timer sends nothing to an unproven address;
//! - half-open exchanges and children stay within their limits;
//! - when everybody is silent, everything is released.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use engine::config::{Config, Limits, Pool};
use engine::node::{Command, Input, Node};
use engine::plane::Notice;
use engine::sa::{ChildId, Path};
use engine::time::Duration;
use wire::ikev2::Spi;

use super::{Said, Talker};
use crate::script::Op;
use crate::watch::{Answer, AnyHeader, MAX_WAKES, SILENCE, Sent, Watched, count, header};

/// Peers of one input at most: each costs two shared values.
const MAX_PEERS: usize = 6;
/// Messages that one datagram may cause: deletes of many children.
const MAX_MESSAGES: usize = 256;

/// The gateway and its peers.
pub struct Stage<P> {
    gateway: Watched,
    proven: BTreeSet<SocketAddr>,
    peers: Vec<P>,
}

impl<P: Talker> Default for Stage<P> {
    /// The idle state.
    fn default() -> Self {
        Self {
            gateway: Watched::new(config::<P>(), 5, path(0).local.ip()),
            proven: BTreeSet::new(),
            peers: Vec::new(),
        }
    }
}

impl<P: Talker> Stage<P> {
    /// Plays one step. Returns what the gateway sends.
    pub fn play(&mut self, op: &Op) -> Sent {
        match op {
            Op::Datagram { from, octets } => self.datagram(path(*from), octets),
            Op::Wait(span) => self.wait(Duration::from_millis(u64::from(*span) * 10)),
            Op::Begin { kind, from } => self.begin(*kind, *from),
            Op::Order { what } => self.order(*what),
            Op::Exchange { peer } => self.speak(*peer, P::third),
            Op::Prove { peer, sealed } => self.speak(*peer, |peer| peer.prove(sealed)),
            Op::Phase2 {
                peer,
                exchange,
                id,
                sealed,
            } => self.speak(*peer, |peer| peer.protected(*exchange, *id, sealed)),
            Op::Again { peer, from } => {
                let last = self.peer(*peer).map(|peer| peer.last_sent().to_vec());
                last.map_or_else(Sent::new, |last| self.datagram(path(*from), &last))
            }
            Op::Reflect { peer } => {
                let last = self
                    .peer(*peer)
                    .map(|peer| (peer.path(), peer.last_heard().to_vec()));
                last.map_or_else(Sent::new, |(path, last)| self.datagram(path, &last))
            }
        }
    }

    /// Silence: everything held for peers is released.
    pub fn end(&mut self) {
        self.peers.clear();
        self.wait(SILENCE);
        let gateway = &self.gateway;
        let status = gateway.node().status(gateway.now);
        assert_eq!(gateway.node().established(), 0);
        assert_eq!(status.half_open, 0);
        assert!(gateway.installed.is_empty(), "{:?}", gateway.installed);
        assert!(status.pools.iter().all(|(_, lent, _)| *lent == 0));
    }

    /// The gateway's events, without the messages.
    pub fn facts(&self) -> &[String] {
        &self.gateway.facts
    }

    /// The state of the gateway.
    pub fn node(&self) -> &Node {
        self.gateway.node()
    }

    fn begin(&mut self, kind: u8, from: u8) -> Sent {
        if self.peers.len() == MAX_PEERS {
            return Sent::new();
        }
        let number = u8::try_from(self.peers.len()).expect("few");
        self.peers.push(P::new(number, kind, path(from)));
        self.speak(number, P::first)
    }

    fn peer(&mut self, number: u8) -> Option<&mut P> {
        let count = self.peers.len().max(1);
        self.peers.get_mut(usize::from(number) % count)
    }

    /// A peer sends something. All peers receive the gateway's answers.
    fn speak(&mut self, number: u8, say: impl FnOnce(&mut P) -> Said) -> Sent {
        let Some(peer) = self.peer(number) else {
            return Sent::new();
        };
        let said = say(peer);
        let path = peer.path();
        said.iter()
            .flat_map(|one| self.datagram(path, one))
            .collect()
    }

    fn datagram(&mut self, path: Path, octets: &[u8]) -> Sent {
        let answer = self.gateway.datagram(path, octets, MAX_MESSAGES);
        let header = header(&path, octets);
        if header.as_ref().is_none_or(AnyHeader::is_first) {
            let messages = count(&answer.datagrams);
            assert!(messages <= 1, "{messages} messages");
            let is_back = |(to, _): &(Path, Vec<u8>)| to.remote == path.remote;
            assert!(answer.datagrams.iter().all(is_back));
        }
        // Under keys: whoever has sent it has received the gateway's answer there.
        if matches!(header, Some(AnyHeader::V2(it)) if it.spis.responder != Spi::ZERO)
            && answer.is_taken
        {
            self.proven.insert(path.remote);
        }
        self.hear(answer)
    }

    fn wait(&mut self, span: Duration) -> Sent {
        let until = self.gateway.now + span;
        let mut sent = Sent::new();
        for _ in 0..MAX_WAKES {
            let Some(answer) = self.gateway.wake(until) else {
                return sent;
            };
            self.proven.extend(answer.proven());
            for (path, _) in &answer.datagrams {
                assert!(self.proven.contains(&path.remote), "by a timer: {path:?}");
            }
            sent.extend(self.hear(answer));
        }
        panic!("the clock stands still at {:?}", self.gateway.now);
    }

    fn order(&mut self, what: u8) -> Sent {
        let name = P::NAMES[usize::from(what >> 4) % P::NAMES.len()].to_owned();
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
                Input::Notice(Notice::PathMoved {
                    child,
                    path,
                    bytes: 100,
                })
            }
            6 => Input::Configure(Arc::new(config::<P>())),
            _ => Input::Report(&[]),
        };
        let answer = self.gateway.input(input);
        self.hear(answer)
    }

    /// The peers receive what was sent.
    fn hear(&mut self, answer: Answer) -> Sent {
        self.proven.extend(answer.proven());
        let status = self.gateway.node().status(self.gateway.now);
        // Each mode has its own limit, and aggressive mode some more for familiar addresses.
        let aggressive = LIMITS.half_open + LIMITS.half_open.div_ceil(4);
        assert!(status.half_open <= LIMITS.half_open_total + aggressive);
        let mut sessions = status.connections.iter().flat_map(|one| &one.sessions);
        assert!(sessions.all(|session| session.children.len() <= LIMITS.children));
        for (path, datagram) in &answer.datagrams {
            for peer in &mut self.peers {
                peer.hear(*path, datagram, self.gateway.now);
            }
        }
        answer.datagrams
    }
}

/// The source of a datagram: eight addresses by the low bits, and port 4500 by bit 3.
pub fn path(from: u8) -> Path {
    let host = 2 + (from & 7);
    let (own, remote) = ([192, 0, 2, 1], [198, 51, 100, host]);
    match from & 8 {
        0 => Path::udp((own, 500), (remote, 500)),
        _ => Path::udp_with_marker((own, 4_500), (remote, 44_500)),
    }
}

const LIMITS: Limits = Limits {
    half_open: 4,
    half_open_total: 8,
    half_open_per_address: 3,
    half_open_lifetime: Duration::from_secs(30),
    quick_modes: 4,
    children: 4,
    has_quotas: true,
    asks_cookies: false,
};

/// The gateway's configuration, from parts that are read once.
pub fn config<P: Talker>() -> Config {
    Config {
        connections: P::connections(),
        pools: vec![Pool {
            name: "inner".into(),
            first: [10, 99, 0, 1].into(),
            last: [10, 99, 0, 6].into(),
            dns: vec![[10, 10, 0, 53].into()],
            domains: vec!["corp.example".into()],
            trust_anchors: Vec::new(),
        }],
        limits: LIMITS,
        radius: None,
    }
}
