//! The payloads of a message, sorted. A payload that may occur once occurs at most once.

use core::fmt::{self, Write};

use wire::eap::EapCode;
use wire::ikev2::{
    Authentication, CertificateEncoding, Configuration, Delete, Eap, Identification, KeyExchange,
    Located, Notify, NotifyType, Payload, PayloadKind, Proposal, Protocol, TrafficSelector,
};

use crate::counters::DropReason;
use crate::ike::auth::MAX_CERTIFICATES;

/// Our private status: another device with the receiver's identity has connected, and the tunnel
/// ends for this one (RFC 7296 §3.10.1: 40960 to 65535 are for private use).
pub(super) const SUPERSEDED: NotifyType = NotifyType::Other(40_961);

/// Octets of the names of most messages.
const ROOM_FOR_NAMES: usize = 192;

/// An identity, and the octets of its payload without the generic header, which AUTH covers.
pub(super) type Identified<'a> = (&'a Identification, &'a [u8]);

/// A message's payloads. Unknown ones are skipped.
#[derive(Default)]
pub(super) struct Parts<'a> {
    pub(super) sa: Option<&'a [Proposal]>,
    pub(super) exchange: Option<&'a KeyExchange>,
    pub(super) nonce: Option<&'a [u8]>,
    pub(super) initiator: Option<Identified<'a>>,
    pub(super) responder: Option<Identified<'a>>,
    /// DER of X.509 certificates. Other encodings are skipped.
    pub(super) certificates: Vec<&'a [u8]>,
    pub(super) auth: Option<&'a Authentication>,
    pub(super) traffic_i: Option<&'a [TrafficSelector]>,
    pub(super) traffic_r: Option<&'a [TrafficSelector]>,
    pub(super) configuration: Option<&'a Configuration>,
    pub(super) deletes: Vec<&'a Delete>,
    pub(super) notices: Vec<&'a Notify>,
    pub(super) eap: Option<&'a Eap>,
    pub(super) vendors: Vec<&'a [u8]>,
}

impl<'a> Parts<'a> {
    /// Sorts a chain that was read from `octets`.
    pub(super) fn sort(octets: &'a [u8], chain: &'a [Located]) -> Result<Self, DropReason> {
        let mut parts = Self::default();
        for found in chain {
            let body = &octets[found.body_range()];
            let is_again = match &found.payload {
                Payload::SecurityAssociation(sa) => parts.sa.replace(sa).is_some(),
                Payload::KeyExchange(exchange) => parts.exchange.replace(exchange).is_some(),
                Payload::Nonce(nonce) => parts.nonce.replace(nonce).is_some(),
                Payload::IdentificationInitiator(id) => {
                    parts.initiator.replace((id, body)).is_some()
                }
                Payload::IdentificationResponder(id) => {
                    parts.responder.replace((id, body)).is_some()
                }
                Payload::Authentication(auth) => parts.auth.replace(auth).is_some(),
                Payload::TrafficSelectorsInitiator(all) => parts.traffic_i.replace(all).is_some(),
                Payload::TrafficSelectorsResponder(all) => parts.traffic_r.replace(all).is_some(),
                Payload::Configuration(configuration) => {
                    parts.configuration.replace(configuration).is_some()
                }
                Payload::Eap(packet) => parts.eap.replace(packet).is_some(),
                other => {
                    parts.add(other);
                    false
                }
            };
            if is_again {
                return Err(DropReason::MalformedMessage);
            }
        }
        Ok(parts)
    }

    /// Adds a payload that may occur several times.
    fn add(&mut self, payload: &'a Payload) {
        match payload {
            Payload::Certificate(certificate)
                if certificate.encoding == CertificateEncoding::X509Signature
                    && self.certificates.len() < MAX_CERTIFICATES =>
            {
                self.certificates.push(&certificate.body);
            }
            Payload::Delete(delete) => self.deletes.push(delete),
            Payload::Notify(notify) => self.notices.push(notify),
            Payload::VendorId(id) => self.vendors.push(id),
            _ => {}
        }
    }

    /// The first notification of a type.
    pub(super) fn notice(&self, kind: NotifyType) -> Option<&'a Notify> {
        self.notices_of(kind).next()
    }

    /// All notifications of a type.
    pub(super) fn notices_of(&self, kind: NotifyType) -> impl Iterator<Item = &'a Notify> {
        let all = self.notices.iter().copied();
        all.filter(move |notify| notify.kind == kind)
    }

    /// Whether there is a notification of a type.
    pub(super) fn has(&self, kind: NotifyType) -> bool {
        self.notice(kind).is_some()
    }

    /// The first notification that is an error.
    pub(super) fn error(&self) -> Option<&'a Notify> {
        let mut all = self.notices.iter().copied();
        all.find(|notify| notify.kind.is_error())
    }

    /// Whether a gateway with this answer to IKE_AUTH still has the IKE SA: it has proven itself,
    /// or waits for the next packet of EAP. After a Failure there is none.
    pub(super) fn is_awaited(&self) -> bool {
        let goes_on = |packet: &Eap| packet.code() != EapCode::Failure;
        self.auth.is_some() || self.eap.is_some_and(goes_on)
    }
}

/// A notification without data about the IKE SA.
pub(super) fn notify(kind: NotifyType) -> Payload {
    notify_with(kind, Vec::new())
}

/// A notification about the IKE SA.
pub(super) fn notify_with(kind: NotifyType, value: Vec<u8>) -> Payload {
    Payload::Notify(Notify::new(kind, value))
}

/// Names of payloads as RFC 7296 abbreviates them, such as "SA KE No N".
pub(super) fn names<'a>(chain: impl Iterator<Item = &'a Payload>) -> String {
    let mut names = String::with_capacity(ROOM_FOR_NAMES);
    for payload in chain {
        if !names.is_empty() {
            names.push(' ');
        }
        add_name(&mut names, payload);
    }
    names
}

/// Names of the payloads of a received message.
pub(super) fn names_read(chain: &[Located]) -> String {
    names(chain.iter().map(|located| &located.payload))
}

/// Adds the name of a payload. Each message is named, so nothing else is allocated.
fn add_name(names: &mut String, payload: &Payload) {
    let word = match payload.kind() {
        PayloadKind::None => "NONE",
        PayloadKind::SecurityAssociation => "SA",
        PayloadKind::KeyExchange => "KE",
        PayloadKind::IdentificationInitiator => "IDi",
        PayloadKind::IdentificationResponder => "IDr",
        PayloadKind::Certificate => "CERT",
        PayloadKind::CertificateRequest => "CERTREQ",
        PayloadKind::Authentication => "AUTH",
        PayloadKind::Nonce => "No",
        PayloadKind::Notify => "N",
        PayloadKind::Delete => "D",
        PayloadKind::VendorId => "V",
        PayloadKind::TrafficSelectorsInitiator => "TSi",
        PayloadKind::TrafficSelectorsResponder => "TSr",
        PayloadKind::Encrypted => "SK",
        PayloadKind::Configuration => "CP",
        PayloadKind::Eap => "EAP",
        PayloadKind::EncryptedFragment => "SKF",
        PayloadKind::Other(number) => return add(names, format_args!("{number}")),
    };
    names.push_str(word);
    if let Payload::Notify(notify) = payload {
        names.push('(');
        add_notify_name(names, notify.kind);
        names.push(')');
    }
}

/// A notify type as RFC 7296 writes it, such as `NO_PROPOSAL_CHOSEN`.
pub(super) fn notify_name(kind: NotifyType) -> String {
    let mut name = String::new();
    add_notify_name(&mut name, kind);
    name
}

fn add_notify_name(names: &mut String, kind: NotifyType) {
    match kind {
        NotifyType::Other(number) => add(names, format_args!("notification {number}")),
        kind => {
            // A failure would be one of the string, which has none.
            let _ = write!(
                Capitals {
                    names,
                    is_first: true
                },
                "{kind:?}"
            );
        }
    }
}

fn add(names: &mut String, words: fmt::Arguments<'_>) {
    // A string takes everything.
    let _ = names.write_fmt(words);
}

/// Writes `NoProposalChosen` as `NO_PROPOSAL_CHOSEN`.
struct Capitals<'a> {
    names: &'a mut String,
    is_first: bool,
}

impl Write for Capitals<'_> {
    fn write_str(&mut self, word: &str) -> fmt::Result {
        for symbol in word.chars() {
            if symbol.is_ascii_uppercase() && !self.is_first {
                self.names.push('_');
            }
            self.names.push(symbol.to_ascii_uppercase());
            self.is_first = false;
        }
        Ok(())
    }
}

/// An IKE SA may begin without a child. Its protocol must be IKE (RFC 6023 §4).
pub(super) fn childless_supported() -> Payload {
    Payload::Notify(Notify {
        protocol: Protocol::Ike,
        ..Notify::new(NotifyType::ChildlessIkev2Supported, Vec::new())
    })
}

/// The end of an IKE SA.
pub(super) fn delete_ike() -> Payload {
    Payload::Delete(Delete::IkeSa)
}

/// Whether a request of INFORMATIONAL asks for a ticket and says nothing else.
pub(super) fn asks_ticket(parts: &Parts<'_>) -> bool {
    matches!(parts.notices[..], [one] if one.kind == NotifyType::TicketRequest)
        && parts.deletes.is_empty()
}

/// Whether a request of CREATE_CHILD_SA is for an IKE SA.
pub(super) fn is_for_ike(parts: &Parts<'_>) -> bool {
    let of_ike = |it: &Proposal| it.protocol == Protocol::Ike;
    parts.sa.is_some_and(|sa| sa.iter().all(of_ike))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_named_as_the_rfcs_name_them() {
        for (kind, name) in [
            (NotifyType::NoProposalChosen, "NO_PROPOSAL_CHOSEN"),
            (NotifyType::InvalidKePayload, "INVALID_KE_PAYLOAD"),
            (NotifyType::Cookie2, "COOKIE2"),
            (NotifyType::Other(40_000), "notification 40000"),
        ] {
            assert_eq!(notify_name(kind), name);
        }
    }

    #[test]
    fn a_payload_that_occurs_once_is_refused_twice() {
        let chain = [Payload::Nonce(vec![7; 32]), Payload::Nonce(vec![8; 32])];
        for (chain, is_fine) in [(&chain[..1], true), (&chain[..], false)] {
            let (first, body) = wire::ikev2::write_payloads(chain);
            let read = wire::ikev2::payloads(first, &body).unwrap();
            assert_eq!(Parts::sort(&body, &read).is_ok(), is_fine);
        }
    }
}
