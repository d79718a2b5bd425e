//! Session resumption (RFC 5723): a station goes on from a session that was lost, with a ticket
//! that its gateway gave for that, and neither end computes with public keys.
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
//! IKE_SA_INIT at once, and so is silence. A peer that a server of RADIUS has let in gets no
//! ticket: nobody asks that server again. SK_d has the post-quantum pre-shared key in it, if the
//! session had one, so what follows has it too.

mod answer;
mod ask;

use crypto::hash::is_equal;
use wire::ikev2::{Authentication, AuthenticationMethod, Payload};

use super::auth::ResumedForm;
use super::init::Init;
use super::parts::Parts;
use crate::ike::auth::Proven;
use crate::ike::{Fault, Role};
use crate::work::Work;

pub(super) use ask::Resuming;

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
