//! Messages of IKEv2 and later: counted, and a first one is answered that we speak IKEv1, so that
//! its sender need not ask in silence until it gives up (RFC 7296 §1.5, §2.5).
//!
//! The answer is no longer than what it answers, and there are few of them in a second.

use wire::isakmp::{FirstOfIkev2, major_version};

use super::hints::Hints;
use super::session::with_marker;
use super::{Event, Node, Output};
use crate::counters::DropReason;
use crate::sa::Path;
use crate::time::Instant;

/// The one that we speak.
const OURS: u8 = 1;

/// What has been answered lately: apart from hints, which stations wait for.
#[derive(Default)]
pub(super) struct Versions(Hints);

impl Node {
    /// Whether a message is of a later version: then it is dropped here.
    pub(super) fn takes_later_version(&mut self, path: Path, message: &[u8], now: Instant) -> bool {
        if major_version(message).is_none_or(|version| version <= OURS) {
            return false;
        }
        self.drops.count(DropReason::UnsupportedVersion);
        let Some(first) = FirstOfIkev2::parse(message) else {
            return true;
        };
        let refusal = first.refusal();
        let is_owed = !self.is_stopping
            && refusal.len() <= message.len()
            && !self.candidates(path).is_empty()
            && self.versions.0.take(now);
        if is_owed {
            let datagram = Output::Datagram(path, with_marker(path, refusal));
            self.outputs.push_back(datagram);
            self.tell(Event::NegotiationFailed {
                connection: None,
                path,
                reason: "the peer begins with IKEv2, and we speak IKEv1 alone: it needs \
                         version = 1"
                    .to_owned(),
            });
        }
        true
    }
}
