//! ML-DSA (FIPS 204): signatures that no quantum computer is known to forge. Pure and with an empty
//! context, as certificates (RFC 9881) and IKEv2 (draft-ietf-ipsecme-ikev2-pqc-auth) have them.
//!
//! Left out: HashML-DSA, which both documents forbid, contexts, and signatures of a digest that was
//! made elsewhere.

use aws_lc_rs::encoding::AsRawBytes;
use aws_lc_rs::signature::{
    KeyPair, ML_DSA_44, ML_DSA_44_SIGNING, ML_DSA_65, ML_DSA_65_SIGNING, ML_DSA_87,
    ML_DSA_87_SIGNING, PqdsaKeyPair, PqdsaSigningAlgorithm, PqdsaVerificationAlgorithm,
    UnparsedPublicKey,
};
use zeroize::Zeroizing;

use crate::sys::ml_dsa_sign;

/// Octets of the seed of a key pair (FIPS 204 §5.1).
pub const SEED_LEN: usize = 32;
/// Octets of the randomness of a signature (FIPS 204 §3.4).
pub const RANDOM_LEN: usize = 32;
/// 2.16.840.1.101.3.4.3, in which each parameter set has a number (RFC 9881 §2).
const OID: [u8; 8] = [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03];

/// The parameter sets (FIPS 204 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MlDsa {
    /// ML-DSA-44, as hard as finding a collision of SHA-256.
    Set44,
    /// ML-DSA-65, as hard as finding a key of AES-192.
    Set65,
    /// ML-DSA-87, as hard as finding a key of AES-256.
    Set87,
}

/// A private key; wiped on drop.
pub struct SigningKey {
    set: MlDsa,
    expanded: Zeroizing<Vec<u8>>,
    public: VerifyKey,
}

/// A public key.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyKey {
    set: MlDsa,
    octets: Vec<u8>,
}

impl MlDsa {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Set44, Self::Set65, Self::Set87];

    /// "ML-DSA-65".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Set44 => "ML-DSA-44",
            Self::Set65 => "ML-DSA-65",
            Self::Set87 => "ML-DSA-87",
        }
    }

    /// "ml-dsa-65".
    pub const fn word(self) -> &'static str {
        match self {
            Self::Set44 => "ml-dsa-44",
            Self::Set65 => "ml-dsa-65",
            Self::Set87 => "ml-dsa-87",
        }
    }

    /// Octets of a public key.
    pub const fn public_len(self) -> usize {
        match self {
            Self::Set44 => 1312,
            Self::Set65 => 1952,
            Self::Set87 => 2592,
        }
    }

    /// Octets of a private key that is not a seed.
    pub(crate) const fn expanded_len(self) -> usize {
        match self {
            Self::Set44 => 2560,
            Self::Set65 => 4032,
            Self::Set87 => 4896,
        }
    }

    /// Octets of a signature.
    pub const fn signature_len(self) -> usize {
        match self {
            Self::Set44 => 2420,
            Self::Set65 => 3309,
            Self::Set87 => 4627,
        }
    }

    /// Its last number in [`OID`].
    const fn number(self) -> u8 {
        match self {
            Self::Set44 => 17,
            Self::Set65 => 18,
            Self::Set87 => 19,
        }
    }

    /// The numbers of its object identifier (RFC 9881 §2).
    pub(crate) const fn oid(self) -> [u64; 9] {
        [2, 16, 840, 1, 101, 3, 4, 3, self.number() as u64]
    }

    /// Its AlgorithmIdentifier, DER: without parameters (RFC 9881 §2).
    pub(crate) fn algorithm_identifier(self) -> Vec<u8> {
        let mut all = vec![0x30, 11, 0x06, 9];
        all.extend(OID);
        all.push(self.number());
        all
    }

    /// A SubjectPublicKeyInfo up to the key (RFC 9881 §4).
    fn info_front(self) -> Vec<u8> {
        let identifier = self.algorithm_identifier();
        let bits = 1 + self.public_len() as u16;
        let whole = identifier.len() as u16 + 4 + bits;
        let (whole, bits) = (whole.to_be_bytes(), bits.to_be_bytes());
        let front = [0x30, 0x82, whole[0], whole[1]];
        let string = [0x03, 0x82, bits[0], bits[1], 0];
        [&front[..], &identifier, &string].concat()
    }

    const fn signing(self) -> &'static PqdsaSigningAlgorithm {
        match self {
            Self::Set44 => &ML_DSA_44_SIGNING,
            Self::Set65 => &ML_DSA_65_SIGNING,
            Self::Set87 => &ML_DSA_87_SIGNING,
        }
    }

    const fn verification(self) -> &'static PqdsaVerificationAlgorithm {
        match self {
            Self::Set44 => &ML_DSA_44,
            Self::Set65 => &ML_DSA_65,
            Self::Set87 => &ML_DSA_87,
        }
    }
}

impl SigningKey {
    /// The key of a seed.
    pub fn of_seed(set: MlDsa, seed: &[u8; SEED_LEN]) -> Self {
        let pair = PqdsaKeyPair::from_seed(set.signing(), seed).expect("a seed of 32 octets");
        Self::of_pair(set, &pair).expect("a key that was just made")
    }

    /// Reads PKCS #8 with a seed, an expanded key, or both, which then must belong together
    /// (RFC 9881 §6). `None` for anything else.
    pub fn from_pkcs8(der: &[u8]) -> Option<Self> {
        if !is_one_sequence(der) {
            return None;
        }
        MlDsa::ALL.into_iter().find_map(|set| {
            let pair = PqdsaKeyPair::from_pkcs8(set.signing(), der).ok()?;
            Self::of_pair(set, &pair)
        })
    }

    fn of_pair(set: MlDsa, pair: &PqdsaKeyPair) -> Option<Self> {
        let expanded = pair.private_key().as_raw_bytes().ok()?;
        let public = pair.public_key().as_ref().to_vec();
        Some(Self {
            set,
            expanded: Zeroizing::new(expanded.as_ref().to_vec()),
            public: VerifyKey {
                set,
                octets: public,
            },
        })
    }

    /// Its parameter set.
    pub const fn set(&self) -> MlDsa {
        self.set
    }

    /// The public half.
    pub const fn public(&self) -> &VerifyKey {
        &self.public
    }

    /// Signs the parts, one after the other. Fresh randomness hedges the signature against faults
    /// of the computer; zeros make it depend on key and message alone (FIPS 204 §3.4).
    pub fn sign(&self, parts: &[&[u8]], random: &[u8; RANDOM_LEN]) -> Vec<u8> {
        let message = parts.concat();
        ml_dsa_sign(self.set, &self.expanded, &message, random).expect("a key of its set")
    }
}

/// Whether a SEQUENCE is all there is: aws-lc-rs skips what follows it.
fn is_one_sequence(der: &[u8]) -> bool {
    let len = match *der {
        [0x30, len @ ..0x80, ..] => 2 + usize::from(len),
        [0x30, 0x82, high, low, ..] => 4 + usize::from(u16::from_be_bytes([high, low])),
        _ => return false,
    };
    der.len() == len
}

/// PKCS #8 of a seed (RFC 9881 §6).
pub fn seed_to_pkcs8(set: MlDsa, seed: &[u8; SEED_LEN]) -> Zeroizing<Vec<u8>> {
    let identifier = set.algorithm_identifier();
    let front = [0x30, 52, 0x02, 1, 0];
    let string = [0x04, 34, 0x80, 32];
    Zeroizing::new([&front[..], &identifier, &string, seed].concat())
}

impl VerifyKey {
    /// The key of these octets. `None` if their number is wrong.
    pub fn new(set: MlDsa, octets: &[u8]) -> Option<Self> {
        let octets = octets.to_vec();
        (octets.len() == set.public_len()).then_some(Self { set, octets })
    }

    /// Reads a SubjectPublicKeyInfo without trailing octets.
    pub fn from_spki(der: &[u8]) -> Option<Self> {
        MlDsa::ALL.into_iter().find_map(|set| {
            let octets = der.strip_prefix(&set.info_front()[..])?;
            Self::new(set, octets)
        })
    }

    /// Its SubjectPublicKeyInfo, DER.
    pub fn to_spki(&self) -> Vec<u8> {
        [&self.set.info_front()[..], &self.octets].concat()
    }

    /// Its parameter set.
    pub const fn set(&self) -> MlDsa {
        self.set
    }

    /// Its octets.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Whether the signature is over the parts, one after the other.
    pub fn is_signed(&self, parts: &[&[u8]], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(self.set.verification(), &self.octets);
        key.verify(&parts.concat(), signature).is_ok()
    }
}

#[cfg(test)]
mod tests;
