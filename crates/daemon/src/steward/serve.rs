//! The steward itself: executes requests.

use std::future::pending;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::sys::signal::Signal;
use tokio::net::UnixStream;
use tokio::time::sleep_until;
use tracing::warn;

use super::allowed::Allowed;
use super::{Counts, REQUEST_BYTES_MAX, Reply, Request, Untaken, parse, read_frame, write_frame};
use crate::config::{self, Loaded, Mobility, Names};
use crate::control::client::none_runs;
use crate::control::sockets::Sockets;
use crate::dns::{Resolvers, anchors};
use crate::footprint::{self, FootprintFile};
use crate::nft::links::Links;
use crate::nft::watch::{Disturbance, Watch};
use crate::nft::{self, Forwarding};
use crate::options::Role;
use crate::routes::roaming::local;
use crate::routes::{self, Blocks, Desired, Own, Routes, lost, reach, watch};
use crate::{blocks, dns, files, leases, privileges, run, sys};

/// How long an earlier process of this name may take to end.
const PATIENCE: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(20);
/// Refusals, and tables that were put back, that are logged. All are counted.
const LOGGED_MAX: u64 = 20;
/// How often our tables are looked at, at most: a firewall service may change its own all the time.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// When a table that could not be put back is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// The smallest MTU that IP allows (RFC 791 §3.1).
const MTU_MIN: u16 = 68;

/// The options of the steward.
pub struct Order {
    /// Which command it is.
    pub role: Role,
    /// The configuration.
    pub config: PathBuf,
    /// Folder of footprints.
    pub runtime_dir: PathBuf,
    /// Folder of the former resolvers.
    pub state_dir: PathBuf,
}

/// Serves the process at the other end of standard input until it ends.
pub fn run(order: Order) -> anyhow::Result<()> {
    let input = io::stdin();
    let socket = input.as_fd().try_clone_to_owned()?;
    let socket = StdUnixStream::from(socket);
    if input.is_terminal() || socket.peer_addr().is_err() {
        anyhow::bail!("other commands of `caravan` start this by themselves");
    }
    socket.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // A signal to the whole process group ends the other process; the steward ends after it, and no
    // `nft` that it has started may end half done.
    sys::ignore(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])?;
    runtime.block_on(async {
        let mut socket = UnixStream::from_std(socket)?;
        match Server::open(order).await {
            Ok(server) => server.serve(&mut socket).await,
            Err(error) => {
                let text = format!("{error:#}");
                Ok(write_frame(&mut socket, &Reply::Failed { text }).await?)
            }
        }
    })
}

struct Server {
    order: Order,
    loaded: Loaded,
    allowed: Allowed,
    /// Read but not yet in force.
    read: Option<Loaded>,
    file: FootprintFile,
    /// Those of this host when we started.
    links: Links,
    /// The control sockets, once they exist.
    sockets: Option<Sockets>,
    routes: Option<Routes>,
    resolvers: Resolvers,
    /// Those that could not be taken.
    untaken: Option<Untaken>,
    /// What the packet filter of a mobile node outside was loaded with.
    filter: Option<String>,
    /// None: the kernel reports no changes of nftables.
    watch: Option<Watch>,
    /// None: the kernel reports no removed rules and routes.
    lost: Option<lost::Watch>,
    /// Nftables has changed since our tables were looked at.
    has_changed: bool,
    /// When we looked last what others had changed.
    looked: tokio::time::Instant,
    /// What another program has removed could not be put back.
    is_open: bool,
    put_back: u64,
    entries_put_back: u64,
    refused: u64,
    limits: Vec<String>,
    /// The network process has come so far that it wanted the host changed.
    has_applied: bool,
}

impl Server {
    /// Undoes the changes of a dead process, installs the blocks, and drops all unneeded rights.
    async fn open(order: Order) -> anyhow::Result<Self> {
        let loaded = config::load(&order.config, Names::Unasked)?;
        run::check_role(order.role, &order.config, &loaded)?;
        let names = loaded.names();
        let name = names.first().context("there is no [connections.NAME]")?;
        let mut file = held(&order.runtime_dir, &names, name).await?;
        nft::node::check_left(&loaded, &file)?;
        let state = leases::folder(&order.state_dir, name);
        if let Err(error) = dns::recall(&state, &mut file) {
            warn!("cannot restore the old resolvers: {error}");
        }
        footprint::undo(&mut file, Blocks::Stay).await?;
        file.update(|footprint| footprint.connections.clone_from(&names))?;
        let first = blocks::first(&loaded);
        routes::block(&first, &Own::of(&loaded), &mut file).await?;
        if order.role == Role::Station {
            blocks::bind(&mut file);
        }
        let outside = match &loaded.mobility {
            Some(Mobility::Firewall(setup)) => Some(setup.config.outside),
            _ => None,
        };
        let links = Links::now(outside).context("cannot list the interfaces of this host")?;
        if let Some(text) = nft::wall::all_outside(&loaded, &links) {
            warn!("{text}");
        }
        let mut filter = None;
        // Nobody knows yet where the node is, and what comes next can fail or take long.
        nft::node::follow((&loaded, &links, true), &mut filter, &mut file)?;
        let limits = privileges::confine_steward()?;
        let watch = Watch::open().inspect_err(|error| {
            warn!("nobody notices if another program removes our nftables tables: {error}");
        });
        let lost = lost::Watch::open().inspect_err(|error| {
            warn!("nobody notices if another program removes our rules and blocks: {error}");
        });
        Ok(Self {
            allowed: Allowed::new(&loaded),
            loaded,
            read: None,
            file,
            links,
            sockets: None,
            routes: None,
            resolvers: Resolvers::default(),
            untaken: None,
            filter,
            watch: watch.ok(),
            lost: lost.ok(),
            has_changed: false,
            looked: tokio::time::Instant::now(),
            is_open: false,
            put_back: 0,
            entries_put_back: 0,
            refused: 0,
            limits,
            has_applied: false,
            order,
        })
    }

    async fn serve(mut self, socket: &mut UnixStream) -> anyhow::Result<()> {
        let ready = Reply::Ready {
            blocks: self.file.footprint.blocks.clone(),
            limits: self.limits.clone(),
        };
        let (mut input, mut output) = socket.split();
        // If it is already gone, the next read finds out.
        let _ = write_frame(&mut output, &ready).await;
        loop {
            let mut read = pin!(read_frame(&mut input, REQUEST_BYTES_MAX));
            let read = loop {
                tokio::select! {
                    read = &mut read => break read,
                    () = self.disturbed() => self.keep().await,
                }
            };
            let request = match read {
                Ok(Some(frame)) => parse(&frame),
                Ok(None) => break,
                Err(fault) => {
                    // The start of the next frame is unknown.
                    self.refuse(&fault.to_string());
                    break;
                }
            };
            let (reply, is_over) = match request {
                Ok(Request::End { lifts }) => (self.end(lifts).await, true),
                Ok(request) => (self.obey(request).await, false),
                Err(text) => (self.refuse(&text), false),
            };
            if is_over {
                // The next process finds the footprint unlocked.
                self.file.close()?;
                let _ = write_frame(&mut output, &reply).await;
                self.sockets.iter().for_each(Sockets::remove);
                return Ok(());
            }
            if write_frame(&mut output, &reply).await.is_err() {
                break;
            }
        }
        // A start that fails says why itself.
        if self.has_applied {
            warn!("the network process is gone: undoing its changes to this host");
        }
        footprint::undo(&mut self.file, Blocks::Stay).await?;
        // The other process lacks the right to do it.
        self.sockets.iter().for_each(Sockets::remove);
        Ok(self.file.close()?)
    }

    /// Looks which links are inside, if at the start none had the firewall's address outside: it
    /// may have come since.
    fn find_links(&mut self) -> anyhow::Result<()> {
        if nft::wall::all_outside(&self.loaded, &self.links).is_none() {
            return Ok(());
        }
        if let Some(Mobility::Firewall(setup)) = &self.loaded.mobility {
            self.links = Links::now(Some(setup.config.outside))?;
        }
        Ok(nft::wall::keep(&self.loaded, &self.links, &mut self.file)?)
    }

    async fn obey(&mut self, request: Request) -> Reply {
        let done = match request {
            Request::Device { mtu } | Request::Resize { mtu } if mtu < MTU_MIN => {
                let text = format!("an MTU of {mtu} octets is too small: {MTU_MIN} at least");
                return self.refuse(&text);
            }
            Request::Device { mtu } => self.take_device(mtu).await,
            Request::Resize { mtu } => match &self.routes {
                Some(routes) => routes.set_mtu(mtu).await.map_err(Into::into),
                None => return self.refuse("there is no device yet"),
            },
            Request::Apply {
                mut desired,
                resolvers,
            } => {
                let local = self.allowed.visited().map(local).unwrap_or_default();
                if let Err(refusal) = self.allowed.check(&desired, &resolvers, &local) {
                    return self.refuse(&refusal.to_string());
                }
                if !resolvers.addresses.is_empty() {
                    desired.spare(&reach::near(&self.loaded.daemon.tun));
                }
                self.has_applied = true;
                match self.apply(&desired, resolvers).await {
                    Ok(Some(untaken)) => return Reply::DoneButResolvers { untaken },
                    applied => applied.map(drop),
                }
            }
            Request::Ways { peers, named } => {
                let table = &self.loaded.daemon;
                let ways = watch::ways(&peers, &named, &table.tun, table.fwmark);
                let own = reach::own_addresses(&table.tun);
                return Reply::Ways { ways, own };
            }
            Request::KeptOut => {
                let counts = Counts {
                    packets: nft::spoofed(&self.forwarding().table()),
                    refused: self.refused,
                    put_back: self.put_back,
                    entries_put_back: self.entries_put_back,
                    is_open: self.is_open,
                    has_trust_anchors: self.file.footprint.has_trust_anchors,
                };
                return Reply::KeptOut { counts };
            }
            Request::Read => match self.read() {
                Ok(texts) => return Reply::Read { texts },
                Err(error) => Err(error),
            },
            Request::Adopt => match self.read.take() {
                Some(loaded) => self.adopt(loaded),
                None => return self.refuse("nothing was read"),
            },
            Request::End { .. } => return self.refuse("the end was already requested"),
        };
        match done {
            Ok(()) => Reply::Done,
            Err(error) => Reply::Failed {
                text: format!("{error:#}"),
            },
        }
    }

    fn refuse(&mut self, text: &str) -> Reply {
        self.refused += 1;
        if self.refused <= LOGGED_MAX {
            warn!("refused, the configuration does not name it: {text}");
        }
        Reply::Refused {
            text: text.to_owned(),
        }
    }

    async fn take_device(&mut self, mtu: u16) -> anyhow::Result<()> {
        let routes = Routes::open(Own::of(&self.loaded), mtu).await?;
        self.routes = Some(routes);
        self.sockets = Sockets::found(&self.order.runtime_dir, &self.loaded.names());
        self.load_forwarding()
    }

    async fn apply(
        &mut self,
        desired: &Desired,
        resolvers: Resolvers,
    ) -> anyhow::Result<Option<Untaken>> {
        self.find_links()?;
        let routes = self.routes.as_mut().context("there is no device yet")?;
        let refusing = |file: &FootprintFile| {
            let footprint = &file.footprint;
            (footprint.blocks.clone(), footprint.rules.clone())
        };
        let before = refusing(&self.file);
        let is_outside = desired.roaming.is_outside;
        if is_outside {
            nft::node::follow(
                (&self.loaded, &self.links, true),
                &mut self.filter,
                &mut self.file,
            )?;
        }
        routes.apply(desired, &mut self.file).await?;
        if !is_outside {
            nft::node::follow(
                (&self.loaded, &self.links, false),
                &mut self.filter,
                &mut self.file,
            )?;
        }
        if self.order.role == Role::Station && before != refusing(&self.file) {
            blocks::bind(&mut self.file);
        }
        self.take_resolvers(resolvers);
        Ok(self.untaken.clone())
    }

    /// A failure is logged and told, and the next state tries again: the tunnel works without them.
    fn take_resolvers(&mut self, mut resolvers: Resolvers) {
        let is_new = resolvers != self.resolvers;
        if self.loaded.daemon.dns && (is_new || self.untaken.is_some()) {
            let name = self.forwarding().name;
            let state = leases::folder(&self.order.state_dir, &name);
            let tun = &self.loaded.daemon.tun;
            let taken = dns::take(&resolvers, tun, &state, &mut self.file);
            let untaken = taken.err().map(|error| Untaken {
                addresses: resolvers.addresses.clone(),
                reason: files::reason(&error),
            });
            if untaken != self.untaken
                && let Some(untaken) = &untaken
            {
                warn!("{untaken}");
            }
            self.untaken = untaken;
        }
        if !is_new {
            return;
        }
        if resolvers.trust_anchors != self.resolvers.trust_anchors
            && let Err(error) = anchors::take(&resolvers.trust_anchors, &mut self.file)
        {
            warn!("cannot write the keys of DNSSEC, so there are none: {error}");
            // Former ones must not stay. The next state tries again.
            if let Err(error) = anchors::give_back(&mut self.file) {
                warn!("cannot remove the former keys of DNSSEC: {error}");
            }
            resolvers.trust_anchors.clear();
        }
        self.resolvers = resolvers;
    }

    /// Both processes read the same files and find the same errors.
    fn read(&mut self) -> anyhow::Result<config::Texts> {
        let texts = config::Texts::read(&self.order.config)?;
        let loaded = config::load_from(&self.order.config, Names::Unasked, &texts)?;
        run::check_role(self.order.role, &self.order.config, &loaded)?;
        run::check_daemon(&self.loaded.daemon, &loaded.daemon)?;
        run::check_mobility(self.loaded.mobility.as_ref(), loaded.mobility.as_ref())?;
        self.read = Some(loaded);
        Ok(texts)
    }

    /// On an error the old configuration stays in force, as in the other process, which keeps
    /// requesting what that one names.
    fn adopt(&mut self, loaded: Loaded) -> anyhow::Result<()> {
        let former = core::mem::replace(&mut self.loaded, loaded);
        let followed = self.follow();
        if followed.is_err() {
            self.loaded = former;
            if let Err(error) = self.follow() {
                warn!("cannot return to the former configuration: {error:#}");
            }
        }
        followed
    }

    /// Applies everything that depends only on the configuration.
    fn follow(&mut self) -> anyhow::Result<()> {
        self.load_forwarding()?;
        let names = self.loaded.names();
        if let Some(sockets) = &mut self.sockets {
            sockets.follow(&names)?;
        }
        self.file
            .update(|footprint| footprint.connections = names)?;
        self.allowed = Allowed::new(&self.loaded);
        Ok(())
    }

    fn forwarding(&self) -> Forwarding {
        // The process keeps its first name.
        Forwarding::new(&self.file.name(), &self.loaded)
    }

    fn load_forwarding(&mut self) -> anyhow::Result<()> {
        nft::wall::keep(&self.loaded, &self.links, &mut self.file)?;
        let forwarding = self.forwarding();
        match forwarding.load(&mut self.file) {
            Err(error) if !forwarding.is_needed() => {
                warn!("unencrypted packets that belong in the tunnel are not blocked: {error}");
                Ok(())
            }
            result => Ok(result?),
        }
    }

    /// Returns when others may have changed what is ours, or it is to be tried again. Cancel-safe:
    /// the wait comes before the reports are taken.
    async fn disturbed(&mut self) {
        let pause = if self.is_open { TRY_AGAIN } else { LOOK_AGAIN };
        sleep_until(self.looked + pause).await;
        if self.is_open {
            return;
        }
        let (watch, lost) = (&self.watch, &mut self.lost);
        let tables = async {
            match watch {
                Some(watch) => watch.changed().await.err(),
                None => pending().await,
            }
        };
        let entries = async {
            match lost {
                Some(lost) => lost.removed().await,
                None => pending().await,
            }
        };
        let failed = tokio::select! {
            failed = tables => failed,
            () = entries => return,
        };
        self.has_changed = true;
        if let Some(error) = failed {
            warn!("nobody notices any more if our nftables tables are removed: {error}");
            self.watch = None;
        }
    }

    /// Puts back what another program has removed or changed.
    async fn keep(&mut self) {
        let was_open = core::mem::take(&mut self.is_open);
        self.keep_entries(was_open).await;
        if core::mem::take(&mut self.has_changed) || was_open {
            self.keep_tables(was_open);
        }
        self.looked = tokio::time::Instant::now();
    }

    /// Puts back rules and blocking routes.
    async fn keep_entries(&mut self, was_open: bool) {
        let Some(lost) = &mut self.lost else {
            return;
        };
        let is_logged = self.entries_put_back < LOGGED_MAX && !was_open;
        match lost.put_back(&self.file).await {
            Ok(0) => {}
            Ok(count) => {
                self.entries_put_back += count;
                if is_logged {
                    warn!(
                        "another program has removed {count} of our rules and blocking routes, as \
                         systemd-networkd does without ManageForeignRoutes=no and \
                         ManageForeignRoutingPolicyRules=no: they are put back"
                    );
                }
            }
            Err(error) => {
                self.is_open = true;
                if is_logged {
                    warn!("cannot put back what another program has removed: {error}");
                }
            }
        }
    }

    fn keep_tables(&mut self, was_open: bool) {
        for (table, disturbance) in nft::watch::disturbed(&mut self.file) {
            let is_changed = disturbance == Disturbance::Changed;
            let is_logged = self.put_back < LOGGED_MAX && !was_open;
            if is_logged && is_changed {
                warn!(
                    "another program has removed or changed the nftables table {table}, as `nft \
                     flush ruleset` and the reload of a firewall service do: putting it back"
                );
            }
            match self.put_back(&table) {
                Ok(()) => self.put_back += u64::from(is_changed),
                Err(error) => {
                    self.is_open = true;
                    if is_logged {
                        warn!("cannot put {table} back, and this host is open: {error}");
                    }
                }
            }
        }
    }

    fn put_back(&mut self, table: &str) -> Result<(), nft::NftError> {
        let forwarding = self.forwarding();
        if table == forwarding.table() {
            return forwarding.load(&mut self.file);
        }
        if nft::names::is_bound(table) {
            return nft::bound::keep(&mut self.file);
        }
        if self.filter.is_none() {
            return nft::wall::keep(&self.loaded, &self.links, &mut self.file);
        }
        let outside = (&self.loaded, &self.links);
        nft::node::put_back(outside, &mut self.filter, &mut self.file)
    }

    async fn end(&mut self, lifts: bool) -> Reply {
        let blocks = if lifts { Blocks::Lifted } else { Blocks::Stay };
        match footprint::undo(&mut self.file, blocks).await {
            Ok(()) => Reply::Done,
            Err(error) => Reply::Failed {
                text: format!("{error:#}"),
            },
        }
    }
}

/// The footprint, once an earlier process of this name has ended. One that answers does not end: to
/// wait for that would bring up again what the user takes down then.
async fn held(runtime_dir: &Path, names: &[String], name: &str) -> anyhow::Result<FootprintFile> {
    let until = Instant::now() + PATIENCE;
    loop {
        match FootprintFile::open(runtime_dir, name) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                none_runs(runtime_dir, names)?;
                if Instant::now() >= until {
                    anyhow::bail!("a connection named {name:?} begins or ends just now");
                }
                tokio::time::sleep(TICK).await;
            }
            opened => {
                return opened.with_context(|| {
                    let folder = runtime_dir.display();
                    format!("cannot record the changes of {name} in {folder} (--runtime-dir)")
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::server::ControlServer;

    #[tokio::test]
    async fn whoever_waits_for_the_footprint_gives_up_once_its_holder_answers() {
        let name = format!("caravan-held-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let names = ["home".to_owned()];
        let holder = FootprintFile::open(&folder, "home").expect("a footprint");
        let begun = Instant::now();
        let waits = held(&folder, &names, "home");
        let begins = async {
            tokio::time::sleep(2 * TICK).await;
            ControlServer::bind(&folder, &names).expect("a socket")
        };
        let (waited, server) = tokio::join!(waits, begins);
        let text = waited.err().expect("refused").to_string();
        assert!(text.contains("\"home\" is already running"), "{text}");
        assert!(begun.elapsed() < PATIENCE);
        // Of a process that ends, it takes the footprint over.
        drop(server);
        let ends = async {
            tokio::time::sleep(2 * TICK).await;
            drop(holder);
        };
        let (taken, ()) = tokio::join!(held(&folder, &names, "home"), ends);
        drop(taken.expect("it has ended"));
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
