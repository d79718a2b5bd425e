//! Feeds one input to the node and executes all outputs that follow.

use engine::node::{Cause, Event, Input, Output};
use engine::plane::{InboundChange, OutboundChange, SaReport};
use engine::sa::{Direction, Path, Sa};
use tracing::warn;

use super::report::LineLimit;
use super::{Process, report};
use crate::planes::Report;

/// A full disk ends no tunnel.
const NO_KEY: &str = "a key is missing beside the capture: Wireshark cannot decrypt its packets";

impl Process {
    /// Handles one input and everything that follows from it.
    pub(super) async fn input(&mut self, input: Input<'_>) -> anyhow::Result<()> {
        self.node.handle(input, self.clock.now());
        let mut is_changed = self.drain()?;
        while core::mem::take(&mut self.wants_report) {
            let reports = self.traffic(Direction::Inbound).await;
            self.node.handle(Input::Report(&reports), self.clock.now());
            is_changed |= self.drain()?;
        }
        if is_changed {
            self.update_host();
        }
        self.become_ready()
    }

    /// Derives the desired state of the host from the node's current state.
    pub(super) fn update_host(&mut self) {
        let now = self.clock.now();
        self.host
            .update(&self.loaded, &self.node, now, &self.downed);
    }

    /// Executes the node's outputs. Returns whether routes may have to change.
    fn drain(&mut self) -> anyhow::Result<bool> {
        let (mut is_changed, mut has_sent) = (false, false);
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
                Output::Event(event, cause) => is_changed |= self.on_event(event, &cause),
                Output::IkeKey(cookies, key) => {
                    if let Some((_, _, keys)) = &mut self.capture
                        && let Err(error) = keys.add_ike(cookies.initiator.0, &key.0)
                    {
                        warn!("{NO_KEY}: {error}");
                    }
                }
                Output::WantsReport => self.wants_report = true,
                Output::WantsAddresses => self.host.ask_ways(&self.node),
                // Making the messages may have taken seconds on a slow processor.
                Output::Wait(_) if core::mem::take(&mut has_sent) => {
                    self.node.handle(Input::Departed, self.clock.now());
                }
                Output::Wait(deadline) => {
                    self.deadline = deadline;
                    return Ok(is_changed);
                }
            }
        }
    }

    /// Sends a message. A stranger may have chosen an unreachable destination, so the log lines of
    /// such errors are limited too.
    fn send(&mut self, path: &Path, bytes: &[u8]) {
        if let Some((_, tap, _)) = &self.capture {
            tap.udp(path.local, path.remote, 0, bytes);
        }
        let Err(error) = self.udp.send(path, bytes) else {
            return self.progress.sent(path.remote);
        };
        self.unsent += 1;
        if let Some(line) = self.progress.unsent(path.remote, &error) {
            self.options.ready.note(&line);
        }
        if self.quota.takes(self.clock.now()) {
            warn!(remote = %path.remote, "cannot send: {error}");
        }
    }

    /// Adds the keys of an SA to the capture.
    fn capture_sa(&mut self, sa: &Sa) {
        if let Some((_, _, keys)) = &mut self.capture {
            match keys.add_sa(sa) {
                Ok(true) => {}
                Ok(false) => {
                    warn!("Wireshark cannot decrypt ESP of this suite");
                }
                Err(error) => warn!("{NO_KEY}: {error}"),
            }
        }
    }

    fn on_event(&mut self, event: Event, cause: &Cause) -> bool {
        let connections = &self.loaded.engine.connections;
        let event = self.progress.explained(event, connections);
        let now = self.clock.now();
        let is_logged = match report::line_limit(&event) {
            LineLimit::Strangers => self.quota.takes(now),
            LineLimit::Peer => self.node.takes_line(cause, now),
            LineLimit::None => true,
        };
        if is_logged {
            report::log(&event);
        }
        self.note(&event);
        let is_elsewhere = matches!(
            event,
            Event::IkeEstablished { .. } | Event::IkeClosed { .. } | Event::PathMoved { .. }
        );
        if is_elsewhere {
            self.peers.change();
        }
        let is_change = matches!(
            event,
            Event::InnerAddress { .. }
                | Event::IkeEstablished { .. }
                | Event::IkeClosed { .. }
                | Event::ChildEstablished { .. }
                | Event::ChildClosed { .. }
                | Event::PathMoved { .. }
                | Event::PathProven { .. }
        );
        self.host.on_event(&event);
        self.is_stopped |= event == Event::Stopped;
        is_change
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
