//! Host's agent: it keeps the one-time keys, checks requests by them, refers users to Target, and
//! brings Target's answer back (steps 2, 3, 7 and 8).
//!
//! A request is looked up by its handle, then its seal and its signature are checked, then whether
//! Client and Target can do the option. Only then its key is taken. Nobody but the key's holder is
//! ever told more than a cookie.

mod refer;
mod store;
mod verify;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use crypto::rand::Stream;
use wire::agent::{COOKIE_LEN, Fate, Kind, Message, Retry as RetryMessage, Sealed, Verdict};

use super::audit::{Event, Role, Step, Why};
use super::bond::{Bond, Unproven};
use super::flood::{Door, Gate};
use super::identity::{Fingerprint, Identity, Keys, digest};
use super::retry::Retry;
use super::{CLOCKS_APART_MAX, Clock, Digest, EXCHANGE_MAX, Handle};
use crate::rate::{Bucket, Rate};
use crate::time::{Calendar, Deadline, Duration, Instant};

pub use store::{Answer, Ask, Half, REFUSALS_MAX, Record, Refusals, State, WRONG_USERS_MAX};
use verify::Verified;

/// How long an answer is repeated to the same request.
pub const ANSWER_LIVES: Duration = CLOCKS_APART_MAX.saturating_mul(2);
/// How often it is repeated: an answer is longer than its request.
const REPEATS_MAX: u32 = 8;
/// How long the database may take for one answer.
const STORE_MAX: Duration = Duration::from_secs(5);
/// Lines of the log about refused requests: of those that no key has proven, which anybody can
/// send, and of those that have spent none, which the holder of any key can send.
const COMPLAINTS: Rate = Rate::new(16, Duration::from_secs(10));
/// Requests in progress or remembered.
const EXCHANGES_MAX: usize = 1_024;
/// Pause between two sweeps of the database.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// A key that was taken longer ago than this belongs to no request in progress, of any Host whose
/// clock is within bounds.
const TAKEN_MAX: Duration = EXCHANGE_MAX.saturating_add(CLOCKS_APART_MAX);

/// A Target that we refer users to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetEntry {
    /// Its keys.
    pub identity: Identity,
    /// Where it is.
    pub address: SocketAddr,
}

/// What Host is and allows.
pub struct Config {
    /// Our keys. Hosts that share a database share them too.
    pub keys: Keys,
    /// The Targets.
    pub targets: BTreeMap<Fingerprint, TargetEntry>,
    /// Whether shared pairs are served ([`super::legacy`]).
    pub accepts_legacy: bool,
}

/// What the owner must do. Questions are for the database.
pub type Output = super::Output<Ask>;

/// Why a message was dropped without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Discard {
    /// It cannot be read, or is none for Host.
    Malformed,
    /// `EXCHANGES_MAX` are in progress.
    Busy,
    /// Its sender has spent its rate.
    OverRate,
    /// It got a cookie.
    NeedsCookie,
    /// The database has no such key.
    UnknownKey,
    /// The database does not answer. The sender repeats it.
    NoStore,
    /// It was not opened, or not by this key's holder.
    NotProven,
    /// It has a Target's name and address, and is not of that Target.
    Forged,
    /// A Target's time is too far from ours.
    ClocksApart,
    /// Its answer is not there yet, was repeated too often, or another Host has it.
    Repeated,
    /// Nobody waits for it.
    Unexpected,
}

/// Host's agent.
pub struct Host {
    config: Config,
    /// Whether the log can be written.
    is_ready: bool,
    clock: Clock,
    random: Stream,
    door: Door,
    /// Of each Target with a sound key. The others are not served.
    bonds: BTreeMap<Fingerprint, Bond>,
    /// By the digest of the message.
    exchanges: BTreeMap<Digest, Exchange>,
    offers: BTreeMap<Fingerprint, refer::Market>,
    /// Questions to the database, by number. None: a sweep, or one whose answer changes nothing.
    asked: BTreeMap<u64, Option<Digest>>,
    next_number: u64,
    next_sweep: Instant,
    complaints: Bucket,
    refusals: Bucket,
    /// Refusals that were left out of the log since its last line about one.
    unlogged: u64,
    drops: BTreeMap<Discard, u64>,
    outputs: VecDeque<Output>,
}

/// A request that has come.
struct Exchange {
    handle: Handle,
    /// Where it came from first.
    from: SocketAddr,
    /// Where else somebody has sent it who hears us there.
    also: Option<SocketAddr>,
    stage: Stage,
    /// From [`Stage::Inquiring`] on.
    verified: Option<Box<Verified>>,
}

enum Stage {
    /// The database looks for the key.
    Finding { sealed: Box<Sealed>, until: Instant },
    /// Target is asked for its options.
    Inquiring,
    /// The database takes the key.
    Taking { until: Instant },
    /// The database remembers that this request is refused.
    Refusing {
        verdict: Verdict,
        why: Why,
        /// As far as it is known before the database answers.
        fate: Fate,
        until: Instant,
    },
    /// Target is told.
    Referring(Box<Retry<Sealed>>),
    /// The database marks the key as used.
    Finishing {
        answer: Vec<u8>,
        end: Calendar,
        until: Instant,
    },
    /// This is the answer.
    Answered {
        answer: Vec<u8>,
        repeats: u32,
        until: Instant,
    },
}

impl Host {
    /// An agent that has seen nothing yet. It asks at once for a sweep of what a former one has
    /// left.
    pub fn new(config: Config, clock: Clock, now: Instant, mut random: Stream) -> Self {
        let bond = |(target, entry): (&Fingerprint, &TargetEntry)| {
            Some((*target, Bond::new(&config.keys, &entry.identity)?))
        };
        let mut host = Self {
            bonds: config.targets.iter().filter_map(bond).collect(),
            config,
            is_ready: true,
            clock,
            door: Door::new(&mut random),
            random,
            exchanges: BTreeMap::new(),
            offers: BTreeMap::new(),
            asked: BTreeMap::new(),
            next_number: 0,
            next_sweep: now,
            complaints: Bucket::default(),
            refusals: Bucket::default(),
            unlogged: 0,
            drops: BTreeMap::new(),
            outputs: VecDeque::new(),
        };
        host.handle_timeout(now);
        host
    }

    /// The calendar time was set.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Whether the log can be written. While it cannot, no key is taken.
    pub fn set_ready(&mut self, is_ready: bool) {
        self.is_ready = is_ready;
    }

    /// A message has come.
    pub fn handle(&mut self, from: SocketAddr, payload: &[u8], now: Instant) {
        self.handle_timeout(now);
        match Message::parse(payload) {
            Ok(Message::Sealed(sealed)) => match sealed.kind {
                Kind::Request => self.hear_request(from, sealed, now),
                Kind::Authorization => self.hear_authorization(from, &sealed, now),
                Kind::Offer => self.hear_offer(from, &sealed, now),
                _ => self.count(Discard::Malformed),
            },
            _ => self.count(Discard::Malformed),
        }
    }

    /// The database has answered the question of this number. A number that nobody waits for does
    /// nothing.
    pub fn answered(&mut self, number: u64, answer: Answer, now: Instant) {
        self.handle_timeout(now);
        let Some(asked) = self.asked.remove(&number) else {
            return;
        };
        let Some(id) = asked else {
            if let Answer::Swept(handles) = answer {
                for handle in handles {
                    let mut event = self.event(Step::KeyFailed, now);
                    event.key = Some(handle);
                    event.why = Some(Why::Restarted);
                    self.outputs.push_back(Output::Audit(event));
                }
            }
            return;
        };
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        match (&exchange.stage, answer) {
            (Stage::Refusing { .. }, answer) => self.noted(id, answer, now),
            (Stage::Finding { .. }, Answer::Found(Some(record))) => self.verify(id, &record, now),
            (Stage::Finding { .. }, Answer::Found(None)) => self.forget(id, Discard::UnknownKey),
            (Stage::Finding { .. }, _) => self.forget(id, Discard::NoStore),
            (Stage::Taking { .. }, Answer::Taken) => self.refer(id, now),
            (Stage::Taking { .. }, Answer::Unchanged(state)) => self.judge(id, &state, now),
            (Stage::Taking { .. }, Answer::RefusedBefore) => {
                self.refuse(id, Why::RefusedBefore, now);
            }
            (Stage::Taking { .. }, _) => self.refuse(id, Why::StoreUnavailable, now),
            (Stage::Finishing { .. }, Answer::Finished) => self.finished(id, now),
            (Stage::Finishing { .. }, _) => self.fail(id, Why::StoreUnavailable, now),
            _ => {}
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        if now >= self.next_sweep {
            self.next_sweep = now + SWEEP_EVERY;
            if self.unlogged > 0 && self.refusals.take_one(COMPLAINTS, now) {
                let mut event = self.event(Step::Refused, now);
                event.unlogged = std::mem::take(&mut self.unlogged);
                self.outputs.push_back(Output::Audit(event));
            }
            let before = self
                .clock
                .at(now)
                .0
                .saturating_sub(TAKEN_MAX.as_secs() as i64);
            // What was never answered, or was asked for a request that is over, is not waited for.
            let exchanges = &self.exchanges;
            self.asked
                .retain(|_, id| id.is_some_and(|id| exchanges.contains_key(&id)));
            let before = Calendar(before);
            self.ask(None, Ask::Sweep { before });
        }
        let is_due = |exchange: &Exchange| exchange.stage.due().is_some_and(|due| due <= now);
        let due = self.exchanges.iter().filter(|(_, it)| is_due(it));
        let due: Vec<Digest> = due.map(|(id, _)| *id).collect();
        for id in due {
            self.wake(id, now);
        }
        self.wake_offers(now);
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn deadline(&self) -> Deadline {
        let stages = self.exchanges.values().filter_map(|it| it.stage.due());
        let stages = stages.map(|at| Deadline {
            at,
            why: "go on with a request",
        });
        let sweep = Deadline {
            at: self.next_sweep,
            why: "sweep the keys",
        };
        let offers = self.offers.values().filter_map(refer::Market::due);
        let offers = offers.map(|at| Deadline {
            at,
            why: "repeat an inquiry",
        });
        let all = stages.chain(offers).chain([sweep]);
        all.min().expect("there is a sweep")
    }

    /// Messages that were dropped, by reason.
    pub fn drops(&self) -> &BTreeMap<Discard, u64> {
        &self.drops
    }

    /// Requests in progress or remembered.
    pub fn exchanges(&self) -> usize {
        self.exchanges.len()
    }

    fn hear_request(&mut self, from: SocketAddr, sealed: Sealed, now: Instant) {
        let id = digest(&[&sealed.label, &sealed.encapsulated, &sealed.ciphertext]);
        if self.exchanges.contains_key(&id) {
            return self.hear_again(id, from, &sealed, now);
        }
        if self.exchanges.len() >= EXCHANGES_MAX && !self.make_room() {
            return self.count(Discard::Busy);
        }
        let cookie = sealed.cookie.as_ref();
        match self.door.knock(from, &sealed.label, cookie, now) {
            Gate::Open => {}
            Gate::Shut => return self.count(Discard::OverRate),
            Gate::Cookie(cookie) => return self.send_cookie(from, sealed.label, cookie),
        }
        let handle = Handle(sealed.label);
        let sealed = Box::new(sealed);
        let until = now + STORE_MAX;
        let exchange = Exchange {
            handle,
            from,
            also: None,
            stage: Stage::Finding { sealed, until },
            verified: None,
        };
        self.exchanges.insert(id, exchange);
        self.ask(Some(id), Ask::Find(handle));
    }

    fn send_cookie(&mut self, to: SocketAddr, label: [u8; 16], cookie: [u8; COOKIE_LEN]) {
        let payload = RetryMessage { label, cookie }.to_vec();
        self.outputs.push_back(Output::Send { to, payload });
        self.count(Discard::NeedsCookie);
    }

    /// The same request once more. Anybody can have copied it, and a copy may even come first. So
    /// the answer goes where it first came from; and whoever sends it from elsewhere, and shows
    /// that he hears us there, gets it too.
    fn hear_again(&mut self, id: Digest, from: SocketAddr, sealed: &Sealed, now: Instant) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        if exchange.from == from {
            // The answer is longer than the request, and anybody can write this address.
            return match &mut exchange.stage {
                Stage::Answered {
                    answer, repeats, ..
                } if *repeats < REPEATS_MAX => {
                    *repeats += 1;
                    let payload = answer.clone();
                    self.outputs.push_back(Output::Send { to: from, payload });
                }
                _ => self.count(Discard::Repeated),
            };
        }
        let cookie = sealed.cookie.as_ref();
        match self.door.prove(from, &sealed.label, cookie, now) {
            Gate::Shut => return self.count(Discard::OverRate),
            Gate::Cookie(cookie) => return self.send_cookie(from, sealed.label, cookie),
            Gate::Open => exchange.also = Some(from),
        }
        match &exchange.stage {
            Stage::Answered { answer, .. } => {
                let payload = answer.clone();
                self.outputs.push_back(Output::Send { to: from, payload });
            }
            _ => self.count(Discard::Repeated),
        }
    }

    /// Forgets the oldest answer. Whether there was one.
    fn make_room(&mut self) -> bool {
        let answers = self.exchanges.iter().filter_map(|(id, it)| match it.stage {
            Stage::Answered { until, .. } => Some((until, *id)),
            _ => None,
        });
        let oldest = answers.min().map(|(_, id)| id);
        oldest.and_then(|id| self.exchanges.remove(&id)).is_some()
    }

    /// A pause or a patience of this request has ended.
    fn wake(&mut self, id: Digest, now: Instant) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        match &mut exchange.stage {
            Stage::Finding { .. } => self.forget(id, Discard::NoStore),
            Stage::Taking { .. } => self.refuse(id, Why::StoreUnavailable, now),
            Stage::Refusing {
                verdict, why, fate, ..
            } => {
                let (said, why) = ((*verdict, *fate), *why);
                self.say_refused(id, said, why, now);
            }
            Stage::Finishing { .. } => self.fail(id, Why::StoreUnavailable, now),
            Stage::Answered { .. } => {
                self.exchanges.remove(&id);
            }
            Stage::Inquiring => {}
            Stage::Referring(retry) => match retry.again(now) {
                Some(false) => {}
                None => self.fail(id, Why::NoAnswer, now),
                Some(true) => {
                    let sealed = retry.message.clone();
                    self.send_referral(id, &sealed, now);
                }
            },
        }
    }

    /// Ends a request that was not proven, without an answer.
    fn forget(&mut self, id: Digest, drop: Discard) {
        self.exchanges.remove(&id);
        self.count(drop);
    }

    /// The key that was taken makes no tunnel.
    fn fail(&mut self, id: Digest, why: Why, now: Instant) {
        let Some(exchange) = self.exchanges.get(&id) else {
            return;
        };
        let handle = exchange.handle;
        let event = self.event_of(id, Step::KeyFailed, Some(why), now);
        self.outputs.push_back(Output::Audit(event));
        // If this is not written, the next sweep finds the key taken for too long.
        let (request, answer) = (id, None);
        self.ask(
            None,
            Ask::Finish {
                handle,
                request,
                answer,
            },
        );
        // Client takes "not reached" for a key that is not spent; this one is.
        let verdict = match why {
            Why::NoAnswer => Verdict::NotBuilt,
            why => verdict_of(why),
        };
        self.refuse_with(id, verdict, why, now);
    }

    fn ask(&mut self, id: Option<Digest>, ask: Ask) {
        let number = self.next_number;
        self.next_number += 1;
        self.asked.insert(number, id);
        self.outputs.push_back(Output::Ask(number, ask));
    }

    fn count(&mut self, drop: Discard) {
        *self.drops.entry(drop).or_default() += 1;
    }

    fn event(&self, step: Step, now: Instant) -> Event {
        Event::new(self.clock.at(now), Role::Host, step)
    }

    /// An event with all that is known of a request.
    fn event_of(&self, id: Digest, step: Step, why: Option<Why>, now: Instant) -> Event {
        let mut event = self.event(step, now);
        event.why = why;
        let Some(exchange) = self.exchanges.get(&id) else {
            return event;
        };
        event.key = Some(exchange.handle);
        if let Some(verified) = &exchange.verified {
            event.user = Some(verified.user.clone());
            event.target = Some(verified.target);
            event.option = verified.option;
        }
        event
    }
}

impl Stage {
    /// Whether the request has taken its key.
    fn has_key(&self) -> bool {
        matches!(self, Self::Referring(_) | Self::Finishing { .. })
    }

    fn due(&self) -> Option<Instant> {
        match self {
            Self::Finding { until, .. }
            | Self::Taking { until }
            | Self::Refusing { until, .. }
            | Self::Finishing { until, .. }
            | Self::Answered { until, .. } => Some(*until),
            Self::Referring(retry) => Some(retry.next),
            Self::Inquiring => None,
        }
    }
}

/// What Client is told.
fn verdict_of(why: Why) -> Verdict {
    match why {
        Why::KeyUsed | Why::Replayed => Verdict::KeyUsed,
        Why::KeyRevoked => Verdict::KeyRevoked,
        Why::KeyExpired => Verdict::KeyExpired,
        Why::ClocksApart => Verdict::ClocksApart,
        Why::OptionNotAtClient | Why::OptionNotAtTarget => Verdict::OptionUnavailable,
        Why::NoCommonVersion => Verdict::NoCommonVersion,
        Why::NoPpk => Verdict::NoPpk,
        Why::NoAnswer => Verdict::TargetUnreachable,
        Why::StoreUnavailable | Why::LogUnavailable => Verdict::StoreUnavailable,
        Why::NoCertificate | Why::BackEndFailed => Verdict::NotBuilt,
        Why::Busy | Why::RefusedBefore => Verdict::Busy,
        Why::Misdirected => Verdict::Misdirected,
        Why::NoRoom => Verdict::NoRoom,
        Why::NotReady => Verdict::NotReady,
        _ => Verdict::Denied,
    }
}

impl From<Unproven> for Discard {
    fn from(why: Unproven) -> Self {
        match why {
            Unproven::Forged => Self::Forged,
            Unproven::ClocksApart => Self::ClocksApart,
            Unproven::Repeated => Self::Repeated,
            Unproven::OverRate => Self::OverRate,
        }
    }
}
