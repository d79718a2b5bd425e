//! The words of algorithms and groups, for configurations, status and costs.

use crypto::dh::long_term::Group;
use wire::skip::{CryptAlg, KijAlg, MacAlg};

/// The word of a group of long-term pairs.
pub const fn of_group(group: Group) -> &'static str {
    match group {
        Group::Skip1024 => "skip1024",
        Group::Skip2048 => "skip2048",
        Group::Curve25519 => "x25519",
    }
}

/// The word of what protects packet keys.
pub const fn of_kij(kij: KijAlg) -> &'static str {
    match kij {
        KijAlg::Des => "des",
        KijAlg::TripleDes => "3des",
        KijAlg::Hkdf => "hkdf-sha256",
    }
}

/// The word of a cipher.
pub const fn of_crypt(crypt: CryptAlg) -> &'static str {
    match crypt {
        CryptAlg::None => "none",
        CryptAlg::Des => "des",
        CryptAlg::TripleDes => "3des",
        CryptAlg::Rc2 => "rc2",
        CryptAlg::Rc4 => "rc4",
        CryptAlg::AesGcmSiv => "aes256gcmsiv",
    }
}

/// The word of a MAC.
pub const fn of_mac(mac: MacAlg) -> &'static str {
    match mac {
        MacAlg::None => "none",
        MacAlg::Md5 => "keyed-md5",
        MacAlg::DesCbc => "des-mac",
        MacAlg::Sha => "keyed-sha",
        MacAlg::AesGcmSiv => "aes256gcmsiv",
    }
}
