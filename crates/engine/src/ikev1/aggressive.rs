//! Aggressive mode (RFC 2409 §5): three messages, identities in clear.
//!
//! ```text
//! 1  SA KE NONCE ID CERTREQ.. VID..    -->
//! 2                                    <--  SA KE NONCE ID CERT.. SIG | HASH
//!                                           CERTREQ.. NAT-D NAT-D VID..
//! 3  CERT.. SIG | HASH NAT-D NAT-D N   -->            sealed; port 4500 behind a NAT
//! ```
//!
//! The group cannot be negotiated: all offered transforms have the group of the first one. Message
//! 3 is encrypted, as strongSwan does it; an unencrypted one is accepted as well. With a pre-shared
//! key, an identity that no connection accepts is refused at message 3 (`decoy.rs`).
//!
//! Left out: RESPONDER-LIFETIME, because no message of the responder is protected. The initiator
//! learns about a shorter lifetime when the responder renews or deletes the SA.

use std::sync::Arc;

use crypto::dh::KeyPair;
use crypto::rand::Stream;
use wire::isakmp::{Cookies, Identification, Located, Payload};

use super::IsakmpSa;
use super::auth;
use super::awaited::{Awaited, Failure};
use super::decoy::{self, Decoys};
use super::exchange::{At, Core, Keyed, Publics};
use super::parts::Parts;
use super::proposal::{self, Method, Offered};
use super::protect::{Iv, Opened};

use crate::config::Connection;
use crate::counters::DropReason;
use crate::ike::{Fault, Outbox, Role};
use crate::suite::IkeSuite;
use crate::time::Instant;

impl Core {
    /// Sends message 1.
    pub(super) fn aggressive_initiate(
        &mut self,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Awaited {
        let connection = Arc::clone(self.connection());
        let suites = self.offered_suites();
        let offer = proposal::offer(&suites, self.method, connection.lifetime);
        let sa = Payload::Sa(offer);
        self.sa_i = sa.body();
        let (pair, nonce) = Self::generate(self.suite.group, random, &mut out.work);
        self.publics.public_i = pair.public().to_vec();
        self.publics.nonce_i = nonce;
        let mut chain = vec![sa];
        chain.extend(self.key_exchange(Role::Initiator));
        chain.push(self.own_id());
        chain.extend(connection.requests());
        chain.extend(self.announcements());
        let sent = self.clear(1, &chain);
        self.ask(None, sent, now, out);
        Awaited::Aggressive2(pair)
    }

    /// Answers message 1 with message 2: first cheap checks, then Diffie-Hellman, then the
    /// signature.
    pub(super) fn aggressive_1(
        &mut self,
        message: &[u8],
        parts: &Parts<'_>,
        decoys: &Decoys,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Awaited, Fault> {
        let (offered, sa_i) = parts.sa.ok_or(DropReason::MalformedMessage)?;
        let (id, id_body) = parts.id.ok_or(DropReason::MalformedMessage)?;
        let public_len = parts.public.ok_or(DropReason::MalformedMessage)?.len();
        let identity = auth::identity_of(id)?;
        let offers = Offered::read(offered);
        let choose = |connection: &Connection| {
            let method = connection.method()?;
            let (suites, lifetime) = (&connection.proposals, connection.lifetime);
            let choice = offers.choose(suites, method, Some(public_len), lifetime)?;
            Some((method, choice))
        };
        let all = self.candidates.iter();
        let fitting: Vec<_> = all.filter(|it| choose(it).is_some()).cloned().collect();
        if fitting.is_empty() {
            return Err(self.no_proposal(offered, Some(public_len)));
        }
        let mut known = auth::accepting(&fitting, &identity);
        if known.is_empty() {
            let (connection, key) = decoy::pose(fitting, decoys, &identity, self.path, out)?;
            self.decoy = Some(key);
            known.push(connection);
        }
        let connection = Arc::clone(&known[0]);
        let (method, choice) = choose(&connection).ok_or(DropReason::NoProposalChosen)?;
        let (public, nonce) = Publics::peer_half(parts, choice.suite.group)?;
        let (pair, own_nonce) = Self::generate(choice.suite.group, random, &mut out.work);
        let is_chosen = |it: &Connection| {
            choose(it).is_some_and(|(how, what)| (how, what.suite) == (method, choice.suite))
        };
        self.candidates = answered_alike(known, is_chosen);
        self.method = method;
        self.suite = choice.suite;
        self.take_lifetime(&choice);
        self.sa_i = sa_i.to_vec();
        self.publics = Publics {
            public_i: public.to_vec(),
            public_r: pair.public().to_vec(),
            nonce_i: nonce.to_vec(),
            nonce_r: own_nonce,
        };
        self.peer_id = Some((id.clone(), id_body.to_vec()));
        self.take_requests(parts);
        self.take_vendors(parts);
        let (publics, cookies) = (&self.publics, self.cookies);
        let keyed = self.agree(&pair, publics, cookies, self.suite, &mut out.work)?;
        let own_id = self.own_id();
        let role = Role::Responder;
        let work = &mut out.work;
        let hash = self.hash_of(role, &keyed, publics, cookies, &own_id.body(), work);
        let mut chain = vec![Payload::Sa(choice.reply)];
        chain.extend(self.key_exchange(role));
        chain.push(own_id);
        chain.extend(self.connection().proof(&hash, &self.requests, work));
        chain.extend(self.connection().requests());
        chain.extend(self.discovery());
        chain.extend(self.announcements());
        let sent = self.clear(2, &chain);
        self.answer(message, sent, now, out);
        Ok(Awaited::Aggressive3(keyed))
    }

    /// Reads message 2 and sends message 3. Nothing changes until the peer's proof is checked: a
    /// forged message 2 may come before the real one.
    pub(super) fn aggressive_2(
        &mut self,
        pair: &KeyPair,
        at: &mut At<'_>,
    ) -> Result<Box<IsakmpSa>, Failure> {
        let (body, located) = Self::read_clear(at)?;
        let parts = Parts::sort(body, &located)?;
        let (reply, _) = parts.sa.ok_or(DropReason::MalformedMessage)?;
        let (id, id_body) = parts.id.ok_or(DropReason::MalformedMessage)?;
        let (suites, lifetime) = (self.offered_suites(), self.connection().lifetime);
        let choice = proposal::chosen(reply, &suites, self.method, lifetime)
            .ok_or_else(|| proposal::mismatch(reply, &suites, &[self.method], None))?;
        let (public, nonce) = Publics::peer_half(&parts, choice.suite.group)?;
        let publics = Publics {
            public_r: public.to_vec(),
            nonce_r: nonce.to_vec(),
            ..self.publics.clone()
        };
        let cookies: Cookies = at.message.header().cookies;
        let work = &mut at.out.work;
        let mut keyed = self.agree(pair, &publics, cookies, choice.suite, work)?;
        let peer = Role::Responder;
        let hash = self.hash_of(peer, &keyed, &publics, cookies, id_body, work);
        let checked = auth::check(&self.candidates, id, &parts, &hash, at.calendar, work);
        self.heard(2, at, &located);
        let proven = checked.map_err(|fault| Failure {
            is_heard: true,
            ..self.unverified(fault, id).into()
        })?;
        self.suite = choice.suite;
        self.cookies = cookies;
        self.publics = publics;
        self.take_lifetime(&choice);
        self.take_requests(&parts);
        self.take_vendors(&parts);
        self.nat = self.find_nat(self.path, cookies, &parts.discovery);
        self.float();
        let own_id = self.own_id();
        let role = Role::Initiator;
        let work = &mut at.out.work;
        let own = self.hash_of(role, &keyed, &self.publics, cookies, &own_id.body(), work);
        let mut chain = self.connection().proof(&own, &self.requests, work);
        chain.extend(self.discovery());
        chain.extend(self.first_contact());
        let sent = self.sealed(3, &chain, &keyed.keys, &mut keyed.iv, work);
        self.answer(at.message.octets(), sent, at.now, at.out);
        let last_iv = keyed.iv;
        Ok(self.establish(&keyed, last_iv, proven, true, at))
    }

    /// Reads message 3 when it is encrypted.
    pub(super) fn aggressive_3_sealed(
        &mut self,
        keyed: &Keyed,
        opened: &Opened,
        at: &mut At<'_>,
    ) -> Result<Box<IsakmpSa>, Fault> {
        let last_block = Some(opened.next_iv);
        self.aggressive_3(keyed, &opened.body, &opened.payloads, last_block, at)
    }

    /// Reads message 3 when it is not encrypted.
    pub(super) fn aggressive_3_clear(
        &mut self,
        keyed: &Keyed,
        at: &mut At<'_>,
    ) -> Result<Box<IsakmpSa>, Fault> {
        let (body, located) = Self::read_clear(at)?;
        self.aggressive_3(keyed, body, &located, None, at)
    }

    /// Reads message 3. `last_block`: its last one, if it was encrypted.
    fn aggressive_3(
        &mut self,
        keyed: &Keyed,
        body: &[u8],
        located: &[Located],
        last_block: Option<Iv>,
        at: &mut At<'_>,
    ) -> Result<Box<IsakmpSa>, Fault> {
        let parts = Parts::sort(body, located)?;
        let (id, id_body) = self.peer_id.as_ref().ok_or(DropReason::UnexpectedMessage)?;
        let (publics, cookies) = (&self.publics, self.cookies);
        let work = &mut at.out.work;
        let hash = self.hash_of(Role::Initiator, keyed, publics, cookies, id_body, work);
        let proven = auth::check(&self.candidates, id, &parts, &hash, at.calendar, work)?;
        at.charge(&proven)?;
        if last_block.is_some() {
            self.take_notices(&parts);
        }
        self.nat = self.find_nat(at.path, cookies, &parts.discovery);
        self.path = at.path;
        self.heard(3, at, located);
        self.answered = None;
        let last_iv = last_block.unwrap_or(keyed.iv);
        Ok(self.establish(keyed, last_iv, proven, false, at))
    }

    /// The suites with the group of the first one.
    pub(super) fn offered_suites(&self) -> Vec<IkeSuite> {
        let all = &self.connection().proposals;
        let is_offered = |suite: &&IkeSuite| suite.group == all[0].group;
        all.iter().filter(is_offered).copied().collect()
    }

    /// The error for an answer that proves nothing.
    fn unverified(&self, fault: Fault, id: &Identification) -> Fault {
        let Fault::Unauthenticated(why) = fault else {
            return fault;
        };
        let why = format!("the peer's answer does not verify: {why}");
        let is_accepted = auth::identity_of(id).is_ok_and(|it| self.connection().accepts(&it));
        if self.method == Method::PresharedKey && is_accepted {
            let own = &self.connection().local.identity;
            let hidden =
                format!("{why}; a peer that does not know us as {own} answers the same way");
            return Fault::Unauthenticated(hidden);
        }
        Fault::Unauthenticated(why)
    }
}

/// The first of these, and all for which message 2 is the same: the issuer of the peer's
/// certificate is known only from message 3.
fn answered_alike(
    mut known: Vec<Arc<Connection>>,
    is_chosen: impl Fn(&Connection) -> bool,
) -> Vec<Arc<Connection>> {
    let first = Arc::clone(&known[0]);
    let is_signed = first.method() == Some(Method::RsaSignatures);
    known.retain(|it| {
        let is_alike = || is_signed && is_chosen(it) && it.local.is_same_peer(&first.local);
        Arc::ptr_eq(it, &first) || is_alike()
    });
    known
}
