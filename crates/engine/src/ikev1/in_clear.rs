//! Unprotected informational messages, which prove nothing: reading them, and our own to the sender
//! of a packet for an unknown SA (RFC 2408 §5.2).

use crypto::rand::Stream;
use wire::isakmp::{
    Cookies, Exchange, Flags, Header, Notify, NotifyType, Payload, ProtocolId, payloads,
    write_payloads,
};

use super::exchange::{cookie, notification};
use super::message::Message;
use super::names_of;
use super::notify::notify_name;
use super::phase2::list;
use crate::counters::DropReason;
use crate::ike::{Fault, Sent, Spis, Step};
use crate::sa::Path;

/// Payloads that the log names.
const MAX_NAMED: usize = 4;

/// The content of an unprotected message.
pub struct InClear {
    spis: Spis,
    notifications: Vec<NotifyType>,
    words: Vec<String>,
}

/// What the sender says it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// INVALID-SPI: the child.
    Child,
    /// INVALID-COOKIE: the ISAKMP SA.
    Ike,
}

impl Lost {
    /// The notify type, as in the log.
    pub fn name(self) -> String {
        notify_name(match self {
            Self::Child => NotifyType::InvalidSpi,
            Self::Ike => NotifyType::InvalidCookie,
        })
    }
}

impl InClear {
    /// Reads an unprotected informational message.
    pub fn read(message: &Message<'_>) -> Result<Self, Fault> {
        let (header, body) = (message.header(), message.body());
        if header.exchange != Exchange::Informational || header.flags.is_encrypted() {
            return Err(DropReason::UnexpectedMessage.into());
        }
        let located = payloads(header.next_payload, body)?;
        let mut said = Self {
            spis: header.cookies.into(),
            notifications: Vec::new(),
            words: Vec::new(),
        };
        for found in located {
            match found.payload {
                Payload::Notify(notify) => {
                    said.notifications.push(notify.kind);
                    said.words.push(notify_name(notify.kind));
                }
                Payload::Delete(_) => said.words.push("DELETE".into()),
                _ => {}
            }
        }
        Ok(said)
    }

    /// The SPIs of the message.
    pub fn spis(&self) -> Spis {
        self.spis
    }

    /// A description for the log.
    pub fn words(&self) -> String {
        list(self.words.iter().take(MAX_NAMED).cloned())
    }

    /// Whether it only refuses our offer or our identity.
    pub fn is_about_us(&self) -> bool {
        let about_us = [
            NotifyType::NoProposalChosen,
            NotifyType::AuthenticationFailed,
        ];
        self.words.len() == 1 && self.notifications.iter().any(|it| about_us.contains(it))
    }

    /// The first loss that it reports.
    pub fn lost(&self) -> Option<Lost> {
        self.notifications.iter().find_map(|kind| match kind {
            NotifyType::InvalidSpi => Some(Lost::Child),
            NotifyType::InvalidCookie => Some(Lost::Ike),
            _ => None,
        })
    }
}

/// INVALID-COOKIE for the sender of a phase 2 message, with its own cookies, which nobody else can
/// guess.
pub fn unknown_ike(message: &Message<'_>, random: &mut Stream) -> Vec<u8> {
    let notify = notify(ProtocolId::Isakmp, Vec::new(), NotifyType::InvalidCookie);
    write(message.cookies(), notify, random.u32().max(1))
}

/// INVALID-SPI for an ESP SA, with random cookies.
pub fn unknown_child(spi: u32, random: &mut Stream) -> Vec<u8> {
    let spi = spi.to_be_bytes().to_vec();
    let notify = notify(ProtocolId::Esp, spi, NotifyType::InvalidSpi);
    let cookies = Cookies {
        initiator: cookie(random),
        ..Cookies::default()
    };
    write(cookies, notify, random.u32().max(1))
}

fn notify(protocol: ProtocolId, spi: Vec<u8>, kind: NotifyType) -> Payload {
    Payload::Notify(Notify {
        protocol,
        spi,
        kind,
        value: Vec::new(),
    })
}

/// An unprotected notification, before there are keys.
pub(super) fn notification_in_clear(
    cookies: Cookies,
    kind: NotifyType,
    path: Path,
    random: &mut Stream,
) -> Sent {
    let notify = notification(cookies, kind, Vec::new());
    Sent {
        path,
        payloads: names_of(core::slice::from_ref(&notify)),
        message: write(cookies, notify, random.u32().max(1)),
        more: Vec::new(),
        step: Step::Informational,
        may_fragment: false,
    }
}

/// Writes an unprotected informational message.
pub(crate) fn write(cookies: Cookies, notify: Payload, message_id: u32) -> Vec<u8> {
    let (next_payload, body) = write_payloads(&[notify]);
    let header = Header {
        cookies,
        next_payload,
        exchange: Exchange::Informational,
        flags: Flags::default(),
        message_id,
    };
    header.write(&body)
}
