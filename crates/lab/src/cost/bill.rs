//! What a packet costs on a device, part by part.

use crate::staircase::Staircase;

/// Which way packets go through a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Encrypt, then authenticate.
    Seal,
    /// Check, then decrypt.
    Open,
}

/// One algorithm or step and what it costs, in the unit of its profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Algorithm, or step of the packet road.
    pub what: String,
    /// Operations, cycles or ns of the clear IP packet's size.
    pub units: Staircase,
    /// Where the number was found.
    pub source: String,
}

/// All parts, and what must be said of the sum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bill {
    /// In the order in which they are done.
    pub parts: Vec<Part>,
    /// Such as "sum, upper bound".
    pub notes: Vec<String>,
    /// Smallest and largest packet that was measured, where packets were.
    pub measured_bytes: Option<[f64; 2]>,
}

/// The cell that has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gap(pub(super) String);

impl Direction {
    /// `seal` or `open`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Seal => "seal",
            Self::Open => "open",
        }
    }
}

impl Bill {
    /// All parts together.
    pub fn total(&self) -> Staircase {
        let zero = Staircase::default();
        self.parts
            .iter()
            .fold(zero, |sum, part| sum.plus(&part.units))
    }

    /// Says `note`, once.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}
