//! The packet plane: security associations and policies, and the packets that use them.
//!
//! [`OutboundPlane`] turns frames from a TUN device into datagrams. [`InboundPlane`] turns
//! datagrams into packets for a TUN device. The two share nothing. Control sends
//! [`InboundChange`]s and [`OutboundChange`]s, and the planes answer with [`Notice`]s, which become
//! control's input. Left out: sockets and devices.
//!
//! `docs/design/packet-plane.md` says why it works in bursts, in place and without allocation.

mod carried;
mod checksum;
mod coalesce;
pub mod datagrams;
mod ends;
pub mod hold;
pub mod inbound;
mod inner;
mod layers;
mod limit;
mod opener;
pub mod outbound;
pub mod packets;
pub mod path_mtu;
mod policy;
pub mod reassembly;
mod sealer;
pub mod shape;
mod soft_limit;
mod split;
mod stall;
mod table;
mod tail;
mod toobig;
pub mod trouble;
mod unwrap;
mod vnet;

use std::net::IpAddr;

use crate::counters::{DropCounters, DropReason};
use crate::sa::{ChildId, Direction, Lead, Path, Sa};
use crate::selector::TrafficSelector;
use crate::time::{Calendar, Instant};
use crate::work::Work;

pub use datagrams::{Datagrams, Run};
pub use inbound::{InboundPlane, Received};
pub use outbound::OutboundPlane;
pub use packets::{Control, Packets, Slice, Write};
pub use path_mtu::TooBig;
pub use shape::{Shape, TunnelShape, wire_bytes};
pub use trouble::Undelivered;

/// Most SAs that one packet goes through.
pub const MAX_NESTED: usize = 4;

/// What the outbound plane did with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All of it was sealed; where it goes into several tunnels, for at least one of them.
    Sealed,
    /// Nothing is to be sealed yet, or at all: a fragment waits for the others, or the packet must
    /// not leave its link.
    Kept,
    /// It was not sealed, or not all of it. If its child is not up, a copy waits.
    Refused(DropReason),
}

/// What the TUN device can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// A 10-octet virtio-net header precedes each packet in both directions, and TCP super-packets
    /// are taken and given.
    pub has_vnet_header: bool,
    /// UDP super-packets (USO) may be written to the device too.
    pub has_udp_segments: bool,
}

/// A change for the inbound plane.
pub enum InboundChange {
    /// A new SA.
    Install(Box<Sa>),
    /// An SA ends, by our SPI or its number.
    Remove(ChildId, u32),
    /// The peer of this child's SAs moved (found by the plane itself, or by control). An SA that is
    /// raw stays so. Tunnels stay where they are: control installs others.
    Move(ChildId, Path),
    /// This child's SA of SKIP has other ends and traffic from now on.
    Lead(ChildId, Box<Lead>),
    /// This child's peer has proven its address. If it is a peer of transport mode without a pool
    /// address, our own stack knows it by this address from now on.
    Proven(ChildId, IpAddr),
    /// The calendar time of this moment, which SKIP needs. Its owner repeats it each minute.
    Calendar(Calendar, Instant),
}

/// A change for the outbound plane.
pub enum OutboundChange {
    /// A new SA: it takes over its child's traffic at once.
    Install(Box<Sa>),
    /// An SA ends, by the peer's SPI or its number. Two peers may choose the same one, so
    /// the child is part of the name.
    Remove(ChildId, u32),
    /// The peer of this child's SAs moved (found by the inbound plane, or by control). An SA that
    /// is raw stays so.
    Move(ChildId, Path),
    /// The inbound plane has heard a peer somewhere else, and control may answer with
    /// [`OutboundChange::Lead`]: what has no policy waits a moment for it.
    AwaitLead,
    /// As [`InboundChange::Lead`].
    Lead(ChildId, Box<Lead>),
    /// This child's peer has moved. This many more octets may be sent to it. The rest waits for
    /// [`OutboundChange::Proven`], and is dropped if that takes too long.
    Allow(ChildId, u64),
    /// As [`InboundChange::Proven`].
    Proven(ChildId, IpAddr),
    /// The peer of this child answers small probes, but nothing answers its large packets. If that
    /// is still so, the path carries no large packets ([`Notice::PathShrank`]).
    Doubt(ChildId),
    /// Traffic that must not leave unencrypted: it waits for its child and requests it.
    Expect(ChildId, Vec<TrafficSelector>, Vec<TrafficSelector>),
    /// Takes [`OutboundChange::Expect`] back: its traffic does not wait for the child any more.
    Forget(ChildId),
    /// Report this child's first packet after this moment, once ([`Notice::OutboundUsed`]).
    Watch(ChildId, Instant),
    /// The largest packet that our own link towards this child's peer carries: the answer to
    /// [`OutboundPlane::link_to_ask`].
    LinkMtu(ChildId, u16),
    /// As [`InboundChange::Calendar`].
    Calendar(Calendar, Instant),
    /// The bound of [`Notice::StoreN`] was stored.
    StoredN(ChildId, u32),
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
    /// A large TCP segment is repeated again and again: probe the peer.
    LargeUnanswered {
        /// Which child.
        child: ChildId,
    },
    /// A path was made smaller after [`OutboundChange::Doubt`].
    PathShrank {
        /// Which child.
        child: ChildId,
        /// The largest outer packet.
        mtu: u16,
    },
    /// A packet left that [`OutboundChange::Watch`] waited for.
    OutboundUsed {
        /// Which child.
        child: ChildId,
        /// When.
        at: Instant,
    },
    /// An SA was removed: what it has carried.
    Removed(Direction, SaReport),
    /// `skip-paper` may send no n from this bound on until it is stored: answer with
    /// [`OutboundChange::StoredN`].
    StoreN {
        /// Which child.
        child: ChildId,
        /// The bound.
        bound: u32,
    },
    /// An authentic packet of `skip-paper` had a higher n than all before. Told once a minute at
    /// most: an owner that keeps it on disk ([`crate::sa::InLine::stored_n`]) refuses what is older
    /// after a restart too.
    HeardN {
        /// Which child.
        child: ChildId,
        /// The n.
        n: u32,
    },
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
    /// Which SA: its SPI, or its number.
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
    /// Copies of authentic packets of SKIP, which has no replay window: they were handed on.
    pub accepted_replays: u64,
    /// What was sealed or opened.
    pub work: Work,
}

#[cfg(test)]
mod tests;
