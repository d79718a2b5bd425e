//! Ioctls of TUN devices and of network interfaces.
#![expect(unsafe_code, reason = "ioctls take raw pointers")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::libc;

/// Bits of TUNSETOFFLOAD (linux/if_tun.h).
pub mod offload {
    /// The device may hand us packets without checksums.
    pub const CSUM: u32 = 0x01;
    /// TCP super-packets over IPv4.
    pub const TSO4: u32 = 0x02;
    /// TCP super-packets over IPv6.
    pub const TSO6: u32 = 0x04;
    /// TCP super-packets with ECN bits.
    pub const TSO_ECN: u32 = 0x08;
    /// UDP super-packets over IPv4 (Linux 6.2).
    pub const USO4: u32 = 0x20;
    /// UDP super-packets over IPv6 (Linux 6.2).
    pub const USO6: u32 = 0x40;
}

/// Legacy ethtool commands that turn a feature on or off (linux/ethtool.h).
pub mod feature {
    /// Receive checksums.
    pub const RX_CSUM: u32 = 0x15;
    /// Transmit checksums.
    pub const TX_CSUM: u32 = 0x17;
    /// Scatter and gather.
    pub const SG: u32 = 0x19;
    /// TCP segmentation.
    pub const TSO: u32 = 0x1f;
    /// Generic segmentation.
    pub const GSO: u32 = 0x24;
    /// Generic receive coalescing.
    pub const GRO: u32 = 0x2c;
}

const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
const TUNSETVNETHDRSZ: libc::c_ulong = 0x4004_54d8;
const TUNSETCARRIER: libc::c_ulong = 0x4004_54e2;

/// Attaches an open `/dev/net/tun` to an interface of this name (the kernel replaces a `%d` in it)
/// and returns the actual name.
pub fn attach(tun: BorrowedFd<'_>, name: &str, flags: i32) -> io::Result<String> {
    let mut request = named(name)?;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the argument is a live ifreq, which is what this ioctl reads and writes.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETIFF as _, &raw mut request) })?;
    let name = request.ifr_name.iter().take_while(|&&octet| octet != 0);
    Ok(name.map(|&octet| char::from(octet as u8)).collect())
}

/// Sets the offloads that we understand.
pub fn set_offload(tun: BorrowedFd<'_>, bits: u32) -> io::Result<()> {
    // SAFETY: this ioctl takes its argument by value.
    let done = unsafe {
        libc::ioctl(
            tun.as_raw_fd(),
            TUNSETOFFLOAD as _,
            libc::c_ulong::from(bits),
        )
    };
    check(done)
}

/// Sets the length of the virtio-net header.
pub fn set_header_bytes(tun: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
    // SAFETY: the argument is a live int, which is what this ioctl reads.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETVNETHDRSZ as _, &raw const bytes) })
}

/// Tells the host whether the device's link is usable.
pub fn set_carrier(tun: BorrowedFd<'_>, has_carrier: bool) -> io::Result<()> {
    let value = i32::from(has_carrier);
    // SAFETY: the argument is a live int, which is what this ioctl reads.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETCARRIER as _, &raw const value) })
}

/// Sets an interface's Ethernet address.
pub fn set_hardware_address(name: &str, address: [u8; 6]) -> io::Result<()> {
    let mut request = named(name)?;
    let mut value = libc::sockaddr {
        sa_family: libc::ARPHRD_ETHER,
        sa_data: [0; 14],
    };
    for (to, from) in value.sa_data.iter_mut().zip(address) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_hwaddr = value;
    interface_request(libc::SIOCSIFHWADDR, &mut request)
}

/// Sets an interface's MTU.
pub fn set_mtu(name: &str, mtu: u16) -> io::Result<()> {
    let mut request = named(name)?;
    request.ifr_ifru.ifru_mtu = i32::from(mtu);
    interface_request(libc::SIOCSIFMTU, &mut request)
}

/// Gives an interface an IPv4 address and a prefix length.
pub fn set_address(name: &str, address: std::net::Ipv4Addr, prefix: u8) -> io::Result<()> {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    for (code, value) in [
        (libc::SIOCSIFADDR, address),
        (libc::SIOCSIFNETMASK, std::net::Ipv4Addr::from(mask)),
    ] {
        let mut request = named(name)?;
        let value = socket2::SockAddr::from(std::net::SocketAddr::from((value, 0)));
        // SAFETY: a SockAddr holds at least a sockaddr, and this one an IPv4 one of its size.
        request.ifr_ifru.ifru_addr = unsafe { value.as_ptr().cast::<libc::sockaddr>().read() };
        interface_request(code, &mut request)?;
    }
    Ok(())
}

/// An interface's MTU.
pub fn mtu(name: &str) -> io::Result<u32> {
    let mut request = named(name)?;
    interface_request(libc::SIOCGIFMTU, &mut request)?;
    // SAFETY: SIOCGIFMTU has filled this member of the union.
    Ok(unsafe { request.ifr_ifru.ifru_mtu } as u32)
}

/// Brings an interface up.
pub fn set_up(name: &str) -> io::Result<()> {
    let mut request = named(name)?;
    interface_request(libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: SIOCGIFFLAGS has filled this member of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
    interface_request(libc::SIOCSIFFLAGS, &mut request)
}

/// Turns off one of [`feature`].
pub fn turn_off(name: &str, feature: u32) -> io::Result<()> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    let mut command = [feature, 0];
    let mut request = named(name)?;
    request.ifr_ifru.ifru_data = command.as_mut_ptr().cast();
    interface_request(SIOCETHTOOL, &mut request)
}

fn interface_request(code: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").or_else(|_| {
        let any = socket2::Socket::new(socket2::Domain::PACKET, socket2::Type::RAW, None);
        any.map(std::net::UdpSocket::from)
    })?;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the argument is a live ifreq; whatever it points to lives in the caller.
    check(unsafe { libc::ioctl(fd, code as _, std::ptr::from_mut(request)) })
}

fn named(name: &str) -> io::Result<libc::ifreq> {
    if name.len() >= libc::IFNAMSIZ || name.bytes().any(|octet| octet == 0) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "an interface name has at most {} octets",
                libc::IFNAMSIZ - 1
            ),
        ));
    }
    // SAFETY: ifreq is plain data, for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn check(result: i32) -> io::Result<()> {
    super::check(result).map(drop)
}
