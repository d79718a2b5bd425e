//! When everything is up, and when whoever waits for that has waited long enough.

use engine::config::Start;
use tracing::info;

use super::Process;
use super::setup::names;
use crate::cli::Role;

/// After so many attempts `--detach` reports a failure.
const ATTEMPTS_AWAITED: u32 = 2;

impl Process {
    /// In the foreground, and once it was up, a station tries for ever. Whoever waits at a terminal
    /// for `--detach` to return is told why it does not come up.
    pub(super) fn give_up(&mut self) -> anyhow::Result<()> {
        let is_awaited = !self.is_ready && self.options.ready.is_awaited();
        if !is_awaited || self.failed_attempts < ATTEMPTS_AWAITED {
            return Ok(());
        }
        let trouble = self.troubles.first_key_value();
        let reason = trouble.map_or("no way to the peer", |(_, reason)| reason);
        let line = format!("not up after {} attempts: {reason}", self.failed_attempts);
        self.options.ready.failed(&line)?;
        self.lifts = true;
        anyhow::bail!(line)
    }

    /// Says once that everything is up.
    pub(super) fn become_ready(&mut self) -> anyhow::Result<()> {
        if self.is_ready || !self.is_up() {
            return Ok(());
        }
        self.is_ready = true;
        let line = match self.options.role {
            Role::Gateway => format!("listening for {}", names(&self.loaded).join(", ")),
            Role::Station => format!("up: {}", names(&self.loaded).join(", ")),
        };
        info!("{line}");
        Ok(self.options.ready.up(&line)?)
    }

    /// A gateway that listens is up; a station, when every connection that begins at once is.
    fn is_up(&self) -> bool {
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
        let awaited = status.connections.iter().filter(|c| is_awaited(&c.name));
        let is_established = |c: &engine::node::ConnectionStatus| {
            c.sessions
                .iter()
                .any(|session| !session.children.is_empty())
        };
        awaited.into_iter().all(is_established)
    }
}
