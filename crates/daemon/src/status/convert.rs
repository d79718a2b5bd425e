//! Converts the engine's state to the content of `status`.

use std::time::Duration;

use engine::counters::{DropCounters, DropReason};
use engine::ike::Role;
use engine::node;
use engine::plane::SaReport;
use engine::sa::Mode;
use engine::suite::{self, EspSuite};
use engine::time::Instant;
use engine::work::{Task, Work};

use super::{ChildStatus, ConnectionStatus, PoolStatus, SessionStatus, StatusReport, WorkStatus};

/// Shown with everything that uses IKEv1.
pub const DEPRECATED: &str = "deprecated, RFC 9395";

impl From<node::Status> for StatusReport {
    fn from(status: node::Status) -> Self {
        let pools = status
            .pools
            .into_iter()
            .map(|(name, lent, size)| PoolStatus {
                name,
                lent: lent as u64,
                size: size.to_string(),
            });
        Self {
            connections: status.connections.into_iter().map(Into::into).collect(),
            pools: pools.collect(),
            half_open: status.half_open as u64,
            ..Self::default()
        }
    }
}

impl From<node::ConnectionStatus> for ConnectionStatus {
    fn from(connection: node::ConnectionStatus) -> Self {
        let sessions: Vec<SessionStatus> =
            connection.sessions.into_iter().map(Into::into).collect();
        let is_established = sessions.iter().any(|session| !session.children.is_empty());
        let state = match (is_established, connection.state) {
            (true, _) => "established",
            (false, "responder") => "listening",
            (false, state) => state,
        };
        Self {
            name: connection.name,
            state: state.to_owned(),
            version: "IKEv1".to_owned(),
            deprecated: Some(DEPRECATED.to_owned()),
            legacy: connection.is_legacy,
            blocks: false,
            clear: false,
            last_failure: None,
            missing: connection.missing,
            passed_over: connection.passed_over,
            sessions,
        }
    }
}

impl From<node::SessionStatus> for SessionStatus {
    fn from(session: node::SessionStatus) -> Self {
        let role = match session.role {
            Role::Initiator => "initiator",
            Role::Responder => "responder",
        };
        let nat = match session.nat {
            (false, false) => "none",
            (true, false) => "local",
            (false, true) => "remote",
            (true, true) => "both",
        };
        Self {
            peer: session.peer.map(|peer| peer.to_string()),
            local: Some(session.path.local),
            remote: Some(session.path.remote),
            role: role.to_owned(),
            suite: Some(session.suite).filter(|text| !text.is_empty()),
            deprecated: Some(DEPRECATED.to_owned()),
            legacy: session.is_legacy,
            nat: nat.to_owned(),
            age_s: session.age.map(|age| age.as_secs_f64()),
            inner: session.inner,
            children: session.children.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<node::ChildStatus> for ChildStatus {
    fn from(child: node::ChildStatus) -> Self {
        let mode = match child.mode {
            Mode::Tunnel => "tunnel",
            Mode::Transport => "transport",
        };
        Self {
            name: child.name,
            protocol: child.protocol.to_owned(),
            mode: mode.to_owned(),
            suite: child.suite,
            legacy: child.is_legacy,
            encapsulated: child.is_udp_encapsulated,
            spi_in: format!("{:08x}", child.spi_in),
            spi_out: format!("{:08x}", child.spi_out),
            local_ts: child.local,
            remote_ts: child.remote,
            pool_address: child.pool_address,
            age_s: Some(seconds(child.age)),
            ..Self::default()
        }
    }
}

impl StatusReport {
    /// Adds the counts of the packet planes. SAs are found by their SPIs.
    pub fn add_traffic(&mut self, inbound: &[SaReport], outbound: &[SaReport], now: Instant) {
        let find = |reports: &[SaReport], spi: &str| {
            let number = u32::from_str_radix(spi, 16).ok()?;
            reports.iter().find(|report| report.spi == number).cloned()
        };
        let sessions = self.connections.iter_mut().flat_map(|c| &mut c.sessions);
        for child in sessions.flat_map(|session| &mut session.children) {
            if let Some(report) = find(inbound, &child.spi_in) {
                child.packets_in = report.packets;
                child.bytes_in = report.bytes;
                child.last_seen_s = report.last.map(|last| seconds(now.since(last)));
            }
            if let Some(report) = find(outbound, &child.spi_out) {
                child.packets_out = report.packets;
                child.path_mtu = report.path_mtu;
                child.bytes_out = report.bytes;
            }
        }
    }

    /// Adds counts of drops. Every reason gets its key.
    pub fn add_drops(&mut self, drops: &DropCounters) {
        for reason in DropReason::ALL {
            *self.drops.entry(reason.name().to_owned()).or_default() += drops.of(reason);
        }
    }

    /// Adds a count from outside the engine.
    pub fn add_lost(&mut self, reason: DropReason, count: u64) {
        *self.drops.entry(reason.name().to_owned()).or_default() += count;
    }

    /// Adds the cryptographic operations.
    pub fn add_work(&mut self, work: &Work) {
        self.work.extend(
            work.entries()
                .iter()
                .map(|&(task, times, bytes)| WorkStatus {
                    task: task_name(task),
                    times,
                    bytes,
                }),
        );
    }
}

fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}

/// "seal aes128gcm16", "agree modp2048", "sign rsa-2048", "prf sha256".
fn task_name(task: Task) -> String {
    match task {
        Task::Seal(protocol, protection) => format!("seal {}", EspSuite::new(protocol, protection)),
        Task::Open(protocol, protection) => format!("open {}", EspSuite::new(protocol, protection)),
        Task::KeyPair(group) => format!("key-pair {}", suite::of_group(group)),
        Task::Agree(group) => format!("agree {}", suite::of_group(group)),
        Task::Sign(bits) => format!("sign rsa-{bits}"),
        Task::Verify(bits) => format!("verify rsa-{bits}"),
        Task::MessageCipher(cipher) => format!("message-cipher {}", suite::of_cipher(cipher)),
        Task::Prf(hash) => format!("prf {}", suite::of_hash(hash)),
    }
}
