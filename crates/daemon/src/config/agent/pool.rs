//! Inner addresses that Target lends: the value of `pool`.

use std::net::IpAddr;

use document::{Fault, Item};

use crate::config::read::Read;

/// Addresses of a pool at most: more tunnels than Target has at a time.
const COUNT_MAX: u32 = 1 << 16;

/// Addresses that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRange {
    /// As the file names it.
    pub name: String,
    /// The first.
    pub first: IpAddr,
    /// How many.
    pub count: u32,
}

impl Read for PoolRange {
    fn read(item: &Item) -> Result<Self, Fault> {
        let text = item.text()?;
        Self::parse(text).ok_or_else(|| {
            item.fault(format!(
                "{text:?} is no pool: ADDRESS/PREFIX with host bits of zero and 2 of them, such as \
                 \"10.77.0.0/24\""
            ))
        })
    }
}

impl PoolRange {
    /// The addresses of a network `ADDRESS/PREFIX` that may be lent: without that of the network
    /// itself, and without the last, IPv4's broadcast.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let (address, prefix): (IpAddr, u32) = (address.parse().ok()?, prefix.parse().ok()?);
        let bits: u32 = if address.is_ipv4() { 32 } else { 128 };
        let host_bits = bits.checked_sub(prefix)?.min(127);
        let value = match address {
            IpAddr::V4(it) => u128::from(it.to_bits()),
            IpAddr::V6(it) => it.to_bits(),
        };
        if value & ((1 << host_bits) - 1) != 0 || host_bits < 2 {
            return None;
        }
        let all = 1u32.checked_shl(host_bits).unwrap_or(u32::MAX);
        Some(Self {
            name: text.to_owned(),
            first: nth(address, 1),
            count: (all - 2).min(COUNT_MAX),
        })
    }

    /// The addresses, in their order.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        (0..self.count).map(|at| nth(self.first, at))
    }
}

fn nth(first: IpAddr, at: u32) -> IpAddr {
    match first {
        IpAddr::V4(it) => IpAddr::V4((it.to_bits() + at).into()),
        IpAddr::V6(it) => IpAddr::V6((it.to_bits() + u128::from(at)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_a_network_with_room() {
        let found = PoolRange::parse("fd00::/64").expect("a pool");
        let first: IpAddr = "fd00::1".parse().expect("an address");
        assert_eq!((found.first, found.count), (first, COUNT_MAX));
        for wrong in [
            "10.77.0.1/24",
            "10.77.0.0/31",
            "10.77.0.0",
            "x/24",
            "10.77.0.0/33",
        ] {
            assert_eq!(PoolRange::parse(wrong), None, "{wrong}");
        }
        for all in ["0.0.0.0/0", "::/0"] {
            assert_eq!(PoolRange::parse(all).expect("a pool").count, COUNT_MAX);
        }
    }
}
