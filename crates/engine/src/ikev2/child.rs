//! CREATE_CHILD_SA for children, new and renewed, in both roles (RFC 7296 §1.3.1, §1.3.3).
//!
//! ```text
//! initiator                                       responder
//! [N(REKEY_SA)], SA, Ni, [KEi], TSi, TSr -->
//!                                             <-- SA, Nr, [KEr], TSi, TSr
//! ```
//!
//! If both ends renew a pair at once, each answers the other, and the exchange with the lowest of
//! the four nonces makes what is redundant (RFC 7296 §2.8.1). The end that made it deletes it; the
//! other one deletes the old pair.

mod agree;

use crypto::dh::SharedSecret;
use crypto::key_exchange::Method;
use crypto::rand::Stream;
use wire::ikev2::{Exchange, KeyExchange, Notify, NotifyType, Payload};
use zeroize::Zeroizing;

use super::children::{ChildSa, ChildState, DELETE_DELAY};
use super::established::{Established, Question, Subject};
use super::exchange;
use super::fresh::fresh_nonce;
use super::offers::{bad_value, not_in_udp, offer_of, other_method, refused};
use super::parts::{Parts, notify};
use super::proposal::{self, child_protocol, child_spi, wire_protocol};
use super::selectors::write;
use super::tasks::{AskedChild, Awaited, ChildTask, Collision, Task, usable, without_pfs};
use super::unfinished::{Made, UnfinishedChild, no_keys};
use super::window::{At, Opened};
use crate::config::Child;
use crate::counters::DropReason;
use crate::ike::{AgreedChild, ChildOffer, Fact, Fault, Grant, NegotiatedChild, Role, Spi};
use crate::sa::{ChildId, Mode, Path, Protocol, Via};
use crate::suite::{EspSuite, Pfs};
use crate::time::Duration;

/// A peer that is busy is asked again after this time, and up to as long again.
const BUSY_RETRY: Duration = Duration::from_secs(5);

/// What a request for a child holds besides notifications and nonces.
pub(super) fn request_payloads(task: &ChildTask) -> (Payload, Vec<Payload>) {
    let spi = task.spi.to_be_bytes();
    let sa = Payload::SecurityAssociation(proposal::offer(&task.suites, &spi));
    let mut rest = vec![
        Payload::TrafficSelectorsInitiator(write(&task.local)),
        Payload::TrafficSelectorsResponder(write(&task.remote)),
    ];
    if task.mode == Mode::Transport {
        rest.push(notify(NotifyType::UseTransportMode));
    }
    (sa, rest)
}

/// Whether a child's packets travel in UDP: through a NAT they must; otherwise either end may, and
/// takes both forms (RFC 7296 §2.23).
pub(super) fn is_in_udp(
    suite: &EspSuite,
    path: Path,
    (is_natted, prefers_udp): (bool, bool),
    may_be_udp: bool,
) -> bool {
    suite.protocol == Protocol::Esp
        && path.via == Via::UdpWithMarker
        && (is_natted || prefers_udp)
        && may_be_udp
}

/// Our public value and the shared secret, where a child has PFS.
fn answer_exchange(
    method: Option<Method>,
    theirs: Option<&KeyExchange>,
    at: &mut At<'_>,
) -> Result<Option<(Payload, SharedSecret)>, Fault> {
    match (method, theirs) {
        (None, _) => Ok(None),
        (Some(method), Some(theirs)) if theirs.method == method.number() => {
            let (random, work) = (&mut *at.random, &mut at.out.work);
            let answered = exchange::respond(method, theirs, random, work);
            answered.map(Some).map_err(bad_value)
        }
        (Some(method), _) => Err(other_method(method)),
    }
}

/// Ni and Nr of an exchange that the peer has begun.
fn nonces_of(
    subject: &Subject,
    theirs: Option<&[u8]>,
    random: &mut Stream,
) -> (Zeroizing<Vec<u8>>, Zeroizing<Vec<u8>>) {
    match subject {
        Subject::Auth { nonces, .. } => (nonces.0.clone().into(), nonces.1.clone().into()),
        Subject::Child { .. } | Subject::Ticket => {
            let theirs = theirs.unwrap_or_default();
            (theirs.to_vec().into(), fresh_nonce(random))
        }
    }
}

impl Established {
    /// Sends the request for a child. One that renews a pair that is gone or replaced meanwhile is
    /// not sent.
    pub(super) fn ask_child(&mut self, task: ChildTask, at: &mut At<'_>) {
        let renewed = task.renews.map(|spi| self.children.of_own(spi));
        let is_stale =
            renewed.is_some_and(|old| old.is_none_or(|old| old.state != ChildState::Installed));
        if is_stale {
            self.overtaken.push((task.child, task.spi));
            return;
        }
        let nonce = fresh_nonce(at.random);
        let half = task.method();
        let half = half.map(|it| exchange::generate(it, at.random, &mut at.out.work));
        let (sa, rest) = request_payloads(&task);
        let mut chain = Vec::new();
        if let Some(old) = task.renews.and_then(|spi| self.children.of_own(spi)) {
            let protocol = wire_protocol(old.protocol);
            let notice = Notify::of_child(NotifyType::RekeySa, protocol, old.spi_in);
            chain.push(Payload::Notify(notice));
        }
        chain.push(sa);
        chain.push(Payload::Nonce(nonce.to_vec()));
        chain.extend(half.as_ref().map(exchange::payload));
        chain.extend(rest);
        let asked = AskedChild {
            task,
            nonce,
            half,
            unfinished: None,
            begun: at.now,
            collision: None,
            gone: Vec::new(),
            is_abandoned: false,
        };
        let awaited = Awaited::Child(Box::new(asked));
        self.current()
            .ask(Exchange::CreateChildSa, &chain, awaited, None, at);
    }

    /// The peer requests a child.
    pub(super) fn on_child_request(
        &mut self,
        index: usize,
        opened: Opened,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        let offer = match opened.parts() {
            Ok(parts) => self.read_offer(index, &parts),
            Err(_) => Err(notify(NotifyType::InvalidSyntax)),
        };
        match offer {
            Ok((offer, renews)) => {
                self.question = Some(Box::new(Question {
                    own_spi: self.sas[index].own_spi(),
                    opened,
                    first: None,
                    subject: Subject::Child { renews },
                    answer: Vec::new(),
                    method: None,
                    is_refused: false,
                }));
                vec![Fact::AsksChild(offer)]
            }
            Err(notice) => {
                self.sas[index].answer(&opened, &[notice], at);
                vec![Fact::Heard]
            }
        }
    }

    /// The peer's offer, and our SPI of the pair that it renews; or what to tell it instead.
    fn read_offer(
        &self,
        index: usize,
        parts: &Parts<'_>,
    ) -> Result<(ChildOffer, Option<u32>), Payload> {
        // RFC 7296 §2.25.2: while the IKE SA is renewed, nothing new begins.
        if self.is_renewing(index) {
            return Err(notify(NotifyType::TemporaryFailure));
        }
        let mut renewed = None;
        if let Some((protocol, spi)) = parts.notice(NotifyType::RekeySa).and_then(Notify::to_child)
        {
            let old = child_protocol(protocol);
            let old = old.and_then(|it| self.children.of_peer(it, spi));
            if old.is_none() && self.awaits_child() {
                // It may be the one that the answer to our open request makes, which is late.
                return Err(notify(NotifyType::TemporaryFailure));
            }
            let Some(old) = old else {
                let notice = Notify::of_child(NotifyType::ChildSaNotFound, protocol, spi);
                return Err(Payload::Notify(notice));
            };
            // RFC 7296 §2.25.1: we are about to close it.
            if old.state != ChildState::Installed {
                return Err(notify(NotifyType::TemporaryFailure));
            }
            renewed = Some(old);
        } else if parts.has(NotifyType::RekeySa) {
            return Err(notify(NotifyType::InvalidSyntax));
        }
        let has_all = parts.sa.is_some() && parts.nonce.is_some();
        let offer = offer_of(parts, renewed).filter(|_| has_all);
        let offer = offer.ok_or_else(|| notify(NotifyType::InvalidSyntax))?;
        Ok((offer, renewed.map(|old| old.spi_in)))
    }

    /// Grants the child of the peer's request, and puts it into the answer.
    pub(super) fn grant_child(
        &mut self,
        grant: &Grant<'_>,
        at: &mut At<'_>,
    ) -> Result<Option<Box<NegotiatedChild>>, Fault> {
        let Some(mut question) = self.question.take() else {
            return Err(DropReason::UnexpectedMessage.into());
        };
        let granted = self.grant(&mut question, grant, at);
        self.question = Some(question);
        granted
    }

    fn grant(
        &mut self,
        question: &mut Question,
        grant: &Grant<'_>,
        at: &mut At<'_>,
    ) -> Result<Option<Box<NegotiatedChild>>, Fault> {
        let wishes = question.first.as_ref().unwrap_or(&question.opened);
        let parts = wishes.parts()?;
        let offered = parts.sa.unwrap_or_default();
        let is_first = matches!(question.subject, Subject::Auth { .. });
        let suites = match is_first {
            true => without_pfs(&grant.child.proposals),
            false => usable(&grant.child.proposals),
        };
        let chosen = proposal::choose(&suites, offered)
            .ok_or_else(|| proposal::nothing_in_common(&suites, offered))?;
        let (suite, spi_out) = (chosen.suite, child_spi(chosen.proposal)?);
        let is_udp = self.udp_of(&suite, grant.child, at.path)?;
        let method = suite.pfs.and_then(Pfs::method);
        let is_other = |it: &Method| parts.exchange.is_none_or(|they| they.method != it.number());
        question.method = method.filter(is_other);
        let answered = answer_exchange(method, parts.exchange, at)?;
        let nonces = nonces_of(&question.subject, parts.nonce, at.random);
        let spi = grant.spi.to_be_bytes();
        let answer = vec![proposal::answer(&chosen, &spi)];
        question.answer.push(Payload::SecurityAssociation(answer));
        let (value, secret) = answered.unzip();
        if !is_first {
            question.answer.push(Payload::Nonce(nonces.1.to_vec()));
            question.answer.extend(value);
        }
        question
            .answer
            .extend(self.granted_payloads(grant, at.path));
        let agreed = NegotiatedChild {
            suite,
            mode: grant.child.mode,
            is_udp_encapsulated: is_udp,
            spi_in: grant.spi,
            spi_out,
            keys_in: no_keys(),
            keys_out: no_keys(),
            local: grant.local.clone(),
            remote: grant.remote.clone(),
            original: self.original(grant.child.mode, (&grant.remote, &grant.local)),
            lifetime_s: grant.child.lifetime.as_secs(),
            lifetime_bytes: None,
        };
        let made = UnfinishedChild {
            child: grant.id,
            renews: match question.subject {
                Subject::Child { renews } => renews,
                Subject::Auth { .. } | Subject::Ticket => None,
            },
            agreed: Box::new(agreed),
            nonces,
            secrets: secret.into_iter().collect(),
        };
        if made.next_method().is_some() {
            self.keep_unfinished(
                question.own_spi,
                Made::Child(made),
                &mut question.answer,
                at,
            );
            return Ok(None);
        }
        self.finish_granted(question.own_spi, made, at).map(Some)
    }

    /// The pair of a child that the peer has initiated, after its last key exchange.
    pub(super) fn finish_granted(
        &mut self,
        own_spi: Spi,
        made: UnfinishedChild,
        at: &mut At<'_>,
    ) -> Result<Box<NegotiatedChild>, Fault> {
        let (child, renews, lowest) = (made.child, made.renews, made.lowest());
        let sa = self.sa_of(own_spi).ok_or(DropReason::UnknownCookies)?;
        let sa = (sa.suite.prf, &sa.d);
        let negotiated = made.finish(Role::Responder, sa, &mut at.out.work)?;
        self.note_granted(child, &negotiated, (renews, lowest));
        Ok(negotiated)
    }

    /// Remembers a pair that the peer has initiated, and what it renews.
    fn note_granted(
        &mut self,
        child: ChildId,
        negotiated: &NegotiatedChild,
        (renews, lowest): (Option<u32>, Vec<u8>),
    ) {
        self.children.add(ChildSa {
            child,
            protocol: negotiated.suite.protocol,
            spi_in: negotiated.spi_in,
            spi_out: negotiated.spi_out,
            state: ChildState::Installed,
        });
        let Some(old) = renews else { return };
        self.children.set(old, ChildState::Replaced(None));
        if let Some(asked) = self.asked_child().filter(|it| it.task.renews == Some(old)) {
            asked.collision = Some(Collision {
                spi: negotiated.spi_in,
                lowest,
                is_gone: false,
            });
        }
    }

    /// Whether a child is in UDP; an error if it must be and cannot.
    fn udp_of(&self, suite: &EspSuite, child: &Child, path: Path) -> Result<bool, Fault> {
        let wishes = (self.nat.is_between(), self.connection.prefers_udp());
        let is_udp = is_in_udp(suite, path, wishes, child.may_be_in_udp());
        match self.connection.must_be_in_udp(child) && !is_udp {
            true => Err(not_in_udp()),
            false => Ok(is_udp),
        }
    }

    /// The answer to our request for a child, or to one of the key exchanges after it. It came
    /// under the IKE SA with this SPI of ours.
    pub(super) fn on_child_answer(
        &mut self,
        under: Spi,
        mut asked: AskedChild,
        opened: &Opened,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        let (child, spi) = (asked.task.child, asked.task.spi);
        let parts = match opened.parts() {
            Ok(parts) => parts,
            Err(reason) => return vec![Fact::ChildFailed(child, spi, reason.into())],
        };
        if let Some(error) = parts.error()
            && parts.sa.is_none()
        {
            return self.on_child_refused(asked, error, at);
        }
        let made = match asked.unfinished.take() {
            Some(made) => made.take_answer(asked.half.as_ref(), &parts, &mut at.out.work),
            None => self.agree_child(&asked, &parts, None, at),
        };
        let next = made.as_ref().map_or(None, UnfinishedChild::next_method);
        if asked.is_abandoned && next.is_some() {
            // It never comes to be.
            return vec![Fact::Heard];
        }
        let done = match (made, next) {
            (Ok(made), Some(method)) => {
                match self.ask_childs_followup(under, asked, (made, method), &parts, at) {
                    Ok(()) => return vec![Fact::Heard],
                    Err(fault) => return vec![Fact::ChildFailed(child, spi, fault)],
                }
            }
            (made, _) => made.and_then(|made| {
                let lowest = made.lowest();
                let sa = self.sa_of(under).ok_or(DropReason::UnknownCookies)?;
                let sa = (sa.suite.prf, &sa.d);
                let negotiated = made.finish(Role::Initiator, sa, &mut at.out.work)?;
                Ok((negotiated, lowest))
            }),
        };
        match done {
            Ok((negotiated, lowest)) => self.child_agreed(asked, negotiated, &lowest, at),
            Err(fault) => {
                // The peer has it and must be told.
                self.delete_unknown(&asked, at);
                match asked.is_abandoned {
                    true => vec![Fact::Heard],
                    false => vec![Fact::ChildFailed(child, spi, fault)],
                }
            }
        }
    }

    fn child_agreed(
        &mut self,
        asked: AskedChild,
        negotiated: Box<NegotiatedChild>,
        lowest: &[u8],
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        if asked.gone.contains(&negotiated.spi_out) {
            return self.child_gone(&asked.task, at);
        }
        let collision = asked.collision.as_ref();
        let is_redundant = collision.is_some_and(|it| it.outdoes(lowest));
        let state = match is_redundant || asked.is_abandoned {
            true => ChildState::Deleting,
            false => ChildState::Installed,
        };
        let (spi_in, protocol) = (negotiated.spi_in, negotiated.suite.protocol);
        self.children.add(ChildSa {
            child: asked.task.child,
            protocol,
            spi_in,
            spi_out: negotiated.spi_out,
            state,
        });
        if state == ChildState::Deleting {
            // RFC 7296 §2.8.1: the end that made it closes it.
            self.add_task(Task::DeleteChild { protocol, spi_in }, at);
        } else if let Some(old) = asked.task.renews
            && self
                .children
                .of_own(old)
                .is_some_and(|it| it.state != ChildState::Deleting)
        {
            let replaced = ChildState::Replaced(Some(at.now + DELETE_DELAY));
            self.children.set(old, replaced);
        }
        if asked.is_abandoned {
            return vec![Fact::Heard];
        }
        vec![Fact::Child(Box::new(AgreedChild {
            child: asked.task.child,
            exchange: 0,
            is_ours: true,
            begun: asked.begun,
            renews: asked.task.renews,
            negotiated,
            is_redundant: Some(is_redundant),
        }))]
    }

    /// The delete of what we asked for has overtaken the answer. What it was to renew is over too:
    /// the peer waits for its end, and would not renew it again.
    fn child_gone(&mut self, task: &ChildTask, at: &mut At<'_>) -> Vec<Fact> {
        let old = task.renews.and_then(|old| self.children.of_own(old));
        let old = old.filter(|old| old.state != ChildState::Deleting);
        let after = match old.map(|old| (old.protocol, old.spi_in)) {
            Some((protocol, spi_in)) => {
                self.children.set(spi_in, ChildState::Deleting);
                self.add_task(Task::DeleteChild { protocol, spi_in }, at);
                None
            }
            None if task.renews.is_some() => None,
            None => Some(BUSY_RETRY),
        };
        vec![Fact::ChildPostponed(task.child, task.spi, after)]
    }

    /// The peer has refused a child.
    fn on_child_refused(
        &mut self,
        asked: AskedChild,
        error: &Notify,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        let (child, spi) = (asked.task.child, asked.task.spi);
        if asked.is_abandoned {
            return vec![Fact::Heard];
        }
        let is_replaced = asked.collision.as_ref().is_some_and(|it| !it.is_gone);
        let old = asked.task.renews.and_then(|old| self.children.of_own(old));
        match error.kind {
            _ if is_replaced => vec![Fact::ChildPostponed(child, spi, None)],
            // The peer is busy, or has forgotten the exchanges before this one.
            NotifyType::TemporaryFailure | NotifyType::StateNotFound => {
                let more = BUSY_RETRY.mul_f64(f64::from(at.random.u32() >> 16) / 65536.0);
                vec![Fact::ChildPostponed(child, spi, Some(BUSY_RETRY + more))]
            }
            // It is gone at the peer, and its delete is lost or on the way: RFC 7296 §2.25.
            NotifyType::ChildSaNotFound => {
                let gone = old.map(|old| (old.spi_in, old.spi_out));
                let mut facts = vec![Fact::ChildPostponed(child, spi, None)];
                if let Some((spi_in, spi_out)) = gone {
                    self.children.remove(spi_in);
                    let gone = crate::ike::Notification::DeletedChildren(vec![spi_out]);
                    facts.push(Fact::Told(0, vec![gone]));
                }
                facts
            }
            NotifyType::InvalidKePayload => {
                let named = error.to_method().ok().and_then(Method::of_number);
                let methods = asked.task.suites.iter();
                let mut methods = methods.filter_map(|suite| suite.pfs?.method());
                let is_new = |it: &Method| asked.task.method() != Some(*it);
                let named = named.filter(|it| methods.any(|own| own == *it));
                match named.filter(is_new) {
                    Some(method) if asked.task.named.is_none() => {
                        let task = ChildTask {
                            named: Some(method),
                            ..asked.task
                        };
                        self.queue.add_first(Task::Child(Box::new(task)));
                        vec![Fact::Heard]
                    }
                    _ => vec![Fact::ChildFailed(child, spi, refused(&asked.task, error))],
                }
            }
            _ => vec![Fact::ChildFailed(child, spi, refused(&asked.task, error))],
        }
    }

    /// The peer has a pair that we do not take: its end is told (RFC 7296 §1.4.1).
    pub(super) fn delete_unknown(&mut self, asked: &AskedChild, at: &mut At<'_>) {
        let Some(suite) = asked.task.suites.first() else {
            return;
        };
        let delete = Task::DeleteChild {
            protocol: suite.protocol,
            spi_in: asked.task.spi,
        };
        self.add_task(delete, at);
    }

    /// Whether a request of ours for a child is open.
    fn awaits_child(&self) -> bool {
        let asked = self.sas.iter().filter_map(|sa| sa.asked.as_ref());
        let mut awaited = asked.map(|it| &it.awaited);
        awaited.any(|it| matches!(it, Awaited::Child(_)))
    }

    /// Our open request for a child.
    pub(super) fn asked_child(&mut self) -> Option<&mut AskedChild> {
        let mut all = self.sas.iter_mut().filter_map(|sa| sa.asked.as_mut());
        all.find_map(|asked| match &mut asked.awaited {
            Awaited::Child(asked) => Some(&mut **asked),
            _ => None,
        })
    }
}
