use super::*;
use crate::tests::hex;

/// 1024 bits, made by `openssl genrsa -traditional`; for tests only.
pub(crate) const PKCS1: &str = "\
-----BEGIN RSA PRIVATE KEY-----
MIICWwIBAAKBgQCgFb+0WcyRo5rbf7NjS1r+edJkLReNt3c67w0+dyACoLrxsgH+
JhWxPtZhyDJyRBQTDp4tpJ84+mCoG3UYBrYYCp62Tsn7ugOrkwqZPY8UL6lXfgOA
KkrkBq0K+wTdu5+uULko83g2h/ih6ftPGZinY1o/7P/i/dFHR6/AcOB1gwIDAQAB
AoGAazBk3nPKYDI1/IczLGdGlGIpl94BiWixMwrhyVOmYVwSEMfqQaxqlfXHQk30
SUKAVopRK6qw2kv78FQCQYYs4jkA80mQAp1ZV1PTE9ttVF72a0a1Mgz5WY5Su61g
sl7GpybL6c1qeqAd8iAJwFcIjlguiFJTu7IEKQJ0GixWX7ECQQDOu7hVtqycAbMQ
1XgV9/YC9UkW5uENGFFbK4ZH7zP210DrQsTMd4Ih5lnxAhJ4foy8zkImc0Nvu1hw
OGRDZ7nXAkEAxjwhmlyLvv+NNMFabZ/St9vdaldLMwUB9TtuRg9UP3Ne3JU/qOuh
9dk8j8pXoqYGt8lZO7osdH/Vk955oslkNQJATlDI3Retvg/awQbNTi04MhivzpA6
M1bCAzKy1O9mFR2oRzdtDDQ9xQ/ZhLaPPrxaHnBYmO5TXrFvKFwEh5B00wJAUdRO
lravJRe+hVFvb6Myy5yhyJziONxPU5jFy3vWbh7EwM+HKMaj46VZ/40qIcThLwqZ
oDMY2LpQQqrqkQ0LJQJAG/UiTYZ1HosZLdnWewu1zUSJeS2wk6KThrFandmYC1y/
8yA4WC8tlFluLccX2dV/2sR+ZOSeZQjhp43o8/HViQ==
-----END RSA PRIVATE KEY-----";

/// The same key in PKCS #8.
const PKCS8: &str = "\
-----BEGIN PRIVATE KEY-----
MIICdQIBADANBgkqhkiG9w0BAQEFAASCAl8wggJbAgEAAoGBAKAVv7RZzJGjmtt/
s2NLWv550mQtF423dzrvDT53IAKguvGyAf4mFbE+1mHIMnJEFBMOni2knzj6YKgb
dRgGthgKnrZOyfu6A6uTCpk9jxQvqVd+A4AqSuQGrQr7BN27n65QuSjzeDaH+KHp
+08ZmKdjWj/s/+L90UdHr8Bw4HWDAgMBAAECgYBrMGTec8pgMjX8hzMsZ0aUYimX
3gGJaLEzCuHJU6ZhXBIQx+pBrGqV9cdCTfRJQoBWilErqrDaS/vwVAJBhiziOQDz
SZACnVlXU9MT221UXvZrRrUyDPlZjlK7rWCyXsanJsvpzWp6oB3yIAnAVwiOWC6I
UlO7sgQpAnQaLFZfsQJBAM67uFW2rJwBsxDVeBX39gL1SRbm4Q0YUVsrhkfvM/bX
QOtCxMx3giHmWfECEnh+jLzOQiZzQ2+7WHA4ZENnudcCQQDGPCGaXIu+/400wVpt
n9K3291qV0szBQH1O25GD1Q/c17clT+o66H12TyPyleipga3yVk7uix0f9WT3nmi
yWQ1AkBOUMjdF62+D9rBBs1OLTgyGK/OkDozVsIDMrLU72YVHahHN20MND3FD9mE
to8+vFoecFiY7lNesW8oXASHkHTTAkBR1E6Wtq8lF76FUW9vozLLnKHInOI43E9T
mMXLe9ZuHsTAz4coxqPjpVn/jSohxOEvCpmgMxjYulBCquqRDQslAkAb9SJNhnUe
ixkt2dZ7C7XNRIl5LbCTopOGsVqd2ZgLXL/zIDhYLy2UWW4txxfZ1X/axH5k5J5l
COGnjejz8dWJ
-----END PRIVATE KEY-----";

/// Its SubjectPublicKeyInfo.
const SPKI: &str = "\
    30819f300d06092a864886f70d010101050003818d0030818902818100a015bfb459cc91a39adb7fb3634b5a\
    fe79d2642d178db7773aef0d3e772002a0baf1b201fe2615b13ed661c832724414130e9e2da49f38fa60a81b\
    751806b6180a9eb64ec9fbba03ab930a993d8f142fa9577e03802a4ae406ad0afb04ddbb9fae50b928f37836\
    87f8a1e9fb4f1998a7635a3fecffe2fdd14747afc070e075830203010001";

/// 512 bits.
const SHORT: &str = "\
-----BEGIN RSA PRIVATE KEY-----
MIIBOQIBAAJBAKjUENwVZ7RP4lK+cekf+zJIIA5GkfXE3axH56Zo9Jd+ZjTaWJIb
jJH0IP0MQgF3eqr1ewfVqlZSkTIG/dZExz0CAwEAAQJAeyrbcfSbx8xPzRXrfKw8
Up6T5FZPvgF1x25d7eW8K5h3xNozTcX73yICCGByHcs+wNxI8ird/fYWJM4cF1yt
8QIhANnPIcC1NMRzBlFKc3p/AwWFMSGphRu/YO/1ZJo5yVdPAiEAxm5R+4RxBWO2
A2LTaAUHRQs8d/XipJoideTzbVOo1bMCIDTozBoz6o2OI4q7uzGWiPVeVYEH3P3Q
j4u64KVWREKhAiB1GuRNMHNW/+qKAwfKqrUInUH5deZkyAYwV4cF7UqFmwIgBSiE
nSDoWOPixatiRdXFRiMicE4wWWxeQKbuhfxKtnM=
-----END RSA PRIVATE KEY-----";

/// P-256.
const CURVE: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgvB+/AtH0C0MZFW5K
7uEiIJtR5rVCgmQrCQ3sbwSUyWqhRANCAARZwYeSPXGf7lQza8UaaPDAqmikAaE4
NEqwwSCSNVmBFrXk5DqqCDjDymEQ4LL/FxJiCF6hEVAng2PmFIQgnfd9
-----END PRIVATE KEY-----";

/// `openssl pkeyutl -sign -pkeyopt rsa_padding_mode:pkcs1` over `HASH`.
const SIGNATURE: &str = "\
    0b9754b028aedcbb433b1fc18582b976d1caa0256cd6cf79504a224a33652b82da4a5e316823d962b9c71a9e\
    eb08c8e99bd222edce06e69727a3078e34fb007d4771417cbd8b54021dc1531fbe9753dcbf8b9b96bf75e122\
    4e857878b2ba246d4a6079e069844172a686d94ab3e855f0d3f799a97e5c93834a2b1fdd0069b174";
const HASH: &[u8; 20] = b"a bare hash of some ";

#[test]
fn signatures_are_those_of_openssl() {
    for text in [PKCS1, PKCS8] {
        let key = PrivateKey::from_pem(text).unwrap();
        assert_eq!(key.sign_bare(HASH), hex(SIGNATURE));
        assert_eq!(key.public().bits(), 1024);
        assert_eq!(key.public().verify_bare(HASH, &hex(SIGNATURE)), Ok(()));
    }
    let public = PublicKey::from_spki(&hex(SPKI)).unwrap();
    assert_eq!(public.verify_bare(HASH, &hex(SIGNATURE)), Ok(()));
    let private = PrivateKey::from_pem(PKCS1).unwrap();
    assert!(public == private.public());
    // The modulus ends 5 octets before the end: the exponent 65537 follows it.
    let mut other = hex(SPKI);
    let at = other.len() - 6;
    other[at] ^= 2;
    assert!(PublicKey::from_spki(&other).unwrap() != private.public());
}

#[test]
fn every_hash_length_round_trips() {
    let key = PrivateKey::from_pem(PKCS1).unwrap();
    for len in [16, 20, 32, 48, 64] {
        let hash = vec![7; len];
        let signature = key.sign_bare(&hash);
        assert_eq!(key.public().verify_bare(&hash, &signature), Ok(()));
        let shorter = key.public().verify_bare(&hash[1..], &signature);
        assert_eq!(shorter, Err(RsaFault::BadSignature));
    }
}

#[test]
fn altered_signatures_and_hashes_are_refused() {
    let public = PublicKey::from_spki(&hex(SPKI)).unwrap();
    let signature = hex(SIGNATURE);
    for at in 0..signature.len() {
        let mut altered = signature.clone();
        altered[at] ^= 0x10;
        assert_eq!(
            public.verify_bare(HASH, &altered),
            Err(RsaFault::BadSignature)
        );
        let truncated = public.verify_bare(HASH, &signature[..at]);
        assert_eq!(truncated, Err(RsaFault::BadSignature));
    }
    let longer = [&signature[..], &[0]].concat();
    assert_eq!(
        public.verify_bare(HASH, &longer),
        Err(RsaFault::BadSignature)
    );
    assert_eq!(
        public.verify_bare(&[0; 20], &signature),
        Err(RsaFault::BadSignature)
    );
    assert_eq!(
        public.verify_bare(&[], &signature),
        Err(RsaFault::BadSignature)
    );
}

#[test]
fn a_signature_with_digest_info_is_not_one_over_the_bare_hash() {
    let key = PrivateKey::from_pem(PKCS1).unwrap();
    let info = hex("3021300906052b0e03021a05000414");
    let signature = key.sign_bare(&[&info, &HASH[..]].concat());
    let verdict = key.public().verify_bare(HASH, &signature);
    assert_eq!(verdict, Err(RsaFault::BadSignature));
}

#[test]
fn short_keys_and_other_keys_are_refused() {
    let fault = |text| PrivateKey::from_pem(text).err().unwrap();
    assert_eq!(fault(SHORT), RsaFault::Size { bits: 512 });
    assert_eq!(fault(CURVE), RsaFault::NotAKey);
    assert_eq!(fault(""), RsaFault::NotAKey);
    assert_eq!(
        fault("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        RsaFault::NotAKey
    );
    assert!(PrivateKey::from_pem(&format!("text\n{SHORT}\n{PKCS8}")).is_err());
    let public = PublicKey::from_spki(&[]).err();
    assert_eq!(public, Some(RsaFault::NotAKey));
}

#[test]
fn truncated_and_trailing_octets_are_refused() {
    let spki = hex(SPKI);
    let private = private_der_of_pem(PKCS8).unwrap();
    for len in 0..spki.len() {
        assert!(PublicKey::from_spki(&spki[..len]).is_err());
    }
    for len in 0..private.len() {
        assert!(PrivateKey::from_der(&private[..len]).is_err());
    }
    assert!(PublicKey::from_spki(&[&spki[..], &[0]].concat()).is_err());
    assert!(PrivateKey::from_der(&[&private[..], &[0]].concat()).is_err());
}

/// DigestInfo up to the hash, whose length it names (RFC 8017 §9.2).
fn digest_info(hash: Hash, len: usize) -> Vec<u8> {
    let identifier: &[u8] = match hash {
        Hash::Md5 => &[6, 8, 0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 2, 5, 5, 0],
        Hash::Sha1 => &[6, 5, 0x2b, 14, 3, 2, 26, 5, 0],
        Hash::Sha256 => &[6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1, 5, 0],
        Hash::Sha384 => &[6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2, 5, 0],
        Hash::Sha512 => &[6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3, 5, 0],
    };
    let size = identifier.len() as u8;
    let mut all = vec![0x30, size + 4 + len as u8, 0x30, size];
    all.extend(identifier);
    all.extend([4, len as u8]);
    all
}

/// CVE-2026-50722: a peer signs a hash that is too short or too long, and Libreswan's pluto takes
/// it. Whoever has the key can sign any octets; only the whole hash of what was agreed counts.
#[test]
fn only_the_whole_hash_of_what_is_signed_counts() {
    const SIGNED: &[u8] = b"the octets that AUTH covers";
    let hashes = [Hash::Sha1, Hash::Sha256, Hash::Sha384, Hash::Sha512];
    let key = PrivateKey::from_pem(PKCS1).unwrap();
    let public = key.public();
    let is_taken = |hash: Hash, told: &[u8]| {
        let signature = key.0.sign_padded(told).unwrap();
        public.verify_pkcs1(hash, &[SIGNED], &signature).is_ok()
    };
    for hash in hashes {
        let right = hash.digest(&[SIGNED]);
        let octets = [right.as_ref(), &[0; 32]].concat();
        for len in 0..=octets.len() {
            for named in [len, hash.len()] {
                let told = [&digest_info(hash, named)[..], &octets[..len]].concat();
                let is_whole = len == hash.len();
                assert_eq!(is_taken(hash, &told), is_whole, "{hash:?} {len} {named}");
            }
            assert!(!is_taken(hash, &octets[..len]), "{hash:?} {len} alone");
        }
        // The right hash of another function.
        for other in hashes {
            let digest = other.digest(&[SIGNED]);
            let told = [&digest_info(other, other.len())[..], digest.as_ref()].concat();
            assert_eq!(is_taken(hash, &told), hash == other, "{hash:?} {other:?}");
        }
    }
}
