//! Revocation at the home agent: its administrator or a foreign agent ends a binding (RFC 3543
//! §4.2).
//!
//! When a node registers elsewhere, the foreign agent that it has left is told, too.

use std::net::{Ipv4Addr, SocketAddrV4};

use wire::mip4::{Authentication, Located, PORT, Revocation, RevocationAcknowledgment, extensions};

use super::bindings::Binding;
use super::check::{Asked, Refusal};
use super::register::Denied;
use super::{Change, Datagram, HomeAgent, Output};
use crate::mip4::association::Associations;
use crate::mip4::firewall::Outside;
use crate::mip4::revocation::{self, Agreement, Fault, Key, Past, Waiting};
use crate::mip4::tunnel::Tunnel;
use crate::time::Instant;

impl HomeAgent {
    /// The administrator ends all bindings of a node. Whoever has agreed to it is told (RFC 3543
    /// §4.2.2.1). Whether there was a binding.
    pub fn revoke(&mut self, home_address: Ipv4Addr, now: Instant) -> bool {
        self.expire(now);
        let Some(node) = self.nodes.get_mut(&home_address) else {
            return false;
        };
        let ended = node.bindings.unbind(None);
        if ended.is_empty() {
            return false;
        }
        let informs = self.config.revocation.is_some_and(|it| it.informs);
        for binding in &ended {
            self.tell_end(home_address, binding, informs, now);
        }
        self.put(Output::Tunnels {
            home_address,
            tunnels: Vec::new(),
            why: Change::Revoked,
        });
        self.send_revocations(now);
        true
    }

    /// Bindings have ended by a request that came from `from`. The foreign agents that did not
    /// relay it are told; the node knows.
    pub(super) fn release(
        &mut self,
        home_address: Ipv4Addr,
        ended: &[Binding],
        from: Ipv4Addr,
        now: Instant,
    ) {
        for binding in ended {
            if !binding.tunnel.is_colocated && *binding.source.ip() != from {
                self.tell_end(home_address, binding, false, now);
            }
        }
    }

    /// What we agree on with the sender of a request that is granted. Not with a co-located node
    /// behind a foreign agent (RFC 3543 §4.3.2), nor with an agent that did not sign the request.
    pub(super) fn agree(
        &self,
        asked: &Asked<'_>,
        tunnel: &Tunnel,
        from: Ipv4Addr,
        now: Instant,
    ) -> Option<Agreement> {
        let policy = self.config.revocation?;
        let agents = &self.config.foreign_agents;
        let is_from_care_of = from == tunnel.care_of;
        let (has_inform, timestamp) = if tunnel.is_colocated {
            asked
                .revocation
                .filter(|_| is_from_care_of || tunnel.udp.is_some() && !tunnel.is_half_bound())?
        } else {
            agents.get(&tunnel.care_of)?;
            asked
                .foreign_revocation
                .filter(|_| is_from_care_of || !agents.contains_key(&from))?
        };
        Some(Agreement {
            has_inform: has_inform && policy.has_inform && !tunnel.is_colocated,
            timestamp,
            said: now,
        })
    }

    /// Puts a revocation on its way, if it was agreed on.
    fn tell_end(&mut self, home: Ipv4Addr, binding: &Binding, informs: bool, now: Instant) {
        let Some(agreement) = binding.revocation else {
            return;
        };
        let tunnel = &binding.tunnel;
        let is_node = tunnel.is_colocated;
        let revocation = Revocation {
            is_from_home_agent: true,
            informs: is_node || informs && agreement.has_inform,
            home_address: home,
            home_domain: self.config.address,
            foreign_domain: tunnel.care_of,
            identifier: 0,
        };
        let to = SocketAddrV4::new(*binding.source.ip(), PORT);
        let to = tunnel.udp.unwrap_or(to);
        let mut waiting = Waiting::new(revocation, to, agreement.said, binding.end);
        waiting.firewall = tunnel.firewall;
        if is_node {
            waiting.between = Authentication::MobileHome;
        }
        let lost = self.revocations.add((home, tunnel.care_of), waiting);
        self.give_up(lost);
        if let Some(node) = self.nodes.get_mut(&home) {
            // The agent may revoke the same binding, before it hears of ours.
            let past = Past::new(tunnel.care_of, informs, agreement.timestamp, now);
            node.revoked = Some(past);
        }
    }

    /// Sends what is due.
    pub(super) fn send_revocations(&mut self, now: Instant) {
        let over = self.revocations.expire(now);
        self.give_up(over);
        let timestamp = revocation::timestamp(self.clock, now);
        let mut sent = Vec::new();
        for (key, waiting) in self.revocations.due(now) {
            let mut w = waiting.message(timestamp, now);
            let between = waiting.between;
            let shared = match between {
                Authentication::MobileHome => self.nodes.get(&key.0).map(|it| &it.associations),
                _ => self.config.foreign_agents.get(&key.1),
            };
            // A changed configuration may have taken it away.
            let Some(shared) = shared else { continue };
            shared.first().sign(between, &mut w);
            sent.push(Output::Send {
                from: SocketAddrV4::new(self.config.address, PORT),
                to: waiting.to,
                is_at_home: false,
                firewall: waiting.firewall,
                payload: w.into_vec(),
            });
        }
        sent.into_iter().for_each(|output| self.put(output));
    }

    fn give_up(&mut self, keys: impl IntoIterator<Item = Key>) {
        for (home_address, care_of) in keys {
            self.put(Output::Unacknowledged {
                home_address,
                care_of,
            });
        }
    }

    /// A revocation, whose extensions begin at `at`.
    pub(super) fn hear_revocation(
        &mut self,
        it: &Revocation,
        at: usize,
        datagram: Datagram<'_>,
        now: Instant,
    ) -> Result<(), Denied> {
        let denied = |why| Denied {
            home_address: Some(it.home_address),
            why,
        };
        let list = extensions(datagram.payload, at);
        let list = list.map_err(|why| denied(Refusal::Malformed(why)))?;
        self.obey(it, &list, datagram, now)
            .map_err(|fault| denied(Refusal::Revocation(fault)))
    }

    /// Ends the binding that a foreign agent has ended (RFC 3543 §4.2.3.2).
    fn obey(
        &mut self,
        it: &Revocation,
        list: &[Located],
        datagram: Datagram<'_>,
        now: Instant,
    ) -> Result<(), Fault> {
        let ours = self.config.address;
        if it.is_from_home_agent {
            return Err(Fault::Reflected);
        }
        if it.home_domain != ours || *datagram.to.ip() != ours {
            return Err(Fault::WrongAddress);
        }
        let policy = self.config.revocation.ok_or(Fault::NoBinding)?;
        let (home_address, care_of) = (it.home_address, it.foreign_domain);
        let agent = self.agent(care_of)?;
        let between = Authentication::ForeignHome;
        revocation::authenticate(datagram.payload, list, between, agent)?;
        let node = self.nodes.get_mut(&home_address).ok_or(Fault::NoBinding)?;
        let binding = node.bindings.of(care_of);
        let agreed = binding.and_then(|it| it.revocation.filter(|_| !it.tunnel.is_colocated));
        let informs = if let Some(agreement) = agreed {
            agreement.precedes(it.identifier)?;
            node.bindings.unbind(Some(care_of));
            let informs = policy.informs && agreement.has_inform;
            node.revoked = Some(Past::new(care_of, informs, it.identifier, now));
            let tunnels = node.bindings.tunnels();
            self.put(Output::Tunnels {
                home_address,
                tunnels,
                why: Change::Revoked,
            });
            informs
        } else {
            let past = node.revoked.as_mut().ok_or(Fault::NoBinding)?;
            past.repeats(care_of, it.identifier, now)?
        };
        let first = self.agent(care_of)?.first();
        let payload = revocation::acknowledgment(it, informs, between, first);
        self.put(Output::Send {
            from: datagram.to,
            to: datagram.from,
            is_at_home: false,
            firewall: Outside::firewall(&self.config.outside, *datagram.from.ip()),
            payload,
        });
        Ok(())
    }

    fn agent(&self, care_of: Ipv4Addr) -> Result<&Associations, Fault> {
        let agents = &self.config.foreign_agents;
        agents.get(&care_of).ok_or(Fault::NoAssociation)
    }

    /// An acknowledgment, whose extensions begin at `at`.
    pub(super) fn hear_acknowledgment(
        &mut self,
        it: &RevocationAcknowledgment,
        at: usize,
        datagram: Datagram<'_>,
    ) -> Result<(), Denied> {
        let denied = |why| Denied {
            home_address: Some(it.home_address),
            why,
        };
        let list = extensions(datagram.payload, at);
        let list = list.map_err(|why| denied(Refusal::Malformed(why)))?;
        let key = self.acknowledged(it, &list, datagram);
        let key = key.map_err(|fault| denied(Refusal::Revocation(fault)))?;
        self.revocations.cancel(key);
        Ok(())
    }

    fn acknowledged(
        &self,
        it: &RevocationAcknowledgment,
        list: &[Located],
        datagram: Datagram<'_>,
    ) -> Result<Key, Fault> {
        let (key, waiting) = self.revocations.answered(it, *datagram.from.ip())?;
        let shared = match waiting.between {
            Authentication::MobileHome => {
                let node = self.nodes.get(&key.0).ok_or(Fault::NoAssociation)?;
                &node.associations
            }
            _ => self.agent(key.1)?,
        };
        revocation::authenticate(datagram.payload, list, waiting.between, shared)?;
        Ok(key)
    }
}
