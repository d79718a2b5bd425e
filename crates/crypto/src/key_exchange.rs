//! Key exchange methods of IKEv2: Diffie-Hellman over MODP groups (RFC 3526), NIST's curves (RFC
//! 5903) and Curve25519 (RFC 8031), and ML-KEM (draft-ietf-ipsecme-ikev2-mlkem-09).
//!
//! An [`Initiator`] has the first half; [`respond`] makes the second one and the secret from it.
//! With Diffie-Hellman both halves are public values. With a KEM the first is a public key and the
//! second a ciphertext. Left out: groups below 2048 bits, which [`crate::dh`] has for IKEv1.

use zeroize::Zeroizing;

use crate::curve::Curve;
use crate::dh::modp::{self, Exponent};
use crate::dh::{BadPublicValue, primes, x25519};
use crate::rand::Stream;
use crate::sys::{self, Kem, KemKey};

pub use crate::dh::SharedSecret;

mod ecp;

/// Methods; the number is IANA's (transform type 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    /// 14
    Modp2048,
    /// 15
    Modp3072,
    /// 16
    Modp4096,
    /// 17
    Modp6144,
    /// 18
    Modp8192,
    /// 19
    Ecp256,
    /// 20
    Ecp384,
    /// 21
    Ecp521,
    /// 31
    Curve25519,
    /// 36
    MlKem768,
    /// 37
    MlKem1024,
}

/// How a method works.
enum Kind {
    Modp(&'static [u8]),
    Ecp(Curve),
    Curve25519,
    Kem(Kem),
}

/// Our secret and the first half of an exchange.
pub struct Initiator {
    method: Method,
    secret: Secret,
    public: Vec<u8>,
}

enum Secret {
    Modp(Exponent),
    Ecp(ecp::Scalar),
    Curve25519(x25519::Scalar),
    Kem(KemKey),
}

impl Method {
    /// Every method, by number.
    pub const ALL: [Self; 11] = [
        Self::Modp2048,
        Self::Modp3072,
        Self::Modp4096,
        Self::Modp6144,
        Self::Modp8192,
        Self::Ecp256,
        Self::Ecp384,
        Self::Ecp521,
        Self::Curve25519,
        Self::MlKem768,
        Self::MlKem1024,
    ];

    /// The method of this number.
    pub fn of_number(number: u16) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|method| method.number() == number)
    }

    /// IANA's number.
    pub const fn number(self) -> u16 {
        match self {
            Self::Modp2048 => 14,
            Self::Modp3072 => 15,
            Self::Modp4096 => 16,
            Self::Modp6144 => 17,
            Self::Modp8192 => 18,
            Self::Ecp256 => 19,
            Self::Ecp384 => 20,
            Self::Ecp521 => 21,
            Self::Curve25519 => 31,
            Self::MlKem768 => 36,
            Self::MlKem1024 => 37,
        }
    }

    /// Whether it is a KEM: the halves differ, and the initiator's is no public value.
    pub const fn is_kem(self) -> bool {
        matches!(self, Self::MlKem768 | Self::MlKem1024)
    }

    /// Octets of the initiator's half.
    pub const fn request_len(self) -> usize {
        match self.kind() {
            Kind::Modp(prime) => prime.len(),
            Kind::Ecp(curve) => 2 * curve.len(),
            Kind::Curve25519 => x25519::LEN,
            Kind::Kem(kem) => kem.public_len(),
        }
    }

    /// Octets of the responder's half.
    pub const fn response_len(self) -> usize {
        match self.kind() {
            Kind::Kem(kem) => kem.ciphertext_len(),
            _ => self.request_len(),
        }
    }

    const fn kind(self) -> Kind {
        match self {
            Self::Modp2048 => Kind::Modp(&primes::MODP_2048),
            Self::Modp3072 => Kind::Modp(&primes::MODP_3072),
            Self::Modp4096 => Kind::Modp(&primes::MODP_4096),
            Self::Modp6144 => Kind::Modp(&primes::MODP_6144),
            Self::Modp8192 => Kind::Modp(&primes::MODP_8192),
            Self::Ecp256 => Kind::Ecp(Curve::P256),
            Self::Ecp384 => Kind::Ecp(Curve::P384),
            Self::Ecp521 => Kind::Ecp(Curve::P521),
            Self::Curve25519 => Kind::Curve25519,
            Self::MlKem768 => Kind::Kem(Kem::MlKem768),
            Self::MlKem1024 => Kind::Kem(Kem::MlKem1024),
        }
    }

    /// Checks what costs little: the length, the range of a MODP value, whether a point is on its
    /// curve, the order on Curve25519.
    fn check(self, value: &[u8], len: usize) -> Result<(), BadPublicValue> {
        match self.kind() {
            Kind::Modp(prime) => modp::check(value, prime),
            _ if value.len() != len => Err(BadPublicValue::WrongLength),
            Kind::Ecp(curve) if !ecp::is_point(curve, value) => Err(BadPublicValue::NotOnCurve),
            Kind::Curve25519 if x25519::is_of_low_order(value) => Err(BadPublicValue::LowOrder),
            _ => Ok(()),
        }
    }
}

impl Initiator {
    /// A fresh first half.
    pub fn generate(method: Method, random: &mut Stream) -> Self {
        let secret = match method.kind() {
            Kind::Modp(prime) => Secret::Modp(Exponent::generate(prime, random)),
            Kind::Ecp(curve) => Secret::Ecp(ecp::Scalar::generate(curve, random)),
            Kind::Curve25519 => Secret::Curve25519(x25519::Scalar::generate(random)),
            Kind::Kem(kem) => {
                let mut seed = Zeroizing::new([0; sys::KEM_KEY_SEED_LEN]);
                random.fill(&mut seed[..]);
                Secret::Kem(KemKey::generate(kem, &seed))
            }
        };
        Self::of(method, secret)
    }

    fn of(method: Method, secret: Secret) -> Self {
        let public = match &secret {
            Secret::Modp(exponent) => exponent.public(),
            Secret::Ecp(scalar) => scalar.public(),
            Secret::Curve25519(scalar) => scalar.public(),
            Secret::Kem(key) => key.public(),
        };
        Self {
            method,
            secret,
            public,
        }
    }

    /// The method.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The first half, for the KE payload: a residue as long as the prime, two coordinates without
    /// the octet before them (RFC 5903 §7), a point of Curve25519, or the KEM's public key.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// The secret, from the responder's half. A ciphertext that was not made for our key gives a
    /// secret that nobody knows: AUTH fails then. Refuses our own value.
    pub fn finish(&self, response: &[u8]) -> Result<SharedSecret, BadPublicValue> {
        self.method.check(response, self.method.response_len())?;
        if response == self.public {
            return Err(BadPublicValue::Own);
        }
        match &self.secret {
            Secret::Modp(exponent) => Ok(exponent.agree(response)),
            Secret::Ecp(scalar) => scalar.agree(response).ok_or(BadPublicValue::NotOnCurve),
            Secret::Curve25519(scalar) => scalar.agree(response).ok_or(BadPublicValue::LowOrder),
            Secret::Kem(key) => {
                let secret = key.decapsulate(response);
                let secret = secret.ok_or(BadPublicValue::WrongLength)?;
                Ok(SharedSecret::new(secret.to_vec()))
            }
        }
    }
}

/// The second half of an exchange and the secret, from the initiator's half.
pub fn respond(
    method: Method,
    request: &[u8],
    random: &mut Stream,
) -> Result<(Vec<u8>, SharedSecret), BadPublicValue> {
    method.check(request, method.request_len())?;
    let Kind::Kem(kem) = method.kind() else {
        let own = Initiator::generate(method, random);
        let secret = own.finish(request)?;
        return Ok((own.public, secret));
    };
    let mut seed = Zeroizing::new([0; sys::KEM_SEED_LEN]);
    random.fill(&mut seed[..]);
    let (ciphertext, secret) =
        sys::encapsulate(kem, request, &seed).ok_or(BadPublicValue::NotAKey)?;
    Ok((ciphertext, SharedSecret::new(secret.to_vec())))
}

#[cfg(test)]
mod tests;
