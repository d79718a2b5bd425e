//! What SAs of SKIP are told: the calendar time, and which n is on the disk.

use super::OutboundPlane;
use crate::sa::ChildId;
use crate::time::{Calendar, Instant};

impl OutboundPlane {
    /// The calendar time of a moment.
    pub(super) fn tell(&mut self, calendar: Calendar, moment: Instant) {
        self.calendar = Some((calendar, moment));
        let children = self.children.iter_mut().flatten();
        let sealers = children.flat_map(|child| &mut child.sealers);
        for in_line in sealers.filter_map(|sealer| sealer.in_line_mut()) {
            in_line.tell(Some((calendar, moment)));
        }
    }

    /// A bound of n was stored.
    pub(super) fn n_is_stored(&mut self, child: ChildId, bound: u32) {
        let newest = self.child_mut(child).and_then(|it| it.sealers.last_mut());
        if let Some(in_line) = newest.and_then(|sealer| sealer.in_line_mut()) {
            in_line.n_is_stored(bound);
        }
    }
}
