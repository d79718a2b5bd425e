//! Main mode (RFC 2409 §5): six messages, encrypted identities.
//!
//! ```text
//! 1  SA VID..                          -->
//! 2                                    <--  SA VID..
//! 3  KE NONCE CERTREQ.. NAT-D NAT-D    -->
//! 4                                    <--  KE NONCE CERTREQ.. NAT-D NAT-D
//! 5  ID CERT.. SIG | HASH N            -->            sealed; port 4500 behind a NAT
//! 6                                    <--  ID CERT.. SIG | HASH N
//! ```
//!
//! A responder does no Diffie-Hellman before message 3, which proves that the initiator receives at
//! its address. A pre-shared key is found by address alone, because the identity is encrypted with
//! it (RFC 2409 §5.4); afterwards the identity must match a connection with that key.

use std::sync::Arc;

use crypto::dh::KeyPair;
use wire::isakmp::{Cookies, NotifyType, Payload};

use super::IsakmpSa;
use super::auth;
use super::awaited::Awaited;
use super::exchange::{At, Core, Keyed, Publics};
use super::names_read;
use super::parts::Parts;
use super::phase1::MAX_CLEAR_BYTES;
use super::proposal::{self, Method, Offered};
use super::protect::Opened;
use crate::ike::retransmit::PATIENCE_WITHIN;
use crate::ike::{Fault, Outbox, Role};

use crate::counters::DropReason;
use crate::time::Instant;

impl Core {
    /// Sends message 1.
    pub(super) fn main_initiate(&mut self, now: Instant, out: &mut Outbox) -> Awaited {
        let connection = Arc::clone(self.connection());
        let offer = proposal::offer(&connection.proposals, self.method, connection.lifetime);
        let sa = Payload::Sa(offer);
        self.sa_i = sa.body();
        let mut chain = vec![sa];
        chain.extend(self.announcements());
        let sent = self.clear(1, &chain);
        self.ask(None, sent, now, out);
        Awaited::Main2
    }

    /// Answers message 1 with message 2.
    pub(super) fn main_1(
        &mut self,
        message: &[u8],
        parts: &Parts<'_>,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Awaited, Fault> {
        let (offered, sa_i) = parts.sa.ok_or(DropReason::MalformedMessage)?;
        let known = Offered::read(offered);
        let mut choices = self.candidates.iter().filter_map(|connection| {
            let method = connection.method()?;
            let (suites, lifetime) = (&connection.proposals, connection.lifetime);
            let choice = known.choose(suites, method, None, lifetime)?;
            Some((connection, method, choice))
        });
        let Some((connection, method, choice)) = choices.next() else {
            return Err(self.no_proposal(offered, None));
        };
        let first = Arc::clone(connection);
        self.candidates.retain(|other| {
            other.method() == Some(method)
                && other.proposals.contains(&choice.suite)
                && auth::is_same_key(other.preshared_key(), first.preshared_key())
        });
        self.method = method;
        self.suite = choice.suite;
        self.take_lifetime(&choice);
        self.sa_i = sa_i.to_vec();
        self.take_vendors(parts);
        let mut chain = vec![Payload::Sa(choice.reply)];
        chain.extend(self.announcements());
        let sent = self.clear(2, &chain);
        self.answer(message, sent, now, out);
        Ok(Awaited::Main3)
    }

    /// Reads message 2, sends message 3.
    pub(super) fn main_2(&mut self, at: &mut At<'_>) -> Result<Awaited, Fault> {
        let (body, located) = Self::read_clear(at)?;
        let parts = Parts::sort(body, &located)?;
        let (reply, _) = parts.sa.ok_or(DropReason::MalformedMessage)?;
        let connection = Arc::clone(self.connection());
        let (suites, lifetime) = (&connection.proposals, connection.lifetime);
        let choice = proposal::chosen(reply, suites, self.method, lifetime)
            .ok_or_else(|| proposal::mismatch(reply, suites, &[self.method], None))?;
        self.cookies.responder = at.message.header().cookies.responder;
        self.suite = choice.suite;
        self.take_lifetime(&choice);
        self.take_vendors(&parts);
        let group = self.suite.group;
        let (pair, nonce) = Self::generate(group, at.random, &mut at.out.work);
        self.publics.public_i = pair.public().to_vec();
        self.publics.nonce_i = nonce;
        let mut chain = self.key_exchange(Role::Initiator);
        chain.extend(self.connection().requests());
        chain.extend(self.discovery());
        let sent = self.clear(3, &chain);
        self.heard(2, at, &located);
        self.ask_within(
            PATIENCE_WITHIN,
            Some(at.message.octets()),
            sent,
            at.now,
            at.out,
        );
        Ok(Awaited::Main4(pair))
    }

    /// Reads message 3, sends message 4.
    pub(super) fn main_3(&mut self, at: &mut At<'_>) -> Result<Awaited, Fault> {
        if at.message.octets().len() > MAX_CLEAR_BYTES {
            return Err(DropReason::MalformedMessage.into());
        }
        let (body, located) = Self::read_clear(at)?;
        let parts = Parts::sort(body, &located)?;
        let (public, nonce) = Publics::peer_half(&parts, self.suite.group)?;
        let (pair, own_nonce) = Self::generate(self.suite.group, at.random, &mut at.out.work);
        let publics = Publics {
            public_i: public.to_vec(),
            public_r: pair.public().to_vec(),
            nonce_i: nonce.to_vec(),
            nonce_r: own_nonce,
        };
        let keyed = self.agree(&pair, &publics, self.cookies, self.suite, &mut at.out.work)?;
        self.publics = publics;
        self.take_requests(&parts);
        self.path = at.path;
        let finding = self.find_nat(at.path, self.cookies, &parts.discovery);
        let mut chain = self.key_exchange(Role::Responder);
        chain.extend(self.connection().requests());
        chain.extend(self.discovery());
        self.nat = finding;
        let sent = self.clear(4, &chain);
        self.heard(3, at, &located);
        self.answer(at.message.octets(), sent, at.now, at.out);
        Ok(Awaited::Main5(keyed))
    }

    /// Reads message 4, sends message 5.
    pub(super) fn main_4(&mut self, pair: &KeyPair, at: &mut At<'_>) -> Result<Awaited, Fault> {
        let (body, located) = Self::read_clear(at)?;
        let parts = Parts::sort(body, &located)?;
        let (public, nonce) = Publics::peer_half(&parts, self.suite.group)?;
        let publics = Publics {
            public_r: public.to_vec(),
            nonce_r: nonce.to_vec(),
            ..self.publics.clone()
        };
        let cookies = self.cookies;
        let mut keyed = self.agree(pair, &publics, cookies, self.suite, &mut at.out.work)?;
        self.publics = publics;
        self.take_requests(&parts);
        self.nat = self.find_nat(self.path, cookies, &parts.discovery);
        self.float();
        let mut chain = self.identify(Role::Initiator, &keyed, at);
        chain.extend(self.first_contact());
        let work = &mut at.out.work;
        let sent = self.sealed(5, &chain, &keyed.keys, &mut keyed.iv, work);
        self.heard(4, at, &located);
        self.ask(Some(at.message.octets()), sent, at.now, at.out);
        Ok(Awaited::Main6(keyed))
    }

    /// Reads message 5, sends message 6.
    pub(super) fn main_5(
        &mut self,
        keyed: &Keyed,
        opened: &Opened,
        at: &mut At<'_>,
    ) -> Result<Box<IsakmpSa>, Fault> {
        let parts = Parts::sort(&opened.body, &opened.payloads)?;
        let proven = self.check_identified(Role::Initiator, keyed, &parts, at)?;
        at.charge(&proven)?;
        self.take_notices(&parts);
        // strongSwan requests certificates here, not in message 3.
        if !parts.requests.is_empty() {
            self.take_requests(&parts);
        }
        self.path = at.path;
        self.candidates = vec![Arc::clone(&proven.connection)];
        let mut chain = self.identify(Role::Responder, keyed, at);
        chain.extend(self.responder_lifetime());
        let mut iv = opened.next_iv;
        let sent = self.sealed(6, &chain, &keyed.keys, &mut iv, &mut at.out.work);
        self.heard(5, at, &opened.payloads);
        self.answer(at.message.octets(), sent, at.now, at.out);
        Ok(self.establish(keyed, iv, proven, true, at))
    }

    /// Reads message 6.
    pub(super) fn main_6(
        &mut self,
        keyed: &Keyed,
        opened: &Opened,
        at: &mut At<'_>,
    ) -> Result<Box<IsakmpSa>, Fault> {
        let parts = Parts::sort(&opened.body, &opened.payloads)?;
        let proven = self.check_identified(Role::Responder, keyed, &parts, at)?;
        self.take_notices(&parts);
        self.heard(6, at, &opened.payloads);
        Ok(self.establish(keyed, opened.next_iv, proven, false, at))
    }

    /// Our KE and NONCE.
    pub(super) fn key_exchange(&self, own: Role) -> Vec<Payload> {
        let (public, nonce) = match own {
            Role::Initiator => (&self.publics.public_i, &self.publics.nonce_i),
            Role::Responder => (&self.publics.public_r, &self.publics.nonce_r),
        };
        vec![
            Payload::KeyExchange(public.clone()),
            Payload::Nonce(nonce.clone()),
        ]
    }

    pub(super) fn take_lifetime(&mut self, choice: &proposal::Choice) {
        self.lifetime_s = choice.lifetime_s;
        self.tells_lifetime = choice
            .peer_lifetime_s
            .is_some_and(|peer| peer > choice.lifetime_s);
    }

    /// The error for no common proposal with any candidate.
    pub(super) fn no_proposal(
        &self,
        offered: &wire::isakmp::SaPayload,
        public_len: Option<usize>,
    ) -> Fault {
        let mut suites = Vec::new();
        for suite in self.candidates.iter().flat_map(|c| &c.proposals) {
            if !suites.contains(suite) {
                suites.push(*suite);
            }
        }
        let mut methods: Vec<Method> = self.candidates.iter().filter_map(|c| c.method()).collect();
        methods.dedup();
        proposal::mismatch(offered, &suites, &methods, public_len)
    }

    pub(super) fn heard(&self, number: u8, at: &mut At<'_>, located: &[wire::isakmp::Located]) {
        at.out
            .heard(self.step(number), at.message.size(), names_read(located));
    }

    /// Our ID and proof.
    fn identify(&self, own: Role, keyed: &Keyed, at: &mut At<'_>) -> Vec<Payload> {
        let work = &mut at.out.work;
        let id = self.own_id();
        let (publics, cookies) = (&self.publics, self.cookies);
        let hash = self.hash_of(own, keyed, publics, cookies, &id.body(), work);
        let mut chain = vec![id];
        chain.extend(self.connection().proof(&hash, &self.requests, work));
        chain
    }

    /// Checks the peer's ID and proof.
    fn check_identified(
        &self,
        peer: Role,
        keyed: &Keyed,
        parts: &Parts<'_>,
        at: &mut At<'_>,
    ) -> Result<auth::Proven, Fault> {
        let (id, id_body) = parts.id.ok_or(DropReason::MalformedMessage)?;
        let work = &mut at.out.work;
        let cookies: Cookies = self.cookies;
        let hash = self.hash_of(peer, keyed, &self.publics, cookies, id_body, work);
        auth::check(&self.candidates, id, parts, &hash, at.calendar, work)
    }

    /// RESPONDER-LIFETIME (RFC 2407 §4.6.3.1), if the initiator wants more than we do.
    fn responder_lifetime(&self) -> Option<Payload> {
        let notify = || {
            let octets = proposal::lifetime_octets(self.lifetime_s);
            self.notify(NotifyType::ResponderLifetime, octets)
        };
        self.tells_lifetime.then(notify)
    }
}
