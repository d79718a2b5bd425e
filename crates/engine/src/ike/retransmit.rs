//! Retransmission (RFC 2408 §5.1): a request is repeated by a timer, a response only after a
//! duplicate of its request.
//!
//! A request waits for its answer for the measured time of the path ([`super::round_trip`]), then
//! is sent again with twice the timeout. Without a measurement it is sent at 0, 1, 3, 7, 15 and 31
//! s and given up at 63 s. The timer starts when the message leaves, after its host has computed
//! it.
//!
//! Main mode's third message is given up at 11 s, and its owner starts the exchange again: the
//! answer to the first message showed that the peer is reachable, and a peer under a flood forgets
//! exchanges that got no further. A response is repeated only for exactly the same request, and a
//! bounded number of times, so that nobody can make us flood a third party.

use crypto::hash::Hash;

use super::{Fault, Outbox, Sent, Unanswered};
use crate::sa::Path;
use crate::time::{Deadline, Duration, Instant};

/// How long to wait for an answer in total.
pub const PATIENCE: Duration = Duration::from_secs(63);
/// The same for a message that follows an answer to a first message.
pub const PATIENCE_WITHIN: Duration = Duration::from_secs(11);
/// On a slow path, wait for at least this many timeouts.
const LEAST_TIMEOUTS: u32 = 3;
/// A finished exchange still answers duplicates for this time: a peer like us repeats until
/// [`PATIENCE`] ends, and its last message may be in flight for a while.
pub const LINGER: Duration = Duration::from_secs(70);
/// How many duplicates of one request are answered.
pub const ANSWERS_TO_DUPLICATES: u32 = 10;

/// A message waiting for its answer.
#[derive(Debug)]
pub struct Retransmit {
    message: Sent,
    attempts: u32,
    /// When it was last sent.
    sent_at: Instant,
    first_timeout: Duration,
    timeout: Duration,
    next: Instant,
    /// When it is given up.
    end: Instant,
}

impl Retransmit {
    /// Sends `message` and starts its timer.
    pub fn send(message: Sent, now: Instant, out: &mut Outbox) -> Self {
        Self::send_within(PATIENCE, message, now, out)
    }

    /// As [`Self::send`], given up after `patience`.
    pub fn send_within(patience: Duration, message: Sent, now: Instant, out: &mut Outbox) -> Self {
        out.messages.push(message.clone());
        let timeout = out.round_trip().timeout(message.octets());
        let mut sent = Self {
            message,
            attempts: 0,
            sent_at: now,
            first_timeout: timeout,
            timeout,
            next: now,
            end: now + patience.max(timeout * LEAST_TIMEOUTS),
        };
        sent.wait(now);
        sent
    }

    /// A message sent at `began` left its host only `now`: the timer starts then.
    pub fn departed(&mut self, began: Instant, now: Instant) {
        if self.sent_at == began {
            let computed = now.since(began);
            self.sent_at = now;
            self.next = self.next + computed;
            self.end = self.end + computed;
        }
    }

    /// Repetitions take this path.
    pub fn move_to(&mut self, path: Path) {
        self.message.path = path;
    }

    /// The answer came: measures the path.
    pub fn answered(&self, now: Instant, out: &mut Outbox) {
        if self.attempts == 0 {
            let octets = self.message.octets();
            out.learn(|path| path.learn(now.since(self.sent_at), octets));
        } else {
            out.learn(|path| path.back_off(self.timeout));
        }
    }

    /// When to call [`Self::fire`].
    pub fn deadline(&self) -> Deadline {
        Deadline {
            at: self.next,
            why: "retransmit",
        }
    }

    /// It is not sent again.
    #[cfg(test)]
    pub(crate) fn is_last(&self) -> bool {
        self.next >= self.end
    }

    /// Sends again if it is time; [`Fault::TimedOut`] at the end.
    pub fn fire(&mut self, now: Instant, out: &mut Outbox) -> Result<(), Fault> {
        if now < self.next {
            return Ok(());
        }
        if self.next >= self.end {
            return Err(Fault::TimedOut(Unanswered {
                step: self.message.step,
                remote: self.message.path.remote,
                moved_from: None,
                tries: self.sent(),
                is_by_key: false,
                unreachable: None,
            }));
        }
        self.attempts += 1;
        self.timeout *= 2;
        self.sent_at = now;
        self.wait(now);
        out.messages.push(self.message.clone());
        Ok(())
    }

    /// A repetition whose answer could not come before the end is not sent.
    fn wait(&mut self, now: Instant) {
        let next = now + self.timeout;
        self.next = if next + self.first_timeout > self.end {
            self.end
        } else {
            next
        };
    }

    /// Sends it once more at once, as to a new address. Its timer goes on. Returns its octets.
    pub fn again(&self, out: &mut Outbox) -> usize {
        out.messages.push(self.message.clone());
        self.message.octets()
    }

    /// The path is another one: sends it once more at once, and begins to wait as for a new one.
    pub fn begin_again(&mut self, now: Instant, out: &mut Outbox) {
        out.messages.push(self.message.clone());
        let timeout = out.round_trip().timeout(self.message.octets());
        // Its answer measures no path.
        self.attempts += 1;
        self.sent_at = now;
        (self.first_timeout, self.timeout) = (timeout, timeout);
        self.end = self.end.max(now + PATIENCE);
        self.wait(now);
    }

    /// Nobody can wait long for its answer: if its next repetition is far, begins again.
    pub fn hurry(&mut self, now: Instant, out: &mut Outbox) {
        if now + self.first_timeout < self.next {
            self.begin_again(now, out);
        }
    }

    /// Octets of the message.
    pub fn octets(&self) -> usize {
        self.message.octets()
    }

    /// Sends it over another path too, which may work better.
    pub fn try_over(&self, path: Path, out: &mut Outbox) {
        out.messages.push(Sent {
            path,
            ..self.message.clone()
        });
    }

    /// How often it was sent.
    pub fn sent(&self) -> u32 {
        self.attempts + 1
    }
}

/// An answered request and its answer, for duplicates. Keeps only a digest of the request, which
/// strangers can make long.
#[derive(Debug)]
pub struct Answered {
    request: Vec<u8>,
    request_bytes: usize,
    answer: Option<Sent>,
    left: u32,
}

/// What became of a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicate {
    /// It was answered again.
    Answered,
    /// It has no answer, or its answers are used up.
    Ignored,
}

impl Answered {
    /// Sends `answer` (`None`: no answer is due) and remembers it.
    pub fn send(request: &[u8], answer: Option<Sent>, out: &mut Outbox) -> Self {
        // A clone has no room to spare, and stays for minutes.
        let kept = answer.clone();
        out.messages.extend(answer);
        Self::sent(request, kept)
    }

    /// Remembers an answer that was already sent.
    pub fn sent(request: &[u8], answer: Option<Sent>) -> Self {
        Self {
            request: digest(request),
            request_bytes: request.len(),
            answer,
            left: ANSWERS_TO_DUPLICATES,
        }
    }

    /// Counts `message` if it is exactly the same request, and answers it if the answers are not
    /// used up. `None`: it is another message.
    pub fn take_duplicate(&mut self, message: &[u8], out: &mut Outbox) -> Option<Duplicate> {
        if message.len() != self.request_bytes || digest(message) != self.request {
            return None;
        }
        out.heard_again();
        Some(self.repeat(out))
    }

    /// Repetitions take this path.
    pub fn move_to(&mut self, path: Path) {
        if let Some(answer) = &mut self.answer {
            answer.path = path;
        }
    }

    /// Whether no answer is due.
    pub fn is_empty(&self) -> bool {
        self.answer.is_none()
    }

    /// Octets of the answer.
    pub fn octets(&self) -> usize {
        self.answer.as_ref().map_or(0, Sent::octets)
    }

    /// Whether it was answered once.
    pub fn is_single(&self) -> bool {
        self.left == ANSWERS_TO_DUPLICATES
    }

    /// Answers again if its answers are not used up.
    pub fn repeat(&mut self, out: &mut Outbox) -> Duplicate {
        let answer = self.answer.clone().filter(|_| self.left > 0);
        self.left = self.left.saturating_sub(1);
        match answer {
            Some(answer) => {
                out.messages.push(answer);
                Duplicate::Answered
            }
            None => Duplicate::Ignored,
        }
    }
}

fn digest(message: &[u8]) -> Vec<u8> {
    Hash::Sha256.digest(&[message]).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::DropReason;
    use crate::ike::Step;

    fn sent() -> Sent {
        let address = ([192, 0, 2, 1], 500);
        Sent {
            path: Path::udp(address, address),
            message: vec![1, 2, 3],
            more: Vec::new(),
            step: Step::Quick(1),
            payloads: "HASH".into(),
            may_fragment: false,
        }
    }

    const SECOND: u64 = 1_000_000_000;

    /// When it is sent, and when it is given up, both in seconds.
    fn schedule(mut asked: Retransmit) -> (Vec<f64>, f64) {
        let mut out = Outbox::default();
        let (mut times, seconds) = (Vec::new(), |at: Instant| at.0 as f64 / SECOND as f64);
        loop {
            let at = asked.deadline().at;
            assert!(asked.fire(Instant(at.0 - 1), &mut out).is_ok());
            if let Err(fault) = asked.fire(at, &mut out) {
                assert!(matches!(&fault, Fault::TimedOut(asked) if asked.step == Step::Quick(1)));
                assert!(out.messages.iter().all(|message| *message == sent()));
                return (times, seconds(at));
            }
            times.push(seconds(at));
            assert_eq!(out.messages.len(), times.len());
        }
    }

    /// The state after one answer that took this long.
    fn after(sample: Duration) -> Outbox {
        let mut out = Outbox::default();
        out.learn(|path| path.learn(sample, usize::MAX));
        out
    }

    #[test]
    fn asks_six_times_in_a_minute_then_gives_up() {
        let asked = Retransmit::send(sent(), Instant(0), &mut Outbox::default());
        assert_eq!(schedule(asked), (vec![1.0, 3.0, 7.0, 15.0, 31.0], 63.0));
    }

    #[test]
    fn a_path_that_is_known_to_be_quick_or_slow_sets_the_pace() {
        let quick = Retransmit::send(sent(), Instant(0), &mut after(Duration::from_millis(30)));
        assert_eq!(
            schedule(quick),
            (vec![0.5, 1.5, 3.5, 7.5, 15.5, 31.5], 63.0)
        );
        let slow = Retransmit::send(sent(), Instant(0), &mut after(Duration::from_secs(2)));
        assert_eq!(schedule(slow), (vec![6.0, 18.0, 42.0], 63.0));
        // Patience within an exchange grows with the path's round trip.
        let mut out = after(Duration::from_secs(2));
        let within = Retransmit::send_within(PATIENCE_WITHIN, sent(), Instant(0), &mut out);
        assert_eq!(schedule(within), (vec![6.0], 18.0));
        let mut out = after(Duration::from_millis(30));
        let within = Retransmit::send_within(PATIENCE_WITHIN, sent(), Instant(0), &mut out);
        assert_eq!(schedule(within), (vec![0.5, 1.5, 3.5, 7.5], 11.0));
    }

    #[test]
    fn the_timer_starts_when_the_message_leaves() {
        let mut out = Outbox::default();
        let mut asked = Retransmit::send(sent(), Instant(0), &mut out);
        asked.departed(Instant(0), Instant(4 * SECOND));
        assert_eq!(asked.deadline().at, Instant(5 * SECOND));
        // A departure before an input is not delayed by what the input makes us compute.
        asked.departed(Instant(2 * SECOND), Instant(3 * SECOND));
        assert_eq!(asked.deadline().at, Instant(5 * SECOND));
        asked.answered(Instant(4 * SECOND + SECOND / 10), &mut out);
        assert_eq!(out.round_trip().timeout(0), Duration::from_millis(500));
    }

    #[test]
    fn what_nobody_can_wait_for_is_repeated_at_once_unless_that_happens_soon_anyway() {
        let mut out = Outbox::default();
        let mut asked = Retransmit::send(sent(), Instant(0), &mut out);
        asked.hurry(Instant(SECOND / 2), &mut out);
        assert_eq!(
            (out.messages.len(), asked.deadline().at),
            (1, Instant(SECOND))
        );
        for second in [1, 3] {
            asked.fire(Instant(second * SECOND), &mut out).unwrap();
        }
        asked.hurry(Instant(4 * SECOND), &mut out);
        assert_eq!(out.messages.len(), 4);
        assert_eq!(asked.deadline().at, Instant(5 * SECOND));
    }

    #[test]
    fn an_answer_to_one_of_several_sendings_teaches_only_patience() {
        let mut out = Outbox::default();
        let mut asked = Retransmit::send(sent(), Instant(0), &mut out);
        asked.fire(Instant(SECOND), &mut out).unwrap();
        asked.answered(Instant(SECOND + 1), &mut out);
        assert_eq!(out.round_trip().timeout(0), Duration::from_secs(2));
    }

    #[test]
    fn answers_duplicates_a_bounded_number_of_times() {
        let mut out = Outbox::default();
        let mut answered = Answered::send(b"request", Some(sent()), &mut out);
        assert_eq!(answered.take_duplicate(b"another", &mut out), None);
        for number in 0..100 {
            let became = match number < ANSWERS_TO_DUPLICATES {
                true => Duplicate::Answered,
                false => Duplicate::Ignored,
            };
            assert_eq!(answered.take_duplicate(b"request", &mut out), Some(became));
        }
        assert_eq!(out.messages.len(), 1 + ANSWERS_TO_DUPLICATES as usize);
        assert_eq!(out.drops.of(DropReason::RetransmittedMessage), 100);
    }
}
