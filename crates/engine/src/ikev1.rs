//! IKEv1 (RFC 2407, RFC 2408, RFC 2409), deprecated by RFC 9395: main and aggressive mode, quick
//! mode, informational exchanges, mode config, NAT traversal (RFC 3947), dead peer detection
//! (RFC 3706), fragmentation.
//!
//! Each exchange is a machine that owns its retransmission: messages and time in; datagrams,
//! deadlines and results out through an [`Outbox`]. [`crate::node`] owns the machines.

mod aggressive;
mod auth;
pub mod decoy;
mod exchange;
mod foreign;
pub mod fragments;
pub mod informational;
pub mod keys;
mod main_mode;
pub mod mode_config;
pub mod nat;
mod parts;
pub mod phase1;
mod phase2;
mod phase2_proposal;
mod proposal;
pub mod protect;
pub mod quick;
pub(crate) mod refusal;
pub mod retransmit;
pub mod round_trip;
#[cfg(test)]
mod testing;
#[cfg(test)]
pub(crate) mod tests;
mod unanswered;
mod vendor;

use crypto::cert::CertificatePath;
pub(crate) use exchange::cookie;
use round_trip::RoundTrip;
pub use unanswered::Unanswered;
use wire::isakmp::{Cookies, Located, NotifyType, Payload, PayloadKind};

use crate::counters::{DropCounters, DropReason};
use crate::identity::Peer;
use crate::sa::{Path, Secret};
use crate::suite::IkeSuite;
use crate::time::Instant;
use crate::work::Work;

/// Who began an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// We did.
    Initiator,
    /// The peer did.
    Responder,
}

/// What the log is to hear of a message that does not verify, while its exchange goes on: in clear,
/// it may be a forger's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Whose exchange, once a connection is chosen.
    pub connection: Option<String>,
    /// Where it came from.
    pub path: Path,
    /// What does not verify, in one sentence.
    pub why: String,
}

/// What a machine wants sent and told.
#[derive(Default)]
pub struct Outbox {
    /// IKE messages, each one whole: path and octets. The node adds the non-ESP marker, splits
    /// what is too long and tells of them.
    pub messages: Vec<Sent>,
    /// Messages that are not believed, while their exchanges go on.
    pub doubts: Vec<Doubt>,
    /// What it cost.
    pub work: Work,
    /// Messages that were read and found good.
    pub received: Vec<Received>,
    /// Messages dropped without ending an exchange.
    pub drops: DropCounters,
    round_trip: RoundTrip,
    has_learned: bool,
}

impl Outbox {
    /// An empty one for exchanges over a path of which this is known.
    pub fn over(round_trip: RoundTrip) -> Self {
        Self {
            round_trip,
            ..Self::default()
        }
    }

    /// What is known of the path.
    pub fn round_trip(&self) -> RoundTrip {
        self.round_trip
    }

    /// An answer has taught something of the path.
    pub fn learn(&mut self, lesson: impl FnOnce(&mut RoundTrip)) {
        lesson(&mut self.round_trip);
        self.has_learned = true;
    }

    /// What is known of the path, where an answer has taught something.
    pub fn learned(&self) -> Option<RoundTrip> {
        self.has_learned.then_some(self.round_trip)
    }

    /// Tells that a message of `bytes` octets was received and understood.
    pub fn heard(&mut self, what: &'static str, bytes: usize, payloads: &[Located]) {
        self.received.push(Received {
            what,
            bytes,
            payloads: names(payloads.iter().map(|located| located.payload.kind())),
        });
    }

    /// Where what a responder heard over `path` was a repetition, its answer goes back there: the
    /// NAT between may have given the peer another port since. It is one message for one, a bounded
    /// number of times; where the peer is, only a new message shows. Whoever began the session went
    /// to an address of its own choice, and answers there alone.
    pub fn answer_repetition_at(&mut self, path: Path, role: Role) {
        if role == Role::Responder && self.drops.of(DropReason::RetransmittedMessage) > 0 {
            self.messages.iter_mut().for_each(|sent| sent.path = path);
        }
    }
}

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

/// Names of payloads about to be sent.
pub fn names_of(payloads: &[Payload]) -> String {
    names(payloads.iter().map(Payload::kind))
}

/// A message on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// From where to where.
    pub path: Path,
    /// The whole ISAKMP message.
    pub message: Vec<u8>,
    /// Such as "aggressive 1", "quick 2", "informational".
    pub what: &'static str,
    /// Names of its payloads, such as "SA KE NONCE ID".
    pub payloads: String,
    /// The peer has announced that it reads fragments.
    pub may_fragment: bool,
}

impl Sent {
    /// The message's own ID (RFC 2408 §3.1); 0 in phase 1.
    pub fn message_id(&self) -> Option<u32> {
        let octets = self.message.get(20..24)?;
        octets.try_into().ok().map(u32::from_be_bytes)
    }
}

/// A message that was read and found good.
pub struct Received {
    /// Such as "aggressive 2".
    pub what: &'static str,
    /// Octets of the whole message.
    pub bytes: usize,
    /// Names of its payloads.
    pub payloads: String,
}

/// Why an exchange ends without success. The text says what differed, for our log only; the
/// notify type is what the peer is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The bytes are not a message.
    #[error("malformed message: {0}")]
    Malformed(#[from] wire::codec::Malformed),
    /// The peer broke a rule of the exchange.
    #[error("the peer misbehaved: {0}")]
    Misbehaved(String),
    /// The peer's public value of Diffie-Hellman is none.
    #[error("{0}")]
    BadPublicValue(String),
    /// No common choice: proposals, selectors, modes.
    #[error("{what}")]
    Incompatible {
        /// One sentence: what we offered or accept, and what the peer did.
        what: String,
        /// What the peer is told.
        notify: NotifyType,
    },
    /// The peer asks for traffic that belongs to another peer.
    #[error("{0}")]
    Taken(String),
    /// There is no address to lend to the peer.
    #[error("{0}")]
    NothingToLend(String),
    /// No connection of ours has these ends and this mode.
    #[error("{0}")]
    NoConnection(String),
    /// The peer refuses, under keys: there is nothing to tell it.
    #[error("{0}")]
    Refused(String),
    /// Identity, certificate, signature or pre-shared key were refused.
    #[error("{0}")]
    Unauthenticated(String),
    /// A message that proves nothing was dropped: count it, no exchange ends because of it.
    #[error("message dropped: {}", .0.name())]
    Dropped(DropReason),
    /// No answer after all retransmissions.
    #[error("{0}")]
    TimedOut(Unanswered),
}

impl Fault {
    /// What the peer of a quick mode is told of it, if anything.
    pub fn notify(&self) -> Option<NotifyType> {
        match self {
            Self::Incompatible { notify, .. } => Some(*notify),
            // Who else is here is not for the peer to know, nor how full our pools are.
            Self::Taken(_) | Self::NothingToLend(_) => Some(NotifyType::InvalidIdInformation),
            _ => None,
        }
    }
}

impl From<DropReason> for Fault {
    fn from(reason: DropReason) -> Self {
        Self::Dropped(reason)
    }
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
