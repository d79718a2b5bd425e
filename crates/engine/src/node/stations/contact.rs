//! Which connection sends INITIAL-CONTACT, if several of ours have the same peer and identity. The
//! notification ends the peer's other sessions with our identity (RFC 2407 §4.6.3.3).

use crate::config::Connection;
use crate::node::Node;
use crate::node::session::Session;
use crate::node::session_id::SessionId;
use crate::sa::Path;

impl Node {
    /// Whether another connection of ours has or starts a session with this peer under the same
    /// identity.
    pub(super) fn has_contact(&self, connection: &Connection, path: Path) -> bool {
        let mut sessions = self.sessions.values();
        sessions.any(|session| session.is_neighbour(connection, path))
    }

    /// A session stands, so exchanges in progress beside it are not a first contact, unless they
    /// have already said so.
    pub(super) fn contact_made(&mut self, id: SessionId, connection: &Connection) {
        let path = self.sessions[&id].path();
        let sessions = self.sessions.values_mut();
        for session in sessions.filter(|session| session.is_neighbour(connection, path)) {
            session.ike.forget_first_contact();
        }
    }
}

impl Session {
    /// Whether it belongs to another connection with the same peer and identity.
    fn is_neighbour(&self, connection: &Connection, path: Path) -> bool {
        let other = self.connection();
        let other = other.filter(|it| it.name != connection.name);
        self.path().remote.ip() == path.remote.ip()
            && other.is_some_and(|it| it.local.is_same_peer(&connection.local))
    }
}
