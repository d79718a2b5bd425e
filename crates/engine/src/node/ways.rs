//! Our own addresses, as far as a datagram can leave from them, and what stations do when they
//! change. The node cannot know routes: whoever drives it tells what the routing table says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use super::Node;
use crate::time::{Duration, Instant};

/// A station follows a change of our addresses at once, so often within [`FOLLOW_WINDOW`]. Each
/// time costs a question to the gateway, or a whole new attempt.
pub(super) const FOLLOWED_AT_ONCE: usize = 3;
/// See [`FOLLOWED_AT_ONCE`]. A station that has used them up waits until the first of them is this
/// old, and then follows what is newest.
pub(super) const FOLLOW_WINDOW: Duration = Duration::from_secs(1);

/// By peer, the addresses of ours from which the routing table leads to it: its own choice first,
/// then the others. None: there is no way to this peer. A peer that is missing is not known yet.
///
/// Addresses that are not usable at this moment are left out: tentative ones, duplicates and
/// deprecated ones (RFC 4862 §5.4, §5.5.4), and those of our own tunnel device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways(pub BTreeMap<IpAddr, Vec<IpAddr>>);

/// From where a datagram can go to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nobody has said yet.
    Unknown,
    /// From nowhere.
    Nowhere,
    /// From this address of ours.
    From(IpAddr),
}

impl Ways {
    /// Of a host with one address that leads to all these peers.
    pub fn of_one(own: IpAddr, peers: impl IntoIterator<Item = IpAddr>) -> Self {
        Self(peers.into_iter().map(|peer| (peer, vec![own])).collect())
    }

    /// Whether the routing table chooses there as here, for all peers that both know.
    pub(super) fn chooses_as(&self, other: &Self) -> bool {
        let mut own = self.0.iter();
        own.all(|(peer, ours)| {
            let theirs = other.0.get(peer);
            theirs.is_none_or(|it| it.first() == ours.first())
        })
    }

    /// The way to a peer: from the first of `among` that leads there. Where `among` is empty, or
    /// names the unspecified address, the routing table chooses.
    pub fn way_to(&self, remote: IpAddr, among: &[IpAddr]) -> Way {
        let Some(ours) = self.0.get(&remote) else {
            return Way::Unknown;
        };
        let choice = ours.first();
        let wanted = |own: &IpAddr| match own.is_unspecified() {
            true => choice.filter(|it| it.is_ipv4() == own.is_ipv4()),
            false => ours.iter().find(|it| *it == own),
        };
        let found = match among {
            [] => choice,
            some => some.iter().find_map(wanted),
        };
        found.map_or(Way::Nowhere, |own| Way::From(*own))
    }
}

/// When a station has followed changes of our addresses lately.
#[derive(Default)]
pub(super) struct Followed {
    /// At most [`FOLLOWED_AT_ONCE`], the oldest first.
    times: VecDeque<Instant>,
    /// It looks again then.
    pub(super) again_at: Option<Instant>,
}

impl Followed {
    /// Whether one more change may be followed at once. If not, `again_at` says when.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        self.times.retain(|at| now.since(*at) < FOLLOW_WINDOW);
        self.again_at = None;
        if self.times.len() < FOLLOWED_AT_ONCE {
            self.times.push_back(now);
            return true;
        }
        self.again_at = self.times.front().map(|first| *first + FOLLOW_WINDOW);
        false
    }
}

impl Node {
    /// The peers to which stations begin or were sent, and the addresses that their peers have by
    /// MOBIKE:
    /// [`Input::Ways`](super::Input::Ways) names the way to each.
    pub fn peers(&self) -> BTreeSet<IpAddr> {
        let all = self.config.connections.iter();
        let configured = all.flat_map(|it| it.remote_addrs.iter().map(|remote| remote.ip()));
        let sessions = self.stations.sessions();
        let movers = sessions.filter_map(|id| self.sessions.get(&id));
        let movers = movers.filter(|it| it.ike.is_mover());
        let of_peers = movers.flat_map(|it| {
            let others = it.ike.peer_addresses().iter().copied();
            others.chain([it.path().remote.ip()])
        });
        let raced = self.stations.iter().flat_map(|it| it.addresses());
        configured.chain(of_peers).chain(raced).collect()
    }

    /// Our addresses, or the routes, are others: what waits for a way begins, and what has another
    /// address moves.
    pub(super) fn on_ways(&mut self, ways: Ways, now: Instant) {
        if self.ways != ways {
            self.sessions
                .values_mut()
                .for_each(|it| it.forget_refusals());
        }
        self.ways = ways;
        for index in 0..self.stations.len() {
            self.go_on_waiting(index, now);
            self.follow_addresses(index, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_first_configured_address_that_leads_there_is_taken() {
        let [peer, lost, strange] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"].map(ip);
        let [wifi, cell, six] = ["10.0.0.2", "100.64.0.2", "2001:db8::2"].map(ip);
        let ways = BTreeMap::from([(peer, vec![wifi, cell]), (lost, Vec::new())]);
        let ways = Ways(ways);
        for (among, way) in [
            (&[][..], Way::From(wifi)),
            (&[cell, wifi], Way::From(cell)),
            (&[six, ip("10.0.0.9"), cell], Way::From(cell)),
            (&[ip("0.0.0.0")], Way::From(wifi)),
            (&[ip("::")], Way::Nowhere),
            (&[six], Way::Nowhere),
        ] {
            assert_eq!(ways.way_to(peer, among), way, "{among:?}");
        }
        assert_eq!(ways.way_to(lost, &[]), Way::Nowhere);
        assert_eq!(ways.way_to(strange, &[]), Way::Unknown);
    }
}
