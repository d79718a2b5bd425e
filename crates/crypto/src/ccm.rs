//! AES-128-CCM with a MIC of 8 octets and a length field of 2 (RFC 3610 with M = 8, L = 2), as
//! CCMP uses it.

use crate::aead::BadIcv;
use crate::sys::CcmContext;

/// Octets of the MIC.
pub const MIC_LEN: usize = 8;
/// Octets of a nonce.
pub const NONCE_LEN: usize = 13;
/// Octets of a key.
pub const KEY_LEN: usize = 16;

/// A key with its schedule, wiped on drop.
pub struct CcmKey(CcmContext);

impl CcmKey {
    /// Prepares a key.
    pub fn new(key: &[u8; KEY_LEN]) -> Self {
        Self(CcmContext::new(key))
    }

    /// Encrypts `data` in place and writes the MIC. Use each nonce only once with a key. Panics if
    /// `data` has more than 65,535 octets.
    pub fn seal(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        data: &mut [u8],
        mic: &mut [u8; MIC_LEN],
    ) {
        self.0.seal(nonce, aad, data, mic);
    }

    /// Checks the MIC at the end of `sealed` and decrypts the octets before it in place. If the MIC
    /// is wrong, the content of `sealed` is undefined.
    pub fn open(
        &self,
        nonce: &[u8; NONCE_LEN],
        aad: &[u8],
        sealed: &mut [u8],
    ) -> Result<(), BadIcv> {
        let (data, mic) = sealed.split_last_chunk_mut::<MIC_LEN>().ok_or(BadIcv)?;
        match self.0.open(nonce, aad, data, mic) {
            true => Ok(()),
            false => Err(BadIcv),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// RFC 3610 §8, packet vector 1: the nonce has 13 octets, the MIC 8.
    #[test]
    fn ccm_is_as_published() {
        let key: [u8; 16] = hex("c0c1c2c3c4c5c6c7c8c9cacbcccdcecf").try_into().unwrap();
        let nonce: [u8; 13] = hex("00000003020100a0a1a2a3a4a5").try_into().unwrap();
        let aad: Vec<u8> = (0..8).collect();
        let clear: Vec<u8> = (8..0x1f).collect();
        let key = CcmKey::new(&key);
        let (mut data, mut mic) = (clear.clone(), [0; 8]);
        key.seal(&nonce, &aad, &mut data, &mut mic);
        let expected = hex("588c979a61c663d2f066d0c2c0f989806d5f6b61dac384 17e8d12cfdf926e0");
        let sealed = [data.as_slice(), &mic].concat();
        assert_eq!(sealed, expected);
        let mut opened = sealed.clone();
        assert_eq!(key.open(&nonce, &aad, &mut opened), Ok(()));
        assert_eq!(opened[..23], clear);
        for at in 0..sealed.len() {
            let mut wrong = sealed.clone();
            wrong[at] ^= 1;
            assert_eq!(key.open(&nonce, &aad, &mut wrong), Err(BadIcv));
        }
        let other = CcmKey::new(&[1; 16]);
        assert_eq!(other.open(&nonce, &aad, &mut sealed.clone()), Err(BadIcv));
        assert_eq!(
            key.open(&nonce, &aad[1..], &mut sealed.clone()),
            Err(BadIcv)
        );
        assert_eq!(key.open(&nonce, &aad, &mut [0; 7]), Err(BadIcv));
    }
}
