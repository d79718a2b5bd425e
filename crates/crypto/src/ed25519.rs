//! Ed25519 signatures (RFC 8032 §5.1), by aws-lc-rs.

use aws_lc_rs::signature::{self as lc, Ed25519KeyPair, KeyPair as _};
use zeroize::{ZeroizeOnDrop, Zeroizing};

use crate::rand::Stream;

/// Octets of a secret, from which the key is made.
pub const SECRET_LEN: usize = 32;
/// Octets of a public key.
pub const PUBLIC_LEN: usize = 32;
/// Octets of a signature.
pub const SIGNATURE_LEN: usize = 64;

/// A key pair. Its secret is wiped on drop, here and by aws-lc.
#[derive(ZeroizeOnDrop)]
pub struct SigningKey {
    secret: [u8; SECRET_LEN],
    #[zeroize(skip)]
    pair: Ed25519KeyPair,
}

/// A public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VerifyKey(pub [u8; PUBLIC_LEN]);

/// A signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature(pub [u8; SIGNATURE_LEN]);

/// The signature does not belong to the key and the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature does not belong to this key and message")]
pub struct BadSignature;

impl SigningKey {
    /// A fresh pair.
    pub fn generate(random: &mut Stream) -> Self {
        let mut secret = Zeroizing::new([0; SECRET_LEN]);
        random.fill(&mut secret[..]);
        Self::of(&secret)
    }

    /// The pair of a secret that was generated before.
    pub fn of(secret: &[u8; SECRET_LEN]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(secret).expect("a secret's length");
        Self {
            secret: *secret,
            pair,
        }
    }

    /// What [`Self::of`] takes.
    pub fn secret(&self) -> &[u8; SECRET_LEN] {
        &self.secret
    }

    /// The public half.
    pub fn public(&self) -> VerifyKey {
        let octets = self.pair.public_key().as_ref();
        VerifyKey(octets.try_into().expect("a public key's length"))
    }

    /// Signs the parts, one after the other.
    pub fn sign(&self, parts: &[&[u8]]) -> Signature {
        let signature = self.pair.sign(&parts.concat());
        Signature(signature.as_ref().try_into().expect("a signature's length"))
    }
}

/// The prime of the field, 2^255 - 19, little-endian.
const PRIME: [u8; PUBLIC_LEN] = {
    let mut octets = [0xff; PUBLIC_LEN];
    octets[0] = 0xed;
    octets[PUBLIC_LEN - 1] = 0x7f;
    octets
};

/// The least y of a point of order 8, little-endian. The other is its negative.
const OF_ORDER_8: [u8; PUBLIC_LEN] = [
    0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
    0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
];

impl VerifyKey {
    /// Whether a signature says anything about a secret: the point is written in its one form
    /// (RFC 8032 §5.1.3), and its order is not 8 or less. With a point of such an order everybody
    /// can make signatures that hold.
    pub fn is_sound(&self) -> bool {
        let mut y = self.0;
        y[PUBLIC_LEN - 1] &= 0x7f;
        let is_below = y.iter().rev().lt(PRIME.iter().rev());
        let mut one = [0; PUBLIC_LEN];
        one[0] = 1;
        // Orders 4, 1, 2, 8 and 8. A y has two points at most, so the sign does not matter.
        let low = [
            [0; PUBLIC_LEN],
            one,
            negative(&one),
            OF_ORDER_8,
            negative(&OF_ORDER_8),
        ];
        is_below && !low.contains(&y)
    }

    /// Checks a signature over the parts, one after the other. None holds if the key is not sound.
    pub fn verify(&self, parts: &[&[u8]], signature: &Signature) -> Result<(), BadSignature> {
        if !self.is_sound() {
            return Err(BadSignature);
        }
        lc::UnparsedPublicKey::new(&lc::ED25519, &self.0)
            .verify(&parts.concat(), &signature.0)
            .map_err(|_| BadSignature)
    }
}

/// The prime less a value below it that is not 0.
fn negative(value: &[u8; PUBLIC_LEN]) -> [u8; PUBLIC_LEN] {
    let mut borrowed = false;
    let mut octets = PRIME;
    for (octet, less) in octets.iter_mut().zip(value) {
        let (first, once) = octet.overflowing_sub(*less);
        let (left, twice) = first.overflowing_sub(u8::from(borrowed));
        (*octet, borrowed) = (left, once || twice);
    }
    octets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// RFC 8032 §7.1, tests 1 to 3: secret, public key, message, signature.
    const VECTORS: [[&str; 4]; 3] = [
        [
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bac\
             c61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ],
        [
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e\
             458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ],
        [
            "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290\
             ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        ],
    ];

    #[test]
    fn signatures_are_as_published() {
        for [secret, public, message, signature] in VECTORS {
            let key = SigningKey::of(&hex(secret).try_into().unwrap());
            assert_eq!(key.public().0[..], hex(public));
            let message = hex(message);
            let signed = key.sign(&[&message]);
            assert_eq!(signed.0[..], hex(signature));
            assert_eq!(key.public().verify(&[&message], &signed), Ok(()));
            let longer = key.public().verify(&[&message, b"x"], &signed);
            assert_eq!(longer, Err(BadSignature));
            for at in [0, 31, 32, 63] {
                let mut changed = signed;
                changed.0[at] ^= 1;
                assert_eq!(
                    key.public().verify(&[&message], &changed),
                    Err(BadSignature)
                );
            }
        }
    }

    /// Points of small order, and those that are not written in their one form: y at or above the
    /// prime.
    const WEAK: [&str; 12] = [
        "0100000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000080",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ];

    /// R is the base point and S is 1, so it holds for the neutral point and every message.
    #[test]
    fn nobody_signs_without_a_secret() {
        let base = "5866666666666666666666666666666666666666666666666666666666666666";
        let one = "0100000000000000000000000000000000000000000000000000000000000000";
        let forged = Signature(hex(&format!("{base}{one}")).try_into().unwrap());
        for text in WEAK {
            let key = VerifyKey(hex(text).try_into().unwrap());
            assert!(!key.is_sound(), "{text}");
            assert_eq!(key.verify(&[b"anything"], &forged), Err(BadSignature));
        }
        // aws-lc itself takes it.
        let neutral = lc::UnparsedPublicKey::new(&lc::ED25519, hex(WEAK[0]));
        assert!(neutral.verify(b"anything", &forged.0).is_ok());
        for number in 0..64 {
            assert!(SigningKey::of(&[number; SECRET_LEN]).public().is_sound());
        }
    }
}
