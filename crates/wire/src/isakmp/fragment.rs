//! A fragment of an IKEv1 message, as Cisco, Windows and strongSwan speak it: payload kind 132 in
//! a message whose header is the original's, unencrypted.

/// One fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Ties the fragments of one message together.
    pub id: u16,
    /// From 1.
    pub number: u8,
    /// Whether it is the last.
    pub is_last: bool,
    /// Octets of the whole original message, its header included.
    pub data: Vec<u8>,
}
