//! Why sessions and children end, as codes. The sentence is made for display.

use core::fmt;
use std::net::SocketAddr;

use crypto::cert::CertFault;

/// Why a session or a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndCause {
    /// The user took it down.
    TakenDown,
    /// The program stops.
    Stopped,
    /// The peer deleted it.
    DeletedByPeer,
    /// Dead peer detection: the peer does not answer.
    PeerSilent,
    /// The peer has restarted at the same address.
    PeerRestarted,
    /// The peer started again before anything was protected.
    BegunAnew,
    /// The peer has connected again from another address: the old one and the new one.
    PeerElsewhere(SocketAddr, SocketAddr),
    /// The peer ended our tunnel for another device that has our identity.
    Superseded,
    /// The peer has newer sessions than it may keep.
    NewerSessions,
    /// The peer has shown by its token that it has lost the tunnel (RFC 6290).
    PeerCrashed,
    /// The peer goes on from it in a new IKE SA, by a ticket (RFC 5723).
    Resumed,
    /// The peer was sent to another gateway (RFC 5685).
    SentAway,
    /// Our gateway has sent us to another one (RFC 5685).
    SentToAnother,
    /// Our gateway wanted us to authenticate again, and we have (RFC 4478).
    AuthenticatedAgain,
    /// Our gateway does not know the tunnel, and has authenticated again.
    GatewayRestarted,
    /// A reload changed or removed the connection.
    ConfigurationChanged,
    /// The peer's certificate is not accepted any more.
    CertificateRefused(CertFault),
    /// The user may not connect any more.
    UserRemoved,
    /// A peer that has used IKEv2 came with IKEv1.
    Downgraded,
    /// Its lifetime is over without a renewal.
    Expired,
    /// An IKE SA has no message ID left.
    MessageIdsUsedUp,
    /// The negotiation took too long.
    NegotiationTooLong,
    /// A half-open exchange was dropped for a new one.
    HalfOpenLimit,
    /// Our own address changed, and the tunnel cannot follow.
    OwnAddressChanged,
    /// This host refuses the route to the peer, which has no pool address.
    Unroutable,
    /// The gateway assigns no inner address.
    NoInnerAddress,
    /// No child came up.
    NoChild,
    /// The peer deleted a child that it could not install.
    NotPutToUse,
    /// Another address of the same gateway authenticated first.
    OtherAddressFirst,
    /// The negotiation failed; the text says what differed.
    Failed(String),
}

impl EndCause {
    /// Whether our own host ends it, whatever the peer does.
    pub(super) const fn is_ours(&self) -> bool {
        matches!(
            self,
            Self::TakenDown | Self::Stopped | Self::ConfigurationChanged | Self::OwnAddressChanged
        )
    }

    /// A name for programs; it does not change.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::TakenDown => "taken-down",
            Self::Stopped => "stopped",
            Self::DeletedByPeer => "deleted-by-peer",
            Self::PeerSilent => "peer-silent",
            Self::PeerRestarted => "peer-restarted",
            Self::BegunAnew => "begun-anew",
            Self::PeerElsewhere(..) => "peer-elsewhere",
            Self::Superseded => "superseded",
            Self::NewerSessions => "newer-sessions",
            Self::PeerCrashed => "peer-crashed",
            Self::Resumed => "resumed",
            Self::SentAway => "sent-away",
            Self::SentToAnother => "sent-to-another",
            Self::AuthenticatedAgain => "authenticated-again",
            Self::GatewayRestarted => "gateway-restarted",
            Self::ConfigurationChanged => "configuration-changed",
            Self::CertificateRefused(_) => "certificate-refused",
            Self::UserRemoved => "user-removed",
            Self::Downgraded => "downgraded",
            Self::Expired => "expired",
            Self::MessageIdsUsedUp => "message-ids-used-up",
            Self::NegotiationTooLong => "negotiation-too-long",
            Self::HalfOpenLimit => "half-open-limit",
            Self::OwnAddressChanged => "own-address-changed",
            Self::Unroutable => "unroutable",
            Self::NoInnerAddress => "no-inner-address",
            Self::NoChild => "no-child",
            Self::NotPutToUse => "not-put-to-use",
            Self::OtherAddressFirst => "other-address-first",
            Self::Failed(_) => "failed",
        }
    }
}

impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TakenDown => "taken down",
            Self::Stopped => "the program stops",
            Self::DeletedByPeer => "deleted by the peer",
            Self::PeerSilent => "the peer does not answer",
            Self::PeerRestarted => "the peer has restarted",
            Self::BegunAnew => "the peer started again before anything was protected",
            Self::PeerElsewhere(before, after) => {
                return write!(
                    f,
                    "the peer has restarted, at {after}; it was at {before}: if both continue, \
                     two devices share one certificate or key"
                );
            }
            Self::Superseded => {
                "another device has come up with our identity, and the peer ended this tunnel for \
                 it: two devices must not share a certificate or key"
            }
            Self::NewerSessions => "the peer has too many newer ones",
            Self::PeerCrashed => "the peer has lost the tunnel, as its token shows",
            Self::Resumed => "the peer goes on from it by a ticket",
            Self::SentAway => "the peer was sent to another gateway",
            Self::SentToAnother => "the gateway has sent us to another one",
            Self::AuthenticatedAgain => "we have authenticated again, as the gateway asked",
            Self::GatewayRestarted => "the gateway has restarted",
            Self::ConfigurationChanged => "its configuration changed",
            Self::CertificateRefused(fault) => return fault.fmt(f),
            Self::UserRemoved => "the user was removed",
            Self::Downgraded => "the peer has used IKEv2 before",
            Self::Expired => "expired",
            Self::MessageIdsUsedUp => "its message IDs are used up",
            Self::NegotiationTooLong => "the exchange took too long",
            Self::HalfOpenLimit => "too many half-open exchanges",
            Self::OwnAddressChanged => "our own address changed",
            Self::Unroutable => "this host refuses the route to the peer",
            Self::NoInnerAddress => "no inner address",
            Self::NoChild => "no child could be brought up",
            Self::NotPutToUse => "the peer could not install it",
            Self::OtherAddressFirst => "another address was first",
            Self::Failed(what) => what,
        })
    }
}
