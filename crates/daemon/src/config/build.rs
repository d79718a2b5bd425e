//! Turns the file's tables into what the program uses: reads the named files, parses words, and
//! checks what types cannot.

mod auth;
mod dns;
mod firewall;
mod mobility;
mod node_firewall;
mod node_gateway;
mod phones;
mod ppk;
mod proposals;
mod radius;
mod redirects;
mod skip;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use engine::config::{
    Child, ChildLayer, Childless, Config, Connection, Encapsulation, InnerFamilies, Pool,
    SELECTORS_MAX, Severity, Unique,
};
use engine::sa::{Mode, Protocol};
use engine::selector::TrafficSelector;
use engine::suite::{EspSuite, SuiteFault};

use crate::resolver;
use crate::routes::full::FullTunnel;
use crate::routes::prefix::{next, previous};

use super::file::{self, ChildTable, ConfigFile, ConnectionTable, PoolTable};
use super::loaded::{Loaded, PublishedPort};
use super::{ConfigError, KeyValues, Names, Origin};

/// Proposals of a child that names none. First with PFS: then a stolen key of the IKE SA
/// decrypts no ESP. Then without, which is all that strongSwan accepts by default; the IKE SA
/// has had its own Diffie-Hellman exchange. In IKEv2 each comes with 64-bit sequence numbers first
/// (`with_long_numbers`).
const DEFAULT_ESP: [&str; 6] = [
    "aes128gcm16-curve25519",
    "aes128-sha256-curve25519",
    "aes128gcm16-modp2048",
    "aes128-sha256-modp2048",
    "aes128gcm16",
    "aes128-sha256",
];

const NOTHING: &str = "there is none: add [connections.NAME], [mobile], [home_agent], \
                       [foreign_agent] or [firewall]";
/// What a process leaves on its host has the name of its first connection, and is found by it.
const NOTHING_OWN: &str = "what a folder adds comes and goes: the process needs a connection of \
                           its own besides, [connections.NAME]";

/// Builds from a parsed file. File names are relative to the folder of the file.
pub fn build(
    path: &Path,
    file: ConfigFile,
    (names, origin): (Names, Origin<'_>),
) -> Result<Loaded, ConfigError> {
    let builder = Builder {
        path,
        folder: path.parent().unwrap_or(Path::new(".")),
        names,
        origin,
    };
    let mut faults: Vec<ConfigError> = Vec::new();
    let said = |(key, text): super::check::KeyFault| builder.value(&key, &text);
    faults.extend(super::check::values(&file).into_iter().map(said));
    let pools: Vec<Pool> = file
        .pools
        .iter()
        .filter_map(|(name, table)| {
            let pool = builder.pool(name, table);
            pool.map_err(|fault| faults.push(fault)).ok()
        })
        .collect();
    faults.extend(super::check::pools(&pools).into_iter().map(said));
    let mut loaded = Loaded::begun(file.daemon.clone(), pools);
    loaded.engine.limits.half_open = loaded.daemon.half_open;
    faults.extend(builder.nameless(&file));
    match builder.mobility(&mut loaded, &file) {
        Ok(mobility) => loaded.mobility = mobility,
        Err(fault) => faults.push(fault),
    }
    faults.extend(builder.radius(&mut loaded, &file).err());
    for (name, table) in &file.connections {
        let fault = builder.add(&mut loaded, name, table).err();
        let pools = &loaded.engine.pools;
        let is_lost = |name: &String| {
            file.pools.contains_key(name) && !pools.iter().any(|pool| pool.name == *name)
        };
        // The fault of a pool is told already.
        let is_told = |fault: &ConfigError| {
            let of_pools = format!("connections.{name}.pools");
            fault.is_of(&of_pools) && table.pools.iter().any(is_lost)
        };
        faults.extend(fault.filter(|fault| !is_told(fault)));
    }
    let is_included = |it: &(String, file::OnFailure)| file.included.contains(&it.0);
    loaded.on_failure.sort_by_key(is_included);
    let Config {
        connections, pools, ..
    } = &loaded.engine;
    let unreachable = super::check::unreachable(connections, pools);
    faults.extend(unreachable.into_iter().map(said));
    if let Some(fault) = ConfigError::of(faults) {
        return Err(fault);
    }
    super::check::surroundings(builder.folder, path, &file, &mut loaded);
    let published = file.publish.into_iter().map(|table| PublishedPort {
        protocol: table.protocol,
        port: table.port,
        to: table.to,
        masquerade: table.masquerade,
    });
    loaded.publish.extend(published);
    Ok(loaded)
}

struct Builder<'a> {
    path: &'a Path,
    folder: &'a Path,
    names: Names,
    origin: Origin<'a>,
}

impl Builder<'_> {
    /// A process has a name of its own, by which it and what it leaves are found.
    fn nameless(&self, file: &ConfigFile) -> Option<ConfigError> {
        if file.names().is_empty() {
            return Some(self.value("connections", NOTHING));
        }
        let has_none = file.included.len() == file.connections.len();
        let is_nameless = file.daemon.include.is_some() && has_none;
        is_nameless.then(|| self.value("daemon.include", NOTHING_OWN))
    }

    fn add(
        &self,
        loaded: &mut Loaded,
        name: &str,
        table: &ConnectionTable,
    ) -> Result<(), ConfigError> {
        let key = format!("connections.{name}");
        // A mobile node's filter refuses what may not leave in clear.
        let is_of_node = loaded.is_of_node(name);
        let on_failure = match is_of_node {
            true => file::OnFailure::Pass,
            false => table.on_failure,
        };
        loaded.on_failure.push((name.to_owned(), on_failure));
        loaded.keys.insert(name.to_owned(), KeyValues::of(table));
        for (child, it) in &table.children {
            if it.esp_proposals.len() > 1 && it.esp_proposals.iter().any(|word| word == "none") {
                let text = "\"none\" means no IPsec and cannot be combined with proposals; \
                            esp_proposals = [\"none\"] sends this traffic unencrypted";
                let key = format!("{key}.children.{child}.esp_proposals");
                return Err(self.value(&key, text));
            }
        }
        let is_clear = |child: &ChildTable| child.esp_proposals == ["none"];
        if table.children.values().any(is_clear) {
            return self.add_clear(loaded, name, table);
        }
        let remote_addrs = self.resolve(loaded, name, table)?;
        let mut connection = self.connection(&loaded.engine.pools, name, table, remote_addrs)?;
        self.only_ikev2(name, table, connection.version)?;
        self.few_selectors(name, &connection)?;
        connection.redirects = self.redirects(loaded, name, table)?;
        connection.dnssec_domains = self.dnssec_domains(name, table)?;
        phones::accept(&mut connection, table);
        proposals::with_long_numbers(&mut connection, table);
        if let Some(text) = unrouted_ports(&connection) {
            loaded.warnings.push((name.to_owned(), text));
        }
        if is_of_node {
            self.serve_node(&mut connection, loaded)?;
        } else if let Some(full) = FullTunnel::of(&connection, table.lan, table.other_family) {
            let told = full.warning().map(|text| (name.to_owned(), text));
            loaded.warnings.extend(told);
            loaded.full_tunnels.insert(name.to_owned(), full);
        }
        for finding in connection.check() {
            let text = finding.text;
            match finding.severity {
                Severity::Error => return Err(self.value(&key, &text)),
                Severity::Warning => loaded.warnings.push((name.to_owned(), text)),
            }
        }
        loaded.engine.connections.push(Arc::new(connection));
        Ok(())
    }

    /// The policy "none" protects nothing, so the file must confirm it explicitly.
    fn add_clear(
        &self,
        loaded: &mut Loaded,
        name: &str,
        table: &ConnectionTable,
    ) -> Result<(), ConfigError> {
        let key = format!("connections.{name}");
        if table
            .children
            .values()
            .any(|child| child.esp_proposals != ["none"])
        {
            return Err(self.value(
                &key,
                "\"none\" must be set for all children of a connection",
            ));
        }
        if !table.legacy {
            let text = "esp_proposals \"none\" sends everything unencrypted: it needs legacy = \
                        true";
            return Err(self.value(&key, text));
        }
        loaded.clear.push(name.to_owned());
        let text = "policy none: this traffic is NOT protected".to_owned();
        loaded.warnings.push((name.to_owned(), text));
        Ok(())
    }

    fn connection(
        &self,
        pools: &[Pool],
        name: &str,
        table: &ConnectionTable,
        remote_addrs: Vec<SocketAddr>,
    ) -> Result<Connection, ConfigError> {
        let key = |last: &str| format!("connections.{name}.{last}");
        let version = self.version(&key("version"), table)?;
        let (proposals, ikev2_proposals) = self.proposals(&key("proposals"), table, version)?;
        let children = table
            .children
            .iter()
            .map(|(child, it)| self.layers(&key(&format!("children.{child}")), child, it))
            .collect::<Result<Vec<_>, _>>()?
            .concat();
        if children.is_empty() {
            let text = "there is none: nothing would be protected";
            return Err(self.value(&key("children"), text));
        }
        let (local, remote) = self.sides(name, table)?;
        let is_station = !remote_addrs.is_empty();
        let family = |is_v4: bool| table.vips.iter().any(|address| address.is_ipv4() == is_v4);
        let dpd_delay = table
            .dpd_delay
            .map_or(Connection::dpd_delay_of(is_station), |span| span.0);
        Ok(Connection {
            name: name.to_owned(),
            revision: KeyValues::of(table).revision(),
            local_addrs: table.local_addrs.clone(),
            remote_addrs,
            version,
            is_aggressive: table.aggressive,
            proposals,
            ikev2_proposals,
            ppk: self.ppk(&format!("connections.{name}"), table)?,
            local,
            remote,
            children,
            wants_inner: InnerFamilies {
                v4: family(true),
                v6: family(false),
            },
            dnssec_domains: Vec::new(),
            pools: self.pool_indices(&key("pools"), pools, &table.pools)?,
            is_legacy: table.legacy,
            takes_rsa_sha1: table.rsa_sha1,
            start: start_of(is_station, table.start),
            encapsulation: encapsulation(table.encap),
            fragments: table.fragmentation,
            full_transcript: table.full_transcript,
            is_eap_only: table.is_eap_only(),
            mobike: table.mobike.unwrap_or(true),
            reauth: table.reauth.unwrap_or(true),
            childless: childless(table.childless),
            crash_detection: table.crash_detection,
            resumption: table.resumption,
            redirects: engine::config::Redirects::default(),
            dpd_delay: (!dpd_delay.is_zero()).then_some(dpd_delay),
            dpd_timeout: table.dpd_timeout.0,
            keepalive: table.keepalive.0,
            lifetime: table.rekey_time.0 + table.over_time.0,
            rekey_margin: table.over_time.0,
            peers_max: table.max_peers,
            unique: match table.unique {
                file::Unique::Replace => Unique::Replace,
                file::Unique::Keep => Unique::Keep,
            },
        })
    }

    /// Refuses to ask for a child with more selectors than it would have in the end: what is more
    /// would be narrowed away.
    fn few_selectors(&self, name: &str, it: &Connection) -> Result<(), ConfigError> {
        if it.remote_addrs.is_empty() || !it.version.has_v2() {
            return Ok(());
        }
        for child in &it.children {
            for (side, all) in [("local_ts", &child.local), ("remote_ts", &child.remote)] {
                if all.len() > SELECTORS_MAX {
                    let key = format!("connections.{name}.children.{}.{side}", child.name);
                    let count = all.len();
                    let text =
                        format!("{count} are more than {SELECTORS_MAX}: write more children");
                    return Err(self.value(&key, &text));
                }
            }
        }
        Ok(())
    }

    /// The children of a table: one, or that of ESP and that of AH around it.
    fn layers(&self, key: &str, name: &str, table: &ChildTable) -> Result<Vec<Child>, ConfigError> {
        let child = self.child(key, name, table)?;
        if !table.ah_around_esp {
            return Ok(vec![child]);
        }
        if child.mode != Mode::Tunnel || table.ah_proposals.is_empty() {
            let text = "needs ah_proposals, and mode = \"tunnel\"";
            return Err(self.value(&format!("{key}.ah_around_esp"), text));
        }
        let of = |protocol: Protocol| {
            let all = child.proposals.iter();
            let own = all.filter(|suite| suite.protocol == protocol);
            own.copied().collect::<Vec<EspSuite>>()
        };
        let (ah, mut esp) = (of(Protocol::Ah), of(Protocol::Esp));
        if esp.is_empty() {
            esp = ours(DEFAULT_ESP);
        }
        let around = Child {
            name: format!("{name}-ah"),
            layer: ChildLayer::Around,
            proposals: ah,
            local: Vec::new(),
            remote: Vec::new(),
            ..child.clone()
        };
        let inside = Child {
            layer: ChildLayer::Inside,
            proposals: esp,
            ..child
        };
        // Set up first: the other one's packets leave through it.
        Ok(vec![around, inside])
    }

    fn child(&self, key: &str, name: &str, table: &ChildTable) -> Result<Child, ConfigError> {
        let mode = match table.mode {
            file::Mode::Tunnel => Mode::Tunnel,
            file::Mode::Transport => Mode::Transport,
        };
        let esp = &table.esp_proposals;
        let mut proposals = self.words::<EspSuite>(&format!("{key}.esp_proposals"), esp)?;
        for word in &table.ah_proposals {
            let at = || format!("{key}.ah_proposals");
            let suite = EspSuite::parse_ah(word);
            proposals.push(suite.map_err(|error| self.value(&at(), &error.to_string()))?);
        }
        if proposals.is_empty() {
            proposals = ours(DEFAULT_ESP);
        }
        if table.replay_window != 0 && !(64..=4096).contains(&table.replay_window) {
            let text = format!("{} is outside 64 to 4096", table.replay_window);
            return Err(self.value(&format!("{key}.replay_window"), &text));
        }
        if table.mtu < 576 {
            return Err(self.value(&format!("{key}.mtu"), "the smallest MTU of IPv4 is 576"));
        }
        Ok(Child {
            name: name.to_owned(),
            layer: ChildLayer::Alone,
            mode,
            proposals,
            local: self.selectors(&format!("{key}.local_ts"), mode, &table.local_ts)?,
            remote: self.selectors(&format!("{key}.remote_ts"), mode, &table.remote_ts)?,
            lifetime: table.rekey_time.0 + table.over_time.0,
            rekey_margin: table.over_time.0,
            lifetime_bytes: table.rekey_bytes.map_or(u64::MAX, |size| size.0),
            lifetime_packets: table.rekey_packets.unwrap_or(u64::MAX),
            replay_window: table.replay_window,
            path_mtu: table.mtu,
        })
    }

    /// An empty list means `dynamic`. In transport mode, whose addresses are always those of the
    /// two ends, it may have a protocol and a port.
    fn selectors(
        &self,
        key: &str,
        mode: Mode,
        words: &[String],
    ) -> Result<Vec<TrafficSelector>, ConfigError> {
        let addressed = |word: &String| match word.strip_prefix("dynamic[") {
            Some(ports) if mode == Mode::Transport => Ok(format!("0.0.0.0/0[{ports}")),
            Some(_) => {
                let text = format!("{word:?} has ports only in transport mode: write the address");
                Err(self.value(key, &text))
            }
            None => Ok(word.clone()),
        };
        let given = words.iter().filter(|word| *word != "dynamic");
        let addressed: Vec<String> = given.map(addressed).collect::<Result<_, _>>()?;
        self.words(key, &addressed)
    }

    fn pool(&self, name: &str, table: &PoolTable) -> Result<Pool, ConfigError> {
        let key = format!("pools.{name}.addrs");
        let selector: TrafficSelector = table
            .addrs
            .parse()
            .map_err(|error| self.value(&key, &format!("{error}")))?;
        // The first and last address of a subnet are not hosts.
        let is_subnet = table.addrs.contains('/') && selector.first != selector.last;
        let (first, last) = if is_subnet {
            (next(selector.first), previous(selector.last))
        } else {
            (selector.first, selector.last)
        };
        let domains = self.domains(&format!("pools.{name}.domains"), table)?;
        let key = format!("pools.{name}.dnssec_ta");
        Ok(Pool {
            name: name.to_owned(),
            first,
            last,
            dns: table.dns.clone(),
            trust_anchors: self.trust_anchors(&key, table, &domains)?,
            domains,
        })
    }

    fn pool_indices(
        &self,
        key: &str,
        pools: &[Pool],
        names: &[String],
    ) -> Result<Vec<usize>, ConfigError> {
        let mut found: Vec<usize> = Vec::new();
        for name in names {
            let index = pools.iter().position(|pool| pool.name == *name);
            let missing = || self.value(key, &format!("there is no [pools.{name}]"));
            let index = index.ok_or_else(missing)?;
            let is_v4 = |index: usize| pools[index].first.is_ipv4();
            if let Some(other) = found.iter().find(|other| is_v4(**other) == is_v4(index)) {
                let other = &pools[*other].name;
                let text = format!(
                    "{other} and {name} have the same address family: use one pool of IPv4 and \
                     one of IPv6"
                );
                return Err(self.value(key, &text));
            }
            found.push(index);
        }
        Ok(found)
    }

    fn resolve(
        &self,
        loaded: &mut Loaded,
        name: &str,
        table: &ConnectionTable,
    ) -> Result<Vec<SocketAddr>, ConfigError> {
        let connection = name;
        let mut found = Vec::new();
        for name in &table.remote_addrs {
            if let Ok(address) = name.parse::<IpAddr>() {
                found.push(SocketAddr::new(address, table.remote_port));
                continue;
            }
            // The connection is still a client's, but nothing is sent to it.
            let nobody = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), table.remote_port);
            if self.names == Names::Unasked {
                found.push(nobody);
                continue;
            }
            let mark = loaded.daemon.fwmark;
            match resolver::addresses(name, table.remote_port, mark) {
                Ok(addresses) => found.extend(addresses),
                Err(error) if self.names == Names::Wanted => {
                    let text = format!("remote_addrs: {name} cannot be resolved here: {error}");
                    loaded.warnings.push((connection.to_owned(), text));
                    found.push(nobody);
                }
                Err(error) => {
                    let key = format!("connections.{connection}.remote_addrs");
                    return Err(self.value(&key, &format!("cannot resolve {name}: {error}")));
                }
            }
        }
        Ok(found)
    }

    fn words<T: core::str::FromStr>(
        &self,
        key: &str,
        words: &[String],
    ) -> Result<Vec<T>, ConfigError>
    where
        T::Err: core::fmt::Display,
    {
        words
            .iter()
            .map(|word| {
                word.parse()
                    .map_err(|error| self.value(key, &format!("{error}")))
            })
            .collect()
    }

    fn read(&self, key: &str, file: &Path) -> Result<String, ConfigError> {
        let path = self.folder.join(file);
        self.origin
            .text(&path)
            .map_err(|fault| self.unreadable(key, &path, &fault))
    }

    fn unreadable(&self, key: &str, path: &Path, fault: &std::io::Error) -> ConfigError {
        self.value(key, &format!("cannot read {}: {fault}", path.display()))
    }

    fn value(&self, key: &str, text: &str) -> ConfigError {
        ConfigError::Value {
            path: self.path.to_owned(),
            line: None,
            key: key.to_owned(),
            text: text.to_owned(),
        }
    }
}

/// When a client starts. A gateway waits.
fn start_of(is_station: bool, start: file::Start) -> engine::config::Start {
    match (is_station, start) {
        (false, _) => engine::config::Start::Responder,
        (true, file::Start::AtOnce) => engine::config::Start::AtOnce,
        (true, file::Start::OnTraffic) => engine::config::Start::OnTraffic,
    }
}

fn childless(childless: file::Childless) -> Childless {
    match childless {
        file::Childless::Allow => Childless::Allow,
        file::Childless::Prefer => Childless::Prefer,
        file::Childless::Force => Childless::Force,
        file::Childless::Never => Childless::Never,
    }
}

fn encapsulation(encap: file::Encap) -> Encapsulation {
    match encap {
        file::Encap::Auto => Encapsulation::Auto,
        file::Encap::Always => Encapsulation::Always,
        file::Encap::ThroughNat => Encapsulation::ThroughNat,
    }
}

/// Routes cannot express ports.
fn unrouted_ports(connection: &Connection) -> Option<String> {
    let selectors = connection.children.iter().flat_map(|child| &child.remote);
    let is_station = !connection.remote_addrs.is_empty();
    let mut narrow = selectors.filter(|selector| is_station && selector.protocol != 0);
    let narrow = narrow.next()?;
    Some(format!(
        "remote_ts {narrow}: all traffic to these addresses enters the tunnel, and traffic that no \
         selector covers is dropped there"
    ))
}

/// Suites of our own defaults.
fn ours<T: FromStr<Err = SuiteFault>, const N: usize>(words: [&str; N]) -> Vec<T> {
    let suites = words.map(|word| word.parse().expect("a suite that we name"));
    suites.into()
}

#[cfg(test)]
mod tests;
