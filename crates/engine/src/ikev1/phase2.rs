//! The parts that phase 2 exchanges share: protecting an outgoing message, groups, and names.

use wire::isakmp::{Exchange, Payload};

use super::protect::Iv;
use super::{IsakmpSa, names_of};
use crate::ike::{Outbox, Sent, Step};

/// The exchange of a message, and its name in traces.
#[derive(Clone, Copy)]
pub(super) struct Label {
    pub(super) exchange: Exchange,
    pub(super) message_id: u32,
    pub(super) step: Step,
}

/// Protects payloads with a HASH payload, ready to be sent to the peer. `prefix` is what the hash
/// covers before them.
pub(super) fn sealed(
    sa: &IsakmpSa,
    label: Label,
    iv: &mut Iv,
    prefix: &[&[u8]],
    chain: Vec<Payload>,
    out: &mut Outbox,
) -> Sent {
    let names = names_of(&chain);
    let message = sa.seal_hashed(
        label.exchange,
        label.message_id,
        iv,
        prefix,
        chain,
        &mut out.work,
    );
    Sent {
        path: sa.path,
        message,
        more: Vec::new(),
        step: label.step,
        payloads: if names.is_empty() {
            "HASH".into()
        } else {
            format!("HASH {names}")
        },
        may_fragment: sa.peer.fragmentation,
    }
}

/// Joins texts with commas, for sentences.
pub(super) fn list<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    if texts.is_empty() {
        "nothing".into()
    } else {
        texts.join(", ")
    }
}
