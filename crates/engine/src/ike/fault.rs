//! Why an exchange of IKE ends without success.

use super::Unanswered;
use crate::counters::DropReason;

/// What a peer is told of what we do not take; each version has a notify type for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// None of its proposals.
    Proposal,
    /// Its traffic selectors.
    Selectors,
    /// Its public value, or that there is none.
    KeyExchange,
    /// What it wants configured.
    Configuration,
    /// The SPI that it chose.
    Spi,
    /// Its tunnel, because another device has come up with the same identity.
    Superseded,
}

/// Why an exchange ends without success. The text says what differed, for our log only; the
/// refusal is what the peer is told.
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
        refusal: Refusal,
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
    /// What the peer is told of it where it asked for a child, if anything.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Incompatible { refusal, .. } => Some(*refusal),
            // Who else is here is not for the peer to know, nor how full our pools are.
            Self::Taken(_) | Self::NothingToLend(_) => Some(Refusal::Selectors),
            _ => None,
        }
    }
}

impl From<DropReason> for Fault {
    fn from(reason: DropReason) -> Self {
        Self::Dropped(reason)
    }
}
