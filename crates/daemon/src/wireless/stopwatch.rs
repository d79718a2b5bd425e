//! The CPU time of this thread, in parts.

use nix::time::{ClockId, clock_gettime};

/// Empty measurements whose median is the cost of one.
const TRIALS: usize = 101;

/// Nanoseconds of CPU time that this thread has used.
pub(super) fn used_ns() -> u64 {
    // The clock is always there.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0, |it| {
        u64::try_from(it.tv_sec() * 1_000_000_000 + it.tv_nsec()).unwrap_or(0)
    })
}

/// Sums of CPU time, without what reading the clock costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopwatch {
    own_ns: u64,
    /// Protecting frames.
    pub(super) protect_ns: u64,
    /// Taking their protection off.
    pub(super) unprotect_ns: u64,
    /// Joining and agreeing keys.
    pub(super) agree_ns: u64,
}

impl Stopwatch {
    pub(super) fn new() -> Self {
        let mut trials = [0; TRIALS];
        for trial in &mut trials {
            let began = used_ns();
            *trial = used_ns() - began;
        }
        trials.sort_unstable();
        Self {
            own_ns: trials[TRIALS / 2],
            protect_ns: 0,
            unprotect_ns: 0,
            agree_ns: 0,
        }
    }

    /// CPU time since `began`, a value of [`used_ns`].
    pub(super) fn since(&self, began: u64) -> u64 {
        (used_ns() - began).saturating_sub(self.own_ns)
    }
}
