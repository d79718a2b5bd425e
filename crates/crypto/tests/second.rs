//! RustCrypto's DES, AES, CBC, MD5 and HMAC as second implementations, on random input.

use cbc::cipher::{BlockModeEncrypt, KeyIvInit, array::Array, common::BlockSizeUser};
use crypto::cipher::{CbcKey, Cipher};
use crypto::hash::Hash;
use crypto::packet::{Encryption, Integrity, PacketKey, Protection};
use crypto::rand::{Seed, Stream};
use hmac::{KeyInit, Mac};
use md5::Digest;

const ROUNDS: u64 = 50;
const CIPHERS: [Cipher; 5] = [
    Cipher::Des,
    Cipher::TripleDes,
    Cipher::Aes128,
    Cipher::Aes192,
    Cipher::Aes256,
];

#[test]
fn cbc_agrees() {
    for round in 0..ROUNDS {
        for cipher in CIPHERS {
            let mut random = Seed::new([1; 32]).stream("cbc", round);
            let key = octets(&mut random, cipher.key_len());
            let iv = octets(&mut random, cipher.block_len());
            let clear = octets(&mut random, cipher.block_len() * (round as usize % 20));
            let mut ours = clear.clone();
            CbcKey::new(cipher, &key).encrypt(&iv, &mut ours);
            assert_eq!(
                ours,
                theirs(cipher, &key, &iv, &clear),
                "{cipher:?} {round}"
            );
            CbcKey::new(cipher, &key).decrypt(&iv, &mut ours);
            assert_eq!(ours, clear, "{cipher:?} {round}");
        }
    }
}

#[test]
fn md5_and_its_hmac_agree() {
    for round in 0..ROUNDS {
        let mut random = Seed::new([2; 32]).stream("md5", round);
        let key = octets(&mut random, 3 * round as usize);
        let data = octets(&mut random, 7 * round as usize);
        let expected = md5::Md5::digest(&data);
        assert_eq!(Hash::Md5.digest(&[&data]).as_ref(), &expected[..]);
        assert_eq!(
            Hash::Md5.hmac(&key, &[&data]).as_ref(),
            hmac_md5(&key, &data)
        );
    }
}

/// RFC 4303 §3.3.2.1: encrypted, then authenticated from SPI to ciphertext and ESN.
#[test]
fn whole_packets_agree() {
    for cipher in CIPHERS {
        let mut random = Seed::new([3; 32]).stream("packet", 0);
        let protection = Protection {
            encryption: Encryption::Cbc(cipher),
            integrity: Integrity::Hmac(Hash::Md5),
        };
        let key = octets(&mut random, cipher.key_len());
        let integrity = octets(&mut random, 16);
        let header = octets(&mut random, 8);
        let iv = octets(&mut random, cipher.block_len());
        let clear = octets(&mut random, 96);
        for esn in [None, Some(0x0a0b_0c0d)] {
            let mut packet = [&header[..], &iv, &clear, &[0; 12]].concat();
            PacketKey::new(protection, &key, &integrity).seal(&mut packet, esn);
            let sealed = [&header[..], &iv, &theirs(cipher, &key, &iv, &clear)].concat();
            let high = esn.map_or(Vec::new(), |high: u32| high.to_be_bytes().to_vec());
            let icv = hmac_md5(&integrity, &[&sealed[..], &high].concat());
            assert_eq!(packet, [&sealed[..], &icv[..12]].concat(), "{cipher:?}");
        }
    }
}

fn theirs(cipher: Cipher, key: &[u8], iv: &[u8], clear: &[u8]) -> Vec<u8> {
    match cipher {
        Cipher::Des => encrypt::<cbc::Encryptor<des::Des>>(key, iv, clear),
        Cipher::TripleDes => encrypt::<cbc::Encryptor<des::TdesEde3>>(key, iv, clear),
        Cipher::Aes128 => encrypt::<cbc::Encryptor<aes::Aes128>>(key, iv, clear),
        Cipher::Aes192 => encrypt::<cbc::Encryptor<aes::Aes192>>(key, iv, clear),
        Cipher::Aes256 => encrypt::<cbc::Encryptor<aes::Aes256>>(key, iv, clear),
    }
}

fn encrypt<T: KeyIvInit + BlockModeEncrypt + BlockSizeUser>(
    key: &[u8],
    iv: &[u8],
    clear: &[u8],
) -> Vec<u8> {
    let mut mode = T::new_from_slices(key, iv).unwrap();
    let mut out = Vec::new();
    for block in clear.chunks(T::block_size()) {
        let mut block = Array::try_from(block).unwrap();
        mode.encrypt_block(&mut block);
        out.extend_from_slice(&block);
    }
    out
}

fn hmac_md5(key: &[u8], data: &[u8]) -> Vec<u8> {
    let mut mac = <hmac::Hmac<md5::Md5> as KeyInit>::new_from_slice(key).unwrap();
    mac.update(data);
    mac.finalize().into_bytes().to_vec()
}

fn octets(random: &mut Stream, len: usize) -> Vec<u8> {
    let mut octets = vec![0; len];
    random.fill(&mut octets);
    octets
}
