//! Splitting a message into fragments and putting fragments together (payload kind 132), as
//! Cisco, Windows ([MS-IKEE] §2.2.3.1) and strongSwan do it.
//!
//! Fragments prove nothing: everything that is held for them is bounded in number, octets and
//! time, for each pair of cookies and for all together. First messages (responder cookie zero)
//! have a smaller share of their own, so that a flood of them does not starve known peers; the
//! caller gives other fragments only if it knows their cookies.

use std::collections::BTreeMap;

use wire::isakmp::{
    Cookie, Cookies, Exchange, Flags, HEADER_LEN, Header, Payload, PayloadKind, payloads,
    write_payloads,
};

use crate::counters::DropReason;
use crate::time::{Duration, Instant};

/// Octets of UDP payload that a message may have before it is split: the smallest IPv6 packet
/// less IPv6 header, UDP header and the non-ESP marker.
pub const MAX_UNFRAGMENTED: usize = 1280 - 40 - 8 - 4;
/// Octets of a message that is put together.
pub const MAX_ASSEMBLED: usize = 32 * 1024;
/// Messages under assembly with one pair of cookies.
pub const MAX_PER_PEER: usize = 2;
/// Messages under assembly of all peers.
pub const MAX_PARTIAL: usize = 256;
/// First messages under assembly.
pub const MAX_PARTIAL_FIRST: usize = 32;
/// Octets held for all messages under assembly.
pub const MAX_OCTETS: usize = 1 << 20;
/// How long the fragments of a message are waited for.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Header, generic payload header, and the fragment's own four octets.
const OVERHEAD: usize = HEADER_LEN + 4 + 4;

/// Splits `message` into whole ISAKMP datagrams if it is too long, else returns it alone. Fragments
/// of one message have one `id`; the next message to the same peer needs another. Every fragment
/// travels under a phase 1 exchange and message ID 0, as strongSwan wants it.
pub fn split(message: Vec<u8>, id: u16) -> Vec<Vec<u8>> {
    let chunks = message.chunks(MAX_UNFRAGMENTED - OVERHEAD);
    let count = chunks.len();
    let Ok((original, _)) = Header::parse(&message) else {
        return vec![message];
    };
    if message.len() <= MAX_UNFRAGMENTED || count > usize::from(u8::MAX) {
        return vec![message];
    }
    let header = Header {
        exchange: match original.exchange {
            Exchange::Aggressive => Exchange::Aggressive,
            _ => Exchange::IdentityProtection,
        },
        next_payload: PayloadKind::Fragment,
        flags: Flags::default(),
        message_id: 0,
        ..original
    };
    (1..=u8::MAX)
        .zip(chunks)
        .map(|(number, data)| {
            let fragment = wire::isakmp::Fragment {
                id,
                number,
                is_last: usize::from(number) == count,
                data: data.to_vec(),
            };
            header.write(&write_payloads(&[Payload::Fragment(fragment)]).1)
        })
        .collect()
}

/// Messages under assembly of all peers, bounded in number, octets and time.
#[derive(Default)]
pub struct Assembly {
    partial: Vec<Partial>,
    last_datagrams: usize,
    given_up: u64,
}

/// The fragments of one message, as far as they came.
struct Partial {
    cookies: Cookies,
    id: u16,
    until: Instant,
    parts: BTreeMap<u8, Vec<u8>>,
    last: Option<u8>,
}

impl Assembly {
    /// How many datagrams the message that was returned last came in.
    pub fn last_datagrams(&self) -> usize {
        self.last_datagrams
    }

    /// How many messages were given up whose fragments were held: their time was over, or a newer
    /// message of the same peer took their place.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Takes a datagram. A whole message comes back at once; a fragment, when it was the last one
    /// missing. `Err` is the reason to count.
    pub fn take(&mut self, datagram: &[u8], now: Instant) -> Result<Option<Vec<u8>>, DropReason> {
        let (header, body) = match Header::parse(datagram) {
            Ok(parsed) if parsed.0.next_payload == PayloadKind::Fragment => parsed,
            _ => {
                self.last_datagrams = 1;
                return Ok(Some(datagram.to_vec()));
            }
        };
        let fragment = only_fragment(body).ok_or(DropReason::MalformedMessage)?;
        let before = self.partial.len();
        self.partial.retain(|partial| now < partial.until);
        self.given_up += (before - self.partial.len()) as u64;
        let cookies = header.cookies;
        let at = match self.find(cookies, fragment.id) {
            Some(at) => at,
            None => self.begin(cookies, fragment.id, now)?,
        };
        if self.octets() + fragment.data.len() > MAX_OCTETS {
            return Err(DropReason::TooManyFragments);
        }
        let partial = &mut self.partial[at];
        match partial.add(fragment, now) {
            Ok(is_another) => self.given_up += u64::from(is_another),
            Err(reason) => {
                if reason == DropReason::TooManyFragments {
                    self.partial.swap_remove(at);
                }
                return Err(reason);
            }
        }
        if !partial.is_complete() {
            return Ok(None);
        }
        let whole = self.partial.swap_remove(at).parts;
        self.last_datagrams = whole.len();
        let message: Vec<u8> = whole.into_values().flatten().collect();
        match Header::parse(&message) {
            Ok((inner, _))
                if inner.cookies == cookies && inner.next_payload != PayloadKind::Fragment =>
            {
                Ok(Some(message))
            }
            _ => Err(DropReason::MalformedMessage),
        }
    }

    /// Octets held.
    pub fn octets(&self) -> usize {
        self.partial.iter().map(Partial::octets).sum()
    }

    fn find(&self, cookies: Cookies, id: u16) -> Option<usize> {
        self.partial
            .iter()
            .position(|partial| partial.cookies == cookies && partial.id == id)
    }

    /// Makes room for one more message; a peer's own oldest one yields first.
    fn begin(&mut self, cookies: Cookies, id: u16, now: Instant) -> Result<usize, DropReason> {
        let own = |partial: &Partial| partial.cookies == cookies;
        if self.partial.iter().filter(|partial| own(partial)).count() >= MAX_PER_PEER {
            let oldest = (0..self.partial.len())
                .filter(|at| own(&self.partial[*at]))
                .min_by_key(|at| self.partial[*at].until);
            self.partial.swap_remove(oldest.expect("counted above"));
            self.given_up += 1;
        }
        let is_first = |partial: &&Partial| partial.cookies.responder == Cookie::ZERO;
        let firsts = self.partial.iter().filter(is_first).count();
        let is_full = self.partial.len() >= MAX_PARTIAL
            || (cookies.responder == Cookie::ZERO && firsts >= MAX_PARTIAL_FIRST);
        if is_full {
            return Err(DropReason::TooManyFragments);
        }
        self.partial.push(Partial {
            cookies,
            id,
            until: now + PATIENCE,
            parts: BTreeMap::new(),
            last: None,
        });
        Ok(self.partial.len() - 1)
    }
}

impl Partial {
    /// Adds a fragment. One that contradicts what is there belongs to a newer message under the
    /// same identifier (strongSwan's are all alike): what is there is given
    /// up, and the result is true.
    fn add(&mut self, new: wire::isakmp::Fragment, now: Instant) -> Result<bool, DropReason> {
        if self.parts.get(&new.number) == Some(&new.data) {
            return Err(DropReason::RetransmittedMessage);
        }
        let highest = self.parts.last_key_value().map_or(0, |(number, _)| *number);
        let is_contradiction = self.parts.contains_key(&new.number)
            || self
                .last
                .is_some_and(|last| new.number > last || new.is_last)
            || (new.is_last && highest > new.number);
        if is_contradiction {
            self.parts.clear();
            self.last = None;
            self.until = now + PATIENCE;
        }
        if self.octets() + new.data.len() > MAX_ASSEMBLED {
            return Err(DropReason::TooManyFragments);
        }
        if new.is_last {
            self.last = Some(new.number);
        }
        self.parts.insert(new.number, new.data);
        Ok(is_contradiction)
    }

    fn is_complete(&self) -> bool {
        self.last
            .is_some_and(|last| self.parts.len() == usize::from(last))
    }

    fn octets(&self) -> usize {
        self.parts.values().map(Vec::len).sum()
    }
}

/// The fragment in a body that holds nothing else and is not empty.
fn only_fragment(body: &[u8]) -> Option<wire::isakmp::Fragment> {
    let mut found = payloads(PayloadKind::Fragment, body).ok()?;
    if found.len() != 1 || found[0].range.end != body.len() {
        return None;
    }
    match found.pop()?.payload {
        Payload::Fragment(fragment) if !fragment.data.is_empty() => Some(fragment),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
