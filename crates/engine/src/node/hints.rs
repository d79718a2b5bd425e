//! Hints to a sender that uses an SA that we do not have, for example after our restart:
//! INVALID-SPI and INVALID-COOKIE (RFC 2408 §5.2). They are unencrypted, because there are no keys.
//!
//! A hint is never longer than what it answers, answers nothing unencrypted, and their rate has a
//! limit. `liveness/unheard.rs` decides what a received hint causes.

use super::session::with_marker;
use super::{IKE_PORT, Node, Output};
use crate::ikev1::in_clear::{unknown_child, unknown_ike};
use crate::ikev1::message::Message;
use crate::rate::Rate;
use crate::sa::{Path, Via};
use crate::time::{Duration, Instant};

/// Average time between two hints, also in a flood of forged packets.
pub(super) const HINT_INTERVAL: Duration = Duration::from_millis(10);
/// Hints that may leave at once.
pub(super) const HINTS_AT_ONCE: u32 = 100;
/// The limit of hints, and of whatever else strangers are told.
pub(super) const HINTS: Rate = Rate::new(HINTS_AT_ONCE, HINT_INTERVAL);

impl Node {
    /// A message of phase 2 with unknown cookies. The hint carries these cookies, which only the
    /// sender knows.
    pub(super) fn deny_cookies(&mut self, path: Path, message: &Message<'_>, now: Instant) {
        if !message.is_of_phase2() {
            return;
        }
        let hint = unknown_ike(message, &mut self.random);
        if hint.len() <= message.octets().len() {
            self.hint(path, hint, now);
        }
    }

    /// ESP or AH came for an unknown SPI. A gateway sends a hint, because it can do nothing better
    /// after a restart. A station probes its gateway, because their SAs may differ.
    pub(super) fn on_unknown_spi(&mut self, path: Path, spi: u32, now: Instant) {
        let path = as_ike(path);
        if let Some(id) = self.station_session_at(path) {
            return self.ask_hinted(id, "ESP of an SPI that we do not have", now);
        }
        if self.answers_at(path) {
            let hint = unknown_child(spi, &mut self.random);
            self.hint(path, hint, now);
        }
    }

    /// Whether a connection is a responder for peers at this address.
    pub(super) fn answers_at(&self, path: Path) -> bool {
        let mut candidates = self.config.between(path).into_iter();
        candidates.any(|it| it.remote_addrs.is_empty())
    }

    fn hint(&mut self, path: Path, hint: Vec<u8>, now: Instant) {
        if !self.is_stopping && self.hints.take_one(HINTS, now) {
            let datagram = Output::Datagram(path, with_marker(path, hint));
            self.outputs.push(datagram);
        }
    }
}

/// Where the sender of a packet listens for IKE: its own port in UDP, otherwise 500.
fn as_ike(path: Path) -> Path {
    if path.via != Via::Raw {
        return path;
    }
    Path::udp((path.local.ip(), IKE_PORT), (path.remote.ip(), IKE_PORT))
}
