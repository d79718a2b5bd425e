//! AES-128-CMAC (RFC 4493), by aws-lc-rs.

use aws_lc_rs::cmac::{AES_128, Key, sign};

/// Octets of a code.
pub const CODE_LEN: usize = 16;

/// The code of `data`.
pub fn cmac(key: &[u8; 16], data: &[u8]) -> [u8; CODE_LEN] {
    let key = Key::new(AES_128, key).expect("a key of 16 octets");
    let code = sign(&key, data).expect("memory");
    code.as_ref().try_into().expect("a code of 16 octets")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// RFC 4493 §4.
    #[test]
    fn cmac_is_as_published() {
        let key = hex("2b7e151628aed2a6abf7158809cf4f3c").try_into().unwrap();
        let text = hex(
            "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51\
             30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
        );
        for (len, code) in [
            (0, "bb1d6929e95937287fa37d129b756746"),
            (16, "070a16b46b4d4144f79bdd9dd04a287c"),
            (40, "dfa66747de9ae63030ca32611497c827"),
            (64, "51f0bebf7e3b9d92fc49741779363cfe"),
        ] {
            assert_eq!(cmac(&key, &text[..len])[..], hex(code));
        }
    }
}
