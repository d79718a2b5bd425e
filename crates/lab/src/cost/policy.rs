//! Policies: which suite, in which mode, with keys from which exchange. A file of `policies/`, or
//! the bare name of a suite.
//!
//! Left out: other layers (access, link cipher, transport); a policy is IPsec's.

use core::str::FromStr;
use std::borrow::Cow;

use crypto::packet::{Encryption, Protection};
use engine::plane::shape::Shape;
use engine::sa::{Mode, Protocol};
use engine::suite::{EspSuite, IkeSuite, SuiteFault};
use serde::Deserialize;
use toml::Spanned;

use super::file::{Fault, Source};
use super::suite::{Standing, Suite};

/// How packets are protected and where the keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// File's or suite's name.
    pub name: String,
    /// For people.
    pub title: String,
    /// Algorithms.
    pub suite: Suite,
    /// Tunnel or transport.
    pub mode: Mode,
    /// ESP travels in UDP (RFC 3948); says nothing where the suite is AH's.
    pub is_udp_encapsulated: bool,
    /// The outer header is IPv6.
    pub is_outer_v6: bool,
    /// None: keys are there by hand.
    pub keys: Option<Keys>,
}

/// Where keys come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Which exchange.
    pub exchange: Exchange,
    /// What protects it. PFS is in the suite's words.
    pub proposal: IkeSuite,
    /// How the ends prove who they are.
    pub proof: Proof,
}

/// Key exchanges that the engine speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exchange {
    /// Six messages and three (RFC 2409 §5).
    #[serde(rename = "ikev1-main")]
    Main,
    /// Three messages and three (RFC 2409 §5), as paper U has it.
    #[serde(rename = "ikev1-aggressive")]
    Aggressive,
}

/// How ends prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Proof {
    /// RSA signatures and certificates, modulus of 2048 bits.
    Rsa2048,
    /// RSA signatures and certificates, modulus of 3072 bits.
    Rsa3072,
    /// RSA signatures and certificates, modulus of 4096 bits.
    Rsa4096,
    /// A secret shared beforehand.
    Psk,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    name: Spanned<String>,
    title: String,
    suite: Spanned<String>,
    #[serde(default)]
    mode: ModeWord,
    #[serde(default = "yes")]
    udp: Spanned<bool>,
    #[serde(default = "four")]
    outer: Spanned<u8>,
    keys: Option<KeysFile>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ModeWord {
    #[default]
    Tunnel,
    Transport,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeysFile {
    exchange: Exchange,
    proposal: Spanned<String>,
    proof: Proof,
}

impl Exchange {
    /// What today's standards say of it whatever its algorithms; `None` for nothing.
    pub fn deprecated(self) -> Option<&'static str> {
        match self {
            Self::Main | Self::Aggressive => Some("IKEv1 deprecated, RFC 9395"),
        }
    }
}

impl Policy {
    /// This suite as Caravan carries it by default: tunnel mode in UDP over IPv4.
    pub fn of(suite: Suite) -> Self {
        Self {
            name: suite.word().to_owned(),
            title: suite.word().to_owned(),
            suite,
            mode: Mode::Tunnel,
            is_udp_encapsulated: true,
            is_outer_v6: false,
            keys: None,
        }
    }

    /// Reads a file of `policies/`; `file` names it in messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, Fault> {
        let source = Source { file, text };
        let read: PolicyFile = source.read()?;
        let suite: Suite = Self::word(source, "suite", &read.suite)?;
        if read.name.get_ref().trim().is_empty() {
            return Err(source.fault(read.name.span().start, "name", "it is empty"));
        }
        if !matches!(read.outer.get_ref(), 4 | 6) {
            let why = format!("{} is neither 4 nor 6", read.outer.get_ref());
            return Err(source.fault(read.outer.span().start, "outer", why));
        }
        if suite.ipsec().is_none()
            && let Some(keys) = &read.keys
        {
            let why = "keys for the suite \"none\", which has none";
            return Err(source.fault(keys.proposal.span().start, "keys", why));
        }
        let keys = match &read.keys {
            None => None,
            Some(keys) => Some(Keys {
                exchange: keys.exchange,
                proposal: Self::word(source, "keys.proposal", &keys.proposal)?,
                proof: keys.proof,
            }),
        };
        Ok(Self {
            name: read.name.into_inner(),
            title: read.title,
            suite,
            mode: match read.mode {
                ModeWord::Tunnel => Mode::Tunnel,
                ModeWord::Transport => Mode::Transport,
            },
            is_udp_encapsulated: read.udp.into_inner(),
            is_outer_v6: read.outer.into_inner() == 6,
            keys,
        })
    }

    /// The same policy with the algorithms that an SA has; its own keep their name.
    pub(super) fn with(&self, protection: Protection) -> Cow<'_, Self> {
        let own = self.suite.ipsec();
        if own.is_some_and(|own| own.protection == protection) {
            return Cow::Borrowed(self);
        }
        // AH encrypts nothing: what does is ESP's.
        let protocol = match own.map(|own| own.protocol) {
            Some(Protocol::Ah) if protection.encryption == Encryption::Null => Protocol::Ah,
            _ => Protocol::Esp,
        };
        let suite = Suite::from(EspSuite::new(protocol, protection));
        let policy = Self {
            suite,
            ..self.clone()
        };
        Cow::Owned(policy)
    }

    /// What decides the size of its packets; `None` where nothing is protected.
    pub fn shape(&self) -> Option<Shape> {
        let suite = self.suite.ipsec()?;
        Some(Shape {
            protection: suite.protection,
            protocol: suite.protocol,
            mode: self.mode,
            // AH covers the outer addresses: no NAT, and no UDP, may be in its way
            is_udp_encapsulated: self.is_udp_encapsulated && suite.protocol == Protocol::Esp,
            is_outer_v6: self.is_outer_v6,
        })
    }

    /// How RFC 8221 sees the suite and RFC 8247 what protects the exchange: the algorithms, not
    /// the exchange itself, of which [`Exchange::deprecated`] tells.
    pub fn standing(&self) -> Standing {
        let mut reasons = match self.suite.standing() {
            Standing::Clear => return Standing::Clear,
            Standing::Current => Vec::new(),
            Standing::Legacy(reasons) => reasons,
        };
        if let Some(keys) = &self.keys {
            for reason in keys.proposal.legacy_reasons() {
                // The group of PFS may be the exchange's.
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
        }
        if reasons.is_empty() {
            Standing::Current
        } else {
            Standing::Legacy(reasons)
        }
    }

    fn word<T: FromStr<Err = SuiteFault>>(
        source: Source<'_>,
        key: &str,
        word: &Spanned<String>,
    ) -> Result<T, Fault> {
        let read = word.get_ref().parse();
        read.map_err(|fault: SuiteFault| source.fault(word.span().start, key, fault.to_string()))
    }
}

fn yes() -> Spanned<bool> {
    Spanned::new(0..0, true)
}

fn four() -> Spanned<u8> {
    Spanned::new(0..0, 4)
}
