//! Datagrams with their ancillary data: source address, traffic class, segment size.
#![expect(unsafe_code, reason = "message headers are raw pointers")]

use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

/// Room for all control messages that we receive or send.
const CONTROL_BYTES: usize = 192;
/// linux/udp.h
pub const UDP_SEGMENT: i32 = 103;
/// linux/udp.h
pub const UDP_GRO: i32 = 104;

/// linux/errqueue.h
const SO_EE_ORIGIN_ICMP: u8 = 2;
/// linux/errqueue.h
const SO_EE_ORIGIN_ICMP6: u8 = 3;

/// The ancillary data of a sent datagram.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// The destination.
    pub remote: SocketAddr,
    /// Our source address; unspecified: the kernel chooses.
    pub source: IpAddr,
    /// The number of the interface by which it leaves; 0: the kernel chooses. Needs a source.
    pub interface: u32,
    /// TOS or traffic class.
    pub traffic_class: u8,
    /// Split into datagrams of this size (UDP_SEGMENT); `None`: it is one.
    pub segment_bytes: Option<u16>,
    /// Fail rather than wait for room.
    pub never_waits: bool,
}

/// The ancillary data of a received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// The sender.
    pub remote: SocketAddr,
    /// Our address that received it.
    pub local: IpAddr,
    /// Index of the interface, 0 if the kernel did not say.
    pub interface: u32,
    /// TOS or traffic class, 0 if the kernel did not say.
    pub traffic_class: u8,
    /// IPv6 hop limit, 0 if the kernel did not say.
    pub hop_limit: u8,
    /// Octets of each datagram but the last (UDP_GRO); `None`: it is one.
    pub segment_bytes: Option<NonZeroUsize>,
    /// Octets received.
    pub len: usize,
    /// The buffer was too small and the rest is lost.
    pub is_truncated: bool,
}

/// Octets kept of the packet that an error quotes: the longest IP header and the beginning of ESP
/// or AH.
const QUOTED_BYTES: usize = 80;

/// An entry of an error queue (IP_RECVERR).
#[derive(Clone, Copy, Debug)]
pub struct QueuedError {
    /// The datagram's destination.
    pub destination: SocketAddr,
    /// The error as errno.
    pub errno: i32,
    /// The ICMP message. None if our own host refused a datagram.
    pub icmp: Option<Icmp>,
    /// With EMSGSIZE: the reported MTU.
    pub mtu: u32,
    quoted: [u8; QUOTED_BYTES],
    quoted_len: usize,
}

/// The ICMP message, of the destination's family.
#[derive(Clone, Copy, Debug)]
pub struct Icmp {
    /// Its type.
    pub kind: u8,
    /// Its code.
    pub code: u8,
    /// Who sent it.
    pub by: IpAddr,
}

impl QueuedError {
    /// The start of the kernel's copy of the datagram: the payload for UDP, the whole packet for
    /// raw sockets.
    pub fn quoted(&self) -> &[u8] {
        &self.quoted[..self.quoted_len]
    }
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct ControlBuffer([u8; CONTROL_BYTES]);

/// One `sendmsg`.
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8], beside: &Outgoing) -> io::Result<usize> {
    let name = socket2::SockAddr::from(beside.remote);
    let mut slice = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut control = ControlBuffer([0; CONTROL_BYTES]);
    // SAFETY: msghdr is plain data, for which all zeros is a value.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_name = name.as_ptr().cast_mut().cast();
    header.msg_namelen = name.len();
    header.msg_iov = &raw mut slice;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES;
    let used = write_control(&mut header, beside);
    header.msg_controllen = used;
    if used == 0 {
        header.msg_control = std::ptr::null_mut();
    }
    let flags = if beside.never_waits {
        libc::MSG_DONTWAIT
    } else {
        0
    };
    // SAFETY: every pointer of the header is to a live variable of the size given beside it; the
    // kernel only reads them.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const header, flags) };
    if sent < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(sent as usize)
    }
}

fn write_control(header: &mut libc::msghdr, beside: &Outgoing) -> usize {
    let mut writer = ControlWriter {
        // SAFETY: msg_control and msg_controllen describe a live, aligned, zeroed buffer.
        at: unsafe { libc::CMSG_FIRSTHDR(header) },
        header,
        used: 0,
    };
    let class = i32::from(beside.traffic_class);
    match beside.remote {
        SocketAddr::V4(_) => {
            if let IpAddr::V4(source) = beside.source
                && !source.is_unspecified()
            {
                let chosen = libc::in_pktinfo {
                    ipi_ifindex: beside.interface.cast_signed(),
                    ipi_spec_dst: libc::in_addr {
                        s_addr: u32::from_ne_bytes(source.octets()),
                    },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                writer.push(libc::IPPROTO_IP, libc::IP_PKTINFO, chosen);
            }
            if class != 0 {
                writer.push(libc::IPPROTO_IP, libc::IP_TOS, class);
            }
        }
        SocketAddr::V6(remote) => {
            if let IpAddr::V6(source) = beside.source
                && !source.is_unspecified()
            {
                let chosen = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr {
                        s6_addr: source.octets(),
                    },
                    ipi6_ifindex: match remote.scope_id() {
                        0 => beside.interface,
                        scope => scope,
                    },
                };
                writer.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, chosen);
            }
            if class != 0 {
                writer.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class);
            }
        }
    }
    if let Some(segment) = beside.segment_bytes {
        writer.push(libc::SOL_UDP, UDP_SEGMENT, segment);
    }
    writer.used
}

/// Appends control messages to a header's buffer.
struct ControlWriter<'a> {
    header: &'a libc::msghdr,
    at: *mut libc::cmsghdr,
    used: usize,
}

impl ControlWriter<'_> {
    fn push<T: Copy>(&mut self, level: i32, kind: i32, value: T) {
        let size = size_of::<T>() as u32;
        // SAFETY: `at` is inside the zeroed buffer of CONTROL_BYTES, which has room for all three
        // messages that `write_control` may push; CMSG_DATA is written unaligned.
        unsafe {
            assert!(!self.at.is_null(), "room for each control message");
            (*self.at).cmsg_level = level;
            (*self.at).cmsg_type = kind;
            (*self.at).cmsg_len = libc::CMSG_LEN(size) as usize;
            libc::CMSG_DATA(self.at).cast::<T>().write_unaligned(value);
            self.used += libc::CMSG_SPACE(size) as usize;
            self.at = libc::CMSG_NXTHDR(self.header, self.at);
        }
    }
}

/// Buffers for one `recvmmsg`, reused.
pub struct Batch {
    bytes: Vec<u8>,
    stride: usize,
    headroom: usize,
    capacity: usize,
    headers: Vec<libc::mmsghdr>,
    slices: Vec<libc::iovec>,
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<ControlBuffer>,
}

/// Buffers start at different offsets of a page, so their first lines share no cache set.
const STRIDE_EXTRA: usize = 192;

impl Batch {
    /// `count` buffers of `capacity` octets, each with `headroom` octets before the received data.
    /// Memory that has never received data is not resident.
    pub fn new(count: usize, capacity: usize, headroom: usize) -> Self {
        let stride = (capacity + headroom).next_multiple_of(64) + STRIDE_EXTRA;
        // SAFETY: all three are plain data, for which all zeros is a value.
        let (header, slice, name) = unsafe { (zeroed(), zeroed(), zeroed()) };
        Self {
            bytes: vec![0; stride * count],
            stride,
            headroom,
            capacity,
            headers: vec![header; count],
            slices: vec![slice; count],
            names: vec![name; count],
            controls: vec![ControlBuffer([0; CONTROL_BYTES]); count],
        }
    }

    /// Receives the waiting datagrams without blocking. Returns their number, which may be 0.
    pub fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        let count = self.headers.len();
        let base = self.bytes.as_mut_ptr();
        for index in 0..count {
            self.slices[index] = libc::iovec {
                // SAFETY: within the allocation, which has `stride` octets for each index.
                iov_base: unsafe { base.add(index * self.stride + self.headroom) }.cast(),
                iov_len: self.capacity,
            };
            let header = &mut self.headers[index].msg_hdr;
            header.msg_name = (&raw mut self.names[index]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut self.slices[index];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[index].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL_BYTES;
            header.msg_flags = 0;
        }
        // SAFETY: each header points to live memory of `self` of the sizes given beside it.
        let received = unsafe {
            libc::recvmmsg(
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        match super::check(received) {
            Ok(received) => Ok(received as usize),
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(fault) => Err(fault),
        }
    }

    /// The ancillary data of the datagram in this buffer, after [`Batch::receive`] filled it.
    pub fn incoming(&self, index: usize) -> Incoming {
        let header = &self.headers[index];
        let remote = read_name(&self.names[index]).unwrap_or(UNKNOWN);
        let mut incoming = Incoming {
            remote,
            local: unspecified(remote),
            interface: 0,
            traffic_class: 0,
            hop_limit: 0,
            segment_bytes: None,
            len: (header.msg_len as usize).min(self.capacity),
            is_truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        };
        read_control(&header.msg_hdr, |level, kind, data| {
            incoming.take(level, kind, data);
        });
        incoming
    }

    /// The octets of a buffer from its headroom on, `len` after it.
    pub fn bytes_mut(&mut self, index: usize, len: usize) -> &mut [u8] {
        let start = index * self.stride;
        &mut self.bytes[start..start + self.headroom + len.min(self.capacity)]
    }

    /// The same for reading.
    pub fn bytes(&self, index: usize, len: usize) -> &[u8] {
        let start = index * self.stride;
        &self.bytes[start..start + self.headroom + len.min(self.capacity)]
    }
}

impl Incoming {
    /// Octets of each datagram but the last; at least 1.
    pub fn segment(&self) -> usize {
        let whole = self.len.max(1);
        self.segment_bytes.map_or(whole, NonZeroUsize::get)
    }

    fn take(&mut self, level: i32, kind: i32, data: &[u8]) {
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // struct in_pktinfo: interface, our address, the header's destination.
                if let Some(octets) = octets::<4>(data, 4) {
                    self.local = IpAddr::V4(Ipv4Addr::from(octets));
                }
                if let Some(octets) = octets::<4>(data, 0) {
                    self.interface = u32::from_ne_bytes(octets);
                }
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                if let Some(octets) = octets::<16>(data, 0) {
                    self.local = IpAddr::V6(Ipv6Addr::from(octets));
                }
                if let Some(octets) = octets::<4>(data, 16) {
                    self.interface = u32::from_ne_bytes(octets);
                }
            }
            (libc::IPPROTO_IP, libc::IP_TOS) => {
                self.traffic_class = data.first().copied().unwrap_or(0);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => self.traffic_class = integer(data) as u8,
            (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => self.hop_limit = integer(data) as u8,
            (libc::SOL_UDP, UDP_GRO) => {
                let segment = usize::try_from(integer(data));
                self.segment_bytes = segment.ok().and_then(NonZeroUsize::new);
            }
            _ => {}
        }
    }
}

/// Takes one entry from a socket's error queue; `None` if it is empty.
pub fn receive_error(fd: BorrowedFd<'_>) -> io::Result<Option<QueuedError>> {
    let mut control = ControlBuffer([0; CONTROL_BYTES]);
    let mut quoted = [0; QUOTED_BYTES];
    let mut slice = libc::iovec {
        iov_base: quoted.as_mut_ptr().cast(),
        iov_len: QUOTED_BYTES,
    };
    // SAFETY: both are plain data, for which all zeros is a value.
    let (mut name, mut header): (libc::sockaddr_storage, libc::msghdr) =
        unsafe { (zeroed(), zeroed()) };
    header.msg_iov = &raw mut slice;
    header.msg_iovlen = 1;
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_BYTES;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: every pointer of the header is to a live variable of the size given beside it.
    let got = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, flags) };
    if got < 0 {
        let fault = io::Error::last_os_error();
        return match fault.kind() {
            io::ErrorKind::WouldBlock => Ok(None),
            _ => Err(fault),
        };
    }
    let mut error = QueuedError {
        destination: read_name(&name).unwrap_or(UNKNOWN),
        errno: 0,
        icmp: None,
        mtu: 0,
        quoted,
        quoted_len: (got as usize).min(QUOTED_BYTES),
    };
    read_control(&header, |level, kind, data| {
        let is_error = (level, kind) == (libc::IPPROTO_IP, libc::IP_RECVERR)
            || (level, kind) == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR);
        if is_error && data.len() >= 16 {
            // struct sock_extended_err: errno; origin, type, code, padding; info; data. A sockaddr
            // of the sender follows.
            error.errno = integer(data);
            error.icmp = [SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6]
                .contains(&data[4])
                .then(|| Icmp {
                    kind: data[5],
                    code: data[6],
                    by: offender(&data[16..]).unwrap_or_else(|| UNKNOWN.ip()),
                });
            error.mtu = integer(&data[8..]) as u32;
        }
    });
    Ok(Some(error))
}

/// Calls `each` with level, type and data of every control message from the kernel.
fn read_control(header: &libc::msghdr, mut each: impl FnMut(i32, i32, &[u8])) {
    // SAFETY: the kernel wrote msg_controllen octets of whole control messages to the buffer that
    // msg_control points to, which its owner keeps alive during this call.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while !at.is_null() {
            let empty = libc::CMSG_LEN(0) as usize;
            let len = ((*at).cmsg_len as usize).saturating_sub(empty);
            let data = std::slice::from_raw_parts(libc::CMSG_DATA(at), len);
            each((*at).cmsg_level, (*at).cmsg_type, data);
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
}

const UNKNOWN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

fn unspecified(like: SocketAddr) -> IpAddr {
    match like {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

fn read_name(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let any = MaybeUninit::new(*name);
    match i32::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that this is a sockaddr_in, which is smaller.
            let v4 = unsafe { any.as_ptr().cast::<libc::sockaddr_in>().read() };
            let address = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            let port = u16::from_be(v4.sin_port);
            Some(SocketAddr::V4(SocketAddrV4::new(address, port)))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this is a sockaddr_in6, which is smaller.
            let v6 = unsafe { any.as_ptr().cast::<libc::sockaddr_in6>().read() };
            let address = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            let scope = v6.sin6_scope_id;
            Some(SocketAddr::V6(SocketAddrV6::new(address, port, 0, scope)))
        }
        _ => None,
    }
}

/// The address of a sockaddr that follows a sock_extended_err.
fn offender(name: &[u8]) -> Option<IpAddr> {
    match i32::from(u16::from_ne_bytes(octets(name, 0)?)) {
        libc::AF_INET => Some(octets::<4>(name, 4)?.into()),
        libc::AF_INET6 => Some(octets::<16>(name, 8)?.into()),
        _ => None,
    }
}

fn integer(data: &[u8]) -> i32 {
    octets::<4>(data, 0).map_or(0, i32::from_ne_bytes)
}

fn octets<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at + N)?.try_into().ok()
}
