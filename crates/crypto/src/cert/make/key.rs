//! Keys that sign certificates, and keys of others that get them.

use rcgen::{KeyPair, PublicKeyData, RsaKeySize, SignatureAlgorithm, SubjectPublicKeyInfo};
use zeroize::{Zeroize, Zeroizing};

use super::MakeFault;
use crate::cert::{no_rsa_key, private_key_pem};
use crate::hash::Hash;
use crate::ml_dsa::{self, MlDsa, RANDOM_LEN, SEED_LEN, VerifyKey};
use crate::rsa::private_der_of_pem;
use crate::sign::Scheme;

/// A private key of RSA or ML-DSA; wiped on drop.
pub struct SigningKey(Inner);

enum Inner {
    Rsa(KeyPair),
    MlDsa {
        key: ml_dsa::SigningKey,
        pkcs8: Zeroizing<Vec<u8>>,
    },
}

impl SigningKey {
    /// A new RSA key of 2048, 3072 or 4096 bits.
    pub fn generate(bits: u32) -> Result<Self, MakeFault> {
        let size = match bits {
            2048 => RsaKeySize::_2048,
            3072 => RsaKeySize::_3072,
            4096 => RsaKeySize::_4096,
            _ => return Err(MakeFault::KeyBits(bits)),
        };
        KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, size)
            .map(|pair| Self(Inner::Rsa(pair)))
            .map_err(|error| MakeFault::Key(error.to_string()))
    }

    /// A new key of ML-DSA.
    pub fn generate_ml_dsa(set: MlDsa) -> Result<Self, MakeFault> {
        let mut seed = Zeroizing::new([0; SEED_LEN]);
        aws_lc_rs::rand::fill(&mut seed[..])
            .map_err(|_| MakeFault::Key("the system has no randomness".to_owned()))?;
        Ok(Self(Inner::MlDsa {
            key: ml_dsa::SigningKey::of_seed(set, &seed),
            pkcs8: ml_dsa::seed_to_pkcs8(set, &seed),
        }))
    }

    /// Reads PKCS #8 or, of RSA, PKCS #1 in PEM.
    pub fn from_pem(text: &str) -> Result<Self, MakeFault> {
        let error = match KeyPair::from_pem_and_sign_algo(text, &rcgen::PKCS_RSA_SHA256) {
            Ok(pair) => return Ok(Self(Inner::Rsa(pair))),
            Err(error) => error,
        };
        let ml_dsa = private_der_of_pem(text).and_then(|pkcs8| {
            let key = ml_dsa::SigningKey::from_pkcs8(&pkcs8)?;
            Some(Self(Inner::MlDsa { key, pkcs8 }))
        });
        ml_dsa.ok_or_else(|| no_key(text, &error))
    }

    /// SubjectPublicKeyInfo, DER.
    pub fn public_info(&self) -> Vec<u8> {
        self.subject_public_key_info()
    }

    /// PKCS #8, DER.
    pub fn to_der(&self) -> Zeroizing<Vec<u8>> {
        match &self.0 {
            Inner::Rsa(pair) => Zeroizing::new(pair.serialize_der()),
            Inner::MlDsa { pkcs8, .. } => pkcs8.clone(),
        }
    }

    /// PEM: PKCS #8 for a generated key, otherwise as it was read.
    pub fn to_pem(&self) -> Zeroizing<String> {
        match &self.0 {
            Inner::Rsa(pair) => Zeroizing::new(pair.serialize_pem()),
            Inner::MlDsa { pkcs8, .. } => private_key_pem(pkcs8),
        }
    }

    /// The AlgorithmIdentifier of its signatures, DER.
    pub(super) fn signature_algorithm(&self) -> Vec<u8> {
        let scheme = match &self.0 {
            Inner::Rsa(_) => Scheme::RsaPkcs1(Hash::Sha256),
            Inner::MlDsa { key, .. } => Scheme::MlDsa(key.set()),
        };
        scheme.to_algorithm_identifier().expect("of method 14")
    }
}

impl PublicKeyData for SigningKey {
    fn der_bytes(&self) -> &[u8] {
        match &self.0 {
            Inner::Rsa(pair) => pair.der_bytes(),
            Inner::MlDsa { key, .. } => key.public().octets(),
        }
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        match &self.0 {
            Inner::Rsa(pair) => pair.algorithm(),
            Inner::MlDsa { key, .. } => algorithm(key.set()),
        }
    }
}

impl rcgen::SigningKey for SigningKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        match &self.0 {
            Inner::Rsa(pair) => rcgen::SigningKey::sign(pair, message),
            // What is signed has a serial number that never comes again.
            Inner::MlDsa { key, .. } => Ok(key.sign(&[message], &[0; RANDOM_LEN])),
        }
    }
}

impl Drop for SigningKey {
    fn drop(&mut self) {
        if let Inner::Rsa(pair) = &mut self.0 {
            pair.zeroize();
        }
    }
}

/// The public key of somebody else.
pub(super) enum PublicKey {
    Rsa(SubjectPublicKeyInfo),
    MlDsa(VerifyKey),
}

impl PublicKey {
    /// Reads PEM.
    pub(super) fn from_pem(text: &str) -> Result<Self, MakeFault> {
        let object = pem::parse(text).map_err(|error| no_key(text, &error))?;
        if let Some(key) = VerifyKey::from_spki(object.contents()) {
            return Ok(Self::MlDsa(key));
        }
        let read = SubjectPublicKeyInfo::from_pem(text).map_err(|error| no_key(text, &error))?;
        rsa_only(&read)?;
        Ok(Self::Rsa(read))
    }
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        match self {
            Self::Rsa(read) => read.der_bytes(),
            Self::MlDsa(key) => key.octets(),
        }
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        match self {
            Self::Rsa(read) => read.algorithm(),
            Self::MlDsa(key) => algorithm(key.set()),
        }
    }
}

/// Refuses keys that are not of RSA.
pub(super) fn rsa_only(key: &impl PublicKeyData) -> Result<(), MakeFault> {
    let rsa = [
        &rcgen::PKCS_RSA_SHA256,
        &rcgen::PKCS_RSA_SHA384,
        &rcgen::PKCS_RSA_SHA512,
    ];
    match rsa.contains(&key.algorithm()) {
        true => Ok(()),
        false => Err(MakeFault::Key("it is of another kind".to_owned())),
    }
}

fn algorithm(set: MlDsa) -> &'static SignatureAlgorithm {
    match set {
        MlDsa::Set44 => &rcgen::PKCS_ML_DSA_44,
        MlDsa::Set65 => &rcgen::PKCS_ML_DSA_65,
        MlDsa::Set87 => &rcgen::PKCS_ML_DSA_87,
    }
}

fn no_key(text: &str, error: &dyn core::fmt::Display) -> MakeFault {
    MakeFault::Key(no_rsa_key(text).map_or_else(|| error.to_string(), str::to_owned))
}
