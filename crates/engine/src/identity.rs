//! Who a peer says it is, and which of that we accept (RFC 2407 §4.6.2, RFC 4945 §3).
//!
//! Left out: general names (ID_DER_ASN1_GN) and, as identities, subnets and ranges.

use core::fmt;
use std::net::IpAddr;

use crypto::cert::{DistinguishedName, Name};
use wire::codec::Malformed;
use wire::isakmp::{Identification, IdentificationType};

use crate::config::IdentityPattern;

/// An identity as configured or as received.
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

/// Why a text is not an identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityFault {
    /// Nothing, or nothing after the prefix.
    #[error("an identity is empty")]
    Empty,
    /// Longer than an identity may be.
    #[error("an identity of {0} octets is longer than {MAX_LEN}")]
    TooLong(usize),
    /// Octets that no name has.
    #[error("{0:?} has characters that no {1} has")]
    Characters(String, &'static str),
    /// A distinguished name that does not read.
    #[error("{text:?} is not a distinguished name: {why}")]
    DistinguishedName {
        /// The whole text.
        text: String,
        /// What is wrong.
        why: String,
    },
    /// `@#` is not followed by hexadecimal digits.
    #[error("{0:?} is not hexadecimal after \"@#\"")]
    Hexadecimal(String),
}

/// Octets that an identity may have.
pub const MAX_LEN: usize = 1024;

impl Identity {
    /// Reads swanctl's words: an address, `name`, `@name` (a DNS name), `user@domain`,
    /// `@@user@domain`, `C=CH, O=x, CN=y`, `@#0a1b` (a key ID in hexadecimal), or a prefix that
    /// says which it is: `fqdn:`, `email:`, `keyid:`, `asn1dn:`.
    pub fn parse(whole: &str) -> Result<Self, IdentityFault> {
        let text = whole.trim();
        if text.len() > MAX_LEN {
            return Err(IdentityFault::TooLong(text.len()));
        }
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

    /// What an ID payload of phase 1 says.
    pub fn from_identification(id: &Identification) -> Result<Self, Malformed> {
        if id.value.is_empty() || id.value.len() > MAX_LEN {
            return Err(Malformed::Length("identity"));
        }
        let text = || {
            let text = core::str::from_utf8(&id.value).ok();
            text.filter(|text| is_graphic(text))
                .map(str::to_owned)
                .ok_or(Malformed::Value("identity"))
        };
        match id.kind {
            IdentificationType::Ipv4Addr | IdentificationType::Ipv6Addr => id
                .to_address()
                .map(Self::Address)
                .ok_or(Malformed::Length("identity")),
            IdentificationType::Fqdn => text().map(Self::Fqdn),
            IdentificationType::UserFqdn => text().map(Self::UserFqdn),
            IdentificationType::DerAsn1Dn => {
                DistinguishedName::from_der(&id.value)
                    .map_err(|_| Malformed::Value("distinguished name"))?;
                Ok(Self::DistinguishedName(id.value.clone()))
            }
            IdentificationType::KeyId => Ok(Self::KeyId(id.value.clone())),
            _ => Err(Malformed::Value("identification type")),
        }
    }

    /// As an ID payload of phase 1, with protocol and port 0 (RFC 2407 §4.6.2).
    pub fn to_identification(&self) -> Identification {
        let (kind, value) = match self {
            Self::Address(address) => return Identification::address(*address),
            Self::Fqdn(name) => (IdentificationType::Fqdn, name.as_bytes()),
            Self::UserFqdn(name) => (IdentificationType::UserFqdn, name.as_bytes()),
            Self::DistinguishedName(der) => (IdentificationType::DerAsn1Dn, der.as_slice()),
            Self::KeyId(octets) => (IdentificationType::KeyId, octets.as_slice()),
        };
        Identification::of(kind, value)
    }

    /// Whether both name the same: names without regard to case, distinguished names without
    /// regard to how their strings are encoded.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fqdn(a), Self::Fqdn(b)) => is_same_host(a, b),
            (Self::UserFqdn(a), Self::UserFqdn(b)) => is_same_mailbox(a, b),
            (Self::DistinguishedName(a), Self::DistinguishedName(b)) => {
                a == b || is_same_dn(a, b, false)
            }
            _ => self == other,
        }
    }

    /// Whether a certificate with these names belongs to this identity (RFC 4945 §3.1): an
    /// address, DNS name or mail address must be a subjectAltName, a distinguished name must be
    /// the subject. A key ID is in no certificate (RFC 4945 §3.1.8).
    pub fn proven_by(&self, names: &[Name]) -> bool {
        names.iter().any(|name| match (self, name) {
            (Self::Address(own), Name::Address(theirs)) => own == theirs,
            (Self::Fqdn(own), Name::Dns(theirs)) => is_same_host(own, theirs),
            (Self::UserFqdn(own), Name::Email(theirs)) => is_same_mailbox(own, theirs),
            (Self::DistinguishedName(own), Name::Subject(theirs)) => {
                own == theirs || is_same_dn(own, theirs, false)
            }
            _ => false,
        })
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
        let fault = || IdentityFault::Hexadecimal(format!("@#{text}"));
        if text.is_empty() || !text.len().is_multiple_of(2) || !text.is_ascii() {
            return Err(fault());
        }
        let octet = |at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| fault());
        let octets = (0..text.len()).step_by(2).map(octet);
        octets.collect::<Result<_, _>>().map(Self::KeyId)
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
    /// Reads what [`Identity::parse`] reads, and `*` or `%any` for any identity. A DNS name or
    /// mail address may begin with `*`, a value in a distinguished name may be `*`.
    pub fn parse(text: &str) -> Result<Self, IdentityFault> {
        match text.trim() {
            "*" | "%any" => Ok(Self::Any),
            text => Identity::parse(text).map(Self::Is),
        }
    }

    /// Whether only one identity fits.
    pub fn is_exact(&self) -> bool {
        match self {
            Self::Any => false,
            Self::Is(Identity::Fqdn(name) | Identity::UserFqdn(name)) => !name.starts_with('*'),
            Self::Is(Identity::DistinguishedName(der)) => {
                DistinguishedName::from_der(der).is_ok_and(|name| !name.has_wildcard())
            }
            Self::Is(_) => true,
        }
    }

    /// Whether `identity` is one that we accept. That its credential proves it is for
    /// [`Identity::proven_by`] to say.
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
                is_same_dn(pattern, name, true)
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

/// One line for logs: octets that do not print are escaped or in hexadecimal.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Fqdn(name) | Self::UserFqdn(name) => write!(f, "{}", name.escape_debug()),
            Self::DistinguishedName(der) => match DistinguishedName::from_der(der) {
                Ok(name) => write!(f, "{name}"),
                Err(_) => write_hex(f, der),
            },
            Self::KeyId(octets) => {
                let is_text = core::str::from_utf8(octets).is_ok_and(is_graphic);
                if is_text {
                    write!(f, "keyid:{}", octets.escape_ascii())
                } else {
                    write_hex(f, octets)
                }
            }
        }
    }
}

type Read = fn(&str) -> Result<Identity, IdentityFault>;

/// Longer prefixes first.
const PREFIXES: [(&str, Read); 9] = [
    ("fqdn:", Identity::fqdn),
    ("dns:", Identity::fqdn),
    ("email:", Identity::user_fqdn),
    ("userfqdn:", Identity::user_fqdn),
    ("keyid:", Identity::key_id),
    ("asn1dn:", Identity::distinguished_name),
    ("@#", Identity::key_id_hex),
    ("@@", Identity::user_fqdn),
    ("@", Identity::fqdn),
];

fn checked(text: &str, what: &'static str) -> Result<String, IdentityFault> {
    if text.is_empty() {
        Err(IdentityFault::Empty)
    } else if is_graphic(text) {
        Ok(text.into())
    } else {
        Err(IdentityFault::Characters(text.into(), what))
    }
}

fn is_graphic(text: &str) -> bool {
    text.bytes().all(|octet| octet.is_ascii_graphic())
}

/// RFC 5280 §7.2: DNS names are compared without regard to case.
fn is_same_host(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// RFC 5280 §7.5: the local part exactly, the host without regard to case.
fn is_same_mailbox(a: &str, b: &str) -> bool {
    match (a.rsplit_once('@'), b.rsplit_once('@')) {
        (Some((user_a, host_a)), Some((user_b, host_b))) => {
            user_a == user_b && is_same_host(host_a, host_b)
        }
        _ => a == b,
    }
}

fn ends_with(name: &str, end: &str) -> bool {
    let start = name.len().checked_sub(end.len());
    start.is_some_and(|at| name.as_bytes()[at..].eq_ignore_ascii_case(end.as_bytes()))
}

fn is_same_dn(a: &[u8], b: &[u8], has_wildcards: bool) -> bool {
    match (
        DistinguishedName::from_der(a),
        DistinguishedName::from_der(b),
    ) {
        (Ok(a), Ok(b)) => a.fits(&b, has_wildcards),
        _ => false,
    }
}

fn write_hex(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    write!(f, "@#")?;
    octets.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
}

#[cfg(test)]
mod tests;
