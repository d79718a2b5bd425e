//! Converts the engine's state to the content of `status`.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::config::Version;
use engine::counters::{DropCounters, DropReason};
use engine::ike::Role;
use engine::node;
use engine::plane::SaReport;
use engine::radius::ServerStatus;
use engine::sa::{ChildId, Mode};
use engine::skip;
use engine::suite::{self, EspSuite};
use engine::time::Instant;
use engine::work::{Task, Work};

use super::{
    ChildStatus, ConnectionState, ConnectionStatus, PoolStatus, RadiusStatus, SessionStatus,
    StatusReport, WorkStatus,
};

/// Shown with everything that uses IKEv1.
pub const DEPRECATED: &str = "deprecated, RFC 9395";

/// What the packet planes have carried, by SA.
pub struct Traffic {
    inbound: BySa,
    outbound: BySa,
    now: Instant,
}

/// Two peers may choose the same SPI, so the child is part of the name.
type BySa = BTreeMap<(ChildId, u32), SaReport>;

impl Traffic {
    /// `now`: when the planes reported.
    pub fn new(inbound: Vec<SaReport>, outbound: Vec<SaReport>, now: Instant) -> Self {
        let by_sa = |reports: Vec<SaReport>| -> BySa {
            let named = |report: SaReport| ((report.child, report.spi), report);
            reports.into_iter().map(named).collect()
        };
        Self {
            inbound: by_sa(inbound),
            outbound: by_sa(outbound),
            now,
        }
    }

    fn connection(&self, connection: node::ConnectionStatus) -> ConnectionStatus {
        let sessions = connection.sessions.into_iter();
        ConnectionStatus {
            name: connection.name,
            state: connection.state.into(),
            version: version_of(connection.version).to_owned(),
            deprecated: connection.version.has_v1().then(|| DEPRECATED.to_owned()),
            legacy: connection.is_legacy,
            blocks: false,
            clear: false,
            last_failure: None,
            last_end: None,
            retry_in_s: connection.retry_in.map(seconds),
            cannot_send: None,
            dns: Vec::new(),
            trust_anchors: Vec::new(),
            trust_anchor_file: None,
            missing: connection.missing,
            narrowed: connection.narrowed,
            passed_over: connection.passed_over,
            last_peer: None,
            sessions: sessions.map(|it| self.session(it)).collect(),
        }
    }

    fn session(&self, session: node::SessionStatus) -> SessionStatus {
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
        let children = session.children.into_iter();
        SessionStatus {
            peer: session.peer.map(|peer| peer.to_string()),
            local: Some(session.path.local),
            remote: Some(session.path.remote),
            role: role.to_owned(),
            suite: Some(session.suite).filter(|text| !text.is_empty()),
            version: session.version,
            deprecated: (session.version == 1).then(|| DEPRECATED.to_owned()),
            legacy: session.is_legacy,
            sha1_signature: session.has_signed_sha1,
            nat: nat.to_owned(),
            ppk_exchange: session.ppk.as_ref().map(|it| it.exchange.to_string()),
            ppk: session.ppk.map(|it| it.id),
            full_transcript: session.has_full_transcript,
            resumed: session.is_resumed,
            mobike: session.has_mobike,
            moves: session.moves,
            peer_addresses: session.peer_addresses,
            age_s: session.age.map(|age| age.as_secs_f64()),
            inner: session.inner,
            children: children.map(|it| self.child(it)).collect(),
        }
    }

    fn child(&self, child: node::ChildStatus) -> ChildStatus {
        let mode = match child.mode {
            Mode::Tunnel => "tunnel",
            Mode::Transport => "transport",
        };
        let inbound = self.inbound.get(&(child.id, child.spi_in));
        let outbound = self.outbound.get(&(child.id, child.spi_out));
        let last = inbound.and_then(|it| it.last);
        ChildStatus {
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
            packets_in: inbound.map_or(0, |it| it.packets),
            bytes_in: inbound.map_or(0, |it| it.bytes),
            packets_out: outbound.map_or(0, |it| it.packets),
            bytes_out: outbound.map_or(0, |it| it.bytes),
            path_mtu: outbound.map_or(0, |it| it.path_mtu),
            last_seen_s: last.map(|last| seconds(self.now.since(last))),
        }
    }
}

impl From<node::ConnectionState> for ConnectionState {
    fn from(state: node::ConnectionState) -> Self {
        match state {
            node::ConnectionState::Established => Self::Established,
            node::ConnectionState::Listening => Self::Listening,
            node::ConnectionState::Down => Self::Down,
            node::ConnectionState::AwaitingTraffic => Self::AwaitingTraffic,
            node::ConnectionState::AwaitingAddress => Self::AwaitingAddress,
            node::ConnectionState::Connecting => Self::Connecting,
            node::ConnectionState::Up => Self::Up,
            node::ConnectionState::AwaitingRetry => Self::AwaitingRetry,
        }
    }
}

impl From<ServerStatus> for RadiusStatus {
    fn from(server: ServerStatus) -> Self {
        let counts = server.counts;
        let has_answered = counts.challenges + counts.accepts + counts.rejects > 0;
        let state = match (server.is_silent, has_answered) {
            (true, _) => "silent",
            (false, true) => "answers",
            (false, false) => "unasked",
        };
        Self {
            address: server.address,
            state: state.to_owned(),
            requests: counts.requests,
            repeats: counts.repeats,
            unanswered: counts.unanswered,
            challenges: counts.challenges,
            accepts: counts.accepts,
            rejects: counts.rejects,
            drops: counts.drops,
        }
    }
}

impl StatusReport {
    /// The node's state with the counts of its SAs.
    pub fn new(status: node::Status, traffic: &Traffic) -> Self {
        let pools = status
            .pools
            .into_iter()
            .map(|(name, lent, size)| PoolStatus {
                name,
                lent: lent as u64,
                size: size.to_string(),
            });
        let connections = status.connections.into_iter();
        Self {
            connections: connections.map(|it| traffic.connection(it)).collect(),
            pools: pools.collect(),
            radius: status.radius.into_iter().map(RadiusStatus::from).collect(),
            draining: status.draining,
            half_open: status.half_open as u64,
            ..Self::default()
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

fn version_of(version: Version) -> &'static str {
    match version {
        Version::V1 => "IKEv1",
        Version::V2 => "IKEv2",
        Version::Either => "IKEv2 or IKEv1",
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
        Task::Encapsulate(form) => format!("encapsulate {}", form.name()),
        Task::Decapsulate(form) => format!("decapsulate {}", form.name()),
        Task::KeyPair(group) => format!("key-pair {}", suite::of_group(group)),
        Task::Agree(group) => format!("agree {}", suite::of_group(group)),
        Task::Sign(bits) => format!("sign rsa-{bits}"),
        Task::Verify(bits) => format!("verify rsa-{bits}"),
        Task::MessageCipher(cipher) => format!("message-cipher {}", suite::of_cipher(cipher)),
        Task::MessageAead(cipher) => format!("message-cipher {}", suite::of_encryption(cipher)),
        Task::KeyShare(method) => format!("key-share {}", suite::of_method(method)),
        Task::KeySecret(method) => format!("key-secret {}", suite::of_method(method)),
        Task::KeyAnswer(method) => format!("key-answer {}", suite::of_method(method)),
        Task::SignCurve(kind) => format!("sign {}", suite::of_key(kind)),
        Task::VerifyCurve(kind) => format!("verify {}", suite::of_key(kind)),
        Task::Prf(hash) => format!("prf {}", suite::of_hash(hash)),
        Task::AgreeLongTerm(group) => format!("agree long-term {}", skip::words::of_group(group)),
        Task::DeriveSkipKey(kij) => format!("derive-key {}", skip::words::of_kij(kij)),
        Task::WrapPacketKey(kij) => format!("packet-key {}", skip::words::of_kij(kij)),
        Task::SkipCipher(crypt) => format!("cipher {}", skip::words::of_crypt(crypt)),
        Task::SkipMac(mac) => format!("mac {}", skip::words::of_mac(mac)),
        Task::ProtectFrame(cipher) => format!("protect {}", cipher.name()),
        Task::UnprotectFrame(cipher) => format!("unprotect {}", cipher.name()),
        Task::Cmac => "cmac aes128".to_owned(),
        Task::KeyData => "key-data".to_owned(),
        Task::Passphrase => "passphrase".to_owned(),
        Task::ScalePoint => "scale p256".to_owned(),
        Task::HashToPoint => "hash-to-point p256".to_owned(),
    }
}
