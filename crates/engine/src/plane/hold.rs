//! Packets that wait for their child to come up, so that the first ones of a tunnel that traffic
//! brings up are not lost.
//!
//! What a child holds is bounded, and so is how long: whoever sent a packet sends it again by then.
//! Of what does not fit the newest is dropped. What waited is looked up again when it is sealed: a
//! source that the child's SA does not cover (an inner address lent only then) ends it.

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
    /// Keeps a copy of a frame that has waited since then. How many were lost by that: those that
    /// waited too long, and this one if it does not fit.
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
