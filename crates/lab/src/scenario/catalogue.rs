//! What a scenario may name: devices, links, policies and traces, as texts.

use std::collections::BTreeMap;

use crypto::hash::Hash;
use document::{Fault, Item, unknown};
use serde::{Deserialize, Serialize};

/// What a file of the catalogue describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// What computes.
    Device,
    /// What carries.
    Link,
    /// The security chosen.
    Policy,
    /// When a link delivers: a line for each opportunity, in milliseconds.
    Trace,
}

impl Kind {
    /// The word for messages.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Link => "link",
            Self::Policy => "policy",
            Self::Trace => "trace",
        }
    }
}

/// One text, under the name that scenarios use.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// What it describes.
    pub kind: Kind,
    /// How scenarios name it.
    pub name: String,
    /// How messages name it.
    pub file: String,
    /// The whole text; empty where `digest` stands for it.
    pub text: String,
    /// SHA-256 in hexadecimal of a recording that is not held but read from where `file` says.
    #[serde(default)]
    pub digest: Option<String>,
}

impl Entry {
    /// Kind and name, and SHA-256 of what it holds in hexadecimal.
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

    /// What has this name.
    pub fn find(&self, kind: Kind, name: &str) -> Option<&Entry> {
        self.entries.get(&(kind, name.to_owned()))
    }

    /// Everything of a kind, by name.
    pub fn all(&self, kind: Kind) -> impl Iterator<Item = &Entry> {
        self.entries
            .values()
            .filter(move |entry| entry.kind == kind)
    }

    /// The entry that an item names, or an error with the nearest name there is.
    pub fn named(&self, kind: Kind, item: &Item) -> Result<&Entry, Fault> {
        let name = item.text()?;
        self.find(kind, name).ok_or_else(|| {
            let names = self.all(kind).map(|entry| entry.name.as_str());
            item.fault(unknown(kind.word(), name, names))
        })
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
