//! One association at work, sending: a packet in place, without allocation while its key lasts.

use crypto::rand::Stream;
use wire::ip::protocol;
use wire::skip::{
    AH_FIXED_LEN, CryptAlg, ESP_SPI_LEN, MAX_LEN, OldAh, SPI, SkipHeader, TRAILER_LEN,
};

use super::SkipTime;
use super::association::{Association, Parts};
use super::counter::Sent;
use super::keys::IntervalKey;
use super::layout::{Layout, MAX_ASSOCIATED_LEN, SEQUENCE_LEN, concat, covered_header, whole_iv};
use super::sequence;
use super::traffic::{Crypt, TrafficKey};
use crate::counters::DropReason;
use crate::sa::Direction;
use crate::time::Instant;
use crate::work::{Task, Work};

/// The sending half of an association.
pub struct Sealer {
    parts: Parts,
    layout: Layout,
    sent: Sent,
    interval: Option<IntervalKey>,
    current: Option<Current>,
    /// The last one of skip-x25519; none before its first packet.
    sequence: Option<u64>,
    work: Work,
}

/// A packet key in use.
struct Current {
    key: TrafficKey,
    /// The SKIP header of its packets.
    header: [u8; MAX_LEN],
    n: u32,
    since: Instant,
    bytes: u64,
    packets: u64,
}

impl Sealer {
    /// A sender. `stored_n` is the bound that was last stored, 0 in the beginning. Only the paper's
    /// profile uses it, see [`Self::n_to_store`].
    pub fn new(association: &Association, stored_n: u32) -> Self {
        let parts = association.parts().clone();
        Self {
            layout: association.layout(),
            sent: match parts.profile.counts_hours() {
                true => Sent::Hours,
                false => Sent::steps(stored_n),
            },
            parts,
            interval: None,
            current: None,
            sequence: None,
            work: Work::default(),
        }
    }

    /// Octets between the end of the outer IP header and the clear text.
    pub fn clear_at(&self) -> usize {
        self.layout.clear_at()
    }

    /// Octets behind the outer IP header of a packet with this much clear text.
    pub fn sealed(&self, clear: usize) -> usize {
        self.layout.sealed(clear)
    }

    /// Most clear text that fits into `room` octets behind the outer IP header.
    pub fn largest_clear(&self, room: usize) -> Option<usize> {
        self.layout.largest_clear(room)
    }

    /// What was done so far.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// The bound that the owner must store before n may reach it, in the paper's profile: ask after
    /// each burst, store it, and say so by [`Self::n_is_stored`]. A sender that restarts gives the
    /// stored bound to [`Self::new`]: every n that was sent is below it.
    pub fn n_to_store(&self) -> Option<u32> {
        self.sent.to_store()
    }

    /// The owner has stored `bound`.
    pub fn n_is_stored(&mut self, bound: u32) {
        self.sent.is_stored(bound);
    }

    /// Seals a packet in place. Its outer IPv4 header of `header` octets is complete: protocol 57,
    /// the length of the sealed packet; and `clear` octets are at `header` + [`Self::clear_at`].
    /// `next_header` is the protocol of the clear text, 4 of a whole packet. Panics unless `packet`
    /// has exactly `header` + [`Self::sealed`] octets and `header` is 20 to 60.
    pub fn seal(
        &mut self,
        packet: &mut [u8],
        header: usize,
        clear: usize,
        next_header: u8,
        time: SkipTime,
        random: &mut Stream,
    ) -> Result<(), DropReason> {
        assert!((20..=60).contains(&header), "an IPv4 header");
        assert_eq!(packet.len(), header + self.layout.sealed(clear));
        let sequence = sequence::next(self.sequence, time.calendar)?;
        let n = self.sent.next(time, clear as u64)?;
        self.renew(n, clear as u64, time.now, random);
        let (layout, algorithms) = (self.layout, self.parts.algorithms);
        let current = self.current.as_mut().expect("a key was made");
        current.bytes += clear as u64;
        current.packets += 1;
        let (outer, outer_len) = covered_header(packet, header, algorithms);
        let body = &mut packet[header..];
        body[..layout.skip].copy_from_slice(&current.header[..layout.skip]);
        let inner = if layout.esp > 0 {
            protocol::ESP
        } else {
            next_header
        };
        if layout.ah > 0 {
            OldAh::write(&mut body[layout.skip..], inner, layout.ah - AH_FIXED_LEN);
        }
        if layout.esp > 0 {
            let esp = &mut body[layout.skip + layout.ah..];
            write_esp(esp, &layout, clear, next_header, random);
        }
        let text = layout.clear_at()..layout.clear_at() + layout.text(clear);
        if let Crypt::Aead(key) = &current.key.crypt {
            let (front, sealed) = body.split_at_mut(text.start);
            let iv = sequence.to_be_bytes();
            front[text.start - SEQUENCE_LEN..].copy_from_slice(&iv);
            let mut associated = [0; MAX_ASSOCIATED_LEN];
            let associated = concat(&mut associated, &[&outer[..outer_len], front]);
            let (sealed, tag) = sealed.split_last_chunk_mut().expect("room for the tag");
            key.seal(iv, associated, sealed, tag);
            self.sequence = Some(sequence);
        } else if layout.esp > 0 {
            let (front, sealed) = body.split_at_mut(text.start);
            let iv = &front[layout.skip + layout.ah + ESP_SPI_LEN..];
            current.key.encrypt(whole_iv(iv), sealed);
        }
        let (crypt, mac) = (algorithms.crypt(), algorithms.mac());
        if crypt != CryptAlg::None {
            self.work.count(Task::SkipCipher(crypt), text.len() as u64);
        }
        if layout.ah > 0 {
            let data = current.key.authenticate(&[&outer[..outer_len], body]);
            let at = layout.skip + AH_FIXED_LEN;
            let len = mac.data_len();
            body[at..at + len].copy_from_slice(&data[..len]);
            let bytes = (outer_len + body.len()) as u64;
            self.work.count(Task::SkipMac(mac), bytes);
        }
        Ok(())
    }

    /// Takes a new packet key if the current one has reached a limit or belongs to another n.
    fn renew(&mut self, n: u32, clear: u64, now: Instant, random: &mut Stream) {
        let limits = self.parts.renewal;
        let lasts = self.current.as_ref().is_some_and(|current| {
            current.n == n
                && current.packets < limits.packets
                && current.bytes + clear <= limits.bytes
                && now.since(current.since) < limits.age
        });
        if lasts {
            return;
        }
        let (parts, work) = (&self.parts, &mut self.work);
        let algorithms = parts.algorithms;
        if self
            .interval
            .as_ref()
            .is_none_or(|interval| interval.n != n)
        {
            let kij = algorithms.kij();
            let key = IntervalKey::new(&parts.master, kij, n, Direction::Outbound, work);
            self.interval = Some(key);
        }
        let interval = self.interval.as_ref().expect("it was made");
        let (field, key) = interval.fresh(algorithms, random, work);
        let mut header = [0; MAX_LEN];
        let of_packet = SkipHeader {
            source: parts.local,
            destination: parts.remote,
            next_header: if self.layout.ah > 0 {
                protocol::AH
            } else {
                protocol::ESP
            },
            n,
            algorithms,
            encrypted_key: &field[..algorithms.field_len()],
        };
        of_packet.put(&mut header);
        self.current = Some(Current {
            key: TrafficKey::new(algorithms, &key, work),
            header,
            n,
            since: now,
            bytes: 0,
            packets: 0,
        });
    }
}

/// Writes SPI, IV, padding and trailer of an ESP around its clear text.
fn write_esp(esp: &mut [u8], layout: &Layout, clear: usize, next_header: u8, random: &mut Stream) {
    esp[..ESP_SPI_LEN].copy_from_slice(&SPI.to_be_bytes());
    random.fill(&mut esp[ESP_SPI_LEN..layout.esp]);
    let text = &mut esp[layout.esp..layout.esp + layout.text(clear)];
    let padding = text.len() - clear - TRAILER_LEN;
    random.fill(&mut text[clear..clear + padding]);
    text[clear + padding] = padding as u8;
    text[clear + padding + 1] = next_header;
}
