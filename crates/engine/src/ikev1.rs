//! IKEv1 (RFC 2407, RFC 2408, RFC 2409), deprecated by RFC 9395: main and aggressive mode, quick
//! mode, informational exchanges, mode config, NAT traversal (RFC 3947), dead peer detection
//! (RFC 3706), fragmentation.
//!
//! Each exchange is a machine that owns its retransmission: messages and time in; datagrams,
//! deadlines and results out through an [`Outbox`](crate::ike::Outbox). A [`session`] owns the
//! machines of one ISAKMP SA.

mod aggressive;
mod auth;
pub mod decoy;
mod exchange;
mod foreign;
pub mod fragments;
mod identification;
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

/// Names of payloads that were read.
fn names_read(payloads: &[Located]) -> String {
    names(payloads.iter().map(|located| located.payload.kind()))
}

/// Names of payloads about to be sent.
pub fn names_of(payloads: &[Payload]) -> String {
    names(payloads.iter().map(Payload::kind))
}

/// What NAT detection found (RFC 3947 §3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatFinding {
    /// The peer speaks RFC 3947.
    pub is_supported: bool,
    /// We are behind a NAT.
    pub is_local: bool,
    /// The peer is, or gives a wrong hash that is not a Caravan's, so that we believe it.
    pub is_remote: bool,
    /// We gave a wrong hash, or the peer gave a Caravan's and no NAT is in front of it.
    pub is_pretended: bool,
}

impl NatFinding {
    /// Whether packets pass a NAT, at either end, or are to travel as if they did.
    pub fn is_between(&self) -> bool {
        self.is_local || self.is_remote || self.is_pretended
    }
}

/// What the peer announced by vendor IDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerSupport {
    /// RFC 3706.
    pub dpd: bool,
    /// Reads fragments.
    pub fragmentation: bool,
    /// XAUTH, a user's name and password after phase 1, which we do not speak.
    pub xauth: bool,
    /// A Caravan: private-use transform IDs may be offered.
    pub caravan: bool,
}

/// An established ISAKMP SA: the product of phase 1, the ground of phase 2. Methods that protect
/// and open phase 2 messages are in `protect.rs`.
pub struct IsakmpSa {
    /// Its name.
    pub cookies: Cookies,
    /// Who began phase 1.
    pub role: Role,
    /// What was agreed.
    pub suite: IkeSuite,
    /// SKEYID_d: keys of phase 2 come from it.
    pub skeyid_d: Secret,
    /// SKEYID_a: HASH(1..3) are keyed with it.
    pub skeyid_a: Secret,
    /// The cipher key made from SKEYID_e (RFC 2409 appendix B).
    pub cipher_key: Secret,
    /// The last ciphertext block of phase 1 (aggressive mode in the clear: hash of g^xi | g^xr).
    pub last_iv: Vec<u8>,
    /// NATs between us.
    pub nat: NatFinding,
    /// What the peer can do.
    pub peer: PeerSupport,
    /// Who the peer proved to be.
    pub identity: Peer,
    /// By which certificate, if that was the method; later revocation lists are asked about it.
    pub certificate: Option<Box<CertificatePath>>,
    /// It told us that it has no other SA with us (RFC 2407 §4.6.3.3).
    pub is_initial_contact: bool,
    /// Where it is.
    pub path: Path,
    /// Established at.
    pub since: Instant,
    /// Seconds of life agreed.
    pub lifetime_s: u64,
}
