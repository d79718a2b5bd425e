//! How long and how often a scenario is simulated, and on which date it begins.

use serde::Serialize;
use toml::value::{Datetime, Offset};

use super::{Fault, Item, quantity};

/// How long and how often a scenario is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Simulated seconds that are measured.
    pub time_s: f64,
    /// Simulated seconds before them that are not measured.
    pub warm_up_s: f64,
    /// Independent repetitions.
    pub replications: u32,
}

/// The largest number of replications; more would not narrow an interval usefully.
const REPLICATIONS_MAX: u64 = 100_000;
/// The longest simulated time: one year.
const TIME_S_MAX: f64 = 366.0 * 86_400.0;
/// The default date, 1 January 2026: the certificates of tests are valid then.
pub(super) const CALENDAR_S: u64 = 1_767_225_600;

impl Run {
    pub(super) fn read(item: &Item) -> Result<Self, Fault> {
        let table = item.table()?;
        let otherwise = Self::default();
        let time = |item: &Item| {
            item.quantity(quantity::time)
                .and_then(|time_s| match time_s <= TIME_S_MAX {
                    true => Ok(time_s),
                    false => Err(item.fault("more than a year of virtual time")),
                })
        };
        let run = Self {
            time_s: table.or("time", otherwise.time_s, time)?,
            warm_up_s: table.or("warm_up", otherwise.warm_up_s, time)?,
            replications: table.or("replications", otherwise.replications, |item| {
                let replications = item.whole(1, REPLICATIONS_MAX)?;
                Ok(u32::try_from(replications).expect("the limit is below"))
            })?,
        };
        if run.time_s <= 0.0 {
            return Err(table.fault_of(&["time"], "the time must be above zero"));
        }
        table.finish()?;
        Ok(run)
    }
}

impl Default for Run {
    /// One minute of warm-up and one hour, sixteen times: what the papers' tables need.
    fn default() -> Self {
        Self {
            time_s: 3600.0,
            warm_up_s: 60.0,
            replications: 16,
        }
    }
}

/// `2026-01-01` or `2026-01-01T12:00:00+01:00`, in seconds since 1970; UTC without an offset.
pub(super) fn calendar(item: &Item) -> Result<u64, Fault> {
    let text = item.text()?;
    let date = text.parse::<Datetime>();
    date.ok()
        .and_then(|date| {
            let day = date.date?;
            let time = date.time.map_or(0, |time| {
                let (hour, minute) = (u64::from(time.hour), u64::from(time.minute));
                hour * 3600 + minute * 60 + u64::from(time.second.unwrap_or(0))
            });
            let days = days_since_1970(day.year.into(), day.month.into(), day.day.into())?;
            let minutes = match date.offset {
                Some(Offset::Custom { minutes }) => i64::from(minutes),
                Some(Offset::Z) | None => 0,
            };
            (days * 86_400 + time).checked_add_signed(-60 * minutes)
        })
        .ok_or_else(|| item.fault("must be a date from 1970 on, such as 2026-01-01T00:00:00Z"))
}

/// Days in the Gregorian calendar; none before 1970.
pub(super) fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    // The year begins in March here, so that the leap day is its last.
    let (year, month) = match month {
        1 | 2 => (year.checked_sub(1)?, month + 9),
        _ => (year, month - 3),
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leap_days + (153 * month + 2) / 5 + day - 1;
    // Days from 1 March of year 0 to 1 January 1970.
    days.checked_sub(719_468)
}
