//! Recorded links of scenarios: an [`engine::link::recording`] by the name that a scenario gives
//! it.
//!
//! The kernel opens no file: whoever runs it brings an [`Open`]. Each direction of a link that
//! replays a trace reads it for itself, block by block as simulated time goes on.

use std::fmt;
use std::io;
use std::rc::Rc;

pub use engine::link::recording::Rewind;
use engine::link::recording::{BadRecording, Replay, Survey, survey};
use engine::link::{Carrier, Shape};

use crate::scenario::{Entry, Fault, Place};
use crate::system;

/// What a recording is read from: a reader of its own for each call.
pub type Open = Rc<dyn Fn(&Entry) -> io::Result<Box<dyn Rewind>>>;

/// A recording that was looked through.
#[derive(Clone)]
pub struct Trace(Rc<Looked>);

struct Looked {
    survey: Survey,
    entry: Entry,
    open: Open,
}

impl Trace {
    /// Looks through the whole recording, once.
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

    /// Octets a second of full packets, over one round.
    pub fn bytes_per_second(&self) -> f64 {
        self.0.survey.bytes_per_second()
    }

    /// One direction of a link at its start.
    pub fn replay(&self) -> Result<Box<Replay<Box<dyn Rewind>>>, BadRecording> {
        let source = (self.0.open)(&self.0.entry);
        Replay::new(source.map_err(unreadable)?, self.0.survey).map(Box::new)
    }
}

/// Bits a second that a link carries in the long run; infinite where it carries at once.
pub fn bits_per_second(shape: &Shape<Trace>) -> f64 {
    match &shape.carrier {
        Carrier::Unlimited => f64::INFINITY,
        Carrier::Rate(bits) => *bits as f64,
        Carrier::Recording(trace) => trace.bytes_per_second() * 8.0,
    }
}

/// Recordings that their entries hold themselves.
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
