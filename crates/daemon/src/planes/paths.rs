//! Where each child's peer is, to tell whom a path's MTU concerns, and when the kernel is asked for
//! it: for a new SA or path at once, and again where a path is smaller than the SA allows.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use engine::plane::Change;
use engine::sa::{ChildId, Direction, Path};
use engine::time::{Duration, Instant};

/// A path that shrank is asked again after this long (RFC 1191 §6.3).
const MTU_RETRY: Duration = Duration::from_secs(600);

/// The paths of outbound SAs: a child's is known as long as it has one.
#[derive(Default)]
pub(super) struct Paths {
    children: BTreeMap<ChildId, Known>,
    by_peer: BTreeSet<(IpAddr, ChildId)>,
    /// When children's paths are asked; each has its time in [`Known::ask_at`] too.
    to_ask: BTreeSet<(Instant, ChildId)>,
}

/// One child's.
struct Known {
    path: Path,
    /// What its SA allows.
    most: u16,
    spis: Vec<u32>,
    ask_at: Option<Instant>,
}

impl Paths {
    /// Whether any path is to be asked, some time.
    pub(super) fn asks(&self) -> bool {
        !self.to_ask.is_empty()
    }

    pub(super) fn note(&mut self, change: &Change) {
        match change {
            Change::Install(sa) if sa.direction == Direction::Outbound => {
                let former = self.forget(sa.child);
                let mut spis = former.map_or_else(Vec::new, |known| known.spis);
                spis.push(sa.spi);
                let (path, most) = (sa.path, sa.path_mtu);
                let ask_at = None;
                let known = Known {
                    path,
                    most,
                    spis,
                    ask_at,
                };
                self.keep(sa.child, known);
            }
            Change::Move(child, path) => {
                if let Some(known) = self.forget(*child) {
                    let (path, ask_at) = (*path, None);
                    let known = Known {
                        path,
                        ask_at,
                        ..known
                    };
                    self.keep(*child, known);
                }
            }
            Change::Remove(child, spi, Direction::Outbound) => {
                let Some(known) = self.children.get_mut(child) else {
                    return;
                };
                known.spis.retain(|own| own != spi);
                if known.spis.is_empty() {
                    self.forget(*child);
                }
            }
            _ => {}
        }
    }

    /// Its path is new to us: our own link may carry less than the SA allows.
    fn keep(&mut self, child: ChildId, known: Known) {
        self.by_peer.insert((known.path.remote.ip(), child));
        self.children.insert(child, known);
        self.ask_at(child, Some(Instant(0)));
    }

    fn forget(&mut self, child: ChildId) -> Option<Known> {
        let known = self.children.remove(&child)?;
        self.by_peer.remove(&(known.path.remote.ip(), child));
        if let Some(at) = known.ask_at {
            self.to_ask.remove(&(at, child));
        }
        Some(known)
    }

    fn ask_at(&mut self, child: ChildId, at: Option<Instant>) {
        let Some(known) = self.children.get_mut(&child) else {
            return;
        };
        if let Some(former) = core::mem::replace(&mut known.ask_at, at) {
            self.to_ask.remove(&(former, child));
        }
        self.to_ask.extend(at.map(|at| (at, child)));
    }

    pub(super) fn shrink(&mut self, peer: IpAddr, mtu: u16, now: Instant) -> Vec<(ChildId, u16)> {
        let span = (peer, ChildId(0))..=(peer, ChildId(u32::MAX));
        let children = self.by_peer.range(span).map(|(_, child)| *child);
        let below = |child: &ChildId| self.children.get(child).is_some_and(|own| mtu < own.most);
        let concerned: Vec<_> = children.filter(below).map(|child| (child, mtu)).collect();
        for (child, _) in &concerned {
            self.ask_at(*child, Some(now + MTU_RETRY));
        }
        concerned
    }

    /// A child whose path is to be asked at this time, with the MTU that its SA allows; it is
    /// asked again later unless the answer says that it need not be.
    pub(super) fn due(&mut self, now: Instant) -> Option<(ChildId, Path, u16)> {
        let (_, child) = *self.to_ask.first().filter(|(at, _)| *at <= now)?;
        self.ask_at(child, Some(now + MTU_RETRY));
        let known = self.children.get(&child)?;
        Some((child, known.path, known.most))
    }

    /// What the kernel said of a path that was due: one that is as large as it may be is asked no
    /// more.
    pub(super) fn answered(&mut self, child: ChildId, mtu: u16) {
        if self.children.get(&child).is_some_and(|own| mtu >= own.most) {
            self.ask_at(child, None);
        }
    }
}

#[cfg(test)]
mod tests;
