//! The packet path does not allocate: once its buffers have grown, a plane seals and opens packets,
//! and super-packets of 64 KB, without allocating. Left out: fragmented and reassembled packets,
//! and the first packet of an SA whose keys rest (`rest` of a plane).
//! `python/tests/test_allocations.py` counts allocations of C libraries, in the whole program.

use std::net::{IpAddr, SocketAddr};

use crypto::cipher::Cipher;
use crypto::hash::Hash;
use crypto::packet::{Encryption, Integrity, Protection};
use crypto::rand::Seed;
use engine::plane::{
    Datagrams, InboundChange, InboundPlane, Offloads, OutboundChange, OutboundPlane, Packets,
    Received,
};
use engine::sa::{
    ChildId, Direction, Encapsulation, Ipsec, Keys, Layer, Mode, Path, Protocol, Sa, Secret,
};
use engine::selector::TrafficSelector;
use engine::time::Instant;
use engine::work::Task;

const NOW: Instant = Instant(1);
/// Until buffers have reached their size.
const WARM_UP: usize = 4;
const ROUNDS: usize = 50;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// From virtio_net.h: `VIRTIO_NET_HDR_F_NEEDS_CSUM`, and `gso_type` for TCP over IPv4 and for UDP.
const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_UDP: u8 = 5;

#[test]
fn packets_and_super_packets_ask_for_no_memory() {
    for (protocol, protection) in suites() {
        for mode in [Mode::Tunnel, Mode::Transport] {
            for is_udp in [true, false] {
                if is_udp && protocol == Protocol::Ah {
                    continue;
                }
                let mut pair = Pair::new(protocol, protection, mode, is_udp);
                let ends = pair.ends;
                let frames = [
                    ("64 bytes", frame(ends, UDP, 36, 0)),
                    ("1,280 bytes", frame(ends, TCP, 1_240, 0)),
                    ("a TCP super-packet", frame(ends, TCP, 46 * 1_360, 1_360)),
                    ("a UDP super-packet", frame(ends, UDP, 40 * 1_200, 1_200)),
                ];
                for (name, frame) in frames {
                    let (sealing, opening) = pair.count(&frame);
                    let place = format!("{name}, {protocol:?} {protection:?} {mode:?} {is_udp}");
                    assert_eq!((sealing, opening), (0, 0), "{place}");
                }
            }
        }
    }
}

/// Neither do tunnels of Mobile IPv4: alone, as simultaneous bindings, and in ESP.
#[test]
fn tunnels_ask_for_no_memory() {
    let [here, there] = OUTER.map(IpAddr::from);
    let raw = Path::raw(here, there);
    let in_udp = Path::udp_with_type((here, 434), (there, 434));
    let forms = [
        Encapsulation::IpInIp,
        Encapsulation::Minimal,
        Encapsulation::Gre,
    ];
    for form in forms {
        for (path, is_nested, has_copy) in [
            (raw, false, false),
            (raw, false, true),
            (raw, true, false),
            (in_udp, false, false),
            (in_udp, false, true),
        ] {
            let mut pair = Pair::with_tunnel(form, path, is_nested, has_copy);
            for (name, frame) in [
                ("64 bytes", frame(pair.ends, UDP, 36, 0)),
                ("a super-packet", frame(pair.ends, TCP, 48_000, 1_200)),
            ] {
                let place = format!("{name}, {form:?} {path:?} {is_nested} {has_copy}");
                assert_eq!(pair.count(&frame), (0, 0), "{place}");
            }
            let work = pair.sender.report().work;
            let tasks: Vec<Task> = work.entries().iter().map(|it| it.0).collect();
            assert!(tasks.contains(&Task::Encapsulate(form)));
            assert_eq!(tasks.len(), 1 + usize::from(is_nested));
        }
    }
}

/// A stranger cannot make us allocate either. The answer to a packet that is too large is allocated
/// once.
#[test]
fn refusals_ask_for_no_memory() {
    let (protocol, protection) = suites()[0];
    let mut pair = Pair::new(protocol, protection, Mode::Tunnel, true);
    let elsewhere = ([10, 1, 0, 1].into(), [10, 77, 0, 1].into());
    let mut too_big = frame(pair.ends, UDP, 1_460, 0);
    // DF.
    too_big[16] = 0x40;
    let unknown = frame(elsewhere, UDP, 36, 0);
    for (name, frame, most) in [("no policy", unknown, 0), ("too big", too_big, 1)] {
        for round in 0..WARM_UP + ROUNDS {
            let mut frame = frame.clone();
            let (sender, out) = (&mut pair.sender, &mut pair.datagrams);
            let seen = allocation_counter::measure(|| {
                out.clear();
                sender.seal(&mut frame, NOW, out);
            });
            assert!(pair.datagrams.is_empty(), "{name}");
            assert!(
                round < WARM_UP || seen.count_total <= most,
                "{name}: {seen:?}"
            );
        }
    }
    // A stranger's packet, and a repeated one.
    let sealed = pair.seal(&frame(pair.ends, UDP, 36, 0));
    let mut forged = sealed.clone();
    for (_, bytes) in &mut forged {
        *bytes.last_mut().expect("octets") ^= 1;
    }
    for (name, datagrams) in [("bad ICV", forged), ("replayed", sealed)] {
        for round in 0..WARM_UP + ROUNDS {
            let mut received = datagrams.clone();
            let seen = pair.open(&mut received);
            assert!(round < WARM_UP || seen == 0, "{name}: {seen}");
        }
    }
    assert_eq!(pair.delivered, 1);
}

fn suites() -> Vec<(Protocol, Protection)> {
    let hmac = |encryption, hash| Protection {
        encryption,
        integrity: Integrity::Hmac(hash),
    };
    let alone = |encryption| Protection {
        encryption,
        integrity: Integrity::None,
    };
    let esp = [
        alone(Encryption::AesGcm { key_len: 16 }),
        alone(Encryption::AesGcm { key_len: 32 }),
        alone(Encryption::ChaCha20Poly1305),
        hmac(Encryption::Cbc(Cipher::Aes128), Hash::Sha1),
        hmac(Encryption::Cbc(Cipher::Aes256), Hash::Sha256),
        hmac(Encryption::Cbc(Cipher::TripleDes), Hash::Md5),
        hmac(Encryption::Cbc(Cipher::Des), Hash::Md5),
        hmac(Encryption::Null, Hash::Md5),
        alone(Encryption::Cbc(Cipher::TripleDes)),
    ];
    let ah = [Hash::Md5, Hash::Sha1, Hash::Sha256].map(|hash| hmac(Encryption::Null, hash));
    let esp = esp.into_iter().map(|it| (Protocol::Esp, it));
    esp.chain(ah.map(|it| (Protocol::Ah, it))).collect()
}

/// A run of datagrams and its octets.
type Sealed = (engine::plane::Run, Vec<u8>);

/// A sender, a receiver, and the path between them.
struct Pair {
    sender: OutboundPlane,
    receiver: InboundPlane,
    datagrams: Datagrams,
    packets: Packets,
    /// Inner source and destination.
    ends: (IpAddr, IpAddr),
    delivered: usize,
}

impl Pair {
    fn new(protocol: Protocol, protection: Protection, mode: Mode, is_udp: bool) -> Self {
        let offloads = Offloads {
            has_vnet_header: true,
            has_udp_segments: true,
        };
        let random = Seed::new([1; 32]).stream("iv", 0);
        let mut sender = OutboundPlane::new(random, offloads);
        let mut receiver = InboundPlane::new(offloads);
        for direction in [Direction::Outbound, Direction::Inbound] {
            let sa = Box::new(sa(protocol, protection, mode, is_udp, direction));
            match direction {
                Direction::Outbound => sender.apply(OutboundChange::Install(sa), NOW),
                Direction::Inbound => receiver.apply(InboundChange::Install(sa)),
            };
        }
        Self {
            sender,
            receiver,
            datagrams: Datagrams::new(),
            packets: Packets::new(),
            ends: match mode {
                Mode::Tunnel => ([10, 1, 0, 1].into(), [10, 2, 0, 1].into()),
                Mode::Transport => (OUTER[0].into(), OUTER[1].into()),
            },
            delivered: 0,
        }
    }

    /// With a tunnel between its ends, which goes through ESP if it is nested, and another one for
    /// the same traffic.
    fn with_tunnel(form: Encapsulation, path: Path, is_nested: bool, has_copy: bool) -> Self {
        let (protocol, protection) = suites()[0];
        let mut pair = Self::new(protocol, protection, Mode::Tunnel, true);
        let esp = |direction| Sa {
            mode: Mode::Tunnel,
            ..sa(protocol, protection, Mode::Transport, true, direction)
        };
        let hosts = |address: IpAddr| vec![TrafficSelector::host(address)];
        let (source, destination) = pair.ends;
        let outbound = |path, child| {
            let name = (Direction::Outbound, ChildId(child), child);
            let mut sa = Sa::tunnel(name, form, path, hosts(source), hosts(destination));
            sa.path_mtu = 1_400;
            sa
        };
        let mut tunnel = outbound(path, 2);
        tunnel.is_nested = is_nested;
        let elsewhere = Path::raw(OUTER[0].into(), [203, 0, 113, 2].into());
        let copy = has_copy.then(|| outbound(elsewhere, 3));
        for sa in [esp(Direction::Outbound), tunnel].into_iter().chain(copy) {
            let install = OutboundChange::Install(Box::new(sa));
            pair.sender.apply(install, NOW);
        }
        let name = (Direction::Inbound, ChildId(2), 2);
        let (local, remote) = (hosts(destination), hosts(source));
        let opening = Sa::tunnel(name, form, path.reversed(), local, remote);
        for sa in [esp(Direction::Inbound), opening] {
            pair.receiver.apply(InboundChange::Install(Box::new(sa)));
        }
        pair
    }

    /// Allocations of sealing and of opening, after the warm-up.
    fn count(&mut self, frame: &[u8]) -> (u64, u64) {
        let (mut sealing, mut opening) = (0, 0);
        for round in 0..WARM_UP + ROUNDS {
            let mut frame = frame.to_vec();
            let (sender, out) = (&mut self.sender, &mut self.datagrams);
            let seen = allocation_counter::measure(|| {
                out.clear();
                sender.seal(&mut frame, NOW, out);
            });
            let before = self.delivered;
            let opened = self.open(&mut sealed(&self.datagrams));
            assert!(self.delivered > before, "nothing arrived");
            if round >= WARM_UP {
                sealing += seen.count_total;
                opening += opened;
            }
        }
        (sealing, opening)
    }

    fn seal(&mut self, frame: &[u8]) -> Vec<Sealed> {
        self.datagrams.clear();
        self.sender
            .seal(&mut frame.to_vec(), NOW, &mut self.datagrams);
        sealed(&self.datagrams)
    }

    /// Opens a batch and returns its allocations.
    fn open(&mut self, received: &mut [Sealed]) -> u64 {
        let (receiver, packets) = (&mut self.receiver, &mut self.packets);
        let mut delivered = 0;
        let seen = allocation_counter::measure(|| {
            packets.clear();
            for (number, (run, bytes)) in received.iter_mut().enumerate() {
                let taken = Received {
                    path: run.path.reversed(),
                    traffic_class: run.traffic_class,
                    interface: 0,
                    segment_bytes: run.segment_bytes,
                    bytes,
                };
                receiver.open(number, taken, NOW, packets);
            }
            delivered = packets.writes().count();
        });
        self.delivered += delivered;
        seen.count_total
    }
}

fn sealed(datagrams: &Datagrams) -> Vec<Sealed> {
    let runs = datagrams.runs().iter();
    runs.map(|run| (run.clone(), datagrams.bytes(run).to_vec()))
        .collect()
}

const OUTER: [[u8; 4]; 2] = [[198, 51, 100, 1], [203, 0, 113, 1]];

fn sa(
    protocol: Protocol,
    protection: Protection,
    mode: Mode,
    is_udp: bool,
    direction: Direction,
) -> Sa {
    let [here, there] = OUTER.map(|address| SocketAddr::new(address.into(), 4500));
    let selector = |outer: SocketAddr, net: u8| {
        let (first, last): (IpAddr, IpAddr) = match mode {
            Mode::Tunnel => ([10, net, 0, 0].into(), [10, net, 255, 255].into()),
            Mode::Transport => (outer.ip(), outer.ip()),
        };
        vec![TrafficSelector {
            first,
            last,
            protocol: 0,
            ports: engine::selector::Ports::ANY,
        }]
    };
    let (own, peer) = (selector(here, 1), selector(there, 2));
    let is_sender = direction == Direction::Outbound;
    let (local, remote) = if is_sender { (own, peer) } else { (peer, own) };
    let path = match is_udp {
        true => Path::udp_with_marker(here, there),
        false => Path::raw(here.ip(), there.ip()),
    };
    Sa {
        direction,
        child: ChildId(1),
        layer: Layer::Ipsec(Ipsec {
            protocol,
            spi: 0x1000_0001,
            protection,
            keys: Keys {
                encryption: Secret(vec![7; protection.encryption_key_len()]),
                integrity: Secret(vec![9; protection.integrity_key_len()]),
            },
        }),
        mode,
        has_esn: false,
        replay_window: 1024,
        path: if is_sender { path } else { path.reversed() },
        local,
        remote,
        original: None,
        pool_address: None,
        soft_packets: u64::MAX,
        soft_bytes: u64::MAX,
        copies_df: true,
        path_mtu: 1500,
        is_nested: false,
        sent_on_from: None,
        carried_by: None,
        removes_header: false,
    }
}

/// A packet from a TUN device, with an incomplete checksum. `segment`: a super-packet.
fn frame(ends: (IpAddr, IpAddr), protocol: u8, payload: usize, segment: usize) -> Vec<u8> {
    let (upper, checksum_at): (usize, u8) = if protocol == TCP { (20, 16) } else { (8, 6) };
    let (IpAddr::V4(source), IpAddr::V4(destination)) = ends else {
        panic!("IPv4 addresses");
    };
    let gso = match (segment, protocol) {
        (0, _) => 0,
        (_, TCP) => GSO_TCPV4,
        _ => GSO_UDP,
    };
    let headers = if segment == 0 { 0 } else { 20 + upper as u8 };
    let [low, high] = (segment as u16).to_le_bytes();
    let mut frame = vec![
        NEEDS_CHECKSUM,
        gso,
        headers,
        0,
        low,
        high,
        20,
        0,
        checksum_at,
        0,
    ];
    let mut ip = [
        0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    ip[2..4].copy_from_slice(&((20 + upper + payload) as u16).to_be_bytes());
    ip[12..16].copy_from_slice(&source.octets());
    ip[16..].copy_from_slice(&destination.octets());
    frame.extend(ip);
    let mut header = [0; 20];
    header[..4].copy_from_slice(&[0x9c, 0x40, 0, 80]);
    if protocol == TCP {
        (header[12], header[13]) = (0x50, 0x10);
    } else {
        header[4..6].copy_from_slice(&((upper + payload) as u16).to_be_bytes());
    }
    frame.extend(&header[..upper]);
    frame.extend((0..payload).map(|n| n as u8));
    frame
}
