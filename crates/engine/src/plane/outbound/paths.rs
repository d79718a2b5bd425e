//! What the plane knows about paths: their sizes, and how much an unproven one may get.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use wire::ip::{icmp, tcp};
use wire::vnet::{Gso, VnetHeader};

use super::{Child, OutboundPlane};
use crate::counters::DropReason;
use crate::plane::inner::Inner;
use crate::plane::path_mtu::{LEAST_CLAIM, RECENT_PACKETS, TooBig, Why, quoted_inner, quoted_raw};
use crate::plane::sealer::Sealer;
use crate::plane::stall::{Sign, Stall};
use crate::plane::trouble::{Trouble, Undelivered};
use crate::plane::{Datagrams, Notice};
use crate::sa::{ChildId, Encapsulation, Path, Via};
use crate::time::Instant;

/// What a packet that is about to be sealed shows of the path.
pub(super) fn look(
    stall: &mut Stall,
    sealer: &Sealer,
    offload: &VnetHeader,
    inner: &Inner,
    packet: &[u8],
    now: Instant,
) -> Option<Sign> {
    let largest = match offload.gso {
        Gso::None => inner.flow.total_len,
        _ => usize::from(offload.gso_size) + inner.flow.transport + tcp::HEADER_LEN,
    };
    // The sender of one that does not fit is told.
    let fits = largest <= sealer.largest;
    fits.then(|| stall.look(inner, packet, largest > sealer.small, now))
        .flatten()
}

impl OutboundPlane {
    /// A child that needs [`crate::plane::OutboundChange::LinkMtu`], and its path. Call it after
    /// each change and between bursts until it returns `None`. It costs nothing if nothing is
    /// needed.
    pub fn link_to_ask(&mut self, now: Instant) -> Option<(ChildId, Path)> {
        self.sizes.next_asked(now)
    }

    /// Our own host refused a datagram to this peer as too large: ask for the link again.
    pub fn doubt_link(&mut self, remote: SocketAddr) {
        self.sizes.doubt_link(remote);
    }

    /// Takes an ICMP report. Returns whether it made a path smaller. A report that is not trusted
    /// is counted as a drop.
    pub fn too_big(&mut self, report: &TooBig<'_>, now: Instant) -> bool {
        self.grow(now);
        if let Some(quoted) = quoted_raw(report.via, report.quoted) {
            return self.too_big_without_numbers(report, quoted, now);
        }
        let Some((spi, sequence)) = report.numbers() else {
            let children = self.sizes.of_peer(report.remote);
            if children.is_empty() {
                self.report.drops.count(DropReason::ForgedReport);
            }
            let mut is_lowered = false;
            for child in children {
                is_lowered |= self.lower(child, report.mtu, Why::Claim, now);
            }
            return is_lowered;
        };
        let child = self.sizes.child_of(report.remote, spi);
        let child = child.filter(|child| self.has_sealed(*child, spi, sequence));
        let Some(child) = child else {
            self.report.drops.count(DropReason::ForgedReport);
            return false;
        };
        self.lower(child, report.mtu, Why::Report, now)
    }

    /// A report about a raw tunnel or SKIP: all of this form to the same place share the path.
    fn too_big_without_numbers(
        &mut self,
        report: &TooBig<'_>,
        (protocol, id): (u8, u16),
        now: Instant,
    ) -> bool {
        let tunnels = match Encapsulation::of(protocol) {
            Some(encapsulation) => self.tunnels_to(report.remote, Some(encapsulation)),
            None => self.in_line_to(report.remote, id),
        };
        if tunnels.is_empty() {
            self.report.drops.count(DropReason::ForgedReport);
        }
        let mut newest = tunnels.iter().filter_map(|child| self.newest(*child));
        let why = match newest.any(|sealer| sealer.has_sent_large(id)) {
            true => Why::Report,
            false => Why::Claim,
        };
        let mut is_lowered = false;
        for child in tunnels {
            let sent = self
                .newest(child)
                .is_some_and(|sealer| sealer.has_sent_large(id));
            let is_smaller = self.lower(child, report.mtu, why, now);
            if is_smaller && sent {
                self.relay(child, report.quoted);
            }
            is_lowered |= is_smaller;
        }
        is_lowered
    }

    /// Tells the sender of the packet that a report about its tunnel quotes (RFC 2003 §4.1).
    /// Otherwise it would hear of it with its next packet, which may be seconds away. The report
    /// proves no more than 16 bits, so the packet must be one that this tunnel carries.
    fn relay(&mut self, child: ChildId, quoted: &[u8]) {
        let Some(packet) = quoted_inner(quoted) else {
            return;
        };
        let Some(inner) = parse_cut(packet) else {
            return;
        };
        if self.known(child).is_none_or(|it| !it.admits(&inner)) {
            self.report.drops.count(DropReason::ForgedReport);
            return;
        }
        let largest = self.newest(child).map_or(0, |sealer| sealer.largest);
        let report = match (inner.flow.destination, u16::try_from(largest)) {
            (IpAddr::V4(from), Ok(mtu)) => icmp::fragmentation_needed_by_cut(packet, from, mtu),
            _ => None,
        };
        self.relayed.extend(report);
    }

    /// Takes an ICMP report that a datagram did not reach the other end of a tunnel of Mobile
    /// IPv4. Senders of later packets are told (RFC 2003 §5). One that quotes a packet which the
    /// tunnel did not carry lately is counted as a drop. Other reports are ignored.
    pub fn undelivered(&mut self, report: &Undelivered<'_>, now: Instant) {
        let quoted = quoted_raw(report.via, report.quoted);
        let raw = quoted.and_then(|(protocol, id)| Some((Encapsulation::of(protocol)?, id)));
        if report.via == Via::Raw && raw.is_none() {
            return;
        }
        let mut children = self.tunnels_to(report.remote, raw.map(|(form, _)| form));
        // Of a tunnel in UDP, the ports prove as much as an identification does.
        if let Some((_, id)) = raw {
            children.retain(|child| self.has_carried(*child, id, report.quoted));
            if children.is_empty() {
                self.report.drops.count(DropReason::ForgedReport);
            }
        }
        for child in children {
            if let Some(child) = self.child_mut(child) {
                child.trouble = Trouble::new(report.unreachable, now).map(Box::new);
            }
        }
    }

    /// Whether a tunnel may have sent the packet that a report quotes. Routers may quote too little
    /// to show what was inside (RFC 792).
    fn has_carried(&self, child: ChildId, id: u16, quoted: &[u8]) -> bool {
        let inner = quoted_inner(quoted).and_then(parse_cut);
        let is_its_own = |child: &Child| inner.is_none_or(|inner| child.admits(&inner));
        self.newest(child).is_some_and(|sealer| sealer.has_sent(id))
            && self.known(child).is_some_and(is_its_own)
    }

    /// Children whose packets travel to `remote` in tunnels of this form.
    fn tunnels_to(&self, remote: SocketAddr, form: Option<Encapsulation>) -> Vec<ChildId> {
        let mut children = self.sizes.of_peer(remote);
        children.retain(|child| {
            let own = self.newest(*child).and_then(Sealer::encapsulation);
            // Fragments in a minimal tunnel travel as IP in IP.
            let is_mixed =
                own == Some(Encapsulation::Minimal) && form == Some(Encapsulation::IpInIp);
            own.is_some() && (own == form || form.is_none() || is_mixed)
        });
        children
    }

    /// Children of SKIP whose packets travel to `remote`: to the end of their path, or to their own
    /// destinations. Of these, only the one that has sent the packet is found.
    fn in_line_to(&self, remote: SocketAddr, id: u16) -> Vec<ChildId> {
        let is_skip = |sealer: &Sealer| sealer.in_line().is_some();
        let mut children = self.sizes.of_peer(remote);
        children.retain(|child| self.newest(*child).is_some_and(is_skip));
        if children.is_empty() {
            children = self.sizes.of_peer((Ipv4Addr::UNSPECIFIED, 0).into());
            let has_sent = |sealer: &Sealer| is_skip(sealer) && sealer.has_sent_large(id);
            children.retain(|child| self.newest(*child).is_some_and(has_sent));
        }
        children
    }

    fn newest(&self, child: ChildId) -> Option<&Sealer> {
        let child = self.known(child)?;
        child.sealers.last().map(|sealer| &**sealer)
    }

    fn known(&self, child: ChildId) -> Option<&Child> {
        let slot = *self.by_id.get(&child)?;
        self.children[slot as usize].as_ref()
    }

    pub(super) fn allow(&mut self, child: ChildId, bytes: u64) {
        let Some(child) = self.child_mut(child) else {
            return;
        };
        let limit = child.limit.get_or_insert_default();
        limit.allow(bytes);
        let held = core::mem::take(&mut limit.hold);
        self.released.extend(held.into_frames());
    }

    /// Large packets of this child go unanswered, small ones do not.
    pub(super) fn doubt(&mut self, child: ChildId, now: Instant) -> Option<Notice> {
        let is_stalled = self.child_mut(child)?.stall.is_stalled(now);
        if !is_stalled || !self.lower(child, 0, Why::Silence, now) {
            return None;
        }
        let known = self.child_mut(child)?;
        known.stall.shrunk();
        let mtu = known.sealers.last().map_or(0, |sealer| sealer.path_mtu);
        Some(Notice::PathShrank { child, mtu })
    }

    /// What a packet showed of its child's path.
    pub(super) fn heed(&mut self, child: ChildId, sign: Option<Sign>, out: &mut Datagrams) {
        match sign {
            Some(Sign::Stalled) => out.notices.push(Notice::LargeUnanswered { child }),
            Some(Sign::NotTheSize) => {
                let mtu = self.sizes.take_back(child, Why::Silence);
                self.resize(child, mtu);
            }
            None => {}
        }
    }

    /// Reports whose time is over make paths larger again. Costs nothing where nothing is due.
    pub(super) fn grow(&mut self, now: Instant) {
        while let Some((child, mtu)) = self.sizes.next_grown(now) {
            self.resize(child, Some(mtu));
            if mtu > LEAST_CLAIM
                && let Some(known) = self.child_mut(child)
            {
                known.stall.grown();
            }
        }
    }

    fn lower(&mut self, child: ChildId, mtu: u32, why: Why, now: Instant) -> bool {
        let mtu = self.sizes.lower(child, mtu, why, now);
        self.resize(child, mtu);
        mtu.is_some()
    }

    pub(super) fn resize(&mut self, child: ChildId, mtu: Option<u16>) {
        if let (Some(child), Some(mtu)) = (self.child_mut(child), mtu) {
            for sealer in &mut child.sealers {
                sealer.set_path_mtu(mtu);
            }
        }
    }

    /// Whether a packet of this number left lately.
    fn has_sealed(&self, child: ChildId, spi: u32, sequence: u32) -> bool {
        let slot = self.by_id.get(&child);
        let child = slot.and_then(|slot| self.children[*slot as usize].as_ref());
        let mut sealers = child.into_iter().flat_map(|child| &child.sealers);
        let sealed = sealers.find(|sealer| sealer.spi == spi);
        sealed.is_some_and(|sealer| sealer.has_sealed(sequence, RECENT_PACKETS))
    }
}

/// The headers of a packet that is cut off.
fn parse_cut(cut: &[u8]) -> Option<Inner> {
    let mut whole = cut.to_vec();
    let length = u16::try_from(whole.len()).ok()?;
    whole.get_mut(2..4)?.copy_from_slice(&length.to_be_bytes());
    Inner::parse(&whole).filter(|inner| !inner.is_v6())
}
