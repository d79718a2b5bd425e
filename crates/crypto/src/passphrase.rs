//! The pairwise master key of a passphrase (IEEE 802.11-2020 §J.4): PBKDF2 with HMAC-SHA-1 (RFC
//! 8018 §5.2), the network's name as salt, 4,096 rounds.

use core::num::NonZeroU32;

use aws_lc_rs::pbkdf2::{PBKDF2_HMAC_SHA1, derive};
use zeroize::Zeroizing;

/// Rounds.
pub const ROUNDS: u32 = 4_096;

/// The pairwise master key. The standard asks for 8 to 63 printable characters.
pub fn pairwise_master_key(passphrase: &[u8], ssid: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    let rounds = NonZeroU32::new(ROUNDS).expect("not zero");
    derive(PBKDF2_HMAC_SHA1, rounds, ssid, passphrase, &mut key[..]);
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// IEEE 802.11-2012 annex M.4.
    #[test]
    fn keys_are_as_published() {
        let (a, z) = ("a".repeat(32), "Z".repeat(32));
        for (passphrase, ssid, key) in [
            (
                "password",
                "IEEE",
                "f42c6fc52df0ebef9ebb4b90b38a5f902e83fe1b135a70e23aed762e9710a12e",
            ),
            (
                "ThisIsAPassword",
                "ThisIsASSID",
                "0dc0d6eb90555ed6419756b9a15ec3e3209b63df707dd508d14581f8982721af",
            ),
            (
                &a,
                &z,
                "becb93866bb8c3832cb777c2f559807c8c59afcb6eae734885001300a981cc62",
            ),
        ] {
            let made = pairwise_master_key(passphrase.as_bytes(), ssid.as_bytes());
            assert_eq!(made[..], hex(key), "{passphrase}");
        }
    }
}
