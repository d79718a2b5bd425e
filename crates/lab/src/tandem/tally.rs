//! The counts of replications, one record each, so that runs can be split, merged and resumed.
//!
//! Left out: their evaluation, which [`super::outcome`] does once all are available.

use super::closed::Means;
use super::histogram::Histogram;
use super::{PACKETS_MAX, QUEUES_MAX, Queue, Run, Tandem, TandemFault, Traffic};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Percentiles that an outcome lists.
pub const PERCENTILES: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

/// The results of one tandem: one record per replication, and all their delays.
///
/// Reading one refuses values that no simulation could have counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Tally {
    /// The tandem's policy.
    pub policy: String,
    /// Names of the queues in order.
    #[serde(rename = "stations")]
    pub queues: Vec<String>,
    /// The load of each queue, computed from the traffic's means if they are known: seconds of
    /// work per second that all packets would cause.
    pub expected: Option<Vec<f64>>,
    /// The run's seed.
    pub seed: u64,
    /// Simulated seconds, warm-up included.
    pub seconds: f64,
    /// Seconds at the beginning that count for nothing.
    pub warm_up: f64,
    /// Sorted by index, each at most once.
    pub replications: Vec<Replication>,
    /// Delays of all of them.
    pub delays: Histogram,
}

/// The counts of one replication after its warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replication {
    /// Its index, which names its random stream.
    pub index: u64,
    /// The seconds in which arrivals were counted.
    pub seconds: f64,
    /// The seconds in which departures were counted.
    pub departing_s: f64,
    /// Packets that arrived.
    pub packets: u64,
    /// Their clear bytes.
    pub bytes: f64,
    /// Their protected bytes.
    pub protected: f64,
    /// Their delays from end to end, added up.
    pub delay_s: f64,
    /// Packets that left the last queue.
    pub delivered: u64,
    /// Their clear bytes.
    pub delivered_bytes: f64,
    /// Packets and delays of the first and of the second half of the time.
    pub halves: [Half; 2],
    /// The delays that the shares [`PERCENTILES`] of its packets did not exceed.
    pub percentiles: [f64; 5],
    /// The counts of each queue for the packets that arrived.
    pub queues: Vec<Seen>,
}

/// The packets that arrived in one half of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Half {
    /// Their number.
    pub packets: u64,
    /// Their delays, added up.
    pub delay_s: f64,
}

/// The counts of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// The sum of service times of the packets that arrived, whenever they were served.
    pub work_s: f64,
    /// Seconds of service between the warm-up and the end, for any packets.
    pub busy_s: f64,
    /// Waiting times, added up.
    pub wait_s: f64,
    /// The sum over packets of waiting time times clear bytes.
    pub byte_s: f64,
}

impl Tally {
    /// Empty tallies of tandems under traffic; `traffic` is `None` for a list of packets.
    pub(super) fn of(tandems: &[Tandem], traffic: Option<&Traffic>, run: &Run) -> Vec<Self> {
        let known = traffic.and_then(|traffic| Some((traffic, traffic.packets_per_s()?)));
        let mut known = known.map(|(traffic, rate)| (rate, Means::new(&traffic.sizes)));
        let expected = |tandem: &Tandem| {
            let (rate, means) = known.as_mut()?;
            let load = |queue: &Queue| *rate * means.of(&queue.service);
            Some(tandem.queues.iter().map(load).collect())
        };
        let expected: Vec<_> = tandems.iter().map(expected).collect();
        let pairs = tandems.iter().zip(expected);
        pairs
            .map(|(tandem, expected)| Self::new(tandem, expected, run))
            .collect()
    }

    fn new(tandem: &Tandem, expected: Option<Vec<f64>>, run: &Run) -> Self {
        Self {
            policy: tandem.policy.clone(),
            queues: tandem.queues.iter().map(|s| s.name.clone()).collect(),
            expected,
            seed: run.seed,
            seconds: run.seconds,
            warm_up: run.warm_up,
            replications: Vec::new(),
            delays: Histogram::default(),
        }
    }

    /// Adds a replication and its delays.
    pub(super) fn add(&mut self, mut seen: Replication, delays: &Histogram) {
        seen.percentiles = PERCENTILES.map(|percent| {
            let found = delays.quantile(percent / 100.0);
            found.map_or(0.0, |found| found.delay_s)
        });
        self.delays.merge(delays);
        self.replications.push(seen);
    }

    /// Adds other replications of the same run; refuses those of another run, and duplicate
    /// indices.
    ///
    /// The order of merging does not matter.
    pub fn merge(&mut self, other: &Self) -> Result<(), TandemFault> {
        let mismatch = |what: &str| TandemFault::Mismatch(format!("{what} of {}", self.policy));
        if self.policy != other.policy {
            return Err(TandemFault::Mismatch(format!(
                "policy {} and policy {}",
                self.policy, other.policy
            )));
        }
        if self.queues != other.queues || self.expected != other.expected {
            return Err(mismatch("different queues"));
        }
        let shape = |tally: &Self| (tally.seed, tally.seconds, tally.warm_up);
        if shape(self) != shape(other) {
            return Err(mismatch("different seeds or durations"));
        }
        let mut all = self.replications.clone();
        all.extend_from_slice(&other.replications);
        all.sort_by_key(|replication| replication.index);
        if let Some(pair) = all.windows(2).find(|pair| pair[0].index == pair[1].index) {
            return Err(mismatch(&format!("replication {} twice", pair[0].index)));
        }
        self.replications = all;
        self.delays.merge(&other.delays);
        Ok(())
    }

    /// Why no simulation could have counted this.
    fn check(&self) -> Result<(), String> {
        let queues = self.queues.len();
        if queues == 0 || queues > QUEUES_MAX {
            return Err(format!("{queues} queues, of 1 to {QUEUES_MAX}"));
        }
        let loads = self.expected.as_deref();
        if loads.is_some_and(|loads| loads.len() != queues || !loads.iter().all(is_amount)) {
            return Err("the loads are not those of its queues".into());
        }
        let mut before = None;
        for replication in &self.replications {
            if replication.queues.len() != queues || !replication.is_sound() {
                return Err(format!("replication {} is damaged", replication.index));
            }
            if before.is_some_and(|before| before >= replication.index) {
                return Err("replications are out of order".into());
            }
            before = Some(replication.index);
        }
        Ok(())
    }
}

// `remote` makes the derived functions inherent, so that all readers go through the check.
impl Serialize for Tally {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Tally {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let tally = Self::deserialize(deserializer)?;
        tally.check().map_err(D::Error::custom)?;
        Ok(tally)
    }
}

impl Replication {
    fn is_sound(&self) -> bool {
        let own = [
            self.bytes,
            self.protected,
            self.delay_s,
            self.delivered_bytes,
            self.halves[0].delay_s,
            self.halves[1].delay_s,
        ];
        let each = self
            .queues
            .iter()
            .flat_map(|s| [s.work_s, s.busy_s, s.wait_s, s.byte_s]);
        let each = each.chain(self.percentiles);
        self.packets as f64 <= 2.0 * PACKETS_MAX
            && self.delivered as f64 <= 2.0 * PACKETS_MAX
            && self.seconds > 0.0
            && self.departing_s > 0.0
            && self.seconds.is_finite()
            && self.departing_s.is_finite()
            && own.into_iter().chain(each).all(|value| is_amount(&value))
    }
}

fn is_amount(value: &f64) -> bool {
    value.is_finite() && *value >= 0.0
}
