//! Where a mobile node is, as its interfaces show it.

use std::net::Ipv4Addr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use crate::config::MobileSetup;

/// One interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    /// Up, and its link too.
    pub(super) is_running: bool,
    /// Its IPv4 addresses.
    pub(super) addresses: Vec<Ipv4Addr>,
}

/// What an interface is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Nothing.
    None,
    /// It has an address of the home network besides the home address.
    AtHome(usize),
    /// It has only the home address.
    HomeAddress(usize),
    /// It has this address of another network.
    Address(usize, Ipv4Addr),
    /// It has no address.
    Bare(usize),
}

/// The interfaces of a mobile node, in its order.
pub(super) fn interfaces(names: &[String]) -> Vec<Interface> {
    let found: Vec<_> = getifaddrs().into_iter().flatten().collect();
    let one = |name: &String| {
        let own = found.iter().filter(|it| it.interface_name == *name);
        let running = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
        let addresses = own.clone().filter_map(|it| {
            let address = it.address.as_ref()?.as_sockaddr_in()?;
            Some(address.ip())
        });
        Interface {
            is_running: own.clone().any(|it| it.flags.contains(running)),
            addresses: addresses.collect(),
        }
    };
    names.iter().map(one).collect()
}

/// The best link: the first interface with an address, otherwise the first that runs.
pub(super) fn best(setup: &MobileSetup, interfaces: &[Interface]) -> Link {
    let home = setup.config.home_address;
    let mask = u32::MAX << (32 - u32::from(setup.prefix));
    let is_near = |it: &Ipv4Addr| (it.to_bits() ^ home.to_bits()) & mask == 0;
    let running = interfaces
        .iter()
        .enumerate()
        .filter(|(_, it)| it.is_running);
    let mut bare = Link::None;
    for (number, interface) in running {
        let others = interface.addresses.iter();
        let mut others = others.filter(|it| **it != home && !it.is_link_local());
        if let Some(own) = others.clone().find(|it| !is_near(it)) {
            return Link::Address(number, *own);
        }
        if others.any(is_near) {
            return Link::AtHome(number);
        }
        if interface.addresses.contains(&home) {
            return Link::HomeAddress(number);
        }
        if bare == Link::None {
            bare = Link::Bare(number);
        }
    }
    bare
}
