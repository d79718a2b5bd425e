//! A peer that holds keys of IKEv2, independent of the engine's own exchanges: it derives the first
//! keys itself (`crate::sealed`) and protects any payloads of an input.
//!
//! It trusts what it receives, and follows no renewal of the IKE SA.

pub mod seeds;

use std::sync::Arc;

use crypto::dh::{Group, KeyPair};
use crypto::rand::Seed;
use engine::config::{
    Child, Connection, IdentityPattern, LocalAuth, LocalMethod, RemoteAuth, RemoteMethod, Version,
};
use engine::identity::Identity;
use engine::sa::{Mode, Path, Secret, Via};
use engine::time::{Duration, Instant};
use wire::ikev2::transform::key_exchange;
use wire::ikev2::{
    Exchange, Flags, Header, Identification, IdentificationType, KeyExchange, Message, Notify,
    NotifyType, Payload, PayloadKind, Spi, Spis, payloads, write_payloads,
};

use super::world::path;
use super::{Said, Talker};
use crate::script::Sealed;
use crate::sealed::{Covered, Keys, SUITE, offer};
use crate::secrets::SECRET;

/// `flags` of [`Sealed`].
mod flag {
    /// AUTH is not made right; in other messages than IKE_AUTH, the ICV is wrong.
    pub const WRONG: u8 = 1;
    /// A response.
    pub const RESPONSE: u8 = 2;
    /// In two fragments.
    pub const FRAGMENTS: u8 = 4;
    /// The COOKIE2 of the gateway's latest request comes first.
    pub const COOKIE2: u8 = 8;
    /// From another address, by the high bits; it is its own from then on.
    pub const MOVE: u8 = 16;
}

/// A peer.
pub struct Peer {
    path: Path,
    last_sent: Vec<u8>,
    last_heard: Vec<u8>,
    spis: Spis,
    pair: KeyPair,
    nonce: Vec<u8>,
    cookie: Option<Vec<u8>>,
    id: Identification,
    /// Its first message, as the gateway has taken it.
    first: Vec<u8>,
    /// The gateway's answer.
    answer: Vec<u8>,
    /// Its AUTH covers both of them.
    covers_both: bool,
    their_nonce: Vec<u8>,
    keys: Option<Keys>,
    next_id: u32,
    their_id: u32,
    cookie2: Option<Vec<u8>>,
}

impl Talker for Peer {
    const NAMES: &'static [&'static str] = &["moves", "stays"];

    fn connections() -> Vec<Arc<Connection>> {
        Self::NAMES.iter().map(|name| connection(name)).collect()
    }

    fn new(number: u8, kind: u8, path: Path) -> Self {
        let mut random = Seed::new([0x80 + number; 32]).stream("peer", kind.into());
        let pair = KeyPair::generate(Group::Curve25519, &mut random);
        let mut nonce = vec![0; 32];
        random.fill(&mut nonce);
        let mut spi = [number; 8];
        random.fill(&mut spi[1..]);
        spi[7] |= 1;
        let name = Self::NAMES[usize::from(kind) % Self::NAMES.len()];
        Self {
            path,
            last_sent: Vec::new(),
            last_heard: Vec::new(),
            spis: Spis {
                initiator: Spi(spi),
                responder: Spi::ZERO,
            },
            pair,
            nonce,
            cookie: None,
            id: Identification::new(
                IdentificationType::Fqdn,
                format!("p{number}.{name}.example"),
            ),
            first: Vec::new(),
            answer: Vec::new(),
            covers_both: name == "moves",
            their_nonce: Vec::new(),
            keys: None,
            next_id: 0,
            their_id: 0,
            cookie2: None,
        }
    }

    fn path(&self) -> Path {
        self.path
    }

    fn last_sent(&self) -> &[u8] {
        &self.last_sent
    }

    fn last_heard(&self) -> &[u8] {
        &self.last_heard
    }

    /// IKE_SA_INIT.
    fn first(&mut self) -> Said {
        let cookie = self.cookie.iter();
        let notify = |kind| Payload::Notify(Notify::new(kind, Vec::new()));
        let mut chain: Vec<_> = cookie
            .map(|cookie| Payload::Notify(Notify::new(NotifyType::Cookie, cookie.clone())))
            .collect();
        chain.extend([
            Payload::SecurityAssociation(vec![offer()]),
            Payload::KeyExchange(KeyExchange {
                method: key_exchange::CURVE25519,
                value: self.pair.public().to_vec(),
            }),
            Payload::Nonce(self.nonce.clone()),
            notify(NotifyType::Ikev2FragmentationSupported),
        ]);
        if self.covers_both {
            chain.push(notify(NotifyType::IkeSaInitFullTranscriptAuth));
        }
        let (first, body) = write_payloads(&chain);
        let header = self.header(first, Exchange::IkeSaInit, 0, false);
        self.first = header.write(&body);
        vec![self.send(self.first.clone())]
    }

    /// The same with the gateway's COOKIE, if it wants one.
    fn third(&mut self) -> Said {
        match self.cookie {
            Some(_) => self.first(),
            None => Said::new(),
        }
    }

    /// IKE_AUTH, with the right AUTH of our shared key where the chain has room for it.
    fn prove(&mut self, sealed: &Sealed) -> Said {
        let first = PayloadKind::from(sealed.first);
        let mut chain = sealed.chain.clone();
        if sealed.flags & flag::WRONG == 0 {
            self.make_right(first, &mut chain);
        }
        let flags = sealed.flags & !flag::WRONG;
        self.seal(Exchange::IkeAuth, self.next_id, (first, &chain), flags)
            .unwrap_or_default()
    }

    /// Any message under our keys. `id`: 0, the next one; 255, that of the gateway's request; other
    /// values are added to the next one.
    fn protected(&mut self, exchange: u8, id: u8, sealed: &Sealed) -> Said {
        let number = match id {
            255 => self.their_id,
            more => self.next_id.wrapping_add(u32::from(more)),
        };
        let chain = (PayloadKind::from(sealed.first), &sealed.chain[..]);
        self.seal(Exchange::from(exchange), number, chain, sealed.flags)
            .unwrap_or_default()
    }

    fn hear(&mut self, path: Path, datagram: &[u8], _: Instant) {
        let message = match path.via {
            Via::Udp => Some(datagram),
            _ => datagram.strip_prefix(&[0; 4]),
        };
        let Some(octets) = message else { return };
        let Ok(message) = Message::parse(octets) else {
            return;
        };
        if message.header.spis.initiator == self.spis.initiator {
            self.last_heard = datagram.to_vec();
            self.read(octets, &message);
        }
    }
}

impl Peer {
    fn read(&mut self, octets: &[u8], message: &Message) -> Option<()> {
        let header = message.header;
        if header.exchange == Exchange::IkeSaInit {
            return self.read_first(octets, message);
        }
        match header.flags.is_response() {
            true if header.message_id == self.next_id => self.next_id += 1,
            true => {}
            false => self.their_id = header.message_id,
        }
        let (first, clear) = self.keys.as_ref()?.open(octets, message)?;
        for found in payloads(first, &clear).ok()? {
            if let Payload::Notify(notify) = found.payload
                && notify.kind == NotifyType::Cookie2
            {
                self.cookie2 = Some(notify.value);
            }
        }
        Some(())
    }

    fn read_first(&mut self, octets: &[u8], message: &Message) -> Option<()> {
        let mut public = None;
        for found in &message.clear {
            match &found.payload {
                Payload::Notify(notify) if notify.kind == NotifyType::Cookie => {
                    self.cookie = Some(notify.value.clone());
                }
                Payload::KeyExchange(value) => public = Some(value.value.clone()),
                Payload::Nonce(nonce) => self.their_nonce.clone_from(nonce),
                _ => {}
            }
        }
        if self.keys.is_none() {
            self.spis.responder = message.header.spis.responder;
            self.agree(&public?)?;
            self.answer = octets.to_vec();
            self.next_id = 1;
        }
        Some(())
    }

    fn agree(&mut self, public: &[u8]) -> Option<()> {
        let shared = self.pair.agree(public).ok()?;
        let nonces = (&self.nonce[..], &self.their_nonce[..]);
        self.keys = Some(Keys::derive(true, shared.as_ref(), nonces, self.spis));
        Some(())
    }

    /// Writes AUTH of a shared key where the chain has room for it.
    fn make_right(&self, first: PayloadKind, chain: &mut [u8]) -> Option<()> {
        let covered = Covered {
            own: &self.first,
            other: self.covers_both.then_some(&self.answer),
            nonce: &self.their_nonce,
        };
        let own = self.own_id();
        let id = (PayloadKind::IdentificationInitiator, &own[..]);
        self.keys.as_ref()?.make_right((first, chain), id, &covered);
        Some(())
    }

    fn own_id(&self) -> Vec<u8> {
        Payload::IdentificationInitiator(self.id.clone()).body()
    }

    fn seal(
        &mut self,
        exchange: Exchange,
        number: u32,
        (first, chain): (PayloadKind, &[u8]),
        flags: u8,
    ) -> Option<Said> {
        if flags & flag::MOVE != 0 {
            self.path = path(flags >> 5 | 8);
        }
        let header = self.header(
            PayloadKind::Encrypted,
            exchange,
            number,
            flags & flag::RESPONSE != 0,
        );
        let (first, chain) = match &self.cookie2 {
            Some(cookie) if flags & flag::COOKIE2 != 0 => {
                let notify = Notify::new(NotifyType::Cookie2, cookie.clone());
                let (kind, mut body) = write_payloads(&[Payload::Notify(notify)]);
                body[0] = first.number();
                body.extend(chain);
                (kind, body)
            }
            _ => (first, chain.to_vec()),
        };
        let keys = self.keys.as_mut()?;
        let (is_split, is_wrong) = (flags & flag::FRAGMENTS != 0, flags & flag::WRONG != 0);
        let all = keys.seal(&header, (first, &chain), is_split, is_wrong);
        Some(all.into_iter().map(|one| self.send(one)).collect())
    }

    /// Adds the marker if the port needs one.
    fn send(&mut self, message: Vec<u8>) -> Vec<u8> {
        self.last_sent = match self.path.via {
            Via::Udp => message,
            _ => [&[0; 4], &message[..]].concat(),
        };
        self.last_sent.clone()
    }

    fn header(
        &self,
        next_payload: PayloadKind,
        exchange: Exchange,
        message_id: u32,
        is_response: bool,
    ) -> Header {
        Header {
            spis: self.spis,
            next_payload,
            minor_version: 0,
            exchange,
            flags: Flags::of(true, is_response),
            message_id,
        }
    }
}

fn connection(name: &str) -> Arc<Connection> {
    let secret = Arc::new(Secret(SECRET.to_vec()));
    let local = LocalAuth {
        identity: Identity::parse("gateway.example").expect("an identity"),
        method: LocalMethod::PresharedKey(Arc::clone(&secret)),
    };
    let pattern = IdentityPattern::parse(&format!("*.{name}.example"));
    let remote = RemoteAuth {
        identities: vec![pattern.expect("a pattern")],
        method: RemoteMethod::PresharedKey(secret),
    };
    let mut net = Child::new(
        "net",
        Mode::Tunnel,
        vec!["aes128gcm16".parse().expect("one")],
    );
    net.local = vec!["10.10.0.0/24".parse().expect("a selector")];
    let host = Child::new(
        "host",
        Mode::Transport,
        vec!["aes128gcm16-esn".parse().expect("one")],
    );
    Arc::new(Connection {
        revision: 1,
        version: Version::V2,
        ikev2_proposals: vec![SUITE.parse().expect("a suite")],
        pools: vec![0],
        mobike: name == "moves",
        crash_detection: true,
        resumption: true,
        dpd_delay: Some(Duration::from_secs(60)),
        ..Connection::new(name, Vec::new(), local, remote, vec![net, host])
    })
}
