//! The sequence numbers of skip-x25519: the second in which the sender was, and a count.
//!
//! The upper half is seconds of the calendar since the draft's zero hour. A sender that restarts is
//! above all that it has sent, and a receiver that restarts knows which packets were sent before.

use super::counter::ZERO_HOUR;
use crate::counters::DropReason;
use crate::replay::Window;
use crate::time::Calendar;

/// The sender tells the second again after so many: a receiver that has just started follows it
/// soon. Packets that overtake one another by less are all taken.
pub(super) const STEP_SECONDS: u64 = 2;

/// Packets within one step that may overtake one another.
const WINDOW_PACKETS: u32 = 1024;

/// The second of a sequence number.
fn second(sequence: u64) -> u64 {
    sequence >> 32
}

/// The second of a time.
fn second_of(time: Calendar) -> u64 {
    let seconds = time.0.saturating_sub(ZERO_HOUR.0);
    seconds.clamp(0, u32::MAX.into()) as u64
}

/// The number of the next packet, after `last`. It grows, even if the clock is set back.
pub(super) fn next(last: Option<u64>, time: Calendar) -> Result<u64, DropReason> {
    let current = second_of(time);
    let last = match last {
        Some(last) if current < second(last) + STEP_SECONDS => last,
        _ => current << 32,
    };
    last.checked_add(1).ok_or(DropReason::SequenceExhausted)
}

/// Which numbers were seen: of the newest second, and of the one before it that was heard.
pub(super) struct Seen {
    newest: Window,
    former: Window,
    /// What was sent before this second says nothing of where the peer is.
    begun: u64,
}

impl Seen {
    pub(super) fn new() -> Self {
        Self {
            newest: Window::new(WINDOW_PACKETS, false),
            former: Window::new(WINDOW_PACKETS, false),
            begun: 0,
        }
    }

    /// The receiver starts at this time.
    pub(super) fn begin(&mut self, time: Calendar) {
        self.begun = second_of(time);
    }

    /// Whether a number may still be accepted. Changes nothing.
    pub(super) fn check(&self, sequence: u64) -> Result<(), DropReason> {
        if self.is_late(sequence) && second(sequence) < second(self.former.highest()) {
            return Err(DropReason::OutsideWindow);
        }
        match self.is_late(sequence) {
            true => self.former.check(sequence),
            false => self.newest.check(sequence),
        }
    }

    /// Marks a number as seen, after [`Seen::check`] has accepted it and its packet has verified.
    /// Returns whether it is the highest, and was sent since the receiver started.
    pub(super) fn accept(&mut self, sequence: u64) -> bool {
        if self.is_late(sequence) {
            self.former.accept(sequence);
            return false;
        }
        if second(sequence) > second(self.newest.highest()) {
            core::mem::swap(&mut self.newest, &mut self.former);
        }
        self.newest.accept(sequence) && second(sequence) >= self.begun
    }

    /// It is of an earlier second than the highest.
    fn is_late(&self, sequence: u64) -> bool {
        second(sequence) < second(self.newest.highest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Calendar = Calendar(1_795_435_200);

    fn after(seconds: i64) -> Calendar {
        Calendar(NOON.0 + seconds)
    }

    fn number(seconds: i64, count: u64) -> u64 {
        (second_of(after(seconds)) << 32) + count
    }

    #[test]
    fn the_sender_tells_the_second_again_and_never_goes_back() {
        let mut last = None;
        let mut send = |seconds| {
            last = Some(next(last, after(seconds)).expect("a number"));
            last.expect("it was sent")
        };
        assert_eq!(send(0), number(0, 1));
        assert_eq!(send(1), number(0, 2));
        assert_eq!(send(2), number(2, 1));
        assert_eq!(send(-3_000), number(2, 2), "the clock was set back");
        assert_eq!(send(60), number(60, 1));
        assert_eq!(
            next(Some(u64::MAX), NOON),
            Err(DropReason::SequenceExhausted)
        );
    }

    #[test]
    fn late_packets_of_the_second_before_are_taken_once() {
        let mut seen = Seen::new();
        let mut take = |sequence| seen.check(sequence).map(|()| seen.accept(sequence));
        assert_eq!(take(number(0, 2)), Ok(true));
        assert_eq!(take(number(4, 1)), Ok(true));
        assert_eq!(take(number(0, 1)), Ok(false));
        assert_eq!(take(number(0, 2)), Err(DropReason::Replayed));
        // One of a second in between has the former place.
        assert_eq!(take(number(2, 7)), Ok(false));
        assert_eq!(take(number(0, 3)), Err(DropReason::OutsideWindow));
        assert_eq!(take(number(6, 1)), Ok(true));
        assert_eq!(take(number(4, 2)), Ok(false));
        assert_eq!(take(number(2, 8)), Err(DropReason::OutsideWindow));
    }

    #[test]
    fn no_number_is_taken_twice_in_any_order() {
        let mut random = crypto::rand::Seed::new([3; 32]).stream("sequence", 0);
        let mut seen = Seen::new();
        let mut taken = std::collections::BTreeSet::new();
        // Numbers next to where one second ends and the next begins, too.
        let of = |draw: u32, base: u64| {
            let at = base + (u64::from(draw % 5) << 32);
            at.wrapping_add(u64::from(draw / 5 % 40)).wrapping_sub(20)
        };
        for round in 0..40_000 {
            let sequence = of(random.u32(), number(round / 2_000, 0));
            if seen.check(sequence).is_ok() {
                seen.accept(sequence);
                assert!(taken.insert(sequence), "{sequence:x}");
            }
        }
        assert!(taken.len() > 500, "{}", taken.len());
    }

    #[test]
    fn what_was_sent_before_the_receiver_started_is_taken_and_says_nothing() {
        let mut seen = Seen::new();
        seen.begin(NOON);
        let mut take = |sequence| seen.check(sequence).map(|()| seen.accept(sequence));
        assert_eq!(take(number(-1, 900)), Ok(false));
        assert_eq!(take(number(0, 1)), Ok(true));
    }
}
