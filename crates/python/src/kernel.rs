//! A scenario with the real engine: the levels `model` and `simulate` of the event kernel.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::rc::Rc;

use lab::kernel::levels;
use lab::kernel::source::Departure;
use lab::kernel::trace::{Open, Rewind};
use lab::kernel::world::Blueprint;
use lab::scenario::Entry;

use crate::answers::{self, write};
use crate::refused::Refused;
use crate::request::Held;

/// The results of both levels, and the resolved scenario. The capture of all links gets its name
/// only when it is complete.
pub(crate) fn kernel(held: &Held, capture: Option<&str>) -> Result<String, Refused> {
    let answer = answers::resolved(held, None)?;
    let told = |mut levels: serde_json::Value| {
        levels["resolved"] = answer;
        levels.to_string()
    };
    let both_levels = |capture| {
        let (scenario, resolved) = (&held.scenario, &held.resolved);
        levels::both_levels(scenario, resolved, &held.catalogue, &recordings(), capture)
    };
    let Some(path) = capture else {
        let levels = both_levels(None);
        let levels = levels.map_err(|fault| Refused::unrunnable(fault, ""))?;
        return Ok(told(levels));
    };
    let part = format!("{path}.part");
    let named = |fault: std::io::Error| Refused::file(path, &fault);
    let file = File::create(&part).map_err(named)?;
    let to: Box<dyn Write> = Box::new(BufWriter::new(file));
    let levels = both_levels(Some(to));
    if levels.is_err() {
        // an incomplete capture is removed; if that fails too, the run's error is reported
        let _ = fs::remove_file(&part);
    }
    let levels = levels.map_err(|fault| Refused::unrunnable(fault, path))?;
    fs::rename(&part, path).map_err(named)?;
    Ok(told(levels))
}

/// The datagrams of each flow as `kernel` sends them: nanoseconds from the start of the flows, and
/// octets of the clear IP packet. Null for TCP.
pub(crate) fn departures(held: &Held) -> Result<String, Refused> {
    let scenario = &held.scenario;
    let blueprint = Blueprint::of(scenario, &held.resolved, &held.catalogue, &recordings())?;
    let mut left = DEPARTURES_MAX;
    let mut flows: Vec<Option<Vec<(u64, u32)>>> = Vec::new();
    for flow in 0..blueprint.programs.len() {
        let departures = blueprint.departures(flow);
        let listed: Option<Vec<_>> = departures.map(|departures| {
            let written = |one: Departure| (one.at.as_nanos() as u64, one.bytes);
            departures.take(left + 1).map(written).collect()
        });
        let count = listed.as_ref().map_or(0, Vec::len);
        left = left.checked_sub(count).ok_or_else(|| {
            let what = format!("more than {DEPARTURES_MAX} datagrams: shorten the run");
            scenario.fault(&["run.time", "run"], what)
        })?;
        flows.push(listed);
    }
    write(&flows)
}

/// The most datagrams of one scenario that are listed.
const DEPARTURES_MAX: usize = 1_000_000;

/// Opens recordings as files, which are read during the run; their entries name the files.
fn recordings() -> Open {
    Rc::new(|entry: &Entry| {
        let file: Box<dyn Rewind> = Box::new(File::open(&entry.file)?);
        Ok(file)
    })
}
