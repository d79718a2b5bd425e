//! A hostile gateway of IKEv2 that holds keys, independent of the engine's own exchanges. It
//! answers IKE_SA_INIT, IKE_AUTH, CREATE_CHILD_SA and INFORMATIONAL as an honest one would, with
//! changed octets before they are sealed, or with any payloads of an input; and it sends any
//! request.
//!
//! It trusts what it receives, and follows no renewal of the IKE SA.

pub mod seeds;

use std::collections::VecDeque;
use std::sync::Arc;

use crypto::dh::{Group, KeyPair};
use crypto::rand::Seed;
use engine::config::{Connection, LocalMethod};
use engine::sa::{Path, Via};
use engine::time::Instant;
use wire::ikev2::transform::key_exchange;
use wire::ikev2::{
    Authentication, AuthenticationMethod, ConfigAttribute, ConfigKind, ConfigType, Configuration,
    Exchange, Flags, Header, Identification, IdentificationType, KeyExchange, Message, Notify,
    NotifyType, Payload, PayloadKind, Protocol, Spi, Spis, payloads, write_payloads,
};

use super::Host;
use crate::responder::{Said, ikev2};
use crate::script::Sealed;
use crate::sealed::{AUTH_LEN, Covered, Keys, offer};

/// `flags` of [`Sealed`].
mod flag {
    /// The ICV is wrong, or AUTH is not made right.
    pub const WRONG: u8 = 1;
    /// A response.
    pub const RESPONSE: u8 = 2;
    /// In two fragments.
    pub const FRAGMENTS: u8 = 4;
}

const OWN_ID: PayloadKind = PayloadKind::IdentificationResponder;
/// Requests that wait for an answer. Beyond that, the oldest gets none.
const MAX_UNANSWERED: usize = 4;

/// One gateway.
pub struct Gateway {
    /// It follows where the client sends.
    path: Path,
    last_sent: Vec<u8>,
    last_heard: Vec<u8>,
    spis: Spis,
    pair: KeyPair,
    nonce: Vec<u8>,
    /// The client's message of IKE_SA_INIT, and ours.
    request: Vec<u8>,
    answer: Vec<u8>,
    /// Both ends announce that both of them count for AUTH.
    covers_both: bool,
    their_public: Vec<u8>,
    their_nonce: Vec<u8>,
    keys: Option<Keys>,
    /// It has proven itself under these keys.
    has_proven: bool,
    unanswered: VecDeque<Asked>,
    next_id: u32,
    next_spi: u8,
}

/// A request of the client.
struct Asked {
    exchange: Exchange,
    id: u32,
    payloads: Vec<Payload>,
}

impl Host for Gateway {
    type Peer = ikev2::Peer;
    // An authentic request is answered where it came from (RFC 7296 §2.11).
    const ANSWER_FACTOR: usize = 3;

    fn new(number: u8, _: Arc<Connection>, path: Path) -> Self {
        let mut random = Seed::new([0x50 + number; 32]).stream("gateway", 0);
        let pair = KeyPair::generate(Group::Curve25519, &mut random);
        let mut nonce = vec![0; 32];
        random.fill(&mut nonce);
        let mut spi = [0xd0 | number; 8];
        random.fill(&mut spi[1..]);
        Self {
            path,
            last_sent: Vec::new(),
            last_heard: Vec::new(),
            spis: Spis {
                initiator: Spi::ZERO,
                responder: Spi(spi),
            },
            pair,
            nonce,
            request: Vec::new(),
            answer: Vec::new(),
            covers_both: false,
            their_public: Vec::new(),
            their_nonce: Vec::new(),
            keys: None,
            has_proven: false,
            unanswered: VecDeque::new(),
            next_id: 0,
            next_spi: 0x40 + number * 8,
        }
    }

    fn client(name: &str) -> (String, Option<LocalMethod>) {
        (format!("p0.{name}.example"), None)
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

    fn has_proven(&self) -> bool {
        self.has_proven
    }

    fn hear(&mut self, path: Path, datagram: &[u8], _: Instant) {
        if path.remote.ip() != self.path.remote.ip() {
            return;
        }
        self.path = path;
        self.last_heard = datagram.to_vec();
        let octets = match path.via {
            Via::Udp => Some(datagram),
            _ => datagram.strip_prefix(&[0; 4]),
        };
        let read = octets.and_then(|octets| Some((octets, Message::parse(octets).ok()?)));
        if let Some((octets, message)) = read {
            self.read(octets, &message);
        }
    }

    fn answer(&mut self, changes: &[u8], _: Instant) -> Said {
        let Some(asked) = self.unanswered.pop_front() else {
            return Said::new();
        };
        let (first, mut chain) = write_payloads(&self.honest(&asked));
        if let Some(keys) = &self.keys {
            let id = (OWN_ID, &[][..]);
            keys.make_right((first, &mut chain), id, &self.covered());
        }
        for change in changes.as_chunks::<3>().0 {
            let at = usize::from(u16::from_be_bytes([change[0], change[1]]));
            let len = chain.len().max(1);
            if let Some(octet) = chain.get_mut(at % len) {
                *octet ^= change[2];
            }
        }
        self.say(asked.exchange, asked.id, (first, &chain), flag::RESPONSE)
    }

    fn prove(&mut self, said: &Sealed) -> Said {
        let Some(asked) = self.unanswered.pop_front() else {
            return Said::new();
        };
        let first = PayloadKind::from(said.first);
        let mut chain = said.chain.clone();
        if said.flags & flag::WRONG == 0 {
            self.make_right(asked.exchange, first, &mut chain);
        }
        let flags = said.flags & flag::FRAGMENTS | flag::RESPONSE;
        self.say(asked.exchange, asked.id, (first, &chain), flags)
    }

    /// `id`: 0, the next request of ours; 255, the client's oldest one that has no answer; other
    /// values are added to the next one.
    fn protected(&mut self, exchange: u8, id: u8, sealed: &Sealed) -> Said {
        let number = match id {
            255 => self.unanswered.front().map_or(0, |asked| asked.id),
            more => self.next_id.wrapping_add(u32::from(more)),
        };
        if sealed.flags & flag::RESPONSE == 0 {
            self.next_id = number.wrapping_add(1);
        }
        let chain = (PayloadKind::from(sealed.first), &sealed.chain[..]);
        match self.keys {
            Some(_) => self.say(Exchange::from(exchange), number, chain, sealed.flags),
            None => Said::new(),
        }
    }
}

impl Gateway {
    fn read(&mut self, octets: &[u8], message: &Message) -> Option<()> {
        let header = message.header;
        let payloads: Vec<Payload> = match &message.protected {
            None => {
                if header.flags.is_response() {
                    return None;
                }
                let all = message.clear.iter();
                all.map(|found| found.payload.clone()).collect()
            }
            Some(_) if header.spis != self.spis => return None,
            Some(_) => {
                let (first, clear) = self.keys.as_ref()?.open(octets, message)?;
                let found = payloads(first, &clear).ok()?;
                found.into_iter().map(|it| it.payload).collect()
            }
        };
        if header.flags.is_response() {
            return None;
        }
        if message.protected.is_none() {
            self.read_first(octets, header.spis.initiator, &payloads);
        }
        self.unanswered.push_back(Asked {
            exchange: header.exchange,
            id: header.message_id,
            payloads,
        });
        if self.unanswered.len() > MAX_UNANSWERED {
            self.unanswered.pop_front();
        }
        Some(())
    }

    /// The client begins: another IKE SA, with other keys.
    fn read_first(&mut self, octets: &[u8], initiator: Spi, payloads: &[Payload]) {
        self.unanswered.clear();
        self.keys = None;
        self.has_proven = false;
        self.next_id = 0;
        self.spis.initiator = initiator;
        self.request = octets.to_vec();
        self.covers_both = false;
        for payload in payloads {
            match payload {
                Payload::KeyExchange(value) => self.their_public.clone_from(&value.value),
                Payload::Nonce(nonce) => self.their_nonce.clone_from(nonce),
                Payload::Notify(notify) => {
                    self.covers_both |= notify.kind == NotifyType::IkeSaInitFullTranscriptAuth;
                }
                _ => {}
            }
        }
    }

    fn covered(&self) -> Covered<'_> {
        Covered {
            own: &self.answer,
            other: self.covers_both.then_some(&self.request),
            nonce: &self.their_nonce,
        }
    }

    /// Whether these payloads prove the gateway that the client wants.
    fn proves(&self, (first, chain): (PayloadKind, &[u8])) -> bool {
        let own = identity();
        let is_own =
            |it: &Identification| it.kind == own.kind && it.value.eq_ignore_ascii_case(&own.value);
        let found = payloads(first, chain).unwrap_or_default();
        let mut found = found.iter();
        let is_named = found
            .any(|one| matches!(&one.payload, Payload::IdentificationResponder(it) if is_own(it)));
        let keys = self.keys.as_ref();
        is_named && keys.is_some_and(|it| it.is_right((first, chain), OWN_ID, &self.covered()))
    }

    /// Our public value, nonce and AUTH, where the chain has room for them.
    fn make_right(&mut self, exchange: Exchange, first: PayloadKind, chain: &mut [u8]) {
        if let (Exchange::IkeAuth, Some(keys)) = (exchange, &self.keys) {
            keys.make_right((first, chain), (OWN_ID, &[][..]), &self.covered());
        }
        for one in payloads(first, chain).unwrap_or_default() {
            let right = match one.payload.kind() {
                PayloadKind::Nonce => self.nonce.clone(),
                PayloadKind::KeyExchange => self.public().body(),
                _ => continue,
            };
            let place = &mut chain[one.body_range()];
            if place.len() == right.len() {
                place.copy_from_slice(&right);
            }
        }
    }

    fn public(&self) -> Payload {
        Payload::KeyExchange(KeyExchange {
            method: key_exchange::CURVE25519,
            value: self.pair.public().to_vec(),
        })
    }

    /// What an honest gateway answers.
    fn honest(&mut self, asked: &Asked) -> Vec<Payload> {
        let notify = |kind| Payload::Notify(Notify::new(kind, Vec::new()));
        match asked.exchange {
            Exchange::IkeSaInit => vec![
                Payload::SecurityAssociation(vec![offer()]),
                self.public(),
                Payload::Nonce(self.nonce.clone()),
                notify(NotifyType::Ikev2FragmentationSupported),
                notify(NotifyType::IkeSaInitFullTranscriptAuth),
            ],
            Exchange::IkeSessionResume => vec![notify(NotifyType::TicketNack)],
            Exchange::IkeAuth => {
                let mut all = vec![
                    Payload::IdentificationResponder(identity()),
                    Payload::Authentication(Authentication {
                        method: AuthenticationMethod::SharedKey,
                        value: vec![0; AUTH_LEN],
                    }),
                    Payload::Configuration(Configuration {
                        kind: ConfigType::Reply,
                        attributes: vec![ConfigAttribute {
                            kind: ConfigKind::InternalIp4Address,
                            value: vec![10, 99, 0, 1],
                        }],
                    }),
                ];
                all.extend(self.child(asked));
                all.push(notify(NotifyType::MobikeSupported));
                all
            }
            Exchange::CreateChildSa if is_of_ike(asked) => {
                let mut new = offer();
                new.spi = vec![9; 8];
                vec![
                    Payload::SecurityAssociation(vec![new]),
                    Payload::Nonce(self.nonce.clone()),
                    self.public(),
                ]
            }
            Exchange::CreateChildSa => {
                let nonce = Payload::Nonce(self.nonce.clone());
                [self.child(asked), vec![nonce]].concat()
            }
            _ => cookies(asked),
        }
    }

    /// A child with the traffic that the client asks for.
    fn child(&mut self, asked: &Asked) -> Vec<Payload> {
        self.next_spi += 1;
        let suite = ikev2::seeds::esp(self.next_spi);
        let selectors = asked.payloads.iter().filter(|payload| {
            matches!(
                payload,
                Payload::TrafficSelectorsInitiator(_) | Payload::TrafficSelectorsResponder(_)
            )
        });
        let mut all = vec![Payload::SecurityAssociation(vec![suite])];
        all.extend(selectors.cloned());
        all
    }

    /// In clear, if the exchange has no keys; with IKE_SA_INIT we get ours.
    fn say(
        &mut self,
        exchange: Exchange,
        id: u32,
        (first, chain): (PayloadKind, &[u8]),
        flags: u8,
    ) -> Said {
        let is_first = matches!(exchange, Exchange::IkeSaInit | Exchange::IkeSessionResume);
        let header = Header {
            spis: self.spis,
            next_payload: first,
            minor_version: 0,
            exchange,
            flags: Flags::of(false, flags & flag::RESPONSE != 0),
            message_id: id,
        };
        let is_right = flags & (flag::RESPONSE | flag::WRONG) == flag::RESPONSE;
        if exchange == Exchange::IkeAuth && is_right {
            self.has_proven |= self.proves((first, chain));
        }
        let all = match &mut self.keys {
            _ if is_first => vec![header.write(chain)],
            Some(keys) => {
                let (is_split, is_wrong) = (flags & flag::FRAGMENTS != 0, flags & flag::WRONG != 0);
                keys.seal(&header, (first, chain), is_split, is_wrong)
            }
            None => return Said::new(),
        };
        if exchange == Exchange::IkeSaInit {
            self.answer.clone_from(&all[0]);
            self.agree(first, chain);
        }
        all.into_iter().map(|one| self.send(one)).collect()
    }

    /// The keys that the client derives from our answer, whatever is in it.
    fn agree(&mut self, first: PayloadKind, chain: &[u8]) -> Option<()> {
        let mut nonce = None;
        let mut announces = false;
        for found in payloads(first, chain).ok()? {
            match found.payload {
                Payload::Nonce(value) => nonce = Some(value),
                Payload::Notify(notify) => {
                    announces |= notify.kind == NotifyType::IkeSaInitFullTranscriptAuth;
                }
                _ => {}
            }
        }
        self.covers_both &= announces;
        let shared = self.pair.agree(&self.their_public).ok()?;
        let nonces = (&self.their_nonce[..], &nonce?[..]);
        self.keys = Some(Keys::derive(false, shared.as_ref(), nonces, self.spis));
        Some(())
    }

    /// Adds the marker if the port needs one.
    fn send(&mut self, message: Vec<u8>) -> Vec<u8> {
        self.last_sent = match self.path.via {
            Via::Udp => message,
            _ => [&[0; 4], &message[..]].concat(),
        };
        self.last_sent.clone()
    }
}

fn identity() -> Identification {
    Identification::new(IdentificationType::Fqdn, "gateway.example")
}

fn is_of_ike(asked: &Asked) -> bool {
    let mut all = asked.payloads.iter();
    all.any(|payload| match payload {
        Payload::SecurityAssociation(sa) => sa.iter().any(|it| it.protocol == Protocol::Ike),
        _ => false,
    })
}

/// What MOBIKE wants to see again.
fn cookies(asked: &Asked) -> Vec<Payload> {
    let is_cookie = |payload: &&Payload| match payload {
        Payload::Notify(notify) => notify.kind == NotifyType::Cookie2,
        _ => false,
    };
    asked.payloads.iter().filter(is_cookie).cloned().collect()
}
