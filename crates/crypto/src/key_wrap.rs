//! AES key wrap (RFC 3394) with a key of 128 bits, by aws-lc-rs.

use aws_lc_rs::key_wrap::{AES_128, AesKek, KeyWrap};
use zeroize::Zeroizing;

use crate::aead::BadIcv;

/// Octets that wrapping adds.
pub const OVERHEAD: usize = 8;

/// Wraps octets. Panics unless they are two or more whole blocks of 8.
pub fn wrap(kek: &[u8; 16], clear: &[u8]) -> Vec<u8> {
    let kek = AesKek::new(&AES_128, kek).expect("a key of 16 octets");
    let mut wrapped = vec![0; clear.len() + OVERHEAD];
    let len = kek.wrap(clear, &mut wrapped).expect("whole blocks").len();
    assert_eq!(len, wrapped.len());
    wrapped
}

/// Unwraps octets, and checks that nobody has changed them.
pub fn unwrap(kek: &[u8; 16], wrapped: &[u8]) -> Result<Zeroizing<Vec<u8>>, BadIcv> {
    if wrapped.len() < 3 * OVERHEAD || !wrapped.len().is_multiple_of(8) {
        return Err(BadIcv);
    }
    let kek = AesKek::new(&AES_128, kek).expect("a key of 16 octets");
    let mut clear = Zeroizing::new(vec![0; wrapped.len()]);
    let len = kek.unwrap(wrapped, &mut clear).map_err(|_| BadIcv)?.len();
    clear.truncate(len);
    Ok(clear)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// RFC 3394 §4.1.
    #[test]
    fn wrapping_is_as_published() {
        let kek: [u8; 16] = hex("000102030405060708090a0b0c0d0e0f").try_into().unwrap();
        let clear = hex("00112233445566778899aabbccddeeff");
        let wrapped = wrap(&kek, &clear);
        assert_eq!(
            wrapped,
            hex("1fa68b0a8112b447aef34bd8fb5a7b829d3e862371d2cfe5")
        );
        assert!(unwrap(&kek, &wrapped).is_ok_and(|it| *it == clear));
        for at in 0..wrapped.len() {
            let mut wrong = wrapped.clone();
            wrong[at] ^= 4;
            assert!(unwrap(&kek, &wrong).is_err());
            assert!(unwrap(&kek, &wrapped[..at]).is_err());
        }
        assert!(unwrap(&[0; 16], &wrapped).is_err());
    }
}
