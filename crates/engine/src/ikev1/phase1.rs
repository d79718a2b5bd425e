//! Phase 1 as a machine: main or aggressive mode, either role. The modes themselves are in
//! `main_mode.rs` and `aggressive.rs`.
//!
//! An unauthenticated message does not end an exchange. An unreadable one is dropped and counted.
//! One that could be the peer's but fails (a proposal that we did not offer, a wrong hash in an
//! unencrypted message) is a **doubt**: the exchange waits [`GRACE`] for a better one, then ends
//! with the doubt's error. Only a message encrypted with keys from the Diffie-Hellman exchange ends
//! it at once.

use std::sync::Arc;

use crypto::rand::Stream;
use wire::codec::Malformed;
use wire::isakmp::{Cookie, Cookies, Exchange, Located, NotifyType, Payload, payloads};

use super::IsakmpSa;
use super::awaited::{Awaited, Failure, Next};
use super::decoy::Decoys;
use super::exchange::{At, Core, cookie};
use super::in_clear::notification_in_clear;
use super::message::Message;
use super::names_read;
use super::parts::Parts;
use super::refusal::of_mode;
use crate::config::Connection;
use crate::counters::DropReason;
use crate::ike::retransmit::Retransmit;
use crate::ike::{Fault, Outbox, Role};
use crate::quotas::Quotas;
use crate::sa::Path;
use crate::time::{Calendar, Deadline, Duration, Instant};

/// How long to wait for a better message after an unauthenticated failure.
pub const GRACE: Duration = Duration::from_secs(3);
/// How many such messages an aggressive initiator checks: each costs it a shared value.
pub const MAX_DOUBTS: u32 = 32;
/// A peer above its quota is heard again after this time: each proof of identity costs signature
/// checks. An honest peer repeats its message later than that.
pub const REFUSED_WAIT: Duration = Duration::from_secs(1);
/// Log lines about unauthenticated complaints in one exchange: anybody who reads its cookies can
/// send them.
pub const MAX_COMPLAINTS: u32 = 4;
/// Octets of a first message of main mode. It is stored for an unproven address. About 100
/// proposals fit.
pub const MAX_FIRST_BYTES: usize = 4 << 10;
/// Octets of any other message that a responder reads before its peer is authenticated and before
/// there are keys. Some peers request the certificates of all authorities that they know.
pub const MAX_CLEAR_BYTES: usize = 16 << 10;

/// The resources for processing a message.
pub struct Means<'a> {
    /// For cookies, nonces and private values.
    pub random: &'a mut Stream,
    /// The quotas of peers; `None`: no limit.
    pub quotas: Option<&'a mut Quotas>,
    /// The date for checking certificates.
    pub calendar: Calendar,
}

/// What a message of phase 1 shows of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The message was read, whatever it proves: the peer is not silent.
    pub is_heard: bool,
    /// The peer receives at its address.
    pub is_proven: bool,
}

/// The result of phase 1: the SA, and the connection with its peer.
pub type Outcome = (Box<IsakmpSa>, Arc<Connection>);

/// A phase 1 exchange, from its first message until its last one need not be repeated.
pub struct Phase1 {
    pub(super) core: Core,
    pub(super) step: Awaited,
    doubt: Option<Doubt>,
    doubts: u32,
    complaints: u32,
    /// The peer is above its quota: the reason, and until when its messages are ignored.
    refused: Option<(DropReason, Instant)>,
}

/// An unauthenticated failure.
struct Doubt {
    fault: Fault,
    until: Instant,
}

impl Phase1 {
    /// Starts an exchange with the connection's peer. `is_first_contact`: we have no other SA with
    /// it and say so (RFC 2407 §4.6.3.3).
    ///
    /// Panics if the connection has no proposals or two different methods.
    pub fn initiate(
        connection: Arc<Connection>,
        path: Path,
        is_first_contact: bool,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Self {
        let is_aggressive = connection.is_aggressive;
        let cookies = Cookies {
            initiator: cookie(random),
            responder: Cookie::ZERO,
        };
        let mut core = Core::new(Role::Initiator, vec![connection], cookies, path);
        core.is_first_contact = is_first_contact;
        let step = if is_aggressive {
            core.aggressive_initiate(random, now, out)
        } else {
            core.main_initiate(now, out)
        };
        Self::at(core, step)
    }

    /// Another SA with the peer was established: later messages must not announce a first contact.
    pub fn forget_first_contact(&mut self) {
        self.core.is_first_contact = false;
    }

    /// Answers a first message with the first of `candidates` that fits it. `candidates` are the
    /// connections between both addresses (`Config::between`). On a fault, `out` has a
    /// notification if the peer is told, and nothing is left to keep.
    pub fn respond(
        candidates: &[Arc<Connection>],
        decoys: &Decoys,
        path: Path,
        message: &Message<'_>,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Self, Fault> {
        let (header, body) = (message.header(), message.body());
        let is_aggressive = match header.exchange {
            Exchange::IdentityProtection => false,
            Exchange::Aggressive => true,
            _ => return Err(DropReason::UnsupportedExchange.into()),
        };
        let is_first = header.cookies.responder == Cookie::ZERO
            && header.cookies.initiator != Cookie::ZERO
            && header.message_id == 0
            && !header.flags.is_encrypted();
        if !is_first {
            return Err(DropReason::UnexpectedMessage.into());
        }
        let most = if is_aggressive {
            MAX_CLEAR_BYTES
        } else {
            MAX_FIRST_BYTES
        };
        if message.octets().len() > most {
            return Err(Malformed::TooMany("octets of a first message").into());
        }
        let located = payloads(header.next_payload, body)?;
        let parts = Parts::sort(body, &located)?;
        let candidates = of_mode(candidates, is_aggressive).inspect_err(|_| {
            let kind = NotifyType::NoProposalChosen;
            out.messages
                .push(notification_in_clear(header.cookies, kind, path, random));
        })?;
        let cookies = Cookies {
            initiator: header.cookies.initiator,
            responder: cookie(random),
        };
        let mut core = Core::new(Role::Responder, candidates, cookies, path);
        let result = if is_aggressive {
            core.aggressive_1(message.octets(), &parts, decoys, random, now, out)
        } else {
            core.main_1(message.octets(), &parts, now, out)
        };
        match result {
            Ok(step) => {
                out.heard(core.step(1), message.size(), names_read(&located));
                Ok(Self::at(core, step))
            }
            Err(fault) => {
                core.cookies.responder = Cookie::ZERO;
                core.tell(&fault, None, random, out);
                Err(fault)
            }
        }
    }

    fn at(core: Core, step: Awaited) -> Self {
        Self {
            core,
            step,
            doubt: None,
            doubts: 0,
            complaints: 0,
            refused: None,
        }
    }

    /// Its cookies. The responder's is zero until known.
    pub fn cookies(&self) -> Cookies {
        self.core.cookies
    }

    /// Our offer in the configuration's words; `None` if the peer makes the offer.
    pub fn offered(&self) -> Option<String> {
        (self.core.role == Role::Initiator).then(|| self.core.offered())
    }

    /// The path to the peer. It moves to port 4500 behind a NAT (RFC 3947 §4).
    pub fn path(&self) -> Path {
        self.core.path
    }

    /// Aggressive mode; otherwise main mode.
    pub fn is_aggressive(&self) -> bool {
        self.core.is_aggressive
    }

    /// Whether the log takes one more unauthenticated complaint.
    pub fn takes_complaint(&mut self) -> bool {
        let takes = self.complaints < MAX_COMPLAINTS;
        self.complaints += u32::from(takes);
        takes
    }

    /// We have authenticated, and the peer may consider the SA established.
    pub fn has_proven(&self) -> bool {
        self.core.role == Role::Initiator && matches!(self.step, Awaited::Main6(_) | Awaited::Done)
    }

    /// Handles a reassembled message of this exchange, or any other with its cookies as long as
    /// there is no ISAKMP SA. A duplicate of the last one is answered with our last message again.
    /// Forged or stale ones are dropped without ending the exchange (`Ok`, counted by the node
    /// through `Outbox::drops`). Returns the SA too when both ends have authenticated.
    pub fn on_message(
        &mut self,
        path: Path,
        message: &Message<'_>,
        means: Means<'_>,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(Shown, Option<Outcome>), Fault> {
        let nothing = (Shown::default(), None);
        if self.ignores(message, now, out) {
            return Ok(nothing);
        }
        let exchange = message.header().exchange;
        if exchange == Exchange::Informational {
            self.on_refusal(message, now, out)?;
            return Ok(nothing);
        }
        if exchange != self.core.exchange() {
            self.on_stray(out);
            return Ok(nothing);
        }
        if matches!(self.step, Awaited::Aggressive2(_)) && self.doubts >= MAX_DOUBTS {
            out.drops.count(DropReason::UnexpectedMessage);
            return Ok(nothing);
        }
        let Means {
            random,
            quotas,
            calendar,
        } = means;
        let step = core::mem::replace(&mut self.step, Awaited::Done);
        let mut at = At {
            path,
            message,
            now,
            calendar,
            random,
            quotas,
            out,
        };
        let (next, sa) = match self.core.advance(&step, &mut at) {
            Ok(Next::Awaits(next)) => (next, None),
            Ok(Next::Established(sa)) => (Awaited::Done, Some(sa)),
            Err(failure) => {
                self.step = step;
                let (is_heard, random, out) = (failure.is_heard, at.random, at.out);
                if self.doubts == 0 && matches!(self.step, Awaited::Aggressive2(_)) {
                    let cookies = message.cookies();
                    self.core.disbelieve(&failure.fault, cookies, random, out);
                }
                self.judge(failure, random, now, out)?;
                let shown = Shown {
                    is_heard,
                    is_proven: false,
                };
                return Ok((shown, None));
            }
        };
        let shown = Shown {
            is_heard: true,
            is_proven: step.is_half_open() && !next.is_half_open(),
        };
        self.step = next;
        self.doubt = None;
        Ok((shown, sa.map(|sa| (sa, Arc::clone(self.core.connection())))))
    }

    /// Answers a duplicate. Drops what does not fit, and what comes from a peer above its quota.
    /// Returns whether the message was one of these.
    fn ignores(&mut self, message: &Message<'_>, now: Instant, out: &mut Outbox) -> bool {
        if let Some(answered) = &mut self.core.answered
            && answered.take_duplicate(message.octets(), out).is_some()
        {
            return true;
        }
        let refused = self.refused.filter(|(_, until)| now < *until);
        let reason = self.core.unfit(message);
        let reason = reason.or(refused.map(|(reason, _)| reason));
        if let Some(reason) = reason {
            out.drops.count(reason);
        }
        reason.is_some()
    }

    /// The next retransmission, or the end. `None`: the exchange is over and may be forgotten.
    pub fn deadline(&self) -> Option<Deadline> {
        let doubt = self.doubt.as_ref().map(|doubt| Deadline {
            at: doubt.until,
            why: "phase 1 refused",
        });
        let expiry = self.core.expires.map(|at| Deadline {
            at,
            why: "phase 1 expires",
        });
        let again = self.core.retransmit.as_ref().map(Retransmit::deadline);
        [doubt, expiry, again].into_iter().flatten().min()
    }

    /// A responder waits until this time for the initiator's next message.
    pub fn give_up_at(&mut self, at: Instant) {
        self.core.expires = Some(at);
    }

    /// A message sent at `began` left only `now`.
    pub fn departed(&mut self, began: Instant, now: Instant) {
        self.core.departed(began, now);
    }

    /// Sends again, or gives up.
    pub fn on_deadline(&mut self, now: Instant, out: &mut Outbox) -> Result<(), Fault> {
        if let Some(doubt) = self.doubt.take_if(|doubt| doubt.until <= now) {
            return Err(doubt.fault);
        }
        if self.core.expires.is_some_and(|expires| expires <= now) {
            self.core.expires = None;
            if !matches!(self.step, Awaited::Done) {
                return Err(self.core.timeout(&self.step));
            }
        }
        match &mut self.core.retransmit {
            Some(retransmit) => match retransmit.fire(now, out) {
                Err(Fault::TimedOut(_)) => Err(self.core.timeout(&self.step)),
                result => result,
            },
            None => Ok(()),
        }
    }

    /// Handles a message of another exchange before there is an SA. An aggressive initiator sends
    /// its third message once. If it starts quick mode and the third was lost, we repeat the
    /// second, so that the third is sent again. The sender knows our cookie, so it has read our
    /// answer.
    fn on_stray(&mut self, out: &mut Outbox) {
        out.drops.count(DropReason::UnexpectedMessage);
        if let (Awaited::Aggressive3(_), Some(answered)) = (&self.step, &mut self.core.answered) {
            answered.repeat(out);
        }
    }

    /// The peer refused: believed at once if encrypted, otherwise a doubt.
    fn on_refusal(
        &mut self,
        message: &Message<'_>,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), Fault> {
        let header = message.header();
        let is_sealed = header.flags.is_encrypted();
        let found: Result<Vec<Located>, DropReason> = if is_sealed {
            match self.step.keyed() {
                None => Err(DropReason::UndecryptableMessage),
                Some(keyed) => self.core.open_notice(keyed, message, &mut out.work),
            }
        } else {
            payloads(header.next_payload, message.body()).map_err(|_| DropReason::MalformedMessage)
        };
        let located = match found {
            Ok(located) => located,
            Err(reason) => {
                out.drops.count(reason);
                return Ok(());
            }
        };
        let error = located.iter().find_map(|located| match &located.payload {
            Payload::Notify(notify) if notify.kind.is_error() => Some(notify.kind),
            _ => None,
        });
        let (Some(kind), false) = (error, matches!(self.step, Awaited::Done)) else {
            out.drops.count(DropReason::UnexpectedMessage);
            return Ok(());
        };
        let fault = self.core.refused_with(kind);
        if is_sealed {
            return Err(fault);
        }
        self.doubt(fault, now);
        Ok(())
    }

    /// Drops the message, records a doubt, or ends the exchange.
    fn judge(
        &mut self,
        failure: Failure,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), Fault> {
        match failure.fault {
            Fault::Dropped(reason) => {
                let is_refused = [DropReason::OverQuota, DropReason::TooManySessions];
                if is_refused.contains(&reason) {
                    self.refused = Some((reason, now + REFUSED_WAIT));
                }
                out.drops.count(reason);
                Ok(())
            }
            fault if let Some(last_block) = failure.last_block => {
                let keyed = self.step.keyed().map(|keyed| (keyed, last_block));
                self.core.tell(&fault, keyed, random, out);
                Err(fault)
            }
            fault => {
                out.drops.count(fault.drop_reason());
                self.doubt(fault, now);
                Ok(())
            }
        }
    }

    /// Keeps the first doubt's error and time.
    fn doubt(&mut self, fault: Fault, now: Instant) {
        self.doubts += 1;
        let until = now + GRACE;
        self.doubt.get_or_insert(Doubt { fault, until });
    }
}
