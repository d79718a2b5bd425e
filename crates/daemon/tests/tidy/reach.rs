//! Dead files: code that nothing compiles or imports, documents without a link.

use std::collections::BTreeSet;

use crate::tree::{Finding, Tree, top};

/// Every Rust file is a cargo root or the module of a reachable file, and none is `mod.rs`.
pub(crate) fn rust_files(tree: &Tree) -> Vec<Finding> {
    let declared = declared_roots(tree);
    let is_root = |path: &str| is_found_root(path) || declared.contains(path);
    let mut pending: Vec<&str> = tree
        .with_extension("rs")
        .map(|f| f.path.as_str())
        .filter(|path| is_root(path))
        .collect();
    let mut reached = BTreeSet::new();
    while let Some(path) = pending.pop() {
        if !reached.insert(path) {
            continue;
        }
        let file = tree.find(path).expect("paths come from the tree");
        for module in file.lines().filter_map(|(_, line)| module_name(line)) {
            let child = format!("{}/{module}.rs", module_folder(path, is_root(path)));
            pending.extend(tree.find(&child).map(|file| file.path.as_str()));
        }
    }
    let mut findings = Vec::new();
    for file in tree.with_extension("rs") {
        if file.path.ends_with("/mod.rs") {
            findings.push(file.finding(1, "name it after its folder, beside it: `a.rs`, `a/`"));
        } else if !reached.contains(file.path.as_str()) {
            findings.push(file.finding(1, "no `mod` reaches it: declare or delete it"));
        }
    }
    findings
}

/// The files that a `path = "..."` of a manifest names for a target of its own.
fn declared_roots(tree: &Tree) -> BTreeSet<String> {
    let mut roots = BTreeSet::new();
    for manifest in tree.files.iter().filter(|f| f.path.ends_with("Cargo.toml")) {
        let folder = manifest
            .path
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        let mut is_target = false;
        for (_, line) in manifest.lines() {
            if line.starts_with('[') {
                is_target = TARGETS.contains(&line.trim());
            } else if let Some(path) = line.strip_prefix("path = \"").filter(|_| is_target) {
                roots.insert(join(folder, path.trim_end().trim_end_matches('"')));
            }
        }
    }
    roots
}

/// The tables of a manifest that declare a compiled target.
const TARGETS: [&str; 5] = ["[lib]", "[[bin]]", "[[example]]", "[[bench]]", "[[test]]"];

/// The files that cargo compiles by default.
fn is_found_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let is_program = matches!(
        parts.as_slice(),
        [.., "src", "lib.rs" | "main.rs"] | [.., "src", "bin", _]
    );
    let is_test = matches!(
        parts.as_slice(),
        [_, _, "tests" | "benches" | "examples", _]
            | [_, _, "tests" | "benches" | "examples", _, "main.rs"]
    );
    // A build script is beside its manifest.
    let is_script = parts.last() == Some(&"build.rs") && !parts.contains(&"src");
    is_program || is_test || is_script
}

/// The folder of a file's modules: beside a root, otherwise the folder with the file's own name.
fn module_folder(path: &str, is_root: bool) -> &str {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    if is_root {
        folder
    } else {
        path.trim_end_matches(".rs")
    }
}

/// The name in `pub(crate) mod name;`.
fn module_name(line: &str) -> Option<&str> {
    let line = line.trim().strip_suffix(';')?;
    let (before, name) = line.rsplit_once("mod ")?;
    let is_declaration = before.is_empty() || before.starts_with("pub");
    (is_declaration && !name.contains(' ')).then_some(name)
}

/// Every module of the Python package is run by a command, or imported by another file.
pub(crate) fn python_files(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("py") {
        let Some((folder, name)) = file.path.rsplit_once('/') else {
            continue;
        };
        let stem = name.trim_end_matches(".py");
        let is_found_by_name = stem.starts_with("test_") || stem.starts_with("__");
        if is_found_by_name || stem == "conftest" {
            continue;
        }
        let package = folder.rsplit('/').next().unwrap_or(folder);
        let is_used = tree.files.iter().any(|other| {
            other.path != file.path
                && other.is_code()
                && other.text.contains(stem)
                && other
                    .lines()
                    .any(|(_, line)| names_module(line, package, stem))
        });
        if !is_used {
            findings.push(file.finding(1, "nothing imports or runs it: use or delete it"));
        }
    }
    findings
}

/// `import stem`, `from .stem`, `package.stem`, the name in a list of imports, or `"stem.py"`.
fn names_module(line: &str, package: &str, stem: &str) -> bool {
    let is_word = line
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| word == stem);
    let is_import = line.contains("import ") || line.trim_end().ends_with(',');
    let is_name = line.contains(&format!("{package}.{stem}")) || line.contains("from .");
    is_word && (is_import || is_name) || line.contains(&format!("\"{stem}.py\""))
}

/// Every document has a link from another, and every relative link leads to a file.
pub(crate) fn documents(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut linked = BTreeSet::from(["README.md".to_owned()]);
    for file in tree.with_extension("md") {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (number, line) in file.lines() {
            for path in named_paths(line).filter(|path| !top().join(path).exists()) {
                findings.push(file.finding(number, format!("there is no {path}: mend the name")));
            }
            for target in links(line) {
                let path = join(folder, target);
                if !top().join(&path).exists() {
                    let what = format!("the link to {target} leads nowhere: mend it");
                    findings.push(file.finding(number, what));
                }
                if path != file.path {
                    linked.insert(path);
                }
            }
        }
    }
    for file in tree
        .with_extension("md")
        .filter(|file| !linked.contains(&file.path))
    {
        findings.push(file.finding(1, "no document links it: link or delete it"));
    }
    findings
}

/// The relative targets in `[text](target#part)`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', '#', ' ']).next()?;
        (!target.is_empty() && !target.contains("://")).then_some(target)
    })
}

/// Paths from the top in backticks. Patterns are not paths.
fn named_paths(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|text| {
        let is_ours = ["crates/", "python/", "tools/", "docs/", "fuzz/", "interop/"]
            .iter()
            .any(|folder| text.starts_with(folder));
        is_ours && !text.contains(['*', '<', ' '])
    })
}

fn join(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    #[test]
    fn module_declarations_are_read() {
        assert_eq!(module_name("    pub(crate) mod codec;"), Some("codec"));
        assert_eq!(module_name("mod tests {"), None);
        assert_eq!(module_name("use a::mod_b;"), None);
    }

    #[test]
    fn targets_that_a_manifest_declares_are_roots() {
        let manifest = |path: &str, text: &str| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let files = vec![
            manifest(
                "fuzz/Cargo.toml",
                "[[bin]]\nname = \"a\"\npath = \"targets/a.rs\"\n",
            ),
            manifest(
                "b/Cargo.toml",
                "[package.metadata]\npath = \"src/dead.rs\"\n",
            ),
        ];
        let roots = declared_roots(&Tree { files });
        assert_eq!(roots, BTreeSet::from(["fuzz/targets/a.rs".to_owned()]));
    }

    #[test]
    fn links_are_resolved_from_their_document() {
        assert_eq!(
            links("see [a](../b.md#c) and [d](https://e.f)").collect::<Vec<_>>(),
            ["../b.md"]
        );
        assert_eq!(join("docs", "../b.md"), "b.md");
    }
}
