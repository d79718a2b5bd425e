//! What a host does with packets that are for others or come out of tunnels: as a mobile node, a
//! home agent or a firewall, and as a server or a gateway.

use std::net::IpAddr;

use engine::time::Instant;
use wire::ip::{Flow, protocol};

use super::carried::{Gate, report_in};
use super::{Host, Mobile, Part, Send, nat};
use crate::kernel::Port;

impl Host {
    /// Handles a packet from the link of a mobile node or a home agent.
    pub(super) fn mobile_job(
        &mut self,
        octets: Vec<u8>,
        flow: &Flow,
        is_ours: bool,
        now: Instant,
    ) -> f64 {
        let Part::Mobile(mobile) = &mut self.part else {
            return 0.0;
        };
        let is_home_address = mobile.home_address() == Some(flow.destination);
        if let Some(report) = report_in(&octets).filter(|_| is_ours) {
            mobile.too_big(&report, now);
            // Later packets of the tunnel are smaller.
        } else if mobile.hears(flow) {
            mobile.hear(&octets, flow, now, &mut self.sends);
        } else if (is_ours || is_home_address) && Mobile::takes(flow) {
            let opened = mobile.open(octets, flow, now, &mut self.sends);
            self.take_opened(opened, now);
        } else if is_ours || is_home_address {
            self.sends.push(Send::Own(octets));
        } else if mobile.intercepts(flow.destination) {
            let told = mobile.seal(octets, now, &mut self.sends);
            self.pass(told);
        } else {
            self.dropped.clear += 1;
        }
        self.part_seconds()
    }

    /// Passes packets out of tunnels on, except those that are for the machine or its planes: they
    /// were in two layers.
    fn take_opened(&mut self, opened: Vec<Vec<u8>>, now: Instant) {
        for packet in opened {
            let Part::Mobile(mobile) = &mut self.part else {
                return;
            };
            let own = &self.config.addresses;
            let flow = Flow::of(&packet).ok();
            let flow = flow.filter(|flow| own.contains(&flow.destination));
            if let Some(report) = report_in(&packet).filter(|_| flow.is_some()) {
                mobile.too_big(&report, now);
                // Later packets of the tunnel are smaller.
            } else if let Some(flow) = flow.filter(Mobile::takes) {
                let inside = mobile.open(packet, &flow, now, &mut self.sends);
                self.take_opened(inside, now);
            } else {
                self.pass(vec![packet]);
            }
        }
    }

    /// Passes packets out of tunnels, or about them, to our stack or on.
    pub(super) fn pass(&mut self, packets: Vec<Vec<u8>>) {
        let home = self.part.mobile().and_then(Mobile::home_address);
        for packet in packets {
            let to = Flow::of(&packet).ok().map(|flow| flow.destination);
            let is_own = |to| self.config.addresses.contains(&to) || home == Some(to);
            self.sends.push(match to.is_some_and(is_own) {
                true => Send::Own(packet),
                false => Send::Out(packet),
            });
        }
    }

    /// Handles a packet from a link of a foreign agent or a firewall.
    pub(super) fn gate_job(&mut self, octets: Vec<u8>, from: (&Flow, Port), now: Instant) -> f64 {
        let is_ours = self.config.addresses.contains(&from.0.destination);
        let sends = &mut self.sends;
        match &mut self.part {
            Part::Wall(wall) => through(&mut **wall, octets, (from, is_ours), now, sends),
            Part::Agent(agent) => {
                let heard = (from.0, is_ours);
                let left = match from.1 == Port(0) {
                    true => agent.hear(octets, heard, now, sends),
                    false => Some(octets),
                };
                if let Some(octets) = left {
                    through(&mut **agent, octets, (from, is_ours), now, sends);
                }
            }
            Part::Plain | Part::Control(_) | Part::Mobile(_) => {}
        }
        self.part_seconds()
    }

    /// Handles a clear packet from our stack or from behind us: seals it if there is a control
    /// plane.
    pub(super) fn outward(&mut self, mut octets: Vec<u8>, now: Instant) -> f64 {
        if !self.entrance.is_in() {
            self.dropped.shut += 1;
            return 0.0;
        }
        self.unpublish(&mut octets);
        if let (Part::Mobile(mobile), Ok(flow)) = (&mut self.part, Flow::of(&octets)) {
            if mobile.carries(&flow) {
                let told = mobile.seal(octets, now, &mut self.sends);
                self.pass(told);
            } else if mobile.sends_plain() {
                self.sends.push(Send::Out(octets));
            } else {
                self.dropped.clear += 1;
            }
            return self.part_seconds();
        }
        match self.entrance.within {
            Some(_) => self.outward_home(octets, now),
            None => self.seal(octets, now),
        }
    }

    /// Seals a clear packet if there is a control plane.
    pub(super) fn seal(&mut self, octets: Vec<u8>, now: Instant) -> f64 {
        let Part::Control(control) = &mut self.part else {
            self.sends.push(Send::Out(octets));
            return 0.0;
        };
        let clear = octets.len() as f64;
        let destination = || Some(Flow::of(&octets).ok()?.destination);
        let costs = self.config.costs.of_peer(destination);
        let before = self.sends.len();
        let seconds = match control.seal(octets, now, &mut self.sends) {
            true => costs.seal.at(clear),
            false => 0.0,
        };
        self.tell_sender(before);
        seconds
    }

    /// What the planes say of a packet from behind us goes back there, from this output on.
    fn tell_sender(&mut self, first: usize) {
        for send in &mut self.sends[first..] {
            let Send::Own(packet) = send else { continue };
            let to = Flow::of(packet).ok().map(|flow| flow.destination);
            let mut routes = self.config.routes.iter();
            let is_behind = |to| routes.any(|(first, last, _)| (*first..=*last).contains(&to));
            if to.is_some_and(is_behind) {
                *send = Send::Out(std::mem::take(packet));
            }
        }
    }

    /// Rewrites a published server's packet, so that it comes from us.
    fn unpublish(&self, octets: &mut [u8]) {
        let Ok(flow) = Flow::of(octets) else { return };
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (flow.source, flow.destination) else {
            return;
        };
        let from = flow.ports.map(|ports| ports.0);
        let mut published = self.config.published.iter();
        let found = published.find(|(_, server)| {
            *server.ip() == source && Some(server.port()) == from && has_ports(&flow)
        });
        if let Some((port, _)) = found {
            let mut own = self.config.addresses.iter();
            if let Some(IpAddr::V4(own)) = own.find(|own| own.is_ipv4()) {
                nat::rewrite(octets, &flow, (*own, destination), Some((true, *port)));
            }
        }
    }

    /// Handles a clear packet from the outer side or out of a tunnel: passes it to our stack, or
    /// forwards it.
    pub(super) fn inward(&mut self, mut octets: Vec<u8>) {
        let Ok(flow) = Flow::of(&octets) else {
            self.dropped.malformed += 1;
            return;
        };
        let destination = flow.destination;
        let to = flow.ports.map(|ports| ports.1);
        let published = self.config.published.iter();
        let server = published
            .filter(|_| self.config.addresses.contains(&destination) && has_ports(&flow))
            .find(|(port, _)| Some(*port) == to);
        if let (Some((_, server)), IpAddr::V4(source)) = (server, flow.source) {
            let port = Some((false, server.port()));
            nat::rewrite(&mut octets, &flow, (source, *server.ip()), port);
            self.sends.push(Send::Out(octets));
            return;
        }
        let mut routes = self.config.routes.iter();
        let is_onward = routes.any(|(first, last, _)| (*first..=*last).contains(&destination));
        self.sends.push(if is_onward {
            Send::Out(octets)
        } else {
            Send::Own(octets)
        });
    }
}

/// What every machine between two sides does with a packet.
fn through<G: Gate>(
    gate: &mut G,
    octets: Vec<u8>,
    ((flow, port), is_ours): ((&Flow, Port), bool),
    now: Instant,
    sends: &mut Vec<Send>,
) {
    if let Some(report) = report_in(&octets).filter(|_| is_ours) {
        // Later packets of the tunnel are smaller.
        gate.too_big(&report, now);
    } else if is_ours && G::takes(flow) {
        gate.open(octets, flow, now, sends);
    } else if is_ours {
        sends.push(Send::Own(octets));
    } else {
        gate.pass(octets, (flow, port), now, sends);
    }
}

/// Whether a published port may match this packet.
fn has_ports(flow: &Flow) -> bool {
    flow.protocol == protocol::TCP || flow.protocol == protocol::UDP
}
