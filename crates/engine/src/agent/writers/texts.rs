//! What a writer makes.

use core::fmt::{self, Write as _};

use crypto::cert::{certificate_pem, private_key_pem};
use zeroize::Zeroizing;

use super::{Kind, quote};
use crate::agent::description::Key;

/// The first line of a text that nobody should run any more.
const HISTORICAL: &str = "HISTORICAL: as of 2004; nobody should run this implementation today";

/// Texts for one end of a tunnel. They may contain keys.
pub struct Texts {
    /// For which implementation.
    pub kind: Kind,
    /// Written first, each for its owner alone, and removed last.
    pub files: Vec<TextFile>,
    /// Then run in this order, each to its end.
    pub construct: Vec<Order>,
    /// Undo it. Each may fail if its part is not there; the next one is run all the same.
    pub destroy: Vec<Order>,
    /// What a reader should know.
    pub notes: Vec<&'static str>,
}

/// A file.
pub struct TextFile {
    /// Its whole path.
    pub path: String,
    /// Its text.
    pub text: Zeroizing<String>,
}

/// A program and its arguments.
#[derive(Clone, PartialEq, Eq)]
pub struct Order(pub Vec<String>);

impl Texts {
    /// Nothing yet, with the notes of every text of this kind.
    pub(super) fn of(kind: Kind) -> Self {
        let notes = match kind.is_historical() {
            true => vec![HISTORICAL],
            false => Vec::new(),
        };
        Self {
            kind,
            files: Vec::new(),
            construct: Vec::new(),
            destroy: Vec::new(),
            notes,
        }
    }

    /// Adds a file with the notes in front, in the implementation's sign of a comment.
    pub(super) fn configuration(
        &mut self,
        path: String,
        sign: &str,
        text: impl Into<Zeroizing<String>>,
    ) {
        let text = text.into();
        let notes = self.notes.iter().map(|note| format!("{sign} {note}\n"));
        let notes: String = notes.collect();
        let mut whole = Zeroizing::new(String::with_capacity(notes.len() + text.len()));
        whole.push_str(&notes);
        whole.push_str(&text);
        self.file(path, whole);
    }

    /// Adds a file.
    pub(super) fn file(&mut self, path: String, text: impl Into<Zeroizing<String>>) {
        let text = text.into();
        self.files.push(TextFile { path, text });
    }

    /// Adds certificates in PEM.
    pub(super) fn certificates(&mut self, path: String, chain: &[Vec<u8>]) {
        let text: String = chain.iter().map(|der| certificate_pem(der)).collect();
        self.file(path, text);
    }

    /// Adds a private key in PEM.
    pub(super) fn key(&mut self, path: String, key: &Key) {
        self.file(path, private_key_pem(&key.0));
    }

    /// All of it as [`fmt::Display`] has it, in a buffer that does not grow and is wiped.
    pub fn to_private(&self) -> Zeroizing<String> {
        let mut counted = Counted(0);
        let _ = write!(counted, "{self}");
        let mut text = Zeroizing::new(String::with_capacity(counted.0));
        let _ = write!(text, "{self}");
        text
    }

    /// Adds a command that constructs.
    pub(super) fn run(&mut self, words: &[&str]) {
        self.construct.push(Order::of(words));
    }

    /// Adds a command that destroys.
    pub(super) fn undo(&mut self, words: &[&str]) {
        self.destroy.push(Order::of(words));
    }

    /// Adds the command that removes every file.
    pub(super) fn remove_files(&mut self) {
        let paths = self.files.iter().map(|file| file.path.as_str());
        let words: Vec<&str> = ["rm", "-f", "--"].into_iter().chain(paths).collect();
        let order = Order::of(&words);
        self.destroy.push(order);
    }
}

impl Order {
    fn of(words: &[&str]) -> Self {
        Self(words.iter().map(|word| (*word).to_owned()).collect())
    }

    /// As a line of the shell of this implementation.
    pub fn line(&self, kind: Kind) -> String {
        let words = self.0.iter().map(|word| quote::word(kind, word));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Counts the octets of a text.
struct Counted(usize);

impl fmt::Write for Counted {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

/// All of it, for a person who builds the end by hand. It may contain keys.
impl fmt::Display for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "# {note}")?;
        }
        for file in &self.files {
            writeln!(f, "# file {}\n{}", file.path, *file.text)?;
        }
        for (what, orders) in [("construct", &self.construct), ("destroy", &self.destroy)] {
            writeln!(f, "# {what}")?;
            for order in orders {
                writeln!(f, "{}", order.line(self.kind))?;
            }
        }
        Ok(())
    }
}
