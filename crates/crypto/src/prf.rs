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
