//! Anti-clogging tokens (IEEE 802.11-2020 §12.4.6): an access point under a flood computes nothing
//! for a station before it has proven that it receives what is sent to its address.

use crypto::hash::{Hash, HmacKey, is_equal};
use crypto::p256::GROUP;
use crypto::rand::Stream;
use wire::codec::Writer;
use wire::ieee80211::{
    Address, Authentication, CommitParts, SAE_ALGORITHM, extension, sae_status, write_extension,
};
use zeroize::Zeroizing;

use super::exchange::Commit;
use super::machine::FirstCommit;
use crate::counters::DropReason;
use crate::time::{Duration, Instant};

/// Octets of a token.
pub const TOKEN_LEN: usize = 32;

/// How long a key of tokens is the newest one. Then its tokens are good for as long again.
const KEY_LIFE: Duration = Duration::from_secs(30);

/// Decides which first commits an access point answers. It remembers no station: a token is an
/// HMAC of the station's address under a key of this gate.
pub struct TokenGate {
    random: Stream,
    /// The newest, and the one before it.
    keys: [HmacKey; 2],
    turns_at: Instant,
    most_open: usize,
}

impl TokenGate {
    /// A gate that asks for tokens while `most_open` exchanges or more are open.
    pub fn new(most_open: usize, mut random: Stream) -> Self {
        Self {
            keys: [fresh(&mut random), fresh(&mut random)],
            random,
            turns_at: Instant(0) + KEY_LIFE,
            most_open,
        }
    }

    fn turn(&mut self, now: Instant) {
        // After a long time without commits both are old.
        for _ in 0..2 {
            if self.turns_at <= now {
                self.keys.swap(0, 1);
                self.keys[0] = fresh(&mut self.random);
                self.turns_at = self.turns_at + KEY_LIFE;
            }
        }
        if self.turns_at <= now {
            self.turns_at = now + KEY_LIFE;
        }
    }

    /// A commit of a station with which no exchange is open, for an access point that has this
    /// method. A bad one costs no more than its check.
    pub fn admit(
        &mut self,
        body: &[u8],
        is_hash_to_element: bool,
        station: Address,
        open: usize,
        now: Instant,
    ) -> Result<Admission, DropReason> {
        let malformed = |_| DropReason::MalformedMessage;
        let message = Authentication::parse(body).map_err(malformed)?;
        let is_commit = message.algorithm == SAE_ALGORITHM && message.transaction == 1;
        if !is_commit || message.status != sae_status::of_commit(is_hash_to_element) {
            return Err(DropReason::UnexpectedMessage);
        }
        if CommitParts::peek_group(message.fields).map_err(malformed)? != GROUP {
            let status = sae_status::UNSUPPORTED_GROUP;
            return Ok(Admission::Refused(answer(status, &message.fields[..2])));
        }
        let parts = CommitParts::parse(message.fields, is_hash_to_element);
        let parts = parts.map_err(malformed)?;
        if open >= self.most_open {
            self.turn(now);
            let tokens = self.keys.each_ref().map(|key| key.sign(&[&station.0]));
            if !tokens.iter().any(|it| is_equal(it.as_ref(), parts.token)) {
                let body = ask_for(tokens[0].as_ref(), is_hash_to_element);
                return Ok(Admission::Refused(body));
            }
        }
        let commit = Commit::of(&parts)?;
        Ok(Admission::Admitted(FirstCommit(commit)))
    }
}

/// What becomes of a first commit.
pub enum Admission {
    /// It is good: make a machine for it.
    Admitted(FirstCommit),
    /// The body of the answer: another group, or a token, is wanted.
    Refused(Vec<u8>),
}

fn fresh(random: &mut Stream) -> HmacKey {
    let mut key = Zeroizing::new([0; 32]);
    random.fill(&mut key[..]);
    HmacKey::new(Hash::Sha256, &key[..])
}

fn ask_for(token: &[u8], is_hash_to_element: bool) -> Vec<u8> {
    let mut fields = Writer::new();
    fields.u16_le(GROUP);
    match is_hash_to_element {
        true => write_extension(extension::ANTI_CLOGGING_TOKEN, token, &mut fields),
        false => fields.bytes(token),
    }
    answer(sae_status::TOKEN_REQUIRED, fields.as_slice())
}

fn answer(status: u16, fields: &[u8]) -> Vec<u8> {
    let mut w = Writer::new();
    let message = Authentication {
        algorithm: SAE_ALGORITHM,
        transaction: 1,
        status,
        fields,
    };
    message.write(&mut w);
    w.into_vec()
}
