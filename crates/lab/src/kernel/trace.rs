//! Recorded links of scenarios: an [`engine::link::recording`] by its name in the scenario.
//!
//! The kernel opens no file: its caller passes an [`Open`]. Each direction of a link that replays a
//! trace reads it separately, block by block as simulated time passes.

use std::fmt;
use std::io;
use std::rc::Rc;

pub use engine::link::recording::Rewind;
use engine::link::recording::{BadRecording, Replay, Survey, survey};
use engine::link::{Carrier, Shape};

use crate::scenario::{Entry, Fault, Place};
use crate::system;

/// Opens a recording: a new reader for each call.
pub type Open = Rc<dyn Fn(&Entry) -> io::Result<Box<dyn Rewind>>>;

/// A recording after its survey.
#[derive(Clone)]
pub struct Trace(Rc<Looked>);

struct Looked {
    survey: Survey,
    entry: Entry,
    open: Open,
}

impl Trace {
    /// Surveys the whole recording, once.
    pub fn new(entry: &Entry, open: &Open) -> Result<Self, Fault> {
        let source = open(entry).map_err(unreadable);
        let survey = source.and_then(survey).map_err(|fault| Fault {
            place: Place {
                file: entry.file.as_str().into(),
                column: None,
                line: fault.line().and_then(|line| usize::try_from(line).ok()),
                key: String::new(),
            },
            what: fault.to_string(),
        })?;
        Ok(Self(Rc::new(Looked {
            survey,
            entry: entry.clone(),
            open: open.clone(),
        })))
    }

    /// Octets per second of full packets, over one round.
    pub fn bytes_per_second(&self) -> f64 {
        self.0.survey.bytes_per_second()
    }

    /// A replay from its start, for one direction of a link.
    pub fn replay(&self) -> Result<Box<Replay<Box<dyn Rewind>>>, BadRecording> {
        let source = (self.0.open)(&self.0.entry);
        Replay::new(source.map_err(unreadable)?, self.0.survey).map(Box::new)
    }
}

/// A link's long-term rate in bits per second; infinite if transmission takes no time.
pub fn bits_per_second(shape: &Shape<Trace>) -> f64 {
    match &shape.carrier {
        Carrier::Unlimited => f64::INFINITY,
        Carrier::Rate(bits) => *bits as f64,
        Carrier::Recording(trace) => trace.bytes_per_second() * 8.0,
    }
}

/// Recordings whose entries contain their text.
pub fn held() -> Open {
    Rc::new(|entry: &Entry| {
        let text: Box<dyn Rewind> = Box::new(io::Cursor::new(entry.text.clone()));
        Ok(text)
    })
}

fn unreadable(fault: io::Error) -> BadRecording {
    BadRecording::Unreadable(system::said(&fault))
}

impl fmt::Debug for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.survey.fmt(formatter)
    }
}
