//! Where each child's peer is, to tell whom a path's MTU concerns, and when a path that shrank is
//! asked again.

use std::collections::BTreeMap;
use std::net::IpAddr;

use engine::plane::Change;
use engine::sa::{ChildId, Direction, Path};
use engine::time::{Duration, Instant};

/// A path that shrank is asked again after this long (RFC 1191 §6.3).
const MTU_RETRY: Duration = Duration::from_secs(600);

/// The paths of outbound SAs.
#[derive(Default)]
pub(super) struct Paths {
    children: BTreeMap<ChildId, (Path, u16)>,
    by_peer: BTreeMap<(IpAddr, ChildId), ()>,
    shrunk: BTreeMap<ChildId, Instant>,
}

impl Paths {
    /// Whether any path shrank.
    pub(super) fn has_shrunk(&self) -> bool {
        !self.shrunk.is_empty()
    }

    pub(super) fn note(&mut self, change: &Change) {
        match change {
            Change::Install(sa) if sa.direction == Direction::Outbound => {
                self.forget(sa.child);
                self.children.insert(sa.child, (sa.path, sa.path_mtu));
                self.by_peer.insert((sa.path.remote.ip(), sa.child), ());
            }
            Change::Move(child, path) => {
                if let Some((_, mtu)) = self.children.get(child).copied() {
                    self.forget(*child);
                    self.children.insert(*child, (*path, mtu));
                    self.by_peer.insert((path.remote.ip(), *child), ());
                }
            }
            Change::Forget(child) => self.forget(*child),
            _ => {}
        }
    }

    fn forget(&mut self, child: ChildId) {
        if let Some((path, _)) = self.children.remove(&child) {
            self.by_peer.remove(&(path.remote.ip(), child));
            self.shrunk.remove(&child);
        }
    }

    pub(super) fn shrink(&mut self, peer: IpAddr, mtu: u16, now: Instant) -> Vec<(ChildId, u16)> {
        let span = (peer, ChildId(0))..=(peer, ChildId(u32::MAX));
        let children = self.by_peer.range(span).map(|((_, child), ())| *child);
        let below = |child: &ChildId| self.children.get(child).is_some_and(|(_, own)| mtu < *own);
        let concerned: Vec<_> = children.filter(below).map(|child| (child, mtu)).collect();
        for (child, _) in &concerned {
            self.shrunk.insert(*child, now + MTU_RETRY);
        }
        concerned
    }

    /// Children whose path is to be asked again, with the MTU that their SA allows.
    pub(super) fn due(&mut self, now: Instant) -> Vec<(ChildId, Path, u16)> {
        let is_due = |(_, at): &(&ChildId, &Instant)| **at <= now;
        let due: Vec<_> = self
            .shrunk
            .iter()
            .filter(is_due)
            .map(|(id, _)| *id)
            .collect();
        let mut asked = Vec::new();
        for child in due {
            self.shrunk.insert(child, now + MTU_RETRY);
            if let Some((path, most)) = self.children.get(&child) {
                asked.push((child, *path, *most));
            }
        }
        asked
    }
}
