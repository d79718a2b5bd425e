//! Names of algorithms in profiles, and words of values in files.

use crypto::packet::Encryption;
pub(super) use engine::suite::{of_agreement, of_cipher, of_group, of_hash, of_key, of_method};

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

/// The word for a value. Each list of words is complete.
pub(super) fn said<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    let found = words.iter().find(|(_, meant)| meant == value);
    found.map_or("", |(word, _)| *word)
}
