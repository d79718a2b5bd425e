//! The identification of registrations: it matches replies to requests and makes a repeated request
//! recognizable (RFC 5944 §5.7).
//!
//! Low halves always come from the request. High halves are seconds of NTP time or nonces.

use crypto::rand::Stream;

use super::association::ReplayProtection;
use crate::time::{Calendar, Duration, Instant};

/// How far two clocks may differ (RFC 5944 §5.7.1: 7 s by default).
pub const TOLERANCE: Duration = Duration::from_secs(7);

/// Seconds from 1900 to 1970.
const NTP_ERA: u64 = 2_208_988_800;

/// Calendar time with fractions: what the clock said at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    told: Instant,
    since_1970: Duration,
}

impl Clock {
    /// A clock that says `since_1970` at `told`.
    pub fn new(told: Instant, since_1970: Duration) -> Self {
        Self { told, since_1970 }
    }

    /// What it said, without the fraction, and when.
    pub fn calendar(self) -> (Calendar, Instant) {
        let seconds = i64::try_from(self.since_1970.as_secs()).unwrap_or(i64::MAX);
        (Calendar(seconds), self.told)
    }

    /// The one of both that says the later time.
    #[must_use]
    pub fn later(self, other: Self) -> Self {
        let at = self.told.max(other.told);
        match other.time(at) > self.time(at) {
            true => other,
            false => self,
        }
    }

    /// NTP time: seconds since 1900 in the high half, their fraction in the low half.
    pub fn ntp(self, now: Instant) -> u64 {
        let time = self.time(now);
        let fraction = (u64::from(time.subsec_nanos()) << 32) / 1_000_000_000;
        time.as_secs().wrapping_add(NTP_ERA) << 32 | fraction
    }

    /// Since 1970.
    fn time(self, now: Instant) -> Duration {
        self.since_1970.saturating_add(now.since(self.told))
    }
}

/// What a home agent says to an identification. Each holds the reply's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is new.
    Fresh(u64),
    /// It is the last one that was accepted.
    Repeated(u64),
    /// It is stale, or of another clock, or has a wrong nonce.
    Mismatch(u64),
}

/// The home agent's record for one mobile node.
#[derive(Clone, Debug)]
pub struct Guard {
    replay: ReplayProtection,
    /// Of the newest accepted request, and of its reply.
    last: Option<(u64, u64)>,
    /// Timestamps not above this are refused.
    floor: u64,
    nonce: u32,
}

impl Guard {
    /// A record without requests. A timestamp from before `start`, our NTP time, may repeat a
    /// request that we accepted before a restart, so it is refused.
    pub fn new(replay: ReplayProtection, start: u64, random: &mut Stream) -> Self {
        Self {
            replay,
            last: None,
            floor: start,
            nonce: random.u32(),
        }
    }

    /// How it recognizes replays.
    pub fn replay(&self) -> ReplayProtection {
        self.replay
    }

    /// Judges the identification of an authentic request, at our NTP time `ntp`. Changes nothing;
    /// [`Self::accept`] does.
    pub fn judge(&self, identification: u64, ntp: u64, random: &mut Stream) -> Verdict {
        if let Some((last, reply)) = self.last
            && last == identification
        {
            return Verdict::Repeated(reply);
        }
        match self.replay {
            ReplayProtection::Timestamps => {
                let apart = Duration::from_secs(identification.abs_diff(ntp) >> 32);
                match apart < TOLERANCE && identification > self.floor {
                    true => Verdict::Fresh(identification),
                    false => Verdict::Mismatch(self.mismatch(identification, ntp)),
                }
            }
            ReplayProtection::Nonces => {
                let next = self.mismatch(identification, ntp);
                match identification == next {
                    true => Verdict::Fresh(u64::from(random.u32()) << 32 | identification & LOW),
                    false => Verdict::Mismatch(next),
                }
            }
        }
    }

    /// The identification of a reply that refuses one: our time, or the nonce that we expect.
    pub fn mismatch(&self, identification: u64, ntp: u64) -> u64 {
        let high = match self.replay {
            ReplayProtection::Timestamps => ntp & !LOW,
            ReplayProtection::Nonces => u64::from(self.nonce) << 32,
        };
        high | identification & LOW
    }

    /// Remembers a request that was accepted, and the nonce that its reply gives.
    pub fn accept(&mut self, identification: u64, reply: u64) {
        self.last = Some((identification, reply));
        match self.replay {
            ReplayProtection::Timestamps => self.floor = identification,
            ReplayProtection::Nonces => self.nonce = (reply >> 32) as u32,
        }
    }
}

/// The mobile node's side.
#[derive(Clone, Debug)]
pub struct Identifier {
    replay: ReplayProtection,
    last: u64,
    /// Our corrected time at the last request. The request says another one if our clock was set
    /// back.
    time: u64,
    /// Added to our NTP time, after the home agent has told its own.
    correction: u64,
    nonce: u32,
}

impl Identifier {
    /// Nothing was sent yet.
    pub fn new(replay: ReplayProtection, random: &mut Stream) -> Self {
        Self {
            replay,
            last: 0,
            time: 0,
            correction: 0,
            nonce: random.u32(),
        }
    }

    /// The identification of a new request, at our NTP time `ntp`. Never the last one.
    pub fn next(&mut self, ntp: u64, random: &mut Stream) -> u64 {
        self.last = match self.replay {
            ReplayProtection::Timestamps => {
                self.time = ntp.wrapping_add(self.correction);
                self.time.max(self.last.saturating_add(1))
            }
            ReplayProtection::Nonces => {
                let low = (self.last as u32).wrapping_add(1 | random.u32() >> 1);
                u64::from(self.nonce) << 32 | u64::from(low)
            }
        };
        self.last
    }

    /// Learns from the identification of an authentic reply that matches. `is_mismatch`: the home
    /// agent has refused the request for its identification. Whether the next one has a better
    /// chance, because it is of another time or has another nonce.
    pub fn learn(&mut self, reply: u64, is_mismatch: bool) -> bool {
        match self.replay {
            ReplayProtection::Timestamps if is_mismatch => {
                let behind = (reply & !LOW).wrapping_sub(self.time & !LOW);
                self.correction = self.correction.wrapping_add(behind);
                // The home agent's clock may be behind ours: then times may go back once.
                self.last = reply;
                (behind as i64).unsigned_abs() >> 32 > 1
            }
            ReplayProtection::Timestamps => false,
            ReplayProtection::Nonces => {
                let before = self.nonce;
                self.nonce = (reply >> 32) as u32;
                self.nonce != before
            }
        }
    }
}

const LOW: u64 = 0xffff_ffff;

/// Whether a reply with the second identification belongs to the request with the first.
pub fn answers(request: u64, reply: u64) -> bool {
    reply & LOW == request & LOW
}

#[cfg(test)]
mod tests {
    use super::*;
    use crypto::rand::Seed;

    const SECOND: u64 = 1 << 32;
    /// 2026-11-23 in NTP time.
    const NOW: u64 = (NTP_ERA + 1_795_000_000) << 32;

    fn random() -> Stream {
        Seed::new([7; 32]).stream("identification", 0)
    }

    #[test]
    fn the_clock_counts_from_1900_with_fractions() {
        let clock = Clock::new(Instant(0), Duration::from_secs(0));
        assert_eq!(clock.ntp(Instant(500_000_000)), NTP_ERA << 32 | 0x8000_0000);
    }

    /// RFC 5944 §5.7.1.
    #[test]
    fn a_timestamp_is_accepted_once_within_seven_seconds() {
        let mut random = random();
        let mut guard = Guard::new(ReplayProtection::Timestamps, 0, &mut random);
        let mut judge = |guard: &Guard, id| guard.judge(id, NOW, &mut random);
        for id in [NOW, NOW - 6 * SECOND, NOW + 6 * SECOND] {
            assert_eq!(judge(&guard, id), Verdict::Fresh(id));
        }
        for id in [NOW - 7 * SECOND + 5, NOW + 7 * SECOND + 5, 5, u64::MAX] {
            let told = NOW & !LOW | id & LOW;
            let is_near = id.abs_diff(NOW) < 7 * SECOND;
            let expected = if is_near {
                Verdict::Fresh(id)
            } else {
                Verdict::Mismatch(told)
            };
            assert_eq!(judge(&guard, id), expected, "{id:x}");
        }
        guard.accept(NOW, NOW);
        assert_eq!(judge(&guard, NOW), Verdict::Repeated(NOW));
        let stale = judge(&guard, NOW - 1);
        assert_eq!(stale, Verdict::Mismatch(NOW & !LOW | LOW));
        assert_eq!(judge(&guard, NOW + 1), Verdict::Fresh(NOW + 1));
    }

    #[test]
    fn after_a_restart_older_timestamps_are_refused() {
        let mut random = random();
        let guard = Guard::new(ReplayProtection::Timestamps, NOW, &mut random);
        let earlier = guard.judge(NOW - 1, NOW + SECOND, &mut random);
        assert!(matches!(earlier, Verdict::Mismatch(_)));
    }

    /// Its times go on from where they were, but the correction is that of its clock.
    #[test]
    fn a_node_whose_clock_is_set_back_is_refused_once() {
        let mut random = random();
        let mut node = Identifier::new(ReplayProtection::Timestamps, &mut random);
        let mut guard = Guard::new(ReplayProtection::Timestamps, 0, &mut random);
        let mut verdicts = vec![];
        for step in 0..8 {
            let now = NOW + step * 10 * SECOND;
            let day = if step < 2 { 0 } else { 86_400 * SECOND };
            let id = node.next(now - day, &mut random);
            let verdict = guard.judge(id, now, &mut random);
            if let Verdict::Fresh(reply) = verdict {
                guard.accept(id, reply);
            } else if let Verdict::Mismatch(reply) = verdict {
                assert!(node.learn(reply, true));
            }
            verdicts.push(matches!(verdict, Verdict::Fresh(_)));
        }
        let refused = verdicts.iter().filter(|is_fresh| !**is_fresh).count();
        assert_eq!(refused, 1, "{verdicts:?}");
    }

    /// Both kinds, a node whose clock is wrong by any time: one refusal, then accepted, and no
    /// identification is accepted twice.
    #[test]
    fn a_node_agrees_with_its_home_agent_after_one_refusal() {
        let mut random = random();
        for replay in [ReplayProtection::Timestamps, ReplayProtection::Nonces] {
            for wrong in [NOW - 86_400 * SECOND, NOW + 86_400 * SECOND, 0, NOW] {
                let mut guard = Guard::new(replay, 0, &mut random);
                let mut node = Identifier::new(replay, &mut random);
                let mut refusals = 0;
                for step in 0..20 {
                    let apart = step * SECOND / 3;
                    let id = node.next(wrong + apart, &mut random);
                    let (reply, is_mismatch) = match guard.judge(id, NOW + apart, &mut random) {
                        Verdict::Fresh(reply) => {
                            guard.accept(id, reply);
                            (reply, false)
                        }
                        Verdict::Mismatch(reply) => (reply, true),
                        Verdict::Repeated(_) => panic!("a repeated identification"),
                    };
                    refusals += u32::from(is_mismatch);
                    assert!(answers(id, reply));
                    node.learn(reply, is_mismatch);
                }
                let is_right = wrong == NOW && replay == ReplayProtection::Timestamps;
                assert_eq!(refusals, u32::from(!is_right), "{replay:?} {wrong:x}");
            }
        }
    }
}
