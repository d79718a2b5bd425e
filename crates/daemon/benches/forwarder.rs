//! A tunnel without protection: each frame of a TUN device becomes one UDP datagram, and the
//! reverse.
//!
//! It is the lower bound for measured tunnels: its round trip costs only system calls and waking
//! sleeping programs, and every tunnel of this design pays at least that. `forwarder DEVICE LOCAL
//! REMOTE` runs until it is killed.

use std::error::Error;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use daemon::sys::gather::Gather;
use daemon::tun::{FRAME_BYTES, Tun};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

const MTU: u16 = 1400;

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo bench` and `cargo test --benches` pass options of their own and no addresses.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, local, remote] = arguments.as_slice() else {
        eprintln!("forwarder DEVICE LOCAL REMOTE");
        return Ok(());
    };
    let tun = Tun::open(device, MTU)?;
    let udp = UdpSocket::bind(local.parse::<SocketAddr>()?)?;
    udp.connect(remote.parse::<SocketAddr>()?)?;
    udp.set_nonblocking(true)?;
    tun.set_up()?;
    println!("ready");
    let mut frame = vec![0; FRAME_BYTES];
    let mut gather = Gather::new();
    loop {
        let mut waiting = [
            PollFd::new(tun.as_fd(), PollFlags::POLLIN),
            PollFd::new(udp.as_fd(), PollFlags::POLLIN),
        ];
        poll(&mut waiting, PollTimeout::NONE)?;
        let [from_tun, from_udp] = waiting.map(|each| each.any() == Some(true));
        if from_tun && let Some(len) = tun.read(&mut frame)? {
            // A frame that the kernel has no room for is lost, as on any link.
            let _ = udp.send(&frame[..len]);
        }
        if from_udp {
            match udp.recv(&mut frame) {
                Ok(len) => {
                    let mut writing = gather.begin();
                    writing.push(&frame[..len]);
                    let _ = tun.write(writing);
                }
                Err(fault) if is_passing(fault.kind()) => {}
                Err(fault) => return Err(fault.into()),
            }
        }
    }
}

/// Nothing was there, or the other end is down.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::ConnectionRefused)
}
