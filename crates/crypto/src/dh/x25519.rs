//! X25519, the function on Curve25519 (RFC 7748 §5, §6.1).

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use zeroize::Zeroizing;

use super::SharedSecret;
use crate::rand::Stream;

/// Octets of scalars, public values and shared values.
pub(crate) const LEN: usize = 32;

/// A secret scalar; aws-lc wipes it when it frees it.
pub(crate) struct Scalar(PrivateKey);

impl Scalar {
    pub(crate) fn generate(random: &mut Stream) -> Self {
        let mut octets = Zeroizing::new([0; LEN]);
        random.fill(&mut octets[..]);
        Self::new(&octets)
    }

    /// Takes any octets: X25519 itself sets and clears the bits of a scalar.
    pub(crate) fn new(octets: &[u8; LEN]) -> Self {
        Self(PrivateKey::from_private_key(&X25519, octets).expect("a scalar's length"))
    }

    pub(crate) fn public(&self) -> Vec<u8> {
        let public = self.0.compute_public_key().expect("memory");
        public.as_ref().to_vec()
    }

    /// `None` if the shared value is zero, which depends on no scalar (RFC 7748 §6.1).
    pub(crate) fn agree(&self, peer: &[u8]) -> Option<SharedSecret> {
        let peer = UnparsedPublicKey::new(&X25519, peer);
        let copied = |shared: &[u8]| Ok(SharedSecret(shared.to_vec()));
        agree(&self.0, peer, (), copied).ok()
    }
}

/// Whether a public value of 32 octets is of low order, on the curve or its twist: every shared
/// value would be zero. The top bit does not count (RFC 7748 §5).
pub(crate) fn is_of_low_order(value: &[u8]) -> bool {
    let Some((last, front)) = value.split_last() else {
        return false;
    };
    LOW_ORDER
        .iter()
        .any(|point| front == &point[..LEN - 1] && last & 0x7f == point[LEN - 1])
}

/// The number close below 2^255 with this lowest octet, little-endian. p ends in 0xed.
const fn below_2_to_255(first: u8) -> [u8; LEN] {
    let mut point = [0xff; LEN];
    point[0] = first;
    point[LEN - 1] = 0x7f;
    point
}

/// 0, 1, the two of order 8, p - 1, and 0 and 1 again as p and p + 1.
const LOW_ORDER: [[u8; LEN]; 7] = [
    [0; LEN],
    {
        let mut one = [0; LEN];
        one[0] = 1;
        one
    },
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4,
        0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49,
        0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef,
        0x5b, 0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f,
        0x11, 0x57,
    ],
    below_2_to_255(0xec),
    below_2_to_255(0xed),
    below_2_to_255(0xee),
];
