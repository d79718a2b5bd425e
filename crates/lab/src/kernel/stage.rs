//! The world as elements see it during their turn, and their effects on packets.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use engine::link::Fate;
use engine::link::recording::BadRecording;
use engine::time::Instant;
use wire::ip::fragment::Fragments;
use wire::ip::icmp;

use super::capture::Capture;
use super::cpu::Cpu;
use super::fork::Fork;
use super::packets::{PacketId, Packets};
use super::queue::{Event, Lane, Queue, What};
use super::source::Source;
use super::{KernelFault, Link, Port, Router, Subject, Target};

/// The world as an element sees it.
pub(crate) struct Stage {
    pub(crate) now: Instant,
    /// The current element.
    pub(crate) element: u32,
    pub(crate) queue: Queue,
    pub(crate) packets: Packets,
    pub(crate) capture: Option<Capture>,
    /// Who tells that a packet is too large for a link: where the message goes first, and whose it
    /// is.
    pub(crate) reporters: BTreeMap<u32, (Target, Ipv4Addr)>,
}

impl Stage {
    /// Checks the limit of packets in flight.
    #[inline]
    pub(super) fn check_room(&self, most: usize) -> Result<(), KernelFault> {
        let packets = self.packets.len();
        if packets <= most {
            return Ok(());
        }
        let seconds = self.now.0 / 1_000_000_000;
        Err(KernelFault::Overloaded {
            subject: Subject::Element(self.element),
            packets,
            seconds,
        })
    }

    #[inline]
    pub(crate) fn arrive(&mut self, lane: Lane, at: Instant, to: Target, packet: PacketId) {
        let (element, what) = (to.element, What::Arrives(to.port, packet));
        self.queue.schedule(Some(lane), Event { at, element, what });
    }

    /// Returns whether the link continues.
    #[inline]
    pub(super) fn over_link(
        &mut self,
        link: &mut Link,
        to: Target,
        lane: Lane,
        tap: Option<u32>,
        packet: PacketId,
    ) -> Result<(), BadRecording> {
        let entry = self.packets.get(packet);
        if !entry.octets.is_empty() {
            if let Some(mtu) = link.shape().mtu.filter(|mtu| entry.bytes > *mtu) {
                if self.cut(link, packet) {
                    return Ok(());
                }
                self.tell_too_big(lane, mtu, packet);
            }
            if let (Some(capture), Some(tap)) = (&mut self.capture, tap) {
                capture.packet(tap, self.now, &self.packets.get(packet).octets);
            }
        }
        match link.offer(self.packets.get(packet).bytes, self.now)? {
            Fate::Arrives(at) => self.arrive(lane, at, to, packet),
            Fate::Lost | Fate::Overflows | Fate::TooBig | Fate::Down => self.packets.free(packet),
        }
        Ok(())
    }

    /// Fragments a packet; the fragments enter the link separately. Returns whether that is
    /// allowed.
    fn cut(&mut self, link: &Link, packet: PacketId) -> bool {
        let whole = std::mem::take(&mut self.packets.get_mut(packet).octets);
        let mtu = link.shape().mtu.unwrap_or(u32::MAX) as usize;
        let Ok(mut fragments) = Fragments::new(&whole, mtu) else {
            self.packets.get_mut(packet).octets = whole;
            return false;
        };
        let mut scratch = vec![0; whole.len().max(mtu)];
        while let Some(length) = fragments.write_next(&mut scratch) {
            let fragment = self.packets.give(scratch[..length].to_vec(), self.now);
            let (at, element, what) = (self.now, self.element, What::Arrives(Port(0), fragment));
            self.queue.schedule(None, Event { at, element, what });
        }
        self.packets.free(packet);
        true
    }

    /// Tells the sender of a packet that it is too large for the current link.
    fn tell_too_big(&mut self, lane: Lane, mtu: u32, packet: PacketId) {
        let Some((to, from)) = self.reporters.get(&self.element).copied() else {
            return;
        };
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        let octets = &self.packets.get(packet).octets;
        if let Some(told) = icmp::fragmentation_needed(octets, from, mtu) {
            let told = self.packets.give(told, self.now);
            self.arrive(lane, self.now, to, told);
        }
    }

    pub(super) fn through_fork(
        &mut self,
        fork: &mut Fork,
        port: Port,
        lane: Lane,
        packet: PacketId,
    ) {
        let entry = self.packets.get(packet);
        let way = match entry.octets.is_empty() {
            true => fork.frames.get(&entry.flow).copied(),
            false => fork.way(port, &entry.octets, entry.next),
        };
        match way {
            Some(to) => self.arrive(lane, self.now, to, packet),
            None => self.packets.free(packet),
        }
    }

    pub(super) fn through_nat(
        &mut self,
        router: &mut Router,
        port: Port,
        lane: Lane,
        packet: PacketId,
    ) {
        let is_outward = port == Port(0);
        let to = if is_outward {
            router.outside
        } else {
            router.inside
        };
        if self.packets.get(packet).octets.is_empty() {
            self.arrive(lane, self.now, to, packet);
            return;
        }
        let octets = self.packets.take(packet);
        let taken = router.reassembly.take(octets, self.now);
        router.nat.count_incomplete(taken.given_up);
        let Some(mut whole) = taken.whole else {
            return;
        };
        let passes = if is_outward {
            router.nat.outward(&mut whole, self.now)
        } else {
            router.nat.inward(&mut whole, self.now)
        };
        if passes {
            let packet = self.packets.give(whole, self.now);
            self.arrive(lane, self.now, to, packet);
        }
    }

    #[inline]
    pub(super) fn through_cpu(&mut self, cpu: &mut Cpu, lane: Lane, packet: PacketId) {
        let entry = self.packets.get_mut(packet);
        entry.bytes = cpu.size(entry.clear, entry.bytes);
        let done = cpu.offer(entry.clear, self.now);
        self.arrive(lane, done, cpu.next, packet);
    }

    #[inline]
    pub(super) fn emit(&mut self, source: &mut Source, lane: Lane, event: Event) {
        if !source.is_on(event.at) {
            return;
        }
        let bytes = source.size();
        let packet = self.packets.plain(bytes, source.flow(), event.at);
        self.arrive(lane, event.at, source.to, packet);
        let at = event.at + source.gap();
        self.queue.schedule(Some(lane), Event { at, ..event });
    }
}
