//! Direction of dependencies, licences, and sources of packages.

use std::collections::BTreeSet;
use std::process::Command;

use serde::Deserialize;

use crate::tree::{File, Finding, Tree, top};

/// The parts of `cargo metadata` that we use.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    dependencies: Vec<Dependency>,
    features: std::collections::BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
}

/// The shipped target is Linux. Crates for other systems need not even be downloaded.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Calls cargo, without network.
pub(crate) fn metadata() -> Metadata {
    let output = Command::new(env!("CARGO"))
        .current_dir(top())
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", TARGET])
        .output()
        .expect("cargo starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata failed: {text}");
    serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON")
}

impl Metadata {
    fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages
            .iter()
            .filter(|package| self.workspace_members.contains(&package.id))
    }
}

impl Package {
    fn finding(&self, what: String) -> Finding {
        Finding {
            path: format!("crates/{}/Cargo.toml", self.name),
            line: 1,
            what,
        }
    }

    /// Dependencies of the shipped code, without tests and build scripts.
    fn ships_with(&self) -> impl Iterator<Item = &str> {
        let is_shipped = |dependency: &&Dependency| dependency.kind.is_none();
        self.dependencies
            .iter()
            .filter(is_shipped)
            .map(|dependency| dependency.name.as_str())
    }
}

/// What each pure crate may ship with. A crate that is not listed is free, except for ciphers.
const ALLOWED: [(&str, &[&str]); 4] = [
    ("wire", &[]),
    ("document", &["strsim", "thiserror", "toml", "zeroize"]),
    (
        "engine",
        &["wire", "crypto", "libm", "thiserror", "zeroize", "subtle"],
    ),
    (
        "lab",
        &[
            "wire",
            "crypto",
            "document",
            "engine",
            "libm",
            "pulp",
            "rand_core",
            "rand_xoshiro",
            "serde",
            "serde_json",
            "smoltcp",
            "thiserror",
            "toml",
        ],
    ),
];

/// What a crate may not depend on, even in tests.
const FORBIDDEN: [(&str, &[&str]); 7] = [
    (
        "document",
        &["wire", "crypto", "engine", "daemon", "lab", "python"],
    ),
    ("wire", &["crypto", "engine", "daemon", "lab", "python"]),
    ("crypto", &["wire", "engine", "daemon", "lab", "python"]),
    ("engine", &["daemon", "lab", "python"]),
    // Deployed crates must not contain the simulator.
    ("daemon", &["lab", "python"]),
    ("lab", &["daemon", "python"]),
    ("python", &["daemon"]),
];

/// The crate for the likeness of words: only for `document`, so that every file detects
/// misspellings by one rule.
const LIKENESS_CRATE: &str = "strsim";

/// Crates that know Python: only for `python`.
const PYTHON_CRATES: [&str; 3] = ["pyo3", "pyo3-ffi", "numpy"];

/// Crates of ciphers, hashes, keys and certificates: only for `crypto`, including tests.
const CIPHER_CRATES: [&str; 41] = [
    "aes",
    "aes-gcm",
    "aws-lc-rs",
    "aws-lc-sys",
    "blake2",
    "boring",
    "cbc",
    "cfb-mode",
    "chacha20",
    "chacha20poly1305",
    "cipher",
    "ctr",
    "curve25519-dalek",
    "des",
    "digest",
    "dsa",
    "ecdsa",
    "ed25519-dalek",
    "elliptic-curve",
    "ghash",
    "gcm",
    "hmac",
    "md-5",
    "md5",
    "openssl",
    "openssl-sys",
    "p12-keystore",
    "p256",
    "p384",
    "poly1305",
    "rc2",
    "rc4",
    "rcgen",
    "ring",
    "rsa",
    "rustls",
    "sha1",
    "sha2",
    "x25519-dalek",
    "x509-cert",
    "x509-parser",
];

/// A crate uses only those above it, only `crypto` uses ciphers, and no crate has features.
pub(crate) fn directions(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata.members() {
        let name = package.name.as_str();
        let allowed = ALLOWED.iter().find(|(member, _)| *member == name);
        for dependency in package.ships_with() {
            if allowed.is_some_and(|(_, list)| !list.contains(&dependency)) {
                let what = format!("{name} may not use {dependency}: remove it, or move the code");
                findings.push(package.finding(what));
            }
        }
        let forbidden = FORBIDDEN.iter().find(|(member, _)| *member == name);
        for dependency in package.dependencies.iter().map(|d| d.name.as_str()) {
            if forbidden.is_some_and(|(_, list)| list.contains(&dependency)) {
                let what = format!("{name} lies beside or above {dependency}: turn it round");
                findings.push(package.finding(what));
            }
            if name != "crypto" && CIPHER_CRATES.contains(&dependency) {
                let what = format!("{dependency} belongs to crypto: ask for it through crypto");
                findings.push(package.finding(what));
            }
            if name != "document" && dependency == LIKENESS_CRATE {
                let what = format!("{dependency} belongs to document: ask for `nearest` there");
                findings.push(package.finding(what));
            }
            if name != "python" && PYTHON_CRATES.contains(&dependency) {
                let what = format!("{dependency} belongs to python: only it knows Python");
                findings.push(package.finding(what));
            }
        }
        if !package.features.is_empty() {
            findings.push(package.finding("no cargo features: one build for everyone".to_owned()));
        }
    }
    findings
}

const LICENCES: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "OpenSSL",
    "Unicode-3.0",
    "Zlib",
];

/// Checks that every package in the lock file permits what our own dual licence permits.
pub(crate) fn licences(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let licence = package.license.as_deref().unwrap_or("none");
        if !is_allowed(licence) {
            let Package { name, version, .. } = package;
            let what = format!("{name} {version} is licensed \"{licence}\": replace the crate");
            findings.push(Finding {
                path: "Cargo.lock".to_owned(),
                line: 1,
                what,
            });
        }
    }
    findings
}

/// Evaluates an SPDX expression: AND binds tighter than OR; the old slash means OR.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    any_of(&mut words) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>) -> bool {
    let mut verdict = all_of(words);
    while words.next_if_eq(&"OR").is_some() {
        verdict |= all_of(words);
    }
    verdict
}

fn all_of(words: &mut Words<'_>) -> bool {
    let mut verdict = one(words);
    while words.next_if_eq(&"AND").is_some() {
        verdict &= one(words);
    }
    verdict
}

fn one(words: &mut Words<'_>) -> bool {
    match words.next() {
        Some("(") => any_of(words) & words.next_if_eq(&")").is_some(),
        Some(licence) => {
            // An exception only grants more.
            if words.next_if_eq(&"WITH").is_some() {
                words.next();
            }
            LICENCES.contains(&licence)
        }
        None => false,
    }
}

/// Permitted prefixes of sources in a lock file.
const PUBLIC_SOURCES: [&str; 4] = [
    "registry+https://github.com/rust-lang/crates.io-index",
    "https://pypi.org/simple",
    concat!("https://files.", "pythonhosted.org/packages/"),
    "https://github.com/rust-lang/",
];

/// Lock files name only public registries: no mirror, no folder, no repository.
pub(crate) fn lock_sources(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("lock") {
        findings.extend(foreign_sources(file));
    }
    if tree.find("uv.lock").is_none() || tree.find("Cargo.lock").is_none() {
        let what = "uv.lock and Cargo.lock are part of the project: add them";
        findings.push(Finding {
            path: "Cargo.lock".to_owned(),
            line: 1,
            what: what.to_owned(),
        });
    }
    findings
}

fn foreign_sources(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for (number, line) in file.lines() {
        let is_cargo_source = line.starts_with("source = \"");
        let is_foreign_kind = ["path = \"", "git = \"", "directory = \"", "url = \"file:"]
            .iter()
            .any(|kind| line.contains(&format!("{{ {kind}")) || line.starts_with(kind));
        let has_foreign_host = line.split('"').any(|text| {
            (text.contains("://") || is_cargo_source && text.contains('+'))
                && !PUBLIC_SOURCES.iter().any(|public| text.starts_with(public))
        });
        if (is_foreign_kind || has_foreign_host) && seen.insert(line) {
            let what = format!("\"{}\" is no public registry: lock again", line.trim());
            findings.push(file.finding(number, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_expressions_are_read() {
        assert!(is_allowed("MIT/Apache-2.0"));
        assert!(is_allowed("GPL-3.0 OR MIT"));
        assert!(is_allowed("ISC AND (GPL-2.0 OR OpenSSL)"));
        assert!(is_allowed("Apache-2.0 WITH LLVM-exception"));
        assert!(!is_allowed("MIT AND GPL-3.0"));
        assert!(!is_allowed("none"));
        assert!(!is_allowed("(MIT"));
    }

    #[test]
    fn foreign_sources_are_found() {
        let file = |text: &str| File {
            path: "a.lock".to_owned(),
            text: text.to_owned(),
        };
        for good in [
            "source = \"registry+https://github.com/rust-lang/crates.io-index\"",
            "source = { registry = \"https://pypi.org/simple\" }",
            "source = { editable = \".\" }",
        ] {
            assert!(foreign_sources(&file(good)).is_empty(), "{good}");
        }
        for bad in [
            "source = \"git+https://example.org/a\"",
            "source = { registry = \"https://mirror.example/simple\" }",
            "source = { path = \"wheels/a.whl\" }",
        ] {
            assert_eq!(foreign_sources(&file(bad)).len(), 1, "{bad}");
        }
    }
}
