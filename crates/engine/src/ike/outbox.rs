//! The outputs of an IKE machine.

use core::iter::Sum;
use core::ops::AddAssign;

use super::round_trip::RoundTrip;
use super::{Role, Step};
use crate::counters::{DropCounters, DropReason};
use crate::sa::Path;
use crate::work::Work;

/// Everything that a machine wants to send or report.
#[derive(Default)]
pub struct Outbox {
    /// IKE messages, each complete: path and octets. The node adds the non-ESP marker, splits long
    /// ones, and reports them.
    pub messages: Vec<Sent>,
    /// Messages that were refused while their exchanges continue.
    pub rejections: Vec<Rejection>,
    /// The operations done.
    pub work: Work,
    /// Messages that were read and are valid.
    pub received: Vec<Received>,
    /// Messages dropped without ending an exchange.
    pub drops: DropCounters,
    /// The message repeats one that was already answered.
    is_repetition: bool,
    /// How far the exchange numbers are used up.
    pub wear: Wear,
    round_trip: RoundTrip,
    has_learned: bool,
}

impl Outbox {
    /// An empty outbox for exchanges over a path with these measurements.
    pub fn over(round_trip: RoundTrip) -> Self {
        Self {
            round_trip,
            ..Self::default()
        }
    }

    /// The measurements of the path.
    pub fn round_trip(&self) -> RoundTrip {
        self.round_trip
    }

    /// Updates the measurements after an answer.
    pub fn learn(&mut self, lesson: impl FnOnce(&mut RoundTrip)) {
        lesson(&mut self.round_trip);
        self.has_learned = true;
    }

    /// The measurements, if an answer has changed them.
    pub fn learned(&self) -> Option<RoundTrip> {
        self.has_learned.then_some(self.round_trip)
    }

    /// Records that a message of this size was received and is valid.
    pub fn heard(&mut self, step: Step, size: Size, payloads: String) {
        self.received.push(Received {
            step,
            size,
            payloads,
        });
    }

    /// Counts the message as a repetition.
    pub fn heard_again(&mut self) {
        self.drops.count(DropReason::RetransmittedMessage);
        self.is_repetition = true;
    }

    /// If a responder received a repetition over `path`, its answer goes back there: a NAT may have
    /// given the peer another port. It is one message for one, a bounded number of times; only a
    /// new message moves the peer. An initiator chose the peer's address itself, and sends only
    /// there.
    pub fn answer_repetition_at(&mut self, path: Path, role: Role) {
        if role == Role::Responder && self.is_repetition {
            self.messages.iter_mut().for_each(|sent| sent.path = path);
        }
    }
}

/// How far the exchange numbers of a session are used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wear {
    /// Enough are left.
    #[default]
    None,
    /// The session must be renewed.
    Renew,
    /// None is left: the session must end.
    End,
}

/// A line of the log about a message that was refused while its exchange continues: it is
/// unencrypted and may be forged, or its sender is above a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The connection of the exchange, once it is chosen.
    pub connection: Option<String>,
    /// Its source.
    pub path: Path,
    /// What is wrong, in one sentence.
    pub why: String,
}

/// An outgoing message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Source and destination.
    pub path: Path,
    /// The whole message, or its first fragment.
    pub message: Vec<u8>,
    /// The other fragments, where the machine has split the message (RFC 7383).
    pub more: Vec<Vec<u8>>,
    /// Its place in the exchange.
    pub step: Step,
    /// Names of its payloads, such as "SA KE NONCE ID".
    pub payloads: String,
    /// The peer has announced that it supports fragments.
    pub may_fragment: bool,
}

impl Sent {
    /// Octets of the message, all its fragments together.
    pub fn octets(&self) -> usize {
        self.message.len() + self.more.iter().map(Vec::len).sum::<usize>()
    }

    /// The message's own ID (RFC 2408 §3.1, RFC 7296 §3.1); 0 in phase 1.
    pub fn message_id(&self) -> Option<u32> {
        let octets = self.message.get(20..24)?;
        octets.try_into().ok().map(u32::from_be_bytes)
    }
}

/// The size of a message on the wire: the sum of its datagrams, each made by [`Self::of`], whether
/// it is sent or received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Octets of UDP payload: with non-ESP markers, and with the headers of fragments.
    pub bytes: usize,
    /// Datagrams.
    pub datagrams: usize,
}

impl Size {
    /// Of a datagram with this UDP payload.
    pub fn of(payload: &[u8]) -> Self {
        Self {
            bytes: payload.len(),
            datagrams: 1,
        }
    }
}

impl AddAssign for Size {
    fn add_assign(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.datagrams += more.datagrams;
    }
}

impl Sum for Size {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |mut all, part| {
            all += part;
            all
        })
    }
}

/// A message that was read and is valid.
pub struct Received {
    /// Its place in the exchange.
    pub step: Step,
    /// Its size on the wire.
    pub size: Size,
    /// Names of its payloads.
    pub payloads: String,
}
