//! A session after both ends have authenticated: its IKE SAs, its children, and the requests that
//! wait for the window.

mod leaving;
mod tickets;

use std::sync::Arc;

use crypto::cert::CertificatePath;
use crypto::key_exchange::Method;
use wire::ikev2::{Exchange, NotifyType, Payload};

use super::Abilities;
use super::addresses::Mobility;
use super::children::ChildSas;
use super::configuration;
use super::crash::{Crash, Maker};
use super::lost::{Resumption, Spent};
use super::message::Message;
use super::parts::{Parts, SUPERSEDED, asks_ticket, is_for_ike, notify, notify_with};
use super::ppk::PpkInUse;
use super::tasks::{Awaited, Queue, Task};
use super::unfinished::Linked;
use super::window::{At, IkeSa, MAX_SAS, Opened, Read};
use crate::config::Connection;
use crate::counters::DropReason;
use crate::identity::Peer;
use crate::ike::nat::NatFinding;
use crate::ike::{ChildExchange, Fact, Fault, Lease, Refusal, Role, Spi};
use crate::rate::Bucket;
use crate::sa::{ChildId, Path};
use crate::time::{Deadline, Duration, Instant};

/// The state after authentication.
pub(super) struct Established {
    /// In the exchange that made the first IKE SA.
    pub(super) role: Role,
    pub(super) connection: Arc<Connection>,
    pub(super) identity: Peer,
    pub(super) certificate: Option<Box<CertificatePath>>,
    /// The peer's certificate ends then.
    pub(super) ends_at: Option<Instant>,
    /// The peer said that it has no other SA with us (RFC 7296 §2.4).
    pub(super) is_initial_contact: bool,
    pub(super) since: Instant,
    /// When the current IKE SA was made.
    pub(super) renewed: Instant,
    pub(super) nat: NatFinding,
    /// The post-quantum pre-shared key in its keys.
    pub(super) ppk: Option<PpkInUse>,
    /// AUTH of each end covered both messages of IKE_SA_INIT.
    pub(super) covers_both: bool,
    /// An end has proven itself by RSA with SHA-1.
    pub(super) has_sha1: bool,
    pub(super) peer: Abilities,
    pub(super) mobility: Mobility,
    /// The current one first.
    pub(super) sas: Vec<IkeSa>,
    pub(super) children: ChildSas,
    pub(super) queue: Queue,
    /// Nothing begins under the current IKE SA before then, or before the peer uses it.
    pub(super) held_until: Option<Instant>,
    /// Our renewal is tried again then.
    pub(super) renew_at: Option<Instant>,
    /// Renewals by the peer.
    pub(super) renewals: Bucket,
    /// The message that was just read has renewed the IKE SA.
    pub(super) is_renewed_now: bool,
    pub(super) question: Option<Box<Question>>,
    /// Tokens of quick crash detection.
    pub(super) crash: Crash,
    /// Tickets, if the connection has them.
    pub(super) resumption: Option<Box<Resumption>>,
    /// The peer has authenticated, and was sent to another gateway with our answer.
    pub(super) is_sent_away: bool,
    pub(super) began_with: BeganWith,
    /// Exchanges for children that were not begun, because others stand in their place, or whose
    /// answer is lost.
    pub(super) overtaken: Vec<(ChildId, u32)>,
    /// The peer knows that the session is over.
    pub(super) is_over: bool,
}

/// What a session began with.
pub(super) enum BeganWith {
    /// Both ends have proven who they are.
    Proofs,
    /// A station's ticket: it goes on from a session that was lost.
    OwnTicket,
    /// The peer's ticket, and our SPI of the session that was lost.
    PeersTicket(Box<(Spent, Spi)>),
}

/// A request of the peer that the node decides on, and our answer so far.
pub(super) struct Question {
    /// Our SPI of the IKE SA under which it came.
    pub(super) own_spi: Spi,
    /// The request, which is answered.
    pub(super) opened: Opened,
    /// With EAP: the first request, which has what the peer wants.
    pub(super) first: Option<Opened>,
    pub(super) subject: Subject,
    /// What is granted.
    pub(super) answer: Vec<Payload>,
    /// The method that the peer must use.
    pub(super) method: Option<Method>,
    /// The answer is a refusal.
    pub(super) is_refused: bool,
}

/// What the peer requests.
pub(super) enum Subject {
    /// Authentication, with an address and a first child if it wants them.
    Auth {
        /// Of IKE_SA_INIT.
        nonces: (Vec<u8>, Vec<u8>),
        /// Our identity and its proof.
        proof: Vec<Payload>,
        /// Notifications at the end.
        notices: Vec<Payload>,
    },
    /// A child.
    Child {
        /// Our SPI of the pair that it renews.
        renews: Option<u32>,
    },
    /// A ticket.
    Ticket,
}

impl Established {
    /// Both ends have authenticated: `parts` may have the peer's token.
    pub(super) fn begin_tokens(&mut self, maker: Option<Arc<Maker>>, parts: &Parts<'_>) {
        let maker = maker.filter(|_| self.connection.crash_detection);
        self.crash = Crash::begin(maker, self.sas[0].spis, parts);
    }

    /// The current IKE SA.
    pub(super) fn current(&mut self) -> &mut IkeSa {
        &mut self.sas[0]
    }

    /// The IKE SA with this SPI of ours.
    pub(super) fn sa_of(&self, spi: Spi) -> Option<&IkeSa> {
        self.sas.iter().find(|it| it.own_spi() == spi)
    }

    /// Handles a message under one of the IKE SAs, which came over this path.
    pub(super) fn on_message(
        &mut self,
        from: Path,
        message: &Message<'_>,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        // The node decides within the same input, or leaves the peer without an answer.
        self.question = None;
        let spis = message.spis();
        let Some(index) = self.sas.iter().position(|it| it.spis == spis) else {
            return vec![Fact::Dropped(DropReason::UnknownCookies)];
        };
        match self.crash.on_clear(message, at.now) {
            // The peer has removed an IKE SA that was replaced, and got our delete of it again.
            Some(Fact::Crashed) if index > 0 => {
                self.forget_replaced(index);
                self.pump(at);
                let mut facts = vec![Fact::Pending];
                facts.extend(self.take_overtaken());
                return facts;
            }
            Some(fact) => return vec![fact],
            None => {}
        }
        let opened = match self.sas[index].read(from, message, at.now, at.out) {
            Ok(Read::New(opened)) => opened,
            Ok(Read::Nothing) => return vec![Fact::Pending],
            Ok(Read::Unreadable(unreadable)) if unreadable.is_response() => {
                return self.on_unreadable_answer(index, at);
            }
            Ok(Read::Unreadable(unreadable)) => {
                self.sas[index].answer_unreadable(&unreadable, at);
                return vec![Fact::Heard];
            }
            Err(reason @ DropReason::UndecryptableMessage) => {
                return vec![Fact::Unreadable(reason.into())];
            }
            Err(reason) => return vec![Fact::Dropped(reason)],
        };
        if index == 0 {
            // The peer has our answer to its renewal.
            self.held_until = None;
        }
        let mut facts = match opened.is_response {
            true => self.on_answer(index, &opened, at),
            false => self.on_request(index, opened, at),
        };
        if core::mem::take(&mut self.is_renewed_now) {
            facts.push(Fact::Renewed);
        }
        self.pump(at);
        facts.extend(self.take_overtaken());
        facts
    }

    /// An authentic answer that we cannot read: our request repeated would bring it again. Under an
    /// IKE SA that another one stands for, nothing is lost.
    fn on_unreadable_answer(&mut self, index: usize, at: &mut At<'_>) -> Vec<Fact> {
        let reason = DropReason::MalformedMessage;
        if index > 0 {
            at.out.drops.count(reason);
            self.forget_replaced(index);
            self.pump(at);
            let mut facts = vec![Fact::Heard];
            facts.extend(self.take_overtaken());
            return facts;
        }
        let awaited = self.sas[index].answered(at.now, at.out);
        self.overtaken.extend(awaited.and_then(|it| it.child()));
        let mut facts = self.take_overtaken();
        facts.push(Fact::Failed(reason.into()));
        facts
    }

    /// What became of exchanges that were not begun, or whose answer is lost.
    pub(super) fn take_overtaken(&mut self) -> Vec<Fact> {
        let all = core::mem::take(&mut self.overtaken).into_iter();
        all.map(|(child, spi)| Fact::ChildPostponed(child, spi, None))
            .collect()
    }

    fn on_request(&mut self, index: usize, opened: Opened, at: &mut At<'_>) -> Vec<Fact> {
        match opened.exchange {
            Exchange::Informational if self.queue.is_closed() => self.on_inform(index, &opened, at),
            Exchange::CreateChildSa if self.queue.is_closed() => {
                self.refuse_while_leaving(index, &opened, at)
            }
            Exchange::Informational
                if index == 0
                    && self.role == Role::Responder
                    && opened.parts().is_ok_and(|it| asks_ticket(&it)) =>
            {
                self.on_ticket_request(index, opened, at)
            }
            Exchange::Informational => self.on_inform(index, &opened, at),
            Exchange::CreateChildSa | Exchange::IkeFollowupKe if self.sas.len() >= MAX_SAS => {
                let notice = notify(NotifyType::TemporaryFailure);
                self.sas[index].answer(&opened, &[notice], at);
                vec![Fact::Heard]
            }
            Exchange::CreateChildSa if opened.parts().is_ok_and(|it| is_for_ike(&it)) => {
                self.on_rekey_request(index, &opened, at)
            }
            Exchange::CreateChildSa => self.on_child_request(index, opened, at),
            Exchange::IkeFollowupKe => self.on_followup_request(index, opened, at),
            _ => {
                at.out.drops.count(DropReason::UnsupportedExchange);
                let notice = notify(NotifyType::InvalidSyntax);
                self.sas[index].answer(&opened, &[notice], at);
                vec![Fact::Heard]
            }
        }
    }

    fn on_answer(&mut self, index: usize, opened: &Opened, at: &mut At<'_>) -> Vec<Fact> {
        let spi = self.sas[index].own_spi();
        let Some(awaited) = self.sas[index].answered(at.now, at.out) else {
            return vec![Fact::Heard];
        };
        match awaited {
            Awaited::Child(asked) => self.on_child_answer(spi, *asked, opened, at),
            Awaited::Rekey(asked) => self.on_rekey_answer(spi, asked, opened, at),
            Awaited::DeletedChild { spi_in } => self.on_child_deleted(spi_in),
            Awaited::DeletedIke => {
                match index {
                    0 => self.is_over = true,
                    _ => {
                        let gone = self.sas.remove(index);
                        self.abandon(gone);
                    }
                }
                vec![Fact::Heard]
            }
            Awaited::Probe { number, cookie, .. } => self.on_probe_answer(number, &cookie, opened),
            Awaited::Update(asked) => self.on_update_answer(spi, &asked, opened, at),
            Awaited::Ticket => self.on_ticket_answer(spi, opened, at.now),
            Awaited::Auth
            | Awaited::Addresses { .. }
            | Awaited::Token
            | Awaited::Told(_)
            | Awaited::End => vec![Fact::Heard],
        }
    }

    /// Adds a request, and sends it if the window is free.
    pub(super) fn add_task(&mut self, task: Task, at: &mut At<'_>) {
        if self.queue.add(task).is_err() {
            at.out.drops.count(DropReason::TooManyExchanges);
        }
        self.pump(at);
    }

    /// Sends the next request that waits, if the window is free.
    pub(super) fn pump(&mut self, at: &mut At<'_>) {
        while self.sas[0].asked.is_none() && self.held_until.is_none() && self.question.is_none() {
            if !self.queue.is_closed() && self.ask_addresses(at) {
                return;
            }
            let unfinished = self.sas[0].unfinished.as_ref();
            if unfinished.is_some_and(|it| self.queue.waits_for(&it.made)) {
                return;
            }
            match self.queue.next() {
                None => return,
                Some(Task::Child(task)) => self.ask_child(*task, at),
                Some(Task::RekeyIke(named)) => self.ask_rekey(named, at),
                Some(Task::DeleteChild { protocol, spi_in }) => {
                    self.ask_delete(protocol, spi_in, at);
                }
                Some(Task::Probe(number)) => self.ask_probe(number, at),
                Some(Task::Tell(payload)) => {
                    self.ask_read(&payload.clone(), Awaited::Told(payload), at);
                }
                Some(Task::Ticket) => self.ask_ticket(at),
                Some(Task::DeleteIke) => self.ask_end(at),
                Some(Task::Token) => {
                    let spis = self.sas[0].spis;
                    if let Some(token) = self.crash.token(spis) {
                        self.ask_read(&token, Awaited::Token, at);
                    }
                }
            }
        }
    }

    /// Sends a notification that the peer only has to read.
    fn ask_read(&mut self, payload: &Payload, awaited: Awaited, at: &mut At<'_>) {
        let chain = core::slice::from_ref(payload);
        self.current()
            .ask(Exchange::Informational, chain, awaited, None, at);
    }

    /// Puts a lease into the answer to the peer's request; none: there is no address for it.
    pub(super) fn grant_address(&mut self, lease: &Lease) {
        let Some(question) = &mut self.question else {
            return;
        };
        match lease.addresses.is_empty() {
            true => {
                question
                    .answer
                    .push(notify(NotifyType::InternalAddressFailure));
                question.is_refused = true;
            }
            false => question.answer.push(configuration::reply(lease)),
        }
    }

    /// Puts a refusal into the answer. The first one counts.
    pub(super) fn refuse_question(&mut self, refusal: Option<Refusal>) {
        let Some(question) = &mut self.question else {
            return;
        };
        if core::mem::replace(&mut question.is_refused, true) {
            return;
        }
        question.answer.push(match (refusal, question.method) {
            (Some(Refusal::KeyExchange), Some(method)) => notify_with(
                NotifyType::InvalidKePayload,
                method.number().to_be_bytes().to_vec(),
            ),
            (Some(refusal), _) => notify(notify_type(refusal)),
            (None, _) => notify(NotifyType::NoAdditionalSas),
        });
    }

    /// Puts into the answer that the peer may ask again later (RFC 7296 §2.25).
    pub(super) fn postpone_question(&mut self) {
        if let Some(question) = &mut self.question
            && !core::mem::replace(&mut question.is_refused, true)
        {
            question.answer.push(notify(NotifyType::TemporaryFailure));
        }
    }

    /// Sends the answer to the peer's request, with what was granted.
    pub(super) fn conclude(&mut self, at: &mut At<'_>) {
        if let Some(question) = self.question.take() {
            let mut chain = Vec::new();
            let mut notices = Vec::new();
            if let Subject::Auth {
                proof,
                notices: at_end,
                ..
            } = question.subject
            {
                chain = proof;
                notices = at_end;
            }
            chain.extend(question.answer);
            chain.extend(notices);
            let sas = self.sas.iter_mut();
            if let Some(sa) = sas.into_iter().find(|it| it.own_spi() == question.own_spi) {
                sa.answer(&question.opened, &chain, at);
            }
        }
        self.pump(at);
    }

    /// Exchanges for children.
    pub(super) fn exchanges(&self) -> Vec<ChildExchange> {
        let exchange = |child: ChildId, spi: u32| ChildExchange {
            child,
            spi,
            is_asked: true,
            is_done: false,
        };
        let asked = self
            .sas
            .iter()
            .filter_map(|sa| match &sa.asked.as_ref()?.awaited {
                Awaited::Child(asked) if !asked.is_abandoned => Some(&asked.task),
                _ => None,
            });
        let all = asked.chain(self.queue.children());
        let own = all.map(|task| exchange(task.child, task.spi));
        let linked = self.sas.iter().filter_map(|sa| sa.unfinished.as_ref());
        let peers = linked.filter_map(|it| it.child());
        let peers = peers.map(|(child, spi)| ChildExchange {
            is_asked: false,
            ..exchange(child, spi)
        });
        own.chain(peers).collect()
    }

    /// Nobody wants these children any more. Returns our SPIs of the exchanges that are not done.
    pub(super) fn forget_exchanges(&mut self, is_it: impl Fn(ChildId, u32) -> bool) -> Vec<u32> {
        let unwanted = |task: &super::tasks::ChildTask| is_it(task.child, task.spi);
        let mut spis = self.queue.remove_children(unwanted);
        if let Some(asked) = self.asked_child()
            && is_it(asked.task.child, asked.task.spi)
            && !asked.is_abandoned
        {
            asked.is_abandoned = true;
            spis.push(asked.task.spi);
        }
        for sa in &mut self.sas {
            let is_unwanted = |it: &mut Box<Linked>| {
                let child = it.child();
                child.is_some_and(|(child, spi)| is_it(child, spi))
            };
            let linked = sa.unfinished.take_if(is_unwanted);
            spis.extend(linked.and_then(|it| it.child()).map(|(_, spi)| spi));
        }
        spis
    }

    /// Asks for a probe with this number. Returns the number that the next answer has, and the
    /// octets that leave now; `None`: nothing leaves now.
    pub(super) fn probe(&mut self, number: u32, at: &mut At<'_>) -> Option<(u32, usize)> {
        // What was first sent elsewhere proves nothing about this path.
        let open = self.sas[0].asked.as_ref();
        let open = open.map(|asked| match &asked.awaited {
            Awaited::Probe { number, path, .. } if *path == at.path => Some(*number),
            Awaited::Update(update) if update.path == at.path => update.number,
            _ => None,
        });
        match open {
            // It is repeated at once, perhaps to a new address.
            Some(Some(asked)) => Some((asked, self.sas[0].ask_again(at.out))),
            Some(None) => {
                if !self.queue.has_probe() {
                    self.add_task(Task::Probe(number), at);
                }
                None
            }
            None => {
                let before = at.out.messages.len();
                self.add_task(Task::Probe(number), at);
                let sent = at.out.messages[before..].iter().map(|it| it.octets()).sum();
                Some((number, sent))
            }
        }
    }

    /// The session is at this path. Repetitions take it.
    pub(super) fn move_to(&mut self, path: Path) {
        self.note_moved();
        self.sas.iter_mut().for_each(|sa| sa.move_to(path));
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        let at = |at: Option<Instant>, why| at.map(|at| Deadline { at, why });
        let windows = self.sas.iter().filter_map(IkeSa::deadline);
        let ends = self
            .sas
            .iter()
            .map(|sa| at(sa.until, "forget a replaced IKE SA"));
        let unfinished = self.sas.iter().map(|sa| {
            let until = sa.unfinished.as_ref().map(|it| it.until);
            at(until, "forget a renewal that the peer has not finished")
        });
        let own = [
            at(self.children.deadline(), "delete a renewed child"),
            at(self.held_until, "use the renewed IKE SA"),
            at(self.renew_at, "renew the IKE SA again"),
        ];
        let all = own.into_iter().chain(ends).chain(unfinished);
        all.flatten().chain(windows).min()
    }

    /// Runs its timers. A request without an answer ends the session, except under an IKE SA that
    /// another one stands for.
    pub(super) fn on_deadline(&mut self, at: &mut At<'_>) -> Result<(), Fault> {
        let now = at.now;
        let mut fault = None;
        let mut index = 0;
        let over = self.sas.extract_if(.., |sa| {
            let is_current = index == 0;
            index += 1;
            let is_over = sa.until.is_some_and(|until| until <= now) && !is_current;
            match sa.fire(now, at.out) {
                Err(found) if is_current => {
                    fault = Some(found);
                    false
                }
                Err(_) => true,
                Ok(()) => is_over,
            }
        });
        let over: Vec<IkeSa> = over.collect();
        over.into_iter().for_each(|it| self.abandon(it));
        if let Some(fault) = fault {
            return Err(fault);
        }
        self.forget_unfinished(now);
        self.held_until.take_if(|it| *it <= now);
        if self.renew_at.take_if(|it| *it <= now).is_some() {
            self.begin_renewal(at);
        }
        self.delete_due(at);
        self.pump(at);
        Ok(())
    }

    /// Renews the IKE SA, unless a renewal is under way.
    pub(super) fn begin_renewal(&mut self, at: &mut At<'_>) {
        let own = self.sas[0].own_spi();
        if self.asked_rekey_of(own).is_none() && !self.queue.has_rekey() {
            self.add_task(Task::RekeyIke(None), at);
        }
    }

    /// How long the IKE SA may last from its last renewal on. Then it must be renewed or, without
    /// another authentication, end.
    pub(super) fn lifetime(&self) -> Duration {
        let own = self.connection.lifetime;
        let rest = self.ends_at.map(|at| at.since(self.renewed));
        rest.map_or(own, |rest| rest.min(own))
    }

    /// A message sent at `began` left only `now`.
    pub(super) fn departed(&mut self, began: Instant, now: Instant) {
        self.sas.iter_mut().for_each(|sa| sa.departed(began, now));
    }
}

/// What a peer is told about a refusal of its request.
pub(super) const fn notify_type(refusal: Refusal) -> NotifyType {
    match refusal {
        Refusal::Proposal => NotifyType::NoProposalChosen,
        Refusal::Selectors => NotifyType::TsUnacceptable,
        Refusal::KeyExchange | Refusal::Spi => NotifyType::InvalidSyntax,
        Refusal::Configuration => NotifyType::FailedCpRequired,
        Refusal::Superseded => SUPERSEDED,
    }
}
