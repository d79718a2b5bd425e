//! The UDP sockets of IKE and of ESP in UDP (RFC 3947, RFC 3948): one for each port and family.
//!
//! Datagrams leave from the path's local address. Path MTUs that the kernel learned are ignored
//! (IP_PMTUDISC_PROBE): it believes any ICMP message for ten minutes, and anybody can send one. ESP
//! leaves whole, with DF set, and the engine judges the reports. Messages that must arrive even if
//! too large, above all IKE messages with certificates, leave through another socket, which may
//! fragment them.
//!
//! Sending sockets receive nothing, not even errors: the kernel reports an ICMP error by failing
//! the next call, whatever its destination, so anybody's ICMP would cost packets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::ike::{NotReached, Unreachable};
use engine::plane::Run;
use engine::plane::trouble::Unreached;
use engine::sa::{Path, Via};
use nix::libc;
use socket2::{Domain, Socket, Type};

use crate::routes::LinkMtus;
use crate::routes::exits::Exits;
use crate::sys::datagram::{self, Outgoing, QueuedError};
use crate::sys::set_option;

/// The buffer size that we request in each direction. A burst of 64 KiB runs fits many times.
const BUFFER_BYTES: usize = 8 << 20;
/// linux/in.h, linux/in6.h: set DF and ignore the kernel's own path MTU.
const PMTUDISC_PROBE: i32 = 3;
/// Clear DF, fragment what is larger than the link, and learn nothing from ICMP.
const PMTUDISC_OMIT: i32 = 5;
/// The MTU of every IPv6 path (RFC 8200 §5). Routers do not fragment: we fragment to it at once.
const LEAST_V6_MTU: i32 = 1_280;
/// Groups that nobody joins (RFC 6676 §2, RFC 3849). A socket bound to one receives nothing but
/// still sends from its port.
const NO_GROUP_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(233, 252, 0, 255));
const NO_GROUP_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0x0db8, 0xffff));

/// The ports and mark of the sockets.
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// Our ports, and how datagrams travel over each.
    pub ports: Vec<(u16, Via)>,
    /// SO_MARK of everything that we send, so that it bypasses routes into the tunnel.
    pub mark: Option<u32>,
}

/// The role of one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    /// Our port.
    pub port: u16,
    /// How its datagrams travel.
    pub via: Via,
}

/// All UDP sockets. Any thread may send.
pub struct UdpSockets {
    sockets: Vec<Port>,
    mark: Option<u32>,
    has_gro: bool,
    gso_refused: AtomicBool,
    links: LinkMtus,
    exits: Arc<Exits>,
}

/// One port of one family.
struct Port {
    role: Role,
    is_v4: bool,
    /// Receives everything, and errors.
    receiving: Socket,
    /// Only sends, datagrams that routers must not fragment.
    whole: Socket,
    /// Only sends, datagrams that may be fragmented.
    fragmenting: Socket,
}

/// The result of sending a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams that the kernel took.
    pub datagrams: u32,
    /// Their octets.
    pub bytes: usize,
    /// Datagrams that it refused.
    pub failed: u32,
    /// System calls.
    pub calls: u32,
    /// A datagram was larger than our own link's MTU.
    pub is_too_large: bool,
}

impl Sent {
    /// So many datagrams have no socket that could send them.
    pub fn none(failed: u32) -> Self {
        Self {
            failed,
            ..Self::default()
        }
    }
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self {
            ports: engine::node::SOCKETS.to_vec(),
            mark: None,
        }
    }
}

/// Explains what to do if another process has the port, or the right to it is missing.
fn taken(port: u16, fault: io::Error) -> io::Error {
    let text = match fault.kind() {
        io::ErrorKind::AddrInUse => format!(
            "another process has UDP port {port} (`ss -ulpn` names it): one process serves all \
             connections of a host, so put them into one file, or end the other one"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "UDP port {port} needs CAP_NET_BIND_SERVICE, as ports below 1024 do: run as root, or \
             under a service manager that grants it"
        ),
        _ => return fault,
    };
    io::Error::new(fault.kind(), text)
}

impl UdpSockets {
    /// Binds each port for IPv4, and for IPv6 if the machine has it.
    pub fn bind(config: UdpConfig) -> io::Result<Self> {
        let mut sockets = Vec::new();
        let mut has_gro = true;
        for (port, via) in config.ports {
            let role = Role { port, via };
            let carries_esp = via == Via::UdpWithMarker;
            let v4 = Port::bind(IpAddr::V4(Ipv4Addr::UNSPECIFIED), role, config.mark)
                .map_err(|fault| taken(port, fault))?;
            has_gro &= !carries_esp || turn_on_gro(&v4.receiving);
            sockets.push(v4);
            match Port::bind(IpAddr::V6(Ipv6Addr::UNSPECIFIED), role, config.mark) {
                Ok(v6) => {
                    has_gro &= !carries_esp || turn_on_gro(&v6.receiving);
                    sockets.push(v6);
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
            links: LinkMtus::default(),
            exits: Arc::default(),
        })
    }

    /// By which links datagrams leave.
    pub fn exits(&self) -> &Arc<Exits> {
        &self.exits
    }

    /// Each socket with its role, for receiving.
    pub fn iter(&self) -> impl Iterator<Item = (Role, BorrowedFd<'_>)> {
        let each = self.sockets.iter();
        each.map(|port| (port.role, port.receiving.as_fd()))
    }

    /// Datagrams that the kernel dropped because the receive queue was full.
    pub fn overflows(&self) -> u64 {
        let inode = |socket: &Socket| nix::sys::stat::fstat(socket).map(|stat| stat.st_ino);
        let own: Vec<u64> = self
            .sockets
            .iter()
            .filter_map(|port| inode(&port.receiving).ok())
            .collect();
        let tables = ["/proc/net/udp", "/proc/net/udp6"];
        // Without an address family its table is missing.
        let texts = tables.map(|path| std::fs::read_to_string(path).unwrap_or_default());
        texts.iter().map(|text| overflows_of(text, &own)).sum()
    }

    /// Whether the kernel gathers received datagrams (UDP_GRO).
    pub fn has_gro(&self) -> bool {
        self.has_gro
    }

    /// Whether the kernel splits what we send (UDP_SEGMENT): true until it first refuses.
    pub fn has_gso(&self) -> bool {
        !self.gso_refused.load(Ordering::Relaxed)
    }

    /// Sends one datagram without waiting: a control message, which may be fragmented.
    pub fn send(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let beside = Outgoing {
            remote: path.remote,
            source: path.local.ip(),
            interface: self.exits.of(path.local.ip(), path.remote.ip()),
            traffic_class: 0,
            segment_bytes: None,
            never_waits: true,
        };
        send(&self.of(path)?.fragmenting, bytes, &beside)
    }

    /// Sends a run of sealed datagrams, in one call if the kernel can. Waits for room.
    pub fn send_run(&self, run: &Run, bytes: &[u8]) -> Sent {
        debug_assert!(matches!(
            run.path.via,
            Via::UdpWithMarker | Via::UdpWithType | Via::UdpWithSkip
        ));
        let count = bytes.len().div_ceil(run.segment_bytes.max(1)) as u32;
        let Ok(port) = self.of(&run.path) else {
            return Sent::none(count);
        };
        let mut beside = Outgoing {
            remote: run.path.remote,
            source: run.path.local.ip(),
            interface: self.exits.of(run.path.local.ip(), run.path.remote.ip()),
            traffic_class: run.traffic_class,
            segment_bytes: None,
            never_waits: false,
        };
        let mut sent = Sent::default();
        if count > 1 && self.has_gso() {
            beside.segment_bytes = u16::try_from(run.segment_bytes).ok();
            sent.calls += 1;
            match send(&port.whole, bytes, &beside) {
                Ok(()) => {
                    (sent.datagrams, sent.bytes) = (count, bytes.len());
                    return sent;
                }
                Err(fault) if is_gso_refusal(&fault) => {
                    // Linux reports either error for a segment that is larger than the link.
                    let is_for_good = match fault.raw_os_error() {
                        Some(libc::EMSGSIZE) => false,
                        Some(libc::EINVAL) => !self.is_above_link(run),
                        _ => true,
                    };
                    self.gso_refused.fetch_or(is_for_good, Ordering::Relaxed);
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
            match self.send_one(port, run.is_oversize, datagram, &beside, &mut sent) {
                Ok(()) => {
                    sent.datagrams += 1;
                    sent.bytes += datagram.len();
                }
                Err(_) => sent.failed += 1,
            }
        }
        sent
    }

    /// The MTU of our own link on this path.
    pub fn link_mtu(&self, path: &Path) -> io::Result<u16> {
        self.links.of(route_ends(path), self.mark)
    }

    /// Sends one datagram. One that our own link cannot carry whole leaves in fragments.
    fn send_one(
        &self,
        port: &Port,
        is_oversize: bool,
        datagram: &[u8],
        beside: &Outgoing,
        sent: &mut Sent,
    ) -> io::Result<()> {
        if !is_oversize {
            match send(&port.whole, datagram, beside) {
                Err(fault) if fault.raw_os_error() == Some(libc::EMSGSIZE) => {}
                other => return other,
            }
            sent.is_too_large = true;
            sent.calls += 1;
        }
        send(&port.fragmenting, datagram, beside)
    }

    fn is_above_link(&self, run: &Run) -> bool {
        let header = if run.path.remote.is_ipv4() { 28 } else { 48 };
        // It may have become smaller just now.
        let mtu = self.links.now(route_ends(&run.path), self.mark);
        mtu.is_ok_and(|mtu| usize::from(mtu) < run.segment_bytes + header)
    }

    fn of(&self, path: &Path) -> io::Result<&Port> {
        let fits = |port: &&Port| port.role.via == path.via && port.is_v4 == path.remote.is_ipv4();
        let found = self.sockets.iter().find(fits);
        found.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
    }
}

impl Port {
    fn bind(address: IpAddr, role: Role, mark: Option<u32>) -> io::Result<Self> {
        let is_v4 = address.is_ipv4();
        let receiving = open_one(is_v4, mark)?;
        receiving.bind(&SocketAddr::new(address, role.port).into())?;
        let (whole, fragmenting) = (open_one(is_v4, mark)?, open_one(is_v4, mark)?);
        let (level, name) = match is_v4 {
            true => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
            false => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
        };
        set_option(fragmenting.as_fd(), level, name, PMTUDISC_OMIT)?;
        if !is_v4 {
            set_option(fragmenting.as_fd(), level, libc::IPV6_MTU, LEAST_V6_MTU)?;
        }
        let port = receiving.local_addr()?;
        let port = port.as_socket().map_or(0, |own| own.port());
        let all = [&receiving, &whole, &fragmenting];
        // Only for this moment: nobody else may share the port.
        all.iter().try_for_each(|it| it.set_reuse_address(true))?;
        send_only(&whole, is_v4, port)?;
        send_only(&fragmenting, is_v4, port)?;
        all.iter().try_for_each(|it| it.set_reuse_address(false))?;
        Ok(Self {
            role,
            is_v4,
            receiving,
            whole,
            fragmenting,
        })
    }
}

fn send(socket: &Socket, bytes: &[u8], beside: &Outgoing) -> io::Result<()> {
    datagram::send(socket.as_fd(), bytes, beside).map(drop)
}

/// Whether an entry of an error queue reports that a datagram was too big for its path.
pub fn is_too_big(error: &QueuedError) -> bool {
    error.errno == libc::EMSGSIZE && error.icmp.is_some()
}

/// Why a datagram did not arrive, according to an ICMP message.
pub fn unreachable(error: &QueuedError) -> Option<Unreachable> {
    const DESTINATION_UNREACHABLE: u8 = 3;
    const DESTINATION_UNREACHABLE_V6: u8 = 1;
    let icmp = error.icmp?;
    let why = match (error.destination.is_ipv4(), icmp.kind, icmp.code) {
        // RFC 792, RFC 1122 §3.2.2.1, RFC 1812 §5.2.7.1.
        (true, DESTINATION_UNREACHABLE, 0 | 6 | 11) => NotReached::Network,
        (true, DESTINATION_UNREACHABLE, 1 | 7 | 12) => NotReached::Host,
        (true, DESTINATION_UNREACHABLE, 3) => NotReached::Port,
        (true, DESTINATION_UNREACHABLE, 9 | 10 | 13) => NotReached::Forbidden,
        // RFC 4443 §3.1: codes 5 and 6 are cases of code 1.
        (false, DESTINATION_UNREACHABLE_V6, 0) => NotReached::Network,
        (false, DESTINATION_UNREACHABLE_V6, 1 | 5 | 6) => NotReached::Forbidden,
        (false, DESTINATION_UNREACHABLE_V6, 2 | 3) => NotReached::Host,
        (false, DESTINATION_UNREACHABLE_V6, 4) => NotReached::Port,
        _ => return None,
    };
    Some(Unreachable { why, by: icmp.by })
}

/// The same for a tunnel of Mobile IPv4, where more errors matter (RFC 2003 §4).
pub fn unreached(error: &QueuedError) -> Option<Unreached> {
    const DESTINATION_UNREACHABLE: u8 = 3;
    const TIME_EXCEEDED: u8 = 11;
    let icmp = error.icmp.filter(|_| error.destination.is_ipv4())?;
    match icmp.kind {
        DESTINATION_UNREACHABLE if !is_too_big(error) => Some(Unreached::Code(icmp.code)),
        TIME_EXCEEDED => Some(Unreached::TimeExceeded),
        _ => None,
    }
}

fn open_one(is_v4: bool, mark: Option<u32>) -> io::Result<Socket> {
    let domain = if is_v4 { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::DGRAM, None)?;
    if let Some(mark) = mark {
        socket.set_mark(mark)?;
    }
    prepare(&socket, is_v4)?;
    if !is_v4 {
        // Not in `prepare`: a raw socket has one family anyway, and refuses the option.
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Options of both UDP and raw sockets: ancillary data and buffers.
pub(crate) fn prepare(socket: &Socket, is_v4: bool) -> io::Result<()> {
    let fd = socket.as_fd();
    if is_v4 {
        for name in [libc::IP_PKTINFO, libc::IP_RECVTOS, libc::IP_RECVERR] {
            set_option(fd, libc::IPPROTO_IP, name, 1)?;
        }
        let discover = libc::IP_MTU_DISCOVER;
        set_option(fd, libc::IPPROTO_IP, discover, PMTUDISC_PROBE)?;
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
        set_option(fd, libc::IPPROTO_IPV6, discover, PMTUDISC_PROBE)?;
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

/// Makes a socket receive nothing, not even errors.
pub(crate) fn send_only(socket: &Socket, is_v4: bool, port: u16) -> io::Result<()> {
    let (group, level, name) = match is_v4 {
        true => (NO_GROUP_V4, libc::IPPROTO_IP, libc::IP_RECVERR),
        false => (NO_GROUP_V6, libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
    };
    set_option(socket.as_fd(), level, name, 0)?;
    socket.bind(&SocketAddr::new(group, port).into())
}

fn turn_on_gro(socket: &Socket) -> bool {
    set_option(socket.as_fd(), libc::SOL_UDP, datagram::UDP_GRO, 1).is_ok()
}

/// EIO: the device cannot checksum. EINVAL, EMSGSIZE: a segment is larger than the path's MTU, or
/// the kernel lacks UDP_SEGMENT.
fn is_gso_refusal(fault: &io::Error) -> bool {
    let code = fault.raw_os_error();
    [libc::EIO, libc::EINVAL, libc::EMSGSIZE]
        .into_iter()
        .any(|refusal| code == Some(refusal))
}

fn is_without_family(fault: &io::Error) -> bool {
    let code = fault.raw_os_error();
    code == Some(libc::EAFNOSUPPORT) || code == Some(libc::EADDRNOTAVAIL)
}

/// A plain socket of the same family, for callers that only need the kernel's choice of address.
pub fn local_address(remote: IpAddr, mark: Option<u32>) -> io::Result<IpAddr> {
    let remote = SocketAddr::new(remote, engine::node::NAT_T_PORT);
    let probe = Socket::new(Domain::for_address(remote), Type::DGRAM, None)?;
    if let Some(mark) = mark {
        probe.set_mark(mark)?;
    }
    probe.connect(&remote.into())?;
    Ok(UdpSocket::from(probe).local_addr()?.ip())
}

/// Drops of the sockets with these inodes, from one of the kernel's tables.
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

/// What chooses the route of a path: of a raw one also our address, which a mobile node's home
/// agent may keep.
fn route_ends(path: &Path) -> (Option<Ipv4Addr>, IpAddr) {
    let own = match (path.via, path.local.ip()) {
        (Via::Raw, IpAddr::V4(own)) if !own.is_unspecified() => Some(own),
        _ => None,
    };
    (own, path.remote.ip())
}

#[cfg(test)]
mod tests;
