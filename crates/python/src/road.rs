//! A scenario with the real engine: the levels `model` and `simulate` of the event kernel.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::rc::Rc;

use lab::kernel::levels;
use lab::kernel::trace::{Open, Rewind};
use lab::scenario::Entry;

use crate::answers;
use crate::refused::Refused;
use crate::request::Held;

/// The results of both levels, and the resolved scenario. The capture of all links gets its name
/// only when it is complete.
pub(crate) fn kernel(held: &Held, capture: Option<&str>) -> Result<String, Refused> {
    let (scenario, catalogue) = (&held.scenario, &held.catalogue);
    let resolved = answers::resolved(held, None)?;
    let told = |mut levels: serde_json::Value| {
        levels["resolved"] = resolved;
        levels.to_string()
    };
    let Some(path) = capture else {
        let levels = levels::both_levels(scenario, catalogue, &recordings(), None);
        let levels = levels.map_err(|fault| Refused::unrunnable(fault, ""))?;
        return Ok(told(levels));
    };
    let part = format!("{path}.part");
    let named = |fault: std::io::Error| Refused::file(path, &fault);
    let file = File::create(&part).map_err(named)?;
    let to: Box<dyn Write> = Box::new(BufWriter::new(file));
    let levels = levels::both_levels(scenario, catalogue, &recordings(), Some(to));
    if levels.is_err() {
        // an incomplete capture is removed; if that fails too, the run's error is reported
        let _ = fs::remove_file(&part);
    }
    let levels = levels.map_err(|fault| Refused::unrunnable(fault, path))?;
    fs::rename(&part, path).map_err(named)?;
    Ok(told(levels))
}

/// Opens recordings as files, which are read during the run; their entries name the files.
fn recordings() -> Open {
    Rc::new(|entry: &Entry| {
        let file: Box<dyn Rewind> = Box::new(File::open(&entry.file)?);
        Ok(file)
    })
}
