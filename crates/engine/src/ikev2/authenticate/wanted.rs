//! What an initiator wants of the answers in IKE_AUTH.

use wire::ikev2::{NotifyType, Payload};

use crate::config::{Connection, IdentityPattern};
use crate::ike::Fault;
use crate::ikev2::auth::identification;
use crate::ikev2::parts::{Parts, notify_name};

pub(super) fn unidentified() -> Fault {
    Fault::Misbehaved("an answer without the responder's identity".into())
}

/// The peer's refusal, if the message is one.
pub(super) fn refusal_of(parts: &Parts<'_>) -> Result<(), Fault> {
    let (Some(error), None) = (parts.error(), parts.auth) else {
        return Ok(());
    };
    // It tells the reason to nobody who has not proven who they are.
    let hint = match error.kind {
        NotifyType::AuthenticationFailed => "; the gateway's log says why",
        _ => "",
    };
    Err(Fault::Unauthenticated(format!(
        "the peer refused with {}{hint}",
        notify_name(error.kind)
    )))
}

/// IDr, if we accept exactly one identity: a gateway of several chooses the right one.
pub(super) fn wanted_responder(connection: &Connection) -> Option<Payload> {
    let [pattern @ IdentityPattern::Is(identity)] = connection.remote.identities.as_slice() else {
        return None;
    };
    let id = identification(identity);
    pattern
        .is_exact()
        .then_some(Payload::IdentificationResponder(id))
}
