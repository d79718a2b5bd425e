//! A session of IKEv1: one ISAKMP SA from its first message on, and the exchanges under it.
//!
//! It owns its keys, its exchanges and their timers. Inputs are messages, deadlines and commands.
//! Outgoing messages go to an [`Outbox`], results are [`Fact`]s. A peer's request is also a fact:
//! the session continues when the node tells it the answer.

mod addresses;
mod children;
pub(crate) mod message_ids;
mod notices;

use std::sync::Arc;

use crypto::cert::CertificatePath;
use crypto::rand::Stream;

use super::decoy::Decoys;
use super::message::{Kind, Message};
use super::mode_config::{AddressRequest, ConfigRequest};
use super::phase1::Phase1;
pub use super::phase1::{Means, Shown};
use super::quick::Quick;
use super::{IsakmpSa, NatFinding};
use crate::config::Connection;
use crate::counters::DropReason;
use crate::identity::Peer;
use crate::ike::retransmit::Answered;
use crate::ike::round_trip::RoundTrip;
use crate::ike::{Fact, Fault, Outbox, Role, Spi, Spis, Terms};
use crate::sa::{Path, Secret};
use crate::suite::IkeSuite;
use crate::time::{Deadline, Instant};
pub use children::Exchange;
use message_ids::MessageIds;
pub use notices::About;

/// One ISAKMP SA and the exchanges under it.
pub struct Session {
    role: Role,
    /// The measurements of the path to the peer.
    round_trip: RoundTrip,
    state: State,
}

enum State {
    Phase1(Box<Phase1>),
    Established(Box<Established>),
}

/// The state after phase 1 has succeeded.
struct Established {
    sa: IsakmpSa,
    /// Kept while its last message may have to be repeated.
    phase1: Option<Box<Phase1>>,
    /// Message IDs of all exchanges of phase 2 so far, including ours. A replayed first message
    /// does not start an exchange.
    ids: MessageIds,
    exchanges: Vec<Exchange>,
    request: Option<Box<ConfigRequest>>,
    /// Our last mode config answer, for a duplicate request.
    answered: Option<Box<Answered>>,
    question: Option<Box<Question>>,
}

/// A request of the peer, and the state for its answer.
enum Question {
    Address(AddressRequest, Vec<u8>),
    Child(Quick),
}

impl Session {
    /// Starts phase 1 with the connection's peer, as [`Phase1::initiate`]. `round_trip`: the
    /// measurements of an earlier session.
    pub fn initiate(
        connection: Arc<Connection>,
        path: Path,
        is_first_contact: bool,
        round_trip: RoundTrip,
        random: &mut Stream,
        now: Instant,
    ) -> (Self, Outbox) {
        let mut out = Outbox::over(round_trip);
        let phase1 = Phase1::initiate(connection, path, is_first_contact, random, now, &mut out);
        (Self::new(Role::Initiator, round_trip, phase1), out)
    }

    /// Answers a first message; as [`Phase1::respond`].
    pub fn respond(
        candidates: &[Arc<Connection>],
        decoys: &Decoys,
        path: Path,
        message: &Message<'_>,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Self, Fault> {
        let phase1 = Phase1::respond(candidates, decoys, path, message, random, now, out)?;
        Ok(Self::new(Role::Responder, RoundTrip::default(), phase1))
    }

    /// Phase 1 ends without success if it is not over by this time.
    pub fn give_up_at(&mut self, at: Instant) {
        if let Some(phase1) = self.phase1_mut() {
            phase1.give_up_at(at);
        }
    }

    fn new(role: Role, round_trip: RoundTrip, phase1: Phase1) -> Self {
        Self {
            role,
            round_trip,
            state: State::Phase1(Box::new(phase1)),
        }
    }

    /// Our role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Our own SPI.
    pub fn own_spi(&self) -> Spi {
        let spis = self.spis();
        match self.role {
            Role::Initiator => spis.initiator,
            Role::Responder => spis.responder,
        }
    }

    /// Its SPIs. The responder's is zero until known.
    pub fn spis(&self) -> Spis {
        match &self.state {
            State::Phase1(phase1) => phase1.cookies().into(),
            State::Established(it) => it.sa.cookies.into(),
        }
    }

    /// An outbox for its next messages.
    pub fn outbox(&self) -> Outbox {
        Outbox::over(self.round_trip)
    }

    /// Takes over the measurements after an answer.
    pub fn learn(&mut self, out: &Outbox) {
        self.round_trip = out.learned().unwrap_or(self.round_trip);
    }

    /// The measurements of the path.
    pub fn round_trip(&self) -> RoundTrip {
        self.round_trip
    }

    /// The path to the peer. It moves to port 4500 behind a NAT (RFC 3947 §4).
    pub fn path(&self) -> Path {
        match &self.state {
            State::Phase1(phase1) => phase1.path(),
            State::Established(it) => it.sa.path,
        }
    }

    /// Moves the peer to another path, and discards the measurements of the old one. Messages of
    /// phase 2 are repeated over the new one.
    pub fn move_to(&mut self, path: Path) {
        self.round_trip = RoundTrip::default();
        if let Some(it) = self.established_mut() {
            it.sa.path = path;
            it.exchanges
                .iter_mut()
                .for_each(|at| at.quick.move_to(path));
            if let Some(request) = &mut it.request {
                request.move_to(path);
            }
            if let Some(answered) = &mut it.answered {
                answered.move_to(path);
            }
        }
    }

    /// Whether phase 1 has succeeded.
    pub fn is_established(&self) -> bool {
        matches!(self.state, State::Established(_))
    }

    /// The proven identity of the peer.
    pub fn identity(&self) -> Option<&Peer> {
        self.sa().map(|sa| &sa.identity)
    }

    /// Its certificate, if it has one.
    pub fn certificate(&self) -> Option<&CertificatePath> {
        self.sa()?.certificate.as_deref()
    }

    /// When the peer authenticated.
    pub fn since(&self) -> Option<Instant> {
        self.sa().map(|sa| sa.since)
    }

    /// The suite of the ISAKMP SA.
    pub fn suite(&self) -> Option<IkeSuite> {
        self.sa().map(|sa| sa.suite)
    }

    /// NATs between us and the peer.
    pub fn nat(&self) -> NatFinding {
        self.sa().map(|sa| sa.nat).unwrap_or_default()
    }

    /// Agreed lifetime in seconds.
    pub fn lifetime_s(&self) -> u64 {
        self.sa().map_or(0, |sa| sa.lifetime_s)
    }

    /// Whether the peer is established and answers probes (RFC 3706).
    pub fn answers_probes(&self) -> bool {
        self.sa().is_some_and(|sa| sa.peer.dpd)
    }

    /// Whether the peer said that it has no other SA with us (RFC 2407 §4.6.3.3).
    pub fn is_initial_contact(&self) -> bool {
        self.sa().is_some_and(|sa| sa.is_initial_contact)
    }

    /// The key of its messages, for decrypting a capture.
    pub fn cipher_key(&self) -> Option<&Secret> {
        self.sa().map(|sa| &sa.cipher_key)
    }

    /// The ISAKMP SA.
    pub(crate) fn sa(&self) -> Option<&IsakmpSa> {
        self.established().map(|it| &it.sa)
    }

    /// The same for tests, which forge messages.
    #[cfg(test)]
    pub(crate) fn keys(&mut self) -> &mut IsakmpSa {
        &mut self.established_mut().expect("established").sa
    }

    fn established(&self) -> Option<&Established> {
        match &self.state {
            State::Phase1(_) => None,
            State::Established(it) => Some(it),
        }
    }

    fn established_mut(&mut self) -> Option<&mut Established> {
        match &mut self.state {
            State::Phase1(_) => None,
            State::Established(it) => Some(it),
        }
    }

    fn phase1(&self) -> Option<&Phase1> {
        match &self.state {
            State::Phase1(phase1) => Some(phase1),
            State::Established(it) => it.phase1.as_deref(),
        }
    }

    fn phase1_mut(&mut self) -> Option<&mut Phase1> {
        match &mut self.state {
            State::Phase1(phase1) => Some(phase1),
            State::Established(it) => it.phase1.as_deref_mut(),
        }
    }
}

/// Phase 1.
impl Session {
    /// Whether a message belongs to phase 1.
    pub fn is_phase1(&self, message: &Message<'_>) -> bool {
        message.is_phase1() || !self.is_established()
    }

    /// Handles a message of phase 1, or any other as long as there is no ISAKMP SA, as
    /// [`Phase1::on_message`]. Returns the connection too if phase 1 has succeeded with its peer. A
    /// fault ends the session.
    pub fn on_phase1(
        &mut self,
        path: Path,
        message: &Message<'_>,
        means: Means<'_>,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(Shown, Option<Arc<Connection>>), Fault> {
        let Some(phase1) = self.phase1_mut() else {
            out.drops.count(DropReason::RetransmittedMessage);
            return Ok((Shown::default(), None));
        };
        let result = phase1.on_message(path, message, means, now, out);
        out.answer_repetition_at(path, self.role);
        let (shown, established) = result?;
        let connection = established.map(|(sa, connection)| {
            self.establish(*sa);
            connection
        });
        Ok((shown, connection))
    }

    fn establish(&mut self, sa: IsakmpSa) {
        let established = State::Established(Box::new(Established {
            sa,
            phase1: None,
            ids: MessageIds::default(),
            exchanges: Vec::new(),
            request: None,
            answered: None,
            question: None,
        }));
        let before = core::mem::replace(&mut self.state, established);
        if let (State::Phase1(phase1), Some(it)) = (before, self.established_mut()) {
            it.phase1 = Some(phase1);
        }
    }

    /// The peer has all of phase 1: none of its messages is repeated, and a first message with the
    /// same cookie is a new one. Does nothing before there is an ISAKMP SA. Returns whether there
    /// was something to forget.
    pub fn forget_phase1(&mut self) -> bool {
        let established = self.established_mut();
        established.is_some_and(|it| it.phase1.take().is_some())
    }

    /// Whether phase 1 is in progress, or may have to repeat its last message.
    pub fn has_phase1(&self) -> bool {
        self.phase1().is_some()
    }

    /// Whether it started in aggressive mode and phase 1 is not forgotten.
    pub fn is_aggressive(&self) -> bool {
        self.phase1().is_some_and(|it| it.is_aggressive())
    }

    /// We have authenticated, and the peer may consider the SA established.
    pub fn has_proven(&self) -> bool {
        self.phase1().is_some_and(|it| it.has_proven())
    }

    /// Another SA with the peer was established: phase 1 must not announce a first contact any
    /// more.
    pub fn forget_first_contact(&mut self) {
        if let Some(phase1) = self.phase1_mut() {
            phase1.forget_first_contact();
        }
    }

    /// Whether the log takes one more unauthenticated complaint.
    pub fn takes_complaint(&mut self) -> bool {
        let phase1 = self.phase1_mut();
        phase1.is_some_and(Phase1::takes_complaint)
    }

    /// Our offer in the configuration's words; `None` if the peer makes the offer.
    pub fn offered(&self) -> Option<String> {
        self.phase1()?.offered()
    }
}

/// Phase 2.
impl Session {
    /// Handles a whole message under the ISAKMP SA.
    pub fn on_message(
        &mut self,
        path: Path,
        message: &Message<'_>,
        terms: Terms,
        now: Instant,
        out: &mut Outbox,
    ) -> Fact {
        let role = self.role;
        let Some(it) = self.established_mut() else {
            return Fact::Dropped(DropReason::UnexpectedMessage);
        };
        it.question = None;
        match message.kind() {
            Kind::Quick => {
                let fact = it.on_quick(message, terms, now, out);
                out.answer_repetition_at(path, role);
                fact
            }
            Kind::Config => {
                let fact = it.on_config(message, terms, now, out);
                // Only a repeated request comes here.
                out.answer_repetition_at(path, Role::Responder);
                fact
            }
            Kind::Informational => it.on_informational(message, out),
            Kind::Main | Kind::Aggressive | Kind::Unknown => {
                Fact::Dropped(DropReason::UnsupportedExchange)
            }
        }
    }

    /// Whether an exchange of this number was started or accepted.
    pub fn has_seen(&self, exchange: u32) -> bool {
        let established = self.established();
        established.is_some_and(|it| it.ids.has(exchange))
    }

    /// Marks an exchange number as used.
    pub fn remember(&mut self, exchange: u32, out: &mut Outbox) {
        if let Some(it) = self.established_mut() {
            it.remember(exchange, out);
        }
    }

    /// The number of the next exchange: a message ID that this session has not used; never zero.
    pub fn next_exchange(&self, random: &mut Stream) -> u32 {
        loop {
            let message_id = random.u32().max(1);
            if !self.has_seen(message_id) {
                return message_id;
            }
        }
    }
}

/// Time.
impl Session {
    /// Its next timer.
    pub fn deadline(&self) -> Option<Deadline> {
        let phase1 = self.phase1().and_then(Phase1::deadline);
        let established = self.established().and_then(Established::deadline);
        [phase1, established].into_iter().flatten().min()
    }

    /// A message sent at `began` left only `now`.
    pub fn departed(&mut self, began: Instant, now: Instant) {
        if let Some(phase1) = self.phase1_mut() {
            phase1.departed(began, now);
        }
        let Some(it) = self.established_mut() else {
            return;
        };
        if let Some(request) = &mut it.request {
            request.departed(began, now);
        }
        for exchange in &mut it.exchanges {
            exchange.quick.departed(began, now);
        }
    }

    /// Repeats messages of phase 1 and the request for addresses, or gives the session up. When
    /// phase 1 has nothing left to repeat, forgets it; returns whether it was forgotten.
    /// [`Self::on_child_deadlines`] handles exchanges for children.
    pub fn on_deadline(&mut self, now: Instant, out: &mut Outbox) -> Result<bool, Fault> {
        let is_due = |deadline: Option<Deadline>| deadline.is_some_and(|it| it.at <= now);
        if let Some(phase1) = self.phase1_mut().filter(|it| is_due(it.deadline())) {
            phase1.on_deadline(now, out)?;
        }
        let request = self.established_mut().and_then(|it| it.request.as_mut());
        if let Some(request) = request.filter(|it| is_due(it.deadline())) {
            request.on_deadline(now, out)?;
        }
        let is_phase1_over = self.phase1().is_some_and(|it| it.deadline().is_none());
        Ok(is_phase1_over && self.forget_phase1())
    }
}

impl Established {
    fn deadline(&self) -> Option<Deadline> {
        let request = self.request.as_ref().and_then(|it| it.deadline());
        let exchanges = self.exchanges.iter().filter_map(|it| it.quick.deadline());
        exchanges.chain(request).min()
    }

    /// Marks the message ID of an exchange as used.
    fn remember(&mut self, message_id: u32, out: &mut Outbox) {
        out.wear = out.wear.max(self.ids.add(message_id));
    }
}
