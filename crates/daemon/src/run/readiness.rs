//! Decides when the process serves, when everything is up, and when a waiting terminal gets a
//! failure.
//!
//! The service manager waits until the blocks are in place and the process answers commands: the
//! boot of a host, and a reload, must not wait for a gateway. Its status line says what is missing.
//!
//! In the foreground, and once it was up, a client retries for ever. A terminal that waits for
//! `--detach` sees the progress. It gets a failure when an attempt at each address of a gateway has
//! failed, or after its time limit, whichever comes first.

mod notes;
mod silence;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::config::{Connection, Start};
use engine::ike::{Step, Unanswered, Unreachable};
use engine::node::{self, Event};
use engine::time::Calendar;
use tracing::{info, warn};

use super::Process;
use super::mobility::MobilePart;
use super::mobility::surroundings::closed;
use super::unsent::Unsent;
use crate::config;
use crate::options::Role;
use crate::routes::reach;
use crate::service;
use crate::status::{ConnectionState, ConnectionStatus};
use notes::{Note, Notes};
use silence::{Silence, is_by_key};

/// The progress of a client's connections.
#[derive(Default)]
pub(super) struct Progress {
    /// By its name.
    by_connection: BTreeMap<String, ConnectionProgress>,
    /// What a waiting terminal has not been told yet.
    notes: Notes,
    /// What this host could not send, also to other peers than gateways.
    pub(super) unsent: Unsent,
    /// The date, for checks of our own certificates.
    pub(super) calendar: Calendar,
}

/// The progress of one connection.
#[derive(Default)]
struct ConnectionProgress {
    /// Why the last negotiation failed, until one succeeds.
    trouble: Option<String>,
    /// Why the last tunnel ended, until there is another.
    ended: Option<String>,
    /// Our last unanswered message.
    silence: Option<Silence>,
    /// The address that answered last.
    answered: Option<SocketAddr>,
    /// The failure that the log has in this attempt: where, and why.
    told: Option<(SocketAddr, String)>,
    /// There is an IKE SA: what fails under it is no part of an attempt.
    is_established: bool,
    /// The number of the last attempt that failed; 0 if none did since it was last up.
    failed: u32,
}

impl Progress {
    /// Why a connection's last negotiation failed, if it has not come up since.
    pub(super) fn trouble(&self, connection: &str) -> Option<String> {
        self.by_connection.get(connection)?.trouble.clone()
    }

    /// Why a client's last tunnel ended, if it has not come up since.
    pub(super) fn last_end(&self, connection: &str) -> Option<String> {
        self.by_connection.get(connection)?.ended.clone()
    }

    /// Tells both.
    pub(super) fn tell(&self, connection: &mut ConnectionStatus) {
        connection.last_failure = self.trouble(&connection.name);
        // A child may have ended because another has taken its place.
        let is_up = connection.state == ConnectionState::Established;
        let ended = self.last_end(&connection.name);
        connection.last_end = ended.filter(|_| !is_up);
    }

    /// The first, or what is known of a silence that has lasted a while.
    fn missing(&self, connection: &str) -> Option<String> {
        let it = self.by_connection.get(connection)?;
        let silence = it.silence.as_ref();
        let silence = silence.filter(|it| it.is_long(&self.unsent));
        let trouble = it.trouble.clone();
        trouble.or_else(|| silence.map(|it| it.words(&self.unsent)))
    }

    /// A peer that refuses us does not say why. So an unacceptable certificate of ours is added to
    /// the failure.
    pub(super) fn explained(&self, event: Event, connections: &[Arc<Connection>]) -> Event {
        match event {
            Event::NegotiationFailed {
                connection: Some(connection),
                path,
                reason,
            } => Event::NegotiationFailed {
                reason: self.with_own_fault(&connection, reason, connections),
                connection: Some(connection),
                path,
            },
            other => other,
        }
    }

    fn with_own_fault(&self, name: &str, reason: String, all: &[Arc<Connection>]) -> String {
        let connection = all.iter().find(|connection| connection.name == name);
        let now = self.calendar.0;
        match connection.and_then(|connection| config::own_fault(connection, now)) {
            Some(fault) => format!("our own {fault}; {reason}"),
            None => reason,
        }
    }

    /// Something for the waiting terminal.
    pub(super) fn say(&mut self, line: String) {
        self.notes.add(Note::News(line));
    }

    /// Handles an event. Returns a line for the waiting terminal, if any.
    fn on_event(&mut self, event: &Event, connections: &[Arc<Connection>]) -> Option<Note> {
        self.note_turn(event);
        match event {
            Event::NegotiationFailed {
                connection: Some(connection),
                reason,
                ..
            } => {
                let is_told = self.is_told(event);
                let it = self.by_connection.entry(connection.clone()).or_default();
                let silence = it.silence.as_ref();
                let obstacle = silence.and_then(|it| it.obstacle(&self.unsent));
                let reason = it
                    .trouble
                    .insert(obstacle.unwrap_or_else(|| reason.clone()));
                (!is_told).then(|| Note::Failed(connection.clone(), reason.clone()))
            }
            // It says what the gateway does not do.
            Event::PeerComplains {
                connection: Some(connection),
                complaint,
                is_proven: true,
                ..
            } => Some(Note::News(format!("{connection}: {complaint}"))),
            Event::PeerComplains {
                connection: Some(connection),
                path,
                complaint,
                is_proven: false,
            } => self.on_hint(connection, path.remote, complaint),
            Event::ChildEstablished { connection, .. } => {
                let it = self.of(connection);
                (it.trouble, it.ended, it.failed) = (None, None, 0);
                None
            }
            Event::RetryScheduled {
                connection,
                in_ms,
                attempt,
                ..
            } => {
                self.of(connection).failed = *attempt;
                Some(Note::Again(connection.clone(), *in_ms as f64 / 1e3))
            }
            Event::Message {
                connection: Some(connection),
                is_sent: false,
                ..
            } => {
                let it = self.of(connection);
                if let Some(silence) = it.silence.take() {
                    it.answered = Some(silence.asked.remote);
                }
                None
            }
            Event::Message {
                connection: Some(connection),
                step,
                message_id,
                remote: Some(remote),
                ..
            } => self
                .on_sent(connection, (*step, *message_id), *remote, connections)
                .map(Note::News),
            _ => None,
        }
    }

    /// The log has this event. Nobody else must be told the same failure again in this attempt.
    fn logged(&mut self, event: &Event) {
        if let Event::NegotiationFailed {
            connection: Some(connection),
            path,
            reason,
        } = event
        {
            self.of(connection).told = Some((path.remote, reason.clone()));
        }
    }

    /// Whether this failure was told in the same attempt: a refusal in clear is told when it comes,
    /// and is believed only if no better answer follows.
    pub(super) fn is_told(&self, event: &Event) -> bool {
        let Event::NegotiationFailed {
            connection: Some(connection),
            path,
            reason,
        } = event
        else {
            return false;
        };
        let it = self.by_connection.get(connection);
        let told = it.filter(|it| !it.is_established);
        let told = told.and_then(|it| it.told.as_ref());
        told.is_some_and(|(remote, why)| *remote == path.remote && why == reason)
    }

    /// Keeps whether there is an IKE SA, and why a tunnel ended. Some peers delete the children
    /// first.
    fn note_turn(&mut self, event: &Event) {
        match event {
            // Its predecessor may end between both, with children.
            Event::IkeEstablished { connection, .. }
            | Event::ChildEstablished { connection, .. } => self.of(connection).turn(true),
            // One without children may have lost a race, or have a successor.
            Event::IkeClosed {
                connection,
                had_children: true,
                ..
            }
            | Event::RetryScheduled { connection, .. } => self.of(connection).turn(false),
            _ => {}
        }
        if let Event::ChildClosed {
            connection, cause, ..
        }
        | Event::IkeClosed {
            connection,
            had_children: true,
            cause,
        } = event
        {
            self.of(connection).ended = Some(cause.to_string());
        }
    }

    /// A refusal that anybody can have sent.
    fn on_hint(&mut self, connection: &str, remote: SocketAddr, complaint: &str) -> Option<Note> {
        let it = self.by_connection.get_mut(connection)?;
        let silence = it.silence.as_mut()?;
        let is_it = silence.asked.remote == remote && silence.refusal.is_none();
        is_it.then(|| {
            silence.refusal = Some(complaint.to_owned());
            Note::News(format!("{connection}: {}", silence.words(&self.unsent)))
        })
    }

    fn on_sent(
        &mut self,
        connection: &str,
        (step, message_id): (Step, Option<u32>),
        remote: SocketAddr,
        connections: &[Arc<Connection>],
    ) -> Option<String> {
        let it = self.by_connection.entry(connection.to_owned()).or_default();
        it.silence
            .take_if(|it| it.asked.step != step || it.asked.remote != remote);
        let is_other_port = |it: &SocketAddr| it.ip() == remote.ip() && *it != remote;
        let answered = it.answered.filter(is_other_port);
        let silence = it.silence.get_or_insert_with(|| Silence {
            asked: Unanswered {
                step,
                remote,
                moved_from: answered.map(|it| it.port()),
                tries: 0,
                is_by_key: is_by_key(connection, connections),
                unreachable: None,
            },
            times: BTreeMap::new(),
            refusal: None,
        });
        let times = silence.times.entry(message_id).or_default();
        *times += 1;
        let is_repetition = *times > 1;
        silence.asked.tries = silence.asked.tries.max(*times);
        // Why it could not be sent was said when it was first tried.
        let is_told = silence.refusal.is_some() || self.unsent.why(remote).is_some();
        let told = || format!("{connection}: {}", silence.words(&self.unsent));
        (is_repetition && !is_told).then(told)
    }

    /// Whether a first hint on the silence of this address would be useful.
    pub(super) fn awaits(&self, remote: SocketAddr) -> bool {
        let mut all = self.silences();
        all.any(|(_, silence)| silence.may_be_explained(remote))
    }

    fn of(&mut self, connection: &str) -> &mut ConnectionProgress {
        self.by_connection.entry(connection.to_owned()).or_default()
    }

    fn silences(&self) -> impl Iterator<Item = (&String, &Silence)> {
        let all = self.by_connection.iter();
        all.filter_map(|(name, it)| Some((name, it.silence.as_ref()?)))
    }

    /// ICMP says that our message did not arrive. Anybody can send that, so it is only a hint for
    /// the terminal and the attempt continues. Returns a line, once.
    pub(super) fn unreachable(&mut self, remote: SocketAddr, what: Unreachable) -> Option<String> {
        let all = self.by_connection.iter_mut();
        let mut all = all.filter_map(|(name, it)| Some((name, it.silence.as_mut()?)));
        let (connection, silence) = all.find(|(_, it)| it.may_be_explained(remote))?;
        silence.asked.unreachable = Some(what);
        Some(format!("{connection}: {}", silence.asked))
    }

    /// Our own host refuses to send a message. Returns a line, once.
    pub(super) fn refused(&mut self, remote: SocketAddr, error: &io::Error) -> Option<String> {
        let why = self.unsent.refused(remote, error)?;
        let mut all = self.silences();
        let (connection, _) = all.find(|(_, it)| it.asked.remote == remote)?;
        Some(format!("{connection}: {why}"))
    }

    /// Why to stop waiting, in one sentence. `None`: continue. `part`: why the part in Mobile IPv4
    /// is not up.
    fn end(
        &self,
        (waited, timeout): (Duration, Duration),
        connections: &[Arc<Connection>],
        part: Option<String>,
    ) -> Option<String> {
        let failed = |connection: &Arc<Connection>| {
            let failed = self.by_connection.get(&connection.name)?.failed;
            has_failed(connection, failed).then(|| (connection.name.clone(), failed))
        };
        let (name, after) = match connections.iter().find_map(failed) {
            Some((name, 1)) => (Some(name), "1 attempt".to_owned()),
            Some((name, several)) => (Some(name), format!("{several} attempts")),
            None if waited < timeout => return None,
            None => (None, format!("{} s (--timeout)", timeout.as_secs())),
        };
        let reason = match (&name, part) {
            (None, Some(part)) => part,
            _ => self.reason(name.as_deref(), connections),
        };
        Some(format!(
            "not up after {after}, and nothing is left in the background: {reason}"
        ))
    }

    /// The reason of this connection, or of any that has one.
    fn reason(&self, name: Option<&str>, connections: &[Arc<Connection>]) -> String {
        let is_meant = |of: &str| name.is_none_or(|name| name == of);
        let meant = self.by_connection.iter().filter(|(of, _)| is_meant(of));
        if let Some(reason) = meant.filter_map(|(_, it)| it.trouble.clone()).next() {
            return reason;
        }
        // A connection with failed attempts has a reason above, or its tunnel ended, or it could
        // send nothing.
        if let Some((of, silence)) = self.silences().next().filter(|_| name.is_none()) {
            return self.with_own_fault(of, silence.words(&self.unsent), connections);
        }
        let mut down = (self.by_connection.iter())
            .filter(|(of, it)| is_meant(of) && !it.is_established)
            .filter_map(|(of, it)| Some((of, it.ended.as_ref()?)));
        match down.next() {
            Some((of, why)) => format!("{of} came up and its tunnel ended: {why}"),
            None => no_way(name, connections),
        }
    }
}

impl ConnectionProgress {
    /// An IKE SA came up, or the last one has ended, or an attempt.
    fn turn(&mut self, is_established: bool) {
        (self.is_established, self.told) = (is_established, None);
    }
}

/// Whether so many failed attempts are one at each address of the gateway.
fn has_failed(connection: &Connection, attempts: u32) -> bool {
    connection.start == Start::AtOnce && attempts as usize >= connection.remote_addrs.len()
}

/// Nothing could be sent.
fn no_way(name: Option<&str>, connections: &[Arc<Connection>]) -> String {
    let is_meant = |c: &&Arc<Connection>| name.is_none_or(|name| name == c.name);
    let addresses = connections.iter().find(is_meant).map(|c| &c.local_addrs);
    match addresses.filter(|addresses| !addresses.is_empty()) {
        Some(addresses) => format!("no route to the peer from local_addrs = {addresses:?}"),
        None => "no route to the peer".to_owned(),
    }
}

impl Process {
    /// Handles an ICMP report that our messages do not arrive.
    pub(super) fn on_unreachable(&mut self, remote: SocketAddr, what: Unreachable) {
        if !self.progress.awaits(remote) {
            return;
        }
        let own = reach::own_networks(&self.loaded.daemon.tun);
        let what = reach::seen_from_here(remote.ip(), what, &own);
        if let Some(line) = self.progress.unreachable(remote, what) {
            warn!("{line}");
            self.progress.say(line);
            self.tell_standing();
        }
    }

    /// Records the progress of a client's attempts, and shows it at a waiting terminal.
    /// `is_logged`: the log has the event.
    pub(super) fn note(&mut self, event: &Event, is_logged: bool) {
        if self.options.role != Role::Station {
            return;
        }
        let connections = &self.loaded.engine.connections;
        let note = self.progress.on_event(event, connections);
        if is_logged {
            self.progress.logged(event);
        }
        let is_news = note.is_some();
        if let Some(note) = note {
            // The log already has a line for every other event.
            if matches!(event, Event::Message { .. }) {
                info!("{}", note.words());
            }
            self.progress.notes.add(note);
        }
        let is_turn = matches!(
            event,
            Event::ChildEstablished {
                is_rekey: false,
                ..
            } | Event::ChildClosed { .. }
                | Event::RetryScheduled { .. }
        );
        if is_turn || is_news {
            self.tell_standing();
        }
    }

    /// Updates the line of the service manager.
    fn tell_standing(&self) {
        if self.is_serving || self.is_ready {
            service::notify(service::ServiceState::Status(&self.standing()));
        }
    }

    /// How long the terminal will keep waiting.
    pub(super) fn patience_left(&self) -> Option<Duration> {
        let is_awaited = !self.is_ready && self.options.ready.is_awaited();
        let waited = Duration::from_nanos(self.clock.now().0);
        is_awaited.then(|| self.options.timeout.saturating_sub(waited))
    }

    /// Tells a terminal that waits for `--detach` why it does not come up. Then the process ends.
    pub(super) fn give_up(&mut self) -> anyhow::Result<()> {
        let Some(left) = self.patience_left() else {
            self.progress.notes = Notes::default();
            return Ok(());
        };
        let timeout = self.options.timeout;
        let connections = &self.loaded.engine.connections;
        let part = self.mobility.as_ref().and_then(MobilePart::trouble);
        let spans = (timeout.saturating_sub(left), timeout);
        let end = self.progress.end(spans, connections, part);
        self.tell_terminal(end.as_deref());
        let Some(line) = end else {
            return Ok(());
        };
        self.options.ready.failed(&line)?;
        anyhow::bail!(line)
    }

    /// Tells a waiting terminal what it has not been told. `end`: the sentence after that.
    fn tell_terminal(&mut self, end: Option<&str>) {
        for line in self.progress.notes.take(end) {
            self.options.ready.note(&line);
        }
    }

    /// Whether the process will give up because of this event, as a terminal waits.
    pub(super) fn gives_up_after(&self, event: &Event) -> bool {
        let Event::RetryScheduled {
            connection,
            attempt,
            ..
        } = event
        else {
            return false;
        };
        let mut all = self.loaded.engine.connections.iter();
        self.patience_left().is_some()
            && all.any(|it| it.name == *connection && has_failed(it, *attempt))
    }

    /// Reports that the process serves, and once that everything is up: the tunnels, and the routes
    /// into them.
    pub(super) fn become_ready(&mut self) -> anyhow::Result<()> {
        if self.is_ready || !self.host.is_up_to_date() {
            return Ok(());
        }
        if !self.is_up() {
            if !self.is_serving {
                self.is_serving = true;
                self.options.ready.serving(&self.standing());
            }
            return Ok(());
        }
        self.is_ready = true;
        let line = match self.options.role {
            Role::Station => self.standing(),
            Role::Gateway | Role::HomeAgent | Role::ForeignAgent | Role::Firewall => {
                format!("listening for {}", self.loaded.names().join(", "))
            }
        };
        info!("{line}");
        // After the service manager's start it may forward: no cause for alarm yet.
        let (forwarding, routes) = self
            .loaded
            .mobility
            .as_ref()
            .map(closed)
            .unwrap_or_default();
        if let Some(text) = forwarding {
            info!("the filter stands, but {text}");
        }
        if let Some(text) = routes {
            warn!("{text}");
        }
        self.tell_terminal(None);
        Ok(self.options.ready.up(&line)?)
    }

    /// The state of a client's connections, in one line.
    fn standing(&self) -> String {
        let status = self.node.status(self.clock.now());
        let (up, others): (Vec<_>, Vec<_>) = status.connections.iter().partition(|c| is_up(c));
        let names: Vec<&str> = up.iter().map(|c| c.name.as_str()).collect();
        let up = (!names.is_empty()).then(|| format!("up: {}", names.join(", ")));
        let state = |c: &node::ConnectionStatus| ConnectionState::from(c.state);
        let others = others.iter().map(|c| {
            let why = self.progress.missing(&c.name);
            let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
            format!("{}: {}{why}", c.name, state(c))
        });
        let clear = self.loaded.clear.iter();
        let clear = clear.map(|name| format!("{name}: in clear"));
        let mobile = self.mobility.iter().map(|part| match part.is_up() {
            true => format!("{}: up", part.name()),
            false => format!("{}: registering", part.name()),
        });
        others
            .chain(clear)
            .chain(mobile)
            .chain(up)
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// A gateway is up when it listens, a client when every connection that starts at once is up.
    fn is_up(&self) -> bool {
        if self.mobility.as_ref().is_some_and(|part| !part.is_up()) {
            return false;
        }
        let status = self.node.status(self.clock.now());
        let is_awaited = |name: &str| {
            let connection = self
                .host
                .config()
                .connections
                .iter()
                .find(|c| c.name == name);
            connection.is_some_and(|connection| connection.start == Start::AtOnce)
        };
        let mut awaited = status.connections.iter().filter(|c| is_awaited(&c.name));
        awaited.all(is_up)
    }
}

fn is_up(connection: &node::ConnectionStatus) -> bool {
    connection.state == node::ConnectionState::Established
}

#[cfg(test)]
mod tests;
