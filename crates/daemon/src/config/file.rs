//! The text of a configuration file, key by key. Unknown keys are errors that name the nearest
//! valid one.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ConfigError;
use super::explain::{explain, strange_table};
use super::values::{SecretText, Size, Span};

/// A whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigFile {
    /// The process itself.
    #[serde(default)]
    pub daemon: DaemonTable,
    /// Peers, by name.
    #[serde(default)]
    pub connections: BTreeMap<String, ConnectionTable>,
    /// Inner addresses to lend, by name.
    #[serde(default)]
    pub pools: BTreeMap<String, PoolTable>,
    /// Ports of this gateway that are forwarded to servers inside.
    #[serde(default)]
    pub publish: Vec<PublishTable>,
}

impl ConfigFile {
    /// Every file that it names.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let tables = self.connections.values();
        let ends = tables.flat_map(|table| [&table.local, &table.remote]);
        ends.flat_map(|end| {
            let lists = [&end.certs, &end.cacerts, &end.crls].into_iter().flatten();
            lists.chain(&end.key).chain(&end.secret_file)
        })
    }
}

/// `[daemon]`
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DaemonTable {
    /// Name of the TUN device.
    pub tun: String,
    /// Firewall mark on our own datagrams. It keeps them out of the routes into the tunnel.
    pub fwmark: u32,
    /// Routing table of the routes into the tunnel.
    pub table: u32,
    /// Limit of half-open exchanges in aggressive mode, which cost public key operations. A quarter
    /// as many more are reserved for addresses where a client came up lately. Main mode has 5000.
    /// One address (IPv6: one /64) may have 100 in each mode. An exchange lasts 30 s, or less if
    /// others need its room.
    pub half_open: usize,
    /// Use the DNS resolvers that come with an inner address, and restore the old ones at the end.
    pub dns: bool,
    /// User that the network process changes to after its setup. `--user` takes precedence.
    /// Default, if started as root: the user caravan; if there is no such user it stays root and
    /// warns. "root": stay root without a warning. It keeps no capability in any case.
    pub user: Option<String>,
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
            user: None,
        }
    }
}

/// `[connections.NAME]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionTable {
    /// IKE version; 1 is deprecated (RFC 9395).
    #[serde(default = "one")]
    pub version: u8,
    /// Aggressive mode: three messages, as in the UMTS paper.
    #[serde(default)]
    pub aggressive: bool,
    /// Own addresses to use. A client uses the first one that it has and that has a route to the
    /// gateway. Default: any.
    #[serde(default)]
    pub local_addrs: Vec<IpAddr>,
    /// Addresses or names of the gateway. Absent: this process is the gateway.
    #[serde(default)]
    pub remote_addrs: Vec<String>,
    /// UDP port of the gateway.
    #[serde(default = "ike_port")]
    pub remote_port: u16,
    /// Phase 1 proposals, such as "aes128-sha256-modp2048". Default: "aes128-sha256-curve25519",
    /// "aes128-sha256-modp2048", "aes256-sha256-modp3072". A client in aggressive mode offers only
    /// the group of its first proposal; in that mode Curve25519 is the last of the default.
    #[serde(default)]
    pub proposals: Vec<String>,
    /// Ask for inner addresses: "0.0.0.0", "::", or one of each.
    #[serde(default)]
    pub vips: Vec<IpAddr>,
    /// Pools for the inner addresses of peers: one of IPv4, one of IPv6, or both.
    #[serde(default)]
    pub pools: Vec<String>,
    /// ESP in UDP. "auto": with every peer that supports NAT traversal (RFC 3947). true: always, or
    /// no tunnel. false: only through a NAT. Otherwise ESP is IP protocol 50, which costs one
    /// system call per packet. AH never uses UDP: if AH is proposed, "auto" means false.
    #[serde(default)]
    pub encap: Encap,
    /// Split long IKE messages if the peer supports fragments.
    #[serde(default = "yes")]
    pub fragmentation: bool,
    /// Probe a peer that has been silent for this long; "0": never. Default: "20s" at a client,
    /// "60s" at a gateway. A client that sends and receives nothing probes after 5 s.
    pub dpd_delay: Option<Span>,
    /// Give the peer up if it answers no probe for this long.
    #[serde(default = "dpd_timeout")]
    pub dpd_timeout: Span,
    /// Interval of NAT keepalives; "0" turns them off.
    #[serde(default = "keepalive")]
    pub keepalive: Span,
    /// Renew the ISAKMP SA after this long. 0 is refused: the SA is always renewed.
    #[serde(default = "rekey_time")]
    pub rekey_time: Span,
    /// Time from the renewal to the end of the old SA.
    #[serde(default = "over_time")]
    pub over_time: Span,
    /// What happens to an earlier tunnel of the same identity.
    #[serde(default)]
    pub unique: Unique,
    /// How many peers may share a pre-shared key at once, if it is for many (`id = "*"`, or a
    /// pattern). Another peer gets no answer until one leaves.
    #[serde(default = "max_peers")]
    pub max_peers: usize,
    /// When the tunnel is set up: as soon as the process runs, or at the first packet for it.
    #[serde(default)]
    pub start: Start,
    /// What happens to traffic for the private network without a tunnel, and to traffic for a
    /// gateway's pools while the gateway does not run. "block": refused until `caravan down`.
    /// "pass": it takes the ordinary route, unencrypted.
    #[serde(default)]
    pub on_failure: OnFailure,
    /// Local network of a full tunnel (`remote_ts` covers all of IPv4 or all of IPv6). "allow":
    /// private addresses with a route that is not a default route stay reachable, and so do
    /// multicast and broadcast. Networks that `remote_ts` names, the gateway's resolvers and DNS
    /// queries to port 53 stay in the tunnel; DNS over TLS (port 853) to a local resolver does not.
    /// "block": everything except DHCP enters the tunnel or is refused.
    #[serde(default)]
    pub lan: Lan,
    /// Other address family of a full tunnel that carries one family only. "block": refused unless
    /// a selector names it, also if `on_failure` is "pass". "pass": unencrypted.
    #[serde(default)]
    pub other_family: OtherFamily,
    /// Allow DES, 3DES, MD5, groups 1, 2 and 5, ESP without integrity, and aggressive PSK.
    #[serde(default)]
    pub legacy: bool,
    /// How we identify ourselves.
    pub local: AuthTable,
    /// Which peers we accept.
    pub remote: AuthTable,
    /// Which traffic is protected, by name.
    pub children: BTreeMap<String, ChildTable>,
}

/// `local` and `remote`
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthTable {
    /// "pubkey" or "psk".
    pub auth: Auth,
    /// Certificate files. `local`: ours, then intermediates. `remote`: the peers' own certificates;
    /// then only these are accepted, whatever `cacerts` says.
    #[serde(skip_serializing)]
    pub certs: Vec<PathBuf>,
    /// Our private key.
    #[serde(skip_serializing)]
    pub key: Option<PathBuf>,
    /// Authorities that may have issued the peer's certificate.
    #[serde(skip_serializing)]
    pub cacerts: Vec<PathBuf>,
    /// Certificate revocation lists (CRLs).
    #[serde(skip_serializing)]
    pub crls: Vec<PathBuf>,
    /// When a peer is refused because its authority has no current CRL. "strict": always. "ifcrl":
    /// if `crls` names a CRL of that authority. "relaxed": never. Revoked peers are always refused.
    #[serde(skip_serializing)]
    pub revocation: Revocation,
    /// Identity: an address, a name, user@name or a subject. `remote`: "*" accepts any.
    pub id: Option<String>,
    /// The pre-shared key itself; or use `secret_file`. If only one side has a key, both use it.
    #[serde(skip_serializing)]
    pub secret: Option<SecretText>,
    /// File with the pre-shared key.
    #[serde(skip_serializing)]
    pub secret_file: Option<PathBuf>,
}

/// Shows the identity and leaves out the secret.
impl fmt::Debug for AuthTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("AuthTable");
        shown.field("auth", &self.auth).field("id", &self.id);
        shown.finish_non_exhaustive()
    }
}

/// How a side proves its identity.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// RSA signatures and certificates.
    #[default]
    Pubkey,
    /// A pre-shared key.
    Psk,
}

/// What a missing CRL means.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Revocation {
    /// Refuse.
    Strict,
    /// Refuse if `crls` names a CRL of the issuer that is not current.
    #[default]
    Ifcrl,
    /// Accept.
    Relaxed,
}

/// `[connections.NAME.children.NAME]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ChildTable {
    /// "tunnel" or "transport".
    #[serde(default)]
    pub mode: Mode,
    /// Traffic selectors of our side. Default: our inner address.
    #[serde(default)]
    pub local_ts: Vec<String>,
    /// Traffic selectors of the peer's side. Default: its inner address.
    #[serde(default)]
    pub remote_ts: Vec<String>,
    /// ESP proposals, such as "aes128gcm16-modp2048". "none" alone: no IPsec, traffic unencrypted.
    /// Default, without `ah_proposals`: "aes128gcm16" and "aes128-sha256", both first with
    /// "-curve25519", then with "-modp2048", then without PFS. A group means PFS. A client offers
    /// one group at a time. Curve25519 is last if phase 1 uses another group and a MODP group is
    /// here too.
    #[serde(default)]
    pub esp_proposals: Vec<String>,
    /// AH proposals, such as "sha256-modp2048".
    #[serde(default)]
    pub ah_proposals: Vec<String>,
    /// Renew the SAs after this long. 0 is refused: they are always renewed.
    #[serde(default = "child_rekey_time")]
    pub rekey_time: Span,
    /// Time from the renewal to the end of the old SAs.
    #[serde(default = "child_over_time")]
    pub over_time: Span,
    /// Renew after this many bytes.
    pub rekey_bytes: Option<Size>,
    /// Renew after this many packets.
    pub rekey_packets: Option<u64>,
    /// Size of the replay window in packets, 64 to 4096. 0 turns replay protection off.
    #[serde(default = "replay_window")]
    pub replay_window: u32,
    /// Largest outer packet at the start.
    #[serde(default = "path_mtu")]
    pub mtu: u16,
}

/// Tunnel or transport.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Whole packets.
    #[default]
    Tunnel,
    /// The payload of the IP packet.
    Transport,
}

/// `encap`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Encap {
    /// In UDP with every peer that supports RFC 3947.
    #[default]
    Auto,
    /// In UDP, or no tunnel.
    Always,
    /// In UDP only through a NAT.
    ThroughNat,
}

/// `start`
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// When `caravan up` runs.
    #[default]
    AtOnce,
    /// At the first packet that matches.
    OnTraffic,
}

/// `unique`
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Unique {
    /// The new tunnel replaces the old one.
    #[default]
    Replace,
    /// Both stay.
    Keep,
}

/// `on_failure`
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// Unreachable routes stay until `caravan down`.
    #[default]
    Block,
    /// Traffic takes the ordinary route.
    Pass,
}

/// `lan`
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Lan {
    /// Printers, containers and administrators of this host stay reachable. Only private addresses:
    /// a network that declares public addresses local would pull them out of the tunnel.
    #[default]
    Allow,
    /// Into the tunnel, or refused.
    Block,
}

/// `other_family`
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum OtherFamily {
    /// Refused. Programs prefer IPv6, and would bypass a tunnel of IPv4.
    #[default]
    Block,
    /// Traffic takes the ordinary route.
    Pass,
}

/// `[pools.NAME]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolTable {
    /// A subnet or a range, such as "10.99.0.0/24" or "10.99.0.10-10.99.0.20".
    pub addrs: String,
    /// DNS resolvers that a client gets with its address.
    #[serde(default)]
    pub dns: Vec<IpAddr>,
}

/// `[[publish]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishTable {
    /// "tcp" or "udp".
    #[serde(default)]
    pub protocol: Transport,
    /// Port on the gateway's own address.
    pub port: u16,
    /// The server inside, such as "10.10.0.2:80".
    pub to: std::net::SocketAddr,
    /// true: the server sees the gateway's address. false: it sees the client's pool address, and
    /// needs a route to the pool through the gateway.
    #[serde(default = "yes")]
    pub masquerade: bool,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// Reads the text of a file.
pub fn parse(path: &Path, text: &str) -> Result<ConfigFile, ConfigError> {
    let syntax = |text| ConfigError::Syntax {
        path: path.to_owned(),
        text,
    };
    if let Some(strange) = strange_table(text) {
        return Err(syntax(strange));
    }
    toml::from_str(text).map_err(|error| syntax(explain(text, &error)))
}

fn one() -> u8 {
    1
}

fn yes() -> bool {
    true
}

fn ike_port() -> u16 {
    500
}

fn seconds(seconds: u64) -> Span {
    Span(core::time::Duration::from_secs(seconds))
}

fn dpd_timeout() -> Span {
    // Five probes, two seconds apart.
    seconds(10)
}

fn keepalive() -> Span {
    // The default of RFC 3948 §4.
    seconds(20)
}

fn rekey_time() -> Span {
    // As in swanctl.
    seconds(14_400)
}

fn over_time() -> Span {
    // A tenth of the above, as in swanctl.
    seconds(1_440)
}

fn child_rekey_time() -> Span {
    seconds(3_600)
}

fn child_over_time() -> Span {
    seconds(360)
}

fn max_peers() -> usize {
    engine::config::PEERS_MAX
}

fn replay_window() -> u32 {
    // Wide enough for the reordering of two packet threads and a long fat link.
    1_024
}

fn path_mtu() -> u16 {
    1_500
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
}
