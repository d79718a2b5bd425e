//! What both ends say of their post-quantum pre-shared keys (RFC 8784).

use std::sync::Arc;

use wire::ikev2::{Notify, NotifyType, Payload};

use super::parts::notify_with;
use crate::config::{Connection, Ppk};
use crate::ike::Fault;
use crate::sa::Secret;

/// PPK_ID_FIXED (RFC 8784 §5.1).
pub(super) const FIXED: u8 = 2;

/// A key that both ends use, and what it makes of SK_pi and SK_pr.
pub(super) struct Mixed {
    pub(super) ppk: Arc<Ppk>,
    pub(super) p: (Secret, Secret),
}

/// What both ends say of their keys in one handshake.
#[derive(Default)]
pub(super) struct Agreed {
    /// AUTH is with it.
    pub(super) mixed: Option<Mixed>,
    /// The data of the initiator's AUTH without it: the responder does not have the key.
    pub(super) fallback: Option<Vec<u8>>,
}

/// Whether one of the connections has a key.
pub(super) fn has_any(connections: &[Arc<Connection>]) -> bool {
    connections.iter().any(|it| it.ppk.is_some())
}

/// Names a key, and gives the AUTH without it if the peer may go on without it.
pub(super) fn naming(ppk: &Ppk, without: Option<Payload>) -> Vec<Payload> {
    let named = Notify::ppk_identity(FIXED, ppk.id.as_bytes());
    let mut all = vec![Payload::Notify(named)];
    if let Some(Payload::Authentication(auth)) = without {
        all.push(notify_with(NotifyType::NoPpkAuth, auth.value));
    }
    all
}

/// The peer cannot or will not use a key that is required.
pub(super) fn lacking(ppk: &Ppk) -> Fault {
    Fault::Unauthenticated(format!(
        "the peer does not use the post-quantum pre-shared key {:?}, and ppk_required = true",
        ppk.id
    ))
}
