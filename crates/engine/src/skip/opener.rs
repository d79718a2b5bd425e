//! One association at work, receiving. Nothing that a packet says is kept before it verifies.
//!
//! Without a MAC nothing verifies: anyone can change a packet, and its n and key are only checked
//! for their form. [`super::Association::is_authenticated`] tells.

use core::ops::Range;

use crypto::aead::AeadKey;
use crypto::hash::is_equal;
use wire::codec::Malformed;
use wire::ip::protocol;
use wire::skip::{AH_FIXED_LEN, Algorithms, ESP_SPI_LEN, MacAlg, OldAh, OldEsp, SPI, SkipHeader};

use super::SkipTime;
use super::association::{Association, Parts};
use super::counter::Accepted;
use super::keys::{IntervalKey, MAX_FIELD_LEN};
use super::layout::{Layout, MAX_ASSOCIATED_LEN, MAX_IP_LEN, concat, covered_header, whole_iv};
use super::repeats::Repeats;
use super::sequence::Seen;
use super::traffic::{Crypt, MAX_DATA_LEN, TrafficKey};
use crate::counters::DropReason;
use crate::sa::Direction;
use crate::time::Calendar;
use crate::work::{Task, Work};

/// Packet keys that are kept, so that reordered packets of the last keys need no new ones.
const CACHED_KEYS: usize = 8;
/// K_ijn that are kept.
const CACHED_INTERVALS: usize = 3;

/// The receiving half of an association.
pub struct Opener {
    parts: Parts,
    layout: Layout,
    accepted: Accepted,
    intervals: Vec<IntervalKey>,
    keys: Vec<Kept>,
    /// The next place in `intervals` and in `keys` to overwrite.
    next: [usize; 2],
    repeats: Repeats,
    seen: Seen,
    work: Work,
}

/// A packet key that has opened a packet.
struct Kept {
    n: u32,
    field: [u8; MAX_FIELD_LEN],
    key: TrafficKey,
}

/// A packet that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Where in the packet the clear text is.
    pub clear: Range<usize>,
    /// Its protocol, 4 of a whole packet.
    pub next_header: u8,
    /// Its counter n.
    pub n: u32,
    /// It is a copy of one of the last packets. SKIP accepts it; the owner counts it.
    pub is_repeated: bool,
    /// It is authentic, no copy, and no earlier packet was newer by n, nor by sequence number in
    /// skip-x25519, whose number also says that it was sent since [`Opener::begin`]. Only such a
    /// packet may say where the peer is.
    pub is_newest: bool,
}

/// The SKIP header at `at`, and its length: for the look-up of the association by its names.
pub fn peek(packet: &[u8], at: usize) -> Result<(SkipHeader<'_>, usize), DropReason> {
    let rest = packet.get(at..).ok_or(DropReason::Truncated)?;
    SkipHeader::parse(rest).map_err(|malformed| match malformed {
        Malformed::Value(_) => DropReason::SkipUnsupported,
        _ => DropReason::Truncated,
    })
}

impl Opener {
    /// A receiver. `highest_n` is what [`Self::highest_n`] said before a restart; only the paper's
    /// profile uses it. Without it, the first authentic packet says where n is.
    pub fn new(association: &Association, highest_n: Option<u32>) -> Self {
        let parts = association.parts().clone();
        Self {
            layout: association.layout(),
            accepted: match parts.profile.counts_hours() {
                true => Accepted::hours(),
                false => Accepted::steps(highest_n),
            },
            parts,
            intervals: Vec::with_capacity(CACHED_INTERVALS),
            keys: Vec::with_capacity(CACHED_KEYS),
            next: [0; 2],
            repeats: Repeats::new(),
            seen: Seen::new(),
            work: Work::default(),
        }
    }

    /// The receiver starts at this time. Packets that were sent before may come from anybody who
    /// has recorded them. Only skip-x25519 tells them.
    pub fn begin(&mut self, time: Calendar) {
        self.seen.begin(time);
    }

    /// The highest n of an authentic packet. An owner that keeps it on disk refuses older packets
    /// after a restart too.
    pub fn highest_n(&self) -> Option<u32> {
        self.accepted.highest()
    }

    /// What was done so far.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Opens a whole IPv4 packet in place whose SKIP header is at `at`, behind an IP header of
    /// `at` octets. The owner has found the association by the names of [`peek`].
    pub fn open(
        &mut self,
        packet: &mut [u8],
        at: usize,
        time: SkipTime,
    ) -> Result<Opened, DropReason> {
        if !(20..=MAX_IP_LEN).contains(&at) {
            return Err(DropReason::BadInnerPacket);
        }
        // The MAC covers the length field. DES-CBC MAC would not tell zeros behind the packet.
        if packet.get(2..4) != Some(&(packet.len() as u16).to_be_bytes()) {
            return Err(DropReason::Truncated);
        }
        let (header, len) = peek(packet, at)?;
        self.check(&header)?;
        self.accepted.check(header.n, time)?;
        debug_assert_eq!(len, self.layout.skip);
        let n = header.n;
        let mut field = [0; MAX_FIELD_LEN];
        field[..header.encrypted_key.len()].copy_from_slice(header.encrypted_key);
        let is_kept = |kept: &&Kept| kept.n == n && kept.field == field;
        let fresh = match self.keys.iter().find(is_kept) {
            Some(_) => None,
            None => Some(self.derive(n, field)),
        };
        let known = self.keys.iter().find(is_kept);
        let kept = known.or(fresh.as_ref().map(|(_, kept)| kept));
        let key = &kept.expect("known or fresh").key;
        let unsealed = match &key.crypt {
            Crypt::Aead(aead) => {
                let place = (at, &self.layout);
                unseal_aead(aead, place, packet, &self.seen, &mut self.work)
            }
            _ => {
                let place = (at, &self.layout);
                unseal(key, place, packet, self.parts.algorithms, &mut self.work)
            }
        }?;
        let is_authenticated = self.parts.algorithms.mac() != MacAlg::None;
        let stripped = unsealed.strip(packet, self.layout.esp > 0);
        // An authentic packet counts even if its padding is wrong.
        if !is_authenticated && let Err(reason) = stripped {
            return Err(reason);
        }
        if let Some(fresh) = fresh {
            self.keep(fresh);
        }
        let is_highest = self.accepted.accept(n, time);
        let data_len = self.parts.algorithms.mac().data_len();
        let is_repeated = self.repeats.note(&unsealed.data[..data_len]);
        let is_newest_sequence = match unsealed.sequence {
            Some(sequence) => self.seen.accept(sequence),
            None => true,
        };
        let (clear, next_header) = stripped?;
        Ok(Opened {
            clear,
            next_header,
            n,
            is_repeated,
            is_newest: is_authenticated && is_highest && is_newest_sequence && !is_repeated,
        })
    }

    /// How many K_ijn and packet keys are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> (usize, usize) {
        (self.intervals.len(), self.keys.len())
    }

    /// The packet is between our two names, protected as the association says.
    fn check(&self, header: &SkipHeader<'_>) -> Result<(), DropReason> {
        if (header.source, header.destination) != (self.parts.remote, self.parts.local) {
            return Err(DropReason::SkipUnknownName);
        }
        let next = if self.layout.ah > 0 {
            protocol::AH
        } else {
            protocol::ESP
        };
        if header.algorithms != self.parts.algorithms || header.next_header != next {
            return Err(DropReason::SkipWrongAlgorithm);
        }
        Ok(())
    }

    /// Unwraps a packet key, and derives K_ijn if it is not kept. Keeps neither.
    fn derive(&mut self, n: u32, field: [u8; MAX_FIELD_LEN]) -> (Option<IntervalKey>, Kept) {
        let (parts, work) = (&self.parts, &mut self.work);
        let algorithms = parts.algorithms;
        let known = self.intervals.iter().find(|interval| interval.n == n);
        let fresh = known.is_none().then(|| {
            let kij = algorithms.kij();
            IntervalKey::new(&parts.master, kij, n, Direction::Inbound, work)
        });
        let interval = known.or(fresh.as_ref()).expect("known or fresh");
        let key = interval.unwrap(algorithms, &field[..algorithms.field_len()], work);
        let key = TrafficKey::new(algorithms, &key, work);
        (fresh, Kept { n, field, key })
    }

    /// Keeps the keys of a packet that has verified, in the place of the oldest.
    fn keep(&mut self, (interval, kept): (Option<IntervalKey>, Kept)) {
        if let Some(interval) = interval {
            put(
                &mut self.intervals,
                CACHED_INTERVALS,
                &mut self.next[0],
                interval,
            );
        }
        put(&mut self.keys, CACHED_KEYS, &mut self.next[1], kept);
    }
}

fn put<T>(list: &mut Vec<T>, most: usize, next: &mut usize, one: T) {
    if list.len() < most {
        list.push(one);
    } else {
        list[*next] = one;
        *next = (*next + 1) % most;
    }
}

/// A packet whose text is in the clear.
struct Unsealed {
    text: Range<usize>,
    /// What AH says is in it.
    next_header: u8,
    data: [u8; MAX_DATA_LEN],
    sequence: Option<u64>,
}

impl Unsealed {
    /// The clear text without padding and trailer, and its protocol.
    fn strip(&self, packet: &[u8], has_trailer: bool) -> Result<(Range<usize>, u8), DropReason> {
        if !has_trailer {
            return Ok((self.text.clone(), self.next_header));
        }
        let trailer = OldEsp::trailer(&packet[self.text.clone()]);
        let (len, next_header) = trailer.map_err(|_malformed| DropReason::BadPadding)?;
        Ok((self.text.start..self.text.start + len, next_header))
    }
}

/// AH before ESP: checks the MAC, then decrypts.
fn unseal(
    key: &TrafficKey,
    (at, layout): (usize, &Layout),
    packet: &mut [u8],
    algorithms: Algorithms,
    work: &mut Work,
) -> Result<Unsealed, DropReason> {
    let truncated = |_: Malformed| DropReason::Truncated;
    let ah_at = at + layout.skip;
    let mut data = [0; MAX_DATA_LEN];
    let mut next_header = protocol::ESP;
    if layout.ah > 0 {
        let len = algorithms.mac().data_len();
        let ah = OldAh::parse(&packet[ah_at..], len).map_err(truncated)?;
        next_header = ah.next_header;
        data[..len].copy_from_slice(ah.data);
        let (outer, outer_len) = covered_header(packet, at, algorithms);
        let zeros = [0; MAX_DATA_LEN];
        // The reserved half of SKIP's first octet counts as zero.
        let first = [packet[at] & 0xf0];
        let head = &packet[at + 1..ah_at + AH_FIXED_LEN];
        let parts = [&outer[..outer_len], &first, head, &zeros[..len], ah.payload];
        let expected = key.authenticate(&parts);
        work.count(Task::SkipMac(algorithms.mac()), packet.len() as u64);
        if !is_equal(&expected[..len], &data[..len]) {
            return Err(DropReason::BadIcv);
        }
    }
    let esp_at = ah_at + layout.ah;
    let mut text = esp_at..packet.len();
    if layout.esp > 0 {
        if next_header != protocol::ESP {
            return Err(DropReason::SkipWrongAlgorithm);
        }
        let iv_len = layout.esp - ESP_SPI_LEN;
        let esp = OldEsp::parse(&packet[esp_at..], iv_len, layout.block).map_err(truncated)?;
        let iv = whole_iv(esp.iv);
        text.start += layout.esp;
        key.decrypt(iv, &mut packet[text.clone()]);
        work.count(Task::SkipCipher(algorithms.crypt()), text.len() as u64);
    }
    Ok(Unsealed {
        text,
        next_header,
        data,
        sequence: None,
    })
}

/// One ESP that does both: checks the window, then the tag, and decrypts.
fn unseal_aead(
    key: &AeadKey,
    (at, layout): (usize, &Layout),
    packet: &mut [u8],
    seen: &Seen,
    work: &mut Work,
) -> Result<Unsealed, DropReason> {
    let algorithms = Algorithms::HKDF_AES_GCM_SIV;
    let (outer, outer_len) = covered_header(packet, at, algorithms);
    let text = at + layout.clear_at()..packet.len().wrapping_sub(layout.tag);
    if packet.len() < text.start + layout.tag {
        return Err(DropReason::Truncated);
    }
    let (front, sealed) = packet.split_at_mut(text.start);
    let (head, sequence) = front.split_last_chunk().expect("a sequence number");
    if !head.ends_with(&SPI.to_be_bytes()) {
        return Err(DropReason::UnknownSpi);
    }
    let number = u64::from_be_bytes(*sequence);
    seen.check(number)?;
    let first = [front[at] & 0xf0];
    let mut room = [0; MAX_ASSOCIATED_LEN];
    let associated = concat(&mut room, &[&outer[..outer_len], &first, &front[at + 1..]]);
    let opened = key.open(*sequence, associated, sealed);
    work.count(Task::SkipCipher(algorithms.crypt()), text.len() as u64);
    opened.map_err(|_bad_icv| DropReason::BadIcv)?;
    Ok(Unsealed {
        text,
        next_header: protocol::ESP,
        data: [0; MAX_DATA_LEN],
        sequence: Some(number),
    })
}
