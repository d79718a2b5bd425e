//! Traffic selectors: which packets a policy covers (RFC 4301 §4.4.1.1). IKEv1 sends them as
//! quick mode's identification payloads (RFC 2407 §4.6.2).
//!
//! IKEv2 sends them as traffic selectors (RFC 7296 §3.13), which have ranges of ports too. Left
//! out: ICMP types, and OPAQUE.

use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

mod ports;

pub use ports::Ports;

/// The protocols that have types instead of ports: ICMP and ICMPv6.
const ICMP: [u8; 2] = [1, 58];

/// Addresses, protocol and ports of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrafficSelector {
    /// First address.
    pub first: IpAddr,
    /// Last address, of the same family, not below `first`.
    pub last: IpAddr,
    /// IP protocol, 0 for any.
    pub protocol: u8,
    /// Ports; any, if the protocol is not given.
    pub ports: Ports,
}

/// Why a text is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorFault {
    /// An unknown form.
    #[error("{0:?} is not ADDRESS, ADDRESS/BITS, ADDRESS-ADDRESS or \"dynamic\"")]
    Form(String),
    /// More bits than an address has.
    #[error("{text:?}: a prefix of {bits} bits is longer than the {limit} of an address")]
    Prefix {
        /// The whole text.
        text: String,
        /// The given length.
        bits: u8,
        /// The limit.
        limit: u8,
    },
    /// A range from a higher to a lower address, or of two families.
    #[error("{0:?} is a range whose last address does not follow its first")]
    Order(String),
    /// The text in brackets.
    #[error(
        "{0:?}: brackets hold a protocol, protocol/port or protocol/port-port, such as [udp], \
         [tcp/443] or [tcp/1000-2000]"
    )]
    Suffix(String),
    /// A range of what ICMP has instead of ports.
    #[error("{0:?}: ICMP has no ports; [icmp] is all of it")]
    Icmp(String),
    /// `dynamic` where an address is required.
    #[error("\"dynamic\" stands for an address that is not known here")]
    Dynamic,
}

impl TrafficSelector {
    /// One address, any protocol and port.
    pub const fn host(address: IpAddr) -> Self {
        Self {
            first: address,
            last: address,
            protocol: 0,
            ports: Ports::ANY,
        }
    }

    /// The addresses that share the first `bits` of `address`. Larger values count as the address's
    /// length.
    pub fn subnet(address: IpAddr, bits: u8) -> Self {
        let (first, last) = match address {
            IpAddr::V4(v4) => {
                let host = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
                let number = v4.to_bits();
                (
                    Ipv4Addr::from_bits(number & !host).into(),
                    Ipv4Addr::from_bits(number | host).into(),
                )
            }
            IpAddr::V6(v6) => {
                let host = u128::MAX.checked_shr(bits.into()).unwrap_or(0);
                let number = v6.to_bits();
                (
                    Ipv6Addr::from_bits(number & !host).into(),
                    Ipv6Addr::from_bits(number | host).into(),
                )
            }
        };
        Self {
            first,
            last,
            protocol: 0,
            ports: Ports::ANY,
        }
    }

    /// Every address of the family of `like`.
    pub fn everything(like: IpAddr) -> Self {
        Self::subnet(like, 0)
    }

    /// Reads a selector in swanctl's form. `None` is `dynamic`: the side's own address, known only
    /// when the tunnel is up.
    pub fn parse(text: &str) -> Result<Option<Self>, SelectorFault> {
        let text = text.trim();
        let (addresses, suffix) = match text.split_once('[') {
            Some((addresses, rest)) => match rest.strip_suffix(']') {
                Some(inside) => (addresses, Some(inside)),
                None => return Err(SelectorFault::Suffix(text.into())),
            },
            None => (text, None),
        };
        if addresses == "dynamic" {
            return match suffix {
                None => Ok(None),
                Some(_) => Err(SelectorFault::Suffix(text.into())),
            };
        }
        let mut selector = Self::parse_addresses(addresses)?;
        if let Some(inside) = suffix {
            (selector.protocol, selector.ports) =
                parse_suffix(inside).ok_or_else(|| SelectorFault::Suffix(text.into()))?;
            if !selector.ports.is_any() && ICMP.contains(&selector.protocol) {
                return Err(SelectorFault::Icmp(text.into()));
            }
        }
        Ok(Some(selector))
    }

    /// Whether a packet's protocol and its port on this side match. A later fragment has no port,
    /// and matches only if every port does (RFC 4301 §7.1).
    pub fn takes(&self, protocol: u8, port: Option<u16>) -> bool {
        (self.protocol == 0 || self.protocol == protocol) && self.ports.takes(port)
    }

    /// Whether packets could go between both: IPv4 and IPv6 do not mix.
    pub fn is_of_family(&self, other: &Self) -> bool {
        self.first.is_ipv4() == other.first.is_ipv4()
    }

    /// Whether it contains an address.
    pub fn contains_address(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && (self.first..=self.last).contains(&address)
    }

    /// Whether everything that matches `other` matches this too.
    pub fn contains(&self, other: &Self) -> bool {
        self.contains_address(other.first)
            && self.contains_address(other.last)
            && self.holds_ports_of(other)
    }

    /// Whether it includes protocol and ports of `other`.
    pub fn holds_ports_of(&self, other: &Self) -> bool {
        (self.protocol == 0 || self.protocol == other.protocol) && self.ports.contains(other.ports)
    }

    /// Whether it has only one address.
    pub fn is_host(&self) -> bool {
        self.first == self.last
    }

    /// The same protocol and ports at another address.
    pub fn at(&self, address: IpAddr) -> Self {
        Self {
            first: address,
            last: address,
            ..*self
        }
    }

    /// What matches both; `None` if nothing does.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        if !self.is_of_family(other) {
            return None;
        }
        let first = self.first.max(other.first);
        let last = self.last.min(other.last);
        (first <= last).then_some(())?;
        Some(Self {
            first,
            last,
            protocol: narrower(self.protocol, other.protocol)?,
            ports: self.ports.intersection(other.ports)?,
        })
    }

    /// Bits of the prefix, if the addresses are a subnet.
    pub fn prefix_len(&self) -> Option<u8> {
        let bits = match (self.first, self.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                (first.to_bits() ^ last.to_bits()).leading_zeros()
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                (first.to_bits() ^ last.to_bits()).leading_zeros()
            }
            _ => return None,
        };
        let bits = u8::try_from(bits).ok()?;
        let subnet = Self::subnet(self.first, bits);
        (subnet.first == self.first && subnet.last == self.last).then_some(bits)
    }

    fn parse_addresses(text: &str) -> Result<Self, SelectorFault> {
        let form = || SelectorFault::Form(text.into());
        let address = |text: &str| text.trim().parse::<IpAddr>().map_err(|_| form());
        if let Some((net, bits)) = text.split_once('/') {
            let net = address(net)?;
            let bits = bits.trim().parse().map_err(|_| form())?;
            let limit = if net.is_ipv4() { 32 } else { 128 };
            if bits > limit {
                return Err(SelectorFault::Prefix {
                    text: text.into(),
                    bits,
                    limit,
                });
            }
            return Ok(Self::subnet(net, bits));
        }
        let Some((first, last)) = text.split_once('-') else {
            return Ok(Self::host(address(text)?));
        };
        let (first, last) = (address(first)?, address(last)?);
        if first.is_ipv4() != last.is_ipv4() || first > last {
            return Err(SelectorFault::Order(text.into()));
        }
        Ok(Self {
            first,
            last,
            protocol: 0,
            ports: Ports::ANY,
        })
    }
}

/// The one of two protocols that is not "any"; `None` if they contradict each other.
fn narrower(a: u8, b: u8) -> Option<u8> {
    match (a, b) {
        (0, one) | (one, 0) => Some(one),
        _ => (a == b).then_some(a),
    }
}

/// Protocol and ports of `tcp/80`, `tcp/1000-2000`, `udp`, `47`, `any`.
fn parse_suffix(text: &str) -> Option<(u8, Ports)> {
    let (protocol, port) = match text.split_once('/') {
        Some((protocol, port)) => (protocol, Some(port)),
        None => (text, None),
    };
    let named = PROTOCOLS.iter().find(|(_, name)| *name == protocol);
    let protocol = match named {
        Some((number, _)) => *number,
        None => protocol.parse().ok()?,
    };
    let ports = match port {
        None | Some("any") => Ports::ANY,
        Some(port) => port.parse().ok()?,
    };
    (ports.is_any() || protocol != 0).then_some((protocol, ports))
}

/// Protocol numbers with names that swanctl.conf can use.
const PROTOCOLS: [(u8, &str); 6] = [
    (0, "any"),
    (1, "icmp"),
    (6, "tcp"),
    (17, "udp"),
    (58, "ipv6-icmp"),
    (132, "sctp"),
];

/// Reads a selector that is not `dynamic`.
impl FromStr for TrafficSelector {
    type Err = SelectorFault;

    fn from_str(text: &str) -> Result<Self, SelectorFault> {
        Self::parse(text)?.ok_or(SelectorFault::Dynamic)
    }
}

impl fmt::Display for TrafficSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)?;
        } else if let Some(bits) = self.prefix_len() {
            write!(f, "{}/{bits}", self.first)?;
        } else {
            write!(f, "{}-{}", self.first, self.last)?;
        }
        if self.protocol == 0 && self.ports.is_any() {
            return Ok(());
        }
        match PROTOCOLS
            .iter()
            .find(|(number, _)| *number == self.protocol)
        {
            Some((_, name)) => write!(f, "[{name}")?,
            None => write!(f, "[{}", self.protocol)?,
        }
        if !self.ports.is_any() {
            write!(f, "/{}", self.ports)?;
        }
        write!(f, "]")
    }
}

#[cfg(test)]
mod tests;
