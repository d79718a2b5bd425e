//! A gateway that nobody reaches from the address of ours that the routing table chooses: its link
//! may be dead, though it has a carrier. Then the gateway is asked from our other addresses too.

use std::net::{IpAddr, SocketAddr};

use super::Node;
use super::race::{Racer, UNANSWERED};
use crate::time::Instant;

/// So many attempts from our other addresses.
const BESIDE_MAX: usize = 4;

impl Node {
    /// Whether a datagram can leave from this address of ours to a peer.
    pub(super) fn leads_from(&self, local: IpAddr, remote: IpAddr) -> bool {
        let ways = self.ways.0.get(&remote);
        ways.is_some_and(|ours| ours.contains(&local))
    }

    /// What was to happen next in a race is due: the next address enters. After the last one, where
    /// nobody has answered, our other addresses do.
    pub(super) fn go_on_in_time(&mut self, index: usize, now: Instant) {
        let race = &mut self.stations[index].race;
        let is_through = race.ahead.is_empty() && race.beside.is_empty();
        if is_through && core::mem::take(&mut race.may_look_beside) {
            let pairs = self.pairs_beside(index);
            self.stations[index].race.beside.extend(pairs);
        }
        self.enter_next(index, now);
    }

    /// If nobody answers what has begun.
    pub(super) fn look_beside_later(&mut self, index: usize, now: Instant) {
        let race = &mut self.stations[index].race;
        let may_look = race.may_look_beside && !race.racers.is_empty();
        race.next_at = may_look.then_some(now + UNANSWERED);
    }

    /// The gateway's addresses, each with those of ours from which it was not asked.
    fn pairs_beside(&self, index: usize) -> Vec<(SocketAddr, IpAddr)> {
        let station = &self.stations[index];
        let others = |racer: &Racer| {
            let used = self.sessions.get(&racer.id).map(|it| it.path().local.ip());
            let ours = self.ways.0.get(&racer.address.ip()).into_iter().flatten();
            let ours = ours.filter(|it| Some(**it) != used);
            let ours = ours.filter(|it| station.connection.speaks_from(**it));
            let address = racer.address;
            ours.map(|own| (address, *own)).collect::<Vec<_>>()
        };
        let all = station.race.racers.iter().flat_map(others);
        all.take(BESIDE_MAX).collect()
    }
}
