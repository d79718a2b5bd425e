//! Session resumption (RFC 5723): a station goes on from a session that was lost, with a ticket that
//! its gateway gave for that, and neither end computes with public keys.
//!
//! ```text
//! station                                               gateway
//! IKE_AUTH: .., N(TICKET_REQUEST) -->
//!                                     <-- .., N(TICKET_LT_OPAQUE)(lifetime, ticket)
//! ---- lost ----
//! IKE_SESSION_RESUME: [N(COOKIE)], Ni, N(TICKET_OPAQUE)(ticket), N.. -->
//!                                     <-- Nr, N..             or N(TICKET_NACK), or N(COOKIE)
//! IKE_AUTH: IDi, [IDr], AUTH, [CP], SA, TSi, TSr, N(TICKET_REQUEST) -->
//!                                     <-- IDr, AUTH, [CP], SA, TSi, TSr, N(TICKET_LT_OPAQUE)
//! ```
//!
//! Keys and AUTH come from SK_d of the lost session and new nonces. A refused ticket is followed by
//! IKE_SA_INIT at once, and so is silence. A peer that a server of RADIUS has let in gets no ticket:
//! nobody asks that server again. SK_d has the post-quantum pre-shared key in it, if the session had
//! one, so what follows has it too.

mod answer;
mod ask;
mod tickets;

use std::sync::Arc;

use crypto::cert::CertificatePath;
use crypto::hash::is_equal;
use wire::ikev2::{Authentication, AuthenticationMethod, Payload};

use super::auth::ResumedForm;
use super::init::Init;
use super::parts::Parts;
use super::ticket::TicketId;
use crate::config::{Connection, Ppk};
use crate::identity::Peer;
use crate::ike::auth::Proven;
use crate::ike::{Fault, Role, Spi};
use crate::sa::Secret;
use crate::suite::Ikev2Suite;
use crate::time::{Calendar, Instant};
use crate::work::Work;

pub(super) use ask::Resuming;
pub(super) use tickets::Resumption;
pub(crate) use tickets::{Given, Spent};

/// A ticket that a gateway gave us, and what we must know of the session to use it. Once.
pub struct Ticket {
    opaque: Vec<u8>,
    expires: Instant,
    d: Secret,
    suite: Ikev2Suite,
    /// The bodies of both ID payloads, the initiator's first.
    ids: (Vec<u8>, Vec<u8>),
    connection: Arc<Connection>,
    identity: Peer,
    certificate: Option<Box<CertificatePath>>,
    ends_at: Option<Instant>,
    ppk: Option<Arc<Ppk>>,
    /// What our AUTH covers.
    form: ResumedForm,
}

impl Ticket {
    /// Whether it can be used for this connection now.
    pub fn is_good(&self, connection: &Connection, now: Instant) -> bool {
        let own = &self.connection;
        let is_same = own.name == connection.name && own.revision == connection.revision;
        is_same && connection.resumption && now < self.expires
    }

    /// Its AUTH is made as Libreswan makes it.
    #[cfg(test)]
    pub(super) fn as_of_libreswan_for_testing(self) -> Self {
        Self {
            form: ResumedForm::MessageOnly,
            ..self
        }
    }
}

/// The session from which an IKE SA goes on.
pub(super) struct Resumed {
    /// The bodies of both ID payloads, the initiator's first.
    ids: (Vec<u8>, Vec<u8>),
    /// Who the peer has proven to be then.
    proven: Option<Proven>,
    /// At a gateway: the ticket, and our SPI of the session that it was given for.
    pub(super) used: Option<(Spent, Spi)>,
    /// What the initiator's AUTH covers: ours does the same.
    form: ResumedForm,
}

impl Resumed {
    /// The ticket's name and expiry.
    const fn spent(expires: Calendar, id: TicketId) -> Spent {
        Spent { expires, id }
    }
}

impl Init {
    /// AUTH of a resumed IKE SA. `id`: the body of our ID payload.
    pub(super) fn prove_resumed(&self, role: Role, id: &[u8], work: &mut Work) -> Payload {
        let signed = match role {
            Role::Initiator => self.initiator(id),
            Role::Responder => self.responder(id),
        };
        let form = self
            .resumed
            .as_ref()
            .map_or(ResumedForm::Whole, |it| it.form);
        Payload::Authentication(Authentication {
            method: AuthenticationMethod::SharedKey,
            value: signed.resumed(form, work).as_ref().to_vec(),
        })
    }

    /// Checks the peer's AUTH in a resumed IKE SA, and that it is still who it was. The method that
    /// the payload names does not count: RFC 5723 names none.
    pub(super) fn check_resumed(
        &mut self,
        peer: Role,
        parts: &Parts<'_>,
        work: &mut Work,
    ) -> Result<Proven, Fault> {
        let refused = |text: &str| Fault::Unauthenticated(text.to_owned());
        let (named, other) = match peer {
            Role::Initiator => (parts.initiator, parts.responder),
            Role::Responder => (parts.responder, parts.initiator),
        };
        let resumed = self.resumed.as_ref();
        let resumed = resumed.ok_or_else(|| refused("nothing is resumed"))?;
        let (theirs, ours) = match peer {
            Role::Initiator => (&resumed.ids.0, &resumed.ids.1),
            Role::Responder => (&resumed.ids.1, &resumed.ids.0),
        };
        let (_, id) = named.ok_or_else(|| refused("the peer does not say who it is"))?;
        if id != theirs || other.is_some_and(|(_, it)| it != ours) {
            return Err(refused(
                "the peer goes on from a session of other identities",
            ));
        }
        if !parts.certificates.is_empty() {
            return Err(Fault::Misbehaved(
                "a certificate in a session that goes on from another".into(),
            ));
        }
        let auth = parts.auth;
        let auth = auth.ok_or_else(|| refused("the peer does not prove itself"))?;
        let signed = match peer {
            Role::Initiator => self.initiator(id),
            Role::Responder => self.responder(id),
        };
        let forms = [ResumedForm::Whole, ResumedForm::MessageOnly];
        let mut forms = forms.into_iter();
        let form = forms.find(|form| is_equal(signed.resumed(*form, work).as_ref(), &auth.value));
        let form = form.ok_or_else(|| refused("the peer does not have the keys of the ticket"))?;
        let resumed = self.resumed.as_mut();
        let resumed = resumed.ok_or_else(|| refused("nothing is resumed"))?;
        resumed.form = form;
        let proven = resumed.proven.take();
        proven.ok_or_else(|| refused("the peer has proven itself before"))
    }
}
