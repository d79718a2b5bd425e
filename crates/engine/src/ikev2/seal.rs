//! The encrypted payload, SK, and its fragments, SKF (RFC 7296 §3.14, RFC 5282, RFC 7634, RFC 7383
//! §2.5).
//!
//! A message is authenticated before it is decrypted. A fragment is kept only after that, so that a
//! stranger cannot make us keep anything.

use crypto::message::MessageKey;
use crypto::packet::{Encryption, Integrity, Protection};
use crypto::rand::Stream;
use wire::ikev2::{
    self as wire2, FragmentNumbers, GENERIC_LEN, HEADER_LEN, Header, PayloadKind, Protected,
    sealed_frame,
};
use zeroize::Zeroizing;

use super::message::Message;
use crate::ike::Size;
use crate::sa::Secret;
use crate::time::{Deadline, Duration, Instant};
use crate::work::{Task, Work};

/// Octets of UDP payload that a message may have before it is split: the smallest IPv6 packet minus
/// IPv6 header, UDP header and the non-ESP marker (RFC 7383 §2.5.1).
pub(super) const MAX_UNFRAGMENTED: usize = 1280 - 40 - 8 - 4;
/// Fragments of one message at most.
pub(super) const MAX_FRAGMENTS: u16 = 64;
/// Octets of a message in fragments at most.
pub(super) const MAX_ASSEMBLED: usize = 32 << 10;
/// Fragments of a message that is not complete are kept for this time (RFC 7383 §2.6): as long as a
/// peer repeats what is missing.
pub(super) const FRAGMENTS_KEPT: Duration = Duration::from_secs(60);
/// Octets before the sealed part of a fragment: header, generic header, numbers.
const FRAGMENT_HEAD: usize = HEADER_LEN + GENERIC_LEN + NUMBERS_LEN;
/// Octets of an IV at most: a block of AES.
const MAX_IV_LEN: usize = 16;

/// The keys of one direction.
pub(super) struct Sealer {
    key: MessageKey,
    /// The IV of the next message under an AEAD: never used twice with a key.
    next_iv: u64,
}

impl Sealer {
    /// Panics on a protection that no suite of an IKE SA has.
    pub(super) fn new(protection: Protection, (encryption, integrity): &(Secret, Secret)) -> Self {
        Self {
            key: MessageKey::new(protection, &encryption.0, &integrity.0),
            next_iv: 0,
        }
    }

    /// A whole message with this chain of payloads inside.
    pub(super) fn seal(
        &mut self,
        header: &Header,
        (first, clear): (PayloadKind, &[u8]),
        random: &mut Stream,
        work: &mut Work,
    ) -> Vec<u8> {
        self.seal_part(header, (first, clear), None, random, work)
    }

    /// The same in fragments that fit into [`MAX_UNFRAGMENTED`]; one whole message if it fits.
    pub(super) fn seal_in_fragments(
        &mut self,
        header: &Header,
        (first, clear): (PayloadKind, &[u8]),
        random: &mut Stream,
        work: &mut Work,
    ) -> Vec<Vec<u8>> {
        let whole = HEADER_LEN + GENERIC_LEN + self.key.sealed_len(clear.len());
        let room = self.key.clear_len(MAX_UNFRAGMENTED - FRAGMENT_HEAD);
        let room = room.filter(|room| *room > 0).unwrap_or(1);
        let total = u16::try_from(clear.len().div_ceil(room)).unwrap_or(u16::MAX);
        if whole <= MAX_UNFRAGMENTED || total > MAX_FRAGMENTS {
            return vec![self.seal(header, (first, clear), random, work)];
        }
        let mut all = Vec::new();
        for (number, chunk) in (1..).zip(clear.chunks(room)) {
            // RFC 7383 §2.5: only the first fragment names a payload.
            let first = if number == 1 {
                first
            } else {
                PayloadKind::None
            };
            let numbers = FragmentNumbers { number, total };
            all.push(self.seal_part(header, (first, chunk), Some(numbers), random, work));
        }
        all
    }

    fn seal_part(
        &mut self,
        header: &Header,
        (first, clear): (PayloadKind, &[u8]),
        fragment: Option<FragmentNumbers>,
        random: &mut Stream,
        work: &mut Work,
    ) -> Vec<u8> {
        let len = self.key.sealed_len(clear.len());
        let (mut message, start) = sealed_frame(header, first, fragment, len);
        let mut iv = [0; MAX_IV_LEN];
        let iv = &mut iv[..self.key.protection().iv_len()];
        match self.key.protection().encryption {
            Encryption::Cbc(_) => random.fill(iv),
            _ => {
                iv.copy_from_slice(&self.next_iv.to_be_bytes());
                self.next_iv += 1;
            }
        }
        self.key.seal(&mut message, start, iv, clear);
        self.count(clear.len(), work);
        message
    }

    /// Checks the ICV of a message or fragment and decrypts it; `None` if it is not authentic.
    pub(super) fn open(
        &self,
        datagram: &[u8],
        protected: &Protected,
        work: &mut Work,
    ) -> Option<Zeroizing<Vec<u8>>> {
        let mut message = Zeroizing::new(datagram.to_vec());
        let range = self.key.open(&mut message, protected.sealed.start).ok()?;
        self.count(range.len(), work);
        message.truncate(range.end);
        Some(Zeroizing::new(message.split_off(range.start)))
    }

    fn count(&self, bytes: usize, work: &mut Work) {
        let protection = self.key.protection();
        match protection.encryption {
            Encryption::Cbc(cipher) => work.count(Task::MessageCipher(cipher), bytes as u64),
            aead => work.count(Task::MessageAead(aead), bytes as u64),
        }
        if let Integrity::Hmac(hash) = protection.integrity {
            work.count(Task::Prf(hash), bytes as u64);
        }
    }
}

/// The fragments of one message so far, all authentic (RFC 7383 §2.6).
#[derive(Default)]
pub(super) struct Assembly(Option<Box<Partial>>);

struct Partial {
    message_id: u32,
    total: u16,
    first: PayloadKind,
    parts: Vec<Option<Zeroizing<Vec<u8>>>>,
    octets: usize,
    /// On the wire. A repeated fragment is useless, and counts once.
    size: Size,
    /// The first fragment as received.
    head: Vec<u8>,
    /// It is given up then.
    until: Instant,
}

/// A chain of payloads, authentic and in clear.
pub(super) struct Clear {
    pub(super) first: PayloadKind,
    pub(super) body: Zeroizing<Vec<u8>>,
    /// On the wire, all datagrams together.
    pub(super) size: Size,
    /// Its first datagram, by which a repetition is known.
    pub(super) head: Vec<u8>,
}

/// What became of a fragment.
pub(super) enum Taken {
    /// It completes its message.
    Whole(Clear),
    /// Others are missing.
    Kept,
    /// It is a repetition, or belongs to a message of smaller fragments that was given up.
    Useless,
    /// Its message is longer than we read.
    TooLong,
}

impl Assembly {
    /// Takes an authentic fragment of a message that is due. A message of more fragments replaces
    /// one of fewer, whose sender found that the path takes less (RFC 7383 §2.5.2).
    pub(super) fn take(
        &mut self,
        message_id: u32,
        numbers: FragmentNumbers,
        (first, clear, fragment): (PayloadKind, Zeroizing<Vec<u8>>, &Message<'_>),
        now: Instant,
    ) -> Taken {
        if numbers.total > MAX_FRAGMENTS {
            return Taken::TooLong;
        }
        let is_stale = |it: &Partial| it.message_id != message_id || it.total < numbers.total;
        if self.0.as_deref().is_none_or(is_stale) {
            let parts = (0..numbers.total).map(|_| None).collect();
            self.0 = Some(Box::new(Partial {
                message_id,
                total: numbers.total,
                first: PayloadKind::None,
                parts,
                octets: 0,
                size: Size::default(),
                head: Vec::new(),
                until: now + FRAGMENTS_KEPT,
            }));
        }
        let Some(partial) = &mut self.0 else {
            return Taken::Useless;
        };
        let place = partial.parts.get_mut(usize::from(numbers.number) - 1);
        let Some(place) = place.filter(|it| it.is_none() && partial.total == numbers.total) else {
            return Taken::Useless;
        };
        partial.octets += clear.len();
        if partial.octets > MAX_ASSEMBLED {
            self.0 = None;
            return Taken::TooLong;
        }
        partial.size += fragment.size();
        *place = Some(clear);
        if numbers.number == 1 {
            partial.first = first;
            partial.head = fragment.octets().to_vec();
        }
        if partial.parts.iter().any(Option::is_none) {
            return Taken::Kept;
        }
        let mut body = Zeroizing::new(Vec::with_capacity(partial.octets));
        partial
            .parts
            .iter()
            .flatten()
            .for_each(|part| body.extend_from_slice(part));
        let (first, size) = (partial.first, partial.size);
        let head = core::mem::take(&mut partial.head);
        self.0 = None;
        Taken::Whole(Clear {
            first,
            body,
            size,
            head,
        })
    }

    /// When to call [`Self::give_up`].
    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.0.as_ref().map(|it| Deadline {
            at: it.until,
            why: "give up a message of which fragments are missing",
        })
    }

    /// Forgets a message that was not completed in time. Returns whether there was one.
    pub(super) fn give_up(&mut self, now: Instant) -> bool {
        self.0.take_if(|it| it.until <= now).is_some()
    }

    /// Octets that are held.
    pub(super) fn octets(&self) -> usize {
        self.0.as_ref().map_or(0, |it| it.octets + it.head.len())
    }
}

/// What AUTH covers of a message: its header with that of its encrypted payload, as if it were
/// whole and had no IV, padding and ICV, and the payloads within in clear (RFC 9242 §3.3.2).
/// `datagram`: the message, or its first fragment. `None` if it has no encrypted payload.
pub(super) fn covered(datagram: &[u8], clear: &[u8]) -> Option<Vec<u8>> {
    let message = wire2::Message::parse(datagram).ok()?;
    let protected = message.protected?;
    let numbers = protected.fragment.map_or(0, |_| NUMBERS_LEN);
    let head = protected.sealed.start.checked_sub(numbers)?;
    let mut all = datagram.get(..head)?.to_vec();
    // Where the kind of the encrypted payload is: in the generic header before it, or in ours.
    let kind = message.clear.last().map_or(NEXT_PAYLOAD, |before| {
        before.body_range().start.saturating_sub(GENERIC_LEN)
    });
    *all.get_mut(kind)? = PayloadKind::Encrypted.number();
    let payload = u16::try_from(GENERIC_LEN + clear.len()).ok()?;
    let whole = u32::try_from(head + clear.len()).ok()?;
    all[head - 2..].copy_from_slice(&payload.to_be_bytes());
    all[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&whole.to_be_bytes());
    all.extend_from_slice(clear);
    Some(all)
}

/// Where the header names its first payload.
const NEXT_PAYLOAD: usize = 16;
/// Octets of the numbers of a fragment.
const NUMBERS_LEN: usize = 4;
