//! The commands that talk to running processes or clean up after dead ones.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use engine::identity::Identity;

use super::idle::Idle;
use crate::config::{Mobility, Names, wireless};
use crate::console::complain;
use crate::control::client::{
    PATIENCE, Running, TICK, ask, ask_to_end, discard, find, listener, nobody, none_runs_soon,
    running,
};
use crate::control::{ControlError, Reply, Request, check_name};
use crate::footprint::{self, FootprintFile, leftovers};
use crate::options::Role;
use crate::routes::Blocks;
use crate::status::StatusReport;
use crate::{agent, blocks, config, dns, leases, nft, privileges, resolver, run, service};

/// Starts `caravan up` in the background. Its log is named after the first connection.
pub(super) fn detach(
    config: &Path,
    runtime_dir: &Path,
    state_dir: &Path,
) -> anyhow::Result<ExitCode> {
    // Resolvers that a dead process left cannot resolve a gateway's name. If they cannot be
    // restored, the background process reports why.
    if let Some(first) = config::connection_names(config)?.first() {
        let _ = dns::recall_left(runtime_dir, state_dir, first);
    }
    // Report errors here, where the user sees them, before anything is started.
    let loaded = config::load(config, Names::Unasked)?;
    run::check_role(Role::Station, config, &loaded)?;
    let names = loaded.names();
    let Some(first) = names.first() else {
        bail!("{}: there is nothing to bring up", config.display());
    };
    none_runs_soon(runtime_dir, &names)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let started = runtime.block_on(async {
        std::fs::create_dir_all(runtime_dir)
            .with_context(|| format!("cannot create {}", runtime_dir.display()))?;
        // Without the rights, the background process reports that.
        if privileges::require().is_ok() {
            blocks::lay(runtime_dir, &loaded).await?;
        }
        config::load(config, Names::Needed)?;
        let log = service::log_path(runtime_dir, first);
        let detached = service::detach(runtime_dir, first).await;
        let is_refused = |it: &std::io::Error| it.kind() == ErrorKind::PermissionDenied;
        let is_refused = detached.as_ref().is_err_and(is_refused);
        detached.with_context(|| {
            let hint = match is_refused {
                true => "; run as root, or choose another folder by --runtime-dir",
                false => "",
            };
            format!("cannot start in the background ({}){hint}", log.display())
        })
    });
    let is_up = matches!(&started, Ok(code) if *code == ExitCode::SUCCESS);
    if !is_up && let Some(sentence) = blocks::standing(runtime_dir, &names) {
        complain(sentence);
    }
    started
}

pub(super) fn down(runtime_dir: &Path, state_dir: &Path, name: &str) -> anyhow::Result<String> {
    check_name(name)?;
    service::forget_failure(runtime_dir, name);
    let until = Instant::now() + PATIENCE;
    let mut was_ending = false;
    let not_running = loop {
        let found = match find(runtime_dir, name) {
            Ok(found) => found,
            Err(error @ ControlError::NotRunning { .. }) => break Some(error),
            Err(error) => return Err(error.into()),
        };
        let connection = name.to_owned();
        match ask_to_end(&found, &Request::Down { connection }) {
            // Ending by itself it leaves its blocks: they are removed once it has gone.
            Err(ControlError::Ending(_)) if Instant::now() < until => {
                was_ending = true;
                std::thread::sleep(TICK);
            }
            // It leaves its packet filter, which it may not lift.
            Ok(Reply::Ending { .. }) => {
                was_ending = true;
                break None;
            }
            reply => return said(reply?),
        }
    };
    discard(runtime_dir, name);
    if let Some(fault) = footprint::strange(runtime_dir).first() {
        complain(fault);
    }
    let left = loop {
        match leftovers(runtime_dir, name) {
            // The steward of a killed process is about to end, or a process has just begun.
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                match find(runtime_dir, name) {
                    Ok(_) if was_ending => bail!("{name} has ended, and was started again since"),
                    Ok(_) => return down(runtime_dir, state_dir, name),
                    Err(_) => std::thread::sleep(TICK),
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                bail!("another process with {name} begins or ends just now: try again")
            }
            left => break left.context("cannot take over what was left behind")?,
        }
    };
    if left.is_empty() {
        return match not_running {
            Some(error) if !was_ending => forgotten(runtime_dir, state_dir, name, error),
            _ if footprint::remains(runtime_dir, name) => bail!(
                "{name} is down, but its packet filter stays: only root lifts it (sudo caravan \
                 down {name})"
            ),
            _ => Ok(format!("{name} is down\n")),
        };
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    for file in left {
        runtime.block_on(tidy(runtime_dir, file))?;
    }
    Ok(match was_ending {
        true => format!("{name} is down\n"),
        false => format!("{name}: nothing was running; what was left behind is removed\n"),
    })
}

/// After a reboot, only the resolvers of a process are left.
fn forgotten(
    runtime_dir: &Path,
    state_dir: &Path,
    name: &str,
    not_running: ControlError,
) -> anyhow::Result<String> {
    if !dns::is_taken() || !leases::knows(state_dir, name) {
        return Err(not_running.into());
    }
    match dns::recall_left(runtime_dir, state_dir, name) {
        Ok(true) => Ok(format!(
            "{name}: nothing was running; {} is as it was before\n",
            dns::RESOLV_CONF
        )),
        // Another process holds them, or their old content is unknown.
        Ok(false) => Err(not_running.into()),
        Err(error) => Err(error).context("cannot restore the resolvers"),
    }
}

/// Undoes all changes of a dead process.
async fn tidy(runtime_dir: &Path, mut file: FootprintFile) -> anyhow::Result<()> {
    for name in &file.footprint.connections {
        discard(runtime_dir, name);
    }
    footprint::undo(&mut file, Blocks::Lifted).await?;
    nft::wall::lift(&mut file)?;
    file.close().context("cannot remove the record of changes")
}

pub(super) fn reload(runtime_dir: &Path, name: Option<&str>, all: bool) -> anyhow::Result<String> {
    let processes = match name {
        Some(name) => vec![find(runtime_dir, name)?],
        None => by_process(runtime_dir)?
            .into_values()
            .map(|(one, _)| one)
            .collect(),
    };
    if processes.is_empty() {
        bail!(nobody(runtime_dir));
    }
    if processes.len() > 1 && !all {
        let names: Vec<&str> = processes.iter().map(|one| one.name.as_str()).collect();
        bail!(
            "several processes run ({}): name one, or say --all",
            names.join(", ")
        );
    }
    let mut text = String::new();
    for process in &processes {
        text += &said(ask(process, &Request::Reload)?)?;
    }
    Ok(text)
}

pub(super) fn end_peer(runtime_dir: &Path, name: String, peer: Identity) -> anyhow::Result<String> {
    let found = find(runtime_dir, &name)?;
    let connection = name;
    said(ask(&found, &Request::End { connection, peer })?)
}

pub(super) fn forget(runtime_dir: &Path, name: String, peer: Identity) -> anyhow::Result<String> {
    let found = find(runtime_dir, &name)?;
    let connection = name;
    said(ask(&found, &Request::Forget { connection, peer })?)
}

pub(super) fn drain(
    runtime_dir: &Path,
    name: String,
    to: Option<String>,
) -> anyhow::Result<String> {
    let found = find(runtime_dir, &name)?;
    let named = to.clone().filter(|it| it.parse::<IpAddr>().is_err());
    let leads_to = match &named {
        Some(name) => {
            let asked = name.clone();
            let found = within(LOOKUP_PATIENCE, move || looked_up(&asked));
            found.with_context(|| too_slow(name))?
        }
        None => Vec::new(),
    };
    let nowhere = named.filter(|_| leads_to.is_empty());
    let request = Request::Drain {
        connection: name,
        to,
        leads_to,
    };
    let text = said(ask(&found, &request)?)?;
    Ok(text + &nowhere.map(|it| no_address(&it)).unwrap_or_default())
}

/// How long the lookup of another gateway's name may take.
const LOOKUP_PATIENCE: Duration = Duration::from_secs(2);

/// The addresses of a name; none if it has none here.
fn looked_up(name: &str) -> Vec<IpAddr> {
    let found = resolver::addresses(name, 0, 0).unwrap_or_default();
    found.into_iter().map(|it| it.ip()).collect()
}

/// What a task finds out; nothing if that takes longer.
fn within<T: Send + 'static>(
    patience: Duration,
    task: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = mpsc::channel();
    // It ends with this program.
    std::thread::spawn(move || tell.send(task()));
    told.recv_timeout(patience).ok()
}

/// Nobody knows whether another gateway's name leads to this one.
fn too_slow(name: &str) -> String {
    format!(
        "this host's resolvers have not said within {} s where {name} leads, and it must not be \
         here: try again, or give the address",
        LOOKUP_PATIENCE.as_secs()
    )
}

/// A line about another gateway's name that leads nowhere. Clients may know better.
fn no_address(name: &str) -> String {
    format!(
        "warning: no address of {name} is found here; clients look it up themselves, and stay \
         here if they find none: is it spelled right?\n"
    )
}

pub(super) fn rekey(runtime_dir: &Path, name: String, ike: bool) -> anyhow::Result<String> {
    let found = find(runtime_dir, &name)?;
    let connection = name;
    said(ask(&found, &Request::Rekey { connection, ike })?)
}

/// `tunnels`: folders of tunnels that Client's agents have up on this machine.
pub(super) fn status(
    (runtime_dir, tunnels): (&Path, &[PathBuf]),
    name: Option<&str>,
    json: bool,
) -> anyhow::Result<String> {
    let mut reports: Vec<StatusReport> = match name {
        Some(name) => {
            let here = find(runtime_dir, name);
            let mut others = tunnels.iter().filter_map(|folder| find(folder, name).ok());
            match (here, others.next()) {
                (Err(ControlError::NotRunning { .. }), Some(found)) => vec![report(&found)?],
                (Err(error @ ControlError::NotRunning { .. }), None) => {
                    let known = Idle::of(runtime_dir, Some(name));
                    return known.end(&error.to_string(), json);
                }
                (found, _) => vec![report(&found?)?],
            }
        }
        None => {
            let mut all = by_process(runtime_dir)?;
            for folder in tunnels {
                all.extend(by_process(folder)?);
            }
            all.into_values().map(|(_, r)| r).collect()
        }
    };
    if let Some(name) = name {
        reports.iter_mut().for_each(|report| report.only(name));
    }
    match (&reports[..], json) {
        ([], _) => Idle::of(runtime_dir, None).end(&nobody(runtime_dir), json),
        ([one], true) => Ok(one.to_json() + "\n"),
        (several, true) => {
            let all = serde_json::json!({ "processes": several });
            Ok(serde_json::to_string_pretty(&all)? + "\n")
        }
        (several, false) => {
            let texts: Vec<String> = several.iter().map(ToString::to_string).collect();
            Ok(texts.join("\n"))
        }
    }
}

/// Each process once, by its number, with one of its sockets: a process has one per connection, and
/// a gateway may have hundreds, each of which would tell all of it.
fn by_process(runtime_dir: &Path) -> anyhow::Result<BTreeMap<u32, (Running, StatusReport)>> {
    let mut found = BTreeMap::new();
    for one in running(runtime_dir) {
        if listener(&one.path).is_some_and(|pid| found.contains_key(&pid)) {
            continue;
        }
        let report = match report(&one) {
            Err(error) if matches!(error.downcast_ref(), Some(ControlError::Ending(_))) => continue,
            report => report?,
        };
        found.entry(report.process.pid).or_insert((one, report));
    }
    Ok(found)
}

fn report(process: &Running) -> anyhow::Result<StatusReport> {
    match ask(process, &Request::Status)? {
        Reply::Status { report } => Ok(*report),
        other => said(other).and_then(|text| bail!("{} answers {text}", process.name)),
    }
}

fn said(reply: Reply) -> anyhow::Result<String> {
    match reply {
        Reply::Done { text } if text.is_empty() => Ok(String::new()),
        Reply::Done { text } | Reply::Ending { text } => Ok(text + "\n"),
        Reply::Ended => bail!("the process is ending"),
        Reply::Failed { text } => bail!(text),
        Reply::Status { report } => Ok(report.to_string()),
    }
}

pub(super) fn check(file: &Path) -> anyhow::Result<String> {
    if config::agent::is_agent(file) {
        return agent::check(file);
    }
    if wireless::is_wireless(file) {
        return check_wireless(file);
    }
    let loaded = config::load(file, Names::Wanted)?;
    let names: Vec<&str> = loaded
        .on_failure
        .iter()
        .map(|(name, _)| &name[..])
        .collect();
    let speaker = privileges::Speaker::choose(loaded.daemon.user.as_deref());
    // A missing user is among the warnings already.
    let stays_root = speaker.ok().and_then(|speaker| speaker.warning);
    let stays_root = stays_root.map(|text| ("daemon".to_owned(), format!("user: {text}")));
    let mut text: String = loaded
        .warnings
        .iter()
        .chain(&stays_root)
        .map(|(name, sentence)| format!("warning: {name}: {sentence}\n"))
        .collect();
    let part = loaded.mobility.iter();
    for sentence in part.flat_map(|it| run::misplaced(it, &loaded.daemon.tun)) {
        text += &format!("warning: {sentence}\n");
    }
    for sentence in loaded.descriptions().iter().chain(&loaded.details) {
        text += &format!("note: {sentence}\n");
    }
    let connections = match names.len() {
        0 => None,
        1 => Some(format!("1 connection ({})", names[0])),
        count => Some(format!("{count} connections ({})", names.join(", "))),
    };
    let part = loaded.mobility.as_ref().map(describe);
    let all: Vec<String> = connections.into_iter().chain(part).collect();
    text += &format!("{} is valid: {}\n", file.display(), all.join(", "));
    Ok(text)
}

fn check_wireless(file: &Path) -> anyhow::Result<String> {
    let config = wireless::load(file)?;
    let warnings = config.warnings().into_iter();
    let mut text: String = warnings.map(|it| format!("warning: {it}\n")).collect();
    let role = match config.role {
        wireless::End::Station => "a station",
        wireless::End::AccessPoint => "an access point",
    };
    let security = config.security;
    text += &format!("{} is valid: {role}, {security}\n", file.display());
    Ok(text)
}

/// A part in Mobile IPv4, in one phrase.
fn describe(mobility: &Mobility) -> String {
    match mobility {
        Mobility::HomeAgent(it) => {
            let count = it.config.clients.len();
            let nodes = if count == 1 { "node" } else { "nodes" };
            format!("home agent {} of {count} mobile {nodes}", it.config.address)
        }
        Mobility::ForeignAgent(it) => {
            format!("foreign agent, care-of address {}", it.config.care_of)
        }
        Mobility::MobileNode(it) => format!("mobile node {}", it.config.home_address),
        Mobility::Firewall(it) => {
            let count = it.names.len();
            let entries = if count == 1 { "entry" } else { "entries" };
            format!("firewall {} with {count} {entries}", it.config.outside)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_that_takes_too_long_is_another_thing_than_one_that_finds_nothing() {
        let (answer, resolver) = mpsc::channel::<Vec<IpAddr>>();
        let slow = within(Duration::ZERO, move || resolver.recv());
        assert_eq!(slow, None);
        drop(answer);
        let nothing = within(LOOKUP_PATIENCE, Vec::<IpAddr>::new);
        assert_eq!(nothing, Some(Vec::new()));
    }
}
