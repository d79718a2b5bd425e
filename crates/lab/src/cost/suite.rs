//! Suites in the words of strongSwan and of the papers, and their rating by today's standards.
//!
//! The papers' words: `none` (clear), `md5` and `sha1` (AH), `des` and `3des` (ESP without
//! integrity), `aes128`, `aes192` and `aes256` (AES-CBC without integrity, which our proposals
//! cannot name), and `+` for `-`.

use core::fmt;
use core::str::FromStr;

use crypto::cipher::Cipher;
use crypto::packet::{Encryption, Integrity, Protection};
use engine::sa::Protocol;
use engine::suite::{EspSuite, Reason, SuiteFault};

/// The protection of packets, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suite {
    word: String,
    ipsec: Option<EspSuite>,
}

/// The rating of a policy by today's standards (RFC 8221, RFC 8247).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Fit for use.
    Current,
    /// The reasons against it.
    Legacy(Vec<Reason>),
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
            Self::Legacy(_) => "legacy",
            Self::Clear => "clear",
        }
    }

    /// The reasons against it, one short text each.
    pub fn reasons(&self) -> Vec<String> {
        self.against().iter().map(Reason::to_string).collect()
    }

    /// Whether a standard forbids one of its algorithms.
    pub fn is_forbidden(&self) -> bool {
        self.against().iter().any(Reason::is_forbidden)
    }

    fn against(&self) -> &[Reason] {
        match self {
            Self::Legacy(reasons) => reasons,
            Self::Current | Self::Clear => &[],
        }
    }
}

impl Suite {
    /// No protection.
    pub fn none() -> Self {
        Self {
            word: "none".to_owned(),
            ipsec: None,
        }
    }

    /// The name under which it was given.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// Its algorithms, with PFS and ESN as the word says; `None` without protection.
    pub fn ipsec(&self) -> Option<&EspSuite> {
        self.ipsec.as_ref()
    }

    /// Whether it hides the content of packets, as AH and NULL do not.
    pub fn encrypts(&self) -> bool {
        self.ipsec.as_ref().is_some_and(|suite| {
            suite.protocol == Protocol::Esp && suite.protection.encryption != Encryption::Null
        })
    }

    /// Every suite with a name here: the papers', then the engine's catalogue.
    pub fn all() -> Vec<Self> {
        let paper = PAPER_SUITES.iter().filter_map(|word| word.parse().ok());
        let mut all: Vec<Self> = paper.collect();
        for suite in EspSuite::catalogue() {
            if all.iter().all(|other| other.ipsec != Some(suite)) {
                all.push(suite.into());
            }
        }
        all
    }

    /// Its rating by RFC 8221.
    pub fn standing(&self) -> Standing {
        let Some(suite) = &self.ipsec else {
            return Standing::Clear;
        };
        match suite.legacy_reasons() {
            reasons if reasons.is_empty() => Standing::Current,
            reasons => Standing::Legacy(reasons),
        }
    }
}

impl From<EspSuite> for Suite {
    fn from(suite: EspSuite) -> Self {
        Self {
            word: suite.to_string(),
            ipsec: Some(suite),
        }
    }
}

impl FromStr for Suite {
    type Err = SuiteFault;

    fn from_str(word: &str) -> Result<Self, SuiteFault> {
        let text = word.trim().to_ascii_lowercase().replace('+', "-");
        let ipsec = match text.as_str() {
            "none" => None,
            "md5" | "sha1" => Some(EspSuite::parse_ah(&text)?),
            "aes128" => Some(without_integrity(Cipher::Aes128)),
            "aes192" => Some(without_integrity(Cipher::Aes192)),
            "aes256" => Some(without_integrity(Cipher::Aes256)),
            _ => Some(text.parse()?),
        };
        Ok(Self { word: text, ipsec })
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
