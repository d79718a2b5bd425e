//! One registration, from datagram to reply (RFC 5944 §3.8.2, §3.8.3).

use std::net::{Ipv4Addr, SocketAddrV4};

use wire::codec::Writer;
use wire::mip4::{
    Authentication, Code, Extension, INFINITE, Reply, Request, RequestFlags, UdpTunnelReply,
    UdpTunnelRequest,
};

use super::bindings::Binding;
use super::check::{self, Asked, Refusal};
use super::quota::Freshness;
use super::{Change, Datagram, HomeAgent, Output};
use crate::mip4::association::Associations;
use crate::mip4::firewall::Outside;
use crate::mip4::identification::{TOLERANCE, Verdict};
use crate::mip4::revocation::{self, Agreement};
use crate::mip4::tunnel::Tunnel;
use crate::sa::Encapsulation;
use crate::time::{Duration, Instant};

/// A UDP tunnel is declined, reason unspecified (RFC 3519 §3.2.1).
const DECLINED: u8 = 64;

/// The firewall that a request names is not one of ours.
const UNTRUSTED: Code = Code::HomeProhibited;

/// A message that was not served, and whose it says it is.
pub(super) struct Denied {
    pub(super) home_address: Option<Ipv4Addr>,
    pub(super) why: Refusal,
}

/// What a reply says.
struct Answer {
    /// What is known of the request.
    freshness: Freshness,
    code: Code,
    lifetime: u16,
    identification: u64,
    udp: Option<UdpAnswer>,
    /// What is agreed on about revocation.
    revocation: Option<Agreement>,
}

/// What a request gets that can be granted.
struct Grant {
    tunnel: Tunnel,
    udp: Option<UdpAnswer>,
    revocation: Option<Agreement>,
}

/// The answer to a request for a UDP tunnel.
#[derive(Clone, Copy)]
pub(super) struct UdpAnswer {
    reply: UdpTunnelReply,
    /// Whether the foreign agent has asked, not the mobile node.
    is_for_agent: bool,
}

/// A request for a UDP tunnel: who asks, and from where.
struct UdpAsked {
    request: UdpTunnelRequest,
    is_from_agent: bool,
    from: SocketAddrV4,
}

impl HomeAgent {
    /// Serves a request, or says why not. Whoever may be answered, is.
    pub(super) fn register(&mut self, it: Datagram<'_>, now: Instant) -> Result<(), Denied> {
        let (request, list) = check::read(it.payload).map_err(|why| Denied {
            home_address: None,
            why,
        })?;
        let denied = |why| Denied {
            home_address: Some(request.home_address),
            why,
        };
        if !self.hears(*it.from.ip()) {
            return Err(denied(Refusal::UntrustedNetwork));
        }
        let asked = Asked::sort(request, &list).map_err(denied)?;
        let home_address = self.home_address(&asked);
        let home_address = home_address.ok_or_else(|| denied(Refusal::UnknownNode))?;
        let agent = self.agent_of(&request, *it.from.ip());
        let foreign = asked.check_foreign(it.payload, agent);
        if foreign == Err(Refusal::UnexpectedForeignAuthenticator) {
            return Err(denied(Refusal::UnexpectedForeignAuthenticator));
        }
        let asked = Asked {
            request: Request {
                home_address,
                ..request
            },
            ..asked
        };
        let is_proven = foreign.is_ok();
        let is_copied = self.is_copied(&asked.request, it.from);
        let answer = self.answer(&asked, it, is_proven, now);
        let (spi, answer) = answer.map_err(|code| Denied {
            home_address: Some(home_address),
            why: Refusal::Denied(code),
        })?;
        let node = self.nodes.get_mut(&home_address).expect("a node of ours");
        let identification = asked.request.identification;
        if node.quota.spend(answer.freshness, identification, now) {
            self.send(&asked, it, (spi, &answer), now);
        }
        let why = match (answer.code, asked.firewall(&self.config)) {
            (code, _) if code.is_accepted() => return Ok(()),
            (Code::IdentificationMismatch, _) if is_copied => Refusal::CopiedRequest,
            (UNTRUSTED, Err(untrusted)) => untrusted,
            (code, _) => Refusal::Denied(code),
        };
        Err(Denied {
            home_address: Some(home_address),
            why,
        })
    }

    /// The association of the foreign agent that a request came through. Nothing proves its source,
    /// so the care-of address in it counts, too: who repeats a request from elsewhere must not get
    /// rid of the agent's authenticator.
    fn agent_of(&self, request: &Request, from: Ipv4Addr) -> Option<&Associations> {
        let agents = &self.config.foreign_agents;
        let is_colocated = request.flags.has(RequestFlags::DECAPSULATES);
        let of_care_of = || {
            agents
                .get(&request.care_of_address)
                .filter(|_| !is_colocated)
        };
        agents.get(&from).or_else(of_care_of)
    }

    /// Whose request it is. A request without home address names the node by NAI (RFC 2794 §3).
    fn home_address(&self, asked: &Asked<'_>) -> Option<Ipv4Addr> {
        let named = asked.nai.and_then(|nai| self.by_nai.get(nai)).copied();
        let said = asked.request.home_address;
        match (said.is_unspecified(), asked.nai) {
            (true, _) => named,
            (false, Some(_)) if named != Some(said) => None,
            (false, _) => self.nodes.contains_key(&said).then_some(said),
        }
    }

    /// Decides, and changes the bindings. Returns the SPI for the reply, too. Err: there is none,
    /// only a reason.
    fn answer(
        &mut self,
        asked: &Asked<'_>,
        it: Datagram<'_>,
        is_agent_proven: bool,
        now: Instant,
    ) -> Result<(u32, Answer), Code> {
        let request = &asked.request;
        let deny = |freshness, code, identification| Answer {
            freshness,
            code,
            lifetime: request.lifetime,
            identification,
            udp: None,
            revocation: None,
        };
        let ntp = self.clock.ntp(now);
        let home_address = request.home_address;
        // Whoever hears a request may send a copy from elsewhere, first. It changes nothing, and
        // gets no authentic denial, which the node would take for the answer to its own.
        let is_answered = self.is_place_of(request, *it.from.ip());
        let node = self.nodes.get_mut(&home_address).expect("a node of ours");
        let proven = node.associations.proven(it.payload, asked.authenticator);
        let Some(association) = proven else {
            let code = Code::HomeMobileAuthentication;
            if !is_answered {
                return Err(code);
            }
            // The preferred association is the one that the node most likely has.
            let spi = node.associations.first().spi();
            let answer = deny(Freshness::Unproven, code, request.identification);
            return Ok((spi, answer));
        };
        let spi = association.spi();
        let stale = |identification| {
            let code = Code::IdentificationMismatch;
            deny(Freshness::Stale, code, identification)
        };
        let guard = node.guards.get_mut(&spi).expect("one for each association");
        let mismatch = guard.mismatch(request.identification, ntp);
        let reply = match guard.judge(request.identification, ntp, &mut self.random) {
            Verdict::Fresh(reply) => reply,
            Verdict::Mismatch(reply) => return Ok((spi, stale(reply))),
            Verdict::Repeated(reply) => {
                let answer = self.answer_again(request, it.from, (spi, reply), now);
                return Ok((spi, answer.unwrap_or(stale(mismatch))));
            }
        };
        let deliverer = match is_agent_proven {
            true => self.check_source(asked, *it.from.ip()),
            false => Err(Code::HomeForeignAuthentication),
        };
        if let Err(code) = deliverer {
            return match is_answered {
                true => Ok((spi, deny(Freshness::Stale, code, reply))),
                false => Err(code),
            };
        }
        let answer = self.accept(asked, it, reply, now);
        let answer = answer.unwrap_or_else(|code| deny(Freshness::Fresh, code, reply));
        let node = self.nodes.get_mut(&home_address).expect("a node of ours");
        let guard = node.guards.get_mut(&spi).expect("one for each association");
        guard.accept(request.identification, reply);
        node.answers.insert(spi, (answer.code, answer.udp));
        Ok((spi, answer))
    }

    /// Does what an authentic request asks, if it may.
    fn accept(
        &mut self,
        asked: &Asked<'_>,
        it: Datagram<'_>,
        identification: u64,
        now: Instant,
    ) -> Result<Answer, Code> {
        let grant = self.grant(asked, it, now)?;
        let lifetime = asked.request.lifetime.min(self.config.max_lifetime);
        self.change(&asked.request, &grant, it.from, lifetime, now);
        Ok(Answer {
            freshness: Freshness::Fresh,
            code: self.accepted(),
            lifetime,
            identification,
            udp: grant.udp,
            revocation: grant.revocation,
        })
    }

    /// The answer to the last request of an association, which was repeated. None if what it was
    /// granted has ended, or led to another place than this one.
    fn answer_again(
        &mut self,
        request: &Request,
        from: SocketAddrV4,
        (spi, identification): (u32, u64),
        now: Instant,
    ) -> Option<Answer> {
        if self.is_copied(request, from) {
            self.end_copied(request, now);
            return None;
        }
        let (code, udp) = *self.nodes.get(&request.home_address)?.answers.get(&spi)?;
        let lifetime = match code.is_accepted() {
            true => self.remaining(request, now)?,
            false => request.lifetime,
        };
        let node = self.nodes.get(&request.home_address)?;
        let binding = node.bindings.of(request.care_of_address);
        Some(Answer {
            freshness: Freshness::Stale,
            code,
            lifetime,
            identification,
            udp,
            revocation: binding
                .filter(|_| code.is_accepted() && lifetime > 0)
                .and_then(|it| it.revocation),
        })
    }

    /// Whether a repeated request has brought its node a tunnel in UDP to somewhere else. Whoever
    /// hears a request may send a copy first, and nothing proves the address and port of either.
    fn is_copied(&self, request: &Request, from: SocketAddrV4) -> bool {
        let node = self.nodes.get(&request.home_address);
        let binding = node.and_then(|node| node.bindings.of(request.care_of_address));
        binding.is_some_and(|it| {
            it.identification == request.identification
                && it.tunnel.udp.is_some()
                && it.source != from
        })
    }

    /// Ends a binding whose request has come from two places at about the same time: one of them
    /// is not its node's. A copy that comes later ends nothing: the node had its answer before.
    fn end_copied(&mut self, request: &Request, now: Instant) {
        let home_address = request.home_address;
        let care_of = request.care_of_address;
        let node = self.nodes.get_mut(&home_address).expect("a node of ours");
        let accepted = node.bindings.of(care_of).map(|it| it.accepted);
        if accepted.is_none_or(|accepted| now.since(accepted) >= TOLERANCE) {
            return;
        }
        node.bindings.unbind(Some(care_of));
        let tunnels = node.bindings.tunnels();
        self.put(Output::Tunnels {
            home_address,
            tunnels,
            why: Change::Copied,
        });
    }

    /// Code 1 says that we keep one binding only.
    fn accepted(&self) -> Code {
        match self.config.max_bindings {
            0 | 1 => Code::AcceptedWithoutSimultaneous,
            _ => Code::Accepted,
        }
    }

    /// Seconds left of what a repeated request was granted. None if that has ended.
    fn remaining(&self, request: &Request, now: Instant) -> Option<u16> {
        if request.lifetime == 0 {
            return Some(0);
        }
        let bindings = &self.nodes.get(&request.home_address)?.bindings;
        let binding = bindings.of(request.care_of_address)?;
        let is_this = binding.identification == request.identification;
        let left = |end: Instant| end.since(now).as_secs() as u16;
        is_this.then(|| binding.end.map_or(INFINITE, left))
    }

    /// What an authentic and new request gets.
    fn grant(&self, asked: &Asked<'_>, it: Datagram<'_>, now: Instant) -> Result<Grant, Code> {
        let request = &asked.request;
        let ours = self.config.address;
        if request.home_agent != ours || *it.to.ip() != ours {
            return Err(Code::UnknownHomeAgent);
        }
        let node = &self.nodes[&request.home_address];
        asked.check_aaa(it.payload, node.aaa.as_ref())?;
        let encapsulation = check::grantable(&self.config, request)?;
        let care_of = request.care_of_address;
        // Packets to the home address of a node would come back to us, and so to its care-of
        // address.
        let is_ours = self.nodes.contains_key(&care_of) || self.reserved.contains(&care_of);
        if request.lifetime > 0 && is_ours {
            return Err(Code::HomeBadRequest);
        }
        let is_colocated = request.flags.has(RequestFlags::DECAPSULATES);
        let named = asked.firewall(&self.config).map_err(|_| UNTRUSTED)?;
        let tunnel = Tunnel {
            care_of,
            encapsulation,
            udp: None,
            firewall: named.or_else(|| Outside::firewall(&self.config.outside, care_of)),
            is_reverse: request.flags.has(RequestFlags::REVERSE_TUNNEL),
            has_broadcasts: request.flags.has(RequestFlags::BROADCASTS),
            is_colocated,
        };
        let mut grant = Grant {
            tunnel,
            udp: None,
            revocation: None,
        };
        if request.lifetime == 0 {
            return Ok(grant);
        }
        let is_simultaneous = request.flags.has(RequestFlags::SIMULTANEOUS);
        let limit = self.config.max_bindings.max(1);
        if is_simultaneous && limit > 1 && node.bindings.count_with(tunnel.care_of) > limit {
            return Err(Code::TooManyBindings);
        }
        let from_node = asked.udp.map(|request| (request, false));
        let from_agent = asked.foreign_udp.map(|request| (request, true));
        if let Some((request, is_from_agent)) = from_node.or(from_agent) {
            let wish = UdpAsked {
                request,
                is_from_agent,
                from: it.from,
            };
            let keepalive = self.config.udp_keepalive;
            // Such a tunnel leads to wherever the request came from, in clear, past the firewalls.
            let has_outside = asked.is_from_inside(&self.config) || asked.firewall.is_some();
            let keepalive = keepalive.filter(|_| !has_outside);
            let reply = self.udp_tunnel(&wish, keepalive, &mut grant.tunnel)?;
            grant.udp = Some(UdpAnswer {
                reply,
                is_for_agent: is_from_agent,
            });
        }
        grant.revocation = self.agree(asked, &grant.tunnel, *it.from.ip(), now);
        Ok(grant)
    }

    /// Decides on a UDP tunnel (RFC 3519 §4.6, §4.7) and puts it into `tunnel`. Without seconds
    /// between keepalives there is none.
    fn udp_tunnel(
        &self,
        wish: &UdpAsked,
        keepalive: Option<u16>,
        tunnel: &mut Tunnel,
    ) -> Result<UdpTunnelReply, Code> {
        let asked = &wish.request;
        // The node asks for a tunnel to itself, an agent for one to the agent.
        if tunnel.is_colocated == wish.is_from_agent {
            return Err(Code::HomeBadRequest);
        }
        let declined = UdpTunnelReply {
            code: DECLINED,
            is_forced: false,
            keepalive: 0,
        };
        let Some(keepalive) = keepalive else {
            return match asked.is_forced {
                true => Err(Code::HomeProhibited),
                false => Ok(declined),
            };
        };
        let is_natted = *wish.from.ip() != tunnel.care_of;
        if asked.is_forced && !is_natted && !self.config.allows_forced_udp {
            return Err(Code::HomeProhibited);
        }
        // A foreign agent of ours whose address we see is behind no NAT, nor are its visitors.
        let is_through_agent = asked.is_through_foreign_agent;
        let is_seen = is_through_agent && self.config.foreign_agents.contains_key(wish.from.ip());
        if is_seen || !is_natted && !asked.is_forced {
            return Ok(declined);
        }
        let wanted = match asked.encapsulation {
            0 => Some(tunnel.encapsulation),
            protocol => Encapsulation::of(protocol),
        };
        let offered = &self.config.encapsulations;
        let is_offered = |it: &Encapsulation| *it == Encapsulation::IpInIp || offered.contains(it);
        tunnel.encapsulation = wanted
            .filter(is_offered)
            .ok_or(Code::HomeUdpEncapsulation)?;
        // The port is that of the foreign agent. The node's own comes with its first keepalive.
        tunnel.udp = Some(match is_through_agent {
            true => SocketAddrV4::new(*wish.from.ip(), 0),
            false => wish.from,
        });
        Ok(UdpTunnelReply {
            code: 0,
            is_forced: asked.is_forced && !is_natted,
            keepalive,
        })
    }

    /// Changes the bindings as an accepted request says (RFC 5944 §3.8.2.2).
    fn change(
        &mut self,
        request: &Request,
        grant: &Grant,
        source: SocketAddrV4,
        lifetime: u16,
        now: Instant,
    ) {
        let home_address = request.home_address;
        let care_of = request.care_of_address;
        let node = self.nodes.get_mut(&home_address).expect("a node of ours");
        let (ended, why) = if request.lifetime == 0 {
            let is_all = care_of == home_address;
            let ended = node.bindings.unbind((!is_all).then_some(care_of));
            if ended.is_empty() {
                return;
            }
            (ended, Change::Deregistered)
        } else {
            let span = Duration::from_secs(lifetime.into());
            let binding = Binding {
                tunnel: grant.tunnel,
                identification: request.identification,
                accepted: now,
                end: (lifetime != INFINITE).then(|| now + span),
                source,
                revocation: grant.revocation,
            };
            let is_simultaneous = request.flags.has(RequestFlags::SIMULTANEOUS);
            let keeps_others = is_simultaneous && self.config.max_bindings > 1;
            let ended = node.bindings.bind(binding, keeps_others);
            self.first_end = [self.first_end, binding.end].into_iter().flatten().min();
            self.revocations.cancel((home_address, care_of));
            (ended, Change::Registered)
        };
        let tunnels = node.bindings.tunnels();
        self.release(home_address, &ended, *source.ip(), now);
        self.put(Output::Tunnels {
            home_address,
            tunnels,
            why,
        });
    }

    /// Sends the reply to where the request came from (RFC 5944 §3.8.3).
    fn send(
        &mut self,
        asked: &Asked<'_>,
        it: Datagram<'_>,
        (spi, answer): (u32, &Answer),
        now: Instant,
    ) {
        let request = &asked.request;
        let home_address = request.home_address;
        let mut w = Writer::new();
        Reply {
            code: answer.code,
            lifetime: answer.lifetime,
            home_address,
            home_agent: self.config.address,
            identification: answer.identification,
        }
        .write(&mut w);
        if let Some(nai) = asked.nai {
            Extension::Nai(nai.to_vec()).write(&mut w);
        }
        let udp = |is_for_agent: bool, w: &mut Writer| {
            let udp = answer.udp.filter(|it| it.is_for_agent == is_for_agent);
            if let Some(udp) = udp {
                Extension::UdpTunnelReply(udp.reply).write(w);
            }
        };
        udp(false, &mut w);
        let is_agents = !request.flags.has(RequestFlags::DECAPSULATES);
        let support = answer.revocation.map(|it| Extension::RevocationSupport {
            informs: it.has_inform,
            timestamp: revocation::timestamp(self.clock, now),
        });
        if let Some(support) = support.as_ref().filter(|_| !is_agents) {
            support.write(&mut w);
        }
        if self.proves_inside(request, *it.from.ip()) {
            Extension::TrustedNetworks.write(&mut w);
        }
        let association = self.nodes[&home_address].associations.get(spi);
        let association = association.expect("an association of this node");
        association.sign(Authentication::MobileHome, &mut w);
        // RFC 4721 §3.4: the foreign agent takes it out again.
        if let Some(challenge) = asked.challenge {
            Extension::Challenge(challenge.to_vec()).write(&mut w);
        }
        udp(true, &mut w);
        if let Some(support) = support.filter(|_| is_agents) {
            support.write(&mut w);
        }
        if let Some(agent) = self.agent_of(request, *it.from.ip()) {
            let used = asked.foreign.iter().find_map(|one| agent.used(one));
            let used = used.unwrap_or_else(|| agent.first());
            used.sign(Authentication::ForeignHome, &mut w);
        }
        let from = SocketAddrV4::new(self.config.address, it.to.port());
        // What is not authentic says nothing about firewalls.
        let is_authentic = answer.code != Code::HomeMobileAuthentication;
        let named = asked.firewall(&self.config).ok().flatten();
        let named = named.filter(|_| is_authentic);
        let outside = &self.config.outside;
        let is_end_of_all = request.lifetime == 0 && request.care_of_address == home_address;
        self.put(Output::Send {
            from,
            to: it.from,
            is_at_home: is_end_of_all && *it.from.ip() == home_address,
            firewall: named.or_else(|| Outside::firewall(outside, *it.from.ip())),
            payload: w.into_vec(),
        });
    }
}
