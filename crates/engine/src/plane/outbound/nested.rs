//! Packets that several SAs seal: one after the other where an SA is nested, each a copy where
//! tunnels of Mobile IPv4 are simultaneous bindings.

use wire::ip::Flow;
use wire::vnet::VnetHeader;

use super::{Child, OutboundPlane};
use crate::counters::DropReason;
use crate::plane::inner::Inner;
use crate::plane::layers;
use crate::plane::policy::Slot;
use crate::plane::sealer::{OUTER_TTL, Sealer};
use crate::plane::{Datagrams, MAX_NESTED, Verdict};
use crate::sa::{ChildId, Via};
use crate::time::Instant;

/// Buffers for one packet that is sealed more than once.
#[derive(Default)]
pub(super) struct Level {
    sealed: Datagrams,
    /// The other children that get the packet.
    copies: Vec<Slot>,
    /// The packet as it was: sealing a super-packet changes its headers.
    original: Vec<u8>,
}

/// What became of the parts of a packet.
#[derive(Default)]
struct Outcome {
    is_any_sealed: bool,
    failed: Option<DropReason>,
}

impl OutboundPlane {
    /// Whether one SA alone seals the child's packets.
    pub(super) fn is_plain(&self, slot: Slot) -> bool {
        let child = self.children[slot as usize].as_ref();
        let sealer = child.and_then(|child| child.sealers.last());
        sealer.is_none_or(|sealer| !sealer.is_nested && sealer.encapsulation().is_none())
    }

    /// Seals a packet with the SA of this child and with each tunnel for the same traffic. It has
    /// been sealed `depth` times before.
    pub(super) fn seal_onward(
        &mut self,
        slot: Slot,
        offload: &VnetHeader,
        inner: &Inner,
        packet: &mut [u8],
        (depth, now): (usize, Instant),
        out: &mut Datagrams,
    ) -> Result<Verdict, DropReason> {
        let mut level = self.levels.pop().unwrap_or_default();
        self.find_copies(slot, inner, &mut level.copies);
        if !level.copies.is_empty() {
            level.original.clear();
            level.original.extend_from_slice(packet);
        }
        let headers = (offload, inner);
        let first = self.seal_nested(slot, headers, packet, (depth, now), &mut level, out);
        let mut outcome = Outcome::default();
        outcome.take(first, self);
        for at in 0..level.copies.len() {
            packet.copy_from_slice(&level.original);
            let copy = level.copies[at];
            let sealed = self.seal_nested(copy, headers, packet, (depth, now), &mut level, out);
            outcome.take(sealed, self);
        }
        level.copies.clear();
        self.levels.push(level);
        outcome.finish(self)
    }

    /// Seals a packet with the SA of this child. What a nested SA seals is sealed again.
    fn seal_nested(
        &mut self,
        slot: Slot,
        (offload, inner): (&VnetHeader, &Inner),
        packet: &mut [u8],
        (depth, now): (usize, Instant),
        level: &mut Level,
        out: &mut Datagrams,
    ) -> Result<Verdict, DropReason> {
        self.warn(slot, inner, packet, now, out);
        let child = self.children[slot as usize].as_ref();
        let sealer = child.and_then(|child| child.sealers.last());
        // Tunnels that this plane itself puts around a packet are meant.
        if depth == 0
            && let Some(own) = sealer.and_then(|sealer| sealer.tunnel_start())
        {
            layers::check(inner, packet, own)?;
        }
        if !sealer.is_some_and(|sealer| sealer.is_nested) {
            return self.seal_by(slot, offload, inner, packet, now, out);
        }
        let carrier = sealer.and_then(|sealer| sealer.carried_by);
        self.fit(slot, depth, now, out)?;
        let sealed = self.seal_by(slot, offload, inner, packet, now, &mut level.sealed);
        let passed = self.pass_on(&mut level.sealed, carrier, (depth + 1, now), out);
        out.take_answers(&level.sealed);
        level.sealed.clear();
        sealed.and(passed)
    }

    /// Seals packets that a nested SA has sealed. It may name the child that takes them.
    fn pass_on(
        &mut self,
        sealed: &mut Datagrams,
        carrier: Option<ChildId>,
        (depth, now): (usize, Instant),
        out: &mut Datagrams,
    ) -> Result<Verdict, DropReason> {
        let mut outcome = Outcome::default();
        for at in 0..sealed.runs.len() {
            let packet = &mut sealed.buffer[sealed.runs[at].range.clone()];
            let answers = out.replies.len();
            let passed = match Inner::parse(packet) {
                Some(inner) => {
                    let slot = match carrier {
                        Some(carrier) => self.by_id.get(&carrier).copied(),
                        None => self.find_for(&inner, packet),
                    };
                    let plain = VnetHeader::default();
                    match slot {
                        Some(slot) => {
                            self.seal_onward(slot, &plain, &inner, packet, (depth, now), out)
                        }
                        None => Err(DropReason::NoPolicy),
                    }
                }
                None => Err(DropReason::BadInnerPacket),
            };
            // This host is the sender, and knows the size already.
            out.take_back_answers(answers);
            outcome.take(passed, self);
        }
        outcome.finish(self)
    }

    /// Makes sure that a nested SA's packets fit the SA that they go through. Returns the largest
    /// packet that this child takes.
    fn fit(
        &mut self,
        slot: Slot,
        depth: usize,
        now: Instant,
        out: &mut Datagrams,
    ) -> Result<usize, DropReason> {
        let child = self.children[slot as usize].as_mut();
        let child = child.ok_or(DropReason::NoPolicy)?;
        let id = child.id;
        let Some(sealer) = child.sealers.last() else {
            out.notices.extend(child.ask(now));
            return Err(DropReason::NoSa);
        };
        if !sealer.is_nested {
            return Ok(sealer.largest);
        }
        if sealer.path.via != Via::Raw {
            return Err(DropReason::WrongEncapsulation);
        }
        if depth + 1 >= MAX_NESTED {
            return Err(DropReason::NestedTooDeep);
        }
        let (carrier, sealed) = (sealer.carried_by, sealed_by(sealer));
        let next = self.next(carrier, &sealed).ok_or(DropReason::NoPolicy)?;
        let room = self.fit(next, depth + 1, now, out)?;
        let room = u16::try_from(room).unwrap_or(u16::MAX);
        if self.sizes.link_of(id) != Some(room) {
            let mtu = self.sizes.link(id, room, now);
            self.resize(id, mtu);
        }
        let child = self.children[slot as usize].as_ref();
        let sealer = child.and_then(|child| child.sealers.last());
        Ok(sealer.map_or(0, |sealer| sealer.largest))
    }

    /// The child that takes what a nested SA seals.
    fn next(&self, carrier: Option<ChildId>, sealed: &Inner) -> Option<Slot> {
        match carrier {
            Some(carrier) => self.by_id.get(&carrier).copied(),
            None => self.find(sealed),
        }
    }

    /// The child that a packet goes to last.
    pub(super) fn find_last(&self, inner: &Inner) -> Option<Slot> {
        let mut slot = self.find(inner)?;
        for _ in 0..MAX_NESTED {
            let child = self.children[slot as usize].as_ref()?;
            let Some(sealer) = child.sealers.last().filter(|it| it.is_nested) else {
                break;
            };
            slot = self.next(sealer.carried_by, &sealed_by(sealer))?;
        }
        Some(slot)
    }

    /// The other tunnels that a packet goes into: those that name its destination as narrowly.
    fn find_copies(&self, slot: Slot, inner: &Inner, copies: &mut Vec<Slot>) {
        let child = |slot: Slot| self.children[slot as usize].as_ref();
        if !child(slot).is_some_and(Child::is_tunnel) {
            return;
        }
        let all = || self.index.candidates(inner.flow.destination);
        let own = all().find(|(_, other)| *other == slot).map(|own| own.0);
        let is_copy = |other: &Child| other.is_tunnel() && other.admits(inner);
        for (span, other) in all() {
            if Some(span) == own
                && other != slot
                && !copies.contains(&other)
                && child(other).is_some_and(is_copy)
            {
                copies.push(other);
            }
        }
    }

    /// Tells the sender that the other end of the tunnel is out of reach.
    fn warn(
        &mut self,
        slot: Slot,
        inner: &Inner,
        packet: &[u8],
        now: Instant,
        out: &mut Datagrams,
    ) {
        let has_header = self.offloads.has_vnet_header;
        if let Some(child) = &mut self.children[slot as usize] {
            child.trouble.take_if(|trouble| trouble.is_over(now));
            if let Some(trouble) = &mut child.trouble {
                trouble.tell(inner, packet, has_header, now, out);
            }
        }
    }
}

impl Child {
    fn is_tunnel(&self) -> bool {
        let sealer = self.sealers.last();
        sealer.is_some_and(|sealer| sealer.encapsulation().is_some())
    }
}

impl Outcome {
    /// Counts failures, except the last one.
    fn take(&mut self, sealed: Result<Verdict, DropReason>, plane: &mut OutboundPlane) {
        match sealed {
            Ok(_) => self.is_any_sealed = true,
            Err(reason) => {
                if let Some(earlier) = self.failed.replace(reason) {
                    plane.report.drops.count(earlier);
                }
            }
        }
    }

    /// A packet of which a part has left is not sealed again.
    fn finish(self, plane: &mut OutboundPlane) -> Result<Verdict, DropReason> {
        match self.failed {
            Some(reason) if !self.is_any_sealed => return Err(reason),
            Some(reason) => plane.report.drops.count(reason),
            None => {}
        }
        Ok(Verdict::Sealed)
    }
}

/// The headers of the packets that a raw SA makes, as far as selectors compare them.
fn sealed_by(sealer: &Sealer) -> Inner {
    let header = match sealer.path.remote.is_ipv6() {
        true => 40,
        false => 20,
    };
    Inner {
        flow: Flow {
            source: sealer.path.local.ip(),
            destination: sealer.path.remote.ip(),
            protocol: sealer.protocol(),
            ports: None,
            transport: header,
            total_len: header,
            is_fragment: false,
            is_later_fragment: false,
        },
        protocol_at: 9,
        traffic_class: 0,
        ttl: OUTER_TTL,
        dont_fragment: false,
    }
}
