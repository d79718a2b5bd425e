//! The packet plane: tables of security associations and policies, owned by the thread that moves
//! the packets. Outbound and inbound are separate and share nothing.
//!
//! Control sends [`Change`]s; packets answer with [`Notice`]s that become control's input.
//! [`OutboundPlane`] turns what a TUN device gives into datagrams, [`InboundPlane`] turns datagrams
//! into what a TUN device takes. Sockets and devices are the caller's.

mod checksum;
mod coalesce;
pub mod datagrams;
pub mod hold;
pub mod inbound;
mod inner;
mod limit;
mod opener;
pub mod outbound;
pub mod packets;
pub mod path_mtu;
mod policy;
pub mod reassembly;
mod sealer;
pub mod shape;
mod split;
mod stall;
mod table;
mod tail;
mod toobig;
mod unwrap;
mod vnet;

use std::net::IpAddr;

use crate::counters::DropCounters;
use crate::sa::{ChildId, Direction, Path, Sa};
use crate::selector::TrafficSelector;
use crate::time::Instant;
use crate::work::Work;

pub use datagrams::{Datagrams, Run};
pub use inbound::{InboundPlane, Received};
pub use outbound::OutboundPlane;
pub use packets::{Control, Packets, Slice, Write};
pub use path_mtu::TooBig;
pub use shape::{Shape, wire_bytes};

/// How a datagram travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// In UDP (RFC 3948): the bytes are the UDP payload.
    Udp,
    /// IP protocol 50: the bytes are the whole outer IP packet, its header included.
    RawEsp,
    /// IP protocol 51: the bytes are the whole outer IP packet, its header included.
    RawAh,
}

/// What the TUN device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// A 10-octet virtio-net header precedes each packet in both directions, and TCP super-packets
    /// are taken and given.
    pub has_vnet_header: bool,
    /// UDP super-packets (USO) may be written to the device too.
    pub has_udp_segments: bool,
}

/// What control tells a plane.
pub enum Change {
    /// A new SA. Outbound: it takes over its child's traffic at once.
    Install(Box<Sa>),
    /// An SA ends, by its child and our SPI (inbound) or the peer's (outbound), which two peers
    /// may have chosen alike.
    Remove(ChildId, u32, crate::sa::Direction),
    /// The peer of these outbound SAs moved (found by the inbound plane, or by control).
    Move(ChildId, Path),
    /// So many octets more may be sent to where this child's peer has moved; the rest waits until
    /// [`Change::Proven`] (or goes after a while).
    Allow(ChildId, u64),
    /// This child's peer is where it says, at this address: so our stack knows it from now on, if
    /// it is a peer of transport mode without a pool address.
    Proven(ChildId, IpAddr),
    /// The peer of this child answers small questions while its large packets go unanswered: if
    /// they still do, the path carries no large ones ([`Notice::PathShrank`]).
    Doubt(ChildId),
    /// Traffic that must not leave in the clear: it waits for (and asks for) its child.
    Expect(ChildId, Vec<TrafficSelector>, Vec<TrafficSelector>),
    /// Traffic that [`Change::Expect`] named waits for its child no more.
    Forget(ChildId),
    /// Tell of this child's first packet from that moment on ([`Notice::OutboundUsed`]), once.
    Watch(ChildId, Instant),
    /// The largest packet that our own link towards the peer of this child carries, as
    /// [`OutboundPlane::link_to_ask`] wants to know.
    LinkMtu(ChildId, u16),
}

/// What a plane tells control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Authenticated traffic came from somewhere else.
    PathMoved {
        /// Which child.
        child: ChildId,
        /// Where the peer is.
        path: Path,
        /// Octets that came from there.
        bytes: u64,
    },
    /// The first authenticated packet came under an inbound SA: the peer has installed its pair.
    InboundUsed {
        /// Which child.
        child: ChildId,
        /// Our SPI.
        spi: u32,
    },
    /// An SA reached a soft limit of packets or bytes.
    SoftLimit {
        /// Which child.
        child: ChildId,
    },
    /// An outbound packet needs a child that is not up.
    Acquire {
        /// Which child.
        child: ChildId,
    },
    /// A large TCP segment is repeated and repeated: ask the peer whether it answers at all.
    LargeUnanswered {
        /// Which child.
        child: ChildId,
    },
    /// A path was made smaller after [`Change::Doubt`].
    PathShrank {
        /// Which child.
        child: ChildId,
        /// The largest outer packet.
        mtu: u16,
    },
    /// A packet left that [`Change::Watch`] waited for.
    OutboundUsed {
        /// Which child.
        child: ChildId,
        /// When.
        at: Instant,
    },
    /// An SA was removed: what it has carried.
    Removed(Direction, SaReport),
    /// ESP came for an SPI that we do not have.
    UnknownSpi {
        /// From where.
        path: Path,
        /// The SPI.
        spi: u32,
    },
}

/// One SA's traffic so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaReport {
    /// Which SA.
    pub spi: u32,
    /// Its child.
    pub child: ChildId,
    /// Packets so far.
    pub packets: u64,
    /// Bytes of clear text so far.
    pub bytes: u64,
    /// The last packet's moment; `None`: no packet yet.
    pub last: Option<Instant>,
    /// Outbound: the largest outer packet that the path is believed to carry.
    pub path_mtu: u16,
}

impl SaReport {
    /// Of an SA that a plane does not have.
    fn nothing(child: ChildId, spi: u32) -> Self {
        Self {
            spi,
            child,
            packets: 0,
            bytes: 0,
            last: None,
            path_mtu: 0,
        }
    }
}

/// A plane's counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaneReport {
    /// Every SA.
    pub associations: Vec<SaReport>,
    /// Drops by reason.
    pub drops: DropCounters,
    /// Keepalives seen (inbound).
    pub keepalives: u64,
    /// What was sealed or opened.
    pub work: Work,
}

#[cfg(test)]
mod tests;
