//! What a machine of IKE wants sent and told.

use super::round_trip::RoundTrip;
use super::{Role, Step};
use crate::counters::{DropCounters, DropReason};
use crate::sa::Path;
use crate::work::Work;

/// What a machine wants sent and told.
#[derive(Default)]
pub struct Outbox {
    /// IKE messages, each one whole: path and octets. The node adds the non-ESP marker, splits
    /// what is too long and tells of them.
    pub messages: Vec<Sent>,
    /// Messages that are not believed, while their exchanges go on.
    pub doubts: Vec<Doubt>,
    /// What it cost.
    pub work: Work,
    /// Messages that were read and found good.
    pub received: Vec<Received>,
    /// Messages dropped without ending an exchange.
    pub drops: DropCounters,
    /// What was heard is a repetition of what has been answered.
    is_repetition: bool,
    /// What its numbers of exchanges have come to.
    pub wear: Wear,
    round_trip: RoundTrip,
    has_learned: bool,
}

impl Outbox {
    /// An empty one for exchanges over a path of which this is known.
    pub fn over(round_trip: RoundTrip) -> Self {
        Self {
            round_trip,
            ..Self::default()
        }
    }

    /// What is known of the path.
    pub fn round_trip(&self) -> RoundTrip {
        self.round_trip
    }

    /// An answer has taught something of the path.
    pub fn learn(&mut self, lesson: impl FnOnce(&mut RoundTrip)) {
        lesson(&mut self.round_trip);
        self.has_learned = true;
    }

    /// What is known of the path, where an answer has taught something.
    pub fn learned(&self) -> Option<RoundTrip> {
        self.has_learned.then_some(self.round_trip)
    }

    /// Tells that a message of this size was received and understood.
    pub fn heard(&mut self, step: Step, size: Size, payloads: String) {
        self.received.push(Received {
            step,
            size,
            payloads,
        });
    }

    /// Counts that what was heard is a repetition.
    pub fn heard_again(&mut self) {
        self.drops.count(DropReason::RetransmittedMessage);
        self.is_repetition = true;
    }

    /// Where what a responder heard over `path` was a repetition, its answer goes back there: the
    /// NAT between may have given the peer another port since. It is one message for one, a bounded
    /// number of times; where the peer is, only a new message shows. Whoever began the session went
    /// to an address of its own choice, and answers there alone.
    pub fn answer_repetition_at(&mut self, path: Path, role: Role) {
        if role == Role::Responder && self.is_repetition {
            self.messages.iter_mut().for_each(|sent| sent.path = path);
        }
    }
}

/// How far the numbers of a session's exchanges are used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wear {
    /// There are enough.
    #[default]
    None,
    /// The session is to be renewed.
    Renew,
    /// There is none left: the session must end.
    End,
}

/// What the log is to hear of a message that does not verify, while its exchange goes on: in clear,
/// it may be a forger's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// Whose exchange, once a connection is chosen.
    pub connection: Option<String>,
    /// Where it came from.
    pub path: Path,
    /// What does not verify, in one sentence.
    pub why: String,
}

/// A message on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// From where to where.
    pub path: Path,
    /// The whole message.
    pub message: Vec<u8>,
    /// Which one it is.
    pub step: Step,
    /// Names of its payloads, such as "SA KE NONCE ID".
    pub payloads: String,
    /// The peer has announced that it reads fragments.
    pub may_fragment: bool,
}

impl Sent {
    /// The message's own ID (RFC 2408 §3.1, RFC 7296 §3.1); 0 in phase 1.
    pub fn message_id(&self) -> Option<u32> {
        let octets = self.message.get(20..24)?;
        octets.try_into().ok().map(u32::from_be_bytes)
    }
}

/// What a message takes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Octets of the whole message.
    pub bytes: usize,
    /// Datagrams that it came in.
    pub datagrams: usize,
}

/// A message that was read and found good.
pub struct Received {
    /// Which one it is.
    pub step: Step,
    /// What it took on the wire.
    pub size: Size,
    /// Names of its payloads.
    pub payloads: String,
}
