//! The node's part of a session: it grants or refuses what the peer requests, and requests itself.

use crypto::rand::Stream;

use super::super::authenticate::Wishes;
use super::super::children::ChildState;
use super::super::parts::{SUPERSEDED, notify};
use super::super::tasks::{AskedChild, ChildTask, Task, usable};
use super::{Session, State};
use crate::counters::DropReason;
use crate::ike::{
    ChildExchange, ChildRequest, Fault, Grant, Lease, NegotiatedChild, Outbox, Refusal,
};
use crate::sa::{ChildId, Protocol};
use crate::time::Instant;

/// Answers to the peer's requests.
impl Session {
    /// Assigns addresses to the peer; none: there is no address for it.
    pub fn grant_address(&mut self, lease: &Lease) {
        if let Some(it) = self.established_mut() {
            it.grant_address(lease);
        }
    }

    /// Grants the child that the peer requests. On failure, the caller refuses it. `None`: more key
    /// exchanges follow, and then the child comes as [`Fact::Child`](crate::ike::Fact::Child).
    pub fn grant_child(
        &mut self,
        grant: &Grant<'_>,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Option<Box<NegotiatedChild>>, Fault> {
        let granted = self.with(random, now, out, |it, at| it.grant_child(grant, at));
        granted.unwrap_or_else(|| Err(DropReason::UnexpectedMessage.into()))
    }

    /// Refuses what the peer requests. It is told no more than this.
    pub fn refuse(&mut self, refusal: Option<Refusal>) {
        if let Some(it) = self.established_mut() {
            it.refuse_question(refusal);
        }
    }

    /// Refuses for now what the peer requests (RFC 7296 §2.25). It will ask again.
    pub fn postpone(&mut self) {
        if let Some(it) = self.established_mut() {
            it.postpone_question();
        }
    }

    /// Sends the answer to the peer's last request, with what was granted.
    pub fn conclude(&mut self, random: &mut Stream, now: Instant, out: &mut Outbox) {
        self.with(random, now, out, |it, at| it.conclude(at));
    }
}

/// Requests of ours.
impl Session {
    /// Asks for a child. `renews`: our SPI of its current pair.
    pub fn begin_child(
        &mut self,
        child: ChildId,
        request: ChildRequest<'_>,
        renews: Option<u32>,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), Fault> {
        let mut suites = usable(&request.child.proposals);
        suites.retain(|suite| !request.groups.refused.contains(&suite.pfs));
        // A child of IKE_AUTH has no key exchange of its own, which says nothing of its renewals.
        if let Some(agreed @ Some(_)) = request.groups.agreed {
            suites.sort_by_key(|suite| suite.pfs != agreed);
        }
        if suites.is_empty() {
            return Err(Fault::Refused(
                "none of our proposals can be negotiated by IKEv2: PFS needs a group of 2048 bits \
                 or more"
                    .into(),
            ));
        }
        let is_alone = request.child.may_be_in_udp();
        let task = ChildTask {
            child,
            mode: request.child.mode,
            suites,
            spi: request.spi,
            local: request.local,
            remote: request.remote,
            renews,
            must_be_udp: request.needs_udp,
            may_be_udp: is_alone,
            lifetime: request.child.lifetime,
            named: None,
        };
        let task = Task::Child(Box::new(task));
        self.with(random, now, out, |it, at| it.add_task(task, at));
        Ok(())
    }

    /// Tells the peer that a child is over, unless it knows.
    pub fn delete_child(
        &mut self,
        protocol: Protocol,
        spi_in: u32,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) {
        self.with(random, now, out, |it, at| {
            let is_known = it.children.of_own(spi_in).is_some_and(|child| {
                child.state != ChildState::Deleting && child.protocol == protocol
            });
            if is_known && !it.queue.has_delete(spi_in) {
                it.children.set(spi_in, ChildState::Deleting);
                it.add_task(Task::DeleteChild { protocol, spi_in }, at);
            }
        });
    }

    /// Asks for a new IKE SA in place of the current one, unless that is under way.
    pub fn renew(&mut self, random: &mut Stream, now: Instant, out: &mut Outbox) {
        self.with(random, now, out, |it, at| it.begin_renewal(at));
    }

    /// Asks whether the peer is there, with a number of the node. Returns the number that the next
    /// answer has, and the octets that leave now; `None`: another request is open, and its answer
    /// is a sign of life too.
    pub fn probe(
        &mut self,
        number: u32,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Option<(u32, usize)> {
        self.with(random, now, out, |it, at| it.probe(number, at))?
    }

    /// Tells the peer that its tunnel ends, because another device connected with its identity.
    pub fn supersede(&mut self, random: &mut Stream, now: Instant, out: &mut Outbox) {
        let notice = notify(SUPERSEDED);
        self.with(random, now, out, |it, at| {
            it.add_task(Task::Tell(notice), at)
        });
    }

    /// Exchanges for children in progress.
    pub fn exchanges(&self) -> Vec<ChildExchange> {
        let first = |asked: &AskedChild| ChildExchange {
            child: asked.task.child,
            spi: asked.task.spi,
            is_asked: true,
            is_done: false,
        };
        let wished = |wishes: &Wishes| {
            let exchange = wishes.child.iter().map(|it| ChildExchange {
                child: it.child,
                spi: it.spi,
                is_asked: true,
                is_done: false,
            });
            exchange.collect()
        };
        match &self.state {
            State::Asking(asking) => wished(&asking.1),
            State::Resuming(it) => wished(&it.1),
            State::Authenticating(it) => it.child.iter().map(first).collect(),
            State::Established(it) => it.exchanges(),
            State::Answering(_) | State::Ending(_) | State::Over => Vec::new(),
        }
    }

    /// Forgets the exchange with this SPI of ours.
    pub fn forget_exchange(&mut self, spi: u32) {
        if let Some(it) = self.established_mut() {
            it.forget_exchanges(|_, own| own == spi);
        }
    }

    /// Forgets the exchanges of a child, and returns our SPIs in them.
    pub fn forget_exchanges_of(&mut self, child: ChildId) -> Vec<u32> {
        let forget = |wishes: &mut Wishes| {
            let taken = wishes.child.take_if(|it| it.child == child);
            taken.into_iter().map(|it| it.spi).collect()
        };
        match &mut self.state {
            State::Asking(asking) => forget(&mut asking.1),
            State::Resuming(it) => forget(&mut it.1),
            State::Authenticating(it) => match &mut it.child {
                Some(asked) if asked.task.child == child && !asked.is_abandoned => {
                    asked.is_abandoned = true;
                    vec![asked.task.spi]
                }
                _ => Vec::new(),
            },
            State::Established(it) => it.forget_exchanges(|own, _| own == child),
            State::Answering(_) | State::Ending(_) | State::Over => Vec::new(),
        }
    }
}
