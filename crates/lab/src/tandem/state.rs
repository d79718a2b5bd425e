//! Whether averages are meaningful, by the load of a queue.

use serde::Serialize;

/// The load from which a finite run is of little use: it is marked `near saturation`.
pub(super) const NEAR_SATURATION: f64 = 0.97;

/// Whether averages are meaningful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Load well below 1, no drift.
    Stationary,
    /// Load close to 1: longer runs would change the averages.
    NearSaturation,
    /// Load of 1 or more, or delays that grow with time: there is no average.
    NotStationary,
}

impl State {
    /// The state of a queue that receives so many seconds of work per second.
    pub(super) fn under(load: f64) -> Self {
        match load {
            load if load >= 1.0 => Self::NotStationary,
            load if load > NEAR_SATURATION => Self::NearSaturation,
            _ => Self::Stationary,
        }
    }
}

/// The load that reaches each queue, of the load that all packets would cause there. A saturated
/// queue lets its capacity through, and all queues behind it receive less accordingly.
pub(super) fn reaching(loads: &[f64]) -> Vec<f64> {
    let mut fullest = 1.0;
    let reaching = loads.iter().map(|load| {
        let reaches = load / fullest;
        fullest = f64::max(fullest, *load);
        reaches
    });
    reaching.collect()
}
