//! What an agent's log has told, read again: its events, and what they say of tunnels.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::Path;

use anyhow::Context as _;
use engine::agent::audit::Role;
use engine::agent::chain;

use super::log::{LEN_MAX, name_of};
use crate::files;

/// A log whose chain holds.
pub(super) struct Told(String);

/// The last that a log says of a tunnel. Words are its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tunnel {
    /// When Client came; before that, when Target's end was built.
    pub(super) since: Option<String>,
    /// The last step.
    pub(super) step: String,
    /// Client's address inside.
    pub(super) inner: Option<IpAddr>,
    /// Client's address outside.
    pub(super) peer: Option<IpAddr>,
    /// What it leads to.
    pub(super) networks: Vec<String>,
    /// The version of IKE.
    pub(super) ike: Option<u8>,
    /// Whether it has a PPK.
    pub(super) has_ppk: bool,
}

impl Told {
    /// Reads the log of this role.
    pub(super) fn read(path: &Path, role: Role) -> anyhow::Result<Self> {
        let context = || format!("cannot read the log {}", path.display());
        let mut log = Vec::new();
        let file = files::open_plain(path).with_context(context)?;
        let read = file.take(LEN_MAX).read_to_end(&mut log);
        read.with_context(context)?;
        let whole = chain::verify(name_of(role), &log, None, None);
        let whole = whole.with_context(|| format!("{} was changed", path.display()))?;
        log.truncate(whole.octets);
        Ok(Self(String::from_utf8_lossy(&log).into_owned()))
    }

    /// Its events, without the hashes.
    pub(super) fn events(&self) -> impl Iterator<Item = &str> {
        let lines = self.0.lines();
        lines.filter_map(|line| line.split_once(' ').map(|(_, event)| event))
    }

    /// What it says of each tunnel, by its digits.
    pub(super) fn tunnels(&self) -> BTreeMap<&str, Tunnel> {
        let mut all: BTreeMap<&str, Tunnel> = BTreeMap::new();
        for event in self.events() {
            if let Some((_, tunnel)) = fields(event).find(|(name, _)| *name == "tunnel") {
                all.entry(tunnel).or_default().hear(event);
            }
        }
        all
    }
}

impl Tunnel {
    fn hear(&mut self, event: &str) {
        let mut at = None;
        for (name, value) in fields(event) {
            match name {
                "at" => at = Some(value),
                "step" => value.clone_into(&mut self.step),
                "inner" => self.inner = value.parse().ok(),
                "peer" => self.peer = value.parse().ok(),
                "ike" => self.ike = value.parse().ok(),
                "ppk" => self.has_ppk = value == "yes",
                "networks" => self.networks = value.split(',').map(str::to_owned).collect(),
                _ => {}
            }
        }
        if matches!(&self.step[..], "built" | "up") {
            self.since = at.map(str::to_owned);
        }
    }
}

/// The fields of an event, in their order. A quoted value is one field, whatever a user is called,
/// and comes as it is written.
pub(super) fn fields(event: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = event;
    std::iter::from_fn(move || {
        let (name, after) = rest.trim_start().split_once('=')?;
        let len = match after.starts_with('"') {
            true => quoted(after),
            false => after.find(' ').unwrap_or(after.len()),
        };
        let (value, left) = after.split_at(len);
        rest = left;
        Some((name, value))
    })
}

/// Octets of the quoted text at the start.
fn quoted(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_s_name_is_one_field_whatever_it_is() {
        let event = "at=1 step=up user=\"a\\\" tunnel=07 \\\\\" tunnel=08 networks=10.0.0.0/8";
        let found: Vec<_> = fields(event).collect();
        let expected = [
            ("at", "1"),
            ("step", "up"),
            ("user", "\"a\\\" tunnel=07 \\\\\""),
            ("tunnel", "08"),
            ("networks", "10.0.0.0/8"),
        ];
        assert_eq!(found, expected);
        for torn in ["", "x", "user=\"", "user=\"\\", "=", "a=\"b\"c=d"] {
            assert!(fields(torn).count() <= 2, "{torn}");
        }
    }

    #[test]
    fn the_last_that_is_told_of_each_tunnel_counts() {
        let lines = [
            "h at=1 role=target step=admitted tunnel=07 option=ESP networks=10.0.0.0/8,10.1.0.0/16",
            "h at=2 role=target step=built tunnel=07 ike=2 ppk=yes inner=10.77.0.1",
            "h at=3 role=target step=built tunnel=08",
            "h at=4 role=target step=up tunnel=07 inner=10.77.0.1 peer=192.0.2.7",
            "h at=5 role=target step=refused user=\"tunnel=08\"",
            "h at=6 role=target step=still-up tunnel=07",
        ];
        let told = Told(lines.join("\n"));
        let all = told.tunnels();
        assert_eq!(all.len(), 2);
        let expected = Tunnel {
            since: Some("4".to_owned()),
            step: "still-up".to_owned(),
            inner: Some([10, 77, 0, 1].into()),
            peer: Some([192, 0, 2, 7].into()),
            networks: vec!["10.0.0.0/8".to_owned(), "10.1.0.0/16".to_owned()],
            ike: Some(2),
            has_ppk: true,
        };
        assert_eq!(all["07"], expected);
        assert_eq!(all["08"].since.as_deref(), Some("3"));
    }
}
