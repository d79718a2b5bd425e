//! Lines for a terminal that waits for `--detach`. They wait for the end of the turn: if the
//! process gives up then, its last sentence has the reason, and nothing is tried again.

/// A line for the waiting terminal.
pub(super) enum Note {
    /// News.
    News(String),
    /// An attempt has failed: the connection, and why.
    Failed(String, String),
    /// The connection is tried again, in so many seconds.
    Again(String, f64),
}

impl Note {
    pub(super) fn words(&self) -> String {
        match self {
            Self::News(line) => line.clone(),
            Self::Failed(connection, reason) => format!("{connection}: {reason}"),
            Self::Again(connection, seconds) => {
                format!("{connection}: trying again in {seconds:.1} s")
            }
        }
    }

    /// Whether it says more than the last sentence.
    fn is_news_before(&self, end: &str) -> bool {
        match self {
            Self::News(_) => true,
            Self::Failed(_, reason) => !end.ends_with(reason.as_str()),
            Self::Again(..) => false,
        }
    }
}

/// What the terminal has not been told yet.
#[derive(Default)]
pub(super) struct Notes(Vec<Note>);

impl Notes {
    pub(super) fn add(&mut self, note: Note) {
        self.0.push(note);
    }

    /// Everything that is left to say, in order. `end`: the sentence after that.
    pub(super) fn take(&mut self, end: Option<&str>) -> Vec<String> {
        let all = core::mem::take(&mut self.0).into_iter();
        let news = all.filter(|it| end.is_none_or(|end| it.is_news_before(end)));
        news.map(|it| it.words()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_sentence_has_the_reason_and_nothing_is_tried_after_it() {
        let all = || {
            let mut notes = Notes::default();
            notes.add(Note::Failed("b".into(), "no answer".into()));
            notes.add(Note::News("b: it protects only a part".into()));
            notes.add(Note::Failed("b".into(), "another key".into()));
            notes.add(Note::Again("b".into(), 0.5));
            notes
        };
        let mut notes = all();
        let each = [
            "b: no answer",
            "b: it protects only a part",
            "b: another key",
            "b: trying again in 0.5 s",
        ];
        assert_eq!(notes.take(None), each);
        assert!(notes.take(None).is_empty());
        let end = "not up after 2 attempts: another key";
        assert_eq!(all().take(Some(end)), each[..2]);
    }
}
