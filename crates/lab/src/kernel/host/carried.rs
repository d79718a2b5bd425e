//! What mobile nodes, agents and firewalls have in common: which packets are for their machines and
//! planes, how those get the bytes, and the datagrams that they send.

use std::net::{IpAddr, SocketAddr};

use engine::plane::TooBig;
use engine::sa::{Encapsulation, Path, Via};
use engine::skip;
use engine::time::Instant;
use engine::work::Work;
use wire::ip::{Flow, icmp, protocol, udp};
use wire::mip4::PORT;

use super::Send;
use crate::kernel::{Port, ip};

/// What a part takes besides tunnels.
#[derive(Clone, Copy)]
pub(super) struct Takes {
    /// Messages of Mobile IPv4, and tunnels in their UDP.
    pub(super) messages: bool,
    /// Packets of SKIP, raw and in UDP.
    pub(super) skip: bool,
}

/// Work that is told once.
#[derive(Default)]
pub(super) struct Meter {
    told: Work,
}

/// Makes IP packets of UDP payloads.
#[derive(Default)]
pub(super) struct Datagrams {
    last_id: u16,
}

/// A machine between two sides: a firewall or a foreign agent.
pub(super) trait Gate {
    /// Whether a packet for our address is for the machine or its planes.
    fn takes(flow: &Flow) -> bool;

    /// Handles a packet that it takes.
    fn open(&mut self, octets: Vec<u8>, flow: &Flow, now: Instant, sends: &mut Vec<Send>);

    /// A packet of a tunnel of ours was too large.
    fn too_big(&mut self, report: &TooBig<'_>, now: Instant);

    /// Handles a packet for another address.
    fn pass(&mut self, octets: Vec<u8>, from: (&Flow, Port), now: Instant, sends: &mut Vec<Send>);
}

impl Takes {
    /// How a packet came, if it is taken.
    pub(super) fn path_of(self, flow: &Flow) -> Option<Path> {
        if flow.protocol == protocol::UDP {
            let (from, to) = flow.ports?;
            let ends = ((flow.destination, to), (flow.source, from));
            return match to {
                PORT if self.messages => Some(Path::udp_with_type(ends.0, ends.1)),
                skip::udp::PORT if self.skip => Some(Path::udp_with_skip(ends.0, ends.1)),
                _ => None,
            };
        }
        let is_skip = self.skip && flow.protocol == protocol::SKIP;
        let is_taken = is_skip || Encapsulation::of(flow.protocol).is_some();
        is_taken.then(|| Path::raw(flow.destination, flow.source))
    }
}

impl Meter {
    /// The work in `all` that was not told before.
    pub(super) fn take(&mut self, all: &Work) -> Work {
        let new = since(all, &self.told);
        self.told.merge(&new);
        new
    }
}

impl Datagrams {
    /// The next packet.
    pub(super) fn packet(
        &mut self,
        from: (IpAddr, u16),
        to: (IpAddr, u16),
        payload: &[u8],
    ) -> Vec<u8> {
        self.last_id = self.last_id.wrapping_add(1);
        ip::udp(from, to, payload, self.last_id)
    }

    /// A sealed payload on its path: a UDP payload, or a whole packet.
    pub(super) fn sealed(&mut self, path: &Path, octets: Vec<u8>) -> Vec<u8> {
        match path.via {
            Via::UdpWithType | Via::UdpWithSkip => {
                let [from, to] = [path.local, path.remote].map(|end| (end.ip(), end.port()));
                self.packet(from, to, &octets)
            }
            _ => octets,
        }
    }
}

/// The bytes for the planes of a packet that came on a path.
pub(super) fn bytes_of<'a>(octets: &'a mut [u8], flow: &Flow, path: &Path) -> &'a mut [u8] {
    let start = match path.via {
        Via::UdpWithType | Via::UdpWithSkip => {
            (flow.transport + udp::HEADER_LEN).min(flow.total_len)
        }
        _ => 0,
    };
    &mut octets[start..flow.total_len]
}

/// What the planes hear of a packet of a tunnel or of SKIP that was too large, if this one says so.
pub(super) fn report_in(octets: &[u8]) -> Option<TooBig<'_>> {
    report_of(&icmp::TooBig::read(octets)?)
}

fn report_of<'a>(told: &icmp::TooBig<'a>) -> Option<TooBig<'a>> {
    let (via, port, quoted) = match told.protocol {
        protocol::UDP => {
            let datagram = &told.quoted[told.header_len..];
            let (header, payload) = datagram.split_at_checked(udp::HEADER_LEN)?;
            let [from, to] = [0, 2].map(|at| u16::from_be_bytes([header[at], header[at + 1]]));
            let via = match from {
                PORT => Via::UdpWithType,
                skip::udp::PORT => Via::UdpWithSkip,
                _ => return None,
            };
            (via, to, payload)
        }
        protocol::SKIP => (Via::Raw, 0, told.quoted),
        other => Encapsulation::of(other).map(|_| (Via::Raw, 0, told.quoted))?,
    };
    Some(TooBig {
        remote: SocketAddr::new(told.destination.into(), port),
        via,
        mtu: told.mtu.into(),
        quoted,
    })
}

/// The work in `all` since `before`, an earlier state of it.
pub fn since(all: &Work, before: &Work) -> Work {
    let mut new = Work::default();
    for &(task, times, bytes) in all.entries() {
        let old = before.entries().iter().find(|entry| entry.0 == task);
        let (old_times, old_bytes) = old.map_or((0, 0), |entry| (entry.1, entry.2));
        if times > old_times {
            new.add(task, times - old_times, bytes - old_bytes);
        }
    }
    new
}
