//! The catalogue: devices, links, policies, exchanges, traces and other scenarios that a scenario
//! may name, as texts.

use std::collections::BTreeMap;

use crypto::hash::Hash;
use document::{Fault, Item, Place, unknown};
use serde::{Deserialize, Serialize};

/// The kind of a catalogue file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A device that computes.
    Device,
    /// A link.
    Link,
    /// A security policy.
    Policy,
    /// An exchange of messages.
    Exchange,
    /// Another scenario, as the base of one.
    Scenario,
    /// A trace of a link's delivery opportunities: one line each, in milliseconds.
    Trace,
}

impl Kind {
    /// The name of the kind in messages.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Link => "link",
            Self::Policy => "policy",
            Self::Exchange => "exchange",
            Self::Scenario => "scenario",
            Self::Trace => "trace",
        }
    }
}

/// One text of the catalogue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Its kind.
    pub kind: Kind,
    /// Its name in scenarios.
    pub name: String,
    /// Its name in messages.
    pub file: String,
    /// The whole text; empty if `digest` is set.
    pub text: String,
    /// SHA-256 in hexadecimal of a recording that is not kept in memory but read from `file`.
    #[serde(default)]
    pub digest: Option<String>,
}

impl Entry {
    /// Kind and name, and the SHA-256 of the content in hexadecimal.
    pub fn fingerprint(&self) -> (String, String) {
        let name = format!("{}/{}", self.kind.word(), self.name);
        let digest = self.digest.clone();
        (name, digest.unwrap_or_else(|| fingerprint(&self.text)))
    }
}

/// All texts that a scenario may name.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    entries: BTreeMap<(Kind, String), Entry>,
}

impl Catalogue {
    /// Of two entries with one kind and name, the later one counts.
    pub fn new(entries: impl IntoIterator<Item = Entry>) -> Self {
        let keyed = |entry: Entry| ((entry.kind, entry.name.clone()), entry);
        Self {
            entries: entries.into_iter().map(keyed).collect(),
        }
    }

    /// The entry with this name.
    pub fn find(&self, kind: Kind, name: &str) -> Option<&Entry> {
        self.entries.get(&(kind, name.to_owned()))
    }

    /// All entries of a kind, by name.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = &Entry> {
        self.entries
            .values()
            .filter(move |entry| entry.kind == kind)
    }

    /// The entry that an item names, or an error with the most similar name.
    pub fn named(&self, kind: Kind, item: &Item) -> Result<&Entry, Fault> {
        let name = item.text()?;
        self.find(kind, name)
            .ok_or_else(|| self.unknown(kind, name, &item.place))
    }

    /// The error for a name that is not here.
    pub(super) fn unknown(&self, kind: Kind, name: &str, place: &Place) -> Fault {
        let names = self.all(kind).map(|entry| entry.name.as_str());
        Fault {
            place: place.clone(),
            what: unknown(kind.word(), name, names),
        }
    }
}

/// SHA-256 in hexadecimal.
pub(super) fn fingerprint(text: &str) -> String {
    let digest = Hash::Sha256.digest(&[text.as_bytes()]);
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
