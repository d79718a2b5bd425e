//! The main loop of `caravan gateway` and `caravan up`: one thread that owns the node and tells
//! the packet threads, the host and the user what it decides.
//!
//! Set-up goes from what needs most rights to what needs least; then the capabilities are cut, and
//! only then do threads start. `host.rs` keeps routes, resolvers and nftables as the node's facts
//! want them; `reload.rs` takes a changed configuration over; `report.rs` answers `status` and
//! writes the log.

mod host;
mod quota;
mod reload;
mod report;
mod setup;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use engine::config::Start;
use engine::node::{Command, Event, Input, Node, Output};
use engine::plane::{Change, InboundPlane, OutboundPlane, SaReport};
use engine::sa::{Direction, Path};
use engine::time::{Calendar, Deadline};
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::capture::{Capture, Keys, Tap};
use crate::cli::{Role, RunOptions};
use crate::config::{self, Loaded, Names};
use crate::control::server::{Asked, ControlServer};
use crate::control::{Reply, Request};
use crate::leases::LeaseFile;
use crate::planes::{Clock, News, Parts, Planes, Report};
use crate::privileges::{self, Kept};
use crate::raw::RawSockets;
use crate::routes::{Blocks, watch};
use crate::service::{self, Ask, Signals};
use crate::tun::Tun;
use crate::udp::{UdpConfig, UdpSockets};
use crate::{dns, footprint, routes};
use host::Host;
use quota::Quota;
use setup::{check_role, engine_config, inner_mtu, names, open_capture, open_raw, system_seed};

/// How often the node is told the calendar: certificates are checked against it.
const CALENDAR_INTERVAL: Duration = Duration::from_secs(60);
/// How long a station waits before it asks again for its gateway's address, at first and at most.
const FIRST_NAME_WAIT: Duration = Duration::from_secs(1);
const LAST_NAME_WAIT: Duration = Duration::from_secs(30);
/// After so many attempts `--detach` reports a failure.
const ATTEMPTS_AWAITED: u32 = 2;
/// What is left of an outer packet when the largest overhead of any suite is taken off.
const OVERHEAD_BYTES: u16 = 100;

/// Runs until a signal or the user ends it.
pub fn run(options: RunOptions) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut process = Process::open(options).await?;
        let ended = process.serve().await;
        process.close().await?;
        ended
    })
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
        let offline = config::load(&options.config, Names::Wanted);
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
    let undone = host::undo(runtime_dir, &mut file, Blocks::Stay).await;
    if let Err(error) = undone.and_then(|()| Ok(file.close()?)) {
        warn!("not all could be undone: {error:#}");
    }
}

/// Everything that one process holds.
struct Process {
    options: RunOptions,
    loaded: Loaded,
    clock: Clock,
    node: Node,
    planes: Planes,
    news: mpsc::Receiver<News>,
    udp: Arc<UdpSockets>,
    tun: Arc<Tun>,
    host: Host,
    asked: mpsc::Receiver<Asked>,
    control: ControlServer,
    capture: Option<(Capture, Tap, Keys)>,
    capabilities: Vec<String>,
    /// Connections that the user took down: their blocks are lifted.
    downed: BTreeSet<String>,
    deadline: Option<Deadline>,
    calendar_at: tokio::time::Instant,
    is_ready: bool,
    /// By connection, why the last negotiation failed, until one succeeds.
    troubles: BTreeMap<String, String>,
    /// The last message that we sent and how often, while nothing has come.
    unanswered: (String, u32),
    /// Lines of the log that strangers cause.
    quota: Quota,
    /// Attempts that failed before anything was up.
    failed_attempts: u32,
    is_stopped: bool,
    /// `down` took the last connection: nothing stays.
    lifts: bool,
}

impl Process {
    async fn open(options: RunOptions) -> anyhow::Result<Self> {
        // Beside what follows; joined before rights are reduced, which a thread would keep.
        let blinding = std::thread::spawn(crypto::rsa::prepare_blinding);
        let mut loaded = load_patiently(&options).await?;
        check_role(&options, &loaded)?;
        let strict = setup::strict_filters(&loaded);
        loaded.warnings.extend(strict);
        for (connection, warning) in &loaded.warnings {
            warn!(connection, "{warning}");
        }
        privileges::require()?;
        let name = names(&loaded).into_iter().next().unwrap_or_default();
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
        let names: Vec<String> = names(&loaded);
        let control = ControlServer::bind(&options.runtime_dir, &names)?;
        let mut file = footprint::FootprintFile::open(&options.runtime_dir, &names[0])
            .with_context(|| format!("another process holds the connection {}", names[0]))?;
        host::undo(&options.runtime_dir, &mut file, Blocks::Stay).await?;
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
        if let Some(user) = user {
            for folder in host.folders().into_iter().filter(|folder| folder.exists()) {
                privileges::hand_over(folder, user)?;
            }
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
        let seed = system_seed()?;
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
            troubles: BTreeMap::new(),
            unanswered: (String::new(), 0),
            quota: Quota::new(),
            failed_attempts: 0,
            is_stopped: false,
            lifts: false,
        })
    }

    async fn serve(&mut self) -> anyhow::Result<()> {
        let mut signals = Signals::new()?;
        let mut changes = watch::changes()?;
        self.tell_calendar().await?;
        self.begin().await?;
        self.host
            .apply(&self.loaded, &self.node, self.clock.now(), &self.downed)
            .await?;
        self.become_ready()?;
        while !self.is_stopped {
            self.give_up()?;
            let wake = self.wake_at();
            tokio::select! {
                news = self.news.recv() => {
                    let Some(news) = news else { anyhow::bail!("the packet threads are gone") };
                    self.on_news(news).await?;
                }
                Some(asked) = self.asked.recv() => self.on_asked(asked).await?,
                Some(()) = changes.recv() => self.on_link_change().await?,
                ask = signals.next() => match ask {
                    Ask::Stop => {
                        // Whoever waited at a terminal wants nothing of it to stay.
                        self.lifts |= !self.is_ready && self.options.ready.is_awaited();
                        self.input(Input::Command(Command::Stop)).await?;
                    }
                    Ask::Reload => drop(self.reload().await),
                },
                () = tokio::time::sleep_until(wake) => {
                    if tokio::time::Instant::now() >= self.calendar_at {
                        self.tell_calendar().await?;
                    }
                    self.input(Input::Wake).await?;
                }
            }
        }
        Ok(())
    }

    /// A station asks for the inner address that it had last. One that never had any learns it at
    /// once, even where it is to wait for traffic: the first packets need it as their source.
    async fn begin(&mut self) -> anyhow::Result<()> {
        for connection in self.loaded.engine.connections.clone() {
            let wants = connection.wants_inner;
            let is_lent = !connection.remote_addrs.is_empty() && (wants.v4 || wants.v6);
            if !is_lent || self.downed.contains(&connection.name) {
                continue;
            }
            let name = connection.name.clone();
            let command = match (self.host.begin(&connection), connection.start) {
                (Some(address), _) => Command::AskFor(name, address),
                (None, Start::OnTraffic) => Command::Up(name),
                (None, Start::AtOnce | Start::Responder) => continue,
            };
            self.input(Input::Command(command)).await?;
        }
        Ok(())
    }

    /// What is ours on the host goes; blocking routes stay unless the user took us down.
    async fn close(self) -> anyhow::Result<()> {
        service::notify(service::Notice::Stopping);
        let Self {
            planes,
            host,
            capture,
            options,
            lifts,
            ..
        } = self;
        planes.stop();
        if let Some((capture, tap, _)) = capture {
            drop(tap);
            let path = capture.path().to_owned();
            capture
                .finish()
                .with_context(|| format!("cannot finish {}", path.display()))?;
        }
        let blocks = if lifts { Blocks::Lifted } else { Blocks::Stay };
        if let (Blocks::Stay, Some(name)) = (blocks, host.blocking()) {
            info!("traffic for its networks stays blocked: `caravan down {name}` lifts that");
        }
        host.close(&options.runtime_dir, blocks).await
    }

    fn wake_at(&self) -> tokio::time::Instant {
        let now = tokio::time::Instant::now();
        let due = self
            .deadline
            .map(|deadline| now + deadline.at.since(self.clock.now()));
        due.map_or(self.calendar_at, |due| due.min(self.calendar_at))
    }

    async fn tell_calendar(&mut self) -> anyhow::Result<()> {
        self.calendar_at = tokio::time::Instant::now() + CALENDAR_INTERVAL;
        self.quota.tell();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let calendar = Calendar(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        self.input(Input::Calendar(calendar)).await
    }

    async fn on_news(&mut self, news: News) -> anyhow::Result<()> {
        match news {
            News::Message { path, bytes } => self.input(Input::Datagram(path, &bytes)).await,
            News::Notice(notice) => self.input(Input::Notice(notice)).await,
            News::Failed { direction, reason } => {
                anyhow::bail!("the {direction:?} packet thread ended: {reason}")
            }
        }
    }

    /// Links, addresses or routes changed: which address leads to each peer?
    async fn on_link_change(&mut self) -> anyhow::Result<()> {
        let mark = self.loaded.daemon.fwmark;
        for remote in self.host.peers() {
            let local = watch::local_address_for(remote, mark);
            self.input(Input::LocalAddress { remote, local }).await?;
        }
        Ok(())
    }

    async fn on_asked(&mut self, asked: Asked) -> anyhow::Result<()> {
        let reply = match asked.request {
            Request::Status => Reply::Status {
                report: Box::new(self.report().await),
            },
            Request::Down { connection } => self.take_down(connection).await?,
            Request::Reload => match self.reload().await {
                Ok(()) => Reply::Done {
                    text: "the configuration was read again".to_owned(),
                },
                Err(error) => Reply::Failed {
                    text: format!("{error:#}"),
                },
            },
            Request::Rekey { connection, ike } => {
                let command = match ike {
                    true => Command::RekeyIke(connection),
                    false => Command::RekeyChildren(connection),
                };
                self.input(Input::Command(command)).await?;
                Reply::Done {
                    text: String::new(),
                }
            }
            Request::Stop => {
                self.input(Input::Command(Command::Stop)).await?;
                Reply::Done {
                    text: String::new(),
                }
            }
        };
        // Whoever asked may be gone.
        let _ = asked.reply.send(reply);
        Ok(())
    }

    async fn take_down(&mut self, connection: String) -> anyhow::Result<Reply> {
        let text = format!("{connection} is down");
        self.input(Input::Command(Command::Down(connection.clone())))
            .await?;
        self.downed.insert(connection.clone());
        self.host
            .apply(&self.loaded, &self.node, self.clock.now(), &self.downed)
            .await?;
        if names(&self.loaded)
            .iter()
            .all(|name| self.downed.contains(name))
        {
            self.lifts = true;
            self.input(Input::Command(Command::Stop)).await?;
            return Ok(Reply::Ending { text });
        }
        Ok(Reply::Done { text })
    }

    /// One input, and all that follows from it.
    async fn input(&mut self, input: Input<'_>) -> anyhow::Result<()> {
        self.node.handle(input, self.clock.now());
        let mut is_changed = self.drain().await?;
        while let Some(answer) = self.host.next_answer() {
            is_changed |= self.answer(answer).await?;
        }
        if is_changed {
            self.host
                .apply(&self.loaded, &self.node, self.clock.now(), &self.downed)
                .await?;
            self.become_ready()?;
        }
        Ok(())
    }

    async fn answer(&mut self, answer: host::Answer) -> anyhow::Result<bool> {
        match answer {
            host::Answer::LocalAddress(remote) => {
                let local = watch::local_address_for(remote, self.loaded.daemon.fwmark);
                self.node
                    .handle(Input::LocalAddress { remote, local }, self.clock.now());
            }
            host::Answer::Report => {
                let reports = self.traffic(Direction::Inbound).await;
                self.node.handle(Input::Report(&reports), self.clock.now());
            }
        }
        self.drain().await
    }

    /// Carries out what the node wants. Whether routes may have to change.
    async fn drain(&mut self) -> anyhow::Result<bool> {
        let mut is_changed = false;
        loop {
            match self.node.poll() {
                Output::Datagram(path, bytes) => self.send(&path, &bytes),
                Output::Plane(direction, change) => self.change(direction, change)?,
                Output::Event(event) => is_changed |= self.on_event(event),
                Output::IkeKey(cookies, key) => {
                    if let Some((_, _, keys)) = &mut self.capture {
                        keys.add_ike(cookies.initiator.0, &key.0)?;
                    }
                }
                Output::WantsReport => self.host.wants(host::Answer::Report),
                Output::WantsLocalAddress(remote) => {
                    self.host.wants(host::Answer::LocalAddress(remote));
                }
                Output::Wait(deadline) => {
                    self.deadline = deadline;
                    return Ok(is_changed);
                }
            }
        }
    }

    fn send(&self, path: &Path, bytes: &[u8]) {
        if let Some((_, tap, _)) = &self.capture {
            tap.udp(path.local, path.remote, 0, bytes);
        }
        if let Err(error) = self.udp.send(path, bytes) {
            warn!(remote = %path.remote, "cannot send: {error}");
        }
    }

    fn change(&mut self, direction: Direction, change: Change) -> anyhow::Result<()> {
        if let (Change::Install(sa), Some((_, _, keys))) = (&change, &mut self.capture)
            && !keys.add_sa(sa)?
        {
            warn!("Wireshark opens no ESP of this suite: it stays closed in the capture");
        }
        Ok(self.planes.change(direction, change)?)
    }

    fn on_event(&mut self, event: Event) -> bool {
        let now = self.clock.now();
        if !report::is_of_a_stranger(&event) || self.quota.takes(now) {
            report::log(&event);
        }
        self.note(&event);
        let is_change = matches!(
            event,
            Event::InnerAddress { .. } | Event::ChildEstablished { .. } | Event::ChildClosed { .. }
        );
        self.host.on_event(&event);
        match event {
            Event::Stopped => self.is_stopped = true,
            Event::RetryScheduled { .. } => self.failed_attempts += 1,
            _ => {}
        }
        is_change
    }

    /// In the foreground, and once it was up, a station tries for ever. Whoever waits at a terminal
    /// for `--detach` to return is told why it does not come up.
    fn give_up(&mut self) -> anyhow::Result<()> {
        let is_awaited = !self.is_ready && self.options.ready.is_awaited();
        if !is_awaited || self.failed_attempts < ATTEMPTS_AWAITED {
            return Ok(());
        }
        let trouble = self.troubles.first_key_value();
        let reason = trouble.map_or("no way to the peer", |(_, reason)| reason);
        let line = format!("not up after {} attempts: {reason}", self.failed_attempts);
        self.options.ready.failed(&line)?;
        self.lifts = true;
        anyhow::bail!(line)
    }

    /// Says once that everything is up.
    fn become_ready(&mut self) -> anyhow::Result<()> {
        if self.is_ready || !self.is_up() {
            return Ok(());
        }
        self.is_ready = true;
        let line = match self.options.role {
            Role::Gateway => format!("listening for {}", names(&self.loaded).join(", ")),
            Role::Station => format!("up: {}", names(&self.loaded).join(", ")),
        };
        info!("{line}");
        Ok(self.options.ready.up(&line)?)
    }

    /// A gateway that listens is up; a station, when every connection that begins at once is.
    fn is_up(&self) -> bool {
        let status = self.node.status(self.clock.now());
        let is_awaited = |name: &str| {
            let connection = self
                .host
                .config()
                .connections
                .iter()
                .find(|c| c.name == name);
            connection.is_some_and(|connection| connection.start == Start::AtOnce)
        };
        let awaited = status.connections.iter().filter(|c| is_awaited(&c.name));
        let is_established = |c: &engine::node::ConnectionStatus| {
            c.sessions
                .iter()
                .any(|session| !session.children.is_empty())
        };
        awaited.into_iter().all(is_established)
    }

    async fn traffic(&self, direction: Direction) -> Vec<SaReport> {
        self.plane_report(direction)
            .await
            .map(|r| r.plane.associations)
            .unwrap_or_default()
    }

    async fn plane_report(&self, direction: Direction) -> Option<Report> {
        self.planes.report(direction).ok()?.await.ok()
    }
}
