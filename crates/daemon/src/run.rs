//! The main loop of `caravan gateway` and `caravan up`: one thread that owns the node and passes
//! its decisions to the packet threads, the host and the user.
//!
//! `begin.rs` sets up and drops rights; `outputs.rs` executes the node's outputs; `host.rs` derives
//! routes, resolvers and nftables from the node's state, and the task of `keeper.rs` applies them;
//! `inbox.rs` lets messages wait for a missing route;
//! `readiness.rs` decides when all is up, or gives up; `requests.rs` handles the control socket;
//! `reload.rs` applies a changed configuration; `report.rs` answers `status` and writes the log,
//! `sessions.rs` logs who was connected.

mod begin;
mod elsewhere;
mod entropy;
mod former;
mod host;
mod inbox;
mod keeper;
mod leave;
mod mobility;
mod outputs;
mod quota;
mod radius;
mod reached;
mod readiness;
mod reload;
mod report;
mod requests;
mod sessions;
mod setup;
mod unsent;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use engine::config::Start;
use engine::node::{Command, Input, Node};
use engine::plane::{InboundChange, OutboundChange};
use engine::sa::Via;
use engine::time::{Calendar, Deadline};
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};
use wire::mip4::PORT as MOBILE_PORT;

use crate::blocks;
use crate::capture::{Capture, Keys, Tap};
use crate::config::{Loaded, connection_names};
use crate::control::server::{Call, ControlServer};
use crate::control::{ControlError, Reply};
use crate::count_file::CountFile;
use crate::interfaces::idle_addresses;
use crate::kept_file::KeptFile;
use crate::options::RunOptions;
use crate::peer_file::PeerFile;
use crate::planes::{Clock, News, Planes};
use crate::routes::watch;
use crate::service::{self, Attendant, Signalled, Signals};
use crate::tun::Tun;
use crate::udp::UdpSockets;
use crate::version_file::VersionFile;
use begin::Confined;
use entropy::Entropy;
use host::Host;
use inbox::Inbox;
use keeper::KeeperEvent;
pub use mobility::surroundings::misplaced;
use mobility::{Input as MobileInput, MobilePart};
use quota::Quota;
use radius::RadiusSockets;
use reached::Lasting;
use readiness::Progress;
use reload::Reloads;
pub use reload::{check_daemon, check_mobility};
pub use setup::check_role;

/// How often the node gets the calendar time, which certificates are checked against, and entropy.
/// In an SA without packets for this time, or up to twice as long, the keys rest.
const CALENDAR_INTERVAL: Duration = Duration::from_secs(60);
/// Nobody could undo changes later, so the tunnels end, and blocks stay.
const UNATTENDED: &str = "the process that changes this host (caravan steward) is gone: the \
                          tunnels end, `caravan down NAME` or the next start undoes its changes";
/// Headroom for the largest overhead of any suite in an outer packet.
const OVERHEAD_BYTES: u16 = 100;

/// Runs until a signal or the user ends it.
pub fn run(options: RunOptions) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let place = (options.config.clone(), options.runtime_dir.clone());
    let is_told = options.ready.is_awaited();
    let ended = runtime.block_on(async {
        let mut hang_up = service::hang_ups()?;
        let attendant = Attendant::open(options.is_attended)?;
        let mut process = Process::open(options, &mut hang_up).await?;
        let ended = process.serve(Signals::new(hang_up)?, attendant).await;
        let closed = process.close().await;
        if let (Err(_), Err(error)) = (&ended, &closed) {
            warn!("{error:#}");
        }
        ended.and(closed)
    });
    // Does not wait for a name that is still being resolved.
    runtime.shutdown_background();
    // In the background, the terminal gets the error too.
    let is_another = ended.as_ref().is_err_and(|error| {
        let found = error.downcast_ref::<ControlError>();
        matches!(found, Some(ControlError::AlreadyRuns { .. }))
    });
    if ended.is_err() && !is_told && !is_another {
        let names = connection_names(&place.0).unwrap_or_default();
        if let Some(sentence) = blocks::standing(&place.1, &names) {
            warn!("{sentence}");
        }
    }
    ended
}

/// Everything that one process holds.
struct Process {
    options: RunOptions,
    loaded: Loaded,
    clock: Clock,
    node: Node,
    /// Its part in Mobile IPv4, until it is taken down.
    mobility: Option<MobilePart>,
    /// How far n of SKIP has come with each peer.
    counts: CountFile,
    /// The same where it could not be stored: number and bound.
    unstored: BTreeMap<String, (u32, u32)>,
    /// Clients that may not use IKEv1 any more.
    upgraded: VersionFile,
    /// Secrets that outlive the process.
    secrets: KeptFile,
    /// What the part wants of the node of IKE.
    owed: Vec<Command>,
    /// The part waits for the inbound plane's report.
    owes_report: bool,
    planes: Planes,
    inbox: Inbox,
    udp: Arc<UdpSockets>,
    tun: Arc<Tun>,
    host: Host,
    asked: mpsc::Receiver<Call>,
    control: ControlServer,
    capture: Option<(Capture, Tap, Keys)>,
    confined: Confined,
    /// Connections that the user took down: their blocks are removed.
    downed: BTreeSet<String>,
    reloads: Reloads,
    /// Answers to the user that wait until the desired state of this number is applied.
    late: Vec<(u64, oneshot::Sender<Reply>, Reply)>,
    deadline: Option<Deadline>,
    calendar_at: tokio::time::Instant,
    /// It answers commands, and the first desired state is applied.
    is_serving: bool,
    is_ready: bool,
    progress: Progress,
    entropy: Entropy,
    /// At a gateway, the addresses of its peers.
    peers: PeerFile,
    /// Who has connected last, by connection.
    came: BTreeMap<String, SocketAddr>,
    /// Addresses of ours without a carrier at which there are sessions.
    lasting: Lasting,
    /// The limit on log lines that strangers cause.
    quota: Quota,
    radius: RadiusSockets,
    is_stopped: bool,
    /// `down` took the last connection down: the blocks are removed too.
    lifts: bool,
}

impl Process {
    async fn serve(
        &mut self,
        mut signals: Signals,
        mut attendant: Attendant,
    ) -> anyhow::Result<()> {
        let mut changes = watch::changes()?;
        if let Some(secrets) = self.secrets.read() {
            self.input(Input::Kept(&secrets.0)).await?;
        }
        let marks = self.upgraded.marks();
        self.input(Input::Command(Command::Upgraded(marks))).await?;
        self.tell_calendar().await?;
        self.begin().await?;
        self.remind().await?;
        self.host.ask_ways(&self.node);
        self.update_host();
        self.mobile_input(&MobileInput::Look)?;
        while !self.is_stopped {
            self.give_up()?;
            self.report_to_part().await?;
            self.obey_part().await?;
            self.keep_peers();
            let wake = self.wake_at();
            tokio::select! {
                news = self.inbox.next(self.host.misses_routes()) => {
                    let Some(news) = news else { anyhow::bail!("the packet threads are gone") };
                    self.on_news(news).await?;
                }
                (from, datagram) = self.radius.hear() => {
                    self.input(Input::Radius(from, &datagram)).await?;
                }
                Some(asked) = self.asked.recv() => self.on_call(asked).await?,
                // Which addresses lead to each peer, and from which do our own programs speak?
                Some(()) = changes.recv() => {
                    self.host.ask_ways(&self.node);
                    self.mobile_input(&MobileInput::Look)?;
                }
                heard = MobilePart::hear(self.mobility.as_ref()) => {
                    let (number, frame) = heard?;
                    self.mobile_input(&MobileInput::Frame(number, &frame))?;
                }
                event = self.host.next_event() => self.on_keeper(event).await?,
                Some(loaded) = self.reloads.next() => self.on_reloaded(loaded).await?,
                signalled = signals.next() => match signalled {
                    Signalled::Stop => {
                        self.leave().await?;
                        self.input(Input::Command(Command::Stop)).await?;
                    }
                    Signalled::Reload => self.reload(None),
                },
                () = attendant.ended() => {
                    for name in self.loaded.names() {
                        self.take_down(name).await?;
                    }
                }
                () = tokio::time::sleep_until(wake) => {
                    if tokio::time::Instant::now() >= self.calendar_at {
                        self.tell_calendar().await?;
                    }
                    self.mobile_input(&MobileInput::Wake)?;
                    self.input(Input::Wake).await?;
                }
            }
        }
        self.store_counts()
    }

    /// Starts the connections. A client requests its last inner address again. Without one it gets
    /// an address at once, even if it waits for traffic: the first packets need it as their source.
    async fn begin(&mut self) -> anyhow::Result<()> {
        for connection in self.loaded.engine.connections.clone() {
            let wants = connection.wants_inner;
            let is_lent = !connection.remote_addrs.is_empty() && (wants.v4 || wants.v6);
            if !is_lent || self.downed.contains(&connection.name) {
                continue;
            }
            let name = connection.name.clone();
            let had = self.host.begin(&connection);
            if had.is_empty() && connection.start == Start::OnTraffic {
                self.input(Input::Command(Command::Up(name))).await?;
                continue;
            }
            for address in had {
                let command = Command::AskFor(name.clone(), address);
                self.input(Input::Command(command)).await?;
            }
        }
        Ok(())
    }

    /// Reminds the peers of an earlier process that was killed.
    async fn remind(&mut self) -> anyhow::Result<()> {
        let peers = self.peers.left();
        if peers.is_empty() {
            return Ok(());
        }
        info!(
            peers = peers.len(),
            "former peers are told that this gateway has restarted"
        );
        self.input(Input::Command(Command::Remind(peers))).await
    }

    /// A full disk ends no tunnel.
    fn keep_peers(&mut self) {
        let now = tokio::time::Instant::now();
        if self.peers.due().is_none_or(|due| due > now) {
            return;
        }
        if let Err(error) = self.peers.write(&self.node.peer_paths())
            && self.quota.takes(self.clock.now())
        {
            warn!("cannot store the addresses of peers: {error}");
        }
    }

    /// Undoes our changes to the host. Blocking routes stay unless the user took us down.
    async fn close(self) -> anyhow::Result<()> {
        service::notify(service::ServiceState::Stopping);
        let filter = self.mobility.as_ref().and_then(MobilePart::standing);
        let Self {
            planes,
            host,
            capture,
            lifts,
            late,
            asked,
            reloads,
            // Closed last: `down` waits for it.
            control,
            ..
        } = self;
        // Requests that nobody will handle get their answer too.
        drop((asked, reloads));
        planes.stop();
        let recorded = capture.map_or(Ok(()), |(capture, tap, _)| {
            drop(tap);
            let path = capture.path().to_owned();
            let context = || format!("cannot finish {}", path.display());
            capture.finish().with_context(context)
        });
        if !lifts {
            for sentence in host.blocking().into_iter().chain(filter) {
                info!("{sentence}");
            }
        }
        // A full disk must not keep our changes on the host.
        let closed = host.close(lifts).await;
        for (_, asked, reply) in late {
            let _ = asked.send(match &closed {
                Ok(()) => reply,
                Err(error) => Reply::Failed {
                    text: format!("{error:#}"),
                },
            });
        }
        control.finish().await;
        closed.and(recorded)
    }

    fn wake_at(&self) -> tokio::time::Instant {
        let now = tokio::time::Instant::now();
        let due = self
            .deadline
            .map(|deadline| now + deadline.at.since(self.clock.now()));
        let mobile = self.mobility.as_ref().and_then(MobilePart::deadline);
        let mobile = mobile.map(|deadline| now + deadline.at.since(self.clock.now()));
        let given_up = self.patience_left().map(|left| now + left);
        let others = [due, mobile, given_up, self.peers.due()]
            .into_iter()
            .flatten();
        others.fold(self.calendar_at, tokio::time::Instant::min)
    }

    async fn tell_calendar(&mut self) -> anyhow::Result<()> {
        self.calendar_at = tokio::time::Instant::now() + CALENDAR_INTERVAL;
        self.planes.rest()?;
        self.quota.tell();
        quota::tell_left_out(self.node.lines_left_out());
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let calendar = Calendar(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        self.progress.calendar = calendar;
        if let Some(part) = &mut self.mobility {
            let clock = self.clock.now();
            part.set_clock(clock);
            self.planes
                .change_inbound(InboundChange::Calendar(calendar, clock))?;
            self.planes
                .change_outbound(OutboundChange::Calendar(calendar, clock))?;
            self.store_counts()?;
        }
        self.input(Input::Calendar(calendar)).await?;
        // What the host refused is tried again.
        if self.host.forget_refusal() {
            self.update_host();
        }
        match self.entropy.draw() {
            Ok(octets) => self.input(Input::Entropy(&octets)).await,
            // The entropy so far suffices.
            Err(error) => {
                warn!("{error:#}");
                Ok(())
            }
        }
    }

    async fn on_news(&mut self, news: News) -> anyhow::Result<()> {
        match news {
            News::Message { path, bytes } if path.via == Via::UdpWithType => {
                self.mobile_message(&path, &bytes)
            }
            News::Notice(notice) if mobility::is_about(&notice) => {
                self.mobile_input(&MobileInput::Notice(&notice))
            }
            News::Message { path, bytes } => self.input(Input::Datagram(path, &bytes)).await,
            News::Notice(notice) => self.input(Input::Notice(notice)).await,
            News::Unreachable { remote, what } => {
                if let (IpAddr::V4(host), MOBILE_PORT) = (remote.ip(), remote.port()) {
                    self.mobile_input(&MobileInput::Unreachable(host, what))?;
                }
                self.on_unreachable(remote, what);
                Ok(())
            }
            News::Failed { direction, reason } => {
                anyhow::bail!("the {direction:?} packet thread ended: {reason}")
            }
        }
    }

    /// Handles an event of the task that applies the host's desired state.
    async fn on_keeper(&mut self, event: KeeperEvent) -> anyhow::Result<()> {
        match event {
            KeeperEvent::Applied(number) => {
                self.host.on_applied();
                self.reloads.host.take_if(|it| *it <= number);
                for (waits_for, asked, reply) in core::mem::take(&mut self.late) {
                    match waits_for <= number {
                        // Whoever asked may be gone.
                        true => drop(asked.send(reply)),
                        false => self.late.push((waits_for, asked, reply)),
                    }
                }
                self.mobile_applied()?;
                self.become_ready()
            }
            KeeperEvent::Resolvers(untaken) => {
                if let Some(line) = self.host.on_resolvers(untaken) {
                    self.progress.say(line);
                }
                Ok(())
            }
            KeeperEvent::Refused(number, error) => self.on_host_refused(number, error).await,
            KeeperEvent::NotFound(error) => Err(error.context("cannot find our addresses")),
            KeeperEvent::StewardGone => anyhow::bail!("{UNATTENDED}"),
            KeeperEvent::Ways(mut ways, own) => {
                self.lead_outside(&mut ways);
                let mark = self.loaded.daemon.fwmark;
                self.udp.exits().renew(&ways, mark);
                if self.host.take_ways(ways.clone(), own.clone()) {
                    self.progress.unsent.addresses_changed();
                }
                self.update_host();
                let used = self.used();
                let reached = self.lasting.reached(own, idle_addresses(), used);
                self.input(Input::Addresses(reached)).await?;
                self.input(Input::Ways(ways)).await
            }
        }
    }

    /// The addresses of ours that sessions use.
    fn used(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let paths = self.node.peer_paths().into_iter();
        paths.map(|path| path.local.ip())
    }

    /// Looks at our addresses again if the last session has left one without a carrier.
    fn leave_idle(&mut self) {
        if self.lasting.is_any() {
            let used = self.used();
            if self.lasting.is_left(used) {
                self.host.ask_ways(&self.node);
            }
        }
    }

    /// If the routes to new peers without a pool address are missing, these peers are disconnected,
    /// and the host decides about the state without them. Otherwise it tries again once another
    /// state is wanted, or when it tells the calendar: nothing that one peer causes may end the
    /// tunnels of the others. Before all is up the process ends, unless a reload wanted what the
    /// host refused and nothing was applied since.
    async fn on_host_refused(&mut self, number: u64, error: anyhow::Error) -> anyhow::Result<()> {
        if !self.is_ready && self.reloads.host.is_none() && !self.host.misses_routes() {
            return Err(error);
        }
        warn!("the host is not as the configuration wants it: {error:#}");
        let unroutable = self.host.on_refused(number, format!("{error:#}"));
        if !unroutable.is_empty() {
            warn!("{}", disconnected(&unroutable));
            self.input(Input::Unroutable(&unroutable)).await?;
        }
        for (waits_for, asked, reply) in core::mem::take(&mut self.late) {
            if waits_for > number {
                self.late.push((waits_for, asked, reply));
                continue;
            }
            // What was asked for may have been done all the same, as far as the engine is
            // concerned.
            let done = match reply {
                Reply::Done { text } => format!("{text}; but "),
                _ => String::new(),
            };
            let text = format!("{done}{error:#}");
            let _ = asked.send(Reply::Failed { text });
        }
        Ok(())
    }

    /// Answers the user once the newest desired state is applied.
    fn reply_late(&mut self, asked: oneshot::Sender<Reply>, reply: Reply) {
        match self.host.is_up_to_date() {
            true => drop(asked.send(reply)),
            false => self.late.push((self.host.wanted(), asked, reply)),
        }
    }
}

/// Peers that one line of the log names.
const NAMED_MAX: usize = 8;

/// Says which peers are disconnected.
fn disconnected(peers: &BTreeSet<IpAddr>) -> String {
    let named: Vec<String> = peers
        .iter()
        .take(NAMED_MAX)
        .map(ToString::to_string)
        .collect();
    let more = match peers.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = named.join(", ");
    format!("the routes to {named}{more} are missing: these peers are disconnected")
}
