//! Where a mobile node is, as its interfaces show it.

use std::net::Ipv4Addr;

use engine::selector::TrafficSelector;

use crate::config::MobileSetup;
use crate::interfaces::{Entry, entries};
use crate::routes::link_losses;

/// One interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    /// Up, and its link too.
    pub(super) is_running: bool,
    /// How often it has lost its link.
    pub(super) losses: Option<u32>,
    /// What is sent from its address of another network does not leave by it: there is no route, or
    /// the host prefers another interface.
    pub(super) is_dead: bool,
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
    /// It has no other address, and the home agent was heard there.
    Heard(usize),
    /// It has no address.
    Bare(usize),
}

impl Link {
    /// It has no address of a network, besides the home address.
    pub(super) fn has_no_address(self) -> bool {
        matches!(self, Self::HomeAddress(_) | Self::Heard(_) | Self::Bare(_))
    }
}

/// The interfaces of a mobile node, in its order.
pub(super) fn interfaces(names: &[String]) -> Vec<Interface> {
    let found = entries().unwrap_or_default();
    let one = |name: &String| {
        let own = found.iter().filter(|it| it.interface == *name);
        let addresses = own.clone().filter_map(Entry::v4);
        Interface {
            is_running: own.clone().any(Entry::is_running),
            losses: link_losses(name),
            is_dead: false,
            addresses: addresses.collect(),
        }
    };
    names.iter().map(one).collect()
}

impl Interface {
    /// Its address of another network than the home network.
    pub(super) fn foreign(&self, setup: &MobileSetup) -> Option<Ipv4Addr> {
        let mut others = others(self, setup);
        others.find(|it| !is_near(setup, *it))
    }
}

fn others(interface: &Interface, setup: &MobileSetup) -> impl Iterator<Item = Ipv4Addr> {
    let home = setup.config.home_address;
    let all = interface.addresses.iter().copied();
    all.filter(move |it| *it != home && !it.is_link_local())
}

/// Whether an address is of the home network.
fn is_near(setup: &MobileSetup, address: Ipv4Addr) -> bool {
    let network = TrafficSelector::subnet(setup.config.home_address.into(), setup.prefix);
    network.contains_address(address.into())
}

/// The best link: the first interface with an address, or on which the home agent was `heard`;
/// otherwise the first with an address that leads nowhere, whose route may still come; otherwise
/// the first that runs.
pub(super) fn best(setup: &MobileSetup, interfaces: &[Interface], heard: Option<usize>) -> Link {
    let home = setup.config.home_address;
    let running = interfaces
        .iter()
        .enumerate()
        .filter(|(_, it)| it.is_running);
    let (mut bare, mut dead) = (Link::None, None);
    for (number, interface) in running {
        match interface.foreign(setup) {
            Some(own) if interface.is_dead => {
                dead.get_or_insert(Link::Address(number, own));
                continue;
            }
            Some(own) => return Link::Address(number, own),
            None => {}
        }
        if others(interface, setup).any(|it| is_near(setup, it)) {
            return Link::AtHome(number);
        }
        if heard == Some(number) {
            return Link::Heard(number);
        }
        if interface.addresses.contains(&home) {
            return Link::HomeAddress(number);
        }
        if bare == Link::None {
            bare = Link::Bare(number);
        }
    }
    dead.unwrap_or(bare)
}

#[cfg(test)]
mod tests {
    use engine::mip4::association::{Algorithm, Association, Associations, ReplayProtection};
    use engine::mip4::mobile_node::Config;
    use engine::mip4::tunnel::UdpWish;
    use engine::sa::Encapsulation;

    use super::*;

    const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
    const AWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
    const NEAR: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 90);
    const AUTOMATIC: Ipv4Addr = Ipv4Addr::new(169, 254, 3, 9);

    fn setup(prefix: u8) -> MobileSetup {
        let replay = ReplayProtection::Timestamps;
        let one = Association::new(1_000, Algorithm::HmacMd5, replay, b"key").expect("a key");
        MobileSetup {
            config: Config {
                home_address: HOME,
                home_agent: Ipv4Addr::new(10, 18, 3, 1),
                nai: None,
                aaa: None,
                associations: Associations::new(vec![one]).expect("one"),
                foreign_agents: std::collections::BTreeMap::new(),
                lifetime: 300,
                encapsulation: Encapsulation::IpInIp,
                is_reverse: true,
                encapsulates_delivery: false,
                wants_broadcasts: false,
                is_simultaneous: false,
                udp: UdpWish::Never,
                firewall: None,
                hears_revocations: false,
                monitor: None,
            },
            interfaces: vec!["eth0".to_owned(), "wlan0".to_owned()],
            prefix,
            firewall: None,
            gateway: None,
        }
    }

    fn found(interfaces: &[(bool, &[Ipv4Addr])]) -> Link {
        let all = interfaces.iter().map(|(is_running, addresses)| Interface {
            is_running: *is_running,
            losses: Some(0),
            is_dead: false,
            addresses: addresses.to_vec(),
        });
        best(&setup(24), &all.collect::<Vec<_>>(), None)
    }

    #[test]
    fn an_interface_that_leads_nowhere_takes_no_node_off_another() {
        let one = |is_dead, addresses: &[Ipv4Addr]| Interface {
            is_running: true,
            losses: Some(0),
            is_dead,
            addresses: addresses.to_vec(),
        };
        let other = Ipv4Addr::new(198, 51, 100, 7);
        let found = |all: &[Interface]| best(&setup(24), all, None);
        let dead = one(true, &[AWAY]);
        let all = [dead.clone(), one(false, &[other])];
        assert_eq!(found(&all), Link::Address(1, other));
        assert_eq!(found(&[dead.clone(), one(false, &[NEAR])]), Link::AtHome(1));
        // Alone, its route may still come.
        let all = [one(false, &[]), dead.clone(), one(true, &[other])];
        assert_eq!(found(&all), Link::Address(1, AWAY));
    }

    #[test]
    fn a_preferred_interface_on_which_the_home_agent_is_heard_needs_no_address() {
        let one = |addresses: &[Ipv4Addr]| Interface {
            is_running: true,
            losses: Some(0),
            is_dead: false,
            addresses: addresses.to_vec(),
        };
        let found = |all: &[&[Ipv4Addr]], heard| {
            let all: Vec<Interface> = all.iter().map(|it| one(it)).collect();
            best(&setup(24), &all, heard)
        };
        assert_eq!(found(&[&[], &[AWAY]], Some(0)), Link::Heard(0));
        assert_eq!(found(&[&[HOME], &[AWAY]], Some(0)), Link::Heard(0));
        assert_eq!(found(&[&[AWAY], &[]], Some(1)), Link::Address(0, AWAY));
        assert_eq!(found(&[&[NEAR], &[AWAY]], Some(0)), Link::AtHome(0));
    }

    #[test]
    fn an_interface_without_a_link_is_good_for_nothing() {
        assert_eq!(found(&[(false, &[AWAY]), (false, &[])]), Link::None);
        assert_eq!(found(&[(false, &[HOME]), (true, &[])]), Link::Bare(1));
    }

    #[test]
    fn the_first_interface_with_an_address_is_used() {
        assert_eq!(
            found(&[(true, &[AWAY]), (true, &[HOME])]),
            Link::Address(0, AWAY)
        );
        assert_eq!(
            found(&[(true, &[]), (true, &[AWAY])]),
            Link::Address(1, AWAY)
        );
        assert_eq!(found(&[(true, &[]), (true, &[])]), Link::Bare(0));
        assert_eq!(found(&[(true, &[]), (true, &[HOME])]), Link::HomeAddress(1));
    }

    #[test]
    fn the_home_address_comes_with_us_and_says_less_than_another() {
        assert_eq!(found(&[(true, &[HOME])]), Link::HomeAddress(0));
        assert_eq!(found(&[(true, &[HOME, NEAR])]), Link::AtHome(0));
        assert_eq!(found(&[(true, &[HOME, AWAY])]), Link::Address(0, AWAY));
        assert_eq!(found(&[(true, &[NEAR, AWAY])]), Link::Address(0, AWAY));
        assert_eq!(
            found(&[(true, &[AUTOMATIC])]),
            Link::Bare(0),
            "no network gave it"
        );
    }

    #[test]
    fn a_home_network_of_one_address_has_no_neighbours() {
        let one = Interface {
            is_running: true,
            losses: Some(0),
            is_dead: false,
            addresses: vec![NEAR],
        };
        assert_eq!(best(&setup(32), &[one], None), Link::Address(0, NEAR));
    }
}
