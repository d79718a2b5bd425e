//! A mobile node outside of its home network, behind a VPN gateway: Mobile IPv4 with the inner
//! address of its tunnel as care-of address (RFC 5266), and around the tunnel Mobile IPv4 again, if
//! a home agent outside keeps its outer address (RFC 5265). Each is a machine of its own, and what
//! one sends goes into the next. A node that is sometimes inside asks where it is (`detection`).

use std::net::{IpAddr, Ipv4Addr};

use engine::mip4::mobile_node::Attachment;
use engine::time::Instant;
use wire::ip::Flow;

use super::{Host, Mobile, Part, Send};

impl Host {
    /// The machine of a mobile node whose home address its programs have.
    pub(in crate::kernel) fn nomad(&self) -> Option<&Mobile> {
        self.part.mobile().or(self.entrance.within.as_deref())
    }

    /// The node has come to its present place.
    pub(super) fn note_place(&mut self, now: Instant) {
        let place = self.entrance.place.unwrap_or(self.config.addresses[0]);
        if let Some(within) = &mut self.entrance.within {
            within.come_to(place, now);
        }
    }

    /// A packet for our stack has come.
    pub(super) fn note_arrival(&mut self, octets: &[u8], now: Instant) {
        let nomad = match &mut self.part {
            Part::Mobile(mobile) => Some(mobile),
            _ => self.entrance.within.as_mut(),
        };
        if let Some(nomad) = nomad {
            nomad.note_arrival(octets, now);
        }
    }

    /// Puts a packet of our stack into the innermost tunnel, or onto a link inside as it is.
    /// Returns the seconds of the work.
    pub(super) fn outward_home(&mut self, octets: Vec<u8>, now: Instant) -> f64 {
        let flow = Flow::of(&octets).ok();
        let is_inside = self.is_inside();
        match &mut self.entrance.within {
            Some(within) if flow.is_some_and(|flow| within.carries(&flow)) => {
                let told = within.seal(octets, now, &mut self.sends);
                self.sends.extend(told.into_iter().map(Send::Own));
            }
            Some(within) if is_inside && within.sends_plain() => self.sends.push(Send::Out(octets)),
            _ => self.dropped.clear += 1,
        }
        self.part_seconds()
    }

    /// Handles a packet out of the tunnel to our gateway.
    pub(super) fn out_of_tunnel(&mut self, packet: Vec<u8>, now: Instant) {
        let flow = Flow::of(&packet).ok();
        let inner = self.entrance.inner;
        let flow = flow.filter(|flow| Some(flow.destination) == inner && Mobile::takes(flow));
        match (&mut self.entrance.within, flow) {
            (Some(within), Some(flow)) => {
                let opened = within.open(packet, &flow, now, &mut self.sends);
                self.sends.extend(opened.into_iter().map(Send::Own));
            }
            _ => self.inward(packet),
        }
    }

    /// After a job: what a machine has sent goes into the tunnel around it. Returns the seconds of
    /// that work.
    pub(super) fn nest(&mut self, now: Instant) -> f64 {
        if self.entrance.within.is_none() {
            return 0.0;
        }
        match self.entrance.detection {
            Some(_) => self.detect(now),
            None => self.follow_tunnel(now),
        }
        let mut seconds = 0.0;
        for send in std::mem::take(&mut self.sends) {
            match send {
                Send::Out(octets) if self.is_inner(&octets) => {
                    seconds += self.seal(octets, now);
                }
                other => self.sends.push(other),
            }
        }
        self.go_outside(now);
        seconds + self.part_seconds()
    }

    /// Whether a packet is from the tunnel's inner address.
    fn is_inner(&self, octets: &[u8]) -> bool {
        let flow = Flow::of(octets).ok();
        flow.is_some_and(|flow| Some(flow.source) == self.entrance.inner)
    }

    /// The gateway has lent an inner address.
    fn follow_tunnel(&mut self, now: Instant) {
        let (Part::Control(control), Some(within)) = (&mut self.part, &mut self.entrance.within)
        else {
            return;
        };
        if let Some(inner @ IpAddr::V4(care_of)) = control.take_inner_address() {
            self.entrance.inner = Some(inner);
            let attachment = Attachment::Secured(care_of);
            within.attach_as(attachment, now, &mut self.sends);
        }
    }

    /// Puts what comes from the tunnel's outer address into that of the home agent outside. Where a
    /// foreign agent delivers for that one, it leaves as it is, and so do messages to the agent.
    fn go_outside(&mut self, now: Instant) {
        let Some(roaming) = &mut self.entrance.roaming else {
            return;
        };
        let own = roaming.home_address();
        for send in std::mem::take(&mut self.sends) {
            let Send::Out(octets) = send else {
                self.sends.push(send);
                continue;
            };
            let flow = Flow::of(&octets).ok();
            // It asks all on its link for an agent past all tunnels.
            let is_to_all = |flow: &Flow| flow.destination == IpAddr::V4(Ipv4Addr::BROADCAST);
            match flow.filter(|flow| Some(flow.source) == own && !is_to_all(flow)) {
                None => self.sends.push(Send::Out(octets)),
                Some(flow) if roaming.carries(&flow) => {
                    let told = roaming.seal(octets, now, &mut self.sends);
                    self.sends.extend(told.into_iter().map(Send::Own));
                }
                Some(flow) if roaming.sends_plain() || roaming.asks(&flow) => {
                    self.sends.push(Send::Out(octets));
                }
                Some(_) => self.dropped.clear += 1,
            }
        }
    }
}
