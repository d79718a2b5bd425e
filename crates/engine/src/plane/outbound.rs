//! From the TUN device to the network: policy lookup, segmentation and encryption in one pass.

mod in_line;
mod nested;
mod paths;
mod rest;
mod strays;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use crypto::rand::Stream;
use wire::vnet::VnetHeader;

use self::nested::Level;
use self::paths::look;
use self::strays::Strays;
use crate::counters::DropReason;
use crate::plane::carried;
use crate::plane::hold::{Held, Hold};
use crate::plane::inner::Inner;
use crate::plane::limit::Limit;
use crate::plane::path_mtu::PathSizes;
use crate::plane::policy::{self, Index, Slot};
use crate::plane::reassembly::Reassembly;
use crate::plane::sealer::Sealer;
use crate::plane::split::{Burst, Sealed};
use crate::plane::stall::Stall;
use crate::plane::trouble::Trouble;
use crate::plane::vnet::PLAIN;
use crate::plane::{Datagrams, Notice, Offloads, OutboundChange, PlaneReport, SaReport, Verdict};
use crate::sa::{ChildId, Direction, Mode, Path, Sa};
use crate::selector::TrafficSelector;
use crate::time::{Calendar, Duration, Instant};

/// A child that is not up is requested at most this often.
const ACQUIRE_INTERVAL: Duration = Duration::from_millis(500);

/// Multicast that never leaves its link (RFC 4291 §2.7, RFC 5771 §4).
fn is_of_the_link(destination: IpAddr) -> bool {
    match destination {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] == 0xff02,
    }
}

/// Outbound SAs and policies, and the packets that they seal.
pub struct OutboundPlane {
    random: Stream,
    offloads: Offloads,
    keeps_mss: bool,
    children: Vec<Option<Child>>,
    free: Vec<Slot>,
    by_id: BTreeMap<ChildId, Slot>,
    index: Index,
    /// Children of SKIP that find their packets by a home address.
    by_home: BTreeMap<Ipv4Addr, Slot>,
    /// Fragments from the host's stack, for transport mode, which protects only whole packets.
    fragments: Reassembly,
    /// Packets whose children have come up.
    released: Vec<Held>,
    /// ICMP reports about tunnels, as the senders of their packets understand them.
    relayed: Vec<Vec<u8>>,
    strays: Strays,
    sizes: PathSizes,
    /// Buffers for packets that are sealed more than once; their memory is reused.
    levels: Vec<Level>,
    /// What SKIP was told last.
    calendar: Option<(Calendar, Instant)>,
    report: PlaneReport,
}

/// A child's traffic and the SAs that carry it.
struct Child {
    id: ChildId,
    /// The newest SA is last and seals; older ones live until they are removed.
    #[expect(
        clippy::vec_box,
        reason = "keys stay where they were made, to be wiped there"
    )]
    sealers: Vec<Box<Sealer>>,
    expected: Option<Box<Expected>>,
    /// Set while its peer has not answered from its address.
    limit: Option<Box<Limit>>,
    /// Whether large packets go unanswered.
    stall: Stall,
    /// Control wants to know about the first packet after this moment.
    watched_from: Option<Instant>,
    /// Set while the other end of its tunnel seems out of reach.
    trouble: Option<Box<Trouble>>,
}

/// Traffic that must not leave unencrypted.
struct Expected {
    local: Vec<TrafficSelector>,
    remote: Vec<TrafficSelector>,
    asked: Option<Instant>,
    hold: Hold,
}

impl OutboundPlane {
    /// No SA, no policy: everything is dropped as `no-policy`. `random` draws the IVs of CBC.
    pub fn new(random: Stream, offloads: Offloads) -> Self {
        Self {
            random,
            offloads,
            keeps_mss: false,
            children: Vec::new(),
            free: Vec::new(),
            by_id: BTreeMap::new(),
            index: Index::default(),
            by_home: BTreeMap::new(),
            fragments: Reassembly::default(),
            released: Vec::new(),
            relayed: Vec::new(),
            strays: Strays::default(),
            sizes: PathSizes::default(),
            levels: Vec::new(),
            calendar: None,
            report: PlaneReport::default(),
        }
    }

    /// Takes one change; what is unknown is ignored. Returns what control must know. What waited
    /// for a new SA leaves by [`OutboundPlane::release`].
    pub fn apply(&mut self, change: OutboundChange, now: Instant) -> Option<Notice> {
        match change {
            OutboundChange::Install(sa) => self.install(*sa),
            OutboundChange::Remove(child, spi) => {
                self.sizes.remove(child, spi);
                let (mut lost, mut counted) = (None, SaReport::nothing(child, spi));
                let mut work = None;
                self.edit(child, |child| {
                    let mut removed = child.sealers.extract_if(.., |sa| sa.spi == spi);
                    if let Some(sealer) = removed.next() {
                        counted = sealer.report();
                        work = sealer.in_line().map(|it| it.work().clone());
                    }
                    drop(removed);
                    lost = child.limit.take_if(|_| child.sealers.is_empty());
                });
                let lost = lost.map_or(0, |limit| limit.hold.len());
                self.report.drops.add(DropReason::UnprovenPath, lost as u64);
                work.iter().for_each(|work| self.report.work.merge(work));
                return Some(Notice::Removed(Direction::Outbound, counted));
            }
            OutboundChange::Move(child, path) => {
                self.edit(child, |child| {
                    child.follow(path);
                    child.stall = Stall::default();
                });
                let mtu = self.sizes.follow(child, path);
                self.resize(child, mtu);
            }
            OutboundChange::AwaitLead => self.await_lead(now),
            OutboundChange::Lead(child, lead) => self.lead(child, &lead, now),
            OutboundChange::Allow(child, bytes) => self.allow(child, bytes),
            OutboundChange::Proven(child, address) => {
                self.edit(child, |child| child.know(address));
                let limit = self.child_mut(child).and_then(|child| child.limit.take());
                let held = limit.into_iter().flat_map(|limit| limit.hold.into_frames());
                self.released.extend(held);
            }
            OutboundChange::Doubt(child) => return self.doubt(child, now),
            OutboundChange::Expect(id, local, remote) => self.edit_or_add(id, |child| {
                let former = child.expected.take();
                let (asked, hold) = former.map_or_else(Default::default, |it| (it.asked, it.hold));
                child.expected = Some(Box::new(Expected {
                    local,
                    remote,
                    asked,
                    hold,
                }));
            }),
            OutboundChange::Forget(child) => {
                let lost = self.take_hold(child).len();
                self.report.drops.add(DropReason::NoSa, lost as u64);
                self.edit(child, |child| child.expected = None);
            }
            OutboundChange::Watch(child, from) => {
                if let Some(child) = self.child_mut(child) {
                    child.watched_from = Some(from);
                }
            }
            OutboundChange::LinkMtu(child, mtu) => {
                let mtu = self.sizes.link(child, mtu, now);
                self.resize(child, mtu);
            }
            OutboundChange::Calendar(calendar, moment) => self.tell(calendar, moment),
            OutboundChange::StoredN(child, bound) => self.n_is_stored(child, bound),
        }
        None
    }

    /// From now on, TCP's maximum segment size passes as it is: its ends find the size of the path
    /// by reports. Otherwise it becomes what fits.
    pub fn keep_mss(&mut self) {
        self.keeps_mss = true;
    }

    /// Seals one frame from the TUN device, at most 64 KiB: the virtio-net header if the device
    /// has them, then one IP packet or super-packet. Appends to `out`; never fails, drops are
    /// counted. If the child of a packet is not up, a copy waits for it. `frame` may be changed.
    pub fn seal(&mut self, frame: &mut [u8], now: Instant, out: &mut Datagrams) -> Verdict {
        self.grow(now);
        self.seal_or_hold(frame, now, now, out)
    }

    /// Seals what waited for children that are up by now, and hands on reports. Call it after
    /// [`OutboundPlane::apply`] and [`OutboundPlane::too_big`]; it costs nothing if nothing waited.
    pub fn release(&mut self, now: Instant, out: &mut Datagrams) {
        for report in core::mem::take(&mut self.relayed) {
            out.answer(&report, self.offloads.has_vnet_header);
        }
        for mut held in core::mem::take(&mut self.released) {
            match held.is_stale(now) {
                true => self.report.drops.count(DropReason::NoSa),
                false => _ = self.seal_or_hold(&mut held.frame, held.since, now, out),
            }
        }
    }

    /// Counts of the plane and of each SA.
    pub fn report(&self) -> PlaneReport {
        let children = self.children.iter().flatten();
        let sealers = || children.clone().flat_map(|child| &child.sealers);
        let mut report = self.report.clone();
        report.associations = sealers().map(|sa| sa.report()).collect();
        for in_line in sealers().filter_map(|sa| sa.in_line()) {
            report.work.merge(in_line.work());
        }
        report
    }

    fn seal_or_hold(
        &mut self,
        frame: &mut [u8],
        since: Instant,
        now: Instant,
        out: &mut Datagrams,
    ) -> Verdict {
        let reason = match self.try_seal(frame, since, now, out) {
            Ok(verdict) => return verdict,
            Err(reason) => reason,
        };
        match reason {
            DropReason::NoSa | DropReason::UnprovenPath => self.hold(frame, reason, since, now),
            DropReason::NoPolicy => self.keep_stray(frame, since, now),
            _ => self.report.drops.count(reason),
        }
        Verdict::Refused(reason)
    }

    fn try_seal(
        &mut self,
        frame: &mut [u8],
        since: Instant,
        now: Instant,
        out: &mut Datagrams,
    ) -> Result<Verdict, DropReason> {
        let (offload, packet) = crate::plane::vnet::take(frame, self.offloads)?;
        let inner = Inner::parse(packet).ok_or(DropReason::BadInnerPacket)?;
        if inner.ttl == 0 {
            return Err(DropReason::TtlExpired);
        }
        if inner.flow.is_fragment && self.leads_to_transport(inner.flow.destination) {
            let fragment = packet[..inner.flow.total_len].to_vec();
            return self.seal_whole_of(fragment, since, now, out);
        }
        self.seal_packet(&offload, &inner, packet, now, out)
    }

    /// Transport mode protects whole packets (RFC 4303 §3.3.4), but the stack fragmented this one
    /// for the device's MTU. Fragments wait here until all have come.
    fn seal_whole_of(
        &mut self,
        fragment: Vec<u8>,
        since: Instant,
        now: Instant,
        out: &mut Datagrams,
    ) -> Result<Verdict, DropReason> {
        let taken = self.fragments.take(fragment, now);
        let lost = taken.given_up;
        self.report.drops.add(DropReason::BadInnerPacket, lost);
        let Some(mut whole) = taken.whole else {
            return Ok(Verdict::Kept);
        };
        let mut inner = Inner::parse(&whole).ok_or(DropReason::BadInnerPacket)?;
        // its sender let it be cut
        inner.dont_fragment = false;
        match self.seal_packet(&VnetHeader::default(), &inner, &mut whole, now, out) {
            // The fragments before this one are used up: the whole packet waits.
            Err(reason @ (DropReason::NoSa | DropReason::UnprovenPath)) => {
                if self.offloads.has_vnet_header {
                    whole.splice(..0, PLAIN);
                }
                self.hold(&mut whole, reason, since, now);
                Ok(Verdict::Refused(reason))
            }
            sealed => sealed,
        }
    }

    fn seal_packet(
        &mut self,
        offload: &VnetHeader,
        inner: &Inner,
        packet: &mut [u8],
        now: Instant,
        out: &mut Datagrams,
    ) -> Result<Verdict, DropReason> {
        let Some(slot) = self.find_for(inner, packet) else {
            // The host greets neighbours on every device: this traffic never has a policy.
            return match is_of_the_link(inner.flow.destination) {
                true => Ok(Verdict::Kept),
                false => Err(DropReason::NoPolicy),
            };
        };
        match self.is_plain(slot) {
            true => self.seal_by(slot, offload, inner, packet, now, out),
            false => self.seal_onward(slot, offload, inner, packet, (0, now), out),
        }
    }

    /// Seals a packet with the newest SA of its child.
    fn seal_by(
        &mut self,
        slot: Slot,
        offload: &VnetHeader,
        inner: &Inner,
        packet: &mut [u8],
        now: Instant,
        out: &mut Datagrams,
    ) -> Result<Verdict, DropReason> {
        let child = self.children[slot as usize]
            .as_mut()
            .ok_or(DropReason::NoPolicy)?;
        let Some(sealer) = child.sealers.last_mut() else {
            out.notices.extend(child.ask(now));
            return Err(DropReason::NoSa);
        };
        let destination = inner.flow.destination;
        let is_short = sealer.removes_header && *offload == VnetHeader::default();
        let inside = is_short.then(|| carried::inside(inner, packet)).flatten();
        let (inner, packet) = match &inside {
            Some((inside, start)) => (inside, &mut packet[*start..]),
            None => (inner, packet),
        };
        if let Some(limit) = &child.limit
            && !limit.permits(sealer, offload, inner)
        {
            return Err(DropReason::UnprovenPath);
        }
        let sign = look(&mut child.stall, sealer, offload, inner, packet, now);
        if let Some(in_line) = sealer.in_line_mut() {
            in_line.note_destination(destination);
        }
        let burst = Burst {
            sealer,
            random: &mut self.random,
            offloads: self.offloads,
            keeps_mss: self.keeps_mss,
            now,
            out,
            sealed: Sealed::default(),
        };
        let (sealed, result) = burst.seal(offload, inner, packet);
        if sealed.packets > 0 {
            let (packets, bytes) = (sealed.packets, sealed.bytes);
            if let Some(task) = sealer.task() {
                self.report.work.add(task, packets, bytes);
            }
            if let Some(limit) = &mut child.limit {
                let headers = sealer.headers_outside() as u64;
                limit.spend(sealed.sealed_bytes + sealed.packets * headers);
            }
        }
        if let Some(bound) = sealer.in_line_mut().and_then(|it| it.n_to_store()) {
            let child = sealer.child;
            out.notices.push(Notice::StoreN { child, bound });
        }
        if sealed.reaches_soft_limit {
            let child = sealer.child;
            out.notices.push(Notice::SoftLimit { child });
        }
        let id = child.id;
        let is_watched = sealed.packets > 0 && child.watched_from.is_some_and(|from| from <= now);
        if is_watched {
            child.watched_from = None;
            out.notices
                .push(Notice::OutboundUsed { child: id, at: now });
        }
        self.heed(id, sign, out);
        result.map(|()| Verdict::Sealed)
    }

    /// The child whose selectors admit the packet: one whose place is configured before a mobile
    /// node's, one that names a protocol or port before one that takes any, then the narrowest.
    fn find(&self, inner: &Inner) -> Option<Slot> {
        self.find_among(inner, |_| true)
    }

    fn find_among(&self, inner: &Inner, is_meant: impl Fn(&Child) -> bool) -> Option<Slot> {
        let child = |slot: Slot| self.children[slot as usize].as_ref();
        let takes = |child: &Child| is_meant(child) && child.admits(inner);
        let rank = |child: &Child| (child.home_address().is_some(), child.takes_any_protocol());
        self.index
            .candidates(inner.flow.destination)
            .map(|(_, slot)| slot)
            .filter(|slot| child(*slot).is_some_and(takes))
            .min_by_key(|slot| child(*slot).map(rank))
    }

    fn leads_to_transport(&self, destination: IpAddr) -> bool {
        let is_transport = |(_, slot): (_, Slot)| {
            let child = self.children[slot as usize].as_ref();
            let sealer = child.and_then(|child| child.sealers.last());
            sealer.is_some_and(|sealer| sealer.mode == Mode::Transport)
        };
        self.index.candidates(destination).any(is_transport)
    }

    /// Nothing of such a frame was changed.
    fn hold(&mut self, frame: &mut [u8], reason: DropReason, since: Instant, now: Instant) {
        let parsed = crate::plane::vnet::take(frame, self.offloads);
        let inner = parsed.ok().and_then(|(_, packet)| Inner::parse(packet));
        let slot = inner.and_then(|inner| self.find_last(&inner));
        let child = slot.and_then(|slot| self.children[slot as usize].as_mut());
        let hold = child.and_then(|child| match reason {
            DropReason::UnprovenPath => child.limit.as_mut().map(|limit| &mut limit.hold),
            _ => child.expected.as_mut().map(|expected| &mut expected.hold),
        });
        let lost = hold.map_or(1, |hold| hold.put(frame, since, now));
        self.report.drops.add(reason, lost as u64);
    }

    fn child_mut(&mut self, child: ChildId) -> Option<&mut Child> {
        let slot = *self.by_id.get(&child)?;
        self.children[slot as usize].as_mut()
    }

    fn take_hold(&mut self, child: ChildId) -> Hold {
        let expected = self
            .child_mut(child)
            .and_then(|child| child.expected.as_mut());
        expected.map_or_else(Hold::default, |expected| {
            core::mem::take(&mut expected.hold)
        })
    }

    fn install(&mut self, sa: Sa) {
        let held = self.take_hold(sa.child);
        self.released.extend(held.into_frames());
        let mtu = self.sizes.install(&sa);
        let calendar = self.calendar;
        self.edit_or_add(sa.child, |child| {
            child.sealers.retain(|old| old.spi != sa.spi());
            let mut sealer = Box::new(Sealer::new(sa));
            if let Some(in_line) = sealer.in_line_mut() {
                in_line.tell(calendar);
            }
            sealer.set_path_mtu(mtu);
            child.sealers.push(sealer);
            child.sealers.shrink_to_fit();
        });
    }

    fn edit_or_add(&mut self, id: ChildId, change: impl FnOnce(&mut Child)) {
        if !self.by_id.contains_key(&id) {
            let child = Child {
                id,
                sealers: Vec::new(),
                expected: None,
                limit: None,
                stall: Stall::default(),
                watched_from: None,
                trouble: None,
            };
            let slot = self.free.pop().unwrap_or_else(|| {
                self.children.push(None);
                self.children.len() as Slot - 1
            });
            self.children[slot as usize] = Some(child);
            self.by_id.insert(id, slot);
        }
        self.edit(id, change);
    }

    /// Changes a child and its index entries; removes a child with nothing left.
    fn edit(&mut self, id: ChildId, change: impl FnOnce(&mut Child)) {
        let Some(&slot) = self.by_id.get(&id) else {
            return;
        };
        let Some(child) = &mut self.children[slot as usize] else {
            return;
        };
        child.each_destination(|first, last| self.index.remove(first, last, slot));
        let former = child.home_address();
        change(child);
        child.each_destination(|first, last| self.index.insert(first, last, slot));
        let home = child.home_address();
        if let Some(former) = former.filter(|it| self.by_home.get(it) == Some(&slot)) {
            self.by_home.remove(&former);
        }
        self.by_home.extend(home.map(|it| (it, slot)));
        if child.sealers.is_empty() && child.expected.is_none() {
            self.by_id.remove(&child.id);
            self.children[slot as usize] = None;
            self.free.push(slot);
        }
    }

    /// Sets the number of the last packet that this child's newest SA has sealed: for tests
    /// against other implementations, never with a key that is in use. Panics without such an SA.
    pub fn fixed_sequence_for_testing(&mut self, child: ChildId, sequence: u64) {
        let slot = self.by_id[&child];
        let child = self.children[slot as usize].as_mut().expect("in by_id");
        let sealer = child.sealers.last_mut().expect("an SA");
        sealer.fixed_sequence_for_testing(sequence);
    }
}

impl Child {
    /// Calls `each` with the ranges of destination addresses that are this child's.
    fn each_destination(&self, mut each: impl FnMut(IpAddr, IpAddr)) {
        match (self.sealers.last(), &self.expected) {
            (Some(sealer), _) if sealer.mode == Mode::Transport => {
                each(sealer.peer, sealer.peer);
            }
            (Some(sealer), _) if sealer.is_found_by_home_alone() => {}
            (Some(sealer), _) => sealer.remote.iter().for_each(|s| each(s.first, s.last)),
            (None, Some(expected)) => expected.remote.iter().for_each(|s| each(s.first, s.last)),
            (None, None) => {}
        }
    }

    /// Packets that carry this home address are its own.
    fn home_address(&self) -> Option<Ipv4Addr> {
        self.sealers.last().and_then(|sealer| sealer.home_address())
    }

    fn admits(&self, inner: &Inner) -> bool {
        match (self.sealers.last(), &self.expected) {
            (Some(sealer), _) if sealer.mode == Mode::Transport => {
                let own = sealer.path.local.ip();
                (own.is_unspecified() || own == inner.flow.source)
                    && policy::admits(inner, &sealer.local, &sealer.remote, true)
            }
            (Some(sealer), _) => policy::admits(inner, &sealer.local, &sealer.remote, false),
            (None, Some(expected)) => {
                policy::admits(inner, &expected.local, &expected.remote, false)
            }
            (None, None) => false,
        }
    }

    fn takes_any_protocol(&self) -> bool {
        let any = |selector: &TrafficSelector| selector.protocol == 0 && selector.ports.is_any();
        match (self.sealers.last(), &self.expected) {
            (Some(sealer), _) => sealer.local.iter().chain(&sealer.remote).all(any),
            (None, Some(expected)) => expected.local.iter().chain(&expected.remote).all(any),
            (None, None) => true,
        }
    }

    fn follow(&mut self, path: Path) {
        for sealer in &mut self.sealers {
            sealer.path = sealer.path.led_to(path);
        }
    }

    /// The peer has proven this address.
    fn know(&mut self, address: IpAddr) {
        for sealer in &mut self.sealers {
            if sealer.pool_address.is_none() {
                sealer.peer = address;
            }
        }
    }

    fn ask(&mut self, now: Instant) -> Option<Notice> {
        let expected = self.expected.as_mut()?;
        let is_due = expected
            .asked
            .is_none_or(|asked| now.since(asked) >= ACQUIRE_INTERVAL);
        is_due.then(|| {
            expected.asked = Some(now);
            Notice::Acquire { child: self.id }
        })
    }
}
