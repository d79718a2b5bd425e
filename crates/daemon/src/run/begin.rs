//! Set-up in order: start the steward, which needs and keeps most rights; open what this process
//! needs; drop all rights; start threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use crypto::rand::Seed;
use engine::node::Node;
use engine::plane::{InboundPlane, OutboundPlane};
use tokio::signal::unix::Signal;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};

use super::Process;
use super::entropy::Entropy;
use super::host::Host;
use super::inbox::Inbox;
use super::mobility::{self, MobilePart, Opened};
use super::quota::Quota;
use super::radius::RadiusSockets;
use super::reached::Lasting;
use super::readiness::Progress;
use super::reload::Reloads;
use super::setup::{
    check_role, engine_config, inner_mtu, open_capture, open_raw, ports, record, strict_filters,
};
use crate::capture::{CaptureFile, Keys};
use crate::config::{self, Loaded, Names};
use crate::control::client::none_runs_soon;
use crate::control::server::{Call, ControlServer};
use crate::count_file::CountFile;
use crate::kept_file::KeptFile;
use crate::leases::LeaseFile;
use crate::options::{Role, RunOptions};
use crate::peer_file::PeerFile;
use crate::planes::{Clock, Parts, Planes};
use crate::privileges::{self, Speaker};
use crate::raw::RawSockets;
use crate::steward::client::{Begun, Steward};
use crate::tun::Tun;
use crate::udp::UdpSockets;
use crate::version_file::VersionFile;

/// How long a client waits before it resolves its gateway's name again, at first and at most.
const FIRST_NAME_WAIT: Duration = Duration::from_secs(1);
const LAST_NAME_WAIT: Duration = Duration::from_secs(30);

/// What becomes of root's rights, for the user of a stranger's machine: who makes users there is
/// not at hand.
const TO_A_GUEST: &str = "the part of the tunnel that speaks with the network runs as root, \
                          without root's rights, because it cannot change to the user caravan of \
                          this machine; with --socks the tunnel needs no root";

impl Process {
    /// `hang_up`: the signals that ask for a reload.
    pub(super) async fn open(
        mut options: RunOptions,
        hang_up: &mut Signal,
    ) -> anyhow::Result<Self> {
        // Runs in parallel. It is joined before rights are dropped, because a thread keeps its
        // rights.
        let blinding = std::thread::spawn(crypto::rsa::prepare_blinding);
        privileges::require()?;
        let (mut loaded, speaker, steward) = loop {
            let unresolved = config::load(&options.config, Names::Unasked)?;
            check_role(options.role, &options.config, &unresolved)?;
            let user = options
                .user
                .as_deref()
                .or(unresolved.daemon.user.as_deref());
            let speaker = Speaker::choose(user)?;
            none_runs_soon(&options.runtime_dir, &unresolved.names())?;
            // The steward installs the blocks and undoes the changes of a dead process first.
            // Otherwise unreachable resolvers of that process would be asked for names.
            let steward = Steward::start(&options.steward).await?;
            if let Some(loaded) = load_patiently(&mut options, &unresolved, hang_up).await? {
                break (loaded, speaker, steward);
            }
            info!("the configuration is read again");
        };
        if options.is_attended {
            // An agent has written the file: whoever uses this machine cannot mend it.
            for (_, warning) in loaded.warnings.drain(..) {
                debug!("{warning}");
            }
        }
        let strict = strict_filters(&loaded);
        loaded.warnings.extend(strict);
        for (connection, warning) in &loaded.warnings {
            warn!(connection, "{warning}");
        }
        if let Some(warning) = &speaker.warning {
            let warning = if options.is_attended {
                TO_A_GUEST
            } else {
                warning
            };
            warn!("{warning}");
        }
        for text in loaded.descriptions() {
            info!("{text}");
        }
        Self::set_up(options, loaded, speaker, steward, blinding).await
    }

    async fn set_up(
        options: RunOptions,
        loaded: Loaded,
        speaker: Speaker,
        (mut steward, begun): (Steward, Begun),
        blinding: std::thread::JoinHandle<()>,
    ) -> anyhow::Result<Self> {
        let names = loaded.names();
        let control = ControlServer::bind(&options.runtime_dir, &names)?;
        let table = &loaded.daemon;
        let mtu = inner_mtu(&loaded);
        // First: a second process of the same kind needs no other device, but the same file.
        let ports = ports(&loaded);
        let udp = UdpSockets::bind(ports).context("cannot bind UDP ports")?;
        let tun = Tun::open(&table.tun, mtu)
            .with_context(|| format!("cannot make the TUN device {}", table.tun))?;
        let raw = open_raw(&loaded, &udp);
        let mobile = Opened::open(loaded.mobility.as_ref(), tun.name())?;
        steward.device(mtu).await?;
        let capture = options.capture.as_deref().map(open_capture).transpose()?;
        let mut leases = LeaseFile::open(&options.state_dir, &names);
        if let Err(error) = leases.prepare() {
            let folder = leases.folder().display();
            warn!("cannot store inner addresses and addresses of peers in {folder}: {error}");
        }
        let peers = PeerFile::new(match options.role {
            Role::Gateway => leases.opened(),
            Role::Station | Role::HomeAgent | Role::ForeignAgent | Role::Firewall => None,
        });
        let writable = leases.opened();
        if let Some(folder) = &writable {
            speaker.take_folder(folder)?;
        }
        // A panic there would come back here at the first signature.
        let _ = blinding.join();
        let confined = Confined {
            speaker: privileges::confine_speaker(&speaker, writable)?,
            capabilities: privileges::permitted()?,
            steward: begun.limits,
            steward_pid: steward.pid(),
        };
        leases.read_again();
        let counts = CountFile::open(leases.opened());
        let mut counts = counts.context("cannot read how far n of SKIP has come")?;
        counts.prune(&mobility::pairs(loaded.mobility.as_ref()));
        let upgraded = VersionFile::open(leases.opened());
        let upgraded = upgraded.context("cannot read which clients have used IKEv2")?;
        let secrets = KeptFile::new(leases.opened());
        let mut host = Host::new(
            options.role,
            steward,
            begun.blocks,
            leases,
            (&names[0], tun.name()),
        );
        host.adopt(&loaded);
        let devices = (tun, udp, raw, mobile);
        let kept = (host, peers, (counts, upgraded, secrets), capture);
        Self::start(options, loaded, devices, kept, control, confined)
    }

    /// From here on there are threads.
    fn start(
        options: RunOptions,
        loaded: Loaded,
        (tun, udp, raw, mobile): (Tun, UdpSockets, Option<RawSockets>, Opened),
        (host, peers, (counts, upgraded, secrets), capture): Kept,
        (control, asked): (ControlServer, mpsc::Receiver<Call>),
        confined: Confined,
    ) -> anyhow::Result<Self> {
        let capture = capture.map(|(file, keys)| record(file, keys)).transpose()?;
        let clock = Clock::start();
        let mut entropy = Entropy;
        let seed = entropy.seed()?;
        let (tun, udp) = (Arc::new(tun), Arc::new(udp));
        let (outbound, inbound) = planes_of(&loaded, &seed, &tun);
        let parts = Parts {
            outbound,
            inbound,
            tun: tun.clone(),
            udp: udp.clone(),
            raw: raw.map(Arc::new),
            tap: capture.as_ref().map(|(_, tap, _)| tap.clone()),
            clock,
        };
        let (planes, news) = Planes::start(parts)?;
        let node = Node::new(engine_config(&loaded), &seed);
        let started = (&seed, clock.now());
        let mark = loaded.daemon.fwmark;
        let part = |it| MobilePart::start((it, mark, tun.name()), mobile, &counts, started);
        let mobility = loaded.mobility.as_ref().map(part).transpose()?;
        Ok(Self {
            options,
            loaded,
            clock,
            node,
            mobility,
            counts,
            unstored: BTreeMap::new(),
            upgraded,
            secrets,
            owed: Vec::new(),
            owes_report: false,
            planes,
            inbox: Inbox::new(news),
            udp,
            tun,
            host,
            asked,
            control,
            capture,
            confined,
            downed: BTreeSet::new(),
            came: BTreeMap::new(),
            reloads: Reloads::default(),
            late: Vec::new(),
            deadline: None,
            calendar_at: tokio::time::Instant::now(),
            is_serving: false,
            is_ready: false,
            progress: Progress::default(),
            entropy,
            peers,
            lasting: Lasting::default(),
            quota: Quota::new(),
            radius: RadiusSockets::new(mark),
            is_stopped: false,
            lifts: false,
        })
    }
}

/// What has been read and opened before there are threads.
type Kept = (
    Host,
    PeerFile,
    (CountFile, VersionFile, KeptFile),
    Option<(CaptureFile, Keys)>,
);

fn planes_of(loaded: &Loaded, seed: &Seed, tun: &Tun) -> (OutboundPlane, InboundPlane) {
    let mut outbound = OutboundPlane::new(seed.stream("outbound", 0), tun.offloads());
    let mut inbound = InboundPlane::new(tun.offloads());
    if !loaded.daemon.clamp_mss {
        outbound.keep_mss();
        inbound.keep_mss();
    }
    (outbound, inbound)
}

/// What restricts the two processes, for `status`.
pub(super) struct Confined {
    pub(super) speaker: Vec<String>,
    /// What this process may use.
    pub(super) capabilities: Vec<String>,
    pub(super) steward: Vec<String>,
    pub(super) steward_pid: u32,
}

/// Whether a gateway is known only by its name.
fn has_names(unresolved: &Loaded) -> bool {
    let mut remote = unresolved
        .engine
        .connections
        .iter()
        .flat_map(|it| &it.remote_addrs);
    remote.any(|to| to.ip().is_unspecified())
}

/// A process that starts before its network is up waits until it can resolve the names of
/// gateways. The service manager does not wait: the network may come only after us. At a terminal
/// it reports the error at once. Returns nothing if a reload is asked for meanwhile.
async fn load_patiently(
    options: &mut RunOptions,
    unresolved: &Loaded,
    hang_up: &mut Signal,
) -> anyhow::Result<Option<Loaded>> {
    let mut wait = FIRST_NAME_WAIT;
    if has_names(unresolved) {
        let text = "waiting for the address of the gateway; its networks are blocked until then";
        options.ready.serving(text);
    }
    loop {
        let unresolved = match config::load(&options.config, Names::Needed) {
            Ok(loaded) => return Ok(Some(loaded)),
            Err(error) if options.ready.is_awaited() => return Err(error.into()),
            Err(error) => error,
        };
        // Other errors do not go away by waiting.
        let offline = config::load(&options.config, Names::Unasked);
        if offline.is_err() {
            return Err(unresolved.into());
        }
        warn!("{unresolved}: trying again in {} s", wait.as_secs());
        options.ready.serving(&format!("waiting: {unresolved}"));
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = hang_up.recv() => return Ok(None),
        }
        wait = (wait * 2).min(LAST_NAME_WAIT);
    }
}
