//! Phase 1 of a gateway that holds keys, independent of the engine's own exchanges: it derives the
//! keys itself (RFC 2409 §5, appendix B) and answers with any payloads of an input, encrypted or
//! not.
//!
//! It trusts what it receives, and repeats nothing.

use crypto::dh::{Group, KeyPair};
use crypto::hash::{Digest, Hash};
use crypto::rand::Seed;
use engine::config::IdentityPattern;
use engine::identity::{Identity, Peer};
use engine::ike::Role;
use engine::ikev1::protect::Iv;
use engine::ikev1::{IsakmpSa, NatFinding, PeerSupport};
use engine::sa::{Path, Secret};
use engine::time::Instant;
use wire::isakmp::{Cookie, Cookies, Flags, Header, Payload, PayloadKind, payloads};

use crate::phase_2::{CIPHER, last_block, seal};
use crate::script::Sealed;
use crate::secrets::{SECRET, SUITE, pki, sign_bare};

const HASH: Hash = Hash::Sha1;
const GROUP: Group = Group::Modp768;

/// Its knowledge of the client's latest exchange.
pub struct Hostile {
    is_aggressive: bool,
    is_signed: bool,
    pair: KeyPair,
    nonce: Vec<u8>,
    cookie: Cookie,
    heard: Option<Heard>,
}

/// A client's phase 1.
struct Heard {
    header: Header,
    offer: Vec<u8>,
    public: Vec<u8>,
    nonce: Vec<u8>,
    /// The IV of its latest encrypted message.
    last_iv: Option<Vec<u8>>,
}

/// The result of phase 1.
struct Keys {
    skeyid: Digest,
    d: Digest,
    a: Digest,
    e: Digest,
}

impl Hostile {
    /// An idle gateway, number `number` of its input.
    pub fn new(number: u8, (is_aggressive, is_signed): (bool, bool)) -> Self {
        let mut random = Seed::new([0x70 + number; 32]).stream("hostile", 0);
        let pair = KeyPair::generate(GROUP, &mut random);
        let mut nonce = vec![0; 16];
        random.fill(&mut nonce);
        let mut cookie = [0xc0 | number; 8];
        random.fill(&mut cookie[1..]);
        Self {
            is_aggressive,
            is_signed,
            pair,
            nonce,
            cookie: Cookie(cookie),
            heard: None,
        }
    }

    /// A whole message of a client's phase 1.
    pub fn hear(&mut self, header: &Header, message: &[u8]) {
        if header.flags.is_encrypted() {
            if let Some(heard) = &mut self.heard {
                heard.last_iv = Some(last_block(message));
            }
            return;
        }
        let Ok((_, body)) = Header::parse(message) else {
            return;
        };
        if header.cookies.responder == Cookie::ZERO {
            self.heard = Some(Heard {
                header: *header,
                offer: Vec::new(),
                public: Vec::new(),
                nonce: Vec::new(),
                last_iv: None,
            });
        }
        let Some(heard) = &mut self.heard else {
            return;
        };
        for found in payloads(header.next_payload, body).unwrap_or_default() {
            match found.payload {
                Payload::Sa(_) => heard.offer = body[found.body_range()].to_vec(),
                Payload::KeyExchange(public) => heard.public = public,
                Payload::Nonce(nonce) => heard.nonce = nonce,
                _ => {}
            }
        }
    }

    /// An answer with these payloads, encrypted if the client's messages are. Unless bit 0 of the
    /// flags is set, the gateway corrects the payloads: the client's offer, the public value, the
    /// nonce, hash and signature. Also returns the ISAKMP SA that an honest client then has.
    pub fn answer(&self, path: Path, said: &Sealed) -> Option<(Vec<u8>, Option<IsakmpSa>)> {
        let heard = self.heard.as_ref()?;
        let keys = self.keys(heard);
        let kind = PayloadKind::from(said.first);
        let mut body = said.chain.to_vec();
        let is_right = said.flags & 1 == 0;
        if is_right {
            self.make_right(heard, keys.as_ref(), kind, &mut body);
        }
        let header = Header {
            cookies: self.cookies(heard),
            next_payload: kind,
            exchange: heard.header.exchange,
            flags: Flags::default(),
            message_id: 0,
        };
        let sa = keys.map(|keys| self.sa(heard, &keys, path));
        let message = match (&heard.last_iv, &sa) {
            (Some(iv), Some(sa)) => seal(sa, header, &Iv::truncated(CIPHER, iv), body)?,
            _ => header.write(&body),
        };
        let is_last = is_right && (heard.last_iv.is_some() || self.is_aggressive);
        let sa = sa.filter(|_| is_last).map(|mut sa| {
            // Phase 2 continues from the last block: in main mode that of our message.
            if heard.last_iv.is_some() {
                sa.last_iv = last_block(&message);
            }
            sa
        });
        Some((message, sa))
    }

    fn cookies(&self, heard: &Heard) -> Cookies {
        Cookies {
            initiator: heard.header.cookies.initiator,
            responder: self.cookie,
        }
    }

    fn keys(&self, heard: &Heard) -> Option<Keys> {
        let shared = self.pair.agree(&heard.public).ok()?;
        let shared = shared.as_ref();
        let skeyid = match self.is_signed {
            true => HASH.hmac(&[&heard.nonce[..], &self.nonce].concat(), &[shared]),
            false => HASH.hmac(SECRET, &[&heard.nonce, &self.nonce]),
        };
        let cookies = self.cookies(heard);
        let (i, r) = (&cookies.initiator.0, &cookies.responder.0);
        let key = skeyid.as_ref();
        let d = HASH.hmac(key, &[shared, i, r, &[0]]);
        let a = HASH.hmac(key, &[d.as_ref(), shared, i, r, &[1]]);
        let e = HASH.hmac(key, &[a.as_ref(), shared, i, r, &[2]]);
        Some(Keys { skeyid, d, a, e })
    }

    fn sa(&self, heard: &Heard, keys: &Keys, path: Path) -> IsakmpSa {
        IsakmpSa {
            cookies: self.cookies(heard),
            role: Role::Responder,
            suite: SUITE.parse().expect("a suite"),
            skeyid_d: Secret(keys.d.as_ref().to_vec()),
            skeyid_a: Secret(keys.a.as_ref().to_vec()),
            cipher_key: Secret(keys.e.as_ref()[..CIPHER.key_len()].to_vec()),
            last_iv: vec![0; CIPHER.block_len()],
            nat: NatFinding::default(),
            peer: PeerSupport::default(),
            identity: Peer::of_preshared_key(
                "fuzz",
                &Identity::parse("station@example").expect("an identity"),
                &[IdentityPattern::Any],
            ),
            certificate: None,
            is_initial_contact: false,
            path,
            since: Instant(0),
            lifetime_s: 3_600,
        }
    }

    fn make_right(
        &self,
        heard: &Heard,
        keys: Option<&Keys>,
        first: PayloadKind,
        chain: &mut [u8],
    ) -> Option<()> {
        let found = payloads(first, chain).ok()?;
        let is_id = |kind: PayloadKind| kind == PayloadKind::Identification;
        let id = found.iter().find(|found| is_id(found.payload.kind()));
        let id = id.map_or_else(Vec::new, |found| chain[found.body_range()].to_vec());
        let cookies = self.cookies(heard);
        let parts: [&[u8]; 6] = [
            self.pair.public(),
            &heard.public,
            &cookies.responder.0,
            &cookies.initiator.0,
            &heard.offer,
            &id,
        ];
        let proof = keys.map(|keys| HASH.hmac(keys.skeyid.as_ref(), &parts));
        for found in found {
            let right = match (found.payload.kind(), &proof) {
                (PayloadKind::Sa, _) => heard.offer.clone(),
                (PayloadKind::KeyExchange, _) => self.pair.public().to_vec(),
                (PayloadKind::Nonce, _) => self.nonce.clone(),
                (PayloadKind::Hash, Some(proof)) => proof.as_ref().to_vec(),
                (PayloadKind::Signature, Some(proof)) => {
                    sign_bare(&pki().gateway.0, proof.as_ref())
                }
                _ => continue,
            };
            let place = &mut chain[found.body_range()];
            if place.len() == right.len() {
                place.copy_from_slice(&right);
            }
        }
        Some(())
    }
}
