//! The children of a session, as far as the protocol sees them: pairs of SPIs, and which of them
//! are about to end (RFC 7296 §2.8.1, §2.25.1).

use crate::sa::{ChildId, Protocol};
use crate::time::{Duration, Instant};

/// After a renewal of ours, the old pair stays for packets in flight.
pub(super) const DELETE_DELAY: Duration = Duration::from_secs(2);

/// A pair of SAs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChildSa {
    pub(super) child: ChildId,
    pub(super) protocol: Protocol,
    pub(super) spi_in: u32,
    pub(super) spi_out: u32,
    pub(super) state: ChildState,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildState {
    /// In use.
    Installed,
    /// Another pair stands in its place. We delete it then; `None`: the peer does.
    Replaced(Option<Instant>),
    /// We have told the peer, or will as soon as the window is free.
    Deleting,
}

/// All of a session.
#[derive(Default)]
pub(super) struct ChildSas(Vec<ChildSa>);

impl ChildSas {
    pub(super) fn add(&mut self, child: ChildSa) {
        // Most sessions have one.
        self.0.reserve_exact(1);
        self.0.push(child);
    }

    /// The one with this SPI of ours.
    pub(super) fn of_own(&self, spi_in: u32) -> Option<&ChildSa> {
        self.0.iter().find(|it| it.spi_in == spi_in)
    }

    /// The one with this SPI of the peer's.
    pub(super) fn of_peer(&self, protocol: Protocol, spi_out: u32) -> Option<&ChildSa> {
        let mut all = self.0.iter();
        all.find(|it| it.protocol == protocol && it.spi_out == spi_out)
    }

    pub(super) fn remove(&mut self, spi_in: u32) -> Option<ChildSa> {
        let at = self.0.iter().position(|it| it.spi_in == spi_in)?;
        Some(self.0.remove(at))
    }

    pub(super) fn set(&mut self, spi_in: u32, state: ChildState) {
        if let Some(child) = self.0.iter_mut().find(|it| it.spi_in == spi_in) {
            child.state = state;
        }
    }

    /// When the next replaced pair is to be deleted.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let due = self.0.iter().filter_map(|it| match it.state {
            ChildState::Replaced(at) => at,
            _ => None,
        });
        due.min()
    }

    /// The replaced pairs that are to be deleted by now.
    pub(super) fn due(&self, now: Instant) -> Vec<ChildSa> {
        let is_due =
            |it: &&ChildSa| matches!(it.state, ChildState::Replaced(Some(at)) if at <= now);
        self.0.iter().filter(is_due).cloned().collect()
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> &[ChildSa] {
        &self.0
    }
}
