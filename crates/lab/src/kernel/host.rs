//! A host: one processor, optionally the real control plane with both packet planes, optionally a
//! TCP stack, and ports to links.
//!
//! Everything that a host does is a job of its processor, first in, first out: a packet from a
//! link, a packet of its own stack, a timer of control. The output of a job leaves when the job's
//! time is over. The stack itself costs nothing. Left out: its own ICMP errors, and fragmentation
//! of IPv6 packets at the source: a packet that is too large for a link is dropped there. Path MTU
//! discovery is that of tunnels of Mobile IPv4 and of the stack; a gateway says what its tunnels
//! carry, and a NAT lets no report in.

pub mod agent;
mod carried;
pub mod control;
pub mod detection;
pub mod entrance;
pub mod mobile;
mod nested;
mod part;
mod passing;
mod programs;
pub mod router;
pub mod stack;
mod supplicant;
pub mod wall;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddrV4};

use engine::node::Command;
use engine::plane::reassembly::Reassembly;
use engine::time::Instant;
use wire::ip::Flow;

use super::dialogue::Script;
use super::queue::{Event, Lane, What};
use super::{Costs, Port, Stage, Target, nat};
use crate::time::nanoseconds;

pub use agent::Agent;
pub use carried::since;
pub use control::{Control, Log, Message};
pub use detection::Detection;
pub use entrance::Entrance;
pub use mobile::Mobile;
pub use part::Part;
pub use router::Protects;
pub use stack::Stack;
use supplicant::Frame;
pub use supplicant::Supplicant;
pub use wall::Wall;

/// The configuration of a host.
pub struct HostConfig {
    /// Its outer addresses, at most one per family, at which IKE and ESP arrive; those of a
    /// firewall on both of its sides. Its programs use the first one.
    pub addresses: Vec<IpAddr>,
    /// The targets of its ports. Port 0 is the outer one.
    pub targets: Vec<Target>,
    /// Ranges of addresses with their ports; all others use port 0.
    pub routes: Vec<(IpAddr, IpAddr, Port)>,
    /// Ranges of outer addresses with their ports, for a host with several outer links.
    pub ways: Vec<(IpAddr, IpAddr, Port)>,
    /// Ports of our own address, and their servers: a destination NAT.
    pub published: Vec<(u16, SocketAddrV4)>,
    /// The costs of its processor.
    pub costs: Costs,
    /// Jobs that may wait for the processor.
    pub queue: usize,
    /// The element that leads packets to the hosts of its link, which ARP tells where addresses
    /// are.
    pub neighbours: Option<u32>,
    /// Whether it forwards between its links.
    pub is_router: bool,
    /// What the tunnels of a router protect.
    pub protects: Vec<Protects>,
    /// The dialogues of stations whose access points ask it, by number of the station.
    pub radius: BTreeMap<u32, Script>,
}

/// Packets that a host itself dropped; the planes have separate counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The processor's queue was full.
    pub queue_full: u64,
    /// Unreadable, or too large for an IP packet.
    pub malformed: u64,
    /// Unencrypted and not for us.
    pub clear: u64,
    /// For us, without a receiver.
    pub nobody: u64,
    /// Sent or received before the access point has let it in.
    pub shut: u64,
}

/// A host in a world.
pub struct Host {
    config: HostConfig,
    /// What it is besides its programs.
    pub part: Part,
    /// Its own TCP, UDP and ping.
    pub stack: Option<Stack>,
    /// How a station comes onto its link.
    pub entrance: Entrance,
    reassembly: Reassembly,
    jobs: VecDeque<Job>,
    /// The outputs of the running job, sent when it is done.
    sends: Vec<Send>,
    is_busy: bool,
    busy_ns: u64,
    armed: Option<Instant>,
    dropped: Dropped,
    unpriced: Option<String>,
}

enum Job {
    /// From a link, or out of a tunnel by which a node is reached.
    Link {
        port: Port,
        octets: Vec<u8>,
        /// Who gets it on the segment, if that is not the one with the destination.
        next: Option<IpAddr>,
        /// Whether it came in a frame.
        is_frame: bool,
    },
    /// A message of the access point, by its number.
    Frame(u32),
    /// The station asks for access to its link.
    Enter,
    /// From our own stack.
    Stack(Vec<u8>),
    /// Our stack's work for a protected connection, by index: seconds.
    Secure(usize, f64),
    /// A timer of control.
    Wake,
    /// A command of the user.
    Order(Command),
    /// Another address of ours leads to our peers.
    Address,
}

/// An output of a job.
pub(crate) enum Send {
    /// To a link, by the routes.
    Out(Vec<u8>),
    /// To the link of a port, whatever its destination.
    On(Port, Vec<u8>),
    /// The same, for this node there.
    Via(Port, Vec<u8>, IpAddr),
    /// A message to the access point.
    Frame(Frame),
    /// To the access point: this station is on its radio.
    Came(Target, u32),
    /// To our own stack.
    Own(Vec<u8>),
    /// The work for a connection of our stack is done.
    Worked(usize),
}

/// Timers of a host.
const DUE: u32 = 0;
const DONE: u32 = 1;

impl HostConfig {
    /// A host at an address, with one port and a processor that takes no time.
    pub fn new(address: IpAddr, outer: Target) -> Self {
        Self {
            addresses: vec![address],
            targets: vec![outer],
            routes: Vec::new(),
            ways: Vec::new(),
            published: Vec::new(),
            costs: Costs::free(),
            queue: QUEUE,
            neighbours: None,
            is_router: false,
            protects: Vec::new(),
            radius: BTreeMap::new(),
        }
    }
}

/// The maximum length of a device's queue.
const QUEUE: usize = 10_000;

impl Host {
    /// An idle host. A mobile node or a home agent learns its address when it is woken, or when it
    /// is let in.
    pub fn new(
        config: HostConfig,
        part: Part,
        mut stack: Option<Stack>,
        entrance: Entrance,
    ) -> Self {
        let mut jobs = VecDeque::new();
        let mut entrance = entrance;
        entrance.opened = entrance.is_in().then_some(Instant(0));
        if let Some(place) = entrance.place {
            entrance.look(place);
        }
        let mobile = match &part {
            Part::Mobile(mobile) => Some(mobile),
            _ => entrance.within.as_ref().or(entrance.roaming.as_ref()),
        };
        if let Some(mobile) = mobile {
            if let (Some(stack), Some(home)) = (&mut stack, mobile.home_address()) {
                stack.set_address(home);
            }
            let is_told = matches!(part, Part::Mobile(_)) || entrance.has_machines();
            if entrance.is_in() && is_told {
                jobs.push_back(Job::Address);
            }
        }
        let is_told_later = entrance.has_machines();
        if let Some(within) = entrance.within.as_mut().filter(|_| !is_told_later) {
            within.come_to(config.addresses[0], Instant(0));
        }
        Self {
            config,
            part,
            stack,
            entrance,
            reassembly: Reassembly::default(),
            jobs,
            sends: Vec::new(),
            is_busy: false,
            busy_ns: 0,
            armed: None,
            dropped: Dropped::default(),
            unpriced: None,
        }
    }

    /// The packets that it dropped.
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// The first work of control without a cost, which took no time.
    pub fn unpriced(&self) -> Option<&str> {
        self.unpriced.as_deref()
    }

    /// Gives control a command; then [`super::Kernel::wake`] the host.
    pub fn order(&mut self, command: Command) {
        self.jobs.push_back(Job::Order(command));
    }

    /// Changes its outer link, and its address there; then [`super::Kernel::wake`] the host, so
    /// that its node learns the address.
    pub fn attach(&mut self, address: IpAddr, outer: Target) {
        self.config.targets[0] = outer;
        self.leave_link();
        if self.entrance.place.is_some() {
            self.entrance.place = Some(address);
            self.entrance.look(address);
        }
        if self.entrance.roaming.is_some() {
            if self.entrance.is_in() {
                self.jobs.push_back(Job::Address);
            }
            return;
        }
        self.config.addresses[0] = address;
        let follows = match &mut self.part {
            Part::Mobile(mobile) => mobile.is_guest(),
            Part::Control(control) => {
                control.attach(address);
                false
            }
            Part::Plain | Part::Wall(_) | Part::Agent(_) => true,
        };
        if let Some(stack) = self.stack.as_mut().filter(|_| follows) {
            stack.set_address(address);
        }
        if matches!(self.part, Part::Mobile(_) | Part::Control(_)) && self.entrance.is_in() {
            self.jobs.push_back(Job::Address);
        }
    }

    /// Total working seconds of its processor.
    pub fn busy_s(&self) -> f64 {
        self.busy_ns as f64 * 1e-9
    }

    /// What is fixed.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = Target> {
        self.config.targets.iter().copied()
    }

    pub(super) fn on(&mut self, event: Event, lane: Lane, stage: &mut Stage) {
        match event.what {
            What::Arrives(port, packet) => {
                let entry = stage.packets.get(packet);
                let (next, step) = (entry.next, entry.clear);
                let octets = stage.packets.take(packet);
                if octets.is_empty() {
                    self.queue(Job::Frame(step));
                } else {
                    let taken = self.reassembly.take(octets, stage.now);
                    self.dropped.malformed += taken.given_up;
                    if let Some(octets) = taken.whole {
                        self.queue(Job::Link {
                            port,
                            octets,
                            next,
                            is_frame: true,
                        });
                    }
                }
            }
            What::Timer(DONE) => {
                self.is_busy = false;
                self.release(lane, stage);
                if let Part::Control(control) = &mut self.part {
                    control.departed(stage.now);
                }
            }
            What::Timer(_) => {
                self.armed = self.armed.filter(|at| *at > stage.now);
                let is_due = |due: Option<Instant>| due.is_some_and(|at| at <= stage.now);
                if is_due(self.entrance.begins) {
                    self.queue(Job::Enter);
                } else if is_due(self.due()) {
                    self.queue(Job::Wake);
                }
            }
            // ARP is for the element that leads to the hosts of a link.
            What::Claims(..) | What::Yields(..) => {}
        }
        self.work(lane, stage);
        self.arm(event.element, stage);
    }

    fn queue(&mut self, job: Job) {
        if self.jobs.len() < self.config.queue {
            self.jobs.push_back(job);
        } else {
            self.dropped.queue_full += 1;
        }
    }

    /// Runs jobs until one takes time or none is left.
    fn work(&mut self, lane: Lane, stage: &mut Stage) {
        loop {
            self.poll_stack(stage.now);
            if self.is_busy {
                return;
            }
            let Some(job) = self.jobs.pop_front() else {
                return;
            };
            let seconds = self.run(job, stage.now) + self.nest(stage.now);
            let ns = nanoseconds(seconds + self.protect_s());
            self.claim(stage);
            if let Part::Control(control) = &mut self.part {
                control.stamp_sent(Instant(stage.now.0.saturating_add(ns)));
            }
            if ns == 0 {
                self.release(lane, stage);
                continue;
            }
            self.is_busy = true;
            self.busy_ns += ns;
            let at = Instant(stage.now.0.saturating_add(ns));
            let (element, what) = (stage.element, What::Timer(DONE));
            stage.queue.schedule(None, Event { at, element, what });
        }
    }

    fn release(&mut self, lane: Lane, stage: &mut Stage) {
        for send in std::mem::take(&mut self.sends) {
            match send {
                Send::Out(octets) => {
                    let Some(target) = self.target_of(&octets) else {
                        self.dropped.malformed += 1;
                        continue;
                    };
                    let next = self.next_of(&octets, false);
                    self.leave((target, next), octets, lane, stage);
                }
                Send::On(port, octets) => {
                    if let Some(target) = self.config.targets.get(usize::from(port.0)).copied() {
                        let next = self.next_of(&octets, true);
                        self.leave((target, next), octets, lane, stage);
                    }
                }
                Send::Via(port, octets, next) => {
                    if let Some(target) = self.config.targets.get(usize::from(port.0)).copied() {
                        self.leave((target, Some(next)), octets, lane, stage);
                    }
                }
                Send::Frame(frame) => self.send_frame(&frame, lane, stage),
                Send::Came(point, station) => {
                    let packet = stage.packets.plain(0, station, stage.now);
                    stage.arrive(lane, stage.now, point, packet);
                }
                Send::Worked(transfer) => self.secured(transfer, stage.now),
                Send::Own(octets) => {
                    self.note_arrival(&octets, stage.now);
                    match &mut self.stack {
                        Some(stack) => stack.receive(octets, stage.now),
                        None => self.dropped.nobody += 1,
                    }
                }
            }
        }
        self.settle(stage.now);
    }

    fn leave(
        &self,
        (target, next): (Target, Option<IpAddr>),
        octets: Vec<u8>,
        lane: Lane,
        stage: &mut Stage,
    ) {
        let packet = stage.packets.give(octets, stage.now);
        stage.packets.get_mut(packet).next = next;
        stage.arrive(lane, stage.now, target, packet);
    }

    /// When its part or its entrance wants to be woken.
    fn due(&self) -> Option<Instant> {
        let part = self.part.due().filter(|_| self.entrance.is_in());
        [part, self.entrance.due()].into_iter().flatten().min()
    }

    fn target_of(&self, octets: &[u8]) -> Option<Target> {
        let Ok(flow) = Flow::of(octets) else {
            return None;
        };
        let to = flow.destination;
        let mut routes = self.config.routes.iter().chain(&self.config.ways);
        let route = routes.find(|(first, last, _)| (*first..=*last).contains(&to));
        let port = route.map_or(0, |(.., port)| port.0);
        self.config.targets.get(usize::from(port)).copied()
    }

    /// Schedules an event for the earliest deadline of control and stack.
    fn arm(&mut self, element: u32, stage: &mut Stage) {
        let part = self.due();
        let stack = self.stack.as_mut().and_then(|stack| stack.due(stage.now));
        let Some(due) = [part, stack].into_iter().flatten().min() else {
            return;
        };
        // a job that waits for the processor keeps control's deadline in the past
        let is_waiting = self.is_busy && due <= stage.now;
        if is_waiting || self.armed.is_some_and(|armed| armed <= due) {
            return;
        }
        let at = due.max(stage.now);
        self.armed = Some(at);
        let what = What::Timer(DUE);
        stage.queue.schedule(None, Event { at, element, what });
    }

    /// Tells the link which addresses lead here by now, as ARP does.
    fn claim(&mut self, stage: &mut Stage) {
        let Part::Mobile(mobile) = &mut self.part else {
            return;
        };
        let claims = mobile.take_claims();
        let Some(fork) = self.config.neighbours else {
            return;
        };
        for (address, answers) in claims {
            let what = match answers {
                true => What::Claims(address, stage.element),
                false => What::Yields(address, stage.element),
            };
            let (at, element) = (stage.now, fork);
            stage.queue.schedule(None, Event { at, element, what });
        }
    }

    /// Does a job, and returns its seconds.
    fn run(&mut self, job: Job, now: Instant) -> f64 {
        match job {
            Job::Link {
                port,
                octets,
                next,
                is_frame,
            } => {
                let bytes = octets.len();
                let unprotect_s = if is_frame {
                    self.unprotect_s(bytes)
                } else {
                    0.0
                };
                return unprotect_s + self.link_job((port, next), octets, now);
            }
            Job::Frame(step) => return self.frame_job(step, now),
            Job::Enter => return self.enter(now),
            Job::Stack(octets) => return self.outward(octets, now),
            Job::Secure(transfer, seconds) => {
                self.sends.push(Send::Worked(transfer));
                return seconds;
            }
            Job::Wake => self.wake_job(now),
            Job::Address if self.entrance.has_machines() => self.place_job(now),
            Job::Address => match &mut self.part {
                Part::Mobile(mobile) => {
                    let place = self.config.addresses[0];
                    self.entrance.look(place);
                    mobile.attach(place, now, &mut self.sends);
                }
                Part::Control(control) => {
                    control.moved(now, &mut self.sends);
                    self.note_place(now);
                }
                Part::Plain | Part::Wall(_) | Part::Agent(_) => {}
            },
            Job::Order(command) => {
                if let Part::Control(control) = &mut self.part {
                    control.command(command, now, &mut self.sends);
                }
            }
        }
        self.part_seconds()
    }

    fn link_job(
        &mut self,
        (port, next): (Port, Option<IpAddr>),
        octets: Vec<u8>,
        now: Instant,
    ) -> f64 {
        let Ok(flow) = Flow::of(&octets) else {
            self.dropped.malformed += 1;
            return 0.0;
        };
        if !self.entrance.is_in() {
            self.dropped.shut += 1;
            return 0.0;
        }
        if let Some(seconds) = self.radius_job(&octets, &flow) {
            return seconds;
        }
        if self.config.is_router {
            return self.route_job(octets, (&flow, port), next, now);
        }
        let octets = self.clear_job(octets, &flow, now);
        let Some(octets) = octets.and_then(|it| self.register_job(it, &flow, now)) else {
            return self.part_seconds();
        };
        let is_ours = self.config.addresses.contains(&flow.destination);
        let control = self.part.control();
        // A station inside reaches its gateway from behind.
        let is_inward = port != Port(0) && !(is_ours && control.is_some_and(|it| it.takes(&flow)));
        match &self.part {
            Part::Wall(_) | Part::Agent(_) => return self.gate_job(octets, (&flow, port), now),
            _ if is_inward => return self.outward(octets, now),
            Part::Mobile(_) => return self.mobile_job(octets, &flow, is_ours, now),
            Part::Plain | Part::Control(_) => {}
        }
        let Part::Control(control) = &mut self.part else {
            self.inward(octets);
            return 0.0;
        };
        if !is_ours {
            self.dropped.clear += 1;
            return 0.0;
        }
        if !control.takes(&flow) {
            self.sends.push(Send::Own(octets));
            return 0.0;
        }
        let opened = control.open(octets, &flow, now, &mut self.sends);
        let mut seconds = self.part_seconds();
        for packet in opened {
            let source = || Some(Flow::of(&packet).ok()?.source);
            seconds += self
                .config
                .costs
                .of_peer(source)
                .open
                .at(packet.len() as f64);
            self.out_of_tunnel(packet, now);
        }
        seconds
    }
}
