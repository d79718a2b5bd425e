//! A session of IKEv2: the IKE SA of one peer from its first message on, with its successors by
//! rekey, and the exchanges under them.
//!
//! It owns its keys, its exchanges and their timers. Inputs are messages, deadlines and commands.
//! Outgoing messages go to an [`Outbox`], results are [`Fact`]s. A peer's request is also a fact:
//! the node grants or refuses what it holds, then [`Session::conclude`] sends the one answer.

mod client;
mod examined;
#[cfg(test)]
mod inside;
mod leaving;
mod mobike;
mod redirect;
mod requests;
mod resumed;
mod timers;

use std::net::IpAddr;
use std::sync::Arc;

use crypto::cert::CertificatePath;
use crypto::rand::Stream;
use wire::ikev2::{Exchange, NotifyType};

use self::leaving::{given_up, on_last};
use super::answering::{Answering, Gate};
use super::authenticate::{self, Answered, Authenticating, Checks, Wishes};
use super::crash::Maker;
use super::established::Established;
use super::init::Init;
use super::init::{Asking, Heard, Travel};
use super::intermediate;
use super::lost::Ticket;
use super::message::{Message, is_first_of};
use super::parts::notify;
use super::ppk::PpkInUse;
use super::resume::Resuming;
use super::seal::MAX_ASSEMBLED;
use super::window::{At, IkeSa, Read};
use crate::config::Connection;
use crate::counters::DropReason;
use crate::identity::Peer;
use crate::ike::nat::NatFinding;
use crate::ike::round_trip::RoundTrip;
use crate::ike::{Fact, Fault, FirstChild, MessageKeys, Outbox, Role, Spi, Spis};
use crate::quotas::Quotas;
use crate::sa::Path;
use crate::suite::Ikev2Suite;
use crate::time::{Calendar, Instant};

/// Why an initiator begins, and what it asks for.
pub struct Beginning {
    /// With whom.
    pub connection: Arc<Connection>,
    /// Where.
    pub path: Path,
    /// We have no other SA with the peer, and say so (RFC 7296 §2.4).
    pub is_first_contact: bool,
    /// The measurements of an earlier session.
    pub round_trip: RoundTrip,
    /// Our former inner addresses.
    pub had: Vec<IpAddr>,
    /// The first child.
    pub child: Option<FirstChild>,
    /// Our addresses besides the path's, for MOBIKE.
    pub addresses: Vec<IpAddr>,
    /// Makes tokens of quick crash detection, if the connection has it.
    pub maker: Option<Arc<Maker>>,
    /// What we say of gateways that send us elsewhere.
    pub travel: Travel,
    /// By which we go on from a session that was lost.
    pub ticket: Option<Box<Ticket>>,
}

/// The resources for processing a message.
pub struct Means<'a> {
    /// For SPIs, nonces and private values.
    pub random: &'a mut Stream,
    /// The quotas of peers; `None`: no limit.
    pub quotas: Option<&'a mut Quotas>,
    /// Whether one more question may be open at servers of RADIUS, for peers of this network.
    pub may_ask: bool,
    /// The date for checking certificates.
    pub calendar: Calendar,
    /// All our addresses, for MOBIKE.
    pub addresses: &'a [IpAddr],
    /// Makes tokens of quick crash detection, for connections that have it.
    pub maker: Option<Arc<Maker>>,
}

/// One peer's IKE SA.
pub struct Session {
    role: Role,
    /// Our SPI of the first IKE SA, by which a half-open session is known.
    first_spi: Spi,
    path: Path,
    /// The measurements of the path to the peer.
    round_trip: RoundTrip,
    /// A responder gives up then.
    expires: Option<Instant>,
    /// The gateway has not answered it.
    ticket: Option<Box<Ticket>>,
    /// It is over, and the peer must still be told.
    is_leaving: bool,
    state: State,
}

enum State {
    Resuming(Box<(Resuming, Wishes)>),
    Asking(Box<(Asking, Wishes)>),
    Answering(Box<Answering>),
    Authenticating(Box<Authenticating>),
    Established(Box<Established>),
    /// It is over. The peer is told why, or its last request was answered so.
    Ending(Box<IkeSa>),
    /// It is over.
    Over,
}

impl Session {
    /// Begins with the connection's peer.
    pub fn initiate(beginning: Beginning, random: &mut Stream, now: Instant) -> (Self, Outbox) {
        let mut out = Outbox::over(beginning.round_trip);
        let (connection, path) = (beginning.connection, beginning.path);
        let wishes = Wishes {
            is_first_contact: beginning.is_first_contact,
            had: beginning.had,
            child: beginning.child,
            addresses: beginning.addresses,
            maker: beginning.maker,
            travel: beginning.travel,
        };
        let to = (path, beginning.travel);
        let (first_spi, state) = match beginning.ticket {
            Some(ticket) => {
                let it = Resuming::begin(ticket, connection, to, random, now, &mut out);
                (it.spi, State::Resuming(Box::new((it, wishes))))
            }
            None => {
                let it = Asking::begin(connection, to, random, now, &mut out);
                (it.spi, State::Asking(Box::new((it, wishes))))
            }
        };
        let session = Self {
            role: Role::Initiator,
            first_spi,
            path,
            round_trip: beginning.round_trip,
            expires: None,
            ticket: None,
            is_leaving: false,
            state,
        };
        (session, out)
    }

    /// Answers a first message.
    pub fn respond(
        candidates: &[Arc<Connection>],
        path: Path,
        message: &Message<'_>,
        gate: Gate<'_>,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Self, Fault> {
        let begin = match message.exchange() {
            Exchange::IkeSessionResume => Answering::resume,
            _ => Answering::begin,
        };
        let answering = begin(candidates, path, message, gate, random, now, out)?;
        Ok(Self {
            role: Role::Responder,
            first_spi: answering.sa.own_spi(),
            path,
            round_trip: RoundTrip::default(),
            expires: None,
            ticket: None,
            is_leaving: false,
            state: State::Answering(Box::new(answering)),
        })
    }

    /// A responder waits until this time for IKE_AUTH.
    pub fn give_up_at(&mut self, at: Instant) {
        self.expires = Some(at);
    }

    /// Our role in its first exchange.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Our own SPI of the current IKE SA.
    pub fn own_spi(&self) -> Spi {
        self.own_spis().first().copied().unwrap_or(self.first_spi)
    }

    /// Our own SPIs of all its IKE SAs, the current one first.
    pub fn own_spis(&self) -> Vec<Spi> {
        match &self.state {
            State::Established(it) => it.sas.iter().map(|sa| sa.own_spi()).collect(),
            _ => vec![self.first_spi],
        }
    }

    /// The keys of the current IKE SA's messages, once, for decrypting a capture.
    pub fn take_message_keys(&mut self) -> Option<MessageKeys> {
        match &mut self.state {
            State::Established(it) => it.current().take_message_keys(),
            _ => None,
        }
    }

    /// The SPIs of the current IKE SA. The responder's is zero until known.
    pub fn spis(&self) -> Spis {
        match &self.state {
            State::Answering(it) => it.sa.spis,
            State::Authenticating(it) => it.sa.spis,
            State::Established(it) => it.sas[0].spis,
            State::Ending(sa) => sa.spis,
            State::Resuming(_) | State::Asking(_) | State::Over => Spis {
                initiator: self.first_spi,
                responder: Spi([0; 8]),
            },
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

    /// The path to the peer. It moves to port 4500 behind a NAT (RFC 7296 §2.23).
    pub fn path(&self) -> Path {
        self.path
    }

    /// Moves the peer to another path, and discards the measurements of the old one.
    pub fn move_to(&mut self, path: Path) {
        self.round_trip = RoundTrip::default();
        self.path = path;
        if let Some(it) = self.established_mut() {
            it.move_to(path);
        }
    }

    /// Whether both ends have authenticated.
    pub fn is_established(&self) -> bool {
        matches!(self.state, State::Established(_))
    }

    /// The proven identity of the peer.
    pub fn identity(&self) -> Option<&Peer> {
        self.established().map(|it| &it.identity)
    }

    /// Its certificate, if it has one.
    pub fn certificate(&self) -> Option<&CertificatePath> {
        self.established()?.certificate.as_deref()
    }

    /// When the peer authenticated.
    pub fn since(&self) -> Option<Instant> {
        self.established().map(|it| it.since)
    }

    /// The suite of the current IKE SA.
    pub fn suite(&self) -> Option<Ikev2Suite> {
        self.established().map(|it| it.sas[0].suite)
    }

    /// The post-quantum pre-shared key in its keys.
    pub fn ppk(&self) -> Option<&PpkInUse> {
        self.established()?.ppk.as_ref()
    }

    /// Whether each end has proven itself over both messages of IKE_SA_INIT.
    pub fn has_full_transcript(&self) -> bool {
        self.established().is_some_and(|it| it.covers_both)
    }

    /// NATs between us and the peer.
    pub fn nat(&self) -> NatFinding {
        self.established().map(|it| it.nat).unwrap_or_default()
    }

    /// Seconds until the current IKE SA must be renewed or end.
    pub fn lifetime_s(&self) -> u64 {
        self.established().map_or(0, |it| it.lifetime().as_secs())
    }

    /// Whether the peer said that it has no other SA with us (RFC 7296 §2.4).
    pub fn is_initial_contact(&self) -> bool {
        self.established().is_some_and(|it| it.is_initial_contact)
    }

    /// We have authenticated, and the peer may consider the IKE SA established.
    pub fn has_proven(&self) -> bool {
        let has_asked = matches!(&self.state, State::Authenticating(it) if it.has_proven());
        self.role == Role::Initiator && (has_asked || self.is_established())
    }

    /// Another SA with the peer was established: we must not announce a first contact any more.
    pub fn forget_first_contact(&mut self) {
        match &mut self.state {
            State::Asking(asking) => asking.1.is_first_contact = false,
            State::Resuming(resuming) => resuming.1.is_first_contact = false,
            State::Authenticating(it) => it.forget_first_contact(),
            _ => {}
        }
    }

    /// Our offer in the configuration's words; `None` if the peer makes the offer.
    pub fn offered(&self) -> Option<String> {
        match &self.state {
            State::Asking(asking) => Some(asking.0.offered()),
            _ => None,
        }
    }

    /// Octets of fragments that wait for the rest of their message.
    pub fn fragment_octets(&self) -> usize {
        match &self.state {
            State::Answering(it) => it.sa.fragment_octets(),
            State::Authenticating(it) => it.sa.fragment_octets(),
            State::Established(it) => it.sas.iter().map(|sa| sa.fragment_octets()).sum(),
            State::Ending(sa) => sa.fragment_octets(),
            State::Resuming(_) | State::Asking(_) | State::Over => 0,
        }
    }

    fn established(&self) -> Option<&Established> {
        match &self.state {
            State::Established(it) => Some(it),
            _ => None,
        }
    }

    fn established_mut(&mut self) -> Option<&mut Established> {
        match &mut self.state {
            State::Established(it) => Some(it),
            _ => None,
        }
    }

    /// Runs a step of the established session.
    fn with<T>(
        &mut self,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
        step: impl FnOnce(&mut Established, &mut At<'_>) -> T,
    ) -> Option<T> {
        let path = self.path;
        let it = self.established_mut()?;
        let mut at = At {
            path,
            random,
            now,
            out,
        };
        Some(step(it, &mut at))
    }
}

/// Messages.
impl Session {
    /// Handles a message that names one of its IKE SAs. [`Fact::Failed`] ends the session.
    pub fn on_message(
        &mut self,
        path: Path,
        message: &Message<'_>,
        means: Means<'_>,
        now: Instant,
        out: &mut Outbox,
    ) -> Vec<Fact> {
        let state = core::mem::replace(&mut self.state, State::Over);
        let own = self.path;
        let (state, facts) = match state {
            State::Resuming(it) => self.on_resume_answer(*it, message, means, now, out),
            State::Asking(asking) => self.on_init(*asking, message, means, now, out),
            State::Answering(it) => self.on_auth_request(*it, path, message, means, now, out),
            State::Authenticating(it) => self.on_auth_answer(*it, path, message, means, now, out),
            State::Established(mut it) => {
                let mut at = At {
                    path: own,
                    random: means.random,
                    now,
                    out,
                };
                let facts = it.on_message(path, message, &mut at);
                (State::Established(it), facts)
            }
            State::Ending(sa) => {
                let mut at = At {
                    path: own,
                    random: means.random,
                    now,
                    out,
                };
                on_last(sa, path, message, &mut at)
            }
            State::Over => (
                State::Over,
                vec![Fact::Dropped(DropReason::UnexpectedMessage)],
            ),
        };
        self.state = state;
        out.answer_repetition_at(path, Role::Responder);
        facts
    }

    fn on_init(
        &mut self,
        (mut asking, wishes): (Asking, Wishes),
        message: &Message<'_>,
        means: Means<'_>,
        now: Instant,
        out: &mut Outbox,
    ) -> (State, Vec<Fact>) {
        let made = match asking.on_message(message, means.random, now, out) {
            Ok(Heard::Made(made)) => *made,
            Ok(Heard::SentTo(gateway)) => return (State::Over, vec![Fact::SentTo(gateway)]),
            Ok(Heard::Nothing | Heard::TicketRefused) => {
                let again = State::Asking(Box::new((asking, wishes)));
                return (again, vec![Fact::Pending]);
            }
            Err(reason) => {
                let again = State::Asking(Box::new((asking, wishes)));
                return (again, vec![Fact::Dropped(reason)]);
            }
        };
        let with = (Arc::clone(&asking.connection), asking.path);
        self.authenticate(with, made, wishes, (means.random, now), out)
    }

    /// Sends the first message under keys.
    fn authenticate(
        &mut self,
        with: (Arc<Connection>, Path),
        made: (IkeSa, Init),
        wishes: Wishes,
        (random, now): (&mut Stream, Instant),
        out: &mut Outbox,
    ) -> (State, Vec<Fact>) {
        let mut at = At {
            path: self.path,
            random,
            now,
            out,
        };
        match Authenticating::begin(with, made, wishes, &mut at) {
            Ok(authenticating) => {
                self.path = authenticating.path;
                let state = State::Authenticating(Box::new(authenticating));
                (state, vec![Fact::Pending])
            }
            Err(fault) => (State::Over, vec![Fact::Failed(fault)]),
        }
    }

    fn on_auth_answer(
        &mut self,
        mut authenticating: Authenticating,
        from: Path,
        message: &Message<'_>,
        means: Means<'_>,
        now: Instant,
        out: &mut Outbox,
    ) -> (State, Vec<Fact>) {
        let again = |it: Authenticating, fact| (State::Authenticating(Box::new(it)), vec![fact]);
        let opened = match authenticating.sa.read(from, message, now, out) {
            Ok(Read::New(opened)) if opened.is_response => Some(opened),
            Ok(Read::New(_) | Read::Nothing) => return again(authenticating, Fact::Pending),
            Ok(Read::Unreadable(it)) if !it.is_response() => {
                return again(authenticating, Fact::Dropped(DropReason::MalformedMessage));
            }
            Ok(Read::Unreadable(_)) => None,
            Err(reason) => return again(authenticating, Fact::Dropped(reason)),
        };
        let mut at = At {
            path: self.path,
            random: means.random,
            now,
            out,
        };
        let answered = match opened {
            Some(opened) => authenticating.on_answer(&opened, means.calendar, &mut at),
            None => Ok(authenticating.on_unreadable(&mut at)),
        };
        match answered {
            Ok(Answered::Established(mut established, facts)) => {
                self.ticket = None;
                if self.is_leaving {
                    established.leave(&mut at);
                }
                (State::Established(established), facts)
            }
            Ok(Answered::Again(it)) => (State::Authenticating(it), vec![Fact::Pending]),
            Ok(Answered::Over(sa, fact)) => (State::Ending(sa), vec![fact]),
            Err(fault) => (State::Over, vec![Fact::Failed(fault)]),
        }
    }

    fn on_auth_request(
        &mut self,
        mut answering: Answering,
        path: Path,
        message: &Message<'_>,
        means: Means<'_>,
        now: Instant,
        out: &mut Outbox,
    ) -> (State, Vec<Fact>) {
        let again = |it: Answering, fact| (State::Answering(Box::new(it)), vec![fact]);
        if is_first_of(message.exchange()) {
            let repeated = answering.answered.take_duplicate(message.octets(), out);
            let other = Fact::Dropped(DropReason::UnexpectedMessage);
            return again(answering, repeated.map_or(other, |_| Fact::Pending));
        }
        if message.octets().len() > MAX_ASSEMBLED {
            // Nobody knows yet who sends it, and it may be kept.
            return again(answering, Fact::Dropped(DropReason::MalformedMessage));
        }
        let read = answering.sa.read(path, message, now, out);
        // Who sends what is authentic has our answer, and is where it comes from.
        let mut at = At {
            path,
            random: means.random,
            now,
            out,
        };
        let opened = match read {
            Ok(Read::New(opened)) if opened.is_request(Exchange::IkeAuth) => opened,
            Ok(Read::New(opened)) if opened.is_request(Exchange::IkeIntermediate) => {
                return match intermediate::on_request(&mut answering, &opened, &mut at) {
                    Ok(()) => again(answering, Fact::Pending),
                    Err(fault) => (State::Over, vec![Fact::Failed(fault)]),
                };
            }
            Ok(Read::New(opened)) if authenticate::is_given_up(&opened) => {
                return given_up(answering, &opened, &mut at);
            }
            Ok(Read::New(opened)) => {
                let notice = [notify(NotifyType::InvalidSyntax)];
                answering.sa.answer(&opened, &notice, &mut at);
                return again(answering, Fact::Pending);
            }
            Ok(Read::Unreadable(unreadable)) => {
                answering.sa.answer_unreadable(&unreadable, &mut at);
                return again(answering, Fact::Pending);
            }
            Ok(Read::Nothing) => return again(answering, Fact::Pending),
            Err(reason) => return again(answering, Fact::Dropped(reason)),
        };
        let checks = Checks {
            quotas: means.quotas,
            may_ask: means.may_ask,
            calendar: means.calendar,
            addresses: means.addresses,
            maker: means.maker,
        };
        match authenticate::on_request(answering, opened, checks, &mut at) {
            Ok((established, facts)) => {
                self.path = path;
                self.expires = None;
                (State::Established(Box::new(established)), facts)
            }
            Err(failed) => match *failed {
                (Some(answering), fact) => again(answering, fact),
                (None, fact) => (State::Over, vec![fact]),
            },
        }
    }
}
