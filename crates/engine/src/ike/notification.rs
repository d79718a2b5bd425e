//! Authenticated notifications of a peer.

use wire::ikev2::Gateway;

use super::Refusal;
use crate::time::Duration;

/// A notification of the peer, authenticated under the IKE SA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// The peer deleted its ESP or AH SAs with these SPIs.
    DeletedChildren(Vec<u32>),
    /// The peer deleted the IKE SA.
    DeletedIke,
    /// It has no other SA with us (RFC 2407 §4.6.3.3).
    InitialContact,
    /// The peer probes us. The number must be returned.
    AreYouThere(u32),
    /// The answer to our probe.
    IAmHere(u32),
    /// The peer ended our tunnel, because another device connected with our identity.
    Superseded,
    /// MOBIKE: it is where this message came from (RFC 4555 §3.5). Octets of the message, and of
    /// our answer.
    Moved {
        /// What came from there.
        came: u64,
        /// What went there.
        went: u64,
    },
    /// MOBIKE: it has named its other addresses (RFC 4555 §3.6). Sizes as above.
    Addresses {
        /// What came from there.
        came: u64,
        /// What went there.
        went: u64,
    },
    /// MOBIKE: it sends to where the session is.
    Followed,
    /// MOBIKE: it refuses to send there, with this notification.
    StaysBehind(String),
    /// Our gateway sends us to another one (RFC 5685 §5).
    SentTo(Gateway),
    /// Our gateway ends the session then, unless we have authenticated again (RFC 4478).
    AuthenticationLasts(Duration),
    /// An error or status.
    Other(Complaint),
}

/// A notification that is an error or a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Its type, as in the log.
    pub name: String,
    /// Whether it is an error.
    pub is_error: bool,
    /// The refusal that it means, if it is one of these.
    pub refuses: Option<Refusal>,
    /// Whether it refuses our identity.
    pub is_about_identity: bool,
    /// The SPI of the child that it names; `None` if it names none.
    pub child: Option<u32>,
}
