//! IKEv1 (RFC 2407, RFC 2408, RFC 2409), deprecated by RFC 9395: main and aggressive mode, quick
//! mode, informational exchanges, mode config, NAT traversal (RFC 3947), dead peer detection
//! (RFC 3706), fragmentation.
//!
//! Each exchange is a machine that owns its retransmission: messages and time in; datagrams,
//! deadlines and results out through an [`Outbox`](crate::ike::Outbox). A [`session`] owns the
//! machines of one ISAKMP SA.

mod aggressive;
mod auth;
mod awaited;
pub mod decoy;
mod exchange;
mod foreign;
pub mod fragments;
pub mod identification;
pub mod in_clear;
pub mod informational;
pub mod keys;
mod main_mode;
pub mod message;
pub mod mode_config;
pub mod nat;
mod notify;
mod parts;
pub mod phase1;
mod phase2;
mod phase2_proposal;
mod proposal;
pub mod protect;
pub mod quick;
pub(crate) mod refusal;
pub mod session;
#[cfg(test)]
mod testing;
#[cfg(test)]
pub(crate) mod tests;
mod vendor;

use crypto::cert::CertificatePath;
use wire::isakmp::{Cookies, Located, Payload, PayloadKind};

use crate::identity::Peer;
use crate::ike::Role;
pub use crate::ike::nat::NatFinding;
use crate::sa::{Path, Secret};
use crate::suite::IkeSuite;
use crate::time::Instant;

/// Names of payloads as RFC 2408 abbreviates them, such as "SA KE NONCE ID VID".
pub fn names(kinds: impl Iterator<Item = PayloadKind>) -> String {
    let words: Vec<String> = kinds
        .map(|kind| match kind {
            PayloadKind::None => "NONE".into(),
            PayloadKind::Sa => "SA".into(),
            PayloadKind::KeyExchange => "KE".into(),
            PayloadKind::Identification => "ID".into(),
            PayloadKind::Certificate => "CERT".into(),
            PayloadKind::CertificateRequest => "CERTREQ".into(),
            PayloadKind::Hash => "HASH".into(),
            PayloadKind::Signature => "SIG".into(),
            PayloadKind::Nonce => "NONCE".into(),
            PayloadKind::Notify => "N".into(),
            PayloadKind::Delete => "D".into(),
            PayloadKind::VendorId => "VID".into(),
            PayloadKind::Attributes => "ATTR".into(),
            PayloadKind::NatDiscovery => "NAT-D".into(),
            PayloadKind::NatOriginalAddress => "NAT-OA".into(),
            PayloadKind::Fragment => "FRAG".into(),
            PayloadKind::Other(number) => number.to_string(),
        })
        .collect();
    words.join(" ")
}

/// Names of the payloads of a received message.
fn names_read(payloads: &[Located]) -> String {
    names(payloads.iter().map(|located| located.payload.kind()))
}

/// Names of the payloads of an outgoing message.
pub fn names_of(payloads: &[Payload]) -> String {
    names(payloads.iter().map(Payload::kind))
}

/// What the peer announced in vendor IDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerSupport {
    /// RFC 3706.
    pub dpd: bool,
    /// Supports fragments.
    pub fragmentation: bool,
    /// XAUTH, a user's name and password after phase 1, which we do not support.
    pub xauth: bool,
    /// It is Caravan: private-use transform IDs may be offered.
    pub caravan: bool,
}

/// An established ISAKMP SA: the result of phase 1 and the basis of phase 2. Methods that protect
/// and open phase 2 messages are in `protect.rs`.
pub struct IsakmpSa {
    /// Its name.
    pub cookies: Cookies,
    /// Our role in phase 1.
    pub role: Role,
    /// The agreed suite.
    pub suite: IkeSuite,
    /// SKEYID_d: the source of phase 2 keys.
    pub skeyid_d: Secret,
    /// SKEYID_a: the key of HASH(1..3).
    pub skeyid_a: Secret,
    /// The cipher key made from SKEYID_e (RFC 2409 appendix B).
    pub cipher_key: Secret,
    /// The last ciphertext block of phase 1 (unencrypted aggressive mode: hash of g^xi | g^xr).
    pub last_iv: Vec<u8>,
    /// NATs between the two ends.
    pub nat: NatFinding,
    /// The peer's abilities.
    pub peer: PeerSupport,
    /// The proven identity of the peer.
    pub identity: Peer,
    /// Its certificate, if it has one, for later revocation lists.
    pub certificate: Option<Box<CertificatePath>>,
    /// The peer said that it has no other SA with us (RFC 2407 §4.6.3.3).
    pub is_initial_contact: bool,
    /// The path to the peer.
    pub path: Path,
    /// When it was established.
    pub since: Instant,
    /// Agreed lifetime in seconds.
    pub lifetime_s: u64,
}
