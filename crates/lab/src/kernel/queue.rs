//! A queue ordered by time and, at the same time, by the order of scheduling.
//!
//! A first in, first out element schedules its events in order, so only its first event is in the
//! heap and the others wait in a *lane* behind it: the heap has as many entries as there are
//! elements, however many packets are in flight. An event that would overtake the last one of its
//! lane goes to the heap alone. The order is the same as with a single heap of all events.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque, binary_heap::PeekMut};
use std::net::Ipv4Addr;

use engine::time::Instant;

use super::{PacketId, Port};

/// Names a lane of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane(u32);

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A packet arrives at a port.
    Arrives(Port, PacketId),
    /// A timer of the element.
    Timer(u32),
    /// ARP: this address leads to this element from now on.
    Claims(Ipv4Addr, u32),
    /// ARP: this element answers for this address no more.
    Yields(Ipv4Addr, u32),
}

/// An event of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// The element.
    pub element: u32,
    /// What.
    pub what: What,
}

/// The queue.
#[derive(Default)]
pub struct Queue {
    heap: BinaryHeap<Entry>,
    lanes: Vec<Waiting>,
    sequence: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    sequence: u64,
    lane: u32,
    event: Event,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Entry>,
    /// The time of the last event, which may be in the heap.
    last: Instant,
    is_in_heap: bool,
}

/// Not a lane: an event that is in the heap alone.
const ALONE: u32 = u32::MAX;

impl Queue {
    /// A new lane.
    pub fn lane(&mut self) -> Lane {
        self.lanes.push(Waiting::default());
        Lane(self.lanes.len() as u32 - 1)
    }

    /// Adds an event after earlier scheduled ones of the same time. `lane`: the lane of an element
    /// that schedules mostly in order.
    #[inline]
    pub fn schedule(&mut self, lane: Option<Lane>, event: Event) {
        self.sequence += 1;
        let mut entry = Entry {
            sequence: self.sequence,
            lane: ALONE,
            event,
        };
        if let Some(Lane(number)) = lane {
            let waiting = &mut self.lanes[number as usize];
            if !waiting.is_in_heap {
                waiting.is_in_heap = true;
                waiting.last = event.at;
                entry.lane = number;
            } else if event.at >= waiting.last {
                waiting.last = event.at;
                entry.lane = number;
                waiting.events.push_back(entry);
                return;
            }
        }
        self.heap.push(entry);
    }

    /// The next event up to and including `end`.
    #[inline]
    pub fn pop(&mut self, end: Instant) -> Option<Event> {
        let mut top = self.heap.peek_mut()?;
        if top.event.at > end {
            return None;
        }
        let event = top.event;
        match self.lanes.get_mut(top.lane as usize) {
            Some(waiting) => match waiting.events.pop_front() {
                Some(next) => *top = next,
                None => {
                    waiting.is_in_heap = false;
                    PeekMut::pop(top);
                }
            },
            None => {
                PeekMut::pop(top);
            }
        }
        Some(event)
    }

    /// The number of scheduled events.
    pub fn len(&self) -> usize {
        let waiting: usize = self.lanes.iter().map(|lane| lane.events.len()).sum();
        self.heap.len() + waiting
    }

    /// Whether nothing is scheduled.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl Entry {
    fn key(&self) -> u128 {
        u128::from(self.event.at.0) << 64 | u128::from(self.sequence)
    }
}

impl Ord for Entry {
    /// The standard heap returns its greatest first, so the earliest event is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use engine::link::Chance;

    use super::*;
    use crate::kernel::random::Random;

    #[test]
    fn lanes_change_nothing_of_the_order() {
        let mut random = Random::new(1, "queue", 0);
        let mut queue = Queue::default();
        let lanes: Vec<Lane> = (0..5).map(|_| queue.lane()).collect();
        let mut reference = Vec::new();
        let mut taken = Vec::new();
        let mut now = 0;
        for number in 0..20_000_u32 {
            let at = Instant(now + random.below(50));
            let lane = lanes.get(random.below(7) as usize).copied();
            let what = What::Timer(number);
            let element = 0;
            queue.schedule(lane, Event { at, element, what });
            reference.push((at, what));
            if random.below(2) == 0
                && let Some(event) = queue.pop(Instant(u64::MAX))
            {
                now = event.at.0;
                taken.push((event.at, event.what));
            }
        }
        while let Some(event) = queue.pop(Instant(u64::MAX)) {
            taken.push((event.at, event.what));
        }
        assert!(queue.is_empty());
        assert_eq!(queue.heap.len(), 0);
        // a stable sort by time keeps the order of scheduling
        reference.sort_by_key(|event| event.0);
        assert!(taken.is_sorted_by_key(|event| event.0));
        taken.sort_by_key(|event| event.0);
        assert_eq!(taken, reference);
    }

    #[test]
    fn nothing_comes_before_its_time() {
        let mut queue = Queue::default();
        let what = What::Timer(1);
        let (at, element) = (Instant(10), 3);
        queue.schedule(None, Event { at, element, what });
        assert_eq!(queue.pop(Instant(9)), None);
        assert_eq!(queue.pop(Instant(10)), Some(Event { at, element, what }));
    }
}
