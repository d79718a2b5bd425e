//! The files of the project, and findings about them.

use std::fmt;
use std::path::{Path, PathBuf};

/// One problem, and the remedy.
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// A text file, by its path from the top.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|e| e == extension)
    }

    /// Rust, Python and shell.
    pub(crate) fn is_code(&self) -> bool {
        let is_tool = self.path.starts_with("tools/") || self.path.starts_with(".ci/");
        let is_make = self.path == "Makefile";
        is_tool
            || is_make
            || ["rs", "py", "sh", "toml"]
                .iter()
                .any(|e| self.has_extension(e))
    }

    pub(crate) fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    pub(crate) fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding {
            path: self.path.clone(),
            line,
            what: what.into(),
        }
    }
}

/// Everything written by hand, and the lock files.
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

/// Built, downloaded or recorded: not ours to check.
const SKIPPED: [&str; 7] = [
    "target",
    "demo-out",
    "bench-out",
    "corpus",
    "artifacts",
    "node_modules",
    "__pycache__",
];

/// Larger files are data.
const TEXT_BYTES_MAX: u64 = 4 << 20;

impl Tree {
    /// Reads every text file below the top, in path order.
    pub(crate) fn read() -> Self {
        let mut files = Vec::new();
        collect(&top(), &mut files);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files }
    }

    pub(crate) fn find(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(crate) fn with_extension(&self, extension: &str) -> impl Iterator<Item = &File> {
        self.files
            .iter()
            .filter(move |file| file.has_extension(extension))
    }
}

/// The top of the work tree.
pub(crate) fn top() -> PathBuf {
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_root
        .ancestors()
        .nth(2)
        .expect("crates/daemon lies two levels down")
        .to_path_buf()
}

fn collect(directory: &Path, files: &mut Vec<File>) {
    for entry in std::fs::read_dir(directory).expect("a readable directory") {
        let entry = entry.expect("a readable entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().expect("a file type");
        let is_hidden = name.starts_with('.') && name != ".ci";
        if is_hidden || SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            collect(&entry.path(), files);
        } else if kind.is_file() && entry.metadata().is_ok_and(|m| m.len() <= TEXT_BYTES_MAX) {
            let path = entry.path();
            let relative = path.strip_prefix(top()).expect("below the top");
            let relative = relative.to_string_lossy().into_owned();
            files.extend(std::fs::read_to_string(&path).ok().map(|text| File {
                path: relative,
                text,
            }));
        }
    }
}
