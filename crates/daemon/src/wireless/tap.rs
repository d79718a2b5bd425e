//! The TAP device: what the host sees of a wireless link (linux/if_tun.h). It has no offloads, so
//! that each frame of it is one of the air, and a carrier while the link is usable.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::libc;
use wire::ieee80211::Address;

use crate::sys::device;

/// An open device.
pub(super) struct Tap {
    file: File,
}

impl Tap {
    /// Makes the device and brings it up, without a carrier. It vanishes with the process.
    pub(super) fn open(name: &str, address: Address, mtu: u16) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).write(true);
        options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
        let file = options.open("/dev/net/tun").map_err(crate::tun::missing)?;
        let flags = libc::IFF_TAP | libc::IFF_NO_PI;
        device::attach(file.as_fd(), name, flags).map_err(|fault| taken(name, fault))?;
        let tap = Self { file };
        device::set_hardware_address(name, address.0)?;
        device::set_mtu(name, mtu)?;
        tap.set_carrier(false)?;
        device::set_up(name)?;
        Ok(tap)
    }

    /// Tells the host whether the link is usable.
    pub(super) fn set_carrier(&self, has_carrier: bool) -> io::Result<()> {
        device::set_carrier(self.file.as_fd(), has_carrier)
    }

    /// Reads a frame that the host sends; `None` if there is none.
    pub(super) fn read(&self, frame: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(frame) {
            Ok(len) => Ok(Some(len)),
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => Ok(None),
            // The device is down.
            Err(fault) if fault.raw_os_error() == Some(libc::EIO) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Gives the host a frame.
    pub(super) fn write(&self, frame: &[u8]) -> io::Result<()> {
        (&self.file).write(frame).map(drop)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn taken(name: &str, fault: io::Error) -> io::Error {
    let text = match fault.raw_os_error() {
        Some(libc::EBUSY) => format!("another process has the device {name}"),
        Some(libc::EINVAL) => {
            format!("an interface {name} exists, and it is no TAP device: set another `device`")
        }
        Some(libc::EPERM) => format!("device {name}: {fault}: this needs CAP_NET_ADMIN"),
        _ => return fault,
    };
    io::Error::new(fault.kind(), text)
}
