//! The identification payload (RFC 2407 §4.6.2).
//!
//! Left out: the text of a distinguished name. `crypto` can read its octets.

use core::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::codec::{Malformed, Reader, Writer};

/// ID types (RFC 2407 §4.6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdentificationType {
    /// 1
    Ipv4Addr,
    /// 2
    Fqdn,
    /// 3
    UserFqdn,
    /// 4
    Ipv4AddrSubnet,
    /// 5
    Ipv6Addr,
    /// 6
    Ipv6AddrSubnet,
    /// 7
    Ipv4AddrRange,
    /// 8
    Ipv6AddrRange,
    /// 9: a subject's distinguished name.
    DerAsn1Dn,
    /// 10
    DerAsn1Gn,
    /// 11: for example a group's name.
    KeyId,
    /// Any other value.
    Other(u8),
}

/// An identity (phase 1) or a traffic selector (phase 2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identification {
    /// How to read `value`.
    pub kind: IdentificationType,
    /// IP protocol, 0 for any.
    pub protocol: u8,
    /// Port, 0 for any.
    pub port: u16,
    /// Identification data.
    pub value: Vec<u8>,
}

impl Identification {
    /// One address; any protocol and port.
    pub fn address(address: IpAddr) -> Self {
        let kind = match address {
            IpAddr::V4(_) => IdentificationType::Ipv4Addr,
            IpAddr::V6(_) => IdentificationType::Ipv6Addr,
        };
        Self::of(kind, octets(address))
    }

    /// The addresses that share the first `prefix_len` bits of `address`; any protocol and port.
    /// Clears the bits of `address` after the prefix, and cuts a prefix that is longer than the
    /// address.
    pub fn subnet(address: IpAddr, prefix_len: u8) -> Self {
        let (kind, net, mask) = match address {
            IpAddr::V4(v4) => {
                let mask = mask_v4(prefix_len);
                let net = Ipv4Addr::from_bits(v4.to_bits() & mask);
                (
                    IdentificationType::Ipv4AddrSubnet,
                    octets(net.into()),
                    octets_v4(mask),
                )
            }
            IpAddr::V6(v6) => {
                let mask = mask_v6(prefix_len);
                let net = Ipv6Addr::from_bits(v6.to_bits() & mask);
                (
                    IdentificationType::Ipv6AddrSubnet,
                    octets(net.into()),
                    octets_v6(mask),
                )
            }
        };
        Self::of(kind, [net, mask].concat())
    }

    /// The addresses from `first` to `last`, both included; any protocol and port. None if they are
    /// of different families or in the wrong order.
    pub fn range(first: IpAddr, last: IpAddr) -> Option<Self> {
        let kind = match (first, last) {
            (IpAddr::V4(_), IpAddr::V4(_)) => IdentificationType::Ipv4AddrRange,
            (IpAddr::V6(_), IpAddr::V6(_)) => IdentificationType::Ipv6AddrRange,
            _ => return None,
        };
        (first <= last).then(|| Self::of(kind, [octets(first), octets(last)].concat()))
    }

    /// An identity of any kind, for any protocol and port. The length of `value` must match an
    /// address kind; otherwise the receiver refuses it.
    pub fn of(kind: IdentificationType, value: impl Into<Vec<u8>>) -> Self {
        Self {
            kind,
            protocol: 0,
            port: 0,
            value: value.into(),
        }
    }

    /// The same identity, narrowed to an IP protocol and a port (0 for any).
    pub fn with_port(self, protocol: u8, port: u16) -> Self {
        Self {
            protocol,
            port,
            ..self
        }
    }

    /// The address, if it is a single one.
    pub fn to_address(&self) -> Option<IpAddr> {
        match self.kind {
            IdentificationType::Ipv4Addr | IdentificationType::Ipv6Addr => address(&self.value),
            _ => None,
        }
    }

    /// Network and prefix length, if it is an address, or a subnet with a contiguous mask.
    pub fn to_subnet(&self) -> Option<(IpAddr, u8)> {
        match self.kind {
            IdentificationType::Ipv4AddrSubnet | IdentificationType::Ipv6AddrSubnet => {
                let (net, mask) = self.pair()?;
                Some((net, prefix_len(mask)?))
            }
            _ => match self.to_address()? {
                IpAddr::V4(v4) => Some((v4.into(), 32)),
                IpAddr::V6(v6) => Some((v6.into(), 128)),
            },
        }
    }

    /// First and last address, if it is an address, a subnet with a contiguous mask, or an ordered
    /// range: what a traffic selector needs.
    pub fn to_range(&self) -> Option<(IpAddr, IpAddr)> {
        match self.kind {
            IdentificationType::Ipv4AddrRange | IdentificationType::Ipv6AddrRange => {
                self.pair().filter(|(first, last)| first <= last)
            }
            _ => match self.to_subnet()? {
                (IpAddr::V4(net), len) => {
                    let mask = mask_v4(len);
                    let first = Ipv4Addr::from_bits(net.to_bits() & mask);
                    let last = Ipv4Addr::from_bits(net.to_bits() | !mask);
                    Some((first.into(), last.into()))
                }
                (IpAddr::V6(net), len) => {
                    let mask = mask_v6(len);
                    let first = Ipv6Addr::from_bits(net.to_bits() & mask);
                    let last = Ipv6Addr::from_bits(net.to_bits() | !mask);
                    Some((first.into(), last.into()))
                }
            },
        }
    }

    /// The two addresses of a subnet or range.
    fn pair(&self) -> Option<(IpAddr, IpAddr)> {
        let (first, second) = self.value.split_at(self.value.len() / 2);
        Some((address(first)?, address(second)?))
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = IdentificationType::from(r.u8("identification type")?);
        let protocol = r.u8("identification protocol")?;
        let port = r.u16("identification port")?;
        let value = r.rest().to_vec();
        match kind.value_len() {
            Some(len) if len != value.len() => Err(Malformed::Length("identification data")),
            _ => Ok(Self {
                kind,
                protocol,
                port,
                value,
            }),
        }
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.u8(self.kind.number());
        w.u8(self.protocol);
        w.u16(self.port);
        w.bytes(&self.value);
    }
}

impl IdentificationType {
    /// Octets that the data of an address kind must have.
    const fn value_len(self) -> Option<usize> {
        match self {
            Self::Ipv4Addr => Some(4),
            Self::Ipv4AddrSubnet | Self::Ipv4AddrRange => Some(8),
            Self::Ipv6Addr => Some(16),
            Self::Ipv6AddrSubnet | Self::Ipv6AddrRange => Some(32),
            _ => None,
        }
    }
}

/// Addresses as `10.1.0.0/16` and `10.1.0.1-10.1.0.9`, names as they are with unprintable octets
/// escaped, other octets in hexadecimal after `#`. `[protocol/port]` follows if one is set.
impl fmt::Display for Identification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(address) = self.to_address() {
            write!(f, "{address}")?;
        } else if let Some((net, prefix_len)) = self.to_subnet() {
            write!(f, "{net}/{prefix_len}")?;
        } else if let Some((first, last)) = self.to_range() {
            write!(f, "{first}-{last}")?;
        } else if self.is_text() {
            write!(f, "{}", self.value.escape_ascii())?;
        } else {
            write!(f, "#")?;
            self.value
                .iter()
                .try_for_each(|octet| write!(f, "{octet:02x}"))?;
        }
        if self.protocol != 0 || self.port != 0 {
            write!(f, "[{}/{}]", self.protocol, self.port)?;
        }
        Ok(())
    }
}

impl Identification {
    fn is_text(&self) -> bool {
        match self.kind {
            IdentificationType::Fqdn | IdentificationType::UserFqdn => true,
            IdentificationType::KeyId => {
                let is_printable = |octet: &u8| matches!(octet, b' '..=b'~');
                !self.value.is_empty() && self.value.iter().all(is_printable)
            }
            _ => false,
        }
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn octets_v4(bits: u32) -> Vec<u8> {
    bits.to_be_bytes().to_vec()
}

fn octets_v6(bits: u128) -> Vec<u8> {
    bits.to_be_bytes().to_vec()
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        return Some(v4.into());
    }
    <[u8; 16]>::try_from(octets).ok().map(IpAddr::from)
}

fn mask_v4(prefix_len: u8) -> u32 {
    !u32::MAX.checked_shr(prefix_len.into()).unwrap_or(0)
}

fn mask_v6(prefix_len: u8) -> u128 {
    !u128::MAX.checked_shr(prefix_len.into()).unwrap_or(0)
}

/// None if the mask has a one after a zero.
fn prefix_len(mask: IpAddr) -> Option<u8> {
    match mask {
        IpAddr::V4(v4) => {
            let len = v4.to_bits().leading_ones() as u8;
            (mask_v4(len) == v4.to_bits()).then_some(len)
        }
        IpAddr::V6(v6) => {
            let len = v6.to_bits().leading_ones() as u8;
            (mask_v6(len) == v6.to_bits()).then_some(len)
        }
    }
}

numbered!(IdentificationType: u8 {
    Ipv4Addr = 1,
    Fqdn = 2,
    UserFqdn = 3,
    Ipv4AddrSubnet = 4,
    Ipv6Addr = 5,
    Ipv6AddrSubnet = 6,
    Ipv4AddrRange = 7,
    Ipv6AddrRange = 8,
    DerAsn1Dn = 9,
    DerAsn1Gn = 10,
    KeyId = 11,
});
