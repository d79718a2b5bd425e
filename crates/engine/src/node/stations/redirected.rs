//! A gateway sends a station to another one (RFC 5685). The station goes where its connection
//! allows, a bounded number of times, and never to a gateway that has just sent it away. The other
//! gateway proves itself as any of the connection. A tunnel stays until then.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use wire::ikev2::Gateway;

use super::race::Race;
use super::{State, Station};
use crate::config::Connection;
use crate::counters::DropReason;
use crate::ike::Fault;
use crate::ikev2::{Travel, words_of};
use crate::node::session_id::SessionId;
use crate::node::{EndCause, Event, Node};
use crate::sa::Path;
use crate::time::{Duration, Instant};

/// How often a station is sent elsewhere within [`PERIOD`] (RFC 5685 §7: MAX_REDIRECTS).
pub(in crate::node) const MAX_REDIRECTS: usize = 5;
/// RFC 5685 §7: REDIRECT_LOOP_DETECT_PERIOD.
pub(in crate::node) const PERIOD: Duration = Duration::from_secs(300);

/// Where a station was sent lately.
#[derive(Default)]
pub(in crate::node) struct Redirected {
    /// The gateways that have sent it away, and when.
    by: VecDeque<(Instant, IpAddr)>,
    /// It was sent where it may not go. Until then it does not say that it can be sent anywhere.
    stays_until: Instant,
}

impl Redirected {
    fn forget(&mut self, now: Instant) {
        self.by.retain(|(at, _)| now.since(*at) < PERIOD);
    }

    fn has_room(&self, now: Instant) -> bool {
        let lately = self.by.iter().filter(|(at, _)| now.since(*at) < PERIOD);
        lately.count() < MAX_REDIRECTS
    }

    fn stays(&self, now: Instant) -> bool {
        now < self.stays_until
    }
}

impl Node {
    /// What a station says in its first message over this path. One that has been sent around too
    /// often, or where it may not go, does not go elsewhere: then its gateway has to serve it, or
    /// to refuse it plainly (RFC 5685 §3).
    pub(super) fn travel_of(&self, connection: &Connection, path: Path, now: Instant) -> Travel {
        let is_it = |it: &&Station| !it.is_retired && it.connection.name == connection.name;
        let Some(station) = self.stations.iter().find(is_it) else {
            return Travel::default();
        };
        let is_willing = connection.redirects.lead_anywhere(connection)
            && station.redirected.has_room(now)
            && !station.redirected.stays(now);
        Travel {
            is_willing,
            from: station.race.sent_by(path.remote).filter(|_| is_willing),
        }
    }

    /// The gateway of a session has sent us to another one. Until it is established, the session is
    /// over.
    pub(in crate::node) fn sent_to(&mut self, id: SessionId, to: &Gateway, now: Instant) {
        let racer = self.stations.of_racer(id);
        let Some(index) = racer.or_else(|| self.stations.of_session(id)) else {
            return self.close_session(id, EndCause::SentToAnother, true, now);
        };
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let from = session.path().remote;
        let targets = match self.targets(index, to, from.ip(), now) {
            Ok(targets) => targets,
            Err(why) => return self.stay(id, racer.is_some(), &why, now),
        };
        let station = &mut self.stations[index];
        station.redirected.forget(now);
        station.redirected.by.push_back((now, from.ip()));
        let port = station.port_of(from);
        let connection = station.connection.name.clone();
        let targets: Vec<SocketAddr> = targets.into_iter().map(|it| (it, port).into()).collect();
        self.outputs.tell(Event::SentToAnother {
            connection,
            from: from.ip(),
            to: words_of(to),
        });
        match racer {
            Some(_) => self.stations[index].race.divert(id, &targets, from.ip()),
            None => {
                self.end_race(index, EndCause::OtherAddressFirst, now);
                self.stations[index].race = Race::elsewhere(&targets, from.ip());
            }
        }
        let may_look = self.stations[index].may_look_beside();
        let race = &mut self.stations[index].race;
        (race.may_look_beside, race.beside_by) = (may_look, None);
        let is_up = matches!(self.stations[index].state, State::Up(up) if up == id);
        if !is_up {
            if racer.is_none() {
                self.stations[index].state = State::AwaitingAddress;
            }
            self.close_session(id, EndCause::SentToAnother, true, now);
        }
        self.enter_next(index, now);
    }

    /// Where to go; or why not.
    fn targets(
        &self,
        index: usize,
        to: &Gateway,
        from: IpAddr,
        now: Instant,
    ) -> Result<Vec<IpAddr>, String> {
        let station = &self.stations[index];
        let connection = &station.connection;
        let words = words_of(to);
        let mut targets = connection.redirects.addresses(to, connection);
        if targets.is_empty() {
            return Err(format!(
                "the gateway sends us to {words}, which neither remote_addrs nor redirect names"
            ));
        }
        if !station.redirected.has_room(now) {
            return Err(format!(
                "the gateway sends us to {words}, and we were sent elsewhere {MAX_REDIRECTS} times \
                 within {} s",
                PERIOD.as_secs()
            ));
        }
        let is_lately = |gateway: IpAddr| {
            let all = station.redirected.by.iter();
            let mut lately = all.filter(|(at, _)| now.since(*at) < PERIOD);
            lately.any(|(_, by)| *by == gateway)
        };
        targets.retain(|it| *it != from && !is_lately(*it));
        match targets.is_empty() {
            true => Err(format!(
                "the gateway sends us to {words}, which has just sent us away: they send us in a \
                 circle"
            )),
            false => Ok(targets),
        }
    }

    /// A station does not go where its gateway sends it. A tunnel stays; an attempt fails.
    fn stay(&mut self, id: SessionId, is_racer: bool, why: &str, now: Instant) {
        self.drops.count(DropReason::WrongRedirect);
        if is_racer {
            return self.fail_session(id, &Fault::Misdirected(why.to_owned()), now);
        }
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        self.outputs.tell(Event::PeerComplains {
            connection: session.connection_name(),
            path: session.path(),
            complaint: why.to_owned(),
            is_proven: session.ike.is_established(),
        });
    }

    /// The attempt of this session was sent where it may not go. What the station does then, in
    /// words, the first time.
    pub(in crate::node) fn station_misdirected(
        &mut self,
        id: SessionId,
        now: Instant,
    ) -> Option<String> {
        let index = self.stations.of_racer(id)?;
        let redirected = &mut self.stations[index].redirected;
        let was_told = redirected.stays(now);
        redirected.stays_until = now + PERIOD;
        (!was_told).then(|| {
            let seconds = PERIOD.as_secs();
            format!("; for {seconds} s we connect without REDIRECT_SUPPORTED")
        })
    }
}

impl Station {
    /// The port of IKE at the other gateway: the one that the configuration names for this one.
    fn port_of(&self, from: SocketAddr) -> u16 {
        let addresses = self.connection.remote_addrs.iter();
        let own = addresses
            .filter(|it| it.ip() == from.ip())
            .map(SocketAddr::port);
        own.chain([crate::ike::IKE_PORT])
            .next()
            .unwrap_or(crate::ike::IKE_PORT)
    }
}
