//! What both agents that serve have: a socket, a log, and counts of what was dropped.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};

use engine::agent::Output;
use tracing::info;

use super::door::Door;
use super::drops::Shown;
use super::log::Log;
use super::ppk;

/// Brings messages and lines of the log where they belong.
pub(super) struct Post {
    pub(super) socket: Door,
    log: Log,
    shown: Shown,
}

impl Post {
    pub(super) fn new(socket: Door, log: Log) -> Self {
        Self {
            socket,
            log,
            shown: Shown::default(),
        }
    }

    /// Does what a machine wants. A question is left to the caller.
    pub(super) async fn put<A>(&mut self, output: Output<A>) -> Option<(u64, A)> {
        match output {
            Output::Send { to, payload } => {
                // The other agents repeat what is lost.
                if let Err(fault) = self.socket.send_to(&payload, to).await {
                    self.shown.unsent += 1;
                    tracing::debug!("cannot send to {to}: {fault}");
                }
            }
            Output::Ask(number, ask) => return Some((number, ask)),
            Output::Audit(event) => {
                self.log.write(&event);
                ppk::tell(&event);
            }
        }
        None
    }

    /// Whether something may begin that the log tells.
    pub(super) fn is_ready(&mut self) -> bool {
        self.log.is_ready()
    }

    /// Shows what was dropped, if there is more of it.
    pub(super) fn show<D: Debug>(&mut self, drops: &BTreeMap<D, u64>) {
        self.shown.show(drops);
    }

    /// Says how it stands, at SIGHUP. A changed file is read at the next start.
    pub(super) fn stand<D: Debug>(&self, what: impl Display, drops: &BTreeMap<D, u64>) {
        let head = self.log.head();
        info!(
            "{what}; the log ends at {}:{}; dropped: {}",
            head.lines,
            head.former,
            self.shown.text(drops)
        );
    }
}
