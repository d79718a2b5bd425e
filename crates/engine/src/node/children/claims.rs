//! Decides which peer may have which traffic, if several peers may ask for parts of one range.
//!
//! A connection that accepts many peers and has a `remote_ts` lets each peer choose its part. A
//! peer must not take another peer's traffic, so it is refused
//!
//! - what overlaps a child of another peer,
//! - what another connection keeps for the one peer that it accepts, even while its tunnel is down,
//! - what lies in a pool of ours, or reaches into one: those addresses are lent, not asked for.
//!
//! A range for many peers may lie inside the wider range of one peer (sites beside a tunnel for
//! everything else). This is allowed: the narrower selector gets its packets. A peer may ask again
//! for what it has, from any address, because a tunnel that it lost stays here for a time.

use std::sync::Arc;

use super::super::Node;
use super::super::session_id::SessionId;
use super::ChildEntry;
use crate::config::{Child, Config, Connection};
use crate::identity::Peer;
use crate::ike::Fault;
use crate::sa::Mode;
use crate::selector::TrafficSelector;

/// A peer's request for a part of a range that others may request too.
struct Claim<'a> {
    local: &'a TrafficSelector,
    remote: &'a TrafficSelector,
    /// The configured range that contains it.
    range: &'a TrafficSelector,
}

impl Node {
    /// Refuses what belongs to another peer.
    pub(super) fn check_claim(
        &self,
        id: SessionId,
        connection: &Arc<Connection>,
        child: &Child,
        (local, remote): (&[TrafficSelector], &[TrafficSelector]),
    ) -> Result<(), Fault> {
        if child.mode != Mode::Tunnel || !connection.takes_many_peers() {
            return Ok(());
        }
        for remote in remote {
            for local in local {
                self.check_one(id, connection, child, (local, remote))?;
            }
        }
        Ok(())
    }

    fn check_one(
        &self,
        id: SessionId,
        connection: &Arc<Connection>,
        child: &Child,
        (local, remote): (&TrafficSelector, &TrafficSelector),
    ) -> Result<(), Fault> {
        let mut ranges = child.remote.iter();
        let range = ranges.find(|range| range.contains(remote));
        let (Some(range), Some(peer)) = (range, self.peer_of(id)) else {
            return Ok(());
        };
        let claim = Claim {
            local,
            remote,
            range,
        };
        let owner = (self.holder(peer, &claim))
            .or_else(|| claim.kept_by(&self.config, connection))
            .or_else(|| claim.lent_from(&self.config));
        let Some(owner) = owner else {
            return Ok(());
        };
        Err(Fault::Taken(format!(
            "{peer} asks for {}, which it may not have: {owner}",
            claim.remote
        )))
    }

    /// The peer of an established session.
    fn peer_of(&self, id: SessionId) -> Option<&Peer> {
        self.sessions.get(&id)?.ike.identity()
    }

    /// The child of another peer that a claim overlaps, in words.
    fn holder(&self, peer: &Peer, claim: &Claim<'_>) -> Option<String> {
        self.children.values().find_map(|entry| {
            let (local, remote) = entry.held()?;
            let mut pairs = remote
                .iter()
                .flat_map(|it| local.iter().map(move |own| (own, it)));
            let (_, remote) = pairs.find(|(own, it)| claim.overlaps(Some(own), it))?;
            let owner = self.peer_of(entry.session?)?;
            (owner != peer).then(|| {
                let connection = &entry.connection.name;
                format!("{owner} of connection {connection} has {remote}")
            })
        })
    }
}

impl Claim<'_> {
    /// Whether traffic of both sides may also match these selectors, unless they merely surround
    /// the configured range. No local selector: the address is not yet known.
    fn overlaps(&self, local: Option<&TrafficSelector>, remote: &TrafficSelector) -> bool {
        let is_around = remote.contains(self.range) && remote != self.range;
        let is_ours = |local: &TrafficSelector| self.local.intersection(local).is_some();
        !is_around && self.remote.intersection(remote).is_some() && local.is_none_or(is_ours)
    }

    /// The connection for a single peer that reserves some of it, in words.
    fn kept_by(&self, config: &Config, own: &Arc<Connection>) -> Option<String> {
        let mut others = config.connections.iter();
        others.find_map(|other| {
            if Arc::ptr_eq(other, own) || other.takes_many_peers() {
                return None;
            }
            let remote = other.children.iter().find_map(|child| {
                let is_local = |local: Option<&TrafficSelector>, remote: &TrafficSelector| {
                    child.mode == Mode::Tunnel && self.overlaps(local, remote)
                };
                let mut remotes = child.remote.iter();
                remotes.find(|remote| match child.local.as_slice() {
                    [] => is_local(None, remote),
                    locals => locals.iter().any(|local| is_local(Some(local), remote)),
                })
            })?;
            Some(format!(
                "connection {} reserves {remote} for its peer",
                other.name
            ))
        })
    }

    /// The pool that it lies in or overlaps, in words. A peer that has all of a range configured
    /// around a pool gets what the pool's own tunnels do not take.
    fn lent_from(&self, config: &Config) -> Option<String> {
        config.pools.iter().find_map(|pool| {
            let addresses = TrafficSelector {
                last: pool.last,
                ..TrafficSelector::host(pool.first)
            };
            let name = &pool.name;
            if addresses.contains(self.remote) {
                return Some(format!("it lies in pool {name}"));
            }
            let reaches = self.remote.intersection(&addresses).is_some();
            (reaches && self.remote != self.range).then(|| format!("it reaches into pool {name}"))
        })
    }
}

impl ChildEntry {
    /// The traffic of a tunnel that stands, or that the peer has requested.
    fn held(&self) -> Option<(&[TrafficSelector], &[TrafficSelector])> {
        if self.child().mode != Mode::Tunnel {
            return None;
        }
        let has_asked = !self.is_ours && !self.local.is_empty() && !self.remote.is_empty();
        let asked = has_asked.then_some((&self.local[..], &self.remote[..]));
        let current = self.current.as_ref();
        let current = current.map(|pair| (&pair.local[..], &pair.remote[..]));
        current.or(asked)
    }
}
