//! What a machine of a handshake gives its owner.

use crate::link::wireless::cipher::{GroupKey, TemporalKey};

/// Packets to send, then facts to apply.
#[derive(Default)]
pub struct Outbox {
    /// EAPOL packets for the peer.
    pub packets: Vec<Vec<u8>>,
    /// What has happened, in order.
    pub facts: Vec<Fact>,
}

/// Something that has happened.
#[derive(Clone, PartialEq, Eq)]
pub enum Fact {
    /// Install this pairwise key.
    Pairwise(TemporalKey),
    /// Install this group key.
    Group(GroupKey),
    /// The station has the group key that was given after the handshake.
    GroupTaken,
    /// The station has its keys and does not answer whether it is there.
    Unanswered,
    /// The handshake is complete.
    Done,
    /// The handshake has failed. The owner ends the connection.
    Failed(Failure),
}

/// Why a handshake has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The peer did not answer.
    #[error("the peer does not answer message {0} of the handshake")]
    NoAnswer(u8),
    /// The station did not answer the message with a new group key.
    #[error("the peer does not answer the handshake of a new group key")]
    NoGroupAnswer,
    /// The access point began no handshake, or did not go on after message 2.
    #[error("the peer does not go on with the handshake")]
    NoMessage,
    /// A message had a wrong MIC.
    #[error("the peer has another key: the password or the session is not the same")]
    WrongKey,
    /// The RSN element of a message is not the one of before.
    #[error("the peer's ciphers in the handshake are not those it has announced")]
    OtherRsn,
}
