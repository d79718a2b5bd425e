//! `caravan tunnel-agent client`: Client's machine between the sheet, the network and its back-end.
//!
//! It leaves nothing behind: what it makes is in memory, or is removed when it ends. The tunnel
//! ends with the agent: at logout (SIGHUP), at SIGTERM and SIGINT, when the token is removed, when
//! its time is over.

mod end;
mod serve;
mod signer;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use crypto::cert::SigningKey;
use engine::agent::audit::{Role, Why};
use engine::agent::client::{self, Client, Outcome};
use engine::agent::description::Key;
use engine::agent::legacy::Pair;
use engine::agent::objectives::{Objective, Objectives};
use engine::agent::sheet::{self, Secret};
use tokio::sync::mpsc;
use tracing::warn;
use wire::agent::{Fate, USER_ID_MAX, Verdict};

use super::backend::rootless::LISTEN;
use super::choice::{self, End};
use super::clock::{Times, calendar};
use super::drops::Shown;
use super::ends::{self, Ends, Report};
use super::log::Log;
use super::{Place, hygiene, key_file, lifetime, sheet_file};
use crate::config::agent::{AgentConfig, BackEndKind, ClientConfig, load};
use crate::config::values::Span;
use crate::service::{self, Signals};
use crate::token::TokenArgs;
use serve::{Last, Serving, Sockets};
use signer::Signer;

/// Bits of the tunnel's key: it lives for one tunnel.
const TUNNEL_KEY_BITS: u32 = 2_048;
/// Reports of workers that wait for the loop.
const REPORTS_MAX: usize = 16;

/// Options of `caravan tunnel-agent client`.
#[derive(Clone, Debug, clap::Args)]
pub struct ClientArgs {
    /// The agent's file; without it, this program itself builds the tunnel
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Your name, as Host knows it
    #[arg(long, value_name = "NAME", value_parser = user_id)]
    user: String,
    /// What the tunnel shall give, such as DataExchangeConf,NonRepudiation, or none; `caravan
    /// tunnel-agent tables` explains them
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        value_parser = objective,
        default_value = "CommTrustedChannel,DataExchangeConf,CryptoCommChannel"
    )]
    objectives: Vec<Objectives>,
    /// The key sheet, a text; without it, its lines are read from standard input
    #[arg(long, value_name = "FILE")]
    sheet: Option<PathBuf>,
    /// Which key of the sheet, from 1
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sheet")]
    key: usize,
    /// How long the tunnel shall live: 1 minute to 24 hours, and no longer than Target lets you
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = lifetime)]
    lifetime: Span,
    /// Reach the tunnel by a SOCKS server on this address of loopback, which needs no root
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1:1080",
        value_parser = loopback
    )]
    socks: Option<SocketAddr>,
    #[command(flatten)]
    token: TokenArgs,
}

/// Reads a User ID.
pub(super) fn user_id(text: &str) -> Result<String, String> {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || ".-_+".contains(c);
    let is_good = text.len() <= USER_ID_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(is_sign);
    match is_good {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "a user's name has 1 to {USER_ID_MAX} letters, digits and signs of .-_+, and begins \
             with a letter or digit"
        )),
    }
}

/// Reads where the SOCKS server listens. Without a port it has the usual one.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let whole = text.parse().ok();
    let address = || text.trim_matches(['[', ']']).parse().ok();
    let found = whole.or_else(|| Some(SocketAddr::new(address()?, LISTEN.port())));
    found.ok_or_else(|| format!("{text:?} is no ADDRESS:PORT, such as {LISTEN}"))
}

fn objective(text: &str) -> Result<Objectives, String> {
    if text == "none" {
        return Ok(Objectives::default());
    }
    let one = Objective::of_name(text);
    one.map(|one| [one].into_iter().collect()).ok_or_else(|| {
        let all = Objective::ALL.map(Objective::name).map(|name| &name[2..]);
        format!("objectives are {}, or none", all.join(", "))
    })
}

/// All objectives of several sets.
fn together(sets: &[Objectives]) -> Objectives {
    let all = Objective::ALL.into_iter();
    all.filter(|one| sets.iter().any(|set| set.has(*one)))
        .collect()
}

/// All that is needed to ask Host.
struct Begun {
    serving: Serving,
    ends: Ends,
    reported: mpsc::Receiver<Report>,
    signals: Signals,
    times: Times,
}

/// Asks for a tunnel, keeps it up and takes it down.
pub(super) async fn run(args: ClientArgs, place: Place) -> anyhow::Result<()> {
    hygiene::keep_private();
    let begun = begin(args, place).await;
    // Nobody has heard of the key yet.
    let begun = begun.context("there is no tunnel, and the key is not spent")?;
    let Begun {
        mut serving,
        ends,
        mut reported,
        mut signals,
        mut times,
    } = begun;
    let outcome = serving.serve(&mut times, &mut signals, &mut reported).await;
    serving.shown.show(serving.client.drops());
    if outcome.is_err() {
        // Nobody else would take it down.
        serving.abandon();
    }
    let fate = serving.client.fate();
    let last = close(serving, ends, reported, fate).await;
    let outcome = outcome.with_context(|| format!("this agent has failed, and {}", of_key(fate)));
    match outcome? {
        Outcome::Ended(why) => last.end(why).tell(),
        Outcome::Refused(why, verdict) => {
            bail!("there is no tunnel: {}", sentence(why, verdict, fate))
        }
    }
}

/// Reads, opens and tries out what a tunnel needs.
async fn begin(args: ClientArgs, place: Place) -> anyhow::Result<Begun> {
    let config = config_of(args.config.as_deref(), args.socks)?;
    know(&config)?;
    let (head, key) = sheet_file::read(args.sheet.as_deref(), args.key)?;
    // Not before: ^C ends whoever types.
    let mut signals = Signals::new(service::hang_ups()?)?;
    if head.not_after < calendar() {
        warn!("the keys of this sheet have expired, by this machine's clock");
    }
    let pair = pair_of(&key.secret, &config)?;
    let ppk = key.ppk();
    let handle = key.handle;
    let signer = tokio::select! {
        signer = Signer::of(key, &args.token) => signer?,
        _ = signals.next() => bail!("it was given up"),
    };
    let sockets = Sockets::open(&head.addresses, &mut signals).await?;
    // Making the key takes a moment, so nobody waits for it later.
    let tunnel_key = SigningKey::generate(TUNNEL_KEY_BITS)?;
    let (reports, reported) = mpsc::channel(REPORTS_MAX);
    let chosen = config.back_end.clone();
    let open = move || choice::open(chosen, End::Client, place);
    let (ends, _) = ends::start(open, Vec::new(), reports).await?;
    let times = Times::start();
    let log = log_of(&config)?;
    let ike = ends.ike;
    let machine = client::Config {
        head,
        handle,
        pair,
        user: args.user,
        objectives: together(&args.objectives),
        options: ends.options,
        ike,
        ppk,
        lifetime: args.lifetime.0,
        tunnel_key: tunnel_key.public_info(),
    };
    let random = key_file::seed()?.stream("client", 0);
    let serving = Serving {
        client: Client::new(machine, times.clock(), random),
        sockets,
        ends: ends.orders.clone(),
        lifetime: args.lifetime.0,
        ike,
        key: Key(tunnel_key.to_der().to_vec()),
        is_legacy: config.is_legacy,
        signer,
        log,
        shown: Shown::default(),
        tunnel: None,
        last: Last::default(),
    };
    Ok(Begun {
        serving,
        ends,
        reported,
        signals,
        times,
    })
}

/// Waits until the workers have done what was ordered.
async fn close(
    serving: Serving,
    ends: Ends,
    mut reported: mpsc::Receiver<Report>,
    fate: Fate,
) -> Last {
    let Serving {
        signer,
        ends: orders,
        last,
        ..
    } = serving;
    drop(orders);
    let closing = tokio::task::spawn_blocking(move || ends.close());
    let hear = async { while reported.recv().await.is_some() {} };
    let _ = tokio::join!(closing, signer.close(fate == Fate::Spent), hear);
    last
}

/// Reads what the start needs before it opens anything. `caravan check` does the same.
pub(super) fn know(config: &ClientConfig) -> anyhow::Result<()> {
    if let Some(path) = &config.log_file {
        Log::check(path, Role::Client)?;
    }
    choice::check(&config.back_end, End::Client)
}

/// The log, if the file names one. It must be well before anybody hears of the key.
fn log_of(config: &ClientConfig) -> anyhow::Result<Option<Log>> {
    let Some(path) = &config.log_file else {
        return Ok(None);
    };
    let mut log = Log::open(path, Role::Client, calendar())?;
    match log.is_ready() {
        true => Ok(Some(log)),
        false => bail!("the log cannot be written"),
    }
}

/// The file, and what the command line says instead of it.
fn config_of(path: Option<&Path>, socks: Option<SocketAddr>) -> anyhow::Result<ClientConfig> {
    let mut config = match path.map(|path| (path, load(path))) {
        None => ClientConfig::default(),
        Some((_, Ok(AgentConfig::Client(config)))) => config,
        Some((_, Err(fault))) => return Err(fault.into()),
        Some((path, Ok(other))) => bail!(
            "{} is the file of another agent ({:?}): role = \"client\" is needed",
            path.display(),
            other.role()
        ),
    };
    if socks.is_some() {
        config.back_end.kind = BackEndKind::Socks;
        config.back_end.listen = socks;
    }
    Ok(config)
}

/// The shared pair of the paper's own form.
fn pair_of(secret: &sheet::Secret, config: &ClientConfig) -> anyhow::Result<Option<Pair>> {
    match secret {
        Secret::Shared(_) if !config.is_legacy => bail!(
            "this key is a shared pair, so Host could read the tunnel: only a file with legacy = \
             true allows that"
        ),
        Secret::Shared(secret) => Ok(Some(Pair::of(secret))),
        Secret::OneTime(_) | Secret::OnToken => Ok(None),
    }
}

/// Whether the user can take the same key again.
fn of_key(fate: Fate) -> &'static str {
    match fate {
        Fate::NotSpent => "the key is not spent",
        Fate::Spent => "the key is spent",
        Fate::Unknown => "the key may be spent",
    }
}

/// What a user can do about it, and whether he still has the key.
fn sentence(why: Why, verdict: Option<Verdict>, fate: Fate) -> String {
    let said = match (why, verdict) {
        // These serve no more, whatever has become of them.
        (_, Some(Verdict::KeyUsed)) => return "the key was used before: take the next one".into(),
        (_, Some(Verdict::KeyRevoked)) => return "the key was revoked: ask for new ones".into(),
        (_, Some(Verdict::KeyExpired)) => return "the key has expired: ask for new ones".into(),
        (Why::LoggedOut, _) => "it was given up",
        (_, Some(Verdict::ClocksApart)) => {
            "the clock of this machine, of your Host or of Target is wrong: set this machine's, \
             and ask again"
        }
        (_, Some(Verdict::OptionUnavailable)) => {
            "Target cannot do this option: ask for other objectives"
        }
        (_, Some(Verdict::TargetUnreachable)) => "Host does not reach Target",
        (_, Some(Verdict::StoreUnavailable)) => {
            "a database does not answer, or a log cannot be written"
        }
        (_, Some(Verdict::NotBuilt)) => {
            "Target could not build its end, or has not answered any more"
        }
        (_, Some(Verdict::Busy)) => "too much is going on: try again later",
        (_, Some(Verdict::NoRoom)) => {
            "your Host has as many tunnels at Target as Target allows it: try again later"
        }
        (_, Some(Verdict::NotReady)) => {
            "Target cannot build a tunnel now, and says why where it runs: try again later"
        }
        (_, Some(Verdict::NoCommonVersion)) => {
            "this machine's IPsec and Target's have no version of IKE in common"
        }
        (_, Some(Verdict::NoPpk)) => {
            "your Host has no post-quantum key of this one-time key: take one of a newer sheet"
        }
        (_, Some(Verdict::Misdirected)) => "Host does not know the Target of this sheet",
        (_, Some(Verdict::Denied)) => "you may not: wrong user, no member, or not allowed",
        (Why::OptionNotAtClient, _) => {
            "this machine's IPsec cannot do the option of these objectives"
        }
        (Why::NoAnswer, None) => "nobody answers, or the tunnel did not come up in time",
        (Why::FalseTarget, _) => "the answer is not of the Target on the sheet: tell your Host",
        (Why::BackEndFailed, _) => "this machine could not build its end, or IKE has failed",
        (Why::ClosedByPeer, _) => "Target has closed it before it was up",
        _ => return format!("{why:?} {verdict:?}; {}", of_key(fate)),
    };
    format!("{said}; {}", of_key(fate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_s_name_has_no_sign_that_a_file_reads() {
        assert!(user_id("alice.b+c_d-9").is_ok());
        for wrong in ["", "-a", "a b", "a@b", "a\"", "ä", &"x".repeat(65)] {
            assert!(user_id(wrong).is_err(), "{wrong}");
        }
        let sets = ["NonRepudiation", "none"].map(|word| objective(word).unwrap());
        assert_eq!(sets[1], Objectives::default());
        let one: Objectives = [Objective::NonRepudiation].into_iter().collect();
        assert_eq!(together(&sets), one);
        assert!(objective("x").unwrap_err().contains("DataExchangeConf"));
    }

    #[test]
    fn a_socks_server_has_the_usual_port_if_none_is_said() {
        let found = |text: &str| loopback(text).map(|it| it.to_string());
        assert_eq!(found("127.0.0.1").as_deref(), Ok("127.0.0.1:1080"));
        assert_eq!(found("127.0.0.1:9").as_deref(), Ok("127.0.0.1:9"));
        for v6 in ["::1", "[::1]", "[::1]:1080"] {
            assert_eq!(found(v6).as_deref(), Ok("[::1]:1080"));
        }
        for wrong in ["", "localhost", "1080", "127.0.0.1:x"] {
            assert!(found(wrong).unwrap_err().contains("127.0.0.1:1080"));
        }
    }

    #[test]
    fn each_refusal_says_what_has_become_of_the_key() {
        let verdicts = (1..=20).map(|number| Some(Verdict::from(number)));
        for verdict in verdicts.chain([None]) {
            for why in [
                Why::HostRefused,
                Why::NoAnswer,
                Why::LoggedOut,
                Why::FalseTarget,
            ] {
                let said = |fate| sentence(why, verdict, fate);
                let is_over = |said: &str| {
                    ["used before", "revoked", "expired"]
                        .iter()
                        .any(|it| said.contains(it))
                };
                for (fate, wanted) in [
                    (Fate::NotSpent, "the key is not spent"),
                    (Fate::Spent, "the key is spent"),
                    (Fate::Unknown, "the key may be spent"),
                ] {
                    let said = said(fate);
                    assert!(said.ends_with(wanted) || is_over(&said), "{said}");
                }
            }
        }
    }

    #[test]
    fn a_shared_pair_needs_a_word() {
        let mut config = ClientConfig::default();
        let secret = Secret::Shared([1; 32]);
        assert!(pair_of(&secret, &config).is_err());
        config.is_legacy = true;
        assert!(pair_of(&secret, &config).unwrap().is_some());
        assert!(pair_of(&Secret::OnToken, &config).unwrap().is_none());
    }
}
