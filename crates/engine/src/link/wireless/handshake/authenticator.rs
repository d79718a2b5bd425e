//! The access point's end.

use core::ops::Range;

use crypto::rand::Stream;
use wire::codec::Writer;
use wire::ieee80211::{Address, Gtk, NONCE_LEN, key_information as info, write_gtk, write_pmkid};

use super::akm::Akm;
use super::keys::{MasterKey, Setting, TransientKey};
use super::message::{Received, frame, packet, signed};
use super::outbox::{Fact, Failure, Outbox};
use crate::counters::{DropCounters, DropReason};
use crate::link::wireless::cipher::{GroupKey, PermittedCipher};
use crate::time::{Deadline, Duration, Instant};
use crate::work::Work;

/// How often a message is sent.
const ATTEMPTS: u32 = 4;
/// How long the first answer is waited for: the station has just joined, and is near.
const FIRST_TIMEOUT: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(1);
/// How often a station is asked whether it is there, and how long each answer is waited for: 201
/// time units, so that all take some 1,000 (IEEE 802.11-2020 §11.13).
const QUERY_ATTEMPTS: u32 = 5;
const QUERY_TIMEOUT: Duration = Duration::from_nanos(201 * 1_024_000);

/// What an access point knows of a station before the handshake.
#[derive(Clone)]
pub struct AuthenticatorConfig {
    /// Where the master key comes from.
    pub akm: Akm,
    /// Protects frames to the station.
    pub pairwise: PermittedCipher,
    /// The access point.
    pub own: Address,
    /// The station.
    pub supplicant: Address,
    /// The master key.
    pub master: MasterKey,
    /// The name of the master key, for the first message.
    pub pmkid: Option<[u8; 16]>,
    /// Our RSN element, as in beacons.
    pub rsn: Vec<u8>,
    /// That of the station, as in its association request.
    pub supplicant_rsn: Vec<u8>,
}

/// The access point's end of the handshakes with one station.
pub struct Authenticator {
    setting: Setting,
    config: AuthenticatorConfig,
    random: Stream,
    anonce: [u8; NONCE_LEN],
    stage: Stage,
    /// Counters of the message that waits for its answer; the end is the next to use.
    counters: Range<u64>,
    attempts: u32,
    next_at: Option<Instant>,
    has_wrong_mic: bool,
    /// It asks whether the station is there.
    is_asking: bool,
    /// The group key that the station has.
    given: Option<GroupKey>,
    drops: DropCounters,
    work: Work,
}

enum Stage {
    /// Message 1 is sent.
    First,
    /// Message 3 is sent.
    Third(TransientKey, GroupKey),
    /// Both have the keys.
    Done(TransientKey),
    /// A new group key is sent.
    Group(TransientKey, GroupKey),
    Failed,
}

impl Authenticator {
    /// Sends message 1.
    pub fn new(
        config: AuthenticatorConfig,
        random: Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Self {
        let mut machine = Self {
            setting: Setting {
                akm: config.akm,
                pairwise: config.pairwise,
                authenticator: config.own,
                supplicant: config.supplicant,
            },
            config,
            random,
            anonce: [0; NONCE_LEN],
            stage: Stage::First,
            counters: 1..1,
            attempts: 0,
            next_at: None,
            has_wrong_mic: false,
            is_asking: false,
            given: None,
            drops: DropCounters::default(),
            work: Work::default(),
        };
        machine.random.fill(&mut machine.anonce);
        machine.enter(Stage::First, now, out);
        machine
    }

    /// Gives the station another group key, once it has the first. False if it has none yet, or
    /// has or gets this one already.
    pub fn give_group(&mut self, group: &GroupKey, now: Instant, out: &mut Outbox) -> bool {
        let key = match &self.stage {
            Stage::Group(_, given) if is_same(given, group) => return false,
            Stage::Done(key) | Stage::Group(key, _) => key.clone(),
            _ => return false,
        };
        if self.has_group(group) {
            return false;
        }
        self.enter(Stage::Group(key, group.clone()), now, out);
        true
    }

    /// Asks a station with keys whether it is there, by the newest group key once more: only who
    /// has its keys can answer. Nothing happens if a group key waits for its answer already.
    pub fn ask(&mut self, group: &GroupKey, now: Instant, out: &mut Outbox) {
        if let Stage::Done(key) = &self.stage {
            let key = key.clone();
            self.is_asking = true;
            self.enter(Stage::Group(key, group.clone()), now, out);
        }
    }

    /// Whether the station has said that it has this group key.
    pub fn has_group(&self, group: &GroupKey) -> bool {
        self.given.as_ref().is_some_and(|it| is_same(it, group))
    }

    /// Whether the station has keys.
    pub fn has_keys(&self) -> bool {
        matches!(self.stage, Stage::Done(_) | Stage::Group(..))
    }

    /// Takes an EAPOL packet of the station. `group` is the group key with its packet number of
    /// this moment. A drop is counted.
    pub fn handle(
        &mut self,
        packet: &[u8],
        group: &GroupKey,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), DropReason> {
        let handled = self.handle_uncounted(packet, group, now, out);
        handled.inspect_err(|reason| self.drops.count(*reason))
    }

    fn handle_uncounted(
        &mut self,
        packet: &[u8],
        group: &GroupKey,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), DropReason> {
        let received = Received::read(packet, &self.setting)?;
        let message = &received.frame;
        if message.has(info::ACK) || !message.has(info::MIC) {
            return Err(DropReason::UnexpectedMessage);
        }
        if !self.counters.contains(&message.replay_counter) {
            return Err(DropReason::Replayed);
        }
        let is_pairwise = message.has(info::PAIRWISE);
        let is_secure = message.has(info::SECURE);
        match (&self.stage, is_pairwise, is_secure) {
            (Stage::First, true, false) => self.second(&received, group, now, out),
            (Stage::Third(key, _), true, true) | (Stage::Group(key, _), false, true) => {
                received.verify(key, &mut self.work)?;
                self.finish(out);
                Ok(())
            }
            _ => Err(DropReason::UnexpectedMessage),
        }
    }

    fn second(
        &mut self,
        received: &Received<'_>,
        group: &GroupKey,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), DropReason> {
        let (master, snonce) = (&self.config.master, &received.frame.nonce);
        let key = self
            .setting
            .derive(master, &self.anonce, snonce, &mut self.work);
        let verified = received.verify(&key, &mut self.work);
        verified.inspect_err(|_| self.has_wrong_mic = true)?;
        if received.frame.data != self.config.supplicant_rsn {
            self.fail(Failure::OtherRsn, out);
            return Err(DropReason::AuthenticationFailed);
        }
        self.enter(Stage::Third(key, group.clone()), now, out);
        Ok(())
    }

    fn finish(&mut self, out: &mut Outbox) {
        self.next_at = None;
        self.is_asking = false;
        match core::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Third(key, group) => {
                out.facts.push(Fact::Pairwise(key.temporal().clone()));
                out.facts.push(Fact::Done);
                (self.stage, self.given) = (Stage::Done(key), Some(group));
            }
            Stage::Group(key, group) => {
                out.facts.push(Fact::GroupTaken);
                (self.stage, self.given) = (Stage::Done(key), Some(group));
            }
            stage => self.stage = stage,
        }
        // Nothing is awaited: the answer is accepted once.
        self.counters = self.counters.end..self.counters.end;
    }

    fn fail(&mut self, failure: Failure, out: &mut Outbox) {
        self.stage = Stage::Failed;
        self.next_at = None;
        out.facts.push(Fact::Failed(failure));
    }

    fn enter(&mut self, stage: Stage, now: Instant, out: &mut Outbox) {
        self.stage = stage;
        self.attempts = 0;
        self.counters = self.counters.end..self.counters.end;
        self.send(now, out);
    }

    /// Sends the message of the stage, under a new counter.
    fn send(&mut self, now: Instant, out: &mut Outbox) {
        let counter = self.counters.end;
        self.counters.end += 1;
        out.packets.push(self.message(counter));
        self.attempts += 1;
        let timeout = match (&self.stage, self.attempts) {
            (Stage::First, 1) => FIRST_TIMEOUT,
            _ if self.is_asking => QUERY_TIMEOUT,
            _ => TIMEOUT,
        };
        self.next_at = Some(now + timeout);
    }

    fn message(&mut self, counter: u64) -> Vec<u8> {
        let key_length = self.setting.cipher().key_len() as u16;
        match &self.stage {
            Stage::First => {
                let mut data = Writer::new();
                if let Some(pmkid) = &self.config.pmkid {
                    write_pmkid(pmkid, &mut data);
                }
                let mut first = frame(&self.setting, info::PAIRWISE | info::ACK, counter);
                first.nonce = self.anonce;
                first.key_length = key_length;
                first.data = data.as_slice();
                packet(&first)
            }
            Stage::Third(key, group) | Stage::Group(key, group) => {
                let is_third = matches!(self.stage, Stage::Third(..));
                let mut data = Writer::new();
                if is_third {
                    data.bytes(&self.config.rsn);
                }
                write_gtk(&gtk_of(group), &mut data);
                let mut iv = [0; 16];
                self.random.fill(&mut iv);
                let data = key.encrypt(data, &iv, &mut self.work);
                let of_all = info::MIC | info::ACK | info::SECURE | info::ENCRYPTED;
                let of_third = info::PAIRWISE | info::INSTALL;
                let information = of_all | if is_third { of_third } else { 0 };
                let mut message = frame(&self.setting, information, counter);
                if is_third {
                    message.nonce = self.anonce;
                    message.key_length = key_length;
                }
                if self.setting.version() == info::HMAC_MD5_RC4 {
                    message.iv = iv;
                }
                message.receive_sequence = group.last_number.to_le_bytes();
                message.data = &data;
                signed(&message, key, &mut self.work)
            }
            Stage::Done(_) | Stage::Failed => unreachable!("nothing is sent"),
        }
    }

    /// When to call [`Self::fire`].
    pub fn deadline(&self) -> Option<Deadline> {
        self.next_at.map(|at| Deadline {
            at,
            why: "send a message of the handshake again",
        })
    }

    /// Sends again if it is time, and fails at the end. Message 1 is sent again only if it may be,
    /// or if the station has answered.
    pub fn fire(&mut self, now: Instant, may_repeat_first: bool, out: &mut Outbox) {
        if self.next_at.take_if(|at| *at <= now).is_none() {
            return;
        }
        let is_unanswered = matches!(self.stage, Stage::First) && !self.has_wrong_mic;
        let attempts = match self.is_asking {
            true => QUERY_ATTEMPTS,
            false => ATTEMPTS,
        };
        if self.attempts < attempts {
            if may_repeat_first || !is_unanswered {
                return self.send(now, out);
            }
            self.attempts += 1;
            self.next_at = Some(now + TIMEOUT);
            return;
        }
        // A station that was asked and has the group key keeps its own.
        if let Stage::Group(key, group) = &self.stage
            && core::mem::take(&mut self.is_asking)
            && self.given.as_ref().is_some_and(|it| is_same(it, group))
        {
            self.stage = Stage::Done(key.clone());
            self.counters = self.counters.end..self.counters.end;
            out.facts.push(Fact::Unanswered);
            return;
        }
        let failure = match self.stage {
            Stage::First if self.has_wrong_mic => Failure::WrongKey,
            Stage::First => Failure::NoAnswer(1),
            Stage::Third(..) => Failure::NoAnswer(3),
            _ => Failure::NoGroupAnswer,
        };
        self.fail(failure, out);
    }

    /// Drops by reason.
    pub fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// What was done so far.
    pub fn work(&self) -> &Work {
        &self.work
    }
}

fn is_same(one: &GroupKey, other: &GroupKey) -> bool {
    one.key_id == other.key_id && one.key == other.key
}

fn gtk_of(group: &GroupKey) -> Gtk<'_> {
    Gtk {
        key_id: group.key_id,
        key: group.key.octets(),
    }
}
