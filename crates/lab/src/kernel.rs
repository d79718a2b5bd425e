//! The event kernel: simulates everything with feedback, on one queue ordered by time and sequence.
//!
//! A [`Kernel`] holds elements: links, forks, processors, NATs, sources, ends, and hosts that run
//! the real `engine::node::Node` with both packet planes. Their effects on packets are events on
//! one [`queue`]. The same seed gives the same event trace and the same [`fingerprint`] on every
//! machine. Memory grows with the packets in flight, never with simulated time. Left out:
//! parallelism. The caller runs replications.

pub mod access_point;
pub mod capture;
pub mod closed;
pub mod cpu;
pub mod dialogue;
mod fault;
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

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::Ipv4Addr;

use engine::link::recording::Rewind;
use engine::plane::reassembly::Reassembly;
use engine::time::{Calendar, Instant};

pub use cpu::{Costs, Cpu};
pub use fault::{KernelFault, Subject};
pub use host::Host;
pub use packets::{Packet, PacketId, Packets};
pub use queue::{Event, What};
pub use source::{Sink, Source};

use access_point::AccessPoint;
use capture::Capture;
use fingerprint::Fingerprint;
use fork::Fork;
use nat::Nat;
use queue::{Lane, Queue};
use random::Random;
use stage::Stage;

/// Most packets in flight. A world with more is overloaded.
pub const MAX_UNDER_WAY: usize = 4_000_000;
/// The same for hosts with real packets, which have octets.
pub const MAX_REAL_UNDER_WAY: usize = 400_000;

/// The port of an element that a packet enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port(pub u8);

/// Where an element sends packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Index of the element.
    pub element: u32,
    /// Its port.
    pub port: Port,
}

/// One direction of a link in the kernel.
pub type Link = engine::link::Link<Box<dyn Rewind>, Random>;

/// The elements of a world.
pub enum Element {
    /// One direction of a link, and its far end.
    Link(Link, Target),
    /// A processor in the path of plain packets.
    Cpu(Cpu),
    /// Makes plain packets.
    Source(Source),
    /// Counts packets that end here.
    Sink(Sink),
    /// Translates addresses between port 0, inside, and port 1.
    Nat(Box<Router>),
    /// Forwards packets by their address.
    Fork(Fork),
    /// Joins a radio to the link behind it.
    AccessPoint(Box<AccessPoint>),
    /// Runs the real node, TCP, or both.
    Host(Box<Host>),
}

/// A NAT and the targets of its ports.
pub struct Router {
    /// The mappings.
    pub nat: Nat,
    inside: Target,
    outside: Target,
    reassembly: Reassembly,
}

/// A world and its clock.
pub struct Kernel {
    elements: Vec<Named>,
    /// The other direction of links that share their wire.
    partners: BTreeMap<u32, u32>,
    stage: Stage,
    fingerprint: Option<Fingerprint>,
    events: u64,
}

struct Named {
    name: String,
    lane: Lane,
    element: Element,
    /// The captured interface: real packets offered to this link are written there.
    tap: Option<u32>,
}

/// Kinds of the event trace.
mod kind {
    /// A packet arrives at port 0 to 15.
    pub(super) const ARRIVAL: u8 = 0;
    pub(super) const TIMER: u8 = 16;
    pub(super) const CLAIM: u8 = 17;
    pub(super) const YIELD: u8 = 18;
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            elements: Vec::new(),
            partners: BTreeMap::new(),
            stage: Stage {
                now: Instant(0),
                element: 0,
                queue: Queue::default(),
                packets: Packets::default(),
                capture: None,
                reporters: BTreeMap::new(),
            },
            fingerprint: None,
            events: 0,
        }
    }
}

impl Kernel {
    /// Adds an element and returns its index.
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

    /// From now on, writes packets offered to these links to a capture, with one interface each.
    pub fn capture(&mut self, to: Box<dyn Write>, calendar: Calendar, links: &[u32]) {
        let mut capture = Capture::new(to, calendar);
        for &number in links {
            if let Some(named) = self.elements.get_mut(number as usize) {
                named.tap = Some(capture.interface(&named.name));
            }
        }
        self.stage.capture = Some(capture);
    }

    /// Ends the capture, if there is one. Returns the first write error.
    pub fn finish_capture(&mut self) -> io::Result<()> {
        self.stage.capture.take().map_or(Ok(()), Capture::finish)
    }

    /// Sets the target of an element's packets, for elements that point to each other.
    pub fn lead(&mut self, element: u32, to: Target) {
        if let Some(Element::Link(_, end)) = self.element_mut(element) {
            *end = to;
        }
    }

    /// From now on, these two links share one wire: what one of them sends, the other waits for,
    /// with all that is queued before it.
    pub fn share(&mut self, one: u32, other: u32) {
        self.partners.insert(one, other);
        self.partners.insert(other, one);
    }

    /// From now on, the sender of a packet that is too large for this link is told so: from this
    /// address, by an ICMP message that begins its way at `to` (RFC 1191 §4).
    pub fn report(&mut self, link: u32, to: Target, from: Ipv4Addr) {
        self.stage.reporters.insert(link, (to, from));
    }

    /// From now on, computes a fingerprint.
    pub fn keep_fingerprint(&mut self) {
        self.fingerprint = Some(Fingerprint::default());
    }

    /// The fingerprint so far, if one is computed.
    pub fn fingerprint(&self) -> Option<[u8; 32]> {
        self.fingerprint.as_ref().map(Fingerprint::hash)
    }

    /// Checks the world and starts its sources and hosts. Call once, before [`Kernel::run`].
    pub fn start(&mut self) -> Result<(), KernelFault> {
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

    /// Lets a host process what its programs were given.
    pub fn wake(&mut self, host: u32) {
        self.timer(host, self.stage.now);
    }

    fn timer(&mut self, element: u32, at: Instant) {
        let what = What::Timer(0);
        self.stage.queue.schedule(None, Event { at, element, what });
    }

    /// Runs to `end`, including events at that time.
    pub fn run(&mut self, end: Instant) -> Result<(), KernelFault> {
        self.run_while(end, |_| true)
    }

    /// Runs to `end`, or until `goes_on` returns false after an event.
    pub fn run_while(
        &mut self,
        end: Instant,
        goes_on: impl Fn(&Self) -> bool,
    ) -> Result<(), KernelFault> {
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
    fn step(&mut self, event: Event) -> Result<(), KernelFault> {
        self.stage.now = event.at;
        self.stage.element = event.element;
        self.events += 1;
        self.note(&event);
        let named = &mut self.elements[event.element as usize];
        let lane = named.lane;
        match (&mut named.element, event.what) {
            (Element::Link(link, to), What::Arrives(_, packet)) => {
                let carried = self.stage.over_link(link, *to, lane, named.tap, packet);
                let until = link.free_at();
                carried.map_err(|why| named.impossible(event.element, why.to_string()))?;
                let partner = self.partners.get(&event.element);
                let partner = partner.and_then(|it| self.elements.get_mut(*it as usize));
                if let Some(Element::Link(other, _)) = partner.map(|named| &mut named.element) {
                    other.occupy(until);
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
            (Element::Fork(fork), What::Arrives(port, packet)) => {
                self.stage.through_fork(fork, port, lane, packet);
            }
            (Element::Fork(fork), What::Claims(address, element)) => {
                let port = Port(0);
                fork.lead_one(address.into(), Target { element, port });
            }
            (Element::Fork(fork), What::Yields(address, element)) => {
                fork.forget_of(address.into(), element);
            }
            (Element::AccessPoint(point), What::Arrives(port, packet)) => {
                point.take(port, lane, packet, &mut self.stage);
            }
            (Element::Host(host), _) => {
                host.on(event, lane, &mut self.stage);
                return self.stage.check_room(MAX_REAL_UNDER_WAY);
            }
            (Element::Source(_), What::Arrives(_, packet)) => self.stage.packets.free(packet),
            (_, What::Timer(_) | What::Claims(..) | What::Yields(..)) => {}
        }
        Ok(())
    }

    /// The number of events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The current simulated time.
    pub fn now(&self) -> Instant {
        self.stage.now
    }

    /// Packets in flight, and scheduled events.
    pub fn under_way(&self) -> (usize, usize) {
        (self.stage.packets.len(), self.stage.queue.len())
    }

    /// An element by its index.
    pub fn element(&self, number: u32) -> Option<&Element> {
        self.elements
            .get(number as usize)
            .map(|named| &named.element)
    }

    /// The same, mutable.
    pub fn element_mut(&mut self, number: u32) -> Option<&mut Element> {
        let named = self.elements.get_mut(number as usize);
        named.map(|named| &mut named.element)
    }

    /// The host with this index.
    pub fn host(&self, number: u32) -> Option<&Host> {
        match self.element(number) {
            Some(Element::Host(host)) => Some(host),
            _ => None,
        }
    }

    /// The same, mutable, for its programs; then [`Kernel::wake`] it.
    pub fn host_mut(&mut self, number: u32) -> Option<&mut Host> {
        match self.element_mut(number) {
            Some(Element::Host(host)) => Some(host),
            _ => None,
        }
    }

    /// The elements with indices and names.
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
            What::Claims(_, element) => (kind::CLAIM, element),
            What::Yields(_, element) => (kind::YIELD, element),
        };
        fingerprint.add(event.at, event.element, kind, bytes);
    }

    /// Checks that every path ends and that every element is possible.
    fn check(&self) -> Result<(), KernelFault> {
        for (number, named) in (0..).zip(&self.elements) {
            let fault = match &named.element {
                Element::Link(link, _) => link.shape().check().err().map(|fault| fault.to_string()),
                Element::Nat(router) => router.nat.config().fault(),
                _ => None,
            };
            if let Some(fault) = fault {
                return Err(named.impossible(number, fault));
            }
            self.follow(number)?;
            named
                .element
                .targets()
                .try_for_each(|to| self.find(number, to))?;
        }
        Ok(())
    }

    fn find(&self, from: u32, to: Target) -> Result<(), KernelFault> {
        if (to.element as usize) < self.elements.len() {
            return Ok(());
        }
        let missing = format!("leads to element {}, which does not exist", to.element);
        Err(self.elements[from as usize].impossible(from, missing))
    }

    /// Follows the path of packets from an element to its end.
    fn follow(&self, from: u32) -> Result<(), KernelFault> {
        let named = |number: u32| &self.elements[number as usize];
        let mut way = vec![from];
        let mut last = from;
        while let Some(to) = named(last).element.next() {
            self.find(last, to)?;
            last = to.element;
            let met = way.iter().position(|before| *before == last);
            way.push(last);
            if let Some(met) = met {
                let names = way[met..].iter().map(|number| &*named(*number).name);
                let names: Vec<&str> = names.collect();
                return Err(KernelFault::Cycle(names.join(" - ")));
            }
        }
        Ok(())
    }
}

impl Named {
    fn impossible(&self, number: u32, why: String) -> KernelFault {
        KernelFault::Impossible {
            subject: Subject::Element(number),
            name: self.name.clone(),
            why,
        }
    }
}

impl Element {
    /// The next element of passing packets; none if they end, or if an address decides.
    fn next(&self) -> Option<Target> {
        match self {
            Self::Link(_, to) => Some(*to),
            Self::Cpu(cpu) => Some(cpu.next),
            Self::Source(source) => Some(source.to),
            Self::Sink(_) | Self::Nat(_) | Self::Fork(_) | Self::AccessPoint(_) | Self::Host(_) => {
                None
            }
        }
    }

    /// The possible targets of addressed packets.
    fn targets(&self) -> impl Iterator<Item = Target> {
        let (targets, host) = match self {
            Self::Nat(router) => (vec![router.inside, router.outside], None),
            Self::Fork(fork) => (fork.targets(), None),
            Self::AccessPoint(point) => (point.targets().to_vec(), None),
            Self::Host(host) => (Vec::new(), Some(host.targets())),
            _ => (Vec::new(), None),
        };
        targets.into_iter().chain(host.into_iter().flatten())
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
