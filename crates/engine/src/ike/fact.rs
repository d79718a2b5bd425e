//! What a session of IKE tells the node, and what the node gives a peer that asks.

use super::{ChildOffer, Fault, Lease, NegotiatedChild, Notice, Wanted};
use crate::config::{Child, InnerFamilies};
use crate::counters::DropReason;
use crate::sa::ChildId;
use crate::time::Instant;

/// What a message of an established session has brought about.
///
/// [`Self::AsksAddress`] and [`Self::AsksChild`] are questions: the session goes on with them when
/// it is told what the peer gets. Until the next message it remembers what was asked.
pub enum Fact {
    /// Nothing new: it was dropped and counted, was answered again, or an exchange goes on.
    Pending,
    /// It is dropped for this reason.
    Dropped(DropReason),
    /// It fails, which ends nothing: count it.
    Unproven(Fault),
    /// It does not verify under the session's keys, and may be no message of the session.
    Unreadable(Fault),
    /// The peer has shown that it cannot go on with us: the session ends.
    Unfit(Fault),
    /// The peer wants to be lent addresses.
    AsksAddress(Wanted),
    /// The peer lends us addresses, as we asked or unasked; `None`: nothing that we could use.
    Lease(Option<Lease>),
    /// The peer wants a child.
    AsksChild(ChildOffer),
    /// A child is agreed on.
    Child(Box<AgreedChild>),
    /// An exchange of ours or the peer's has ended without SAs: the child, our SPI in the exchange,
    /// and why.
    ChildFailed(ChildId, u32, Fault),
    /// The peer repeats its answer: it has not read our last message, which leaves again. The
    /// child, and our SPI in that exchange.
    Unread(ChildId, u32),
    /// The peer tells something, under an exchange of this number.
    Told(u32, Vec<Notice>),
}

/// A pair of SAs that both ends have agreed on.
pub struct AgreedChild {
    /// Whose it is.
    pub child: ChildId,
    /// The number of its exchange.
    pub exchange: u32,
    /// We began it.
    pub is_ours: bool,
    /// When it was begun, or answered.
    pub begun: Instant,
    /// Our SPI of the pair that the child had then.
    pub renews: Option<u32>,
    /// What was agreed.
    pub negotiated: Box<NegotiatedChild>,
}

/// What a responder gives to a peer that asks for a child.
pub struct Grant<'a> {
    /// To which it belongs.
    pub id: ChildId,
    /// Its mode, proposals and lifetimes.
    pub child: &'a Child,
    /// Our inbound SPI.
    pub spi: u32,
    /// Our SPI of the pair that it has.
    pub renews: Option<u32>,
    /// How many exchanges a session keeps, those that are done among them.
    pub exchanges_max: usize,
}

/// What a connection allows an established peer.
#[derive(Clone, Copy)]
pub struct Terms {
    /// What the peer may lend us.
    pub wants_inner: InnerFamilies,
    /// How many of its exchanges may be under way.
    pub exchanges_max: usize,
}

/// A child that the peer has refused, under keys.
pub struct RefusedChild {
    /// Whose exchange.
    pub child: ChildId,
    /// Our SPI in it.
    pub spi: u32,
    /// What we asked for and what the peer said, in words.
    pub text: String,
    /// What can be done about it.
    pub remedy: Remedy,
}

/// What can be done about a refusal.
pub enum Remedy {
    /// Nothing: it has failed.
    Nothing,
    /// Other groups of PFS than this one can be offered; `None`: no PFS.
    OtherGroups(Option<crypto::dh::Group>),
}
