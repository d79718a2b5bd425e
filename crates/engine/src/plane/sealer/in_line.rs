//! SKIP on outbound packets (draft-ietf-ipsec-skip-06): an IP header of our own, then what the
//! association makes.
//!
//! In UDP the whole packet, with that header, is the payload ([`crate::skip::udp`]).

use std::net::{IpAddr, Ipv4Addr};

use crypto::rand::Stream;
use wire::ip::ipv4;
use wire::ip::protocol::SKIP;

use super::recent::Recent;
use super::{DONT_FRAGMENT, Outer, Way, finish_ip_header, write_ip_header};
use crate::counters::DropReason;
use crate::plane::datagrams::Datagrams;
use crate::sa::{Aim, InLine, Path, Via};
use crate::skip::counter::LEAP;
use crate::skip::{self, Layout, Profile, SkipTime};
use crate::time::{Calendar, Instant};
use crate::work::Work;

/// Congestion marks in the type of service.
const ECN: u8 = 3;

/// What SKIP needs for all packets of an SA.
pub(crate) struct InLineSealer {
    sealer: skip::Sealer,
    pub(super) layout: Layout,
    pub(super) sent: Recent,
    pub(super) aim: Aim,
    /// The destination of the packet that is sealed now.
    destination: IpAddr,
    calendar: Option<(Calendar, Instant)>,
    /// The MAC covers the type of service, so a mark on the way would make it wrong.
    is_marked: bool,
    /// The bound that control was told to store.
    asked_n: Option<u32>,
}

impl InLineSealer {
    pub(super) fn new(in_line: &InLine) -> Self {
        let association = &in_line.association;
        Self {
            sealer: skip::Sealer::new(association, in_line.stored_n),
            layout: association.layout(),
            sent: Recent::default(),
            aim: in_line.aim,
            destination: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            calendar: None,
            is_marked: association.profile() == Profile::X25519,
            asked_n: None,
        }
    }

    pub(crate) fn tell(&mut self, calendar: Option<(Calendar, Instant)>) {
        self.calendar = calendar.or(self.calendar);
    }

    /// Where the next packet is for.
    pub(crate) fn note_destination(&mut self, destination: IpAddr) {
        self.destination = destination;
    }

    pub(crate) fn n_is_stored(&mut self, bound: u32) {
        self.sealer.n_is_stored(bound);
    }

    /// A bound to store, once.
    pub(crate) fn n_to_store(&mut self) -> Option<u32> {
        let bound = self.sealer.n_to_store()?;
        // The bound grows with each n until it is stored: a quarter of the leap is soon enough.
        let is_due = |asked: u32| bound >= asked.saturating_add(LEAP / 4);
        if !self.asked_n.is_none_or(is_due) {
            return None;
        }
        self.asked_n = Some(bound);
        Some(bound)
    }

    pub(crate) fn work(&self) -> &Work {
        self.sealer.work()
    }

    /// The largest packet that a path carries.
    pub(super) fn largest_packet(&self, path_mtu: usize) -> usize {
        let room = path_mtu.saturating_sub(ipv4::HEADER_LEN);
        self.layout.largest_clear(room).unwrap_or(0)
    }

    /// As [`super::Sealer::seal`].
    pub(super) fn seal(
        &mut self,
        way: Way<'_>,
        outer: &Outer<'_>,
        now: Instant,
        random: &mut Stream,
        out: &mut Datagrams,
        (clear, fill): (usize, impl FnOnce(&mut [u8])),
    ) -> Result<usize, DropReason> {
        let path = match self.aim {
            Aim::Path => *way.path,
            Aim::Home(_) if !way.path.remote.ip().is_unspecified() => *way.path,
            Aim::Destination | Aim::Home(_) => Path::raw(way.path.local.ip(), self.destination),
        };
        let (local, remote) = (path.local.ip(), path.remote.ip());
        let is_in_udp = path.via == Via::UdpWithSkip;
        if !(is_in_udp || path.via == Via::Raw) || local.is_ipv6() || remote.is_ipv6() {
            return Err(DropReason::WrongEncapsulation);
        }
        if remote.is_unspecified() {
            return Err(DropReason::NoSa); // a node that was not heard yet
        }
        let (told, moment) = self.calendar.ok_or(DropReason::SkipNoCalendar)?;
        let calendar = told.at(moment, now);
        let length = self.layout.wire_bytes(clear);
        if length > usize::from(u16::MAX) {
            return Err(DropReason::TooBig);
        }
        let is_too_long = length + headers_before(&path) > way.path_mtu.into();
        let class = match self.is_marked {
            true => outer.traffic_class,
            false => outer.traffic_class & !ECN,
        };
        let id = (random.u32() as u16).max(1);
        let flags = match outer.dont_fragment && !is_too_long && !is_in_udp {
            true => DONT_FRAGMENT,
            false => 0,
        };
        let packet = out.push(&path, class, length, is_too_long);
        let header = &mut packet[..ipv4::HEADER_LEN];
        write_ip_header(header, (local, remote), SKIP, class, (id, flags));
        finish_ip_header(header, length);
        let start = ipv4::HEADER_LEN + self.layout.clear_at();
        fill(&mut packet[start..start + clear]);
        let (time, next) = (SkipTime { calendar, now }, outer.next_header);
        let sealed = (self.sealer).seal(packet, ipv4::HEADER_LEN, clear, next, time, random);
        sealed.inspect_err(|_| out.unpush(length))?;
        self.sent.note(id, length);
        if is_too_long && !is_in_udp {
            // Only a packet whose sender cannot be told.
            let cut = out.fragment_last(way.path_mtu.into());
            return cut.map_err(|_refused| {
                out.unpush(length);
                DropReason::TooBig
            });
        }
        Ok(length)
    }
}

/// Octets before the packet of SKIP.
pub(super) fn headers_before(path: &Path) -> usize {
    match path.via {
        Via::UdpWithSkip => skip::udp::HEADERS_LEN,
        _ => 0,
    }
}
