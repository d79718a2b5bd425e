//! WEP (IEEE 802.11-2020 §12.3.2): RC4 under IV and key, with a CRC-32 as check. Legacy.
//!
//! Its faults are part of it: the IV has 24 bits, the check is linear and has no key, so that
//! anybody can change an encrypted packet, and a packet may come again.

use rc4::{KeyInit, Rc4, StreamCipher};
use zeroize::Zeroizing;

use crate::aead::BadIcv;

/// Octets of the IV.
pub const IV_LEN: usize = 3;
/// Octets of the check.
pub const ICV_LEN: usize = 4;
/// Octets of the key of WEP-40.
pub const KEY_40_LEN: usize = 5;
/// Octets of the key of WEP-104.
pub const KEY_104_LEN: usize = 13;

/// A WEP key, wiped on drop.
pub struct WepKey {
    /// Room for an IV, then the key.
    seed: Zeroizing<[u8; IV_LEN + KEY_104_LEN]>,
    len: usize,
}

impl WepKey {
    /// Panics unless the key has [`KEY_40_LEN`] or [`KEY_104_LEN`] octets.
    pub fn new(key: &[u8]) -> Self {
        assert!(matches!(key.len(), KEY_40_LEN | KEY_104_LEN), "a WEP key");
        let mut seed = Zeroizing::new([0; IV_LEN + KEY_104_LEN]);
        seed[IV_LEN..IV_LEN + key.len()].copy_from_slice(key);
        let len = IV_LEN + key.len();
        Self { seed, len }
    }

    /// Writes the check to the last four octets of `data` and encrypts all in place. Panics if
    /// `data` has fewer octets.
    pub fn seal(&self, iv: [u8; IV_LEN], data: &mut [u8]) {
        seal(&self.seed_of(iv)[..self.len], data);
    }

    /// Decrypts `sealed` in place and checks the last four octets.
    pub fn open(&self, iv: [u8; IV_LEN], sealed: &mut [u8]) -> Result<(), BadIcv> {
        open(&self.seed_of(iv)[..self.len], sealed)
    }

    fn seed_of(&self, iv: [u8; IV_LEN]) -> Zeroizing<[u8; IV_LEN + KEY_104_LEN]> {
        let mut seed = self.seed.clone();
        seed[..IV_LEN].copy_from_slice(&iv);
        seed
    }
}

/// WEP under a whole RC4 key.
pub(crate) fn seal(seed: &[u8], data: &mut [u8]) {
    let (clear, icv) = data.split_last_chunk_mut::<ICV_LEN>().expect("a check");
    *icv = crc32fast::hash(clear).to_le_bytes();
    apply(seed, data);
}

/// The reverse of [`seal`].
pub(crate) fn open(seed: &[u8], sealed: &mut [u8]) -> Result<(), BadIcv> {
    apply(seed, sealed);
    let (clear, icv) = sealed.split_last_chunk::<ICV_LEN>().ok_or(BadIcv)?;
    match *icv == crc32fast::hash(clear).to_le_bytes() {
        true => Ok(()),
        false => Err(BadIcv),
    }
}

fn apply(seed: &[u8], data: &mut [u8]) {
    let mut cipher = Rc4::new_from_slice(seed).expect("a key of RC4");
    cipher.apply_keystream(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// P802.11i/D7.0 annex I.7.2.
    const CLEAR: &str = "aaaa0300000008004500004e661a00008011be640a0001220affffff00890089\
        003a000080a601100001000000000000204543454a4548454346434550464545\
        49454646434341434143414341434141410000200001";

    #[test]
    fn wep_40_is_as_published() {
        let key = WepKey::new(&hex("3031323334"));
        let clear = hex(CLEAR);
        let mut data = [clear.as_slice(), &[0; 4]].concat();
        key.seal([0xfb, 0x02, 0x9e], &mut data);
        let sealed = "f69c5806bd6ce84626bcbefb9474650aad1f7909b0f64d5f58a503a258b7ed22\
            eb0ea64930d3a056a55742fcce141d485f8aa836dea18df42c5380805ad0c61a\
            5d6f58f41040b24b7d1a693856ed0d4398e7aee3bf0e2a2ca8f7";
        assert_eq!(data, hex(sealed));
        assert_eq!(key.open([0xfb, 0x02, 0x9e], &mut data), Ok(()));
        assert_eq!(data[..clear.len()], clear);
        assert_eq!(data[clear.len()..], hex("1bd0b604"));
    }

    #[test]
    fn wep_104_opens_what_it_seals_and_nothing_else() {
        let key = WepKey::new(&[7; 13]);
        let mut data = *b"some text\0\0\0\0";
        key.seal([1, 2, 3], &mut data);
        for at in 0..data.len() {
            let mut wrong = data;
            wrong[at] ^= 0x10;
            assert_eq!(key.open([1, 2, 3], &mut wrong), Err(BadIcv));
        }
        assert_eq!(key.open([1, 2, 4], &mut data.clone()), Err(BadIcv));
        assert_eq!(
            WepKey::new(&[8; 13]).open([1, 2, 3], &mut data.clone()),
            Err(BadIcv)
        );
        assert_eq!(key.open([1, 2, 3], &mut data[..3].to_vec()), Err(BadIcv));
        assert_eq!(key.open([1, 2, 3], &mut data), Ok(()));
        assert_eq!(data[..9], *b"some text");
    }

    /// The check is linear: whoever flips bits also knows which bits of the check flip.
    #[test]
    fn anybody_can_change_a_packet_without_the_key() {
        let key = WepKey::new(&[7; 13]);
        let mut data = *b"pay 100 to A\0\0\0\0";
        key.seal([0; 3], &mut data);
        let mut change = [0; 12];
        change[11] = b'A' ^ b'B';
        let flips = crc32fast::hash(&change) ^ crc32fast::hash(&[0; 12]);
        let pattern = [change.as_slice(), &flips.to_le_bytes()].concat();
        data.iter_mut()
            .zip(pattern)
            .for_each(|(to, from)| *to ^= from);
        assert_eq!(key.open([0; 3], &mut data), Ok(()));
        assert_eq!(data[..12], *b"pay 100 to B");
    }
}
