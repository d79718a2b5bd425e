//! A gateway that nobody reaches from the address of ours that the routing table chooses: its link
//! may be dead, though it has a carrier. Then the gateway is asked from our other addresses too.

use std::net::{IpAddr, SocketAddr};

use super::race::{BESIDE_BY, Race, Racer, UNANSWERED};
use super::{EndCause, Node, Station};
use crate::time::Instant;

/// So many attempts from our other addresses.
const BESIDE_MAX: usize = 4;

impl Station {
    /// Whether its gateway may be asked from our other addresses.
    pub(super) fn may_look_beside(&self) -> bool {
        self.connection.mobike && self.connection.version.has_v2()
    }
}

impl Node {
    /// Whether a datagram can leave from this address of ours to a peer.
    pub(in crate::node) fn leads_from(&self, local: IpAddr, remote: IpAddr) -> bool {
        let ways = self.ways.0.get(&remote);
        ways.is_some_and(|ours| ours.contains(&local))
    }

    /// A race to the address in use: from ours in use, if the tunnel stays there.
    pub(super) fn race_to(&self, index: usize, used: SocketAddr) -> Race {
        let station = &self.stations[index];
        let session = station.state.session();
        let session = session.and_then(|id| self.sessions.get(&id));
        let own = session.filter(|it| self.stays_on_path(it));
        let mut race = match own.map(|it| it.path().local.ip()) {
            Some(own) => Race::from_beside(used, own),
            None => Race::of([used]),
        };
        race.may_look_beside = station.may_look_beside();
        race
    }

    /// What was to happen next in a race is due: the next address enters. After the last one, where
    /// the gateway has not proved itself, our other addresses do.
    pub(super) fn go_on_in_time(&mut self, index: usize, now: Instant) {
        if self.stations[index].race.ahead.is_empty() {
            self.look_beside(index, now);
        }
        self.enter_next(index, now);
    }

    /// Our other addresses are to enter, each once. Not while a gateway examines us: it would see
    /// two of us, and a wrong password twice.
    pub(super) fn look_beside(&mut self, index: usize, now: Instant) {
        let race = &mut self.stations[index].race;
        if race.is_examined() || !race.beside.is_empty() || !race.may_look_beside {
            return;
        }
        race.may_look_beside = false;
        race.next_at = Some(now);
        let pairs = self.pairs_beside(index, &self.stations[index].race.racers);
        self.stations[index].race.beside.extend(pairs);
    }

    /// The next of them that leads to its gateway's address. Whether one has entered, or waits.
    pub(super) fn enter_beside(&mut self, index: usize, now: Instant) -> bool {
        loop {
            let race = &mut self.stations[index].race;
            if race.is_examined() && !race.beside.is_empty() {
                race.next_at = Some(now + UNANSWERED);
                self.arm_station(index);
                return true;
            }
            let Some((address, local)) = race.beside.pop_front() else {
                return false;
            };
            if self.leads_from(local, address.ip()) {
                self.enter(index, (local, address), true, now);
                return true;
            }
        }
    }

    /// We have proven ourselves to a gateway in vain: what has begun to the same address ends. A
    /// wrong password would be told again, and a silent link waited for.
    pub(super) fn refused_at(
        &mut self,
        index: usize,
        (address, cause): (SocketAddr, &EndCause),
        now: Instant,
    ) {
        let race = &mut self.stations[index].race;
        race.beside.retain(|(it, _)| *it != address);
        race.may_look_beside = false;
        let is_over = |racer: &Racer| racer.address == address && racer.proven.is_none();
        let (over, kept): (Vec<Racer>, _) = race.racers.drain(..).partition(is_over);
        race.racers = kept;
        for racer in over {
            self.cut_off(racer.id, cause.clone(), now);
        }
    }

    /// If what has begun is not answered. An answer delays that, but not for ever: anybody on the
    /// link can answer.
    pub(super) fn look_beside_later(&mut self, index: usize, now: Instant) {
        let race = &mut self.stations[index].race;
        let latest = *race.beside_by.get_or_insert(now + BESIDE_BY);
        let may_look = race.may_look_beside && !race.racers.is_empty();
        let at = now + UNANSWERED;
        let at = if race.is_examined() {
            at
        } else {
            at.min(latest)
        };
        race.next_at = may_look.then_some(at);
    }

    /// The last attempt has failed before we have proven ourselves in it: whoever refused it may be
    /// anybody on its link.
    pub(super) fn look_beside_of(&mut self, index: usize, lost: Racer) {
        let race = &mut self.stations[index].race;
        if race.is_idle() && lost.proven.is_none() && core::mem::take(&mut race.may_look_beside) {
            let pairs = self.pairs_beside(index, &[lost]);
            self.stations[index].race.beside.extend(pairs);
        }
    }

    /// The gateway's addresses, each with those of ours from which it was not asked: one of each
    /// first. Not those that have sent us to others.
    fn pairs_beside(&self, index: usize, racers: &[Racer]) -> Vec<(SocketAddr, IpAddr)> {
        let station = &self.stations[index];
        let connection = &station.connection;
        let is_asked = |address: SocketAddr, own: IpAddr| {
            let mut all = racers.iter().chain(&station.race.racers);
            all.any(|it| it.address == address && it.own == own)
        };
        let others = |racer: &Racer| -> Vec<IpAddr> {
            let ours = self.ways.0.get(&racer.address.ip()).into_iter().flatten();
            let ours = ours.filter(|it| connection.speaks_from(**it));
            let ours = ours.filter(|it| !is_asked(racer.address, **it));
            ours.copied().collect()
        };
        let racers = racers.iter();
        let racers = racers.filter(|it| !station.race.has_sent_away(it.address.ip()));
        let each: Vec<_> = racers.map(|it| (it.address, others(it))).collect();
        let most = each.iter().map(|(_, ours)| ours.len()).max().unwrap_or(0);
        let pairs = (0..most).flat_map(|at| {
            let with = each.iter();
            with.filter_map(move |(address, ours)| Some((*address, *ours.get(at)?)))
        });
        pairs.take(BESIDE_MAX).collect()
    }
}
