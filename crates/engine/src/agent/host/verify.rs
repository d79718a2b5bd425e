//! Step 2: whose request is it, and may its key be used?

use crypto::ed25519::{Signature, SigningKey, VerifyKey};
use crypto::hpke::PublicKey;
use wire::agent::{Fate, Kind, Request, Response, Verdict};

use super::{
    ANSWER_LIVES, Answer, Ask, COMPLAINTS, Discard, Exchange, Half, Host, Output, Record,
    STORE_MAX, Stage, State, verdict_of,
};
use crate::agent::audit::{Step, Why};
use crate::agent::envelope::{self, Opened, Use};
use crate::agent::identity::Fingerprint;
use crate::agent::ike::IkeAbilities;
use crate::agent::legacy::Pair;
use crate::agent::objectives::{Objectives, Options, SecurityOption};
use crate::agent::ppk::KeyPpk;
use crate::agent::{Digest, TunnelId};
use crate::time::Instant;

/// A request that its key has proven.
pub(super) struct Verified {
    /// Names the request.
    pub(super) digest: Digest,
    /// The public half of its key.
    pub(super) key: VerifyKey,
    pub(super) user: String,
    pub(super) target: Fingerprint,
    /// None if the objectives cannot be read.
    pub(super) option: Option<SecurityOption>,
    pub(super) request: Request,
    pub(super) body: Vec<u8>,
    pub(super) signature: Signature,
    /// What the key gives for the tunnel's PPK, if the request wants one.
    pub(super) ppk: Option<KeyPpk>,
    /// To which the answer is sealed.
    answers_to: PublicKey,
    /// Signs the answer in Host's place ([`crate::agent::legacy`]).
    answers_by: Option<SigningKey>,
}

impl Host {
    /// The database has the key.
    pub(super) fn verify(&mut self, id: Digest, record: &Record, now: Instant) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let Stage::Finding { sealed, .. } = &exchange.stage else {
            return;
        };
        let opened = match &record.half {
            Half::Public(key) => {
                let to = self.config.keys.sealing.public();
                let opened = envelope::open(sealed, &self.config.keys.sealing);
                opened.map(|opened| (opened, *key, to, None))
            }
            Half::Shared(secret) if self.config.accepts_legacy => {
                let pair = Pair::of(secret);
                let to = pair.sealing.public();
                let opened = envelope::open(sealed, &pair.sealing);
                let key = pair.signing.public();
                opened.map(|opened| (opened, key, to, Some(pair.signing)))
            }
            Half::Shared(_) => return self.unproven(id, Why::LegacyRefused, now),
        };
        let Ok((opened, key, to, by)) = opened else {
            return self.unproven(id, Why::WrongSignature, now);
        };
        if !opened.is_by(key, Use::Message(Kind::Request), &sealed.label, to) {
            return self.unproven(id, Why::WrongSignature, now);
        }
        let Some(verified) = Verified::of(opened, key, to, by) else {
            return self.unproven(id, Why::Unreadable, now);
        };
        let exchange = self.exchanges.get_mut(&id).expect("as above");
        let verified = exchange.verified.insert(Box::new(verified));
        verified.user.clone_from(&record.user);
        verified.ppk = record.ppk.clone().filter(|_| verified.ike().has_ppk());
        match self.why_not(id, record, now) {
            Some(why) => self.refuse(id, why, now),
            None => self.judge(id, &record.state, now),
        }
    }

    /// What is wrong with a proven request, whatever the state of its key.
    fn why_not(&self, id: Digest, record: &Record, now: Instant) -> Option<Why> {
        let verified = self.exchanges.get(&id)?.verified.as_ref()?;
        let Some(option) = verified.option else {
            return Some(Why::Unreadable);
        };
        if !self.bonds.contains_key(&verified.target) {
            return Some(Why::Misdirected);
        }
        // The state comes before all else: who holds a used key is told so, whatever he says that
        // his name is.
        if record.state != State::Valid {
            return None;
        }
        if record.refusals.has(&id) {
            return Some(Why::RefusedBefore);
        }
        if !self.is_ready {
            return Some(Why::LogUnavailable);
        }
        if self.clock.at(now) > record.not_after {
            return Some(Why::KeyExpired);
        }
        if !self.clock.is_near(verified.request.time, now) {
            return Some(Why::ClocksApart);
        }
        let options = Options::of_number(verified.request.options);
        if !options.has(option) {
            return Some(Why::OptionNotAtClient);
        }
        if verified.ike().has_ppk() && record.ppk.is_none() {
            return Some(Why::NoPpk);
        }
        // Last, so that nothing else tells a right name from a wrong one.
        (verified.request.user_id != record.user).then_some(Why::WrongUser)
    }

    /// What the state of the key means for a request.
    pub(super) fn judge(&mut self, id: Digest, state: &State, now: Instant) {
        match state {
            State::Valid => match self.exchanges.get(&id).map(|it| &it.stage) {
                // It was valid, but not to be taken: its time has ended meanwhile.
                Some(Stage::Taking { .. }) => self.refuse(id, Why::KeyExpired, now),
                _ => {
                    let event = self.event_of(id, Step::Authenticated, None, now);
                    self.outputs.push_back(Output::Audit(event));
                    self.inquire(id, now);
                }
            },
            // Another Host has it, or we before a restart: the answer comes or the sweep.
            State::Taken { request, .. } if *request == id => self.forget(id, Discard::Repeated),
            State::Used {
                request,
                answer: Some(answer),
            } if *request == id => self.answer(id, answer.clone(), now),
            State::Taken { .. } | State::Used { .. } | State::Failed { .. } => {
                self.refuse(id, Why::KeyUsed, now);
            }
            State::Revoked => self.refuse(id, Why::KeyRevoked, now),
        }
    }

    /// All checks that spend nothing have passed: step 3 begins.
    pub(super) fn take(&mut self, id: Digest, now: Instant) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let until = now + STORE_MAX;
        exchange.stage = Stage::Taking { until };
        let handle = exchange.handle;
        let at = self.clock.at(now);
        let request = id;
        self.ask(
            Some(id),
            Ask::Take {
                handle,
                request,
                at,
            },
        );
    }

    /// Somebody has sent what is not of the key's holder. The sender is told nothing.
    fn unproven(&mut self, id: Digest, why: Why, now: Instant) {
        let is_logged = self.complaints.take_one(COMPLAINTS, now);
        self.log_refusal(id, why, is_logged, now);
        self.forget(id, Discard::NotProven);
    }

    /// Refuses a proven request.
    pub(super) fn refuse(&mut self, id: Digest, why: Why, now: Instant) {
        let verdict = verdict_of(why);
        self.refuse_with(id, verdict, why, now);
    }

    /// Refuses it with Target's words.
    pub(super) fn refuse_with(&mut self, id: Digest, verdict: Verdict, why: Why, now: Instant) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let is_final = match why {
            Why::KeyRevoked | Why::KeyExpired | Why::RefusedBefore => Some(Fate::NotSpent),
            Why::KeyUsed => Some(Fate::Spent),
            _ => exchange.stage.has_key().then_some(Fate::Spent),
        };
        if let Some(fate) = is_final {
            return self.say_refused(id, (verdict, fate), why, now);
        }
        // The key may be taken by another request, but never by this one: it is written first.
        let until = now + STORE_MAX;
        let fate = match exchange.stage {
            // The database may have done it.
            Stage::Taking { .. } => Fate::Unknown,
            _ => Fate::NotSpent,
        };
        exchange.stage = Stage::Refusing {
            verdict,
            why,
            fate,
            until,
        };
        let ask = Ask::Refuse {
            handle: exchange.handle,
            request: id,
            is_wrong_user: why == Why::WrongUser,
        };
        self.ask(Some(id), ask);
    }

    /// The database has noted a refusal, or says why not.
    pub(super) fn noted(&mut self, id: Digest, answer: Answer, now: Instant) {
        let stage = self.exchanges.get(&id).map(|it| &it.stage);
        let Some(Stage::Refusing {
            verdict, why, fate, ..
        }) = stage
        else {
            return;
        };
        let (verdict, why, fate) = (*verdict, *why, *fate);
        let fate = match (fate, answer) {
            // It is over for this key, whatever the request was refused for.
            (_, Answer::Unchanged(State::Revoked)) => {
                let said = (Verdict::KeyRevoked, Fate::NotSpent);
                return self.say_refused(id, said, Why::KeyRevoked, now);
            }
            // Another Host goes on with this request, or has served it; or the key is another's.
            (
                Fate::NotSpent,
                Answer::Unchanged(state @ (State::Taken { .. } | State::Used { .. })),
            ) => return self.judge(id, &state, now),
            (_, Answer::Noted | Answer::Unchanged(State::Valid)) => Fate::NotSpent,
            (_, Answer::Unchanged(_)) => Fate::Spent,
            (fate, _) => fate,
        };
        self.say_refused(id, (verdict, fate), why, now);
    }

    /// Writes a line about a refusal, or counts it for the next one.
    fn log_refusal(&mut self, id: Digest, why: Why, is_logged: bool, now: Instant) {
        if !is_logged {
            self.unlogged += 1;
            return;
        }
        let mut event = self.event_of(id, Step::Refused, Some(why), now);
        event.unlogged = std::mem::take(&mut self.unlogged);
        self.outputs.push_back(Output::Audit(event));
    }

    /// Tells the key's holder, and what has become of the key.
    pub(super) fn say_refused(
        &mut self,
        id: Digest,
        (verdict, fate): (Verdict, Fate),
        why: Why,
        now: Instant,
    ) {
        let exchange = self.exchanges.get(&id);
        // A key is taken once, so this needs no rate.
        let has_key = exchange.is_some_and(|it| it.stage.has_key());
        let is_logged = has_key || self.refusals.take_one(COMPLAINTS, now);
        self.log_refusal(id, why, is_logged, now);
        match self.response(id, verdict, fate.to_part(), now) {
            Some(answer) => self.answer(id, answer, now),
            None => self.forget(id, Discard::NotProven),
        }
    }

    /// Sends an answer, and remembers it.
    pub(super) fn answer(&mut self, id: Digest, answer: Vec<u8>, now: Instant) {
        let Some(exchange) = self.exchanges.get_mut(&id) else {
            return;
        };
        let to = [Some(exchange.from), exchange.also];
        for to in to.into_iter().flatten() {
            let payload = answer.clone();
            self.outputs.push_back(Output::Send { to, payload });
        }
        exchange.stage = Stage::Answered {
            answer,
            repeats: 0,
            until: now + ANSWER_LIVES,
        };
    }

    /// The sealed response to a proven request. None if its sealing key is of low order.
    pub(super) fn response(
        &mut self,
        id: Digest,
        verdict: Verdict,
        part: Vec<u8>,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let exchange: &Exchange = self.exchanges.get(&id)?;
        let verified = exchange.verified.as_ref()?;
        let body = Response {
            request: verified.digest.0,
            verdict,
            time: self.clock.seconds(now),
            part,
        }
        .to_vec();
        let by = verified.answers_by.as_ref();
        let by = by.unwrap_or(&self.config.keys.signing);
        let (label, to) = (verified.request.request_id, verified.answers_to);
        let sealed = envelope::seal(Kind::Response, label, to, &body, by, &mut self.random);
        Some(sealed?.to_vec())
    }
}

impl Verified {
    /// Reads what was opened and proven. A shared pair has no fresh keys, every other key has.
    fn of(opened: Opened, key: VerifyKey, to: PublicKey, by: Option<SigningKey>) -> Option<Self> {
        let request = Request::parse(&opened.body).ok()?;
        let answers_to = match (&by, &request.fresh) {
            (None, Some(fresh)) => PublicKey(fresh.sealing_key),
            (Some(_), None) => to,
            _ => return None,
        };
        let objectives = Objectives::of_number(request.objectives);
        Some(Self {
            digest: envelope::request_digest(&opened.body, &opened.signature),
            key,
            user: String::new(),
            target: Fingerprint(Digest(request.target)),
            option: objectives.map(Objectives::option),
            body: opened.body.to_vec(),
            request,
            signature: opened.signature,
            ppk: None,
            answers_to,
            answers_by: by,
        })
    }

    /// What Client's end can do in IKE.
    pub(super) fn ike(&self) -> IkeAbilities {
        IkeAbilities::of_number(self.request.ike)
    }

    /// The tunnel that it makes.
    pub(super) fn tunnel(&self) -> TunnelId {
        TunnelId::of(&self.digest)
    }
}
