//! The configuration payload, CP (RFC 7296 §3.15, RFC 8598 §4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::DelegationSigner;
use crate::codec::{Malformed, Reader, Writer};

/// Attributes that one payload may hold.
pub const MAX_CONFIG_ATTRIBUTES: usize = 256;

/// Configuration message types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigType {
    /// 1: CFG_REQUEST.
    Request,
    /// 2: CFG_REPLY.
    Reply,
    /// 3: CFG_SET.
    Set,
    /// 4: CFG_ACK.
    Ack,
    /// Any other value.
    Other(u8),
}

/// Attribute types; the names are the RFCs'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the documents' own")]
pub enum ConfigKind {
    InternalIp4Address,
    InternalIp4Netmask,
    InternalIp4Dns,
    InternalIp4Nbns,
    InternalIp4Dhcp,
    ApplicationVersion,
    InternalIp6Address,
    InternalIp6Dns,
    InternalIp6Dhcp,
    InternalIp4Subnet,
    SupportedAttributes,
    InternalIp6Subnet,
    /// RFC 8598 §4.1: a domain whose names the internal servers resolve.
    InternalDnsDomain,
    /// RFC 8598 §4.2: a trust anchor of DNSSEC for the domain before it.
    InternalDnssecTa,
    Other(u16),
}

/// A configuration payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Request, reply, set or acknowledgement.
    pub kind: ConfigType,
    /// The attributes, in the order sent.
    pub attributes: Vec<ConfigAttribute>,
}

/// An attribute. An empty value in a request asks for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigAttribute {
    /// What it is.
    pub kind: ConfigKind,
    /// Its octets: none, or as many as the kind has.
    pub value: Vec<u8>,
}

impl Configuration {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = r.u8("configuration type")?.into();
        r.array::<3>("reserved octets")?;
        let mut attributes = Vec::new();
        while !r.is_empty() {
            if attributes.len() == MAX_CONFIG_ATTRIBUTES {
                return Err(Malformed::TooMany("configuration attributes"));
            }
            attributes.push(ConfigAttribute::read(r)?);
        }
        Ok(Self { kind, attributes })
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.u8(self.kind.number());
        w.bytes(&[0; 3]);
        for attribute in &self.attributes {
            attribute.write(w);
        }
    }
}

impl ConfigAttribute {
    /// Asks for a value of this kind.
    pub const fn request(kind: ConfigKind) -> Self {
        Self {
            kind,
            value: Vec::new(),
        }
    }

    /// An address of an address kind: an inner address, a server. An inner IPv6 address is its own
    /// prefix of 128 bits.
    pub fn address(kind: ConfigKind, address: IpAddr) -> Self {
        let mut value = match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        if kind == ConfigKind::InternalIp6Address {
            value.push(128);
        }
        Self { kind, value }
    }

    /// A network behind the sender: INTERNAL_IP4_SUBNET or INTERNAL_IP6_SUBNET. Panics on a prefix
    /// that is longer than the address.
    pub fn subnet(net: IpAddr, prefix_len: u8) -> Self {
        match net {
            IpAddr::V4(v4) => {
                assert!(prefix_len <= 32, "a prefix of at most 32 bits");
                let mask = !u32::MAX.checked_shr(prefix_len.into()).unwrap_or(0);
                Self {
                    kind: ConfigKind::InternalIp4Subnet,
                    value: [v4.octets(), mask.to_be_bytes()].concat(),
                }
            }
            IpAddr::V6(v6) => {
                assert!(prefix_len <= 128, "a prefix of at most 128 bits");
                Self {
                    kind: ConfigKind::InternalIp6Subnet,
                    value: [&v6.octets()[..], &[prefix_len]].concat(),
                }
            }
        }
    }

    /// A domain whose names the internal servers resolve (RFC 8598 §4.1).
    pub fn domain(name: &str) -> Self {
        Self {
            kind: ConfigKind::InternalDnsDomain,
            value: name.as_bytes().to_vec(),
        }
    }

    /// A key of DNSSEC for the domain before it (RFC 8598 §4.2).
    pub fn trust_anchor(signer: &DelegationSigner) -> Self {
        let mut w = Writer::new();
        signer.write(&mut w);
        Self {
            kind: ConfigKind::InternalDnssecTa,
            value: w.into_vec(),
        }
    }

    /// The address at the start of an address, server, netmask or subnet. `None` for an empty value
    /// and for other kinds.
    pub fn to_address(&self) -> Option<IpAddr> {
        match self.kind.value_len()? {
            4 | 8 => {
                let octets = self.value.first_chunk::<4>()?;
                Some(Ipv4Addr::from(*octets).into())
            }
            _ => {
                let octets = self.value.first_chunk::<16>()?;
                Some(Ipv6Addr::from(*octets).into())
            }
        }
    }

    /// Network and prefix length of a subnet or of an inner IPv6 address. `None` for other kinds,
    /// an empty value, and a mask with a one after a zero.
    pub fn to_subnet(&self) -> Option<(IpAddr, u8)> {
        let (net, rest) = match self.kind {
            ConfigKind::InternalIp4Subnet => self.value.split_at_checked(4)?,
            ConfigKind::InternalIp6Subnet | ConfigKind::InternalIp6Address => {
                self.value.split_at_checked(16)?
            }
            _ => return None,
        };
        if let (Ok(net), Ok(mask)) = (<[u8; 4]>::try_from(net), <[u8; 4]>::try_from(rest)) {
            let mask = u32::from_be_bytes(mask);
            let is_prefix = mask.leading_ones() == mask.count_ones();
            return is_prefix.then(|| (Ipv4Addr::from(net).into(), mask.count_ones() as u8));
        }
        let net = <[u8; 16]>::try_from(net).ok()?;
        Some((Ipv6Addr::from(net).into(), *rest.first()?))
    }

    /// The domain of INTERNAL_DNS_DOMAIN, if it is letters, digits, hyphens, underscores and dots.
    pub fn to_domain(&self) -> Option<&str> {
        let is_of_names =
            |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.');
        let is_name = self.kind == ConfigKind::InternalDnsDomain
            && (1..=MAX_DOMAIN_LEN).contains(&self.value.len())
            && self.value.iter().all(is_of_names);
        if !is_name {
            return None;
        }
        core::str::from_utf8(&self.value).ok()
    }

    /// The key of INTERNAL_DNSSEC_TA, if its digest is as long as its type says.
    pub fn to_trust_anchor(&self) -> Option<DelegationSigner> {
        let is_one = self.kind == ConfigKind::InternalDnssecTa;
        let signer = DelegationSigner::read(&mut Reader::new(&self.value));
        signer.ok().filter(|_| is_one)
    }

    /// The kinds that SUPPORTED_ATTRIBUTES lists.
    pub fn to_kinds(&self) -> Option<Vec<ConfigKind>> {
        let (numbers, rest) = self.value.as_chunks::<2>();
        let is_list = self.kind == ConfigKind::SupportedAttributes && rest.is_empty();
        let kind_of = |number: &[u8; 2]| (u16::from_be_bytes(*number) & !RESERVED).into();
        is_list.then(|| numbers.iter().map(kind_of).collect())
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = ConfigKind::from(r.u16("configuration attribute type")? & !RESERVED);
        let len = usize::from(r.u16("configuration attribute length")?);
        let value = r.take(len, "configuration attribute")?.to_vec();
        kind.check(&value)?;
        Ok(Self { kind, value })
    }

    fn write(&self, w: &mut Writer) {
        assert!(self.kind.number() & RESERVED == 0, "types have 15 bits");
        w.u16(self.kind.number());
        w.u16(u16::try_from(self.value.len()).expect("attribute below 64 KiB"));
        w.bytes(&self.value);
    }
}

impl ConfigKind {
    /// Octets of a value that is not empty, for kinds that are addresses.
    const fn value_len(self) -> Option<usize> {
        match self {
            Self::InternalIp4Address
            | Self::InternalIp4Netmask
            | Self::InternalIp4Dns
            | Self::InternalIp4Nbns
            | Self::InternalIp4Dhcp => Some(4),
            Self::InternalIp4Subnet => Some(8),
            Self::InternalIp6Dns | Self::InternalIp6Dhcp => Some(16),
            Self::InternalIp6Address | Self::InternalIp6Subnet => Some(17),
            _ => None,
        }
    }

    fn check(self, value: &[u8]) -> Result<(), Malformed> {
        let is_even = value.len().is_multiple_of(2);
        match self.value_len() {
            _ if self == Self::SupportedAttributes && !is_even => {
                Err(Malformed::Length("supported attributes"))
            }
            Some(len) if !value.is_empty() && value.len() != len => {
                Err(Malformed::Length("configuration attribute"))
            }
            Some(17) if value.last().is_some_and(|prefix_len| *prefix_len > 128) => {
                Err(Malformed::Value("prefix length"))
            }
            _ => Ok(()),
        }
    }
}

/// The bit before an attribute's type, which is ignored (RFC 7296 §3.15.1).
const RESERVED: u16 = 0x8000;
/// Characters of a domain name (RFC 1035 §2.3.4).
const MAX_DOMAIN_LEN: usize = 255;

numbered!(ConfigType: u8 { Request = 1, Reply = 2, Set = 3, Ack = 4 });

numbered!(ConfigKind: u16 {
    InternalIp4Address = 1,
    InternalIp4Netmask = 2,
    InternalIp4Dns = 3,
    InternalIp4Nbns = 4,
    InternalIp4Dhcp = 6,
    ApplicationVersion = 7,
    InternalIp6Address = 8,
    InternalIp6Dns = 10,
    InternalIp6Dhcp = 12,
    InternalIp4Subnet = 13,
    SupportedAttributes = 14,
    InternalIp6Subnet = 15,
    InternalDnsDomain = 25,
    InternalDnssecTa = 26,
});
