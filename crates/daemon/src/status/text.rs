//! Renders a status for people.

use core::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::{
    ChildStatus, ConnectionState, ConnectionStatus, ProcessStatus, SessionStatus, StatusReport,
};

/// Shown with everything that uses an insecure algorithm.
const LEGACY: &str = "LEGACY";

impl Display for StatusReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.process.fmt(f)?;
        for warning in &self.warnings {
            writeln!(f, "WARNING: {warning}")?;
        }
        for connection in &self.connections {
            writeln!(f)?;
            connection.fmt(f)?;
        }
        if let Some(mobility) = &self.mobility {
            writeln!(f)?;
            mobility.fmt(f)?;
        }
        if !self.pools.is_empty() {
            writeln!(f)?;
        }
        for pool in &self.pools {
            writeln!(f, "pool {}: {} of {} lent", pool.name, pool.lent, pool.size)?;
        }
        if let Some(to) = &self.draining {
            writeln!(
                f,
                "clients that can go elsewhere are sent to {to} (`caravan drain NAME --off` ends \
                 that)"
            )?;
        }
        for server in &self.radius {
            writeln!(
                f,
                "RADIUS server {}: {}, {} requests, {} accepts, {} rejects, {} unanswered, {} \
                 dropped",
                server.address,
                server.state,
                server.requests,
                server.accepts,
                server.rejects,
                server.unanswered,
                server.drops
            )?;
        }
        writeln!(f)?;
        // Only IKE has them.
        if self.mobility.is_none() || !self.connections.is_empty() {
            writeln!(f, "half-open exchanges: {}", self.half_open)?;
        }
        // JSON has every reason; this has only those that occurred.
        let drops: Vec<String> = self
            .drops
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(reason, count)| format!("{reason} {count}"))
            .collect();
        match drops.is_empty() {
            true => writeln!(f, "drops: none")?,
            false => writeln!(f, "drops: {}", drops.join(", "))?,
        }
        for work in &self.work {
            write!(f, "work: {}, {} times", work.task, work.times)?;
            match work.bytes {
                0 => writeln!(f)?,
                bytes => writeln!(f, ", {}", Bytes(bytes))?,
            }
        }
        Ok(())
    }
}

impl Display for ProcessStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let uptime = Age(self.uptime_s);
        writeln!(
            f,
            "caravan {} {}, pid {}, up {uptime}, {} resident",
            self.version,
            self.role,
            self.pid,
            Bytes(self.resident_bytes)
        )?;
        writeln!(f, "  config: {}", self.config)?;
        let names = |in_force: bool| {
            let fitting = self.offloads.iter().filter(|o| o.in_force == in_force);
            let names = fitting.map(|offload| match &offload.reason {
                Some(reason) if !in_force => format!("{} ({reason})", offload.name),
                _ => offload.name.clone(),
            });
            let names: Vec<String> = names.collect();
            match names.is_empty() {
                true => "none".to_owned(),
                false => names.join(", "),
            }
        };
        writeln!(f, "  tun: {}; offloads: {}", self.tun, names(true))?;
        if self.offloads.iter().any(|offload| !offload.in_force) {
            writeln!(f, "  without offload: {}", names(false))?;
        }
        if self.is_setting_up {
            writeln!(
                f,
                "  host: addresses, routes or resolvers are still being set"
            )?;
        }
        self.steward_lines(f)?;
        if let Some(capture) = &self.capture {
            writeln!(
                f,
                "WARNING: packets and KEYS are being written to {capture} and beside it: anyone \
                 who reads them can decrypt the traffic"
            )?;
        }
        Ok(())
    }
}

impl ProcessStatus {
    /// The rights of both processes, and what the steward has seen.
    fn steward_lines(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(steward) = self.steward else {
            return Ok(());
        };
        let rights = match self.capabilities.is_empty() {
            true => "no capabilities".to_owned(),
            false => self.capabilities.join(", "),
        };
        let own: Vec<String> = [rights].iter().chain(&self.confined).cloned().collect();
        writeln!(f, "  rights: {}", own.join(", "))?;
        let its = self.steward_confined.join(", ");
        writeln!(f, "  host steward: pid {steward}, {its}")?;
        if self.refused_requests > 0 {
            let count = self.refused_requests;
            writeln!(
                f,
                "WARNING: the steward refused {count} requests: its log names them"
            )?;
        }
        if self.tables_put_back > 0 {
            let count = self.tables_put_back;
            writeln!(
                f,
                "WARNING: another program removed or changed our nftables tables, put back \
                 {count} times: the log names them"
            )?;
        }
        if self.entries_put_back > 0 {
            let count = self.entries_put_back;
            writeln!(
                f,
                "WARNING: another program removed {count} of our rules and blocking routes, \
                 which were put back"
            )?;
        }
        Ok(())
    }
}

impl Display for ConnectionState {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl Display for ConnectionStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.state)?;
        if let Some(left) = self.retry_in_s {
            write!(f, " in {}", Age(left.ceil()))?;
        }
        write!(f, ", {}", self.version)?;
        if let Some(deprecated) = &self.deprecated {
            write!(f, " ({deprecated})")?;
        }
        if self.legacy {
            write!(f, ", {LEGACY} algorithms permitted")?;
        }
        if self.clear {
            write!(f, ", NO IPsec: traffic is unencrypted")?;
        } else if self.blocks && self.state == ConnectionState::Listening {
            write!(f, ", traffic without a tunnel blocked")?;
        } else if self.blocks && self.state != ConnectionState::Established {
            write!(f, ", traffic blocked until it is up")?;
        }
        writeln!(f)?;
        if let Some(reason) = &self.last_failure {
            writeln!(f, "  last failure: {reason}")?;
        }
        if let Some(reason) = &self.last_end {
            writeln!(f, "  the last tunnel has ended: {reason}")?;
        }
        if let Some(why) = &self.cannot_send {
            writeln!(f, "  {why}")?;
        }
        if !self.missing.is_empty() {
            writeln!(f, "  not up: {}", self.missing.join("; "))?;
        }
        if !self.narrowed.is_empty() {
            writeln!(f, "  not all protected: {}", self.narrowed.join("; "))?;
        }
        if !self.passed_over.is_empty() {
            writeln!(f, "  not used: {}", self.passed_over.join(", "))?;
        }
        if !self.dns.is_empty() {
            let all: Vec<String> = self.dns.iter().map(ToString::to_string).collect();
            writeln!(f, "  resolvers: {}", all.join(", "))?;
        }
        if let Some(file) = &self.trust_anchor_file {
            writeln!(f, "  keys of DNSSEC, in {file}:")?;
            let mut all = self.trust_anchors.iter();
            all.try_for_each(|record| writeln!(f, "    {record}"))?;
        }
        self.sessions.iter().try_for_each(|session| session.fmt(f))
    }
}

impl Display for SessionStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let peer = self.peer.as_deref().unwrap_or("half open");
        write!(f, "  {peer}")?;
        if let (Some(local), Some(remote)) = (self.local, self.remote) {
            write!(f, ", {local} to {remote}")?;
        }
        writeln!(f, ", {}", self.role)?;
        if let Some(suite) = &self.suite {
            match &self.deprecated {
                Some(deprecated) => write!(
                    f,
                    "    phase 1: {suite}{} (IKEv1 {deprecated})",
                    legacy(self.legacy)
                )?,
                None => write!(
                    f,
                    "    IKEv{}: {suite}{}",
                    self.version,
                    legacy(self.legacy)
                )?,
            }
            if let Some(ppk) = &self.ppk {
                write!(f, ", PPK {ppk}")?;
                if let Some(exchange) = &self.ppk_exchange {
                    write!(f, " in {exchange}")?;
                }
            }
            let nat = match self.nat.as_str() {
                "local" => "we are behind a NAT",
                "remote" => "the peer is behind a NAT",
                "both" => "both are behind a NAT",
                _ => "no NAT",
            };
            write!(f, ", {nat}")?;
            if self.sha1_signature {
                write!(f, ", signed with SHA-1")?;
            }
            if self.full_transcript {
                write!(f, ", full transcript")?;
            }
            if self.resumed {
                write!(f, ", resumed")?;
            }
            if self.mobike {
                write!(f, ", MOBIKE")?;
            }
            match self.moves {
                0 => {}
                1 => write!(f, ", moved once")?,
                more => write!(f, ", moved {more} times")?,
            }
            if let Some(age) = self.age_s {
                write!(f, ", up {}", Age(age))?;
            }
            writeln!(f)?;
        }
        if !self.peer_addresses.is_empty() {
            let others: Vec<String> = self
                .peer_addresses
                .iter()
                .map(ToString::to_string)
                .collect();
            writeln!(f, "    other addresses of the peer: {}", others.join(", "))?;
        }
        if !self.inner.is_empty() {
            let inner: Vec<String> = self.inner.iter().map(ToString::to_string).collect();
            writeln!(f, "    inner: {}", inner.join(", "))?;
        }
        self.children.iter().try_for_each(|child| child.fmt(f))
    }
}

impl Display for ChildStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let transport = match self.protocol.as_str() {
            _ if self.encapsulated => " in UDP",
            "ESP" => " by protocol 50 (one system call a packet)",
            _ => "",
        };
        write!(
            f,
            "    {}: {} {}{transport}, {}{}, in {} out {}",
            self.name,
            self.protocol,
            self.mode,
            self.suite,
            legacy(self.legacy),
            self.spi_in,
            self.spi_out
        )?;
        if let Some(age) = self.age_s {
            write!(f, ", up {}", Age(age))?;
        }
        writeln!(f)?;
        write!(f, "      {} === {}", self.local_ts, self.remote_ts)?;
        if let Some(address) = self.pool_address {
            write!(f, ", shown inside as {address}")?;
        }
        writeln!(f)?;
        write!(
            f,
            "      in {} packets, {}; out {} packets, {}",
            self.packets_in,
            Bytes(self.bytes_in),
            self.packets_out,
            Bytes(self.bytes_out)
        )?;
        if self.path_mtu > 0 {
            write!(f, "; the path carries {} B", self.path_mtu)?;
        }
        match self.last_seen_s {
            Some(last) => writeln!(f, "; last seen {} ago", Age(last)),
            None => writeln!(f, "; not seen yet"),
        }
    }
}

fn legacy(is_legacy: bool) -> String {
    match is_legacy {
        true => format!(" {LEGACY}"),
        false => String::new(),
    }
}

/// "1 d 2 h", "3 h 4 min", "5 min 6 s", "7 s".
struct Age(f64);

impl Display for Age {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let seconds = self.0.max(0.0) as u64;
        let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
        let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
        match (days, hours, minutes) {
            (0, 0, 0) => write!(f, "{rest} s"),
            (0, 0, _) => write!(f, "{minutes} min {rest} s"),
            (0, _, _) => write!(f, "{hours} h {minutes} min"),
            _ => write!(f, "{days} d {hours} h"),
        }
    }
}

/// "999 B", "1.5 kB", "2.0 MB".
struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut value = self.0 as f64;
        let mut units = ["kB", "MB", "GB", "TB"].iter();
        let mut unit = "B";
        while value >= 1000.0
            && let Some(next) = units.next()
        {
            value /= 1000.0;
            unit = next;
        }
        match unit {
            "B" => write!(f, "{} B", self.0),
            _ => write!(f, "{value:.1} {unit}"),
        }
    }
}
