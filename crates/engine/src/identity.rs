//! Identities that peers claim, and which of them we accept (RFC 2407 §4.6.2, RFC 4945 §3).
//!
//! Left out: general names (ID_DER_ASN1_GN), and subnets and ranges as identities.

use core::fmt;
use std::net::IpAddr;

use crypto::cert::{DistinguishedName, Name};

mod peer;

pub(crate) use peer::Credential;
pub use peer::{Mark, Peer};

/// An identity as configured or as received. Two identities of the same name may differ here in
/// case or encoding: [`Identity::is_same`] compares them, and a [`Peer`] is the same in every
/// spelling.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// An address.
    Address(IpAddr),
    /// A DNS name.
    Fqdn(String),
    /// user@domain.
    UserFqdn(String),
    /// DER of a distinguished name.
    DistinguishedName(Vec<u8>),
    /// Opaque octets, such as a group's name.
    KeyId(Vec<u8>),
}

/// A pattern of accepted identities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityPattern {
    /// Any identity that its credential proves.
    Any,
    /// Exactly this one. A name or an RDN value may be `*`.
    Is(Identity),
}

/// How many identities match a pattern, the fewest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breadth {
    /// Exactly one.
    One,
    /// Those that match a wildcard's ending or values.
    Some,
    /// Every identity, or every distinguished name of these attributes (`CN=*`).
    All,
}

/// Why a text is not an identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityFault {
    /// Nothing, or nothing after the prefix.
    #[error("an identity is empty")]
    Empty,
    /// Longer than an identity may be.
    #[error("an identity of {0} octets is longer than {MAX_LEN}")]
    TooLong(usize),
    /// Longer than any identity as text.
    #[error("an identity of {0} octets as text is longer than {MAX_TEXT_LEN}")]
    TextTooLong(usize),
    /// Characters that no name has.
    #[error("{0:?} has characters that no {1} has")]
    Characters(String, &'static str),
    /// A distinguished name that cannot be read.
    #[error("{text:?} is not a distinguished name: {why}")]
    DistinguishedName {
        /// The whole text.
        text: String,
        /// The reason.
        why: String,
    },
    /// `@#` or `asn1dn:#` is not followed by hexadecimal digits.
    #[error("{0:?} is not hexadecimal after \"#\"")]
    Hexadecimal(String),
}

/// Octets of an identity at most.
pub const MAX_LEN: usize = 1024;
/// Octets of an identity as text at most. A certificate may spell a name in more octets than its
/// holder claims it in, and in hexadecimal it has twice as many.
pub const MAX_TEXT_LEN: usize = 8 * MAX_LEN;

impl Identity {
    /// Reads swanctl's forms: an address, `name`, `@name` (a DNS name), `user@domain`,
    /// `@@user@domain`, `C=CH, O=x, CN=y`, `@#0a1b` (a key ID in hexadecimal), or a prefix that
    /// names the type: `fqdn:`, `email:`, `keyid:`, `asn1dn:`, `asn1dn:#` (DER in hexadecimal).
    pub fn parse(whole: &str) -> Result<Self, IdentityFault> {
        let text = whole.trim();
        if text.len() > MAX_TEXT_LEN {
            return Err(IdentityFault::TextTooLong(text.len()));
        }
        let read = Self::read(whole, text)?;
        let octets = match &read {
            Self::Address(_) => 0,
            Self::Fqdn(name) | Self::UserFqdn(name) => name.len(),
            Self::KeyId(octets) => octets.len(),
            // What a certificate spells longer has no other text.
            Self::DistinguishedName(_) if text.starts_with(DER_PREFIX) => 0,
            Self::DistinguishedName(der) => der.len(),
        };
        match octets > MAX_LEN {
            true => Err(IdentityFault::TooLong(octets)),
            false => Ok(read),
        }
    }

    fn read(whole: &str, text: &str) -> Result<Self, IdentityFault> {
        for (prefix, read) in PREFIXES {
            if let Some(rest) = text.strip_prefix(prefix) {
                return read(rest);
            }
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        if text.contains('=') {
            return Self::distinguished_name(whole);
        }
        if text.contains('@') {
            return Self::user_fqdn(text);
        }
        Self::fqdn(text)
    }

    /// The form in which equal identities are identical: DNS names and the hosts of mail addresses
    /// in lower case, distinguished names in normal form.
    pub fn canonical(&self) -> Self {
        match self {
            Self::Fqdn(name) => Self::Fqdn(name.to_ascii_lowercase()),
            // RFC 5280 §7.5: the local part is compared exactly, the host without case.
            Self::UserFqdn(name) => Self::UserFqdn(match name.rsplit_once('@') {
                Some((user, host)) => format!("{user}@{}", host.to_ascii_lowercase()),
                None => name.clone(),
            }),
            Self::DistinguishedName(der) => match DistinguishedName::from_der(der) {
                Ok(name) => Self::DistinguishedName(name.normal_form().to_der()),
                Err(_) => self.clone(),
            },
            Self::Address(_) | Self::KeyId(_) => self.clone(),
        }
    }

    /// Whether both name the same: DNS names without case (RFC 5280 §7.2), distinguished names
    /// without case and string encoding.
    pub fn is_same(&self, other: &Self) -> bool {
        self == other || self.canonical() == other.canonical()
    }

    /// The name of a certificate that equals this identity (RFC 4945 §3.1): an address, DNS name or
    /// mail address must be a subjectAltName, a distinguished name must be the subject. No
    /// certificate has a key ID (RFC 4945 §3.1.8). Returned as the certificate spells it, never as
    /// claimed.
    pub fn proven_by(&self, names: &[Name]) -> Option<Self> {
        let mut named = names.iter().filter_map(Self::of_certificate);
        named.find(|name| self.is_same(name))
    }

    /// A certificate's name as an identity. `None` for the empty subject.
    pub fn of_certificate(name: &Name) -> Option<Self> {
        Some(match name {
            Name::Address(address) => Self::Address(*address),
            Name::Dns(name) => Self::Fqdn(name.to_ascii_lowercase()),
            Name::Email(name) => Self::UserFqdn(name.clone()).canonical(),
            Name::Subject(der) => {
                let name = DistinguishedName::from_der(der).ok()?;
                (!name.is_empty()).then(|| Self::DistinguishedName(der.clone()))?
            }
        })
    }

    fn write_text(&self, f: &mut fmt::Formatter<'_>, prefix: &str, text: &str) -> fmt::Result {
        match self.is_read_from(text) {
            true => write!(f, "{text}"),
            false if is_graphic(text) => write!(f, "{prefix}{text}"),
            false => write!(f, "{prefix}{}", text.escape_debug()),
        }
    }

    fn is_read_from(&self, text: &str) -> bool {
        Self::parse(text).is_ok_and(|read| read.is_same(self))
    }

    fn fqdn(text: &str) -> Result<Self, IdentityFault> {
        checked(text, "DNS name").map(Self::Fqdn)
    }

    fn user_fqdn(text: &str) -> Result<Self, IdentityFault> {
        checked(text, "mail address").map(Self::UserFqdn)
    }

    fn key_id(text: &str) -> Result<Self, IdentityFault> {
        if text.is_empty() {
            return Err(IdentityFault::Empty);
        }
        Ok(Self::KeyId(text.as_bytes().to_vec()))
    }

    fn key_id_hex(text: &str) -> Result<Self, IdentityFault> {
        hexadecimal("@#", text).map(Self::KeyId)
    }

    fn distinguished_name_hex(text: &str) -> Result<Self, IdentityFault> {
        let der = hexadecimal(DER_PREFIX, text)?;
        let fault = |why: String| IdentityFault::DistinguishedName {
            text: format!("{DER_PREFIX}{text}"),
            why,
        };
        match DistinguishedName::from_der(&der) {
            Ok(name) if name.is_empty() => Err(fault("it has no attribute".into())),
            Ok(_) => Ok(Self::DistinguishedName(der)),
            Err(error) => Err(fault(error.to_string())),
        }
    }

    fn distinguished_name(text: &str) -> Result<Self, IdentityFault> {
        match text.parse::<DistinguishedName>() {
            Ok(name) => Ok(Self::DistinguishedName(name.to_der())),
            Err(fault) => Err(IdentityFault::DistinguishedName {
                text: text.into(),
                why: fault.to_string(),
            }),
        }
    }
}

impl IdentityPattern {
    /// Reads everything that [`Identity::parse`] reads, and `*` or `%any` for any identity. A DNS
    /// name or mail address may begin with `*`, a value in a distinguished name may be `*`.
    pub fn parse(text: &str) -> Result<Self, IdentityFault> {
        match text.trim() {
            "*" | "%any" => Ok(Self::Any),
            text => Identity::parse(text).map(Self::Is),
        }
    }

    /// How many identities match.
    pub fn breadth(&self) -> Breadth {
        match self {
            Self::Any => Breadth::All,
            Self::Is(Identity::Fqdn(name) | Identity::UserFqdn(name)) => {
                match name.starts_with('*') {
                    true => Breadth::Some,
                    false => Breadth::One,
                }
            }
            Self::Is(Identity::DistinguishedName(der)) => match DistinguishedName::from_der(der) {
                Ok(name) if !name.has_wildcard() => Breadth::One,
                Ok(name) if name.is_all_wildcards() => Breadth::All,
                _ => Breadth::Some,
            },
            Self::Is(_) => Breadth::One,
        }
    }

    /// Whether only one identity matches.
    pub fn is_exact(&self) -> bool {
        self.breadth() == Breadth::One
    }

    /// Whether we accept `identity`. [`Identity::proven_by`] checks that its credential proves it.
    pub fn fits(&self, identity: &Identity) -> bool {
        let Self::Is(pattern) = self else {
            return true;
        };
        match (pattern, identity) {
            (Identity::Fqdn(pattern), Identity::Fqdn(name))
            | (Identity::UserFqdn(pattern), Identity::UserFqdn(name))
                if pattern.starts_with('*') =>
            {
                ends_with(name, &pattern[1..])
            }
            (Identity::DistinguishedName(pattern), Identity::DistinguishedName(name)) => {
                let read = |der| DistinguishedName::from_der(der).ok();
                let (pattern, name) = (read(pattern), read(name));
                pattern.is_some_and(|pattern| name.is_some_and(|name| pattern.fits(&name)))
            }
            _ => pattern.is_same(identity),
        }
    }
}

impl fmt::Display for IdentityPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => write!(f, "any identity"),
            Self::Is(identity) => write!(f, "{identity}"),
        }
    }
}

/// One line, from which [`Identity::parse`] reads the same identity: for logs, `caravan status` and
/// the control socket. A name that would read as another type has a prefix. Unprintable octets are
/// escaped or in hexadecimal, and so is a distinguished name that has no text of its own, for
/// example because a value is no string.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Fqdn(name) => self.write_text(f, "fqdn:", name),
            Self::UserFqdn(name) => self.write_text(f, "email:", name),
            Self::DistinguishedName(der) => {
                let text = DistinguishedName::from_der(der).map(|name| name.to_string());
                match text {
                    Ok(text) if self.is_read_from(&text) => write!(f, "{text}"),
                    _ => write_hex(f, DER_PREFIX, der),
                }
            }
            Self::KeyId(octets) => match core::str::from_utf8(octets) {
                Ok(text) if is_graphic(text) => write!(f, "keyid:{text}"),
                _ => write_hex(f, "@#", octets),
            },
        }
    }
}

type Read = fn(&str) -> Result<Identity, IdentityFault>;

/// Longer prefixes first.
const PREFIXES: [(&str, Read); 10] = [
    ("fqdn:", Identity::fqdn),
    ("dns:", Identity::fqdn),
    ("email:", Identity::user_fqdn),
    ("userfqdn:", Identity::user_fqdn),
    ("keyid:", Identity::key_id),
    (DER_PREFIX, Identity::distinguished_name_hex),
    ("asn1dn:", Identity::distinguished_name),
    ("@#", Identity::key_id_hex),
    ("@@", Identity::user_fqdn),
    ("@", Identity::fqdn),
];

const DER_PREFIX: &str = "asn1dn:#";

fn checked(text: &str, what: &'static str) -> Result<String, IdentityFault> {
    if text.is_empty() {
        Err(IdentityFault::Empty)
    } else if is_graphic(text) {
        Ok(text.into())
    } else {
        Err(IdentityFault::Characters(text.into(), what))
    }
}

pub(crate) fn is_graphic(text: &str) -> bool {
    text.bytes().all(|octet| octet.is_ascii_graphic())
}

fn ends_with(name: &str, end: &str) -> bool {
    let start = name.len().checked_sub(end.len());
    start.is_some_and(|at| name.as_bytes()[at..].eq_ignore_ascii_case(end.as_bytes()))
}

fn hexadecimal(prefix: &str, text: &str) -> Result<Vec<u8>, IdentityFault> {
    let fault = || IdentityFault::Hexadecimal(format!("{prefix}{text}"));
    if text.is_empty() || !text.len().is_multiple_of(2) || !text.is_ascii() {
        return Err(fault());
    }
    let octet = |at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| fault());
    (0..text.len()).step_by(2).map(octet).collect()
}

fn write_hex(f: &mut fmt::Formatter<'_>, prefix: &str, octets: &[u8]) -> fmt::Result {
    f.write_str(prefix)?;
    octets.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
}

#[cfg(test)]
mod tests;
