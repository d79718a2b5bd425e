//! Packet sockets: whole frames of one interface, each behind a virtio-net header.
#![expect(
    unsafe_code,
    reason = "options and addresses of packet sockets are raw"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::libc;
use tokio::io::unix::AsyncFd;

/// Octets of the virtio-net header before each frame.
pub const HEADER_BYTES: usize = 10;

const PACKET_VNET_HDR: i32 = 15;
const PACKET_IGNORE_OUTGOING: i32 = 23;

/// Opens a packet socket on an interface: it receives what arrives there and sends what we write.
pub fn open(interface: &str) -> io::Result<OwnedFd> {
    let fd = unbound()?;
    let index = bind(&fd, interface)?;
    let nothing = [0; 6];
    join(&fd, index, (libc::PACKET_MR_PROMISC, nothing))?;
    Ok(fd)
}

/// One instruction of a filter (linux/filter.h).
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// What it does.
    pub code: u16,
    /// How many instructions to skip if its condition holds.
    pub if_true: u8,
    /// How many to skip if it does not.
    pub if_false: u8,
    /// Its operand.
    pub value: u32,
}

/// Loads two octets.
pub const LOAD_HALF: u16 = 0x28;
/// Loads an octet.
pub const LOAD_BYTE: u16 = 0x30;
/// Loads two octets behind a header.
pub const LOAD_HALF_BEHIND: u16 = 0x48;
/// Loads an octet behind a header.
pub const LOAD_BYTE_BEHIND: u16 = 0x50;
/// Loads the length of an IPv4 header.
pub const LOAD_HEADER_LEN: u16 = 0xb1;
/// Compares.
pub const JUMP_IF_EQUAL: u16 = 0x15;
/// Looks for bits.
pub const JUMP_IF_SET: u16 = 0x45;
/// Ends with the length to keep.
pub const RETURN: u16 = 0x06;

/// An instruction.
pub const fn is(code: u16, if_true: u8, if_false: u8, value: u32) -> Instruction {
    Instruction {
        code,
        if_true,
        if_false,
        value,
    }
}

/// Opens a packet socket for the frames that a filter keeps. It hears nothing before [`listen`].
pub fn open_filtered(filter: &[Instruction]) -> io::Result<OwnedFd> {
    let fd = unbound()?;
    attach(fd.as_fd(), filter)?;
    Ok(fd)
}

/// Gives such a socket an interface, and the frames to groups there. Needs no right.
pub fn listen(fd: &OwnedFd, interface: &str, groups: &[[u8; 6]]) -> io::Result<()> {
    let index = bind(fd, interface)?;
    for group in groups {
        join(fd, index, (libc::PACKET_MR_MULTICAST, *group))?;
    }
    Ok(())
}

/// Gives a socket a filter.
pub fn attach(fd: BorrowedFd<'_>, filter: &[Instruction]) -> io::Result<()> {
    let instruction = |one: &Instruction| libc::sock_filter {
        code: one.code,
        jt: one.if_true,
        jf: one.if_false,
        k: one.value,
    };
    let mut all: Vec<libc::sock_filter> = filter.iter().map(instruction).collect();
    let program = libc::sock_fprog {
        len: all.len() as u16,
        filter: all.as_mut_ptr(),
    };
    let size = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the program and its instructions live, and the kernel copies them.
    let done = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size,
        )
    };
    super::check(done)?;
    Ok(())
}

/// The link-layer address that a socket's interface has now; none if it is not of IEEE 802.
pub fn own_address(fd: BorrowedFd<'_>) -> io::Result<Option<[u8; 6]>> {
    // SAFETY: sockaddr_ll is plain data, for which all zeros is a value.
    let mut own: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointers are those of a live sockaddr_ll and its size.
    let done = unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut own).cast(), &raw mut size) };
    super::check(done)?;
    let address = own.sll_addr.first_chunk().copied();
    Ok(address.filter(|it: &[u8; 6]| usize::from(own.sll_halen) == it.len()))
}

/// Makes a socket one that tasks can wait for. Must run within a tokio runtime.
pub fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is open, and only its owner, the result, closes it.
    let registered = unsafe { AsyncFd::register(fd) };
    registered.map_err(io::Error::from)
}

/// Without a protocol, no frames of other interfaces are queued before the bind.
fn unbound() -> io::Result<OwnedFd> {
    let domain = socket2::Domain::PACKET;
    let socket = socket2::Socket::new(domain, socket2::Type::RAW, None)?;
    let fd = OwnedFd::from(socket);
    super::set_option(fd.as_fd(), libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
    super::set_option(fd.as_fd(), libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
    Ok(fd)
}

/// Returns the interface's index.
fn bind(fd: &OwnedFd, interface: &str) -> io::Result<i32> {
    let protocol = i32::from((libc::ETH_P_ALL as u16).to_be());
    let index = nix::net::if_::if_nametoindex(interface)? as i32;
    // SAFETY: sockaddr_ll is plain data, for which all zeros is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol as u16;
    address.sll_ifindex = index;
    let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer and the size are those of a live sockaddr_ll.
    super::check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size) })?;
    Ok(index)
}

/// Receives frames to a group too, or to every host, as a relay between them must.
fn join(fd: &OwnedFd, index: i32, (kind, group): (i32, [u8; 6])) -> io::Result<()> {
    // SAFETY: packet_mreq is plain data, for which all zeros is a value.
    let mut wanted: libc::packet_mreq = unsafe { std::mem::zeroed() };
    wanted.mr_ifindex = index;
    wanted.mr_type = kind as u16;
    if kind == libc::PACKET_MR_MULTICAST {
        wanted.mr_alen = group.len() as u16;
        wanted.mr_address[..group.len()].copy_from_slice(&group);
    }
    let size = size_of::<libc::packet_mreq>() as libc::socklen_t;
    // SAFETY: the pointer and the size are those of a live packet_mreq.
    let done = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const wanted).cast(),
            size,
        )
    };
    super::check(done).map(drop)
}
