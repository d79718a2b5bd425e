use super::*;
use crate::tests::hex;

#[test]
fn every_protection_round_trips_and_detects_every_flipped_bit() {
    for protection in all() {
        let key = key(protection);
        for esn in [None, Some(0), Some(7)] {
            let clear: Vec<u8> = (0..48).collect();
            let sealed = seal(&key, &clear, esn);
            let mut packet = sealed.clone();
            let range = key.open(&mut packet, esn).unwrap();
            assert_eq!(&packet[range], clear, "{protection:?}");
            if !protection.is_authenticated() {
                continue;
            }
            for bit in 0..sealed.len() * 8 {
                let mut packet = sealed.clone();
                packet[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(
                    key.open(&mut packet, esn),
                    Err(BadIcv),
                    "{protection:?} {bit}"
                );
            }
            let other_esn = esn.map_or(Some(0), |high| Some(high + 1));
            assert_eq!(key.open(&mut sealed.clone(), other_esn), Err(BadIcv));
        }
    }
}

#[test]
fn truncated_packets_are_refused_without_panic() {
    for protection in all().into_iter().filter(Protection::is_authenticated) {
        let key = key(protection);
        let sealed = seal(&key, &[9; 32], None);
        for len in 0..sealed.len() {
            assert_eq!(key.open(&mut sealed[..len].to_vec(), None), Err(BadIcv));
        }
    }
}

#[test]
fn a_wrong_icv_leaves_cbc_ciphertext_untouched() {
    let protection = cbc(Cipher::Aes128, Integrity::Hmac(Hash::Sha256));
    let key = key(protection);
    let mut sealed = seal(&key, &[9; 32], None);
    *sealed.last_mut().unwrap() ^= 1;
    let before = sealed.clone();
    assert_eq!(key.open(&mut sealed, None), Err(BadIcv));
    assert_eq!(sealed, before);
}

#[test]
fn other_keys_do_not_open() {
    for protection in all().into_iter().filter(Protection::is_authenticated) {
        let sealed = seal(&key(protection), &[9; 32], None);
        let (mut encryption, mut integrity) = material(protection);
        match integrity.first_mut() {
            Some(octet) => *octet ^= 1,
            None => encryption[0] ^= 1,
        }
        let other = PacketKey::new(protection, &encryption, &integrity);
        assert_eq!(other.open(&mut sealed.clone(), None), Err(BadIcv));
    }
}

#[test]
fn chacha20_poly1305_seals_the_packet_of_rfc_7634() {
    // RFC 7634 appendix A.
    let material = hex("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3");
    let clear = hex(
        "45000054a6f200004001e778c6336405c000020508005b7a3a080000553bec10\
         0007362708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223\
         2425262728292a2b2c2d2e2f303132333435363701020204",
    );
    let expected = hex(
        "0102030400000005101112131415161724039428b97f417e3c13753a4f05087b\
         67c352e6a7fab1b982d466ef407ae5c614ee8099d52844eb61aa95dfab4c02f7\
         2aa71e7c4c4f64c9befe2facc638e8f3cbec163fac469b502773f6fb94e664da\
         9165b82829f641e076aaa8266b7fb0f7b11b369907e1ad43",
    );
    let protection = Protection {
        encryption: Encryption::ChaCha20Poly1305,
        integrity: Integrity::None,
    };
    let key = PacketKey::new(protection, &material, &[]);
    let header = hex("01020304000000051011121314151617");
    let mut packet = [&header[..], &clear, &[0; 16]].concat();
    key.seal(&mut packet, None);
    assert_eq!(packet, expected);
    let range = key.open(&mut packet, None).unwrap();
    assert_eq!(&packet[range], clear);
}

#[test]
fn hmac_covers_spi_to_ciphertext_and_the_upper_sequence_number() {
    let protection = cbc(Cipher::Aes128, Integrity::Hmac(Hash::Sha1));
    let (_, integrity) = material(protection);
    for esn in [None, Some(0x0102_0304)] {
        let packet = seal(&key(protection), &[9; 32], esn);
        let (signed, icv) = packet.split_at(packet.len() - 12);
        let high = esn.map(u32::to_be_bytes);
        let high = high.as_ref().map_or(&[][..], |high| &high[..]);
        let digest = Hash::Sha1.hmac(&integrity, &[signed, high]);
        assert_eq!(icv, &digest.as_ref()[..12]);
    }
}

#[test]
fn ah_icvs_are_cut_hmacs() {
    for (hash, len) in [
        (Hash::Md5, 12),
        (Hash::Sha1, 12),
        (Hash::Sha256, 16),
        (Hash::Sha512, 32),
    ] {
        let protection = Protection {
            encryption: Encryption::Null,
            integrity: Integrity::Hmac(hash),
        };
        assert_eq!(protection.icv_len(), len);
        let (_, integrity) = material(protection);
        let key = key(protection);
        let mut icv = vec![0; len];
        key.icv(&[b"ab", b"", b"c"], &mut icv);
        assert_eq!(icv, hash.hmac(&integrity, &[b"abc"]).as_ref()[..len]);
        assert_eq!(key.verify_icv(&[b"abc"], &icv), Ok(()));
        assert_eq!(key.verify_icv(&[b"abd"], &icv), Err(BadIcv));
        assert_eq!(key.verify_icv(&[b"abc"], &icv[1..]), Err(BadIcv));
    }
}

#[test]
fn a_key_is_small() {
    // A gateway holds two for each of 100,000 tunnels. 584 is the largest part on the heap.
    assert!(
        size_of::<PacketKey>() + 584 < 1024,
        "{}",
        size_of::<PacketKey>()
    );
}

fn all() -> Vec<Protection> {
    let ciphers = [
        Cipher::Des,
        Cipher::TripleDes,
        Cipher::Aes128,
        Cipher::Aes192,
        Cipher::Aes256,
    ];
    let hashes = [
        Hash::Md5,
        Hash::Sha1,
        Hash::Sha256,
        Hash::Sha384,
        Hash::Sha512,
    ];
    let aeads = [16, 24, 32].map(|key_len| Encryption::AesGcm { key_len });
    let mut all: Vec<Protection> = aeads
        .into_iter()
        .chain([Encryption::ChaCha20Poly1305])
        .map(|encryption| Protection {
            encryption,
            integrity: Integrity::None,
        })
        .collect();
    for hash in hashes {
        let integrity = Integrity::Hmac(hash);
        all.push(Protection {
            encryption: Encryption::Null,
            integrity,
        });
        all.extend(ciphers.map(|cipher| cbc(cipher, integrity)));
    }
    all.extend(ciphers.map(|cipher| cbc(cipher, Integrity::None)));
    all
}

fn cbc(cipher: Cipher, integrity: Integrity) -> Protection {
    Protection {
        encryption: Encryption::Cbc(cipher),
        integrity,
    }
}

fn material(protection: Protection) -> (Vec<u8>, Vec<u8>) {
    let octets = |len: usize, from: u8| (0..len as u8).map(move |at| at.wrapping_mul(37) ^ from);
    (
        octets(protection.encryption_key_len(), 0x5a).collect(),
        octets(protection.integrity_key_len(), 0xa5).collect(),
    )
}

fn key(protection: Protection) -> PacketKey {
    let (encryption, integrity) = material(protection);
    PacketKey::new(protection, &encryption, &integrity)
}

fn seal(key: &PacketKey, clear: &[u8], esn: Option<u32>) -> Vec<u8> {
    let protection = key.protection();
    let iv = vec![0x33; protection.iv_len()];
    let room = vec![0; protection.icv_len()];
    let mut packet = [&[1, 2, 3, 4, 0, 0, 0, 5], &iv[..], clear, &room].concat();
    key.seal(&mut packet, esn);
    packet
}
