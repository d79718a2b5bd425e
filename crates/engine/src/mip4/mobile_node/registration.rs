//! Requests of a mobile node, and the replies to them (RFC 5944 §3.6).

use std::net::{Ipv4Addr, SocketAddrV4};

use wire::codec::Writer;
use wire::mip4::{
    AgentFlags, Authentication, Code, Extension, INFINITE, Located, Message, PORT, Reply, Request,
    RequestFlags, UdpTunnelReply, UdpTunnelRequest, extensions,
};

use super::agents::Solicitations;
use super::{Attachment, INTERVAL_MIN, MobileNode, Output, State};
use crate::mip4::association::ReplayProtection;
use crate::mip4::identification::answers;
use crate::mip4::tunnel::{Tunnel, UdpWish, keepalive};
use crate::sa::Encapsulation;
use crate::time::{Duration, Instant};

/// The longest time between two repetitions.
const INTERVAL_MAX: Duration = Duration::from_secs(64);

/// An agent is given up where another one is there when a repetition has waited so long: the third
/// request.
const PATIENCE: Duration = Duration::from_secs(4);

/// A request that waits for its reply.
pub(super) struct Pending {
    pub(super) request: Request,
    /// It asks only whether the node is inside.
    is_question: bool,
    /// That the request names.
    firewall: Option<Ipv4Addr>,
    /// As it was sent.
    payload: Vec<u8>,
    /// What the home agent or a foreign agent has denied it with.
    denied: Option<Code>,
    sent: Instant,
    interval: Duration,
    pub(super) due: Instant,
}

impl Pending {
    /// Whether a request is on its way, and was not denied.
    pub(super) fn is_asked(&self) -> bool {
        self.denied.is_none()
    }

    /// When a registration of this span is renewed, and when it ends (RFC 5944 §3.6.2.2).
    fn renewed(&self, span: Duration) -> (Instant, Instant) {
        let early = (span * 3 / 4).max(INTERVAL_MIN);
        (self.sent + early, self.sent + span)
    }

    /// One that was sent, and is to be accepted.
    pub(super) fn of(request: Request, sent: Instant) -> Self {
        Self {
            request,
            is_question: false,
            firewall: None,
            payload: Vec::new(),
            denied: None,
            sent,
            interval: INTERVAL_MIN,
            due: sent,
        }
    }

    /// Whether a reply may be the answer. A denial is not the last word: whoever hears a request
    /// can send a copy first, or one with a wrong authenticator, and pass its denial on.
    fn awaits(&self, code: Code) -> bool {
        match self.denied {
            None => true,
            Some(UNPROVEN) => code != UNPROVEN,
            Some(_) => code.is_accepted(),
        }
    }
}

/// Nobody has proven to have written the request. So the denial is about no request of ours, or our
/// key is wrong.
const UNPROVEN: Code = Code::HomeMobileAuthentication;

impl MobileNode {
    /// Asks for what the node's attachment needs.
    pub(super) fn register(&mut self, now: Instant) {
        self.ask(INTERVAL_MIN, now);
    }

    /// A UDP payload from port 434.
    pub fn handle(&mut self, from: SocketAddrV4, payload: &[u8], now: Instant) {
        let (reply, at) = match Message::parse(payload) {
            Ok((Message::Reply(reply), at)) => (reply, at),
            Ok((Message::Revocation(it), at)) => {
                self.hear_revocation(&it, at, from, payload, now);
                return;
            }
            _ => {
                self.ignored.malformed += 1;
                return;
            }
        };
        let Ok(list) = extensions(payload, at) else {
            self.ignored.malformed += 1;
            return;
        };
        if self.is_answer_in_clear(&reply, *from.ip()) {
            self.hear_in_clear(&reply, payload, &list, now);
            return;
        }
        let is_expected = self.pending.as_ref().is_some_and(|pending| {
            let is_its = self.is_reply_to(&pending.request, &reply);
            pending.awaits(reply.code) && is_its && *from.ip() == self.target()
        });
        if !is_expected {
            self.ignored.unexpected += 1;
            return;
        }
        if !self.is_authentic(&reply, payload, &list) {
            self.ignored.unauthenticated += 1;
            return;
        }
        // What nobody asked for would lead data around the firewall.
        if granted_udp(&list).is_some() && !self.wants_udp() {
            self.ignored.unexpected += 1;
            return;
        }
        self.learn(&reply, &list, now);
    }

    /// The unanswered request once more: a new one with timestamps, the same with nonces (RFC 5944
    /// §3.6.3).
    pub(super) fn repeat(&mut self, now: Instant) {
        if self.give_agent_up(now) {
            return;
        }
        let Some(pending) = &mut self.pending else {
            return;
        };
        let interval = (pending.interval * 2).min(INTERVAL_MAX);
        let is_same = self.config.associations.first().replay() == ReplayProtection::Nonces;
        // After a denial, the same request would be denied again.
        if is_same && pending.is_asked() {
            pending.interval = interval;
            pending.due = now + interval;
            let payload = pending.payload.clone();
            self.send(payload);
        } else {
            self.ask(interval, now);
        }
    }

    /// Through an agent that lets nothing come back, another one is tried, if one is there, or the
    /// home agent itself. Anybody on the link can advertise. Whether somebody is.
    pub(super) fn give_agent_up(&mut self, now: Instant) -> bool {
        let is_long = |pending: &Pending| {
            let is_third = pending.is_asked() && pending.interval >= PATIENCE;
            is_third && pending.sent + PATIENCE <= now
        };
        let (Some(silent), true) = (
            self.through.filter(|_| !self.is_leaving),
            self.pending.as_ref().is_some_and(is_long),
        ) else {
            return false;
        };
        if matches!(self.state, State::Registered { through, .. } if through == Some(silent)) {
            return false;
        }
        self.agents.doubt(silent, now);
        let other = self.agents.best(now).filter(|other| *other != silent);
        let is_colocated = matches!(self.attachment, Attachment::Colocated(_));
        if other.is_some() || is_colocated {
            self.through = other;
            self.solicitations = None;
            self.register(now);
            return true;
        }
        if self.solicitations.is_none() {
            self.solicitations = Some(Solicitations::new(now, &mut self.random));
        }
        false
    }

    /// Whether a reply names the request. An accepted one gets its own time. Of another one, the
    /// fraction of a second is left: replies of years would have many of them.
    pub(super) fn is_reply_to(&self, request: &Request, reply: &Reply) -> bool {
        let has_time = self.config.associations.first().replay() == ReplayProtection::Timestamps;
        let is_its = match has_time && reply.code.is_accepted() {
            true => request.identification == reply.identification,
            false => answers(request.identification, reply.identification),
        };
        is_its && request.home_address == reply.home_address
    }

    fn ask(&mut self, interval: Duration, now: Instant) {
        let is_question = self.must_ask_first();
        let request = match is_question {
            true => self.question(now),
            false => self.request(now),
        };
        if let Some(request) = request {
            self.ask_for(request, is_question, interval, now);
        }
    }

    fn ask_for(&mut self, request: Request, is_question: bool, interval: Duration, now: Instant) {
        let payload = self.signed(&request, now);
        self.asked = Some(now);
        self.send(payload.clone());
        self.pending = Some(Pending {
            request,
            is_question,
            firewall: self.firewall(),
            payload,
            denied: None,
            sent: now,
            interval,
            due: now + interval,
        });
    }

    pub(super) fn request(&mut self, now: Instant) -> Option<Request> {
        let config = &self.config;
        let mut flags = 0;
        let wishes = [
            (config.wants_broadcasts, RequestFlags::BROADCASTS),
            (config.is_simultaneous, RequestFlags::SIMULTANEOUS),
            (config.is_reverse, RequestFlags::REVERSE_TUNNEL),
            (
                config.encapsulation == Encapsulation::Minimal,
                RequestFlags::MINIMAL,
            ),
            (
                config.encapsulation == Encapsulation::Gre,
                RequestFlags::GRE,
            ),
        ];
        for (_, flag) in wishes.iter().filter(|(is_wanted, _)| *is_wanted) {
            flags |= flag;
        }
        let agent = self.through.and_then(|it| self.agents.get(it));
        let (care_of, lifetime) = match (self.attachment, agent) {
            (Attachment::Home, _) => {
                flags = 0;
                (config.home_address, 0)
            }
            (Attachment::Colocated(address) | Attachment::Secured(address), _) => {
                flags |= RequestFlags::DECAPSULATES;
                (address, config.lifetime)
            }
            (Attachment::Visiting, Some(agent)) => (agent.care_of, config.lifetime),
            (Attachment::Visiting | Attachment::Detached, _) => return None,
        };
        // 0 would deregister.
        let longest = agent.map_or(INFINITE, |agent| agent.registration_lifetime.max(1));
        let (care_of, lifetime) = match (self.is_leaving, agent) {
            (false, _) => (care_of, lifetime),
            // RFC 5944 §3.8.2.2: the home address stands for all bindings.
            (true, None) => (config.home_address, 0),
            (true, Some(_)) => (care_of, 0),
        };
        let ntp = self.clock.ntp(now);
        Some(Request {
            flags: RequestFlags(flags),
            lifetime: lifetime.min(longest),
            home_address: config.home_address,
            home_agent: config.home_agent,
            care_of_address: care_of,
            identification: self.identifier.next(ntp, &mut self.random),
        })
    }

    /// The request with its extensions, in the order of RFC 5944 §3.6.1.3.
    pub(super) fn signed(&self, request: &Request, now: Instant) -> Vec<u8> {
        let config = &self.config;
        let agent = self.through.and_then(|it| self.agents.get(it));
        let mut w = Writer::new();
        request.write(&mut w);
        if let Some(nai) = &config.nai {
            Extension::Nai(nai.clone()).write(&mut w);
        }
        let is_colocated = request.flags.has(RequestFlags::DECAPSULATES);
        // RFC 3519 §4.4: not through an agent that does not offer it.
        let is_offered = agent.is_none_or(|it| it.flags.has(AgentFlags::UDP_TUNNEL));
        if self.wants_udp() && is_offered && is_colocated && request.lifetime > 0 {
            Extension::UdpTunnelRequest(UdpTunnelRequest {
                is_forced: config.udp == UdpWish::Always,
                is_through_foreign_agent: agent.is_some(),
                encapsulation: 0,
            })
            .write(&mut w);
        }
        if let Some(firewall) = self.firewall() {
            Extension::Traversal { firewall }.write(&mut w);
        }
        if let Some(support) = self.revocation_support(request, now) {
            support.write(&mut w);
        }
        let own = config.associations.first();
        own.sign(Authentication::MobileHome, &mut w);
        let shared = self.through.and_then(|it| config.foreign_agents.get(&it));
        // RFC 4721 §3.2: a challenge needs an authenticator for the agent behind it.
        let challenge = agent.and_then(|agent| agent.challenge.as_ref());
        let challenge = challenge.filter(|_| shared.is_some() || config.aaa.is_some());
        if let Some(challenge) = challenge {
            Extension::Challenge(challenge.clone()).write(&mut w);
        }
        match (&config.aaa, agent) {
            (Some(aaa), Some(_)) => aaa.sign(challenge.map(Vec::as_slice), &mut w),
            (Some(aaa), None) => aaa.sign_directly(&mut w),
            (None, _) => {}
        }
        // Behind what the home agent gets to see.
        if agent.is_some() && config.is_reverse && config.encapsulates_delivery {
            Extension::EncapsulatingDelivery.write(&mut w);
        }
        if let Some(shared) = shared {
            shared.first().sign(Authentication::MobileForeign, &mut w);
        }
        w.into_vec()
    }

    /// Whether the node may have a tunnel in UDP. It is in clear: outside it would lead past the
    /// firewall, and inside there is no NAT to cross, but there may be one who pretends it.
    fn wants_udp(&self) -> bool {
        let has_outside = self.config.firewall.is_some() || self.config.monitor.is_some();
        self.config.udp != UdpWish::Never && !has_outside
    }

    /// Where requests go now.
    fn target(&self) -> Ipv4Addr {
        self.through.unwrap_or(self.config.home_agent)
    }

    fn send(&mut self, payload: Vec<u8>) {
        let from = match self.attachment {
            Attachment::Colocated(address) | Attachment::Secured(address) => address,
            _ => self.config.home_address,
        };
        let is_on_link = self.through.is_some() && self.config.is_reverse;
        self.outputs.push_back(Output::Send {
            from,
            to: SocketAddrV4::new(self.target(), PORT),
            ttl: is_on_link.then_some(255),
            firewall: self.firewall(),
            payload,
        });
    }

    /// Whether a reply has the one authenticator that its code needs (RFC 5944 §3.6.2.1). A
    /// foreign agent that shares no association with us may deny without one.
    pub(super) fn is_authentic(&self, reply: &Reply, payload: &[u8], list: &[Located]) -> bool {
        let of = |between| {
            let mut found = list
                .iter()
                .filter(move |one| one.between() == Some(between));
            (found.next(), found.next().is_some())
        };
        if let Some(shared) = self
            .through
            .and_then(|it| self.config.foreign_agents.get(&it))
        {
            match of(Authentication::MobileForeign) {
                (Some(one), false) if shared.proven(payload, one).is_some() => {}
                _ => return false,
            }
        }
        if reply.code.is_from_foreign_agent() {
            return self.through.is_some();
        }
        match of(Authentication::MobileHome) {
            (Some(one), false) => self.config.associations.proven(payload, one).is_some(),
            _ => false,
        }
    }

    /// An authentic reply to the pending request.
    fn learn(&mut self, reply: &Reply, list: &[Located], now: Instant) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        let is_mismatch = reply.code == Code::IdentificationMismatch;
        // The identification in a reply to a request that is not proven may be anybody's.
        let teaches = !reply.code.is_from_foreign_agent() && reply.code != UNPROVEN;
        let is_corrected =
            teaches && self.identifier.learn(reply.identification, is_mismatch) && is_mismatch;
        // A registration without time is none, whatever the code says.
        let has_time = pending.request.lifetime == 0 || reply.lifetime > 0;
        if reply.code.is_accepted() && has_time && self.is_trusted(list) {
            match pending.is_question {
                true => self.register_inside(now),
                false => self.accept(&pending, reply, list),
            }
            return;
        }
        if self.is_leaving && !is_corrected {
            self.lose();
            return;
        }
        if reply.code.is_accepted() && has_time {
            self.ignored.untrusted += 1;
        }
        // A refused identification was corrected just now; other reasons need time, or somebody.
        let interval = match (is_mismatch, is_corrected) {
            (true, true) => INTERVAL_MIN,
            (true, false) => pending.interval,
            (false, _) => (pending.interval * 2).min(INTERVAL_MAX),
        };
        if !is_mismatch || interval > INTERVAL_MIN {
            let denied = (!reply.code.is_accepted()).then_some(Output::Denied(reply.code));
            self.outputs.extend(denied);
        }
        let due = (pending.sent + interval).max(now);
        self.pending = Some(Pending {
            interval,
            due,
            denied: Some(reply.code),
            ..pending
        });
    }

    /// Whether an accepted registration may hold: it is in a tunnel, proves that the node is
    /// inside, or ends.
    fn is_trusted(&self, list: &[Located]) -> bool {
        let needs_proof = self.config.monitor.is_some() && self.secured().is_none();
        !needs_proof || self.is_leaving || says_trusted(list)
    }

    /// The question is answered: this is inside. If the registration fails, the question is asked
    /// again.
    fn register_inside(&mut self, now: Instant) {
        if let Some(request) = self.request(now) {
            self.ask_for(request, false, INTERVAL_MIN, now);
        }
    }

    pub(super) fn accept(&mut self, pending: &Pending, reply: &Reply, list: &[Located]) {
        let request = &pending.request;
        let monitor = self.config.monitor.filter(|_| self.secured().is_none());
        if request.lifetime == 0 {
            self.agreement = None;
            let is_home = self.attachment == Attachment::Home;
            let monitor = monitor.filter(|_| is_home);
            self.renewal = monitor.map(|span| pending.renewed(span));
            self.set(if is_home {
                State::Home
            } else {
                State::Unreachable
            });
            return;
        }
        let granted = reply.lifetime.min(request.lifetime);
        // The lifetime runs from the request.
        let granted = (granted != INFINITE).then(|| Duration::from_secs(granted.into()));
        let span = granted.into_iter().chain(monitor).min();
        self.renewal = span.map(|span| pending.renewed(span));
        let challenge = list.iter().find_map(|one| match &one.extension {
            Extension::Challenge(challenge) => Some(challenge.clone()),
            _ => None,
        });
        if let Some(agent) = self.through {
            self.agents.trust(agent);
            if let Some(challenge) = challenge {
                self.agents.challenge(agent, challenge);
            }
        }
        let signed: Vec<&Located> = signed(list).collect();
        self.agreement = self.agreed(request, &signed, pending.sent);
        let udp = granted_udp(list);
        let flags = request.flags;
        self.set(State::Registered {
            tunnel: Tunnel {
                care_of: request.care_of_address,
                encapsulation: self.config.encapsulation,
                udp: udp.map(|_| SocketAddrV4::new(self.config.home_agent, PORT)),
                firewall: pending.firewall,
                is_reverse: flags.has(RequestFlags::REVERSE_TUNNEL),
                has_broadcasts: flags.has(RequestFlags::BROADCASTS),
                is_colocated: flags.has(RequestFlags::DECAPSULATES),
            },
            through: self.through,
            encapsulates_delivery: self.through.is_some()
                && flags.has(RequestFlags::REVERSE_TUNNEL)
                && self.config.encapsulates_delivery,
            keepalive: udp.map_or(0, |it| keepalive(it.keepalive)),
        });
        if udp.is_some() && self.through.is_some() {
            self.outputs.push_back(Output::WantsKeepalive);
        }
    }
}

/// Whether the home agent says that it hears the networks inside alone.
pub(super) fn says_trusted(list: &[Located]) -> bool {
    signed(list).any(|one| one.extension == Extension::TrustedNetworks)
}

/// What the home agent wrote: nothing behind the first authenticator.
fn signed(list: &[Located]) -> impl Iterator<Item = &Located> {
    list.iter().take_while(|one| one.covered().is_none())
}

/// The tunnel in UDP that a reply grants.
fn granted_udp(list: &[Located]) -> Option<UdpTunnelReply> {
    signed(list).find_map(|one| match one.extension {
        Extension::UdpTunnelReply(reply) => Some(reply).filter(|it| it.is_granted()),
        _ => None,
    })
}
