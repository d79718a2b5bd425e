//! Packets of SKIP: the names in the header say which SA opens them, never the outer addresses,
//! except where an address is the name (draft-ietf-ipsec-skip-06).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use wire::skip::{Name, Nsid};

use super::{Datagram, InboundPlane, Notice};
use crate::counters::DropReason;
use crate::plane::Packets;
use crate::plane::inner::Inner;
use crate::plane::opener::Opener;
use crate::plane::unwrap::Unwrap;
use crate::sa::{ChildId, Lead, Path, Via};
use crate::skip;
use crate::time::{Calendar, Instant};

/// The sender's name, the receiver's, which addresses packets may come from, and which SA.
type Place = (Name, Name, Reach, usize);

/// How many addresses an SA takes packets from, less one, and the first of them. From any, without
/// a list, is more than all.
type Reach = (u64, u32);

const ANYWHERE: Reach = (1 << 32, 0);

/// SAs of SKIP by the names in their packets.
#[derive(Default)]
pub(super) struct Names {
    openers: Vec<Option<Box<Opener>>>,
    free: Vec<usize>,
    by_id: BTreeMap<(ChildId, u32), usize>,
    places: BTreeSet<Place>,
    calendar: Option<(Calendar, Instant)>,
}

impl Names {
    /// Adds an SA, which has no namesake.
    pub(super) fn insert(&mut self, mut opener: Opener) {
        let slot = self.free.pop().unwrap_or(self.openers.len());
        self.by_id.insert((opener.child, opener.spi), slot);
        self.places.extend(place(&opener, slot));
        let calendar = self.calendar;
        if let Some(in_line) = opener.in_line_mut() {
            in_line.tell(calendar);
        }
        if slot == self.openers.len() {
            self.openers.push(None);
        }
        self.openers[slot] = Some(Box::new(opener));
    }

    pub(super) fn remove(&mut self, child: ChildId, number: u32) -> Option<Box<Opener>> {
        let slot = self.by_id.remove(&(child, number))?;
        let opener = self.openers[slot].take()?;
        if let Some(place) = place(&opener, slot) {
            self.places.remove(&place);
        }
        self.free.push(slot);
        Some(opener)
    }

    /// The calendar time of a moment.
    pub(super) fn tell(&mut self, calendar: Calendar, moment: Instant) {
        self.calendar = Some((calendar, moment));
        for opener in self.openers.iter_mut().flatten() {
            if let Some(in_line) = opener.in_line_mut() {
                in_line.tell(Some((calendar, moment)));
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Opener> {
        self.openers.iter().flatten().map(|opener| &**opener)
    }

    pub(super) fn of_child(&mut self, child: ChildId) -> impl Iterator<Item = &mut Opener> {
        let openers = self.openers.iter_mut().flatten();
        let own = openers.filter(move |opener| opener.child == child);
        own.map(|opener| &mut **opener)
    }

    /// The SA of a packet with these names: the one that takes packets from the fewest addresses.
    fn find(&mut self, names: (Name, Name), path: &Path) -> Option<&mut Opener> {
        let (source, own) = (path.remote.ip(), path.local.ip());
        let slot = self.reaching(names, source).find(|slot| {
            let opener = self.openers[*slot].as_ref();
            opener.is_some_and(|it| it.takes(source, own, names.1))
        })?;
        self.openers[slot].as_deref_mut()
    }

    /// The SAs with these names that reach an address, those of the fewest addresses first. Each
    /// width is looked up once, and there are 34 of them, host, prefixes and anywhere: anybody can
    /// forge a packet, so a long list must cost no more than a short one.
    fn reaching(
        &self,
        (remote, local): (Name, Name),
        source: IpAddr,
    ) -> impl Iterator<Item = usize> {
        let source = bits(source);
        let next = move |width: u64| {
            let place = self.places.range((remote, local, (width, 0), 0)..).next()?;
            ((place.0, place.1) == (remote, local)).then_some(place.2.0)
        };
        let widths = core::iter::successors(next(0), move |width| next(width + 1));
        widths.flat_map(move |width| {
            let lower = (remote, local, (width, 0), 0);
            let upper = (remote, local, (width, source), usize::MAX);
            let below = self.places.range(lower..=upper).rev();
            let reaches = move |place: &&Place| u64::from(source - place.2.1) <= width;
            below.take_while(reaches).map(|place| place.3)
        })
    }
}

impl Opener {
    fn takes(&self, source: IpAddr, own: IpAddr, local: Name) -> bool {
        let is_ours = local.nsid() != Nsid::None || own == self.path.local.ip();
        is_ours && self.in_line().is_some_and(|it| it.takes_from(source))
    }
}

fn place(opener: &Opener, slot: usize) -> Option<Place> {
    let in_line = opener.in_line()?;
    let (remote, local) = in_line.names();
    let reach = in_line.from().map_or(ANYWHERE, |from| {
        let (first, last) = (bits(from.first), bits(from.last));
        (last.saturating_sub(first).into(), first)
    });
    Some((remote, local, reach, slot))
}

/// SKIP is in IPv4. No SA takes packets from an address of IPv6, except from anywhere.
fn bits(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(v4) => v4.to_bits(),
        IpAddr::V6(_) => u32::MAX,
    }
}

impl InboundPlane {
    /// Where the SA of a child leads from now on.
    pub(super) fn lead(&mut self, child: ChildId, lead: &Lead) {
        for opener in self.names.of_child(child) {
            self.own.remove(&opener.own_end());
            opener.path = lead.path;
            opener.local = lead.local.as_slice().into();
            opener.remote = lead.remote.as_slice().into();
            self.own.add(&opener.own_end());
        }
    }

    /// Opens a packet of SKIP whose header starts at `at`: names, n, key, AH, ESP, and only then
    /// the selectors.
    pub(super) fn open_skip<'a>(
        &mut self,
        datagram: Datagram<'a>,
        at: usize,
        now: Instant,
        out: &mut Packets,
    ) -> Result<Option<Datagram<'a>>, DropReason> {
        let (header, _) = skip::peek(datagram.bytes, at)?;
        let names = (header.source, header.destination);
        let opener = self.names.find(names, &datagram.path);
        let opener = opener.ok_or(DropReason::SkipUnknownName)?;
        let (opened, is_copy) = opener.open_in_line(datagram.bytes, at, now)?;
        self.report.accepted_replays += u64::from(is_copy);
        let may_move = opened.is_newest
            && (opener.in_line()).is_some_and(|in_line| in_line.follows_its_peer());
        let path = match datagram.path.via {
            Via::Raw => Path::raw(opener.path.local.ip(), datagram.path.remote.ip()),
            _ => datagram.path,
        };
        if may_move && opener.follows(path, now) {
            let (child, bytes) = (opener.child, datagram.bytes.len() as u64);
            out.notices.push(Notice::PathMoved { child, path, bytes });
        }
        if let Some(n) = opener.in_line_mut().and_then(|it| it.n_to_tell(now)) {
            let child = opener.child;
            out.notices.push(Notice::HeardN { child, n });
        }
        if opened.is_first {
            let (child, spi) = (opener.child, opener.spi);
            out.notices.push(Notice::InboundUsed { child, spi });
        }
        if opened.reaches_soft_limit {
            let child = opener.child;
            out.notices.push(Notice::SoftLimit { child });
        }
        let outer = source(datagram.bytes).ok_or(DropReason::Truncated)?;
        let clear = &datagram.bytes[opened.clear.clone()];
        if let Some(in_line) = opener.in_line() {
            in_line.check(outer.into(), clear)?;
        }
        let (head, rest) = datagram.bytes.split_at_mut(opened.clear.start);
        let mut unwrap = Unwrap {
            keeps_mss: self.keeps_mss,
            opener,
            path: datagram.path,
            traffic_class: datagram.traffic_class,
            outer: &mut head[..at],
            next_header: opened.next_header,
            id: 0,
            clear: &mut rest[..opened.clear.len()],
            buffer: datagram.buffer,
            start: datagram.start + opened.clear.start,
        };
        let inside: Option<Inner> = unwrap.deliver(&self.own, self.offloads, out)?;
        Ok(inside.map(|inner| datagram.inside(opened.clear.start, &inner)))
    }
}

/// The source of an IPv4 packet.
fn source(packet: &[u8]) -> Option<Ipv4Addr> {
    let octets: [u8; 4] = packet.get(SOURCE_AT..SOURCE_AT + 4)?.try_into().ok()?;
    Some(octets.into())
}

/// Where the source is in an IPv4 header.
const SOURCE_AT: usize = 12;

#[cfg(test)]
mod tests;
