//! Revocation at the foreign agent: it or a home agent ends a visit (RFC 3543 §4.2).
//!
//! The visitor is told by an advertisement to it alone with sequence number 0, as if the agent had
//! restarted (RFC 3543 §4.1).

use std::net::{Ipv4Addr, SocketAddrV4};

use wire::mip4::{
    Authentication, Extension, Located, PORT, Revocation, RevocationAcknowledgment, extensions,
};

use super::{Datagram, ForeignAgent, Mac, Output, Refusal};
use crate::mip4::association::Associations;
use crate::mip4::revocation::{self, Agreement, Fault, Key, Past, Waiting};
use crate::time::Instant;

/// Visits whose revocation is remembered. The oldest gives way.
pub const REVOKED_MAX: usize = 1_024;

/// A visit that was revoked.
pub(super) struct Revoked {
    past: Past,
    mac: Mac,
}

impl Revoked {
    pub(super) fn is_remembered(&self, now: Instant) -> bool {
        self.past.end > now
    }
}

impl ForeignAgent {
    /// Our administrator ends a visit. The home agent is told if it has agreed to it (RFC 3543
    /// §4.2.3.1). Whether there was a visit.
    pub fn revoke(&mut self, home_address: Ipv4Addr, now: Instant) -> bool {
        self.expire(now);
        let policy = self.config.revocation;
        let Some(visit) = self.visits.get(&home_address) else {
            return false;
        };
        let (visitor, agreement, end) = (visit.visitor, visit.revocation, visit.end);
        let has_inform = agreement.is_some_and(|it| it.has_inform);
        if let Some(agreement) = agreement {
            let home_agent = visitor.home_agent;
            let revocation = Revocation {
                is_from_home_agent: false,
                // The home agent decides.
                informs: has_inform,
                home_address,
                home_domain: home_agent,
                foreign_domain: self.config.care_of,
                identifier: 0,
            };
            let to = SocketAddrV4::new(home_agent, PORT);
            let waiting = Waiting::new(revocation, to, agreement.said, end);
            let lost = self.revocations.add((home_address, home_agent), waiting);
            self.give_up(lost);
            // The home agent may revoke the same registration, before it hears of ours.
            let past = Past::new(home_agent, false, agreement.timestamp, now);
            self.remember(home_address, past, visitor.mac);
        }
        self.end_visit(home_address, false);
        if !has_inform && policy.is_none_or(|it| it.informs) {
            self.inform(home_address, visitor.mac, true);
        }
        self.send_revocations(now);
        true
    }

    /// What we offer the home agent with a relayed request.
    pub(super) fn support(&self, now: Instant) -> Option<Extension> {
        let policy = self.config.revocation?;
        Some(Extension::RevocationSupport {
            informs: policy.has_inform,
            timestamp: revocation::timestamp(self.config.clock, now),
        })
    }

    /// What a reply has agreed on, whose authenticator of the home agent is right.
    pub(super) fn agreed(&self, list: &[Located], relayed: Instant) -> Option<Agreement> {
        let policy = self.config.revocation?;
        let is_end = |one: &&Located| one.between() == Some(Authentication::ForeignHome);
        let signed = list.iter().take_while(|one| !is_end(one));
        let (informs, timestamp) = revocation::support(signed)?;
        Some(Agreement {
            has_inform: informs && policy.has_inform,
            timestamp,
            said: relayed,
        })
    }

    /// Sends what is due.
    pub(super) fn send_revocations(&mut self, now: Instant) {
        let over = self.revocations.expire(now);
        self.give_up(over);
        let timestamp = revocation::timestamp(self.config.clock, now);
        for ((_, home_agent), waiting) in self.revocations.due(now) {
            let mut w = waiting.message(timestamp, now);
            let shared = self.config.home_agents.get(&home_agent);
            // A changed configuration may have taken it away.
            let Some(shared) = shared else { continue };
            shared.first().sign(waiting.between, &mut w);
            self.outputs.push_back(Output::Relay {
                from: SocketAddrV4::new(self.config.care_of, PORT),
                to: waiting.to,
                payload: w.into_vec(),
            });
        }
    }

    fn give_up(&mut self, keys: impl IntoIterator<Item = Key>) {
        for (home_address, home_agent) in keys {
            self.outputs.push_back(Output::Unacknowledged {
                home_address,
                home_agent,
            });
        }
    }

    fn end_visit(&mut self, home_address: Ipv4Addr, is_by_home_agent: bool) {
        self.outputs.push_back(Output::Revoked {
            home_address,
            is_by_home_agent,
        });
        self.leave(home_address);
    }

    /// Tells a node that its registration has ended; with `is_final`, that it shall look for
    /// another agent.
    fn inform(&mut self, home_address: Ipv4Addr, mac: Mac, is_final: bool) {
        let icmp = self.advertiser.reset(&self.config, is_final);
        self.outputs.push_back(Output::Inform {
            mac,
            to: home_address,
            icmp,
        });
    }

    fn remember(&mut self, home_address: Ipv4Addr, past: Past, mac: Mac) {
        let is_full = self.revoked.len() >= REVOKED_MAX;
        if is_full && !self.revoked.contains_key(&home_address) {
            let oldest = self.revoked.iter().min_by_key(|(_, it)| it.past.end);
            if let Some(oldest) = oldest.map(|(home_address, _)| *home_address) {
                self.revoked.remove(&oldest);
            }
        }
        self.revoked.insert(home_address, Revoked { past, mac });
    }

    /// A revocation of a home agent, whose extensions begin at `at`.
    pub(super) fn hear_revocation(
        &mut self,
        it: &Revocation,
        at: usize,
        datagram: Datagram<'_>,
        now: Instant,
    ) -> Result<(), Refusal> {
        let list = extensions(datagram.payload, at).map_err(|_| Refusal::Malformed)?;
        self.obey(it, &list, datagram, now)
            .map_err(Refusal::Revocation)
    }

    /// Ends the visit that its home agent has ended (RFC 3543 §4.2.2.2).
    fn obey(
        &mut self,
        it: &Revocation,
        list: &[Located],
        datagram: Datagram<'_>,
        now: Instant,
    ) -> Result<(), Fault> {
        let ours = self.config.care_of;
        if !it.is_from_home_agent {
            return Err(Fault::Reflected);
        }
        if it.foreign_domain != ours || *datagram.to.ip() != ours {
            return Err(Fault::WrongAddress);
        }
        let policy = self.config.revocation.ok_or(Fault::NoBinding)?;
        let (home_address, home_agent) = (it.home_address, it.home_domain);
        let between = Authentication::ForeignHome;
        let shared = self.shared(home_agent)?;
        revocation::authenticate(datagram.payload, list, between, shared)?;
        let visit = self.visits.get(&home_address);
        let visit = visit.filter(|visit| visit.visitor.home_agent == home_agent);
        let agreed = visit.and_then(|visit| Some((visit.visitor.mac, visit.revocation?)));
        let informs = if let Some((mac, agreement)) = agreed {
            agreement.precedes(it.identifier)?;
            let informs = match agreement.has_inform {
                true => it.informs,
                false => policy.informs,
            };
            let past = Past::new(home_agent, informs, it.identifier, now);
            self.remember(home_address, past, mac);
            self.end_visit(home_address, true);
            if informs {
                self.inform(home_address, mac, false);
            }
            informs
        } else {
            let revoked = self.revoked.get_mut(&home_address);
            let past = &mut revoked.ok_or(Fault::NoBinding)?.past;
            past.repeats(home_agent, it.identifier, now)?
        };
        let first = self.shared(home_agent)?.first();
        let payload = revocation::acknowledgment(it, informs, between, first);
        self.outputs.push_back(Output::Relay {
            from: datagram.to,
            to: datagram.from,
            payload,
        });
        Ok(())
    }

    fn shared(&self, home_agent: Ipv4Addr) -> Result<&Associations, Fault> {
        let agents = &self.config.home_agents;
        agents.get(&home_agent).ok_or(Fault::NoAssociation)
    }

    /// An acknowledgment of a home agent, whose extensions begin at `at`.
    pub(super) fn hear_acknowledgment(
        &mut self,
        it: &RevocationAcknowledgment,
        at: usize,
        datagram: Datagram<'_>,
    ) -> Result<(), Refusal> {
        let list = extensions(datagram.payload, at).map_err(|_| Refusal::Malformed)?;
        let acknowledged = self.acknowledged(it, &list, datagram);
        let (key, has_asked) = acknowledged.map_err(Refusal::Revocation)?;
        self.revocations.cancel(key);
        let revoked = self.revoked.get(&it.home_address);
        if let Some(mac) = revoked.map(|it| it.mac).filter(|_| has_asked && it.informs)
            && !self.visits.contains_key(&it.home_address)
        {
            self.inform(it.home_address, mac, true);
        }
        Ok(())
    }

    /// The revocation that is acknowledged, and whether it has asked about informing the node.
    fn acknowledged(
        &self,
        it: &RevocationAcknowledgment,
        list: &[Located],
        datagram: Datagram<'_>,
    ) -> Result<(Key, bool), Fault> {
        if *datagram.to.ip() != self.config.care_of {
            return Err(Fault::WrongAddress);
        }
        let (key, waiting) = self.revocations.answered(it, *datagram.from.ip())?;
        let shared = self.shared(key.1)?;
        revocation::authenticate(datagram.payload, list, waiting.between, shared)?;
        Ok((key, waiting.revocation.informs))
    }
}
