//! SKIP in a world: the keys of stations and their firewalls, both made from the scenario's seed,
//! and what each end is told of the other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use crypto::dh::long_term::Group;
use engine::firewall::access::Origin;
use engine::firewall::endpoint::Endpoint;
use engine::firewall::{Config, LIFETIME, Mode, Template};
use engine::mip4::firewall::{HomeFirewall, Outside};
use engine::mip4::security::{self, Approach, Form, Security};
use engine::mip4::tunnel::UdpWish;
use engine::selector::TrafficSelector;
use engine::skip::{Association, MasterKey, Parts, Profile, Unfit};
use engine::time::Instant;
use wire::skip::{Name, Nsid};

use super::blueprint::Blueprint;
use crate::cost::SkipSuite;
use crate::kernel::host::Wall;
use crate::scenario::graph::crossing::{Crossing, Place, SkipSetup};
use crate::scenario::graph::setup::MobileSetup;
use crate::scenario::{Fault, Network, Role, Scenario};

/// The firewall of a node, by its index.
pub(super) fn wall(blueprint: &Blueprint, index: usize, mtu: u32) -> Wall {
    let name = &blueprint.nodes[index].name;
    let config = blueprint.wall_config(index).expect("checked before");
    let (seed, calendar) = (blueprint.secrets(name), blueprint.calendar);
    let endpoint = Endpoint::new(config, &seed, calendar, Instant(0)).expect("checked before");
    let mut wall = Wall::new(endpoint);
    if !blueprint.clamps_mss {
        wall.keep_mss();
    }
    wall.set_link_mtu(u16::try_from(mtu).unwrap_or(u16::MAX));
    wall
}

/// One end of an association.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Station,
    Firewall,
}

impl Blueprint {
    /// Checks that the firewalls take their lists.
    pub(super) fn check_skip(&self, scenario: &Scenario) -> Result<(), Fault> {
        for set in &self.setup.skip {
            let name = &self.nodes[set.station].name;
            let fault = |what: String| {
                let keys = ["policy", "from"].map(|key| format!("layer.{name}.{key}"));
                let keys = [&*keys[0], &*keys[1], "layer"];
                scenario.fault(&keys, what)
            };
            let config = self.wall_config(set.firewall);
            let config = config.map_err(|unfit| fault(unfit.to_string()))?;
            let made = engine::firewall::Firewall::new(config);
            made.map_err(|why| fault(why.to_string()))?;
        }
        let in_udp = self.setup.crossings.iter().find(|it| {
            let mut places = it.places.iter();
            let is_mobile = self.mobile_of(it.station).is_some();
            !is_mobile && places.any(|place| self.form(it, place) == Form::Udp)
        });
        match in_udp {
            None => Ok(()),
            Some(crossing) => {
                let name = &self.nodes[crossing.station].name;
                let key = format!("layer.{name}.udp");
                let what = "SKIP in UDP is for mobile nodes: give this station a layer mobile-ip";
                Err(scenario.fault(&[&key, "layer"], what))
            }
        }
    }

    fn mobile_of(&self, station: usize) -> Option<&MobileSetup> {
        let mut mobile = self.setup.mobile.iter();
        mobile.find(|it| it.layer.station == station)
    }

    fn crossing(&self, station: usize) -> Option<&Crossing> {
        let mut all = self.setup.crossings.iter();
        all.find(|it| it.station == station)
    }

    /// The access list of a firewall: one nomadic entry for each of its stations.
    fn wall_config(&self, index: usize) -> Result<Config, Unfit> {
        let mut config = Config {
            outside: v4(self.graph.outside(index).map(|port| port.address)),
            inside: v4(self.graph.inside(index)),
            home_agents: Vec::new(),
            entries: Vec::new(),
            lifetime: LIFETIME,
            mode: Mode::Binding,
            removes_header: false,
            takes_udp: false,
            end_to_end: Vec::new(),
        };
        for crossing in &self.setup.crossings {
            let chain = crossing.chain.iter().map(|at| &self.setup.skip[*at]);
            let mut after = chain.skip_while(|set| set.firewall != index);
            let Some(set) = after.next() else {
                continue;
            };
            let mobile = self.mobile_of(set.station);
            let inside = match (after.next(), mobile) {
                (Some(next), _) => vec![host(v4(self.outside_of(next)))],
                (None, None) => crossing.inside.iter().map(|it| subnet(*it)).collect(),
                (None, Some(mobile)) => {
                    if !config.home_agents.contains(&mobile.home_agent) {
                        config.home_agents.push(mobile.home_agent);
                    }
                    Vec::new()
                }
            };
            let mut places = crossing.places.iter();
            config.takes_udp |= places.any(|place| self.form(crossing, place) == Form::Udp);
            let template = Template {
                association: self.association(set, End::Firewall)?,
                inside,
                home_address: mobile.map(|it| it.home),
                stored_n: 0,
                heard_n: 0,
            };
            config.entries.push((Origin::Nomadic, template));
        }
        Ok(config)
    }

    fn outside_of(&self, set: &SkipSetup) -> Option<IpAddr> {
        self.graph.outside(set.firewall).map(|port| port.address)
    }

    /// The security layer of a station.
    pub(super) fn security(&self, station: usize) -> Security {
        let mut skip: Option<Box<security::Skip>> = None;
        let crossing = self.crossing(station);
        let chain = crossing.into_iter().flat_map(|it| it.chain.iter().rev());
        for set in chain.map(|at| &self.setup.skip[*at]) {
            let association = self.association(set, End::Station);
            skip = Some(Box::new(security::Skip {
                association: association.expect("checked before"),
                firewall: v4(self.outside_of(set)),
                form: Form::Raw,
                behind: skip.take(),
                others: Vec::new(),
                short_form: None,
                stored_n: 0,
                heard_n: 0,
            }));
        }
        skip.map_or(Security::None, Security::Skip)
    }

    /// The addresses that a station reaches through its firewalls.
    pub(super) fn inside(&self, station: usize) -> Vec<TrafficSelector> {
        let networks = self.crossing(station).map(|it| it.inside.as_slice());
        let networks = networks.unwrap_or_default().iter();
        networks.map(|network| subnet(*network)).collect()
    }

    /// How a station's packets get to its firewalls, by its address.
    pub(super) fn approaches(&self, station: usize) -> BTreeMap<Ipv4Addr, Approach> {
        let crossing = self.crossing(station).into_iter();
        let places = crossing.flat_map(|it| it.places.iter().map(move |place| (it, place)));
        let approaches = places.map(|(crossing, place)| {
            let form = Some(self.form(crossing, place));
            let passed = place.passed;
            (place.address, Approach { form, passed })
        });
        approaches.collect()
    }

    fn form(&self, crossing: &Crossing, place: &Place) -> Form {
        let first = crossing.chain.get(place.passed);
        let wish = first.map_or(UdpWish::Never, |at| self.setup.skip[*at].udp);
        match wish {
            _ if place.is_inside => Form::Raw,
            UdpWish::Always => Form::Udp,
            UdpWish::BehindNat if place.has_nat => Form::Udp,
            UdpWish::BehindNat | UdpWish::Never => Form::Raw,
        }
    }

    /// What a mobile node knows of its home's firewall.
    pub(super) fn firewall(&self, station: usize) -> Option<HomeFirewall> {
        let crossing = self.crossing(station)?;
        let last = &self.setup.skip[*crossing.chain.last()?];
        Some(HomeFirewall {
            address: v4(self.graph.inside(last.firewall)),
            inside: self.inside(station),
        })
    }

    /// What a home agent knows of care-of addresses outside, and the firewalls that it believes.
    pub(super) fn outsides(&self, agent: usize) -> (Vec<Outside>, BTreeSet<Ipv4Addr>) {
        let (mut outsides, mut firewalls) = (Vec::new(), BTreeSet::new());
        let of_agent = |it: &&MobileSetup| it.layer.agent == agent;
        for own in self.setup.mobile.iter().filter(of_agent) {
            let station = own.layer.station;
            let (Some(firewall), Some(crossing)) = (self.firewall(station), self.crossing(station))
            else {
                continue;
            };
            for place in crossing.places.iter().filter(|place| !place.is_inside) {
                outsides.push(Outside {
                    care_of: host(place.address),
                    firewall: firewall.address,
                });
            }
            firewalls.insert(firewall.address);
        }
        (outsides, firewalls)
    }

    /// The association of a station and its firewall, at one end.
    fn association(&self, set: &SkipSetup, end: End) -> Result<Association, Unfit> {
        let suite = set.protection.suite.skip();
        let suite: &SkipSuite = suite.expect("the scenario has checked it");
        let ends = [set.station, set.firewall];
        let mut names = [0, 1].map(|at| self.skip_name(ends[at], suite.names[at]));
        let mut shared = [0; 32];
        let station = &self.nodes[set.station].name;
        let mut stream = self.secrets(station).stream("skip", set.firewall as u64);
        stream.fill(&mut shared);
        let mut publics = ends.map(|node| {
            let mut public = [0; 32];
            let mut stream = self.secrets(&self.nodes[node].name).stream("public", 0);
            stream.fill(&mut public);
            public
        });
        if end == End::Firewall {
            names.reverse();
            publics.reverse();
        }
        Association::new(Parts {
            profile: suite.profile,
            algorithms: suite.algorithms,
            local: names[0],
            remote: names[1],
            iv_len: suite.iv_len,
            renewal: suite.renewal(),
            master: match suite.profile {
                Profile::X25519 => {
                    let publics = publics.each_ref().map(<[u8; 32]>::as_slice);
                    MasterKey::of_shared(Group::Curve25519, &shared, publics)
                }
                Profile::Draft | Profile::Paper => MasterKey::manual(&shared),
            },
        })
    }

    /// A node's name in a name space: its address at home or outside, or octets of its own.
    fn skip_name(&self, node: usize, space: Nsid) -> Name {
        if space == Nsid::Ipv4 {
            let home = self.mobile_of(node).map(|it| it.home);
            let is_wall = self.nodes[node].role == Role::Firewall;
            let outside = || self.graph.outside(node).map(|port| port.address);
            let own = || match is_wall {
                true => outside(),
                false => self.graph.address(node),
            };
            return Name::ipv4(home.unwrap_or_else(|| v4(own())));
        }
        let mut octets = [0; wire::skip::MAX_MKID_LEN];
        let mut stream = self.secrets(&self.nodes[node].name).stream("name", 0);
        stream.fill(&mut octets);
        Name::new(space, &octets[..space.mkid_len()]).unwrap_or(Name::NONE)
    }
}

/// The graph gives IPv4 to whatever has SKIP.
fn v4(address: Option<IpAddr>) -> Ipv4Addr {
    match address {
        Some(IpAddr::V4(address)) => address,
        _ => Ipv4Addr::UNSPECIFIED,
    }
}

fn host(address: Ipv4Addr) -> TrafficSelector {
    TrafficSelector::host(address.into())
}

fn subnet(network: Network) -> TrafficSelector {
    TrafficSelector::subnet(network.first, network.bits)
}

#[cfg(test)]
mod tests;
