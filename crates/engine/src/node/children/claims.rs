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
    local: &'a [TrafficSelector],
    remote: &'a TrafficSelector,
    /// The configured range that contains it.
    range: &'a TrafficSelector,
}

impl Node {
    /// Refuses what belongs to another peer. Each side is compared by itself, and not every pair of
    /// what the peer names on both sides: it chooses how many there are.
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
        let Some(peer) = self.peer_of(id) else {
            return Ok(());
        };
        let claim = |remote| {
            let mut ranges = child.remote.iter();
            let range = ranges.find(|range| range.contains(remote))?;
            Some(Claim {
                local,
                remote,
                range,
            })
        };
        let claims: Vec<Claim<'_>> = remote.iter().filter_map(claim).collect();
        let kept = |claim: &Claim<'_>| {
            let owner = claim.kept_by(&self.config, connection);
            let owner = owner.or_else(|| claim.lent_from(&self.config))?;
            Some((*claim.remote, owner))
        };
        let held = self.holder(peer, local, &claims);
        match held.or_else(|| claims.iter().find_map(kept)) {
            None => Ok(()),
            Some((asked, owner)) => Err(Fault::Taken(format!(
                "{peer} asks for {asked}, which it may not have: {owner}"
            ))),
        }
    }

    /// The peer of an established session.
    fn peer_of(&self, id: SessionId) -> Option<&Peer> {
        self.sessions.get(&id)?.ike.identity()
    }

    /// What of these claims overlaps a child of another peer, and that child in words.
    fn holder(
        &self,
        peer: &Peer,
        local: &[TrafficSelector],
        claims: &[Claim<'_>],
    ) -> Option<(TrafficSelector, String)> {
        if claims.is_empty() {
            return None;
        }
        self.children.values().find_map(|entry| {
            let (own, remote) = entry.held()?;
            // Most children of others are elsewhere: what is cheap comes first.
            let (claim, theirs) = claims.iter().find_map(|claim| {
                let theirs = remote.iter().find(|theirs| claim.reaches(theirs))?;
                Some((claim, theirs))
            })?;
            let owner = self.peer_of(entry.session?)?;
            if owner == peer || !meet(local, own) {
                return None;
            }
            let connection = &entry.connection.name;
            let words = format!("{owner} of connection {connection} has {theirs}");
            Some((*claim.remote, words))
        })
    }
}

impl Claim<'_> {
    /// Whether its remote side may also match this selector, unless that merely surrounds the
    /// configured range.
    fn reaches(&self, remote: &TrafficSelector) -> bool {
        let is_around = remote.contains(self.range) && remote != self.range;
        !is_around && self.remote.intersection(remote).is_some()
    }

    /// Whether our side may also match one of these. None: the address is not yet known.
    fn is_of(&self, locals: &[TrafficSelector]) -> bool {
        locals.is_empty() || meet(self.local, locals)
    }

    /// The connection for a single peer that reserves some of it, in words.
    fn kept_by(&self, config: &Config, own: &Arc<Connection>) -> Option<String> {
        let mut others = config.connections.iter();
        others.find_map(|other| {
            if Arc::ptr_eq(other, own) || other.takes_many_peers() {
                return None;
            }
            let tunnels = other.children.iter().filter(|it| it.mode == Mode::Tunnel);
            let mut tunnels = tunnels.filter(|child| self.is_of(&child.local));
            let remote =
                tunnels.find_map(|child| child.remote.iter().find(|it| self.reaches(it)))?;
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

/// Whether a packet may match a selector of each.
fn meet(some: &[TrafficSelector], others: &[TrafficSelector]) -> bool {
    let meets = |it: &TrafficSelector| others.iter().any(|other| it.intersection(other).is_some());
    some.iter().any(meets)
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
