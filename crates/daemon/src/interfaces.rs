//! The interfaces of this host and their addresses.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

/// One address of an interface, or an interface without one.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name of the interface.
    pub interface: String,
    /// Its state.
    pub flags: InterfaceFlags,
    /// Of IPv4 or IPv6.
    pub address: Option<IpAddr>,
    /// The mask of its network.
    pub mask: Option<IpAddr>,
}

/// All of them.
pub fn entries() -> nix::Result<Vec<Entry>> {
    let entry = |it: nix::ifaddrs::InterfaceAddress| Entry {
        interface: without_label(&it.interface_name).to_owned(),
        flags: it.flags,
        address: it.address.as_ref().and_then(ip),
        mask: it.netmask.as_ref().and_then(ip),
    };
    Ok(getifaddrs()?.map(entry).collect())
}

impl Entry {
    /// Whether its interface has a carrier: the kernel says so sooner than that it runs.
    pub fn has_carrier(&self) -> bool {
        self.flags
            .contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_LOWER_UP)
    }

    /// Whether its interface is up, and its link too.
    pub fn is_running(&self) -> bool {
        self.flags
            .contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING)
    }

    /// Its address of IPv4.
    pub fn v4(&self) -> Option<Ipv4Addr> {
        match self.address? {
            IpAddr::V4(own) => Some(own),
            IpAddr::V6(_) => None,
        }
    }

    /// Its address of IPv4, and the bits of its network's prefix.
    pub fn v4_network(&self) -> Option<(Ipv4Addr, u8)> {
        let IpAddr::V4(mask) = self.mask? else {
            return None;
        };
        Some((self.v4()?, mask.to_bits().count_ones() as u8))
    }
}

/// The addresses of links that are down or have no carrier: nothing comes there.
pub fn idle_addresses() -> BTreeSet<IpAddr> {
    idle_among(&entries().unwrap_or_default())
}

fn idle_among(all: &[Entry]) -> BTreeSet<IpAddr> {
    let of = |is_running: bool| {
        let fitting = all.iter().filter(move |it| it.is_running() == is_running);
        fitting.filter_map(|it| it.address)
    };
    let running: BTreeSet<IpAddr> = of(true).collect();
    of(false).filter(|it| !running.contains(it)).collect()
}

/// The C library names an address of IPv4 by its label, such as `eth0:backup`, if it has one. No
/// interface has a colon in its name.
fn without_label(name: &str) -> &str {
    name.split_once(':')
        .map_or(name, |(interface, _)| interface)
}

fn ip(it: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = it.as_sockaddr_in().map(|it| IpAddr::V4(it.ip()));
    v4.or_else(|| it.as_sockaddr_in6().map(|it| IpAddr::V6(it.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_that_of_its_interface_whatever_its_label() {
        assert_eq!(without_label("eth0:backup"), "eth0");
        assert_eq!(without_label("br-1.7"), "br-1.7");
        let all = entries().expect("interfaces");
        let own = all.iter().find(|it| it.v4() == Some(Ipv4Addr::LOCALHOST));
        let own = own.expect("the loopback address");
        assert_eq!(own.interface, "lo");
        assert_eq!(own.v4_network(), Some((Ipv4Addr::LOCALHOST, 8)));
    }

    #[test]
    fn an_address_is_idle_if_no_link_that_has_it_carries_anything() {
        let up = InterfaceFlags::IFF_UP;
        let entry = |interface: &str, flags, last| Entry {
            interface: interface.to_owned(),
            flags,
            address: Some(Ipv4Addr::new(192, 0, 2, last).into()),
            mask: None,
        };
        let all = [
            entry("eth0", up | InterfaceFlags::IFF_RUNNING, 1),
            entry("docker0", up, 2),
            entry("wlan0", InterfaceFlags::empty(), 3),
            entry("wlan1", up, 1),
        ];
        let idle = [2, 3].map(|last| IpAddr::from([192, 0, 2, last]));
        assert_eq!(idle_among(&all), idle.into());
    }
}
