//! `docs/conformance.md`: which file implements which section of which document, collected from the
//! citations in the code, and our deviations, and what was tried with Caravan alone, from
//! `docs/deviations.toml`.
//!
//! `CARAVAN_BLESS=1 cargo test -p daemon --test tidy` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::Deserialize;

use crate::style::{Citation, citations, citing_files};
use crate::tree::{Finding, Tree, top};

const TABLE: &str = "docs/conformance.md";
const DEVIATIONS: &str = "docs/deviations.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deviations {
    #[serde(default)]
    deviation: Vec<Deviation>,
    #[serde(default)]
    untried: Vec<Untried>,
}

/// A document, or a part of one, that was tried with no second implementation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Untried {
    rfc: u32,
    /// What, and why.
    what: String,
}

/// An intentional deviation from a document.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deviation {
    rfc: u32,
    section: String,
    /// The sentence that we do not follow.
    quotation: String,
    /// What we do, and why.
    reason: String,
    /// The file with the deviation.
    place: String,
}

type Sections = BTreeMap<SectionKey, BTreeSet<String>>;

/// Sections in the order of their numbers, appendices last.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SectionKey(Vec<(u32, String)>);

impl SectionKey {
    fn new(section: &str) -> Self {
        let part = |text: &str| (text.parse().unwrap_or(u32::MAX), text.to_owned());
        Self(section.split('.').map(part).collect())
    }

    fn text(&self) -> String {
        let parts: Vec<&str> = self.0.iter().map(|(_, text)| text.as_str()).collect();
        let text = parts.join(".");
        if text.starts_with("appendix") {
            text
        } else {
            format!("§{text}")
        }
    }
}

/// Checks that the table on disk matches the code. With CARAVAN_BLESS set, writes it.
pub(crate) fn is_current(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let finding = |path: &str, what: String| Finding {
        path: path.to_owned(),
        line: 1,
        what,
    };
    let text = tree.find(DEVIATIONS).map_or("", |file| file.text.as_str());
    let Deviations {
        deviation: deviations,
        untried,
    } = match toml::from_str(text) {
        Ok(all) => all,
        Err(fault) => return vec![finding(DEVIATIONS, fault.to_string())],
    };
    for deviation in &deviations {
        if tree.find(&deviation.place).is_none() {
            let what = format!(
                "\"{}\" is no file: name the one that deviates",
                deviation.place
            );
            findings.push(finding(DEVIATIONS, what));
        }
    }
    let wanted = table(tree, &deviations, &untried);
    if std::env::var_os("CARAVAN_BLESS").is_some() {
        std::fs::write(top().join(TABLE), wanted).expect("docs is writable");
    } else if tree.find(TABLE).is_none_or(|file| file.text != wanted) {
        let remedy = "CARAVAN_BLESS=1 cargo test -p daemon --test tidy";
        findings.push(finding(
            TABLE,
            format!("not what the code cites: run {remedy}"),
        ));
    }
    findings
}

fn collect(tree: &Tree) -> BTreeMap<u32, Sections> {
    let mut documents: BTreeMap<u32, Sections> = BTreeMap::new();
    for file in citing_files(tree).filter(|file| file.has_extension("rs") && !file.is_test()) {
        for line in file.text.lines() {
            for Citation { rfc, section } in citations(line).into_iter().flatten() {
                let sections = documents.entry(rfc).or_default();
                if let Some(section) = section {
                    let files = sections.entry(SectionKey::new(&section)).or_default();
                    files.insert(file.path.clone());
                }
            }
        }
    }
    documents.retain(|_, sections| !sections.is_empty());
    documents
}

fn table(tree: &Tree, deviations: &[Deviation], untried: &[Untried]) -> String {
    let mut text = String::from(
        "# Conformance\n\n\
         Which file implements which section: every citation in the code, collected by the test\n\
         `tidy`. Below a document's table are the points where Caravan differs on purpose,\n\
         and what was tried with no second implementation.\n",
    );
    let documents = collect(tree);
    let mut numbers: BTreeSet<u32> = documents.keys().copied().collect();
    numbers.extend(deviations.iter().map(|deviation| deviation.rfc));
    numbers.extend(untried.iter().map(|one| one.rfc));
    for rfc in numbers {
        let _ = writeln!(text, "\n## RFC {rfc}\n");
        if let Some(sections) = documents.get(&rfc) {
            text.push_str("| section | files |\n|---|---|\n");
            for (section, files) in sections {
                let files: Vec<String> = files.iter().map(|path| format!("`{path}`")).collect();
                let _ = writeln!(text, "| {} | {} |", section.text(), files.join(", "));
            }
        }
        for deviation in deviations.iter().filter(|deviation| deviation.rfc == rfc) {
            let Deviation {
                section,
                quotation,
                reason,
                place,
                ..
            } = deviation;
            let section = SectionKey::new(section).text();
            let _ = write!(
                text,
                "\n**Deviation, {section}**: \"{quotation}\"\n{reason} (`{place}`)\n"
            );
        }
        for Untried { what, .. } in untried.iter().filter(|one| one.rfc == rfc) {
            let _ = write!(text, "\n**Tried with no second implementation**: {what}\n");
        }
    }
    text
}
