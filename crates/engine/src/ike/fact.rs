//! What a session of IKE reports to the node, and what the node grants to a peer.

use std::sync::Arc;

use wire::ikev2::Gateway;

use super::{ChildOffer, Fault, Lease, NegotiatedChild, Notification, Wanted};
use crate::config::{Child, Connection, InnerFamilies};
use crate::counters::DropReason;
use crate::radius::Question;
use crate::sa::ChildId;
use crate::selector::TrafficSelector;
use crate::time::{Duration, Instant};

/// The result of a message in an established session.
///
/// [`Self::AsksAddress`] and [`Self::AsksChild`] are requests of the peer: the node answers them by
/// calling the session again. The session remembers the request until the next message.
pub enum Fact {
    /// Nothing new: the message was dropped and counted, or answered again, or an exchange
    /// continues.
    Pending,
    /// The message is dropped for this reason.
    Dropped(DropReason),
    /// The message fails, without ending anything: count it.
    Unproven(Fault),
    /// The message does not verify under the session's keys. It may belong to another session.
    Unreadable(Fault),
    /// The peer has shown that it cannot continue with us: the session ends.
    Unfit(Fault),
    /// The peer requests addresses.
    AsksAddress(Wanted),
    /// The peer assigns us addresses, requested or not; `None`: nothing that we could use.
    Lease(Option<Lease>),
    /// The peer requests a child.
    AsksChild(ChildOffer),
    /// A child is agreed.
    Child(Box<AgreedChild>),
    /// An exchange for a child has ended without SAs: the child, our SPI in the exchange, and the
    /// reason.
    ChildFailed(ChildId, u32, Fault),
    /// The peer repeated its answer, so it has not read our last message, which is sent again. The
    /// child, and our SPI in that exchange.
    Unread(ChildId, u32),
    /// The peer sent notices, in an exchange of this number.
    Told(u32, Vec<Notification>),
    /// The message is authentic and new, and says nothing else. IKEv2: the session has answered it.
    Heard,
    /// IKEv2: both ends have authenticated, and the peer is one of this connection.
    Established(Arc<Connection>),
    /// IKEv2: the IKE SA was renewed under the same session.
    Renewed,
    /// IKEv2: an exchange for a child is over, and other SAs stand in its place; or the peer is
    /// busy, and the child can be tried again after this time. The child, and our SPI in the
    /// exchange.
    ChildPostponed(ChildId, u32, Option<Duration>),
    /// IKEv2: the first child was not asked for with the authentication (RFC 6023): it comes in an
    /// exchange of its own. The child, and our SPI, which is free.
    Childless(ChildId, u32),
    /// IKEv2: the peer requests a ticket.
    AsksTicket,
    /// IKEv2: the gateway's ticket is not kept: its octets, and the most that we keep.
    TicketTooLarge(usize, usize),
    /// IKEv2: the gateway sends us to another one, and this session is over (RFC 5685).
    SentTo(Gateway),
    /// IKEv2: the peer has shown that it has lost everything that it shared with us (RFC 6290): the
    /// session is over, and the peer need not be told.
    Crashed,
    /// IKEv2: a server of RADIUS must say what the peer's packet of EAP is worth.
    AsksServer(Box<Question>),
    /// IKEv2: the session ends.
    Failed(Fault),
}

/// A pair of SAs that both ends have agreed to.
pub struct AgreedChild {
    /// The child.
    pub child: ChildId,
    /// The number of its exchange.
    pub exchange: u32,
    /// We initiated the exchange.
    pub is_ours: bool,
    /// When we initiated or answered it.
    pub begun: Instant,
    /// Our SPI of the child's pair at that time.
    pub renews: Option<u32>,
    /// The agreed SAs.
    pub negotiated: Box<NegotiatedChild>,
    /// IKEv2: whether the peer's renewal of the same child stands in its place (RFC 7296 §2.8.1).
    /// In IKEv1 the node decides.
    pub is_redundant: Option<bool>,
}

/// A responder's grant to a peer that requests a child.
pub struct Grant<'a> {
    /// The granted child.
    pub id: ChildId,
    /// Its mode, proposals and lifetimes.
    pub child: &'a Child,
    /// Our inbound SPI.
    pub spi: u32,
    /// Our side's traffic, within what the peer requests.
    pub local: Vec<TrafficSelector>,
    /// The peer's side's traffic, within what it requests.
    pub remote: Vec<TrafficSelector>,
    /// Our SPI of its current pair.
    pub renews: Option<u32>,
    /// The number of exchanges that a session keeps, including completed ones.
    pub exchanges_max: usize,
}

/// What a connection allows an established peer.
#[derive(Clone, Copy)]
pub struct Terms {
    /// The addresses that the peer may assign to us.
    pub wants_inner: InnerFamilies,
    /// How many of its exchanges may be in progress.
    pub exchanges_max: usize,
}

/// A child that the peer has refused, authenticated.
pub struct RefusedChild {
    /// The child of the exchange.
    pub child: ChildId,
    /// Our SPI in the exchange.
    pub spi: u32,
    /// What we requested and what the peer said, as a sentence.
    pub text: String,
    /// What can be tried next.
    pub remedy: Remedy,
}

/// What can be tried after a refusal.
pub enum Remedy {
    /// Nothing: the child has failed.
    Nothing,
    /// PFS groups other than this one can be offered; `None`: no PFS.
    OtherGroups(Option<crate::suite::Pfs>),
}
