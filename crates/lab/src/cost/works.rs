//! The costs of operations that are not of bytes: cells by name. Key exchanges, key schedules,
//! tunnel headers.

use std::collections::BTreeMap;

use crypto::packet::Encryption;
use document::{Fault, Table, unknown};
use engine::work::Task;

use super::bill::Gap;
use super::cell::Cell;
use super::names;

/// Cells of `[per_operation]`, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Works(BTreeMap<String, Cell>);

/// One call of a task, in the form that profiles price.
pub(super) enum Each {
    /// It has a cell of its own.
    Cell(String),
    /// An IKE body under this cipher.
    Cipher { cipher: &'static str, bytes: f64 },
    /// An IKE message under a cipher that brings its own integrity.
    Aead { cipher: Encryption, bytes: f64 },
    /// Bytes through another primitive than a cipher of IKE.
    Bytes { primitive: &'static str, bytes: f64 },
    /// A prf with this hash.
    Prf { hash: &'static str, bytes: f64 },
    /// A hash alone; a keyed one is over its bytes and the key behind them.
    Hash { hash: &'static str, bytes: f64 },
}

impl Works {
    pub(super) fn read(table: &Table<'_>) -> Result<Self, Fault> {
        let works = Cell::named(table, "per_operation", |name, item| {
            if !is_operation(name) {
                let all: Vec<String> = operations().collect();
                return Err(item.fault(unknown("operation", name, all.iter().map(String::as_str))));
            }
            Cell::read(item)
        });
        Ok(Self(works?))
    }

    pub(super) fn cost(&self, name: &str) -> Result<f64, Gap> {
        let cell = self.0.get(name).map(|cell| cell.value);
        cell.ok_or_else(|| Gap(format!("per_operation.{name}")))
    }

    pub(super) fn source(&self, name: &str) -> Result<&str, Gap> {
        let cell = self.0.get(name).map(|cell| &*cell.source);
        cell.ok_or_else(|| Gap(format!("per_operation.{name}")))
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = (&str, &Cell)> {
        self.0.iter().map(|(name, cell)| (name.as_str(), cell))
    }
}

/// Whether profiles may have a cost of this operation.
pub fn is_operation(name: &str) -> bool {
    operations().any(|valid| valid == name)
}

/// The operation that a task of a key exchange is. None: its cost depends on its octets, or it has
/// nothing to do with key exchanges.
pub fn operation_of(task: Task) -> Option<String> {
    let (thing, act) = match task {
        Task::KeyPair(group) => (names::of_agreement(group), "generate"),
        Task::Agree(group) => (names::of_agreement(group), "agree"),
        Task::KeyShare(method) => (names::of_method(method), "generate"),
        Task::KeySecret(method) if method.is_kem() => (names::of_method(method), "decapsulate"),
        Task::KeySecret(method) => (names::of_method(method), "agree"),
        Task::KeyAnswer(method) => (names::of_method(method), "encapsulate"),
        Task::Sign(bits) => return Some(format!("rsa{bits}-sign")),
        Task::Verify(bits) => return Some(format!("rsa{bits}-verify")),
        Task::SignCurve(kind) => return Some(format!("{}-sign", names::of_key(kind))),
        Task::VerifyCurve(kind) => return Some(format!("{}-verify", names::of_key(kind))),
        _ => return None,
    };
    Some(format!("{thing}-{act}"))
}

/// The names of all operations: `modp2048-agree`, `ml-kem-768-encapsulate`.
fn operations() -> impl Iterator<Item = String> {
    let kinds = OPERATIONS.iter();
    kinds.flat_map(|(things, acts)| {
        things
            .iter()
            .flat_map(|thing| acts.iter().map(move |act| format!("{thing}-{act}")))
    })
}

type Kind = (&'static [&'static str], &'static [&'static str]);

const OPERATIONS: [Kind; 7] = [
    (
        &[
            "modp768", "modp1024", "modp1536", "modp2048", "modp3072", "modp4096", "modp6144",
            "modp8192", "x25519", "p256", "p384", "p521",
        ],
        &["generate", "agree"],
    ),
    (&["p256"], &["hash-to-point"]),
    (
        &[
            "rsa1024",
            "rsa2048",
            "rsa3072",
            "rsa4096",
            "ecdsa-p256",
            "ecdsa-p384",
            "ecdsa-p521",
            "ed25519",
        ],
        &["sign", "verify"],
    ),
    (
        &["ml-kem-512", "ml-kem-768", "ml-kem-1024"],
        &["generate", "encapsulate", "decapsulate"],
    ),
    (
        &["ml-dsa-44", "ml-dsa-65", "ml-dsa-87"],
        &["generate", "sign", "verify"],
    ),
    (
        &["ip-in-ip", "minimal", "gre"],
        &["encapsulate", "decapsulate"],
    ),
    (&["des", "3des", "rc2", "rc4", "aes256gcmsiv"], &["set-key"]),
];
