//! IKE_FOLLOWUP_KE, in both roles: the additional key exchanges of a renewed IKE SA (RFC 9370
//! §2.2.4).
//!
//! ```text
//! initiator                                       responder
//! CREATE_CHILD_SA: SA, Ni, KEi -->
//!                          <-- SA, Nr, KEr, N(ADDITIONAL_KEY_EXCHANGE)(link)
//! KEi(1), N(ADDITIONAL_KEY_EXCHANGE)(link) -->
//!                          <-- KEr(1), [N(ADDITIONAL_KEY_EXCHANGE)(link)]
//! ```
//!
//! The new IKE SA exists after the last exchange. Until then a responder keeps one unfinished
//! renewal for each IKE SA, for a while; a newer one replaces it.

use crypto::hash::is_equal;
use crypto::key_exchange::Method;
use wire::ikev2::{Exchange, NotifyType, Payload};

use super::established::Established;
use super::exchange;
use super::parts::{Parts, notify, notify_with};
use super::tasks::{AskedRekey, Awaited};
use super::unfinished::{LINK_LEN, Linked, Unfinished};
use super::window::{At, Opened};
use crate::ike::{Fact, Fault, Spi};
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
        let link = parts.notice(NotifyType::AdditionalKeyExchange);
        let link = link.map(|it| it.value.clone()).unwrap_or_default();
        let sa = self.sas.iter_mut().find(|it| it.own_spi() == old);
        let (Some(sa), false) = (sa, link.is_empty()) else {
            let text = "the peer does not say how the next key exchange is linked to this one";
            return Err((asked, Fault::Misbehaved(text.into())));
        };
        asked.half = exchange::generate(method, at.random, &mut at.out.work);
        let chain = [
            exchange::payload(&asked.half),
            notify_with(NotifyType::AdditionalKeyExchange, link),
        ];
        asked.unfinished = Some(made);
        let awaited = Awaited::Rekey(asked);
        sa.ask(Exchange::IkeFollowupKe, &chain, awaited, None, at);
        Ok(())
    }

    /// Keeps a renewal of the peer until its next key exchange, and puts the link into the answer.
    pub(super) fn keep_unfinished(
        &mut self,
        index: usize,
        made: Unfinished,
        answer: &mut Vec<Payload>,
        at: &mut At<'_>,
    ) {
        let mut link = [0; LINK_LEN];
        at.random.fill(&mut link);
        let notice = notify_with(NotifyType::AdditionalKeyExchange, link.to_vec());
        answer.push(notice);
        self.sas[index].unfinished = Some(Box::new(Linked {
            made,
            link,
            until: at.now + UNFINISHED_FOR,
        }));
    }

    /// The peer's next key exchange.
    pub(super) fn on_followup_request(
        &mut self,
        index: usize,
        opened: &Opened,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        let went = match opened.parts() {
            Ok(parts) => self.follow_up(index, &parts, at),
            Err(_) => Err(notify(NotifyType::InvalidSyntax)),
        };
        self.on_step(index, went, opened, at)
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
                self.keep_unfinished(index, made, &mut answer, at);
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
        &mut self,
        index: usize,
        parts: &Parts<'_>,
        at: &mut At<'_>,
    ) -> Result<(Unfinished, Vec<Payload>), Payload> {
        if !self.may_be_renewed(index) {
            return Err(notify(NotifyType::TemporaryFailure));
        }
        let link = parts.notice(NotifyType::AdditionalKeyExchange);
        let link = link.map_or(&[][..], |it| &it.value);
        let is_it = |it: &mut Box<Linked>| is_equal(&it.link, link) && it.until > at.now;
        let linked = self.sas[index].unfinished.take_if(is_it);
        let mut made = linked
            .ok_or_else(|| notify(NotifyType::StateNotFound))?
            .made;
        let syntax = || notify(NotifyType::InvalidSyntax);
        let method = made.next_method().ok_or_else(syntax)?;
        let theirs = parts
            .exchange
            .filter(|they| they.method == method.number())
            .ok_or_else(syntax)?;
        let (random, work) = (&mut *at.random, &mut at.out.work);
        let answered = exchange::respond(method, theirs, random, work);
        let (payload, secret) = answered.map_err(|_| syntax())?;
        made.secrets.push(secret);
        Ok((made, vec![payload]))
    }

    /// Forgets renewals that the peer has not finished.
    pub(super) fn forget_unfinished(&mut self, now: Instant) {
        for sa in &mut self.sas {
            sa.unfinished.take_if(|it| it.until <= now);
        }
    }
}
