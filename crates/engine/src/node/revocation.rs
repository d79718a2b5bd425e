//! Ends tunnels early: of peers that a new revocation list names or whose certificate is not pinned
//! any more, of users of EAP who were removed, of peers that the user names, and of peers that this
//! host cannot route to.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crypto::hash::is_equal;

use super::session_id::SessionId;
use super::{EndCause, Node};
use crate::config::{Connection, RemoteMethod};
use crate::identity::Identity;
use crate::sa::Secret;
use crate::time::Instant;

/// Octets of a key that nobody has to keep.
const SECRET_LEN: usize = 32;

impl Node {
    /// Ends the sessions of peers whose certificates, or those of their authorities, are on lists
    /// in force, of peers that are not among the pinned ones, and of users that are not there any
    /// more.
    pub(super) fn end_disbelieved(&mut self, now: Instant) {
        for id in self.sessions.ids(|_| true) {
            self.end_if_disbelieved(id, now);
        }
    }

    /// A list may have been read during authentication.
    pub(super) fn end_if_disbelieved(&mut self, id: SessionId, now: Instant) {
        if let Some(cause) = self.disbelieved(id, now) {
            self.close_session(id, cause, true, now);
        }
    }

    fn disbelieved(&self, id: SessionId, now: Instant) -> Option<EndCause> {
        let session = self.sessions.get(&id)?;
        let method = &session.connection()?.remote.method;
        if let Some(path) = session.ike.certificate() {
            let (told, at) = self.calendar;
            let fault = method
                .trust_store()?
                .disbelieved_since(path, told.at(at, now).0)?;
            return Some(EndCause::CertificateRefused(fault));
        }
        let RemoteMethod::Eap(examiner) = method else {
            return None;
        };
        // Nobody asks the servers again.
        if examiner.asks_servers {
            return None;
        }
        let user = self.user_of(id)?;
        let is_there = examiner.users.as_ref().is_some_and(|it| it.has(user));
        (!is_there).then_some(EndCause::UserRemoved)
    }

    /// Whether a password, or a key that is shared with the peer, is another one now than when the
    /// peer began to prove itself by it, or its authority is not trusted any more. Lists and pins
    /// are looked at for every session.
    pub(super) fn is_outdated(&self, id: SessionId, begun: &Connection, now: &Connection) -> bool {
        if core::ptr::eq(begun, now) {
            return false;
        }
        let ppks = [begun, now].map(|it| it.ppk.as_ref().map(|ppk| &ppk.key));
        if !is_same(ppks[0], ppks[1]) {
            return true;
        }
        let methods = (&begun.remote.method, &now.remote.method);
        let path = self.sessions.get(&id).and_then(|it| it.ike.certificate());
        if let (Some(path), Some(store)) = (path, now.remote.method.trust_store())
            && !store.has_root_of(path)
        {
            return true;
        }
        let (old, new) = match methods {
            (RemoteMethod::Eap(old), RemoteMethod::Eap(new)) => (old, new),
            (RemoteMethod::PresharedKey(old), RemoteMethod::PresharedKey(new)) => {
                return !is_same(Some(old), Some(new));
            }
            _ => return false,
        };
        let users = (old.users.as_ref(), new.users.as_ref());
        let (Some(user), (Some(old), Some(new))) = (self.user_of(id), users) else {
            return false;
        };
        // Any key will do: what it makes of two equal passwords is equal.
        let key = Secret(vec![0; SECRET_LEN]);
        old.mark(user, &key) != new.mark(user, &key)
    }

    fn user_of(&self, id: SessionId) -> Option<&Identity> {
        Some(self.sessions.get(&id)?.ike.identity()?.identity())
    }

    /// Ends a connection's sessions with one peer.
    pub(super) fn end_peer(&mut self, connection: &str, peer: &Identity, now: Instant) {
        let sessions = self.sessions.ids(|session| {
            let proven = session.ike.identity();
            session.is_of(connection) && proven.is_some_and(|it| it.is_called(peer))
        });
        for id in sessions {
            self.close_session(id, EndCause::TakenDown, true, now);
        }
    }

    /// Ends the sessions with authenticated peers without a pool address at these addresses. A path
    /// that the peer has not proven does not count.
    pub(super) fn end_unroutable(&mut self, peers: &BTreeSet<IpAddr>, now: Instant) {
        let sessions = self.sessions.ids(|session| {
            session.ike.is_established()
                && session.connection().is_some_and(|it| it.has_bare_peers())
                && peers.contains(&session.home().remote.ip())
        });
        for id in sessions {
            self.close_session(id, EndCause::Unroutable, true, now);
        }
    }
}

/// Whether two secrets are equal, or there is none.
fn is_same(old: Option<&Secret>, new: Option<&Secret>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => is_equal(&old.0, &new.0),
        (old, new) => old.is_none() && new.is_none(),
    }
}
