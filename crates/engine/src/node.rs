//! The control plane: every IKE exchange, connection, lease and timer of one client or gateway.
//!
//! One thread owns a [`Node`]: give it an [`Input`], then drain [`Output`]s until `Wait`. It never
//! sees a packet: `docs/design/control-and-packets.md` says why.
//!
//! A *session* is one ISAKMP SA, or one IKE SA of IKEv2 with its successors, from its first message
//! on (`session.rs`); `ike.rs` makes both versions alike. A *child* is what one session protects
//! for one pair of selectors, with its successors (`children.rs`). A *station* is a connection that
//! we initiate and keep up (`stations.rs`).

mod accounts;
mod away;
mod children;
mod crash;
mod departures;
mod duplicates;
mod end_cause;
mod event;
mod farewells;
mod first_message;
mod half_open;
mod hints;
mod ike;
mod ikev2;
mod kept;
mod last_answers;
mod leases;
mod liveness;
mod messages;
mod mobike;
mod outputs;
mod proof;
mod quota;
mod radius;
mod reminders;
mod resumption;
mod revocation;
mod roaming;
mod session;
mod session_id;
mod sessions;
mod silence;
mod stations;
mod status;
mod stay;
#[cfg(test)]
mod tests;
mod timers;
mod upgraded;
mod versions;
mod ways;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crypto::rand::{Seed, Stream};
use wire::ikev2::Gateway;

pub use crate::ike::{IKE_PORT, NAT_T_PORT, SOCKETS, via_of};
use crate::ike::{MessageKeys, Spis};
pub use end_cause::EndCause;
pub use event::Event;
pub use outputs::Cause;
pub use reminders::PEER_PATHS_MAX;
pub use status::{ChildStatus, ConnectionState, ConnectionStatus, SessionStatus, Status};
pub use stay::{Stay, StayId, Summary, Traffic};
pub use upgraded::UPGRADED_MAX;
pub use ways::{Way, Ways};

use crate::config::{Config, Connection, Start};
use crate::counters::DropCounters;
use crate::identity::{Identity, Mark};
use crate::ikev1::decoy::Decoys;
use crate::ikev1::fragments::Assembly;
use crate::ikev2::cookie::Cookies;
use crate::plane::{InboundChange, Notice, OutboundChange, SaReport};
use crate::quotas::Quotas;
use crate::rate::Bucket;
use crate::sa::{ChildId, Path, Secret};
use crate::time::{Calendar, Deadline, Instant};
use crate::work::Work;

use accounts::Accounts;
use away::Away;
use children::Children;
use departures::Departures;
use duplicates::Duplicates;
use farewells::Farewells;
use half_open::{Familiar, HalfOpen};
use kept::Kept;
use last_answers::LastAnswers;
use leases::Leases;
use liveness::Reports;
use outputs::Outputs;
use reminders::Reminders;
use sessions::Sessions;
use stations::Stations;
use timers::{Timer, Timers};
use upgraded::Upgraded;
use versions::Versions;

/// What can happen to a node.
pub enum Input<'a> {
    /// A UDP payload that is not ESP: an IKE message. If the path has the non-ESP marker, it is
    /// still on it (RFC 3948 §2.2).
    Datagram(Path, &'a [u8]),
    /// From a packet plane.
    Notice(Notice),
    /// What the inbound plane has received, in answer to [`Output::WantsReport`]: signs of life.
    Report(&'a [SaReport]),
    /// From the user.
    Command(Command),
    /// Our own addresses and the routes to [`Node::peers`], at the beginning and after each change,
    /// at once. The node itself limits how often it follows.
    Ways(Ways),
    /// All addresses of this host that peers may reach, before the ways: MOBIKE tells them.
    Addresses(BTreeSet<IpAddr>),
    /// This host refuses the routes to these addresses. Peers there that have no pool address are
    /// disconnected, because answers to them would leave unencrypted.
    Unroutable(&'a BTreeSet<IpAddr>),
    /// The datagrams of the previous inputs have left: waiting for their answers starts here. A
    /// host that computes in no time need not send this.
    Departed,
    /// A deadline came.
    Wake,
    /// A new configuration; tunnels whose connection did not change stay up.
    Configure(Arc<Config>),
    /// Entropy of the operating system, from time to time. Everything drawn afterwards depends on
    /// it. A simulation gives none.
    Entropy(&'a [u8; 32]),
    /// What an earlier process has kept ([`Output::Keep`]), before anything else.
    Kept(&'a [u8]),
    /// Calendar time, from time to time and before certificates are checked.
    Calendar(Calendar),
    /// A datagram of a server of RADIUS, from the address that is configured.
    Radius(SocketAddr, &'a [u8]),
}

/// A command of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Bring a connection up.
    Up(String),
    /// Request this inner address when a connection is set up.
    AskFor(String, IpAddr),
    /// Take it down: deletes are sent.
    Down(String),
    /// End a connection's sessions with the peer of this identity, as in [`SessionStatus::peer`]:
    /// deletes are sent. It may reconnect.
    End(String, Identity),
    /// Peers had these paths when an earlier process ended ([`Node::peer_paths`]). Each gets one
    /// hint, so that an idle peer probes us at once. The paths need not be proven.
    Remind(Vec<Path>),
    /// Renew phase 1 of a connection.
    RekeyIke(String),
    /// Renew the children of a connection.
    RekeyChildren(String),
    /// Peers that used IKEv2 while an earlier process ran ([`Event::Upgraded`]).
    Upgraded(Vec<Mark>),
    /// These may use IKEv1 again.
    Forget(Vec<Mark>),
    /// Send peers that can go elsewhere to this gateway (RFC 5685); none: serve them again.
    Drain(Option<Gateway>),
    /// Everything down: deletes are sent, then [`Event::Stopped`] when the peers have answered, or
    /// after a few seconds.
    Stop,
}

/// An output for the caller to execute.
pub enum Output {
    /// Send a UDP payload, the non-ESP marker included where the path has it.
    Datagram(Path, Vec<u8>),
    /// Tell the inbound plane.
    Inbound(InboundChange),
    /// Tell the outbound plane.
    Outbound(OutboundChange),
    /// A past fact for logs, status and the rest of the program, and who caused it.
    Event(Event, Cause),
    /// The keys of a new IKE SA's messages, for decrypting a capture.
    IkeKeys(Spis, MessageKeys),
    /// Send a datagram to a server of RADIUS. Its answer is an [`Input::Radius`].
    Radius(SocketAddr, Vec<u8>),
    /// Write these octets where only we can read, in place of the former ones: the next process
    /// gives them to its node as [`Input::Kept`].
    Keep(Secret),
    /// Answer with [`Input::Report`].
    WantsReport,
    /// Answer with [`Input::Ways`]: a station starts, and the way to its peer is unknown.
    WantsAddresses,
    /// Nothing more for now: wake me at this deadline.
    Wait(Option<Deadline>),
}

/// The control plane of a client or gateway.
pub struct Node {
    config: Arc<Config>,
    random: Stream,
    /// The last calendar time, and when it was given.
    calendar: (Calendar, Instant),
    outputs: Outputs,
    sessions: Sessions,
    children: Children,
    stations: Stations,
    ways: Ways,
    /// All our addresses, as far as we were told.
    own: BTreeSet<IpAddr>,
    leases: Leases,
    duplicates: Duplicates,
    accounts: Accounts,
    timers: Timers,
    assembly: Assembly,
    next_fragment_id: u16,
    half_open: HalfOpen,
    familiar: Familiar,
    /// Hints to senders of what we do not have.
    hints: Bucket,
    /// First messages of IKEv2 that we have looked at and refused.
    refusals: Bucket,
    versions: Versions,
    /// Peers that may not use IKEv1 any more.
    upgraded: Upgraded,
    /// Keys for answers to unknown identities.
    decoys: Decoys,
    /// Secrets of what IKEv2 asks for under load.
    cookies: Cookies,
    /// Secrets that outlive the process.
    kept: Kept,
    away: Away,
    reminders: Reminders,
    quotas: Quotas,
    radius: radius::Radius,
    drops: DropCounters,
    work: Work,
    is_stopping: bool,
    reports: Reports,
    departures: Departures,
    /// Sessions that are over, whose peers do not know yet.
    farewells: Farewells,
    last_answers: LastAnswers,
}

impl Node {
    /// A new node. Drain it with [`Node::poll`] to start its connections.
    pub fn new(config: Config, seed: &Seed) -> Self {
        let mut node = Self {
            config: Arc::new(config),
            random: seed.stream("node", 0),
            calendar: (Calendar::default(), Instant(0)),
            outputs: Outputs::new(),
            sessions: Sessions::default(),
            children: Children::default(),
            stations: Stations::default(),
            ways: Ways::default(),
            own: BTreeSet::new(),
            leases: Leases::default(),
            duplicates: Duplicates::default(),
            accounts: Accounts::default(),
            timers: Timers::default(),
            assembly: Assembly::default(),
            next_fragment_id: 0,
            half_open: HalfOpen::default(),
            familiar: Familiar::default(),
            hints: Bucket::default(),
            refusals: Bucket::default(),
            versions: Versions::default(),
            upgraded: Upgraded::default(),
            decoys: Decoys::new(seed),
            cookies: Cookies::default(),
            kept: Kept::new(seed),
            away: Away::default(),
            reminders: Reminders::default(),
            quotas: Quotas::default(),
            radius: radius::Radius::default(),
            drops: DropCounters::default(),
            work: Work::default(),
            is_stopping: false,
            reports: Reports::default(),
            departures: Departures::default(),
            farewells: Farewells::default(),
            last_answers: LastAnswers::default(),
        };
        node.configure_radius(Instant::default());
        node.open_stations(Instant::default());
        node
    }

    /// Takes one input. The outputs must have been drained to `Wait` before; asserted.
    pub fn handle(&mut self, input: Input<'_>, now: Instant) {
        self.outputs.begin();
        if !matches!(input, Input::Departed) {
            self.departures.begin(now);
        }
        match input {
            Input::Departed => self.on_departed(now),
            Input::Datagram(path, payload) => self.on_datagram(path, payload, now),
            Input::Notice(notice) => self.on_notice(notice, now),
            Input::Report(report) => self.on_report(report, now),
            Input::Command(command) => self.on_command(command, now),
            Input::Ways(ways) => self.on_ways(ways, now),
            Input::Addresses(own) => self.on_addresses(own, now),
            Input::Unroutable(peers) => self.end_unroutable(peers, now),
            Input::Wake => self.on_wake(now),
            Input::Configure(config) => self.on_configure(config, now),
            Input::Entropy(octets) => {
                self.random.stir(octets);
                self.kept.stir(octets);
            }
            Input::Kept(octets) => self.take_kept(octets),
            Input::Calendar(calendar) => self.calendar = (calendar, now),
            Input::Radius(from, datagram) => self.on_radius(from, datagram, now),
        }
    }

    /// The next thing to do; drain until `Wait`.
    pub fn poll(&mut self) -> Output {
        let next = self.outputs.pop();
        next.unwrap_or_else(|| Output::Wait(self.timers.next()))
    }

    /// Messages dropped, by reason.
    pub fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// Work done so far.
    pub fn work(&self) -> &Work {
        &self.work
    }

    fn on_notice(&mut self, notice: Notice, now: Instant) {
        let sender = self.sender_of(&notice);
        self.outputs.blame(sender);
        match notice {
            Notice::PathMoved { child, path, bytes } => self.move_child(child, path, bytes, now),
            Notice::SoftLimit { child } => self.rekey_child(child, now),
            Notice::Acquire { child } => self.acquire(child, now),
            Notice::InboundUsed { child, spi } => self.inbound_used(child, spi),
            Notice::OutboundUsed { child, at } => self.outbound_used(child, at),
            Notice::UnknownSpi { path, spi } => self.on_unknown_spi(path, spi, now),
            Notice::LargeUnanswered { child } => self.large_unanswered(child, now),
            Notice::PathShrank { child, mtu } => self.path_shrank(child, mtu),
            Notice::Removed(direction, counted) => self.on_removed(direction, &counted),
            // No exchange makes SAs of SKIP: their owner is another.
            Notice::StoreN { .. } | Notice::HeardN { .. } => {}
        }
    }

    fn on_command(&mut self, command: Command, now: Instant) {
        match command {
            Command::Up(name) => self.bring_up(&name, now),
            Command::AskFor(name, address) => self.ask_for(&name, address),
            Command::Down(name) => self.take_down(&name, now),
            Command::End(name, peer) => self.end_peer(&name, &peer, now),
            Command::Remind(places) => self.remind(places, now),
            Command::RekeyIke(name) => self.rekey_connection(&name, now),
            Command::RekeyChildren(name) => {
                let children: Vec<ChildId> = self
                    .children
                    .values()
                    .filter(|child| child.connection.name == name && child.current.is_some())
                    .map(|child| child.id)
                    .collect();
                children
                    .into_iter()
                    .for_each(|child| self.rekey_child(child, now));
            }
            Command::Upgraded(marks) => drop(self.upgraded.add(&marks)),
            Command::Forget(marks) => self.upgraded.forget(&marks),
            Command::Drain(to) => self.drain(to, now),
            Command::Stop => self.stop(now),
        }
    }

    fn on_wake(&mut self, now: Instant) {
        self.timers.fire_from(now);
        while let Some(timer) = self.timers.pop(now) {
            let owner = self.owner_of(timer);
            self.outputs.blame(owner);
            match timer {
                Timer::Session(id) => self.on_session_timer(id, now),
                Timer::Child(id) => self.on_child_timer(id, now),
                Timer::Station(index) => self.on_station_timer(index as usize, now),
                Timer::Accounts => self.on_accounts_timer(now),
                Timer::Reminder => self.on_reminder_timer(now),
                Timer::Radius => self.on_radius_timer(now),
                Timer::Away => self.on_away_timer(now),
                Timer::Farewell(id) => self.on_farewell_timer(id, now),
            }
        }
    }

    /// Takes over a configuration. A connection with the same name and revision keeps its tunnels,
    /// except those of peers that its revocation lists name. Other tunnels end, and stations start
    /// again.
    fn on_configure(&mut self, config: Arc<Config>, now: Instant) {
        let successor = |old: &Arc<Connection>| config.successor(old).cloned();
        let mut ended = Vec::new();
        for (id, session) in self.sessions.iter_mut() {
            let Some(connection) = session.stage.connection_mut() else {
                continue;
            };
            match successor(connection) {
                Some(new) => *connection = new,
                None => ended.push(id),
            }
        }
        for child in self.children.values_mut() {
            if let Some(new) = successor(&child.connection) {
                child.connection = new;
            }
        }
        for index in 0..self.stations.len() {
            match successor(&self.stations[index].connection) {
                Some(new) => self.stations[index].connection = new,
                None => self.retire_station(index),
            }
        }
        for id in ended {
            self.close_session(id, EndCause::ConfigurationChanged, true, now);
        }
        self.config = config;
        self.configure_radius(now);
        self.end_disbelieved(now);
        self.try_refused(now);
        self.open_stations(now);
    }

    fn open_stations(&mut self, now: Instant) {
        for connection in self.config.connections.clone() {
            let is_known = self.stations.iter().any(|station| {
                !station.is_retired && Arc::ptr_eq(&station.connection, &connection)
            });
            if !connection.remote_addrs.is_empty() && !is_known {
                self.open_station(connection, now);
            }
        }
    }

    fn stop(&mut self, now: Instant) {
        self.is_stopping = true;
        (0..self.stations.len()).for_each(|index| self.retire_station(index));
        for id in self.sessions.ids(|_| true) {
            self.close_session(id, EndCause::Stopped, true, now);
        }
        self.keep_last();
        self.tell_if_stopped();
    }

    /// Everything is down once the planes have reported what the last SAs carried, and the peers
    /// know, or have had time to.
    fn tell_if_stopped(&mut self) {
        let is_down = self.sessions.is_empty() && self.farewells.is_empty();
        if self.is_stopping && is_down && self.accounts.are_told() {
            self.outputs.tell(Event::Stopped);
        }
    }
}

/// Whether a connection starts by itself.
fn begins_at_once(start: Start) -> bool {
    matches!(start, Start::AtOnce)
}
