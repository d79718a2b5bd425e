//! IKEv2 messages (RFC 7296 §3; fragments, RFC 7383 §2.5; and the numbers of the documents named at
//! each type).
//!
//! Left out: the encryption of a message (`crypto::message` seals and opens what [`Message`] and
//! [`sealed_frame`] point at), and the meaning of payloads. Of the IANA registry, what belongs to
//! groups (G-IKEv2), Fibre Channel and puzzles is kept as octets.

mod auth;
mod cert;
mod config;
mod delegation_signer;
mod delete;
mod fragment;
mod header;
mod id;
mod message;
mod notify;
mod notify_data;
mod payload;
mod sa;
mod selector;
pub mod transform;

pub use crate::attribute::{Attribute, AttributeValue, MAX_ATTRIBUTES};
pub use crate::eap::{Eap, EapCode, EapKind};
pub use auth::{
    Authentication, AuthenticationMethod, DigitalSignature, HashAlgorithm, MAX_HASH_ALGORITHMS,
};
pub use cert::{Certificate, CertificateEncoding, CertificateRequest, KEY_HASH_LEN};
pub use config::{ConfigAttribute, ConfigKind, ConfigType, Configuration, MAX_CONFIG_ATTRIBUTES};
pub use delegation_signer::DelegationSigner;
pub use delete::{Delete, MAX_DELETED_SPIS};
pub use fragment::FragmentNumbers;
pub use header::{Exchange, Flags, HEADER_LEN, Header, Spi, Spis, VERSION_2};
pub use id::{Identification, IdentificationType};
pub use message::{Message, Protected, sealed_frame};
pub use notify::{Notify, NotifyType};
pub use notify_data::{
    AuthenticationAnnouncement, COOKIE_LEN, Gateway, MAX_ANNOUNCED_METHODS, PPK_CONFIRMATION_LEN,
    PpkIdentityKey, Redirect, Ticket,
};
pub use payload::{
    GENERIC_LEN, KeyExchange, Located, MAX_PAYLOADS, NONCE_LEN, Payload, PayloadKind,
    first_unknown_critical, payloads, write_payloads,
};
pub use sa::{MAX_PROPOSALS, MAX_TRANSFORMS, Proposal, Protocol, Transform, TransformType};
pub use selector::{AddressSelector, MAX_SELECTORS, TrafficSelector, TrafficSelectorType};

#[cfg(test)]
mod tests;
