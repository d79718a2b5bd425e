//! The nftables table of a process: traffic that must come through the tunnel is refused on any
//! other way, and ports of a gateway's address lead to servers inside.
//!
//! An unencrypted packet whose answer would go into the tunnel is dropped and counted before
//! connection tracking (RFC 4301 §5.2). The host's own routes decide that, so both directions
//! follow one policy. Exceptions are packets that carry the tunnel itself, that keep the link
//! alive, and errors of routers on the path. If a full tunnel blocks the local network, nothing is
//! sent to its groups except what keeps the link alive. Published ports: traffic out of the tunnel
//! is forwarded; traffic from outside only if the policy is "none". Servers see the gateway's
//! address, because pool addresses are foreign to their network.

pub mod bound;
pub mod links;
pub mod names;
pub mod node;
pub mod wall;
pub mod watch;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use engine::config::Connection;
use engine::sa::Mode;

use crate::config::values::Transport;
use crate::config::{Loaded, PublishedPort};
use crate::footprint::{FootprintFile, Listing};
use crate::routes::full::Lan;
use names::PREFIX;

/// How often a table is loaded while other programs change nftables.
const LOADS_MAX: usize = 5;
/// Where nft is if PATH lacks the administrator's folders.
const NFT: [&str; 3] = ["nft", "/usr/sbin/nft", "/sbin/nft"];

/// Packets that may come unencrypted although their answer would go into the tunnel: IKE, ESP and
/// AH, fragments of these, neighbours of the link, and router errors about packets in flight.
const IN_CLEAR: [&str; 10] = [
    "iifname \"lo\"",
    "udp dport { 500, 4500 } fib daddr type local",
    "meta l4proto { esp, ah }",
    "ip frag-off & 0x1fff != 0",
    "frag frag-off != 0",
    "ip6 saddr fe80::/10",
    "icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert, \
     nd-redirect }",
    "icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem }",
    "icmp type { destination-unreachable, time-exceeded, parameter-problem }",
    "fib daddr type { broadcast, multicast }",
];

/// What the table does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// Names the table: `caravan_NAME`.
    pub name: String,
    /// The tunnel's device.
    pub tun: String,
    /// Ports and servers.
    pub publish: Vec<PublishedPort>,
    /// First and last address of each pool.
    pub pools: Vec<(IpAddr, IpAddr)>,
    /// First and last address of what a client's tunnels lead to, blocked while no tunnel is up,
    /// and of the family that a full tunnel leaves out.
    pub blocked: Vec<(IpAddr, IpAddr)>,
    /// A full tunnel blocks the local network: nothing is sent to its groups. The value is the mark
    /// of our own datagrams.
    pub shuns_local: Option<u32>,
    /// What else may come unencrypted: messages and tunnel of a mobile node's home agent outside.
    pub in_clear: Vec<String>,
    /// Whether there is a policy to enforce.
    pub guards: bool,
    /// Peers use addresses of their own, and traffic without a tunnel is blocked.
    pub blocks_peers: bool,
    /// Unencrypted traffic from outside is forwarded as well: a connection's policy is "none".
    pub from_outside: bool,
}

/// Why the table cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum NftError {
    /// The program is missing.
    #[error(
        "the program nft is not installed: \
         `apt install nftables` (Debian, Ubuntu) or `dnf install nftables`"
    )]
    Missing,
    /// It cannot be run.
    #[error("cannot run nft: {0}")]
    Run(io::Error),
    /// It refused.
    #[error("nft refuses the table {table}: {text}")]
    Refused {
        /// The table.
        table: String,
        /// Its error text.
        text: String,
    },
    /// The filter of an earlier run stands, and this one would remove it.
    #[error(
        "a packet filter of an earlier run stands, and this file loads none, so this host would be \
         open: `caravan down {0}` removes the filter; then start again"
    )]
    Standing(String),
    /// The footprint cannot be written.
    #[error("cannot record the changes to this host: {0}")]
    Footprint(io::Error),
}

impl Forwarding {
    /// From a configuration.
    pub fn new(name: &str, loaded: &Loaded) -> Self {
        let pools = loaded.engine.pools.iter();
        Self {
            name: name.to_owned(),
            tun: loaded.daemon.tun.clone(),
            publish: loaded.publish.clone(),
            pools: pools.map(|pool| (pool.first, pool.last)).collect(),
            blocked: blocked(loaded),
            shuns_local: shuns_local(loaded),
            in_clear: node::from_agent_outside(loaded),
            guards: !loaded.engine.connections.is_empty(),
            blocks_peers: blocking(loaded).any(|connection| connection.has_bare_peers()),
            from_outside: !loaded.clear.is_empty(),
        }
    }

    /// The table's name.
    pub fn table(&self) -> String {
        // nft accepts every valid connection name ([`crate::control::check_name`]) as it is.
        format!("{PREFIX}{}", self.name)
    }

    /// Whether traffic needs the table to pass. Otherwise it only keeps out spoofed packets.
    pub fn is_needed(&self) -> bool {
        !self.publish.is_empty()
    }

    /// Loads the table and replaces the existing one. Without ports and policy there is none.
    pub fn load(&self, file: &mut FootprintFile) -> Result<(), NftError> {
        self.load_by(&NFT, file)
    }

    fn load_by(&self, programs: &[&str], file: &mut FootprintFile) -> Result<(), NftError> {
        let table = self.table();
        let was_there = file.footprint.nft_tables.contains(&table);
        if self.publish.is_empty() && !self.guards {
            if was_there {
                remove(&table)?;
            }
            return forget(&table, file);
        }
        file.update(|footprint| {
            let _ = footprint.nft_tables.insert(table.clone());
        })
        .map_err(NftError::Footprint)?;
        let loaded = put_by(programs, &table, &self.text(), file);
        if loaded.is_err() && !was_there {
            // It is one transaction: nothing was done that must be undone.
            forget(&table, file)?;
        }
        loaded
    }

    /// The input of `nft -f -`: one transaction.
    fn text(&self) -> String {
        let table = self.table();
        // Declared first, so that deleting the old one cannot fail.
        let mut text = format!("table inet {table}\ndelete table inet {table}\n");
        text += &format!("table inet {table} {{\n");
        self.keep_out(&mut text);
        if let Some(mark) = self.shuns_local {
            self.keep_in(mark, &mut text);
        }
        // With a NAT chain, even an empty one, the kernel tracks every packet of the host.
        if !self.publish.is_empty() {
            self.forward(&mut text);
        }
        text + "  }\n}\n"
    }

    /// Published ports, and the gateway's own address towards their servers.
    fn forward(&self, text: &mut String) {
        let tun = &self.tun;
        *text += "  }\n  chain published {\n    type nat hook prerouting priority dstnat;\n";
        let from = match self.from_outside {
            true => String::new(),
            false => format!("iifname \"{tun}\" "),
        };
        for published in &self.publish {
            let PublishedPort {
                protocol, port, to, ..
            } = published;
            let (nfproto, family) = (nfproto(to.ip()), family(to.ip()));
            let protocol = protocol_word(*protocol);
            let _ = writeln!(
                text,
                "    {from}meta nfproto {nfproto} fib daddr type local {protocol} dport {port} \
                 counter dnat {family} to {to}"
            );
        }
        *text += "  }\n  chain inside {\n    type nat hook postrouting priority srcnat;\n";
        for published in self.publish.iter().filter(|one| one.masquerade) {
            let (ip, port) = (published.to.ip(), published.to.port());
            let (family, protocol) = (family(ip), protocol_word(published.protocol));
            let original = published.port;
            let _ = writeln!(
                text,
                "    ct status dnat {family} daddr {ip} {protocol} dport {port} \
                 ct original proto-dst {original} counter masquerade"
            );
        }
    }

    /// Routes do not decide about groups if the sender names the link.
    fn keep_in(&self, mark: u32, text: &mut String) {
        let tun = &self.tun;
        *text += "  }\n  chain local {\n    type filter hook output priority filter;\n";
        let _ = writeln!(text, "    oifname {{ \"lo\", \"{tun}\" }} accept");
        let _ = writeln!(text, "    meta mark {mark} accept");
        for clear in TO_GROUPS {
            let _ = writeln!(text, "    {clear} accept");
        }
        *text += "    fib daddr type broadcast counter drop\n";
        *text += "    ip daddr { 224.0.0.0/4, 255.255.255.255 } counter drop\n";
        *text += "    ip6 daddr { ff00::/8, fe80::/10 } counter drop\n";
    }

    /// Pool addresses and routed destinations always come out of the tunnel. What is refused while
    /// no tunnel is up does not come in either.
    fn keep_out(&self, text: &mut String) {
        let tun = &self.tun;
        *text += "  chain spoofed {\n    type filter hook prerouting priority raw;\n";
        for (first, last) in &self.pools {
            let family = family(*first);
            let _ = writeln!(
                text,
                "    iifname != \"{tun}\" {family} saddr {first}-{last} counter drop"
            );
        }
        if self.blocks_peers {
            // A peer that is heard before its route exists: the answer would leave unencrypted.
            let _ = writeln!(
                text,
                "    iifname \"{tun}\" fib saddr oifname != \"{tun}\" counter drop"
            );
        }
        if self.guards {
            let _ = writeln!(text, "    iifname \"{tun}\" accept");
            let more = self.in_clear.iter().map(String::as_str);
            for clear in IN_CLEAR.into_iter().chain(more) {
                let _ = writeln!(text, "    {clear} accept");
            }
            let _ = writeln!(text, "    fib saddr oifname \"{tun}\" counter drop");
        }
        for (first, last) in &self.blocked {
            let family = family(*first);
            let _ = writeln!(
                text,
                "    {family} saddr {first}-{last} fib saddr type unreachable counter drop"
            );
        }
        if self.blocks_peers {
            *text += "    fib saddr type unreachable counter drop\n";
        }
    }
}

/// Packets to groups of a blocked local network that are still sent: DHCP and what keeps the link
/// alive.
const TO_GROUPS: [&str; 3] = [
    "udp sport 68 udp dport 67",
    "udp sport 546 udp dport 547",
    "icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert, \
     mld-listener-report, mld2-listener-report, mld-listener-done }",
];

/// Returns the mark if a full tunnel of this configuration blocks the local network.
fn shuns_local(loaded: &Loaded) -> Option<u32> {
    let mut full = loaded.full_tunnels.values();
    let shuns = full.any(|one| one.lan == Lan::Block);
    shuns.then_some(loaded.daemon.fwmark)
}

/// Connections that block traffic without a tunnel.
fn blocking(loaded: &Loaded) -> impl Iterator<Item = &Arc<Connection>> {
    let all = loaded.engine.connections.iter();
    all.filter(|connection| loaded.is_blocking(&connection.name))
}

/// What a client's blocking connections lead to.
fn blocked(loaded: &Loaded) -> Vec<(IpAddr, IpAddr)> {
    let remote = |connection: &Arc<Connection>| {
        let in_tunnels = connection.children.iter();
        let in_tunnels = in_tunnels.filter(|child| child.mode == Mode::Tunnel);
        let selectors = in_tunnels.flat_map(|child| &child.remote);
        let ranges: Vec<_> = selectors.map(|s| (s.first, s.last)).collect();
        let is_bare = connection
            .children
            .iter()
            .any(|c| c.mode == Mode::Transport);
        let gateways = connection.remote_addrs.iter().filter(|_| is_bare);
        let gateways = gateways.map(|address| (address.ip(), address.ip()));
        gateways.chain(ranges).collect::<Vec<_>>()
    };
    let stations = blocking(loaded).filter(|connection| !connection.remote_addrs.is_empty());
    let full = loaded.full_tunnels.values();
    let others = full.filter_map(|one| Some(one.refused()?.ends()));
    let all: BTreeSet<_> = stations.flat_map(remote).chain(others).collect();
    all.into_iter().collect()
}

/// Removes a table. A missing one is not an error.
pub fn remove(table: &str) -> Result<(), NftError> {
    run(
        &NFT,
        table,
        &format!("table inet {table}\ndelete table inet {table}\n"),
    )
}

/// Removes the tables of a footprint that do not outlive their process.
pub fn undo(file: &mut FootprintFile) -> Result<(), NftError> {
    let tables = file.footprint.nft_tables.clone();
    for table in tables.iter().filter(|table| table.starts_with(PREFIX)) {
        remove(table)?;
        forget(table, file)?;
    }
    Ok(())
}

/// Loads a table that the footprint names, and notes how it must stay.
fn put(table: &str, text: &str, file: &mut FootprintFile) -> Result<(), NftError> {
    put_by(&NFT, table, text, file)
}

fn put_by(
    programs: &[&str],
    table: &str,
    text: &str,
    file: &mut FootprintFile,
) -> Result<(), NftError> {
    // Without a listing somebody has just removed it, and the watch finds that.
    let listed = settle(programs, table, text)?.unwrap_or_default();
    let known = Listing::Known(listed);
    file.listings.insert(table.to_owned(), known);
    Ok(())
}

/// The same for a table that is waited for: how it must stay is looked at later, if nftables has
/// not changed by then.
fn put_at_once(table: &str, text: &str, file: &mut FootprintFile) -> Result<(), NftError> {
    let before = watch::generation();
    run(&NFT, table, text)?;
    let own = before.map(|it| it.wrapping_add(1));
    file.listings.insert(table.to_owned(), Listing::Of(own));
    Ok(())
}

/// Loads a table and returns how nft lists it. What another program changes between the two must
/// not count as right: either no generation of nftables came in between, or two listings in a row
/// are the same, each after a load of its own. None if that does not happen.
fn settle(programs: &[&str], table: &str, text: &str) -> Result<Option<String>, NftError> {
    let mut former = None;
    for _ in 0..LOADS_MAX {
        let before = watch::generation();
        run(programs, table, text)?;
        let listed = watch::listing(table);
        let is_alone = before.is_some_and(|it| watch::generation() == Some(it.wrapping_add(1)));
        if listed.is_some() && (is_alone || listed == former) {
            return Ok(listed);
        }
        former = listed;
    }
    Ok(None)
}

fn forget(table: &str, file: &mut FootprintFile) -> Result<(), NftError> {
    file.listings.remove(table);
    let removed = file.update(|footprint| {
        let _ = footprint.nft_tables.remove(table);
    });
    removed.map_err(NftError::Footprint)
}

/// How many unencrypted packets a table has dropped; `None` without a table.
pub fn spoofed(table: &str) -> Option<u64> {
    let arguments = ["-j", "list", "chain", "inet", table, "spoofed"];
    let output = start(&NFT, &arguments).ok()?.wait_with_output().ok()?;
    let listed = serde_json::from_slice(&output.stdout).ok()?;
    output.status.success().then(|| counted(&listed))
}

/// The packet counts of all counters in a listing.
fn counted(listed: &serde_json::Value) -> u64 {
    let rules = listed["nftables"].as_array().into_iter().flatten();
    let statements = rules.filter_map(|one| one["rule"]["expr"].as_array());
    let packets = statements
        .flatten()
        .filter_map(|one| one["counter"]["packets"].as_u64());
    packets.sum()
}

fn start(programs: &[&str], arguments: &[&str]) -> Result<Child, NftError> {
    let start = |program: &&str| {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped());
        match command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
        {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => Some(other),
        }
    };
    let started = programs.iter().find_map(start).ok_or(NftError::Missing)?;
    started.map_err(NftError::Run)
}

fn run(programs: &[&str], table: &str, text: &str) -> Result<(), NftError> {
    let mut child = start(programs, &["-f", "-"])?;
    // nft reports what it cannot read.
    let written = child
        .stdin
        .take()
        .map(|mut input| input.write_all(text.as_bytes()));
    let output = child.wait_with_output().map_err(NftError::Run)?;
    if output.status.success() {
        return written.unwrap_or(Ok(())).map_err(NftError::Run);
    }
    Err(NftError::Refused {
        table: table.to_owned(),
        text: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "ip" } else { "ip6" }
}

fn nfproto(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "ipv4" } else { "ipv6" }
}

fn protocol_word(protocol: Transport) -> &'static str {
    match protocol {
        Transport::Tcp => "tcp",
        Transport::Udp => "udp",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarding() -> Forwarding {
        Forwarding {
            name: "road-1".to_owned(),
            tun: "caravan0".to_owned(),
            publish: vec![
                PublishedPort {
                    protocol: Transport::Tcp,
                    port: 8080,
                    to: "10.10.0.2:80".parse().unwrap(),
                    masquerade: true,
                },
                PublishedPort {
                    protocol: Transport::Udp,
                    port: 53,
                    to: "[fd00::53]:5353".parse().unwrap(),
                    masquerade: true,
                },
            ],
            pools: vec![("10.99.0.1".parse().unwrap(), "10.99.0.9".parse().unwrap())],
            blocked: vec![("fd00::".parse().unwrap(), "fd00::ffff".parse().unwrap())],
            shuns_local: None,
            in_clear: Vec::new(),
            guards: true,
            blocks_peers: false,
            from_outside: false,
        }
    }

    #[test]
    fn groups_of_a_shunned_network_hear_what_keeps_the_link_alive() {
        let mut forwarding = forwarding();
        assert!(!forwarding.text().contains("chain local"));
        forwarding.shuns_local = Some(7);
        let text = forwarding.text();
        let chain = &text[text.find("chain local").unwrap()..];
        let at = |line: &str| {
            chain
                .find(line)
                .unwrap_or_else(|| panic!("{line}\n{chain}"))
        };
        let dropped = at("ip daddr { 224.0.0.0/4, 255.255.255.255 } counter drop");
        assert!(at("meta mark 7 accept") < dropped);
        assert!(at("udp sport 68 udp dport 67 accept") < dropped);
        assert!(at("nd-neighbor-solicit") < at("ip6 daddr { ff00::/8, fe80::/10 } counter drop"));
    }

    #[test]
    fn only_the_tunnel_reaches_a_published_port() {
        let text = forwarding().text();
        let (replace, table) = text.split_at(text.find("table inet caravan_road-1 {").unwrap());
        assert_eq!(
            replace,
            "table inet caravan_road-1\ndelete table inet caravan_road-1\n"
        );
        for line in [
            "iifname != \"caravan0\" ip saddr 10.99.0.1-10.99.0.9 counter drop",
            "    fib saddr oifname \"caravan0\" counter drop",
            "    ip6 saddr fd00::-fd00::ffff fib saddr type unreachable counter drop",
            "iifname \"caravan0\" meta nfproto ipv4 fib daddr type local tcp dport 8080 counter \
             dnat ip to 10.10.0.2:80",
            "iifname \"caravan0\" meta nfproto ipv6 fib daddr type local udp dport 53 counter \
             dnat ip6 to [fd00::53]:5353",
            "ct status dnat ip daddr 10.10.0.2 tcp dport 80 ct original proto-dst 8080 counter \
             masquerade",
        ] {
            assert!(table.contains(line), "{line:?} is not in\n{table}");
        }
    }

    #[test]
    fn where_nft_is_missing_nothing_is_left_to_undo() {
        let runtime = std::env::temp_dir().join(format!("caravan-no-nft-{}", std::process::id()));
        let mut file = FootprintFile::open(&runtime, "road-1").unwrap();
        let missing = forwarding().load_by(&["/nowhere/nft"], &mut file);
        assert!(matches!(missing, Err(NftError::Missing)));
        // It starts and refuses.
        let refused = forwarding().load_by(&["/bin/false"], &mut file);
        assert!(matches!(refused, Err(NftError::Refused { .. })));
        assert!(file.footprint.nft_tables.is_empty());
        assert!(undo(&mut file).is_ok());
        // An existing table is not forgotten.
        let table = forwarding().table();
        file.update(|footprint| {
            let _ = footprint.nft_tables.insert(table.clone());
        })
        .unwrap();
        assert!(forwarding().load_by(&["/nowhere/nft"], &mut file).is_err());
        assert!(file.footprint.nft_tables.contains(&table));
        std::fs::remove_dir_all(&runtime).unwrap();
    }

    #[test]
    fn without_published_ports_no_connection_is_tracked() {
        let mut forwarding = forwarding();
        forwarding.publish.clear();
        let text = forwarding.text();
        assert!(text.contains("chain spoofed"));
        assert!(!text.contains("type nat"), "{text}");
    }

    #[test]
    fn peers_without_a_pool_address_are_spoken_to_through_the_tunnel_alone() {
        let mut forwarding = forwarding();
        let back = "    iifname \"caravan0\" fib saddr oifname != \"caravan0\" counter drop\n";
        let former = "    fib saddr type unreachable counter drop\n";
        let text = forwarding.text();
        assert!(!text.contains(back) && !text.contains(former), "{text}");
        forwarding.blocks_peers = true;
        let text = forwarding.text();
        let accepted = text.find("iifname \"caravan0\" accept").unwrap();
        assert!(
            text.find(back).unwrap() < accepted && text.contains(former),
            "{text}"
        );
    }

    #[test]
    fn counters_of_a_listing_are_added_up() {
        let rule = |packets: u64| {
            serde_json::json!({"rule": {"expr": [
                {"match": {"op": "!="}}, {"counter": {"packets": packets, "bytes": 9}},
                {"drop": null}
            ]}})
        };
        let chain = serde_json::json!({"chain": {"name": "spoofed"}});
        let listed = serde_json::json!({"nftables": [chain, rule(3), rule(4)]});
        assert_eq!(counted(&listed), 7);
        assert_eq!(counted(&serde_json::Value::Null), 0);
    }

    #[test]
    fn the_policy_none_lets_clear_traffic_in() {
        let mut forwarding = forwarding();
        forwarding.from_outside = true;
        forwarding.publish[0].masquerade = false;
        let text = forwarding.text();
        assert!(text.contains("    meta nfproto ipv4 fib daddr type local tcp dport 8080"));
        assert_eq!(text.matches("counter masquerade").count(), 1);
    }
}
