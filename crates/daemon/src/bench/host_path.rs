//! Measures the path of packets through the host: TUN device and UDP sockets, for a single packet
//! and for bursts of 64.
//!
//! The device is in its own network namespace, so the machine is not touched. Sending over loopback
//! includes the kernel's path to the receiving socket. Packets written to the device have no
//! receiver: the kernel drops them behind the device.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sched::{CloneFlags, unshare};
use wire::ip::checksum::Sum;
use wire::vnet::{Gso, VnetHeader, flags};

use super::{Costs, Stopwatch};
use crate::capture::udp_packet;
use crate::sys::datagram::{Batch, Outgoing, UDP_GRO, send};
use crate::sys::device::{set_address, set_up};
use crate::sys::gather::Gather;
use crate::sys::set_option;
use crate::tun::{FRAME_BYTES, HEADER_BYTES, Tun};

/// Packets of a burst.
const BURST: usize = 64;
/// Octets of each UDP payload: a full packet of an inner MTU of 1000 and 64 in one super-packet.
const PAYLOAD_BYTES: usize = 972;
const OURS: [u8; 4] = [10, 99, 99, 1];
const NOBODY: [u8; 4] = [10, 99, 99, 77];

pub(super) fn measure(
    stopwatch: &Stopwatch,
    missing: &mut Vec<String>,
) -> io::Result<BTreeMap<String, Costs>> {
    let mut costs = BTreeMap::from([("udp".to_owned(), udp(stopwatch)?)]);
    // Only a separate thread can leave the namespace of the others.
    let tun = std::thread::scope(|scope| scope.spawn(|| tun(stopwatch)).join());
    match tun {
        Ok(Ok(tun)) => drop(costs.insert("tun".to_owned(), tun)),
        Ok(Err(fault)) => missing.push(format!(
            "the TUN device needs CAP_NET_ADMIN and a network namespace: {fault}"
        )),
        Err(_) => missing.push("the measurement of the TUN device panicked".to_owned()),
    }
    Ok(costs)
}

fn udp(stopwatch: &Stopwatch) -> io::Result<Costs> {
    let mut costs = Costs::new();
    let mut single = Loopback::new(false)?;
    let mut gathered = Loopback::new(true)?;
    let mut add = |name: &str, ns| costs.insert(name.to_owned(), ns);
    let each = |loopback: &mut Loopback, is_burst, is_send: bool| {
        let mut fault = None;
        let ns = stopwatch.median_ns(|| match loopback.exchange(is_burst) {
            Ok((sent, received)) => (if is_send { sent } else { received }, BURST),
            Err(found) => {
                fault = Some(found);
                (Duration::from_secs(1), 1)
            }
        });
        fault.map_or(Ok(ns), Err)
    };
    add("send_ns_packet", each(&mut single, false, true)?);
    add("receive_ns_packet", each(&mut single, false, false)?);
    add("send_ns_burst", each(&mut gathered, true, true)?);
    add("receive_ns_burst", each(&mut gathered, true, false)?);
    Ok(costs)
}

/// Two sockets on loopback.
struct Loopback {
    from: UdpSocket,
    to: UdpSocket,
    remote: SocketAddr,
    batch: Batch,
}

impl Loopback {
    fn new(gathers: bool) -> io::Result<Self> {
        let to = UdpSocket::bind("127.0.0.1:0")?;
        let size = 4 << 20;
        set_option(to.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, size)?;
        if gathers {
            set_option(to.as_fd(), libc::SOL_UDP, UDP_GRO, 1)?;
        }
        Ok(Self {
            from: UdpSocket::bind("127.0.0.1:0")?,
            remote: to.local_addr()?,
            to,
            batch: Batch::new(if gathers { 16 } else { 1 }, 65_535, 0),
        })
    }

    /// Sends and receives [`BURST`] datagrams and returns how long each took.
    fn exchange(&mut self, is_burst: bool) -> io::Result<(Duration, Duration)> {
        let bytes = vec![0x5a; BURST * PAYLOAD_BYTES];
        let mut beside = Outgoing {
            remote: self.remote,
            source: self.from.local_addr()?.ip(),
            interface: 0,
            traffic_class: 0,
            segment_bytes: is_burst.then_some(PAYLOAD_BYTES as u16),
            never_waits: false,
        };
        let start = Instant::now();
        if is_burst {
            send(self.from.as_fd(), &bytes, &beside)?;
        } else {
            beside.segment_bytes = None;
            for datagram in bytes.chunks(PAYLOAD_BYTES) {
                send(self.from.as_fd(), datagram, &beside)?;
            }
        }
        let sent = start.elapsed();
        let start = Instant::now();
        let mut left = bytes.len();
        while left > 0 {
            let count = self.batch.receive(self.to.as_fd())?;
            if count == 0 {
                return Err(io::Error::other("loopback lost a datagram"));
            }
            let octets = (0..count).map(|index| self.batch.incoming(index).len);
            left = left.saturating_sub(octets.sum());
        }
        Ok((sent, start.elapsed()))
    }
}

fn tun(stopwatch: &Stopwatch) -> io::Result<Costs> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    let tun = Tun::open("bench%d", 1000)?;
    set_address(tun.name(), OURS.into(), 24)?;
    set_up(tun.name())?;
    let mut costs = Costs::new();
    let mut add = |name: &str, ns| costs.insert(name.to_owned(), ns);
    let single = frame(1, tun.granted().vnet_header);
    add(
        "write_ns_packet",
        stopwatch.median_ns(|| (write(&tun, &single, BURST), BURST)),
    );
    if tun.granted().udp_segments {
        let burst = frame(BURST, true);
        add(
            "write_ns_burst",
            stopwatch.median_ns(|| (write(&tun, &burst, 1), BURST)),
        );
    }
    let socket = UdpSocket::bind((std::net::Ipv4Addr::from(OURS), 0))?;
    add("read_ns_packet", read(stopwatch, &tun, &socket, false)?);
    if tun.granted().udp_segments {
        add("read_ns_burst", read(stopwatch, &tun, &socket, true)?);
    }
    Ok(costs)
}

fn write(tun: &Tun, frame: &[u8], times: usize) -> Duration {
    let mut gather = Gather::new();
    let start = Instant::now();
    for _ in 0..times {
        let mut writing = gather.begin();
        writing.push(frame);
        // A frame that the kernel refuses costs the same.
        let _ = tun.write(writing);
    }
    start.elapsed()
}

/// Sends [`BURST`] datagrams into the device and times how long they take to read.
fn read(stopwatch: &Stopwatch, tun: &Tun, from: &UdpSocket, is_burst: bool) -> io::Result<f64> {
    let bytes = vec![0x5a; BURST * PAYLOAD_BYTES];
    let beside = Outgoing {
        remote: SocketAddr::from((NOBODY, 9)),
        source: std::net::IpAddr::from(OURS),
        interface: 0,
        traffic_class: 0,
        segment_bytes: is_burst.then_some(PAYLOAD_BYTES as u16),
        never_waits: false,
    };
    let mut frame = vec![0; FRAME_BYTES];
    let mut fault = None;
    let size = if is_burst { bytes.len() } else { PAYLOAD_BYTES };
    let ns = stopwatch.median_ns(|| {
        for part in bytes.chunks(size) {
            if let Err(found) = send(from.as_fd(), part, &beside) {
                fault = Some(found);
            }
        }
        let start = Instant::now();
        while let Ok(Some(_)) = tun.read(&mut frame) {}
        (start.elapsed(), BURST)
    });
    fault.map_or(Ok(ns), Err)
}

/// `count` datagrams without a receiver, as one frame.
fn frame(count: usize, has_header: bool) -> Vec<u8> {
    let from = SocketAddr::from((NOBODY, 9));
    let to = SocketAddr::from(([10, 99, 99, 78], 9));
    let mut packet = udp_packet(from, to, 0, &vec![0x5a; count * PAYLOAD_BYTES]);
    if !has_header {
        return packet;
    }
    let mut header = VnetHeader::default();
    if count > 1 {
        header.flags = flags::NEEDS_CSUM;
        header.gso = Gso::UdpL4;
        header.gso_size = PAYLOAD_BYTES as u16;
        header.hdr_len = 28;
        header.csum_start = 20;
        header.csum_offset = 6;
        let len = packet.len() - 20;
        let partial = Sum::pseudo_header(from.ip(), to.ip(), 17, len).folded();
        packet[26..28].copy_from_slice(&partial.to_be_bytes());
    }
    let mut frame = vec![0; HEADER_BYTES];
    header.write(&mut frame);
    frame.extend_from_slice(&packet);
    frame
}
