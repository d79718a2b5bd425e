//! Client's agent: it asks Host for a tunnel by a one-time key, checks what Target says, and has
//! its end built and taken down (steps 1, 9 and 10).
//!
//! A key is used by one agent once. The agent makes fresh keys for the answers; the owner makes the
//! tunnel's, and holds the one-time key or the token that has it.

mod response;

use std::collections::{BTreeMap, VecDeque};

use crypto::ed25519::Signature;
use crypto::hpke::{PublicKey, SecretKey};
use crypto::rand::Stream;
use wire::agent::{Fate, Fresh, Kind, Message, Proof, Request, Sealed, Tunneling, Verdict};

use super::audit::{Event, Role, Step, Why};
use super::envelope::{self, Use};
use super::ike::{IkeAbilities, IkeVersion};
use super::legacy::Pair;
use super::objectives::{Objectives, Options, SecurityOption};
use super::ppk::{KeyPpk, TunnelPpk};
use super::retry::{self, Retry};
use super::sheet;
use super::target::SessionKey;
use super::{Clock, Digest, Handle, LIFETIME_MAX, LIFETIME_MIN, TunnelId};
use crate::ikev2::ppk::PpkExchange;
use crate::time::{Calendar, Deadline, Duration, Instant};

/// How long the owner of the key may take to sign: a token may ask for a PIN.
const SIGN_MAX: Duration = Duration::from_secs(60);
/// How long IKE may take.
const BUILD_MAX: Duration = Duration::from_secs(60);
/// So shortly before its time a tunnel that the other end closes has ended in time: agents tell
/// each other seconds, and their messages take a while.
const ENDS_IN_TIME: Duration = Duration::from_secs(5);
/// Pause before our end is taken down again.
const DESTROY_AGAIN: Duration = Duration::from_secs(5);
/// How far ahead of this machine's clock the time may be that Host tells: whoever has a signed
/// request of a later time could use it then.
const CLOCK_BEHIND_MAX: Duration = Duration::from_secs(24 * 3_600);
/// Cookies that are answered at once: anybody can forge one.
const COOKIES_MAX: u32 = 4;

/// What a user asks for.
pub struct Config {
    /// The head of the sheet.
    pub head: sheet::Head,
    /// The key.
    pub handle: Handle,
    /// The shared pair. None in the default form.
    pub pair: Option<Pair>,
    /// Who asks.
    pub user: String,
    /// What the tunnel shall give.
    pub objectives: Objectives,
    /// Options of our back-end.
    pub options: Options,
    /// What it can do in IKE. It has a PPK only if the next field has one.
    pub ike: IkeAbilities,
    /// What the key gives for the tunnel's PPK.
    pub ppk: Option<KeyPpk>,
    /// How long it shall live.
    pub lifetime: Duration,
    /// SubjectPublicKeyInfo of the tunnel's key, made for this request alone.
    pub tunnel_key: Vec<u8>,
}

/// What the owner must do.
pub enum Output {
    /// Signs these octets with the one-time key, and calls [`Client::signed`].
    Sign(Vec<u8>),
    /// Sends a message.
    Send {
        /// To this address of the sheet.
        host: usize,
        /// The message.
        payload: Vec<u8>,
    },
    /// Builds our end, and calls [`Client::built`].
    Build(Box<Tunnel>),
    /// Takes our end down, whatever is there of it, and calls [`Client::destroyed`].
    Destroy,
    /// Tells the user that Host's clock shows another time than this machine's, and that the
    /// request is signed for it.
    ClockDiffers {
        /// This machine's time.
        ours: Calendar,
        /// Host's.
        told: Calendar,
    },
    /// Writes a line of the log.
    Audit(Event),
    /// Nothing more will come.
    Over(Outcome),
}

/// How it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The tunnel was up, and has ended.
    Ended(Why),
    /// There was none, for this reason and with these words of Host.
    Refused(Why, Option<Verdict>),
}

/// Our end of the tunnel.
pub struct Tunnel {
    /// Its name at Target.
    pub id: TunnelId,
    /// Its option.
    pub option: SecurityOption,
    /// All else. Its certificates are to be trusted for this tunnel alone.
    pub tunneling: Tunneling,
    /// The version of IKE.
    pub ike: IkeVersion,
    /// Its PPK: without it there is no tunnel.
    pub ppk: Option<TunnelPpk>,
    /// The pre-shared key of the paper's own form.
    pub session_key: Option<SessionKey>,
    /// How long it lives from now on.
    pub lifetime: Duration,
}

/// Why a message was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Discard {
    /// It cannot be read, or is none for Client.
    Malformed,
    /// Nothing is expected, or not this.
    Unexpected,
    /// It is not sealed to us, or not by Host.
    NotProven,
}

/// Client's agent.
pub struct Client {
    config: Config,
    clock: Clock,
    random: Stream,
    stage: Stage,
    /// The tunnel that Host has granted, and until when.
    granted: Option<(TunnelId, Calendar)>,
    /// The version of IKE that Target has chosen, and whether it has the PPK.
    chosen: Option<(IkeVersion, bool)>,
    /// In which exchange IKE has taken the PPK, once the back-end says so.
    ppk_exchange: Option<PpkExchange>,
    /// Whether Host has told us the time.
    has_time: bool,
    /// What has become of the key, as far as Host has said.
    fate: Fate,
    drops: BTreeMap<Discard, u64>,
    outputs: VecDeque<Output>,
}

enum Stage {
    New,
    /// The key's owner signs.
    Signing(Box<Draft>, Instant),
    /// Host is asked.
    Asking(Box<Asking>),
    /// Our end is built. When the tunnel ends, and when IKE is given up.
    Building(Instant, Instant),
    /// The tunnel is up, until then.
    Up(Instant),
    /// Our end is taken down, then this is the outcome.
    Destroying(Outcome, Instant),
    Over(Outcome),
}

/// A request that is not signed yet.
struct Draft {
    request: Request,
    body: Vec<u8>,
    /// Opens the answer. None with a shared pair.
    secret: Option<SecretKey>,
}

/// A request that is sent.
struct Asking {
    draft: Draft,
    digest: Digest,
    sealed: Sealed,
    retry: Retry<Vec<u8>>,
    cookies: u32,
}

impl Client {
    /// An agent that has done nothing yet.
    pub fn new(config: Config, clock: Clock, random: Stream) -> Self {
        Self {
            config,
            clock,
            random,
            stage: Stage::New,
            granted: None,
            chosen: None,
            ppk_exchange: None,
            has_time: false,
            fate: Fate::NotSpent,
            drops: BTreeMap::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Begins with step 1. An option that our back-end cannot do is refused here, before anybody
    /// hears of the key.
    pub fn start(&mut self, now: Instant) {
        if !matches!(self.stage, Stage::New) {
            return;
        }
        if !self.config.options.has(self.config.objectives.option()) {
            return self.over(Outcome::Refused(Why::OptionNotAtClient, None), now);
        }
        self.draft(now);
    }

    /// A request of this moment, with fresh keys.
    fn draft(&mut self, now: Instant) {
        let mut request_id = [0; 16];
        self.random.fill(&mut request_id);
        let secret = match self.config.pair {
            None => Some(SecretKey::generate(&mut self.random)),
            Some(_) => None,
        };
        let lifetime = self.lifetime().as_secs();
        let request = Request {
            request_id,
            target: self.config.head.target.0.0,
            user_id: self.config.user.clone(),
            objectives: self.config.objectives.number(),
            options: self.config.options.number(),
            ike: self.ike().number(),
            // Of no time after the keys: nobody shall have a request that holds for ever.
            time: self.clock.seconds(now).min(self.not_after()),
            lifetime: u32::try_from(lifetime).unwrap_or(u32::MAX),
            fresh: secret.as_ref().map(|secret| Fresh {
                sealing_key: secret.public().0,
                tunnel_key: self.config.tunnel_key.clone(),
            }),
        };
        let body = request.to_vec();
        let what = Use::Message(Kind::Request);
        let octets = envelope::signed_octets(what, &self.config.handle.0, self.seals_to(), &body);
        let draft = Draft {
            request,
            body,
            secret,
        };
        self.stage = Stage::Signing(Box::new(draft), now + SIGN_MAX);
        self.outputs.push_back(Output::Sign(octets));
    }

    /// What our end can do in IKE for this key.
    fn ike(&self) -> IkeAbilities {
        let can_ppk = self.config.ike.has_ppk() && self.config.ike.has(IkeVersion::V2);
        let has_ppk = can_ppk && self.config.ppk.is_some();
        self.config.ike.with_ppk(has_ppk)
    }

    /// The last time of the sheet's keys.
    fn not_after(&self) -> u64 {
        u64::try_from(self.config.head.not_after.0).unwrap_or(0)
    }

    fn lifetime(&self) -> Duration {
        self.config.lifetime.clamp(LIFETIME_MIN, LIFETIME_MAX)
    }

    /// To which requests are sealed.
    fn seals_to(&self) -> PublicKey {
        match &self.config.pair {
            None => self.config.head.host.sealing,
            Some(pair) => pair.sealing.public(),
        }
    }

    /// The one-time key has signed, or could not.
    pub fn signed(&mut self, signature: Option<Signature>, now: Instant) {
        self.handle_timeout(now);
        if !matches!(self.stage, Stage::Signing(..)) {
            return self.count(Discard::Unexpected);
        }
        let Stage::Signing(draft, _) = std::mem::replace(&mut self.stage, Stage::New) else {
            return;
        };
        let Some(signature) = signature else {
            return self.over(Outcome::Refused(Why::LoggedOut, None), now);
        };
        let what = Use::Message(Kind::Request);
        let (label, to) = (self.config.handle.0, self.seals_to());
        let signed = (&draft.body[..], &signature);
        let sealed = envelope::seal_signed(what, label, to, signed, &mut self.random);
        let Some((encapsulated, ciphertext)) = sealed else {
            return self.over(Outcome::Refused(Why::Misdirected, None), now);
        };
        let sealed = Sealed {
            kind: Kind::Request,
            cookie: None,
            label,
            proof: Proof::default(),
            encapsulated,
            ciphertext,
        };
        let payload = sealed.to_vec();
        let asking = Asking {
            digest: envelope::request_digest(&draft.body, &signature),
            draft: *draft,
            sealed,
            retry: Retry::new(payload.clone(), retry::OF_CLIENT, now),
            cookies: 0,
        };
        self.stage = Stage::Asking(Box::new(asking));
        self.fate = Fate::Unknown;
        self.tell(Step::Requested, None, now);
        self.outputs.push_back(Output::Send { host: 0, payload });
    }

    /// A message has come.
    pub fn handle(&mut self, payload: &[u8], now: Instant) {
        self.handle_timeout(now);
        match Message::parse(payload) {
            Ok(Message::Retry(retry)) => self.hear_retry(&retry),
            Ok(Message::Sealed(sealed)) if sealed.kind == Kind::Response => {
                self.hear_response(&sealed, now);
            }
            _ => self.count(Discard::Malformed),
        }
    }

    /// Our end is built and IKE has made the tunnel, or the back-end has failed.
    pub fn built(&mut self, is_up: bool, now: Instant) {
        self.handle_timeout(now);
        let Stage::Building(ends, _) = self.stage else {
            return;
        };
        if !is_up {
            return self.destroy(Outcome::Refused(Why::BackEndFailed, None), now);
        }
        self.stage = Stage::Up(ends);
        self.tell(Step::Up, None, now);
    }

    /// In which exchange IKE has taken the PPK. It is said before [`Self::built`].
    pub fn ppk_taken(&mut self, exchange: Option<PpkExchange>) {
        self.ppk_exchange = exchange;
    }

    /// Target has closed the tunnel, because its time is over or before, or IKE has lost it.
    pub fn closed(&mut self, now: Instant) {
        let is_in_time = match self.stage {
            Stage::Up(ends) => ends - now <= ENDS_IN_TIME,
            _ => false,
        };
        let why = match is_in_time {
            true => Why::TimeOver,
            false => Why::ClosedByPeer,
        };
        self.end(why, now);
    }

    /// The user has logged out, or the token is gone.
    pub fn log_out(&mut self, now: Instant) {
        self.end(Why::LoggedOut, now);
    }

    fn end(&mut self, why: Why, now: Instant) {
        self.handle_timeout(now);
        match self.stage {
            Stage::Up(..) => self.destroy(Outcome::Ended(why), now),
            Stage::Building(..) => self.destroy(Outcome::Refused(why, None), now),
            Stage::New | Stage::Signing(..) | Stage::Asking(_) => {
                self.over(Outcome::Refused(why, None), now);
            }
            Stage::Destroying(..) | Stage::Over(_) => {}
        }
    }

    /// Our end is down, or could not be taken down; then it is asked for again.
    pub fn destroyed(&mut self, is_down: bool, now: Instant) {
        let Stage::Destroying(outcome, next) = &mut self.stage else {
            return;
        };
        let outcome = *outcome;
        if is_down {
            return self.over(outcome, now);
        }
        *next = now + DESTROY_AGAIN;
        self.tell(Step::StillUp, None, now);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        match &mut self.stage {
            Stage::Signing(_, until) if *until <= now => {
                self.over(Outcome::Refused(Why::NoAnswer, None), now);
            }
            Stage::Asking(asking) => match asking.retry.again(now) {
                Some(false) => {}
                None => self.over(Outcome::Refused(Why::NoAnswer, None), now),
                Some(true) => {
                    let hosts = self.config.head.addresses.len().max(1);
                    let host = (asking.retry.sent as usize - 1) % hosts;
                    let payload = asking.retry.message.clone();
                    self.outputs.push_back(Output::Send { host, payload });
                }
            },
            Stage::Building(_, until) if *until <= now => {
                self.destroy(Outcome::Refused(Why::NoAnswer, None), now);
            }
            Stage::Up(ends) if *ends <= now => {
                self.destroy(Outcome::Ended(Why::TimeOver), now);
            }
            Stage::Destroying(_, next) if *next <= now => {
                *next = now + DESTROY_AGAIN;
                self.outputs.push_back(Output::Destroy);
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
        let (at, why) = match &self.stage {
            Stage::New | Stage::Over(_) => return None,
            Stage::Signing(_, until) => (*until, "give the token up"),
            Stage::Asking(asking) => (asking.retry.next, "repeat the request"),
            Stage::Building(_, until) => (*until, "give IKE up"),
            Stage::Up(ends) => (*ends, "end the tunnel"),
            Stage::Destroying(_, next) => (*next, "take the tunnel down again"),
        };
        Some(Deadline { at, why })
    }

    /// How it has ended, if it has.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.stage {
            Stage::Over(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// What has become of the key: Host has said it, or nobody has heard of the key, or it is not
    /// known.
    pub fn fate(&self) -> Fate {
        self.fate
    }

    /// Whether our end may be there.
    pub fn has_tunnel(&self) -> bool {
        matches!(
            self.stage,
            Stage::Building(..) | Stage::Up(..) | Stage::Destroying(..)
        )
    }

    /// Messages that were dropped, by reason.
    pub fn drops(&self) -> &BTreeMap<Discard, u64> {
        &self.drops
    }

    fn destroy(&mut self, outcome: Outcome, now: Instant) {
        self.stage = Stage::Destroying(outcome, now + DESTROY_AGAIN);
        self.outputs.push_back(Output::Destroy);
    }

    fn over(&mut self, outcome: Outcome, now: Instant) {
        self.stage = Stage::Over(outcome);
        match outcome {
            Outcome::Ended(why) => self.tell(Step::Ended, Some(why), now),
            Outcome::Refused(why, _) => self.tell(Step::Refused, Some(why), now),
        }
        self.outputs.push_back(Output::Over(outcome));
    }

    fn count(&mut self, drop: Discard) {
        *self.drops.entry(drop).or_default() += 1;
    }

    fn tell(&mut self, step: Step, why: Option<Why>, now: Instant) {
        let mut event = Event::new(self.clock.at(now), Role::Client, step);
        event.key = Some(self.config.handle);
        event.user = Some(self.config.user.clone());
        event.target = Some(self.config.head.target);
        event.option = Some(self.config.objectives.option());
        event.why = why;
        // Unprotected traffic has no IKE.
        if let Some((version, has_ppk)) = self.chosen
            && event.option != Some(SecurityOption::Native)
        {
            (event.ike, event.has_ppk) = (Some(version), has_ppk);
            event.ppk_exchange = self.ppk_exchange.filter(|_| has_ppk);
        }
        if let Some((id, until)) = self.granted {
            event.tunnel = Some(id);
            event.until = Some(until);
        }
        self.outputs.push_back(Output::Audit(event));
    }
}
