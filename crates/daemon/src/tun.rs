//! TUN devices with the offloads that the kernel grants (linux/if_tun.h, virtio 1.2 §5.1.6).
//!
//! Leaves out addresses and routes: the control plane sets them.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use engine::plane::Offloads;
use nix::libc;

use crate::sys::{device, gather::Gathering};

/// Largest frame that a device gives: virtio-net header and a 64 KiB packet.
pub const FRAME_BYTES: usize = 65_536 + HEADER_BYTES;
/// Octets of the virtio-net header.
pub const HEADER_BYTES: usize = 10;

/// An open TUN device. Any thread may read or write; each call moves one frame.
pub struct Tun {
    file: File,
    name: String,
    granted: Granted,
}

/// The offloads that the kernel granted, for `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Granted {
    /// Frames carry a virtio-net header.
    pub vnet_header: bool,
    /// Packets may come without checksums.
    pub checksum: bool,
    /// TCP super-packets, both families.
    pub tcp_segments: bool,
    /// The same with ECN bits.
    pub tcp_ecn_segments: bool,
    /// UDP super-packets, both families (Linux 6.2).
    pub udp_segments: bool,
}

/// Sets of offloads, the best first. The first one that the kernel accepts is used.
const WISHES: [u32; 5] = {
    use device::offload::{CSUM, TSO_ECN, TSO4, TSO6, USO4, USO6};
    [
        CSUM | TSO4 | TSO6 | TSO_ECN | USO4 | USO6,
        CSUM | TSO4 | TSO6 | TSO_ECN,
        CSUM | TSO4 | TSO6,
        CSUM,
        0,
    ]
};

/// Explains what to do if another process has the device.
fn taken(fault: io::Error) -> io::Error {
    let text = match fault.raw_os_error() {
        Some(libc::EBUSY) => {
            "another process has a device of this name: `caravan status` shows whether it is \
             caravan; set another name in daemon.tun"
        }
        Some(libc::EINVAL) => {
            "an interface of this name exists, and it is not a TUN device: set another name in \
             daemon.tun"
        }
        _ => return fault,
    };
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}

/// Explains what to do if the machine has no TUN devices.
pub(crate) fn missing(fault: io::Error) -> io::Error {
    if !matches!(fault.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) {
        return fault;
    }
    let text = "/dev/net/tun is missing: `modprobe tun`, or give the container the device \
                (`--device /dev/net/tun`)";
    io::Error::new(fault.kind(), text)
}

impl Tun {
    /// Creates the interface (the kernel replaces a `%d` in the name), sets its MTU, and leaves it
    /// down. It vanishes with the last handle. Needs CAP_NET_ADMIN.
    pub fn open(name: &str, mtu: u16) -> io::Result<Self> {
        let (file, name, vnet_header) = match Self::attach(name, libc::IFF_VNET_HDR) {
            Ok((file, name)) => (file, name, true),
            Err(fault) if fault.raw_os_error() == Some(libc::EINVAL) => {
                let (file, name) = Self::attach(name, 0).map_err(taken)?;
                (file, name, false)
            }
            Err(fault) => return Err(taken(fault)),
        };
        let bits = if vnet_header {
            device::set_header_bytes(file.as_fd(), HEADER_BYTES as i32)?;
            let taken = |bits: &u32| device::set_offload(file.as_fd(), *bits).is_ok();
            WISHES.into_iter().find(taken).unwrap_or(0)
        } else {
            0
        };
        device::set_mtu(&name, mtu)?;
        Ok(Self {
            file,
            name,
            granted: Granted::from_bits(vnet_header, bits),
        })
    }

    fn attach(name: &str, flags: i32) -> io::Result<(File, String)> {
        let mut options = File::options();
        options.read(true).write(true);
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut options,
            libc::O_NONBLOCK | libc::O_CLOEXEC,
        );
        let file = options.open("/dev/net/tun").map_err(missing)?;
        let flags = flags | libc::IFF_TUN | libc::IFF_NO_PI;
        let name = device::attach(file.as_fd(), name, flags)?;
        Ok((file, name))
    }

    /// A device that gives an error to every reader.
    #[cfg(test)]
    pub(crate) fn broken() -> Self {
        let (_, unreadable) = io::pipe().expect("a pipe");
        Self {
            file: File::from(std::os::fd::OwnedFd::from(unreadable)),
            name: "broken".to_owned(),
            granted: Granted::from_bits(false, 0),
        }
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Brings the interface up.
    pub fn set_up(&self) -> io::Result<()> {
        device::set_up(&self.name)
    }

    /// Sets the interface's MTU.
    pub fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        device::set_mtu(&self.name, mtu)
    }

    /// The granted offloads.
    pub fn granted(&self) -> Granted {
        self.granted
    }

    /// The same as the engine's type.
    pub fn offloads(&self) -> Offloads {
        Offloads {
            has_vnet_header: self.granted.vnet_header,
            has_udp_segments: self.granted.udp_segments,
        }
    }

    /// Octets before each packet of a frame.
    pub fn header_bytes(&self) -> usize {
        match self.granted.vnet_header {
            true => HEADER_BYTES,
            false => 0,
        }
    }

    /// Reads one frame of at most [`FRAME_BYTES`]; `None` if there is none.
    pub fn read(&self, frame: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(frame) {
            Ok(len) => Ok(Some(len)),
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Writes one frame.
    pub fn write(&self, frame: Gathering<'_, '_>) -> io::Result<usize> {
        frame.write(self.file.as_fd())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Granted {
    fn from_bits(vnet_header: bool, bits: u32) -> Self {
        use device::offload::{CSUM, TSO_ECN, TSO4, USO4};
        Self {
            vnet_header,
            checksum: bits & CSUM != 0,
            tcp_segments: bits & TSO4 != 0,
            tcp_ecn_segments: bits & TSO_ECN != 0,
            udp_segments: bits & USO4 != 0,
        }
    }
}
