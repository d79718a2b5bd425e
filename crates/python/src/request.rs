//! Requests as JSON. Unknown keys are errors.

use lab::scenario::{Catalogue, Entry, Resolved, Scenario};
use lab::tandem;
use serde::Deserialize;

use crate::refused::Refused;

/// A scenario with its edits, every text that it names, and the settings of its simulation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioRequest {
    file: String,
    text: String,
    #[serde(default)]
    set: Vec<String>,
    catalogue: Vec<Entry>,
    run: Option<RunRequest>,
}

/// Which replications, and how long. Missing values are those of the scenario.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunRequest {
    seconds: Option<f64>,
    warm_up_s: Option<f64>,
    replications: Option<u32>,
    first_replication: Option<u64>,
    seed: Option<u64>,
}

/// The price of a packet; file and text are the device's cost table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PriceRequest {
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) suite: PolicyRequest,
    pub(crate) bytes: f64,
    pub(crate) mips: Option<f64>,
    pub(crate) clock_mhz: Option<f64>,
    pub(crate) direction: Option<Way>,
}

/// The protection of a packet: the name of a suite, or a policy file.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(crate) enum PolicyRequest {
    Suite(String),
    File { file: String, text: String },
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    Seal,
    Open,
}

/// A file of the catalogue.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextRequest {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) text: String,
}

/// Reads a request of any kind.
pub(crate) fn read<'a, T: Deserialize<'a>>(request: &'a str) -> Result<T, Refused> {
    serde_json::from_str(request).map_err(Refused::Request)
}

/// A scenario that is read and resolved once, for all requests about it.
pub(crate) struct Held {
    request: ScenarioRequest,
    pub(crate) scenario: Scenario,
    pub(crate) resolved: Resolved,
    pub(crate) catalogue: Catalogue,
}

impl Held {
    pub(crate) fn read(request: &str) -> Result<Self, Refused> {
        let mut request: ScenarioRequest = read(request)?;
        let catalogue = Catalogue::new(std::mem::take(&mut request.catalogue));
        let scenario = request.edited(None, &catalogue)?;
        let resolved = scenario.resolved(&catalogue)?;
        Ok(Self {
            request,
            scenario,
            resolved,
            catalogue,
        })
    }

    /// The name of its file in messages.
    pub(crate) fn file(&self) -> &str {
        &self.request.file
    }

    /// The same scenario under another policy.
    pub(crate) fn under(&self, policy: &str) -> Result<Scenario, Refused> {
        let edit = format!("policy={policy}");
        self.request.edited(Some(&edit), &self.catalogue)
    }

    /// The run that `other` describes; missing values are those of the request or the scenario.
    pub(crate) fn run(&self, other: Option<&str>) -> Result<tandem::Run, Refused> {
        let other: Option<RunRequest> = other.map(read).transpose()?;
        let nothing = RunRequest::default();
        let request = other.as_ref().or(self.request.run.as_ref());
        let (request, scenario) = (request.unwrap_or(&nothing), &self.scenario);
        let warm_up = request.warm_up_s.unwrap_or(scenario.run.warm_up_s);
        Ok(tandem::Run {
            seconds: request.seconds.unwrap_or(scenario.run.time_s) + warm_up,
            warm_up,
            replications: request.replications.unwrap_or(scenario.run.replications),
            seed: request.seed.unwrap_or(scenario.seed),
            first_replication: request.first_replication.unwrap_or(0),
        })
    }
}

impl ScenarioRequest {
    fn edited(&self, more: Option<&str>, catalogue: &Catalogue) -> Result<Scenario, Refused> {
        let edits = self.set.iter().map(String::as_str).chain(more);
        let edits: Vec<&str> = edits.collect();
        let scenario = Scenario::edited(&self.file, &self.text, &edits, catalogue);
        scenario.map_err(Refused::from)
    }
}
