//! Messages in clear: IKE_SA_INIT, IKE_SESSION_RESUME, and what is said of an IKE SA that is not
//! there.

use wire::ikev2::{self as wire2, Exchange, Flags, Header, Payload, write_payloads};

use super::parts::names;
use super::window::step;
use crate::ike::{Sent, Spis};
use crate::sa::Path;

/// The head of a message in clear.
#[derive(Clone, Copy)]
pub(super) struct Clear {
    pub(super) exchange: Exchange,
    /// Its message ID.
    pub(super) id: u32,
    /// We are the initiator of the IKE SA.
    pub(super) is_initiator: bool,
    pub(super) is_response: bool,
}

impl Clear {
    /// Of a request that begins an IKE SA.
    pub(super) const fn request(exchange: Exchange) -> Self {
        Self {
            exchange,
            id: 0,
            is_initiator: true,
            is_response: false,
        }
    }

    /// Of an answer to one.
    pub(super) const fn answer(exchange: Exchange) -> Self {
        Self {
            exchange,
            id: 0,
            is_initiator: false,
            is_response: true,
        }
    }
}

/// A message in clear.
pub(super) fn clear(head: Clear, spis: Spis, chain: &[Payload], path: Path) -> Sent {
    let (next_payload, body) = write_payloads(chain);
    let header = Header {
        spis: wire2::Spis::from(spis),
        next_payload,
        minor_version: 0,
        exchange: head.exchange,
        flags: Flags::of(head.is_initiator, head.is_response),
        message_id: head.id,
    };
    Sent {
        path,
        message: header.write(&body),
        more: Vec::new(),
        step: step(head.exchange, if head.is_response { 2 } else { 1 }),
        payloads: names(chain.iter()),
        may_fragment: false,
    }
}
