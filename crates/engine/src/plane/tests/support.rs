//! Packets, suites and a pair of ends for the tests of this module.

use std::net::IpAddr;

use crypto::cipher::Cipher;
use crypto::hash::Hash;
use crypto::packet::{Encryption, Integrity, Protection};
use crypto::rand::Seed;

use crate::counters::DropReason;
use crate::plane::checksum;
use crate::plane::inner::{Inner, put16};
use crate::plane::sealer::{finish_ip_header, write_ip_header};
use crate::plane::{
    Datagrams, InboundChange, InboundPlane, Notice, Offloads, OutboundChange, OutboundPlane,
    Packets, Received, Shape,
};
use crate::sa::{ChildId, Direction, Ipsec, Keys, Layer, Mode, Path, Protocol, Sa, Secret};
use crate::selector::TrafficSelector;
use crate::time::Instant;
use wire::ip::Sum;
use wire::ip::checksum::checksum_offset;

pub(super) const NOW: Instant = Instant(1_000_000_000);
pub(super) const CHILD: ChildId = ChildId(7);
pub(super) const SPI: u32 = 0xc0de_0007;

pub(super) const OFFLOADS: Offloads = Offloads {
    has_vnet_header: true,
    has_udp_segments: true,
};
pub(super) const NO_OFFLOADS: Offloads = Offloads {
    has_vnet_header: false,
    has_udp_segments: false,
};

pub(super) const AES_GCM: Protection = Protection {
    encryption: Encryption::AesGcm { key_len: 16 },
    integrity: Integrity::None,
};

pub(super) fn suites() -> Vec<Protection> {
    let encryptions = [
        Encryption::Null,
        Encryption::Cbc(Cipher::Des),
        Encryption::Cbc(Cipher::TripleDes),
        Encryption::Cbc(Cipher::Aes128),
        Encryption::Cbc(Cipher::Aes192),
        Encryption::Cbc(Cipher::Aes256),
    ];
    let hashes = [
        Hash::Md5,
        Hash::Sha1,
        Hash::Sha256,
        Hash::Sha384,
        Hash::Sha512,
    ];
    let mut suites = Vec::new();
    for encryption in encryptions {
        suites.extend(hashes.map(|hash| Protection {
            encryption,
            integrity: Integrity::Hmac(hash),
        }));
    }
    for encryption in [
        Encryption::Cbc(Cipher::Des),
        Encryption::Cbc(Cipher::TripleDes),
        Encryption::AesGcm { key_len: 16 },
        Encryption::AesGcm { key_len: 24 },
        Encryption::AesGcm { key_len: 32 },
        Encryption::ChaCha20Poly1305,
    ] {
        suites.push(Protection {
            encryption,
            integrity: Integrity::None,
        });
    }
    suites
}

pub(super) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(super) fn path(local: &str, remote: &str) -> Path {
    Path::udp_with_marker((ip(local), 4500), (ip(remote), 4500))
}

pub(super) fn raw_path(local: &str, remote: &str) -> Path {
    Path::raw(ip(local), ip(remote))
}

pub(super) fn within(first: &str, last: &str) -> TrafficSelector {
    TrafficSelector {
        first: ip(first),
        last: ip(last),
        protocol: 0,
        ports: crate::selector::Ports::ANY,
    }
}

/// The client's outbound SA of a tunnel between 10.1.0.0/16 (or fd01::/64) and 10.2.0.0/16 (or
/// fd02::/64).
pub(super) fn tunnel_sa(protection: Protection) -> Sa {
    Sa {
        direction: Direction::Outbound,
        child: CHILD,
        layer: Layer::Ipsec(Ipsec {
            protocol: Protocol::Esp,
            spi: SPI,
            protection,
            keys: Keys {
                encryption: key(protection.encryption_key_len(), 3),
                integrity: key(protection.integrity_key_len(), 5),
            },
        }),
        mode: Mode::Tunnel,
        has_esn: false,
        replay_window: if protection.is_authenticated() {
            128
        } else {
            0
        },
        path: path("198.51.100.1", "203.0.113.1"),
        local: vec![
            within("10.1.0.0", "10.1.255.255"),
            within("fd01::", "fd01::ffff"),
        ],
        remote: vec![
            within("10.2.0.0", "10.2.255.255"),
            within("fd02::", "fd02::ffff"),
        ],
        original: None,
        pool_address: None,
        soft_packets: u64::MAX,
        soft_bytes: u64::MAX,
        copies_df: true,
        path_mtu: 1500,
        is_nested: false,
        carried_by: None,
        removes_header: false,
        sent_on_from: None,
    }
}

fn key(length: usize, seed: u8) -> Secret {
    Secret(
        (0..length as u8)
            .map(|n| n.wrapping_mul(29) ^ seed)
            .collect(),
    )
}

/// The layer of [`tunnel_sa`].
pub(super) fn layer(protection: Protection) -> Ipsec {
    match tunnel_sa(protection).layer {
        Layer::Ipsec(ipsec) => ipsec,
        Layer::Tunnel { .. } | Layer::Skip(_) | Layer::Nothing { .. } => panic!("no IPsec"),
    }
}

/// The shape of an SA that has an IPsec layer.
pub(super) fn shape_of(sa: &Sa) -> Shape {
    match &sa.layer {
        Layer::Ipsec(ipsec) => Shape::of(ipsec, sa.mode, &sa.path),
        Layer::Tunnel { .. } | Layer::Skip(_) | Layer::Nothing { .. } => panic!("no IPsec"),
    }
}

/// The same layer with the same keys.
pub(super) fn copied(layer: &Layer) -> Layer {
    match layer {
        Layer::Ipsec(ipsec) => Layer::Ipsec(Ipsec {
            keys: ipsec.keys.clone(),
            ..*ipsec
        }),
        Layer::Tunnel {
            encapsulation,
            number,
        } => Layer::Tunnel {
            encapsulation: *encapsulation,
            number: *number,
        },
        Layer::Skip(_) => panic!("each end has its own association"),
        Layer::Nothing { number } => Layer::Nothing { number: *number },
    }
}

/// The same SA as the peer has it.
pub(super) fn inbound(sa: &Sa) -> Sa {
    Sa {
        direction: Direction::Inbound,
        layer: copied(&sa.layer),
        path: sa.path.reversed(),
        local: sa.remote.clone(),
        remote: sa.local.clone(),
        ..*sa
    }
}

/// A sending and a receiving plane, and their buffers.
pub(super) struct Pair {
    pub(super) sender: OutboundPlane,
    pub(super) receiver: InboundPlane,
    pub(super) datagrams: Datagrams,
    pub(super) packets: Packets,
}

impl Pair {
    pub(super) fn new(sa: Sa) -> Self {
        Self::with_offloads(sa, OFFLOADS)
    }

    pub(super) fn with_offloads(sa: Sa, offloads: Offloads) -> Self {
        let receiving = inbound(&sa);
        Self::of(sa, receiving, offloads)
    }

    pub(super) fn of(sending: Sa, receiving: Sa, offloads: Offloads) -> Self {
        let mut pair = Self {
            sender: OutboundPlane::new(Seed::new([9; 32]).stream("iv", 0), offloads),
            receiver: InboundPlane::new(offloads),
            datagrams: Datagrams::new(),
            packets: Packets::new(),
        };
        pair.sender
            .apply(OutboundChange::Install(Box::new(sending)), NOW);
        pair.receiver
            .apply(InboundChange::Install(Box::new(receiving)));
        pair
    }

    /// Seals frames and returns all resulting datagrams.
    pub(super) fn seal(&mut self, frames: &[Vec<u8>]) -> Vec<Sent> {
        self.seal_at(NOW, frames)
    }

    /// The same at this moment.
    pub(super) fn seal_at(&mut self, now: Instant, frames: &[Vec<u8>]) -> Vec<Sent> {
        self.datagrams.clear();
        for frame in frames {
            self.sender
                .seal(&mut frame.clone(), now, &mut self.datagrams);
        }
        self.sent()
    }

    /// The packets that waited for children that are now up.
    pub(super) fn release(&mut self, now: Instant) -> Vec<Sent> {
        self.datagrams.clear();
        self.sender.release(now, &mut self.datagrams);
        self.sent()
    }

    fn sent(&self) -> Vec<Sent> {
        let mut sent = Vec::new();
        for run in self.datagrams.runs() {
            let bytes = self.datagrams.bytes(run);
            assert!(bytes.len() <= 65_507 && bytes.len().div_ceil(run.segment_bytes) <= 64);
            sent.extend(bytes.chunks(run.segment_bytes).map(|bytes| Sent {
                path: run.path,
                traffic_class: run.traffic_class,
                bytes: bytes.to_vec(),
            }));
        }
        sent
    }

    /// Opens datagrams one by one, each in a buffer of its own, and returns the writes.
    pub(super) fn open(&mut self, sent: &[Sent]) -> Vec<Vec<u8>> {
        self.open_at(NOW, sent)
    }

    pub(super) fn open_at(&mut self, now: Instant, sent: &[Sent]) -> Vec<Vec<u8>> {
        self.packets.clear();
        let mut buffers: Vec<Vec<u8>> = sent.iter().map(|sent| sent.bytes.clone()).collect();
        for (number, (buffer, sent)) in buffers.iter_mut().zip(sent).enumerate() {
            let received = Received {
                path: sent.path.reversed(),
                traffic_class: sent.traffic_class,
                interface: 0,
                segment_bytes: buffer.len(),
                bytes: buffer,
            };
            self.receiver.open(number, received, now, &mut self.packets);
        }
        let of = |slice: &crate::plane::Slice| buffers[slice.buffer][slice.range.clone()].to_vec();
        self.packets
            .writes()
            .map(|write| {
                let rest = write.slices.iter().flat_map(of);
                write.header.iter().copied().chain(rest).collect()
            })
            .collect()
    }

    pub(super) fn carry(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let sent = self.seal(frames);
        self.open(&sent)
    }

    pub(super) fn received_drops(&self, reason: DropReason) -> u64 {
        self.receiver.report().drops.of(reason)
    }

    pub(super) fn sent_drops(&self, reason: DropReason) -> u64 {
        self.sender.report().drops.of(reason)
    }

    pub(super) fn receiver_notices(&self) -> &[Notice] {
        self.packets.notices()
    }
}

/// A datagram on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) path: Path,
    pub(super) traffic_class: u8,
    pub(super) bytes: Vec<u8>,
}

/// A packet without virtio-net header.
pub(super) fn packet(source: &str, destination: &str, protocol: u8, upper: &[u8]) -> Vec<u8> {
    let ends = (ip(source), ip(destination));
    let header = if ends.0.is_ipv6() { 40 } else { 20 };
    let mut packet = vec![0; header];
    write_ip_header(&mut packet, ends, protocol, 0, (0x1234, 0x4000));
    packet.extend_from_slice(upper);
    let length = packet.len();
    finish_ip_header(&mut packet[..header], length);
    if let Some(at) = checksum_offset(protocol) {
        let upper = &mut packet[header..];
        put16(upper, at, 0);
        let sum = checksum::pseudo_header(ends, protocol)
            .word(upper.len() as u16)
            .bytes(upper);
        checksum::put(upper, at, protocol, sum);
    }
    packet
}

pub(super) fn tcp(sequence: u32, flags: u8, options: &[u8], data: &[u8]) -> Vec<u8> {
    let mut tcp = vec![0; 20];
    tcp[..4].copy_from_slice(&[0x9c, 0x40, 0, 80]);
    tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
    tcp[8..12].copy_from_slice(&77u32.to_be_bytes());
    tcp[12] = ((20 + options.len()) / 4 * 16) as u8;
    tcp[13] = flags;
    put16(&mut tcp, 14, 4096);
    tcp.extend_from_slice(options);
    tcp.extend_from_slice(data);
    tcp
}

pub(super) fn udp(ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let mut udp = vec![0; 8];
    put16(&mut udp, 0, ports.0);
    put16(&mut udp, 2, ports.1);
    put16(&mut udp, 4, (8 + data.len()) as u16);
    udp.extend_from_slice(data);
    udp
}

/// Octets that all differ from their neighbours.
pub(super) fn data(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 + n / 251) as u8).collect()
}

/// With an empty virtio-net header before it.
pub(super) fn plain(packet: &[u8]) -> Vec<u8> {
    [&[0; 10], packet].concat()
}

/// A super-packet of segments of `segment` octets, with an incomplete checksum.
pub(super) fn super_packet(packet: &[u8], segment: usize) -> Vec<u8> {
    let inner = Inner::parse(packet).expect("a packet");
    let mut packet = packet.to_vec();
    let at = checksum_offset(inner.flow.protocol).expect("a checksum");
    let headers = if at == 16 {
        inner.flow.transport + usize::from(packet[inner.flow.transport + 12] >> 4) * 4
    } else {
        inner.flow.transport + 8
    };
    let covered = (packet.len() - inner.flow.transport) as u16;
    let ends = (inner.flow.source, inner.flow.destination);
    let partial = checksum::pseudo_header(ends, inner.flow.protocol)
        .word(covered)
        .folded()
        .to_be_bytes();
    packet[inner.flow.transport + at..inner.flow.transport + at + 2].copy_from_slice(&partial);
    let kind = match (at, inner.is_v6()) {
        (16, false) => 1,
        (16, true) => 4,
        _ => 5,
    };
    let mut frame = vec![1, kind];
    for field in [headers, segment, inner.flow.transport, at] {
        frame.extend_from_slice(&(field as u16).to_ne_bytes());
    }
    frame.extend_from_slice(&packet);
    frame
}

/// Panics unless all checksums of the packet are right.
pub(super) fn assert_checksums(packet: &[u8]) {
    let inner = Inner::parse(packet).expect("a packet");
    assert_eq!(inner.flow.total_len, packet.len());
    if !inner.is_v6() {
        assert!(
            Sum::new().bytes(&packet[..inner.flow.transport]).folded() == 0xffff,
            "ip"
        );
    }
    if checksum_offset(inner.flow.protocol).is_some() {
        let upper = &packet[inner.flow.transport..];
        let ends = (inner.flow.source, inner.flow.destination);
        let sum = checksum::pseudo_header(ends, inner.flow.protocol)
            .word(upper.len() as u16)
            .bytes(upper);
        assert!(sum.folded() == 0xffff, "upper");
    }
}
