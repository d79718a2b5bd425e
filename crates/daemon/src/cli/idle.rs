//! What `status` says where nothing runs: why background processes have ended, and what dead ones
//! have left.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::bail;
use serde::Serialize;

use crate::console::say;
use crate::control::client::hidden;
use crate::routes::Prefix;
use crate::{blocks, footprint, service};

/// What is known without a process. These are the keys of its JSON.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Idle {
    /// Always empty.
    processes: [(); 0],
    /// By name: why its last `up --detach` has ended.
    last_failures: BTreeMap<String, String>,
    /// By connection: networks that dead processes left blocked.
    blocked: BTreeMap<String, BTreeSet<Prefix>>,
    /// What else they left, and records that look like ours but are not trusted.
    warnings: BTreeSet<String>,
    /// We cannot see what runs.
    #[serde(skip)]
    is_hidden: bool,
}

impl Idle {
    /// All of it, or that of one connection.
    pub(super) fn of(runtime_dir: &Path, name: Option<&str>) -> Self {
        let is_meant = |of: &str| name.is_none_or(|name| name == of);
        let all = service::background_names(runtime_dir).into_iter();
        let failed = all.filter(|of| is_meant(of)).filter_map(|of| {
            let reason = service::last_failure(runtime_dir, &of)?;
            Some((of, reason))
        });
        let mut known = Self {
            last_failures: failed.collect(),
            is_hidden: hidden(runtime_dir).is_some(),
            ..Self::default()
        };
        if name.is_none() {
            known.warnings.extend(footprint::strange(runtime_dir));
        }
        for (_, left) in footprint::written(runtime_dir) {
            for (of, prefixes) in left.blocks.iter().filter(|(of, _)| is_meant(of)) {
                let blocked = known.blocked.entry(of.clone()).or_default();
                blocked.extend(prefixes);
            }
            let Some(first) = left.connections.first().filter(|of| is_meant(of)) else {
                continue;
            };
            if left.dns.is_some() {
                known.warnings.insert(format!(
                    "the resolvers are still those of the tunnel: `caravan down {first}` restores \
                     them"
                ));
            }
            if left.has_trust_anchors {
                known.warnings.insert(format!(
                    "keys of DNSSEC are still those of the tunnel: `caravan down {first}` removes \
                     them"
                ));
            }
        }
        known.blocked.retain(|_, prefixes| !prefixes.is_empty());
        known
    }

    /// Ends `status` with this error. With `json`, standard output has the rest as an object,
    /// unless something may run that we cannot see.
    pub(super) fn end(&self, error: &str, json: bool) -> anyhow::Result<String> {
        if json && !self.is_hidden {
            say(&(serde_json::to_string_pretty(self)? + "\n"))?;
        }
        bail!("{error}{}", self.lines())
    }

    /// One line for each fact, after the error.
    fn lines(&self) -> String {
        let failures = self.last_failures.iter();
        let failures =
            failures.map(|(of, why)| format!("the last `up --detach` of {of} ended: {why}"));
        let blocked = blocks::sentences(self.blocked.iter());
        let all = failures.chain(blocked).chain(self.warnings.iter().cloned());
        all.map(|line| format!("\n{line}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footprint::FootprintFile;

    #[test]
    fn each_fact_has_one_line_and_its_key() {
        let folder = std::env::temp_dir().join(format!("caravan-idle-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (process, length) in [("home", 24), ("work", 24), ("lab", 25)] {
            let mut file = FootprintFile::open(&folder, process).unwrap();
            file.update(|footprint| {
                footprint.connections = vec![process.to_owned()];
                let blocked = format!("10.10.0.0/{length}").parse().unwrap();
                footprint.blocks.insert("home".to_owned(), [blocked].into());
                footprint.has_trust_anchors = process == "work";
            })
            .unwrap();
        }
        let mut outcome = service::Outcome::open(&folder, "home").unwrap();
        outcome.failed("not up after 3 s");
        let known = Idle::of(&folder, None);
        let lines: Vec<&str> = "\n\
            the last `up --detach` of home ended: not up after 3 s\n\
            10.10.0.0/24, 10.10.0.0/25 stay blocked; `caravan down home` unblocks that\n\
            keys of DNSSEC are still those of the tunnel: `caravan down work` removes them"
            .lines()
            .collect();
        assert_eq!(known.lines().lines().collect::<Vec<_>>(), lines);
        let expected = serde_json::json!({
            "processes": [],
            "last_failures": { "home": "not up after 3 s" },
            "blocked": { "home": ["10.10.0.0/24", "10.10.0.0/25"] },
            "warnings": [
                "keys of DNSSEC are still those of the tunnel: `caravan down work` removes them"
            ],
        });
        assert_eq!(serde_json::to_value(&known).unwrap(), expected);
        let fault = known.end("nothing is running", false).unwrap_err();
        let text = fault.to_string();
        assert!(text.starts_with("nothing is running\nthe last "), "{text}");
        let of_work = Idle::of(&folder, Some("work"));
        assert!(of_work.blocked.is_empty() && of_work.last_failures.is_empty());
        assert_eq!(of_work.warnings.len(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
