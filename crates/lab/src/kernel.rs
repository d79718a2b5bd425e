//! The event kernel: everything with feedback, on one queue ordered by time and sequence.
//!
//! A [`Kernel`] holds elements: links, processors, NATs, sources, ends, and hosts that run the real
//! `engine::node::Node` with both packet planes. What they do to packets is scheduled on one
//! [`queue`]; the same seed gives the same trace of events, and the same [`fingerprint`], on every
//! machine. Memory grows with what is under way, never with simulated time.
//! Left out: anything in parallel. Replications are the caller's.

pub mod cpu;
pub mod fingerprint;
pub mod link;
pub mod packets;
pub mod queue;
pub mod random;
pub mod source;
#[cfg(test)]
mod tests;
pub mod trace;

use engine::time::Instant;

pub use cpu::{Costs, Cpu};
pub use link::Link;
pub use packets::{Packet, PacketId, Packets};
pub use queue::{Event, What};
pub use source::{Sink, Source};

use fingerprint::Fingerprint;
use link::Fate;
use queue::{Lane, Queue};

/// Most packets under way: a world that holds more does not carry what comes in.
pub const MAX_UNDER_WAY: usize = 4_000_000;

/// Which of its doors a packet takes into an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port(pub u8);

/// Where an element sends packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Number of the element.
    pub element: u32,
    /// Its door.
    pub port: Port,
}

/// What a world is made of.
pub enum Element {
    /// One direction of a link, and where it ends.
    Link(Link, Target),
    /// A processor on the way of plain packets.
    Cpu(Cpu),
    /// Makes plain packets.
    Source(Source),
    /// Counts what ends here.
    Sink(Sink),
}

/// Why a world cannot be, or cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Packets would never come to an end.
    #[error("packets go round in a circle: {0}")]
    Cycle(String),
    /// Numbers that make no sense, or an element that is not there.
    #[error("{0}: {1}")]
    Element(String, String),
    /// More comes in than is carried.
    #[error("{MAX_UNDER_WAY} packets are under way after {seconds} s: more comes in than goes out")]
    Overloaded {
        /// Simulated time.
        seconds: u64,
    },
}

/// A world and its clock.
pub struct Kernel {
    elements: Vec<Named>,
    stage: Stage,
    fingerprint: Option<Fingerprint>,
    events: u64,
}

struct Named {
    name: String,
    lane: Lane,
    element: Element,
}

/// What an element sees of the world.
pub(crate) struct Stage {
    pub(crate) now: Instant,
    pub(crate) queue: Queue,
    pub(crate) packets: Packets,
}

/// Kinds of the event trace.
mod kind {
    /// A packet arrives at port 0 to 15.
    pub(super) const ARRIVAL: u8 = 0;
    pub(super) const TIMER: u8 = 16;
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            elements: Vec::new(),
            stage: Stage {
                now: Instant(0),
                queue: Queue::default(),
                packets: Packets::default(),
            },
            fingerprint: None,
            events: 0,
        }
    }
}

impl Kernel {
    /// Adds an element and gives its number; numbers count from 0.
    pub fn add(&mut self, name: &str, element: Element) -> u32 {
        let lane = self.stage.queue.lane();
        let number = self.elements.len() as u32;
        self.elements.push(Named {
            name: name.to_owned(),
            lane,
            element,
        });
        number
    }

    /// Keeps a fingerprint from here on.
    pub fn keep_fingerprint(&mut self) {
        self.fingerprint = Some(Fingerprint::default());
    }

    /// The fingerprint so far, where one is kept.
    pub fn fingerprint(&self) -> Option<[u8; 32]> {
        self.fingerprint.as_ref().map(Fingerprint::hash)
    }

    /// Checks the world and lets its sources begin. Once, before [`Kernel::run`].
    pub fn start(&mut self) -> Result<(), Fault> {
        self.check()?;
        for number in 0..self.elements.len() {
            if let Element::Source(source) = &mut self.elements[number].element {
                let at = Instant(0) + source.gap();
                let (element, what) = (number as u32, What::Timer(0));
                self.stage.queue.schedule(None, Event { at, element, what });
            }
        }
        Ok(())
    }

    /// Runs to `end`, its events included.
    pub fn run(&mut self, end: Instant) -> Result<(), Fault> {
        while let Some(event) = self.stage.queue.pop(end) {
            self.stage.now = event.at;
            self.events += 1;
            self.note(&event);
            let named = &mut self.elements[event.element as usize];
            let lane = named.lane;
            match (&mut named.element, event.what) {
                (Element::Link(link, to), What::Arrives(_, packet)) => {
                    self.stage.over_link(link, *to, lane, packet);
                }
                (Element::Cpu(cpu), What::Arrives(_, packet)) => {
                    self.stage.through_cpu(cpu, lane, packet);
                }
                (Element::Sink(sink), What::Arrives(_, packet)) => {
                    sink.take(self.stage.packets.get(packet), event.at);
                    self.stage.packets.free(packet);
                }
                (Element::Source(source), What::Timer(_)) => {
                    self.stage.emit(source, lane, event);
                    if self.stage.packets.len() > MAX_UNDER_WAY {
                        let seconds = event.at.0 / 1_000_000_000;
                        return Err(Fault::Overloaded { seconds });
                    }
                }
                (Element::Source(_), What::Arrives(_, packet)) => self.stage.packets.free(packet),
                (Element::Link(..) | Element::Cpu(_) | Element::Sink(_), What::Timer(_)) => {}
            }
        }
        self.stage.now = self.stage.now.max(end);
        Ok(())
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The time reached.
    pub fn now(&self) -> Instant {
        self.stage.now
    }

    /// Packets under way, and events scheduled.
    pub fn under_way(&self) -> (usize, usize) {
        (self.stage.packets.len(), self.stage.queue.len())
    }

    /// An element, by its number.
    pub fn element(&self, number: u32) -> Option<&Element> {
        self.elements
            .get(number as usize)
            .map(|named| &named.element)
    }

    /// The elements, their names and numbers.
    pub fn elements(&self) -> impl Iterator<Item = (u32, &str, &Element)> {
        let numbered = (0..).zip(&self.elements);
        numbered.map(|(number, named)| (number, named.name.as_str(), &named.element))
    }

    #[inline]
    fn note(&mut self, event: &Event) {
        let Some(fingerprint) = &mut self.fingerprint else {
            return;
        };
        let (kind, bytes) = match event.what {
            What::Arrives(port, packet) => {
                (kind::ARRIVAL + port.0, self.stage.packets.get(packet).bytes)
            }
            What::Timer(token) => (kind::TIMER, token),
        };
        fingerprint.add(event.at, event.element, kind, bytes);
    }

    /// Every way ends, and every element can be.
    fn check(&self) -> Result<(), Fault> {
        for named in &self.elements {
            let fault = match &named.element {
                Element::Link(link, _) => link.shape().fault(),
                _ => None,
            };
            if let Some(fault) = fault {
                return Err(Fault::Element(named.name.clone(), fault));
            }
            self.follow(named)?;
        }
        Ok(())
    }

    /// From an element on to where its packets end.
    fn follow<'a>(&'a self, from: &'a Named) -> Result<(), Fault> {
        let mut way: Vec<&Named> = vec![from];
        while let Some(to) = way[way.len() - 1].element.next() {
            let next = self.elements.get(to.element as usize).ok_or_else(|| {
                let missing = format!("leads to element {}, which is not there", to.element);
                Fault::Element(way[way.len() - 1].name.clone(), missing)
            })?;
            let met = way.iter().position(|before| std::ptr::eq(*before, next));
            way.push(next);
            if let Some(met) = met {
                let names: Vec<&str> = way[met..].iter().map(|one| one.name.as_str()).collect();
                return Err(Fault::Cycle(names.join(" - ")));
            }
        }
        Ok(())
    }
}

impl Element {
    /// Where what passes goes on to; none where it ends, or where an address decides.
    fn next(&self) -> Option<Target> {
        match self {
            Self::Link(_, to) => Some(*to),
            Self::Cpu(cpu) => Some(cpu.next),
            Self::Source(source) => Some(source.to),
            Self::Sink(_) => None,
        }
    }
}

impl Stage {
    #[inline]
    pub(crate) fn arrive(&mut self, lane: Lane, at: Instant, to: Target, packet: PacketId) {
        let (element, what) = (to.element, What::Arrives(to.port, packet));
        self.queue.schedule(Some(lane), Event { at, element, what });
    }

    #[inline]
    fn over_link(&mut self, link: &mut Link, to: Target, lane: Lane, packet: PacketId) {
        match link.offer(self.packets.get(packet).bytes, self.now) {
            Fate::Arrives(at) => self.arrive(lane, at, to, packet),
            Fate::Lost | Fate::Overflows | Fate::TooBig => self.packets.free(packet),
        }
    }

    #[inline]
    fn through_cpu(&mut self, cpu: &mut Cpu, lane: Lane, packet: PacketId) {
        let entry = self.packets.get_mut(packet);
        entry.bytes = cpu.size(entry.clear, entry.bytes);
        let done = cpu.offer(entry.clear, self.now);
        self.arrive(lane, done, cpu.next, packet);
    }

    #[inline]
    fn emit(&mut self, source: &mut Source, lane: Lane, event: Event) {
        if !source.is_on(event.at) {
            return;
        }
        let bytes = source.size();
        let packet = self.packets.plain(bytes, source.flow(), event.at);
        self.arrive(lane, event.at, source.to, packet);
        let at = event.at + source.gap();
        self.queue.schedule(Some(lane), Event { at, ..event });
    }
}
