//! Sites: what strangers are counted by. One host has as many IPv6 addresses as it likes, but
//! they share a /64 (RFC 4291 §2.5.1); an IPv4 address is one site.

use std::net::{IpAddr, Ipv6Addr};

/// An IPv4 address, or the /64 of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site(IpAddr);

/// The bits of an IPv6 address that its network chose, not the host.
const NETWORK_BITS: u128 = !(u64::MAX as u128);

impl Site {
    /// The site of an address.
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & NETWORK_BITS).into(),
            v4 => v4,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(address: &str) -> Site {
        Site::of(address.parse().unwrap())
    }

    #[test]
    fn addresses_of_one_64_are_one_site_and_ipv4_addresses_are_their_own() {
        assert_eq!(site("2001:db8:1:2::1"), site("2001:db8:1:2:ffff::9"));
        assert_ne!(site("2001:db8:1:2::1"), site("2001:db8:1:3::1"));
        assert_ne!(site("192.0.2.1"), site("192.0.2.2"));
        assert_eq!(site("192.0.2.1"), site("::ffff:192.0.2.1"));
    }
}
