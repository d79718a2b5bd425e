//! The part of a process in Mobile IPv4: from the tables of its file to the configuration of a
//! machine.

mod aaa;
mod trusted;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;

use engine::mip4::association::{Algorithm, Association, Associations, FIRST_SPI};
use engine::mip4::identification::Clock;
use engine::mip4::revocation::Policy;
use engine::mip4::tunnel::KEEPALIVE_MIN;
use engine::mip4::tunnel::UdpWish;
use engine::mip4::{foreign_agent, home_agent, mobile_node};
use engine::sa::Encapsulation;
use engine::selector::TrafficSelector;
use engine::site::is_unicast;
use engine::time::{Duration, Instant};
use zeroize::Zeroizing;

use super::firewall::selector;
use super::{Builder, ConfigError, Loaded};
use crate::config::association::AssociationTable;
use crate::config::file::ConfigFile;
use crate::config::mobility::{
    AgentTable, ForeignAgentTable, HomeAgentTable, MOBILE, MobileNodeTable, MobileTable,
};
use crate::config::parts::{
    HomeAgentSetup, MobileSetup, Mobility, NodeFirewall, NodeGateway, VisitedLink,
};
use crate::config::values::{SecretText, Span};

/// Octets that a key has at least: those of the default algorithm (RFC 5944 §5.1).
const KEY_OCTETS_MIN: usize = 16;
/// Longest lifetime in seconds: 65535 means for ever (RFC 5944 §3.3).
const LIFETIME_MAX: u64 = 65_534;
/// The node is told, too.
const REVOCATION: Policy = Policy {
    has_inform: true,
    informs: true,
};
/// Octets of an interface's name without its terminator (IFNAMSIZ).
const INTERFACE_OCTETS_MAX: usize = 15;

impl Builder<'_> {
    /// The part in Mobile IPv4, if the file has one.
    pub(super) fn mobility(
        &self,
        loaded: &mut Loaded,
        file: &ConfigFile,
    ) -> Result<Option<Mobility>, ConfigError> {
        self.check_parts(file)?;
        for (key, table) in file.associations() {
            loaded.notes.extend(standing(&key, table.algorithm));
        }
        for (key, table) in file.aaa_keys() {
            loaded.notes.push(aaa::standing(&key, table));
        }
        if let Some(table) = &file.home_agent {
            return self.home_agent(loaded, (table, file)).map(Some);
        }
        if let Some(table) = &file.foreign_agent {
            return self.foreign_agent(table, file).map(Some);
        }
        if let Some(table) = &file.firewall {
            let made = self.firewall(loaded, (table, file))?;
            return Ok(Some(Mobility::Firewall(made)));
        }
        let Some(table) = &file.mobile else {
            return Ok(None);
        };
        let firewall = match &table.firewall {
            Some(it) => Some(self.node_firewall(loaded, (it, file), table)?),
            None => None,
        };
        let gateway = match &table.gateway {
            Some(it) => Some(self.node_gateway((it, file), table)?),
            None => None,
        };
        self.mobile(table, file, (firewall, gateway)).map(Some)
    }

    /// One part for each process, and no connection that takes its name.
    fn check_parts(&self, file: &ConfigFile) -> Result<(), ConfigError> {
        let parts = [
            ("home_agent", file.home_agent.is_some()),
            ("foreign_agent", file.foreign_agent.is_some()),
            ("mobile", file.mobile.is_some()),
            ("firewall", file.firewall.is_some()),
        ];
        let mut there = parts.iter().filter(|(_, is_there)| *is_there);
        let first = there.next();
        if let (Some((one, _)), Some((other, _))) = (first, there.next()) {
            let text = format!("[{one}] is there too: write two files and run two processes");
            return Err(self.value(other, &text));
        }
        if let (Some((part, _)), Some(name)) = (first, file.connections.keys().next())
            && *part != "mobile"
        {
            let text = format!("an agent has no connections: [{part}] needs a file of its own");
            return Err(self.value(&format!("connections.{name}"), &text));
        }
        if first.is_some() && file.connections.contains_key(MOBILE) {
            let text = "this name is that of [mobile]: choose another one";
            return Err(self.value("connections.mobile", text));
        }
        let nodes = file.mobile_nodes.keys().map(|name| ("mobile_nodes", name));
        let agents = file.home_agents.keys().map(|name| ("home_agents", name));
        let unused = match first.map(|(part, _)| *part) {
            Some("home_agent") => agents.collect::<Vec<_>>(),
            Some("foreign_agent") => Vec::new(),
            _ => nodes.chain(agents).collect(),
        };
        if let Some((table, name)) = unused.first() {
            let text = "nothing of this file uses it: an agent needs [home_agent] or \
                        [foreign_agent]";
            return Err(self.value(&format!("{table}.{name}"), text));
        }
        let is_end = file.firewall.is_some() || file.home_agent.is_some();
        if let Some(name) = file.access.keys().next().filter(|_| !is_end) {
            let text = "nothing of this file uses it: an access list needs [firewall] or \
                        [home_agent]";
            return Err(self.value(&format!("access.{name}"), text));
        }
        let has_peers = file.peers_of_skip().next().is_some();
        if file.skip.is_some() && !has_peers && file.firewall.is_none() {
            let text = "nothing of this file uses it: SKIP needs [firewall], [mobile.firewall], or \
                        [access.NAME] of a home agent";
            return Err(self.value("skip", text));
        }
        Ok(())
    }

    fn home_agent(
        &self,
        loaded: &mut Loaded,
        (table, file): (&HomeAgentTable, &ConfigFile),
    ) -> Result<Mobility, ConfigError> {
        self.prefix("home_agent.prefix", table.prefix)?;
        self.member("home_agent.address", table.address, table)?;
        self.interface("home_agent.interface", &table.interface)?;
        if !(1..=64).contains(&table.max_bindings) {
            let text = format!("{} is outside 1 to 64", table.max_bindings);
            return Err(self.value("home_agent.max_bindings", &text));
        }
        let keepalive = self.seconds("home_agent.udp_keepalive", table.udp_keepalive, true)?;
        if keepalive != 0 && keepalive < KEEPALIVE_MIN {
            let text = format!("{keepalive} s is too short: 10 s at least (RFC 3519)");
            return Err(self.value("home_agent.udp_keepalive", &text));
        }
        for firewall in &table.firewalls {
            self.other_host("home_agent.firewalls", *firewall, &[table.address])?;
        }
        let clients = self.clients(loaded, (table, file))?;
        let (trusted, tunnelled) = self.inside((table, file))?;
        let lifetime = table.advertised_lifetime;
        let lifetime = self.seconds("home_agent.advertised_lifetime", lifetime, false)?;
        Ok(Mobility::HomeAgent(HomeAgentSetup {
            config: home_agent::Config {
                address: table.address,
                prefix_len: table.prefix,
                max_lifetime: self.seconds("home_agent.max_lifetime", table.max_lifetime, false)?,
                max_bindings: table.max_bindings,
                encapsulations: offered(table.encapsulations.as_deref()),
                reverse_tunnel: table.reverse_tunnel,
                udp_keepalive: (keepalive != 0).then_some(keepalive),
                allows_forced_udp: table.forced_udp,
                clients,
                foreign_agents: self.agents(
                    "foreign_agents",
                    &file.foreign_agents,
                    &[table.address],
                )?,
                outside: self.outside(table)?,
                trusts_traversal: table.firewalls.iter().copied().collect(),
                trusted,
                tunnelled,
                revocation: table.revocation.then_some(REVOCATION),
            },
            takes_short_form: table.header_removal,
            interface: table.interface.clone(),
            forwards_broadcasts: table.broadcasts,
            advertised_lifetime: table.advertise.then_some(lifetime),
            own_skip: self.own_skip(loaded, (table, file))?,
        }))
    }

    /// The mobile nodes of a home agent.
    fn clients(
        &self,
        loaded: &mut Loaded,
        (table, file): (&HomeAgentTable, &ConfigFile),
    ) -> Result<Vec<home_agent::Client>, ConfigError> {
        let mut clients: Vec<home_agent::Client> = Vec::new();
        let mut taken = BTreeSet::from([table.address]);
        let mut owners = BTreeMap::new();
        for (name, node) in &file.mobile_nodes {
            let key = format!("mobile_nodes.{name}");
            let home = node.home_address;
            self.member(&format!("{key}.home_address"), home, table)?;
            if !taken.insert(home) {
                let text = format!("{home} is there twice: each node has its own");
                return Err(self.value(&format!("{key}.home_address"), &text));
            }
            let client = self.client(&key, node)?;
            let marks = client.associations.iter().map(Association::mark);
            let others = marks.filter_map(|mark| owners.insert(mark, home));
            if let Some(other) = others.last().filter(|other| *other != home) {
                let text = format!(
                    "it has the key of {other}, so each of both can register as the other: make \
                     one for each, as with `openssl rand -hex 32`"
                );
                loaded.warnings.push((key, text));
            }
            clients.push(client);
        }
        if clients.is_empty() {
            let text = "there is none: add [mobile_nodes.NAME] for each node";
            return Err(self.value("mobile_nodes", text));
        }
        Ok(clients)
    }

    /// Checks that an address is that of a host of the home network.
    fn member(
        &self,
        key: &str,
        address: Ipv4Addr,
        table: &HomeAgentTable,
    ) -> Result<(), ConfigError> {
        self.host(key, address)?;
        let network = TrafficSelector::subnet(table.address.into(), table.prefix);
        let whole = format!("the home network {}/{}", network.first, table.prefix);
        let text = if !network.contains_address(address.into()) {
            format!("{address} is not in {whole}")
        } else if table.prefix < 31 && address == network.first {
            format!("{address} is the address of {whole} itself: a host has another one")
        } else if table.prefix < 31 && address == network.last {
            format!("{address} is the broadcast address of {whole}: a host has another one")
        } else {
            return Ok(());
        };
        Err(self.value(key, &text))
    }

    /// Checks that an address is that of another host.
    pub(super) fn other_host(
        &self,
        key: &str,
        address: Ipv4Addr,
        own: &[Ipv4Addr],
    ) -> Result<(), ConfigError> {
        self.host(key, address)?;
        match own.contains(&address) {
            true => Err(self.value(
                key,
                &format!("{address} is our own address: name the other's"),
            )),
            false => Ok(()),
        }
    }

    fn client(&self, key: &str, node: &MobileNodeTable) -> Result<home_agent::Client, ConfigError> {
        let Some(association) = &node.association else {
            return Err(self.value(key, "a home agent needs an association with each node"));
        };
        Ok(home_agent::Client {
            home_address: node.home_address,
            nai: self.nai(&format!("{key}.nai"), node.nai.as_deref())?,
            aaa: self.aaa(&format!("{key}.aaa"), node.aaa.as_ref())?,
            associations: self.association(&format!("{key}.association"), association)?,
        })
    }

    fn foreign_agent(
        &self,
        table: &ForeignAgentTable,
        file: &ConfigFile,
    ) -> Result<Mobility, ConfigError> {
        let care_of = table.care_of.unwrap_or(table.address);
        self.host("foreign_agent.address", table.address)?;
        self.host("foreign_agent.care_of", care_of)?;
        self.interface("foreign_agent.interface", &table.interface)?;
        if table.max_visitors == 0 {
            return Err(self.value("foreign_agent.max_visitors", "0 would serve nobody"));
        }
        let own = [table.address, care_of];
        let mut taken = BTreeSet::new();
        for (name, node) in &file.mobile_nodes {
            let key = format!("mobile_nodes.{name}.home_address");
            self.other_host(&key, node.home_address, &own)?;
            if !taken.insert(node.home_address) {
                let text = format!(
                    "{} is there twice: each node has its own",
                    node.home_address
                );
                return Err(self.value(&key, &text));
            }
        }
        let (mobile_nodes, aaa) = self.visitor_keys(file)?;
        if table.challenges && mobile_nodes.is_empty() && aaa.is_empty() {
            let text = "only nodes with a key can answer: add [mobile_nodes.NAME] for each";
            return Err(self.value("foreign_agent.challenges", text));
        }
        let lifetime = table.advertised_lifetime;
        let longest = table.max_lifetime;
        Ok(Mobility::ForeignAgent(VisitedLink {
            config: foreign_agent::Config {
                address: table.address,
                care_of,
                max_lifetime: self.seconds("foreign_agent.max_lifetime", longest, false)?,
                max_visitors: table.max_visitors,
                encapsulations: offered(table.encapsulations.as_deref()),
                reverse_tunnel: table.reverse_tunnel,
                is_required: table.required,
                challenges: table.challenges,
                advertised_lifetime: self.seconds(
                    "foreign_agent.advertised_lifetime",
                    lifetime,
                    false,
                )?,
                mobile_nodes,
                aaa,
                home_agents: self.agents("home_agents", &file.home_agents, &own)?,
                relays_to: self.relays_to(table)?,
                revocation: table.revocation.then_some(REVOCATION),
                // The time of the start replaces it.
                clock: Clock::new(Instant(0), Duration::ZERO),
                udp: table.udp,
            },
            interface: table.interface.clone(),
        }))
    }

    /// The home agents that visitors may have.
    fn relays_to(
        &self,
        table: &ForeignAgentTable,
    ) -> Result<Option<Vec<TrafficSelector>>, ConfigError> {
        let Some(networks) = &table.home_agents else {
            return Ok(None);
        };
        if networks.is_empty() {
            let text = "an empty list would serve nobody: name a network, or leave it out";
            return Err(self.value("foreign_agent.home_agents", text));
        }
        Ok(Some(networks.iter().copied().map(selector).collect()))
    }

    fn mobile(
        &self,
        table: &MobileTable,
        file: &ConfigFile,
        (firewall, gateway): (Option<Box<NodeFirewall>>, Option<Box<NodeGateway>>),
    ) -> Result<Mobility, ConfigError> {
        self.host("mobile.home_address", table.home_address)?;
        self.host("mobile.home_agent", table.home_agent)?;
        self.prefix("mobile.prefix", table.prefix)?;
        if table.home_agent == table.home_address {
            let text = "it is the home agent's address: each has its own";
            return Err(self.value("mobile.home_address", text));
        }
        if table.interfaces.is_empty() {
            return Err(self.value("mobile.interfaces", "there is none: name one at least"));
        }
        for interface in &table.interfaces {
            self.interface("mobile.interfaces", interface)?;
        }
        if table.encapsulating_delivery && !table.reverse_tunnel {
            let text = "only a reverse tunnel has it: reverse_tunnel = true";
            return Err(self.value("mobile.encapsulating_delivery", text));
        }
        // Such tunnels do not go through SKIP or IPsec: data would leave in clear.
        let has_outside = firewall.is_some() || gateway.is_some();
        let udp = match (has_outside, table.udp) {
            (false, wish) => wish,
            (true, UdpWish::Never | UdpWish::BehindNat) => UdpWish::Never,
            (true, UdpWish::Always) => {
                let text = "with a firewall or a VPN gateway nothing leaves in clear: \
                            [mobile.firewall] has a udp of its own, for SKIP";
                return Err(self.value("mobile.udp", text));
            }
        };
        Ok(Mobility::MobileNode(MobileSetup {
            config: mobile_node::Config {
                home_address: table.home_address,
                home_agent: table.home_agent,
                nai: self.nai("mobile.nai", table.nai.as_deref())?,
                aaa: self.aaa("mobile.aaa", table.aaa.as_ref())?,
                associations: self.association("mobile.association", &table.association)?,
                foreign_agents: self.agents(
                    "foreign_agents",
                    &file.foreign_agents,
                    &[table.home_address],
                )?,
                lifetime: self.seconds("mobile.lifetime", table.lifetime, false)?,
                encapsulation: table.encapsulation,
                is_reverse: table.reverse_tunnel,
                encapsulates_delivery: table.encapsulating_delivery,
                wants_broadcasts: table.broadcasts,
                is_simultaneous: table.simultaneous,
                udp,
                firewall: firewall.as_ref().and_then(|it| it.machine.clone()),
                hears_revocations: table.revocation,
                monitor: table.gateway.as_ref().map(|it| it.monitor.0),
            },
            interfaces: table.interfaces.clone(),
            prefix: table.prefix,
            firewall,
            gateway,
        }))
    }

    fn agents(
        &self,
        key: &str,
        agents: &BTreeMap<String, AgentTable>,
        own: &[Ipv4Addr],
    ) -> Result<BTreeMap<Ipv4Addr, Associations>, ConfigError> {
        let mut found = BTreeMap::new();
        for (name, agent) in agents {
            let key = format!("{key}.{name}");
            self.other_host(&format!("{key}.address"), agent.address, own)?;
            let shared = self.association(&format!("{key}.association"), &agent.association)?;
            if found.insert(agent.address, shared).is_some() {
                let text = format!("{} is there twice", agent.address);
                return Err(self.value(&format!("{key}.address"), &text));
            }
        }
        Ok(found)
    }

    pub(super) fn association(
        &self,
        key: &str,
        table: &AssociationTable,
    ) -> Result<Associations, ConfigError> {
        if table.algorithm.is_legacy() && !table.legacy {
            let text = "\"keyed-md5\" is the weak form of RFC 2002: it needs legacy = true";
            return Err(self.value(&format!("{key}.algorithm"), text));
        }
        if table.spi < FIRST_SPI {
            let text = format!("{} is reserved: {FIRST_SPI} at least", table.spi);
            return Err(self.value(&format!("{key}.spi"), &text));
        }
        let least = if table.legacy { 1 } else { KEY_OCTETS_MIN };
        let octets = self.key_octets(key, (&table.key, &table.key_file), least)?;
        let one = Association::new(table.spi, table.algorithm, table.replay, &octets);
        let list = one.and_then(|one| Associations::new(vec![one]));
        list.ok_or_else(|| self.value(&format!("{key}.key"), "the key is empty"))
    }

    /// The key of the table `key`, which has this many octets at least.
    fn key_octets(
        &self,
        key: &str,
        written: (&Option<SecretText>, &Option<PathBuf>),
        least: usize,
    ) -> Result<Zeroizing<Vec<u8>>, ConfigError> {
        let table = key;
        let (key, text) = match written {
            (Some(text), None) => {
                let octets = text.as_bytes().to_vec();
                (format!("{key}.key"), Zeroizing::new(octets))
            }
            (None, Some(file)) => {
                let key = format!("{key}.key_file");
                let text = self.read(&key, file)?;
                (key, Zeroizing::new(text.into_bytes()))
            }
            _ => {
                let text = "write either key or key_file";
                return Err(self.value(key, text));
            }
        };
        let Some(octets) = from_hex(text.trim_ascii()) else {
            let text = "not hexadecimal, two digits an octet: `openssl rand -hex 32` makes a key";
            return Err(self.value(&key, text));
        };
        if octets.len() < least {
            let text = format!(
                "{} octets are too few: {least} at least, such as `openssl rand -hex 32` makes",
                octets.len()
            );
            return Err(self.value(&format!("{table}.key"), &text));
        }
        if octets.iter().all(|octet| *octet == 0) && !octets.is_empty() {
            let text = "all zeros, which everybody guesses: `openssl rand -hex 32` makes a key";
            return Err(self.value(&key, text));
        }
        Ok(octets)
    }

    fn nai(&self, key: &str, text: Option<&str>) -> Result<Option<Vec<u8>>, ConfigError> {
        let Some(text) = text else {
            return Ok(None);
        };
        match (1..=255).contains(&text.len()) {
            true => Ok(Some(text.as_bytes().to_vec())),
            false => Err(self.value(key, "a name has 1 to 255 octets")),
        }
    }

    pub(super) fn host(&self, key: &str, address: Ipv4Addr) -> Result<(), ConfigError> {
        match is_unicast(&address.into()) {
            true => Ok(()),
            false => Err(self.value(key, &format!("{address} is not the address of a host"))),
        }
    }

    fn prefix(&self, key: &str, bits: u8) -> Result<(), ConfigError> {
        match (1..=32).contains(&bits) {
            true => Ok(()),
            false => Err(self.value(key, &format!("{bits} is outside 1 to 32"))),
        }
    }

    pub(super) fn interface(&self, key: &str, name: &str) -> Result<(), ConfigError> {
        // nft takes some of them for more than a name.
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "/\"*\\".contains(c);
        let is_good = (1..=INTERFACE_OCTETS_MAX).contains(&name.len())
            && !name.contains(is_odd)
            && ![".", ".."].contains(&name);
        match is_good {
            true => Ok(()),
            false => Err(self.value(key, &format!("{name:?} is not an interface's name"))),
        }
    }

    pub(super) fn seconds(
        &self,
        key: &str,
        span: Span,
        may_be_zero: bool,
    ) -> Result<u16, ConfigError> {
        let seconds = span.0.as_secs();
        let is_good = (1..=LIFETIME_MAX).contains(&seconds) || may_be_zero && span.0.is_zero();
        match u16::try_from(seconds) {
            Ok(seconds) if is_good => Ok(seconds),
            _ => {
                let text = format!("{seconds} s is outside 1 s to {LIFETIME_MAX} s");
                Err(self.value(key, &text))
            }
        }
    }
}

/// What a reader of the file should know about an algorithm.
fn standing(key: &str, algorithm: Algorithm) -> Option<String> {
    let text = match algorithm {
        Algorithm::HmacMd5 => {
            "hmac-md5 is the default of RFC 5944: no attack on it is known, but hmac-sha-256 is \
             stronger"
        }
        Algorithm::HmacSha256 => return None,
        Algorithm::KeyedMd5 => "LEGACY: keyed-md5 of RFC 2002 is weak, use it with old peers only",
    };
    Some(format!("{key}: {text}"))
}

fn from_hex(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let digit = |octet: u8| char::from(octet).to_digit(16).map(|digit| digit as u8);
    let mut octets = Zeroizing::new(Vec::with_capacity(text.len() / 2));
    let (pairs, rest) = text.as_chunks::<2>();
    for [high, low] in pairs {
        octets.push(digit(*high)? << 4 | digit(*low)?);
    }
    rest.is_empty().then_some(octets)
}

fn offered(written: Option<&[Encapsulation]>) -> BTreeSet<Encapsulation> {
    let all = written.unwrap_or(&[Encapsulation::Minimal, Encapsulation::Gre]);
    all.iter().copied().collect()
}

#[cfg(test)]
mod tests;
