//! The standing of algorithms: what RFC 8221 says of ESP and AH, and RFC 8247 of the exchange.

use core::fmt;

use crypto::cipher::Cipher;
use crypto::dh::Group;
use crypto::hash::Hash;
use crypto::packet::{Encryption, Integrity};

use super::{EspSuite, IkeSuite, Pfs};

/// How current standards rate a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Fit for use.
    Current,
    /// Works only if a configuration has `legacy = true`.
    Legacy,
}

/// Why a suite is legacy: one of its algorithms, and what a standard says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The algorithm, or what is missing.
    pub subject: &'static str,
    /// The word of the standard.
    pub advice: Advice,
    /// Document and section.
    pub section: &'static str,
}

/// What a standard says of an algorithm (RFC 2119).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Forbidden.
    MustNot,
    /// Advised against.
    ShouldNot,
    /// Optional, where other algorithms are required.
    May,
}

impl Reason {
    pub(super) const fn new(subject: &'static str, advice: Advice, section: &'static str) -> Self {
        Self {
            subject,
            advice,
            section,
        }
    }

    /// Whether the standard forbids the algorithm.
    pub fn is_forbidden(&self) -> bool {
        self.advice == Advice::MustNot
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let advice = match self.advice {
            Advice::MustNot => "MUST NOT",
            Advice::ShouldNot => "SHOULD NOT",
            Advice::May => "no more than MAY",
        };
        write!(f, "{}: {advice}, {}", self.subject, self.section)
    }
}

impl Standing {
    pub(super) fn of(reasons: &[Reason]) -> Self {
        if reasons.is_empty() {
            Self::Current
        } else {
            Self::Legacy
        }
    }
}

impl IkeSuite {
    /// Current, or legacy if [`Self::legacy_reasons`] is not empty.
    pub fn standing(&self) -> Standing {
        Standing::of(&self.legacy_reasons())
    }

    /// Why the suite is legacy; empty for a current suite.
    pub fn legacy_reasons(&self) -> Vec<Reason> {
        let is_md5 = self.hash == Hash::Md5;
        let reasons = [
            exchange_cipher_reason(self.cipher),
            is_md5.then_some(Reason::new("MD5", Advice::MustNot, "RFC 8247 §2.2")),
            group_reason(self.group),
        ];
        reasons.into_iter().flatten().collect()
    }
}

impl EspSuite {
    /// Current, or legacy if [`Self::legacy_reasons`] is not empty.
    pub fn standing(&self) -> Standing {
        Standing::of(&self.legacy_reasons())
    }

    /// Why the suite is legacy; empty for a current suite.
    pub fn legacy_reasons(&self) -> Vec<Reason> {
        let cipher = match self.protection.encryption {
            Encryption::Cbc(cipher) => cipher_reason(cipher),
            _ => None,
        };
        let is_bare = !self.protection.is_authenticated();
        let bare = Reason::new("ESP without integrity", Advice::MustNot, "RFC 8221 §4");
        let is_md5 = self.protection.integrity == Integrity::Hmac(Hash::Md5);
        let md5 = Reason::new("HMAC-MD5", Advice::MustNot, "RFC 8221 §6");
        let reasons = [
            cipher,
            is_bare.then_some(bare),
            is_md5.then_some(md5),
            self.pfs.and_then(Pfs::group).and_then(group_reason),
        ];
        reasons.into_iter().flatten().collect()
    }
}

fn cipher_reason(cipher: Cipher) -> Option<Reason> {
    let (subject, advice) = match cipher {
        Cipher::Des => ("single DES", Advice::MustNot),
        Cipher::TripleDes => ("3DES", Advice::ShouldNot),
        _ => return None,
    };
    Some(Reason::new(subject, advice, "RFC 8221 §5"))
}

/// RFC 8221 is about ESP and AH. RFC 8247 covers the cipher of the exchange.
fn exchange_cipher_reason(cipher: Cipher) -> Option<Reason> {
    let (subject, advice) = match cipher {
        Cipher::Des => ("single DES in the exchange", Advice::MustNot),
        Cipher::TripleDes => ("3DES in the exchange", Advice::May),
        _ => return None,
    };
    Some(Reason::new(subject, advice, "RFC 8247 §2.1"))
}

/// The same for the cipher of an IKE SA of IKEv2, which may be an AEAD.
pub(super) fn ikev2_cipher_reason(encryption: Encryption) -> Option<Reason> {
    match encryption {
        Encryption::Cbc(cipher) => exchange_cipher_reason(cipher),
        _ => None,
    }
}

fn group_reason(group: Group) -> Option<Reason> {
    let (subject, advice) = match group {
        Group::Modp768 => ("group 1 of 768 bits", Advice::MustNot),
        Group::Modp1024 => ("group 2 of 1024 bits", Advice::ShouldNot),
        Group::Modp1536 => ("group 5 of 1536 bits", Advice::ShouldNot),
        _ => return None,
    };
    Some(Reason::new(subject, advice, "RFC 8247 §2.4"))
}
