//! The quick modes of a session: those in progress, and finished ones that may have to repeat their
//! last message.

use super::super::informational;
use super::super::message::Message;
use super::super::quick::{Quick, QuickProgress};
use super::{Established, Question, Session};
use crate::counters::DropReason;
use crate::ike::{
    AgreedChild, ChildRequest, Complaint, Fact, Fault, Grant, NegotiatedChild, Outbox, Refusal,
    RefusedChild, Remedy, Terms,
};
use crate::sa::{ChildId, Protocol};
use crate::time::Instant;
use crypto::rand::Stream;

/// An unanswered quick mode that was sent this often does not delay the others any more: 3.5 s on a
/// fast path.
const PATIENCE: u32 = 4;

/// A quick mode, in progress or done.
pub struct Exchange {
    pub(super) quick: Box<Quick>,
    child: ChildId,
    spi: u32,
    /// When we initiated or answered it.
    begun: Instant,
    /// Our SPI of the child's pair at that time.
    renews: Option<u32>,
}

impl Exchange {
    /// Its child.
    pub fn child(&self) -> ChildId {
        self.child
    }

    /// Our SPI in it.
    pub fn spi(&self) -> u32 {
        self.spi
    }

    /// Whether it is ours and unanswered.
    pub fn is_asked(&self) -> bool {
        self.quick.asked().is_some()
    }

    /// Whether it has returned its SAs, and is kept only to answer duplicates.
    pub fn is_done(&self) -> bool {
        self.quick.is_done()
    }
}

impl Session {
    /// Starts an exchange for a child. `renews`: our SPI of its current pair.
    pub fn begin_child(
        &mut self,
        child: ChildId,
        request: ChildRequest<'_>,
        renews: Option<u32>,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), Fault> {
        let message_id = self.next_exchange(random);
        let Some(it) = self.established_mut() else {
            return Ok(());
        };
        let spi = request.spi;
        let quick = Quick::initiate(&it.sa, request, message_id, random, now, out)?;
        it.keep(
            Exchange {
                quick: Box::new(quick),
                child,
                spi,
                begun: now,
                renews,
            },
            out,
        );
        Ok(())
    }

    /// Grants the child of the peer's last request: message 2. On failure, the caller tells the
    /// peer with [`Self::refuse`].
    pub fn grant_child(
        &mut self,
        grant: Grant<'_>,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Box<NegotiatedChild>, Fault> {
        let Some(it) = self.established_mut() else {
            return Err(DropReason::UnexpectedMessage.into());
        };
        let Some(Question::Child(quick)) = it.question.as_deref_mut() else {
            return Err(DropReason::UnexpectedMessage.into());
        };
        let (child, spi, own) = (grant.child, grant.spi, it.sa.path.local.ip());
        let negotiated = quick.accept(&it.sa, child, spi, own, random, now, out)?;
        if let Some(Question::Child(quick)) = it.question.take().map(|it| *it) {
            it.make_room(grant.exchanges_max);
            it.keep(
                Exchange {
                    quick: Box::new(quick),
                    child: grant.id,
                    spi,
                    begun: now,
                    renews: grant.renews,
                },
                out,
            );
        }
        Ok(negotiated)
    }

    /// Sends deletes of a child's inbound SA.
    pub fn delete_child(
        &mut self,
        protocol: Protocol,
        spi: u32,
        random: &mut Stream,
        out: &mut Outbox,
    ) {
        let message_id = self.next_exchange(random);
        if let Some(it) = self.established_mut() {
            let payload = informational::delete_children(protocol, &[spi]);
            informational::send(&it.sa, vec![payload], message_id, out);
            it.remember(message_id, out);
        }
    }

    /// Exchanges for children, in progress or done.
    pub fn exchanges(&self) -> &[Exchange] {
        self.established().map_or(&[], |it| &it.exchanges)
    }

    /// Children with exchanges in progress.
    pub fn under_way(&self) -> impl Iterator<Item = ChildId> {
        let open = self.exchanges().iter().filter(|it| !it.is_done());
        open.map(|it| it.child)
    }

    /// Whether one of our exchanges is in progress and its answer is expected soon.
    pub fn is_asking(&self) -> bool {
        let mut sent = self.exchanges().iter().filter_map(|it| it.quick.was_sent());
        sent.any(|sent| sent < PATIENCE)
    }

    /// The numbers of our exchanges that are not done.
    pub fn own_exchanges(&self) -> impl Iterator<Item = u32> {
        let ours = self.exchanges().iter().map(|it| &it.quick);
        let open = ours.filter(|quick| quick.is_initiator() && !quick.is_done());
        open.map(|quick| quick.message_id())
    }

    /// Forgets the exchange with this SPI of ours.
    pub fn forget_exchange(&mut self, spi: u32) {
        if let Some(it) = self.established_mut() {
            it.exchanges.retain(|exchange| exchange.spi != spi);
        }
    }

    /// Forgets the exchanges of a child, and returns our SPIs in those that are not done. The SAs
    /// of the others belong to the child.
    pub fn forget_exchanges_of(&mut self, child: ChildId) -> Vec<u32> {
        let Some(it) = self.established_mut() else {
            return Vec::new();
        };
        let of_child = it.exchanges.extract_if(.., |it| it.child == child);
        let open = of_child.filter(|it| !it.is_done());
        open.map(|it| it.spi).collect()
    }

    /// A peer with a child has received our answer to its request for addresses.
    pub fn forget_answer(&mut self) {
        if let Some(it) = self.established_mut() {
            it.answered = None;
        }
    }

    /// Runs the timers of exchanges. Returns the failed ones: the child, our SPI, and the reason.
    pub fn on_child_deadlines(
        &mut self,
        now: Instant,
        out: &mut Outbox,
    ) -> Vec<(ChildId, u32, Fault)> {
        let Some(it) = self.established_mut() else {
            return Vec::new();
        };
        let mut failed = Vec::new();
        it.exchanges.retain_mut(|exchange| {
            let is_due = exchange.quick.deadline().is_some_and(|it| it.at <= now);
            match is_due.then(|| exchange.quick.on_deadline(now, out)) {
                None => true,
                Some(Ok(is_over)) => !is_over,
                Some(Err(fault)) => {
                    failed.push((exchange.child, exchange.spi, fault));
                    false
                }
            }
        });
        if it.exchanges.is_empty() {
            // A session has no exchanges most of the time.
            it.exchanges = Vec::new();
        }
        failed
    }

    /// Finds the exchange that an authenticated error ends: the one with the SPI that it names, or
    /// without one, our oldest unanswered one. Some peers name an SPI of their own: then it is the
    /// only one in progress.
    pub fn refused(&self, complaint: &Complaint) -> Option<RefusedChild> {
        let mut open = self.exchanges().iter().filter(|it| !it.quick.is_done());
        let names_none = complaint.child.is_none() || self.asked().count() == 1;
        let named = open.find(|it| complaint.child == Some(it.spi));
        let exchange = named.or_else(|| self.asked().next().filter(|_| names_none))?;
        let name = &complaint.name;
        let text = match exchange.quick.asked() {
            Some((words, _)) if complaint.refuses == Some(Refusal::Selectors) => format!(
                "the peer refused with {name}: it does not protect these networks for us; we \
                 asked for {words}"
            ),
            Some((words, _)) => format!("the peer refused with {name}; we asked for {words}"),
            None => format!("the peer refused our answer with {name}"),
        };
        let is_about_proposals = complaint.refuses == Some(Refusal::Proposal);
        let further = exchange.quick.group_before_others();
        let further = further.filter(|_| is_about_proposals);
        let is_pfs = is_about_proposals && further.is_none() && exchange.quick.needs_pfs();
        Some(RefusedChild {
            child: exchange.child,
            spi: exchange.spi,
            text: match is_pfs {
                true => format!("{text}; all of that is with PFS, which the peer may not want"),
                false => text,
            },
            remedy: further.map_or(Remedy::Nothing, Remedy::OtherGroups),
        })
    }

    /// The SPI that identifies the exchange to the peer, for an SPI of ours.
    pub(super) fn proposed(&self, spi: u32) -> Option<informational::ProposedSpi> {
        let mut all = self.exchanges().iter();
        all.find(|it| it.spi == spi)?.quick.proposed()
    }

    /// Our unanswered exchanges.
    fn asked(&self) -> impl Iterator<Item = &Exchange> {
        self.exchanges().iter().filter(|it| it.is_asked())
    }
}

impl Established {
    pub(super) fn on_quick(
        &mut self,
        message: &Message<'_>,
        terms: Terms,
        now: Instant,
        out: &mut Outbox,
    ) -> Fact {
        let of_message = |it: &&mut Exchange| it.quick.message_id() == message.id();
        let Some(exchange) = self.exchanges.iter_mut().find(of_message) else {
            return match self.ids.has(message.id()) {
                true => Fact::Dropped(DropReason::RetransmittedMessage),
                false => self.on_offer(message, terms, out),
            };
        };
        let (child, spi) = (exchange.child, exchange.spi);
        match exchange.quick.on_message(&self.sa, message, now, out) {
            // A duplicate, or a message that does not verify.
            Ok(QuickProgress::Pending) => Fact::Pending,
            Ok(QuickProgress::Unread) => Fact::Unread(child, spi),
            Ok(QuickProgress::Complete(negotiated)) => Fact::Child(Box::new(AgreedChild {
                child,
                exchange: message.id(),
                is_ours: exchange.quick.is_initiator(),
                begun: exchange.begun,
                renews: exchange.renews,
                negotiated,
                is_redundant: None,
            })),
            Err(fault @ (Fault::Malformed(_) | Fault::Misbehaved(_) | Fault::Dropped(_))) => {
                Fact::Unproven(fault)
            }
            Err(fault) => Fact::ChildFailed(child, spi, fault),
        }
    }

    /// Handles message 1 of a peer's quick mode.
    fn on_offer(&mut self, message: &Message<'_>, terms: Terms, out: &mut Outbox) -> Fact {
        let open = self.exchanges.iter().filter(|it| !it.quick.is_done());
        if open.count() >= terms.exchanges_max {
            return Fact::Dropped(DropReason::TooManyExchanges);
        }
        match Quick::offered(&self.sa, message, out) {
            Ok((quick, offer)) => {
                self.question = Some(Box::new(Question::Child(quick)));
                Fact::AsksChild(offer)
            }
            Err(fault) => Fact::Unproven(fault),
        }
    }

    /// Keeps a quick mode that continues, and marks its message ID as used.
    fn keep(&mut self, exchange: Exchange, out: &mut Outbox) {
        self.remember(exchange.quick.message_id(), out);
        self.exchanges.push(exchange);
    }

    /// Forgets finished quick modes above `limit`: the peer's before ours, which may have to repeat
    /// their last message.
    fn make_room(&mut self, limit: usize) {
        while self.exchanges.len() >= limit {
            let is_done = |it: &Exchange| it.quick.is_done();
            let is_theirs = |it: &Exchange| is_done(it) && !it.quick.is_initiator();
            let theirs = self.exchanges.iter().position(is_theirs);
            let Some(at) = theirs.or_else(|| self.exchanges.iter().position(is_done)) else {
                return;
            };
            self.exchanges.remove(at);
        }
    }
}
