//! What Mobile IPv4 changes on the host besides routes into the tunnel: where a mobile node's home
//! address is, its router on a visited link, and the visitors of a foreign agent.
//!
//! A visitor may be anybody who names any home address. So only what comes out of the TUN device,
//! from its home agent, goes to it: for all other packets its address is where it always was.
//!
//! A home address is removed from an interface when its node leaves home, and put back when it
//! comes home. It is always on the TUN device, so that connections of programs survive. What the
//! footprint notes is undone; a home address at home stays.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::entries::{LinkRoute, Neighbour, Part, RoamingFootprint};
use super::full::Purpose;
use super::netlink::Netlink;
use super::{Prefix, RouteError};
use crate::ether::Mac;
use crate::footprint::FootprintFile;
use crate::interfaces::{Entry, entries};

/// Routes of host and router on a link: better than those into the tunnel.
const LINK_METRIC: u32 = 50;

/// What Mobile IPv4 wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roaming {
    /// Where the mobile node is.
    pub place: Option<Place>,
    /// How its IPsec leaves, if it is reached outside through a foreign agent.
    #[serde(default)]
    pub by_agent: Option<ByAgent>,
    /// It is outside of its firewall: its links are filtered.
    #[serde(default)]
    pub is_outside: bool,
    /// Its interfaces that are there, by index: a new one makes this another state, and what holds
    /// for each is set for it too.
    #[serde(default)]
    pub links: BTreeSet<u32>,
    /// Visitors of the foreign agent, by home address.
    pub visitors: BTreeMap<Ipv4Addr, Visitor>,
    /// Home agents of a firewall: packets from and to them that come out of the TUN device go into
    /// it again.
    #[serde(default)]
    pub returned: BTreeSet<Ipv4Addr>,
}

/// Where a mobile node is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Place {
    /// At home: its home address is on this interface.
    Home {
        /// Its name.
        interface: String,
    },
    /// Away: no interface has the home address, unless somebody else has put it on a link that
    /// may be home.
    Away {
        /// Nothing tells yet that this is another link than home: with the home address, the routes
        /// that DHCP has set would go.
        may_be_home: bool,
        /// An interface has it: this is another state than without, so that it is looked after.
        is_given: bool,
        /// Programs that use this address, the care-of address, bypass the tunnel.
        care_of: Option<Ipv4Addr>,
        /// The foreign agent.
        router: Option<Router>,
        /// Otherwise packets of the home address are refused: nobody would answer, and they would
        /// tell a stranger's network who is there.
        is_registered: bool,
    },
}

/// A foreign agent on the link of a mobile node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// Interface of the link.
    pub interface: String,
    /// Its address there.
    pub address: Ipv4Addr,
    /// Its link-layer address: a visitor asks for none by ARP (RFC 5944 §4.6).
    pub mac: Mac,
    /// Everything from the home address goes there.
    pub is_default: bool,
}

/// A foreign agent that takes a mobile node's IPsec, from the address that a home agent outside
/// keeps (mode fvc of RFC 5265).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByAgent {
    /// That address.
    pub own: Ipv4Addr,
    /// Where the IPsec goes.
    pub gateways: BTreeSet<Ipv4Addr>,
    /// Interface of the link.
    pub interface: String,
    /// The agent's address there.
    pub address: Ipv4Addr,
    /// Its link-layer address.
    pub mac: Mac,
}

/// A visitor of the foreign agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visitor {
    /// Its link-layer address.
    pub mac: Mac,
    /// What comes from it on the link goes into the tunnel. What it encapsulates to us does
    /// without this.
    pub is_led_into_tunnel: bool,
}

/// The addresses of this host, and the networks of this interface: no visitor has one of them.
pub fn local(interface: &str) -> BTreeSet<Prefix> {
    let mut all = BTreeSet::new();
    for it in entries().unwrap_or_default() {
        all.extend(it.v4().map(|own| Prefix::host(own.into())));
        let network = it.v4_network().filter(|_| it.interface == interface);
        all.extend(network.map(|(own, length)| Prefix::around(own.into(), length)));
    }
    all
}

/// The addresses of this host, and on each of its links those of the network and of all its hosts.
pub fn reserved() -> BTreeSet<Ipv4Addr> {
    let mut all = BTreeSet::new();
    for it in entries().unwrap_or_default() {
        all.extend(it.v4());
        // RFC 3021: a network of two addresses has two hosts.
        if let Some((own, length)) = it.v4_network().filter(|(_, length)| *length < 31) {
            let hosts = u32::MAX >> length;
            let ends = [own.to_bits() & !hosts, own.to_bits() | hosts];
            all.extend(ends.map(Ipv4Addr::from_bits));
        }
    }
    all
}

/// The visitors' link; empty: there is none.
pub(super) fn visited(part: &Part) -> &str {
    match (part.home, part.interfaces.first()) {
        (None, Some(name)) => name,
        _ => "",
    }
}

impl Roaming {
    /// Rules of IPv4 that this state needs, besides those of routes into the tunnel. `tun` is the
    /// TUN device, `visited` the visitors' link.
    pub(super) fn rules(
        &self,
        home: Option<Ipv4Addr>,
        (tun, visited): (&str, &str),
    ) -> BTreeSet<Purpose> {
        let mut all = BTreeSet::new();
        if let Some(Place::Away {
            care_of,
            router,
            is_registered,
            ..
        }) = &self.place
        {
            all.extend(care_of.map(Purpose::CareOf));
            all.extend(home.filter(|_| !is_registered).map(Purpose::Unregistered));
            if let Some(router) = router {
                all.insert(Purpose::Kept(Prefix::host(router.address.into())));
                all.extend(router.is_default.then_some(Purpose::Mobile));
            }
        }
        if let Some(it) = &self.by_agent {
            let gateways = it.gateways.iter();
            all.extend(gateways.map(|gateway| Purpose::ByAgent {
                own: it.own,
                gateway: *gateway,
            }));
        }
        if !self.visitors.is_empty() {
            all.insert(Purpose::Arrived {
                link: tun.to_owned(),
            });
        }
        let reverse = self
            .visitors
            .iter()
            .filter(|(_, one)| one.is_led_into_tunnel);
        all.extend(reverse.map(|(home, _)| Purpose::Visitor {
            home: *home,
            link: visited.to_owned(),
        }));
        let both = [true, false].into_iter();
        all.extend(both.flat_map(|is_source| {
            let agents = self.returned.iter();
            agents.map(move |agent| Purpose::Returned {
                agent: *agent,
                is_source,
                link: tun.to_owned(),
            })
        }));
        all
    }

    /// Whether rules lead to the next table, and that into the tunnel.
    pub fn needs_next_table(&self) -> bool {
        self.visitors.values().any(|one| one.is_led_into_tunnel) || !self.returned.is_empty()
    }

    fn neighbours(&self, part: &Part) -> Result<BTreeSet<Neighbour>, RouteError> {
        let mut all = self.hosts(part)?;
        if let Some(it) = &self.by_agent {
            all.insert(Neighbour {
                link: link_index(&it.interface)?,
                address: it.address,
                mac: it.mac,
            });
        }
        Ok(all)
    }

    /// Hosts that are reached on a link. A foreign agent outside is none: it takes the address that
    /// it likes.
    fn hosts(&self, part: &Part) -> Result<BTreeSet<Neighbour>, RouteError> {
        let mut all = BTreeSet::new();
        if let Some(Place::Away {
            router: Some(it), ..
        }) = &self.place
        {
            all.insert(Neighbour {
                link: link_index(&it.interface)?,
                address: it.address,
                mac: it.mac,
            });
        }
        if self.visitors.is_empty() {
            return Ok(all);
        }
        let link = link_index(visited(part))?;
        all.extend(self.visitors.iter().map(|(home, visitor)| Neighbour {
            link,
            address: *home,
            mac: visitor.mac,
        }));
        Ok(all)
    }

    fn routes(&self, part: &Part, table: u32) -> Result<BTreeSet<LinkRoute>, RouteError> {
        let on_link = |one: &Neighbour| LinkRoute {
            table,
            to: Prefix::host(one.address.into()),
            link: one.link,
            by: None,
            source: part.home.map(|(home, _)| home),
        };
        let mut all: BTreeSet<_> = self.hosts(part)?.iter().map(on_link).collect();
        if let Some(Place::Away {
            router: Some(it), ..
        }) = &self.place
            && it.is_default
        {
            all.insert(LinkRoute {
                table,
                to: Prefix::everything(false),
                link: link_index(&it.interface)?,
                by: Some(it.address),
                source: part.home.map(|(home, _)| home),
            });
        }
        if let Some(it) = &self.by_agent {
            let link = link_index(&it.interface)?;
            all.extend(it.gateways.iter().map(|gateway| LinkRoute {
                table,
                to: Prefix::host((*gateway).into()),
                link,
                by: Some(it.address),
                source: Some(it.own),
            }));
        }
        Ok(all)
    }
}

/// Brings what Mobile IPv4 needs on links into this state. Notes it first.
pub(super) async fn apply(
    netlink: &Netlink,
    wanted: &Roaming,
    (part, table, tun): (&Part, u32, u32),
    file: &mut FootprintFile,
) -> Result<(), RouteError> {
    let neighbours = wanted.neighbours(part)?;
    let routes = wanted.routes(part, table)?;
    let before = file.footprint.roaming.clone();
    file.update(|footprint| {
        footprint.roaming.neighbours.extend(&neighbours);
        footprint.roaming.routes.extend(&routes);
    })
    .map_err(RouteError::Footprint)?;
    quieten(part, file)?;
    if let Some(place) = &wanted.place {
        place_home(netlink, place, part).await?;
        lead_broadcasts(netlink, place, part, tun).await?;
    }
    for one in &neighbours {
        netlink.add_neighbour(one).await?;
    }
    for one in &routes {
        netlink.add_link_route(one, LINK_METRIC).await?;
    }
    for one in before.routes.difference(&routes) {
        netlink.remove_link_route(one, LINK_METRIC).await?;
    }
    for one in before.neighbours.difference(&neighbours) {
        let is_there = |it: &Neighbour| (it.link, it.address) == (one.link, one.address);
        if !neighbours.iter().any(is_there) {
            netlink.remove_neighbour(one).await?;
        }
    }
    file.update(|footprint| {
        footprint.roaming.neighbours = neighbours;
        footprint.roaming.routes = routes;
    })
    .map_err(RouteError::Footprint)
}

/// Undoes what the footprint notes.
pub(super) async fn undo(netlink: &Netlink, file: &mut FootprintFile) -> Result<(), RouteError> {
    let roaming = file.footprint.roaming.clone();
    for one in &roaming.routes {
        netlink.remove_link_route(one, LINK_METRIC).await?;
    }
    for one in &roaming.neighbours {
        netlink.remove_neighbour(one).await?;
    }
    for (name, former) in &roaming.arp_ignore {
        // An interface that is gone took its setting with it.
        let _ = std::fs::write(arp_ignore(name), former.to_string());
    }
    file.update(|footprint| footprint.roaming = RoamingFootprint::default())
        .map_err(RouteError::Footprint)
}

/// Without it Linux answers ARP for the addresses of all interfaces, such as the TUN device.
fn quieten(part: &Part, file: &mut FootprintFile) -> Result<(), RouteError> {
    for name in &part.quiet {
        let path = arp_ignore(name);
        let former = std::fs::read_to_string(&path).ok();
        let former = former.and_then(|text| text.trim().parse::<u8>().ok());
        if let Some(former @ 0) = former {
            file.update(|footprint| {
                let all = &mut footprint.roaming.arp_ignore;
                all.entry(name.clone()).or_insert(former);
            })
            .map_err(RouteError::Footprint)?;
            let written = std::fs::write(&path, "1");
            written.map_err(|why| RouteError::Netlink {
                what: format!("set {path}"),
                why,
            })?;
        }
    }
    Ok(())
}

/// Moves the home address between the interfaces.
async fn place_home(netlink: &Netlink, place: &Place, part: &Part) -> Result<(), RouteError> {
    let Some((home, prefix)) = part.home else {
        return Ok(());
    };
    let (own, may_be_home) = match place {
        Place::Home { interface } => (Some(interface), false),
        Place::Away { may_be_home, .. } => (None, *may_be_home),
    };
    for (it, length) in with_address(home) {
        let is_ours = part.interfaces.contains(&it.interface);
        // Without a link, it is from before.
        let stays = may_be_home && it.has_carrier();
        if is_ours && own != Some(&it.interface) && !stays {
            let link = link_index(&it.interface)?;
            netlink.remove_link_address(link, home, length).await?;
        }
    }
    match own {
        Some(name) => {
            let link = link_index(name)?;
            netlink.add_link_address(link, home, prefix).await
        }
        None => Ok(()),
    }
}

/// Abroad, broadcasts to the home network come out of the TUN device. At home they are the link's.
async fn lead_broadcasts(
    netlink: &Netlink,
    place: &Place,
    part: &Part,
    tun: u32,
) -> Result<(), RouteError> {
    let home = part.home.filter(|_| part.hears_broadcasts);
    let Some((home, prefix @ 1..=30)) = home else {
        return Ok(());
    };
    let last = Ipv4Addr::from_bits(home.to_bits() | u32::MAX >> prefix);
    match place {
        Place::Away { .. } => netlink.add_broadcast(tun, last).await,
        Place::Home { .. } => netlink.remove_broadcast(tun, last).await,
    }
}

/// The interfaces with this address, and the length of its prefix there.
fn with_address(address: Ipv4Addr) -> Vec<(Entry, u8)> {
    let all = entries().unwrap_or_default().into_iter();
    let found = all.filter_map(|it| {
        let (own, length) = it.v4_network()?;
        (own == address).then_some((it, length))
    });
    found.collect()
}

fn arp_ignore(name: &str) -> String {
    format!("/proc/sys/net/ipv4/conf/{name}/arp_ignore")
}

fn link_index(name: &str) -> Result<u32, RouteError> {
    nix::net::if_::if_nametoindex(name).map_err(|errno| RouteError::Netlink {
        what: format!("find the interface {name}"),
        why: errno.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TUN: &str = "caravan0";
    const LINK: &str = "eth1";

    /// A stranger names any address: this host's own packets to it, and those of its clients, go
    /// where they always went.
    #[test]
    fn only_what_comes_out_of_a_tunnel_goes_to_a_visitor() {
        let home = Ipv4Addr::new(10, 18, 3, 17);
        for is_led_into_tunnel in [false, true] {
            let one = Visitor {
                mac: [2, 0, 0, 0, 0, 1],
                is_led_into_tunnel,
            };
            let reverse = is_led_into_tunnel.then(|| LINK.to_owned());
            let roaming = Roaming {
                visitors: [(home, one)].into(),
                ..Roaming::default()
            };
            let link = TUN.to_owned();
            let expected = [Purpose::Arrived { link }]
                .into_iter()
                .chain(reverse.map(|link| Purpose::Visitor { home, link }));
            assert_eq!(roaming.rules(None, (TUN, LINK)), expected.collect());
        }
    }

    #[test]
    fn every_address_of_this_host_is_local_and_the_network_of_the_link() {
        let all = local("lo");
        let [own, network] = ["127.0.0.1/32", "127.0.0.0/8"].map(|it| it.parse().unwrap());
        assert!(all.contains(&own) && all.contains(&network), "{all:?}");
        let ends = ["127.0.0.0", "127.0.0.1", "127.255.255.255"];
        let ends: Vec<Ipv4Addr> = ends.map(|it| it.parse().unwrap()).into();
        let reserved = reserved();
        assert!(ends.iter().all(|it| reserved.contains(it)), "{reserved:?}");
        assert!(!reserved.contains(&Ipv4Addr::new(127, 0, 0, 2)));
        let other = local("none");
        assert!(
            other.contains(&own) && !other.contains(&network),
            "{other:?}"
        );
    }

    /// No route of the host's own leads from a link without an address.
    #[test]
    fn ipsec_of_the_outer_address_goes_to_a_foreign_agent() {
        let (own, gateway) = ([198, 51, 100, 66].into(), [203, 0, 113, 1].into());
        let roaming = Roaming {
            by_agent: Some(ByAgent {
                own,
                gateways: [gateway].into(),
                interface: "lo".to_owned(),
                address: [192, 0, 2, 1].into(),
                mac: [2, 0, 0, 0, 0, 1],
            }),
            ..Roaming::default()
        };
        let home = Some(Ipv4Addr::new(10, 18, 3, 17));
        let rules = roaming.rules(home, (TUN, LINK));
        assert_eq!(rules, [Purpose::ByAgent { own, gateway }].into());
        let part = Part {
            home: home.map(|it| (it, 24)),
            hears_broadcasts: false,
            interfaces: vec!["lo".to_owned()],
            quiet: Vec::new(),
        };
        let routes = roaming.routes(&part, 221).expect("lo is everywhere");
        let mut routes = routes.iter();
        let one = routes.next().expect("a route to the gateway");
        assert_eq!(
            (one.to, one.by, one.source),
            (
                Prefix::host(gateway.into()),
                Some([192, 0, 2, 1].into()),
                Some(own)
            )
        );
        assert_eq!(routes.next(), None);
    }
}
