//! What a peer tells under the keys of an IKE SA.

use super::Refusal;

/// What a peer has told us, authentic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// SPIs of its own ESP or AH SAs are gone.
    DeletedChildren(Vec<u32>),
    /// The IKE SA is gone.
    DeletedIke,
    /// It has no other SA with us (RFC 2407 §4.6.3.3).
    InitialContact,
    /// It wants a sign of life; the number to return.
    AreYouThere(u32),
    /// The answer to ours.
    IAmHere(u32),
    /// It ended our tunnel for another device with our identity.
    Superseded,
    /// An error or status.
    Other(Complaint),
}

/// A notification that is an error or a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Its type, as the log writes it.
    pub name: String,
    /// Whether it is an error.
    pub is_error: bool,
    /// What it refuses, if that is one of these.
    pub refuses: Option<Refusal>,
    /// Whether it refuses who we are.
    pub is_about_identity: bool,
    /// The SPI of the child that it names; `None` where it names none.
    pub child: Option<u32>,
}
