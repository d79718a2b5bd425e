//! The last answers of sessions of IKEv2 that their peers have ended. Such an answer may be lost,
//! and a repeated request gets the same answer (RFC 7296 §2.1). Only the answer stays, not the
//! session.

use std::collections::{BTreeMap, VecDeque};

use super::Node;
use super::proof::AMPLIFICATION;
use crate::ike::retransmit::Answered;
use crate::ike::{Outbox, Role, Spi};
use crate::ikev2::message::Message;
use crate::sa::Path;
use crate::time::{Duration, Instant};

/// How long an answer stays. Peers like us repeat an end for 4 s; strongSwan repeats it after 4, 11
/// and 24 s.
pub(super) const ANSWER_STAYS: Duration = Duration::from_secs(30);
/// How many stay at most: the newest. With [`MAX_OCTETS`] they take less than half a MiB.
pub(super) const MAX_ANSWERS: usize = 1_000;
/// A longer answer is not kept. The answer to a delete is much shorter.
const MAX_OCTETS: usize = 256;

/// The answers, by our SPI.
#[derive(Default)]
pub(super) struct LastAnswers {
    by_spi: BTreeMap<Spi, Answered>,
    /// When each is forgotten, the oldest first.
    ends: VecDeque<(Instant, Spi)>,
}

impl LastAnswers {
    /// Keeps what a session has answered last.
    pub(super) fn keep(&mut self, answers: Vec<(Spi, Answered)>, now: Instant) {
        self.forget(now);
        for (spi, answered) in answers {
            if answered.is_empty() || answered.octets() > MAX_OCTETS {
                continue;
            }
            if self.ends.len() == MAX_ANSWERS
                && let Some((_, oldest)) = self.ends.pop_front()
            {
                self.by_spi.remove(&oldest);
            }
            if self.by_spi.insert(spi, answered).is_none() {
                self.ends.push_back((now + ANSWER_STAYS, spi));
            }
        }
    }

    fn forget(&mut self, now: Instant) {
        while let Some((_, spi)) = self.ends.pop_front_if(|(at, _)| *at <= now) {
            self.by_spi.remove(&spi);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_spi.len()
    }
}

impl Node {
    /// Whether a message repeats the request that ended a session. It is answered again, a bounded
    /// number of times.
    pub(super) fn repeats_end(&mut self, path: Path, message: &Message<'_>, now: Instant) -> bool {
        self.last_answers.forget(now);
        let Some(answered) = self.last_answers.by_spi.get_mut(&message.own_spi()) else {
            return false;
        };
        // It may come from anywhere.
        if answered.octets() as u64 > AMPLIFICATION * message.octets().len() as u64 {
            return false;
        }
        let mut out = Outbox::default();
        if answered
            .take_duplicate(message.octets(), &mut out)
            .is_none()
        {
            return false;
        }
        out.answer_repetition_at(path, Role::Responder);
        self.flush(None, out);
        true
    }
}
