//! Traffic selector payloads, TSi and TSr (RFC 7296 §3.13).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::codec::{Malformed, Reader, Writer};

/// Selectors that one payload may hold: what its count field can say.
pub const MAX_SELECTORS: usize = 255;

/// Traffic selector types (RFC 7296 §3.13.1, RFC 9478 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TrafficSelectorType {
    /// 7: TS_IPV4_ADDR_RANGE.
    Ipv4AddrRange,
    /// 8: TS_IPV6_ADDR_RANGE.
    Ipv6AddrRange,
    /// 10: TS_SECLABEL.
    SecurityLabel,
    /// Any other value.
    Other(u8),
}

/// One selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrafficSelector {
    /// Ranges of addresses and ports.
    Addresses(AddressSelector),
    /// Another type, with its octets. It narrows nothing that we know; do not choose it.
    Other {
        /// Its type, not one of the ranges.
        kind: TrafficSelectorType,
        /// The octet where the ranges have their protocol.
        protocol: u8,
        /// Octets after the length.
        body: Vec<u8>,
    },
}

/// Ranges of addresses and ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressSelector {
    /// IP protocol, 0 for any.
    pub protocol: u8,
    /// First port. 65535 with a last port of 0 is OPAQUE: packets whose ports cannot be seen (RFC
    /// 4301 §4.4.1.1). For ICMP and ICMPv6, the type in the upper octet and the code in the lower
    /// one.
    pub first_port: u16,
    /// Last port.
    pub last_port: u16,
    /// First address.
    pub first: IpAddr,
    /// Last address, of the same family, not below `first`.
    pub last: IpAddr,
}

impl AddressSelector {
    /// All ports of all protocols, for a range of addresses.
    pub const fn of_addresses(first: IpAddr, last: IpAddr) -> Self {
        Self {
            protocol: 0,
            first_port: 0,
            last_port: u16::MAX,
            first,
            last,
        }
    }

    /// Whether it is for packets whose ports cannot be seen.
    pub const fn is_opaque(&self) -> bool {
        self.first_port == u16::MAX && self.last_port == 0
    }

    /// Whether every port matches, those that cannot be seen included.
    pub const fn is_any_port(&self) -> bool {
        self.first_port == 0 && self.last_port == u16::MAX
    }

    fn check(self) -> Result<Self, Malformed> {
        if self.first > self.last {
            return Err(Malformed::Value("address range"));
        }
        if self.first_port > self.last_port && !self.is_opaque() {
            return Err(Malformed::Value("port range"));
        }
        Ok(self)
    }
}

impl TrafficSelector {
    pub(super) fn read_all(r: &mut Reader<'_>) -> Result<Vec<Self>, Malformed> {
        let count = r.u8("number of traffic selectors")?;
        r.array::<3>("reserved octets")?;
        (0..count).map(|_| Self::read(r)).collect()
    }

    /// Panics on more than [`MAX_SELECTORS`].
    pub(super) fn write_all(selectors: &[Self], w: &mut Writer) {
        w.u8(u8::try_from(selectors.len()).expect("at most 255 selectors"));
        w.bytes(&[0; 3]);
        for selector in selectors {
            selector.write(w);
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = TrafficSelectorType::from(r.u8("traffic selector type")?);
        let protocol = r.u8("traffic selector protocol")?;
        let len = usize::from(r.u16("traffic selector length")?);
        let body_len = len.checked_sub(HEAD_LEN);
        let body_len = body_len.ok_or(Malformed::Length("traffic selector"))?;
        let mut body = r.sub(body_len, "traffic selector")?;
        let of_ports = |first_port, last_port, first: IpAddr, last: IpAddr| {
            let range = AddressSelector {
                protocol,
                first_port,
                last_port,
                first,
                last,
            };
            range.check().map(Self::Addresses)
        };
        let selector = match kind {
            TrafficSelectorType::Ipv4AddrRange => of_ports(
                body.u16("first port")?,
                body.u16("last port")?,
                Ipv4Addr::from(body.array::<4>("first address")?).into(),
                Ipv4Addr::from(body.array::<4>("last address")?).into(),
            )?,
            TrafficSelectorType::Ipv6AddrRange => of_ports(
                body.u16("first port")?,
                body.u16("last port")?,
                Ipv6Addr::from(body.array::<16>("first address")?).into(),
                Ipv6Addr::from(body.array::<16>("last address")?).into(),
            )?,
            TrafficSelectorType::SecurityLabel | TrafficSelectorType::Other(_) => Self::Other {
                kind,
                protocol,
                body: body.rest().to_vec(),
            },
        };
        body.finish("traffic selector")?;
        Ok(selector)
    }

    /// Panics on a range of two families.
    fn write(&self, w: &mut Writer) {
        let start = w.len();
        let head = |w: &mut Writer, kind: TrafficSelectorType, protocol| {
            w.u8(kind.number());
            w.u8(protocol);
            w.u16(0);
        };
        match self {
            Self::Addresses(range) => {
                let kind = match range.first {
                    IpAddr::V4(_) => TrafficSelectorType::Ipv4AddrRange,
                    IpAddr::V6(_) => TrafficSelectorType::Ipv6AddrRange,
                };
                head(w, kind, range.protocol);
                w.u16(range.first_port);
                w.u16(range.last_port);
                match (range.first, range.last) {
                    (IpAddr::V4(first), IpAddr::V4(last)) => {
                        w.bytes(&first.octets());
                        w.bytes(&last.octets());
                    }
                    (IpAddr::V6(first), IpAddr::V6(last)) => {
                        w.bytes(&first.octets());
                        w.bytes(&last.octets());
                    }
                    _ => panic!("a range of addresses of one family"),
                }
            }
            Self::Other {
                kind,
                protocol,
                body,
            } => {
                head(w, *kind, *protocol);
                w.bytes(body);
            }
        }
        let len = u16::try_from(w.len() - start).expect("traffic selector below 64 KiB");
        w.patch_u16(start + 2, len);
    }
}

/// Octets before a selector's content.
const HEAD_LEN: usize = 4;

numbered!(TrafficSelectorType: u8 {
    Ipv4AddrRange = 7,
    Ipv6AddrRange = 8,
    SecurityLabel = 10,
});
