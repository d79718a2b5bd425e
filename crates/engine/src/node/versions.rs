//! Peers of another version of IKE than ours. Messages of IKEv2 and later are counted where we have
//! IKEv1 alone. A first message gets the answer that we support
//! IKEv1, so its sender does not repeat it until it gives up (RFC 7296 §1.5, §2.5).
//!
//! The answer is never longer than the message, and the rate has a limit.

use crate::ikev1::message::{is_later, refuse_later};

use super::hints::HINTS;
use super::session::with_marker;
use super::{Event, Node, Output};
use crate::counters::DropReason;
use crate::rate::Bucket;
use crate::sa::Path;
use crate::time::Instant;

/// The rate limits of answers and of what is said without one, separate from that of hints, which
/// stations wait for.
#[derive(Default)]
pub(super) struct Versions {
    answers: Bucket,
    unanswered: Bucket,
}

impl Node {
    /// A peer starts with IKEv1, and all connections that it may belong to have IKEv2. It gets no
    /// answer: its program would not understand one.
    pub(super) fn tell_former_version(&mut self, path: Path, now: Instant) {
        if !self.is_stopping && self.versions.unanswered.take_one(HINTS, now) {
            self.tell_version(path, 1, 2);
        }
    }

    fn tell_version(&mut self, path: Path, theirs: u8, ours: u8) {
        self.outputs.tell(Event::NegotiationFailed {
            connection: None,
            path,
            reason: format!(
                "the peer starts with IKEv{theirs}, but we support only IKEv{ours}: it needs \
                 version = {ours}"
            ),
        });
    }

    /// Whether a message has a later version. If so, it is dropped here.
    pub(super) fn takes_later_version(&mut self, path: Path, message: &[u8], now: Instant) -> bool {
        if !is_later(message) {
            return false;
        }
        self.drops.count(DropReason::UnsupportedVersion);
        let Some(refusal) = refuse_later(message) else {
            return true;
        };
        let is_owed = !self.is_stopping
            && refusal.len() <= message.len()
            && !self.config.between(path).is_empty()
            && self.versions.answers.take_one(HINTS, now);
        if is_owed {
            let datagram = Output::Datagram(path, with_marker(path, refusal));
            self.outputs.push(datagram);
            self.tell_version(path, 2, 1);
        }
        true
    }
}
