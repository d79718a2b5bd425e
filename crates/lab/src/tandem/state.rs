//! Whether averages mean anything: what load says of a station.

use serde::Serialize;

/// From here a finite run says little: it is marked `near saturation`.
pub(super) const NEAR_SATURATION: f64 = 0.97;

/// Whether averages mean anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Load well below 1, no drift.
    Stationary,
    /// Load above it: longer runs would move the averages.
    NearSaturation,
    /// Load 1 or more, or delays that grow with time: there is no average.
    NotStationary,
}

impl State {
    /// The state of a station that gets so many seconds of work in a second.
    pub(super) fn under(load: f64) -> Self {
        match load {
            load if load >= 1.0 => Self::NotStationary,
            load if load > NEAR_SATURATION => Self::NearSaturation,
            _ => Self::Stationary,
        }
    }
}

/// What reaches each station of the load that all packets would bring it: a full station lets its
/// capacity through, and all behind it get so much less.
pub(super) fn reaching(loads: &[f64]) -> Vec<f64> {
    let mut fullest = 1.0;
    let reaching = loads.iter().map(|load| {
        let reaches = load / fullest;
        fullest = f64::max(fullest, *load);
        reaches
    });
    reaching.collect()
}
