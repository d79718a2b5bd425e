//! Ends tunnels early: of peers that a new revocation list names or whose certificate is not pinned
//! any more, of peers that the user names, and of peers that this host cannot route to.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crypto::cert::CertFault;

use super::session_id::SessionId;
use super::{EndCause, Node};
use crate::config::RemoteMethod;
use crate::identity::{Identity, Peer};
use crate::time::Instant;

impl Node {
    /// Ends the sessions of peers whose certificates, or those of their authorities, are on lists
    /// in force, and of peers that are not among the pinned ones.
    pub(super) fn end_disbelieved(&mut self, now: Instant) {
        for id in self.sessions.ids(|_| true) {
            self.end_if_disbelieved(id, now);
        }
    }

    /// A list may have been read during phase 1.
    pub(super) fn end_if_disbelieved(&mut self, id: SessionId, now: Instant) {
        let Some(fault) = self.disbelieved(id, now) else {
            return;
        };
        self.close_session(id, EndCause::CertificateRefused(fault), true, now);
    }

    fn disbelieved(&self, id: SessionId, now: Instant) -> Option<CertFault> {
        let session = self.sessions.get(&id)?;
        let path = session.ike.certificate()?;
        let RemoteMethod::Signature(store) = &session.connection()?.remote.method else {
            return None;
        };
        let (told, at) = self.calendar;
        store.disbelieved_since(path, told.at(at, now).0)
    }

    /// Ends a connection's sessions with one peer.
    pub(super) fn end_peer(&mut self, connection: &str, peer: &Identity, now: Instant) {
        let peer = peer.canonical();
        let sessions = self.sessions.ids(|session| {
            let proven = session.ike.identity();
            let is_it = |it: &Peer| it.identity().canonical() == peer;
            session.is_of(connection) && proven.is_some_and(is_it)
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
