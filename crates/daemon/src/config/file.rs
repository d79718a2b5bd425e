//! The text of a configuration file, key by key. Unknown keys are errors that name the nearest
//! valid one.

mod auth;
mod choices;
mod mistyped;
mod parts;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use document::Fault;
use serde::Serialize;

use super::ConfigError;
use super::firewall::{AccessTable, FirewallTable};
use super::mobility::{
    AgentTable, ForeignAgentTable, HomeAgentTable, MobileNodeTable, MobileTable,
};
use super::radius::RadiusTable;
use super::read::{Keys, Read, ReadTable};
use super::skip::SkipTable;
use super::values::{Size, Span, Transport};
use crate::routes::full::{Lan, OtherFamily};

pub use auth::{Auth, AuthTable, Revocation};
pub use choices::{Childless, Encap, Mode, OnFailure, Start, Unique};

/// A whole file.
#[derive(Debug)]
pub struct ConfigFile {
    /// The process itself.
    pub daemon: DaemonTable,
    /// Peers, by name.
    pub connections: BTreeMap<String, ConnectionTable>,
    /// Inner addresses to lend, by name.
    pub pools: BTreeMap<String, PoolTable>,
    /// Ports of this gateway that are forwarded to servers inside.
    pub publish: Vec<PublishTable>,
    /// Servers that this gateway asks about its peers.
    pub radius: Option<RadiusTable>,
    /// This process is a home agent.
    pub home_agent: Option<HomeAgentTable>,
    /// This process is a foreign agent.
    pub foreign_agent: Option<ForeignAgentTable>,
    /// This process is a mobile node.
    pub mobile: Option<MobileTable>,
    /// This process is the firewall of a mobile private network.
    pub firewall: Option<FirewallTable>,
    /// Who may send through the firewall, by name.
    pub access: BTreeMap<String, AccessTable>,
    /// Our long-term key of SKIP.
    pub skip: Option<SkipTable>,
    /// Mobile nodes, by name: those of a home agent, or those that share keys with a foreign agent.
    pub mobile_nodes: BTreeMap<String, MobileNodeTable>,
    /// Home agents that share keys with us, by name.
    pub home_agents: BTreeMap<String, AgentTable>,
    /// Foreign agents that share keys with us, by name.
    pub foreign_agents: BTreeMap<String, AgentTable>,
    /// Connections that included files have added: they come and go.
    pub included: BTreeSet<String>,
}

impl ReadTable for ConfigFile {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        // A mistyped header is reported before what it was to hold is missed.
        keys.only(&[
            "daemon",
            "connections",
            "pools",
            "publish",
            "radius",
            "home_agent",
            "foreign_agent",
            "mobile",
            "firewall",
            "access",
            "skip",
            "mobile_nodes",
            "home_agents",
            "foreign_agents",
        ])?;
        keys.refuse_table(
            "publish",
            "write [[publish]], with two brackets: there may be several",
        )?;
        if let Some(connections) = keys.item("connections") {
            mistyped::check(connections)?;
        }
        Ok(Self {
            daemon: keys.given("daemon")?,
            connections: keys.given("connections")?,
            pools: keys.given("pools")?,
            publish: keys.given("publish")?,
            radius: keys.given("radius")?,
            home_agent: keys.given("home_agent")?,
            foreign_agent: keys.given("foreign_agent")?,
            mobile: keys.given("mobile")?,
            firewall: keys.given("firewall")?,
            access: keys.given("access")?,
            skip: keys.given("skip")?,
            mobile_nodes: keys.given("mobile_nodes")?,
            home_agents: keys.given("home_agents")?,
            foreign_agents: keys.given("foreign_agents")?,
            included: BTreeSet::new(),
        })
    }
}

impl ConfigFile {
    /// The files that nobody else may read.
    pub fn private_files(&self) -> impl Iterator<Item = &PathBuf> {
        let tables = self.connections.values();
        let own = tables.flat_map(|table| table.remote.users.iter().chain(&table.ppk_file));
        own.chain(self.radius.iter().map(|it| &it.secret_file))
    }

    /// Every file that it names.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let tables = self.connections.values();
        let ppks = tables.clone().filter_map(|table| table.ppk_file.as_ref());
        let ends = tables.flat_map(|table| [&table.local, &table.remote]);
        let of_ends = ends.flat_map(|end| {
            let lists = [&end.certs, &end.cacerts, &end.crls].into_iter().flatten();
            let own = lists.chain(&end.key).chain(&end.secret_file);
            own.chain(&end.users)
        });
        let shared = self.associations().into_iter();
        let shared = shared.filter_map(|(_, it)| it.key_file.as_ref());
        let aaa = self.aaa_keys().into_iter();
        let aaa = aaa.filter_map(|(_, it)| it.key_file.as_ref());
        let of_ends = of_ends.chain(ppks);
        let radius = self.radius.iter().map(|it| &it.secret_file);
        let all = of_ends.chain(shared).chain(aaa).chain(radius);
        all.chain(self.files_of_skip())
    }
}

/// `[daemon]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonTable {
    /// Name of the TUN device.
    pub tun: String,
    /// Firewall mark on our own datagrams. It keeps them out of the routes into the tunnel.
    pub fwmark: u32,
    /// Routing table of the routes into the tunnel.
    pub table: u32,
    /// Limit of half-open exchanges in aggressive mode, which cost public key operations. A quarter
    /// of this number is available in addition for addresses where a client came up lately. Main
    /// mode and IKEv2 share 5000. One address (IPv6: one /64) may have 100 in aggressive mode, and
    /// 100 otherwise. An exchange lasts 30 s, or less if others need its entry.
    pub half_open: usize,
    /// Use the DNS resolvers that come with an inner address, and restore the old ones at the end.
    pub dns: bool,
    /// Lower TCP's maximum segment size to what fits our tunnels. Without it a sender learns that
    /// by ICMP, from packets that are too large.
    pub clamp_mss: bool,
    /// User that the network process changes to after its setup. `--user` takes precedence.
    /// Default, if started as root: the user caravan; if there is no such user it stays root and
    /// warns. "root": stay root without a warning. It keeps no capability in any case.
    pub user: Option<String>,
    /// Folder whose files `*.toml` add connections and pools: a tunnel agent writes one for each
    /// tunnel. Only its owner may write there.
    pub include: Option<PathBuf>,
}

impl Default for DaemonTable {
    fn default() -> Self {
        Self {
            tun: "caravan0".to_owned(),
            // Any number that nothing else on the host uses.
            fwmark: 0x00ca_7a4a,
            // strongSwan uses 220.
            table: 221,
            half_open: 500,
            dns: true,
            clamp_mss: true,
            user: None,
            include: None,
        }
    }
}

impl ReadTable for DaemonTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        let usual = Self::default();
        Ok(Self {
            tun: keys.or("tun", usual.tun)?,
            fwmark: keys.or("fwmark", usual.fwmark)?,
            table: keys.or("table", usual.table)?,
            half_open: keys.or("half_open", usual.half_open)?,
            dns: keys.or("dns", usual.dns)?,
            clamp_mss: keys.or("clamp_mss", usual.clamp_mss)?,
            user: keys.or("user", usual.user)?,
            include: keys.or("include", usual.include)?,
        })
    }
}

/// `[connections.NAME]`
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionTable {
    /// IKE version: 2, or 1, which is deprecated (RFC 9395). A gateway takes either with 0, as the
    /// client begins, and refuses IKEv1 to a client that has used IKEv2 before, over restarts too,
    /// until `caravan forget`. Holders of a pre-shared key that many share are not remembered.
    pub version: u8,
    /// Aggressive mode: three messages, as in the UMTS paper.
    pub aggressive: bool,
    /// Own addresses to use. A client uses the first one that it has and that has a route to the
    /// gateway. Default: any.
    pub local_addrs: Vec<IpAddr>,
    /// Addresses or names of the gateway. Absent: this process is the gateway.
    pub remote_addrs: Vec<String>,
    /// UDP port of the gateway.
    pub remote_port: u16,
    /// Proposals of the IKE SA. Of IKEv2, such as "aes128gcm16-prfsha256-curve25519", or with an
    /// additional key exchange "aes256gcm16-prfsha384-curve25519-ke1_mlkem768"; of IKEv1,
    /// such as "aes128-sha256-modp2048". Default with IKEv1: "aes128-sha256-curve25519",
    /// "aes128-sha256-modp2048", "aes256-sha256-modp3072". A client in aggressive mode offers only
    /// the group of its first proposal; in that mode the default has Curve25519 last.
    pub proposals: Vec<String>,
    /// IKEv2: name of a post-quantum pre-shared key (PPK, RFC 8784), the same at both ends.
    pub ppk_id: Option<String>,
    /// File with that key, which only its owner may read.
    #[serde(skip_serializing)]
    pub ppk_file: Option<PathBuf>,
    /// No tunnel without that key. false: a peer that does not have it is served without it.
    pub ppk_required: bool,
    /// With a peer that can (RFC 9867), that key protects the first IKE SA and the identities too.
    /// Without an additional key exchange it takes one more round trip.
    pub ppk_intermediate: bool,
    /// Ask for inner addresses: "0.0.0.0", "::", or one of each.
    pub vips: Vec<IpAddr>,
    /// IKEv2: domains, such as "corp.example", for which a client takes keys of DNSSEC from its
    /// gateway (RFC 8598), also for domains below them. It writes the keys to a file for a resolver
    /// that validates. With them the gateway can speak for every name of these domains. Default:
    /// none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dnssec_domains: Vec<String>,
    /// `dnssec_domains` may name top-level domains, such as "internal". Only for one that nobody
    /// else has names in (RFC 8598).
    #[serde(skip_serializing)]
    pub dnssec_top_level: bool,
    /// Pools for the inner addresses of peers: one of IPv4, one of IPv6, or both.
    pub pools: Vec<String>,
    /// ESP in UDP. "auto": with every peer that supports NAT traversal (RFC 3947). true: always, or
    /// no tunnel. false: only through a NAT. Otherwise ESP is IP protocol 50, which costs one
    /// system call per packet. AH never uses UDP: if AH is proposed, "auto" means false.
    pub encap: Encap,
    /// Split long IKE messages if the peer supports fragments.
    pub fragmentation: bool,
    /// IKEv2: each end proves itself over both first messages, if the peer does, so who changes
    /// what one end offers must be able to pass for both ends. false: only for a peer that does it
    /// wrongly; a gateway then announces it to nobody who may belong to this connection by address.
    pub full_transcript: bool,
    /// IKEv2: keep the tunnel when an address of either end changes (RFC 4555), if the peer does.
    /// Without it a client that moves sets up a new one, with the same inner address. Default:
    /// true.
    pub mobike: Option<bool>,
    /// IKEv2: a client whose gateway says for how long it is believed (RFC 4478) authenticates
    /// again before that. false: the tunnel ends then. Default: true.
    pub reauth: Option<bool>,
    /// IKEv2: whether a tunnel begins without a child, which then has a key exchange of its own
    /// (RFC 6023). "allow": a client may begin so. "prefer": we begin so if the gateway takes it.
    /// "force": a client begins so or has no tunnel, and a gateway makes every child in an exchange
    /// of its own. "never": we do not begin so, and announce nothing.
    pub childless: Childless,
    /// IKEv2: give the peer a token by which we show, after a crash, that we have lost the tunnel,
    /// and take the peer's (RFC 6290). Then the tunnel is back without a timeout.
    pub crash_detection: bool,
    /// IKEv2: at a client, keep a ticket of the gateway's, and go on with it from a tunnel that was
    /// lost, without signatures, passwords or key exchanges (RFC 5723). At a gateway, give tickets
    /// to clients that ask.
    pub resumption: bool,
    /// IKEv2: where a client lets its gateway send it (RFC 5685): addresses, networks
    /// ("198.51.100.0/24") and names, besides the other addresses in `remote_addrs`. []: nowhere.
    /// The other gateway proves itself as this one does. Default: only where `remote_addrs` says.
    pub redirect: Option<Vec<String>>,
    /// Probe a peer that has been silent for this long; "0": never. Default: "20s" at a client,
    /// "60s" at a gateway. A client that sends but hears nothing probes after 5 s.
    pub dpd_delay: Option<Span>,
    /// Give the peer up if it answers no probe for this long.
    pub dpd_timeout: Span,
    /// Interval of NAT keepalives; "0" turns them off.
    pub keepalive: Span,
    /// Renew the ISAKMP SA after this long. 0 is refused: the SA is always renewed.
    pub rekey_time: Span,
    /// Time from the renewal to the end of the old SA.
    pub over_time: Span,
    /// What happens to an earlier tunnel of the same identity.
    pub unique: Unique,
    /// How many peers may share a pre-shared key at once, if it is for many (`id = "*"`, or a
    /// pattern), and how many users of RADIUS servers may come. Another peer gets no answer until
    /// one leaves.
    pub max_peers: usize,
    /// When the tunnel is set up: as soon as the process runs, or at the first packet for it.
    pub start: Start,
    /// What happens to traffic for the private network without a tunnel, and to traffic for a
    /// gateway's pools while the gateway does not run. "block": refused until `caravan down`.
    /// "pass": it takes the ordinary route, unencrypted.
    pub on_failure: OnFailure,
    /// Local network of a full tunnel (`remote_ts` covers all of IPv4 or all of IPv6). "allow":
    /// private addresses with a route that is not a default route stay reachable, and so do
    /// multicast and broadcast. Networks that `remote_ts` names, the gateway's resolvers and DNS
    /// queries to port 53 stay in the tunnel; of a resolver in a network of this host only DNS
    /// does. DNS over TLS (port 853) to another local resolver does not. "block": everything except
    /// DHCP enters the tunnel or is refused.
    pub lan: Lan,
    /// Other address family of a full tunnel that carries one family only. "block": refused unless
    /// a selector names it, also if `on_failure` is "pass". "pass": unencrypted.
    pub other_family: OtherFamily,
    /// Allow DES, 3DES, MD5, groups 1, 2 and 5, ESP without integrity, and aggressive PSK.
    pub legacy: bool,
    /// IKEv2: sign with RSA and SHA-1, and believe it, where the peer announces no hashes for
    /// signatures. Windows and Apple's systems announce none. `legacy` allows it, too.
    pub rsa_sha1: bool,
    /// How we identify ourselves.
    pub local: AuthTable,
    /// Which peers we accept.
    pub remote: AuthTable,
    /// Which traffic is protected, by name.
    pub children: BTreeMap<String, ChildTable>,
}

impl ReadTable for ConnectionTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            version: keys.or("version", 2)?,
            aggressive: keys.or("aggressive", false)?,
            local_addrs: keys.given("local_addrs")?,
            remote_addrs: keys.given("remote_addrs")?,
            remote_port: keys.or("remote_port", 500)?,
            proposals: keys.given("proposals")?,
            ppk_id: keys.given("ppk_id")?,
            ppk_file: keys.given("ppk_file")?,
            ppk_required: keys.or("ppk_required", true)?,
            ppk_intermediate: keys.or("ppk_intermediate", true)?,
            vips: keys.given("vips")?,
            dnssec_domains: keys.given("dnssec_domains")?,
            dnssec_top_level: keys.given("dnssec_top_level")?,
            pools: keys.given("pools")?,
            encap: keys.given("encap")?,
            fragmentation: keys.or("fragmentation", true)?,
            full_transcript: keys.or("full_transcript", true)?,
            mobike: keys.given("mobike")?,
            reauth: keys.given("reauth")?,
            childless: keys.given("childless")?,
            crash_detection: keys.or("crash_detection", false)?,
            resumption: keys.or("resumption", false)?,
            redirect: keys.given("redirect")?,
            dpd_delay: keys.given("dpd_delay")?,
            // Five probes, two seconds apart.
            dpd_timeout: keys.or("dpd_timeout", Span::seconds(10))?,
            // The default of RFC 3948 §4.
            keepalive: keys.or("keepalive", Span::seconds(20))?,
            // As in swanctl.
            rekey_time: keys.or("rekey_time", Span::seconds(14_400))?,
            // A tenth of the above, as in swanctl.
            over_time: keys.or("over_time", Span::seconds(1_440))?,
            unique: keys.given("unique")?,
            max_peers: keys.or("max_peers", engine::config::PEERS_MAX)?,
            start: keys.given("start")?,
            on_failure: keys.given("on_failure")?,
            lan: keys.given("lan")?,
            other_family: keys.given("other_family")?,
            legacy: keys.or("legacy", false)?,
            rsa_sha1: keys.or("rsa_sha1", false)?,
            local: keys.needed(
                "local",
                "who we are, such as local = { certs = [\"own.pem\"], key = \"own.key\" }",
            )?,
            remote: keys.needed(
                "remote",
                "which peers we accept, such as remote = { cacerts = [\"ca.pem\"], id = \
                 \"sg.example\" }",
            )?,
            children: keys.needed(
                "children",
                "what is protected, a table [connections.NAME.children.NAME]",
            )?,
        })
    }
}

impl ConnectionTable {
    /// Whether both ends prove themselves within TLS alone (RFC 5998).
    pub fn is_eap_only(&self) -> bool {
        self.local.auth == Auth::EapTls && self.remote.auth == Auth::EapTls
    }
}

/// `[connections.NAME.children.NAME]`
#[derive(Clone, Debug, Serialize)]
pub struct ChildTable {
    /// "tunnel": between networks or inner addresses. "transport": between the two ends alone.
    pub mode: Mode,
    /// Traffic selectors of our side, such as "10.10.0.0/24", "10.10.0.1-10.10.0.9[udp/53]" or
    /// "10.10.0.7[tcp/1000-2000]"; IKEv1 has no ranges of ports. A client of IKEv2
    /// names 32 at most on each side. Default: our inner address.
    pub local_ts: Vec<String>,
    /// Traffic selectors of the peer's side. Default: its inner address.
    pub remote_ts: Vec<String>,
    /// ESP proposals, such as "aes128gcm16-modp2048". "none" alone: no IPsec, traffic unencrypted.
    /// Default, without `ah_proposals`: "aes128gcm16" and "aes128-sha256", both first with
    /// "-curve25519", then with "-modp2048", then without PFS. A group means PFS. IKEv2 takes every
    /// key exchange of an IKE SA, such as "aes256gcm16-curve25519-ke1_mlkem768", and by default
    /// prefers 64-bit sequence numbers, "-esn" ("Partially Transmitted 64-bit Sequential Numbers"
    /// in RFC 9827; without it "32-bit Sequential Numbers"). A client of IKEv1 offers one group at
    /// a time. Curve25519 is last if phase 1 uses another group and a MODP group is here too. A
    /// gateway of IKEv2 also accepts "aes256gcm16" and "aes256-sha256".
    pub esp_proposals: Vec<String>,
    /// AH proposals, such as "sha256-modp2048".
    pub ah_proposals: Vec<String>,
    /// Two layers: each packet is sealed by ESP, and again by AH. Needs both lists, and no NAT on
    /// the way. Otherwise a packet has one of them, whichever is agreed.
    pub ah_around_esp: bool,
    /// Renew the SAs after this long. 0 is refused: they are always renewed.
    pub rekey_time: Span,
    /// Time from the renewal to the end of the old SAs.
    pub over_time: Span,
    /// Renew after this many bytes.
    pub rekey_bytes: Option<Size>,
    /// Renew after this many packets.
    pub rekey_packets: Option<u64>,
    /// Size of the replay window in packets, 64 to 4096. 0 turns replay protection off.
    pub replay_window: u32,
    /// Largest outer packet at the start.
    pub mtu: u16,
}

impl ChildTable {
    /// Whether it has those that are the default.
    pub fn names_no_proposals(&self) -> bool {
        self.esp_proposals.is_empty() && self.ah_proposals.is_empty()
    }
}

impl ReadTable for ChildTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            mode: keys.given("mode")?,
            local_ts: keys.given("local_ts")?,
            remote_ts: keys.given("remote_ts")?,
            esp_proposals: keys.given("esp_proposals")?,
            ah_proposals: keys.given("ah_proposals")?,
            ah_around_esp: keys.or("ah_around_esp", false)?,
            rekey_time: keys.or("rekey_time", Span::seconds(3_600))?,
            over_time: keys.or("over_time", Span::seconds(360))?,
            rekey_bytes: keys.given("rekey_bytes")?,
            rekey_packets: keys.given("rekey_packets")?,
            // Wide enough for the reordering of two packet threads and a long fat link.
            replay_window: keys.or("replay_window", 1_024)?,
            mtu: keys.or("mtu", 1_500)?,
        })
    }
}

/// `[pools.NAME]`
#[derive(Debug)]
pub struct PoolTable {
    /// A subnet or a range, such as "10.99.0.0/24" or "10.99.0.10-10.99.0.20".
    pub addrs: String,
    /// DNS resolvers that a client gets with its address.
    pub dns: Vec<IpAddr>,
    /// Domains, such as "corp.example": a client of IKEv2 asks `dns` for names below them alone,
    /// and its own resolvers for others (RFC 8598). Clients that cannot do that ask for all names.
    /// Default: all names.
    pub domains: Vec<String>,
    /// Keys of DNSSEC for some of `domains`, each as a DS record, such as
    /// "corp.example 43547 13 2 DIGEST" with the digest in hexadecimal. A client of IKEv2 that asks
    /// for keys gets them (`dnssec_domains`).
    pub dnssec_ta: Vec<String>,
}

impl ReadTable for PoolTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            addrs: keys.needed("addrs", "write one, such as addrs = \"10.99.0.0/24\"")?,
            dns: keys.given("dns")?,
            domains: keys.given("domains")?,
            dnssec_ta: keys.given("dnssec_ta")?,
        })
    }
}

/// `[[publish]]`
#[derive(Debug)]
pub struct PublishTable {
    /// Protocol of the port.
    pub protocol: Transport,
    /// Port on the gateway's own address.
    pub port: u16,
    /// The server inside, such as "10.10.0.2:80".
    pub to: SocketAddr,
    /// true: the server sees the gateway's address. false: it sees the client's pool address, and
    /// needs a route to the pool through the gateway.
    pub masquerade: bool,
}

impl ReadTable for PublishTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            protocol: keys.given("protocol")?,
            port: keys.needed("port", "a port of the gateway, such as port = 80")?,
            to: keys.needed("to", "the server inside, such as to = \"10.10.0.2:80\"")?,
            masquerade: keys.or("masquerade", true)?,
        })
    }
}

/// Reads the text of a file.
pub fn parse(path: &Path, text: &str) -> Result<ConfigFile, ConfigError> {
    let found = document::parse("", text).and_then(|item| ConfigFile::read(&item));
    found.map_err(|fault| ConfigError::of_fault(path, fault))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINIMAL: &str = r#"
[connections.home]
remote_addrs = ["192.0.2.1"]
local = { certs = ["ms.pem"], key = "ms.key" }
remote = { cacerts = ["ca.pem"], id = "sg.example" }
[connections.home.children.net]
remote_ts = ["10.10.0.0/24"]
"#;

    #[test]
    fn a_minimal_client_file_is_enough() {
        let file = parse(Path::new("client.toml"), MINIMAL).unwrap();
        let home = &file.connections["home"];
        assert_eq!(home.start, Start::AtOnce);
        assert_eq!(home.on_failure, OnFailure::Block);
        assert_eq!(home.children["net"].mode, Mode::Tunnel);
    }

    #[test]
    fn a_file_that_is_shown_keeps_its_secret() {
        let text = MINIMAL.replace("id = \"sg.example\"", "id = \"sg\", secret = \"hushed\"");
        let file = parse(Path::new("client.toml"), &text).unwrap();
        let secret = file.connections["home"].remote.secret.as_ref();
        assert_eq!(secret.unwrap().as_bytes(), b"hushed");
        assert!(!format!("{file:?}").contains("hushed"));
    }

    #[test]
    fn an_unknown_key_names_the_nearest_valid_one_and_its_line() {
        let text = MINIMAL.replace("remote_ts", "remote_tx");
        let error = parse(Path::new("client.toml"), &text)
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 7"), "{error}");
        assert!(error.contains("unknown key 'remote_tx'"), "{error}");
        assert!(error.contains("'remote_ts'"), "{error}");
    }

    #[test]
    fn a_time_span_without_unit_is_refused_with_an_example() {
        let text = MINIMAL.replace(
            "[connections.home.children",
            "dpd_delay = \"30\"\n[connections.home.children",
        );
        let error = parse(Path::new("client.toml"), &text)
            .unwrap_err()
            .to_string();
        assert!(error.contains("90s"), "{error}");
    }

    fn said(text: &str) -> String {
        parse(Path::new("x.toml"), text).unwrap_err().to_string()
    }

    const SIDES: &str = "local = { id = \"a\" }\nremote = { id = \"b\" }\n";

    #[test]
    fn a_wrong_value_is_told_with_its_key_and_in_words() {
        for (text, wanted) in [
            (
                "[[publish]]\nport = 70000\nto = \"10.0.0.1:80\"".to_owned(),
                "x.toml: line 2: publish.0.port: 70000 is outside 0 to 65535",
            ),
            (
                "[publish]\nport = 80\nto = \"10.0.0.1:80\"".to_owned(),
                "publish: write [[publish]], with two brackets",
            ),
            (
                "[[publish]]\nport = 80\nto = \"10.0.0.1\"".to_owned(),
                "line 3: publish.0.to: \"10.0.0.1\" is not ADDRESS:PORT, such as",
            ),
            (
                "[daemon]\ndns = \"yes\"".to_owned(),
                "line 2: daemon.dns: must be true or false, found text",
            ),
            (
                format!("[connections.x]\n{SIDES}[connections.x.children.n]\nmode = \"tunel\""),
                "line 5: connections.x.children.n.mode: unknown value 'tunel', the \
                 nearest valid one is 'tunnel'",
            ),
            (
                format!("[connections.x]\n{SIDES}vips = [\"any\"]\n[connections.x.children.n]"),
                "connections.x.vips.0: \"any\" is not an address",
            ),
            (
                format!("[connections.x]\n{SIDES}remote_port = 0x1ffff"),
                "connections.x.remote_port: 131071 is outside 0 to 65535",
            ),
            (
                format!("[connections.x]\n{SIDES}dpd_delay = 20"),
                "connections.x.dpd_delay: 20 has no unit: write a number and its unit, such",
            ),
            (
                format!("[connections.x]\n{SIDES}dpd_delay = 0"),
                "connections.x.dpd_delay: 0 has no unit: write a number and its unit, such",
            ),
            (
                "[connections.\"\\u001b[31mRED\"]\nlocal = { id = \"a\" }".to_owned(),
                "x.toml: line 1: connections.\\u{1b}[31mRED: the key 'remote' is missing",
            ),
            (
                "[connections.x]\nlocal = 5".to_owned(),
                "connections.x.local: must be a table, found a whole number",
            ),
            (
                "[connections.x]\nremote = {}\n[connections.x.children.n]".to_owned(),
                "'local' is missing: who we are, such as local = {",
            ),
        ] {
            let said = said(&text);
            assert!(said.contains(wanted), "{said}\nwanted {wanted}");
        }
    }

    #[test]
    fn a_mistyped_header_is_told_before_what_it_was_to_hold() {
        let text = format!(
            "[connectons.x]\n{SIDES}[connections.x.children.n]\nremote_ts = [\"10.0.0.0/8\"]"
        );
        let wanted = "line 1: connectons: unknown key 'connectons', the nearest valid one is \
                      'connections'";
        assert!(said(&text).contains(wanted), "{}", said(&text));
        assert!(said("[zebra]").contains("valid are 'daemon', 'connections'"));
        let whole = format!("[connections.laptop]\n{SIDES}");
        for (header, wanted) in [
            (
                "connections.laptop.childs.net",
                "line 4: connections.laptop.childs: did you mean 'children'? That key is missing",
            ),
            (
                "connections.laptpo.children.net",
                "line 4: connections.laptpo: it has nothing but children; did you mean \
                 connections.laptop?",
            ),
            (
                "connections.work.children.net",
                "line 4: connections.work: it has nothing but children; did you mean \
                 connections.laptop?",
            ),
            (
                "connections.laptop.version",
                "line 4: connections.laptop.version: must be a whole number, found a table",
            ),
            (
                "connections.laptop.zebra",
                "line 1: connections.laptop: the key 'children' is missing",
            ),
        ] {
            let said = said(&format!("{whole}[{header}]\n"));
            assert!(said.contains(wanted), "{said}");
        }
    }
}
