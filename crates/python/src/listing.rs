//! Lists every device, link and policy of a catalogue, read and checked.

use lab::cost::{Policy, Profile, Unit};
use lab::scenario::{Catalogue, Entry, Kind, Layered, LinkFile};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answers::{finite, write};
use crate::refused::Refused;
use crate::request::read;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListRequest {
    kind: Kind,
    catalogue: Vec<Entry>,
}

/// The entries of one kind, by name.
pub(crate) fn of(request: &str) -> Result<String, Refused> {
    let request: ListRequest = read(request)?;
    let catalogue = Catalogue::new(request.catalogue);
    let rows: Result<Vec<Value>, Refused> = catalogue
        .all(request.kind)
        .map(|entry| match request.kind {
            Kind::Device => device(entry),
            Kind::Link => link(entry),
            Kind::Policy => policy(entry, &catalogue),
            Kind::Trace | Kind::Exchange | Kind::Scenario => {
                Ok(json!({ "name": entry.name, "file": entry.file }))
            }
        })
        .collect();
    write(&rows?)
}

fn device(entry: &Entry) -> Result<Value, Refused> {
    let profile = Profile::parse(&entry.file, &entry.text)?;
    let suites: Vec<String> = profile.suites().iter().map(ToString::to_string).collect();
    let cells: Vec<Value> = profile
        .entries()
        .iter()
        .map(
            |cell| json!({ "name": cell.name, "value": finite(cell.value), "source": cell.source }),
        )
        .collect();
    Ok(json!({
        "name": entry.name,
        "file": entry.file,
        "title": profile.title,
        "unit": match profile.unit() {
            Unit::Operations => "operations",
            Unit::Cycles => "cycles",
            Unit::Nanoseconds => "ns",
        },
        "clock_mhz": profile.clock_mhz().map(|(mhz, _)| mhz),
        "accounting": profile.accounting().name(),
        "suites": suites,
        "cells": cells,
    }))
}

fn link(entry: &Entry) -> Result<Value, Refused> {
    let file = LinkFile::parse(&entry.name, &entry.file, &entry.text)?;
    let sources: Vec<Value> = file
        .sources
        .iter()
        .map(|(key, source)| json!({ "key": key, "source": source }))
        .collect();
    Ok(json!({
        "name": entry.name,
        "file": entry.file,
        "title": file.title,
        "link": file.link,
        "sources": sources,
    }))
}

fn policy(entry: &Entry, catalogue: &Catalogue) -> Result<Value, Refused> {
    if let Some(layered) = Layered::find(entry, catalogue)? {
        let is_legacy = layered.is_legacy;
        return Ok(json!({
            "name": entry.name,
            "file": entry.file,
            "title": layered.title,
            "suite": layered.words(),
            "layer": "layers",
            "outer": 4,
            "encrypts": layered.cipher.is_some()
                || layered.ipsec.is_some()
                || layered.transport.is_some(),
            "standing": if is_legacy { "legacy" } else { "current" },
            "is_forbidden": false,
            "exchange": null,
            "reasons": if is_legacy { vec!["it says legacy = true"] } else { Vec::new() },
        }));
    }
    let policy = Policy::parse(&entry.file, &entry.text)?;
    let standing = policy.standing();
    Ok(json!({
        "name": entry.name,
        "file": entry.file,
        "title": policy.title,
        "suite": policy.word(),
        // The kind of layer that takes it.
        "layer": if policy.suite.skip().is_some() { "skip" } else { "ipsec" },
        "outer": if policy.is_outer_v6 { 6 } else { 4 },
        "encrypts": policy.suite.encrypts(),
        "standing": standing.word(),
        // Whether a standard forbids one of its algorithms.
        "is_forbidden": standing.is_forbidden(),
        "exchange": policy.keys.and_then(|keys| keys.exchange.deprecated()),
        "reasons": standing.reasons(),
    }))
}
