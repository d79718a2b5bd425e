//! A mobile node with a VPN gateway that is sometimes inside (RFC 5265 §3, RFC 5266 §3). On a link
//! with an address of its own it asks its home agent in clear whether it is inside, and brings up
//! its tunnel at the same time. An answer that proves it makes the node register there and ends the
//! tunnel. Until then, packets of programs leave and come through the tunnel alone.
//!
//! A home agent outside keeps the tunnel's outer address while nothing proves that the node is
//! inside; then the registration there is taken back. On a link without an address the node waits a
//! moment before it looks for a foreign agent. Left out: a network outside that looks like home.

use std::net::{IpAddr, Ipv4Addr};

use engine::mip4::mobile_node::Attachment;
use engine::node::Command;
use engine::time::{Duration, Instant};
use wire::ip::Flow;

use super::carried::report_in;
use super::{Host, Job, Mobile, Part, Send};

/// How long a link may have no address before the node looks for a foreign agent, while its tunnel
/// is up: that of the program, where DHCP takes a moment.
const BARE_SPAN: Duration = Duration::from_secs(3);

/// What such a node knows of its place.
pub struct Detection {
    /// The connection to its gateway.
    connection: String,
    /// Its own address on its present link. None at home, and where a foreign agent is needed.
    own: Option<Ipv4Addr>,
    /// The tunnel's inner address, while the tunnel is up.
    inner: Option<Ipv4Addr>,
    /// The address that the gateway has lent last.
    lent: Option<Ipv4Addr>,
    /// Whether the tunnel is wanted: nothing proves that the node is inside.
    is_wanted: bool,
    /// The link has no address: until when one is waited for.
    bare_until: Option<Instant>,
    /// The link is another one than that of the registration with the home agent outside.
    is_lost: bool,
    /// The registration with the home agent outside was taken back from this address.
    left_from: Option<Ipv4Addr>,
    /// It has been on a link.
    has_begun: bool,
}

impl Detection {
    /// Of a node that has not come to its first link. `connection`: that to its gateway.
    pub fn new(connection: String) -> Self {
        Self {
            connection,
            own: None,
            inner: None,
            lent: None,
            is_wanted: false,
            bare_until: None,
            is_lost: false,
            left_from: None,
            has_begun: false,
        }
    }

    /// When it wants to be woken.
    pub(super) fn due(&self) -> Option<Instant> {
        self.bare_until
    }

    /// What the node is attached to on another link. While its tunnel is up it stays behind the
    /// gateway: on the next address the tunnel follows, and nothing else changes.
    fn on_link(&mut self, found: Attachment, within: &mut Mobile, now: Instant) -> Attachment {
        self.own = match found {
            Attachment::Colocated(own) => Some(own),
            _ => None,
        };
        self.bare_until = None;
        self.is_lost = true;
        let secured = within.secured().filter(|_| self.inner.is_some());
        match (found, secured) {
            (Attachment::Colocated(_), Some(inner)) => Attachment::Secured(inner),
            (Attachment::Visiting, Some(inner)) => {
                self.bare_until = Some(now + BARE_SPAN);
                Attachment::Secured(inner)
            }
            _ => found,
        }
    }

    /// Whether the tunnel is to be brought up or to end, if that is new.
    fn want(&mut self, is_inside: bool, is_known_outside: bool) -> Option<Command> {
        let may_begin = self.own.is_some() && is_known_outside;
        let is_wanted = !is_inside && (may_begin || self.is_wanted);
        if is_wanted == self.is_wanted {
            return None;
        }
        self.is_wanted = is_wanted;
        let connection = self.connection.clone();
        Some(match is_wanted {
            true => Command::Up(connection),
            false => Command::Down(connection),
        })
    }

    /// Registers with the home agent outside where the node is. Inside, from `inside`, the
    /// registration is taken back.
    fn register_outside(
        &mut self,
        roaming: &mut Mobile,
        inside: Option<Ipv4Addr>,
        now: Instant,
        sends: &mut Vec<Send>,
    ) {
        match inside {
            Some(_) if !roaming.is_reachable() => {
                roaming.attach_as(Attachment::Detached, now, sends);
            }
            Some(from) if self.left_from == Some(from) => {}
            // From another network inside, that home agent is perhaps reached.
            Some(from) => {
                self.left_from = Some(from);
                roaming.leave_from(from, now, sends);
            }
            None => {
                let Some(own) = self.own else { return };
                let was_lost = std::mem::take(&mut self.is_lost);
                if self.left_from.take().is_some() || was_lost {
                    roaming.rejoin(now, sends);
                }
                roaming.attach_as(Attachment::Colocated(own), now, sends);
            }
        }
    }

    /// To what the node is attached by now, and from where it asks in clear.
    fn pass(&mut self, within: &mut Mobile, now: Instant, sends: &mut Vec<Send>) {
        if self.bare_until.is_some_and(|until| until <= now) {
            self.bare_until = None;
            within.attach_as(Attachment::Visiting, now, sends);
        }
        let is_secured = within.secured().is_some();
        match (self.own, self.inner) {
            (Some(own), Some(inner)) if !within.is_proven_inside() => {
                within.attach_as(Attachment::Secured(inner), now, sends);
                within.probe(Some(own), now, sends);
            }
            (Some(own), None) if is_secured => {
                within.attach_as(Attachment::Colocated(own), now, sends);
            }
            (None, None) if is_secured => {
                within.attach_as(Attachment::Visiting, now, sends);
            }
            _ => {}
        }
    }
}

impl Host {
    /// Whether it is a node that knows that it is inside.
    pub(in crate::kernel) fn is_inside(&self) -> bool {
        let within = self.entrance.within.as_ref();
        let within = within.filter(|_| self.entrance.detection.is_some());
        within.is_some_and(|within| within.is_proven_inside())
    }

    /// The node has come to a link, with this address there, which it does not have where a foreign
    /// agent serves.
    pub(super) fn come_to_link(&mut self, place: IpAddr, now: Instant) {
        let (Some(detection), Some(within)) =
            (&mut self.entrance.detection, &mut self.entrance.within)
        else {
            return;
        };
        let Some(found) = within.look(place) else {
            return;
        };
        let attachment = detection.on_link(found, within, now);
        let is_first = !std::mem::replace(&mut detection.has_begun, true);
        if let (Part::Control(control), None) = (&mut self.part, &self.entrance.roaming) {
            if found == Attachment::Visiting {
                control.detach();
            }
            if !is_first {
                control.moved(now, &mut self.sends);
            }
        }
        within.probe(None, now, &mut self.sends);
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
        if let Some(inner @ IpAddr::V4(lent)) = control.take_inner_address() {
            // It stays: what comes from there never leaves in clear, also without a tunnel.
            self.entrance.inner = Some(inner);
            detection.lent = Some(lent);
        }
        detection.lent = detection.lent.filter(|_| control.established() > 0);
        detection.inner = detection.lent;
        let is_inside = within.is_proven_inside();
        let mut is_known_outside = true;
        if let Some(roaming) = &mut self.entrance.roaming {
            let from = detection.own.or(within.home());
            let inside = from.filter(|_| is_inside);
            detection.register_outside(roaming, inside, now, &mut self.sends);
            is_known_outside = roaming.is_reachable();
        }
        let command = detection.want(is_inside, is_known_outside);
        self.jobs.extend(command.map(Job::Order));
        detection.pass(within, now, &mut self.sends);
    }

    /// Handles what came on the link for the node itself and not for its tunnel. Returns others.
    /// Nothing for its programs is taken before the node knows that it is inside.
    pub(super) fn clear_job(
        &mut self,
        octets: Vec<u8>,
        flow: &Flow,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let (Some(_), Some(within), Part::Control(control)) = (
            &self.entrance.detection,
            &mut self.entrance.within,
            &self.part,
        ) else {
            return Some(octets);
        };
        if within.hears(flow) {
            within.hear(&octets, flow, now, &mut self.sends);
            return None;
        }
        let (to, is_of_tunnel) = (Some(flow.destination), control.takes(flow));
        let is_home = within.home_address() == to;
        if !(is_home || self.entrance.place == to) || is_of_tunnel {
            return Some(octets);
        }
        let roaming = self.entrance.roaming.as_ref();
        let is_from_outside = roaming.is_some_and(|it| it.agent() == Some(flow.source));
        if let Some(report) = report_in(&octets) {
            within.too_big(&report, now);
            // Later packets of the tunnel are smaller.
        } else if Mobile::takes(flow) && !is_from_outside {
            let opened = within.open(octets, flow, now, &mut self.sends);
            self.sends.extend(opened.into_iter().map(Send::Own));
        } else if !is_home {
            return Some(octets);
        } else if within.is_proven_inside() {
            self.sends.push(Send::Own(octets));
        } else {
            self.dropped.clear += 1;
        }
        None
    }
}
