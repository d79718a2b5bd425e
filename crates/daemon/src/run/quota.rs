//! Limits the log lines that strangers cause. Otherwise an unauthenticated sender could fill the
//! disk.

use engine::time::Instant;
use tracing::warn;

/// Lines in a row.
const BURST: u32 = 100;
/// Lines a second after that.
const RATE: u32 = 5;
const NS_A_LINE: u64 = 1_000_000_000 / RATE as u64;

/// Lines that may still be written, and the number of suppressed ones.
pub(super) struct Quota {
    lines: u32,
    since: Instant,
    kept_back: u64,
}

impl Quota {
    pub(super) fn new() -> Self {
        Self {
            lines: BURST,
            since: Instant(0),
            kept_back: 0,
        }
    }

    /// Whether one more line may be written. Otherwise it is counted.
    pub(super) fn takes(&mut self, now: Instant) -> bool {
        let due = now.0.saturating_sub(self.since.0) / NS_A_LINE;
        self.since = Instant(self.since.0.saturating_add(due * NS_A_LINE));
        let due = u32::try_from(due).unwrap_or(BURST);
        self.lines = self.lines.saturating_add(due).min(BURST);
        let Some(rest) = self.lines.checked_sub(1) else {
            self.kept_back += 1;
            return false;
        };
        self.lines = rest;
        true
    }

    /// Suppressed lines since the last call.
    fn take_kept_back(&mut self) -> u64 {
        core::mem::take(&mut self.kept_back)
    }

    /// Logs how many lines were suppressed since the last report, if any.
    pub(super) fn tell(&mut self) {
        let count = self.take_kept_back();
        if count > 0 {
            warn!(
                "{count} more lines about unauthenticated peers were left out: `caravan status` \
                 counts them"
            );
        }
    }
}

/// Peers listed by name. The others are reported as a sum.
const NAMED: usize = 10;

/// Logs how many lines about which peers were left out, the largest numbers first.
pub(super) fn tell_left_out(mut lost: Vec<(String, u64)>) {
    lost.sort_by(|(_, a), (_, b)| b.cmp(a));
    let rest = lost.split_off(lost.len().min(NAMED));
    for (peer, count) in lost {
        warn!("{count} more lines about {peer} were left out");
    }
    let count: u64 = rest.iter().map(|(_, count)| count).sum();
    if count > 0 {
        warn!(
            "{count} more lines about {} other peers were left out",
            rest.len()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_write_a_burst_then_so_many_lines_a_second_and_the_rest_is_counted() {
        let mut quota = Quota::new();
        let count = |quota: &mut Quota, second: u64| {
            let mut written = 0;
            for number in 0..1000 {
                written += u32::from(quota.takes(Instant(second * 1_000_000_000 + number)));
            }
            written
        };
        assert_eq!(count(&mut quota, 0), BURST);
        assert_eq!(quota.take_kept_back(), u64::from(1000 - BURST));
        assert_eq!(count(&mut quota, 1), RATE);
        assert_eq!(count(&mut quota, 2), RATE);
        assert_eq!(quota.take_kept_back(), u64::from(2 * (1000 - RATE)));
        assert_eq!(count(&mut quota, 1000), BURST);
    }
}
