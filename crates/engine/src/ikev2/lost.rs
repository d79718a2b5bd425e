//! What is kept of a session for the one that goes on from it (RFC 5723).

use std::sync::Arc;

use crypto::cert::CertificatePath;

use super::auth::ResumedForm;
use super::ticket::{TicketId, mark};
use crate::config::{Connection, Ppk};
use crate::identity::Peer;
use crate::ike::Spi;
use crate::ike::auth::Proven;
use crate::rate::Bucket;
use crate::sa::Secret;
use crate::suite::Ikev2Suite;
use crate::time::{Calendar, Instant};

/// A ticket that a gateway gave us, and what we must know of the session to use it. Once.
pub struct Ticket {
    pub(super) opaque: Vec<u8>,
    pub(super) expires: Instant,
    pub(super) d: Secret,
    pub(super) suite: Ikev2Suite,
    /// The bodies of both ID payloads, the initiator's first.
    pub(super) ids: (Vec<u8>, Vec<u8>),
    pub(super) connection: Arc<Connection>,
    pub(super) identity: Peer,
    pub(super) certificate: Option<Box<CertificatePath>>,
    pub(super) ends_at: Option<Instant>,
    pub(super) ppk: Option<Arc<Ppk>>,
    /// What our AUTH covers.
    pub(super) form: ResumedForm,
}

impl Ticket {
    /// Whether it can be used for this connection now: it has the same credentials and trusts the
    /// same authorities.
    pub fn is_good(&self, connection: &Connection, now: Instant) -> bool {
        let is_same = mark(&self.connection) == mark(connection);
        is_same && connection.resumption && now < self.expires
    }

    /// Its AUTH is made as Libreswan makes it.
    #[cfg(test)]
    pub(super) fn into_libreswans_for_testing(self) -> Self {
        Self {
            form: ResumedForm::MessageOnly,
            ..self
        }
    }
}

/// The session from which an IKE SA goes on.
pub(super) struct Resumed {
    /// The bodies of both ID payloads, the initiator's first.
    pub(super) ids: (Vec<u8>, Vec<u8>),
    /// Who the peer has proven to be then.
    pub(super) proven: Option<Proven>,
    /// At a gateway: the ticket, and our SPI of the session that it was given for.
    pub(super) used: Option<(Spent, Spi)>,
    /// What the initiator's AUTH covers: ours does the same.
    pub(super) form: ResumedForm,
}

impl Resumed {
    /// The ticket's name and expiry.
    pub(super) const fn spent(expires: Calendar, id: TicketId) -> Spent {
        Spent { expires, id }
    }
}

/// A ticket that must not be used any more: its expiry and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) expires: Calendar,
    pub(crate) id: TicketId,
}

/// What came of a request for a ticket.
#[derive(Default)]
pub(crate) struct Given {
    /// The one before it.
    pub(crate) former: Option<Spent>,
    /// The keys of tickets have changed.
    pub(crate) has_new_key: bool,
    /// There is none, because it would have so many octets, and this is the most.
    pub(crate) too_large: Option<(usize, usize)>,
}

/// A session's part.
pub(super) struct Resumption {
    /// The bodies of both ID payloads, the initiator's first.
    pub(super) ids: (Vec<u8>, Vec<u8>),
    /// The ticket that a gateway has given last.
    pub(super) given: Option<Spent>,
    /// The ticket that a station has.
    pub(super) ticket: Option<Box<Ticket>>,
    /// What a station has asked for after IKE_AUTH.
    pub(super) asked: Bucket,
}
