//! What a host does with packets that are for others or come out of tunnels: as a mobile node, a
//! home agent or a firewall, and as a server or a gateway.

use std::net::IpAddr;

use engine::time::Instant;
use wire::ip::{Flow, icmp};

use super::{Agent, Host, Mobile, Send, Wall, has_ports, nat};
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
        let Some(mobile) = &mut self.mobile else {
            return 0.0;
        };
        let is_home_address = mobile.home_address() == Some(flow.destination);
        let told = icmp::TooBig::read(&octets).filter(|_| is_ours);
        if told.is_some_and(|told| mobile.too_big(&told, now)) {
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
        self.plane_seconds()
    }

    /// Passes packets out of tunnels on, except those that are for the machine or its planes: they
    /// were in two layers.
    fn take_opened(&mut self, opened: Vec<Vec<u8>>, now: Instant) {
        for packet in opened {
            let Some(mobile) = &mut self.mobile else {
                return;
            };
            let own = &self.config.addresses;
            let flow = Flow::of(&packet).ok();
            let flow = flow.filter(|flow| own.contains(&flow.destination));
            let told = icmp::TooBig::read(&packet).filter(|_| flow.is_some());
            if told.is_some_and(|told| mobile.too_big(&told, now)) {
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
        let home = self.mobile.as_ref().and_then(Mobile::home_address);
        for packet in packets {
            let to = Flow::of(&packet).ok().map(|flow| flow.destination);
            let is_own = |to| self.config.addresses.contains(&to) || home == Some(to);
            self.sends.push(match to.is_some_and(is_own) {
                true => Send::Own(packet),
                false => Send::Out(packet),
            });
        }
    }

    /// Handles a packet from a link of a foreign agent.
    pub(super) fn agent_job(
        &mut self,
        octets: Vec<u8>,
        (flow, port): (&Flow, Port),
        now: Instant,
    ) -> f64 {
        let is_ours = self.config.addresses.contains(&flow.destination);
        let is_from_link = port == Port(0);
        let Some(agent) = &mut self.agent else {
            return 0.0;
        };
        let octets = match is_from_link {
            true => agent.hear(octets, (flow, is_ours), now, &mut self.sends),
            false => Some(octets),
        };
        let Some(octets) = octets else {
            return self.plane_seconds();
        };
        let told = icmp::TooBig::read(&octets).filter(|_| is_ours);
        if told.is_some_and(|told| agent.too_big(&told, now)) {
            // Later packets of the tunnel are smaller.
        } else if is_ours && Agent::takes(flow) {
            agent.open(octets, flow, now, &mut self.sends);
        } else if is_ours {
            self.sends.push(Send::Own(octets));
        } else {
            agent.pass(octets, (flow, is_from_link), now, &mut self.sends);
        }
        self.plane_seconds()
    }

    /// Handles a packet from a link of a firewall.
    pub(super) fn wall_job(
        &mut self,
        octets: Vec<u8>,
        (flow, port): (&Flow, Port),
        now: Instant,
    ) -> f64 {
        let is_ours = self.config.addresses.contains(&flow.destination);
        let Some(wall) = &mut self.wall else {
            return 0.0;
        };
        let told = icmp::TooBig::read(&octets).filter(|_| is_ours);
        if told.is_some_and(|told| wall.too_big(&told, now)) {
            // Later packets are smaller.
        } else if is_ours && Wall::takes(flow) {
            wall.open(octets, flow, now, &mut self.sends);
        } else if is_ours {
            self.sends.push(Send::Own(octets));
        } else {
            let is_from_inside = port != Port(0);
            wall.pass(octets, (flow, is_from_inside), now, &mut self.sends);
        }
        self.plane_seconds()
    }

    /// Seconds of the last work of a mobile node's, a home agent's or a firewall's planes.
    pub(super) fn plane_seconds(&mut self) -> f64 {
        let work = match (&mut self.mobile, &mut self.wall, &mut self.agent) {
            (Some(mobile), ..) => mobile.take_work(),
            (None, Some(wall), _) => wall.take_work(),
            (None, None, Some(agent)) => agent.take_work(),
            (None, None, None) => return 0.0,
        };
        let time = (self.config.costs.control)(&work);
        if let Some(missing) = time.missing {
            self.unpriced.get_or_insert_with(|| missing.to_string());
        }
        time.seconds
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
