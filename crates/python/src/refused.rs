//! Why a request is refused: a sentence for people, and a code with values for programs.
//!
//! Each cause becomes a Python exception: `Refusal`, or a subclass if it has more data than code,
//! place and argument. Python compares codes and does not parse the sentence.

use document::Place;
use lab::cost::{self, Missing};
use lab::kernel::levels::Unrunnable;
use lab::scenario::{Fault, Uncomputable};
use lab::{system, tandem};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value, json};

create_exception!(
    caravan._lab,
    Refusal,
    PyValueError,
    "Why the native core refuses a request. Its text is one sentence for people."
);
create_exception!(
    caravan._lab,
    Unpriced,
    Refusal,
    "A device has no cost of something. It is never made up from others."
);
create_exception!(
    caravan._lab,
    NoFormula,
    Refusal,
    "An accounting has no formula for the size of a policy's packets."
);

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// An error in a text, in an edit, or in the costs of a scenario's devices.
    #[error(transparent)]
    Scenario(Uncomputable),
    /// A packet has no price.
    #[error(transparent)]
    Price(#[from] cost::Refusal),
    /// A device has two speeds.
    #[error("--mips, --mhz: a device counts either operations or cycles: give only one of them")]
    TwoSpeeds,
    /// A file that the system cannot open, read or write.
    #[error("{path}: {why}")]
    File { path: String, why: String },
    /// A capture whose packets cannot be replayed.
    #[error("{path}: {why}")]
    Capture { path: String, why: String },
    /// The simulation has no usable result.
    #[error("{0}")]
    NoPackets(String),
    /// Tallies that belong to different runs.
    #[error(transparent)]
    Tallies(#[from] tandem::TandemFault),
    /// The request is not of the form that this build expects: most likely the library has another
    /// version.
    #[error("not a request: {0}")]
    Request(serde_json::Error),
    /// The same for results.
    #[error("not a result: {0}")]
    Tally(serde_json::Error),
    /// An answer that JSON cannot represent.
    #[error("the answer cannot be written as JSON: {0}")]
    Answer(serde_json::Error),
}

impl Refused {
    pub(crate) fn file(path: &str, fault: &std::io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            why: system::said(fault),
        }
    }

    /// The object in an answer that has other parts too.
    pub(crate) fn told(&self) -> Value {
        json!({
            "code": self.code(),
            "said": self.to_string(),
            "what": self.what(),
            "brief": self.brief(),
            "place": self.place().map(parts),
        })
    }

    /// The Python exception.
    pub(crate) fn raised(&self, py: Python<'_>) -> PyErr {
        let said = self.to_string();
        let raised = match self {
            Self::Scenario(Uncomputable::Unpriced { .. })
            | Self::Price(cost::Refusal::Missing(_)) => Unpriced::new_err(said),
            Self::Scenario(Uncomputable::NoFormula { .. }) => NoFormula::new_err(said),
            _ => Refusal::new_err(said),
        };
        match self.describe(raised.value(py)) {
            Ok(()) => raised,
            Err(fault) => fault,
        }
    }

    fn describe(&self, raised: &Bound<'_, PyAny>) -> PyResult<()> {
        raised.setattr("code", self.code())?;
        raised.setattr("what", self.what())?;
        raised.setattr("brief", self.brief())?;
        raised.setattr("place", self.place().map(parts))?;
        raised.setattr("argument", self.argument())?;
        if let Some(missing) = self.missing() {
            raised.setattr("profile", &missing.profile)?;
            raised.setattr("subject", &missing.what)?;
            raised.setattr("cell", &missing.cell)?;
        }
        if let Self::Scenario(Uncomputable::NoFormula {
            accounting, policy, ..
        }) = self
        {
            raised.setattr("accounting", accounting.name())?;
            raised.setattr("policy", policy)?;
        }
        Ok(())
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Scenario(Uncomputable::Text(_)) => "text",
            Self::Scenario(Uncomputable::Unpriced { .. })
            | Self::Price(cost::Refusal::Missing(_)) => "unpriced",
            Self::Scenario(Uncomputable::NoFormula { .. }) => "no-formula",
            Self::Price(cost::Refusal::UnknownSuite { .. }) => "unknown-suite",
            Self::Price(cost::Refusal::Absurd { .. }) => "argument",
            Self::Price(cost::Refusal::Clock { .. }) | Self::TwoSpeeds => "clock",
            Self::File { .. } => "file",
            Self::Capture { .. } => "capture",
            Self::NoPackets(_) => "no-packets",
            Self::Tallies(_) => "tallies",
            Self::Request(_) | Self::Tally(_) => "request",
            Self::Answer(_) => "answer",
        }
    }

    fn missing(&self) -> Option<&Missing> {
        match self {
            Self::Scenario(Uncomputable::Unpriced { missing, .. }) => Some(missing),
            Self::Price(cost::Refusal::Missing(missing)) => Some(missing),
            _ => None,
        }
    }

    /// The sentence without the position.
    fn what(&self) -> String {
        match self {
            Self::Scenario(fault) => fault.what(),
            Self::Price(cost::Refusal::Absurd { value, why, .. }) => format!("{value} {why}"),
            _ => self.to_string(),
        }
    }

    /// The same without the advice.
    fn brief(&self) -> String {
        self.missing().map_or_else(|| self.what(), Missing::brief)
    }

    fn place(&self) -> Option<&Place> {
        match self {
            Self::Scenario(fault) => Some(fault.place()),
            _ => None,
        }
    }

    /// The argument of a request that is wrong.
    fn argument(&self) -> Option<&'static str> {
        match self {
            Self::Price(cost::Refusal::Absurd { key, .. }) => Some(key),
            _ => None,
        }
    }
}

impl From<Uncomputable> for Refused {
    fn from(fault: Uncomputable) -> Self {
        Self::Scenario(fault)
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Scenario(Uncomputable::Text(fault))
    }
}

impl Refused {
    /// The error for both levels, whose capture is at `path`.
    pub(crate) fn unrunnable(fault: Unrunnable, path: &str) -> Self {
        match fault {
            Unrunnable::Scenario(fault) => Self::Scenario(fault),
            Unrunnable::Capture(why) => Self::File {
                path: path.to_owned(),
                why,
            },
        }
    }
}

/// File, line, column and key; an edit has no file.
fn parts(place: &Place) -> (Option<&str>, Option<usize>, Option<usize>, &str) {
    let file = (!place.is_edit()).then_some(&*place.file);
    (file, place.line, place.column, &place.key)
}
