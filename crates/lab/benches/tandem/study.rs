//! The measured path of `scenarios/umts.toml` and grid of `studies/umts`, read as the product reads
//! them, through [`lab::scenario`] and [`lab::cost`].
//!
//! Left out: sweeps of the study other than `grid`.

use lab::scenario::{Catalogue, Entry, Kind, Scenario};
use lab::tandem::{Tandem, Traffic};
use serde::Deserialize;

/// A file of the wheel's catalogue.
macro_rules! filed {
    ($path:literal) => {
        include_str!(concat!("../../../../python/caravan/catalogue/", $path))
    };
}

/// Kind, name and text of each file that the scenario names.
const FILES: [(Kind, &str, &str); 10] = [
    (Kind::Device, "paper-u", filed!("devices/paper-u.toml")),
    (Kind::Link, "umts-radio", filed!("links/umts-radio.toml")),
    (
        Kind::Link,
        "frame-relay-100",
        filed!("links/frame-relay-100.toml"),
    ),
    (Kind::Link, "atm-155", filed!("links/atm-155.toml")),
    (Kind::Policy, "none", filed!("policies/none.toml")),
    (Kind::Policy, "null-md5", filed!("policies/null-md5.toml")),
    (Kind::Policy, "des", filed!("policies/des.toml")),
    (Kind::Policy, "3des", filed!("policies/3des.toml")),
    (Kind::Policy, "des-md5", filed!("policies/des-md5.toml")),
    (Kind::Policy, "3des-md5", filed!("policies/3des-md5.toml")),
];

/// The scenario with its own policy, processor and rate.
pub(crate) fn own() -> (Tandem, Traffic) {
    tandem_and_traffic(&[])
}

/// The scenario after edits such as `node.ms.mips=200`.
fn tandem_and_traffic(edits: &[&str]) -> (Tandem, Traffic) {
    let entry = |(kind, name, text): (Kind, &str, &str)| Entry {
        kind,
        name: name.to_owned(),
        file: format!("{name}.toml"),
        text: text.to_owned(),
        digest: None,
    };
    let catalogue = Catalogue::new(FILES.map(entry));
    let text = filed!("scenarios/umts.toml");
    let scenario = Scenario::edited("umts.toml", text, edits, &catalogue);
    let scenario = scenario.expect("the catalogue's own scenario is sound");
    let resolved = scenario.resolved(&catalogue).expect("and has a network");
    let tandem = scenario
        .tandem(&resolved, &catalogue)
        .expect("and its costs are known");
    let traffic = scenario.tandem_traffic().expect("and its traffic is open");
    (tandem, traffic.expect("and no capture"))
}

#[derive(Deserialize)]
struct Study {
    sweep: Vec<Sweep>,
}

/// A sweep of the study, as far as the grid needs its keys.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Sweep {
    name: String,
    pub(crate) seconds: f64,
    pub(crate) warm_up: f64,
    pub(crate) replications: u32,
    grid: Axes,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Axes {
    policy: Vec<String>,
    mips: Vec<f64>,
    rate_kbps: Vec<f64>,
}

impl Sweep {
    /// The study's grid.
    pub(crate) fn grid() -> Self {
        let study: Study = toml::from_str(filed!("studies/umts/study.toml"))
            .expect("the catalogue's own study is sound");
        let mut sweeps = study.sweep.into_iter();
        let grid = sweeps.find(|sweep| sweep.name == "grid");
        grid.expect("the study has a grid")
    }

    /// The number of rates.
    pub(crate) fn rates(&self) -> usize {
        self.grid.rate_kbps.len()
    }

    /// Every policy on each of the first `processors` processors.
    pub(crate) fn tandems(&self, processors: usize) -> Vec<Tandem> {
        let mips = self.grid.mips.iter().take(processors);
        let pairs = mips.flat_map(|mips| self.grid.policy.iter().map(move |one| (one, mips)));
        let tandem = |(policy, mips): (&String, &f64)| {
            let edits = [format!("policy={policy}"), format!("node.ms.mips={mips}")];
            tandem_and_traffic(&edits.each_ref().map(String::as_str)).0
        };
        pairs.map(tandem).collect()
    }

    /// Every policy on every processor.
    pub(crate) fn all_tandems(&self) -> Vec<Tandem> {
        self.tandems(self.grid.mips.len())
    }

    /// Traffic at one of the rates.
    pub(crate) fn traffic(&self, rate: usize) -> Traffic {
        let edit = format!("traffic.rate={} kbit/s", self.grid.rate_kbps[rate]);
        tandem_and_traffic(&[&edit]).1
    }
}
