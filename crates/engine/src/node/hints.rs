//! What a node tells whoever uses a security association that it does not have, as after a restart:
//! INVALID-SPI and INVALID-COOKIE (RFC 2408 §5.2), in clear, for there are no keys.
//!
//! Nothing is owed to a stranger: a hint is no longer than what it answers, nothing in clear is
//! answered, and there are few of them in a second. What a hint is worth to whoever gets it is in
//! `liveness/unheard.rs`.

use super::session::with_marker;
use super::{IKE_PORT, Node, Output};
use crate::ikev1::in_clear::{unknown_child, unknown_ike};
use crate::ikev1::message::Message;
use crate::sa::Path;
use crate::time::{Duration, Instant};

/// Between two hints, in the long run: a flood of forged packets has no more answers.
pub(super) const HINT_INTERVAL: Duration = Duration::from_millis(10);
/// Hints that may leave at once, as time.
const BURST: Duration = Duration::from_secs(1);

/// How many hints have been given lately.
#[derive(Default)]
pub(super) struct Hints {
    /// When all that were given would have left at the long run's rate.
    spent_until: Instant,
}

impl Hints {
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let from = self.spent_until.max(now);
        let is_free = from.since(now) < BURST;
        if is_free {
            self.spent_until = from + HINT_INTERVAL;
        }
        is_free
    }
}

impl Node {
    /// A message of phase 2 under cookies that we do not have. Its sender hears that, under its
    /// own cookies, which nobody else can guess.
    pub(super) fn deny_cookies(&mut self, path: Path, message: &Message<'_>, now: Instant) {
        if !message.is_of_phase2() {
            return;
        }
        let hint = unknown_ike(message, &mut self.random);
        if hint.len() <= message.octets().len() {
            self.hint(path, hint, now);
        }
    }

    /// ESP or AH came for an SPI that we do not have. A gateway says so, as it has no better means
    /// after a restart; a station asks its gateway, with which it may be out of step.
    pub(super) fn on_unknown_spi(&mut self, path: Path, spi: u32, now: Instant) {
        let path = as_ike(path);
        let mut stations = self.stations.iter().filter_map(|it| it.state.session());
        let is_of = |id: &_| self.sessions.get(id).is_some_and(|it| it.path == path);
        if let Some(id) = stations.find(is_of) {
            return self.ask_hinted(id, "ESP of an SPI that we do not have", now);
        }
        if self.answers_at(path) {
            let hint = unknown_child(spi, &mut self.random);
            self.hint(path, hint, now);
        }
    }

    /// Whether a connection answers peers there, and does not begin with them.
    pub(super) fn answers_at(&self, path: Path) -> bool {
        let mut candidates = self.candidates(path).into_iter();
        candidates.any(|it| it.remote_addrs.is_empty())
    }

    fn hint(&mut self, path: Path, hint: Vec<u8>, now: Instant) {
        if !self.is_stopping && self.hints.take(now) {
            let datagram = Output::Datagram(path, with_marker(path, hint));
            self.outputs.push_back(datagram);
        }
    }
}

/// Where the IKE of whoever sent a packet listens: at its own port in UDP, else at 500.
fn as_ike(path: Path) -> Path {
    if path.remote.port() != 0 {
        return path;
    }
    Path {
        local: (path.local.ip(), IKE_PORT).into(),
        remote: (path.remote.ip(), IKE_PORT).into(),
    }
}
