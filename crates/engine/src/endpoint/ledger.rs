//! Checks that control removes from a plane each SA that it installed there, exactly once, and
//! nothing else. A second removal would end the account of another SA, and a missing one would
//! leave keys in a plane. Only builds with debug assertions check: tests and fuzz targets.

use std::collections::BTreeSet;

use crate::node::Node;
use crate::plane::{InboundChange, OutboundChange};
use crate::sa::{ChildId, Direction};

/// The SAs that control has installed in the planes and not removed yet.
#[derive(Default)]
pub(super) struct Ledger {
    installed: BTreeSet<(ChildId, Direction, u32)>,
}

impl Ledger {
    pub(super) fn inbound(&mut self, change: &InboundChange) {
        match change {
            InboundChange::Install(sa) => self.install(sa.child, sa.direction, sa.spi()),
            InboundChange::Remove(child, spi) => self.remove(*child, Direction::Inbound, *spi),
            InboundChange::Move(..)
            | InboundChange::Lead(..)
            | InboundChange::Proven(..)
            | InboundChange::Calendar(..) => {}
        }
    }

    pub(super) fn outbound(&mut self, change: &OutboundChange) {
        match change {
            OutboundChange::Install(sa) => self.install(sa.child, sa.direction, sa.spi()),
            OutboundChange::Remove(child, spi) => self.remove(*child, Direction::Outbound, *spi),
            _ => {}
        }
    }

    /// Panics if control has forgotten an SA that is in a plane.
    pub(super) fn check(&self, node: &Node) {
        if cfg!(debug_assertions) {
            for (child, direction, spi) in &self.installed {
                let is_known = node.has_sa(*child, *direction, *spi);
                assert!(
                    is_known,
                    "control forgot the {direction:?} SA {spi:08x} of {child:?}"
                );
            }
        }
    }

    fn install(&mut self, child: ChildId, direction: Direction, spi: u32) {
        if cfg!(debug_assertions) {
            let is_new = self.installed.insert((child, direction, spi));
            assert!(
                is_new,
                "control installed the {direction:?} SA {spi:08x} of {child:?} twice"
            );
        }
    }

    fn remove(&mut self, child: ChildId, direction: Direction, spi: u32) {
        if cfg!(debug_assertions) {
            let is_there = self.installed.remove(&(child, direction, spi));
            assert!(
                is_there,
                "control removed the {direction:?} SA {spi:08x} of {child:?}, which is in no plane"
            );
        }
    }
}
