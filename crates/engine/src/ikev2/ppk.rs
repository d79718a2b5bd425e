//! What both ends say of their post-quantum pre-shared keys, in IKE_AUTH (RFC 8784) or in
//! IKE_INTERMEDIATE (RFC 9867).

use core::fmt;
use std::sync::Arc;

use wire::ikev2::{Notify, NotifyType, Payload};

use super::parts::{notify, notify_with};
use crate::config::{Connection, Ppk};
use crate::ike::Fault;
use crate::sa::Secret;

/// PPK_ID_FIXED (RFC 8784 §5.1).
pub(super) const FIXED: u8 = 2;

/// In which exchange both ends have taken a key into theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PpkExchange {
    /// RFC 8784: what the first IKE SA makes has it, and that SA itself has not.
    IkeAuth,
    /// RFC 9867: the first IKE SA has it too, before anybody says who he is.
    IkeIntermediate,
}

/// The key of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PpkInUse {
    /// Its name.
    pub id: String,
    /// How it came into the keys.
    pub exchange: PpkExchange,
}

impl PpkExchange {
    const ALL: [Self; 2] = [Self::IkeAuth, Self::IkeIntermediate];

    /// The exchange's name in the RFCs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::IkeAuth => "IKE_AUTH",
            Self::IkeIntermediate => "IKE_INTERMEDIATE",
        }
    }

    /// The exchange of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

impl fmt::Display for PpkExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A key that both ends use.
pub(super) struct Mixed {
    pub(super) ppk: Arc<Ppk>,
    /// What it makes of SK_pi and SK_pr in IKE_AUTH; `None`: every key comes from it already.
    pub(super) p: Option<(Secret, Secret)>,
}

/// What both ends say of their keys in one handshake.
#[derive(Default)]
pub(super) struct Agreed {
    /// Both ends use it in IKE_INTERMEDIATE, not in IKE_AUTH.
    pub(super) is_early: bool,
    /// AUTH is with it.
    pub(super) mixed: Option<Mixed>,
    /// The data of the initiator's AUTH without it: the responder does not have the key.
    pub(super) fallback: Option<Vec<u8>>,
}

impl Mixed {
    /// What a session tells of it.
    pub(super) fn in_use(&self) -> PpkInUse {
        let exchange = match self.p {
            Some(_) => PpkExchange::IkeAuth,
            None => PpkExchange::IkeIntermediate,
        };
        let id = self.ppk.id.clone();
        PpkInUse { id, exchange }
    }
}

impl Agreed {
    /// After IKE_SA_INIT.
    pub(super) fn announced(is_early: bool) -> Self {
        Self {
            is_early,
            ..Self::default()
        }
    }
}

/// Whether one of the connections has a key.
pub(super) fn has_any(connections: &[Arc<Connection>]) -> bool {
    connections.iter().any(|it| it.ppk.is_some())
}

/// Whether one of the connections uses its key early.
pub(super) fn is_any_early(connections: &[Arc<Connection>]) -> bool {
    let mut keys = connections.iter().filter_map(|it| it.ppk.as_ref());
    keys.any(|it| it.is_early)
}

/// The ways that an initiator offers.
pub(super) fn offered(connection: &Connection) -> impl Iterator<Item = Payload> {
    let ppk = connection.ppk.as_ref();
    let late = ppk.map(|_| NotifyType::UsePpk);
    let early = ppk.filter(|it| it.is_early).map(|_| NotifyType::UsePpkInt);
    late.into_iter().chain(early).map(notify)
}

/// The way that a responder chooses: one of both, never both (RFC 9867 §3.1).
pub(super) fn chosen(is_early: bool, is_late: bool) -> Option<Payload> {
    match (is_early, is_late) {
        (true, _) => Some(notify(NotifyType::UsePpkInt)),
        (false, true) => Some(notify(NotifyType::UsePpk)),
        (false, false) => None,
    }
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
        "the peer does not use the post-quantum pre-shared key {:?} or has other octets for it, \
         and ppk_required = true",
        ppk.id
    ))
}
