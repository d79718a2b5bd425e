//! Keys for who decrypts a capture.

use crypto::packet::Protection;

use crate::sa::Secret;

/// The keys of an IKE SA's messages.
pub enum MessageKeys {
    /// Of IKEv1: the cipher key.
    V1(Secret),
    /// Of IKEv2.
    V2(Box<DirectionKeys>),
}

/// The keys of both directions; in each encryption with its salt, then integrity.
pub struct DirectionKeys {
    /// What they are for.
    pub protection: Protection,
    /// SK_ei and SK_ai: of what the initiator sends.
    pub initiator: (Secret, Secret),
    /// SK_er and SK_ar: of what the responder sends.
    pub responder: (Secret, Secret),
}
