//! Two endpoints and the network between them, in virtual time, for tests and measurements of
//! exchanges. Time goes from deadline to deadline, and random numbers come from a seed.
//!
//! It leaves out routes: a datagram of one end reaches the other at any address that is not dead.

use core::ops::{Deref, DerefMut};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use wire::ip::Flow;

use super::network::{Datagram, Network};
use super::{Effect, Endpoint};
use crate::ike::Step;
use crate::node::{Command, Event, Input};
use crate::plane::{InboundChange, OutboundChange};
use crate::sa::{ChildId, Direction, Keys, Layer, Path, Sa, Secret};
use crate::time::{Duration, Instant};

/// Two endpoints, a network and a clock.
pub struct Pair {
    /// The two ends. The first one may be behind a NAT.
    pub ends: [End; 2],
    /// The current time.
    pub now: Instant,
    /// The network between them.
    pub network: Network,
    /// How often a deadline has woken an end.
    pub wakes: usize,
    /// Whether nothing answers packets that the second end opens. Otherwise each IPv4 packet comes
    /// back.
    pub is_mute: bool,
}

/// An endpoint and a record of what it did.
pub struct End {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The record.
    pub seen: Seen,
}

/// What an end did.
#[derive(Default)]
pub struct Seen {
    /// Its events.
    pub events: Vec<Event>,
    /// Children of the installed inbound SAs, by SPI.
    pub inbound: BTreeMap<u32, ChildId>,
    /// Children of the installed outbound SAs, by SPI.
    pub outbound: BTreeMap<u32, ChildId>,
    /// The outbound SA that was installed last.
    pub sealing: u32,
    /// Keys of every SA that was installed, by SPI.
    pub keys: BTreeMap<u32, Keys>,
    /// The path of each child's packets.
    pub paths: BTreeMap<ChildId, Path>,
    /// How many bytes it may send for each child whose peer's address is not proven.
    pub limits: BTreeMap<ChildId, u64>,
    /// Children whose paths may lose large packets.
    pub doubted: Vec<ChildId>,
    /// Its messages and changes of its planes, in order.
    pub trail: Vec<Act>,
    /// Packets that its inbound plane opened.
    pub opened: Vec<Vec<u8>>,
    /// The secrets that it keeps over a restart.
    pub kept: Option<Secret>,
    /// Datagrams for servers of RADIUS.
    pub radius: Vec<(SocketAddr, Vec<u8>)>,
}

/// A message of an end, or a change that control makes to its planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Sends or reads this message.
    Message(Step),
    /// Installs an SA.
    Install(Direction),
    /// Moves a child's SAs to another path.
    Move(Direction),
    /// Lets packets of a child wait for its tunnel.
    Expect,
    /// Drops packets that wait.
    Forget,
    /// Lets a child send some more bytes to a peer that has moved.
    Allow,
    /// Ends that limit: the peer has proven its address.
    Proven,
}

impl Pair {
    /// Starts the connections of both ends.
    pub fn new(ends: [Endpoint; 2], network: Network) -> Self {
        let mut pair = Self {
            ends: ends.map(End::new),
            now: Instant(1),
            network,
            wakes: 0,
            is_mute: false,
        };
        (0..2).for_each(|end| pair.settle(end));
        pair
    }

    /// Gives an end an input, and does everything that follows at the current time.
    pub fn input(&mut self, end: usize, input: Input<'_>) {
        self.ends[end].endpoint.handle(input, self.now);
        self.settle(end);
    }

    /// Gives an end a command.
    pub fn command(&mut self, end: usize, command: Command) {
        self.input(end, Input::Command(command));
    }

    /// Puts a packet into an end's tunnel. Returns whether it was sealed.
    pub fn send(&mut self, end: usize, mut packet: Vec<u8>) -> bool {
        let is_sealed = self.ends[end].endpoint.send(&mut packet, self.now);
        self.settle(end);
        is_sealed
    }

    /// Replaces an end by another endpoint, as a restart does.
    pub fn replace(&mut self, end: usize, endpoint: Endpoint) {
        self.ends[end] = End::new(endpoint);
        self.settle(end);
    }

    /// Lets time pass.
    pub fn run(&mut self, span: Duration) {
        let until = self.now + span;
        while let Some(end) = self.advance(until) {
            self.settle(end);
        }
    }

    /// Gives the next datagram or deadline to its end, and returns that end. `None`: nothing
    /// happened until `until`, which is the current time then.
    fn advance(&mut self, until: Instant) -> Option<usize> {
        let arrival = self.network.next();
        let deadlines = [0, 1].map(|end| {
            self.ends[end]
                .endpoint
                .deadline()
                .map(|deadline| deadline.at)
        });
        let next = deadlines.into_iter().chain([arrival]).flatten().min();
        let Some(at) = next.filter(|at| *at <= until) else {
            self.now = self.now.max(until);
            return None;
        };
        self.now = self.now.max(at);
        if arrival.is_some_and(|at| at <= self.now) {
            let mut datagram = self.network.take()?;
            let Datagram { to, path, .. } = datagram;
            self.ends[to]
                .endpoint
                .receive(path, &mut datagram.octets, self.now);
            return Some(to);
        }
        let is_due = |due: &Option<Instant>| due.is_some_and(|at| at <= self.now);
        let end = deadlines.iter().position(is_due)?;
        self.wakes += 1;
        self.ends[end].endpoint.handle(Input::Wake, self.now);
        Some(end)
    }

    /// Polls an end until it has nothing to do at the current time. The network gets its datagrams.
    pub fn settle(&mut self, end: usize) {
        let now = self.now;
        let End { endpoint, seen } = &mut self.ends[end];
        let before = seen.opened.len();
        while let Some(effect) = endpoint.poll(now) {
            match effect {
                Effect::Message(path, octets) => self.network.message(end, path, octets, now),
                Effect::Sealed(path, octets) => {
                    self.network.packet(end, path, octets.to_vec(), now);
                }
                Effect::Inbound(change) => seen.inbound(change),
                Effect::Outbound(change) => seen.outbound(change),
                Effect::Event(event) => seen.event(event),
                Effect::Opened(packet) => seen.opened.push(packet),
                Effect::Radius(to, datagram) => seen.radius.push((to, datagram)),
                Effect::Keep(octets) => seen.kept = Some(octets),
                Effect::Reply(_) | Effect::IkeKeys(..) => {}
            }
        }
        endpoint.check();
        if end == 1 && !self.is_mute {
            let opened = seen.opened[before..].iter();
            let answers: Vec<Vec<u8>> = opened.filter_map(|packet| answer(packet)).collect();
            answers
                .into_iter()
                .for_each(|packet| _ = self.send(end, packet));
        }
    }
}

impl End {
    fn new(endpoint: Endpoint) -> Self {
        let seen = Seen::default();
        Self { endpoint, seen }
    }

    /// Whether it had such an event.
    pub fn told(&self, is_it: impl Fn(&Event) -> bool) -> bool {
        self.seen.events.iter().any(is_it)
    }

    /// How many such events it had.
    pub fn count(&self, is_it: impl Fn(&Event) -> bool) -> usize {
        self.seen.events.iter().filter(|event| is_it(event)).count()
    }

    /// Why its first attempt failed.
    pub fn failure(&self) -> Option<String> {
        self.seen.events.iter().find_map(|event| match event {
            Event::NegotiationFailed { reason, .. } => Some(reason.clone()),
            _ => None,
        })
    }

    /// The inner addresses that it got last.
    pub fn inner(&self) -> Vec<IpAddr> {
        let mut events = self.seen.events.iter().rev();
        let last = events.find_map(|event| match event {
            Event::InnerAddress { addresses, .. } => Some(addresses.clone()),
            _ => None,
        });
        last.unwrap_or_default()
    }
}

impl Deref for End {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl DerefMut for End {
    fn deref_mut(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }
}

impl Seen {
    fn event(&mut self, event: Event) {
        if let Event::Message { step, .. } = &event {
            self.trail.push(Act::Message(*step));
        }
        self.events.push(event);
    }

    fn inbound(&mut self, change: &InboundChange) {
        match change {
            InboundChange::Install(sa) => self.install(sa),
            InboundChange::Remove(_, spi) => drop(self.inbound.remove(spi)),
            InboundChange::Move(..) => self.trail.push(Act::Move(Direction::Inbound)),
            InboundChange::Lead(..) | InboundChange::Proven(..) | InboundChange::Calendar(..) => {}
        }
    }

    fn outbound(&mut self, change: &OutboundChange) {
        use OutboundChange as Change;
        match change {
            Change::Install(sa) => self.install(sa),
            Change::Remove(_, spi) => drop(self.outbound.remove(spi)),
            Change::Expect(..) => self.trail.push(Act::Expect),
            Change::Forget(_) => self.trail.push(Act::Forget),
            Change::Move(child, path) => {
                self.trail.push(Act::Move(Direction::Outbound));
                self.paths.insert(*child, *path);
            }
            Change::Allow(child, bytes) => {
                self.trail.push(Act::Allow);
                *self.limits.entry(*child).or_default() += bytes;
            }
            Change::Proven(child, _) if self.limits.remove(child).is_some() => {
                self.trail.push(Act::Proven);
            }
            Change::Doubt(child) => self.doubted.push(*child),
            Change::Proven(..) | Change::LinkMtu(..) | Change::Watch(..) => {}
            Change::AwaitLead | Change::Lead(..) | Change::Calendar(..) | Change::StoredN(..) => {}
        }
    }

    fn install(&mut self, sa: &Sa) {
        self.trail.push(Act::Install(sa.direction));
        self.paths.insert(sa.child, sa.path);
        let spi = sa.spi();
        if let Layer::Ipsec(ipsec) = &sa.layer {
            self.keys.insert(spi, ipsec.keys.clone());
        }
        let table = match sa.direction {
            Direction::Inbound => &mut self.inbound,
            Direction::Outbound => {
                self.sealing = spi;
                &mut self.outbound
            }
        };
        table.insert(spi, sa.child);
    }
}

/// The answer to an IPv4 packet: the same packet with its addresses, and its UDP or TCP ports,
/// swapped. The checksums stay correct.
fn answer(packet: &[u8]) -> Option<Vec<u8>> {
    let flow = Flow::of(packet).ok().filter(|flow| flow.source.is_ipv4())?;
    let mut packet = packet.to_vec();
    let places = core::iter::once((12, 4)).chain(flow.ports.map(|_| (flow.transport, 2)));
    for (at, len) in places {
        let (first, second) = packet[at..at + 2 * len].split_at_mut(len);
        first.swap_with_slice(second);
    }
    Some(packet)
}
