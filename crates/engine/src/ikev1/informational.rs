//! Informational exchanges (RFC 2409 §5.7): delete, notify, dead peer detection (RFC 3706).

use wire::isakmp::{Notify, Payload};

use super::{Fault, IsakmpSa, Outbox};

/// What a peer told us, hash checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// SPIs of its own ESP or AH SAs are gone.
    DeletedChildren(Vec<u32>),
    /// The ISAKMP SA is gone.
    DeletedIke,
    /// It has no other SA with us (RFC 2407 §4.6.3.3).
    InitialContact,
    /// It wants a sign of life; the number to return.
    AreYouThere(u32),
    /// The answer to ours.
    IAmHere(u32),
    /// An error or status.
    Other(Notify),
}

/// Reads a protected informational message.
pub fn read(sa: &IsakmpSa, message: &[u8], out: &mut Outbox) -> Result<Vec<Notice>, Fault> {
    let _ = (sa, message, out);
    panic!("informational")
}

/// What an unprotected informational message says, in words for the log. It proves nothing.
pub fn read_unprotected(message: &[u8]) -> Result<String, Fault> {
    let _ = message;
    panic!("informational")
}

/// An error notification without SPI or data: all that a peer is told of a refusal.
pub fn refusal(kind: wire::isakmp::NotifyType) -> Payload {
    let _ = kind;
    panic!("informational")
}

/// Sends payloads under protection, once: informational messages are not acknowledged.
pub fn send(sa: &IsakmpSa, payloads: Vec<Payload>, message_id: u32, out: &mut Outbox) {
    let _ = (sa, payloads, message_id, out);
    panic!("informational")
}

/// R-U-THERE or its answer, with this number.
pub fn sign_of_life(sa: &IsakmpSa, number: u32, is_answer: bool) -> Payload {
    let _ = (sa, number, is_answer);
    panic!("informational")
}

/// Delete of children by our inbound SPIs, or of the ISAKMP SA itself when `spis` is empty.
pub fn delete(sa: &IsakmpSa, protocol: crate::sa::Protocol, spis: &[u32]) -> Payload {
    let _ = (sa, protocol, spis);
    panic!("informational")
}
