//! The cost of a packet on a device, part by part.

use crate::staircase::Staircase;

/// The direction of packets through a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Encrypt, then authenticate.
    Seal,
    /// Check, then decrypt.
    Open,
}

/// One algorithm or step and its cost, in the unit of its profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Algorithm, or step of the packet path.
    pub what: String,
    /// Operations, cycles or ns as a function of the clear IP packet's size.
    pub units: Staircase,
    /// The source of the number.
    pub source: String,
}

/// All parts, and notes on the sum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bill {
    /// In order of execution.
    pub parts: Vec<Part>,
    /// For example "sum, upper bound".
    pub notes: Vec<String>,
    /// Smallest and largest measured packet, if packets were measured.
    pub measured_bytes: Option<[f64; 2]>,
    /// The first part that is left out because no source gives its cost.
    pub(super) missing: Option<Gap>,
}

/// The cell without a value.
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

    /// Adds `note`, once.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}
