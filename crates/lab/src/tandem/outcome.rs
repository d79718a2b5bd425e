//! The evaluation of replications: averages, confidence intervals, percentiles, and whether they
//! are meaningful.
//!
//! A replication is one observation; the half-widths are Student's at 95 %. Left out: counting,
//! which is in [`super::tally`].

use super::histogram::Quantile;
use super::state::{State, reaching};
use super::tally::{PERCENTILES, Replication, Tally};
use serde::Serialize;

/// The number of replications from which drift is tested between the halves of the time.
const DRIFT_REPLICATIONS: usize = 3;
/// The difference between the halves, relative to the mean delay, that is drift if it is
/// significant.
const DRIFT_SHARE: f64 = 0.25;
/// Share of the packets that may be left inside at the end if there are too few replications.
const BACKLOG_SHARE: f64 = 0.02;
/// The number of packets inside at the end that is always acceptable.
const BACKLOG_PACKETS: f64 = 1000.0;

/// The results of the replications of one tandem.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The tandem's policy.
    pub policy: String,
    /// Replications that counted a packet.
    pub replications: usize,
    /// Packets counted.
    pub packets: u64,
    /// Mean seconds from arrival to departure from the last queue.
    pub mean_delay_s: f64,
    /// Its half-width at 95 %; like all half-widths `None` for fewer than two replications.
    pub delay_ci95_s: Option<f64>,
    /// Delays of all replications.
    pub percentiles: Vec<Percentile>,
    /// Clear bits per second that arrive.
    pub offered_bps: f64,
    /// Clear bits per second that leave the last queue.
    pub throughput_bps: f64,
    /// Its half-width.
    pub throughput_ci95_bps: Option<f64>,
    /// Packets per second that leave the last queue.
    pub packets_per_s: f64,
    /// Bits per second that leave, in their protected size.
    pub protected_bps: f64,
    /// Its half-width.
    pub protected_ci95_bps: Option<f64>,
    /// Protected bytes per clear byte of the packets that arrived.
    pub expansion: f64,
    /// The queues in order.
    #[serde(rename = "stations")]
    pub queues: Vec<QueueOutcome>,
    /// Whether averages are meaningful: the worst of the queues' states.
    pub state: State,
}

/// A delay and the share of packets that do not exceed it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentile {
    /// The share in percent, 0 to 100.
    pub percent: f64,
    /// The delay in seconds.
    pub delay_s: f64,
    /// The interval of the counted delays, in seconds, in which it lies: its ends are at most 3.2 %
    /// apart, or equal the delay if few were counted.
    pub between_s: [f64; 2],
    /// The interval for the delays of all possible runs, at 95 %, which includes the error of
    /// counting.
    pub ci95_s: Option<[f64; 2]>,
}

/// The averages of one queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueOutcome {
    /// Its name.
    pub name: String,
    /// Seconds of work per second that all packets would cause if no other queue were saturated: 1
    /// or more if it could not keep up.
    pub load: f64,
    /// Share of the time in which it worked.
    pub utilisation: f64,
    /// Its half-width.
    pub utilisation_ci95: Option<f64>,
    /// Mean seconds that a packet waits before its service.
    pub mean_wait_s: f64,
    /// Its half-width.
    pub wait_ci95_s: Option<f64>,
    /// Clear bytes waiting, not in service, over time.
    pub mean_queue_bytes: f64,
    /// Half-width.
    pub queue_ci95_bytes: Option<f64>,
    /// Whether these averages are meaningful, by the load that reaches it.
    pub state: State,
}

impl Tally {
    /// The results of the replications; `None` if no packet was counted.
    pub fn outcome(&self) -> Option<Outcome> {
        let counted = self.replications.iter().filter(|r| r.packets > 0);
        let all: Vec<&Replication> = counted.collect();
        if all.is_empty() {
            return None;
        }
        let over = |value: &dyn Fn(&Replication) -> f64| Estimate::of(&all, value);
        let delay = over(&|r| r.delay_s / r.packets as f64);
        let throughput = over(&|r| 8.0 * r.delivered_bytes / r.departing_s);
        let protected = over(&|r| 8.0 * r.delivered_bytes / r.departing_s * r.protected / r.bytes);
        let states = self.states(&all, delay.mean);
        let queues: Vec<_> = states
            .iter()
            .enumerate()
            .map(|(index, state)| self.queue(index, &all, &states[..index], *state))
            .collect();
        let state = states.into_iter().max().unwrap_or(State::Stationary);
        Some(Outcome {
            policy: self.policy.clone(),
            replications: all.len(),
            packets: all.iter().fold(0, |sum, r| sum.saturating_add(r.packets)),
            mean_delay_s: delay.mean,
            delay_ci95_s: delay.half_width,
            percentiles: self.percentiles(&all),
            offered_bps: over(&|r| 8.0 * r.bytes / r.seconds).mean,
            throughput_bps: throughput.mean,
            throughput_ci95_bps: throughput.half_width,
            packets_per_s: over(&|r| r.delivered as f64 / r.departing_s).mean,
            protected_bps: protected.mean,
            protected_ci95_bps: protected.half_width,
            expansion: over(&|r| r.protected / r.bytes).mean,
            queues,
            state,
        })
    }

    fn percentiles(&self, all: &[&Replication]) -> Vec<Percentile> {
        let numbered = PERCENTILES.into_iter().enumerate();
        let percentile = |(index, percent): (usize, f64)| {
            let Quantile { delay_s, between_s } = self.delays.quantile(percent / 100.0)?;
            let width = Estimate::of(all, &|r| r.percentiles[index]).half_width;
            Some(Percentile {
                percent,
                delay_s,
                between_s,
                ci95_s: width.map(|width| {
                    let [low, high] = between_s;
                    [
                        low.min((delay_s - width).max(0.0)),
                        high.max(delay_s + width),
                    ]
                }),
            })
        };
        numbered.filter_map(percentile).collect()
    }

    fn queue(
        &self,
        index: usize,
        all: &[&Replication],
        before: &[State],
        state: State,
    ) -> QueueOutcome {
        let over = |value: &dyn Fn(&Replication) -> f64| Estimate::of(all, value);
        // only rounding makes it larger than the whole time
        let busy = |r: &Replication| (r.queues[index].busy_s / r.departing_s).min(1.0);
        let load = |r: &Replication| r.queues[index].work_s / r.seconds;
        let utilisation = over(&busy);
        let wait = over(&|r| r.queues[index].wait_s / r.packets as f64);
        // behind a saturated queue fewer packets pass per second than arrive at the tandem
        let is_behind = before.contains(&State::NotStationary);
        let passing = |r: &Replication| match load(r) {
            load if is_behind && load > 0.0 => busy(r) / load,
            _ => 1.0,
        };
        let queue = over(&|r| passing(r) * r.queues[index].byte_s / r.seconds);
        QueueOutcome {
            name: self.queues[index].clone(),
            load: over(&load).mean,
            utilisation: utilisation.mean,
            utilisation_ci95: utilisation.half_width,
            mean_wait_s: wait.mean,
            wait_ci95_s: wait.half_width,
            mean_queue_bytes: queue.mean,
            queue_ci95_bytes: queue.half_width,
            state,
        }
    }

    /// Uses the loads computed from the traffic if they are known, otherwise the measured ones.
    ///
    /// Drift of the tandem is attributed to its busiest queue.
    fn states(&self, all: &[&Replication], mean_delay: f64) -> Vec<State> {
        let measured = |index: usize| {
            let load = |r: &Replication| r.queues[index].work_s / r.seconds;
            Estimate::of(all, &load).mean
        };
        let loads = match &self.expected {
            Some(promised) => promised.clone(),
            None => (0..self.queues.len()).map(measured).collect(),
        };
        let reaching = reaching(&loads);
        let mut states: Vec<State> = reaching.iter().map(|load| State::under(*load)).collect();
        let busiest = (0..reaching.len()).max_by(|a, b| reaching[*a].total_cmp(&reaching[*b]));
        let Some(busiest) = busiest else {
            return states;
        };
        // open traffic below 1 becomes stationary in the end, but near 1 no run is long enough
        let settles = self.expected.is_some() && states[busiest] != State::Stationary;
        if !settles && drifts(all, mean_delay) {
            states[busiest] = State::NotStationary;
        }
        states
    }
}

/// Whether delays grow from the first half of the time to the second, or packets accumulate inside.
fn drifts(all: &[&Replication], mean_delay: f64) -> bool {
    let halves: Vec<f64> = all
        .iter()
        .filter(|r| r.halves.iter().all(|half| half.packets > 0))
        .map(|r| {
            let [first, second] = r.halves.map(|half| half.delay_s / half.packets as f64);
            second - first
        })
        .collect();
    if halves.len() >= DRIFT_REPLICATIONS {
        let difference = Estimate::from(&halves);
        let least = difference.mean - 2.0 * difference.half_width.unwrap_or(0.0);
        return least > DRIFT_SHARE * mean_delay;
    }
    let came: f64 = all.iter().map(|r| r.packets as f64).sum();
    let left: f64 = all.iter().map(|r| r.delivered as f64).sum();
    came - left > BACKLOG_PACKETS.max(BACKLOG_SHARE * came)
}

/// A mean of independent observations and its half-width at 95 %.
struct Estimate {
    mean: f64,
    half_width: Option<f64>,
}

impl Estimate {
    fn of(all: &[&Replication], value: &dyn Fn(&Replication) -> f64) -> Self {
        let values: Vec<f64> = all.iter().map(|replication| value(replication)).collect();
        Self::from(&values)
    }

    fn from(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let half_width = (values.len() > 1).then(|| {
            let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
            let deviation = libm::sqrt(squares / (count - 1.0));
            student95(values.len() - 1) * deviation / libm::sqrt(count)
        });
        Self { mean, half_width }
    }
}

/// Student's 97.5 % quantile.
fn student95(freedom: usize) -> f64 {
    const FEW: [f64; 30] = [
        12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010,
        2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739,
        2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
    ];
    if let Some(value) = freedom.checked_sub(1).and_then(|index| FEW.get(index)) {
        return *value;
    }
    // the expansion in 1/freedom about the normal quantile
    let z = 1.959_963_984_540_054_f64;
    let (n, z2) = (freedom as f64, z * z);
    let first = z * (z2 + 1.0) / 4.0;
    let second = z * ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0;
    z + first / n + second / (n * n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_quantiles_meet_at_the_end_of_the_table() {
        assert!((student95(1) - 12.7062).abs() < 1e-9);
        assert!((student95(30) - 2.0423).abs() < 1e-4);
        assert!((student95(40) - 2.0211).abs() < 1e-4);
        assert!((student95(1_000_000) - 1.95996).abs() < 1e-4);
    }

    #[test]
    fn a_half_width_follows_from_the_deviation() {
        let estimate = Estimate::from(&[1.0, 2.0, 3.0, 4.0]);
        let expected = 3.1824 * libm::sqrt(5.0 / 3.0) / 2.0;
        assert!((estimate.half_width.unwrap() - expected).abs() < 1e-9);
        assert_eq!(Estimate::from(&[1.0]).half_width, None);
    }
}
