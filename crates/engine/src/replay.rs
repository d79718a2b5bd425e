//! The anti-replay window (RFC 4303 §3.4.3, RFC 6479), 64 to 4096 packets, with ESN.
//!
//! A ring of 64-bit blocks, one more than the window needs, so that moving it clears whole blocks
//! and shifts nothing. Checking and accepting are separate: nothing moves before the ICV is
//! verified.

use crate::counters::DropReason;

/// Smallest window.
pub const MIN_PACKETS: u32 = 64;
/// Largest window.
pub const MAX_PACKETS: u32 = 4096;

/// Which sequence numbers of an inbound SA have been seen.
pub struct Window {
    blocks: Box<[u64]>,
    packets: u64,
    highest: u64,
    has_esn: bool,
    is_checked: bool,
}

impl Window {
    /// A window of `packets`, clamped to the limits and rounded up to a multiple of 64. 0 disables
    /// it.
    pub fn new(packets: u32, has_esn: bool) -> Self {
        let size = packets.clamp(MIN_PACKETS, MAX_PACKETS).next_multiple_of(64);
        let blocks = if packets == 0 {
            0
        } else {
            size as usize / 64 + 1
        };
        Self {
            blocks: vec![0; blocks.next_power_of_two()].into_boxed_slice(),
            packets: u64::from(size),
            highest: 0,
            has_esn,
            is_checked: packets > 0,
        }
    }

    /// The highest sequence number accepted, 0 before the first.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// The whole sequence number of a packet that carries only the lower half (RFC 4303 appendix
    /// A2.2). `None` if it would be before the first.
    pub fn expand(&self, low: u32) -> Option<u64> {
        if !self.has_esn {
            return Some(u64::from(low));
        }
        let (high, top) = (self.highest >> 32, self.highest as u32);
        let bottom = top.wrapping_sub(self.packets as u32 - 1);
        let spans_halves = u64::from(top) < self.packets - 1;
        let high = match (spans_halves, low >= bottom) {
            (false, true) | (true, false) => high,
            (false, false) => high
                .checked_add(1)
                .filter(|high| *high <= u32::MAX.into())?,
            (true, true) => high.checked_sub(1)?,
        };
        Some(high << 32 | u64::from(low))
    }

    /// Whether `sequence` may still be accepted.
    pub fn check(&self, sequence: u64) -> Result<(), DropReason> {
        if !self.is_checked || sequence > self.highest {
            return Ok(());
        }
        if sequence == 0 || self.highest - sequence >= self.packets {
            return Err(DropReason::OutsideWindow);
        }
        let (block, bit) = self.place(sequence);
        if self.blocks[block] & bit == 0 {
            Ok(())
        } else {
            Err(DropReason::Replayed)
        }
    }

    /// Marks `sequence` as seen, after [`Window::check`] accepted it and its ICV was verified.
    /// Returns whether it is the highest so far.
    pub fn accept(&mut self, sequence: u64) -> bool {
        if !self.is_checked {
            return false;
        }
        let is_newest = sequence > self.highest;
        if is_newest {
            let steps = (sequence >> 6) - (self.highest >> 6);
            let mask = self.blocks.len() as u64 - 1;
            for step in 1..=steps.min(self.blocks.len() as u64) {
                self.blocks[(((self.highest >> 6) + step) & mask) as usize] = 0;
            }
            self.highest = sequence;
        }
        let (block, bit) = self.place(sequence);
        self.blocks[block] |= bit;
        is_newest
    }

    fn place(&self, sequence: u64) -> (usize, u64) {
        let block = (sequence >> 6) & (self.blocks.len() as u64 - 1);
        (block as usize, 1 << (sequence & 63))
    }
}

#[cfg(test)]
mod tests;
