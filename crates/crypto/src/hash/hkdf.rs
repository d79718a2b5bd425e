//! HKDF with any hash (RFC 5869).

use super::{Digest, Hash, HmacKey};

/// A key from a secret that is not uniform (RFC 5869 §2.2).
pub fn extract(hash: Hash, salt: &[u8], secret: &[u8]) -> Digest {
    hash.hmac(salt, &[secret])
}

/// Fills `out` from a key and what the octets are for (RFC 5869 §2.3). Panics if `out` is longer
/// than 255 hashes.
pub fn expand(key: &HmacKey, info: &[&[u8]], out: &mut [u8]) {
    let mut last: Option<Digest> = None;
    for (at, part) in out.chunks_mut(key.hash().len()).enumerate() {
        let number = u8::try_from(at + 1).expect("255 hashes at most");
        let mut running = key.start();
        running.update(last.as_ref().map_or(&[], |last| last.as_ref()));
        info.iter().for_each(|octets| running.update(octets));
        running.update(&[number]);
        let next = running.finish();
        part.copy_from_slice(&next.as_ref()[..part.len()]);
        last = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    fn check(secret: &[u8], salt: &[u8], info: &[u8], prk: &str, okm: &str) {
        let key = extract(Hash::Sha256, salt, secret);
        assert_eq!(key.as_ref(), hex(prk));
        let mut out = vec![0; hex(okm).len()];
        let (front, back) = info.split_at(info.len() / 2);
        let key = HmacKey::new(Hash::Sha256, key.as_ref());
        expand(&key, &[front, back], &mut out);
        assert_eq!(out, hex(okm));
    }

    /// RFC 5869 appendix A.1, A.2 and A.3.
    #[test]
    fn hkdf_is_as_published() {
        let octets = |range: core::ops::RangeInclusive<u8>| range.collect::<Vec<u8>>();
        check(
            &[0x0b; 22],
            &octets(0..=12),
            &octets(0xf0..=0xf9),
            "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b88718\
             5865",
        );
        check(
            &octets(0..=0x4f),
            &octets(0x60..=0xaf),
            &octets(0xb0..=0xff),
            "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac78272\
             71cb41c65e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f\
             1d87",
        );
        check(
            &[0x0b; 22],
            &[],
            &[],
            "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a\
             96c8",
        );
    }
}
