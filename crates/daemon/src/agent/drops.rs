//! Shows what an agent has dropped: a line of the log when there is more, and at the end.

use std::collections::BTreeMap;
use std::fmt::Debug;

use tracing::info;

const NOTHING: &str = "nothing";

/// What was shown last.
#[derive(Default)]
pub(super) struct Shown {
    /// Messages that the socket did not take.
    pub(super) unsent: u64,
    last: String,
}

impl Shown {
    /// Shows the counts if they have changed.
    pub(super) fn show<D: Debug>(&mut self, drops: &BTreeMap<D, u64>) {
        let text = self.text(drops);
        if text != self.last && text != NOTHING {
            info!("dropped: {text}");
            self.last = text;
        }
    }

    /// All counts.
    pub(super) fn text<D: Debug>(&self, drops: &BTreeMap<D, u64>) -> String {
        let counts = drops.iter().map(|(why, count)| format!("{why:?} {count}"));
        let unsent = (self.unsent > 0).then(|| format!("Unsent {}", self.unsent));
        let all: Vec<String> = counts.chain(unsent).collect();
        match all.is_empty() {
            true => NOTHING.to_owned(),
            false => all.join(", "),
        }
    }
}
