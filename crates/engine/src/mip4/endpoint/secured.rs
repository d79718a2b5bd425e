//! What secures a host's packets: a mobile node's security layer, and a home agent's own SKIP.

use std::net::SocketAddr;

use super::{Change, Effect, Endpoint, Machine};
use crate::firewall::{self, Config, Firewall, Output};
use crate::mip4::security::{Approach, Security, SecurityLayer};
use crate::plane::{Notice, OutboundChange};
use crate::sa::{Path, Via};
use crate::time::Instant;

impl Endpoint {
    /// Gives a mobile node a security layer. Call it before the node is attached. Nothing happens
    /// at a home agent.
    pub fn secure(&mut self, security: Security) {
        if let Machine::Node {
            layer, home_agent, ..
        } = &mut self.machine
        {
            *layer = SecurityLayer::new(security, *home_agent);
        }
    }

    /// How a node's packets get to its firewalls from the next place on. Call it before the node is
    /// attached there. Nothing happens at a home agent.
    pub fn set_approach(&mut self, approach: Approach) {
        if let Machine::Node { layer, .. } | Machine::Guest(layer) = &mut self.machine {
            layer.set_approach(approach);
        }
    }

    /// Gives a home agent SKIP of its own, for nodes that use it from end to end. All its bindings
    /// need it from then on: call it before the first one. The two addresses of `config` are the
    /// home agent's. Nothing happens at a mobile node.
    pub fn secure_home_agent(
        &mut self,
        config: Config,
        now: Instant,
    ) -> Result<(), firewall::Fault> {
        let made = Firewall::new(config)?;
        if let Machine::HomeAgent {
            guard, carriers, ..
        } = &mut self.machine
        {
            carriers.nest_all();
            *guard = Some(Box::new(made));
        }
        self.follow(now);
        Ok(())
    }

    /// A home agent accepts what a firewall sends without the header between care-of address and
    /// home agent. Nothing happens at a mobile node.
    pub fn take_short_form(&mut self) {
        if let Machine::HomeAgent { carriers, .. } = &mut self.machine {
            carriers.take_short_form();
        }
    }

    /// A tunnel in UDP goes through the security layer as a message does.
    pub(super) fn leaves(&self, path: Path, octets: Vec<u8>) -> Effect {
        let ends = (path.local, path.remote);
        match (&self.machine, ends) {
            (Machine::Node { layer, .. }, (SocketAddr::V4(from), SocketAddr::V4(to)))
                if path.via == Via::UdpWithType
                    && layer.carries(path.local.ip(), path.remote.ip()) =>
            {
                Effect::Datagram {
                    from,
                    to,
                    ttl: None,
                    is_direct: false,
                    payload: octets,
                }
            }
            _ => Effect::Sealed(path, octets),
        }
    }

    /// A mobile node's security layer follows its care-of address.
    pub(super) fn secure_care_of(&mut self, now: Instant) {
        let Machine::Node { node, layer, .. } = &mut self.machine else {
            return;
        };
        let care_of = match layer.is_end_to_end() {
            true => node.colocated(),
            false => node.outside().or(node.secured()),
        };
        let changes = layer.follow(care_of);
        self.secure_by(changes, now);
    }

    /// The security layer wants these changes. There is no disk: what it stores is stored at once.
    pub(super) fn secure_by(&mut self, mut changes: Vec<Change>, now: Instant) {
        if let Machine::Node { layer, .. } | Machine::Guest(layer) = &self.machine
            && !changes.is_empty()
        {
            let stored = layer.first_n().into_iter();
            let stored = stored.map(|(child, bound)| OutboundChange::StoredN(child, bound));
            changes.extend(stored.map(Change::Outbound));
        }
        self.apply(changes, now);
    }

    /// What the planes say. There is no disk: a bound counts as stored at once.
    pub(super) fn heed(&mut self, notices: &[Notice], now: Instant) {
        for notice in notices {
            if let Notice::StoreN { child, bound } = *notice {
                let stored = OutboundChange::StoredN(child, bound);
                self.outbound.apply(stored, now);
            } else if let Machine::HomeAgent {
                guard: Some(guard), ..
            } = &mut self.machine
            {
                guard.handle(notice, now);
            }
        }
        self.follow_guard(now);
    }

    /// Does what a home agent's own SKIP wants.
    pub(super) fn follow_guard(&mut self, now: Instant) {
        loop {
            let Machine::HomeAgent {
                guard: Some(guard), ..
            } = &mut self.machine
            else {
                return;
            };
            let Some(output) = guard.poll() else { return };
            match output {
                Output::Inbound(change) => drop(self.inbound.apply(change)),
                Output::Outbound(change) => drop(self.outbound.apply(change, now)),
                Output::WantsReport => {
                    let report = self.inbound.report();
                    guard.report(&report.associations, now);
                }
                Output::StoreN { entry, bound } => guard.n_is_stored(entry, bound),
                Output::KeepN { .. } | Output::Event(_) => {}
            }
        }
    }
}
