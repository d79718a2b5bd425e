//! How a station's host comes to be on its link: it asks for access to a radio, registers where it
//! is, and only then begins the exchanges of its tunnels. Also what its radio's frames cost.

use std::net::IpAddr;

use engine::node::Command;
use engine::time::Instant;
use wire::ip::Flow;

use super::supplicant::Frame;
use super::{Detection, Host, Job, Mobile, Part, Send, Supplicant};
use crate::kernel::cpu::PacketCosts;
use crate::kernel::queue::Lane;
use crate::kernel::{Port, Stage};
use crate::scenario::Network;

/// A station's way onto its link.
#[derive(Default)]
pub struct Entrance {
    /// When it begins; none: it has begun.
    pub begins: Option<Instant>,
    /// Its part in the dialogue with the access point; none: it needs none.
    pub supplicant: Option<Supplicant>,
    /// Seconds to protect and unprotect a frame of its radio; none: its hardware does.
    pub frames: Option<PacketCosts>,
    /// Its own addresses on links of foreign agents, and the agents there.
    pub agents: Vec<(IpAddr, IpAddr)>,
    /// Of each of its own addresses on a radio, the network there and the router that takes what is
    /// for others.
    pub routers: Vec<(IpAddr, Network, IpAddr)>,
    /// Registers where a node with tunnels of its own is; none: it does not move, or its part does.
    pub roaming: Option<Box<Mobile>>,
    /// Registers through the tunnel of its part, whose inner address is the care-of address.
    pub within: Option<Box<Mobile>>,
    /// That address.
    pub inner: Option<IpAddr>,
    /// What such a node knows of its place; none: it is outside.
    pub detection: Option<Detection>,
    /// Its address on its present link, if that is not the first of its addresses.
    pub place: Option<IpAddr>,
    /// The connection that it brings up when it is on the link and registered.
    pub connection: Option<String>,
    /// The foreign agent that gets all that it sends.
    pub agent: Option<IpAddr>,
    /// The present one of its routers.
    pub router: Option<(Network, IpAddr)>,
    /// When it was let in.
    pub opened: Option<Instant>,
    /// When its registration was granted since then.
    pub found: Option<Instant>,
}

impl Entrance {
    /// Whether it is on the link.
    pub fn is_in(&self) -> bool {
        self.begins.is_none() && self.supplicant.as_ref().is_none_or(Supplicant::is_in)
    }

    /// Whether it has machines of its own that are told each of its places.
    pub(super) fn has_machines(&self) -> bool {
        self.roaming.is_some() || self.detection.is_some()
    }

    /// The connection to bring up by now.
    fn take_connection(&mut self) -> Option<String> {
        let roaming = self.roaming.as_ref();
        let may_begin = self.is_in() && roaming.is_none_or(|mobile| mobile.is_reachable());
        self.connection.take_if(|_| may_begin)
    }

    /// When it wants to be woken.
    pub(super) fn due(&self) -> Option<Instant> {
        let machines = self.roaming.iter().chain(&self.within);
        let machines = machines.filter(|_| self.is_in());
        let due = machines.filter_map(|mobile| mobile.due());
        let detection = self.detection.as_ref().filter(|_| self.is_in());
        let detection = detection.and_then(Detection::due);
        self.begins.or(due.chain(detection).min())
    }

    /// Its machines of Mobile IPv4, the outer one first.
    pub(super) fn machines(&mut self) -> impl Iterator<Item = &mut Mobile> {
        let machines = self.roaming.iter_mut().chain(&mut self.within);
        machines.map(|mobile| &mut **mobile)
    }

    /// The node that a packet onto the link is for, if that is not the one with its destination.
    fn next(&self, octets: &[u8]) -> Option<IpAddr> {
        let (network, router) = self.router?;
        if self.agent.is_some() {
            return self.agent;
        }
        let to = Flow::of(octets).ok()?.destination;
        let is_to_all = matches!(to, IpAddr::V4(to) if to.is_broadcast() || to.is_multicast());
        (!is_to_all && !network.has(to)).then_some(router)
    }

    /// It has this address on its present link.
    pub(super) fn look(&mut self, place: IpAddr) {
        let mut agents = self.agents.iter();
        let found = agents.find(|(own, _)| *own == place);
        self.agent = found.map(|(_, agent)| *agent);
        let mut routers = self.routers.iter();
        let found = routers.find(|(own, ..)| *own == place);
        self.router = found.map(|(_, network, router)| (*network, *router));
    }
}

impl Host {
    /// The station begins to ask for access to its link.
    pub(super) fn enter(&mut self, now: Instant) -> f64 {
        self.entrance.begins = None;
        let Some(supplicant) = &mut self.entrance.supplicant else {
            self.open(now);
            return 0.0;
        };
        let (frames, seconds) = supplicant.begin(now);
        let came = supplicant.asked_by();
        self.sends
            .extend(came.map(|(point, station)| Send::Came(point, station)));
        self.sends.extend(frames.into_iter().map(Send::Frame));
        seconds
    }

    /// A frame of the access point has come.
    pub(super) fn frame_job(&mut self, step: u32, now: Instant) -> f64 {
        let Some(supplicant) = &mut self.entrance.supplicant else {
            return 0.0;
        };
        let (frames, seconds) = supplicant.take(step as usize, now);
        self.sends.extend(frames.into_iter().map(Send::Frame));
        seconds
    }

    /// The work of a job is done: the station may be on its link by now.
    pub(super) fn settle(&mut self, now: Instant) {
        if let Some(supplicant) = &mut self.entrance.supplicant {
            supplicant.settle(now);
        }
        if self.entrance.is_in() && self.entrance.opened.is_none() {
            self.open(now);
        }
        let mobile = self.entrance.roaming.as_deref().or(self.part.mobile());
        if self.entrance.opened.is_some() && mobile.is_some_and(Mobile::is_reachable) {
            self.entrance.found.get_or_insert(now);
        }
        if let Some(name) = self.entrance.take_connection() {
            self.jobs.push_back(Job::Order(Command::Up(name)));
        }
    }

    fn open(&mut self, now: Instant) {
        self.entrance.opened = Some(now);
        self.jobs.push_back(Job::Address);
    }

    /// The station has come to a radio that lets it in after a dialogue; none: at once. Then
    /// [`super::super::Kernel::wake`] the host.
    pub fn ask_for_access(&mut self, supplicant: Option<Supplicant>, now: Instant) {
        self.entrance.supplicant = supplicant;
        self.entrance.opened = None;
        self.entrance.found = None;
        self.entrance.begins = Some(now);
        if let Part::Mobile(mobile) = &mut self.part {
            mobile.come(now);
        }
        if let Some(roaming) = &mut self.entrance.roaming {
            roaming.come(now);
        }
    }

    /// Tells the machines of the station where it is.
    pub(super) fn place_job(&mut self, now: Instant) {
        let place = self.entrance.place.unwrap_or(self.config.addresses[0]);
        self.entrance.look(place);
        self.note_place(now);
        match &mut self.entrance.roaming {
            _ if self.entrance.detection.is_some() => self.come_to_link(place, now),
            Some(roaming) => roaming.attach(place, now, &mut self.sends),
            None => {}
        }
    }

    /// A packet that registers where a node is, if it is one. Returns others.
    pub(super) fn register_job(
        &mut self,
        octets: Vec<u8>,
        flow: &Flow,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let Some(roaming) = &mut self.entrance.roaming else {
            return Some(octets);
        };
        if roaming.hears(flow) {
            roaming.hear(&octets, flow, now, &mut self.sends);
            return None;
        }
        let own = self.config.addresses.iter().chain(&self.entrance.place);
        if !own.into_iter().any(|own| *own == flow.destination) || !Mobile::takes(flow) {
            return Some(octets);
        }
        let opened = roaming.open(octets, flow, now, &mut self.sends);
        self.jobs.extend(opened.into_iter().map(|packet| Job::Link {
            port: Port(0),
            octets: packet,
            next: None,
            is_frame: false,
        }));
        None
    }

    /// Seconds of the last work of control, or of a machine of Mobile IPv4 or a firewall with its
    /// planes. Work without a cost takes none, and is noted.
    pub(super) fn part_seconds(&mut self) -> f64 {
        let Some(mut work) = self.part.take_work() else {
            return 0.0;
        };
        for mobile in self.entrance.machines() {
            work.merge(&mobile.take_work());
        }
        let time = (self.config.costs.control)(&work);
        if let Some(missing) = time.missing {
            self.unpriced.get_or_insert_with(|| missing.to_string());
        }
        time.seconds
    }

    pub(super) fn wake_job(&mut self, now: Instant) {
        for mobile in self.entrance.machines() {
            if mobile.due().is_some_and(|at| at <= now) {
                mobile.wake(now, &mut self.sends);
            }
        }
        if self.part.due().is_some_and(|at| at <= now) {
            self.part.wake(now, &mut self.sends);
        }
    }

    /// Seconds to take the cipher off a frame with a packet of this length.
    pub(super) fn unprotect_s(&self, bytes: usize) -> f64 {
        let frames = self.entrance.frames.as_ref();
        frames.map_or(0.0, |costs| costs.open.at(bytes as f64))
    }

    /// Seconds to protect what leaves.
    pub(super) fn protect_s(&self) -> f64 {
        let Some(costs) = &self.entrance.frames else {
            return 0.0;
        };
        let leaves = |send: &Send| match send {
            Send::Out(octets) | Send::On(_, octets) | Send::Via(_, octets, _) => {
                costs.seal.at(octets.len() as f64)
            }
            Send::Own(_) | Send::Frame(_) | Send::Came(..) | Send::Worked(_) => 0.0,
        };
        self.sends.iter().map(leaves).sum()
    }

    /// Sends a frame of the dialogue.
    pub(super) fn send_frame(&self, frame: &Frame, lane: Lane, stage: &mut Stage) {
        if let Some(target) = self.config.targets.first().copied() {
            let packet = stage.packets.plain(frame.bytes, frame.station, stage.now);
            stage.packets.get_mut(packet).clear = frame.step;
            stage.arrive(lane, stage.now, target, packet);
        }
    }

    /// The node that gets a packet next, if it is for a foreign agent's visitor or for an agent.
    pub(super) fn next_of(&self, octets: &[u8], is_direct: bool) -> Option<IpAddr> {
        if !is_direct {
            return self.entrance.next(octets);
        }
        if !matches!(self.part, Part::Agent(_)) {
            return None;
        }
        let to = Flow::of(octets).ok()?.destination;
        let is_to_all = matches!(to, IpAddr::V4(to) if to.is_broadcast() || to.is_multicast());
        (!is_to_all).then_some(to)
    }
}
