//! Raw sockets for IP protocols 50 (ESP) and 51 (AH), for security associations without UDP
//! encapsulation, for 57 (SKIP), and for 4, 47 and 55, the tunnels of Mobile IPv4. Packets include
//! the IP header in both directions.
//!
//! Linux delivers only the payload to a raw IPv6 socket: the header is rebuilt from ancillary data.
//! Extension headers of the peer are not rebuilt.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use engine::plane::Run;
use nix::libc;
use socket2::{Domain, Protocol, Socket, Type};
use wire::ip::{ipv6, protocol};

use crate::routes::exits::Exits;
use crate::sys::datagram::{self, Incoming, Outgoing};
use crate::sys::set_option;
use crate::udp::Sent;

/// The headroom that received packets need: an IPv6 header.
pub const HEADER_V6_BYTES: usize = ipv6::HEADER_LEN;

/// ESP and AH.
pub const IPSEC: [u8; 2] = [protocol::ESP, protocol::AH];
/// IP in IP, GRE and minimal encapsulation.
pub const TUNNELS: [u8; 3] = [protocol::IPV4, protocol::GRE, protocol::MINIMAL];
/// IPPROTO_RAW: such a socket only sends, and whole packets.
const ANY: i32 = 255;

/// All of them. Any thread may send. A socket that receives does not send: an ICMP error from
/// anybody fails the next call of a socket that receives errors.
pub struct RawSockets {
    receiving: Vec<(u8, Socket)>,
    sending_v4: Socket,
    /// `None`: the machine has no IPv6.
    sending_v6: Option<Socket>,
    exits: Arc<Exits>,
}

impl RawSockets {
    /// Opens these protocols for IPv4, and those of IPsec for IPv6 if the machine has it. Needs
    /// CAP_NET_RAW.
    pub fn open(protocols: &[u8], mark: Option<u32>, exits: Arc<Exits>) -> io::Result<Self> {
        let mut receiving = Vec::new();
        for protocol in protocols.iter().copied() {
            let number = i32::from(protocol);
            let v4 = open_one(Domain::IPV4, number, mark)?;
            let v6 = match IPSEC.contains(&protocol) {
                true => if_there(open_one(Domain::IPV6, number, mark))?,
                false => None,
            };
            receiving.extend(
                [Some(v4), v6]
                    .into_iter()
                    .flatten()
                    .map(|it| (protocol, it)),
            );
        }
        let sending_v4 = open_one(Domain::IPV4, ANY, mark)?;
        crate::udp::send_only(&sending_v4, true, 0)?;
        let sending_v6 = if_there(open_one(Domain::IPV6, ANY, mark))?;
        if let Some(socket) = &sending_v6 {
            crate::udp::send_only(socket, false, 0)?;
        }
        Ok(Self {
            receiving,
            sending_v4,
            sending_v6,
            exits,
        })
    }

    /// Each socket with its protocol, for receiving.
    pub fn iter(&self) -> impl Iterator<Item = (u8, BorrowedFd<'_>)> {
        let each = self.receiving.iter();
        each.map(|(protocol, socket)| (*protocol, socket.as_fd()))
    }

    /// Sends one packet including its header. Waits for room.
    pub fn send(&self, run: &Run, packet: &[u8]) -> Sent {
        let socket = match run.path.remote.is_ipv4() {
            true => Some(&self.sending_v4),
            false => self.sending_v6.as_ref(),
        };
        let Some(socket) = socket else {
            return Sent::none(1);
        };
        let beside = Outgoing {
            remote: run.path.remote,
            source: run.path.local.ip(),
            interface: self.exits.of(run.path.local.ip(), run.path.remote.ip()),
            traffic_class: 0,
            segment_bytes: None,
            never_waits: false,
        };
        match datagram::send(socket.as_fd(), packet, &beside) {
            Ok(_) => Sent {
                datagrams: 1,
                bytes: packet.len(),
                calls: 1,
                ..Sent::default()
            },
            Err(fault) => Sent {
                calls: 1,
                is_too_large: fault.raw_os_error() == Some(libc::EMSGSIZE),
                ..Sent::none(1)
            },
        }
    }
}

/// `None`: the machine does not have the family.
fn if_there(opened: io::Result<Socket>) -> io::Result<Option<Socket>> {
    match opened {
        Err(fault) if fault.raw_os_error() == Some(libc::EAFNOSUPPORT) => Ok(None),
        other => other.map(Some),
    }
}

/// Rebuilds the IPv6 header, which the kernel removed, in the headroom before a received payload.
pub fn write_header_v6(packet: &mut [u8], protocol: u8, incoming: &Incoming) {
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (incoming.remote.ip(), incoming.local)
    else {
        return;
    };
    let class = u32::from(incoming.traffic_class);
    packet[..4].copy_from_slice(&(6u32 << 28 | class << 20).to_be_bytes());
    packet[4..6].copy_from_slice(&(incoming.len as u16).to_be_bytes());
    packet[6] = protocol;
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
