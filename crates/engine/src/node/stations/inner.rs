//! Whether a station takes the inner addresses that it got, and which of its children can start
//! with them: each child needs an address of its own family.

use std::net::IpAddr;

use crate::ike::Lease;
use crate::node::session_id::SessionId;
use crate::node::{Event, Node};
use crate::sa::{ChildId, Mode};
use crate::selector::TrafficSelector;
use crate::site::is_common;
use crate::time::{Duration, Instant};

impl Node {
    /// Why we cannot use this lease. With an address of the gateway as our own, our packets to the
    /// gateway would not leave this host. One that this host has on another link would be on two,
    /// and be kept over restarts; a private one may be both networks' by chance.
    pub(super) fn unusable(&self, id: SessionId, index: usize, lease: &Lease) -> Option<String> {
        let known = &self.stations[index].connection.remote_addrs;
        let used = self.sessions[&id].path().remote;
        let is_its_own = |lent: &IpAddr| known.iter().chain([&used]).any(|it| it.ip() == *lent);
        // Not those of the tunnel device: a renewed session keeps its addresses.
        let is_ours = |lent: &IpAddr| self.own.contains(lent) && !is_common(lent);
        if let Some(lent) = lease.addresses.iter().find(|lent| is_ours(lent)) {
            return Some(format!(
                "the gateway lends us {lent}, which this host has already on another link"
            ));
        }
        match lease.addresses.iter().find(|lent| is_its_own(lent)) {
            Some(lent) => Some(format!(
                "the gateway lends us {lent}, which is its own address: we could not reach it any \
                 more"
            )),
            None if lease.addresses.is_empty() => {
                Some("the gateway lends no inner address".to_owned())
            }
            None => None,
        }
    }

    /// Starts every child of a station that has its inner addresses, or needs none.
    pub(super) fn begin_children(&mut self, index: usize, id: SessionId, now: Instant) {
        let children = self.stations[index].children.clone();
        let (able, unable): (Vec<_>, Vec<_>) = children
            .into_iter()
            .partition(|child| self.has_inner(id, *child));
        // If one is in progress, the session continues without the others.
        for child in able {
            self.begin_child(id, child, now);
        }
        for child in unable {
            self.lacks_inner(id, child, now);
        }
    }

    /// Whether we have an inner address of the family that a child leads to, if it takes one.
    pub(super) fn has_inner(&self, id: SessionId, child: ChildId) -> bool {
        let lease = self.sessions.get(&id).and_then(|it| it.held.lease.as_ref());
        let (Some(lease), Some(entry)) = (lease, self.children.get(&child)) else {
            return true;
        };
        let takes_one = entry.child().mode == Mode::Tunnel && entry.local.is_empty();
        let is_lent = |is_v4| lease.addresses.iter().any(|it| it.is_ipv4() == is_v4);
        let mut remotes = entry.remote.iter();
        let leads_there = remotes.any(|remote| is_lent(remote.first.is_ipv4()));
        !takes_one || entry.remote.is_empty() || leads_there
    }

    /// Reports once per session why one of its children is not started.
    fn lacks_inner(&mut self, id: SessionId, child: ChildId, now: Instant) {
        let (Some(session), Some(entry)) = (self.sessions.get(&id), self.children.get(&child))
        else {
            return;
        };
        let Some(remote) = entry.remote.first().copied() else {
            return;
        };
        let is_alone = session.ike.exchanges().is_empty() && session.held.children.is_empty();
        self.tell_unlent(id, child, remote);
        if is_alone {
            self.station_child_down(id, child, Duration::ZERO, now);
        }
    }

    /// Reports that no traffic goes to a network: we have no inner address of its family.
    pub(in crate::node) fn tell_unlent(
        &mut self,
        id: SessionId,
        child: ChildId,
        remote: TrafficSelector,
    ) {
        let (Some(session), Some(entry)) = (self.sessions.get(&id), self.children.get(&child))
        else {
            return;
        };
        let family = match remote.first.is_ipv4() {
            true => "IPv4",
            false => "IPv6",
        };
        self.outputs.tell(Event::NegotiationFailed {
            connection: Some(entry.connection.name.clone()),
            path: session.path(),
            reason: format!("the gateway gives no {family} address: no traffic goes to {remote}"),
        });
    }
}
