//! CREATE_CHILD_SA for a new IKE SA in place of the old one, in both roles (RFC 7296 §1.3.2, §2.8,
//! §2.18). Additional key exchanges follow in [`super::followup`].
//!
//! ```text
//! initiator                    responder
//! SA, Ni, KEi -->
//!                          <-- SA, Nr, KEr
//! D (under the old IKE SA) -->
//! ```
//!
//! The children belong to the session, so none moves. If both ends renew at once, each answers the
//! other, and the exchange with the lowest of the four nonces makes what is redundant (RFC 7296
//! §2.8.2). The end that made it deletes it; the other one deletes the old IKE SA.

use crypto::key_exchange::Method;
use wire::ikev2::{Exchange, Notify, NotifyType, Payload, Proposal};

use super::established::Established;
use super::exchange;
use super::fresh::{fresh_nonce, fresh_spi};
use super::parts::{Parts, delete_ike, notify, notify_name};
use super::proposal::{self, ike_spi};
use super::tasks::{AskedRekey, Awaited, Collision, Task};
use super::unfinished::Unfinished;
use super::window::{At, IkeSa, Opened};
use crate::counters::DropReason;
use crate::ike::{Complaint, Fact, Fault, Notification, Role, Spi, Spis};
use crate::rate::Rate;
use crate::suite::Ikev2Suite;
use crate::time::Duration;
use crate::work::Work;

/// After this time, a renewal that the peer could not do at once is asked for again, and up to as
/// long again.
const RETRY: Duration = Duration::from_secs(10);
/// A responder does not begin anything under a new IKE SA before the initiator has used it, or this
/// time is over: the initiator may not have our answer yet.
pub(super) const HOLD: Duration = Duration::from_secs(2);
/// Renewals by the peer: each costs a key exchange, and an honest peer needs one an hour.
const RENEWALS: Rate = Rate::new(8, Duration::from_secs(1));
/// How long a replaced IKE SA waits for its end.
pub(super) const REPLACED_FOR: Duration = Duration::from_secs(70);

/// What the peer's answer to our request makes.
fn agreed(asked: &AskedRekey, parts: &Parts<'_>, work: &mut Work) -> Result<Unfinished, Fault> {
    let missing = || Fault::Misbehaved("an answer without SA, nonce or key exchange".into());
    let (Some(answer), Some(nr), Some(theirs)) = (parts.sa, parts.nonce, parts.exchange) else {
        return Err(missing());
    };
    let chosen = proposal::chosen(&asked.suites, answer)?;
    let suite = chosen.suite;
    if suite.method != asked.half.method() {
        return Err(Fault::Misbehaved(
            "the peer chose another method than that of our public value".into(),
        ));
    }
    let spis = Spis {
        initiator: asked.spi,
        responder: ike_spi(chosen.proposal)?,
    };
    let shared = exchange::finish(&asked.half, theirs, work)?;
    Ok(Unfinished {
        suite,
        spis,
        nonces: (asked.nonce.clone(), nr.to_vec().into()),
        secrets: vec![shared],
    })
}

/// Suites with the named method first. A suite of another method stays on offer.
fn with_first(suites: &[Ikev2Suite], first: Option<Method>) -> Vec<Ikev2Suite> {
    let mut sorted = suites.to_vec();
    sorted.sort_by_key(|suite| first.is_some_and(|first| suite.method != first));
    sorted
}

impl Established {
    /// Sends the request for a new IKE SA. The agreed method comes first, unless the peer has named
    /// another one.
    pub(super) fn ask_rekey(&mut self, named: Option<Method>, at: &mut At<'_>) {
        let first = named.unwrap_or(self.current().suite.method);
        let suites = with_first(&self.connection.ikev2_proposals, Some(first));
        let Some(suite) = suites.first().copied() else {
            return;
        };
        let spi = fresh_spi(at.random);
        let nonce = fresh_nonce(at.random);
        let half = exchange::generate(suite.method, at.random, &mut at.out.work);
        let chain = [
            Payload::SecurityAssociation(proposal::offer(&suites, &spi.0)),
            Payload::Nonce(nonce.to_vec()),
            exchange::payload(&half),
        ];
        let asked = AskedRekey {
            spi,
            suites,
            nonce,
            half,
            unfinished: None,
            collision: None,
        };
        let awaited = Awaited::Rekey(Box::new(asked));
        self.current()
            .ask(Exchange::CreateChildSa, &chain, awaited, None, at);
    }

    /// The peer renews the IKE SA.
    pub(super) fn on_rekey_request(
        &mut self,
        index: usize,
        opened: &Opened,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        let made = match opened.parts() {
            Ok(_) if !self.renewals.take_one(RENEWALS, at.now) => {
                Err(notify(NotifyType::TemporaryFailure))
            }
            Ok(parts) => self.renew_for_peer(index, &parts, at),
            Err(_) => Err(notify(NotifyType::InvalidSyntax)),
        };
        self.on_step(index, made, opened, at)
    }

    /// Answers the peer's last message for a new IKE SA, which stands from now on.
    pub(super) fn renewed_by_peer(
        &mut self,
        index: usize,
        made: &Unfinished,
        opened: &Opened,
        answer: &[Payload],
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        let token = self.crash.token(made.spis);
        let old = &mut self.sas[index];
        let work = &mut at.out.work;
        let Ok(sa) = old.successor(Role::Responder, made, work) else {
            old.answer(opened, &[notify(NotifyType::InvalidSyntax)], at);
            return vec![Fact::Heard];
        };
        let mut answer = answer.to_vec();
        answer.extend(token);
        // RFC 5723 §4.1: it must be answered. A ticket is for the IKE SA that stands then.
        let asks = opened
            .parts()
            .is_ok_and(|it| it.has(NotifyType::TicketRequest));
        answer.extend(asks.then(|| notify(NotifyType::TicketNack)));
        old.answer(opened, &answer, at);
        let (spi, old, lowest) = (sa.own_spi(), old.own_spi(), made.lowest());
        if let Some(asked) = self.asked_rekey_of(old) {
            // Which of the two stands is known when ours is answered.
            let former = asked.collision.replace(Collision {
                spi,
                lowest,
                is_gone: false,
            });
            let former = former.map(|it| it.spi);
            self.sas.retain(|it| Some(it.own_spi()) != former);
            self.sas.push(sa);
            return vec![Fact::Heard];
        }
        self.sas.push(sa);
        self.succeed(spi, old, at);
        self.held_until = Some(at.now + HOLD);
        vec![Fact::Renewed]
    }

    /// Whether the peer may renew an IKE SA now (RFC 7296 §2.25.1, §2.25.2): no child is under way,
    /// and the IKE SA is not about to end.
    pub(super) fn may_be_renewed(&self, index: usize) -> bool {
        let old = &self.sas[index];
        let is_busy = |asked: &Awaited| {
            matches!(
                asked,
                Awaited::Child(_) | Awaited::DeletedChild { .. } | Awaited::DeletedIke
            )
        };
        !old.is_replaced && !old.asked.as_ref().is_some_and(|it| is_busy(&it.awaited))
    }

    /// What the peer's request makes, and our answer; or what the peer is told instead.
    fn renew_for_peer(
        &self,
        index: usize,
        parts: &Parts<'_>,
        at: &mut At<'_>,
    ) -> Result<(Unfinished, Vec<Payload>), Payload> {
        if !self.may_be_renewed(index) {
            return Err(notify(NotifyType::TemporaryFailure));
        }
        let syntax = || notify(NotifyType::InvalidSyntax);
        let (Some(offered), Some(ni), Some(theirs)) = (parts.sa, parts.nonce, parts.exchange)
        else {
            return Err(syntax());
        };
        let suites = &self.connection.ikev2_proposals;
        let chosen = proposal::choose(suites, offered);
        let chosen = chosen.ok_or_else(|| notify(NotifyType::NoProposalChosen))?;
        let suite = chosen.suite;
        if theirs.method != suite.method.number() {
            let named = Notify::invalid_ke(suite.method.number());
            return Err(Payload::Notify(named));
        }
        let peers = ike_spi(chosen.proposal).map_err(|_| syntax())?;
        let (random, work) = (&mut *at.random, &mut at.out.work);
        let answered = exchange::respond(suite.method, theirs, random, work);
        let (payload, shared) = answered.map_err(|_| syntax())?;
        let own = fresh_spi(random);
        let nr = fresh_nonce(random);
        let spis = Spis {
            initiator: peers,
            responder: own,
        };
        let answer: Proposal = proposal::answer(&chosen, &own.0);
        let chain = vec![
            Payload::SecurityAssociation(vec![answer]),
            Payload::Nonce(nr.to_vec()),
            payload,
        ];
        let made = Unfinished {
            suite,
            spis,
            nonces: (ni.to_vec().into(), nr),
            secrets: vec![shared],
        };
        Ok((made, chain))
    }

    /// The answer to our renewal of the IKE SA, which came under the one with this SPI of ours.
    pub(super) fn on_rekey_answer(
        &mut self,
        old: Spi,
        mut asked: Box<AskedRekey>,
        opened: &Opened,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        let Ok(parts) = opened.parts() else {
            return self.rekey_failed(old, &asked, &DropReason::MalformedMessage.into(), at);
        };
        if let Some(error) = parts.error()
            && parts.sa.is_none()
        {
            return self.on_rekey_refused(old, &asked, error, at);
        }
        let work = &mut at.out.work;
        let made = match asked.unfinished.take() {
            Some(made) => made.take_answer(&asked.half, &parts, work),
            None => agreed(&asked, &parts, work),
        };
        let made = match made {
            Ok(made) => made,
            Err(fault) => return self.rekey_failed(old, &asked, &fault, at),
        };
        if let Some(method) = made.next_method() {
            let went = self.ask_followup(old, asked, (made, method), &parts, at);
            return match went {
                Ok(()) => vec![Fact::Heard],
                Err((asked, fault)) => self.rekey_failed(old, &asked, &fault, at),
            };
        }
        let sa = self.sa_of(old).ok_or(DropReason::UnknownCookies.into());
        let sa = sa.and_then(|old| old.successor(Role::Initiator, &made, &mut at.out.work));
        match sa {
            Ok(sa) => {
                self.crash.take(sa.spis, &parts);
                self.rekey_agreed(old, &asked, sa, &made.lowest(), at)
            }
            Err(fault) => self.rekey_failed(old, &asked, &fault, at),
        }
    }

    fn rekey_agreed(
        &mut self,
        old: Spi,
        asked: &AskedRekey,
        sa: IkeSa,
        lowest: &[u8],
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        let own = sa.own_spi();
        self.sas.push(sa);
        let collision = asked.collision.as_ref();
        // The peer's may have ended meanwhile: then ours stands.
        let collision = collision.filter(|it| self.sa_of(it.spi).is_some());
        let redundant = collision.filter(|it| it.outdoes(lowest)).map(|it| it.spi);
        match redundant {
            Some(peers) => {
                self.succeed(peers, old, at);
                self.end_ike(own, at);
            }
            None => {
                if let Some(collision) = collision {
                    let until = at.now + REPLACED_FOR;
                    self.replace(collision.spi, until);
                }
                self.succeed(own, old, at);
                self.end_ike(old, at);
                if self.crash.makes() {
                    self.add_task(Task::Token, at);
                }
            }
        }
        vec![Fact::Renewed]
    }

    fn on_rekey_refused(
        &mut self,
        old: Spi,
        asked: &AskedRekey,
        error: &Notify,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        if error.kind == NotifyType::InvalidKePayload && asked.collision.is_none() {
            let named = error.to_method().ok().and_then(Method::of_number);
            let is_offered = |it: &Method| asked.suites.iter().any(|suite| suite.method == *it);
            let named = named.filter(is_offered);
            // Once: a peer that names one method after the other gets nothing more.
            let is_first = asked.half.method() == self.current().suite.method;
            if let Some(named) = named.filter(|it| is_first && *it != asked.half.method()) {
                self.queue.add_first(Task::RekeyIke(Some(named)));
                return vec![Fact::Heard];
            }
        }
        let fault = Fault::Refused(notify_name(error.kind));
        match error.kind {
            // It says nothing: the peer is busy.
            NotifyType::TemporaryFailure => self.try_rekey_later(old, asked, at),
            _ => self.rekey_failed(old, asked, &fault, at),
        }
    }

    /// Our renewal failed. If the peer's crossed it, that one stands; otherwise it is tried again.
    fn try_rekey_later(&mut self, old: Spi, asked: &AskedRekey, at: &mut At<'_>) -> Vec<Fact> {
        let peers = asked.collision.as_ref().map(|it| it.spi);
        if let Some(peers) = peers.filter(|it| self.sa_of(*it).is_some()) {
            self.succeed(peers, old, at);
            return vec![Fact::Renewed];
        }
        let more = RETRY.mul_f64(f64::from(at.random.u32() >> 16) / 65536.0);
        self.renew_at = Some(at.now + RETRY + more);
        vec![Fact::Heard]
    }

    /// The same, and why is said if ours is tried again.
    fn rekey_failed(
        &mut self,
        old: Spi,
        asked: &AskedRekey,
        fault: &Fault,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        let facts = self.try_rekey_later(old, asked, at);
        if matches!(facts[..], [Fact::Renewed]) {
            return facts;
        }
        let complaint = Notification::Other(Complaint {
            name: format!("the IKE SA is not renewed: {fault}"),
            is_error: false,
            refuses: None,
            is_about_identity: false,
            child: None,
        });
        vec![Fact::Told(0, vec![complaint])]
    }

    /// The IKE SA with SPI `new` of ours stands in the place of `old`.
    pub(super) fn succeed(&mut self, new: Spi, old: Spi, at: &At<'_>) {
        let Some(index) = self.sas.iter().position(|it| it.own_spi() == new) else {
            return;
        };
        let sa = self.sas.remove(index);
        self.sas.insert(0, sa);
        self.replace(old, at.now + REPLACED_FOR);
        self.queue.remove_rekeys();
        self.renew_at = None;
        self.renewed = at.now;
        self.held_until = None;
    }

    /// An IKE SA that another one stands for ends by itself at this time.
    fn replace(&mut self, spi: Spi, until: crate::time::Instant) {
        if let Some(sa) = self.sas.iter_mut().find(|it| it.own_spi() == spi) {
            sa.is_replaced = true;
            sa.until = Some(until);
            // The peer goes on under the new one, if at all.
            let child = sa.unfinished.take().and_then(|it| it.child());
            self.overtaken.extend(child);
        }
    }

    /// Tells the peer that an IKE SA is over that another one stands for.
    fn end_ike(&mut self, spi: Spi, at: &mut At<'_>) {
        let Some(sa) = self.sas.iter_mut().find(|it| it.own_spi() == spi) else {
            return;
        };
        sa.is_replaced = true;
        sa.until = Some(at.now + REPLACED_FOR);
        if sa.asked.is_none() {
            sa.ask(
                Exchange::Informational,
                &[delete_ike()],
                Awaited::DeletedIke,
                None,
                at,
            );
        }
    }

    /// Our open request for a renewal, under the IKE SA with this SPI of ours.
    pub(super) fn asked_rekey_of(&mut self, spi: Spi) -> Option<&mut AskedRekey> {
        let sa = self.sas.iter_mut().find(|it| it.own_spi() == spi)?;
        match &mut sa.asked.as_mut()?.awaited {
            Awaited::Rekey(asked) => Some(asked),
            _ => None,
        }
    }

    /// Whether an IKE SA is being renewed by us, or about to end: nothing new begins under it.
    pub(super) fn is_renewing(&self, index: usize) -> bool {
        let sa = &self.sas[index];
        let asked = sa.asked.as_ref();
        let is_it = |it: &Awaited| matches!(it, Awaited::Rekey(_) | Awaited::DeletedIke);
        sa.is_replaced || asked.is_some_and(|asked| is_it(&asked.awaited))
    }
}
