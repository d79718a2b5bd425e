//! What algorithms are called in profiles.

use crypto::cipher::Cipher;
use crypto::dh::Group;
use crypto::hash::Hash;
use crypto::packet::Encryption;
use toml::Spanned;

pub(super) const CBC: [&str; 5] = ["des", "3des", "aes128", "aes192", "aes256"];
pub(super) const HASHES: [&str; 5] = ["md5", "sha1", "sha256", "sha384", "sha512"];

pub(super) fn of_cipher(cipher: Cipher) -> &'static str {
    match cipher {
        Cipher::Des => "des",
        Cipher::TripleDes => "3des",
        Cipher::Aes128 => "aes128",
        Cipher::Aes192 => "aes192",
        Cipher::Aes256 => "aes256",
    }
}

pub(super) fn of_hash(hash: Hash) -> &'static str {
    match hash {
        Hash::Md5 => "md5",
        Hash::Sha1 => "sha1",
        Hash::Sha256 => "sha256",
        Hash::Sha384 => "sha384",
        Hash::Sha512 => "sha512",
    }
}

pub(super) fn of_group(group: Group) -> &'static str {
    match group {
        Group::Modp768 => "modp768",
        Group::Modp1024 => "modp1024",
        Group::Modp1536 => "modp1536",
        Group::Modp2048 => "modp2048",
        Group::Modp3072 => "modp3072",
        Group::Modp4096 => "modp4096",
    }
}

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

/// What serde takes where a size is not given.
pub(super) fn no_bytes() -> Spanned<f64> {
    Spanned::new(0..0, 0.0)
}
