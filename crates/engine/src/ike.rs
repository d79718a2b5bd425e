//! The parts that all versions of IKE share: outgoing messages and events ([`Outbox`]),
//! retransmission ([`retransmit`]) with a timeout from the measured path ([`round_trip`]), the
//! result of a message ([`Fact`]), who a peer is ([`auth`]), NATs ([`nat`]), and why an exchange
//! fails ([`Fault`]).

pub mod auth;
mod child;
mod fact;
mod fault;
mod lease;
mod message_keys;
pub mod nat;
mod notification;
mod outbox;
pub mod retransmit;
pub mod round_trip;
mod step;
mod unanswered;

pub use child::{ChildExchange, ChildOffer, ChildRequest, FirstChild, Groups, NegotiatedChild};
pub use fact::{AgreedChild, Fact, Grant, RefusedChild, Remedy, Terms};
pub use fault::{Fault, Refusal};
pub use lease::{Lease, Wanted};
pub use message_keys::{DirectionKeys, MessageKeys};
pub use notification::{Complaint, Notification};
pub use outbox::{Outbox, Received, Rejection, Sent, Size, Wear};
pub use step::Step;
pub use unanswered::{NotReached, Unanswered, Unreachable};

use crate::sa::Via;

/// The port of IKE.
pub const IKE_PORT: u16 = 500;
/// The port of IKE and ESP in UDP through a NAT (RFC 3947 §4, RFC 3948 §2).
pub const NAT_T_PORT: u16 = 4500;
/// The UDP sockets that a host has for us: our port, and how datagrams travel over it.
pub const SOCKETS: [(u16, Via); 2] = [(IKE_PORT, Via::Udp), (NAT_T_PORT, Via::UdpWithMarker)];

/// How datagrams travel over the socket of ours that has this port.
pub fn via_of(own_port: u16) -> Option<Via> {
    let mut sockets = SOCKETS.into_iter();
    sockets.find_map(|(port, via)| (port == own_port).then_some(via))
}

/// The socket of ours that talks to this port of a peer. On any port but IKE's own, a peer expects
/// the marker.
pub fn socket_towards(peers_port: u16) -> (u16, Via) {
    match peers_port {
        IKE_PORT => SOCKETS[0],
        _ => SOCKETS[1],
    }
}

/// Names one end of an IKE SA: the SPI of RFC 7296 §2.6, which RFC 2408 calls a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spi(pub [u8; 8]);

/// Names an IKE SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spis {
    /// The initiator's SPI.
    pub initiator: Spi,
    /// The responder's SPI.
    pub responder: Spi,
}

/// Our role in an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// We did.
    Initiator,
    /// The peer did.
    Responder,
}

impl Role {
    /// The peer's.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Initiator => Self::Responder,
            Self::Responder => Self::Initiator,
        }
    }
}
