//! The content of `caravan status`, as data. [`text`] renders it for people.
//!
//! The field names are the keys of `caravan status --json` and are stable: keys may be added, but
//! never renamed or removed. Times are seconds, sizes bytes; absent values are `null`.

pub mod convert;
mod mobility;
pub mod text;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use engine::ikev2::ppk::PpkExchange;
use serde::{Deserialize, Serialize};

pub use mobility::{
    BindingStatus, EntryStatus, MobilityStatus, OutsideStatus, RefusalStatus, VisitorStatus,
};

/// The state of a process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// The process itself.
    pub process: ProcessStatus,
    /// Every connection of the configuration, in its order.
    pub connections: Vec<ConnectionStatus>,
    /// Address pools.
    pub pools: Vec<PoolStatus>,
    /// Servers of RADIUS, the preferred ones first.
    #[serde(default)]
    pub radius: Vec<RadiusStatus>,
    /// The gateway to which clients are sent, if they are.
    #[serde(default)]
    pub draining: Option<String>,
    /// Exchanges of phase 1 in progress.
    pub half_open: u64,
    /// The count of every reason to drop a packet or message, including zeros.
    pub drops: BTreeMap<String, u64>,
    /// Cryptographic operations, by algorithm.
    pub work: Vec<WorkStatus>,
    /// The part in Mobile IPv4.
    #[serde(default)]
    pub mobility: Option<MobilityStatus>,
    /// Warnings, as sentences.
    pub warnings: Vec<String>,
}

/// The process itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Version of the program.
    pub version: String,
    /// Process number.
    pub pid: u32,
    /// "gateway", "client", "mobile node", "home agent", "foreign agent" or "firewall".
    pub role: String,
    /// Time since the start.
    pub uptime_s: f64,
    /// The configuration's path.
    pub config: String,
    /// Name of the TUN device.
    pub tun: String,
    /// Offloads of devices and sockets.
    pub offloads: Vec<OffloadStatus>,
    /// Where packets and keys are recorded, if they are.
    pub capture: Option<String>,
    /// Capabilities that this process may use; it drops all of them before it begins.
    pub capabilities: Vec<String>,
    /// Other restrictions, and what this kernel lacks for them.
    #[serde(default)]
    pub confined: Vec<String>,
    /// Process number of the host steward, which is the only one to change this host.
    #[serde(default)]
    pub steward: Option<u32>,
    /// Its capabilities and restrictions.
    #[serde(default)]
    pub steward_confined: Vec<String>,
    /// Requests that it refused because the configuration does not name them.
    #[serde(default)]
    pub refused_requests: u64,
    /// Tables of nftables that another program had removed or changed, and that the steward has put
    /// back.
    #[serde(default)]
    pub tables_put_back: u64,
    /// Rules and blocking routes that another program had removed, and that the steward has put
    /// back.
    #[serde(default)]
    pub entries_put_back: u64,
    /// Whether addresses, routes, blocks or resolvers that the tunnels need are still being set.
    #[serde(default)]
    pub is_setting_up: bool,
    /// Resident bytes of this process.
    pub resident_bytes: u64,
}

/// An offload and whether the kernel has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OffloadStatus {
    /// "tun vnet header", "udp gso" and so on.
    pub name: String,
    /// In use; otherwise packets are handled one by one.
    pub in_force: bool,
    /// Why not, if known.
    pub reason: Option<String>,
}

/// A connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// Its key in the configuration.
    pub name: String,
    /// How far it is.
    pub state: ConnectionState,
    /// "IKEv1", "IKEv2", or "IKEv2 or IKEv1".
    pub version: String,
    /// The status of IKEv1: "deprecated, RFC 9395".
    pub deprecated: Option<String>,
    /// Whether the configuration permits insecure algorithms.
    pub legacy: bool,
    /// Traffic for its networks is refused while no tunnel carries it.
    pub blocks: bool,
    /// No IPsec by configuration: traffic is unencrypted.
    pub clear: bool,
    /// For a client: why the last attempt failed, until one succeeds.
    #[serde(default)]
    pub last_failure: Option<String>,
    /// For a client: why the last tunnel ended, until there is another.
    #[serde(default)]
    pub last_end: Option<String>,
    /// For a client that waits: the time until its next attempt.
    #[serde(default)]
    pub retry_in_s: Option<f64>,
    /// For a client: why this host could not send the last message to its gateway, or has no route
    /// there.
    #[serde(default)]
    pub cannot_send: Option<String>,
    /// For a client that is up: the gateway's resolvers that this host asks.
    #[serde(default)]
    pub dns: Vec<IpAddr>,
    /// For a client that is up: keys of DNSSEC that the gateway has given, as DS records.
    #[serde(default)]
    pub trust_anchors: Vec<String>,
    /// The file with them.
    #[serde(default)]
    pub trust_anchor_file: Option<String>,
    /// For a client that is up: children that are not up, and where they lead.
    #[serde(default)]
    pub missing: Vec<String>,
    /// For a client that is up: children that are up, and what the gateway does not protect of what
    /// they ask for, or only in part.
    #[serde(default)]
    pub narrowed: Vec<String>,
    /// For a client whose gateway has several addresses: those that are not used, and why.
    #[serde(default)]
    pub passed_over: Vec<String>,
    /// The peer that has connected last, also if it is gone.
    #[serde(default)]
    pub last_peer: Option<SocketAddr>,
    /// Phase 1 SAs, established or in progress.
    pub sessions: Vec<SessionStatus>,
}

/// How far a connection is. The words in JSON are also those for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConnectionState {
    /// A session has a child that can carry packets.
    #[serde(rename = "established")]
    Established,
    /// No peer has a tunnel yet.
    #[serde(rename = "listening")]
    Listening,
    /// A client that the user took down.
    #[default]
    #[serde(rename = "down")]
    Down,
    /// A client that waits for the first packet.
    #[serde(rename = "awaiting traffic")]
    AwaitingTraffic,
    /// A client that no address of its own leads to the gateway from yet.
    #[serde(rename = "awaiting an address")]
    AwaitingAddress,
    /// A client whose attempt is in progress.
    #[serde(rename = "connecting")]
    Connecting,
    /// A client that was up and has lost its children.
    #[serde(rename = "up")]
    Up,
    /// A client that waits before its next attempt.
    #[serde(rename = "waiting to try again")]
    AwaitingRetry,
    /// No IPsec by configuration.
    #[serde(rename = "in clear")]
    InClear,
}

/// What reports of processes before IKEv2 mean.
fn ikev1() -> u8 {
    1
}

/// An ISAKMP SA.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// The proven identity of the peer; none while half open.
    pub peer: Option<String>,
    /// Our address and port.
    pub local: Option<SocketAddr>,
    /// The peer's address and port, as we see them.
    pub remote: Option<SocketAddr>,
    /// "initiator" or "responder".
    pub role: String,
    /// Of IKE: 1 or 2.
    #[serde(default = "ikev1")]
    pub version: u8,
    /// The IKE SA in proposal words; none while half open.
    pub suite: Option<String>,
    /// The status of IKEv1: "deprecated, RFC 9395".
    pub deprecated: Option<String>,
    /// Whether the suite is insecure.
    pub legacy: bool,
    /// IKEv2: whether an end has signed with SHA-1, because the other announces no hashes.
    #[serde(default)]
    pub sha1_signature: bool,
    /// "none", "local", "remote" or "both": which side is behind a NAT.
    pub nat: String,
    /// The name of the post-quantum pre-shared key in its keys.
    #[serde(default)]
    pub ppk: Option<String>,
    /// How that key came into them: "IKE_AUTH" (RFC 8784), by which the first IKE SA is without it,
    /// or "IKE_INTERMEDIATE" (RFC 9867), by which that one has it too.
    #[serde(default)]
    pub ppk_exchange: Option<String>,
    /// IKEv2: whether each end has proven itself over both first messages
    /// (draft-ietf-ipsecme-ikev2-downgrade-prevention).
    #[serde(default)]
    pub full_transcript: bool,
    /// Whether it goes on from a session that was lost, by a ticket (RFC 5723).
    #[serde(default)]
    pub resumed: bool,
    /// Whether addresses may change under it (MOBIKE, RFC 4555).
    #[serde(default)]
    pub mobike: bool,
    /// How often its path has changed.
    #[serde(default)]
    pub moves: u32,
    /// The peer's addresses besides `remote`, as it has named them.
    #[serde(default)]
    pub peer_addresses: Vec<IpAddr>,
    /// Time since it was established.
    pub age_s: Option<f64>,
    /// Inner addresses, lent to us or by us.
    pub inner: Vec<IpAddr>,
    /// Its children.
    pub children: Vec<ChildStatus>,
}

impl SessionStatus {
    /// How its post-quantum pre-shared key came into its keys.
    pub fn ppk_exchange(&self) -> Option<PpkExchange> {
        PpkExchange::of_name(self.ppk_exchange.as_ref()?)
    }
}

/// A pair of IPsec SAs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChildStatus {
    /// Its key in the configuration.
    pub name: String,
    /// "ESP" or "AH".
    pub protocol: String,
    /// "tunnel" or "transport".
    pub mode: String,
    /// In proposal words.
    pub suite: String,
    /// Whether the suite is insecure.
    pub legacy: bool,
    /// Whether ESP is in UDP.
    pub encapsulated: bool,
    /// Our SPI, as in a capture: "c0ffee01".
    pub spi_in: String,
    /// The peer's SPI.
    pub spi_out: String,
    /// Our side's traffic.
    pub local_ts: String,
    /// The peer's side's traffic.
    pub remote_ts: String,
    /// The pool address that represents a peer in transport mode.
    pub pool_address: Option<IpAddr>,
    /// Time since these SAs were installed; none if unknown.
    pub age_s: Option<f64>,
    /// Packets received.
    pub packets_in: u64,
    /// Clear bytes received.
    pub bytes_in: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Clear bytes sent.
    pub bytes_out: u64,
    /// The largest outer packet that the path is assumed to carry.
    #[serde(default)]
    pub path_mtu: u16,
    /// Time since the last packet from the peer; none: no packet yet.
    pub last_seen_s: Option<f64>,
}

/// A pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Its key in the configuration.
    pub name: String,
    /// Addresses lent.
    pub lent: u64,
    /// Addresses in total, as text: an IPv6 pool can exceed a JSON number.
    pub size: String,
}

/// A server of RADIUS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RadiusStatus {
    /// Where it is.
    pub address: SocketAddr,
    /// "answers", "silent" if it has not answered the last time, or "unasked".
    pub state: String,
    /// Requests to it.
    pub requests: u64,
    /// How often one of them was repeated.
    pub repeats: u64,
    /// Requests that it did not answer.
    pub unanswered: u64,
    /// Its questions to peers.
    pub challenges: u64,
    /// Peers that it accepted.
    pub accepts: u64,
    /// Peers that it refused.
    pub rejects: u64,
    /// Datagrams from its address that were dropped.
    pub drops: u64,
}

/// A kind of cryptographic operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkStatus {
    /// The operation.
    pub task: String,
    /// The number of times.
    pub times: u64,
    /// The number of bytes.
    pub bytes: u64,
}

impl StatusReport {
    /// Keeps only the connection of this name.
    pub fn only(&mut self, name: &str) {
        self.connections
            .retain(|connection| connection.name == name);
    }

    /// The report in JSON, one object over several lines.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("text keys and finite numbers")
    }
}

#[cfg(test)]
mod tests;
