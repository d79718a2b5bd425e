//! Mobile-AAA Authentication (RFC 4721 §6, §8): a mobile node proves itself to whoever has its
//! AAA key, a foreign agent or a home agent. A server that only RADIUS reaches is left out: the
//! agents here have the key themselves.

use core::fmt;

use crypto::hash::{Digest, Hash, is_equal};
use wire::codec::Writer;
use wire::mip4::{Authentication, Extension, Located};
use zeroize::Zeroizing;

use super::association::{Algorithm, Association, FIRST_SPI, ReplayProtection};

/// The SPI of authenticators as in CHAP (RFC 4721 §9).
pub const CHAP_SPI: u32 = 2;
/// What is proven to a home agent without a foreign agent in between (RFC 4721 §3.5).
const NO_CHALLENGE: &[u8] = &[0];
/// Octets at the end of a challenge that count as in CHAP (RFC 4721 §8).
const LAST_OCTETS: usize = 237;

/// What a mobile node shares with its AAA server. The key is wiped on drop.
#[derive(Clone)]
pub struct AaaKey {
    /// None: all authenticators are as in CHAP.
    association: Option<Association>,
    key: Zeroizing<Vec<u8>>,
}

impl AaaKey {
    /// None if the key is empty, or the SPI is reserved and not [`CHAP_SPI`]. With that one,
    /// `algorithm` does not count.
    pub fn new(spi: u32, algorithm: Algorithm, key: &[u8]) -> Option<Self> {
        let association = match spi {
            CHAP_SPI => None,
            // The challenge and the request's identification protect from replays.
            _ => Some(Association::new(
                spi,
                algorithm,
                ReplayProtection::Timestamps,
                key,
            )?),
        };
        let key = Zeroizing::new(key.to_vec());
        (!key.is_empty()).then_some(Self { association, key })
    }

    /// Whether a number can be that of a key.
    pub const fn is_usable(spi: u32) -> bool {
        spi == CHAP_SPI || spi >= FIRST_SPI
    }

    /// Appends the extension for a request through a foreign agent, which may have advertised a
    /// challenge.
    pub fn sign(&self, challenge: Option<&[u8]>, w: &mut Writer) {
        match &self.association {
            Some(one) => one.sign(Authentication::MobileAaa, w),
            None => self.sign_as_chap(challenge.unwrap_or(NO_CHALLENGE), w),
        }
    }

    /// Appends the extension for a request that goes straight to the home agent: always as in CHAP
    /// (RFC 4721 §3.1).
    pub fn sign_directly(&self, w: &mut Writer) {
        self.sign_as_chap(NO_CHALLENGE, w);
    }

    /// Whether an authenticator is right, in constant time. `challenge`: what the request answers.
    /// With one it has come through a foreign agent. A key with an algorithm of its own is used as
    /// in CHAP only on the way straight to the home agent (RFC 4721 §3.1).
    pub fn verifies(&self, challenge: Option<&[u8]>, datagram: &[u8], located: &Located) -> bool {
        let (Extension::Authenticator(it), Some(covered)) = (&located.extension, located.covered())
        else {
            return false;
        };
        if it.between != Authentication::MobileAaa {
            return false;
        }
        if it.spi == CHAP_SPI {
            if self.association.is_some() && challenge.is_some() {
                return false;
            }
            let expected = self.as_chap(challenge.unwrap_or(NO_CHALLENGE), &datagram[covered]);
            return is_equal(expected.as_ref(), &it.value);
        }
        let association = self.association.as_ref();
        association.is_some_and(|one| one.verifies(datagram, located))
    }

    fn sign_as_chap(&self, challenge: &[u8], w: &mut Writer) {
        Authentication::MobileAaa.write_start(CHAP_SPI, Hash::Md5.len(), w);
        let value = self.as_chap(challenge, w.as_slice());
        w.bytes(value.as_ref());
    }

    /// `data`: all up to the SPI of the extension.
    fn as_chap(&self, challenge: &[u8], data: &[u8]) -> Digest {
        let first = challenge.get(..1).unwrap_or_default();
        let last = &challenge[challenge.len().saturating_sub(LAST_OCTETS)..];
        let inner = Hash::Md5.digest(&[data]);
        Hash::Md5.digest(&[first, &self.key, inner.as_ref(), last])
    }
}

impl PartialEq for AaaKey {
    /// In constant time.
    fn eq(&self, other: &Self) -> bool {
        is_equal(&self.key, &other.key) && self.association == other.association
    }
}

impl Eq for AaaKey {}

impl fmt::Debug for AaaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spi = self.association.as_ref().map_or(CHAP_SPI, Association::spi);
        write!(f, "AAA key {spi}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::mip4::extensions;

    /// Python's `hashlib` and `hmac` computed the values.
    #[test]
    fn authenticators_equal_those_of_another_implementation() {
        let key: Vec<u8> = (0..16).collect();
        let long: Vec<u8> = (0..=255).collect();
        let data = b"Mobile IP message of 30 octets";
        let new = |spi| AaaKey::new(spi, Algorithm::HmacMd5, &key).unwrap();
        let cases: [(u32, Option<&[u8]>, &str); 4] = [
            (
                CHAP_SPI,
                Some(b"challenge"),
                "371898af369fe63a088ae238cc412615",
            ),
            (CHAP_SPI, Some(&long), "bd2d54327732df6631586f34c630a0e5"),
            (CHAP_SPI, None, "2c4b37e865405fcb0767313267321908"),
            (
                0x1000,
                Some(b"challenge"),
                "4b045b68352afa70f17f55bb024e8e5e",
            ),
        ];
        for (spi, challenge, expected) in cases {
            let one = new(spi);
            let mut w = Writer::new();
            w.bytes(data);
            one.sign(challenge, &mut w);
            let mut datagram = w.into_vec();
            let value = datagram[data.len() + 8..].iter();
            let value: String = value.map(|octet| format!("{octet:02x}")).collect();
            assert_eq!(value, expected, "{spi}");
            let is_right = |datagram: &[u8], challenge| {
                let list = extensions(datagram, data.len());
                list.is_ok_and(|list| list.iter().any(|it| one.verifies(challenge, datagram, it)))
            };
            assert!(is_right(&datagram, challenge));
            assert_eq!(is_right(&datagram, Some(b"another")), spi != CHAP_SPI);
            for at in 0..datagram.len() {
                datagram[at] ^= 1;
                assert!(!is_right(&datagram, challenge), "{spi} {at}");
                datagram[at] ^= 1;
            }
        }
        let mut w = Writer::new();
        w.bytes(data);
        new(0x1000).sign_directly(&mut w);
        assert_eq!(w.as_slice()[30..38], [36, 1, 0, 20, 0, 0, 0, 2]);
        let list = extensions(w.as_slice(), data.len()).unwrap();
        assert!(new(0x1000).verifies(None, w.as_slice(), &list[0]));
        // Through a foreign agent, only the algorithm that is configured counts.
        let mut w = Writer::new();
        w.bytes(data);
        new(CHAP_SPI).sign(Some(b"challenge"), &mut w);
        let list = extensions(w.as_slice(), data.len()).unwrap();
        let is_right = |one: &AaaKey| one.verifies(Some(b"challenge"), w.as_slice(), &list[0]);
        assert!(is_right(&new(CHAP_SPI)) && !is_right(&new(0x1000)));
    }

    #[test]
    fn reserved_spis_and_empty_keys_are_refused() {
        let new = |spi, key: &[u8]| AaaKey::new(spi, Algorithm::HmacSha256, key);
        for spi in [0, 1, 3, 255] {
            assert!(new(spi, b"key").is_none() && !AaaKey::is_usable(spi));
        }
        assert!(new(CHAP_SPI, b"").is_none() && new(256, b"").is_none());
        assert!(new(256, b"key").is_some() && AaaKey::is_usable(256));
        assert_ne!(new(256, b"key"), new(257, b"key"));
        assert_ne!(new(256, b"key"), new(CHAP_SPI, b"key"));
        assert_ne!(new(CHAP_SPI, b"kez"), new(CHAP_SPI, b"key"));
    }
}
