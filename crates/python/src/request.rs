//! Requests as JSON. Unknown keys are errors.

use lab::scenario::{Catalogue, Entry, Scenario};
use lab::tandem;
use serde::Deserialize;

use crate::refused::Refused;

/// A scenario with its edits, every text that it names, and how it is simulated.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    file: String,
    text: String,
    #[serde(default)]
    set: Vec<String>,
    catalogue: Vec<Entry>,
    run: Option<RunAsked>,
    /// Roads of these policies besides the scenario's own, for captures.
    #[serde(default)]
    pub(crate) policies: Vec<String>,
}

/// Which replications, for how long. What is absent is as the scenario says.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunAsked {
    seconds: Option<f64>,
    warm_up_s: Option<f64>,
    replications: Option<u32>,
    first_replication: Option<u64>,
    seed: Option<u64>,
}

/// A packet's price. `profile` names the device in messages; file and text are its cost table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriceAsked {
    #[expect(dead_code, reason = "the table's own name is in the answer")]
    pub(crate) profile: Option<String>,
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) suite: PolicyAsked,
    pub(crate) bytes: f64,
    pub(crate) mips: Option<f64>,
    pub(crate) clock_mhz: Option<f64>,
    pub(crate) direction: Option<Way>,
}

/// What protects a packet: the bare name of a suite, or a policy's file.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(crate) enum PolicyAsked {
    Suite(String),
    File { file: String, text: String },
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    Seal,
    Open,
}

/// Reads a request of whatever kind.
pub(crate) fn read<'a, T: Deserialize<'a>>(request: &'a str) -> Result<T, Refused> {
    serde_json::from_str(request).map_err(Refused::Request)
}

impl Asked {
    /// The scenario after its edits and `more`, and its catalogue.
    pub(crate) fn scenario(&self, more: &[String]) -> Result<(Scenario, Catalogue), Refused> {
        let catalogue = Catalogue::new(self.catalogue.iter().cloned());
        let edits: Vec<&str> = self.set.iter().chain(more).map(String::as_str).collect();
        let scenario = Scenario::edited(&self.file, &self.text, &edits, &catalogue)?;
        Ok((scenario, catalogue))
    }

    /// The run that is asked for; `seconds` counts after the warm-up.
    pub(crate) fn run(&self, scenario: &Scenario) -> tandem::Run {
        let nothing = RunAsked::default();
        let asked = self.run.as_ref().unwrap_or(&nothing);
        let warm_up = asked.warm_up_s.unwrap_or(scenario.run.warm_up_s);
        tandem::Run {
            seconds: asked.seconds.unwrap_or(scenario.run.time_s) + warm_up,
            warm_up,
            replications: asked.replications.unwrap_or(scenario.run.replications),
            seed: asked.seed.unwrap_or(scenario.seed),
            first_replication: asked.first_replication.unwrap_or(0),
        }
    }
}
