//! The table of keys that a mobile node and an agent share.

use std::path::PathBuf;

use document::{Fault, Item};
use engine::mip4::association::{Algorithm, ReplayProtection};

use super::read::{Keys, Read, ReadTable};
use super::values::SecretText;

/// What an example of it looks like.
pub(super) const ASSOCIATION: &str = "what both sides know, such as association = { spi = 1000, \
                                      key_file = \"node.key\" }";

/// `association`. Its key has no `Debug`.
pub struct AssociationTable {
    /// Its number, 256 or more. Both sides have the same.
    pub spi: u32,
    /// How messages are authenticated. HMAC-MD5 is the default of RFC 5944, which every
    /// implementation has; HMAC-SHA-256 is stronger. "keyed-md5", of RFC 2002, needs `legacy`.
    pub algorithm: Algorithm,
    /// The key in hexadecimal, 16 octets or more.
    pub key: Option<SecretText>,
    /// File with the key in hexadecimal.
    pub key_file: Option<PathBuf>,
    /// How a repeated request is recognized: both clocks agree to 7 s, or the home agent chooses
    /// numbers.
    pub replay: ReplayProtection,
    /// Allow "keyed-md5", and keys of less than 16 octets.
    pub legacy: bool,
}

impl ReadTable for AssociationTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            spi: keys.needed("spi", "a number that both sides know, such as spi = 1000")?,
            algorithm: keys.or("algorithm", Algorithm::HmacMd5)?,
            key: keys.given("key")?,
            key_file: keys.given("key_file")?,
            replay: keys.or("replay", ReplayProtection::Timestamps)?,
            legacy: keys.or("legacy", false)?,
        })
    }
}

impl core::fmt::Debug for AssociationTable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "association {}", self.spi)
    }
}

impl Read for ReplayProtection {
    fn read(item: &Item) -> Result<Self, Fault> {
        let words = [("timestamps", Self::Timestamps), ("nonces", Self::Nonces)];
        item.choice("value", &words)
    }
}
