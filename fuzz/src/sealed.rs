//! Keys of IKEv2, derived without the engine's own code (RFC 7296 §2.14), AUTH of a shared key, and
//! messages under those keys.

use crypto::hash::{Digest, Hash};
use crypto::message::MessageKey;
use engine::suite::Ikev2Suite;
use wire::ikev2::transform::{self, key_exchange};
use wire::ikev2::{
    FragmentNumbers, Header, Message, PayloadKind, Proposal, Protocol, Spis, Transform,
    TransformType, payloads, sealed_frame,
};

use crate::secrets::SECRET;

/// The only suite of an IKE SA.
pub const SUITE: &str = "aes128gcm16-prfsha256-curve25519";
/// Octets of its prf, and so of AUTH.
pub const AUTH_LEN: usize = 32;
/// Octets of AUTH before its value: method and reserved (RFC 7296 §3.8).
const AUTH_HEAD: usize = 4;
const HASH: Hash = Hash::Sha256;
/// Octets of an AES-128 key with the salt of RFC 5282 §3.1.
const KEY_LEN: usize = 20;
const IV_LEN: usize = 8;

/// The keys of an IKE SA, as one end has them.
pub struct Keys {
    ours: MessageKey,
    theirs: MessageKey,
    p: Vec<u8>,
    next_iv: u64,
}

/// What AUTH of one end covers besides its identity.
pub struct Covered<'a> {
    /// Its message of IKE_SA_INIT.
    pub own: &'a [u8],
    /// The other's, if both ends have announced that it counts.
    pub other: Option<&'a [u8]>,
    /// The other's nonce.
    pub nonce: &'a [u8],
}

impl Keys {
    /// SKEYSEED and the keys derived from it. The initiator's nonce comes first.
    pub fn derive(is_initiator: bool, shared: &[u8], nonces: (&[u8], &[u8]), spis: Spis) -> Self {
        let nonces = [nonces.0, nonces.1].concat();
        let seed = HASH.hmac(&nonces, &[shared]);
        let info = [&nonces[..], &spis.initiator.0, &spis.responder.0].concat();
        let prf = HASH.len();
        let all = prf_plus(seed.as_ref(), &info, 3 * prf + 2 * KEY_LEN);
        // SK_d, then no SK_a: AEAD; SK_ei, SK_er, SK_pi, SK_pr.
        let (ei, rest) = all[prf..].split_at(KEY_LEN);
        let (er, rest) = rest.split_at(KEY_LEN);
        let (pi, pr) = rest.split_at(prf);
        let suite: Ikev2Suite = SUITE.parse().expect("a suite");
        let key = |octets| MessageKey::new(suite.protection, octets, &[]);
        let (ours, theirs, p) = match is_initiator {
            true => (ei, er, pi),
            false => (er, ei, pr),
        };
        Self {
            ours: key(ours),
            theirs: key(theirs),
            p: p.to_vec(),
            next_iv: 0,
        }
    }

    /// The first kind and the octets of the payloads within a message.
    pub fn open(&self, octets: &[u8], message: &Message) -> Option<(PayloadKind, Vec<u8>)> {
        let protected = message.protected.as_ref()?;
        let mut clear = octets.to_vec();
        let range = self.theirs.open(&mut clear, protected.sealed.start).ok()?;
        Some((protected.first, clear[range].to_vec()))
    }

    /// A message with these payloads, perhaps in two fragments, or with a wrong ICV.
    pub fn seal(
        &mut self,
        header: &Header,
        (first, chain): (PayloadKind, &[u8]),
        is_split: bool,
        is_wrong: bool,
    ) -> Vec<Vec<u8>> {
        let half = chain.len() / 2;
        let parts = match is_split && half > 0 {
            true => vec![(first, &chain[..half]), (PayloadKind::None, &chain[half..])],
            false => vec![(first, chain)],
        };
        let total = u16::try_from(parts.len()).expect("two");
        let mut all = Vec::new();
        for (number, (first, part)) in (1..).zip(parts) {
            let numbers = (total > 1).then_some(FragmentNumbers { number, total });
            let len = self.ours.sealed_len(part.len());
            let (mut message, start) = sealed_frame(header, first, numbers, len);
            let iv: [u8; IV_LEN] = self.next_iv.to_be_bytes();
            self.next_iv += 1;
            self.ours.seal(&mut message, start, &iv, part);
            if is_wrong {
                *message.last_mut().expect("an ICV") ^= 1;
            }
            all.push(message);
        }
        all
    }

    /// AUTH of the shared key (RFC 7296 §2.15, draft-ietf-ipsecme-ikev2-downgrade-prevention).
    fn auth(&self, covered: &Covered<'_>, id: &[u8]) -> Digest {
        let of_id = HASH.hmac(&self.p, &[id]);
        let key = HASH.hmac(SECRET, &[b"Key Pad for IKEv2"]);
        let before = match covered.other {
            Some(other) => [&[0; 8], other].concat(),
            None => Vec::new(),
        };
        let signed = [&before[..], covered.own, covered.nonce, of_id.as_ref()];
        HASH.hmac(key.as_ref(), &signed)
    }

    /// Whether the chain has AUTH of the shared key over the identity of this kind in it.
    pub fn is_right(
        &self,
        (first, chain): (PayloadKind, &[u8]),
        id: PayloadKind,
        covered: &Covered<'_>,
    ) -> bool {
        let found = payloads(first, chain).unwrap_or_default();
        let body = |kind| {
            let one = found.iter().find(|one| one.payload.kind() == kind)?;
            Some(&chain[one.body_range()])
        };
        let (Some(id), Some(auth)) = (body(id), body(PayloadKind::Authentication)) else {
            return false;
        };
        auth.get(AUTH_HEAD..) == Some(self.auth(covered, id).as_ref())
    }

    /// Writes AUTH where the chain has room for it, over the identity of this kind in the chain, or
    /// another one.
    pub fn make_right(
        &self,
        (first, chain): (PayloadKind, &mut [u8]),
        (kind, otherwise): (PayloadKind, &[u8]),
        covered: &Covered<'_>,
    ) {
        let Ok(found) = payloads(first, chain) else {
            return;
        };
        let mut all = found.iter();
        let id = all.find(|one| one.payload.kind() == kind);
        let id = id.map_or_else(
            || otherwise.to_vec(),
            |one| chain[one.body_range()].to_vec(),
        );
        let auth = self.auth(covered, &id);
        for one in &found {
            let is_auth = one.payload.kind() == PayloadKind::Authentication;
            let place = chain[one.body_range()].get_mut(AUTH_HEAD..);
            if let Some(place) = place
                && is_auth
                && place.len() == AUTH_LEN
            {
                place.copy_from_slice(auth.as_ref());
            }
        }
    }
}

/// The only offer of an IKE SA.
pub fn offer() -> Proposal {
    Proposal {
        number: 1,
        protocol: Protocol::Ike,
        spi: Vec::new(),
        transforms: vec![
            Transform::with_key_length(transform::encryption::AES_GCM_16, 128),
            Transform::new(TransformType::Prf, transform::prf::HMAC_SHA2_256),
            Transform::new(TransformType::KeyExchange, key_exchange::CURVE25519),
        ],
    }
}

/// prf+ (RFC 7296 §2.13).
fn prf_plus(key: &[u8], seed: &[u8], len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    let mut last = Vec::new();
    for number in 1..=u8::MAX {
        last = HASH.hmac(key, &[&last, seed, &[number]]).as_ref().to_vec();
        all.extend(&last);
        if all.len() >= len {
            break;
        }
    }
    all.truncate(len);
    all
}
