//! Reports of the process: events in the log, and the answer to `status`.

use std::mem::take;
use std::net::SocketAddr;
use std::time::Duration;

use engine::counters::DropReason;
use engine::node::{EndCause, Event};
use engine::sa::Direction;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::{Level, debug, enabled, info, warn};

use super::keeper::{self, Ask};
use super::mobility::Input as MobileInput;
use super::mobility::surroundings::{closed, missing, unrouted};
use super::{Process, sessions};
use crate::console;
use crate::dns::anchors;
use crate::options::Role;
use crate::planes::IoReport;
use crate::status::convert::Traffic;
use crate::status::{
    ConnectionState, ConnectionStatus, OffloadStatus, ProcessStatus, StatusReport,
};

/// How long a status report waits for the steward, which may be changing the host.
pub(super) const STEWARD_PATIENCE: Duration = Duration::from_secs(2);

impl Process {
    /// All that `status` shows, but for what the steward adds.
    pub(super) async fn report(&mut self) -> StatusReport {
        let now = self.clock.now();
        let mut inbound = self
            .plane_report(Direction::Inbound)
            .await
            .unwrap_or_default();
        let mut outbound = self
            .plane_report(Direction::Outbound)
            .await
            .unwrap_or_default();
        let (seen, sent) = (&mut inbound.plane, &mut outbound.plane);
        let [received, sealed] = [&mut *seen, &mut *sent].map(|it| take(&mut it.associations));
        // A firewall learns from it when its nodes were heard last.
        if let Err(error) = self.mobile_input(&MobileInput::Report(&received)) {
            warn!("{error:#}");
        }
        let traffic = Traffic::new(received, sealed, now);
        let mut report = StatusReport::new(self.node.status(now), &traffic);
        for drops in [self.node.drops(), &seen.drops, &sent.drops] {
            report.add_drops(drops);
        }
        let sum = |of: fn(&IoReport) -> u64| of(&inbound.io) + of(&outbound.io);
        let unheard = sum(|io| io.unheard) + self.udp.overflows() + self.inbox.lost();
        report.add_lost(DropReason::QueueFull, unheard);
        report.add_lost(
            DropReason::SendFailed,
            sum(|io| io.refused) + self.progress.unsent.count(),
        );
        report.add_lost(DropReason::Truncated, sum(|io| io.truncated));
        for work in [self.node.work(), &seen.work, &sent.work] {
            report.add_work(work);
        }
        report.process = self.process_status();
        report.mobility = self.mobility.as_ref().map(|part| part.status(now));
        if let Some(mobility) = &mut report.mobility {
            mobility.accepted_replays = seen.accepted_replays;
        }
        report.warnings = self
            .loaded
            .warnings
            .iter()
            .map(|(name, text)| format!("{name}: {text}"))
            .collect();
        report.warnings.extend(self.host.warnings());
        let part = self.loaded.mobility.as_ref();
        let lacking = part.map(|it| missing(it, self.tun.name()));
        let lacking = lacking.unwrap_or_default();
        report.warnings.extend(lacking);
        let (forwarding, routes) = part
            .filter(|_| self.is_ready)
            .map(closed)
            .unwrap_or_default();
        report.warnings.extend(forwarding.into_iter().chain(routes));
        report
            .warnings
            .extend(report.mobility.iter().flat_map(unrouted));
        let told = self.mobility.iter().flat_map(|part| part.warnings(now));
        report.warnings.extend(told);
        report.warnings.extend(lost_lines());
        report.warnings.extend(self.capture_warning());
        let all = report.connections.iter_mut();
        all.for_each(|it| self.complete_connection(it));
        let clear = self
            .loaded
            .names()
            .into_iter()
            .filter(|n| self.loaded.clear.contains(n));
        report.connections.extend(clear.map(in_clear));
        report
    }

    /// Adds what the node does not know of a connection.
    fn complete_connection(&self, connection: &mut ConnectionStatus) {
        connection.blocks = self.host.blocks(&connection.name);
        self.progress.tell(connection);
        connection.last_peer = self.came.get(&connection.name).copied();
        connection.cannot_send = self.cannot_send(connection);
        if connection.state == ConnectionState::Established {
            connection.dns = self.host.resolvers_of(&connection.name);
            connection.trust_anchors = self.host.trust_anchors_of(&connection.name);
            let has_any = !connection.trust_anchors.is_empty();
            let file = anchors::path(&self.options.runtime_dir, self.host.name());
            connection.trust_anchor_file = has_any.then(|| file.display().to_string());
        }
    }

    /// Why a client's connection could not send its last message, or could send none.
    fn cannot_send(&self, connection: &ConnectionStatus) -> Option<String> {
        let mut all = self.loaded.engine.connections.iter();
        let own = all.find(|it| it.name == connection.name)?;
        if own.remote_addrs.is_empty() || connection.state == ConnectionState::Down {
            return None;
        }
        let used = connection.sessions.iter().filter_map(|it| it.remote);
        let mut used: Vec<SocketAddr> = used.collect();
        if used.is_empty() {
            used.clone_from(&own.remote_addrs);
        }
        let why = |to: &SocketAddr| {
            let refused = self.progress.unsent.why(*to).map(str::to_owned);
            refused.or_else(|| self.host.no_way(to.ip(), &own.local_addrs))
        };
        // One address that can be sent to is enough.
        let all: Option<Vec<String>> = used.iter().map(why).collect();
        all?.into_iter().next()
    }

    /// A warning if the capture is incomplete.
    fn capture_warning(&self) -> Option<String> {
        let (capture, _, _) = self.capture.as_ref()?;
        let path = capture.path().display();
        match (capture.fault(), capture.dropped()) {
            (Some(fault), _) => Some(format!("{path} is cut off, the capture has ended: {fault}")),
            (None, 0) => None,
            (None, count) => Some(format!(
                "{count} packets are missing in {path}: the disk was too slow"
            )),
        }
    }

    fn process_status(&self) -> ProcessStatus {
        let role = match self.options.role {
            Role::Gateway => "gateway",
            Role::Station if self.loaded.mobility.is_some() => "mobile node",
            Role::Station => "client",
            Role::HomeAgent => "home agent",
            Role::ForeignAgent => "foreign agent",
            Role::Firewall => "firewall",
        };
        ProcessStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            role: role.to_owned(),
            uptime_s: self.clock.now().0 as f64 / 1e9,
            config: self.options.config.display().to_string(),
            tun: self.tun.name().to_owned(),
            offloads: self.offloads(),
            capture: self
                .options
                .capture
                .as_ref()
                .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()))
                .map(|path| path.display().to_string()),
            capabilities: self.confined.capabilities.clone(),
            confined: self.confined.speaker.clone(),
            steward: Some(self.confined.steward_pid),
            steward_confined: self.confined.steward.clone(),
            refused_requests: 0,
            tables_put_back: 0,
            entries_put_back: 0,
            is_setting_up: self.host.is_setting_up(),
            resident_bytes: resident_bytes(),
        }
    }

    fn offloads(&self) -> Vec<OffloadStatus> {
        let granted = self.tun.granted();
        let refused = "this kernel does not offer it on TUN devices";
        let udp_refused = "this kernel or device refused it";
        [
            ("tun vnet header", granted.vnet_header, refused),
            ("tun checksum", granted.checksum, refused),
            ("tun tcp segments", granted.tcp_segments, refused),
            ("tun tcp ecn segments", granted.tcp_ecn_segments, refused),
            ("tun udp segments", granted.udp_segments, refused),
            ("udp gso", self.udp.has_gso(), udp_refused),
            ("udp gro", self.udp.has_gro(), udp_refused),
        ]
        .into_iter()
        .map(|(name, in_force, reason)| OffloadStatus {
            name: name.to_owned(),
            in_force,
            reason: (!in_force).then(|| reason.to_owned()),
        })
        .collect()
    }
}

/// Adds what the steward knows. `table` is the name of the nftables table that should exist.
pub(super) async fn complete(
    report: &mut StatusReport,
    table: Option<String>,
    asks: &mpsc::Sender<Ask>,
) {
    let Ok(told) = timeout(STEWARD_PATIENCE, keeper::ask(asks, Ask::KeptOut)).await else {
        report.warnings.push(format!(
            "the process that changes this host has not answered for {} s: unencrypted packets \
             that it dropped are not counted here",
            STEWARD_PATIENCE.as_secs()
        ));
        return;
    };
    let counts = told.unwrap_or_default();
    report.add_lost(DropReason::ClearPacket, counts.packets.unwrap_or(0));
    report.process.refused_requests = counts.refused;
    report.process.tables_put_back = counts.put_back;
    report.process.entries_put_back = counts.entries_put_back;
    if !counts.has_trust_anchors {
        let all = report.connections.iter_mut();
        all.for_each(|it| it.trust_anchor_file = None);
    }
    if counts.is_open {
        let text = "another program removed our nftables tables, and they cannot be put back: \
                    this host is open; the log says why";
        report.warnings.push(text.to_owned());
    }
    if let (None, Some(table)) = (counts.packets, table) {
        report.warnings.push(format!(
            "unencrypted packets that belong in the tunnel are not blocked: nftables shows no \
             table {table}; is the program nft installed?"
        ));
    }
}

/// A warning if the log is incomplete.
fn lost_lines() -> Option<String> {
    let lost = console::lost_lines();
    (lost > 0).then(|| format!("{lost} lines of the log could not be written to standard error"))
}

fn in_clear(name: String) -> ConnectionStatus {
    ConnectionStatus {
        name,
        state: ConnectionState::InClear,
        version: "none".to_owned(),
        deprecated: None,
        legacy: true,
        blocks: false,
        clear: true,
        last_failure: None,
        last_end: None,
        retry_in_s: None,
        cannot_send: None,
        dns: Vec::new(),
        trust_anchors: Vec::new(),
        trust_anchor_file: None,
        missing: Vec::new(),
        narrowed: Vec::new(),
        passed_over: Vec::new(),
        last_peer: None,
        sessions: Vec::new(),
    }
}

/// From /proc/self/status, which does not count in pages: their size differs between machines. 0 if
/// the value is missing.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// The limit that a log line counts against.
pub(super) enum LineLimit {
    /// That of all unauthenticated peers.
    Strangers,
    /// That of the peer whose message caused it, if one did.
    Peer,
    /// None: it is always written.
    None,
}

/// Lines about sessions are complete: another limit bounds how often a peer may start one.
pub(super) fn line_limit(event: &Event) -> LineLimit {
    match event {
        Event::Message { connection, .. } => match connection.is_none() && enabled!(Level::DEBUG) {
            true => LineLimit::Strangers,
            // At this log level all lines are wanted.
            false => LineLimit::None,
        },
        Event::NegotiationFailed { connection, .. } | Event::PeerComplains { connection, .. }
            if connection.is_none() =>
        {
            LineLimit::Strangers
        }
        Event::SessionBegan { .. }
        | Event::SessionEnded { .. }
        | Event::RadiusServer { .. }
        | Event::Stopped => LineLimit::None,
        _ => LineLimit::Peer,
    }
}

/// The words for a new IKE SA.
fn established(version: u8) -> &'static str {
    match version {
        1 => "IKEv1 established (deprecated, RFC 9395)",
        _ => "IKEv2 established",
    }
}

/// A message as a capture tells it, in one line.
pub(super) fn message(event: &Event) -> Option<String> {
    let Event::Message {
        step,
        is_sent,
        bytes,
        datagrams,
        payloads,
        ..
    } = event
    else {
        return None;
    };
    let direction = if *is_sent { "sent" } else { "received" };
    let number = step.number().map(|it| format!(" {it}"));
    let (exchange, number) = (step.exchange(), number.unwrap_or_default());
    let plural = if *datagrams == 1 { "" } else { "s" };
    Some(format!(
        "{direction} {exchange}{number}, {bytes} octets in {datagrams} datagram{plural}: {payloads}"
    ))
}

/// Logs inner addresses and what has come with them.
fn inner_address(event: &Event) {
    let Event::InnerAddress {
        connection,
        addresses,
        dns,
        domains,
        trust_anchors,
        refused_anchors,
    } = event
    else {
        return;
    };
    info!(connection, ?addresses, ?dns, ?domains, "inner address");
    if !trust_anchors.is_empty() {
        let keys: Vec<String> = trust_anchors.iter().map(ToString::to_string).collect();
        info!(connection, ?keys, "keys of DNSSEC");
    }
    if !refused_anchors.is_empty() {
        info!(
            connection,
            domains = ?refused_anchors,
            "keys of DNSSEC are ignored: dnssec_domains does not name their domains, or they are \
             malformed or too many"
        );
    }
}

/// Logs one event as one line, without secrets.
pub(super) fn log(event: &Event) {
    match event {
        Event::Message {
            connection,
            step,
            is_sent,
            bytes,
            datagrams,
            payloads,
            ..
        } => debug!(
            connection, exchange = %step.exchange(), number = step.number(), is_sent, bytes,
            datagrams, payloads, "handshake_message"
        ),
        Event::IkeEstablished {
            connection,
            version,
            peer,
            suite,
            ppk,
            has_full_transcript: full_transcript,
            is_resumed: resumed,
            path,
            nat,
        } => info!(
            connection, peer, suite, ppk = ppk.as_ref().map(|it| &it.id[..]), full_transcript,
            ppk_exchange = ppk.as_ref().map(|it| it.exchange.name()), resumed,
            local = %path.local, remote = %path.remote, nat_local = nat.0, nat_remote = nat.1,
            "{}", established(*version)
        ),
        Event::ChildEstablished {
            connection,
            child,
            suite,
            spis,
            is_rekey,
        } => info!(
            connection,
            child,
            suite,
            is_rekey,
            spi_in = format!("{:08x}", spis.0),
            spi_out = format!("{:08x}", spis.1),
            "child established"
        ),
        Event::InnerAddress { .. } => inner_address(event),
        Event::SessionBegan { stay } => sessions::began(stay),
        Event::SessionEnded { stay, summary } => sessions::ended(stay, summary),
        Event::PathProven { connection, path } => {
            info!(connection, remote = %path.remote, "the peer has proven its address");
        }
        Event::ProposalsRefused {
            connection,
            path,
            refusal,
        } => {
            info!(connection, remote = %path.remote, "{refusal}; our other proposals are next");
        }
        event => log_trouble(event),
    }
}

/// Logs a change of a RADIUS server.
fn log_server(address: SocketAddr, is_silent: bool) {
    match is_silent {
        true => warn!("the RADIUS server {address} does not answer"),
        false => info!("the RADIUS server {address} answers again"),
    }
}

/// Logs ends and refusals.
fn log_trouble(event: &Event) {
    match event {
        // The line about the failed negotiation has said why.
        Event::IkeClosed {
            connection,
            had_children: false,
            cause: cause @ EndCause::Failed(_),
        } => debug!(connection, reason = %cause, "IKE closed"),
        Event::IkeClosed {
            connection, cause, ..
        } => info!(connection, reason = %cause, "IKE closed"),
        Event::ChildClosed {
            connection,
            child,
            cause,
        } => {
            info!(connection, child, reason = %cause, "child closed");
        }
        Event::NegotiationFailed {
            connection,
            path,
            reason,
        } => {
            warn!(connection, remote = %path.remote, "negotiation failed: {reason}");
        }
        Event::PeerComplains {
            connection,
            path,
            complaint,
            is_proven: _,
        } => {
            warn!(connection, remote = %path.remote, "the peer reports: {complaint}");
        }
        Event::CredentialShared {
            connection,
            peer,
            credential,
            places,
        } => {
            let (before, after) = places;
            warn!(
                connection,
                "two devices share the {credential} of {peer}, at {before} and at {after}: each \
                 ends the tunnel of the other; give each its own"
            );
        }
        event => log_change(event),
    }
}

/// Logs moves and other changes.
fn log_change(event: &Event) {
    match event {
        Event::Upgraded {
            connection, peer, ..
        } => {
            info!(
                connection,
                peer, "it uses IKEv2: IKEv1 is refused to it from now on"
            );
        }
        Event::RadiusServer { address, is_silent } => log_server(*address, *is_silent),
        Event::Draining { to: None, .. } => info!("peers are not sent to another gateway now"),
        Event::Draining {
            to: Some(to),
            peers,
        } => info!(to, peers, "peers are sent to another gateway"),
        Event::SentToAnother {
            connection,
            from,
            to,
        } => info!(connection, %from, to, "the gateway sends us to another one"),
        Event::PathMoved { connection, path } => {
            info!(connection, local = %path.local, remote = %path.remote, "path moved");
        }
        Event::AddressChosen {
            connection,
            address,
            others,
        } => {
            let others = others.join(", ");
            info!(connection, remote = %address, others, "this address of the gateway is used");
        }
        Event::PathShrank {
            connection,
            child,
            mtu,
        } => {
            warn!(
                connection,
                child,
                mtu,
                "large packets are lost and no router reports it: sending smaller ones for 10 min"
            );
        }
        event => log_obstacle(event),
    }
}

/// Logs what a connection has to do without, or has to wait for.
fn log_obstacle(event: &Event) {
    match event {
        Event::TicketTooLarge {
            connection,
            peer,
            octets,
            most,
        } => {
            info!(
                connection,
                peer,
                octets,
                most,
                "no ticket: a first message with it is too long for one datagram, so after a loss \
                 the client authenticates in full"
            );
        }
        Event::RetryScheduled {
            connection,
            in_ms,
            attempt,
            is_refused,
        } => match is_refused {
            false => info!(connection, in_ms, attempt, "will try again"),
            true => warn!(
                connection,
                in_ms,
                attempt,
                "will try again: the gateway refuses us; once the password, key or certificate is \
                 right, caravan reload tries at once"
            ),
        },
        event => info!("{event:?}"),
    }
}
