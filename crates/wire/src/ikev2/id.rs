//! Identification payloads, IDi and IDr (RFC 7296 §3.5).

use crate::codec::{Malformed, Reader, Writer};

/// ID types (RFC 7296 §3.5, RFC 7619 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdentificationType {
    /// 1: four octets.
    Ipv4Addr,
    /// 2: a domain name.
    Fqdn,
    /// 3: a mail address.
    Rfc822Addr,
    /// 5: sixteen octets.
    Ipv6Addr,
    /// 9: a distinguished name.
    DerAsn1Dn,
    /// 10: a general name.
    DerAsn1Gn,
    /// 11: octets.
    KeyId,
    /// 13: nobody in particular; no octets.
    Null,
    /// Any other value.
    Other(u8),
}

/// An identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identification {
    /// How to read `value`.
    pub kind: IdentificationType,
    /// Identification data.
    pub value: Vec<u8>,
}

impl Identification {
    /// An identity of any kind. The length of `value` must match an address kind; otherwise the
    /// receiver refuses it.
    pub fn new(kind: IdentificationType, value: impl Into<Vec<u8>>) -> Self {
        Self {
            kind,
            value: value.into(),
        }
    }

    /// One address.
    pub fn address(address: std::net::IpAddr) -> Self {
        match address {
            std::net::IpAddr::V4(v4) => Self::new(IdentificationType::Ipv4Addr, v4.octets()),
            std::net::IpAddr::V6(v6) => Self::new(IdentificationType::Ipv6Addr, v6.octets()),
        }
    }

    /// The address, if it is one.
    pub fn to_address(&self) -> Option<std::net::IpAddr> {
        match self.kind {
            IdentificationType::Ipv4Addr => {
                <[u8; 4]>::try_from(&self.value[..]).ok().map(Into::into)
            }
            IdentificationType::Ipv6Addr => {
                <[u8; 16]>::try_from(&self.value[..]).ok().map(Into::into)
            }
            _ => None,
        }
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = IdentificationType::from(r.u8("identification type")?);
        r.array::<3>("reserved octets")?;
        let value = r.rest().to_vec();
        match kind.value_len() {
            Some(len) if len != value.len() => Err(Malformed::Length("identification data")),
            _ => Ok(Self { kind, value }),
        }
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.u8(self.kind.number());
        w.bytes(&[0; 3]);
        w.bytes(&self.value);
    }
}

impl IdentificationType {
    /// Octets that the data must have.
    const fn value_len(self) -> Option<usize> {
        match self {
            Self::Ipv4Addr => Some(4),
            Self::Ipv6Addr => Some(16),
            Self::Null => Some(0),
            _ => None,
        }
    }
}

numbered!(IdentificationType: u8 {
    Ipv4Addr = 1,
    Fqdn = 2,
    Rfc822Addr = 3,
    Ipv6Addr = 5,
    DerAsn1Dn = 9,
    DerAsn1Gn = 10,
    KeyId = 11,
    Null = 13,
});
