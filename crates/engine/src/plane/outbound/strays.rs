//! Packets whose way is about to be told. A node behind a firewall is heard at a new address, and
//! its packet is answered before control has told this plane where the node is: without this, the
//! answer would be lost, and asked for again a second later.

use super::OutboundPlane;
use crate::counters::DropReason;
use crate::plane::hold::{Held, Hold};
use crate::plane::inner::Inner;
use crate::plane::vnet;
use crate::time::{Duration, Instant};

/// Control tells where a node is sooner than this.
const AWAITED_FOR: Duration = Duration::from_secs(1);

/// Packets without a policy that wait for one.
#[derive(Default)]
pub(super) struct Strays {
    until: Option<Instant>,
    hold: Hold,
}

impl OutboundPlane {
    /// A lead is on its way.
    pub(super) fn await_lead(&mut self, now: Instant) {
        self.strays.until = Some(now + AWAITED_FOR);
    }

    /// A lead came: what waits tries again.
    pub(super) fn retry_strays(&mut self, now: Instant) {
        let (fresh, old): (Vec<_>, Vec<_>) =
            (self.strays.take()).partition(|held| now.since(held.since) <= AWAITED_FOR);
        self.released.extend(fresh);
        self.report
            .drops
            .add(DropReason::NoPolicy, old.len() as u64);
    }

    /// Nobody takes this frame: it waits if a lead is on its way, else it is dropped with those
    /// that waited in vain.
    pub(super) fn keep_stray(&mut self, frame: &mut [u8], since: Instant, now: Instant) {
        let is_awaited = self.strays.until.is_some_and(|until| now < until);
        let lost = match is_awaited {
            true if self.is_stray(frame) => self.strays.hold.put(frame, since, now),
            true => 1,
            false => 1 + self.strays.take().count(),
        };
        self.report.drops.add(DropReason::NoPolicy, lost as u64);
    }

    /// Others have a child, and lack a policy for what it made of them: they were changed.
    fn is_stray(&self, frame: &mut [u8]) -> bool {
        vnet::take(frame, self.offloads).is_ok_and(|(_, packet)| {
            let inner = Inner::parse(packet);
            inner.is_some_and(|inner| self.find_for(&inner, packet).is_none())
        })
    }
}

impl Strays {
    fn take(&mut self) -> impl Iterator<Item = Held> + use<> {
        core::mem::take(&mut self.hold).into_frames()
    }
}
