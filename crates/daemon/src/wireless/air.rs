//! The air: frames of 802.11 in Ethernet frames of a type for experiments, on an interface that
//! others share.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use engine::link::wireless::MAX_GROWTH;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{MsgFlags, recv};
use wire::ieee80211::{Address, ETHERNET_LEN, EthernetHeader};

use crate::link::unopened;
use crate::sys::frame::{self, HEADER_BYTES, Instruction, JUMP_IF_EQUAL, LOAD_HALF, RETURN, is};
use crate::sys::{device, set_option};

/// Local experimental ethertype 1 (IEEE 802).
const ETHERTYPE: u16 = 0x88b5;
/// Octets before a frame of 802.11 in a buffer.
pub(super) const BEFORE: usize = HEADER_BYTES + ETHERNET_LEN;
/// Octets that the socket may hold while we are not running.
const BUFFER_BYTES: i32 = 16 << 20;

const FILTER: [Instruction; 4] = [
    is(LOAD_HALF, 0, 0, 12),
    is(JUMP_IF_EQUAL, 0, 1, ETHERTYPE as u32),
    is(RETURN, 0, 0, u32::MAX),
    is(RETURN, 0, 0, 0),
];

/// The air.
pub(super) struct Air {
    fd: OwnedFd,
    pub(super) own: Address,
}

/// A frame that was heard.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It ends here in the buffer.
    Frame(usize),
    /// It is for another.
    Other,
    /// It is longer than the buffer, so it is not whole.
    TooLong,
    /// There is none.
    Nothing,
}

impl Air {
    /// Opens an interface. `mtu`: that of the TAP device.
    pub(super) fn open(interface: &str, mtu: u16) -> io::Result<Self> {
        let named = |fault: io::Error| unopened(interface, &fault);
        let fd = frame::open_filtered(&FILTER).map_err(named)?;
        for name in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            // Without CAP_NET_ADMIN the system's maximum applies.
            let _ = set_option(fd.as_fd(), libc::SOL_SOCKET, name, BUFFER_BYTES);
        }
        frame::listen(&fd, interface, &[]).map_err(named)?;
        let own = frame::own_address(fd.as_fd())?.ok_or_else(|| {
            io::Error::other(format!("interface {interface:?} has no Ethernet address"))
        })?;
        let needed = u32::from(mtu) + (MAX_GROWTH + ETHERNET_LEN) as u32;
        let has = device::mtu(interface)?;
        if has < needed {
            let text = format!(
                "interface {interface:?} carries {has} octets, and frames of this link may have \
                 {needed}: `ip link set {interface} mtu {needed}`, at its other end too"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(Self {
            fd,
            own: Address(own),
        })
    }

    /// Receives a frame; that of 802.11 begins after [`BEFORE`] octets.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<Heard> {
        // With the second the length is that of the frame, even if it is longer than the buffer.
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
        match recv(self.fd.as_raw_fd(), buffer, flags) {
            Ok(len) if len <= BEFORE => Ok(Heard::Other),
            Ok(len) => {
                let to: [u8; 6] = *buffer[HEADER_BYTES..].first_chunk().expect("a header");
                let to = Address(to);
                match to == self.own || to.is_group() {
                    true if len > buffer.len() => Ok(Heard::TooLong),
                    true => Ok(Heard::Frame(len)),
                    false => Ok(Heard::Other),
                }
            }
            // The second: the interface is down for a while.
            Err(Errno::EAGAIN | Errno::ENETDOWN | Errno::EINTR) => Ok(Heard::Nothing),
            Err(fault) => Err(fault.into()),
        }
    }

    /// Sends a frame of 802.11 that is in `buffer` behind [`BEFORE`] octets.
    pub(super) fn send(&self, buffer: &mut [u8]) -> io::Result<()> {
        let receiver: [u8; 6] = *buffer[BEFORE + 4..].first_chunk().expect("an address");
        let receiver = Address(receiver);
        let header = EthernetHeader {
            destination: match receiver.is_group() {
                true => Address::BROADCAST,
                false => receiver,
            },
            source: self.own,
            ethertype: ETHERTYPE,
        };
        buffer[..HEADER_BYTES].fill(0);
        buffer[HEADER_BYTES..BEFORE].copy_from_slice(&header.octets());
        nix::unistd::write(&self.fd, buffer)?;
        Ok(())
    }
}

impl AsFd for Air {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    use super::*;

    #[test]
    fn a_frame_that_is_longer_than_the_buffer_is_not_taken_for_a_whole_one() {
        let pair = socketpair(
            AddressFamily::Unix,
            SockType::Datagram,
            None,
            SockFlag::empty(),
        );
        let (fd, other) = pair.expect("two sockets");
        let own = Address([2, 0, 0, 0, 0, 1]);
        let air = Air { fd, own };
        let mut buffer = [0; 100];
        for (to, len, wanted) in [
            (own, 99, Heard::Frame(99)),
            (own, 100, Heard::Frame(100)),
            (own, 101, Heard::TooLong),
            (Address::BROADCAST, 5_000, Heard::TooLong),
            (Address([2, 0, 0, 0, 0, 2]), 101, Heard::Other),
        ] {
            let mut frame = vec![7; len];
            frame[HEADER_BYTES..HEADER_BYTES + 6].copy_from_slice(&to.0);
            nix::unistd::write(&other, &frame).expect("room");
            assert_eq!(air.receive(&mut buffer).expect("no fault"), wanted);
        }
        assert_eq!(air.receive(&mut buffer).expect("no fault"), Heard::Nothing);
    }
}
