//! The changes to the host that a configuration allows. A stranger may have taken over the process
//! that sends requests: it gets what its configuration names, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use engine::config::Connection;
use engine::dns::{MAX_DOMAINS, MAX_TRUST_ANCHORS, TrustAnchor, domain, is_within};
use engine::firewall::access::Origin;
use engine::ikev1::mode_config::MAX_RESOLVERS;
use engine::sa::Mode;
use engine::site::is_unicast;

use crate::blocks;
use crate::config::{Loaded, Mobility};
use crate::dns::Resolvers;
use crate::ether::Mac;
use crate::routes::full::Purpose;
use crate::routes::roaming::{ByAgent, Place, Roaming};
use crate::routes::{Desired, Prefix};

/// Inner addresses of one connection: one of each family.
const ADDRESSES_A_CONNECTION: usize = 2;

/// Why a request is refused: its first part that the configuration does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A route to a destination without a tunnel.
    #[error("no connection covers {0}")]
    Route(Prefix),
    /// A source that no packet can have.
    #[error("{1} is not an allowed source for {0}")]
    Source(Prefix, IpAddr),
    /// A block of an unknown connection, or of one that does not block.
    #[error("{0} does not block {1}")]
    Block(String, Prefix),
    /// A block that would end with its process although it must not.
    #[error("the block of {0} must not end with the process")]
    Passing(String),
    /// A rule that no full tunnel has.
    #[error("no full tunnel has the rule {0:?}")]
    Rule(Purpose),
    /// An inner address that no connection requests.
    #[error("no connection asks for an inner address such as {0}")]
    Address(IpAddr),
    /// More of something than the connections can have.
    #[error("{count} {what} are more than the {most} of these connections")]
    TooMany {
        /// The kind of entries.
        what: &'static str,
        /// The requested number.
        count: usize,
        /// The limit.
        most: usize,
    },
    /// Resolvers although none are allowed.
    #[error("resolvers stay as they are: dns = false, or no connection has an inner address")]
    Resolvers,
    /// A home address or link that Mobile IPv4 does not have here.
    #[error("the part in Mobile IPv4 of this file has no {0}")]
    Roaming(&'static str),
    /// An address that cannot be a resolver.
    #[error("{0} cannot be a resolver")]
    Resolver(IpAddr),
    /// A name that cannot be a domain.
    #[error("{0:?} is no domain")]
    Domain(String),
    /// Longer than a lease can make the list.
    #[error("{0} domains are more than {MAX_DOMAINS}")]
    Domains(usize),
    /// No DS record, or one of a domain for which no connection takes keys.
    #[error("no connection takes the key {0:?}")]
    TrustAnchor(String),
}

/// The destinations of one connection.
#[derive(Debug)]
struct Reach {
    prefixes: BTreeSet<Prefix>,
    /// Peers have addresses that no configuration can name.
    has_strangers: bool,
    blocks: bool,
    /// It takes all of an address family, or may do so: its list may leave out a gateway that is
    /// known only by name here.
    is_full: bool,
    wants_v4: bool,
    wants_v6: bool,
}

/// What a configuration allows.
#[derive(Debug)]
pub struct Allowed {
    connections: BTreeMap<String, Reach>,
    mobility: Option<Mobility>,
    dns: bool,
    /// Domains for which connections take keys of DNSSEC.
    dnssec_domains: Vec<String>,
}

impl Allowed {
    /// From a configuration, without resolving names.
    pub fn new(loaded: &Loaded) -> Self {
        let all = loaded.engine.connections.iter();
        let named = all.clone().map(|connection| {
            let reach = Reach {
                prefixes: blocks::reach(connection, &loaded.engine),
                has_strangers: has_strangers(connection),
                blocks: loaded.is_blocking(&connection.name),
                is_full: loaded.full_tunnels.contains_key(&connection.name) || is_named(connection),
                wants_v4: connection.wants_inner.v4,
                wants_v6: connection.wants_inner.v6,
            };
            (connection.name.clone(), reach)
        });
        Self {
            connections: named.collect(),
            mobility: loaded.mobility.clone(),
            dns: loaded.daemon.dns,
            dnssec_domains: all.flat_map(|it| it.dnssec_domains.clone()).collect(),
        }
    }

    /// The interface of a foreign agent's visitors.
    pub fn visited(&self) -> Option<&str> {
        match &self.mobility {
            Some(Mobility::ForeignAgent(agent)) => Some(&agent.interface),
            _ => None,
        }
    }

    /// Checks a desired state against the configuration. `local`: what no visitor of a foreign
    /// agent may have ([`crate::routes::roaming::local`]).
    pub fn check(
        &self,
        desired: &Desired,
        resolvers: &Resolvers,
        local: &BTreeSet<Prefix>,
    ) -> Result<(), Refusal> {
        self.check_addresses(&desired.addresses)?;
        for (prefix, source) in &desired.routes {
            let is_covered = self.connections.values().any(|reach| reach.has(prefix));
            if !is_covered && !self.is_mobile(prefix, *source) {
                return Err(Refusal::Route(*prefix));
            }
            if let Some(source) = source
                && (source.is_ipv4() != prefix.address.is_ipv4() || source.is_unspecified())
            {
                return Err(Refusal::Source(*prefix, *source));
            }
        }
        for (name, prefixes) in &desired.blocks {
            let reach = self.connections.get(name);
            let is_strange = |prefix: &&Prefix| !reach.is_some_and(|reach| reach.refuses(prefix));
            if let Some(prefix) = prefixes.iter().find(is_strange) {
                return Err(Refusal::Block(name.clone(), *prefix));
            }
        }
        self.check_full(desired, &resolvers.addresses)?;
        self.check_roaming(&desired.roaming)?;
        self.check_visitors(&desired.roaming, local)?;
        self.check_resolvers(&resolvers.addresses)?;
        check_domains(&resolvers.domains)?;
        self.check_anchors(&resolvers.trust_anchors)
    }

    /// The address that the part in Mobile IPv4 has on the tunnel device.
    fn own(&self) -> Option<Ipv4Addr> {
        match &self.mobility {
            Some(Mobility::MobileNode(node)) => Some(node.config.home_address),
            Some(Mobility::ForeignAgent(agent)) => Some(agent.config.address),
            Some(Mobility::HomeAgent(agent)) => Some(agent.config.address),
            Some(Mobility::Firewall(firewall)) => Some(firewall.config.inside),
            None => None,
        }
    }

    /// The address of a mobile node that a home agent outside keeps.
    fn outside(&self) -> Option<Ipv4Addr> {
        match &self.mobility {
            Some(Mobility::MobileNode(node)) => node.outside().map(|it| it.home_address),
            _ => None,
        }
    }

    /// Whether Mobile IPv4 may lead this into the tunnel: a home agent the home addresses of its
    /// nodes, a mobile node everything from its own, or at first what goes to its home agent.
    fn is_mobile(&self, prefix: &Prefix, source: Option<IpAddr>) -> bool {
        match &self.mobility {
            Some(Mobility::HomeAgent(agent)) => {
                let mut homes = agent.config.clients.iter().map(|it| it.home_address);
                source.is_none() && homes.any(|home| Prefix::host(home.into()) == *prefix)
            }
            Some(Mobility::MobileNode(node)) => {
                let home = node.config.home_address;
                let outside = node.outside().map(|it| it.home_address.into());
                let gateways = node.gateway.iter().flat_map(|it| &it.addresses);
                let mut gateways = gateways.map(|it| Prefix::host((*it).into()));
                let is_outside = outside.is_some() && source == outside;
                let agent = outside.map(|_| Prefix::host(node.config.home_agent.into()));
                let from_home = [Some(Prefix::everything(false)), agent];
                from_home.contains(&Some(*prefix)) && source == Some(home.into())
                    || is_outside && gateways.any(|it| it == *prefix)
            }
            Some(Mobility::Firewall(firewall)) => {
                source.is_none() && leads_through(&firewall.config, prefix)
            }
            Some(Mobility::ForeignAgent(_)) | None => false,
        }
    }

    /// Checks what Mobile IPv4 wants on links.
    fn check_roaming(&self, roaming: &Roaming) -> Result<(), Refusal> {
        let is_host = |address: Ipv4Addr| is_unicast(&address.into());
        if let Some(place) = &roaming.place {
            let Some(Mobility::MobileNode(node)) = &self.mobility else {
                return Err(Refusal::Roaming("home address"));
            };
            let (interface, care_of, router) = match place {
                Place::Home { interface } => (Some(interface), None, None),
                Place::Away {
                    care_of, router, ..
                } => {
                    let interface = router.as_ref().map(|it| &it.interface);
                    (interface, *care_of, router.as_ref())
                }
            };
            if interface.is_some_and(|it| !node.interfaces.contains(it)) {
                return Err(Refusal::Roaming("such interface"));
            }
            let is_good = router.is_none_or(|it| is_host(it.address) && is_station(&it.mac));
            if !is_good || care_of.is_some_and(|it| !is_host(it)) {
                return Err(Refusal::Roaming("such router"));
            }
        }
        if let Some(it) = &roaming.by_agent
            && !self.is_by_agent(it)
        {
            return Err(Refusal::Roaming("such agent outside"));
        }
        let has_firewall = |part: &Mobility| match part {
            Mobility::MobileNode(node) => node.has_outside(),
            _ => false,
        };
        if roaming.is_outside && !self.mobility.as_ref().is_some_and(has_firewall) {
            return Err(Refusal::Roaming("firewall"));
        }
        let is_agent = |it: &Ipv4Addr| match &self.mobility {
            Some(Mobility::Firewall(firewall)) => firewall.config.home_agents.contains(it),
            _ => false,
        };
        if !roaming.returned.iter().all(is_agent) {
            return Err(Refusal::Roaming("home agent behind us"));
        }
        Ok(())
    }

    /// Whether a mobile node's IPsec may leave through this foreign agent.
    fn is_by_agent(&self, it: &ByAgent) -> bool {
        let Some(Mobility::MobileNode(node)) = &self.mobility else {
            return false;
        };
        let own = node.outside().map(|it| it.home_address);
        let known: Vec<_> = node.gateway.iter().flat_map(|it| &it.addresses).collect();
        own == Some(it.own)
            && it.gateways.iter().all(|gateway| known.contains(&gateway))
            && node.interfaces.contains(&it.interface)
            && is_unicast(&it.address.into())
            && is_station(&it.mac)
    }

    /// Checks whose packets go to the link of a foreign agent.
    fn check_visitors(&self, roaming: &Roaming, local: &BTreeSet<Prefix>) -> Result<(), Refusal> {
        if roaming.visitors.is_empty() {
            return Ok(());
        }
        let Some(Mobility::ForeignAgent(agent)) = &self.mobility else {
            return Err(Refusal::Roaming("visitors"));
        };
        let config = &agent.config;
        let own = [config.address, config.care_of];
        let is_local = |home: &Ipv4Addr| {
            let host = Prefix::host((*home).into());
            own.contains(home) || local.iter().any(|it| it.contains(&host))
        };
        let mut all = roaming.visitors.iter();
        let is_good = all.all(|(home, it)| {
            is_unicast(&(*home).into()) && !is_local(home) && is_station(&it.mac)
        });
        match is_good && roaming.visitors.len() <= config.max_visitors {
            true => Ok(()),
            false => Err(Refusal::Roaming("such visitors")),
        }
    }

    /// Checks the effect of full tunnels on the host's other traffic.
    fn check_full(&self, desired: &Desired, resolvers: &[IpAddr]) -> Result<(), Refusal> {
        let passes = |name: &&String| self.connections.get(*name).is_none_or(|it| it.blocks);
        if let Some(name) = desired.passing.iter().find(passes) {
            return Err(Refusal::Passing(name.clone()));
        }
        let taken = desired.taken();
        let has_full = self.connections.values().any(|reach| reach.is_full);
        let is_strange = |(is_ipv6, purpose): &&(bool, Purpose)| {
            let is_resolver = |prefix: &Prefix| {
                let mut hosts = resolvers.iter().map(|address| Prefix::host(*address));
                hosts.any(|host| host == *prefix)
            };
            let is_kept = match purpose {
                Purpose::Kept(prefix) => taken.contains(prefix) || is_resolver(prefix),
                Purpose::Secured(prefix) => is_resolver(prefix),
                _ => true,
            };
            !(has_full && is_kept && purpose.is_ours(*is_ipv6))
        };
        match desired.rules.iter().find(is_strange) {
            Some((_, purpose)) => Err(Refusal::Rule(purpose.clone())),
            None => Ok(()),
        }
    }

    fn check_addresses(&self, addresses: &BTreeSet<IpAddr>) -> Result<(), Refusal> {
        for address in addresses {
            let is_wanted = |reach: &Reach| match address {
                IpAddr::V4(_) => reach.wants_v4,
                IpAddr::V6(_) => reach.wants_v6,
            };
            let mut own = self.own().into_iter().chain(self.outside());
            if own.any(|own| IpAddr::V4(own) == *address) {
                continue;
            }
            if !is_unicast(address) || !self.connections.values().any(is_wanted) {
                return Err(Refusal::Address(*address));
            }
        }
        let own = usize::from(self.own().is_some()) + usize::from(self.outside().is_some());
        let others = addresses.len().saturating_sub(own);
        self.bounded("inner addresses", others, ADDRESSES_A_CONNECTION)
    }

    fn check_resolvers(&self, resolvers: &[IpAddr]) -> Result<(), Refusal> {
        let mut connections = self.connections.values();
        let is_lent = connections.any(|reach| reach.wants_v4 || reach.wants_v6);
        let may_have = self.dns && is_lent;
        if !may_have && !resolvers.is_empty() {
            return Err(Refusal::Resolvers);
        }
        if let Some(strange) = resolvers.iter().find(|address| !is_unicast(address)) {
            return Err(Refusal::Resolver(*strange));
        }
        self.bounded("resolvers", resolvers.len(), MAX_RESOLVERS)
    }

    /// They become lines of a file that other programs read.
    fn check_anchors(&self, records: &[String]) -> Result<(), Refusal> {
        let is_taken = |record: &String| {
            let anchor = record.parse::<TrustAnchor>();
            anchor.is_ok_and(|it| {
                it.to_string() == *record && is_within(&it.domain, &self.dnssec_domains)
            })
        };
        if let Some(strange) = records.iter().find(|it| !is_taken(it)) {
            return Err(Refusal::TrustAnchor(strange.clone()));
        }
        self.bounded("keys of DNSSEC", records.len(), MAX_TRUST_ANCHORS)
    }

    fn bounded(&self, what: &'static str, count: usize, each: usize) -> Result<(), Refusal> {
        let most = each * self.connections.len();
        match count <= most {
            true => Ok(()),
            false => Err(Refusal::TooMany { what, count, most }),
        }
    }
}

/// Domains become arguments of another program.
fn check_domains(domains: &[String]) -> Result<(), Refusal> {
    let is_strange = |it: &&String| domain(it).as_ref() != Some(*it);
    if let Some(strange) = domains.iter().find(is_strange) {
        return Err(Refusal::Domain(strange.clone()));
    }
    match domains.len() {
        count if count > MAX_DOMAINS => Err(Refusal::Domains(count)),
        _ => Ok(()),
    }
}

impl Reach {
    fn has(&self, prefix: &Prefix) -> bool {
        let is_peer = prefix.is_host() && is_unicast(&prefix.address);
        self.prefixes.contains(prefix) || self.has_strangers && is_peer
    }

    /// Whether a full tunnel refuses this prefix: it covers the whole family that the tunnel does
    /// not take.
    fn refuses(&self, prefix: &Prefix) -> bool {
        let is_family = [false, true].map(Prefix::everything).contains(prefix);
        self.blocks && self.has(prefix) || self.is_full && is_family
    }
}

/// Whether it is the address of one network interface, not of a group.
fn is_station(mac: &Mac) -> bool {
    mac[0] & 1 == 0
}

/// Whether a firewall leads packets for this prefix into the tunnel: those of an entry, or of a
/// mobile node that networks inside reach. That one may be anywhere.
fn leads_through(config: &engine::firewall::Config, prefix: &Prefix) -> bool {
    let own = [config.outside, config.inside];
    config
        .entries
        .iter()
        .any(|(origin, template)| match *origin {
            Origin::Host(address) => *prefix == Prefix::host(address.into()),
            Origin::Network(first, bits) => {
                (prefix.address, prefix.length) == (IpAddr::V4(first), bits)
            }
            Origin::Nomadic => {
                let host = match prefix.address {
                    IpAddr::V4(host) if prefix.is_host() => host,
                    _ => return false,
                };
                !template.inside.is_empty() && is_unicast(&host.into()) && !own.contains(&host)
            }
        })
}

/// A gateway with peers without a pool address, or a client whose gateway is known by name.
fn has_strangers(connection: &Connection) -> bool {
    let mut children = connection.children.iter();
    let is_bare = children.any(|child| child.mode == Mode::Transport);
    connection.has_bare_peers() || is_bare && is_named(connection)
}

/// A client whose gateway is known only by name here.
fn is_named(connection: &Connection) -> bool {
    let mut remote = connection.remote_addrs.iter();
    remote.any(|to| to.ip().is_unspecified())
}
