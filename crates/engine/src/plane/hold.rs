//! Packets that wait for their child, or for where it leads. Without this, the first packets of a
//! tunnel that starts on traffic would be lost.
//!
//! A child holds a limited number of packets for a limited time; after that, senders repeat them.
//! If there is no room, the newest packet is dropped. A packet that waited is looked up again when
//! it is sealed. It is dropped if the SA does not cover its source, because the inner address is
//! new.

use std::collections::VecDeque;

use crate::time::{Duration, Instant};

/// Frames that one child holds at most.
pub const MAX_HELD_FRAMES: usize = 32;
/// Their octets.
pub const MAX_HELD_BYTES: usize = 64 << 10;
/// A frame is held no longer than this.
pub const MAX_HELD_FOR: Duration = Duration::from_secs(10);

/// The frames of one child, the oldest first.
#[derive(Default)]
pub(crate) struct Hold {
    frames: VecDeque<Held>,
    bytes: usize,
}

/// A frame as the TUN device gave it, and when.
pub(crate) struct Held {
    pub(crate) since: Instant,
    pub(crate) frame: Vec<u8>,
}

impl Hold {
    /// Keeps a copy of a frame that has waited since then. Returns how many frames were lost: those
    /// that waited too long, and this one if there is no room.
    pub(crate) fn put(&mut self, frame: &[u8], since: Instant, now: Instant) -> usize {
        let mut lost = 0;
        while let Some(held) = self.frames.pop_front_if(|held| held.is_stale(now)) {
            self.bytes -= held.frame.len();
            lost += 1;
        }
        let bytes = self.bytes + frame.len();
        if self.frames.len() == MAX_HELD_FRAMES || bytes > MAX_HELD_BYTES {
            return lost + 1;
        }
        self.bytes = bytes;
        self.frames.push_back(Held {
            since,
            frame: frame.to_vec(),
        });
        lost
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// All that waited.
    pub(crate) fn into_frames(self) -> impl Iterator<Item = Held> {
        self.frames.into_iter()
    }
}

impl Held {
    /// Whether it has waited too long.
    pub(crate) fn is_stale(&self, now: Instant) -> bool {
        now.since(self.since) > MAX_HELD_FOR
    }
}
