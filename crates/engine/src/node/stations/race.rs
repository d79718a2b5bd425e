//! Tries a gateway's addresses in turn, without waiting for each to fail (RFC 8305 §5). The first
//! one that **authenticates** is used. An unauthenticated answer, which anybody can send who sees
//! our request, only delays the other attempts, once for each address and for a limited time.
//!
//! If a gateway says that it does not know the tunnel, a new attempt races against the tunnel,
//! which stays until the gateway has authenticated again.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use super::{EndCause, Node, State, Station};
use crate::ike::socket_towards;
use crate::node::session::{Purpose, Stage};
use crate::node::session_id::SessionId;
use crate::node::ways::Way;
use crate::node::{Event, Output};
use crate::sa::Path;
use crate::time::{Duration, Instant};

/// Time between the starts of two attempts (RFC 8305 §5).
pub(in crate::node) const HEAD_START: Duration = Duration::from_millis(250);
/// After so long without any answer, the gateway is asked from our other addresses too. By then the
/// first message was sent three times.
pub(in crate::node) const UNANSWERED: Duration = Duration::from_secs(5);
/// The same where somebody answers and the gateway does not prove itself.
pub(in crate::node) const BESIDE_BY: Duration = Duration::from_secs(15);
/// How long the first answer delays the next attempt.
pub(in crate::node) const ANSWERED: Duration = Duration::from_secs(3);
/// An attempt that lost after its last message stays this long, to delete the SA that it may have
/// made.
const HEARD_OUT: Duration = Duration::from_secs(10);
/// After a gateway's restart, its stations return within this time, each at a random moment.
pub(in crate::node) const COME_BACK_WITHIN: Duration = Duration::from_secs(1);

/// The attempts of a station to authenticate its gateway, for the first time or again.
#[derive(Default)]
pub(super) struct Race {
    /// Addresses that are still to be tried.
    pub(super) ahead: VecDeque<SocketAddr>,
    /// The same, each from this other address of ours.
    pub(super) beside: VecDeque<(SocketAddr, IpAddr)>,
    /// Our other addresses are tried once, if the gateway does not prove itself before.
    pub(super) may_look_beside: bool,
    /// When that is at the latest, whoever answers.
    pub(super) beside_by: Option<Instant>,
    /// Nobody has said yet which address of ours leads to the first of them.
    is_waiting: bool,
    /// When the first of them is tried, unless all before it fail earlier.
    pub(super) next_at: Option<Instant>,
    /// An answer has delayed it.
    has_waited: bool,
    why: Why,
    /// Addresses to which a gateway has sent us, and that gateway's.
    sent: Vec<(SocketAddr, IpAddr)>,
    /// Exchanges in progress, the oldest first.
    pub(super) racers: Vec<Racer>,
    /// Failed addresses, and why.
    out: Vec<(SocketAddr, String)>,
}

/// Why a tunnel is to be replaced, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Why {
    /// Its gateway does not know it. What the gateway still sends under it ends the race.
    #[default]
    Lost,
    /// It cannot move: what still comes from the old path does not end the race.
    Move,
    /// Its gateway has sent us to another one.
    Sent,
    /// Its gateway wants us to authenticate again.
    Again,
}

#[derive(Clone, Copy)]
pub(super) struct Racer {
    pub(super) id: SessionId,
    pub(super) address: SocketAddr,
    /// Our address from which it sends.
    pub(super) own: IpAddr,
    /// The routing table chooses another one.
    pub(super) is_beside: bool,
    is_heard: bool,
    /// We have proven ourselves in it then, and wait for the gateway's proof.
    pub(super) proven: Option<Instant>,
}

impl Race {
    pub(super) fn of(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self {
            ahead: addresses.into_iter().collect(),
            ..Self::default()
        }
    }

    /// From this address of ours.
    pub(super) fn from_beside(address: SocketAddr, own: IpAddr) -> Self {
        Self {
            beside: [(address, own)].into(),
            ..Self::default()
        }
    }

    /// To gateways to which this one has sent us.
    pub(super) fn elsewhere(targets: &[SocketAddr], from: IpAddr) -> Self {
        Self {
            why: Why::Sent,
            sent: targets.iter().map(|it| (*it, from)).collect(),
            ..Self::of(targets.iter().copied())
        }
    }

    /// Both ends have the tunnel, and it stays until we have authenticated again.
    pub(super) fn is_again(&self) -> bool {
        self.why == Why::Again
    }

    /// A racer's gateway has sent us to others, which are tried in its place.
    pub(super) fn divert(&mut self, id: SessionId, targets: &[SocketAddr], from: IpAddr) {
        if let Some(racer) = self.take(id) {
            self.fail(racer.address, "sends us elsewhere".to_owned());
        }
        let is_asked = |to: &&SocketAddr| self.racers.iter().any(|it| it.address == **to);
        let targets: Vec<_> = targets.iter().filter(|to| !is_asked(to)).collect();
        for target in targets.into_iter().rev() {
            self.ahead.retain(|it| it != target);
            self.ahead.push_front(*target);
            self.sent.push((*target, from));
        }
    }

    /// Whether we have proven ourselves to a gateway, and wait for its proof.
    pub(super) fn is_examined(&self) -> bool {
        self.racers.iter().any(|it| it.proven.is_some())
    }

    /// Whether this gateway has sent us to others.
    pub(super) fn has_sent_away(&self, gateway: IpAddr) -> bool {
        self.sent.iter().any(|(_, by)| *by == gateway)
    }

    /// The gateway that has sent us to this address.
    pub(super) fn sent_by(&self, address: SocketAddr) -> Option<IpAddr> {
        let mut sent = self.sent.iter().rev();
        sent.find(|(to, _)| *to == address).map(|(_, by)| *by)
    }

    /// Addresses that are tried, or will be.
    pub(in crate::node) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let racers = self.racers.iter().map(|it| it.address);
        racers.chain(self.ahead.iter().copied()).map(|it| it.ip())
    }

    pub(super) fn has(&self, id: SessionId) -> bool {
        self.racers.iter().any(|racer| racer.id == id)
    }

    /// Another exchange replaces one.
    pub(super) fn replace(&mut self, old: SessionId, new: SessionId) {
        let mut racers = self.racers.iter_mut();
        if let Some(racer) = racers.find(|racer| racer.id == old) {
            (racer.id, racer.proven) = (new, None);
        }
    }

    /// Nothing is in progress or planned.
    pub(super) fn is_idle(&self) -> bool {
        self.racers.is_empty() && self.ahead.is_empty() && self.beside.is_empty()
    }

    /// Notes why an address is not used: the first reason.
    fn fail(&mut self, address: SocketAddr, why: String) {
        if self.out.iter().all(|(it, _)| *it != address) {
            self.out.push((address, why));
        }
    }

    pub(super) fn take(&mut self, id: SessionId) -> Option<Racer> {
        let at = self.racers.iter().position(|racer| racer.id == id)?;
        Some(self.racers.remove(at))
    }
}

/// Alternates the families, beginning with that of the address `first` (RFC 8305 §4).
fn in_turns(addresses: &[SocketAddr], first: usize) -> Vec<SocketAddr> {
    let from = first % addresses.len().max(1);
    let mut rest: Vec<SocketAddr> = Vec::new();
    for address in addresses[from..].iter().chain(&addresses[..from]) {
        if !rest.contains(address) {
            rest.push(*address);
        }
    }
    let is_v4 = rest.first().is_some_and(SocketAddr::is_ipv4);
    let (one, other): (Vec<_>, Vec<_>) = rest.into_iter().partition(|it| it.is_ipv4() == is_v4);
    let both = one.len().max(other.len());
    let turns = (0..both).flat_map(|at| [one.get(at), other.get(at)]);
    turns.flatten().copied().collect()
}

impl Station {
    /// An attempt is in progress, and no gateway has authenticated.
    pub(super) fn is_racing(&self) -> bool {
        matches!(self.state, State::AwaitingAddress | State::Racing)
    }

    /// Addresses of the gateway that are not used, with reasons.
    pub(in crate::node) fn not_used(&self) -> Vec<String> {
        let out = self.passed_over.iter();
        out.map(|(address, why)| format!("{address}: {why}"))
            .collect()
    }
}

impl Node {
    /// Starts an attempt: every address of the gateway, one after the other.
    pub(super) fn attempt(&mut self, index: usize, now: Instant) {
        let ways = self.ways_of(index);
        let station = &mut self.stations[index];
        station.ways = ways;
        station.state = State::AwaitingAddress;
        station.restarts = 0;
        station.passed_over.clear();
        station.race = Race {
            may_look_beside: station.may_look_beside(),
            ..Race::of(in_turns(&station.connection.remote_addrs, station.first))
        };
        self.enter_next(index, now);
    }

    /// The next address to which there is a way enters the race. If there is none and nothing is
    /// under way, the attempt has failed.
    pub(super) fn enter_next(&mut self, index: usize, now: Instant) {
        loop {
            let station = &mut self.stations[index];
            let race = &mut station.race;
            race.next_at = None;
            let Some(address) = race.ahead.front().copied() else {
                break;
            };
            match self
                .ways
                .way_to(address.ip(), &station.connection.local_addrs)
            {
                Way::Unknown => {
                    race.is_waiting = true;
                    self.outputs.push(Output::WantsAddresses);
                    return self.arm_station(index);
                }
                Way::Nowhere => {
                    race.ahead.pop_front();
                    race.fail(address, "no route to it".to_owned());
                }
                Way::From(local) => {
                    race.ahead.pop_front();
                    return self.enter(index, (local, address), false, now);
                }
            }
        }
        if self.enter_beside(index, now) {
            return;
        }
        self.look_beside_later(index, now);
        self.end_if_over(index, now);
        self.arm_station(index);
    }

    /// What waited to be told a way tries again.
    pub(in crate::node) fn go_on_waiting(&mut self, index: usize, now: Instant) {
        let station = &mut self.stations[index];
        if !station.is_retired && core::mem::take(&mut station.race.is_waiting) {
            self.enter_next(index, now);
        }
    }

    pub(super) fn enter(
        &mut self,
        index: usize,
        (local, address): (IpAddr, SocketAddr),
        is_beside: bool,
        now: Instant,
    ) {
        let connection = self.stations[index].connection.clone();
        let id = self.initiate(
            connection,
            first_path(local, address),
            Purpose::Connect,
            now,
        );
        let station = &mut self.stations[index];
        if station.is_racing() {
            station.state = State::Racing;
        }
        let race = &mut station.race;
        race.racers.push(Racer {
            id,
            address,
            own: local,
            is_beside,
            is_heard: false,
            proven: None,
        });
        match race.ahead.is_empty() && race.beside.is_empty() {
            false => race.next_at = Some(now + HEAD_START),
            true => self.look_beside_later(index, now),
        }
        self.arm_station(index);
    }

    /// An address has failed: the next one starts at once.
    fn go_on(&mut self, index: usize, now: Instant) {
        if !self.stations[index].race.is_waiting {
            self.enter_next(index, now);
        }
    }

    fn end_if_over(&mut self, index: usize, now: Instant) {
        let station = &self.stations[index];
        if station.race.is_idle() {
            let was_racing = station.is_racing();
            let race = core::mem::take(&mut self.stations[index].race);
            self.stations[index].passed_over = race.out;
            if was_racing {
                self.back_off(index, now);
            }
        }
    }

    /// A possible answer came in one of the exchanges.
    pub(in crate::node) fn racer_heard(&mut self, id: SessionId, now: Instant) {
        let Some(index) = self.stations.of_racer(id) else {
            return;
        };
        let race = &mut self.stations[index].race;
        for racer in race.racers.iter_mut().filter(|racer| racer.id == id) {
            racer.is_heard = true;
        }
        let is_through = race.ahead.is_empty() && race.beside.is_empty();
        if let Some(at) = race
            .next_at
            .as_mut()
            .filter(|_| !race.has_waited && !is_through)
        {
            *at = (*at).max(now + ANSWERED);
            race.has_waited = true;
        }
        if is_through {
            self.look_beside_later(index, now);
        }
        // Two addresses may belong to one gateway: the second must not end the first.
        let has_proven = |id: &SessionId| {
            let session = self.sessions.get(id);
            session.is_some_and(|it| it.ike.has_proven())
        };
        if has_proven(&id) {
            let race = &mut self.stations[index].race;
            for racer in race.racers.iter_mut().filter(|racer| racer.id == id) {
                racer.proven = Some(now);
            }
            let others = self.stations[index].race.racers.iter();
            let others: Vec<SessionId> = others.map(|it| it.id).filter(|it| *it != id).collect();
            for other in others {
                if let Some(other) = self.sessions.get_mut(&other) {
                    other.ike.forget_first_contact();
                }
            }
        }
        self.arm_station(index);
    }

    /// Whether an exchange must not prove us yet, because another one of the race has. With IKEv2
    /// the child comes with the proof. If both addresses belong to one gateway, it moves the child
    /// to the later exchange, which may be the one that loses. The answer comes again.
    pub(in crate::node) fn has_proven_elsewhere(&self, id: SessionId, now: Instant) -> bool {
        let index = self.stations.of_racer(id);
        let racers = index.map(|index| &self.stations[index].race.racers);
        let mut others = racers.into_iter().flatten().filter(|it| it.id != id);
        others.any(|it| it.proven.is_some_and(|at| now.since(at) < ANSWERED))
    }

    /// A gateway has authenticated and is used; other attempts are not. `None`: the session is not
    /// part of a race.
    pub(super) fn win(&mut self, id: SessionId, now: Instant) -> Option<usize> {
        let index = self.stations.of_racer(id)?;
        let station = &mut self.stations[index];
        let winner = station.race.take(id)?;
        for address in core::mem::take(&mut station.race.ahead) {
            station.race.fail(address, "not tried".to_owned());
        }
        let losers = core::mem::take(&mut station.race.racers);
        let others = |it: &&Racer| it.address != winner.address;
        station.race.out.retain(|(it, _)| *it != winner.address);
        for loser in losers.iter().filter(others) {
            let why = if loser.is_heard {
                "slower"
            } else {
                "no answer"
            };
            station.race.fail(loser.address, why.to_owned());
        }
        let race = core::mem::take(&mut station.race);
        let why = race.why;
        let cause = match why {
            Why::Move => EndCause::OwnAddressChanged,
            Why::Lost => EndCause::GatewayRestarted,
            Why::Sent => EndCause::SentToAnother,
            Why::Again => EndCause::AuthenticatedAgain,
        };
        station.passed_over = race.out;
        let others = station.not_used();
        station.used = Some(winner.address);
        let renewal = station.renewal.take();
        let before = core::mem::replace(&mut station.state, State::Connecting(id));
        let connection = station.connection.name.clone();
        for loser in &losers {
            self.cut_off(loser.id, EndCause::OtherAddressFirst, now);
        }
        if !others.is_empty() {
            self.outputs.tell(Event::AddressChosen {
                connection,
                address: winner.address,
                others,
            });
        }
        if winner.is_beside {
            self.stay_on_path(id);
        }
        if let Some(renewal) = renewal {
            self.close_session(renewal, cause.clone(), false, now);
        }
        if let State::Up(old) = before {
            // RFC 5685 §5: the gateway that has sent us here is told, and one that may have both.
            let tells_peer = matches!(why, Why::Sent | Why::Again);
            self.close_session(old, cause, tells_peer, now);
        }
        self.arm_station(index);
        Some(index)
    }

    /// An attempt that is not needed. If its last message has left, the peer may consider it
    /// established: the attempt runs to its end and is deleted.
    pub(super) fn cut_off(&mut self, id: SessionId, cause: EndCause, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if let (true, Stage::Begun(_, purpose)) = (session.ike.has_proven(), &mut session.stage) {
            *purpose = Purpose::Surplus(now + HEARD_OUT);
            return self.arm_session(id);
        }
        self.close_session(id, cause, false, now);
    }

    /// A racer has ended without success. Returns whether it was one.
    pub(super) fn racer_lost(&mut self, id: SessionId, cause: &EndCause, now: Instant) -> bool {
        let Some(index) = self.stations.of_racer(id) else {
            return false;
        };
        if let Some(racer) = self.stations[index].race.take(id) {
            self.stations[index]
                .race
                .fail(racer.address, cause.to_string());
            match racer.proven.is_some() {
                true => self.refused_at(index, (racer.address, cause), now),
                false => self.look_beside_of(index, racer),
            }
        }
        self.go_on(index, now);
        true
    }

    /// The gateway says that it does not know the tunnel, in answer to our probe and with our
    /// cookies. This is not authenticated: the tunnel stays until the gateway authenticates again,
    /// or shows that it knows the tunnel.
    pub(in crate::node) fn race_tunnel(&mut self, id: SessionId, now: Instant) {
        let Some(index) = self.stations.of_session(id) else {
            return;
        };
        let wait = COME_BACK_WITHIN.mul_f64(f64::from(self.random.u32() >> 16) / 65536.0);
        let station = &mut self.stations[index];
        let is_idle = station.race.is_idle();
        let (State::Up(_), Some(used), true) = (station.state, station.used, is_idle) else {
            return;
        };
        station.restarts = 0;
        let race = self.race_to(index, used);
        let station = &mut self.stations[index];
        station.race = race;
        station.race.next_at = Some(now + wait);
        self.arm_station(index);
    }

    /// Our address changed under a session that cannot move: an attempt from the new one races
    /// against it at once.
    pub(super) fn race_anew(&mut self, index: usize, now: Instant) {
        self.race_beside(index, Why::Move, now);
    }

    /// The gateway wants us to authenticate again. No other address has a part in that: one that
    /// answers sooner may be another gateway, with other inner addresses.
    pub(super) fn race_to_authenticate(&mut self, index: usize, now: Instant) {
        self.race_beside(index, Why::Again, now);
    }

    fn race_beside(&mut self, index: usize, why: Why, now: Instant) {
        let station = &self.stations[index];
        if !station.race.is_idle() {
            return;
        }
        let addresses = &station.connection.remote_addrs;
        let used = addresses.iter().position(|it| Some(*it) == station.used);
        let race = match (why, station.used) {
            (Why::Again, Some(used)) => self.race_to(index, used),
            _ => Race {
                may_look_beside: station.may_look_beside(),
                ..Race::of(in_turns(addresses, used.unwrap_or(0)))
            },
        };
        let station = &mut self.stations[index];
        station.restarts = 0;
        station.race = Race { why, ..race };
        self.enter_next(index, now);
    }

    /// The gateway knows the tunnel: no new attempt is needed.
    pub(in crate::node) fn call_off(&mut self, id: SessionId, now: Instant) {
        let Some(index) = self.stations.of_session(id) else {
            return;
        };
        let station = &mut self.stations[index];
        if station.state != State::Up(id) || station.race.is_idle() || station.race.why != Why::Lost
        {
            return;
        }
        self.end_race(index, EndCause::OtherAddressFirst, now);
    }

    /// The session has moved after all.
    pub(in crate::node) fn call_off_move(&mut self, id: SessionId, now: Instant) {
        let index = self.stations.of_session(id);
        if let Some(index) = index.filter(|index| self.stations[*index].race.why == Why::Move) {
            self.end_race(index, EndCause::OtherAddressFirst, now);
        }
    }

    /// Ends everything in progress.
    pub(super) fn end_race(&mut self, index: usize, cause: EndCause, now: Instant) {
        let race = core::mem::take(&mut self.stations[index].race);
        for racer in race.racers {
            self.cut_off(racer.id, cause.clone(), now);
        }
        self.arm_station(index);
    }
}

/// The first path of IKE.
pub(super) fn first_path(local: IpAddr, remote: SocketAddr) -> Path {
    let (port, via) = socket_towards(remote.port());
    let local = (local, port).into();
    Path { via, local, remote }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_take_turns_and_none_comes_twice() {
        let all = [
            "192.0.2.1:500",
            "192.0.2.2:500",
            "[2001:db8::1]:500",
            "192.0.2.1:500",
        ];
        let all = all.map(|it| it.parse::<SocketAddr>().expect("an address"));
        let ends = |first| -> Vec<String> {
            let turns = in_turns(&all, first).into_iter();
            turns.map(|it| it.ip().to_string()).collect()
        };
        assert_eq!(ends(0), ["192.0.2.1", "2001:db8::1", "192.0.2.2"]);
        assert_eq!(ends(1), ["192.0.2.2", "2001:db8::1", "192.0.2.1"]);
        assert_eq!(ends(2), ["2001:db8::1", "192.0.2.1", "192.0.2.2"]);
        assert_eq!(in_turns(&[], 3), []);
    }
}
