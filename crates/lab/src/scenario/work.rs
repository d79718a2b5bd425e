//! The limit of work that one request may ask the tandem for, checked before it begins.

use document::Fault;

use super::Scenario;
use crate::tandem::{PACKETS_MAX, Run};

/// Usual packets per second, seconds and replications of a request. The error names the value that
/// exceeds its usual value most.
const USUAL: [(&str, f64); 3] = [
    ("traffic.rate", 1e4),
    ("run.time", 1e5),
    ("run.replications", 64.0),
];

impl Scenario {
    /// Refuses more than [`PACKETS_MAX`] packets, all replications together; `run` covers all of
    /// them. A capture has a fixed number of packets.
    pub fn check_work(&self, run: &Run) -> Result<(), Fault> {
        let Some(traffic) = self.tandem_traffic()? else {
            return Ok(());
        };
        let factors = [
            traffic.most_packets_per_s(),
            run.seconds,
            f64::from(run.replications),
        ];
        let packets: f64 = factors.iter().product();
        if packets <= PACKETS_MAX {
            return Ok(());
        }
        let [rate, seconds, times] = factors;
        let beyond = |(value, (_, usual)): &(f64, (&str, f64))| value / usual;
        let blamed = factors.into_iter().zip(USUAL);
        let blamed = blamed.max_by(|one, other| beyond(one).total_cmp(&beyond(other)));
        let key = blamed.map_or("run", |(_, (key, _))| key);
        let what = format!(
            "{packets:.1e} packets: {rate:.3} a second for {seconds} s with the warm-up, {times} \
             times, limit {PACKETS_MAX:e}: lower the rate, or simulate a shorter time or fewer \
             replications"
        );
        Err(self.fault(&[key], what))
    }
}
