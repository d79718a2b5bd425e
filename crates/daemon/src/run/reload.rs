//! `caravan reload` and SIGHUP: the configuration and every file it names are read again.
//!
//! Connections come and go. Tunnels of a connection that says the same stay, and so do those of
//! one whose certificates, keys, secrets or revocation lists changed: the next authentication goes
//! by them. What was opened before rights were given up (`[daemon]`) takes a restart.

use std::sync::Arc;

use engine::node::Input;
use tracing::{info, warn};

use super::Process;
use super::setup::{check_role, engine_config, inner_mtu};
use crate::config::file::DaemonTable;
use crate::config::{self, Loaded, Names};
use crate::service;

impl Process {
    /// Returns what changed. On an error the former configuration stays in force.
    pub(super) async fn reload(&mut self) -> anyhow::Result<String> {
        service::notify(service::Notice::Reloading);
        let result = self.reload_file().await;
        service::notify(service::Notice::Ready);
        if let Err(error) = &result {
            warn!("not reloaded, the former configuration stays in force: {error:#}");
        }
        result
    }

    async fn reload_file(&mut self) -> anyhow::Result<String> {
        // Keys may be readable for the steward alone.
        let texts = self.host.read().await?;
        let loaded = config::load_from(&self.options.config, Names::Needed, &texts)?;
        check_role(self.options.role, &self.options.config, &loaded)?;
        check_daemon(&self.loaded, &loaded)?;
        let names = loaded.names();
        self.host.follow(&names, &loaded).await?;
        for (connection, warning) in &loaded.warnings {
            warn!(connection, "{warning}");
        }
        if inner_mtu(&loaded.engine) != inner_mtu(&self.loaded.engine) {
            self.host.set_mtu(inner_mtu(&loaded.engine)).await?;
        }
        let told = format!(
            "the configuration was read again: {}",
            changes(&self.loaded, &loaded)
        );
        let config = engine_config(&loaded);
        self.loaded = loaded;
        self.downed.retain(|name| names.contains(name));
        self.input(Input::Configure(Arc::new(config))).await?;
        self.begin().await?;
        self.host
            .apply(&self.loaded, &self.node, self.clock.now(), &self.downed)
            .await?;
        info!("{told}");
        Ok(told)
    }
}

/// What a reload does to connections, in one line.
fn changes(old: &Loaded, new: &Loaded) -> String {
    let (before, after) = (old.names(), new.names());
    let revision = |loaded: &Loaded, name: &str| {
        let mut all = loaded.engine.connections.iter();
        all.find(|it| it.name == name).map(|it| it.revision)
    };
    let is_changed = |name: &&String| revision(old, name) != revision(new, name);
    let (kept, added): (Vec<&String>, Vec<&String>) =
        after.iter().partition(|name| before.contains(name));
    let gone = before.iter().filter(|name| !after.contains(name));
    let listed = |what: &str, names: Vec<&String>| {
        let names: Vec<&str> = names.into_iter().map(|name| &name[..]).collect();
        (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
    };
    let (changed, same): (Vec<&String>, Vec<&String>) = kept.into_iter().partition(is_changed);
    let parts = [
        listed("added", added),
        listed("removed", gone.collect()),
        listed("changed, so that its tunnels begin anew:", changed),
        listed("the same but for certificates, keys and lists:", same),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join("; ")
}

/// Devices, sockets and tables are those of the start.
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
