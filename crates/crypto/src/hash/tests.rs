use super::*;

const ALL: [Hash; 5] = [
    Hash::Md5,
    Hash::Sha1,
    Hash::Sha256,
    Hash::Sha384,
    Hash::Sha512,
];

fn hex(text: &str) -> Vec<u8> {
    crate::tests::hex(text)
}

#[test]
fn hashes_of_abc_are_as_published() {
    // RFC 1321 appendix A.5, RFC 6234 §8.5 (FIPS 180).
    let expected = [
        "900150983cd24fb0d6963f7d28e17f72",
        "a9993e364706816aba3e25717850c26c9cd0d89d",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed\
         8086072ba1e7cc2358baeca134c825a7",
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
         2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
    ];
    for (hash, expected) in ALL.into_iter().zip(expected) {
        assert_eq!(hash.digest(&[b"abc"]).as_ref(), hex(expected), "{hash:?}");
        assert_eq!(hash.digest(&[b"a", b"", b"bc"]).as_ref(), hex(expected));
        assert_eq!(hash.len(), hex(expected).len());
    }
}

/// Key, data, expected.
type Vector = (Vec<u8>, Vec<u8>, &'static str);

fn check(hash: Hash, vectors: &[Vector]) {
    for (key, data, expected) in vectors {
        let expected = hex(expected);
        let whole = hash.hmac(key, &[data]);
        assert_eq!(&whole.as_ref()[..expected.len()], expected, "{hash:?}");
        let (front, back) = data.split_at(data.len() / 3);
        assert!(hash.hmac(key, &[front, back]) == whole);
        let prepared = HmacKey::new(hash, key);
        assert_eq!(prepared.hash(), hash);
        assert!(prepared.sign(&[data]) == whole);
        let mut running = prepared.start();
        data.iter().for_each(|octet| running.update(&[*octet]));
        assert!(running.finish() == whole);
        let mut other = key.clone();
        other[0] ^= 1;
        assert!(hash.hmac(&other, &[data]) != whole);
    }
}

fn ascending_25() -> Vec<u8> {
    (1..=25).collect()
}

#[test]
fn hmac_md5_is_as_published() {
    // RFC 2202 §2.
    let jefe = b"what do ya want for nothing?".to_vec();
    check(
        Hash::Md5,
        &[
            (
                vec![0x0b; 16],
                b"Hi There".to_vec(),
                "9294727a3638bb1c13f48ef8158bfc9d",
            ),
            (b"Jefe".to_vec(), jefe, "750c783e6ab0b503eaa86e310a5db738"),
            (
                vec![0xaa; 16],
                vec![0xdd; 50],
                "56be34521d144c88dbb8c733f0e8b3f6",
            ),
            (
                ascending_25(),
                vec![0xcd; 50],
                "697eaf0aca3a3aea3a75164746ffaa79",
            ),
            (
                vec![0x0c; 16],
                b"Test With Truncation".to_vec(),
                "56461ef2342edc00f9bab995690efd4c",
            ),
            (
                vec![0xaa; 80],
                b"Test Using Larger Than Block-Size Key - Hash Key First".to_vec(),
                "6b1ab7fe4bd7bf8f0b62e6ce61b9d0cd",
            ),
            (
                vec![0xaa; 80],
                b"Test Using Larger Than Block-Size Key and Larger Than One Block-Size Data"
                    .to_vec(),
                "6f630fad67cda0ee1fb1f562db3aa53e",
            ),
        ],
    );
}

#[test]
fn hmac_sha1_is_as_published() {
    // RFC 2202 §3.
    let jefe = b"what do ya want for nothing?".to_vec();
    check(
        Hash::Sha1,
        &[
            (
                vec![0x0b; 20],
                b"Hi There".to_vec(),
                "b617318655057264e28bc0b6fb378c8ef146be00",
            ),
            (
                b"Jefe".to_vec(),
                jefe,
                "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
            ),
            (
                vec![0xaa; 20],
                vec![0xdd; 50],
                "125d7342b9ac11cd91a39af48aa17b4f63f175d3",
            ),
            (
                ascending_25(),
                vec![0xcd; 50],
                "4c9007f4026250c6bc8414f9bf50c86c2d7235da",
            ),
            (
                vec![0x0c; 20],
                b"Test With Truncation".to_vec(),
                "4c1a03424b55e07fe7f27be1d58bb9324a9a5a04",
            ),
            (
                vec![0xaa; 80],
                b"Test Using Larger Than Block-Size Key - Hash Key First".to_vec(),
                "aa4ae5e15272d00e95705637ce8a3b55ed402112",
            ),
        ],
    );
}

#[test]
fn hmac_sha2_is_as_published() {
    // RFC 4231 §4.2 to §4.8; expected for SHA-256, SHA-384, SHA-512.
    let long_key = b"Test Using Larger Than Block-Size Key - Hash Key First".to_vec();
    let long_both = b"This is a test using a larger than block-size key and a larger than \
        block-size data. The key needs to be hashed before being used by the HMAC algorithm."
        .to_vec();
    let jefe = b"what do ya want for nothing?".to_vec();
    let cases: [(Vec<u8>, Vec<u8>, [&'static str; 3]); 7] = [
        (vec![0x0b; 20], b"Hi There".to_vec(), CASE_1),
        (b"Jefe".to_vec(), jefe, CASE_2),
        (vec![0xaa; 20], vec![0xdd; 50], CASE_3),
        (ascending_25(), vec![0xcd; 50], CASE_4),
        (vec![0x0c; 20], b"Test With Truncation".to_vec(), CASE_5),
        (vec![0xaa; 131], long_key, CASE_6),
        (vec![0xaa; 131], long_both, CASE_7),
    ];
    for (at, hash) in ALL[2..].iter().enumerate() {
        for (key, data, expected) in &cases {
            check(*hash, &[(key.clone(), data.clone(), expected[at])]);
        }
    }
}

#[test]
fn digests_compare_by_value_and_length() {
    assert!(is_equal(b"", b""));
    assert!(is_equal(b"ab", b"ab"));
    assert!(!is_equal(b"ab", b"ac"));
    assert!(!is_equal(b"ab", b"abc"));
}

const CASE_1: [&str; 3] = [
    "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
    "afd03944d84895626b0825f4ab46907f15f9dadbe4101ec682aa034c7cebc59c\
     faea9ea9076ede7f4af152e8b2fa9cb6",
    "87aa7cdea5ef619d4ff0b4241a1d6cb02379f4e2ce4ec2787ad0b30545e17cde\
     daa833b7d6b8a702038b274eaea3f4e4be9d914eeb61f1702e696c203a126854",
];
const CASE_2: [&str; 3] = [
    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47e42ec3736322445e\
     8e2240ca5e69e2c78b3239ecfab21649",
    "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea250554\
     9758bf75c05a994a6d034f65f8f0e6fdcaeab1a34d4a6b4b636e070a38bce737",
];
const CASE_3: [&str; 3] = [
    "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
    "88062608d3e6ad8a0aa2ace014c8a86f0aa635d947ac9febe83ef4e55966144b\
     2a5ab39dc13814b94e3ab6e101a34f27",
    "fa73b0089d56a284efb0f0756c890be9b1b5dbdd8ee81a3655f83e33b2279d39\
     bf3e848279a722c806b485a47e67c807b946a337bee8942674278859e13292fb",
];
const CASE_4: [&str; 3] = [
    "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
    "3e8a69b7783c25851933ab6290af6ca77a9981480850009cc5577c6e1f573b4e\
     6801dd23c4a7d679ccf8a386c674cffb",
    "b0ba465637458c6990e5a8c5f61d4af7e576d97ff94b872de76f8050361ee3db\
     a91ca5c11aa25eb4d679275cc5788063a5f19741120c4f2de2adebeb10a298dd",
];
const CASE_5: [&str; 3] = [
    "a3b6167473100ee06e0c796c2955552b",
    "3abf34c3503b2a23a46efc619baef897",
    "415fad6271580a531d4179bc891d87a6",
];
const CASE_6: [&str; 3] = [
    "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    "4ece084485813e9088d2c63a041bc5b44f9ef1012a2b588f3cd11f05033ac4c6\
     0c2ef6ab4030fe8296248df163f44952",
    "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352\
     6b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598",
];
const CASE_7: [&str; 3] = [
    "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
    "6617178e941f020d351e2f254e8fd32c602420feb0b8fb9adccebb82461e99c5\
     a678cc31e799176d3860e6110c46523e",
    "e37b6a775dc87dbaa4dfa9f96e5e3ffddebd71f8867289865df5a32d20cdc944\
     b6022cac3c4982b10d5eeb55c3e4de15134676fb6de0446065c97440fa8c6a58",
];
