//! Ranges of IPv4 addresses. Left out: IPv6, which the hosts of the event kernel do not speak.

use std::fmt;
use std::net::Ipv4Addr;

use document::{Fault, Item};
use serde::{Serialize, Serializer};

/// A network such as `192.0.2.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its first address.
    pub first: Ipv4Addr,
    /// Length of its prefix.
    pub bits: u8,
}

/// A prefix as long leaves two hosts, one as short is no segment of anybody's.
const BITS: std::ops::RangeInclusive<u8> = 8..=30;

impl Network {
    /// Of 256 addresses.
    pub const fn of(first: [u8; 4]) -> Self {
        let [a, b, c, d] = first;
        Self {
            first: Ipv4Addr::new(a, b, c, d),
            bits: 24,
        }
    }

    pub(super) fn read(item: &Item) -> Result<Self, Fault> {
        let text = item.text()?;
        let what = || {
            format!(
                "'{text}' is no network of IPv4 with a prefix of {} to {} bits, such as \
                 192.0.2.0/24",
                BITS.start(),
                BITS.end()
            )
        };
        let parts = text.split_once('/');
        let network = parts.and_then(|(first, bits)| {
            let (first, bits) = (first.parse().ok()?, bits.parse().ok()?);
            BITS.contains(&bits).then_some(Self { first, bits })
        });
        match network {
            Some(network) if u32::from(network.first) & !network.mask() == 0 => Ok(network),
            _ => Err(item.fault(what())),
        }
    }

    fn mask(self) -> u32 {
        u32::MAX << (32 - u32::from(self.bits))
    }

    /// Its last address.
    pub fn last(self) -> Ipv4Addr {
        (u32::from(self.first) | !self.mask()).into()
    }

    /// The address of the host of this number, from 1 on; none where there is no room.
    pub fn host(self, number: u32) -> Option<Ipv4Addr> {
        let last = u32::from(self.last());
        let address = u32::from(self.first).checked_add(number)?;
        (number > 0 && address < last).then(|| address.into())
    }

    /// Whether they have addresses in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last() && other.first <= self.last()
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
