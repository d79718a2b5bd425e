use super::*;
use crate::tests::hex;

/// Encrypts and decrypts.
fn check(cipher: Cipher, key: &str, iv: &str, clear: &[u8], sealed: &str) {
    let (key, iv, sealed) = (CbcKey::new(cipher, &hex(key)), hex(iv), hex(sealed));
    let mut data = clear.to_vec();
    key.encrypt(&iv, &mut data);
    assert_eq!(data, sealed, "{cipher:?}");
    key.decrypt(&iv, &mut data);
    assert_eq!(data, clear);
}

#[test]
fn aes_cbc_is_as_published() {
    // RFC 3602 §4, cases 1 and 2.
    check(
        Cipher::Aes128,
        "06a9214036b8a15b512e03d534120006",
        "3dafba429d9eb430b422da802c9fac41",
        b"Single block msg",
        "e353779c1079aeb82708942dbe77181a",
    );
    check(
        Cipher::Aes128,
        "c286696d887c9aa0611bbb3e2025a45a",
        "562e17996d093d28ddb3ba695a2e6f58",
        &(0..32).collect::<Vec<u8>>(),
        "d296cd94c2cccf8a3a863028b5e1dc0a7586602d253cfff91b8266bea6d61ab1",
    );
    // NIST SP 800-38A F.2.3 and F.2.5, the first block.
    let clear = hex("6bc1bee22e409f96e93d7e117393172a");
    check(
        Cipher::Aes192,
        "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
        "000102030405060708090a0b0c0d0e0f",
        &clear,
        "4f021db243bc633d7178183a9fa071e8",
    );
    check(
        Cipher::Aes256,
        "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
        "000102030405060708090a0b0c0d0e0f",
        &clear,
        "f58c4c04d6e5f1ba779eabfb5f7bfbd6",
    );
}

#[test]
fn des_cbc_is_as_published() {
    // FIPS 81 appendix C, CBC.
    check(
        Cipher::Des,
        "0123456789abcdef",
        "1234567890abcdef",
        b"Now is the time for all ",
        "e5c7cdde872bf27c43e934008c389c0f683788499a7c05f6",
    );
    // Three equal keys make triple DES single.
    check(
        Cipher::TripleDes,
        "0123456789abcdef0123456789abcdef0123456789abcdef",
        "1234567890abcdef",
        b"Now is the time for all ",
        "e5c7cdde872bf27c43e934008c389c0f683788499a7c05f6",
    );
}

#[test]
fn weak_des_keys_are_known_with_any_parity() {
    for weak in WEAK_DES_KEYS {
        assert!(Cipher::Des.is_weak_key(&weak));
        assert!(Cipher::Des.is_weak_key(&weak.map(|octet| octet ^ PARITY)));
        let mut near = weak;
        near[3] ^= 0x40;
        assert!(!Cipher::Des.is_weak_key(&near));
        assert!(weak.iter().all(|octet| octet.count_ones() % 2 == 1));
    }
    for (a, b) in [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 5),
        (6, 7),
        (8, 9),
        (10, 11),
        (12, 13),
        (14, 15),
    ] {
        // They are weak because the second encryption undoes the first.
        let mut data = *b"8 octets";
        let encrypt = |key: usize, data: &mut [u8]| {
            CbcKey::new(Cipher::Des, &WEAK_DES_KEYS[key]).encrypt(&[0; 8], data);
        };
        encrypt(a, &mut data);
        encrypt(b, &mut data);
        assert_eq!(&data, b"8 octets", "{a} {b}");
    }
}

#[test]
fn triple_des_keys_that_are_single_are_weak() {
    let key = hex("0123456789abcdef23456789abcdef01456789abcdef0123");
    assert!(!Cipher::TripleDes.is_weak_key(&key));
    let (a, b) = (&key[..8], &key[8..16]);
    assert!(Cipher::TripleDes.is_weak_key(&[a, a, b].concat()));
    assert!(Cipher::TripleDes.is_weak_key(&[a, b, b].concat()));
    assert!(!Cipher::TripleDes.is_weak_key(&[a, b, a].concat()));
    assert!(!Cipher::Aes128.is_weak_key(&[1; 16]));
}
