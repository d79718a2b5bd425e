//! The event kernel: everything with feedback, on one queue ordered by time and sequence.
//!
//! A [`Kernel`] holds elements: links, forks, processors, NATs, sources, ends, and hosts that run
//! the real `engine::node::Node` with both packet planes. What they do to packets is scheduled on
//! one [`queue`]; the same seed gives the same trace of events, and the same [`fingerprint`], on
//! every machine. Memory grows with what is under way, never with simulated time.
//! Left out: anything in parallel. Replications are the caller's.

pub mod capture;
pub mod closed;
pub mod cpu;
pub mod fingerprint;
pub mod fork;
pub mod host;
pub mod ip;
pub mod levels;
pub mod nat;
pub mod packets;
pub mod pki;
pub mod queue;
pub mod random;
pub mod source;
mod stage;
#[cfg(test)]
mod tests;
pub mod trace;
pub mod world;

use std::io::{self, Write};

use engine::link::recording::Rewind;
use engine::plane::reassembly::Reassembly;
use engine::time::{Calendar, Instant};

pub use cpu::{Costs, Cpu};
pub use host::Host;
pub use packets::{Packet, PacketId, Packets};
pub use queue::{Event, What};
pub use source::{Sink, Source};

use capture::Capture;
use fingerprint::Fingerprint;
use fork::Fork;
use nat::Nat;
use queue::{Lane, Queue};
use random::Random;
use stage::Stage;

/// Most packets under way: a world that holds more does not carry what comes in.
pub const MAX_UNDER_WAY: usize = 4_000_000;
/// The same where hosts make real packets, which have octets.
pub const MAX_REAL_UNDER_WAY: usize = 400_000;

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

/// One direction of a link, as the kernel runs it.
pub type Link = engine::link::Link<Box<dyn Rewind>, Random>;

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
    /// Translates addresses between door 0, inside, and door 1.
    Nat(Box<Router>),
    /// Leads packets on by their address.
    Fork(Fork),
    /// Runs the real node, TCP, or both.
    Host(Box<Host>),
}

/// A NAT and where its doors lead.
pub struct Router {
    /// The mappings.
    pub nat: Nat,
    inside: Target,
    outside: Target,
    reassembly: Reassembly,
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
    /// The capture could not be written.
    #[error("the capture: {0}")]
    Capture(String),
    /// More comes in than is carried.
    #[error("{packets} packets are under way after {seconds} s: more comes in than goes out")]
    Overloaded {
        /// Under way.
        packets: usize,
        /// Simulated time.
        seconds: u64,
    },
}

impl Fault {
    /// The keys of a scenario that it may be mended by, the likeliest first.
    pub(crate) fn keys(&self) -> Vec<String> {
        match self {
            Self::Cycle(_) => vec!["link".into()],
            Self::Element(name, _) => match name.split_once(" - ") {
                Some((from, _)) => vec![format!("link.{from}")],
                None => vec![format!("node.{name}"), "node".into()],
            },
            Self::Capture(_) => Vec::new(),
            Self::Overloaded { .. } => vec!["traffic.rate".into(), "traffic".into()],
        }
    }
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
    /// Of the capture: real packets that are offered to this link are written there.
    tap: Option<u32>,
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
                element: 0,
                queue: Queue::default(),
                packets: Packets::default(),
                capture: None,
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
            tap: None,
        });
        number
    }

    /// Writes what is offered to these links to a capture, an interface each, from here on.
    pub fn capture(&mut self, to: Box<dyn Write>, calendar: Calendar, links: &[u32]) {
        let mut capture = Capture::new(to, calendar);
        for &number in links {
            if let Some(named) = self.elements.get_mut(number as usize) {
                named.tap = Some(capture.interface(&named.name));
            }
        }
        self.stage.capture = Some(capture);
    }

    /// Ends the capture, if there is one; the first fault of writing it.
    pub fn finish_capture(&mut self) -> io::Result<()> {
        self.stage.capture.take().map_or(Ok(()), Capture::finish)
    }

    /// Sends the packets of one element elsewhere: for elements that lead to each other.
    pub fn lead(&mut self, element: u32, to: Target) {
        if let Some(Element::Link(_, end)) = self.element_mut(element) {
            *end = to;
        }
    }

    /// Keeps a fingerprint from here on.
    pub fn keep_fingerprint(&mut self) {
        self.fingerprint = Some(Fingerprint::default());
    }

    /// The fingerprint so far, where one is kept.
    pub fn fingerprint(&self) -> Option<[u8; 32]> {
        self.fingerprint.as_ref().map(Fingerprint::hash)
    }

    /// Checks the world and lets its sources and hosts begin. Once, before [`Kernel::run`].
    pub fn start(&mut self) -> Result<(), Fault> {
        self.check()?;
        for number in 0..self.elements.len() as u32 {
            let at = match &mut self.elements[number as usize].element {
                Element::Source(source) => Instant(0) + source.gap(),
                Element::Host(_) => Instant(0),
                _ => continue,
            };
            self.timer(number, at);
        }
        Ok(())
    }

    /// Lets a host look what it has to do: after its programs were given something.
    pub fn wake(&mut self, host: u32) {
        self.timer(host, self.stage.now);
    }

    fn timer(&mut self, element: u32, at: Instant) {
        let what = What::Timer(0);
        self.stage.queue.schedule(None, Event { at, element, what });
    }

    /// Runs to `end`, its events included.
    pub fn run(&mut self, end: Instant) -> Result<(), Fault> {
        self.run_while(end, |_| true)
    }

    /// Runs to `end` or until `goes_on` says no after an event.
    pub fn run_while(
        &mut self,
        end: Instant,
        goes_on: impl Fn(&Self) -> bool,
    ) -> Result<(), Fault> {
        while let Some(event) = self.stage.queue.pop(end) {
            self.step(event)?;
            if !goes_on(self) {
                return Ok(());
            }
        }
        self.stage.now = self.stage.now.max(end);
        Ok(())
    }

    #[inline]
    fn step(&mut self, event: Event) -> Result<(), Fault> {
        self.stage.now = event.at;
        self.stage.element = event.element;
        self.events += 1;
        self.note(&event);
        let named = &mut self.elements[event.element as usize];
        let lane = named.lane;
        match (&mut named.element, event.what) {
            (Element::Link(link, to), What::Arrives(_, packet)) => {
                if !self.stage.over_link(link, *to, lane, named.tap, packet) {
                    let why = link.broken().map(ToString::to_string).unwrap_or_default();
                    return Err(Fault::Element(named.name.clone(), why));
                }
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
                return self.stage.check_room(MAX_UNDER_WAY);
            }
            (Element::Nat(router), What::Arrives(port, packet)) => {
                self.stage.through_nat(router, port, lane, packet);
            }
            (Element::Fork(fork), What::Arrives(_, packet)) => {
                self.stage.through_fork(fork, lane, packet);
            }
            (Element::Host(host), _) => {
                host.on(event, lane, &mut self.stage);
                return self.stage.check_room(MAX_REAL_UNDER_WAY);
            }
            (Element::Source(_), What::Arrives(_, packet)) => self.stage.packets.free(packet),
            (_, What::Timer(_)) => {}
        }
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

    /// The same, to change it.
    pub fn element_mut(&mut self, number: u32) -> Option<&mut Element> {
        let named = self.elements.get_mut(number as usize);
        named.map(|named| &mut named.element)
    }

    /// The host of this number.
    pub fn host(&self, number: u32) -> Option<&Host> {
        match self.element(number) {
            Some(Element::Host(host)) => Some(host),
            _ => None,
        }
    }

    /// The same, to give its programs something; then [`Kernel::wake`] it.
    pub fn host_mut(&mut self, number: u32) -> Option<&mut Host> {
        match self.element_mut(number) {
            Some(Element::Host(host)) => Some(host),
            _ => None,
        }
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
                Element::Link(link, _) => link.shape().check().err().map(|fault| fault.to_string()),
                Element::Nat(router) => router.nat.plan().fault(),
                _ => None,
            };
            if let Some(fault) = fault {
                return Err(Fault::Element(named.name.clone(), fault));
            }
            self.follow(named)?;
            named
                .element
                .doors()
                .try_for_each(|to| self.find(named, to).map(drop))?;
        }
        Ok(())
    }

    fn find(&self, from: &Named, to: Target) -> Result<&Named, Fault> {
        self.elements.get(to.element as usize).ok_or_else(|| {
            let missing = format!("leads to element {}, which is not there", to.element);
            Fault::Element(from.name.clone(), missing)
        })
    }

    /// From an element on to where its packets end.
    fn follow<'a>(&'a self, from: &'a Named) -> Result<(), Fault> {
        let mut way: Vec<&Named> = vec![from];
        while let Some(to) = way[way.len() - 1].element.next() {
            let next = self.find(way[way.len() - 1], to)?;
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
            Self::Sink(_) | Self::Nat(_) | Self::Fork(_) | Self::Host(_) => None,
        }
    }

    /// Where what is addressed may go.
    fn doors(&self) -> impl Iterator<Item = Target> {
        let (doors, host) = match self {
            Self::Nat(router) => (vec![router.inside, router.outside], None),
            Self::Fork(fork) => (fork.doors(), None),
            Self::Host(host) => (Vec::new(), Some(host.doors())),
            _ => (Vec::new(), None),
        };
        doors.into_iter().chain(host.into_iter().flatten())
    }
}

impl Router {
    /// A NAT between two links.
    pub fn new(nat: Nat, inside: Target, outside: Target) -> Self {
        Self {
            nat,
            inside,
            outside,
            reassembly: Reassembly::default(),
        }
    }
}
