//! From the network to the TUN device: SA lookup, replay, ICV, decryption, checks, coalescing.

use crate::counters::DropReason;
use crate::plane::{Change, Kind, Offloads, Packets, PlaneReport, SaReport};
use crate::sa::{ChildId, Path};
use crate::time::Instant;

/// What a socket received: one datagram, or several of one sender (UDP_GRO).
pub struct Received<'a> {
    /// Where it came from and to which of our addresses.
    pub path: Path,
    /// How. For `Udp`: the socket of the port that carries ESP and marked IKE (4500), never the
    /// plain IKE port (500). For raw kinds: where the socket does not deliver the IPv6 header, the
    /// caller puts one before the payload.
    pub kind: Kind,
    /// TOS or traffic class of the outer header, 0 if unknown.
    pub traffic_class: u8,
    /// Octets of each datagram but the last, which may have fewer (UDP_GRO's control message);
    /// `bytes.len()` for one datagram.
    pub segment_bytes: usize,
    /// The octets; opened in place.
    pub bytes: &'a mut [u8],
}

/// Inbound SAs, and the packets that they open.
pub struct InboundPlane {
    offloads: Offloads,
    report: PlaneReport,
}

impl InboundPlane {
    /// No SA: everything but IKE and keepalives is dropped as `unknown-spi`.
    pub fn new(offloads: Offloads) -> Self {
        Self {
            offloads,
            report: PlaneReport::default(),
        }
    }

    /// Takes one change; outbound SAs and what is unknown are ignored.
    pub fn apply(&mut self, change: Change, now: Instant) {
        let _ = (change, now, self.offloads);
    }

    /// Opens what was received into the buffer that the caller calls `buffer`. Appends to `out`,
    /// whose slices are ranges of `received.bytes`; never fails, drops are counted.
    pub fn open(&mut self, buffer: usize, received: Received<'_>, now: Instant, out: &mut Packets) {
        let _ = (buffer, received, now, out);
        self.report.drops.count(DropReason::UnknownSpi);
    }

    /// Counts of the plane and of each SA.
    pub fn report(&self) -> PlaneReport {
        self.report.clone()
    }

    /// The newest SA of one child.
    pub fn report_one(&self, child: ChildId) -> Option<SaReport> {
        let of = |sa: &&SaReport| sa.child == child;
        self.report.associations.iter().find(of).cloned()
    }
}
