//! `caravan tunnel-agent evidence`: what a user has signed for one tunnel, from Target's database,
//! checked, and what Target's log says of that tunnel.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use engine::agent::audit::Role;
use engine::agent::envelope::request_digest;
use engine::agent::identity::Fingerprint;
use engine::agent::objectives::{Objectives, SecurityOption};
use engine::agent::target::Spending;
use engine::agent::{Digest, TunnelId};
use engine::time::Calendar;
use wire::agent::Request;

use super::administer::open;
use super::store::Member;
use super::told::{Told, fields};
use crate::config::agent::TargetConfig;
use crate::config::wireless::octets_of;

/// Options of `caravan tunnel-agent evidence`.
#[derive(Clone, Debug, clap::Args)]
pub struct EvidenceArgs {
    /// Target's file
    #[arg(short, long, value_name = "FILE")]
    pub(super) config: PathBuf,
    /// The tunnel, as the log names it
    #[arg(value_parser = tunnel)]
    tunnel: TunnelId,
    /// JSON with fixed keys
    #[arg(long)]
    json: bool,
}

fn tunnel(text: &str) -> Result<TunnelId, String> {
    let octets = octets_of(text).and_then(|it| it.as_slice().try_into().ok());
    let octets = octets.ok_or("a tunnel has 32 hexadecimal digits, as the log shows them")?;
    Ok(TunnelId(octets))
}

/// What can be shown of a tunnel.
struct Shown {
    spending: Spending,
    /// Whether the key is enrolled for its user here, at this moment.
    is_enrolled: bool,
    request: Request,
    /// What the log says of it, verified.
    lines: Vec<String>,
}

/// The text to print. What does not hold is an error.
pub(super) async fn run(
    args: &EvidenceArgs,
    config: &TargetConfig,
    folder: &Path,
) -> anyhow::Result<String> {
    let mut store = open(&config.database, folder).await?;
    let spending = store.spending(args.tunnel).await?;
    let spending = spending.context("no key was spent for this tunnel here")?;
    let (user, host) = spending
        .client_identity
        .rsplit_once('@')
        .unwrap_or_default();
    let members = store.members().await?;
    let is_enrolled = is_enrolled(&members, (user, host), spending.key);
    let known = config.hosts.get(host);
    let known = known.with_context(|| {
        format!("the tunnel is of [hosts.{host}], which is not in Target's file any more")
    })?;
    let request = check(&spending, known.identity.sealing)?;
    let lines = lines_of(&config.log_file, args.tunnel)?;
    let shown = Shown {
        spending,
        is_enrolled,
        request,
        lines,
    };
    Ok(match args.json {
        true => format!("{}\n", shown.json()),
        false => shown.text(),
    })
}

/// Whether Target knows by another way than Host whose key this is.
fn is_enrolled(members: &[Member], (user, host): (&str, &str), key: Digest) -> bool {
    let mut own = members
        .iter()
        .filter(|it| it.user == user && it.host == host);
    own.any(|it| it.enrolled.as_ref().is_some_and(|keys| keys.contains(&key)))
}

/// Whether all belongs together. Returns the request, which the key's holder has signed.
fn check(spending: &Spending, host: crypto::hpke::PublicKey) -> anyhow::Result<Request> {
    let evidence = &spending.evidence;
    let request = Request::parse(&evidence.request).context("the request cannot be read")?;
    if request.fresh.is_none() {
        bail!(
            "it was a shared pair (legacy): Host could have made the request too, so there is no \
             evidence of who has asked"
        );
    }
    let digest = request_digest(&evidence.request, &evidence.signature);
    if TunnelId::of(&digest) != spending.tunnel {
        bail!("the request in the database is not that of this tunnel");
    }
    let is_of_user = spending.client_identity.rsplit_once('@').map(|it| it.0);
    if is_of_user != Some(request.user_id.as_str()) {
        bail!("the request names another user than the database");
    }
    if !evidence.holds(spending.handle, host) {
        bail!("the signature does not hold");
    }
    Ok(request)
}

/// The lines of Target's log about a tunnel. The chain must hold.
fn lines_of(path: &Path, tunnel: TunnelId) -> anyhow::Result<Vec<String>> {
    let (told, wanted) = (Told::read(path, Role::Target)?, tunnel.to_string());
    let is_about = |event: &&str| fields(event).any(|field| field == ("tunnel", wanted.as_str()));
    Ok(told.events().filter(is_about).map(str::to_owned).collect())
}

impl Shown {
    fn option(&self) -> Option<SecurityOption> {
        Objectives::of_number(self.request.objectives).map(Objectives::option)
    }

    fn time(&self) -> Calendar {
        Calendar(i64::try_from(self.request.time).unwrap_or(i64::MAX))
    }

    fn text(&self) -> String {
        let (it, request) = (&self.spending, &self.request);
        let option = self.option().map_or("?", SecurityOption::name);
        let mut text = format!(
            "The signature holds. The holder of a one-time key has asked for this tunnel.\n\
             tunnel      {}\n\
             user        {}\n\
             key         {}\n\
             public half {}\n\
             its digest  {}, {}\n\
             asked at    {}, for {} s and option {option}\n\
             of Target   {}\n\
             until       {}\n",
            it.tunnel,
            it.client_identity,
            it.handle,
            Digest(it.evidence.key.0),
            it.key,
            match self.is_enrolled {
                true => "enrolled for this user",
                false => "not enrolled: Host alone says whose key it is",
            },
            self.time(),
            request.lifetime,
            Fingerprint(Digest(request.target)),
            it.until,
        );
        text += "It shows that the user has asked only if nobody else ever had the key: from \
                 `make` or a token, and enrolled, so that it is known whose it is.\n";
        if self.lines.is_empty() {
            text += "The log has no line about it.\n";
        }
        for line in &self.lines {
            text += &format!("log         {line}\n");
        }
        text
    }

    fn json(&self) -> serde_json::Value {
        let it = &self.spending;
        serde_json::json!({
            "tunnel": it.tunnel.to_string(),
            "user": it.client_identity,
            "key": it.handle.to_string(),
            "public_half": Digest(it.evidence.key.0).to_string(),
            "digest": it.key.to_string(),
            "enrolled": self.is_enrolled,
            "asked_at": self.request.time,
            "asked_at_utc": self.time().to_string(),
            "asked_lifetime_s": self.request.lifetime,
            "option": self.option().map(SecurityOption::name),
            "target": Digest(self.request.target).to_string(),
            "until": it.until.0,
            "until_utc": it.until.to_string(),
            "log": self.lines,
        })
    }
}

#[cfg(test)]
mod tests {
    use crypto::ed25519::SigningKey;
    use engine::agent::Handle;
    use engine::agent::envelope::{Use, signed_octets};
    use engine::agent::identity::Keys;
    use engine::agent::objectives::Options;
    use engine::agent::target::{Access, Evidence};
    use engine::time::Duration;
    use wire::agent::{Fresh, Kind};

    use super::*;

    fn host() -> crypto::hpke::PublicKey {
        let keys = Keys {
            sealing: crypto::hpke::SecretKey::of(&[1; 32]),
            signing: SigningKey::of(&[2; 32]),
        };
        keys.identity().sealing
    }

    fn spent(is_legacy: bool) -> Spending {
        let key = SigningKey::of(&[3; 32]);
        let request = Request {
            request_id: [4; 16],
            target: [5; 32],
            user_id: "alice".into(),
            objectives: 31,
            options: 15,
            ike: 7,
            time: 1_800_000_000,
            lifetime: 600,
            fresh: (!is_legacy).then(|| Fresh {
                sealing_key: [6; 32],
                tunnel_key: vec![7],
            }),
        }
        .to_vec();
        let handle = Handle([8; 16]);
        let what = Use::Message(Kind::Request);
        let signature = key.sign(&[&signed_octets(what, &handle.0, host(), &request)]);
        Spending {
            key: Digest([9; 32]),
            handle,
            tunnel: TunnelId::of(&request_digest(&request, &signature)),
            client_identity: "alice@home".into(),
            until: Calendar(1_800_000_600),
            evidence: Evidence {
                key: key.public(),
                request,
                signature,
            },
        }
    }

    fn member(enrolled: Option<Digest>) -> Member {
        Member {
            user: "alice".into(),
            host: "home".into(),
            access: Access {
                options: Options::ALL,
                networks: Vec::new(),
                lifetime: Duration::from_secs(600),
            },
            enrolled: enrolled.map(|it| [it].into()),
        }
    }

    #[test]
    fn a_key_that_nobody_enrolled_is_not_said_to_be() {
        let spending = spent(false);
        let (key, other) = (spending.key, Digest([1; 32]));
        let alice = ("alice", "home");
        for (enrolled, user, is_it) in [
            (None, alice, false),
            (Some(other), alice, false),
            (Some(key), alice, true),
            (Some(key), ("bob", "home"), false),
            (Some(key), ("alice", "other"), false),
        ] {
            assert_eq!(is_enrolled(&[member(enrolled)], user, key), is_it);
        }
        assert!(!is_enrolled(&[], alice, key));
        let request = check(&spending, host()).unwrap();
        let mut shown = Shown {
            spending,
            is_enrolled: false,
            request,
            lines: Vec::new(),
        };
        assert!(shown.text().contains("not enrolled: Host alone says"));
        assert_eq!(shown.json()["enrolled"], false);
        shown.is_enrolled = true;
        assert!(shown.text().contains(", enrolled for this user\n"));
        assert_eq!(shown.json()["enrolled"], true);
    }

    #[test]
    fn evidence_holds_as_it_was_signed_and_no_other() {
        assert!(check(&spent(false), host()).is_ok());
        let no = |change: fn(&mut Spending), words: &str| {
            let mut changed = spent(false);
            change(&mut changed);
            let said = check(&changed, host()).unwrap_err().to_string();
            assert!(said.contains(words), "{said}");
        };
        no(|it| it.handle.0[0] ^= 1, "does not hold");
        no(
            |it| it.evidence.key = SigningKey::of(&[4; 32]).public(),
            "does not hold",
        );
        no(|it| it.tunnel.0[0] ^= 1, "not that of this tunnel");
        no(|it| it.client_identity = "bob@home".into(), "another user");
        no(|it| it.evidence.request.truncate(9), "cannot be read");
        let said = check(&spent(true), host()).unwrap_err().to_string();
        assert!(said.contains("shared pair"), "{said}");
        let other = crypto::hpke::SecretKey::of(&[7; 32]).public();
        assert!(check(&spent(false), other).is_err());
    }
}
