//! Set-up, from what needs most rights to what needs least; then the capabilities are cut, and only
//! then do threads start.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use engine::node::Node;
use engine::plane::{InboundPlane, OutboundPlane};
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::Process;
use super::entropy::Entropy;
use super::host::{self, Host};
use super::quota::Quota;
use super::readiness::Progress;
use super::setup::{check_role, engine_config, inner_mtu, open_capture, open_raw, strict_filters};
use crate::cli::{Role, RunOptions};
use crate::config::{self, Loaded, Names};
use crate::control::client::none_runs;
use crate::control::server::{Asked, ControlServer};
use crate::leases::LeaseFile;
use crate::planes::{Clock, Parts, Planes};
use crate::privileges::{self, Kept};
use crate::raw::RawSockets;
use crate::routes::Blocks;
use crate::tun::Tun;
use crate::udp::{UdpConfig, UdpSockets};
use crate::{blocks, dns, footprint, routes};

/// How long a station waits before it asks again for its gateway's address, at first and at most.
const FIRST_NAME_WAIT: Duration = Duration::from_secs(1);
const LAST_NAME_WAIT: Duration = Duration::from_secs(30);

impl Process {
    pub(super) async fn open(options: RunOptions) -> anyhow::Result<Self> {
        // Beside what follows; joined before rights are reduced, which a thread would keep.
        let blinding = std::thread::spawn(crypto::rsa::prepare_blinding);
        recall_resolvers(&options);
        let unresolved = config::load(&options.config, Names::Unasked)?;
        check_role(options.role, &options.config, &unresolved)?;
        privileges::require()?;
        none_runs(&options.runtime_dir, &unresolved.names())?;
        blocks::lay(&options.runtime_dir, &unresolved).await?;
        let mut loaded = load_patiently(&options).await?;
        let strict = strict_filters(&loaded);
        loaded.warnings.extend(strict);
        for (connection, warning) in &loaded.warnings {
            warn!(connection, "{warning}");
        }
        for text in loaded.descriptions() {
            info!("{text}");
        }
        let name = loaded.names().into_iter().next().unwrap_or_default();
        let runtime_dir = options.runtime_dir.clone();
        let opened = Self::set_up(options, loaded, blinding).await;
        if opened.is_err() {
            withdraw(&runtime_dir, &name).await;
        }
        opened
    }

    async fn set_up(
        options: RunOptions,
        loaded: Loaded,
        blinding: std::thread::JoinHandle<()>,
    ) -> anyhow::Result<Self> {
        let names: Vec<String> = loaded.names();
        let control = ControlServer::bind(&options.runtime_dir, &names)?;
        let mut file = footprint::FootprintFile::open(&options.runtime_dir, &names[0])
            .with_context(|| format!("another process holds the connection {}", names[0]))?;
        host::undo(&mut file, Blocks::Stay).await?;
        file.update(|footprint| footprint.connections.clone_from(&names))?;
        let table = &loaded.daemon;
        let mtu = inner_mtu(&loaded.engine);
        let tun = Tun::open(&table.tun, mtu)
            .with_context(|| format!("cannot make the TUN device {}", table.tun))?;
        let ports = UdpConfig {
            mark: Some(table.fwmark),
            ..UdpConfig::default()
        };
        let udp = UdpSockets::bind(ports).context("cannot bind UDP ports 500 and 4500")?;
        let raw = open_raw(&loaded.engine, table.fwmark);
        let opened = routes::Routes::open(tun.name(), mtu, table.table, table.fwmark).await?;
        let leases = LeaseFile::open(&options.state_dir, &names[0]);
        if options.role == Role::Station
            && let Err(error) = leases.prepare()
        {
            let folder = leases.folder().display();
            warn!("inner addresses are not kept in {folder}: {error}");
        }
        let of_names = (&names[0][..], tun.name());
        let mut host = Host::new(options.role, opened, file, leases, of_names);
        host.load_forwarding(&loaded)?;
        let user = table.user.as_deref();
        for folder in host.folders().into_iter().filter(|folder| folder.exists()) {
            privileges::hand_over(folder, user)?;
        }
        let kept = Kept {
            raw: raw.is_some(),
            resolver_file: dns::uses_file(),
            user,
        };
        // A panic there would come back here at the first signature.
        let _ = blinding.join();
        let capabilities = privileges::reduce(kept)?;
        Self::start(
            options,
            loaded,
            (tun, udp, raw),
            host,
            control,
            capabilities,
        )
    }

    /// From here on there are threads.
    fn start(
        options: RunOptions,
        loaded: Loaded,
        (tun, udp, raw): (Tun, UdpSockets, Option<RawSockets>),
        host: Host,
        (control, asked): (ControlServer, mpsc::Receiver<Asked>),
        capabilities: Vec<String>,
    ) -> anyhow::Result<Self> {
        let capture = options.capture.as_deref().map(open_capture).transpose()?;
        let clock = Clock::start();
        let mut entropy = Entropy::open()?;
        let seed = entropy.seed()?;
        let (tun, udp) = (Arc::new(tun), Arc::new(udp));
        let parts = Parts {
            outbound: OutboundPlane::new(seed.stream("outbound", 0), tun.offloads()),
            inbound: InboundPlane::new(tun.offloads()),
            tun: tun.clone(),
            udp: udp.clone(),
            raw: raw.map(Arc::new),
            tap: capture.as_ref().map(|(_, tap, _)| tap.clone()),
            clock,
        };
        let (planes, news) = Planes::start(parts)?;
        let config = engine_config(&loaded);
        let node = Node::new(config, &seed);
        Ok(Self {
            options,
            loaded,
            clock,
            node,
            planes,
            news,
            udp,
            tun,
            host,
            asked,
            control,
            capture,
            capabilities,
            downed: BTreeSet::new(),
            deadline: None,
            calendar_at: tokio::time::Instant::now(),
            is_ready: false,
            progress: Progress::default(),
            entropy,
            quota: Quota::new(),
            unsent: 0,
            is_stopped: false,
            lifts: false,
        })
    }
}

/// Resolvers that a dead process left are reached by nobody: before names are asked for they go.
fn recall_resolvers(options: &RunOptions) {
    // What is wrong with the file is told when it is loaded.
    let names = config::connection_names(&options.config).unwrap_or_default();
    let Some(name) = names.first() else {
        return;
    };
    match dns::recall_left(&options.runtime_dir, &options.state_dir, name) {
        // A living process may hold it.
        Err(error) if error.kind() != ErrorKind::WouldBlock => {
            warn!("cannot give the former resolvers back: {error}");
        }
        _ => {}
    }
}

/// A station that begins before its network is up waits for the names of its gateways; whoever
/// waits at a terminal is told at once.
async fn load_patiently(options: &RunOptions) -> anyhow::Result<Loaded> {
    let mut wait = FIRST_NAME_WAIT;
    loop {
        let unresolved = match config::load(&options.config, Names::Needed) {
            Ok(loaded) => return Ok(loaded),
            Err(error) if options.ready.is_awaited() => return Err(error.into()),
            Err(error) => error,
        };
        // What is wrong otherwise does not mend itself.
        let offline = config::load(&options.config, Names::Unasked);
        if options.role == Role::Gateway || offline.is_err() {
            return Err(unresolved.into());
        }
        warn!("{unresolved}: trying again in {} s", wait.as_secs());
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LAST_NAME_WAIT);
    }
}

/// A process that could not be set up leaves nothing of its own.
async fn withdraw(runtime_dir: &std::path::Path, name: &str) {
    // Another process may hold it.
    let Ok(mut file) = footprint::FootprintFile::open(runtime_dir, name) else {
        return;
    };
    let undone = host::undo(&mut file, Blocks::Stay).await;
    if let Err(error) = undone.and_then(|()| Ok(file.close()?)) {
        warn!("not all could be undone: {error:#}");
    }
}
