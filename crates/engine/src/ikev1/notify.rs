//! Notify message types (RFC 2408 §3.14.1): the type of each refusal, and names for the log.

use wire::isakmp::NotifyType;

use crate::ike::Refusal;

/// The notify message type (RFC 2408 §3.14.1) of a refusal.
pub(crate) fn notify_type(refusal: Refusal) -> NotifyType {
    match refusal {
        Refusal::Proposal => NotifyType::NoProposalChosen,
        Refusal::Selectors => NotifyType::InvalidIdInformation,
        Refusal::KeyExchange => NotifyType::InvalidKeyInformation,
        Refusal::Configuration => NotifyType::AttributesNotSupported,
        Refusal::Spi => NotifyType::InvalidSpi,
        Refusal::Superseded => NotifyType::Superseded,
    }
}

/// The RFC's name of a notify message type.
pub(crate) fn notify_name(kind: NotifyType) -> String {
    if let NotifyType::Other(number) = kind {
        return format!("notification {number}");
    }
    let mut name = String::new();
    for c in format!("{kind:?}").chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(c.to_ascii_uppercase());
    }
    name
}
