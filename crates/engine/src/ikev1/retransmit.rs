//! Sending again (RFC 2408 §5.1): by a timer for who waits for an answer, and on a duplicate for
//! who has answered.
//!
//! A message that asks is sent at 0, 0.5, 1.4, 3.0, 5.9, 11.2, 20.6 and 37.7 s, then given up at
//! 68 s. Main mode's third message is given up at 11 s, and the exchange begun anew by whoever
//! owns it: an answer to the first has shown that the peer is there, and while it is flooded it
//! forgets exchanges of which it has seen no more. A message that answers is sent again only when
//! the very request comes again, and a bounded number of times, so that nobody can make us flood a
//! third party.

use super::{Fault, Outbox, Sent};
use crate::counters::DropReason;
use crate::time::{Deadline, Duration, Instant};

/// Before the first repetition.
pub const FIRST_INTERVAL: Duration = Duration::from_millis(500);
/// Each interval is this many tenths of the one before.
pub const GROWTH_TENTHS: u32 = 18;
/// Repetitions; one more interval after the last one, the exchange has failed.
pub const REPETITIONS: u32 = 7;
/// Repetitions of a message that follows an answer to a first one.
pub const REPETITIONS_WITHIN: u32 = 4;
/// How often a duplicate of one request is answered.
pub const ANSWERS_TO_DUPLICATES: u32 = 10;

/// A message that waits for its answer.
#[derive(Debug)]
pub struct Retransmit {
    message: Sent,
    attempts: u32,
    repetitions: u32,
    interval: Duration,
    next: Instant,
}

impl Retransmit {
    /// Sends `message` and starts its timer.
    pub fn send(message: Sent, now: Instant, out: &mut Outbox) -> Self {
        Self::send_within(REPETITIONS, message, now, out)
    }

    /// As [`Self::send`], with another number of repetitions.
    pub fn send_within(repetitions: u32, message: Sent, now: Instant, out: &mut Outbox) -> Self {
        out.messages.push(message.clone());
        Self {
            message,
            attempts: 0,
            repetitions,
            interval: FIRST_INTERVAL,
            next: now + FIRST_INTERVAL,
        }
    }

    /// When to call [`Self::fire`].
    pub fn deadline(&self) -> Deadline {
        Deadline {
            at: self.next,
            why: "retransmit",
        }
    }

    /// Sends again if it is time; [`Fault::TimedOut`] after the last interval.
    pub fn fire(&mut self, now: Instant, out: &mut Outbox) -> Result<(), Fault> {
        if now < self.next {
            return Ok(());
        }
        if self.attempts == self.repetitions {
            return Err(Fault::TimedOut(self.message.what));
        }
        self.attempts += 1;
        self.interval = self.interval * GROWTH_TENTHS / 10;
        self.next = now + self.interval;
        out.messages.push(self.message.clone());
        Ok(())
    }

    /// How often it was sent.
    pub fn sent(&self) -> u32 {
        self.attempts + 1
    }

    /// The message.
    pub fn message(&self) -> &Sent {
        &self.message
    }
}

/// A request that was answered, and the answer, for duplicates.
#[derive(Debug)]
pub struct Answered {
    request: Vec<u8>,
    answer: Option<Sent>,
    left: u32,
}

impl Answered {
    /// Sends `answer` (`None`: the request needs none) and remembers it.
    pub fn send(request: &[u8], answer: Option<Sent>, out: &mut Outbox) -> Self {
        out.messages.extend(answer.clone());
        Self::sent(request, answer)
    }

    /// Remembers an answer that was sent already.
    pub fn sent(request: &[u8], answer: Option<Sent>) -> Self {
        Self {
            request: request.to_vec(),
            answer,
            left: ANSWERS_TO_DUPLICATES,
        }
    }

    /// Whether `message` is the request again, octet for octet: then it is counted, and answered
    /// if its answers are not used up.
    pub fn take_duplicate(&mut self, message: &[u8], out: &mut Outbox) -> bool {
        if message != self.request {
            return false;
        }
        out.drops.count(DropReason::RetransmittedMessage);
        self.repeat(out);
        true
    }

    /// Answers again if its answers are not used up.
    pub fn repeat(&mut self, out: &mut Outbox) {
        if self.left > 0 {
            self.left -= 1;
            out.messages.extend(self.answer.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sa::Path;

    fn sent() -> Sent {
        let address = "192.0.2.1:500".parse().unwrap();
        Sent {
            path: Path {
                local: address,
                remote: address,
            },
            message: vec![1, 2, 3],
            what: "quick 1",
            payloads: "HASH".into(),
            may_fragment: false,
        }
    }

    #[test]
    fn asks_eight_times_in_about_a_minute_then_gives_up() {
        let mut out = Outbox::default();
        let mut asked = Retransmit::send(sent(), Instant(0), &mut out);
        loop {
            let at = asked.deadline().at;
            assert!(asked.fire(Instant(at.0 - 1), &mut out).is_ok());
            if let Err(fault) = asked.fire(at, &mut out) {
                assert_eq!(fault.to_string(), "no answer to quick 1");
                assert!((60..75).contains(&at.since(Instant(0)).as_secs()));
                break;
            }
        }
        assert_eq!(out.messages.len(), 8);
        assert!(out.messages.iter().all(|message| *message == sent()));
    }

    #[test]
    fn answers_duplicates_a_bounded_number_of_times() {
        let mut out = Outbox::default();
        let mut answered = Answered::send(b"request", Some(sent()), &mut out);
        assert!(!answered.take_duplicate(b"another", &mut out));
        for _ in 0..100 {
            assert!(answered.take_duplicate(b"request", &mut out));
        }
        assert_eq!(out.messages.len(), 1 + ANSWERS_TO_DUPLICATES as usize);
        assert_eq!(out.drops.of(DropReason::RetransmittedMessage), 100);
    }
}
