//! Ends tunnels early: of peers that a new revocation list names or whose certificate is not pinned
//! any more, and of peers that the user names.

use crypto::cert::CertFault;

use super::session_id::SessionId;
use super::{EndCause, Node};
use crate::config::RemoteMethod;
use crate::time::Instant;

impl Node {
    /// Ends the sessions of peers whose certificates, or those of their authorities, the lists in
    /// force name, and of those who are not among the pinned ones.
    pub(super) fn end_disbelieved(&mut self, now: Instant) {
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        ids.into_iter()
            .for_each(|id| self.end_if_disbelieved(id, now));
    }

    /// A list may have been read while phase 1 was under way.
    pub(super) fn end_if_disbelieved(&mut self, id: SessionId, now: Instant) {
        let Some(fault) = self.disbelieved(id, now) else {
            return;
        };
        self.close_session(id, EndCause::CertificateRefused(fault), true, now);
    }

    fn disbelieved(&self, id: SessionId, now: Instant) -> Option<CertFault> {
        let session = self.sessions.get(&id)?;
        let path = session.ike.certificate()?;
        let RemoteMethod::Signature(store) = &session.connection.as_ref()?.remote.method else {
            return None;
        };
        let (told, at) = self.calendar;
        store.disbelieved_since(path, told.at(at, now).0)
    }

    /// Ends the sessions that a connection has with one peer.
    pub(super) fn end_peer(&mut self, connection: &str, peer: &str, now: Instant) {
        let sessions = self.sessions.iter().filter(|(_, session)| {
            let own = session.connection.as_ref();
            let identity = session.ike.identity();
            own.is_some_and(|own| own.name == connection)
                && identity.is_some_and(|identity| identity.to_string() == peer)
        });
        let ids: Vec<SessionId> = sessions.map(|(id, _)| *id).collect();
        for id in ids {
            self.close_session(id, EndCause::TakenDown, true, now);
        }
    }
}
