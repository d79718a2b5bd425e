//! Earlier sessions of a peer: renewed, replaced or kept beside a new one (RFC 2407 §4.6.3.3).
//! `docs/design/renewal.md` says why a renewed session stays for a while, and what moves.

use super::{End, Purpose, RENEWAL_OVERLAP, Rule, SessionId, Stage};
use crate::config::{Connection, Start, Unique};
use crate::counters::DropReason;
use crate::ike::Lease;
use crate::ike::Role;
use crate::node::{EndCause, Node};
use crate::sa::{ChildId, Path};
use crate::time::Instant;

/// How many replaced sessions of one peer may wait for the peer to delete them.
const MAX_REPLACED: usize = 4;

/// How many sessions of one identity a connection with `unique = "keep"` has; the oldest is
/// dropped.
const MAX_KEPT: usize = 16;

impl Node {
    /// Handles earlier sessions of the same peer: the one that this session renews, and those of
    /// the same identity (RFC 2407 §4.6.3.3).
    pub(super) fn settle_predecessors(
        &mut self,
        id: SessionId,
        purpose: Purpose,
        is_first_contact: bool,
        now: Instant,
    ) {
        if let Purpose::Renew(old) = purpose {
            self.adopt(id, old, now);
            self.retire_session(old, id, Some(now + RENEWAL_OVERLAP));
        }
        let session = &self.sessions[&id];
        let (Some(identity), Some(connection)) = (session.ike.identity(), session.connection())
        else {
            return;
        };
        if session.ike.role() == Role::Initiator {
            return;
        }
        let is_kept = connection.unique == Unique::Keep;
        let earlier: Vec<(SessionId, bool)> = self
            .sessions
            .of_peer(identity)
            .filter(|(other, _)| *other != id)
            .map(|(other, _)| (other, self.sessions.heir_of(other) != other))
            .collect();
        if is_kept {
            let surplus = (earlier.len() + 1).saturating_sub(MAX_KEPT);
            for (old, _) in earlier.into_iter().take(surplus) {
                self.drops.count(DropReason::TooManySessions);
                self.close_session(old, EndCause::NewerSessions, true, now);
            }
            return;
        }
        let mut surplus = earlier.len().saturating_sub(MAX_REPLACED);
        for (old, is_replaced) in earlier {
            // IKEv2 renews an IKE SA under the same session, and takes no child from one to
            // another.
            let is_anew = is_first_contact || self.sessions[&id].ike.is_v2();
            if is_anew && old.is_before(id) {
                self.close_restarted(old, id, !is_first_contact, now);
            } else if !is_replaced {
                // The peer renews its IKE SA and will delete the old one itself.
                self.adopt(id, old, now);
                self.retire_session(old, id, None);
            } else if surplus > 0 {
                surplus -= 1;
                self.close_session(old, EndCause::NewerSessions, true, now);
            }
        }
    }

    /// INITIAL-CONTACT in an exchange of its own: the peer's earlier sessions are gone, unless
    /// several peers may have one identity.
    pub(in super::super) fn peer_restarted(&mut self, id: SessionId, now: Instant) {
        let session = &self.sessions[&id];
        let is_kept = |c: &Connection| c.unique == Unique::Keep;
        let Some(identity) = session.ike.identity() else {
            return;
        };
        let is_responder = session.ike.role() == Role::Responder;
        if is_responder && session.connection().is_some_and(|it| is_kept(it)) {
            return;
        }
        let earlier: Vec<SessionId> = self
            .sessions
            .of_peer(identity)
            .map(|(other, _)| other)
            .filter(|other| *other != id && other.is_before(id))
            .collect();
        for old in earlier {
            self.close_restarted(old, id, false, now);
        }
    }

    /// Session `by` stands in place of an old one. Unless the peer says that it has no other
    /// session with us, the old one may be alive there (`may_be_alive`), and gets a delete. If the
    /// old one never had a child, the peer may have refused us in a message that was lost. If the
    /// old one was at another address, there may be two devices, and the other one is told why its
    /// tunnel ends.
    pub(in super::super) fn close_restarted(
        &mut self,
        old: SessionId,
        by: SessionId,
        may_be_alive: bool,
        now: Instant,
    ) {
        let at = |id: SessionId| self.sessions.get(&id).map(|it| it.path().remote);
        let (Some(before), Some(after)) = (at(old), at(by)) else {
            return;
        };
        if self.sessions[&old].held.children.is_empty() {
            return self.close_session(old, EndCause::BegunAnew, may_be_alive, now);
        }
        if before == after {
            return self.close_session(old, EndCause::PeerRestarted, may_be_alive, now);
        }
        let cause = EndCause::PeerElsewhere(before, after);
        self.supersede(old, (before, after), now);
        self.close_session(old, cause, true, now);
    }

    /// Other sessions of the peer under the same connection, the oldest first: several of its
    /// connections have one identity, or it renews. Empty if several peers may have one identity.
    pub(in super::super) fn siblings(&self, id: SessionId) -> Vec<SessionId> {
        let session = self.sessions.get(&id);
        let Some((identity, connection)) =
            session.and_then(|it| Some((it.ike.identity()?, it.connection()?)))
        else {
            return Vec::new();
        };
        if connection.unique == Unique::Keep || connection.start != Start::Responder {
            return Vec::new();
        }
        self.sessions
            .of_peer(identity)
            .map(|(other, _)| other)
            .filter(|other| *other != id)
            .collect()
    }

    /// The lease of a session's peer, under this session or another one.
    pub(in super::super) fn lease_of(&self, id: SessionId) -> Option<Lease> {
        let all = core::iter::once(id).chain(self.siblings(id));
        let mut leases = all.filter_map(|it| self.sessions.get(&it)?.held.lease.as_deref());
        leases.next().cloned()
    }

    /// The lease of another session of this peer. From now on this session holds it too: it stays
    /// assigned until both have ended.
    pub(in super::super) fn shared_lease(&mut self, id: SessionId) -> Option<Lease> {
        let siblings = self.siblings(id).into_iter();
        let mut leases = siblings.filter_map(|it| self.sessions.get(&it)?.held.lease.as_deref());
        let lease = leases.next().cloned()?;
        lease.addresses.iter().for_each(|it| self.leases.share(*it));
        Some(lease)
    }

    /// The peer deletes a session, not its IPsec SAs. They continue under another session of the
    /// peer, and so does its inner address.
    pub(in super::super) fn hand_over(&mut self, id: SessionId, now: Instant) {
        let Some(heir) = self.siblings(id).pop() else {
            return;
        };
        self.adopt(heir, id, now);
        if let Some(heir) = self.sessions.get_mut(&heir) {
            heir.stage.rule_again();
        }
        self.begin_waiting(heir, now);
    }

    /// Another session took over from this one. The peer deletes it, or we do at `until`, when the
    /// peer has had time to take over its children too.
    fn retire_session(&mut self, old: SessionId, heir: SessionId, until: Option<Instant>) {
        if let Some(session) = self.sessions.get_mut(&old)
            && let Stage::Established(_, tenure) = &mut session.stage
        {
            tenure.rule = Rule::Replaced(heir);
            if let (End::At(at), Some(until)) = (&mut tenure.end, until) {
                *at = until;
            }
        }
        self.arm_session(old);
    }

    /// Moves children and lease of `old` to `id`. Exchanges in progress continue in `old`; their
    /// children then belong to `id`.
    fn adopt(&mut self, id: SessionId, old: SessionId, now: Instant) {
        let Some(from) = self.sessions.get_mut(&old) else {
            return;
        };
        let held = core::mem::take(&mut from.held);
        let was_unproven = from.unproven.take().is_some();
        let path = from.path();
        let under_way: Vec<ChildId> = from.ike.under_way();
        let children = held.children.clone();
        for child in children.iter().chain(&under_way) {
            if let Some(entry) = self.children.get_mut(child) {
                entry.session = Some(id);
            }
        }
        let Some(to) = self.sessions.get_mut(&id) else {
            return;
        };
        let moved = (to.path() != path).then_some(to.path());
        let surplus = to.held.take_over(held);
        surplus.iter().for_each(|it| self.leases.give_back(*it));
        let is_alike = |to: &Path| to.via == path.via;
        let follows = moved.is_none_or(|to| is_alike(&to));
        if let Some(to) = moved.filter(is_alike) {
            self.lead(&children, to);
        }
        if follows && (was_unproven || moved.is_some()) {
            // The new session's authentication has proven the peer's address: packets go there now.
            let address = moved.unwrap_or(path).remote.ip();
            for child in &children {
                self.proven_at(*child, address);
            }
        }
        self.station_follows(old, id, now);
    }
}

impl SessionId {
    /// Whether this session was started before that one. Numbers wrap around.
    pub(in super::super) fn is_before(self, later: Self) -> bool {
        later.0.wrapping_sub(self.0) < 1 << 31
    }
}
