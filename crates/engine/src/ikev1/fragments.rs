//! Splits messages into fragments and reassembles them (payload kind 132), as Cisco, Windows
//! ([MS-IKEE] §2.2.3.1) and strongSwan do.
//!
//! Fragments prove nothing, so everything held for them is bounded in number, octets and time. Each
//! [`Standing`] of senders has its own bounds, and within one each [`Site`] and each pair of
//! cookies. At a bound the oldest message is dropped: first one of the same sender, then one of its
//! site, then any. So a flood from one site takes nothing from another, and one from forged
//! addresses shortens only how long first messages are kept.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wire::isakmp::{
    Cookies, Exchange, Flags, HEADER_LEN, Header, Payload, PayloadKind, payloads, write_payloads,
};

use super::message::Message;
use crate::counters::DropReason;
use crate::ike::Size;
use crate::site::Site;
use crate::time::{Duration, Instant};

/// Octets of UDP payload that a message may have before it is split: the smallest IPv6 packet minus
/// IPv6 header, UDP header and the non-ESP marker.
pub const MAX_UNFRAGMENTED: usize = 1280 - 40 - 8 - 4;
/// Octets of a reassembled message at most.
pub const MAX_ASSEMBLED: usize = 32 * 1024;
/// Incomplete messages of one standing.
pub const MAX_PARTIAL: usize = 256;
/// Octets held for messages of one standing.
pub const MAX_OCTETS: usize = 1 << 20;
/// Octets held for messages of all standings.
pub const MAX_HELD: usize = Standing::COUNT * MAX_OCTETS;
/// Incomplete messages of one site. It also has the same share of the octets.
pub const MAX_PER_SITE: usize = 32;
/// Octets held for the messages of one standing and site.
pub const MAX_OCTETS_PER_SITE: usize = MAX_OCTETS / (MAX_PARTIAL / MAX_PER_SITE);
/// How long an incomplete message waits.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Header, generic payload header, and the fragment's own four octets.
const OVERHEAD: usize = HEADER_LEN + 4 + 4;

/// Splits `message` into whole ISAKMP datagrams if it is too long; otherwise returns it alone.
/// Fragments of one message have one `id`; the next message to the same peer needs another. Every
/// fragment has a phase 1 exchange and message ID 0, as strongSwan requires.
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

/// What the sender of a fragment has proven so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing: a first message, from an address that may be forged.
    First,
    /// It knows the cookies of an exchange whose initiator has not proven its address, or it sends
    /// from another address than the exchange's peer.
    Unproven,
    /// It knows the cookies of an exchange whose peer has proven its address, or that we initiated.
    Proven,
    /// It knows the cookies of an ISAKMP SA.
    Established,
}

impl Standing {
    /// The number of standings.
    const COUNT: usize = Self::Established as usize + 1;

    /// Incomplete messages with one pair of cookies, from one site.
    fn per_exchange(self) -> usize {
        match self {
            Self::First | Self::Unproven => 1,
            // One exchange may end and the next begin before all fragments have come.
            Self::Proven | Self::Established => 2,
        }
    }
}

/// The sender of a fragment.
#[derive(Clone, Copy)]
pub struct Sender {
    /// Its address.
    pub from: SocketAddr,
    /// What it has proven.
    pub standing: Standing,
}

/// Incomplete messages of all peers, bounded in number, octets and time.
#[derive(Default)]
pub struct Assembly {
    /// By standing.
    shares: [Share; Standing::COUNT],
}

/// Incomplete messages of one standing, the oldest first.
#[derive(Default)]
struct Share(Vec<Partial>);

/// The fragments of one message so far.
struct Partial {
    from: SocketAddr,
    cookies: Cookies,
    id: u16,
    until: Instant,
    parts: BTreeMap<u8, Vec<u8>>,
    octets: usize,
    /// On the wire. A repeated fragment is not taken, and counts once.
    size: Size,
    last: Option<u8>,
}

/// What became of a fragment.
pub struct Taken {
    /// The message, if the fragment completes one. `Err` is the reason to count; a refused fragment
    /// takes no room.
    pub whole: Result<Option<Whole>, DropReason>,
    /// Incomplete messages that were given up: their time was over, or a newer message replaced
    /// them.
    pub given_up: u64,
}

/// A message with all its fragments.
pub struct Whole {
    octets: Vec<u8>,
    size: Size,
}

impl Whole {
    /// The message.
    pub fn message(&self) -> Result<Message<'_>, DropReason> {
        Message::of_size(&self.octets, self.size)
    }
}

impl Assembly {
    /// Adds a fragment.
    pub fn take(&mut self, fragment: &Message<'_>, sender: Sender, now: Instant) -> Taken {
        let mut given_up = self.shares.iter_mut().map(|it| it.expire(now)).sum();
        let whole = self.add(fragment, sender, now, &mut given_up);
        Taken { whole, given_up }
    }

    fn add(
        &mut self,
        fragment: &Message<'_>,
        sender: Sender,
        now: Instant,
        given_up: &mut u64,
    ) -> Result<Option<Whole>, DropReason> {
        let (cookies, size) = (fragment.cookies(), fragment.size());
        let fragment = only_fragment(fragment.body()).ok_or(DropReason::MalformedMessage)?;
        let share = &mut self.shares[sender.standing as usize];
        let mut partial = share.take_out(sender.from, cookies, &fragment, now)?;
        *given_up += u64::from(partial.add(fragment, size, now)?);
        if !partial.is_complete() {
            *given_up += share.hold(partial, sender.standing);
            return Ok(None);
        }
        let whole = Whole {
            size: partial.size,
            octets: partial.parts.into_values().flatten().collect(),
        };
        let inner = whole.message()?;
        match inner.cookies() == cookies && !inner.is_fragment() {
            true => Ok(Some(whole)),
            false => Err(DropReason::MalformedMessage),
        }
    }

    /// Octets held.
    pub fn octets(&self) -> usize {
        self.partials().map(|partial| partial.octets).sum()
    }

    /// Incomplete messages.
    pub fn messages(&self) -> usize {
        self.partials().count()
    }

    fn partials(&self) -> impl Iterator<Item = &Partial> {
        self.shares.iter().flat_map(|share| &share.0)
    }
}

impl Share {
    /// Gives up messages that waited too long, and returns their number.
    fn expire(&mut self, now: Instant) -> u64 {
        let before = self.0.len();
        self.0.retain(|partial| now < partial.until);
        (before - self.0.len()) as u64
    }

    /// Takes out the fragment's incomplete message, or makes a new one.
    fn take_out(
        &mut self,
        from: SocketAddr,
        cookies: Cookies,
        fragment: &wire::isakmp::Fragment,
        now: Instant,
    ) -> Result<Partial, DropReason> {
        let is_it = |it: &Partial| (it.from, it.cookies, it.id) == (from, cookies, fragment.id);
        let Some(at) = self.0.iter().position(is_it) else {
            return Ok(Partial {
                from,
                cookies,
                id: fragment.id,
                until: now + PATIENCE,
                parts: BTreeMap::new(),
                octets: 0,
                size: Size::default(),
                last: None,
            });
        };
        if self.0[at].parts.get(&fragment.number) == Some(&fragment.data) {
            return Err(DropReason::RetransmittedMessage);
        }
        Ok(self.0.remove(at))
    }

    /// Holds an incomplete message. Returns how many were dropped for it.
    fn hold(&mut self, partial: Partial, standing: Standing) -> u64 {
        let (cookies, site) = (partial.cookies, partial.site());
        let of_site = |it: &Partial| it.site() == site;
        let of_exchange = |it: &Partial| it.cookies == cookies && of_site(it);
        let most = (standing.per_exchange(), MAX_OCTETS_PER_SITE);
        let mut given_up = self.make_room(of_exchange, most, partial.octets);
        let most = (MAX_PER_SITE, MAX_OCTETS_PER_SITE);
        given_up += self.make_room(of_site, most, partial.octets);
        let most = (MAX_PARTIAL, MAX_OCTETS);
        given_up += self.make_room(|_| true, most, partial.octets);
        let at = self.0.partition_point(|it| it.until <= partial.until);
        self.0.insert(at, partial);
        given_up
    }

    /// Drops the oldest of `those` until there is room for one more, of this many octets.
    fn make_room(
        &mut self,
        those: impl Fn(&Partial) -> bool,
        (messages, octets): (usize, usize),
        more: usize,
    ) -> u64 {
        let held = self.0.iter().filter(|it| those(it));
        let (mut count, mut sum) = held.fold((0, 0), |(n, sum), it| (n + 1, sum + it.octets));
        let mut given_up = 0;
        while count > 0 && (count >= messages || sum + more > octets) {
            let Some(oldest) = self.0.iter().position(&those) else {
                break;
            };
            sum -= self.0.remove(oldest).octets;
            count -= 1;
            given_up += 1;
        }
        given_up
    }
}

impl Partial {
    /// Adds a fragment. One that contradicts the held ones belongs to a newer message with the same
    /// identifier (strongSwan always uses the same one): then the held ones are dropped, and the
    /// result is true.
    fn add(
        &mut self,
        new: wire::isakmp::Fragment,
        size: Size,
        now: Instant,
    ) -> Result<bool, DropReason> {
        let highest = self.parts.last_key_value().map_or(0, |(number, _)| *number);
        let is_contradiction = self.parts.contains_key(&new.number)
            || self
                .last
                .is_some_and(|last| new.number > last || new.is_last)
            || (new.is_last && highest > new.number);
        if is_contradiction {
            self.parts.clear();
            self.octets = 0;
            self.size = Size::default();
            self.last = None;
            self.until = now + PATIENCE;
        }
        if self.octets + new.data.len() > MAX_ASSEMBLED {
            return Err(DropReason::TooManyFragments);
        }
        if new.is_last {
            self.last = Some(new.number);
        }
        self.octets += new.data.len();
        self.size += size;
        self.parts.insert(new.number, new.data);
        Ok(is_contradiction)
    }

    fn site(&self) -> Site {
        Site::of(self.from.ip())
    }

    fn is_complete(&self) -> bool {
        self.last
            .is_some_and(|last| self.parts.len() == usize::from(last))
    }
}

/// The fragment in a body with no other content.
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
