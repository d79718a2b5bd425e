//! What the user hears when his tunnel is over: who or what has ended it, and when.

use anyhow::bail;
use engine::agent::audit::Why;
use engine::time::Calendar;

use crate::console;

/// The end of a tunnel that was up.
pub(super) struct End {
    pub(super) why: Why,
    /// When it was down.
    pub(super) at: Calendar,
    /// Until when Target has promised it.
    pub(super) until: Option<Calendar>,
    /// What the back-end or the token has said.
    pub(super) words: Option<String>,
}

impl End {
    /// Tells it. It is an error if neither the user nor the promised time has ended the tunnel.
    pub(super) fn tell(&self) -> anyhow::Result<()> {
        let at = self.at;
        let text = match (self.why, &self.words) {
            (Why::LoggedOut, Some(words)) => format!("the tunnel is down since {at}: {words}\n"),
            (Why::LoggedOut, None) => format!("the tunnel is down since {at}, as you wanted\n"),
            (Why::TimeOver, _) => format!("the tunnel is down since {at}: its time is over\n"),
            _ => bail!("{}", self.complaint()),
        };
        // A terminal that is gone hears nothing.
        let _ = console::say(&text);
        Ok(())
    }

    fn complaint(&self) -> String {
        let until = self.until.map(|it| format!(", before its time ({it})"));
        let words = self.words.as_deref();
        format!(
            "the tunnel has ended at {}{}: {}; another one needs another key",
            self.at,
            until.unwrap_or_default(),
            words.unwrap_or("it is gone, and nothing here knows why")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(why: Why, words: Option<&str>) -> End {
        End {
            why,
            at: Calendar(1_800_000_000),
            until: Some(Calendar(1_800_000_600)),
            words: words.map(str::to_owned),
        }
    }

    #[test]
    fn only_the_user_and_the_promised_time_end_a_tunnel_well() {
        assert!(end(Why::LoggedOut, None).tell().is_ok());
        assert!(
            end(Why::TimeOver, Some("deleted by the peer"))
                .tell()
                .is_ok()
        );
        let lost = end(Why::ClosedByPeer, Some("the peer does not answer"));
        let said = lost.tell().unwrap_err().to_string();
        for words in [
            "ended at 2027-01-15T08:00:00Z",
            "before its time (2027-01-15T08:10:00Z)",
            "the peer does not answer",
        ] {
            assert!(said.contains(words), "{said}");
        }
        let said = end(Why::ClosedByPeer, None).tell().unwrap_err().to_string();
        assert!(said.contains("nothing here knows why"), "{said}");
    }
}
