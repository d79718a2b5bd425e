//! What `caravan status` shows, as data. [`text`] renders it for people.
//!
//! The field names are the keys of `caravan status --json` and stay as they are: keys may be added,
//! none is renamed or taken away. Times are seconds, sizes bytes; absent values are `null`.

pub mod convert;
pub mod text;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// A process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// The process itself.
    pub process: ProcessStatus,
    /// Every connection of the configuration, in its order.
    pub connections: Vec<ConnectionStatus>,
    /// Addresses to lend.
    pub pools: Vec<PoolStatus>,
    /// Exchanges of phase 1 that are not done.
    pub half_open: u64,
    /// Every reason to drop a packet or message, with its count; those that are 0 too.
    pub drops: BTreeMap<String, u64>,
    /// What was computed, by algorithm.
    pub work: Vec<WorkStatus>,
    /// What the reader should know: sentences.
    pub warnings: Vec<String>,
}

/// The process itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Of the program.
    pub version: String,
    /// Process number.
    pub pid: u32,
    /// "gateway" or "client".
    pub role: String,
    /// Since start.
    pub uptime_s: f64,
    /// The configuration's path.
    pub config: String,
    /// Name of the TUN device.
    pub tun: String,
    /// Offloads of devices and sockets.
    pub offloads: Vec<OffloadStatus>,
    /// Where packets and keys are being recorded, if they are.
    pub capture: Option<String>,
    /// Capabilities that this process kept: none.
    pub capabilities: Vec<String>,
    /// What else restricts it, and what this kernel lacks for that.
    #[serde(default)]
    pub confined: Vec<String>,
    /// Process number of the host steward, which alone changes this host.
    #[serde(default)]
    pub steward: Option<u32>,
    /// Its capabilities, and what restricts it.
    #[serde(default)]
    pub steward_confined: Vec<String>,
    /// Requests that it refused: beyond what the configuration names.
    #[serde(default)]
    pub refused_requests: u64,
    /// How many bytes of this process are resident.
    pub resident_bytes: u64,
}

/// An offload and whether the kernel has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OffloadStatus {
    /// "tun-tso4", "udp-gso" and so on.
    pub name: String,
    /// In force; else packets take the road one by one.
    pub in_force: bool,
    /// Why not, where that is known.
    pub reason: Option<String>,
}

/// A connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// Its key in the configuration.
    pub name: String,
    /// "established" when a session has a child that carries packets; else a station's own word
    /// for where it stands, or "listening".
    pub state: String,
    /// "IKEv1".
    pub version: String,
    /// What IKEv1 is: "deprecated, RFC 9395".
    pub deprecated: Option<String>,
    /// Whether the configuration permits insecure algorithms.
    pub legacy: bool,
    /// Traffic for what its tunnels lead to is refused while none of them takes it.
    pub blocks: bool,
    /// No IPsec by configuration: traffic in clear.
    pub clear: bool,
    /// Of a station: why the last attempt failed, until one succeeds.
    #[serde(default)]
    pub last_failure: Option<String>,
    /// Of a station that is up: children that are not, and where they lead.
    #[serde(default)]
    pub missing: Vec<String>,
    /// Of a station whose gateway has several addresses: those that are not used, and why.
    #[serde(default)]
    pub passed_over: Vec<String>,
    /// Phase 1, established or under way.
    pub sessions: Vec<SessionStatus>,
}

/// An ISAKMP SA.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Who the peer proved to be; none while half open.
    pub peer: Option<String>,
    /// Our address and port.
    pub local: Option<SocketAddr>,
    /// The peer's, as we see it.
    pub remote: Option<SocketAddr>,
    /// "initiator" or "responder".
    pub role: String,
    /// Phase 1 in proposal words; none while half open.
    pub suite: Option<String>,
    /// What IKEv1 is: "deprecated, RFC 9395".
    pub deprecated: Option<String>,
    /// Whether the suite is insecure.
    pub legacy: bool,
    /// "none", "local", "remote" or "both": who sits behind a NAT.
    pub nat: String,
    /// Since it was established.
    pub age_s: Option<f64>,
    /// Inner addresses, lent to us or by us.
    pub inner: Vec<IpAddr>,
    /// What it protects.
    pub children: Vec<ChildStatus>,
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
    /// Whether ESP travels in UDP.
    pub encapsulated: bool,
    /// Ours, as in a capture: "c0ffee01".
    pub spi_in: String,
    /// The peer's.
    pub spi_out: String,
    /// Our side's traffic.
    pub local_ts: String,
    /// The peer's side's.
    pub remote_ts: String,
    /// The address that stands for a transport mode peer.
    pub pool_address: Option<IpAddr>,
    /// Since these SAs were installed; none where that is not known.
    pub age_s: Option<f64>,
    /// Packets received.
    pub packets_in: u64,
    /// Clear bytes received.
    pub bytes_in: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Clear bytes sent.
    pub bytes_out: u64,
    /// The largest outer packet that the path is believed to carry.
    #[serde(default)]
    pub path_mtu: u16,
    /// Since the last packet from the peer; none: no packet yet.
    pub last_seen_s: Option<f64>,
}

/// A pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Its key in the configuration.
    pub name: String,
    /// Addresses lent.
    pub lent: u64,
    /// Addresses in all, as text: an IPv6 pool can have more than a number of JSON holds.
    pub size: String,
}

/// Something computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkStatus {
    /// What.
    pub task: String,
    /// How often.
    pub times: u64,
    /// Over how many bytes.
    pub bytes: u64,
}

impl StatusReport {
    /// Keeps the connection of this name alone.
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
