//! Names of algorithms in profiles, and words of values in files.

use crypto::curve::Curve;
use crypto::key_exchange::Method;
use crypto::packet::Encryption;
use crypto::sign::KeyKind;
pub(super) use engine::suite::{of_agreement, of_cipher, of_group, of_hash};

pub(super) const CBC: [&str; 5] = ["des", "3des", "aes128", "aes192", "aes256"];
pub(super) const HASHES: [&str; 5] = ["md5", "sha1", "sha256", "sha384", "sha512"];

/// The cipher alone, without mode.
pub(super) fn of_encryption(encryption: Encryption) -> &'static str {
    match encryption {
        Encryption::Null => "null",
        Encryption::Cbc(cipher) => of_cipher(cipher),
        Encryption::AesGcm { key_len: 24 } => "aes192",
        Encryption::AesGcm { key_len: 32 } => "aes256",
        Encryption::AesGcm { .. } => "aes128",
        Encryption::ChaCha20Poly1305 => "chacha20",
    }
}

/// A key exchange method, as operations name it.
pub(super) fn of_method(method: Method) -> &'static str {
    match method {
        Method::Ecp256 => "p256",
        Method::Ecp384 => "p384",
        Method::Ecp521 => "p521",
        Method::Curve25519 => "x25519",
        Method::MlKem768 => "ml-kem-768",
        Method::MlKem1024 => "ml-kem-1024",
        modp => engine::suite::of_method(modp),
    }
}

/// A key that signs, as operations name it.
pub(super) fn of_key(kind: KeyKind) -> String {
    match kind {
        KeyKind::Rsa { bits } => format!("rsa{bits}"),
        KeyKind::Ecdsa(Curve::P256) => "ecdsa-p256".to_owned(),
        KeyKind::Ecdsa(Curve::P384) => "ecdsa-p384".to_owned(),
        KeyKind::Ecdsa(Curve::P521) => "ecdsa-p521".to_owned(),
        KeyKind::Ed25519 => "ed25519".to_owned(),
        KeyKind::MlDsa(set) => set.word().to_owned(),
    }
}

/// The word for a value. Each list of words is complete.
pub(super) fn said<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    let found = words.iter().find(|(_, meant)| meant == value);
    found.map_or("", |(word, _)| *word)
}
