//! A mobile node with a VPN gateway that is sometimes inside (RFC 5265 §3, RFC 5266 §3). On a link
//! with an address of its own it asks its home agent in clear whether it is inside, and brings up
//! its tunnel at the same time. An answer that proves it makes the node register there and ends the
//! tunnel. Until then, packets of programs leave and come through the tunnel alone.
//!
//! What happens when is in [`engine::mip4::detection`]: the host says what it sees, and does what
//! that says.

use std::net::{IpAddr, Ipv4Addr};

use engine::mip4::detection::{self as way, Hearing, Outside, OutsideStep, Track, View};
use engine::mip4::mobile_node::Attachment;
use engine::node::Command;
use engine::time::Instant;
use wire::ip::Flow;

use super::carried::report_in;
use super::{Host, Job, Mobile, Part, Send};

/// What such a node knows of its place.
pub struct Detection {
    machine: way::Detection,
    /// What it knows of its registration with a home agent outside.
    track: Track,
    /// The connection to its gateway.
    connection: String,
    /// How the node is on its present link. None before the first one.
    found: Option<Attachment>,
    /// Its address there, in the graph.
    place: Option<IpAddr>,
    /// The inner address that the gateway has lent, while the tunnel is up.
    lent: Option<Ipv4Addr>,
}

impl Detection {
    /// Of a node that has not come to its first link. `connection`: that to its gateway; `ours`:
    /// agents that may be inside.
    pub fn new(connection: String, ours: impl IntoIterator<Item = Ipv4Addr>) -> Self {
        Self {
            machine: way::Detection::new(ours),
            track: Track::default(),
            connection,
            found: None,
            place: None,
            lent: None,
        }
    }

    /// When it wants to be woken.
    pub(super) fn due(&self) -> Option<Instant> {
        self.machine.deadline().map(|deadline| deadline.at)
    }

    /// What the node sees; `roaming`: its machine for a home agent outside.
    fn view(&self, within: &Mobile, roaming: Option<&Mobile>) -> View {
        View {
            place: self.place(within),
            has_link: self.found.is_some(),
            is_inside: within.is_proven_inside(),
            is_secured: within.secured().is_some(),
            outside: roaming
                .and_then(Mobile::state)
                .map_or(Outside::None, |state| self.track.reach(&state)),
        }
    }

    /// How it is on its link, as far as that leads to somebody outside.
    fn place(&self, within: &Mobile) -> Option<Attachment> {
        self.machine.place(self.found?, within.attachment()?)
    }

    /// Registers with the home agent outside where the node is. Inside, the registration is taken
    /// back.
    fn register_outside(
        &mut self,
        (within, roaming): (&Mobile, &mut Mobile),
        now: Instant,
        sends: &mut Vec<Send>,
    ) {
        let place = self.place(within);
        let from = match place {
            Some(Attachment::Colocated(own)) => Some(own),
            _ => within.home(),
        };
        let inside = from.filter(|_| within.is_proven_inside());
        let Some(state) = roaming.state() else { return };
        match self.track.follow(place, inside, &state) {
            OutsideStep::Stay => {}
            OutsideStep::Detach => roaming.attach_as(Attachment::Detached, now, sends),
            OutsideStep::Leave => roaming.leave(now, sends),
            OutsideStep::LeaveFrom(from) => roaming.leave_from(from, now, sends),
            OutsideStep::Attach(place) => roaming.attach_as(place, now, sends),
            OutsideStep::Rejoin(place) => {
                roaming.rejoin(now, sends);
                roaming.attach_as(place, now, sends);
            }
        }
    }
}

impl Host {
    /// Whether it is a node that knows that it is inside. What it knows of another link says
    /// nothing of one to which it has come and that it has not looked at.
    pub(in crate::kernel) fn is_inside(&self) -> bool {
        let place = self.entrance.place.unwrap_or(self.config.addresses[0]);
        let detection = self.entrance.detection.as_ref();
        let is_known = detection.is_some_and(|it| it.place == Some(place));
        let within = self.entrance.within.as_ref();
        let within = within.filter(|_| is_known && self.entrance.is_in());
        within.is_some_and(|within| within.is_proven_inside())
    }

    /// The node leaves its link: what its programs were about to send there in clear is lost.
    pub(super) fn leave_link(&mut self) {
        let within = self.entrance.within.as_ref();
        let within = within.filter(|_| self.entrance.detection.is_some());
        let Some(home) = within.and_then(|within| within.home_address()) else {
            return;
        };
        let is_clear = |send: &Send| match send {
            Send::Out(octets) => Flow::of(octets).is_ok_and(|flow| flow.source == home),
            _ => false,
        };
        let before = self.sends.len();
        self.sends.retain(|send| !is_clear(send));
        self.dropped.clear += (before - self.sends.len()) as u64;
    }

    /// The node has come to a link. `place`: its address there in the graph; where a foreign agent
    /// serves, the node does not use it.
    pub(super) fn come_to_link(&mut self, place: IpAddr, now: Instant) {
        let (Some(detection), Some(within)) =
            (&mut self.entrance.detection, &mut self.entrance.within)
        else {
            return;
        };
        let Some(found) = within.look(place) else {
            return;
        };
        let is_first = detection.found.replace(found).is_none();
        detection.place = Some(place);
        detection.track.lose();
        let view = detection.view(within, self.entrance.roaming.as_deref());
        let attachment = detection.machine.come(found, &view, now);
        if let (Part::Control(control), None) = (&mut self.part, &self.entrance.roaming) {
            if found == Attachment::Visiting {
                control.detach();
            }
            if !is_first {
                control.moved(now, &mut self.sends);
            }
        }
        if matches!(attachment, Attachment::Secured(_)) {
            within.probe(None, now, &mut self.sends);
        }
        within.attach_as(attachment, now, &mut self.sends);
    }

    /// After a job: does what follows from what the node knows of its place by now.
    pub(super) fn detect(&mut self, now: Instant) {
        let (Some(detection), Some(within), Part::Control(control)) = (
            &mut self.entrance.detection,
            &mut self.entrance.within,
            &mut self.part,
        ) else {
            return;
        };
        let sends = &mut self.sends;
        if let Some(inner @ IpAddr::V4(lent)) = control.take_inner_address() {
            // It stays: what comes from there never leaves in clear, also without a tunnel.
            self.entrance.inner = Some(inner);
            detection.lent = Some(lent);
        }
        detection.lent = detection.lent.filter(|_| control.established() > 0);
        detection.machine.follow_tunnel(detection.lent);
        if let Some(roaming) = &mut self.entrance.roaming {
            detection.register_outside((within, roaming), now, sends);
        }
        let view = detection.view(within, self.entrance.roaming.as_deref());
        let step = detection.machine.step(&view, now);
        let command = step.connect.map(|is_wanted| {
            let connection = detection.connection.clone();
            match is_wanted {
                true => Command::Up(connection),
                false => Command::Down(connection),
            }
        });
        self.jobs.extend(command.map(Job::Order));
        if let Some(attachment) = step.attach {
            within.attach_as(attachment, now, sends);
        }
        if step.ask_from.is_some() {
            within.probe(step.ask_from, now, sends);
        }
    }

    /// An agent's message to all on the link. One that may be inside is tried.
    fn hear_agent(&mut self, octets: &[u8], flow: &Flow, now: Instant) {
        let (Some(detection), Some(within), IpAddr::V4(agent)) = (
            &mut self.entrance.detection,
            &mut self.entrance.within,
            flow.source,
        ) else {
            return;
        };
        let sends = &mut self.sends;
        let roaming = self.entrance.roaming.as_deref_mut();
        let view = detection.view(within, roaming.as_deref());
        match detection.machine.hear(agent, &view, now) {
            Hearing::Believe => within.hear(octets, flow, now, sends),
            Hearing::Try => {
                within.attach_as(Attachment::Detached, now, sends);
                within.attach_as(Attachment::Visiting, now, sends);
                within.hear(octets, flow, now, sends);
            }
            Hearing::Doubt => {}
        }
        // With an address of its own, the node needs no agent to register outside.
        let visiting = roaming.filter(|it| it.attachment() == Some(Attachment::Visiting));
        if let Some(roaming) = visiting {
            roaming.hear(octets, flow, now, sends);
        }
    }

    /// Handles what came on the link for the node itself and not for its tunnel. Returns others.
    /// Nothing for its programs is taken before the node knows that it is inside.
    pub(super) fn clear_job(
        &mut self,
        octets: Vec<u8>,
        flow: &Flow,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let is_asking = self.entrance.detection.is_some();
        let is_inside = self.is_inside();
        let within = self.entrance.within.as_ref();
        if is_asking && within.is_some_and(|within| within.hears(flow)) {
            self.hear_agent(&octets, flow, now);
            return None;
        }
        let (true, Some(within), Part::Control(control)) =
            (is_asking, &mut self.entrance.within, &self.part)
        else {
            return Some(octets);
        };
        let (to, is_of_tunnel) = (Some(flow.destination), control.takes(flow));
        let is_home = within.home_address() == to;
        if !(is_home || self.entrance.place == to) || is_of_tunnel {
            return Some(octets);
        }
        let roaming = self.entrance.roaming.as_ref();
        let is_from_outside = roaming.is_some_and(|it| it.agent() == Some(flow.source));
        if let Some(report) = report_in(&octets) {
            // Later packets of the tunnel are smaller.
            match &mut self.entrance.roaming {
                Some(roaming) if roaming.agent() == Some(report.remote.ip()) => {
                    roaming.too_big(&report, now);
                }
                _ => within.too_big(&report, now),
            }
        } else if Mobile::takes(flow) && !is_from_outside {
            let opened = within.open(octets, flow, now, &mut self.sends);
            self.sends.extend(opened.into_iter().map(Send::Own));
        } else if !is_home {
            return Some(octets);
        } else if is_inside {
            self.sends.push(Send::Own(octets));
        } else {
            self.dropped.clear += 1;
        }
        None
    }
}
