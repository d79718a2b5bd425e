//! Sites: the unit by which strangers are counted. One host can use any number of IPv6 addresses in
//! its /64, so a /64 is one site (RFC 4291 §2.5.1); an IPv4 address is one site. The owner of a
//! network has many sites, which share a [`Network`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 address, or the /64 of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site(IpAddr);

/// The largest usual assignment to one customer: the /24 of an IPv4 address, the /48 of an IPv6
/// address (RFC 6177 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network(IpAddr);

impl Site {
    /// The site of an address.
    pub fn of(address: IpAddr) -> Self {
        Self(first_of(address.to_canonical(), 32, 64))
    }

    /// The network that contains it.
    pub fn network(self) -> Network {
        Network(first_of(self.0, 24, 48))
    }
}

/// Whether a single host can have this address, also to other hosts.
pub fn is_unicast(address: &IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast() || is_broadcast)
}

/// Whether an address is of a private network (RFC 1918 §3, RFC 4193 §3, RFC 6598 §7).
pub fn is_private(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [one, two, ..] = v4.octets();
            v4.is_private() || (one == 100 && two & 0xc0 == 64)
        }
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

/// Whether hosts of two networks may have this address by chance: a private one of IPv4.
pub fn is_common(address: &IpAddr) -> bool {
    address.is_ipv4() && is_private(address)
}

/// The first address of the prefix of this many bits, by family, that contains an address.
fn first_of(address: IpAddr, v4_bits: u32, v6_bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & (u32::MAX << (32 - v4_bits))).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << (128 - v6_bits))).into(),
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

    #[test]
    fn loopback_multicast_broadcast_and_unspecified_addresses_are_no_host_s() {
        let all = |text: &str| text.split(' ').all(|it| is_unicast(&it.parse().unwrap()));
        assert!(all("10.0.0.1 192.0.2.255 fe80::1 fd00::1 2001:db8::1"));
        for text in "0.0.0.0 127.0.0.2 224.0.0.1 255.255.255.255 :: ::1 ff02::1".split(' ') {
            assert!(!all(text), "{text}");
        }
    }

    #[test]
    fn many_hosts_may_have_a_private_address_of_ipv4_and_one_any_other() {
        let is_of_many = |text: &str| is_common(&text.parse().unwrap());
        for text in "10.0.0.1 172.31.0.1 192.168.1.1 100.64.0.1 100.127.0.1".split(' ') {
            assert!(is_of_many(text), "{text}");
        }
        for text in "192.0.2.1 172.32.0.1 100.63.0.1 100.128.0.1 2001:db8::1 fd00::1".split(' ') {
            assert!(!is_of_many(text), "{text}");
        }
    }

    #[test]
    fn sites_of_one_24_or_48_are_one_network() {
        let network = |address| site(address).network();
        assert_eq!(network("192.0.2.1"), network("192.0.2.255"));
        assert_ne!(network("192.0.2.1"), network("192.0.3.1"));
        assert_eq!(network("2001:db8:1:2::1"), network("2001:db8:1:ffff::1"));
        assert_ne!(network("2001:db8:1::1"), network("2001:db8:2::1"));
    }
}
