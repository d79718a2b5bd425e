//! IKEv2 (RFC 7296): IKE_SA_INIT, IKE_AUTH, CREATE_CHILD_SA and INFORMATIONAL in both roles;
//! cookies, fragments (RFC 7383), signatures (RFC 7427), MOBIKE (RFC 4555), additional key
//! exchanges (RFC 9370) in IKE_INTERMEDIATE (RFC 9242) and IKE_FOLLOWUP_KE, post-quantum pre-shared
//! keys (RFC 8784, RFC 9867), IKE SAs without a child (RFC 6023), session resumption (RFC 5723),
//! quick crash detection (RFC 6290), redirect (RFC 5685), AUTH over both messages of IKE_SA_INIT
//! (draft-ietf-ipsecme-ikev2-downgrade-prevention), and every collision of renewals and deletes.
//!
//! A [`session`] is one peer's IKE SA with its successors by rekey. It is a machine: messages and
//! time in; datagrams, deadlines and [facts](crate::ike::Fact) out.

pub(crate) mod addresses;
mod answering;
mod auth;
mod authenticate;
mod between;
mod child;
mod children;
mod clear;
mod configuration;
pub mod cookie;
pub mod crash;
mod eap;
mod established;
mod exchange;
mod followup;
mod fresh;
mod inform;
mod init;
mod intermediate;
mod keys;
mod lost;
pub mod message;
mod mobike;
mod offered;
mod offers;
mod parts;
pub mod ppk;
mod proposal;
mod rekey;
mod resume;
mod seal;
mod selectors;
pub mod session;
mod tasks;
#[cfg(test)]
mod tests;
pub mod ticket;
mod traffic;
mod unfinished;
mod window;

use wire::ikev2::{Gateway, HashAlgorithm, NotifyType};

pub use answering::Gate;
pub use init::Travel;
pub(crate) use init::words_of;
pub use lost::Ticket;
use parts::Parts;

/// What the peer has announced in IKE_SA_INIT and IKE_AUTH.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// It reads fragments (RFC 7383 §2.3).
    pub(crate) fragmentation: bool,
    /// It checks signatures of method 14 with these hashes; `None`: it knows none (RFC 7427 §4).
    pub(crate) hashes: Option<Vec<HashAlgorithm>>,
    /// It covers both messages of IKE_SA_INIT by AUTH
    /// (draft-ietf-ipsecme-ikev2-downgrade-prevention).
    pub(crate) full_transcript: bool,
    /// It moves its addresses by MOBIKE (RFC 4555 §3.1).
    pub(crate) mobike: bool,
    /// It has exchanges between IKE_SA_INIT and IKE_AUTH (RFC 9242 §3.1).
    pub(crate) intermediate: bool,
    /// It has a post-quantum pre-shared key (RFC 8784 §3).
    pub(crate) ppk: bool,
    /// It uses that key in IKE_INTERMEDIATE (RFC 9867 §3.1).
    pub(crate) early_ppk: bool,
    /// It takes an IKE_AUTH without a child (RFC 6023 §3).
    pub(crate) childless: bool,
    /// It goes to another gateway when it is sent there (RFC 5685 §3).
    pub(crate) redirect: bool,
    /// The gateway that has sent it to us.
    pub(crate) from: Option<Box<Gateway>>,
    /// It is Windows' own client, which refuses to renew a child through a NAT when it is asked,
    /// and ends the session; it renews by itself.
    pub(crate) is_windows: bool,
}

/// How the vendor ID of Windows begins; its version follows.
const WINDOWS: [u8; 16] = [
    0x1e, 0x2b, 0x51, 0x69, 0x05, 0x99, 0x1c, 0x7d, 0x7c, 0x96, 0xfc, 0xbf, 0xb5, 0x87, 0xe4, 0x61,
];

impl Abilities {
    /// What a message of IKE_SA_INIT announces.
    fn announced(parts: &Parts<'_>) -> Self {
        let hashes = parts.notice(NotifyType::SignatureHashAlgorithms);
        let from = parts.notice(NotifyType::RedirectedFrom);
        let intermediate = parts.has(NotifyType::IntermediateExchangeSupported);
        Self {
            fragmentation: parts.has(NotifyType::Ikev2FragmentationSupported),
            hashes: hashes.and_then(|it| it.to_hash_algorithms().ok()),
            full_transcript: parts.has(NotifyType::IkeSaInitFullTranscriptAuth),
            mobike: false,
            intermediate,
            ppk: parts.has(NotifyType::UsePpk),
            early_ppk: intermediate && parts.has(NotifyType::UsePpkInt),
            childless: parts.has(NotifyType::ChildlessIkev2Supported),
            redirect: parts.has(NotifyType::RedirectSupported) || from.is_some(),
            from: from.and_then(|it| it.to_redirected_from().ok().map(Box::new)),
            is_windows: parts.vendors.iter().any(|id| id.starts_with(&WINDOWS)),
        }
    }
}
