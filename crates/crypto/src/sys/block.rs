//! AES and DES schedules, and CBC over them in place.

use aws_lc_sys as lc;
use core::ffi::c_int;
use zeroize::Zeroize;

/// AES schedules for both directions, wiped on drop.
pub(crate) struct AesSchedule {
    encrypt: lc::AES_KEY,
    decrypt: lc::AES_KEY,
}

/// One DES schedule (single DES) or three (EDE), wiped on drop.
pub(crate) struct DesSchedule(Box<[lc::DES_key_schedule]>);

const ENCRYPT: c_int = 1;
const DECRYPT: c_int = 0;

impl AesSchedule {
    /// Panics unless the key has 16, 24 or 32 octets.
    pub(crate) fn new(key: &[u8]) -> Self {
        assert!(matches!(key.len(), 16 | 24 | 32));
        let empty = || lc::AES_KEY {
            rd_key: [0; 60],
            rounds: 0,
        };
        let mut schedule = Self {
            encrypt: empty(),
            decrypt: empty(),
        };
        let bits = key.len() as core::ffi::c_uint * 8;
        // SAFETY: `key` holds `bits` bits, the schedules are writable and ours.
        let results = unsafe {
            [
                lc::AES_set_encrypt_key(key.as_ptr(), bits, &raw mut schedule.encrypt),
                lc::AES_set_decrypt_key(key.as_ptr(), bits, &raw mut schedule.decrypt),
            ]
        };
        assert_eq!(results, [0, 0], "aws-lc refused an AES key length");
        schedule
    }

    /// CBC in place; panics unless `data` is whole blocks.
    pub(crate) fn encrypt(&self, iv: [u8; 16], data: &mut [u8]) {
        Self::cbc(&self.encrypt, iv, data, ENCRYPT);
    }

    /// CBC in place; panics unless `data` is whole blocks.
    pub(crate) fn decrypt(&self, iv: [u8; 16], data: &mut [u8]) {
        Self::cbc(&self.decrypt, iv, data, DECRYPT);
    }

    fn cbc(key: &lc::AES_KEY, mut iv: [u8; 16], data: &mut [u8], direction: c_int) {
        assert!(data.len().is_multiple_of(16));
        let at = data.as_mut_ptr();
        // SAFETY: source and target are the same writable slice of whole blocks, which aws-lc
        // allows; the schedule belongs to the direction; `iv` is one block.
        unsafe {
            lc::AES_cbc_encrypt(at, at, data.len(), key, iv.as_mut_ptr(), direction);
        }
    }
}

impl Drop for AesSchedule {
    fn drop(&mut self) {
        self.encrypt.rd_key.zeroize();
        self.decrypt.rd_key.zeroize();
    }
}

impl DesSchedule {
    /// Panics unless the key has 8 or 24 octets. Parity bits do not count.
    pub(crate) fn new(key: &[u8]) -> Self {
        let one = |at: usize| {
            let mut block = lc::DES_cblock { bytes: [0; 8] };
            block.bytes.copy_from_slice(&key[at..at + 8]);
            let mut schedule = lc::DES_key_schedule {
                subkeys: [[0; 2]; 16],
            };
            // SAFETY: we own both, and they have the types that the function reads and writes.
            unsafe { lc::DES_set_key_unchecked(&raw const block, &raw mut schedule) };
            block.bytes.zeroize();
            schedule
        };
        match key.len() {
            8 => Self(Box::new([one(0)])),
            24 => Self(Box::new([one(0), one(8), one(16)])),
            len => panic!("a DES key of {len} octets"),
        }
    }

    /// CBC in place; panics unless `data` is whole blocks.
    pub(crate) fn encrypt(&self, iv: [u8; 8], data: &mut [u8]) {
        self.cbc(iv, data, ENCRYPT);
    }

    /// CBC in place; panics unless `data` is whole blocks.
    pub(crate) fn decrypt(&self, iv: [u8; 8], data: &mut [u8]) {
        self.cbc(iv, data, DECRYPT);
    }

    fn cbc(&self, iv: [u8; 8], data: &mut [u8], direction: c_int) {
        assert!(data.len().is_multiple_of(8));
        let mut iv = lc::DES_cblock { bytes: iv };
        let (at, len, iv) = (data.as_mut_ptr(), data.len(), &raw mut iv);
        // SAFETY: source and target are the same writable slice of whole blocks, which aws-lc
        // allows; the schedules are initialised; `iv` is one block.
        unsafe {
            match &*self.0 {
                [k] => lc::DES_ncbc_encrypt(at, at, len, k, iv, direction),
                [a, b, c] => lc::DES_ede3_cbc_encrypt(at, at, len, a, b, c, iv, direction),
                _ => unreachable!("one schedule or three"),
            }
        }
    }
}

impl Drop for DesSchedule {
    fn drop(&mut self) {
        for schedule in &mut self.0 {
            schedule.subkeys.as_flattened_mut().zeroize();
        }
    }
}
