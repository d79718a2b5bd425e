use proptest::prelude::*;

use super::*;
use crate::cipher::{CbcKey, Cipher};
use crate::hash::Hash;
use crate::packet::Integrity;
use crate::packet::PacketKey;
use crate::tests::hex;

fn aead(encryption: Encryption) -> Protection {
    Protection {
        encryption,
        integrity: Integrity::None,
    }
}

fn cbc(cipher: Cipher, hash: Hash) -> Protection {
    Protection {
        encryption: Encryption::Cbc(cipher),
        integrity: Integrity::Hmac(hash),
    }
}

fn all() -> Vec<Protection> {
    let aeads = [
        Encryption::AesGcm { key_len: 16 },
        Encryption::AesGcm { key_len: 24 },
        Encryption::AesGcm { key_len: 32 },
        Encryption::ChaCha20Poly1305,
    ];
    let mut all: Vec<_> = aeads.into_iter().map(aead).collect();
    for hash in [Hash::Sha1, Hash::Sha256, Hash::Sha384, Hash::Sha512] {
        all.push(cbc(Cipher::Aes128, hash));
        all.push(cbc(Cipher::Aes256, hash));
    }
    all
}

fn material(protection: Protection) -> (Vec<u8>, Vec<u8>) {
    let octets = |len: usize, from: u8| (0..len).map(|at| from ^ at as u8).collect();
    (
        octets(protection.encryption_key_len(), 0x40),
        octets(protection.integrity_key_len(), 0x80),
    )
}

fn key(protection: Protection) -> MessageKey {
    let (encryption, integrity) = material(protection);
    MessageKey::new(protection, &encryption, &integrity)
}

const START: usize = 32;

/// A message with this clear text after 32 octets.
fn sealed(key: &MessageKey, clear: &[u8]) -> Vec<u8> {
    let mut message: Vec<u8> = (0..START as u8).collect();
    message.resize(START + key.sealed_len(clear.len()), 0);
    let iv = vec![0x5a; key.protection().iv_len()];
    key.seal(&mut message, START, &iv, clear);
    message
}

/// RFC 7634 appendix B: INFORMATIONAL with SET_WINDOW_SIZE.
#[test]
fn chacha20_poly1305_seals_the_message_of_rfc_7634() {
    let material = hex("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3");
    let key = MessageKey::new(aead(Encryption::ChaCha20Poly1305), &material, &[]);
    let clear = hex("0000000c000040010000000a");
    let expected = hex("
        c0c1c2c3c4c5c6c7 d0d1d2d3d4d5d6d7 2e202500 00000009 00000045 29000029
        1011121314151617 6103 94701f8d017f7c12924889 6b71bfe25236efd7cdc67066906315b2");
    let mut message = expected[..START].to_vec();
    message.resize(START + key.sealed_len(clear.len()), 0);
    key.seal(&mut message, START, &hex("1011121314151617"), &clear);
    assert_eq!(message, expected);
    let range = key.open(&mut message, START).unwrap();
    assert_eq!(message[range], clear);
}

#[test]
fn every_protection_round_trips_and_detects_every_flipped_bit() {
    for protection in all() {
        let key = key(protection);
        for len in [0, 1, 15, 16, 17, 40] {
            let clear: Vec<u8> = (0..len).collect();
            let message = sealed(&key, &clear);
            let mut opened = message.clone();
            let range = key.open(&mut opened, START).unwrap();
            assert_eq!(opened[range], clear, "{protection:?}");
            for bit in 0..message.len() * 8 {
                let mut flipped = message.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(
                    key.open(&mut flipped, START),
                    Err(Refused::BadIcv(BadIcv)),
                    "{protection:?} {bit}"
                );
            }
        }
    }
}

#[test]
fn truncated_messages_are_refused_without_panic() {
    for protection in all() {
        let key = key(protection);
        let message = sealed(&key, &[9; 20]);
        for len in START..message.len() {
            let opened = key.open(&mut message[..len].to_vec(), START);
            assert_eq!(opened, Err(Refused::BadIcv(BadIcv)), "{len}");
        }
        // Where the payload begins is authenticated by what is before it, or by the IV.
        let opened = key.open(&mut message.clone(), START - 1);
        assert!(opened.is_err(), "{protection:?}");
    }
}

#[test]
fn other_keys_do_not_open() {
    for protection in all() {
        let message = sealed(&key(protection), &[9; 20]);
        let (mut encryption, mut integrity) = material(protection);
        match integrity.first_mut() {
            Some(octet) => *octet ^= 1,
            None => encryption[0] ^= 1,
        }
        let other = MessageKey::new(protection, &encryption, &integrity);
        let opened = other.open(&mut message.clone(), START);
        assert_eq!(opened, Err(Refused::BadIcv(BadIcv)));
    }
}

/// RFC 7296 §3.14: the HMAC is over everything before it, and the last octet before it is the
/// length of the padding.
#[test]
fn cbc_has_its_hmac_over_the_whole_message_and_its_padding_at_the_end() {
    let protection = cbc(Cipher::Aes256, Hash::Sha384);
    let (encryption, integrity) = material(protection);
    let message = sealed(&key(protection), &[9; 20]);
    assert_eq!(message.len(), START + 16 + 32 + 24);
    let (signed, icv) = message.split_at(message.len() - 24);
    let digest = Hash::Sha384.hmac(&integrity, &[signed]);
    assert_eq!(icv, &digest.as_ref()[..24]);
    let (iv, mut body) = (&signed[START..START + 16], signed[START + 16..].to_vec());
    CbcKey::new(Cipher::Aes256, &encryption).decrypt(iv, &mut body);
    assert_eq!(body, [&[9; 20][..], &[0; 11], &[11]].concat());
}

/// A message with a right ICV, whose encrypted part is these octets.
fn authentic(protection: Protection, body: &[u8]) -> (MessageKey, Vec<u8>) {
    let (encryption, integrity) = material(protection);
    let packet_key = PacketKey::new(protection, &encryption, &integrity);
    let iv = vec![0x5a; protection.iv_len()];
    let mut message: Vec<u8> = (0..START as u8).collect();
    message.extend(&iv);
    message.extend(body);
    message.resize(message.len() + protection.icv_len(), 0);
    let (head, rest) = message.split_at_mut(START + iv.len());
    packet_key.encrypt(&head[..START], &iv, rest);
    packet_key.write_mac(&mut message, &[]);
    (key(protection), message)
}

#[test]
fn padding_of_any_content_is_accepted_and_padding_longer_than_the_payload_refused() {
    for protection in all() {
        let at = START + protection.iv_len();
        for (pad_len, expected) in [
            (0, Ok(at..at + 31)),
            (7, Ok(at..at + 24)),
            (31, Ok(at..at)),
            (32, Err(Refused::Padding)),
            (255, Err(Refused::Padding)),
        ] {
            let mut body = vec![0xab; 32];
            body[31] = pad_len;
            let (key, mut message) = authentic(protection, &body);
            assert_eq!(key.open(&mut message, START), expected, "{protection:?}");
        }
    }
}

#[test]
fn a_payload_of_no_whole_blocks_or_without_a_pad_length_is_refused() {
    for protection in all() {
        let (key, mut message) = match protection.encryption {
            Encryption::Cbc(_) => {
                // The ICV is right, and the ciphertext is 17 octets.
                let (encryption, integrity) = material(protection);
                let packet_key = PacketKey::new(protection, &encryption, &integrity);
                let len = START + 16 + 17 + protection.icv_len();
                let mut message = vec![3; len];
                packet_key.write_mac(&mut message, &[]);
                (key(protection), message)
            }
            _ => authentic(protection, &[]),
        };
        let opened = key.open(&mut message, START);
        assert_eq!(opened, Err(Refused::BadIcv(BadIcv)), "{protection:?}");
    }
}

#[test]
#[should_panic(expected = "IKE encrypts and authenticates")]
fn a_key_without_integrity_is_a_mistake() {
    let protection = Protection {
        encryption: Encryption::Cbc(Cipher::Aes128),
        integrity: Integrity::None,
    };
    MessageKey::new(protection, &[0; 16], &[]);
}

proptest! {
    #[test]
    fn a_fragment_holds_as_much_as_it_says(
        which in any::<prop::sample::Index>(),
        room in 0usize..1500,
    ) {
        let all = all();
        let key = key(all[which.index(all.len())]);
        match key.clear_len(room) {
            None => prop_assert!(key.sealed_len(0) > room),
            Some(most) => {
                prop_assert!(key.sealed_len(most) <= room);
                prop_assert!(key.sealed_len(most + 1) > room);
            }
        }
    }
}
