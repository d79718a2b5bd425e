//! Raw sockets for IP protocols 50 (ESP) and 51 (AH), for security associations without UDP
//! encapsulation. Packets include the IP header in both directions.
//!
//! Linux delivers only the payload to a raw IPv6 socket: the header is rebuilt from ancillary data.
//! Extension headers of the peer are not rebuilt.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

use engine::plane::{Kind, Run};
use nix::libc;
use socket2::{Domain, Protocol, Socket, Type};

use crate::sys::datagram::{self, Incoming, Outgoing};
use crate::sys::set_option;

/// Octets of an IPv6 header: the headroom that received packets need.
pub const HEADER_V6_BYTES: usize = 40;

/// All of them. Any thread may send.
pub struct RawSockets {
    sockets: Vec<Pair>,
}

/// Two sockets of one protocol and family. An ICMP error from anybody fails the next call of a
/// socket that receives errors, so sending uses the other one.
struct Pair {
    kind: Kind,
    is_v4: bool,
    receiving: Socket,
    /// Only sends, and receives no errors.
    sending: Socket,
}

impl RawSockets {
    /// Opens protocols 50 and 51 for IPv4, and for IPv6 if the machine has it. Needs CAP_NET_RAW.
    pub fn open(mark: Option<u32>) -> io::Result<Self> {
        let mut sockets = Vec::new();
        for (kind, protocol) in [(Kind::RawEsp, 50), (Kind::RawAh, 51)] {
            sockets.push(Pair::open(kind, true, protocol, mark)?);
            match Pair::open(kind, false, protocol, mark) {
                Ok(pair) => sockets.push(pair),
                Err(fault) if fault.raw_os_error() == Some(libc::EAFNOSUPPORT) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(Self { sockets })
    }

    /// Each socket with its protocol, for receiving.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, BorrowedFd<'_>)> {
        let each = self.sockets.iter();
        each.map(|pair| (pair.kind, pair.receiving.as_fd()))
    }

    /// Sends one packet including its header. Waits for room.
    pub fn send(&self, run: &Run, packet: &[u8]) -> io::Result<()> {
        let is_v4 = run.path.remote.is_ipv4();
        let fits = |pair: &&Pair| pair.kind == run.kind && pair.is_v4 == is_v4;
        let Some(pair) = self.sockets.iter().find(fits) else {
            return Err(io::Error::from_raw_os_error(libc::EAFNOSUPPORT));
        };
        let mut remote = run.path.remote;
        remote.set_port(0);
        let beside = Outgoing {
            remote,
            source: run.path.local.ip(),
            traffic_class: 0,
            segment_bytes: None,
            never_waits: false,
        };
        datagram::send(pair.sending.as_fd(), packet, &beside).map(drop)
    }
}

impl Pair {
    fn open(kind: Kind, is_v4: bool, protocol: i32, mark: Option<u32>) -> io::Result<Self> {
        let domain = if is_v4 { Domain::IPV4 } else { Domain::IPV6 };
        let receiving = open_one(domain, protocol, mark)?;
        let sending = open_one(domain, protocol, mark)?;
        crate::udp::send_only(&sending, is_v4, 0)?;
        Ok(Self {
            kind,
            is_v4,
            receiving,
            sending,
        })
    }
}

/// Rebuilds the IPv6 header, which the kernel removed, in the headroom before a received payload.
pub fn write_header_v6(packet: &mut [u8], kind: Kind, incoming: &Incoming) {
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (incoming.remote.ip(), incoming.local)
    else {
        return;
    };
    let next = if kind == Kind::RawAh { 51 } else { 50 };
    let class = u32::from(incoming.traffic_class);
    packet[..4].copy_from_slice(&(6u32 << 28 | class << 20).to_be_bytes());
    packet[4..6].copy_from_slice(&(incoming.len as u16).to_be_bytes());
    packet[6] = next;
    packet[7] = incoming.hop_limit;
    write_address(&mut packet[8..24], source);
    write_address(&mut packet[24..40], destination);
}

fn write_address(to: &mut [u8], address: Ipv6Addr) {
    to.copy_from_slice(&address.octets());
}

fn open_one(domain: Domain, protocol: i32, mark: Option<u32>) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::RAW, Some(Protocol::from(protocol)))?;
    if let Some(mark) = mark {
        socket.set_mark(mark)?;
    }
    crate::udp::prepare(&socket, domain == Domain::IPV4)?;
    let (level, name) = if domain == Domain::IPV4 {
        (libc::IPPROTO_IP, libc::IP_HDRINCL)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_HDRINCL)
    };
    set_option(socket.as_fd(), level, name, 1)?;
    Ok(socket)
}
