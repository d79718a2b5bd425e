//! A host as a router that ends tunnels too: it forwards between its links, seals what its tunnels
//! protect, and hands on what the nodes of one of its links send to each other. It may answer
//! access points as their server of RADIUS.

use std::net::IpAddr;

use engine::time::Instant;
use wire::ip::{Flow, protocol};
use wire::mip4::PORT;

use super::{Host, Part, Send};
use crate::kernel::dialogue::{CLIENT_PORT, RADIUS_PORT, is_radius, radius, read_radius};
use crate::kernel::{Port, ip};
use crate::scenario::Network;

/// What a tunnel of a router protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protects {
    /// Sources of packets into it.
    pub from: Network,
    /// Their destinations.
    pub to: Network,
    /// Whether its other end is a station. Registrations go past it, for they prove themselves (RFC
    /// 5944 §5), and nodes send them before they have a tunnel.
    pub is_of_station: bool,
}

impl Host {
    /// Handles a packet that came to a router, for `next` on its segment if that is not the one
    /// with the destination.
    pub(super) fn route_job(
        &mut self,
        octets: Vec<u8>,
        (flow, port): (&Flow, Port),
        next: Option<IpAddr>,
        now: Instant,
    ) -> f64 {
        let own = &self.config.addresses;
        let to = flow.destination;
        if let Some(next) = next.filter(|next| !own.contains(next)) {
            self.sends.push(Send::Via(port, octets, next));
            return 0.0;
        }
        if matches!(to, IpAddr::V4(to) if to.is_broadcast() || to.is_multicast()) {
            self.sends.push(Send::On(port, octets));
            return 0.0;
        }
        if !own.contains(&to) {
            return self.forward(octets, flow, now);
        }
        let Part::Control(control) = &mut self.part else {
            self.sends.push(Send::Own(octets));
            return 0.0;
        };
        if !control.takes(flow) {
            self.sends.push(Send::Own(octets));
            return 0.0;
        }
        let opened = control.open(octets, flow, now, &mut self.sends);
        let mut seconds = self.part_seconds();
        for packet in opened {
            let source = || Some(Flow::of(&packet).ok()?.source);
            let costs = self.config.costs.of_peer(source);
            seconds += costs.open.at(packet.len() as f64);
            let Ok(inner) = Flow::of(&packet) else {
                self.dropped.malformed += 1;
                continue;
            };
            match self.config.addresses.contains(&inner.destination) {
                true => self.sends.push(Send::Own(packet)),
                false => seconds += self.forward(packet, &inner, now),
            }
        }
        seconds
    }

    /// Sends a packet on: into a tunnel that protects it, otherwise as it is.
    fn forward(&mut self, octets: Vec<u8>, flow: &Flow, now: Instant) -> f64 {
        let is_registration = flow.protocol == protocol::UDP
            && flow
                .ports
                .is_some_and(|(from, to)| [from, to].contains(&PORT));
        let mut protects = self.config.protects.iter();
        let is_protected = protects.any(|one| {
            let is_past = is_registration && one.is_of_station;
            !is_past && one.from.has(flow.source) && one.to.has(flow.destination)
        });
        let Part::Control(control) = &mut self.part else {
            self.sends.push(Send::Out(octets));
            return 0.0;
        };
        if !is_protected {
            self.sends.push(Send::Out(octets));
            return 0.0;
        }
        let clear = octets.len() as f64;
        let costs = self.config.costs.of_peer(|| Some(flow.destination));
        let seal_s = costs.seal.at(clear);
        let before = self.sends.len();
        let is_sealed = control.seal(octets, now, &mut self.sends);
        // What it says of a packet that is too large is for the sender.
        for send in &mut self.sends[before..] {
            if let Send::Own(report) = send
                && Flow::of(report)
                    .is_ok_and(|flow| !self.config.addresses.contains(&flow.destination))
            {
                *send = Send::Out(std::mem::take(report));
            }
        }
        if is_sealed { seal_s } else { 0.0 }
    }

    /// Answers an access point, if a packet is a question to a server of RADIUS and this is one.
    pub(super) fn radius_job(&mut self, octets: &[u8], flow: &Flow) -> Option<f64> {
        let is_ours = self.config.addresses.contains(&flow.destination);
        if self.config.radius.is_empty() || !is_ours || !is_radius(flow) {
            return None;
        }
        let (station, step) = read_radius(octets, flow)?;
        let script = self.config.radius.get(&station)?;
        let (asked, answer) = (script.get(step)?, script.get(step + 1)?);
        let bytes = answer.relayed_bytes?;
        let ends = ((flow.destination, RADIUS_PORT), (flow.source, CLIENT_PORT));
        let payload = radius(station, step + 1, bytes);
        let packet = ip::udp(ends.0, ends.1, &payload, step as u16);
        let seconds = asked.server_s + answer.server_s;
        self.sends.push(Send::Out(packet));
        Some(seconds)
    }
}
