//! Target's agent: it authenticates and authorizes a user whom Host refers to it, builds its end of
//! a tunnel, tells Client how, and takes the end down (steps 4, 5, 6 and 10).
//!
//! It believes Host that a one-time key is the user's, and nobody else anything. What Client must
//! build its end with is sealed to Client, so Host carries it but cannot read or change it.

mod ask;
mod build;
mod referral;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use crypto::rand::Stream;
use wire::agent::{Kind, LABEL_LEN, Message, Network, Request, Sealed, Verdict};

use super::audit::{Event, Role, Step, Why};
use super::bond::{Bond, Unproven};
use super::identity::{AgentName, Identity, Keys};
use super::ike::{IkeAbilities, IkeVersion};
use super::objectives::{Objectives, Options, SecurityOption};
use super::ppk::TunnelPpk;
use super::{Clock, Digest, LIFETIME_MAX, TunnelId};
use crate::ikev2::ppk::PpkExchange;
use crate::time::{Calendar, Deadline, Duration, Instant};

pub use ask::{
    Access, Answer, Ask, Build, Credential, Evidence, Progress, SessionKey, Spending, Standing,
};

/// Tunnels of one Host at a time, with those of which the answer is remembered.
pub const TUNNELS_MAX: usize = 1_024;
/// Referrals of one Host in progress.
const IN_PROGRESS_MAX: usize = 64;
/// How long one answer to a question may take. All of a referral's together stay within Host's
/// patience only if they are much quicker.
const ASK_MAX: Duration = Duration::from_secs(10);
/// How long an authorization is repeated. Then the key is known as spent.
const ANSWER_LIVES: Duration = Duration::from_secs(60);
/// How often it is asked whether the user of a tunnel may still be in: one who is no member any
/// longer is thrown out.
const STANDING_EVERY: Duration = Duration::from_secs(30);
/// Pauses between two attempts to take a tunnel down: the first and the longest.
const DESTROY_AGAIN: Duration = Duration::from_secs(2);
const DESTROY_AGAIN_MAX: Duration = Duration::from_secs(60);

/// A Host that may refer users to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostEntry {
    /// Its name: a user is known as User@Host.
    pub name: String,
    /// Its keys.
    pub identity: Identity,
    /// Where its messages come from.
    pub addresses: Vec<IpAddr>,
    /// Whether its users may use shared pairs ([`super::legacy`]): then it comes in as every user
    /// of its own whose keys are not enrolled, and no signature shows who it was.
    pub accepts_legacy: bool,
    /// Tunnels that it may have at a time: no Host takes the places of all others.
    pub tunnels: usize,
}

/// What Target is and allows.
pub struct Config {
    /// Our keys.
    pub keys: Keys,
    /// The Hosts.
    pub hosts: BTreeMap<AgentName, HostEntry>,
    /// Tunnels of all Hosts at a time, such as our pool has addresses for.
    pub tunnels: usize,
    /// Options of our back-end.
    pub options: Options,
    /// What it can do in IKE, as far as we allow it.
    pub ike: IkeAbilities,
    /// Where Client finds us.
    pub addresses: Vec<IpAddr>,
    /// Algorithms, the best first.
    pub proposals: Vec<String>,
    /// Our IKE identity.
    pub identity: String,
    /// Our certificates, our own first, DER.
    pub chain: Vec<Vec<u8>>,
}

/// A tunnel of a former agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Former {
    /// What was written of it.
    pub spending: Spending,
    /// Whether Client has come: its [`Progress`] was noted, or the back-end knows it.
    pub has_arrived: bool,
}

/// How it is known that Client has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// The back-end has seen it.
    Seen(Seen),
    /// It is not: the end is there, and nobody can see who uses it.
    Unseen,
}

/// What a back-end says of a Client that has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// At which address.
    pub peer: Option<IpAddr>,
    /// In which exchange IKE has taken the PPK.
    pub ppk: Option<PpkExchange>,
}

/// What the owner must do.
pub type Output = super::Output<Ask>;

/// Why a message was dropped without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Discard {
    /// It cannot be read, or is none for Target.
    Malformed,
    /// It is not of a Host's name and address.
    Stranger,
    /// The Host has spent its rate, or has too much in progress.
    OverRate,
    /// It has a Host's name and address, and is not of that Host.
    Forged,
    /// It was not opened, or not by this Host.
    NotProven,
    /// Its time is too far from ours.
    ClocksApart,
    /// It is in progress, or its answer was repeated too often.
    Repeated,
}

/// Target's agent.
pub struct Target {
    config: Config,
    /// Whether the log can be written.
    is_ready: bool,
    clock: Clock,
    random: Stream,
    tunnels: BTreeMap<TunnelId, Tunnel>,
    /// Of each Host with a sound key. The others are not heard.
    bonds: BTreeMap<AgentName, Bond>,
    asked: BTreeMap<u64, TunnelId>,
    /// The last inquiry of each Host, while it is asked whether we can build. Hosts that share a
    /// database have one name, and an address each.
    inquired: BTreeMap<(AgentName, IpAddr), Inquired>,
    next_number: u64,
    drops: BTreeMap<Discard, u64>,
    outputs: VecDeque<Output>,
}

/// An inquiry that is not answered yet.
struct Inquired {
    from: SocketAddr,
    nonce: [u8; LABEL_LEN],
    /// Our question, and how long we wait for its answer.
    number: u64,
    until: Instant,
}

/// A referral, and the tunnel that comes of it.
struct Tunnel {
    spending: Spending,
    /// Its name in the log.
    host: String,
    user: String,
    option: Option<SecurityOption>,
    /// The version of IKE and whether it has a PPK, once that is known.
    ike: Option<(IkeVersion, bool)>,
    /// In which exchange IKE has taken the PPK, once the back-end says so.
    ppk_exchange: Option<PpkExchange>,
    /// What is needed until the answer is sent. None of a former agent's tunnel.
    referral: Option<Box<Referred>>,
    answer: Option<Answered>,
    /// What it leads to. Not known of a former agent's tunnel.
    networks: Vec<Network>,
    /// Client's address inside.
    inner: Option<IpAddr>,
    /// Client's address outside.
    peer: Option<IpAddr>,
    /// When it is asked again whether the user may be in.
    next_standing: Instant,
    stage: Stage,
}

/// What an unanswered referral has brought.
struct Referred {
    host: AgentName,
    from: SocketAddr,
    request: Digest,
    request_id: [u8; 16],
    /// Fresh keys. None: the paper's own form.
    fresh: Option<wire::agent::Fresh>,
    asked_lifetime: Duration,
    networks: Vec<Network>,
    /// When the tunnel ends.
    ends: Instant,
    client_chain: Vec<Vec<u8>>,
    session_key: Option<SessionKey>,
    ppk: Option<TunnelPpk>,
}

/// The answer to Host.
struct Answered {
    message: Sealed,
    host: AgentName,
    repeats: u32,
    until: Instant,
}

enum Stage {
    /// A question is out.
    Asking(Question, Instant),
    /// Our end is up, and Client is expected. The second: when the tunnel ends.
    Waiting(Instant, Instant),
    /// Client has come.
    Up(Instant),
    /// Our end is taken down.
    Destroying {
        why: Why,
        next: Instant,
        pause: Duration,
        has_failed: bool,
    },
    /// Nothing is left but the answer.
    Over,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Question {
    Standing,
    Spend,
    Certify,
    Build,
}

impl Target {
    /// An agent with the tunnels of a former one: those in which Client was go on, all others are
    /// taken down.
    pub fn new(
        config: Config,
        former: Vec<Former>,
        clock: Clock,
        now: Instant,
        random: Stream,
    ) -> Self {
        let bond = |(name, host): (&AgentName, &HostEntry)| {
            Some((*name, Bond::new(&config.keys, &host.identity)?))
        };
        let mut target = Self {
            bonds: config.hosts.iter().filter_map(bond).collect(),
            config,
            is_ready: true,
            clock,
            random,
            tunnels: BTreeMap::new(),
            asked: BTreeMap::new(),
            inquired: BTreeMap::new(),
            next_number: 0,
            drops: BTreeMap::new(),
            outputs: VecDeque::new(),
        };
        for one in former {
            target.adopt(one, now);
        }
        target
    }

    fn adopt(&mut self, former: Former, now: Instant) {
        let id = former.spending.tunnel;
        let left = former.spending.until.0.saturating_sub(self.clock.at(now).0);
        let left = Duration::from_secs(u64::try_from(left).unwrap_or(0));
        let identity = former.spending.client_identity.clone();
        let (user, host) = match identity.rsplit_once('@') {
            Some((user, host)) => (user.to_owned(), host.to_owned()),
            None => (identity, String::new()),
        };
        let request = Request::parse(&former.spending.evidence.request).ok();
        let objectives = request.and_then(|it| Objectives::of_number(it.objectives));
        let tunnel = Tunnel {
            spending: former.spending,
            host,
            user,
            option: objectives.map(Objectives::option),
            ike: None,
            ppk_exchange: None,
            referral: None,
            answer: None,
            networks: Vec::new(),
            inner: None,
            peer: None,
            next_standing: now,
            stage: Stage::Up(now + left.min(LIFETIME_MAX)),
        };
        self.tunnels.insert(id, tunnel);
        if !former.has_arrived {
            self.destroy(id, Why::Restarted, now);
        }
    }

    /// The calendar time was set. Tunnels end when they would have.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Whether the log can be written. While it cannot, nothing new is built, and Host hears that,
    /// so that it spends no key.
    pub fn set_ready(&mut self, is_ready: bool) {
        self.is_ready = is_ready;
    }

    /// The back-end can do other options than before.
    pub fn set_options(&mut self, options: Options) {
        self.config.options = options;
    }

    /// A message has come.
    pub fn handle(&mut self, from: SocketAddr, payload: &[u8], now: Instant) {
        self.handle_timeout(now);
        match Message::parse(payload) {
            Ok(Message::Sealed(sealed)) => match sealed.kind {
                Kind::Referral => self.hear_referral(from, &sealed, now),
                Kind::Inquiry => self.hear_inquiry(from, &sealed, now),
                _ => self.count(Discard::Malformed),
            },
            _ => self.count(Discard::Malformed),
        }
    }

    /// The question of this number is answered.
    pub fn answered(&mut self, number: u64, answer: Answer, now: Instant) {
        self.handle_timeout(now);
        let Some(id) = self.asked.remove(&number) else {
            return self.offer_if(number, answer == Answer::Done, now);
        };
        let Some(tunnel) = self.tunnels.get(&id) else {
            return;
        };
        match (&tunnel.stage, answer) {
            (Stage::Asking(Question::Standing, _), Answer::Standing(standing)) => {
                self.admit(id, standing, now);
            }
            (Stage::Asking(Question::Spend, _), Answer::Spent) => self.certify(id, now),
            (Stage::Asking(Question::Spend, _), Answer::SpentBefore) => {
                self.refuse(id, Why::Replayed, now);
            }
            (Stage::Asking(Question::Certify, _), Answer::Certified(chain)) => {
                self.build(id, chain, now);
            }
            (Stage::Asking(Question::Build, _), Answer::Done) => self.authorize(id, now),
            (
                Stage::Up(_) | Stage::Waiting(..),
                Answer::Standing(Standing::Stranger | Standing::KeyNotEnrolled),
            ) => self.end(id, Why::NotMember, now),
            (Stage::Asking(question, _), _) => self.give_up(id, *question, now),
            (Stage::Destroying { .. }, Answer::Done) => self.destroyed(id, now),
            (Stage::Destroying { .. }, Answer::Failed) => self.still_up(id, now),
            _ => {}
        }
    }

    /// This inner address is lent to a tunnel.
    pub fn lent(&mut self, id: TunnelId, inner: IpAddr) {
        if let Some(tunnel) = self.tunnels.get_mut(&id) {
            tunnel.inner = Some(inner);
        }
    }

    /// Client's addresses of a former agent's tunnel: inside, and outside.
    pub fn recall(&mut self, id: TunnelId, inner: Option<IpAddr>, peer: Option<IpAddr>) {
        if let Some(tunnel) = self.tunnels.get_mut(&id) {
            (tunnel.inner, tunnel.peer) = (inner, peer);
        }
    }

    /// Step 10: IKE has made the tunnel. An end that cannot know whether somebody has come stays
    /// until its time is over, and the log does not say that it is up.
    pub fn arrived(&mut self, id: TunnelId, came: Came, now: Instant) {
        self.handle_timeout(now);
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        let Stage::Waiting(_, ends) = tunnel.stage else {
            return;
        };
        tunnel.stage = Stage::Up(ends);
        if let Came::Seen(seen) = came {
            tunnel.peer = seen.peer;
            tunnel.ppk_exchange = seen.ppk;
            self.tell(id, Step::Up, None, now);
        }
        self.put(Ask::Note(id, Progress::Arrived));
    }

    /// Client has closed the tunnel, or IKE has lost it.
    pub fn closed(&mut self, id: TunnelId, now: Instant) {
        self.end(id, Why::ClosedByPeer, now);
    }

    /// The administrator ends a tunnel.
    pub fn close(&mut self, id: TunnelId, now: Instant) {
        self.end(id, Why::Administrator, now);
    }

    fn end(&mut self, id: TunnelId, why: Why, now: Instant) {
        self.handle_timeout(now);
        let stage = self.tunnels.get(&id).map(|it| &it.stage);
        if matches!(stage, Some(Stage::Up(_) | Stage::Waiting(..))) {
            self.destroy(id, why, now);
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        let is_due = |it: &Tunnel| it.due().is_some_and(|due| due <= now);
        let due = self.tunnels.iter().filter(|(_, it)| is_due(it));
        let due: Vec<TunnelId> = due.map(|(id, _)| *id).collect();
        for id in due {
            self.wake(id, now);
        }
    }

    fn wake(&mut self, id: TunnelId, now: Instant) {
        let Some(tunnel) = self.tunnels.get_mut(&id) else {
            return;
        };
        if tunnel.answer.as_ref().is_some_and(|it| it.until <= now) {
            tunnel.answer = None;
        }
        match tunnel.stage {
            Stage::Over if tunnel.answer.is_none() => {
                self.tunnels.remove(&id);
                self.asked.retain(|_, of| *of != id);
            }
            Stage::Asking(question, due) if due <= now => self.give_up(id, question, now),
            Stage::Waiting(_, ends) | Stage::Up(ends) if ends <= now => {
                self.destroy(id, Why::TimeOver, now);
            }
            Stage::Waiting(due, _) if due <= now => self.destroy(id, Why::NeverCame, now),
            Stage::Waiting(..) | Stage::Up(_) if tunnel.next_standing <= now => {
                tunnel.next_standing = now + STANDING_EVERY;
                let ask = tunnel.standing();
                self.ask(id, ask);
            }
            Stage::Destroying { next, .. } if next <= now => {
                self.still_up(id, now);
                self.ask(id, Ask::Destroy(id));
            }
            _ => {}
        }
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn deadline(&self) -> Option<Deadline> {
        let due = self.tunnels.values().filter_map(Tunnel::due);
        due.min().map(|at| Deadline {
            at,
            why: "go on with a tunnel",
        })
    }

    /// Messages that were dropped, by reason.
    pub fn drops(&self) -> &BTreeMap<Discard, u64> {
        &self.drops
    }

    /// Tunnels of which our end may be up, whether Client is in them or not.
    pub fn tunnels(&self) -> impl Iterator<Item = TunnelId> {
        let list = self.tunnels.iter();
        let list = list.filter(|(_, it)| {
            !matches!(it.stage, Stage::Over)
                && !matches!(it.stage, Stage::Asking(question, _) if question != Question::Build)
        });
        list.map(|(id, _)| *id)
    }

    /// Referrals and tunnels in progress or remembered.
    pub fn len(&self) -> usize {
        self.tunnels.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tunnels.is_empty()
    }

    /// Asks about a tunnel, and waits for the answer.
    fn ask(&mut self, id: TunnelId, ask: Ask) {
        // An earlier question about it is not waited for any longer.
        self.asked.retain(|_, of| *of != id);
        self.asked.insert(self.next_number, id);
        self.put(ask);
    }

    fn put(&mut self, ask: Ask) {
        let number = self.next_number;
        self.next_number += 1;
        self.outputs.push_back(Output::Ask(number, ask));
    }

    fn count(&mut self, drop: Discard) {
        *self.drops.entry(drop).or_default() += 1;
    }

    /// Writes an event with all that is known of a tunnel.
    fn tell(&mut self, id: TunnelId, step: Step, why: Option<Why>, now: Instant) {
        let mut event = Event::new(self.clock.at(now), Role::Target, step);
        event.why = why;
        event.tunnel = Some(id);
        if let Some(tunnel) = self.tunnels.get(&id) {
            event.key = Some(tunnel.spending.handle);
            event.user = Some(tunnel.user.clone());
            event.host = Some(tunnel.host.clone());
            event.option = tunnel.option;
            // Unprotected traffic has no IKE.
            if let Some((version, has_ppk)) = tunnel.ike
                && tunnel.option != Some(SecurityOption::Native)
            {
                (event.ike, event.has_ppk) = (Some(version), has_ppk);
                event.ppk_exchange = tunnel.ppk_exchange.filter(|_| has_ppk);
            }
            event.inner = tunnel.inner;
            event.peer = tunnel.peer;
            // Once it is known, and with the lines that say that there is a tunnel.
            if matches!(step, Step::Admitted | Step::Built | Step::Up) {
                event.networks.clone_from(&tunnel.networks);
            }
            let until = tunnel.spending.until;
            event.until = (until > Calendar(0)).then_some(until);
        }
        self.outputs.push_back(Output::Audit(event));
    }
}

impl Tunnel {
    /// Asks for its user's standing. A shared pair has proven nothing to us, so it has no key.
    fn standing(&self) -> Ask {
        let request = Request::parse(&self.spending.evidence.request).ok();
        let is_signed = request.is_some_and(|it| it.fresh.is_some());
        Ask::Standing {
            user: self.user.clone(),
            host: self.host.clone(),
            key: is_signed.then_some(self.spending.key),
        }
    }

    fn due(&self) -> Option<Instant> {
        let stage = match &self.stage {
            Stage::Asking(_, due) => Some(*due),
            Stage::Waiting(due, ends) => Some(*due.min(ends).min(&self.next_standing)),
            Stage::Up(ends) => Some(*ends.min(&self.next_standing)),
            Stage::Destroying { next, .. } => Some(*next),
            Stage::Over => match self.answer {
                None => Some(Instant(0)),
                Some(_) => None,
            },
        };
        let answer = self.answer.as_ref().map(|it| it.until);
        stage.into_iter().chain(answer).min()
    }
}

/// What Host is told, and Client by it.
fn verdict_of(why: Why) -> Verdict {
    match why {
        Why::Replayed => Verdict::KeyUsed,
        Why::ClocksApart => Verdict::ClocksApart,
        Why::OptionNotAtClient | Why::OptionNotAtTarget => Verdict::OptionUnavailable,
        Why::NoCommonVersion => Verdict::NoCommonVersion,
        Why::NoPpk => Verdict::NoPpk,
        Why::StoreUnavailable | Why::LogUnavailable => Verdict::StoreUnavailable,
        Why::NoCertificate | Why::BackEndFailed => Verdict::NotBuilt,
        Why::Busy => Verdict::Busy,
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
