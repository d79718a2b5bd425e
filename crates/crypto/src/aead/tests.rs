use super::*;
use crate::tests::hex;

fn check(aead: Aead, key: &str, nonce: &str, aad: &str, clear: &str, sealed: &str) {
    let (nonce, aad, clear) = (hex(nonce), hex(aad), hex(clear));
    let (salt, iv) = nonce.split_at(SALT_LEN);
    let iv: [u8; IV_LEN] = iv.try_into().unwrap();
    let key = AeadKey::new(aead, &[&hex(key)[..], salt].concat());
    let (mut data, mut icv) = (clear.clone(), [0; ICV_LEN]);
    key.seal(iv, &aad, &mut data, &mut icv);
    data.extend(icv);
    assert_eq!(data, hex(sealed));
    key.open(iv, &aad, &mut data).unwrap();
    assert_eq!(data[..clear.len()], clear);
    data[..].copy_from_slice(&hex(sealed));
    *data.last_mut().unwrap() ^= 1;
    assert_eq!(key.open(iv, &aad, &mut data), Err(BadIcv));
}

#[test]
fn aes_gcm_is_as_published() {
    // The GCM specification's test cases 4, 10 and 16 (NIST, McGrew and Viega).
    let clear = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
        1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
    let aad = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
    let key = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
    let nonce = "cafebabefacedbaddecaf888";
    for (len, sealed) in [(32, CASE_4), (48, CASE_10), (64, CASE_16)] {
        check(Aead::AesGcm, &key[..len], nonce, aad, clear, sealed);
    }
}

const CASE_4: &str = "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
    21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091\
    5bc94fbc3221a5db94fae95ae7121a47";
const CASE_10: &str = "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c\
    7d773d00c144c525ac619d18c84a3f4718e2448b2fe324d9ccda2710\
    2519498e80f1478f37ba55bd6d27618c";
const CASE_16: &str = "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
    8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662\
    76fc6ece0f4e1768cddf8853bb2d551b";

/// RFC 8452 appendix C.2, with additional data and 8 octets of clear text.
#[test]
fn aes_gcm_siv_is_as_published() {
    let key = "0100000000000000000000000000000000000000000000000000000000000000";
    let nonce = "030000000000000000000000";
    let clear = "0200000000000000";
    let sealed = "1de22967237a813291213f267e3b452f02d01ae33e4ec854";
    check(Aead::AesGcmSiv, key, nonce, "01", clear, sealed);
    let key = "0100000000000000000000000000000000000000000000000000000000000000";
    let sealed = "c2ef328e5c71c83b843122130f7364b761e0b97427e3df28";
    check(Aead::AesGcmSiv, key, nonce, "", "0100000000000000", sealed);
}
