//! IKE_FOLLOWUP_KE, in both roles: the additional key exchanges of a renewed IKE SA or of a child
//! (RFC 9370 §2.2.4).
//!
//! ```text
//! initiator                                       responder
//! CREATE_CHILD_SA: SA, Ni, KEi [, TSi, TSr] -->
//!             <-- SA, Nr, KEr [, TSi, TSr], N(ADDITIONAL_KEY_EXCHANGE)(link)
//! KEi(1), N(ADDITIONAL_KEY_EXCHANGE)(link) -->
//!                          <-- KEr(1), [N(ADDITIONAL_KEY_EXCHANGE)(link)]
//! ```
//!
//! The new SA exists after the last exchange. Until then a responder keeps what is not finished,
//! one for each IKE SA, for a while; a newer one replaces it. Of two renewals of one child that
//! cross, the one that an end finishes first as initiator stands there: the other one is refused
//! from then on. If each end finishes the other's first, the nonces decide (RFC 7296 §2.8.1).

use crypto::dh::SharedSecret;
use crypto::hash::is_equal;
use crypto::key_exchange::Method;
use wire::ikev2::{Exchange, NotifyType, Payload};

use super::children::ChildState;
use super::established::{Established, Question, Subject};
use super::exchange;
use super::parts::{Parts, notify, notify_with};
use super::tasks::{AskedChild, AskedRekey, Awaited};
use super::unfinished::{LINK_LEN, Linked, Made, Unfinished, UnfinishedChild};
use super::window::{At, Opened};
use crate::ike::{AgreedChild, Fact, Fault, Spi};
use crate::time::{Duration, Instant};

/// How long a responder waits for the next exchange.
const UNFINISHED_FOR: Duration = Duration::from_secs(20);

impl Established {
    /// Sends our next key exchange, linked to the answer that was just read.
    pub(super) fn ask_followup(
        &mut self,
        old: Spi,
        mut asked: Box<AskedRekey>,
        (made, method): (Unfinished, Method),
        parts: &Parts<'_>,
        at: &mut At<'_>,
    ) -> Result<(), (Box<AskedRekey>, Fault)> {
        let sa = self.sas.iter_mut().find(|it| it.own_spi() == old);
        let (Some(sa), Some(link)) = (sa, link(parts)) else {
            return Err((asked, not_linked()));
        };
        asked.half = exchange::generate(method, at.random, &mut at.out.work);
        let chain = [exchange::payload(&asked.half), link];
        asked.unfinished = Some(made);
        let awaited = Awaited::Rekey(asked);
        sa.ask(Exchange::IkeFollowupKe, &chain, awaited, None, at);
        Ok(())
    }

    /// The same for a child, under the IKE SA with this SPI of ours.
    pub(super) fn ask_childs_followup(
        &mut self,
        under: Spi,
        mut asked: AskedChild,
        (made, method): (UnfinishedChild, Method),
        parts: &Parts<'_>,
        at: &mut At<'_>,
    ) -> Result<(), Fault> {
        let sa = self.sas.iter_mut().find(|it| it.own_spi() == under);
        let (Some(sa), Some(link)) = (sa, link(parts)) else {
            return Err(not_linked());
        };
        let half = exchange::generate(method, at.random, &mut at.out.work);
        let chain = [exchange::payload(&half), link];
        (asked.half, asked.unfinished) = (Some(half), Some(Box::new(made)));
        let awaited = Awaited::Child(Box::new(asked));
        sa.ask(Exchange::IkeFollowupKe, &chain, awaited, None, at);
        Ok(())
    }

    /// Keeps what the peer has begun under the IKE SA with this SPI of ours until its next key
    /// exchange, and puts the link into the answer.
    pub(super) fn keep_unfinished(
        &mut self,
        under: Spi,
        made: Made,
        answer: &mut Vec<Payload>,
        at: &mut At<'_>,
    ) {
        let Some(sa) = self.sas.iter_mut().find(|it| it.own_spi() == under) else {
            return;
        };
        let mut link = [0; LINK_LEN];
        at.random.fill(&mut link);
        let notice = notify_with(NotifyType::AdditionalKeyExchange, link.to_vec());
        answer.push(notice);
        let linked = Linked {
            made,
            link,
            until: at.now + UNFINISHED_FOR,
        };
        let former = sa.unfinished.replace(Box::new(linked));
        self.overtaken.extend(former.and_then(|it| it.child()));
    }

    /// The peer's next key exchange.
    pub(super) fn on_followup_request(
        &mut self,
        index: usize,
        opened: Opened,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        let linked = match opened.parts() {
            Ok(parts) => self.take_linked(index, &parts, at.now),
            Err(_) => Err(notify(NotifyType::InvalidSyntax)),
        };
        match linked {
            Ok(Made::Ike(made)) => {
                let went = self.follow_up(index, made, &opened, at);
                self.on_step(index, went, &opened, at)
            }
            Ok(Made::Child(made)) => self.follow_up_child(index, made, opened, at),
            Err(notice) => {
                self.sas[index].answer(&opened, &[notice], at);
                vec![Fact::Heard]
            }
        }
    }

    /// What a key exchange of the peer continues; or what the peer is told instead.
    fn take_linked(
        &mut self,
        index: usize,
        parts: &Parts<'_>,
        now: Instant,
    ) -> Result<Made, Payload> {
        let link = parts.notice(NotifyType::AdditionalKeyExchange);
        let link = link.map_or(&[][..], |it| &it.value);
        let is_it = |it: &mut Box<Linked>| is_equal(&it.link, link) && it.until > now;
        let linked = self.sas[index].unfinished.take_if(is_it);
        let linked = linked.ok_or_else(|| notify(NotifyType::StateNotFound))?;
        Ok(linked.made)
    }

    /// Answers a message of the peer for a new IKE SA: with one more key exchange to come, as the
    /// last one, or with what is wrong.
    pub(super) fn on_step(
        &mut self,
        index: usize,
        went: Result<(Unfinished, Vec<Payload>), Payload>,
        opened: &Opened,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        match went {
            Ok((made, mut answer)) if made.next_method().is_some() => {
                let under = self.sas[index].own_spi();
                self.keep_unfinished(under, Made::Ike(made), &mut answer, at);
                self.sas[index].answer(opened, &answer, at);
                vec![Fact::Heard]
            }
            Ok((made, answer)) => self.renewed_by_peer(index, &made, opened, &answer, at),
            Err(notice) => {
                self.sas[index].answer(opened, &[notice], at);
                vec![Fact::Heard]
            }
        }
    }

    /// The renewal with one more secret, and our answer; or what the peer is told instead.
    fn follow_up(
        &self,
        index: usize,
        mut made: Unfinished,
        opened: &Opened,
        at: &mut At<'_>,
    ) -> Result<(Unfinished, Vec<Payload>), Payload> {
        if !self.may_be_renewed(index) {
            return Err(notify(NotifyType::TemporaryFailure));
        }
        let (payload, secret) = answer(made.next_method(), opened, at)?;
        made.secrets.push(secret);
        Ok((made, vec![payload]))
    }

    /// The peer's next key exchange for a child. After the last one, the node installs the pair
    /// before the answer leaves.
    fn follow_up_child(
        &mut self,
        index: usize,
        mut made: UnfinishedChild,
        opened: Opened,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        let under = self.sas[index].own_spi();
        let (child, spi, renews) = (made.child, made.agreed.spi_in, made.renews);
        let answered = match self.may_be_made(index, renews) {
            true => answer(made.next_method(), &opened, at),
            false => Err(notify(NotifyType::TemporaryFailure)),
        };
        let mut chain = Vec::new();
        let finished = answered.and_then(|(payload, secret)| {
            chain.push(payload);
            made.secrets.push(secret);
            if made.next_method().is_some() {
                self.keep_unfinished(under, Made::Child(made), &mut chain, at);
                return Ok(None);
            }
            let finished = self.finish_granted(under, made, at);
            finished
                .map(Some)
                .map_err(|_| notify(NotifyType::InvalidSyntax))
        });
        match finished {
            Ok(Some(negotiated)) => {
                self.question = Some(Box::new(Question {
                    own_spi: under,
                    opened,
                    first: None,
                    subject: Subject::Child { renews },
                    answer: chain,
                    method: None,
                    is_refused: false,
                }));
                vec![Fact::Child(Box::new(AgreedChild {
                    child,
                    exchange: 0,
                    is_ours: false,
                    begun: at.now,
                    renews,
                    negotiated,
                    is_redundant: Some(false),
                }))]
            }
            Ok(None) => {
                self.sas[index].answer(&opened, &chain, at);
                vec![Fact::Heard]
            }
            Err(notice) => {
                self.sas[index].answer(&opened, &[notice], at);
                vec![Fact::ChildPostponed(child, spi, None)]
            }
        }
    }

    /// Whether a child of the peer may come to be now: the IKE SA stays, and so does the pair that
    /// it renews (RFC 7296 §2.25).
    fn may_be_made(&self, index: usize, renews: Option<u32>) -> bool {
        let stands = |old| {
            let old = self.children.of_own(old);
            old.is_some_and(|old| old.state == ChildState::Installed)
        };
        !self.is_renewing(index) && renews.is_none_or(stands)
    }

    /// Forgets what the peer has not finished.
    pub(super) fn forget_unfinished(&mut self, now: Instant) {
        for sa in &mut self.sas {
            let over = sa.unfinished.take_if(|it| it.until <= now);
            self.overtaken.extend(over.and_then(|it| it.child()));
        }
    }
}

/// Our half and the secret, for the peer's value of the method that is due; or what the peer is
/// told instead.
fn answer(
    due: Option<Method>,
    opened: &Opened,
    at: &mut At<'_>,
) -> Result<(Payload, SharedSecret), Payload> {
    let syntax = || notify(NotifyType::InvalidSyntax);
    let method = due.ok_or_else(syntax)?;
    let parts = opened.parts().map_err(|_| syntax())?;
    let theirs = parts
        .exchange
        .filter(|they| they.method == method.number())
        .ok_or_else(syntax)?;
    let (random, work) = (&mut *at.random, &mut at.out.work);
    exchange::respond(method, theirs, random, work).map_err(|_| syntax())
}

/// What links our next key exchange to the answer that was just read.
fn link(parts: &Parts<'_>) -> Option<Payload> {
    let link = parts.notice(NotifyType::AdditionalKeyExchange)?;
    let link = (!link.value.is_empty()).then(|| link.value.clone())?;
    Some(notify_with(NotifyType::AdditionalKeyExchange, link))
}

fn not_linked() -> Fault {
    let text = "the peer does not say how the next key exchange is linked to this one";
    Fault::Misbehaved(text.into())
}
