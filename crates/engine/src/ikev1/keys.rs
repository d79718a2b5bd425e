//! Keys of phase 1 and KEYMAT of phase 2 (RFC 2409 §5, §5.5, appendix B). Phase 1 skips weak DES
//! keys. A triple DES key that equals single DES, and any weak key of phase 2, ends the exchange.

use crypto::cipher::Cipher;
use crypto::hash::{Digest, Hash};
use wire::isakmp::Cookies;
use zeroize::Zeroize;

use super::IsakmpSa;
use crate::ike::{Fault, Refusal};
use crate::sa::{Protocol, Secret};
use crate::suite::IkeSuite;
use crate::work::{Task, Work};

/// SKEYID and what is derived from it.
pub(super) struct Keys {
    /// Keys HASH_I and HASH_R.
    pub(super) skeyid: Secret,
    pub(super) skeyid_d: Secret,
    pub(super) skeyid_a: Secret,
    pub(super) cipher_key: Secret,
}

/// SKEYID with signatures: prf(Ni_b | Nr_b, g^xy) (RFC 2409 §5).
pub(super) fn skeyid_signatures(hash: Hash, ni: &[u8], nr: &[u8], shared: &[u8]) -> Digest {
    let mut key = [ni, nr].concat();
    let digest = hash.hmac(&key, &[shared]);
    key.zeroize();
    digest
}

/// SKEYID with a pre-shared key: prf(pre-shared-key, Ni_b | Nr_b) (RFC 2409 §5).
pub(super) fn skeyid_preshared(hash: Hash, psk: &Secret, ni: &[u8], nr: &[u8]) -> Digest {
    hash.hmac(&psk.0, &[ni, nr])
}

impl Keys {
    /// SKEYID_d, SKEYID_a and the cipher key from SKEYID, g^xy and the cookies.
    pub(super) fn derive(
        suite: IkeSuite,
        skeyid: &Digest,
        shared: &[u8],
        cookies: Cookies,
        work: &mut Work,
    ) -> Self {
        let (cky_i, cky_r) = (&cookies.initiator.0, &cookies.responder.0);
        let mut step = |before: &[u8], number: u8| {
            let bytes = before.len() + shared.len() + 17;
            work.count(Task::Prf(suite.hash), bytes as u64);
            let parts = [before, shared, cky_i, cky_r, &[number]];
            suite.hash.hmac(skeyid.as_ref(), &parts)
        };
        let d = step(&[], 0);
        let a = step(d.as_ref(), 1);
        let e = step(a.as_ref(), 2);
        Self {
            skeyid: Secret(skeyid.as_ref().to_vec()),
            skeyid_d: Secret(d.as_ref().to_vec()),
            skeyid_a: Secret(a.as_ref().to_vec()),
            cipher_key: cipher_key(suite.hash, suite.cipher, e.as_ref()),
        }
    }
}

/// The first octets of SKEYID_e, extended if it is too short. For DES, the first eight that are not
/// a weak key (RFC 2409 appendix B).
fn cipher_key(hash: Hash, cipher: Cipher, skeyid_e: &[u8]) -> Secret {
    let len = cipher.key_len();
    if cipher == Cipher::Des
        && let Some(key) = skeyid_e
            .chunks_exact(len)
            .find(|key| !cipher.is_weak_key(key))
    {
        return Secret(key.to_vec());
    }
    if skeyid_e.len() >= len {
        return Secret(skeyid_e[..len].to_vec());
    }
    stretch(len, |last| match last {
        None => hash.hmac(skeyid_e, &[&[0]]),
        Some(block) => hash.hmac(skeyid_e, &[block]),
    })
}

/// KEYMAT of one IPsec SA (RFC 2409 §5.5): `len` octets from SKEYID_d, the shared value of quick
/// mode's own key exchange if there was one, protocol, the SPI of the receiver, and both nonces
/// without their generic headers.
pub fn keymat(
    sa: &IsakmpSa,
    g_qm_xy: Option<&[u8]>,
    protocol: Protocol,
    spi: u32,
    ni: &[u8],
    nr: &[u8],
    len: usize,
) -> Secret {
    let number = [match protocol {
        Protocol::Ah => 2,
        Protocol::Esp => 3,
    }];
    let shared = g_qm_xy.unwrap_or_default();
    let spi = spi.to_be_bytes();
    stretch(len, |last| {
        let parts = [last.unwrap_or_default(), shared, &number, &spi, ni, nr];
        sa.suite.hash.hmac(&sa.skeyid_d.0, &parts)
    })
}

/// Chained blocks until there are `len` octets.
fn stretch(len: usize, block: impl Fn(Option<&[u8]>) -> Digest) -> Secret {
    let mut octets = Vec::with_capacity(len.next_multiple_of(64) + 64);
    let mut last: Option<Digest> = None;
    while octets.len() < len {
        let next = block(last.as_ref().map(AsRef::as_ref));
        octets.extend_from_slice(next.as_ref());
        last = Some(next);
    }
    octets[len..].zeroize();
    octets.truncate(len);
    Secret(octets)
}

/// Refuses a weak key: the exchange must be repeated (RFC 2405 §3, RFC 2451 §2.3).
pub(super) fn check_strength(cipher: Cipher, key: &Secret) -> Result<(), Fault> {
    if !cipher.is_weak_key(&key.0) {
        return Ok(());
    }
    Err(Fault::Incompatible {
        what: "the key that came out of the exchange is a weak one of its cipher".into(),
        refusal: Refusal::Proposal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parity does not count: the first of appendix A's list, and a semi-weak one.
    const WEAK: [[u8; 8]; 2] = [[0; 8], [1, 0xfe, 1, 0xfe, 1, 0xfe, 1, 0xfe]];

    /// Freed memory cannot be inspected, but the types guarantee it.
    #[test]
    fn what_keys_are_made_of_is_wiped_when_it_is_dropped() {
        fn is_wiped<T: zeroize::ZeroizeOnDrop>() {}
        is_wiped::<crypto::rand::Seed>();
        is_wiped::<crypto::dh::SharedSecret>();
        is_wiped::<Digest>();
        is_wiped::<Secret>();
        is_wiped::<zeroize::Zeroizing<Vec<u8>>>();
    }

    #[test]
    fn phase_1_passes_over_weak_des_keys() {
        let good = [7, 1, 2, 3, 4, 5, 6, 7];
        for skeyid_e in [
            [good, WEAK[0]].concat(),
            [WEAK[0], good].concat(),
            [WEAK[1], WEAK[0], good].concat(),
        ] {
            assert_eq!(cipher_key(Hash::Md5, Cipher::Des, &skeyid_e).0, good);
        }
        let whole = [WEAK[0], good, good].concat();
        let triple = cipher_key(Hash::Sha1, Cipher::TripleDes, &whole);
        assert_eq!(triple.0, whole);
        assert!(check_strength(Cipher::TripleDes, &triple).is_err());
    }

    #[test]
    fn a_weak_key_ends_the_exchange_and_others_do_not() {
        for weak in WEAK {
            let fault = check_strength(Cipher::Des, &Secret(weak.to_vec()));
            assert!(fault.unwrap_err().to_string().contains("weak"));
        }
        assert!(check_strength(Cipher::Des, &Secret((1..9).collect())).is_ok());
        assert!(check_strength(Cipher::Aes128, &Secret(vec![0; 16])).is_ok());
    }
}
