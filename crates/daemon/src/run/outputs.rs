//! Feeds one input to the node and executes all outputs that follow.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use engine::mip4::carriers::Change;
use engine::node::{Cause, Event, Input, Output};
use engine::plane::{InboundChange, OutboundChange, SaReport};
use engine::sa::{Direction, Path, Sa};
use tracing::{debug, info, warn};

use super::report::LineLimit;
use super::{Process, report};
use crate::config::Mobility;
use crate::console::Gathering;
use crate::planes::{Gone, Report};
use crate::routes::Desired;

/// A full disk ends no tunnel.
const NO_KEY: &str = "a key is missing beside the capture: Wireshark cannot decrypt its packets";

/// What ended, by connection.
pub(super) type Ends = BTreeMap<String, Ended>;

/// What ended of one connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ended {
    /// ISAKMP SAs, half-open ones included.
    pub(super) sessions: usize,
    /// Those with at least one child.
    pub(super) tunnels: usize,
}

/// What the outputs after one input say.
#[derive(Default)]
struct Drained {
    /// Routes may have to change.
    is_changed: bool,
    /// The node waits for counts of the inbound plane.
    wants_report: bool,
    ends: Ends,
}

impl Drained {
    fn note(&mut self, event: &Event) {
        self.is_changed |= matches!(
            event,
            Event::InnerAddress { .. }
                | Event::IkeEstablished { .. }
                | Event::IkeClosed { .. }
                | Event::ChildEstablished { .. }
                | Event::ChildClosed { .. }
                | Event::PathMoved { .. }
                | Event::PathProven { .. }
        );
        if let Event::IkeClosed {
            connection,
            had_children,
            ..
        } = event
        {
            let ended = self.ends.entry(connection.clone()).or_default();
            ended.sessions += 1;
            ended.tunnels += usize::from(*had_children);
        }
    }
}

/// Warns of packets that Wireshark cannot decrypt. `written`: whether it can read the keys.
fn say_if_unread(protocol: &str, written: io::Result<bool>) {
    match written {
        Ok(true) => {}
        Ok(false) => warn!("Wireshark cannot decrypt {protocol} of this suite"),
        Err(error) => warn!("{NO_KEY}: {error}"),
    }
}

impl Process {
    /// Handles one input and everything that follows from it.
    pub(super) async fn input(&mut self, input: Input<'_>) -> anyhow::Result<()> {
        self.ends_of(input).await.map(drop)
    }

    /// Handles one input and everything that follows from it. Returns what the input itself ended.
    pub(super) async fn ends_of(&mut self, input: Input<'_>) -> anyhow::Result<Ends> {
        self.node.handle(input, self.clock.now());
        let first = self.drain()?;
        let (mut is_changed, mut wants_report) = (first.is_changed, first.wants_report);
        while wants_report {
            let reports = self.traffic(Direction::Inbound).await;
            self.node.handle(Input::Report(&reports), self.clock.now());
            let next = self.drain()?;
            is_changed |= next.is_changed;
            wants_report = next.wants_report;
        }
        if is_changed {
            self.update_host();
            self.leave_idle();
            self.tell_tunnel()?;
        }
        self.become_ready()?;
        Ok(first.ends)
    }

    /// Derives the desired state of the host from the node's current state.
    pub(super) fn update_host(&mut self) {
        let now = self.clock.now();
        let mobile = self.mobility.as_ref();
        let wish = |desired: &mut Desired| mobile.into_iter().for_each(|it| it.want(desired));
        self.host
            .update(&self.loaded, (&self.node, now), &self.downed, wish);
    }

    /// Executes the node's outputs.
    fn drain(&mut self) -> anyhow::Result<Drained> {
        let (mut drained, mut has_sent) = (Drained::default(), false);
        let _lines = Gathering::begin();
        loop {
            match self.node.poll() {
                Output::Datagram(path, bytes) => {
                    self.send(&path, &bytes);
                    has_sent = true;
                }
                Output::Inbound(change) => {
                    if let InboundChange::Install(sa) = &change {
                        self.capture_sa(sa);
                    }
                    self.planes.change_inbound(change)?;
                }
                Output::Outbound(change) => {
                    if let OutboundChange::Install(sa) = &change {
                        self.capture_sa(sa);
                    }
                    self.planes.change_outbound(change)?;
                }
                Output::Event(event, cause) => {
                    drained.note(&event);
                    self.capture_message(&event);
                    self.on_event(event, &cause);
                }
                Output::IkeKeys(spis, new) => {
                    if let Some((_, _, keys)) = &mut self.capture {
                        say_if_unread("IKE", keys.add_ike(spis, &new));
                    }
                }
                Output::Radius(to, datagram) => self.send_to_server(to, &datagram),
                Output::Keep(secrets) => self.secrets.write(&secrets),
                Output::WantsReport => drained.wants_report = true,
                Output::WantsAddresses => self.host.ask_ways(&self.node),
                // Making the messages may have taken seconds on a slow processor.
                Output::Wait(_) if core::mem::take(&mut has_sent) => {
                    self.node.handle(Input::Departed, self.clock.now());
                }
                Output::Wait(deadline) => {
                    self.planes.wake()?;
                    self.deadline = deadline;
                    return Ok(drained);
                }
            }
        }
    }

    /// Sends a message. A stranger may have chosen an unreachable destination, so the log lines of
    /// such errors are limited too. Returns whether it was sent.
    pub(super) fn send(&mut self, path: &Path, bytes: &[u8]) -> bool {
        // What this message makes possible is in the planes before it leaves. If they are gone, the
        // next order to them says so.
        let _ = self.planes.wake();
        if let Some((_, tap, _)) = &self.capture {
            tap.udp(path.local, path.remote, 0, bytes);
        }
        let done = match self.send_outside(path, bytes) {
            true => Ok(()),
            false => self.udp.send(path, bytes),
        };
        let Err(error) = done else {
            if self.progress.unsent.sent(path.remote) && self.quota.takes(self.clock.now()) {
                info!("can send to {} again", path.remote);
            }
            return true;
        };
        if let Some(line) = self.progress.refused(path.remote, &error) {
            self.progress.say(line);
        }
        match self.progress.unsent.unlogged(path.remote) {
            Some(why) if !self.is_between_links(&error) => {
                if self.quota.takes(self.clock.now()) {
                    warn!("{why}; said once until it can");
                    self.progress.unsent.logged(path.remote);
                }
            }
            _ => debug!("cannot send to {} yet: {error}", path.remote),
        }
        false
    }

    /// Leaves a change of Mobile IPv4 for its plane.
    pub(super) fn change_plane(&self, change: Change) -> Result<(), Gone> {
        match change {
            Change::Inbound(change) => self.planes.change_inbound(change),
            Change::Outbound(change) => self.planes.change_outbound(change),
        }
    }

    /// Sends a datagram to a server of RADIUS.
    fn send_to_server(&mut self, to: SocketAddr, datagram: &[u8]) {
        if let Err(error) = self.radius.send(to, datagram)
            && self.quota.takes(self.clock.now())
        {
            warn!("cannot ask the RADIUS server {to}: {error}");
        }
    }

    /// Whether this is what each move of a mobile node brings: for a moment it has no network.
    fn is_between_links(&self, error: &io::Error) -> bool {
        let is_mobile = matches!(self.loaded.mobility, Some(Mobility::MobileNode(_)));
        is_mobile && error.kind() == io::ErrorKind::NetworkUnreachable
    }

    /// Adds the keys of an SA to the capture.
    fn capture_sa(&mut self, sa: &Sa) {
        if let Some((_, _, keys)) = &mut self.capture {
            say_if_unread("ESP", keys.add_sa(sa));
        }
    }

    /// Adds what we have read in a message to the capture.
    fn capture_message(&self, event: &Event) {
        if let Some((_, tap, _)) = &self.capture
            && let Some(line) = report::message(event)
        {
            tap.line(&line);
        }
    }

    fn on_event(&mut self, event: Event, cause: &Cause) {
        let connections = &self.loaded.engine.connections;
        let event = self.progress.explained(event, connections);
        let now = self.clock.now();
        let is_logged = match report::line_limit(&event) {
            LineLimit::Strangers => self.quota.takes(now),
            LineLimit::Peer => self.node.takes_line(cause, now),
            LineLimit::None => true,
        };
        // What is planned does not come to pass if the process gives up.
        let is_news = !self.gives_up_after(&event) && !self.progress.is_told(&event);
        let is_logged = is_logged && is_news;
        if is_logged {
            report::log(&event);
        }
        self.note(&event, is_logged);
        if let Event::Upgraded {
            connection,
            peer,
            mark,
        } = &event
        {
            self.upgraded.note(connection, peer, *mark);
        }
        if let Event::SessionBegan { stay } = &event {
            self.came.insert(stay.connection.clone(), stay.remote);
        }
        let is_elsewhere = matches!(
            event,
            Event::IkeEstablished { .. } | Event::IkeClosed { .. } | Event::PathMoved { .. }
        );
        if is_elsewhere {
            self.peers.change();
        }
        self.host.on_event(&event);
        if let Event::IkeClosed { connection, .. } = &event {
            self.host.drop_keys(connection, &self.node);
        }
        self.is_stopped |= event == Event::Stopped;
    }

    async fn traffic(&self, direction: Direction) -> Vec<SaReport> {
        self.plane_report(direction)
            .await
            .map(|r| r.plane.associations)
            .unwrap_or_default()
    }

    pub(super) async fn plane_report(&self, direction: Direction) -> Option<Report> {
        self.planes.report(direction).ok()?.await.ok()
    }
}
