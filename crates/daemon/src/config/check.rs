//! Checks of a whole file that types cannot do: values that no process can use, tables that
//! contradict each other, and problems on this machine.

mod announced;
mod credentials;
mod exposed;
mod mobile_ip;
mod resolvers;
mod shared_addresses;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::config::{Connection, Limits, Pool};
use engine::node::via_of;
use engine::sa::Mode;
use engine::selector::TrafficSelector;
use nix::unistd::Uid;

use super::file::{ConfigFile, ConnectionTable, DaemonTable, PublishTable};
use super::loaded::Loaded;
use super::values::{Span, Transport, meant_subnet};
use crate::control::check_name;
use crate::routes::prefix::{next, previous};

pub(super) use credentials::credentials;
pub use credentials::own_fault;

/// Octets of an interface name without its terminator (IFNAMSIZ).
const MAX_TUN_NAME: usize = 15;
/// Linux's own routing tables: unspecified, and default, main, local.
const TABLES_OF_THE_SYSTEM: [u32; 4] = [0, 253, 254, 255];

/// With a shorter time, renewals or probes would follow each other without a pause.
const SHORTEST: Duration = Duration::from_secs(1);
/// A longer time is a wrong unit.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// Explains 0 for the two times of a renewal.
const REKEY_ZERO: &str = "switches renewal off in swanctl, but Caravan always renews keys: write \
                          a time, such as";
const OVER_ZERO: &str = "leaves no time to renew before the old keys end: write a time, such as";

/// A key and what is wrong with its value.
pub(super) type KeyFault = (String, String);

/// Values that cannot work anywhere.
pub(super) fn values(file: &ConfigFile) -> Vec<KeyFault> {
    let mut faults = daemon(&file.daemon);
    let mut taken = BTreeSet::new();
    for (index, table) in file.publish.iter().enumerate() {
        let place = format!("publish.{index}");
        faults.extend(published(&place, table));
        let name = match table.protocol {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        };
        if !taken.insert((name, table.port)) {
            let text = format!(
                "{name} {} is published twice: one server a port",
                table.port
            );
            faults.push((format!("{place}.port"), text));
        }
    }
    for (name, table) in &file.connections {
        faults.extend(connection(name, &format!("connections.{name}"), table));
    }
    faults.extend(mobile_ip::values(file));
    faults
}

fn connection(name: &str, place: &str, table: &ConnectionTable) -> Vec<KeyFault> {
    let mut faults = Vec::new();
    if let Err(error) = check_name(name) {
        faults.push((place.to_owned(), error.to_string()));
    }
    if table.remote_port == 0 {
        let text = "0 is not a port: 500 is the port of IKE and the default";
        faults.push((format!("{place}.remote_port"), text.to_owned()));
    }
    let say = |(key, text)| (format!("{place}.{key}"), text);
    let spans = [
        ("rekey_time", Some(table.rekey_time), Some(REKEY_ZERO), "4h"),
        ("over_time", Some(table.over_time), Some(OVER_ZERO), "24m"),
        (
            "dpd_timeout",
            Some(table.dpd_timeout),
            Some("gives a peer up as soon as it is probed: write a time, such as"),
            "10s",
        ),
        ("dpd_delay", table.dpd_delay, None, "20s"),
        ("keepalive", Some(table.keepalive), None, "20s"),
    ];
    faults.extend(spans.into_iter().filter_map(span).map(say));
    for address in &table.remote_addrs {
        if let Some(text) = no_gateway(address) {
            faults.push((format!("{place}.remote_addrs"), text));
        }
    }
    for (child, it) in &table.children {
        let place = format!("{place}.children.{child}");
        let spans = [
            ("rekey_time", Some(it.rekey_time), Some(REKEY_ZERO), "1h"),
            ("over_time", Some(it.over_time), Some(OVER_ZERO), "6m"),
        ];
        let say = |(key, text)| (format!("{place}.{key}"), text);
        faults.extend(spans.into_iter().filter_map(span).map(say));
        let limits = [
            ("rekey_packets", it.rekey_packets == Some(0), "0"),
            (
                "rekey_bytes",
                it.rekey_bytes.is_some_and(|size| size.0 == 0),
                "\"0\"",
            ),
        ];
        for (key, _, zero) in limits.iter().filter(|(_, is_zero, _)| *is_zero) {
            let text =
                format!("{zero} would renew without pause: remove the key to renew by time only");
            faults.push((format!("{place}.{key}"), text));
        }
    }
    faults
}

/// Checks a time span. The arguments are its key, what 0 would mean if it does not mean "never",
/// and a usual value.
fn span(
    (key, given, zero, usual): (&str, Option<Span>, Option<&str>, &str),
) -> Option<(String, String)> {
    let given = given?.0;
    let text = match zero {
        None if given.is_zero() => return None,
        Some(meaning) if given.is_zero() => format!("\"0\" {meaning} \"{usual}\""),
        _ if given < SHORTEST => {
            let ms = given.as_millis();
            format!("\"{ms}ms\" is too short: 1 s at least, \"{usual}\" is usual")
        }
        _ if given > LONGEST => {
            let days = given.as_secs() / (24 * 3600);
            format!("{days} days is too long: 365 at most, \"{usual}\" is usual")
        }
        _ => return None,
    };
    Some((key.to_owned(), text))
}

/// Why this is neither an address nor a name of a gateway.
fn no_gateway(text: &str) -> Option<String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return is_nobody(address).then(|| format!("{address} is not the address of a host"));
    }
    let port = text.rsplit_once(':').filter(|(front, port)| {
        let is_one = !port.is_empty() && port.bytes().all(|octet| octet.is_ascii_digit());
        is_one && (front.ends_with(']') || !front.contains(':'))
    });
    if let Some((front, port)) = port {
        let front = front.trim_matches(['[', ']']);
        return Some(format!(
            "{text:?} has a port: write {front:?}, and remote_port = {port} where it is not 500"
        ));
    }
    if text.contains('/') {
        return Some(format!("{text:?} is a network: name one host"));
    }
    if text.starts_with('%') {
        return Some(format!(
            "{text:?} names no host: a gateway's connection has no remote_addrs"
        ));
    }
    // A name of a host is not of numbers alone, and has no colon.
    let is_number = |it: char| it.is_ascii_digit() || it == '.';
    if text.contains(':') || text.chars().all(is_number) {
        return Some(format!(
            "{text:?} is no address, such as 192.0.2.1 or 2001:db8::1"
        ));
    }
    text.contains(char::is_whitespace)
        .then(|| format!("{text:?} is neither an address nor a name"))
}

/// An address that no host can have.
fn is_nobody(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    address.is_unspecified() || address.is_multicast() || is_broadcast
}

fn daemon(table: &DaemonTable) -> Vec<KeyFault> {
    let mut faults = Vec::new();
    let mut say = |key: &str, text: String| faults.push((format!("daemon.{key}"), text));
    let tun = &table.tun;
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '%' | ':');
    if tun.is_empty() || tun.len() > MAX_TUN_NAME || tun.contains(is_odd) || tun.starts_with('.') {
        let text = format!(
            "{tun:?} is not an interface name: 1 to {MAX_TUN_NAME} letters and digits, such as \
             \"caravan0\""
        );
        say("tun", text);
    }
    if table.half_open == 0 {
        let text = "0 would drop every client's first message; 500 is the default";
        say("half_open", text.to_owned());
    }
    if table.fwmark == 0 {
        let text = "0 is not a mark: the tunnel's own datagrams would be routed into the tunnel";
        say("fwmark", text.to_owned());
    }
    if TABLES_OF_THE_SYSTEM.contains(&table.table) {
        let text = format!(
            "{} is the system's own table; 221 is the default",
            table.table
        );
        say("table", text);
    }
    faults
}

fn published(place: &str, table: &PublishTable) -> Option<KeyFault> {
    if table.port == 0 {
        let text = "0 is not a port: name a port of the gateway, 1 to 65535";
        return Some((format!("{place}.port"), text.to_owned()));
    }
    if table.to.port() == 0 {
        let text = format!(
            "{} has no port: write the server's, such as \"10.10.0.2:80\"",
            table.to
        );
        return Some((format!("{place}.to"), text));
    }
    let server = table.to.ip();
    if server.is_loopback() || is_nobody(server) {
        let text = format!("{server} cannot be a server: nothing can be forwarded to it");
        return Some((format!("{place}.to"), text));
    }
    if let SocketAddr::V6(to) = table.to
        && (to.scope_id() != 0 || to.ip().is_unicast_link_local())
    {
        let text = format!(
            "{to} is known on one link alone: nothing can be forwarded to it; write an address of \
             the server without a zone"
        );
        return Some((format!("{place}.to"), text));
    }
    if table.protocol == Transport::Udp && via_of(table.port).is_some() {
        let text = format!(
            "IKE uses udp {}: no client would reach this gateway",
            table.port
        );
        return Some((format!("{place}.port"), text));
    }
    None
}

/// Pools that share an address.
pub(super) fn pools(pools: &[Pool]) -> Vec<KeyFault> {
    let mut faults = Vec::new();
    for pool in pools {
        let ends = [pool.first, pool.last];
        let unusable = |address: &&IpAddr| is_nobody(**address) || address.is_loopback();
        if let Some(address) = ends.iter().find(unusable) {
            let text = format!("{address} cannot be a peer's address: use private addresses");
            faults.push((format!("pools.{}.addrs", pool.name), text));
        }
        if let Some(resolver) = pool.dns.iter().find(|it| is_nobody(**it)) {
            let text = format!("{resolver} cannot be a resolver");
            faults.push((format!("pools.{}.dns", pool.name), text));
        }
    }
    for (at, one) in pools.iter().enumerate() {
        let twice = pools[..at]
            .iter()
            .find(|other| meet(&range(one), &range(other)));
        if let Some(other) = twice {
            let text = format!(
                "shares addresses with [pools.{}]: two peers would get one",
                other.name
            );
            faults.push((format!("pools.{}.addrs", one.name), text));
        }
    }
    faults
}

/// Children of a gateway that no address of its pools can reach.
pub(super) fn unreachable(connections: &[Arc<Connection>], pools: &[Pool]) -> Vec<KeyFault> {
    let all = connections.iter().flat_map(|it| beyond_pools(it, pools));
    let whole = all.filter(|beyond| beyond.is_whole);
    whole.map(|beyond| (beyond.key, beyond.text)).collect()
}

/// A network of a child that no pool address can reach: IPv4 and IPv6 do not mix.
struct BeyondPools {
    /// The child has no other network.
    is_whole: bool,
    key: String,
    text: String,
}

fn beyond_pools(connection: &Connection, pools: &[Pool]) -> Vec<BeyondPools> {
    let lent: Vec<&Pool> = connection.pools.iter().map(|at| &pools[*at]).collect();
    let is_beyond = |it: &&TrafficSelector| !lent.iter().any(|pool| range(pool).is_of_family(it));
    let children = connection.children.iter();
    let for_lent = children.filter(|it| it.mode == Mode::Tunnel && it.remote.is_empty());
    let found = for_lent.filter(|_| !lent.is_empty()).filter_map(|child| {
        let beyond = child.local.iter().find(is_beyond)?;
        let names: Vec<&str> = lent.iter().map(|pool| pool.name.as_str()).collect();
        let names = names.join(", ");
        Some(BeyondPools {
            is_whole: child.local.iter().all(|it| is_beyond(&it)),
            key: format!(
                "connections.{}.children.{}.local_ts",
                connection.name, child.name
            ),
            text: format!(
                "{beyond} has an address family that no pool of this connection ({names}) has: \
                 no packet goes from IPv4 to IPv6 or back"
            ),
        })
    });
    found.collect()
}

/// Problems that depend on the machine or the time: connection and sentence.
pub(super) fn surroundings(folder: &Path, path: &Path, file: &ConfigFile, loaded: &mut Loaded) {
    let mut warnings = Vec::new();
    if let Some(user) = &file.daemon.user
        && crate::users::User::of_name(user).is_none()
    {
        let text = format!(
            "user: there is no user {user:?} on this machine: `useradd --system {user}` makes one"
        );
        warnings.push(("daemon".to_owned(), text));
    }
    let trusted = [0, Uid::effective().as_raw()];
    warnings.extend(exposed::exposed(folder, path, file, trusted));
    warnings.extend(idle_tables(file));
    warnings.extend(unguarded(file));
    warnings.extend(mobile_ip::unwise(file));
    warnings.extend(host_bits(file));
    for connection in &loaded.engine.connections {
        let pools = &loaded.engine.pools;
        warnings.extend(overlaps(connection, pools).map(|text| (connection.name.clone(), text)));
        let beyond = beyond_pools(connection, pools).into_iter();
        warnings.extend(beyond.map(|it| (connection.name.clone(), it.text)));
        let astray = resolvers::astray(connection, pools).into_iter();
        warnings.extend(astray.map(|text| (connection.name.clone(), text)));
    }
    warnings.extend(rivals(&loaded.engine.connections));
    warnings.extend(shared_addresses::hidden(&loaded.engine.connections));
    warnings.extend(announced::withheld(&loaded.engine.connections));
    for connection in &loaded.engine.connections {
        let found = crowd(connection);
        warnings.extend(found.map(|text| (connection.name.clone(), text)));
    }
    warnings.dedup();
    loaded.warnings.extend(warnings);
}

/// Children without replay protection.
fn unguarded(file: &ConfigFile) -> Vec<(String, String)> {
    let connections = file.connections.iter();
    let children =
        connections.flat_map(|(name, table)| table.children.iter().map(move |c| (name, c)));
    let without = children.filter(|(_, (_, it))| it.replay_window == 0);
    without
        .map(|(name, (child, _))| {
            let text = format!(
                "children.{child}.replay_window: 0 accepts replayed packets; 1024 is the default"
            );
            (name.clone(), text)
        })
        .collect()
}

/// Connections that a gateway may take for one client that reconnects.
fn rivals(connections: &[Arc<Connection>]) -> Vec<(String, String)> {
    let mut warnings = Vec::new();
    for (at, one) in connections.iter().enumerate() {
        let rival = connections[..at].iter().find(|other| {
            let mut addresses = one.remote_addrs.iter();
            one.local.is_same_peer(&other.local)
                && addresses.any(|it| other.remote_addrs.contains(it))
        });
        if let Some(rival) = rival {
            let text = format!(
                "it has the same gateway and identity as {}: some gateways then end one tunnel \
                 when the other comes up; put the children into one connection",
                rival.name
            );
            warnings.push((one.name.clone(), text));
        }
    }
    warnings
}

/// More children than a gateway accepts. In IKEv1 each pair of selectors is one.
fn crowd(connection: &Connection) -> Option<String> {
    let limit = Limits::default().children;
    let children = connection.children.iter();
    let pairs = children.map(|child| child.local.len().max(1) * child.remote.len().max(1));
    let (number, what) = match connection.version.has_v2() {
        true => (connection.children.len(), "children"),
        false => (pairs.sum(), "pairs of local_ts and remote_ts"),
    };
    (!connection.remote_addrs.is_empty() && number > limit).then(|| {
        format!(
            "{number} {what}: a Caravan gateway accepts {limit} from one client, and the others do \
             not come up; name wider networks"
        )
    })
}

/// Tables that only a gateway uses.
fn idle_tables(file: &ConfigFile) -> Vec<(String, String)> {
    let mut connections = file.connections.values();
    if !connections.all(|table| !table.remote_addrs.is_empty() && table.pools.is_empty()) {
        return Vec::new();
    }
    let why = "every connection has remote_addrs, so this is a client's file";
    let pools = file.pools.keys().map(|name| {
        let text = format!("no connection uses this pool: {why}");
        (format!("pools.{name}"), text)
    });
    let publish = file.publish.iter().enumerate().map(|(index, _)| {
        let text = format!("only a gateway publishes ports: {why}");
        (format!("publish.{index}"), text)
    });
    pools.chain(publish).collect()
}

/// Networks written with a host's address.
fn host_bits(file: &ConfigFile) -> Vec<(String, String)> {
    let mut warnings = Vec::new();
    for (name, table) in &file.connections {
        for (child, it) in &table.children {
            for (key, words) in [("local_ts", &it.local_ts), ("remote_ts", &it.remote_ts)] {
                let place = format!("children.{child}.{key}");
                let meant = words.iter().filter_map(|word| meant_network(word));
                warnings.extend(meant.map(|text| (name.clone(), format!("{place}: {text}"))));
            }
        }
    }
    for (name, table) in &file.pools {
        let one = meant_subnet(&table.addrs);
        let one = one.map(|subnet| format!("a pool of one address; did you mean {subnet}?"));
        let meant = one.or_else(|| meant_network(&table.addrs));
        warnings.extend(meant.map(|text| (format!("pools.{name}"), format!("addrs: {text}"))));
    }
    warnings
}

/// "10.10.0.5/24" means 10.10.0.0/24, and perhaps "10.10.0.0" does.
fn meant_network(word: &str) -> Option<String> {
    if let Some(subnet) = meant_subnet(word) {
        return Some(format!("{word:?} is one address; did you mean {subnet}?"));
    }
    let address: IpAddr = word.split_once('/')?.0.trim().parse().ok()?;
    let network: TrafficSelector = word.parse().ok()?;
    (network.first != address).then(|| {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        format!(
            "{word:?} means the network {network}: write that, or {address}/{bits} for one host"
        )
    })
}

/// Pools inside a network with its own links: servers there look for pool addresses on the link,
/// and the gateway drops unencrypted packets from them.
fn overlaps<'a>(
    connection: &'a Connection,
    pools: &'a [Pool],
) -> impl Iterator<Item = String> + 'a {
    let selectors = connection.children.iter().flat_map(|child| {
        // A second selector that equals the pool lets clients reach each other.
        let local = child
            .local
            .iter()
            .map(move |it| (it, child.local.len() > 1));
        local.chain(child.remote.iter().map(|it| (it, false)))
    });
    let pairs = selectors.flat_map(move |selector| pools.iter().map(move |pool| (selector, pool)));
    pairs.filter_map(|((selector, may_be_pool), pool)| {
        let everything = TrafficSelector::everything(selector.first);
        let is_all = selector.first == everything.first && selector.last == everything.last;
        let is_pool = may_be_pool && is_about(selector, pool);
        (!is_all && !is_pool && meet(selector, &range(pool))).then(|| {
            format!(
                "[pools.{}] {}-{} lies in {selector}: hosts there look for pool addresses on \
                 their own link, and unencrypted packets from these addresses are dropped; take a \
                 network that is used nowhere else",
                pool.name, pool.first, pool.last
            )
        })
    })
}

fn range(pool: &Pool) -> TrafficSelector {
    TrafficSelector {
        last: pool.last,
        ..TrafficSelector::host(pool.first)
    }
}

fn meet(a: &TrafficSelector, b: &TrafficSelector) -> bool {
    let same_family = a.first.is_ipv4() == b.first.is_ipv4();
    same_family && a.first <= b.last && b.first <= a.last
}

/// The pool's subnet: one more address at either end.
fn is_about(selector: &TrafficSelector, pool: &Pool) -> bool {
    next(selector.first) >= pool.first && previous(selector.last) <= pool.last
}

#[cfg(test)]
mod tests;
