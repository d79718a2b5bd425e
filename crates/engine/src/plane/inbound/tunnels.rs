//! Tunnels of Mobile IPv4 on inbound packets: IP in IP (RFC 2003), minimal encapsulation (RFC 2004)
//! and GRE (RFC 2784). IP in IP and GRE may be in UDP (RFC 3519).
//!
//! Nothing proves who sent such a packet. It is taken only if it comes from the other end of a
//! known tunnel, in its form, with the home address that the tunnel is for (RFC 3024 §4.3.2).

use wire::codec::Malformed;
use wire::ip::protocol::{ICMP, IPV4};
use wire::ip::{gre, icmp, minimal};
use wire::mip4::Message;

use super::{Carried, Datagram, InboundPlane};
use crate::counters::DropReason;
use crate::plane::Packets;
use crate::plane::ends::Ends;
use crate::plane::inner::Inner;
use crate::plane::unwrap::Unwrap;
use crate::sa::{Encapsulation, Via};
use crate::time::Instant;

impl InboundPlane {
    /// Takes a packet out of its tunnel. `at` is where GRE's header starts, or the packet itself if
    /// there is none.
    pub(super) fn open_tunnel<'a>(
        &mut self,
        datagram: Datagram<'a>,
        (form, at): (Encapsulation, usize),
        now: Instant,
        out: &mut Packets,
    ) -> Result<Option<Datagram<'a>>, DropReason> {
        let start = match form {
            Encapsulation::IpInIp => at,
            Encapsulation::Gre => at + gre::check(&datagram.bytes[at..]).map_err(reason)?,
            Encapsulation::Minimal => minimal::decapsulate(datagram.bytes).map_err(reason)?,
        };
        let inner = Inner::parse(&datagram.bytes[start..]);
        let inner = inner.ok_or(DropReason::BadInnerPacket)?;
        if inner.is_v6() || inner.flow.total_len != datagram.bytes.len() - start {
            return Err(DropReason::BadInnerPacket);
        }
        // RFC 2003 §3.1
        if inner.ttl == 0 {
            return Err(DropReason::TtlExpired);
        }
        let ends = Ends {
            encapsulation: form,
            path: datagram.path,
        };
        if datagram.asks_first(&inner, start) && !self.tunnels.has(ends) {
            out.control.push(datagram.as_control());
            return Ok(None);
        }
        let opener = self.tunnels.find(ends, &inner)?;
        // Its outer header is anybody's; what is around it proves who sent it.
        if opener.is_nested && !datagram.is_inside {
            return Err(DropReason::ClearPacket);
        }
        // Anybody can write a visitor's address, but not on the visitors' link.
        if let Some(link) = opener.sent_on_from
            && (datagram.is_inside || ![0, datagram.interface].contains(&link))
        {
            return Err(DropReason::ForgedSource);
        }
        opener.count(inner.flow.total_len, now);
        if let Some(task) = opener.task() {
            self.report.work.count(task, inner.flow.total_len as u64);
        }
        let (head, clear) = datagram.bytes.split_at_mut(start);
        // Minimal encapsulation has one IP header for both.
        let (outer, traffic_class) = match form {
            Encapsulation::Minimal => (&mut head[..0], inner.traffic_class),
            Encapsulation::IpInIp | Encapsulation::Gre => (&mut head[..at], datagram.traffic_class),
        };
        let mut unwrap = Unwrap {
            keeps_mss: self.keeps_mss,
            opener,
            path: datagram.path,
            traffic_class,
            outer,
            next_header: IPV4,
            id: 0,
            clear,
            buffer: datagram.buffer,
            start: datagram.start + start,
        };
        let inside = unwrap.deliver(&self.own, self.offloads, out)?;
        Ok(inside.map(|inner| datagram.inside(start, &inner)))
    }
}

impl Datagram<'_> {
    /// In UDP, an echo request to us may complete a tunnel that control knows (RFC 3519 §4.6).
    /// `start` is where `inner` starts.
    fn asks_first(&self, inner: &Inner, start: usize) -> bool {
        let flow = &inner.flow;
        self.path.via == Via::UdpWithType
            && flow.protocol == ICMP
            && !flow.is_fragment
            && flow.destination == self.path.local.ip()
            && self.bytes.get(start + flow.transport) == Some(&icmp::V4_ECHO_REQUEST)
    }

    /// What follows the header of tunnelled data in UDP, and where.
    pub(super) fn tunnelled(&self) -> Result<(Carried, usize), DropReason> {
        let parsed = Message::parse(self.bytes).map_err(reason)?;
        let (Message::Tunnel(header), at) = parsed else {
            return Err(DropReason::WrongEncapsulation);
        };
        match Encapsulation::of(header.next_header) {
            // See `plane/sealer/encapsulate.rs`.
            None | Some(Encapsulation::Minimal) => Err(DropReason::WrongEncapsulation),
            Some(form) => Ok((Carried::Tunnel(form), at)),
        }
    }
}

fn reason(malformed: Malformed) -> DropReason {
    match malformed {
        Malformed::Truncated(_) => DropReason::Truncated,
        Malformed::Value(_) | Malformed::Length(_) => DropReason::WrongEncapsulation,
        _ => DropReason::BadInnerPacket,
    }
}
