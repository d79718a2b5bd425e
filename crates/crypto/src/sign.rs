//! Signatures of IKEv2's AUTH payload (RFC 7296 §2.15, RFC 4754, RFC 7427, RFC 8420,
//! draft-ietf-ipsecme-ikev2-pqc-auth), with the keys of certificates: RSA, ECDSA on NIST's curves,
//! Ed25519, ML-DSA.
//!
//! Signing needs no randomness of the system: the nonces of ECDSA come from key and message (RFC
//! 6979), the salt of PSS and what hedges ML-DSA from the caller's stream. Left out: the bare
//! hashes of IKEv1 ([`crate::rsa`]), DSS, Ed448.

use zeroize::Zeroizing;

use crate::curve::Curve;
use crate::ed25519;
use crate::hash::Hash;
use crate::ml_dsa::{self, MlDsa};
use crate::rand::Stream;
use crate::rsa::{self, RsaFault};
use crate::sys::{EcKey, EcSignature, ed25519_secret};

mod algorithm;
mod nonce;

/// How a signature is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// PKCS #1 v1.5 with DigestInfo: method 1 with SHA-1, method 14 with SHA-2.
    RsaPkcs1(Hash),
    /// PSS, with MGF1 over the same hash and a salt as long as it: method 14.
    RsaPss(Hash),
    /// DER of r and s: method 14.
    Ecdsa(Hash),
    /// r and s, each as long as a scalar, with the hash of the curve: methods 9, 10 and 11 (RFC
    /// 4754 §7).
    EcdsaRaw(Curve),
    /// RFC 8420: method 14.
    Ed25519,
    /// ML-DSA (draft-ietf-ipsecme-ikev2-pqc-auth): method 14.
    MlDsa(MlDsa),
}

/// The kinds of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyKind {
    /// RSA.
    Rsa {
        /// Of the modulus.
        bits: u32,
    },
    /// ECDSA.
    Ecdsa(Curve),
    /// Ed25519.
    Ed25519,
    /// ML-DSA.
    MlDsa(MlDsa),
}

/// A private key.
pub enum PrivateKey {
    /// RSA.
    Rsa(rsa::PrivateKey),
    /// ECDSA.
    Ecdsa(EcdsaPrivateKey),
    /// Ed25519.
    Ed25519(Box<ed25519::SigningKey>),
    /// ML-DSA.
    MlDsa(ml_dsa::SigningKey),
}

/// A private key on one of NIST's curves.
pub struct EcdsaPrivateKey {
    key: EcKey,
    /// The only length of its signatures in DER.
    der_len: Option<usize>,
}

/// A public key.
#[derive(PartialEq, Eq)]
pub enum PublicKey {
    /// RSA.
    Rsa(rsa::PublicKey),
    /// ECDSA.
    Ecdsa(EcdsaPublicKey),
    /// Ed25519.
    Ed25519(ed25519::VerifyKey),
    /// ML-DSA.
    MlDsa(ml_dsa::VerifyKey),
}

/// A public key on one of NIST's curves.
pub struct EcdsaPublicKey(EcKey);

/// Why a key or a signature is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignFault {
    /// Not PEM or DER of a key that we read.
    #[error("not a key of RSA, ECDSA on P-256, P-384 or P-521, Ed25519, or ML-DSA")]
    NotAKey,
    /// The modulus is too short or too long.
    #[error(transparent)]
    Rsa(#[from] RsaFault),
    /// The key cannot make or check such a signature.
    #[error("the key does not suit the signature's algorithm")]
    Unsuitable,
    /// The signature does not belong to the key and the message.
    #[error("the signature does not belong to this key and message")]
    BadSignature,
}

/// Draws of a nonce at most. One in 2^32 is refused on P-256, and fewer on other curves.
const MAX_DRAWS: usize = 64;
/// SubjectPublicKeyInfo of an Ed25519 key, up to the key (RFC 8410 §4).
const ED25519_SPKI: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

impl Scheme {
    /// The hash; `None` for Ed25519 and ML-DSA, which hash by themselves: "Identity" in RFC 8420
    /// §2.
    pub const fn hash(self) -> Option<Hash> {
        match self {
            Self::RsaPkcs1(hash) | Self::RsaPss(hash) | Self::Ecdsa(hash) => Some(hash),
            Self::EcdsaRaw(Curve::P256) => Some(Hash::Sha256),
            Self::EcdsaRaw(Curve::P384) => Some(Hash::Sha384),
            Self::EcdsaRaw(Curve::P521) => Some(Hash::Sha512),
            Self::Ed25519 | Self::MlDsa(_) => None,
        }
    }
}

impl KeyKind {
    /// The schemes of method 14 that suit the key, the preferred one first (RFC 8247 §3.2).
    pub const fn schemes(self) -> &'static [Scheme] {
        use Hash::{Sha256, Sha384, Sha512};
        match self {
            Self::Rsa { .. } => &[
                Scheme::RsaPss(Sha256),
                Scheme::RsaPss(Sha384),
                Scheme::RsaPss(Sha512),
                Scheme::RsaPkcs1(Sha256),
                Scheme::RsaPkcs1(Sha384),
                Scheme::RsaPkcs1(Sha512),
            ],
            Self::Ecdsa(Curve::P256) => &[
                Scheme::Ecdsa(Sha256),
                Scheme::Ecdsa(Sha384),
                Scheme::Ecdsa(Sha512),
            ],
            Self::Ecdsa(Curve::P384) => &[
                Scheme::Ecdsa(Sha384),
                Scheme::Ecdsa(Sha512),
                Scheme::Ecdsa(Sha256),
            ],
            Self::Ecdsa(Curve::P521) => &[
                Scheme::Ecdsa(Sha512),
                Scheme::Ecdsa(Sha384),
                Scheme::Ecdsa(Sha256),
            ],
            Self::Ed25519 => &[Scheme::Ed25519],
            Self::MlDsa(MlDsa::Set44) => &[Scheme::MlDsa(MlDsa::Set44)],
            Self::MlDsa(MlDsa::Set65) => &[Scheme::MlDsa(MlDsa::Set65)],
            Self::MlDsa(MlDsa::Set87) => &[Scheme::MlDsa(MlDsa::Set87)],
        }
    }
}

impl PrivateKey {
    /// Reads DER: PKCS #8, PKCS #1 or SEC 1.
    pub fn from_der(der: &[u8]) -> Result<Self, SignFault> {
        match rsa::PrivateKey::from_der(der) {
            Ok(key) => return Ok(Self::Rsa(key)),
            Err(RsaFault::NotAKey) => {}
            Err(fault) => return Err(fault.into()),
        }
        if let Some(key) = EcKey::private_from_der(der) {
            return Ok(Self::Ecdsa(EcdsaPrivateKey { key, der_len: None }));
        }
        if let Some(key) = ml_dsa::SigningKey::from_pkcs8(der) {
            return Ok(Self::MlDsa(key));
        }
        let secret = ed25519_secret(der).ok_or(SignFault::NotAKey)?;
        Ok(Self::Ed25519(Box::new(ed25519::SigningKey::of(&secret))))
    }

    /// Reads the first private key of a PEM text.
    pub fn from_pem(text: &str) -> Result<Self, SignFault> {
        Self::from_der(&rsa::private_der_of_pem(text).ok_or(SignFault::NotAKey)?)
    }

    /// Its kind.
    pub fn kind(&self) -> KeyKind {
        match self {
            Self::Rsa(key) => KeyKind::Rsa { bits: key.bits() },
            Self::Ecdsa(key) => KeyKind::Ecdsa(key.key.curve()),
            Self::Ed25519(_) => KeyKind::Ed25519,
            Self::MlDsa(key) => KeyKind::MlDsa(key.set()),
        }
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        match self {
            Self::Rsa(key) => PublicKey::Rsa(key.public()),
            Self::Ecdsa(key) => PublicKey::Ecdsa(EcdsaPublicKey(key.key.public())),
            Self::Ed25519(key) => PublicKey::Ed25519(key.public()),
            Self::MlDsa(key) => PublicKey::MlDsa(key.public().clone()),
        }
    }

    /// The same key, whose signatures in DER all have the length that most of them have: those of
    /// ECDSA on P-256 and P-384 otherwise differ by an octet or two. Simulations need that, whose
    /// messages must be as long in each run. Signatures are what others see, so which of them are
    /// made tells nothing of the key.
    #[must_use]
    pub fn of_one_length(self) -> Self {
        match self {
            Self::Ecdsa(EcdsaPrivateKey { key, .. }) if key.curve() != Curve::P521 => {
                // One of two numbers has a zero octet before its highest bit.
                let numbers = 2 * (2 + key.curve().len()) + 1;
                let der_len = Some(2 + numbers);
                Self::Ecdsa(EcdsaPrivateKey { key, der_len })
            }
            other => other,
        }
    }

    /// Signs the parts, one after the other. `Unsuitable` if key and scheme do not belong together,
    /// or an RSA modulus is too short for the hash. The salt of PSS and what hedges ML-DSA come
    /// from `random`.
    pub fn sign(
        &self,
        scheme: Scheme,
        parts: &[&[u8]],
        random: &mut Stream,
    ) -> Result<Vec<u8>, SignFault> {
        let signature = match (self, scheme) {
            (Self::Rsa(key), Scheme::RsaPkcs1(hash)) => key.sign_pkcs1(hash, parts),
            (Self::Rsa(key), Scheme::RsaPss(hash)) => {
                let mut salt = Zeroizing::new(vec![0; hash.len()]);
                random.fill(&mut salt);
                key.sign_pss(hash, parts, &salt)
            }
            (Self::Ecdsa(key), Scheme::Ecdsa(hash)) => Some(key.sign_der(hash, parts)),
            (Self::Ecdsa(key), Scheme::EcdsaRaw(curve)) if curve == key.key.curve() => {
                let hash = scheme.hash().expect("the curve's hash");
                Some(key.sign(hash, parts).to_raw(curve))
            }
            (Self::Ed25519(key), Scheme::Ed25519) => Some(key.sign(parts).0.to_vec()),
            (Self::MlDsa(key), Scheme::MlDsa(set)) if set == key.set() => {
                let mut hedge = Zeroizing::new([0; ml_dsa::RANDOM_LEN]);
                random.fill(&mut hedge[..]);
                Some(key.sign(parts, &hedge))
            }
            _ => None,
        };
        signature.ok_or(SignFault::Unsuitable)
    }
}

impl EcdsaPrivateKey {
    fn sign(&self, hash: Hash, parts: &[&[u8]]) -> EcSignature {
        self.sign_as(hash, parts, |_| true)
    }

    fn sign_der(&self, hash: Hash, parts: &[&[u8]]) -> Vec<u8> {
        let fits = |it: &EcSignature| self.der_len.is_none_or(|len| it.to_der().len() == len);
        self.sign_as(hash, parts, fits).to_der()
    }

    /// The first signature that fits. One in two does at least.
    fn sign_as(
        &self,
        hash: Hash,
        parts: &[&[u8]],
        fits: impl Fn(&EcSignature) -> bool,
    ) -> EcSignature {
        let digest = hash.digest(parts);
        let (key, digest) = (&self.key, digest.as_ref());
        let mut nonces = nonce::Nonces::new(hash, key.curve(), &key.order(), &key.scalar(), digest);
        (0..MAX_DRAWS)
            .find_map(|_| key.sign(digest, &nonces.draw()).filter(&fits))
            .expect("one of many nonces fits")
    }
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo.
    pub fn from_spki(der: &[u8]) -> Result<Self, SignFault> {
        match rsa::PublicKey::from_spki(der) {
            Ok(key) => return Ok(Self::Rsa(key)),
            Err(RsaFault::NotAKey) => {}
            Err(fault) => return Err(fault.into()),
        }
        if let Some(key) = EcKey::public_from_spki(der) {
            return Ok(Self::Ecdsa(EcdsaPublicKey(key)));
        }
        if let Some(key) = ml_dsa::VerifyKey::from_spki(der) {
            return Ok(Self::MlDsa(key));
        }
        let octets = der.strip_prefix(&ED25519_SPKI);
        let octets = octets.and_then(|octets| octets.try_into().ok());
        let key = octets.ok_or(SignFault::NotAKey)?;
        Ok(Self::Ed25519(ed25519::VerifyKey(key)))
    }

    /// Its kind.
    pub fn kind(&self) -> KeyKind {
        match self {
            Self::Rsa(key) => KeyKind::Rsa { bits: key.bits() },
            Self::Ecdsa(key) => KeyKind::Ecdsa(key.0.curve()),
            Self::Ed25519(_) => KeyKind::Ed25519,
            Self::MlDsa(key) => KeyKind::MlDsa(key.set()),
        }
    }

    /// Checks a signature over the parts, one after the other. `Unsuitable` if key and scheme do
    /// not belong together.
    pub fn verify(
        &self,
        scheme: Scheme,
        parts: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), SignFault> {
        let is_right = match (self, scheme) {
            (Self::Rsa(key), Scheme::RsaPkcs1(hash)) => {
                key.verify_pkcs1(hash, parts, signature).is_ok()
            }
            (Self::Rsa(key), Scheme::RsaPss(hash)) => {
                key.verify_pss(hash, parts, signature).is_ok()
            }
            (Self::Ecdsa(key), Scheme::Ecdsa(hash)) => {
                key.is_signed(hash, parts, EcSignature::from_der(signature))
            }
            (Self::Ecdsa(key), Scheme::EcdsaRaw(curve)) if curve == key.0.curve() => {
                let hash = scheme.hash().expect("the curve's hash");
                key.is_signed(hash, parts, EcSignature::from_raw(curve, signature))
            }
            (Self::Ed25519(key), Scheme::Ed25519) => {
                let signature = signature.try_into().map(ed25519::Signature);
                signature.is_ok_and(|signature| key.verify(parts, &signature).is_ok())
            }
            (Self::MlDsa(key), Scheme::MlDsa(set)) if set == key.set() => {
                key.is_signed(parts, signature)
            }
            _ => return Err(SignFault::Unsuitable),
        };
        match is_right {
            true => Ok(()),
            false => Err(SignFault::BadSignature),
        }
    }
}

impl EcdsaPublicKey {
    fn is_signed(&self, hash: Hash, parts: &[&[u8]], signature: Option<EcSignature>) -> bool {
        let digest = hash.digest(parts);
        signature.is_some_and(|signature| self.0.is_signed(digest.as_ref(), &signature))
    }
}

impl PartialEq for EcdsaPublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.has_public_half_of(&other.0)
    }
}

impl Eq for EcdsaPublicKey {}

#[cfg(test)]
mod tests;
