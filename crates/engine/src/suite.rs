//! Suites in strongSwan's proposal words, and their standing (RFC 8221, RFC 8247, RFC 9395).
//!
//! A proposal is words joined by `-`, in any order, one of each sort. Its printed form can be read
//! back. Left out: proposals that offer several ciphers at once (write several proposals), and the
//! word `none`, which is not a suite and is handled by the daemon.

use core::fmt;
use core::str::FromStr;

use crypto::cipher::Cipher;
use crypto::dh::Group;
use crypto::hash::Hash;
use crypto::key_exchange::Method;
use crypto::packet::{Encryption, Integrity, Protection};

use crate::sa::Protocol;

mod additional;
mod ikev2;
mod pfs;
mod standing;
mod words;

pub use additional::{Additional, MAX_ADDITIONAL};
pub use ikev2::Ikev2Suite;
pub use pfs::Pfs;
pub use standing::{Advice, Reason, Standing};
use words::{Sort, Word};
pub use words::{of_agreement, of_cipher, of_encryption, of_group, of_hash, of_key, of_method};

/// A suite of phase 1, such as `aes128-sha256-modp2048`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IkeSuite {
    /// Body encryption.
    pub cipher: Cipher,
    /// Hash and prf.
    pub hash: Hash,
    /// Diffie-Hellman group.
    pub group: Group,
}

/// A suite of a child, such as `aes128gcm16-modp2048` or `3des-md5`, or with an additional key
/// exchange `aes256gcm16-curve25519-ke1_mlkem768`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EspSuite {
    /// ESP or AH algorithms.
    pub protection: Protection,
    /// ESP or AH.
    pub protocol: Protocol,
    /// Its own key exchange.
    pub pfs: Option<Pfs>,
    /// Key exchanges after that one (RFC 9370 §2.2.4), in IKEv2.
    pub additional: Additional,
    /// 64-bit sequence numbers (word `esn`).
    pub has_esn: bool,
}

/// Names the nearest valid word, if any.
fn beside(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |near| format!("; the nearest is {near:?}"))
}

/// Why words are not a suite.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuiteFault {
    /// A word that is not one of ours.
    #[error("{proposal:?}: no algorithm is called {word:?}{}", beside(*.nearest))]
    Unknown {
        /// The whole proposal.
        proposal: String,
        /// The word.
        word: String,
        /// The nearest valid word, if any is near.
        nearest: Option<&'static str>,
    },
    /// A second word of the same sort.
    #[error(
        "{proposal:?}: {word:?} is a second {sort}; write a proposal for each{}",
        or_both(.word)
    )]
    Twice {
        /// The whole proposal.
        proposal: String,
        /// The second word.
        word: String,
        /// Cipher, hash, group, sequence numbers or prf.
        sort: &'static str,
    },
    /// A required sort of word is missing.
    #[error("{proposal:?}: {what} is missing, such as {example:?}")]
    Missing {
        /// The whole proposal.
        proposal: String,
        /// The missing sort.
        what: &'static str,
        /// A whole proposal that has it.
        example: String,
    },
    /// Words that contradict each other.
    #[error("{proposal:?}: {why}")]
    Contradiction {
        /// The whole proposal.
        proposal: String,
        /// The contradiction.
        why: &'static str,
    },
}

/// ML-KEM may come on top of another method (RFC 9370).
fn or_both(word: &str) -> String {
    match word.starts_with("mlkem") {
        true => format!(", or ke1_{word} to have both"),
        false => String::new(),
    }
}

impl EspSuite {
    /// ESP or AH with these algorithms, without PFS and ESN.
    pub const fn new(protocol: Protocol, protection: Protection) -> Self {
        Self {
            protection,
            protocol,
            pfs: None,
            additional: Additional::NONE,
            has_esn: false,
        }
    }

    /// Reads a proposal for ESP.
    pub fn parse_esp(proposal: &str) -> Result<Self, SuiteFault> {
        let (additional, bare) = additional::read(proposal)?;
        let found = Found::read(proposal, &bare, &words::ESP)?;
        let encryption = found.encryption(proposal)?;
        let protection = Protection {
            encryption,
            integrity: found.integrity,
        };
        found.finish(proposal, Protocol::Esp, protection, additional)
    }

    /// Reads a proposal for AH, with or without the prefix `ah-`.
    pub fn parse_ah(proposal: &str) -> Result<Self, SuiteFault> {
        let bare = proposal.strip_prefix(AH_PREFIX).unwrap_or(proposal);
        let (additional, bare) = additional::read(bare)?;
        let found = Found::read(proposal, &bare, &words::AH)?;
        if found.integrity == Integrity::None {
            return Err(SuiteFault::Missing {
                proposal: proposal.into(),
                what: "a hash",
                example: "ah-sha256".into(),
            });
        }
        let protection = Protection {
            encryption: Encryption::Null,
            integrity: found.integrity,
        };
        found.finish(proposal, Protocol::Ah, protection, additional)
    }

    /// Whether IKEv1 can negotiate it.
    pub fn is_for_ikev1(&self) -> bool {
        self.additional.is_empty() && self.pfs.is_none_or(|pfs| pfs.group().is_some())
    }

    /// Whether IKEv2 can negotiate it.
    pub fn is_for_ikev2(&self) -> bool {
        self.pfs.is_none_or(|pfs| pfs.method().is_some())
    }

    /// The same without a key exchange of its own.
    #[must_use]
    pub fn without_pfs(&self) -> Self {
        Self {
            pfs: None,
            additional: Additional::NONE,
            ..*self
        }
    }

    /// Every useful combination of algorithms, without PFS and ESN, for benches and the lab.
    /// Current suites first; the paper's profiles are among the others.
    pub fn catalogue() -> Vec<Self> {
        CATALOGUE
            .iter()
            .filter_map(|words| words.parse().ok())
            .collect()
    }
}

/// The parsed words of a proposal, before the checks.
struct Found {
    encryption: Option<Encryption>,
    integrity: Integrity,
    group: Option<Group>,
    esn: Option<bool>,
    prf: Option<Hash>,
    method: Option<Method>,
}

impl Found {
    /// Reads the words of `bare`; errors quote `proposal`.
    fn read(
        proposal: &str,
        bare: &str,
        table: &[&[(&'static str, Word)]],
    ) -> Result<Self, SuiteFault> {
        let mut found = Self {
            encryption: None,
            integrity: Integrity::None,
            group: None,
            esn: None,
            prf: None,
            method: None,
        };
        for text in bare.split('-') {
            let word = words::find(table, text).map_err(|nearest| SuiteFault::Unknown {
                proposal: proposal.into(),
                word: text.into(),
                nearest,
            })?;
            if let Err(sort) = found.take(word) {
                return Err(SuiteFault::Twice {
                    proposal: proposal.into(),
                    word: text.into(),
                    sort: sort.name(),
                });
            }
        }
        Ok(found)
    }

    fn take(&mut self, word: Word) -> Result<(), Sort> {
        let is_second = match word {
            Word::Encryption(new) => self.encryption.replace(new).is_some(),
            Word::Hash(new) => {
                core::mem::replace(&mut self.integrity, Integrity::Hmac(new)) != Integrity::None
            }
            Word::Group(new) => self.group.replace(new).is_some() || self.method.is_some(),
            Word::Esn(new) => self.esn.replace(new).is_some(),
            Word::Prf(new) => self.prf.replace(new).is_some(),
            Word::Method(new) => self.method.replace(new).is_some() || self.group.is_some(),
        };
        if is_second { Err(word.sort()) } else { Ok(()) }
    }

    /// ESP's encryption, if it is compatible with its integrity.
    fn encryption(&self, proposal: &str) -> Result<Encryption, SuiteFault> {
        let missing = |what, example: String| SuiteFault::Missing {
            proposal: proposal.into(),
            what,
            example,
        };
        let Some(encryption) = self.encryption else {
            return Err(missing("a cipher", "aes128gcm16".into()));
        };
        let has_hash = self.integrity != Integrity::None;
        match encryption {
            Encryption::AesGcm { .. } | Encryption::ChaCha20Poly1305 if has_hash => {
                Err(SuiteFault::Contradiction {
                    proposal: proposal.into(),
                    why: "the cipher brings its own integrity, a hash has no place beside it",
                })
            }
            Encryption::Null if !has_hash => Err(missing(
                "the hash without which null protects nothing",
                "null-sha256".into(),
            )),
            // The paper's profiles have only DES and 3DES this way; nobody needs AES without
            // integrity.
            Encryption::Cbc(cipher @ (Cipher::Aes128 | Cipher::Aes192 | Cipher::Aes256))
                if !has_hash =>
            {
                Err(missing(
                    "a hash",
                    format!("{}-sha256", words::of_cipher(cipher)),
                ))
            }
            _ => Ok(encryption),
        }
    }

    fn finish(
        &self,
        proposal: &str,
        protocol: Protocol,
        protection: Protection,
        additional: Additional,
    ) -> Result<EspSuite, SuiteFault> {
        let pfs = self.group.map(Pfs::from).or(self.method.map(Pfs::Method));
        match pfs {
            Some(Pfs::Method(first)) => additional::check(proposal, first, &additional)?,
            Some(Pfs::Legacy(_)) if !additional.is_empty() => {
                return Err(SuiteFault::Contradiction {
                    proposal: proposal.into(),
                    why: "additional key exchanges are IKEv2's, and this group is IKEv1's",
                });
            }
            None if !additional.is_empty() => {
                return Err(SuiteFault::Missing {
                    proposal: proposal.into(),
                    what: "the key exchange before the additional ones",
                    example: "aes256gcm16-curve25519-ke1_mlkem768".into(),
                });
            }
            _ => {}
        }
        let has_esn = self.esn.unwrap_or(false);
        // RFC 4303 §2.2.1: only the ICV shows that the upper half is right.
        if has_esn && !protection.is_authenticated() {
            return Err(SuiteFault::Contradiction {
                proposal: proposal.into(),
                why: "esn needs integrity",
            });
        }
        Ok(EspSuite {
            protection,
            protocol,
            pfs,
            additional,
            has_esn,
        })
    }
}

impl FromStr for IkeSuite {
    type Err = SuiteFault;

    fn from_str(proposal: &str) -> Result<Self, SuiteFault> {
        let found = Found::read(proposal, proposal, &words::IKE)?;
        let missing = |what| SuiteFault::Missing {
            proposal: proposal.into(),
            what,
            example: "aes128-sha256-modp2048".into(),
        };
        let Some(Encryption::Cbc(cipher)) = found.encryption else {
            return Err(missing("a cipher"));
        };
        let Integrity::Hmac(hash) = found.integrity else {
            return Err(missing("a hash"));
        };
        let group = found.group.ok_or(missing("a group"))?;
        Ok(Self {
            cipher,
            hash,
            group,
        })
    }
}

/// Reads the printed form of [`EspSuite`]: ESP, or AH with its prefix.
impl FromStr for EspSuite {
    type Err = SuiteFault;

    fn from_str(proposal: &str) -> Result<Self, SuiteFault> {
        if proposal.starts_with(AH_PREFIX) {
            Self::parse_ah(proposal)
        } else {
            Self::parse_esp(proposal)
        }
    }
}

impl fmt::Display for IkeSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cipher, hash) = (words::of_cipher(self.cipher), words::of_hash(self.hash));
        write!(f, "{cipher}-{hash}-{}", words::of_group(self.group))
    }
}

impl fmt::Display for EspSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            Protocol::Ah => write!(f, "ah")?,
            Protocol::Esp => write!(f, "{}", words::of_encryption(self.protection.encryption))?,
        }
        if let Integrity::Hmac(hash) = self.protection.integrity {
            write!(f, "-{}", words::of_hash(hash))?;
        }
        if let Some(pfs) = self.pfs {
            write!(f, "-{pfs}{}", self.additional)?;
        }
        if self.has_esn {
            write!(f, "-esn")?;
        }
        Ok(())
    }
}

/// The prefix of AH proposals in lists that also have ESP proposals.
const AH_PREFIX: &str = "ah-";

const CATALOGUE: [&str; 26] = [
    "aes128gcm16",
    "aes192gcm16",
    "aes256gcm16",
    "chacha20poly1305",
    "aes128-sha1",
    "aes128-sha256",
    "aes192-sha1",
    "aes192-sha256",
    "aes256-sha1",
    "aes256-sha256",
    "aes256-sha384",
    "aes256-sha512",
    "null-sha1",
    "null-sha256",
    "ah-sha1",
    "ah-sha256",
    "null-md5",
    "aes128-md5",
    "des",
    "des-md5",
    "des-sha1",
    "3des",
    "3des-md5",
    "3des-sha1",
    "3des-sha256",
    "ah-md5",
];

#[cfg(test)]
mod tests;
