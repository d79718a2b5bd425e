//! A request on its way to the home agent, and the reply on its way back (RFC 5944 §3.7.2,
//! §3.7.3).

use std::net::{Ipv4Addr, SocketAddrV4};

use wire::codec::Writer;
use wire::mip4::{
    Authentication, Code, Extension, INFINITE, Located, Message, PORT, Reply, Request,
    RequestFlags, UdpTunnelReply, UdpTunnelRequest, extensions,
};

use super::check::{self, Asked};
use super::{
    Datagram, ForeignAgent, INTERVAL_MIN, Mac, Output, PENDING_EACH_MAX, PENDING_MAX, Refusal,
    Visitor,
};
use crate::mip4::revocation::Agreement;
use crate::mip4::tunnel::{UdpWish, keepalive};
use crate::time::{Duration, Instant};

/// A visitor, and the registration that it has.
pub(super) struct Visit {
    pub(super) visitor: Visitor,
    pub(super) end: Option<Instant>,
    /// Whether the node or its home agent has proven it to us.
    pub(super) is_proven: bool,
    /// The low half of the accepted request's.
    identification: u32,
    /// What the home agent and we have agreed on about revocation.
    pub(super) revocation: Option<Agreement>,
}

impl Visit {
    /// Whether a request would take this visit over.
    fn forbids(&self, request: &Request, mac: Mac, is_proven: bool) -> bool {
        // A visit that nobody has proven gives way to one that is.
        if is_proven && !self.is_proven {
            return false;
        }
        if request.home_agent != self.visitor.home_agent {
            return true;
        }
        // From elsewhere, it must be proven, and not be a copy of the accepted one.
        let is_repeated = request.identification as u32 == self.identification;
        mac != self.visitor.mac && (is_repeated || !is_proven)
    }
}

/// A relayed request that waits for its reply.
pub(super) struct Pending {
    request: Request,
    visitor: Visitor,
    /// The port of the mobile node.
    port: u16,
    /// The challenge that it has answered.
    challenge: Option<Vec<u8>>,
    /// Whether the node has proven to us that it is its own.
    is_proven: bool,
    since: Instant,
    pub(super) end: Instant,
}

#[cfg(test)]
impl Pending {
    pub(super) fn mac(&self) -> Mac {
        self.visitor.mac
    }

    pub(super) fn is_proven(&self) -> bool {
        self.is_proven
    }
}

impl ForeignAgent {
    /// A request from our link.
    pub(super) fn relay_request(
        &mut self,
        it: Datagram<'_>,
        mac: Mac,
        now: Instant,
    ) -> Result<(), Refusal> {
        let (message, at) = Message::parse(it.payload).map_err(|_| Refusal::Malformed)?;
        let Message::Request(request) = message else {
            return Err(Refusal::NotForUs);
        };
        let list = extensions(it.payload, at).map_err(|_| Refusal::Malformed)?;
        let sorted = Asked::sort(request, &list);
        let asked = sorted.as_ref().ok_or(Code::ForeignBadRequest);
        let result = match asked {
            Ok(asked) if self.is_unproven(asked) => return Err(Refusal::UnprovenChallenge),
            Ok(asked) if is_unexpected(asked) => {
                return Err(Refusal::UnexpectedRevocationSupport);
            }
            Ok(asked) => self.accept(asked, it, mac, now),
            Err(code) => Err(code),
        };
        let Err(code) = result else {
            return Ok(());
        };
        if code == Code::TooDistant {
            let was_told = self
                .told_distant
                .is_some_and(|at| now.since(at) < INTERVAL_MIN);
            if was_told {
                return Err(Refusal::Denied(code));
            }
            self.told_distant = Some(now);
        }
        self.deny(&request, code, mac, it.from.port());
        Err(Refusal::Denied(code))
    }

    /// RFC 4721 §3.2: a challenge that nothing authenticates to us is no answer.
    fn is_unproven(&self, asked: &Asked<'_>) -> bool {
        let is_signed = !asked.own.is_empty() || !asked.aaa.is_empty();
        self.config.challenges && asked.challenge.is_some() && !is_signed
    }

    /// Whether the mobile node has proven itself to us, as far as it must (RFC 5944 §3.7.2.1, RFC
    /// 4721 §3.2).
    fn prove(&self, asked: &Asked<'_>, payload: &[u8]) -> Result<(), Code> {
        let home_address = asked.request.home_address;
        let shared = self.config.mobile_nodes.get(&home_address);
        if let Some(shared) = shared {
            match asked.own.as_slice() {
                [one] if shared.proven(payload, one).is_some() => {}
                _ => return Err(Code::ForeignMobileAuthentication),
            }
        }
        let aaa = self.config.aaa.get(&home_address);
        if let Some(key) = aaa {
            match asked.aaa.as_slice() {
                [one] if key.verifies(asked.challenge, payload, one) => {}
                _ => return Err(Code::ForeignAaaAuthentication),
            }
        }
        if !self.config.challenges {
            return Ok(());
        }
        let challenge = asked.challenge.ok_or(Code::MissingChallenge)?;
        if shared.is_none() && aaa.is_none() {
            return Err(Code::ForeignMobileAuthentication);
        }
        self.advertiser.check(home_address, challenge)
    }

    fn accept(
        &mut self,
        asked: &Asked<'_>,
        it: Datagram<'_>,
        mac: Mac,
        now: Instant,
    ) -> Result<(), Code> {
        let request = &asked.request;
        let flags = request.flags;
        if flags.has(RequestFlags::REVERSE_TUNNEL) && it.ttl != 255 {
            return Err(Code::TooDistant);
        }
        self.prove(asked, it.payload)?;
        let encapsulation = check::relayable(&self.config, asked)?;
        if self.is_taken(request.home_address) {
            return Err(Code::ForeignProhibited);
        }
        let visitor = Visitor {
            home_address: request.home_address,
            home_agent: request.home_agent,
            mac,
            encapsulation,
            is_reverse: flags.has(RequestFlags::REVERSE_TUNNEL),
            encapsulates_delivery: asked.encapsulates_delivery,
            udp: None,
            keepalive: 0,
        };
        let is_known = self.visits.contains_key(&request.home_address);
        if request.lifetime > 0 && !is_known && !self.has_place(self.is_provable(request)) {
            return Err(Code::ForeignResources);
        }
        let key = key(request.home_address, request.identification);
        // Somebody may repeat a neighbour's request to get its reply.
        let pending = self.pending.get(&key);
        let is_repeated = pending.is_some_and(|one| one.visitor.mac != mac);
        let is_provable = self.is_provable(request);
        let visit = self.visits.get(&request.home_address);
        if is_repeated || visit.is_some_and(|one| one.forbids(request, mac, is_provable)) {
            return Err(Code::ForeignProhibited);
        }
        self.pending.remove(&key);
        let is_proven = self.has_key_of(request.home_address);
        self.make_room(mac, is_proven)?;
        let span = Duration::from_secs(request.lifetime.max(INTERVAL_MIN.as_secs() as u16).into());
        let pending = Pending {
            request: *request,
            visitor,
            port: it.from.port(),
            challenge: asked
                .challenge
                .filter(|_| self.config.challenges)
                .map(<[u8]>::to_vec),
            is_proven,
            since: now,
            end: now + span.min(PENDING_SPAN_MAX),
        };
        self.pending.insert(key, pending);
        let payload = self.relayed(asked, it.payload, now);
        self.outputs.push_back(Output::Relay {
            from: SocketAddrV4::new(self.config.care_of, PORT),
            to: SocketAddrV4::new(request.home_agent, PORT),
            payload,
        });
        Ok(())
    }

    /// Whether no visitor can have this home address: it is that of this host, of the visitors'
    /// link or of a home agent.
    fn is_taken(&self, home_address: Ipv4Addr) -> bool {
        self.is_local(home_address) || self.config.home_agents.contains_key(&home_address)
    }

    /// Whether the node or its home agent shares a key with us. If not, anybody on the link can
    /// have written the request and, with the home agent's address, its reply.
    fn is_provable(&self, request: &Request) -> bool {
        let is_of_node = self.has_key_of(request.home_address);
        // A reply that ends a registration, or is not about us, has no authenticator for us.
        let is_of_agent = self.config.home_agents.contains_key(&request.home_agent);
        let is_ours = request.care_of_address == self.config.care_of;
        is_of_node || is_of_agent && is_ours && request.lifetime > 0
    }

    /// Whether a node with this home address must prove itself to us.
    fn has_key_of(&self, home_address: Ipv4Addr) -> bool {
        let is_shared = self.config.mobile_nodes.contains_key(&home_address);
        is_shared || self.config.aaa.contains_key(&home_address)
    }

    /// Whether there is a place for one more visitor. If all are taken, only one that proves itself
    /// gets one, of a visit that nobody has proven: anybody on the link can make up such visits.
    pub(super) fn has_place(&self, is_provable: bool) -> bool {
        let is_full = self.visits.len() >= self.config.max_visitors;
        !is_full || is_provable && self.visits.values().any(|one| !one.is_proven)
    }

    /// Takes the place of the unproven visit that ends first, if all are taken.
    fn take_place(&mut self, now: Instant) {
        if self.visits.len() < self.config.max_visitors {
            return;
        }
        let unproven = self.visits.iter().filter(|(_, one)| !one.is_proven);
        let first = unproven.min_by_key(|(_, one)| (one.end.is_none(), one.end));
        if let Some(home_address) = first.map(|(home_address, _)| *home_address) {
            self.revoke(home_address, now);
        }
    }

    /// The oldest request gives way, first of the same link-layer address, and before those that
    /// their nodes have proven. A request that is not proven takes no place of one that is.
    fn make_room(&mut self, mac: Mac, is_proven: bool) -> Result<(), Code> {
        let is_of_mac = |one: &Pending| one.visitor.mac == mac;
        let is_full = self.pending.len() >= PENDING_MAX;
        let of_mac = self.pending.values().filter(|one| is_of_mac(one)).count();
        let is_greedy = of_mac >= PENDING_EACH_MAX;
        if !is_full && !is_greedy {
            return Ok(());
        }
        let candidates = self
            .pending
            .iter()
            .filter(|(_, one)| !is_greedy || is_of_mac(one));
        let first = candidates.min_by_key(|(_, one)| (one.is_proven, one.since));
        let first = first.filter(|(_, one)| is_proven || !one.is_proven);
        let key = first.map(|(key, _)| *key).ok_or(Code::ForeignResources)?;
        self.pending.remove(&key);
        Ok(())
    }

    /// The request as far as it is the home agent's, then our authenticator.
    fn relayed(&self, asked: &Asked<'_>, payload: &[u8], now: Instant) -> Vec<u8> {
        let request = &asked.request;
        let mut w = Writer::new();
        w.bytes(&payload[..asked.relayed_end]);
        // RFC 5944 §3.8.2.2: none for a care-of address that is not ours.
        let is_ours = request.care_of_address == self.config.care_of;
        let shared = self.config.home_agents.get(&request.home_agent);
        // RFC 3519 §4.5: a co-located node asks for its own tunnel.
        let is_end = is_ours && !request.flags.has(RequestFlags::DECAPSULATES);
        if is_end && request.lifetime > 0 && self.config.udp != UdpWish::Never {
            Extension::UdpTunnelRequest(UdpTunnelRequest {
                is_forced: self.config.udp == UdpWish::Always,
                is_through_foreign_agent: false,
                encapsulation: 0,
            })
            .write(&mut w);
        }
        if let Some(shared) = shared.filter(|_| is_ours && request.lifetime > 0) {
            if let Some(support) = self.support(now) {
                support.write(&mut w);
            }
            shared.first().sign(Authentication::ForeignHome, &mut w);
        }
        w.into_vec()
    }

    /// A reply from a home agent.
    pub(super) fn relay_reply(&mut self, it: Datagram<'_>, now: Instant) -> Result<(), Refusal> {
        let (message, at) = Message::parse(it.payload).map_err(|_| Refusal::Malformed)?;
        let Message::Reply(reply) = message else {
            return Err(Refusal::NotForUs);
        };
        let list = extensions(it.payload, at).map_err(|_| Refusal::Malformed)?;
        let key = self
            .waiting(&reply, *it.from.ip())
            .ok_or(Refusal::Unexpected)?;
        let is_home = |one: &Located| one.between() == Some(Authentication::MobileHome);
        let Some(end) = list
            .iter()
            .find(|one| is_home(one))
            .map(|one| one.range.end)
        else {
            return Err(Refusal::Unexpected);
        };
        let mut pending = self.pending.remove(&key).expect("it waits");
        let is_ours = pending.request.care_of_address == self.config.care_of;
        let shared = self.config.home_agents.get(&pending.request.home_agent);
        let mut agreement = None;
        if let Some(shared) = shared.filter(|_| is_ours && pending.request.lifetime > 0) {
            let of = |one: &&Located| one.between() == Some(Authentication::ForeignHome);
            let mut own = list.iter().filter(of);
            let is_right = match (own.next(), own.next()) {
                (Some(one), None) => shared.proven(it.payload, one).is_some(),
                _ => false,
            };
            if !is_right {
                let code = Code::ForeignHomeAuthentication;
                self.deny(&pending.request, code, pending.visitor.mac, pending.port);
                return Err(Refusal::Denied(code));
            }
            agreement = self.agreed(&list, pending.since);
        }
        if let Some(granted) = self.granted_udp(&list).filter(|_| is_ours) {
            let home_agent = pending.request.home_agent;
            pending.visitor.udp = Some(SocketAddrV4::new(home_agent, PORT));
            pending.visitor.keepalive = keepalive(granted.keepalive);
        }
        if let Err(code) = self.update(&pending, &reply, agreement, now) {
            self.deny(&pending.request, code, pending.visitor.mac, pending.port);
            return Err(Refusal::Denied(code));
        }
        let mut w = Writer::new();
        w.bytes(&it.payload[..end]);
        if let Some(challenge) = pending.challenge.filter(|_| reply.code.is_accepted()) {
            let next = self.advertiser.used(reply.home_address, &challenge);
            Extension::Challenge(next).write(&mut w);
        }
        self.reply(w, reply.home_address, pending.visitor.mac, pending.port);
        Ok(())
    }

    /// The home agent's answer to our wish for a tunnel in UDP: it stands behind its authenticator
    /// for the node and before the one for us.
    fn granted_udp(&self, list: &[Located]) -> Option<UdpTunnelReply> {
        let is = |one: &Located, between| one.between() == Some(between);
        let behind = list
            .iter()
            .skip_while(|one| !is(one, Authentication::MobileHome))
            .take_while(|one| !is(one, Authentication::ForeignHome));
        let mut answers = behind.filter_map(|one| match one.extension {
            Extension::UdpTunnelReply(reply) => Some(reply),
            _ => None,
        });
        answers
            .next()
            .filter(|it| it.is_granted() && self.config.udp != UdpWish::Never)
    }

    /// The request that a reply answers: one of its home address or, if the node had none, one
    /// without.
    fn waiting(&self, reply: &Reply, from: Ipv4Addr) -> Option<Key> {
        let homes = [reply.home_address, Ipv4Addr::UNSPECIFIED].into_iter();
        homes
            .map(|home| key(home, reply.identification))
            .find(|key| {
                let pending = self.pending.get(key);
                pending.is_some_and(|one| one.request.home_agent == from)
            })
    }

    /// The visitor list after a reply (RFC 5944 §3.7.3.2). A reply may name the home address of a
    /// node that had none, but not that of another visitor, of a node with an association, or ours.
    fn update(
        &mut self,
        pending: &Pending,
        reply: &Reply,
        revocation: Option<Agreement>,
        now: Instant,
    ) -> Result<(), Code> {
        let home_address = reply.home_address;
        let is_named = pending.request.home_address.is_unspecified();
        let is_protected = self.has_key_of(home_address);
        let is_unfit = !check::is_host(home_address) || self.is_taken(home_address);
        if is_named && (is_protected || is_unfit) {
            return Err(Code::ForeignBadReply);
        }
        let visit = self.visits.get(&home_address);
        let (request, mac) = (&pending.request, pending.visitor.mac);
        let is_provable = self.is_provable(request);
        if visit.is_some_and(|one| one.forbids(request, mac, is_provable)) {
            return Err(Code::ForeignProhibited);
        }
        if !reply.code.is_accepted() {
            return Ok(());
        }
        if reply.lifetime == 0 || pending.request.lifetime == 0 {
            self.leave(home_address);
            return Ok(());
        }
        if pending.request.care_of_address != self.config.care_of {
            return Ok(());
        }
        // This host may have got the address since the request.
        if self.is_taken(home_address) {
            return Err(Code::ForeignProhibited);
        }
        if visit.is_none() {
            if !self.has_place(is_provable) {
                return Err(Code::ForeignResources);
            }
            self.take_place(now);
        }
        let lifetime = reply.lifetime.min(self.config.max_lifetime);
        let end = (lifetime != INFINITE).then(|| now + Duration::from_secs(lifetime.into()));
        let visitor = Visitor {
            home_address,
            ..pending.visitor
        };
        let identification = pending.request.identification as u32;
        let visit = Visit {
            visitor,
            end,
            is_proven: is_provable,
            identification,
            revocation,
        };
        self.revocations.cancel((home_address, visitor.home_agent));
        self.visits.insert(home_address, visit);
        self.outputs.push_back(Output::Came(visitor));
        Ok(())
    }

    /// Denies what waits for a home agent.
    pub(super) fn deny_all(&mut self, home_agent: Ipv4Addr, code: Code) {
        let is_of = |one: &Pending| one.request.home_agent == home_agent;
        let waiting: Vec<(Request, Mac, u16)> = self
            .pending
            .values()
            .filter(|one| is_of(one))
            .map(|one| (one.request, one.visitor.mac, one.port))
            .collect();
        self.pending.retain(|_, one| !is_of(one));
        for (request, mac, port) in waiting {
            self.deny(&request, code, mac, port);
        }
    }

    fn deny(&mut self, request: &Request, code: Code, mac: Mac, port: u16) {
        let lifetime = match code {
            Code::LifetimeTooLong => self.config.max_lifetime,
            _ => request.lifetime,
        };
        let mut w = Writer::new();
        Reply {
            code,
            lifetime,
            home_address: request.home_address,
            home_agent: request.home_agent,
            identification: request.identification,
        }
        .write(&mut w);
        self.reply(w, request.home_address, mac, port);
    }

    fn reply(&mut self, mut w: Writer, home_address: Ipv4Addr, mac: Mac, port: u16) {
        if let Some(shared) = self.config.mobile_nodes.get(&home_address) {
            shared.first().sign(Authentication::MobileForeign, &mut w);
        }
        let to = match home_address.is_unspecified() {
            true => Ipv4Addr::BROADCAST,
            false => home_address,
        };
        self.outputs.push_back(Output::Reply {
            mac,
            to: SocketAddrV4::new(to, port),
            payload: w.into_vec(),
        });
    }
}

/// RFC 3543 §4.2.1: a node that is not co-located must not support revocation.
fn is_unexpected(asked: &Asked<'_>) -> bool {
    let is_colocated = asked.request.flags.has(RequestFlags::DECAPSULATES);
    asked.supports_revocation && !is_colocated
}

/// A relayed request: the home address in it, and the low half of its identification.
pub(super) type Key = (Ipv4Addr, u32);

fn key(home_address: Ipv4Addr, identification: u64) -> Key {
    (home_address, identification as u32)
}

/// A home agent answers sooner than this, or not. RFC 5944 §3.7.2.2 allows the whole lifetime.
const PENDING_SPAN_MAX: Duration = Duration::from_secs(120);
