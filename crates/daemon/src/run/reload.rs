//! `caravan reload` and SIGHUP: the configuration and every file it names are read again.
//!
//! Connections may be added and removed. Tunnels of an unchanged connection stay, and so do those
//! of a connection with changed certificates, keys, secrets or revocation lists: the next
//! authentication uses the new ones. Resources opened before rights were dropped (`[daemon]`) need
//! a restart.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use engine::config::Pool;
use engine::node::Input;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::Process;
use super::keeper::{self, Ask};
use super::outputs::Ends;
use super::setup::{check_role, engine_config, inner_mtu};
use crate::config::file::DaemonTable;
use crate::config::{self, Loaded, Mobility, Names};
use crate::control::Reply;
use crate::options::Role;
use crate::service;

/// Who gets the answer to a reload; a signal gets none.
type Asker = Option<oneshot::Sender<Reply>>;

/// Requested reloads. The first one runs in a task, because the steward reads the files and names
/// have to be resolved.
#[derive(Default)]
pub(super) struct Reloads {
    askers: VecDeque<Asker>,
    task: Option<JoinHandle<anyhow::Result<Loaded>>>,
    /// The number of the desired state that the last one wants, until it is applied.
    pub(super) host: Option<u64>,
}

impl Reloads {
    /// The result of the running reload, or `None` if none runs. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<anyhow::Result<Loaded>> {
        let ended = match &mut self.task {
            Some(task) => task.await,
            None => return None,
        };
        self.task = None;
        Some(ended.unwrap_or_else(|fault| Err(fault.into())))
    }
}

/// What the task of a reload needs.
struct Reload {
    asks: mpsc::Sender<Ask>,
    path: PathBuf,
    role: Role,
    table: DaemonTable,
    mobility: Option<Mobility>,
    mtu: u16,
}

impl Reload {
    /// Reads and checks the configuration, and lets the steward adopt it.
    async fn run(self) -> anyhow::Result<Loaded> {
        // Perhaps only the steward can read the keys.
        let texts = keeper::ask(&self.asks, Ask::Read).await?;
        let path = self.path.clone();
        let load = move || config::load_from(&path, Names::Needed, &texts);
        let loaded = tokio::task::spawn_blocking(load).await??;
        check_role(self.role, &self.path, &loaded)?;
        check_daemon(&self.table, &loaded.daemon)?;
        check_mobility(self.mobility.as_ref(), loaded.mobility.as_ref())?;
        keeper::ask(&self.asks, Ask::Adopt).await?;
        let mtu = inner_mtu(&loaded);
        if mtu != self.mtu
            && let Err(error) = keeper::ask(&self.asks, |reply| Ask::Resize(mtu, reply)).await
        {
            // The configuration is in force: larger packets are still cut to the path's size.
            warn!("the device keeps its former MTU: {error:#}");
        }
        Ok(loaded)
    }
}

impl Process {
    /// Begins a reload, or lets it wait for the one that is under way.
    pub(super) fn reload(&mut self, asker: Asker) {
        // A signal says no more than one that waits already.
        let askers = &self.reloads.askers;
        if asker.is_none() && askers.iter().skip(1).any(Option::is_none) {
            return;
        }
        self.reloads.askers.push_back(asker);
        self.begin_reload();
    }

    fn begin_reload(&mut self) {
        if self.reloads.task.is_some() || self.reloads.askers.is_empty() {
            return;
        }
        service::notify(service::ServiceState::Reloading);
        let reload = Reload {
            asks: self.host.asks(),
            path: self.options.config.clone(),
            role: self.options.role,
            table: self.loaded.daemon.clone(),
            mobility: self.loaded.mobility.clone(),
            mtu: inner_mtu(&self.loaded),
        };
        self.reloads.task = Some(tokio::spawn(reload.run()));
    }

    /// The task has ended. On an error the former configuration stays in force.
    pub(super) async fn on_reloaded(
        &mut self,
        loaded: anyhow::Result<Loaded>,
    ) -> anyhow::Result<()> {
        let told = match loaded {
            Ok(loaded) => Ok(self.follow(loaded).await?),
            Err(error) => Err(error),
        };
        service::notify(service::ServiceState::Ready);
        let reply = match told {
            Ok(text) => {
                info!("{text}");
                Reply::Done { text }
            }
            Err(error) => {
                warn!("not reloaded, the old configuration stays in force: {error:#}");
                let text = format!("{error:#}");
                Reply::Failed { text }
            }
        };
        if let Some(Some(asked)) = self.reloads.askers.pop_front() {
            self.reply_late(asked, reply);
        }
        self.begin_reload();
        Ok(())
    }

    /// Takes over what the steward has adopted. Returns what changed.
    async fn follow(&mut self, loaded: Loaded) -> anyhow::Result<String> {
        let names = loaded.names();
        self.host.follow(&names, &loaded);
        for (connection, warning) in &loaded.warnings {
            warn!(connection, "{warning}");
        }
        let config = engine_config(&loaded);
        let old = core::mem::replace(&mut self.loaded, loaded);
        self.downed.retain(|name| names.contains(name));
        self.came.retain(|name, _| names.contains(name));
        self.radius.follow(config.radius.as_deref());
        let ends = self.ends_of(Input::Configure(Arc::new(config))).await?;
        let changes = changes(&old, &self.loaded, &ends);
        self.begin().await?;
        self.follow_mobility(old.mobility.as_ref())?;
        self.host.ask_ways(&self.node);
        self.update_host();
        let is_applied = self.host.is_up_to_date();
        self.reloads.host = (!is_applied).then(|| self.host.wanted());
        Ok(format!("the configuration was read again: {changes}"))
    }
}

/// What a reload did to each connection, in one line.
fn changes(old: &Loaded, new: &Loaded, ends: &Ends) -> String {
    let what = |name: &str| {
        let (is_new, is_gone) = (!old.has(name), !new.has(name));
        if is_new || is_gone {
            return if is_new { "added" } else { "removed" }.to_owned();
        }
        let mut all = Vec::new();
        if let (Some(now), Some(then)) = (new.keys.get(name), old.keys.get(name)) {
            let keys: Vec<String> = now.changed(then).into_iter().collect();
            let said = (!keys.is_empty()).then(|| format!("changed ({})", keys.join(", ")));
            all.extend(said);
        }
        if let (Some(now), Some(then)) = (new.credentials.get(name), old.credentials.get(name)) {
            let changed = now.changed(then).into_iter();
            all.extend(changed.map(|what| format!("new {what}")));
        }
        match all.is_empty() {
            true => "unchanged".to_owned(),
            false => all.join(", "),
        }
    };
    let of_part = |it: &Loaded, name: &str| {
        let part = it.mobility.as_ref();
        part.is_some_and(|it| it.name() == name)
    };
    let line = |name: &String| {
        if of_part(old, name) && of_part(new, name) {
            let is_same = old.mobility == new.mobility;
            let said = if is_same { "unchanged" } else { "changed" };
            return format!("{name}: {said}");
        }
        let ended = match ends.get(name).map_or(0, |ended| ended.tunnels) {
            0 => String::new(),
            1 => ", 1 tunnel ended".to_owned(),
            several => format!(", {several} tunnels ended"),
        };
        format!("{name}: {}{ended}", what(name))
    };
    let radius = match (&old.engine.radius, &new.engine.radius) {
        (None, None) => None,
        (None, Some(_)) => Some("added"),
        (Some(_), None) => Some("removed"),
        (Some(then), Some(now)) => Some(match then.is_same(now) {
            true => "unchanged",
            false => "changed",
        }),
    };
    let mut names = new.names();
    names.extend(old.names().into_iter().filter(|name| !new.has(name)));
    let lines = names.iter().map(line);
    let lines = lines.chain(radius.map(|what| format!("[radius]: {what}")));
    let lines = lines.chain(pools_changed(&old.engine.pools, &new.engine.pools));
    lines.collect::<Vec<_>>().join("; ")
}

/// What a reload did to pools that are not as before.
fn pools_changed<'a>(old: &'a [Pool], new: &'a [Pool]) -> impl Iterator<Item = String> + 'a {
    let of = |all: &'a [Pool], name: &str| all.iter().find(|it| it.name == name);
    let now = new
        .iter()
        .filter_map(move |pool| match of(old, &pool.name) {
            None => Some(format!("pool {}: added", pool.name)),
            Some(then) if then == pool => None,
            Some(_) => Some(format!("pool {}: changed", pool.name)),
        });
    let gone = old.iter().filter(move |pool| of(new, &pool.name).is_none());
    now.chain(gone.map(|pool| format!("pool {}: removed", pool.name)))
}

/// Devices, sockets and tables cannot change after the start.
pub fn check_daemon(old: &DaemonTable, new: &DaemonTable) -> anyhow::Result<()> {
    let fixed = |table: &DaemonTable| DaemonTable {
        dns: true,
        half_open: 0,
        ..table.clone()
    };
    if fixed(old) != fixed(new) {
        anyhow::bail!("[daemon]: only dns and half_open can be changed while it runs: restart it");
    }
    Ok(())
}

/// A part in Mobile IPv4 stays where it is: its links were opened at the start.
pub fn check_mobility(old: Option<&Mobility>, new: Option<&Mobility>) -> anyhow::Result<()> {
    match (old, new) {
        (None, None) => Ok(()),
        (Some(old), Some(new)) => match old.moved_key(new) {
            Some(key) => {
                let name = old.name();
                anyhow::bail!("{name}: its {key} cannot be changed while it runs: restart it")
            }
            None => Ok(()),
        },
        _ => anyhow::bail!("a part in Mobile IPv4 cannot come or go while it runs: restart it"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::outputs::Ended;
    use super::*;
    use crate::config::load;

    fn guest(name: &str, more: &str, secret: &str) -> String {
        format!(
            "[connections.{name}]\n{more}\n\
             local = {{ auth = \"psk\", id = \"sg.example\" }}\n\
             remote = {{ auth = \"psk\", id = \"a.example\", secret = \"{secret}\" }}\n\
             [connections.{name}.children.net]\nlocal_ts = [\"10.10.0.0/24\"]\n\
             remote_ts = [\"10.20.0.0/24\"]\n"
        )
    }

    fn loaded(texts: &[String]) -> Loaded {
        let own = (std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(format!("caravan-reload-{own:?}.toml"));
        std::fs::write(&path, texts.concat()).expect("written");
        let loaded = load(&path, Names::Wanted).expect("good");
        std::fs::remove_file(&path).expect("removed");
        loaded
    }

    #[test]
    fn each_connection_says_what_changed_and_which_tunnels_ended() {
        let one = |name| guest(name, "", "a long secret of the road");
        let old = loaded(&[one("same"), one("keys"), one("times"), one("gone")]);
        let keys = guest("keys", "", "another secret of the road");
        let times = guest("times", "dpd_delay = \"33s\"", "a long secret of the road");
        let new = loaded(&[one("same"), keys, times, one("young")]);
        let ended = |sessions, tunnels| Ended { sessions, tunnels };
        // A half-open exchange is no tunnel.
        let ends = [
            ("keys", ended(1, 0)),
            ("times", ended(3, 2)),
            ("gone", ended(1, 1)),
        ];
        let ends = ends.map(|(name, ended)| (name.to_owned(), ended)).into();
        assert_eq!(
            changes(&old, &new, &ends),
            "keys: new pre-shared key or password; same: unchanged; times: changed (dpd_delay), 2 \
             tunnels ended; young: added; gone: removed, 1 tunnel ended"
        );
    }

    #[test]
    fn a_pool_that_changed_is_named() {
        let with = |pools: &str| {
            let road = guest("road", "", "a long secret of the road");
            loaded(&[format!("{road}{pools}")])
        };
        let old = with(
            "[pools.inner]\naddrs = \"10.99.0.1-10.99.0.1\"\n\
             [pools.old]\naddrs = \"10.98.0.0/24\"\n",
        );
        let new = with(
            "[pools.inner]\naddrs = \"10.99.0.0/24\"\n[pools.new]\naddrs = \"10.97.0.0/24\"\n",
        );
        assert_eq!(
            changes(&old, &new, &Ends::new()),
            "road: unchanged; pool inner: changed; pool new: added; pool old: removed"
        );
        assert_eq!(changes(&new, &new, &Ends::new()), "road: unchanged");
    }

    #[test]
    fn every_key_that_changed_is_named_and_nothing_of_a_secret_is() {
        let secret = "a long secret of the road";
        let old = loaded(&[guest("road", "max_peers = 5", secret)]);
        let more = "[connections.road.children.more]\nlocal_ts = [\"10.30.0.0/24\"]\n";
        let text = guest(
            "road",
            "unique = \"keep\"\nversion = 2",
            "a new secret of it",
        );
        let text = text.replace("10.10.0.0/24", "10.11.0.0/24") + more;
        let text = text.replace("a.example", "b.example");
        let new = loaded(&[text]);
        assert_eq!(
            changes(&old, &new, &Ends::new()),
            "road: changed (children.more, children.net.local_ts, max_peers, remote.id, unique), \
             new pre-shared key or password"
        );
        let shown = format!("{:?}", new.keys);
        assert!(!shown.contains("secret of it"), "{shown}");
    }

    #[test]
    fn a_key_that_no_tunnel_depends_on_is_told_and_ends_none() {
        let secret = "a long secret of the road";
        let old = loaded(&[guest("road", "", secret)]);
        let new = loaded(&[guest("road", "max_peers = 5", secret)]);
        let [then, now] = [&old, &new].map(|it| it.engine.connections[0].revision);
        assert_eq!(then, now);
        assert_eq!(
            changes(&old, &new, &Ends::new()),
            "road: changed (max_peers)"
        );
    }
}
