//! Informational exchanges (RFC 2409 §5.7): delete, notify, dead peer detection (RFC 3706).
//!
//! Each is one message protected by HASH(1), with a message ID of its own, and never acknowledged.
//! Left out: the acknowledged form of RFC 2408 §5.15, which nobody implements.

use wire::isakmp::{Delete, Exchange, Notify, NotifyType, Payload, ProtocolId};

use super::IsakmpSa;
use super::message::Message;
use super::names_read;
use super::notify::{notify_name, notify_type};
use super::phase2::{Label, sealed};
use crate::counters::DropReason;
use crate::ike::{Complaint, Fault, Notification, Outbox, Refusal, Step};
use crate::sa::Protocol;

/// Reads a protected informational message.
pub fn read(
    sa: &IsakmpSa,
    message: &Message<'_>,
    out: &mut Outbox,
) -> Result<Vec<Notification>, Fault> {
    let header = message.header();
    // RFC 2408 §3.1: zero belongs to phase 1.
    if header.exchange != Exchange::Informational || header.message_id == 0 {
        return Err(DropReason::UnexpectedMessage.into());
    }
    let mut iv = sa.first_iv(header.message_id);
    let id = header.message_id.to_be_bytes();
    let opened = sa.open_hashed(message, &mut iv, &[&id], &mut out.work)?;
    let notices = opened
        .payloads
        .iter()
        .filter_map(|located| sa.notice(&located.payload))
        .collect();
    out.heard(
        Step::Informational,
        message.size(),
        names_read(&opened.payloads),
    );
    Ok(notices)
}

/// The SPI of a peer's proposal, and its protocol.
pub type ProposedSpi = (ProtocolId, Vec<u8>);

/// A refusal as an error notification, about the ISAKMP SA or the SA of `refused`.
pub fn refusal(sa: &IsakmpSa, refusal: Refusal, refused: Option<ProposedSpi>) -> Payload {
    notification(sa, notify_type(refusal), refused)
}

/// An error notification without data: all that a peer is told about a refusal. It names the SA by
/// the receiver's own SPI (RFC 2408 §3.14): that of `refused`, otherwise that of the ISAKMP SA.
pub(crate) fn notification(
    sa: &IsakmpSa,
    kind: NotifyType,
    refused: Option<ProposedSpi>,
) -> Payload {
    let (protocol, spi) = refused.unwrap_or((ProtocolId::Isakmp, sa.cookie_octets()));
    Payload::Notify(Notify {
        protocol,
        spi,
        kind,
        value: Vec::new(),
    })
}

/// Sends protected payloads once: informational messages are not acknowledged. `message_id` must be
/// unused under this SA, and not zero. Returns the octets of the message.
pub fn send(sa: &IsakmpSa, payloads: Vec<Payload>, message_id: u32, out: &mut Outbox) -> usize {
    let label = Label {
        exchange: Exchange::Informational,
        message_id,
        step: Step::Informational,
    };
    let mut iv = sa.first_iv(message_id);
    let id = message_id.to_be_bytes();
    let sent = sealed(sa, label, &mut iv, &[&id], payloads, out);
    let octets = sent.message.len();
    out.messages.push(sent);
    octets
}

/// R-U-THERE with this number: a probe of the peer.
pub fn are_you_there(sa: &IsakmpSa, number: u32) -> Payload {
    sa.sign_of_life(NotifyType::RUThere, number)
}

/// The answer to an R-U-THERE of this number.
pub fn i_am_here(sa: &IsakmpSa, number: u32) -> Payload {
    sa.sign_of_life(NotifyType::RUThereAck, number)
}

/// Delete of the ISAKMP SA itself.
pub fn delete_ike(sa: &IsakmpSa) -> Payload {
    Payload::Delete(Delete {
        protocol: ProtocolId::Isakmp,
        spis: vec![sa.cookie_octets()],
    })
}

/// Delete of children by our inbound SPIs.
pub fn delete_children(protocol: Protocol, spis: &[u32]) -> Payload {
    Payload::Delete(Delete {
        protocol: match protocol {
            Protocol::Esp => ProtocolId::Esp,
            Protocol::Ah => ProtocolId::Ah,
        },
        spis: spis.iter().map(|spi| spi.to_be_bytes().to_vec()).collect(),
    })
}

impl IsakmpSa {
    /// Both cookies: the SPI of an ISAKMP SA (RFC 2408 §3.14).
    fn cookie_octets(&self) -> Vec<u8> {
        [self.cookies.initiator.0, self.cookies.responder.0].concat()
    }

    fn sign_of_life(&self, kind: NotifyType, number: u32) -> Payload {
        Payload::Notify(Notify {
            protocol: ProtocolId::Isakmp,
            spi: self.cookie_octets(),
            kind,
            value: number.to_be_bytes().to_vec(),
        })
    }

    /// The meaning of a payload; `None` if it is about another SA, or about nothing.
    fn notice(&self, payload: &Payload) -> Option<Notification> {
        match payload {
            Payload::Delete(delete) => self.deleted(delete),
            Payload::Notify(notify) => self.notified(notify),
            _ => None,
        }
    }

    fn deleted(&self, delete: &Delete) -> Option<Notification> {
        if delete.protocol == ProtocolId::Isakmp {
            let own = self.cookie_octets();
            return delete
                .spis
                .contains(&own)
                .then_some(Notification::DeletedIke);
        }
        if !matches!(delete.protocol, ProtocolId::Esp | ProtocolId::Ah) {
            return None;
        }
        let spi = |octets: &Vec<u8>| {
            <[u8; 4]>::try_from(octets.as_slice())
                .ok()
                .map(u32::from_be_bytes)
        };
        let spis: Vec<u32> = delete.spis.iter().filter_map(spi).collect();
        (!spis.is_empty()).then_some(Notification::DeletedChildren(spis))
    }

    fn notified(&self, notify: &Notify) -> Option<Notification> {
        let number = || {
            // RFC 3706 §5.2: the SPI is both cookies, the data a sequence number.
            let octets = <[u8; 4]>::try_from(notify.value.as_slice()).ok()?;
            (notify.spi == self.cookie_octets()).then(|| u32::from_be_bytes(octets))
        };
        match notify.kind {
            NotifyType::RUThere => number().map(Notification::AreYouThere),
            NotifyType::RUThereAck => number().map(Notification::IAmHere),
            NotifyType::InitialContact => Some(Notification::InitialContact),
            NotifyType::Superseded => Some(Notification::Superseded),
            _ => Some(Notification::Other(complaint(notify))),
        }
    }
}

fn complaint(notify: &Notify) -> Complaint {
    let spi = <[u8; 4]>::try_from(notify.spi.as_slice()).map(u32::from_be_bytes);
    Complaint {
        name: notify_name(notify.kind),
        is_error: notify.kind.is_error(),
        refuses: match notify.kind {
            NotifyType::NoProposalChosen => Some(Refusal::Proposal),
            NotifyType::InvalidIdInformation => Some(Refusal::Selectors),
            _ => None,
        },
        is_about_identity: matches!(
            notify.kind,
            NotifyType::AuthenticationFailed
                | NotifyType::InvalidSignature
                | NotifyType::InvalidCertificate
                | NotifyType::InvalidCertAuthority
        ),
        child: spi.ok().filter(|spi| *spi != 0),
    }
}

#[cfg(test)]
mod tests;
