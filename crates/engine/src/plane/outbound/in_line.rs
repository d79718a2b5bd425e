//! What SAs of SKIP are told: the calendar time, and which n is on the disk.

use super::OutboundPlane;
use crate::plane::carried::{Carried, Heading, carried};
use crate::plane::inner::Inner;
use crate::plane::policy::Slot;
use crate::plane::stall::Stall;
use crate::sa::{ChildId, Lead};
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

    /// The child that a packet belongs to: by the home address that it carries, or by its ends.
    /// What is about another's home address, or does not tell whose, is not for a mobile node,
    /// whoever had its care-of address before. Later fragments do not tell.
    pub(super) fn find_for(&self, inner: &Inner, packet: &[u8]) -> Option<Slot> {
        if self.by_home.is_empty() {
            return self.find(inner);
        }
        match carried(inner, packet, Heading::ToNode) {
            Carried::Home(home) => {
                let own = self.by_home.get(&home).copied();
                own.filter(|slot| self.is_admitted(*slot, inner))
                    .or_else(|| self.find_among(inner, |child| child.home_address().is_none()))
            }
            Carried::Unreadable | Carried::Later => {
                self.find_among(inner, |child| child.home_address().is_none())
            }
            Carried::Nothing => self.find(inner),
        }
    }

    fn is_admitted(&self, slot: Slot, inner: &Inner) -> bool {
        let child = self.children[slot as usize].as_ref();
        child.is_some_and(|child| child.admits(inner))
    }

    /// Where the SA of a child leads from now on. Nothing is known of its path.
    pub(super) fn lead(&mut self, child: ChildId, lead: &Lead, now: Instant) {
        self.edit(child, |child| {
            for sealer in &mut child.sealers {
                sealer.lead(lead);
            }
            child.stall = Stall::default();
        });
        let mtu = self.sizes.lead(child, lead.path, lead.is_nested);
        self.resize(child, mtu);
        self.retry_strays(now);
    }

    /// A bound of n was stored.
    pub(super) fn n_is_stored(&mut self, child: ChildId, bound: u32) {
        let newest = self.child_mut(child).and_then(|it| it.sealers.last_mut());
        if let Some(in_line) = newest.and_then(|sealer| sealer.in_line_mut()) {
            in_line.n_is_stored(bound);
        }
    }
}
