//! Where a request comes from, and what that proves (RFC 5265 §4.3).
//!
//! Left out: whether the source is forged. A gateway lets its hosts write no addresses but those
//! that it gave them, and routers inside drop what comes from the wrong side.

use std::net::Ipv4Addr;

use wire::mip4::{Code, Request, RequestFlags};

use super::check::Asked;
use super::{Config, HomeAgent};
use crate::selector::TrafficSelector;

impl HomeAgent {
    /// Whether requests from there are heard.
    pub(super) fn hears(&self, from: Ipv4Addr) -> bool {
        let Config {
            trusted, tunnelled, ..
        } = &self.config;
        trusted.is_empty() || is_among(trusted, from) || is_among(tunnelled, from)
    }

    /// Whether no host outside has this address, by what the configuration says.
    fn is_inside(&self, address: Ipv4Addr) -> bool {
        is_among(&self.config.trusted, address) && !is_among(&self.config.tunnelled, address)
    }

    /// Whether the reply says that its node is inside. It must be about the place that the request
    /// comes from: a hostile network outside may give a node any address, and whoever has a tunnel
    /// of his own may pass on what the node asks.
    pub(super) fn proves_inside(&self, request: &Request, from: Ipv4Addr) -> bool {
        let care_of = request.care_of_address;
        let is_its = from == care_of || self.config.foreign_agents.contains_key(&from);
        is_its && self.is_inside(from) && self.is_inside(care_of)
    }

    /// Whether a request comes from where it must. Its authenticator says who wrote it, not who
    /// sent it: somebody inside may pass on what a node outside wrote, and the reply back to it.
    /// The node would take that for a proof that it is inside.
    pub(super) fn check_source(&self, asked: &Asked<'_>, from: Ipv4Addr) -> Result<(), Code> {
        let request = &asked.request;
        let is_own = from == request.home_address;
        if !is_own && self.nodes.contains_key(&from) {
            return Err(Code::HomeProhibited);
        }
        if asked.firewall.is_some() {
            return Ok(());
        }
        let is_colocated = request.flags.has(RequestFlags::DECAPSULATES);
        let care_of = request.care_of_address;
        let is_expected = match (is_colocated, request.lifetime) {
            // A foreign agent of ours has proven itself. One outside is not heard, so nobody may
            // pass on from inside what it has signed.
            _ if !asked.foreign.is_empty() => {
                self.config.trusted.is_empty() || self.is_place_of(request, from)
            }
            // RFC 5944 §3.6.1.1: a node at home sends from there. Away, a node that ends sends
            // from its care-of address, and so does not take itself to be at home.
            (false, 0) => is_own || care_of != request.home_address,
            (true, 1..) => from == care_of || !asked.is_from_inside(&self.config),
            // A foreign agent without a key is anybody, who may be where the node is not.
            (false, 1..) => !asked.is_from_inside(&self.config),
            // The end of all, or the question of a node where it is.
            (true, 0) => {
                let is_end_of_all = care_of == request.home_address;
                is_end_of_all || from == care_of || !asked.is_from_inside(&self.config)
            }
        };
        match is_expected {
            true => Ok(()),
            false => Err(Code::HomeProhibited),
        }
    }

    /// Whether a request can come from there as it is: from its node, or the foreign agent.
    pub(super) fn is_place_of(&self, request: &Request, from: Ipv4Addr) -> bool {
        let is_agent = self.config.foreign_agents.contains_key(&from);
        is_agent || [request.care_of_address, request.home_address].contains(&from)
    }
}

fn is_among(networks: &[TrafficSelector], address: Ipv4Addr) -> bool {
    let mut networks = networks.iter();
    networks.any(|it| it.contains_address(address.into()))
}
