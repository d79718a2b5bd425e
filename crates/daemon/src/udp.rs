//! The UDP sockets of IKE and of ESP in UDP (RFC 3947, RFC 3948): one for each port and family.
//!
//! Datagrams leave from the address that the path names. The kernel keeps path MTUs and fragments
//! what is larger (IP_PMTUDISC_WANT): an IKE message with certificates passes at once, and a full
//! ESP datagram is never lost to a path that shrank; what the kernel learns comes back through
//! [`UdpSockets::path_mtu`], so that the engine stops making datagrams that are too large.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use engine::plane::{Kind, Run};
use engine::sa::Path;
use nix::libc;
use socket2::{Domain, Socket, Type};

use crate::sys::datagram::{self, Outgoing, QueuedError};
use crate::sys::set_option;

/// The port of IKE.
const IKE_PORT: u16 = engine::node::IKE_PORT;
/// The port of IKE and ESP through NATs.
pub const NAT_PORT: u16 = engine::node::NAT_T_PORT;
/// What we ask for in each direction; a burst of 64 KiB runs fits many times.
const BUFFER_BYTES: usize = 8 << 20;
const IP_PMTUDISC_WANT: i32 = 1;

/// Which sockets.
#[derive(Clone, Copy, Debug)]
pub struct UdpConfig {
    /// Plain IKE.
    pub ike_port: u16,
    /// IKE behind a marker, and ESP.
    pub nat_port: u16,
    /// SO_MARK of everything that we send, so that routes into the tunnel spare it.
    pub mark: Option<u32>,
}

/// What is said of one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    /// Our port.
    pub port: u16,
    /// ESP may come here: a marker stands before IKE.
    pub carries_esp: bool,
}

/// All of them. Any thread may send.
pub struct UdpSockets {
    sockets: Vec<(Role, bool, Socket)>,
    mark: Option<u32>,
    has_gro: bool,
    gso_refused: AtomicBool,
}

/// What became of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams that the kernel took.
    pub datagrams: u32,
    /// Datagrams that it refused.
    pub failed: u32,
    /// System calls.
    pub calls: u32,
    /// The kernel would not take the run whole: the path may be smaller than we believe.
    pub is_split: bool,
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self {
            ike_port: IKE_PORT,
            nat_port: NAT_PORT,
            mark: None,
        }
    }
}

/// Says what to do where another process has the port.
fn taken(port: u16, fault: io::Error) -> io::Error {
    if fault.kind() != io::ErrorKind::AddrInUse {
        return fault;
    }
    let text = format!(
        "another process has UDP port {port} (`ss -ulpn` names it): one process serves all \
         connections of a host, so put them into one file, or end the other one"
    );
    io::Error::new(fault.kind(), text)
}

impl UdpSockets {
    /// Binds both ports for IPv4, and for IPv6 where the machine has it.
    pub fn bind(config: UdpConfig) -> io::Result<Self> {
        let mut sockets = Vec::new();
        let mut has_gro = true;
        for (port, carries_esp) in [(config.ike_port, false), (config.nat_port, true)] {
            let role = Role { port, carries_esp };
            let v4 = bind_one(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port, config.mark)
                .map_err(|fault| taken(port, fault))?;
            has_gro &= !carries_esp || turn_on_gro(&v4);
            sockets.push((role, true, v4));
            match bind_one(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port, config.mark) {
                Ok(v6) => {
                    has_gro &= !carries_esp || turn_on_gro(&v6);
                    sockets.push((role, false, v6));
                }
                Err(fault) if is_without_family(&fault) => {}
                Err(fault) => return Err(taken(port, fault)),
            }
        }
        Ok(Self {
            sockets,
            mark: config.mark,
            has_gro,
            gso_refused: AtomicBool::new(false),
        })
    }

    /// Each socket with its role, to receive.
    pub fn iter(&self) -> impl Iterator<Item = (Role, BorrowedFd<'_>)> {
        let each = self.sockets.iter();
        each.map(|(role, _, socket)| (*role, socket.as_fd()))
    }

    /// Datagrams that the kernel dropped because nobody had read those before them.
    pub fn overflows(&self) -> u64 {
        let inode = |socket: &Socket| nix::sys::stat::fstat(socket).map(|stat| stat.st_ino);
        let own: Vec<u64> = self
            .sockets
            .iter()
            .filter_map(|(_, _, socket)| inode(socket).ok())
            .collect();
        let tables = ["/proc/net/udp", "/proc/net/udp6"];
        // A machine without the family is without its table.
        let texts = tables.map(|path| std::fs::read_to_string(path).unwrap_or_default());
        texts.iter().map(|text| overflows_of(text, &own)).sum()
    }

    /// The kernel gathers received datagrams (UDP_GRO).
    pub fn has_gro(&self) -> bool {
        self.has_gro
    }

    /// The kernel cuts what we send (UDP_SEGMENT): true until it refused once.
    pub fn has_gso(&self) -> bool {
        !self.gso_refused.load(Ordering::Relaxed)
    }

    /// Sends one datagram without waiting: a control message.
    pub fn send(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let beside = Outgoing {
            remote: path.remote,
            source: path.local.ip(),
            traffic_class: 0,
            segment_bytes: None,
            never_waits: true,
        };
        self.send_patiently(self.of(path)?, bytes, &beside)
    }

    /// Sends a run of sealed datagrams, in one call where the kernel can; waits for room.
    pub fn send_run(&self, run: &Run, bytes: &[u8]) -> Sent {
        debug_assert_eq!(run.kind, Kind::Udp);
        let mut sent = Sent::default();
        let count = bytes.len().div_ceil(run.segment_bytes.max(1)) as u32;
        let Ok(socket) = self.of(&run.path) else {
            sent.failed = count;
            return sent;
        };
        let mut beside = Outgoing {
            remote: run.path.remote,
            source: run.path.local.ip(),
            traffic_class: run.traffic_class,
            segment_bytes: None,
            never_waits: false,
        };
        if count > 1 && self.has_gso() {
            beside.segment_bytes = u16::try_from(run.segment_bytes).ok();
            sent.calls += 1;
            match self.send_patiently(socket, bytes, &beside) {
                Ok(()) => {
                    sent.datagrams = count;
                    return sent;
                }
                Err(fault) if is_gso_refusal(&fault) => {
                    sent.is_split = fault.raw_os_error() != Some(libc::EIO);
                    if !sent.is_split || !self.is_path_below(run) {
                        self.gso_refused.store(true, Ordering::Relaxed);
                    }
                }
                Err(_) => {
                    sent.failed = count;
                    return sent;
                }
            }
            beside.segment_bytes = None;
        }
        for datagram in bytes.chunks(run.segment_bytes.max(1)) {
            sent.calls += 1;
            match self.send_patiently(socket, datagram, &beside) {
                Ok(()) => sent.datagrams += 1,
                Err(_) => sent.failed += 1,
            }
        }
        sent
    }

    /// The largest IP packet that the kernel believes the path carries.
    pub fn path_mtu(&self, path: &Path) -> io::Result<u16> {
        let domain = Domain::for_address(path.remote);
        let probe = Socket::new(domain, Type::DGRAM, None)?;
        if let Some(mark) = self.mark {
            probe.set_mark(mark)?;
        }
        if !path.local.ip().is_unspecified() {
            probe.bind(&SocketAddr::new(path.local.ip(), 0).into())?;
        }
        probe.connect(&path.remote.into())?;
        let (level, name) = if path.remote.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_MTU)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU)
        };
        let mtu = crate::sys::option(probe.as_fd(), level, name)?;
        Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
    }

    fn is_path_below(&self, run: &Run) -> bool {
        let header = if run.path.remote.is_ipv4() { 28 } else { 48 };
        let mtu = self.path_mtu(&run.path);
        mtu.is_ok_and(|mtu| usize::from(mtu) < run.segment_bytes + header)
    }

    /// An ICMP error that came for an earlier datagram is reported by the next call: try again.
    fn send_patiently(&self, socket: &Socket, bytes: &[u8], beside: &Outgoing) -> io::Result<()> {
        match datagram::send(socket.as_fd(), bytes, beside) {
            Err(fault) if is_about_another(&fault) => {
                datagram::send(socket.as_fd(), bytes, beside).map(drop)
            }
            other => other.map(drop),
        }
    }

    fn of(&self, path: &Path) -> io::Result<&Socket> {
        let fits = |(role, is_v4, _): &&(Role, bool, Socket)| {
            role.port == path.local.port() && *is_v4 == path.remote.is_ipv4()
        };
        let found = self.sockets.iter().find(fits);
        found
            .map(|(_, _, socket)| socket)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
    }
}

/// Whether an entry of an error queue says that a path is smaller than a datagram was.
pub fn is_too_big(error: &QueuedError) -> bool {
    error.errno == libc::EMSGSIZE && error.mtu > 0
}

fn bind_one(address: IpAddr, port: u16, mark: Option<u32>) -> io::Result<Socket> {
    let address = SocketAddr::new(address, port);
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    if let Some(mark) = mark {
        socket.set_mark(mark)?;
    }
    prepare(&socket, address.is_ipv4())?;
    if address.is_ipv6() {
        // Not in `prepare`: a raw socket is of one family by itself, and refuses the option.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// What UDP and raw sockets have in common: what is told beside each packet, and buffers.
pub(crate) fn prepare(socket: &Socket, is_v4: bool) -> io::Result<()> {
    let fd = socket.as_fd();
    if is_v4 {
        for name in [libc::IP_PKTINFO, libc::IP_RECVTOS, libc::IP_RECVERR] {
            set_option(fd, libc::IPPROTO_IP, name, 1)?;
        }
        let discover = libc::IP_MTU_DISCOVER;
        set_option(fd, libc::IPPROTO_IP, discover, IP_PMTUDISC_WANT)?;
    } else {
        for name in [
            libc::IPV6_RECVPKTINFO,
            libc::IPV6_RECVTCLASS,
            libc::IPV6_RECVHOPLIMIT,
            libc::IPV6_RECVERR,
        ] {
            set_option(fd, libc::IPPROTO_IPV6, name, 1)?;
        }
        let discover = libc::IPV6_MTU_DISCOVER;
        set_option(fd, libc::IPPROTO_IPV6, discover, IP_PMTUDISC_WANT)?;
    }
    let size = BUFFER_BYTES as i32;
    for (forced, name) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        // Without CAP_NET_ADMIN the system's maximum applies.
        if set_option(fd, libc::SOL_SOCKET, forced, size).is_err() {
            set_option(fd, libc::SOL_SOCKET, name, size)?;
        }
    }
    Ok(())
}

fn turn_on_gro(socket: &Socket) -> bool {
    set_option(socket.as_fd(), libc::SOL_UDP, datagram::UDP_GRO, 1).is_ok()
}

/// EIO: the device cannot checksum. EINVAL, EMSGSIZE: a segment is larger than the path's MTU, or
/// the kernel knows no UDP_SEGMENT.
fn is_gso_refusal(fault: &io::Error) -> bool {
    let code = fault.raw_os_error();
    [libc::EIO, libc::EINVAL, libc::EMSGSIZE]
        .into_iter()
        .any(|refusal| code == Some(refusal))
}

fn is_about_another(fault: &io::Error) -> bool {
    let code = fault.raw_os_error();
    [
        libc::ECONNREFUSED,
        libc::EHOSTUNREACH,
        libc::ENETUNREACH,
        libc::EPROTO,
    ]
    .into_iter()
    .any(|other| code == Some(other))
}

fn is_without_family(fault: &io::Error) -> bool {
    let code = fault.raw_os_error();
    code == Some(libc::EAFNOSUPPORT) || code == Some(libc::EADDRNOTAVAIL)
}

/// A plain socket of the same family, for callers that only need the kernel's choice of address.
pub fn local_address(remote: IpAddr, mark: Option<u32>) -> io::Result<IpAddr> {
    let remote = SocketAddr::new(remote, NAT_PORT);
    let probe = Socket::new(Domain::for_address(remote), Type::DGRAM, None)?;
    if let Some(mark) = mark {
        probe.set_mark(mark)?;
    }
    probe.connect(&remote.into())?;
    Ok(UdpSocket::from(probe).local_addr()?.ip())
}

/// Drops of the sockets with these inodes, in one of the kernel's tables.
fn overflows_of(table: &str, inodes: &[u64]) -> u64 {
    // proc(5): the tenth column is the inode, the last one counts drops.
    let lines = table.lines().skip(1).map(|line| line.split_whitespace());
    let drops = lines.filter_map(|columns| {
        let columns: Vec<&str> = columns.collect();
        let inode = columns.get(9)?.parse().ok()?;
        let drops = columns.last()?.parse::<u64>().ok()?;
        inodes.contains(&inode).then_some(drops)
    });
    drops.sum()
}

#[cfg(test)]
mod tests;
