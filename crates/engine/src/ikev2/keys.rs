//! Keys of an IKE SA and of its children (RFC 7296 §2.13, §2.14, §2.17, §2.18).

use crypto::hash::{Digest, Hash, HmacKey, expand};
use crypto::packet::{Encryption, Protection};
use zeroize::Zeroizing;

use crate::ike::{Fault, Role, Spis};
use crate::sa::Secret;
use crate::suite::Ikev2Suite;
use crate::work::{Task, Work};

/// RFC 5723 §5.1.
const RESUMPTION: &[u8] = b"Resumption";

/// SKEYSEED, wiped on drop.
pub(super) struct Seed(Digest);

/// The keys of an IKE SA.
pub(super) struct Keys {
    /// SK_d: the source of children's keys.
    pub(super) d: Secret,
    /// SK_ai and SK_ei: of the initiator's messages; encryption first.
    pub(super) initiator: (Secret, Secret),
    /// SK_ar and SK_er: of the responder's messages; encryption first.
    pub(super) responder: (Secret, Secret),
    /// SK_pi and SK_pr: what AUTH binds identities with.
    pub(super) p: (Secret, Secret),
}

/// Both nonces of an exchange.
#[derive(Clone, Copy)]
pub(super) struct Nonces<'a> {
    pub(super) initiator: &'a [u8],
    pub(super) responder: &'a [u8],
}

impl<'a> Nonces<'a> {
    /// The initiator's first.
    pub(super) fn of<T: AsRef<[u8]>>((initiator, responder): &'a (T, T)) -> Self {
        Self {
            initiator: initiator.as_ref(),
            responder: responder.as_ref(),
        }
    }

    fn joined(self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([self.initiator, self.responder].concat())
    }

    /// The secrets of key exchanges with the nonces after the first: SK(0) | Ni | Nr | SK(1) ..
    fn between(self, secrets: &[&[u8]]) -> Zeroizing<Vec<u8>> {
        let joined = self.joined();
        let (first, more) = match secrets {
            [first, more @ ..] => (*first, more),
            [] => (&[][..], &[][..]),
        };
        let mut all = vec![first, &joined[..]];
        all.extend(more);
        Zeroizing::new(all.concat())
    }

    /// The lower of both, octet by octet (RFC 7296 §2.8.1).
    pub(super) fn lowest(self) -> Vec<u8> {
        self.initiator.min(self.responder).to_vec()
    }
}

impl Seed {
    /// Of a first IKE SA: prf(Ni | Nr, g^ir).
    pub(super) fn first(prf: Hash, nonces: Nonces<'_>, shared: &[u8], work: &mut Work) -> Self {
        work.count(Task::Prf(prf), shared.len() as u64);
        Self(prf.hmac(&nonces.joined(), &[shared]))
    }

    /// Of an IKE SA that another one made, or of the same one after one more key exchange: prf(SK_d
    /// (old), SK(0) | Ni | Nr | SK(1) ..), with the old one's prf (RFC 7296 §2.18, RFC 9370 §2.2.2,
    /// §2.2.4). `secrets`: of the key exchanges, in order.
    pub(super) fn rekeyed(
        old: (Hash, &Secret),
        nonces: Nonces<'_>,
        secrets: &[&[u8]],
        work: &mut Work,
    ) -> Self {
        let (prf, d) = old;
        let material = nonces.between(secrets);
        work.count(Task::Prf(prf), material.len() as u64);
        Self(prf.hmac(&d.0, &[&material]))
    }

    /// Of an IKE SA that goes on from a lost one: prf(SK_d (old), "Resumption" | Ni | Nr) (RFC 5723
    /// §5.1).
    pub(super) fn resumed(old: (Hash, &Secret), nonces: Nonces<'_>, work: &mut Work) -> Self {
        let (prf, d) = old;
        let joined = nonces.joined();
        work.count(Task::Prf(prf), (RESUMPTION.len() + joined.len()) as u64);
        Self(prf.hmac(&d.0, &[RESUMPTION, &joined]))
    }

    /// Of the same IKE SA once a post-quantum pre-shared key is in it: prf+(PPK, SK_d), of which
    /// one block is enough (RFC 9867 §3.1).
    pub(super) fn with_ppk((prf, d): (Hash, &Secret), ppk: &Secret, work: &mut Work) -> Self {
        work.count(Task::Prf(prf), d.0.len() as u64 + 1);
        Self(prf.hmac(&ppk.0, &[&d.0, &[1]]))
    }
}

impl Keys {
    /// {SK_d | SK_ai | SK_ar | SK_ei | SK_er | SK_pi | SK_pr}.
    pub(super) fn derive(
        suite: Ikev2Suite,
        seed: &Seed,
        nonces: Nonces<'_>,
        spis: Spis,
        work: &mut Work,
    ) -> Result<Self, Fault> {
        let prf = suite.prf.len();
        let encryption = suite.protection.encryption_key_len();
        let integrity = suite.protection.integrity_key_len();
        let joined = nonces.joined();
        let info = [&joined[..], &spis.initiator.0, &spis.responder.0].concat();
        let len = 3 * prf + 2 * (encryption + integrity);
        let all = prf_plus(suite.prf, seed.0.as_ref(), &info, len, work);
        let mut rest = &all[..];
        let mut take = |len: usize| {
            let (front, back) = rest.split_at(len);
            rest = back;
            Secret(front.to_vec())
        };
        let d = take(prf);
        let (ai, ar) = (take(integrity), take(integrity));
        let (ei, er) = (take(encryption), take(encryption));
        let p = (take(prf), take(prf));
        check_strength(suite.protection, &ei)?;
        check_strength(suite.protection, &er)?;
        Ok(Self {
            d,
            initiator: (ei, ai),
            responder: (er, ar),
            p,
        })
    }

    /// The keys of messages that this end sends.
    pub(super) fn of(&self, sender: Role) -> &(Secret, Secret) {
        match sender {
            Role::Initiator => &self.initiator,
            Role::Responder => &self.responder,
        }
    }
}

/// The keys of a child, of what its initiator sends and what its responder sends: KEYMAT =
/// prf+(SK_d, [SK(0) |] Ni | Nr [| SK(1) ..]). Encryption first, then integrity. `secrets`: of its
/// own key exchanges, in order.
pub(super) fn of_child(
    (prf, d): (Hash, &Secret),
    protection: Protection,
    secrets: &[&[u8]],
    nonces: Nonces<'_>,
    work: &mut Work,
) -> Result<[(Secret, Secret); 2], Fault> {
    let encryption = protection.encryption_key_len();
    let integrity = protection.integrity_key_len();
    let info = nonces.between(secrets);
    let len = 2 * (encryption + integrity);
    let all = prf_plus(prf, &d.0, &info, len, work);
    let (first, second) = all.split_at(encryption + integrity);
    let pair = |half: &[u8]| {
        let (encryption, integrity) = half.split_at(encryption);
        (Secret(encryption.to_vec()), Secret(integrity.to_vec()))
    };
    let keys = [pair(first), pair(second)];
    for (encryption, _) in &keys {
        check_strength(protection, encryption)?;
    }
    Ok(keys)
}

/// SK_d, SK_pi or SK_pr with a post-quantum pre-shared key in it: prf+(PPK, SK) (RFC 8784 §3).
pub(super) fn with_ppk(prf: Hash, ppk: &Secret, key: &Secret, work: &mut Work) -> Secret {
    let mixed = prf_plus(prf, &ppk.0, &key.0, prf.len(), work);
    Secret(mixed.to_vec())
}

/// prf+ (RFC 7296 §2.13): T1 = prf(K, S | 0x01), T2 = prf(K, T1 | S | 0x02), and so on. It is the
/// second half of HKDF (RFC 5869 §2.3).
fn prf_plus(prf: Hash, key: &[u8], seed: &[u8], len: usize, work: &mut Work) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(vec![0; len]);
    expand(&HmacKey::new(prf, key), &[seed], &mut out);
    let blocks = len.div_ceil(prf.len());
    let bytes = blocks * (seed.len() + prf.len() + 1);
    work.add(Task::Prf(prf), blocks as u64, bytes as u64);
    out
}

/// Refuses DES's weak keys, and triple DES that equals single DES.
fn check_strength(protection: Protection, key: &Secret) -> Result<(), Fault> {
    match protection.encryption {
        Encryption::Cbc(cipher) if cipher.is_weak_key(&key.0) => {
            Err(Fault::Misbehaved("the agreed key is weak".into()))
        }
        _ => Ok(()),
    }
}
