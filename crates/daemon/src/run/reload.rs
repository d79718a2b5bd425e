//! `caravan reload` and SIGHUP: the configuration and every file it names are read again.
//!
//! Connections may be added and removed. Tunnels of an unchanged connection stay, and so do those
//! of a connection with changed certificates, keys, secrets or revocation lists: the next
//! authentication uses the new ones. Resources opened before rights were dropped (`[daemon]`) need
//! a restart.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::node::{ConnectionStatus, Input, SessionStatus};
use tracing::{info, warn};

use super::Process;
use super::setup::{check_role, engine_config, inner_mtu};
use crate::config::file::DaemonTable;
use crate::config::{self, Loaded, Names};
use crate::service;

impl Process {
    /// Returns what changed. On an error the old configuration stays in force.
    pub(super) async fn reload(&mut self) -> anyhow::Result<String> {
        service::notify(service::ServiceState::Reloading);
        let result = self.reload_file().await;
        service::notify(service::ServiceState::Ready);
        if let Err(error) = &result {
            warn!("not reloaded, the old configuration stays in force: {error:#}");
        }
        result
    }

    async fn reload_file(&mut self) -> anyhow::Result<String> {
        // Perhaps only the steward can read the keys.
        let texts = self.host.read().await?;
        let loaded = config::load_from(&self.options.config, Names::Needed, &texts)?;
        check_role(self.options.role, &self.options.config, &loaded)?;
        check_daemon(&self.loaded, &loaded)?;
        let names = loaded.names();
        self.host.follow(&names, &loaded).await?;
        for (connection, warning) in &loaded.warnings {
            warn!(connection, "{warning}");
        }
        let mtu = inner_mtu(&loaded.engine);
        if mtu != inner_mtu(&self.loaded.engine)
            && let Err(error) = self.host.set_mtu(mtu).await
        {
            // The configuration is in force: larger packets are still cut to the path's size.
            warn!("the device keeps its former MTU: {error:#}");
        }
        let config = engine_config(&loaded);
        let before = self.tunnels();
        let old = core::mem::replace(&mut self.loaded, loaded);
        self.downed.retain(|name| names.contains(name));
        self.input(Input::Configure(Arc::new(config))).await?;
        self.tell_addresses().await?;
        let changes = changes(&old, &self.loaded, &before, &self.tunnels());
        let told = format!("the configuration was read again: {changes}");
        self.begin().await?;
        self.host
            .apply(&self.loaded, &self.node, self.clock.now(), &self.downed)
            .await?;
        info!("{told}");
        Ok(told)
    }

    fn tunnels(&self) -> Tunnels {
        let status = self.node.status(self.clock.now()).connections.into_iter();
        let is_up = |it: &SessionStatus| !it.children.is_empty();
        let count = |it: ConnectionStatus| it.sessions.iter().filter(|it| is_up(it)).count();
        status.map(|it| (it.name.clone(), count(it))).collect()
    }
}

/// Tunnels by connection.
type Tunnels = BTreeMap<String, usize>;

/// What a reload did to each connection, in one line.
fn changes(old: &Loaded, new: &Loaded, before: &Tunnels, after: &Tunnels) -> String {
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
    let line = |name: &String| {
        let count = |tunnels: &Tunnels| tunnels.get(name).copied().unwrap_or_default();
        let ended = match count(before).saturating_sub(count(after)) {
            0 => String::new(),
            1 => ", 1 tunnel ended".to_owned(),
            several => format!(", {several} tunnels ended"),
        };
        format!("{name}: {}{ended}", what(name))
    };
    let mut names = new.names();
    names.extend(old.names().into_iter().filter(|name| !new.has(name)));
    names.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// Devices, sockets and tables cannot change after the start.
pub fn check_daemon(old: &Loaded, new: &Loaded) -> anyhow::Result<()> {
    let fixed = |table: &DaemonTable| DaemonTable {
        dns: true,
        half_open: 0,
        ..table.clone()
    };
    if fixed(&old.daemon) != fixed(&new.daemon) {
        anyhow::bail!("[daemon]: only dns and half_open can be changed while it runs: restart it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
        let count = |all: &[(&str, usize)]| -> Tunnels {
            all.iter().map(|(name, n)| ((*name).into(), *n)).collect()
        };
        let before = count(&[("same", 4), ("keys", 1), ("times", 2), ("gone", 1)]);
        let after = count(&[("same", 4), ("keys", 1), ("times", 0), ("young", 0)]);
        assert_eq!(
            changes(&old, &new, &before, &after),
            "keys: new pre-shared key; same: unchanged; times: changed (dpd_delay), 2 tunnels \
             ended; young: added; gone: removed, 1 tunnel ended"
        );
    }

    #[test]
    fn every_key_that_changed_is_named_and_nothing_of_a_secret_is() {
        let secret = "a long secret of the road";
        let old = loaded(&[guest("road", "max_peers = 5", secret)]);
        let more = "[connections.road.children.more]\nlocal_ts = [\"10.30.0.0/24\"]\n";
        let text = guest(
            "road",
            "unique = \"keep\"\nversion = 1",
            "a new secret of it",
        );
        let text = text.replace("10.10.0.0/24", "10.11.0.0/24") + more;
        let text = text.replace("a.example", "b.example");
        let new = loaded(&[text]);
        let none = Tunnels::new();
        assert_eq!(
            changes(&old, &new, &none, &none),
            "road: changed (children.more, children.net.local_ts, max_peers, remote.id, unique), \
             new pre-shared key"
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
        let one = Tunnels::from([("road".to_owned(), 1)]);
        assert_eq!(changes(&old, &new, &one, &one), "road: changed (max_peers)");
    }
}
