//! The nonces of ECDSA, made of key and message (RFC 6979 §3.2). One nonce for two messages would
//! reveal the key; here no source of randomness can repeat one.

use zeroize::Zeroizing;

use crate::curve::Curve;
use crate::hash::{Digest, Hash, HmacKey};
use crate::sys;

/// Candidates for one signature.
pub(super) struct Nonces {
    curve: Curve,
    hash: Hash,
    key: HmacKey,
    value: Zeroizing<Vec<u8>>,
}

impl Nonces {
    /// `scalar` and `order` are as long as the curve's scalars.
    pub(super) fn new(
        hash: Hash,
        curve: Curve,
        order: &[u8],
        scalar: &[u8],
        digest: &[u8],
    ) -> Self {
        let digest = reduced(curve, order, digest);
        let mut key = HmacKey::new(hash, &vec![0; hash.len()]);
        let mut value = Zeroizing::new(vec![1; hash.len()]);
        for step in [0, 1] {
            let next = key.sign(&[&value, &[step], scalar, &digest]);
            key = HmacKey::new(hash, next.as_ref());
            value = octets_of(&key.sign(&[&value]));
        }
        Self {
            curve,
            hash,
            key,
            value,
        }
    }

    /// The next candidate: as long as a scalar, but maybe zero, the order or more.
    pub(super) fn draw(&mut self) -> Zeroizing<Vec<u8>> {
        let len = self.curve.len();
        let mut octets = Zeroizing::new(Vec::with_capacity(len + self.hash.len()));
        while octets.len() < len {
            self.value = octets_of(&self.key.sign(&[&self.value]));
            octets.extend_from_slice(&self.value);
        }
        octets.truncate(len);
        shift(&mut octets, 8 * len as u32 - self.curve.bits());
        let next = self.key.sign(&[&self.value, &[0]]);
        self.key = HmacKey::new(self.hash, next.as_ref());
        self.value = octets_of(&self.key.sign(&[&self.value]));
        octets
    }
}

fn octets_of(digest: &Digest) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(digest.as_ref().to_vec())
}

/// `bits2octets` of RFC 6979 §2.3.4. No digest is longer than the scalars of P-521, so only whole
/// octets are cut off.
fn reduced(curve: Curve, order: &[u8], digest: &[u8]) -> Vec<u8> {
    let mut out = vec![0; curve.len()];
    let front = &digest[..digest.len().min(curve.len())];
    sys::add(front, &[], order, &mut out);
    out
}

/// Shifts a number to the right by less than 8 bits.
fn shift(octets: &mut [u8], bits: u32) {
    if bits == 0 {
        return;
    }
    let mut carried = 0;
    for octet in octets {
        let next = *octet << (8 - bits);
        *octet = *octet >> bits | carried;
        carried = next;
    }
}
