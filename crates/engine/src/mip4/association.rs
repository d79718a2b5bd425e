//! Mobility security associations: an SPI, an algorithm, a key, and how replays are recognized
//! (RFC 5944 §5.1).

use core::fmt;
use std::collections::BTreeMap;

use crypto::hash::{Hash, HmacKey, is_equal};
use wire::codec::Writer;
use wire::mip4::{Authentication, Extension, Located};
use zeroize::Zeroizing;

/// How an authenticator is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// HMAC-MD5, the default (RFC 5944 §3.5.1).
    HmacMd5,
    /// HMAC-SHA-256, all 32 octets.
    HmacSha256,
    /// MD5 with the key before and after the data (RFC 2002 §5.1). Legacy.
    KeyedMd5,
}

/// How a receiver recognizes a repeated request (RFC 5944 §5.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReplayProtection {
    /// Both clocks agree to some seconds.
    Timestamps,
    /// The home agent chooses half of the next identification.
    Nonces,
}

/// SPIs below this are reserved (RFC 5944 §3.5.1).
pub const FIRST_SPI: u32 = 256;

/// A mobility security association. Its key is wiped on drop.
#[derive(Clone)]
pub struct Association {
    spi: u32,
    replay: ReplayProtection,
    mac: MacKey,
}

#[derive(Clone)]
enum MacKey {
    Hmac(HmacKey),
    Keyed(Zeroizing<Vec<u8>>),
}

impl Algorithm {
    /// Whether a configuration must allow it explicitly.
    pub const fn is_legacy(self) -> bool {
        matches!(self, Self::KeyedMd5)
    }
}

impl Association {
    /// An association. None if its SPI is reserved or its key is empty.
    pub fn new(
        spi: u32,
        algorithm: Algorithm,
        replay: ReplayProtection,
        key: &[u8],
    ) -> Option<Self> {
        let mac = match algorithm {
            Algorithm::HmacMd5 => MacKey::Hmac(HmacKey::new(Hash::Md5, key)),
            Algorithm::HmacSha256 => MacKey::Hmac(HmacKey::new(Hash::Sha256, key)),
            Algorithm::KeyedMd5 => MacKey::Keyed(Zeroizing::new(key.to_vec())),
        };
        (spi >= FIRST_SPI && !key.is_empty()).then_some(Self { spi, replay, mac })
    }

    /// Its number.
    pub fn spi(&self) -> u32 {
        self.spi
    }

    /// How replays are recognized.
    pub fn replay(&self) -> ReplayProtection {
        self.replay
    }

    /// What is the same for the same key and algorithm, and tells nothing else about the key: an
    /// authenticator over a text that no message has.
    pub fn mark(&self) -> Vec<u8> {
        let kind = match &self.mac {
            MacKey::Hmac(_) => 0,
            MacKey::Keyed(_) => 1,
        };
        let mark = self.mac.over(b"the same key");
        [&[kind], mark.as_ref()].concat()
    }

    /// Appends an authentication extension over all that is in `w`.
    pub fn sign(&self, between: Authentication, w: &mut Writer) {
        between.write_start(self.spi, self.mac.len(), w);
        let value = self.mac.over(w.as_slice());
        w.bytes(value.as_ref());
    }

    /// Whether an authenticator of `datagram` is right, in constant time. False for extensions that
    /// are not authenticators of this association.
    pub fn verifies(&self, datagram: &[u8], located: &Located) -> bool {
        let (Extension::Authenticator(one), Some(covered)) =
            (&located.extension, located.covered())
        else {
            return false;
        };
        one.spi == self.spi && is_equal(self.mac.over(&datagram[covered]).as_ref(), &one.value)
    }
}

impl MacKey {
    fn len(&self) -> usize {
        match self {
            Self::Hmac(key) => key.hash().len(),
            Self::Keyed(_) => Hash::Md5.len(),
        }
    }

    fn over(&self, data: &[u8]) -> crypto::hash::Digest {
        match self {
            Self::Hmac(key) => key.sign(&[data]),
            Self::Keyed(key) => Hash::Md5.digest(&[key, data, key]),
        }
    }
}

impl PartialEq for Association {
    fn eq(&self, other: &Self) -> bool {
        is_equal(&self.mark(), &other.mark())
            && (self.spi, self.replay) == (other.spi, other.replay)
    }
}

impl Eq for Association {}

impl fmt::Debug for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "association {}", self.spi)
    }
}

/// Associations with one peer, by SPI. The first is used for what we send first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Associations {
    first: u32,
    by_spi: BTreeMap<u32, Association>,
}

impl Associations {
    /// None if there is none, or if two have one SPI.
    pub fn new(list: Vec<Association>) -> Option<Self> {
        let (first, count) = (list.first()?.spi, list.len());
        let by_spi: BTreeMap<_, _> = list.into_iter().map(|one| (one.spi, one)).collect();
        (by_spi.len() == count).then_some(Self { first, by_spi })
    }

    /// The association of an SPI.
    pub fn get(&self, spi: u32) -> Option<&Association> {
        self.by_spi.get(&spi)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Association> {
        self.by_spi.values()
    }

    /// The one that an authenticator names.
    pub fn used(&self, located: &Located) -> Option<&Association> {
        match &located.extension {
            Extension::Authenticator(one) => self.get(one.spi),
            _ => None,
        }
    }

    /// The one with which an authenticator is right.
    pub fn proven(&self, datagram: &[u8], located: &Located) -> Option<&Association> {
        self.used(located)
            .filter(|one| one.verifies(datagram, located))
    }

    /// The preferred one.
    pub fn first(&self) -> &Association {
        &self.by_spi[&self.first]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::mip4::extensions;

    /// A registration request with an authenticator that Python's `hmac` and `hashlib` computed.
    fn check(algorithm: Algorithm, expected: &str) {
        let replay = ReplayProtection::Timestamps;
        let key: Vec<u8> = (0..16).collect();
        let association = Association::new(0x1000, algorithm, replay, &key).unwrap();
        let mut w = Writer::new();
        w.bytes(b"Mobile IP message of 30 octets");
        association.sign(Authentication::MobileHome, &mut w);
        let mut datagram = w.into_vec();
        let list = extensions(&datagram, 30).unwrap();
        let Extension::Authenticator(one) = &list[0].extension else {
            panic!("an authenticator");
        };
        let value: String = one
            .value
            .iter()
            .map(|octet| format!("{octet:02x}"))
            .collect();
        assert_eq!(value, expected);
        assert!(association.verifies(&datagram, &list[0]));
        for at in 0..datagram.len() {
            datagram[at] ^= 1;
            let is_right = extensions(&datagram, 30)
                .is_ok_and(|list| list.iter().any(|it| association.verifies(&datagram, it)));
            assert!(!is_right, "{at}");
            datagram[at] ^= 1;
        }
    }

    #[test]
    fn authenticators_equal_those_of_another_implementation() {
        check(Algorithm::HmacMd5, "3c27eb3082416dd3cd704ea7d6f953ed");
        check(
            Algorithm::HmacSha256,
            "ea169d3eae707cb004a1ca25569d38a9f402f49bd1dc71e043b9dc57f4f1f69f",
        );
        check(Algorithm::KeyedMd5, "4e05915ae354f1c8106c9341d79adae1");
    }

    #[test]
    fn associations_are_equal_only_with_the_same_key() {
        let new = |spi, algorithm, key: &[u8]| {
            Association::new(spi, algorithm, ReplayProtection::Nonces, key).unwrap()
        };
        let one = new(256, Algorithm::HmacMd5, b"key");
        assert_eq!(one, new(256, Algorithm::HmacMd5, b"key"));
        assert_ne!(one, new(257, Algorithm::HmacMd5, b"key"));
        assert_ne!(one, new(256, Algorithm::HmacMd5, b"kez"));
        assert_ne!(one, new(256, Algorithm::HmacSha256, b"key"));
        assert_ne!(one, new(256, Algorithm::KeyedMd5, b"key"));
    }

    #[test]
    fn reserved_spis_and_empty_keys_are_refused() {
        let new = |spi, key: &[u8]| {
            Association::new(spi, Algorithm::HmacMd5, ReplayProtection::Nonces, key)
        };
        assert!(new(255, b"key").is_none());
        assert!(new(256, b"").is_none());
        let twice = || new(256, b"key").unwrap();
        assert!(Associations::new(vec![twice(), twice()]).is_none());
        assert!(Associations::new(vec![]).is_none());
        assert_eq!(Associations::new(vec![twice()]).unwrap().first().spi(), 256);
    }
}
