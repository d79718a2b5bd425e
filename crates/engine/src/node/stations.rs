//! Stations: connections that we initiate and keep up. A station finds its own address, connects,
//! asks for an inner address, sets up its children, and starts again after a loss.

mod again;
mod authenticated;
mod beside;
mod children;
mod contact;
mod crashed;
mod follow;
mod inner;
mod ousted;
mod race;
mod redirected;
mod refused;
mod table;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

#[cfg(test)]
pub(super) use self::authenticated::LEAST_STAY;
use self::children::selectors_of;
use self::ousted::Ousted;
use self::race::Race;
#[cfg(test)]
pub(super) use self::race::{ANSWERED, HEAD_START, UNANSWERED};
use self::redirected::Redirected;
#[cfg(test)]
pub(super) use self::redirected::{MAX_REDIRECTS, PERIOD};
#[cfg(test)]
pub(super) use self::refused::MAX_REFUSED_BACKOFF;
use self::refused::Refused;
pub(super) use self::table::Stations;
use super::ike::Ike;
use super::session::{Purpose, Session, Stage};
use super::session_id::SessionId;
use super::ways::{Followed, Way};
use super::{EndCause, Event, Node, Timer, begins_at_once};
use crate::config::{Connection, Start};
use crate::ike::{FirstChild, Lease, Outbox};
use crate::ikev2::Ticket;
use crate::ikev2::session::Beginning;
use crate::plane::OutboundChange;
use crate::sa::{ChildId, Path};
use crate::time::{Deadline, Duration, Instant};

/// Longest wait before the first new attempt; doubles with each attempt.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// The longest wait between attempts, unless the gateway refuses us.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// A connection that we initiate.
pub(super) struct Station {
    pub(super) connection: Arc<Connection>,
    pub(super) children: Vec<ChildId>,
    pub(super) is_retired: bool,
    pub(super) state: State,
    renewal: Option<SessionId>,
    race: Race,
    /// The gateway's address that is used, or was last.
    used: Option<SocketAddr>,
    /// Index of the next attempt's first address.
    first: usize,
    /// The gateway's addresses that are not used, and why.
    passed_over: Vec<(SocketAddr, String)>,
    attempt: u32,
    /// Exchanges of this attempt that were restarted.
    restarts: u32,
    /// Our former inner addresses, which we request again.
    had: Vec<IpAddr>,
    retry_children_at: Option<Instant>,
    ousted: Ousted,
    refused: Refused,
    /// What its next session goes on from, and at which address.
    ticket: Option<(IpAddr, Box<Ticket>)>,
    redirected: Redirected,
    /// When the gateway last showed that it had lost the tunnel.
    crashed: Option<Instant>,
    followed: Followed,
    /// When it authenticates again, because its gateway wants that.
    authenticates_at: Option<Instant>,
    /// The ways to the gateway's addresses when the last attempt began, or none since.
    ways: Vec<Way>,
    armed: Option<Instant>,
}

/// The state of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The user wants it down.
    Down,
    /// The first packet that matches brings it up.
    AwaitingTraffic,
    /// Nobody has said yet which of our addresses leads to the peer.
    AwaitingAddress,
    /// Authentication is in progress with one or several addresses of the peer.
    Racing,
    /// The peer has authenticated: inner addresses or the first children are in progress.
    Connecting(SessionId),
    /// At least one child is up.
    Up(SessionId),
    /// The next attempt waits.
    Backoff(Instant),
}

impl State {
    pub(super) fn session(self) -> Option<SessionId> {
        match self {
            Self::Connecting(id) | Self::Up(id) => Some(id),
            _ => None,
        }
    }

    /// How long until the next attempt.
    pub(super) fn retry_in(self, now: Instant) -> Option<Duration> {
        match self {
            Self::Backoff(at) => Some(at.since(now)),
            _ => None,
        }
    }
}

impl Station {
    /// Addresses of gateways that it uses or tries.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.race.addresses().chain(self.used.map(|it| it.ip()))
    }

    fn deadline(&self) -> Option<Deadline> {
        let attempt = match self.state {
            State::Backoff(at) => Some(Deadline {
                at,
                why: "try to connect again",
            }),
            _ => None,
        };
        // Before one child is up, either all of them start or the session ends.
        let is_up = matches!(self.state, State::Up(_));
        let at = self.retry_children_at.filter(|_| is_up);
        let children = at.map(|at| Deadline {
            at,
            why: "begin a lost child again",
        });
        let next = self.race.next_at.map(|at| Deadline {
            at,
            why: "try the next address",
        });
        let again = self.followed.again_at.map(|at| Deadline {
            at,
            why: "follow our own addresses",
        });
        let authenticates = self.authenticates_at.map(|at| Deadline {
            at,
            why: "authenticate again",
        });
        let all = [attempt, children, next, again, authenticates];
        all.into_iter().flatten().min()
    }
}

impl Node {
    pub(super) fn open_station(&mut self, connection: Arc<Connection>, now: Instant) {
        let mut children = Vec::new();
        for (index, child) in connection.children.iter().enumerate() {
            for selectors in selectors_of(&connection, child) {
                let id = self.add_child(&connection, index, true, selectors);
                children.push(id);
                self.expect(id);
            }
        }
        let state = match connection.start {
            Start::OnTraffic => State::AwaitingTraffic,
            Start::AtOnce | Start::OnCommand | Start::Responder => State::Down,
        };
        let begins = begins_at_once(connection.start);
        let index = self.stations.add(Station {
            connection,
            children,
            is_retired: false,
            state,
            renewal: None,
            race: Race::default(),
            used: None,
            first: 0,
            passed_over: Vec::new(),
            attempt: 0,
            restarts: 0,
            had: Vec::new(),
            retry_children_at: None,
            ousted: Ousted::default(),
            refused: Refused::default(),
            ticket: None,
            redirected: Redirected::default(),
            crashed: None,
            followed: Followed::default(),
            authenticates_at: None,
            ways: Vec::new(),
            armed: None,
        });
        if begins {
            self.attempt(index, now);
        }
    }

    /// A station whose connection left the configuration, or whose node stops.
    pub(super) fn retire_station(&mut self, index: usize) {
        let station = &mut self.stations[index];
        station.is_retired = true;
        station.state = State::Down;
        station.race = Race::default();
        station.retry_children_at = None;
        let children = core::mem::take(&mut station.children);
        for child in children {
            self.outputs.outbound(OutboundChange::Forget(child));
        }
        self.arm_station(index);
    }

    pub(super) fn bring_up(&mut self, name: &str, now: Instant) {
        for index in self.stations.named(name) {
            let station = &self.stations[index];
            if station.state.session().is_none() && !station.is_racing() {
                if self.stations[index].state == State::Down {
                    let children = self.stations[index].children.clone();
                    children.into_iter().for_each(|child| self.expect(child));
                }
                self.stations[index].attempt = 0;
                self.stations[index].refused = Refused::default();
                self.attempt(index, now);
            }
        }
    }

    pub(super) fn ask_for(&mut self, name: &str, address: IpAddr) {
        for index in self.stations.named(name) {
            let had = &mut self.stations[index].had;
            if had.iter().all(|it| it.is_ipv4() != address.is_ipv4()) {
                had.push(address);
            }
        }
    }

    pub(super) fn take_down(&mut self, name: &str, now: Instant) {
        for index in self.stations.named(name) {
            self.stations[index].state = State::Down;
            self.stations[index].ticket = None;
            self.end_race(index, EndCause::TakenDown, now);
        }
        let sessions = self.sessions.ids(|it| it.is_of(name) && !it.is_surplus());
        for id in sessions {
            self.close_session(id, EndCause::TakenDown, true, now);
        }
        // Its traffic does not wait any more: another connection may have a tunnel for it.
        for index in self.stations.named(name) {
            for child in self.stations[index].children.clone() {
                self.outputs.outbound(OutboundChange::Forget(child));
            }
        }
    }

    pub(super) fn rekey_connection(&mut self, name: &str, now: Instant) {
        let sessions = self.sessions.ids(|it| it.is_of(name) && it.is_current());
        sessions
            .into_iter()
            .for_each(|id| self.rekey_session(id, now));
    }

    /// Starts a session that will take over from this session, unless one is in progress.
    pub(super) fn rekey_session(&mut self, id: SessionId, now: Instant) {
        let is_under_way = self.sessions.values().any(|it| it.replaces() == Some(id));
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.stage.renew_at(None);
        if let Some(ike) = session.ike.v2_mut() {
            let mut out = Outbox::over(ike.round_trip());
            ike.renew(&mut self.random, now, &mut out);
            self.flush(Some(id), out);
            return self.arm_session(id);
        }
        if is_under_way {
            return;
        }
        let path = session.path();
        let Some(connection) = session.connection().cloned() else {
            return;
        };
        let renewal = self.initiate(connection, path, Purpose::Renew(id), now);
        if let Some(station) = self.stations.of_session(id) {
            self.stations[station].renewal = Some(renewal);
        }
    }

    fn initiate(
        &mut self,
        connection: Arc<Connection>,
        path: Path,
        purpose: Purpose,
        now: Instant,
    ) -> SessionId {
        // A renewal uses the path of its session.
        let renewed = match purpose {
            Purpose::Renew(old) => self.sessions.get(&old),
            _ => None,
        };
        let is_renewal = matches!(purpose, Purpose::Renew(_));
        let renewed = renewed.filter(|old| old.path().remote.ip() == path.remote.ip());
        let round_trip = renewed.map(|old| old.ike.round_trip()).unwrap_or_default();
        let is_first_contact = !is_renewal && !self.has_contact(&connection, path);
        let (had, child) = self.wishes(&connection, path);
        let first_child = child.as_ref().map(|it| (it.child, it.spi));
        let addresses = match connection.version.has_v2() {
            true => self.told_of(&connection, path),
            false => Vec::new(),
        };
        let maker = self.maker_of(Some(&connection));
        let travel = self.travel_of(&connection, path, now);
        let ticket = match is_renewal || self.authenticates_again(&connection) {
            true => None,
            false => self.take_ticket(&connection, path, now),
        };
        let beginning = Beginning {
            connection: connection.clone(),
            path,
            is_first_contact,
            round_trip,
            had,
            child,
            addresses,
            maker,
            travel,
            ticket,
        };
        let (ike, out) = Ike::initiate(beginning, &mut self.random, now);
        let stage = Stage::Begun(connection, purpose);
        let mut session = Session::new(ike, stage, now);
        session.first_child = first_child;
        let id = self.sessions.add(session);
        self.flush(Some(id), out);
        self.arm_session(id);
        self.keep_secrets();
        id
    }

    /// What a station of IKEv2 asks for with its authentication: its former addresses, and its
    /// first child.
    fn wishes(
        &mut self,
        connection: &Arc<Connection>,
        path: Path,
    ) -> (Vec<IpAddr>, Option<FirstChild>) {
        if !connection.version.has_v2() {
            return (Vec::new(), None);
        }
        let is_it = |it: &&Station| !it.is_retired && Arc::ptr_eq(&it.connection, connection);
        let station = self.stations.iter().find(is_it);
        let Some((had, first)) = station.map(|it| (it.had.clone(), it.children.first().copied()))
        else {
            return (Vec::new(), None);
        };
        let child = first.and_then(|first| self.first_child(connection, path, first));
        (had, child)
    }

    /// A session is established.
    pub(super) fn station_established(&mut self, id: SessionId, purpose: Purpose, now: Instant) {
        if let Some(index) = self.stations.of_renewal(id) {
            self.stations[index].renewal = None;
            self.stations[index].state = State::Up(id);
            return self.look_soon(index, now);
        }
        if matches!(purpose, Purpose::Surplus(_)) {
            return self.close_session(id, EndCause::OtherAddressFirst, true, now);
        }
        let Some(index) = self.win(id, now) else {
            return;
        };
        self.stations[index].authenticates_at = None;
        let connection = self.stations[index].connection.clone();
        self.contact_made(id, &connection);
        let wants = connection.wants_inner;
        if !wants.v4 && !wants.v6 {
            return self.begin_children(index, id, now);
        }
        let had = self.stations[index].had.clone();
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let mut out = session.ike.outbox();
        let random = &mut self.random;
        session
            .ike
            .ask_addresses(wants, &had, random, now, &mut out);
        self.flush(Some(id), out);
        self.arm_session(id);
    }

    /// Mode config has answered.
    pub(super) fn lease_arrived(&mut self, id: SessionId, lease: Lease, now: Instant) {
        let Some(index) = self.stations.of_session(id) else {
            return;
        };
        let connection = self.stations[index].connection.name.clone();
        if let Some(reason) = self.unusable(id, index, &lease) {
            let path = self.sessions[&id].path();
            self.outputs.tell(Event::NegotiationFailed {
                connection: Some(connection),
                path,
                reason,
            });
            return self.close_session(id, EndCause::NoInnerAddress, true, now);
        }
        self.stations[index].had = lease.addresses.clone();
        self.outputs.tell(Event::InnerAddress {
            connection,
            addresses: lease.addresses.clone(),
            dns: lease.dns.clone(),
            domains: lease.domains.clone(),
            trust_anchors: lease.trust_anchors.clone(),
            refused_anchors: lease.refused_anchors.clone(),
        });
        if let Some(session) = self.sessions.get_mut(&id) {
            session.held.lease = Some(Box::new(lease));
        }
        self.begin_children(index, id, now);
    }

    /// A child of this session is up.
    pub(super) fn station_child_up(&mut self, id: SessionId, now: Instant) {
        if let Some(index) = self.stations.of_session(id) {
            let station = &mut self.stations[index];
            station.state = State::Up(id);
            (station.attempt, station.first) = (0, 0);
            station.refused = Refused::default();
            self.watch(id, now);
            // Our address may have changed meanwhile.
            self.follow_addresses(index, now);
        }
    }

    /// A child was lost, or could not be set up, while its session stands. It is started again
    /// after `wait`, if others are up or in progress.
    pub(super) fn station_child_down(
        &mut self,
        id: SessionId,
        child: ChildId,
        wait: Duration,
        now: Instant,
    ) {
        let Some(index) = self.stations.of_session(id) else {
            return;
        };
        if !self.stations[index].children.contains(&child) {
            return;
        }
        let station = &mut self.stations[index];
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let is_under_way =
            session.has_waiting() || session.ike.exchanges().iter().any(|it| it.is_asked);
        let begins = matches!(station.connection.start, Start::AtOnce | Start::OnCommand);
        match station.state {
            // Nothing is up: the session alone is useless.
            State::Connecting(_) if !is_under_way => {
                self.close_session(id, EndCause::NoChild, true, now);
            }
            State::Up(_) | State::Connecting(_) if begins => {
                let at = now + wait;
                let earlier = station.retry_children_at.unwrap_or(at);
                station.retry_children_at = Some(earlier.min(at));
                self.arm_station(index);
            }
            _ => {}
        }
    }

    /// A packet waits for a child.
    pub(super) fn acquire(&mut self, child: ChildId, now: Instant) {
        let Some(index) = self.stations.of_child(child) else {
            return;
        };
        match self.stations[index].state {
            State::AwaitingTraffic => self.attempt(index, now),
            State::Up(id) if !self.children.is_up(child) && self.has_inner(id, child) => {
                self.begin_child(id, child, now);
            }
            _ => {}
        }
    }

    /// A session ended: start again, or wait for traffic.
    pub(super) fn station_lost(&mut self, id: SessionId, cause: &EndCause, now: Instant) {
        if self.racer_lost(id, cause, now) {
            return;
        }
        if let Some(index) = self.stations.of_renewal(id) {
            self.stations[index].renewal = None;
            return;
        }
        let Some(index) = self.stations.of_session(id) else {
            return;
        };
        if *cause == EndCause::PeerCrashed && self.comes_back(index, now) {
            return;
        }
        let station = &mut self.stations[index];
        station.retry_children_at = None;
        let was_up = matches!(station.state, State::Up(_));
        if !station.race.is_idle() {
            // The gateway has said that it does not know the tunnel: a new attempt is in progress.
            station.state = State::Racing;
            return self.arm_station(index);
        }
        if !was_up {
            // It authenticated but gave nothing: another address may work better.
            let addresses = &station.connection.remote_addrs;
            let used = addresses.iter().position(|it| Some(*it) == station.used);
            station.first = used.map_or(0, |used| used + 1);
        }
        let rests = station.ousted.is_resting(now);
        if was_up && !rests && station.connection.start == Start::OnTraffic {
            station.state = State::AwaitingTraffic;
            return;
        }
        self.back_off(index, now);
    }

    fn back_off(&mut self, index: usize, now: Instant) {
        let jitter = f64::from(self.random.u32() >> 16) / 65536.0;
        let station = &mut self.stations[index];
        let refused = station.refused.take_wait();
        let doubled = FIRST_BACKOFF.saturating_mul(1 << station.attempt.min(16));
        let longest = refused.unwrap_or_else(|| doubled.min(MAX_BACKOFF));
        // Random waits keep hundreds of clients of one gateway from returning at once.
        let wait = longest.mul_f64(0.25 + 0.75 * jitter);
        let wait = wait.max(station.ousted.rest(now));
        station.attempt = station.attempt.saturating_add(1);
        station.state = State::Backoff(now + wait);
        let event = Event::RetryScheduled {
            connection: station.connection.name.clone(),
            in_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            attempt: station.attempt,
            is_refused: refused.is_some(),
        };
        self.outputs.tell(event);
        self.arm_station(index);
    }

    pub(super) fn on_station_timer(&mut self, index: usize, now: Instant) {
        let station = &mut self.stations[index];
        if station.retry_children_at.is_some_and(|at| at <= now)
            && let State::Up(id) = station.state
        {
            station.retry_children_at = None;
            let children = station.children.clone();
            let missing: Vec<ChildId> = children
                .into_iter()
                .filter(|child| !self.children.is_up(*child))
                .filter(|child| self.has_inner(id, *child))
                .collect();
            missing
                .into_iter()
                .for_each(|child| self.begin_child(id, child, now));
        }
        let race = &self.stations[index].race;
        if race.next_at.is_some_and(|at| at <= now) {
            self.go_on_in_time(index, now);
        }
        if let State::Backoff(at) = self.stations[index].state
            && at <= now
        {
            self.attempt(index, now);
        }
        let again_at = &mut self.stations[index].followed.again_at;
        if again_at.take_if(|at| *at <= now).is_some() {
            self.follow_addresses(index, now);
        }
        self.authenticate_when_due(index, now);
        self.arm_station(index);
    }

    /// A session took over from another: its station follows.
    pub(super) fn station_follows(&mut self, old: SessionId, id: SessionId, now: Instant) {
        self.stations.follow(old, id);
        if let Some(index) = self.stations.of_session(id) {
            self.watch(id, now);
            self.look_soon(index, now);
        }
    }

    fn arm_station(&mut self, index: usize) {
        let station = &mut self.stations[index];
        let deadline = station.deadline();
        self.timers
            .arm(Timer::of_station(index), &mut station.armed, deadline);
    }
}
