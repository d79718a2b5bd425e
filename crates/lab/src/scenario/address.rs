//! Ranges of IP addresses of either family.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use document::{Fault, Item};
use serde::{Serialize, Serializer};

/// A network such as `192.0.2.0/24` or `2001:db8::/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its first address.
    pub first: IpAddr,
    /// Length of its prefix.
    pub bits: u8,
}

/// Allowed prefix lengths: the longest leaves two hosts, the shortest is that of one organisation.
const BITS_V4: RangeInclusive<u8> = 8..=30;
const BITS_V6: RangeInclusive<u8> = 32..=120;

impl Network {
    /// An IPv4 network of 256 addresses.
    pub const fn v4([a, b, c, d]: [u8; 4]) -> Self {
        Self {
            first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            bits: 24,
        }
    }

    /// An IPv6 network with a prefix of 64 bits that begins with these words.
    pub const fn v6([a, b, c, d]: [u16; 4]) -> Self {
        Self {
            first: IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)),
            bits: 64,
        }
    }

    /// Of one address.
    pub const fn alone(first: IpAddr) -> Self {
        let bits = if first.is_ipv6() { 128 } else { 32 };
        Self { first, bits }
    }

    pub(super) fn read(item: &Item) -> Result<Self, Fault> {
        let text = item.text()?;
        let parts = text.split_once('/');
        let network = parts.and_then(|(first, bits)| {
            let (first, bits) = (first.parse().ok()?, bits.parse().ok()?);
            Some(Self { first, bits })
        });
        match network {
            Some(network) if network.is_sound() => Ok(network),
            _ => Err(item.fault(format!(
                "'{text}' is not a network: write its first address and a prefix of {} to {} \
                 bits, such as 192.0.2.0/24, or of {} to {} bits, such as 2001:db8::/64",
                BITS_V4.start(),
                BITS_V4.end(),
                BITS_V6.start(),
                BITS_V6.end()
            ))),
        }
    }

    /// Whether its addresses are IPv6.
    pub const fn is_v6(self) -> bool {
        self.first.is_ipv6()
    }

    fn is_sound(self) -> bool {
        let bits = if self.is_v6() { BITS_V6 } else { BITS_V4 };
        bits.contains(&self.bits) && number(self.first) & self.rest() == 0
    }

    /// The number of bits after the prefix.
    fn rest(self) -> u128 {
        let all = if self.is_v6() { 128 } else { 32 };
        let hosts = 1_u128.checked_shl(all - u32::from(self.bits));
        hosts.unwrap_or_default().wrapping_sub(1)
    }

    fn at(self, number: u128) -> IpAddr {
        match self.first {
            // for IPv4 all numbers fit into 32 bits
            IpAddr::V4(_) => Ipv4Addr::from(number as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from(number).into(),
        }
    }

    /// Its last address.
    pub fn last(self) -> IpAddr {
        self.at(number(self.first) | self.rest())
    }

    /// The address of the host with this number, from 1; none if the network is too small.
    pub fn host(self, host: u32) -> Option<IpAddr> {
        let has_room = host > 0 && u128::from(host) < self.rest();
        has_room.then(|| self.at(number(self.first) + u128::from(host)))
    }

    /// Whether an address is of it.
    pub fn has(self, address: IpAddr) -> bool {
        address.is_ipv6() == self.is_v6() && (self.first..=self.last()).contains(&address)
    }

    /// Every address of a family.
    pub const fn all(is_v6: bool) -> Self {
        let first = match is_v6 {
            true => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            false => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        };
        Self { first, bits: 0 }
    }

    /// The first 254 addresses of hosts, as many as one pool has.
    pub fn hosts(self) -> (IpAddr, IpAddr) {
        let host = |number| self.host(number).unwrap_or(self.first);
        (host(1), host(254))
    }

    /// Whether the networks have addresses in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last() && other.first <= self.last()
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.first, self.bits)
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
