//! `caravan tunnel-agent tunnels`: who is in at Target, by which key, to what, and until when.
//!
//! Which tunnels there are says Target's database; what they were told as, its log.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use engine::agent::audit::Role;
use engine::agent::objectives::{Objectives, SecurityOption};
use engine::agent::target::Former;
use wire::agent::Request;

use super::log;
use super::store::{Database, Store, StoreRole};
use super::told::{Told, Tunnel};
use crate::config::agent::TargetConfig;

/// Options of `caravan tunnel-agent tunnels`.
#[derive(Clone, Debug, clap::Args)]
pub struct TunnelsArgs {
    /// Target's file
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: PathBuf,
    /// JSON with fixed keys
    #[arg(long)]
    json: bool,
}

/// How a tunnel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The key is spent, and nothing is built yet.
    Begun,
    /// Target's end is there, and Client has not come.
    Expected,
    /// Client is in.
    Up,
    /// Target's end is there, and nobody can see whether Client is in.
    Open,
    /// It is taken down.
    Ending,
}

impl State {
    fn of(has_arrived: bool, step: &str) -> Self {
        match step {
            "still-up" => Self::Ending,
            "up" => Self::Up,
            _ if has_arrived => Self::Open,
            "built" | "authorized" => Self::Expected,
            _ => Self::Begun,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Expected => "expected",
            Self::Up => "up",
            Self::Open => "open",
            Self::Ending => "ending",
        }
    }
}

/// A tunnel as it is shown.
struct Shown {
    former: Former,
    told: Tunnel,
}

/// The text to print.
pub(super) async fn run(
    args: &TunnelsArgs,
    config: &TargetConfig,
    folder: &Path,
) -> anyhow::Result<String> {
    let name = super::key_file::load(&config.keys_file)?
        .identity()
        .fingerprint()
        .name();
    let database = Database::parse(&config.database, folder)?;
    let mut store = Store::open(&database, StoreRole::Administrator).await?;
    let all = store.tunnels_of(name).await?;
    let is_logged = config.log_file.exists();
    let told = is_logged.then(|| Told::read(&config.log_file, Role::Target));
    let told = told.transpose()?;
    let mut told = told.as_ref().map(Told::tunnels).unwrap_or_default();
    let all = all.into_iter().map(|former| {
        let told = told.remove(&former.spending.tunnel.to_string()[..]);
        let told = told.unwrap_or_default();
        Shown { former, told }
    });
    let all: Vec<Shown> = all.collect();
    let agent = log::holder(&config.log_file);
    Ok(match args.json {
        true => {
            let tunnels: Vec<_> = all.iter().map(Shown::json).collect();
            let shown = serde_json::json!({ "agent": agent, "tunnels": tunnels });
            format!("{shown}\n")
        }
        false => text(&all, agent.is_some()),
    })
}

fn text(all: &[Shown], is_running: bool) -> String {
    let mut text = String::new();
    if !is_running {
        text += "Target's agent does not run: its next start takes down what is not up\n";
    }
    for one in all {
        text += &one.text();
    }
    if all.is_empty() {
        text += "there is no tunnel\n";
    }
    text
}

impl Shown {
    fn state(&self) -> State {
        State::of(self.former.has_arrived, &self.told.step)
    }

    fn option(&self) -> Option<SecurityOption> {
        let request = Request::parse(&self.former.spending.evidence.request).ok()?;
        Objectives::of_number(request.objectives).map(Objectives::option)
    }

    fn text(&self) -> String {
        let (it, told) = (&self.former.spending, &self.told);
        let option = self.option().map_or("?", SecurityOption::name);
        let mut text = format!(
            "{} {} {}, key {}, {option}\n ",
            it.tunnel,
            self.state().word(),
            it.client_identity,
            it.handle
        );
        let mut put = |word: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = write!(text, " {word} {value}");
            }
        };
        let ppk = if told.has_ppk { " with PPK" } else { "" };
        put("by", told.ike.map(|it| format!("IKEv{it}{ppk}")));
        put("from", told.peer.map(|it| it.to_string()));
        put("as", told.inner.map(|it| it.to_string()));
        put(
            "to",
            Some(told.networks.join(" ")).filter(|it| !it.is_empty()),
        );
        put("since", told.since.clone());
        put("until", Some(it.until.to_string()));
        text.push('\n');
        text
    }

    fn json(&self) -> serde_json::Value {
        let (it, told) = (&self.former.spending, &self.told);
        let (user, host) = it.client_identity.rsplit_once('@').unwrap_or_default();
        serde_json::json!({
            "tunnel": it.tunnel.to_string(),
            "state": self.state().word(),
            "user": user,
            "host": host,
            "key": it.handle.to_string(),
            "option": self.option().map(SecurityOption::name),
            "ike_version": told.ike,
            "has_ppk": told.has_ppk,
            "peer": told.peer,
            "inner": told.inner,
            "networks": told.networks,
            "since_utc": told.since,
            "until": it.until.0,
            "until_utc": it.until.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use crypto::ed25519::{Signature, VerifyKey};
    use engine::agent::target::{Evidence, Spending};
    use engine::agent::{Digest, Handle, TunnelId};
    use engine::time::Calendar;

    use super::*;

    #[test]
    fn a_tunnel_has_all_that_is_known_of_it() {
        let request = Request {
            request_id: [4; 16],
            target: [5; 32],
            user_id: "alice".into(),
            objectives: 31,
            options: 15,
            ike: 7,
            time: 1_800_000_000,
            lifetime: 600,
            fresh: None,
        };
        let spending = Spending {
            key: Digest([9; 32]),
            handle: Handle([8; 16]),
            tunnel: TunnelId([7; 16]),
            client_identity: "alice@home".into(),
            until: Calendar(1_800_000_600),
            evidence: Evidence {
                key: VerifyKey([1; 32]),
                request: request.to_vec(),
                signature: Signature([2; 64]),
            },
        };
        let former = Former {
            spending,
            has_arrived: true,
        };
        let told = Tunnel {
            since: Some("2027-01-15T08:00:01Z".to_owned()),
            step: "up".to_owned(),
            inner: Some([10, 77, 0, 1].into()),
            peer: Some([192, 0, 2, 7].into()),
            networks: vec!["10.10.0.0/24".to_owned()],
            ike: Some(2),
            has_ppk: true,
        };
        let mut shown = Shown { former, told };
        let said = shown.text();
        assert_eq!(
            said,
            format!(
                "{} up alice@home, key {}, AH+ESP\n  by IKEv2 with PPK from 192.0.2.7 as \
                 10.77.0.1 to 10.10.0.0/24 since 2027-01-15T08:00:01Z until 2027-01-15T08:10:00Z\n",
                "07".repeat(16),
                "08".repeat(16)
            )
        );
        let json = shown.json();
        assert_eq!(
            (&json["user"], &json["host"]),
            (&"alice".into(), &"home".into())
        );
        assert_eq!(json["until"], 1_800_000_600);
        // The log was moved away.
        shown.told = Tunnel::default();
        assert!(
            shown
                .text()
                .ends_with("AH+ESP\n  until 2027-01-15T08:10:00Z\n")
        );
        assert!(text(&[], true).starts_with("there is no tunnel"));
        assert!(text(&[], false).starts_with("Target's agent does not run"));
    }

    #[test]
    fn a_state_is_that_of_the_last_step() {
        for (has_arrived, step, state) in [
            (false, "", "begun"),
            (false, "admitted", "begun"),
            (false, "authorized", "expected"),
            (true, "up", "up"),
            (true, "authorized", "open"),
            (true, "", "open"),
            (true, "still-up", "ending"),
        ] {
            assert_eq!(State::of(has_arrived, step).word(), state);
        }
    }
}
