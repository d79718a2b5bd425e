//! Records of TLS 1.2 and 1.3: how large they are.
//!
//! Left out: padding that TLS 1.3 allows (RFC 8446 §5.4), encrypt-then-MAC (RFC 7366),
//! compression.

use core::fmt;

use crypto::packet::{Encryption, Integrity};
use document::Item;
use engine::suite::EspSuite;

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// How TLS protects its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records {
    /// The version.
    pub version: TlsVersion,
    /// The algorithms, in the words of ESP.
    pub suite: EspSuite,
}

/// The most that a record carries (RFC 8446 §5.1).
pub const RECORD_MAX: u32 = 1 << 14;
/// Type, version and length (RFC 5246 §6.2.1).
pub const HEADER_BYTES: u32 = 5;
/// The nonce that GCM of TLS 1.2 sends (RFC 5288 §3).
const NONCE_BYTES: u32 = 8;
/// The type of the content, which TLS 1.3 encrypts (RFC 8446 §5.2).
const TYPE_BYTES: u32 = 1;
const TAG_BYTES: u32 = 16;
/// The length of the padding of CBC (RFC 5246 §6.2.3.2).
const PADDING_BYTES: u32 = 1;

const VERSIONS: [(&str, TlsVersion); 2] = [
    ("tls-1.2", TlsVersion::Tls12),
    ("tls-1.3", TlsVersion::Tls13),
];
/// RFC 8446 appendix B.4, without CCM.
const SUITES_13: [&str; 3] = ["aes128gcm16", "aes256gcm16", "chacha20poly1305"];
/// RFC 5288, RFC 5289, RFC 7905, RFC 5246 appendix A.5.
const SUITES_12: [&str; 8] = [
    "aes128gcm16",
    "aes256gcm16",
    "chacha20poly1305",
    "aes128-sha256",
    "aes256-sha384",
    "aes128-sha1",
    "aes256-sha1",
    "3des-sha1",
];

/// Version and suite.
impl fmt::Display for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named = VERSIONS.iter().filter(|(_, one)| *one == self.version);
        let version = named.next().map_or("", |(name, _)| *name);
        write!(f, "{version} {}", self.suite)
    }
}

impl TlsVersion {
    /// Reads its name.
    pub fn read(item: &Item) -> Result<Self, document::Fault> {
        item.choice("version of TLS", &VERSIONS)
    }

    /// The suites that it has.
    const fn suites(self) -> &'static [&'static str] {
        match self {
            Self::Tls12 => &SUITES_12,
            Self::Tls13 => &SUITES_13,
        }
    }
}

impl Records {
    /// Records of a version with the suite that `item` names.
    pub fn read(
        version: TlsVersion,
        item: &Item,
        is_legacy: bool,
    ) -> Result<Self, document::Fault> {
        let word = item.text()?;
        let known = version.suites();
        let found = EspSuite::parse_esp(word)
            .ok()
            .filter(|_| known.contains(&word));
        let Some(suite) = found else {
            let words = known.iter().copied();
            return Err(item.fault(document::unknown("suite of this TLS", word, words)));
        };
        if !suite.legacy_reasons().is_empty() && !is_legacy {
            return Err(item.fault(format!("legacy = true is needed for {word}")));
        }
        Ok(Self { version, suite })
    }

    /// Octets of the record that carries so many.
    pub fn octets(&self, plain: u32) -> u32 {
        HEADER_BYTES + self.nonce() + self.encrypted(plain) + self.tag()
    }

    /// Octets of what is encrypted of so many.
    pub(super) fn encrypted(&self, plain: u32) -> u32 {
        match self.suite.protection.encryption {
            Encryption::Cbc(cipher) => {
                let least = plain + self.mac() + PADDING_BYTES;
                least.next_multiple_of(cipher.block_len() as u32)
            }
            _ => plain + self.inner_type(),
        }
    }

    /// Octets that are encrypted besides the text, without filling blocks up.
    pub(super) fn inner_type(&self) -> u32 {
        match self.version {
            TlsVersion::Tls12 => 0,
            TlsVersion::Tls13 => TYPE_BYTES,
        }
    }

    /// Octets of the HMAC, which TLS does not truncate.
    pub(super) fn mac(&self) -> u32 {
        match self.suite.protection.integrity {
            Integrity::Hmac(hash) => hash.len() as u32,
            Integrity::None => 0,
        }
    }

    fn nonce(&self) -> u32 {
        match (self.suite.protection.encryption, self.version) {
            (Encryption::Cbc(cipher), _) => cipher.block_len() as u32,
            (Encryption::AesGcm { .. }, TlsVersion::Tls12) => NONCE_BYTES,
            _ => 0,
        }
    }

    fn tag(&self) -> u32 {
        match self.suite.protection.encryption {
            Encryption::AesGcm { .. } | Encryption::ChaCha20Poly1305 => TAG_BYTES,
            _ => 0,
        }
    }
}
