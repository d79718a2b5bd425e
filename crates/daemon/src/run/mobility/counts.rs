//! How far n of SKIP has come, on its way to the disk.

use tracing::warn;

use super::{Input, Process};

impl Process {
    /// Stores how far n has come. What cannot be stored is tried again each minute; until then the
    /// pair's packets are dropped.
    pub(super) fn store_n(
        &mut self,
        pair: String,
        (number, bound): (u32, u32),
    ) -> anyhow::Result<()> {
        match self.counts.store(&pair, bound) {
            Ok(()) => {
                self.unstored.remove(&pair);
                self.mobile_input(&Input::Stored(number, bound))
            }
            Err(error) => {
                warn!(
                    pair,
                    "cannot store how far n has come, so its packets stop: {error}"
                );
                self.unstored.insert(pair, (number, bound));
                Ok(())
            }
        }
    }

    /// Stores what waits for the disk: each minute, and at the end.
    pub(in crate::run) fn store_counts(&mut self) -> anyhow::Result<()> {
        for (pair, which) in core::mem::take(&mut self.unstored) {
            self.store_n(pair, which)?;
        }
        if let Err(error) = self.counts.catch_up() {
            warn!("cannot store which n were heard, so a restart forgets them: {error}");
        }
        Ok(())
    }
}
