//! A peer that holds keys of IKEv1, independent of the engine's own exchanges: it derives phase 1's
//! keys itself (RFC 2409 §5, appendix B) and protects any payloads of an input.
//!
//! It trusts what it receives, and repeats nothing.

use std::sync::Arc;

use crypto::dh::{Group, KeyPair};
use crypto::hash::{Digest, Hash};
use crypto::rand::Seed;
use engine::config::{
    Child, Connection, IdentityPattern, LocalAuth, LocalMethod, RemoteAuth, RemoteMethod,
};
use engine::identity::{self, Identity};
use engine::ike::Role;
use engine::ikev1::fragments::Assembly;
use engine::ikev1::protect::Iv;
use engine::ikev1::{IsakmpSa, NatFinding, PeerSupport};
use engine::sa::{Mode, Path, Secret, Via};
use engine::time::Instant;
use wire::isakmp::phase1::{self, authentication, encryption, hash, transform};
use wire::isakmp::phase2::life;
use wire::isakmp::{
    Attribute, Cookie, Cookies, Exchange, Flags, Header, Payload, PayloadKind, Proposal,
    ProtocolId, SaPayload, Transform, payloads, vendor, write_payloads,
};

use super::{Said, Talker};
use crate::phase_2::{CIPHER, Phase2, last_block, seal};
use crate::script::Sealed;
use crate::secrets::{SECRET, SUITE, pki, sign_bare};
use crate::whole::whole;

const HASH: Hash = Hash::Sha1;
const GROUP: Group = Group::Modp768;

/// Names of connections. The first letter is the mode.
pub const NAMES: [&str; 4] = ["a-psk", "a-rsa", "m-psk", "m-rsa"];

/// A peer.
pub struct Peer {
    is_aggressive: bool,
    is_signed: bool,
    path: Path,
    last_sent: Vec<u8>,
    last_heard: Vec<u8>,
    cookies: Cookies,
    pair: KeyPair,
    nonce: Vec<u8>,
    offer: Vec<u8>,
    id: Payload,
    their_public: Vec<u8>,
    their_nonce: Vec<u8>,
    skeyid: Option<Digest>,
    sa: Option<IsakmpSa>,
    phase_2: Phase2,
    assembly: Assembly,
}

impl Talker for Peer {
    const NAMES: &'static [&'static str] = &NAMES;

    fn connections() -> Vec<Arc<Connection>> {
        NAMES.iter().map(|name| connection(name)).collect()
    }

    /// An idle peer, number `number` of its input.
    fn new(number: u8, kind: u8, path: Path) -> Self {
        let (is_aggressive, is_signed) = (kind & 1 != 0, kind & 2 != 0);
        let mut random = Seed::new([0x40 + number; 32]).stream("peer", kind.into());
        let pair = KeyPair::generate(GROUP, &mut random);
        let mut nonce = vec![0; 16];
        random.fill(&mut nonce);
        let mut cookie = [number; 8];
        random.fill(&mut cookie[1..]);
        cookie[7] |= 1;
        let identity = if is_signed {
            Identity::parse("station@example")
        } else {
            Identity::parse(&format!("p{number}.psk.example"))
        };
        let id = identity.expect("an identity").to_identification();
        Self {
            is_aggressive,
            is_signed,
            path,
            last_sent: Vec::new(),
            last_heard: Vec::new(),
            cookies: Cookies {
                initiator: Cookie(cookie),
                responder: Cookie::ZERO,
            },
            pair,
            nonce,
            offer: Vec::new(),
            id: Payload::Identification(id),
            their_public: Vec::new(),
            their_nonce: Vec::new(),
            skeyid: None,
            sa: None,
            phase_2: Phase2::default(),
            assembly: Assembly::default(),
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

    /// Message 1 of either mode.
    fn first(&mut self) -> Said {
        let method = match self.is_signed {
            true => authentication::RSA_SIGNATURES,
            false => authentication::PRE_SHARED_KEY,
        };
        let offer = Payload::Sa(offer(method));
        self.offer = offer.body();
        let mut chain = vec![offer];
        if self.is_aggressive {
            chain.push(Payload::KeyExchange(self.pair.public().to_vec()));
            chain.push(Payload::Nonce(self.nonce.clone()));
            chain.push(self.id.clone());
        }
        chain.extend(announcements());
        self.clear(&chain)
    }

    /// Message 3 of main mode.
    fn third(&mut self) -> Said {
        let chain = [
            Payload::KeyExchange(self.pair.public().to_vec()),
            Payload::Nonce(self.nonce.clone()),
        ];
        self.clear(&chain)
    }

    /// The last message of either mode, if keys are there.
    fn prove(&mut self, sealed: &Sealed) -> Said {
        self.proof(sealed).into_iter().collect()
    }

    /// A message of phase 2, if there are keys.
    fn protected(&mut self, exchange: u8, id: u8, sealed: &Sealed) -> Said {
        let Some(sa) = &self.sa else {
            return Said::new();
        };
        let message = self.phase_2.seal(sa, exchange, id, sealed);
        message
            .map(|message| self.send(message))
            .into_iter()
            .collect()
    }

    /// A datagram of the gateway, perhaps to us.
    fn hear(&mut self, path: Path, datagram: &[u8], now: Instant) {
        let message = match path.via {
            Via::Udp => Some(datagram),
            _ => datagram.strip_prefix(&[0; 4]),
        };
        let Some(Ok((header, _))) = message.map(Header::parse) else {
            return;
        };
        if header.cookies.initiator != self.cookies.initiator {
            return;
        }
        self.last_heard = datagram.to_vec();
        let message = message.unwrap_or_default();
        if let Some(message) = whole(&mut self.assembly, message, path.remote, now) {
            self.read(&message);
        }
    }
}

impl Peer {
    /// The last message of either mode, if keys are there.
    fn proof(&mut self, sealed: &Sealed) -> Option<Vec<u8>> {
        let flags = sealed.flags;
        let kind = PayloadKind::from(sealed.first);
        let mut body = sealed.chain.clone();
        if flags & 1 == 0 {
            self.make_right(kind, &mut body)?;
        }
        let header = self.header(kind, self.mode(), 0);
        if flags & 2 != 0 {
            return Some(self.send(header.write(&body)));
        }
        let seed = HASH.digest(&[self.pair.public(), &self.their_public]);
        let iv = Iv::truncated(CIPHER, seed.as_ref());
        let message = seal(self.sa.as_ref()?, header, &iv, body)?;
        if let Some(sa) = &mut self.sa
            && self.is_aggressive
        {
            sa.last_iv = last_block(&message);
        }
        Some(self.send(message))
    }

    fn read(&mut self, message: &[u8]) -> Option<()> {
        let (header, body) = Header::parse(message).ok()?;
        if header.exchange == self.mode() {
            return self.read_phase_1(&header, body, message);
        }
        self.phase_2.read(self.sa.as_ref()?, &header, message)
    }

    fn read_phase_1(&mut self, header: &Header, body: &[u8], message: &[u8]) -> Option<()> {
        if header.flags.is_encrypted() {
            // The last message of main mode: phase 2 continues from its last block.
            self.sa.as_mut()?.last_iv = last_block(message);
            return Some(());
        }
        self.cookies.responder = header.cookies.responder;
        for found in payloads(header.next_payload, body).ok()? {
            match found.payload {
                Payload::KeyExchange(public) => self.their_public = public,
                Payload::Nonce(nonce) => self.their_nonce = nonce,
                _ => {}
            }
        }
        if !self.their_nonce.is_empty() && self.sa.is_none() {
            self.agree()?;
        }
        Some(())
    }

    /// RFC 2409 §5: SKEYID and the keys derived from it.
    fn agree(&mut self) -> Option<()> {
        let shared = self.pair.agree(&self.their_public).ok()?;
        let shared = shared.as_ref();
        let skeyid = match self.is_signed {
            true => HASH.hmac(&[&self.nonce[..], &self.their_nonce].concat(), &[shared]),
            false => HASH.hmac(SECRET, &[&self.nonce, &self.their_nonce]),
        };
        let (i, r) = (&self.cookies.initiator.0, &self.cookies.responder.0);
        let key = skeyid.as_ref();
        let d = HASH.hmac(key, &[shared, i, r, &[0]]);
        let a = HASH.hmac(key, &[d.as_ref(), shared, i, r, &[1]]);
        let e = HASH.hmac(key, &[a.as_ref(), shared, i, r, &[2]]);
        self.sa = Some(IsakmpSa {
            cookies: self.cookies,
            role: Role::Initiator,
            suite: SUITE.parse().expect("a suite"),
            skeyid_d: Secret(d.as_ref().to_vec()),
            skeyid_a: Secret(a.as_ref().to_vec()),
            cipher_key: Secret(e.as_ref()[..CIPHER.key_len()].to_vec()),
            last_iv: vec![0; CIPHER.block_len()],
            nat: NatFinding::default(),
            peer: PeerSupport::default(),
            identity: identity::Peer::of_preshared_key(
                "fuzz",
                &Identity::parse("gateway.example").expect("an identity"),
                &[IdentityPattern::Any],
            ),
            certificate: None,
            is_initial_contact: false,
            path: self.path,
            since: Instant(0),
            lifetime_s: 3_600,
        });
        self.skeyid = Some(skeyid);
        Some(())
    }

    /// Writes HASH_I or our signature over it where the chain has room for it.
    fn make_right(&self, first: PayloadKind, chain: &mut [u8]) -> Option<()> {
        let Ok(found) = payloads(first, chain) else {
            return Some(());
        };
        let is_id = |kind: PayloadKind| kind == PayloadKind::Identification;
        let sent = found.iter().find(|found| is_id(found.payload.kind()));
        let id = match sent {
            Some(found) if !self.is_aggressive => chain[found.body_range()].to_vec(),
            _ => self.id.body(),
        };
        let (i, r) = (&self.cookies.initiator.0, &self.cookies.responder.0);
        let parts = [
            self.pair.public(),
            &self.their_public,
            i,
            r,
            &self.offer,
            &id,
        ];
        let hash = HASH.hmac(self.skeyid.as_ref()?.as_ref(), &parts);
        for found in found {
            let place = &mut chain[found.body_range()];
            match found.payload.kind() {
                PayloadKind::Hash if place.len() == HASH.len() => {
                    place.copy_from_slice(hash.as_ref());
                }
                PayloadKind::Signature => {
                    let signature = sign_bare(&pki().station.0, hash.as_ref());
                    if place.len() == signature.len() {
                        place.copy_from_slice(&signature);
                    }
                }
                _ => {}
            }
        }
        Some(())
    }

    fn clear(&mut self, chain: &[Payload]) -> Said {
        let (first, body) = write_payloads(chain);
        let header = self.header(first, self.mode(), 0);
        vec![self.send(header.write(&body))]
    }

    /// Adds the marker if the port needs one.
    fn send(&mut self, message: Vec<u8>) -> Vec<u8> {
        self.last_sent = match self.path.via {
            Via::Udp => message,
            _ => [&[0; 4], &message[..]].concat(),
        };
        self.last_sent.clone()
    }

    fn header(&self, next_payload: PayloadKind, exchange: Exchange, message_id: u32) -> Header {
        Header {
            cookies: self.cookies,
            next_payload,
            exchange,
            flags: Flags::default(),
            message_id,
        }
    }

    fn mode(&self) -> Exchange {
        match self.is_aggressive {
            true => Exchange::Aggressive,
            false => Exchange::IdentityProtection,
        }
    }
}

fn announcements() -> [Payload; 3] {
    let fragmentation = [&vendor::FRAGMENTATION[..], &[0x80, 0, 0, 0]].concat();
    [
        Payload::VendorId(vendor::NAT_T_RFC_3947.to_vec()),
        Payload::VendorId(vendor::DPD.to_vec()),
        Payload::VendorId(fragmentation),
    ]
}

/// Phase 1's only offer.
fn offer(method: u16) -> SaPayload {
    SaPayload {
        proposals: vec![Proposal {
            number: 1,
            protocol: ProtocolId::Isakmp,
            spi: Vec::new(),
            transforms: vec![Transform {
                number: 1,
                id: transform::KEY_IKE,
                attributes: vec![
                    Attribute::short(phase1::ENCRYPTION, encryption::AES_CBC),
                    Attribute::short(phase1::KEY_LENGTH, 128),
                    Attribute::short(phase1::HASH, hash::SHA1),
                    Attribute::short(phase1::AUTHENTICATION, method),
                    Attribute::short(phase1::GROUP, GROUP.number()),
                    Attribute::short(phase1::LIFE_TYPE, life::SECONDS),
                    Attribute::short(phase1::LIFE_DURATION, 3_600),
                ],
            }],
        }],
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
