//! Quick crash detection (RFC 6290): who asks about an IKE SA that we have lost is shown our token
//! of it, and a peer that shows its own is over. `ikev2/crash.rs` has the tokens.

use std::sync::Arc;

use super::hints::HINTS;
use super::session::with_marker;
use super::session_id::SessionId;
use super::{EndCause, Node, Output};
use crate::config::Connection;
use crate::ikev2::crash::Maker;
use crate::ikev2::message::Message;
use crate::sa::Path;
use crate::time::Instant;

impl Node {
    /// A message of IKEv2 for an IKE SA that we do not have. If it is a request under keys, we may
    /// have lost that IKE SA, and say so with its token. Nobody gets a token of an IKE SA that we
    /// have, whichever end the message pretends to come from (RFC 6290 §9.2).
    pub(super) fn deny_ike_sa(&mut self, path: Path, message: &Message<'_>, now: Instant) {
        let spis = message.spis();
        if self.has_ike_sa(spis.initiator) || self.has_ike_sa(spis.responder) {
            return;
        }
        // Strangers make us look: connections only while an answer may leave.
        let gives = |it: &Arc<Connection>| it.version.has_v2() && it.crash_detection;
        if self.is_stopping
            || !self.hints.has(HINTS, now)
            || !self.config.between(path).iter().any(gives)
        {
            return;
        }
        let answer = self.kept.maker().answer(message, path);
        let Some(answer) = answer.filter(|_| self.hints.take_one(HINTS, now)) else {
            return;
        };
        let datagram = with_marker(path, answer.message);
        self.outputs.push(Output::Datagram(path, datagram));
        self.keep_secrets();
    }

    /// Makes the tokens of a connection, or of any that has them; `None`: it has none.
    pub(super) fn maker_of(&mut self, connection: Option<&Connection>) -> Option<Arc<Maker>> {
        let mut all = self.config.connections.iter();
        let gives = match connection {
            Some(one) => one.crash_detection,
            None => all.any(|it| it.crash_detection),
        };
        gives.then(|| self.kept.maker())
    }

    /// The peer of a session has lost it. It is not told: it has nothing left to end.
    pub(super) fn peer_crashed(&mut self, id: SessionId, now: Instant) {
        self.close_session(id, EndCause::PeerCrashed, false, now);
    }
}
