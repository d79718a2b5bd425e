//! Why an exchange of IKE ends without success.

use super::Unanswered;
use crate::counters::DropReason;

/// What the peer is told about a refusal. Each version has a notify type for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// None of its proposals is acceptable.
    Proposal,
    /// Its traffic selectors are not acceptable.
    Selectors,
    /// Its public value is wrong or missing.
    KeyExchange,
    /// Its configuration request is refused.
    Configuration,
    /// Its SPI is invalid.
    Spi,
    /// Its tunnel ends, because another device connected with the same identity.
    Superseded,
}

/// Why an exchange ends without success. The text says what differed, only for our log; the peer is
/// told the [`Refusal`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The bytes are not a message.
    #[error("malformed message: {0}")]
    Malformed(#[from] wire::codec::Malformed),
    /// The peer broke a rule of the exchange.
    #[error("the peer misbehaved: {0}")]
    Misbehaved(String),
    /// The peer's Diffie-Hellman public value is invalid.
    #[error("{0}")]
    BadPublicValue(String),
    /// No common choice: proposals, selectors, modes.
    #[error("{what}")]
    Incompatible {
        /// One sentence: what we offered or accept, and what the peer did.
        what: String,
        /// What the peer is told.
        refusal: Refusal,
    },
    /// The peer requests traffic that belongs to another peer.
    #[error("{0}")]
    Taken(String),
    /// No address is left for the peer.
    #[error("{0}")]
    NothingToLend(String),
    /// No connection of ours matches these ends and this mode.
    #[error("{0}")]
    NoConnection(String),
    /// The peer refused us, authenticated: no answer is due.
    #[error("{0}")]
    Refused(String),
    /// The gateway sends us where our configuration does not let us go.
    #[error("{0}")]
    Misdirected(String),
    /// Identity, certificate, signature or pre-shared key were refused.
    #[error("{0}")]
    Unauthenticated(String),
    /// The peer says in an authentic message that our password is wrong, or refuses its user.
    #[error("{0}")]
    PasswordRefused(String),
    /// A ticket is refused: its sender begins anew.
    #[error("a ticket is refused: {0}")]
    TicketRefused(&'static str),
    /// An unauthenticated message was dropped: count it. It ends no exchange.
    #[error("message dropped: {}", .0.name())]
    Dropped(DropReason),
    /// No answer after all retransmissions.
    #[error("{0}")]
    TimedOut(Unanswered),
    /// The peer began a handshake, and did not end it while we kept it.
    #[error(
        "the peer began and did not finish: it went away, or it refused what we sent, such as our \
         certificate or another pre-shared key than its own"
    )]
    Unfinished,
}

impl Fault {
    /// What the peer is told if it requested a child, if anything.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Incompatible { refusal, .. } => Some(*refusal),
            // The peer must not learn who else is connected, nor how full our pools are.
            Self::Taken(_) | Self::NothingToLend(_) => Some(Refusal::Selectors),
            _ => None,
        }
    }

    /// The reason by which its message is counted.
    pub fn drop_reason(&self) -> DropReason {
        match self {
            Self::Dropped(reason) => *reason,
            Self::Malformed(_) => DropReason::MalformedMessage,
            Self::Unfinished => DropReason::IncompleteMessage,
            Self::TicketRefused(_) => DropReason::TicketRefused,
            Self::BadPublicValue(_) => DropReason::BadPublicValue,
            Self::TimedOut(asked) if asked.may_be_unreadable() => DropReason::AuthenticationFailed,
            Self::Misbehaved(_) | Self::TimedOut(_) => DropReason::UnexpectedMessage,
            Self::NoConnection(_) => DropReason::NoConnection,
            Self::Incompatible { refusal, .. } => match refusal {
                Refusal::Selectors => DropReason::SelectorRefused,
                Refusal::KeyExchange => DropReason::BadPublicValue,
                _ => DropReason::NoProposalChosen,
            },
            Self::Refused(_) => DropReason::NoProposalChosen,
            Self::Misdirected(_) => DropReason::WrongRedirect,
            Self::Unauthenticated(_) | Self::PasswordRefused(_) => DropReason::AuthenticationFailed,
            Self::Taken(_) => DropReason::SelectorTaken,
            Self::NothingToLend(_) => DropReason::NoInnerAddress,
        }
    }
}

impl From<DropReason> for Fault {
    fn from(reason: DropReason) -> Self {
        Self::Dropped(reason)
    }
}
