//! One end of an exchange (IEEE 802.11-2020 §12.4.8).

use crypto::hash::is_equal;
use crypto::p256::{GROUP, LEN};
use crypto::rand::Stream;
use wire::codec::{Reader, Writer};
use wire::ieee80211::{
    Address, Authentication, CommitParts, Elements, SAE_ALGORITHM, extension, sae_status,
};

use super::element::{Password, PasswordToken};
use super::exchange::{Commit, Half, Shared};
use crate::counters::{DropCounters, DropReason};
use crate::link::wireless::handshake::MasterKey;
use crate::time::{Deadline, Duration, Instant};
use crate::work::Work;

/// How long an answer is waited for: dot11RSNASAERetransPeriod.
const TIMEOUT: Duration = Duration::from_millis(40);
/// How often a message is sent, and how many repetitions of the peer are answered.
const ATTEMPTS: u32 = 5;
/// The longest token that we repeat for an access point.
const MAX_TOKEN_LEN: usize = 255;

/// How the password becomes an element.
#[derive(Clone)]
pub enum Method {
    /// Hunting and pecking.
    HuntingAndPecking(Password),
    /// Hash-to-element.
    HashToElement(PasswordToken),
}

impl Method {
    /// Whether it is hash-to-element.
    pub fn is_hash_to_element(&self) -> bool {
        matches!(self, Self::HashToElement(_))
    }
}

/// A commit of a station that [`super::TokenGate`] has admitted: its values are good.
pub struct FirstCommit(pub(super) Commit);

/// Who exchanges, and with which password.
#[derive(Clone)]
pub struct SaeConfig {
    /// The password.
    pub method: Method,
    /// This end.
    pub own: Address,
    /// The other.
    pub peer: Address,
}

/// What an accepted exchange gives.
#[derive(Clone)]
pub struct SaeKeys {
    /// The master key for the handshake.
    pub master: MasterKey,
    /// Its name.
    pub pmkid: [u8; 16],
}

/// Why an exchange has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaeFailure {
    /// The peer did not answer.
    #[error("the peer does not answer SAE")]
    NoAnswer,
    /// A confirm was wrong.
    #[error("the peer has another password")]
    WrongPassword,
    /// The commits give no key: they cancel each other out.
    #[error("the peer's commit gives no key")]
    BadCommit,
    /// The peer refused.
    #[error("the peer refuses SAE with status {0}")]
    Refused(u16),
}

/// What a machine gives its owner.
#[derive(Default)]
pub struct SaeOutbox {
    /// Bodies of authentication frames for the peer.
    pub bodies: Vec<Vec<u8>>,
    /// The exchange is over: keys, or why not.
    pub result: Option<Result<SaeKeys, SaeFailure>>,
}

/// One end of an exchange.
pub struct Sae {
    is_hash_to_element: bool,
    half: Half,
    token: Vec<u8>,
    stage: Stage,
    /// Our confirms so far.
    confirms: u16,
    attempts: u32,
    next_at: Option<Instant>,
    has_wrong_confirm: bool,
    drops: DropCounters,
    work: Work,
}

enum Stage {
    Committed,
    Confirmed { peer: Commit, shared: Shared },
    Accepted { peer: Commit, shared: Shared },
    Failed,
}

impl Sae {
    /// The end that begins: it commits.
    pub fn begin(
        config: SaeConfig,
        random: &mut Stream,
        now: Instant,
        out: &mut SaeOutbox,
    ) -> Self {
        let mut sae = Self::of(config, random);
        sae.send(now, out);
        sae
    }

    /// The end that answers a first commit.
    pub fn answer(
        config: SaeConfig,
        commit: FirstCommit,
        random: &mut Stream,
        now: Instant,
        out: &mut SaeOutbox,
    ) -> Self {
        let mut sae = Self::of(config, random);
        let mut confirm = SaeOutbox::default();
        if let Err(reason) = sae.committed(commit.0, now, &mut confirm) {
            sae.drops.count(reason);
            sae.fail(SaeFailure::BadCommit, out);
            return sae;
        }
        out.bodies.push(sae.commit_body());
        out.bodies.append(&mut confirm.bodies);
        sae
    }

    fn of(config: SaeConfig, random: &mut Stream) -> Self {
        let mut work = Work::default();
        let ends = [config.own, config.peer];
        let (element, is_hash_to_element) = match &config.method {
            Method::HuntingAndPecking(password) => (password.hunt(ends, &mut work), false),
            Method::HashToElement(token) => (token.element(ends, &mut work), true),
        };
        let half = Half::generate(element, random, &mut work);
        Self {
            is_hash_to_element,
            half,
            token: Vec::new(),
            stage: Stage::Committed,
            confirms: 0,
            attempts: 0,
            next_at: None,
            has_wrong_confirm: false,
            drops: DropCounters::default(),
            work,
        }
    }

    /// Takes the body of an authentication frame of the peer. A drop is counted.
    pub fn handle(
        &mut self,
        body: &[u8],
        now: Instant,
        out: &mut SaeOutbox,
    ) -> Result<(), DropReason> {
        let handled = self.handle_uncounted(body, now, out);
        handled.inspect_err(|reason| self.drops.count(*reason))
    }

    fn handle_uncounted(
        &mut self,
        body: &[u8],
        now: Instant,
        out: &mut SaeOutbox,
    ) -> Result<(), DropReason> {
        let message = Authentication::parse(body);
        let message = message.map_err(|_| DropReason::MalformedMessage)?;
        if message.algorithm != SAE_ALGORITHM {
            return Err(DropReason::UnexpectedMessage);
        }
        let of_commit = sae_status::of_commit(self.is_hash_to_element);
        match (message.transaction, message.status) {
            (1, status) if status == of_commit => self.commit(message.fields, now, out),
            (1, sae_status::TOKEN_REQUIRED) => self.repeat_with_token(message.fields, now, out),
            (2, sae_status::SUCCESS) => self.confirm(message.fields, out),
            // Without authentication: believed only while nothing is agreed.
            (1, status)
                if matches!(self.stage, Stage::Committed)
                    && !matches!(status, sae_status::SUCCESS | sae_status::HASH_TO_ELEMENT) =>
            {
                self.fail(SaeFailure::Refused(status), out);
                Ok(())
            }
            _ => Err(DropReason::UnexpectedMessage),
        }
    }

    fn commit(
        &mut self,
        fields: &[u8],
        now: Instant,
        out: &mut SaeOutbox,
    ) -> Result<(), DropReason> {
        let malformed = |_| DropReason::MalformedMessage;
        if CommitParts::peek_group(fields).map_err(malformed)? != GROUP {
            return Err(DropReason::NoProposalChosen);
        }
        let parts = CommitParts::parse(fields, self.is_hash_to_element).map_err(malformed)?;
        self.committed(Commit::of(&parts)?, now, out)
    }

    fn committed(
        &mut self,
        peer: Commit,
        now: Instant,
        out: &mut SaeOutbox,
    ) -> Result<(), DropReason> {
        if peer.scalar == self.half.commit.scalar || peer.element == self.half.commit.element {
            return Err(DropReason::Reflected);
        }
        match &self.stage {
            Stage::Committed => {
                let shared = self.half.share(&peer, &mut self.work)?;
                self.stage = Stage::Confirmed { peer, shared };
                self.attempts = 0;
                self.send(now, out);
                Ok(())
            }
            // The peer has not received our commit.
            Stage::Confirmed { peer: known, .. } if *known == peer => {
                if self.attempts < ATTEMPTS {
                    out.bodies.push(self.commit_body());
                    self.send(now, out);
                }
                Err(DropReason::RetransmittedMessage)
            }
            _ => Err(DropReason::UnexpectedMessage),
        }
    }

    /// An access point under a flood wants our commit again, with this token.
    fn repeat_with_token(
        &mut self,
        fields: &[u8],
        now: Instant,
        out: &mut SaeOutbox,
    ) -> Result<(), DropReason> {
        let malformed = |_| DropReason::MalformedMessage;
        if !matches!(self.stage, Stage::Committed) || !self.token.is_empty() {
            return Err(DropReason::UnexpectedMessage);
        }
        let mut r = Reader::new(fields);
        if r.u16_le("group").map_err(malformed)? != GROUP {
            return Err(DropReason::NoProposalChosen);
        }
        let rest = r.rest();
        let token = match self.is_hash_to_element {
            true => Elements::new(rest)
                .flatten()
                .filter_map(|element| element.extended())
                .find(|(kind, _)| *kind == extension::ANTI_CLOGGING_TOKEN)
                .map(|(_, token)| token),
            false => Some(rest),
        };
        let token = token.filter(|it| !it.is_empty() && it.len() < MAX_TOKEN_LEN);
        self.token = token.ok_or(DropReason::IncompleteMessage)?.to_vec();
        self.attempts = 0;
        self.send(now, out);
        Ok(())
    }

    fn confirm(&mut self, fields: &[u8], out: &mut SaeOutbox) -> Result<(), DropReason> {
        let mut r = Reader::new(fields);
        let malformed = |_| DropReason::MalformedMessage;
        let number = r.u16_le("send-confirm").map_err(malformed)?;
        let confirm: [u8; LEN] = r.array("confirm").map_err(malformed)?;
        r.finish("confirm").map_err(malformed)?;
        let (Stage::Confirmed { peer, shared } | Stage::Accepted { peer, shared }) = &self.stage
        else {
            return Err(DropReason::UnexpectedMessage);
        };
        let ours = &self.half.commit;
        let expected = shared.confirm(number, peer, ours, &mut self.work);
        if !is_equal(&expected, &confirm) {
            self.has_wrong_confirm = true;
            return Err(DropReason::AuthenticationFailed);
        }
        if matches!(self.stage, Stage::Accepted { .. }) {
            // The peer has not received our confirm.
            if self.attempts < ATTEMPTS {
                self.attempts += 1;
                out.bodies.push(self.confirm_body());
            }
            return Err(DropReason::RetransmittedMessage);
        }
        let stage = core::mem::replace(&mut self.stage, Stage::Failed);
        if let Stage::Confirmed { peer, shared } = stage {
            out.result = Some(Ok(SaeKeys {
                master: shared.master.clone(),
                pmkid: shared.pmkid,
            }));
            self.stage = Stage::Accepted { peer, shared };
        }
        (self.next_at, self.attempts) = (None, 0);
        Ok(())
    }

    fn send(&mut self, now: Instant, out: &mut SaeOutbox) {
        let body = match &self.stage {
            Stage::Committed => self.commit_body(),
            _ => self.confirm_body(),
        };
        out.bodies.push(body);
        self.attempts += 1;
        self.next_at = Some(now + TIMEOUT);
    }

    fn commit_body(&self) -> Vec<u8> {
        let mut fields = Writer::new();
        let parts = self.half.commit.parts(&self.token);
        parts.write(self.is_hash_to_element, &mut fields);
        let status = sae_status::of_commit(self.is_hash_to_element);
        body_of(1, status, fields.as_slice())
    }

    /// Each confirm has its own number.
    fn confirm_body(&mut self) -> Vec<u8> {
        let (Stage::Confirmed { peer, shared } | Stage::Accepted { peer, shared }) = &self.stage
        else {
            unreachable!("a confirm follows the commits")
        };
        self.confirms = self.confirms.saturating_add(1);
        let ours = &self.half.commit;
        let confirm = shared.confirm(self.confirms, ours, peer, &mut self.work);
        let fields = [&self.confirms.to_le_bytes()[..], &confirm].concat();
        body_of(2, sae_status::SUCCESS, &fields)
    }

    fn fail(&mut self, failure: SaeFailure, out: &mut SaeOutbox) {
        self.stage = Stage::Failed;
        self.next_at = None;
        out.result = Some(Err(failure));
    }

    /// When to call [`Self::fire`].
    pub fn deadline(&self) -> Option<Deadline> {
        self.next_at.map(|at| Deadline {
            at,
            why: "send a message of SAE again",
        })
    }

    /// Sends again if it is time, and fails at the end.
    pub fn fire(&mut self, now: Instant, out: &mut SaeOutbox) {
        if self.next_at.take_if(|at| *at <= now).is_none() {
            return;
        }
        if self.attempts < ATTEMPTS {
            return self.send(now, out);
        }
        let failure = match self.has_wrong_confirm {
            true => SaeFailure::WrongPassword,
            false => SaeFailure::NoAnswer,
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

fn body_of(transaction: u16, status: u16, fields: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    let message = Authentication {
        algorithm: SAE_ALGORITHM,
        transaction,
        status,
        fields,
    };
    message.write(&mut w);
    w.into_vec()
}
