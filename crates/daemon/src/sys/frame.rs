//! Packet sockets: whole frames of one interface, each behind a virtio-net header.
#![expect(unsafe_code, reason = "binding to an interface takes a raw address")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::libc;

/// Octets of the virtio-net header before each frame.
pub const HEADER_BYTES: usize = 10;

const PACKET_VNET_HDR: i32 = 15;
const PACKET_IGNORE_OUTGOING: i32 = 23;

/// Opens a packet socket on an interface: it receives what arrives there and sends what we write.
pub fn open(interface: &str) -> io::Result<OwnedFd> {
    let protocol = i32::from((libc::ETH_P_ALL as u16).to_be());
    let domain = socket2::Domain::PACKET;
    // Without a protocol, no frames of other interfaces are queued before the bind.
    let socket = socket2::Socket::new(domain, socket2::Type::RAW, None)?;
    let fd = OwnedFd::from(socket);
    super::set_option(fd.as_fd(), libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
    super::set_option(fd.as_fd(), libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
    let index = nix::net::if_::if_nametoindex(interface)?;
    // SAFETY: sockaddr_ll is plain data, for which all zeros is a value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol as u16;
    address.sll_ifindex = index as i32;
    let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer and the size are those of a live sockaddr_ll.
    super::check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size) })?;
    promiscuous(&fd, index as i32)?;
    Ok(fd)
}

/// Receives frames to other hosts' addresses too, as a relay between them must.
fn promiscuous(fd: &OwnedFd, index: i32) -> io::Result<()> {
    // SAFETY: packet_mreq is plain data, for which all zeros is a value.
    let mut wanted: libc::packet_mreq = unsafe { std::mem::zeroed() };
    wanted.mr_ifindex = index;
    wanted.mr_type = libc::PACKET_MR_PROMISC as u16;
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
