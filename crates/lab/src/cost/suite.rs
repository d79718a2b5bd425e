//! Suites in the words of strongSwan and of the papers, and their rating by today's standards.
//!
//! The papers' words: `none` (clear), `md5` and `sha1` (AH), `des` and `3des` (ESP without
//! integrity), `aes128`, `aes192` and `aes256` (AES-CBC without integrity, which our proposals
//! cannot name), and `+` for `-`. SKIP has no words: its policy files say it in a table.

use core::fmt;
use core::str::FromStr;

use crypto::cipher::Cipher;
use crypto::packet::{Encryption, Integrity, Protection};
use engine::sa::Protocol;
use engine::suite::{EspSuite, Reason, SuiteFault};

use super::skip::SkipSuite;

/// The protection of packets, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suite {
    word: String,
    means: Means,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Means {
    Clear,
    Ipsec(EspSuite),
    Skip(SkipSuite),
}

/// The rating of a policy by today's standards (RFC 8221, RFC 8247).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Fit for use.
    Current,
    /// The reasons against it.
    Legacy(Vec<Reason>),
    /// The same of SKIP, which no standard of today mentions.
    LegacySkip(Vec<String>),
    /// Nothing is protected.
    Clear,
}

/// The suites in the papers, in the order of their tables.
pub const PAPER_SUITES: [&str; 12] = [
    "none",
    "null-md5",
    "des",
    "3des",
    "des-md5",
    "3des-md5",
    "md5",
    "sha1",
    "aes128",
    "aes128-md5",
    "aes192",
    "aes256",
];

impl Standing {
    /// Its name in answers.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Legacy(_) | Self::LegacySkip(_) => "legacy",
            Self::Clear => "clear",
        }
    }

    /// The reasons against it, one short text each.
    pub fn reasons(&self) -> Vec<String> {
        match self {
            Self::Legacy(reasons) => reasons.iter().map(Reason::to_string).collect(),
            Self::LegacySkip(reasons) => reasons.clone(),
            Self::Current | Self::Clear => Vec::new(),
        }
    }

    /// Whether a standard forbids one of its algorithms.
    pub fn is_forbidden(&self) -> bool {
        match self {
            Self::Legacy(reasons) => reasons.iter().any(Reason::is_forbidden),
            Self::LegacySkip(reasons) => reasons.iter().any(|reason| reason.contains("MUST NOT")),
            Self::Current | Self::Clear => false,
        }
    }
}

impl Suite {
    /// No protection.
    pub fn none() -> Self {
        Self {
            word: "none".to_owned(),
            means: Means::Clear,
        }
    }

    /// The name under which it was given.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// The algorithms of ESP or AH, with PFS and ESN as the word says; `None` of SKIP, and without
    /// protection.
    pub fn ipsec(&self) -> Option<&EspSuite> {
        match &self.means {
            Means::Ipsec(suite) => Some(suite),
            Means::Clear | Means::Skip(_) => None,
        }
    }

    /// How SKIP protects; `None` of ESP and AH, and without protection.
    pub fn skip(&self) -> Option<&SkipSuite> {
        match &self.means {
            Means::Skip(suite) => Some(suite),
            Means::Clear | Means::Ipsec(_) => None,
        }
    }

    /// Whether it hides the content of packets, as AH and NULL do not.
    pub fn encrypts(&self) -> bool {
        match &self.means {
            Means::Clear => false,
            Means::Ipsec(suite) => {
                suite.protocol == Protocol::Esp && suite.protection.encryption != Encryption::Null
            }
            Means::Skip(suite) => suite.encrypts(),
        }
    }

    /// Every suite of ESP and AH with a name here: the papers', then the engine's catalogue.
    pub fn all() -> Vec<Self> {
        let paper = PAPER_SUITES.iter().filter_map(|word| word.parse().ok());
        let mut all: Vec<Self> = paper.collect();
        for suite in EspSuite::catalogue() {
            if all.iter().all(|other| other.ipsec() != Some(&suite)) {
                all.push(suite.into());
            }
        }
        all
    }

    /// Its rating by RFC 8221.
    pub fn standing(&self) -> Standing {
        match &self.means {
            Means::Clear => Standing::Clear,
            Means::Ipsec(suite) => match suite.legacy_reasons() {
                reasons if reasons.is_empty() => Standing::Current,
                reasons => Standing::Legacy(reasons),
            },
            Means::Skip(suite) => match suite.reasons() {
                reasons if reasons.is_empty() => Standing::Current,
                reasons => Standing::LegacySkip(reasons),
            },
        }
    }
}

impl From<EspSuite> for Suite {
    fn from(suite: EspSuite) -> Self {
        Self {
            word: suite.to_string(),
            means: Means::Ipsec(suite),
        }
    }
}

impl From<SkipSuite> for Suite {
    fn from(suite: SkipSuite) -> Self {
        Self {
            word: suite.word(),
            means: Means::Skip(suite),
        }
    }
}

impl FromStr for Suite {
    type Err = SuiteFault;

    fn from_str(word: &str) -> Result<Self, SuiteFault> {
        let text = word.trim().to_ascii_lowercase().replace('+', "-");
        let means = match text.as_str() {
            "none" => Means::Clear,
            "md5" | "sha1" => Means::Ipsec(EspSuite::parse_ah(&text)?),
            "aes128" => Means::Ipsec(without_integrity(Cipher::Aes128)),
            "aes192" => Means::Ipsec(without_integrity(Cipher::Aes192)),
            "aes256" => Means::Ipsec(without_integrity(Cipher::Aes256)),
            _ => Means::Ipsec(text.parse()?),
        };
        Ok(Self { word: text, means })
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.word)
    }
}

fn without_integrity(cipher: Cipher) -> EspSuite {
    let protection = Protection {
        encryption: Encryption::Cbc(cipher),
        integrity: Integrity::None,
    };
    EspSuite::new(Protocol::Esp, protection)
}
