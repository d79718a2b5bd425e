//! How fast one core seals and opens 64 KB super-packets in memory, by suite: no device, no
//! socket. Run it with `cargo run --release -p engine --example plane_throughput`.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a measurement needs a clock"
)]

use std::net::SocketAddr;
use std::time::Instant as Clock;

use crypto::cipher::Cipher;
use crypto::hash::Hash;
use crypto::packet::{Encryption, Integrity, Protection};
use crypto::rand::Seed;
use engine::plane::{
    Datagrams, InboundChange, InboundPlane, Offloads, OutboundChange, OutboundPlane, Packets,
    Received,
};
use engine::sa::{ChildId, Direction, Ipsec, Keys, Layer, Mode, Path, Protocol, Sa, Secret};
use engine::selector::TrafficSelector;
use engine::time::Instant;

const SEGMENT: usize = 1380;
const SEGMENTS: usize = 46;
const ROUNDS: usize = 4000;
const NOW: Instant = Instant(1);

fn main() {
    let hmac = |encryption, hash| Protection {
        encryption,
        integrity: Integrity::Hmac(hash),
    };
    let aead = |encryption| Protection {
        encryption,
        integrity: Integrity::None,
    };
    for (name, protection) in [
        ("aes128gcm16", aead(Encryption::AesGcm { key_len: 16 })),
        ("aes256gcm16", aead(Encryption::AesGcm { key_len: 32 })),
        ("chacha20poly1305", aead(Encryption::ChaCha20Poly1305)),
        (
            "aes128-sha1",
            hmac(Encryption::Cbc(Cipher::Aes128), Hash::Sha1),
        ),
        (
            "aes128-sha256",
            hmac(Encryption::Cbc(Cipher::Aes128), Hash::Sha256),
        ),
        ("null-md5", hmac(Encryption::Null, Hash::Md5)),
        (
            "3des-md5",
            hmac(Encryption::Cbc(Cipher::TripleDes), Hash::Md5),
        ),
    ] {
        let rounds = if name.starts_with("3des") {
            ROUNDS / 40
        } else {
            ROUNDS
        };
        measure(name, protection, rounds);
    }
}

fn measure(name: &str, protection: Protection, rounds: usize) {
    let offloads = Offloads {
        has_vnet_header: true,
        has_udp_segments: true,
    };
    let random = Seed::new([1; 32]).stream("iv", 0);
    let mut sender = OutboundPlane::new(random, offloads);
    let mut receiver = InboundPlane::new(offloads);
    sender.apply(
        OutboundChange::Install(Box::new(sa(protection, Direction::Outbound))),
        NOW,
    );
    receiver.apply(InboundChange::Install(Box::new(sa(
        protection,
        Direction::Inbound,
    ))));
    let (mut datagrams, mut packets) = (Datagrams::new(), Packets::new());
    let original = frame();
    let (mut sealing, mut opening) = (0, 0);
    let mut frame = original.clone();
    let mut buffers: Vec<Vec<u8>> = vec![Vec::new(); 2];
    for _ in 0..rounds {
        frame.copy_from_slice(&original);
        datagrams.clear();
        let start = Clock::now();
        sender.seal(&mut frame, NOW, &mut datagrams);
        sealing += start.elapsed().as_nanos();
        packets.clear();
        for (number, run) in datagrams.runs().iter().enumerate() {
            buffers[number].clear();
            buffers[number].extend_from_slice(datagrams.bytes(run));
        }
        let start = Clock::now();
        for (number, run) in datagrams.runs().iter().enumerate() {
            let received = Received {
                path: run.path.reversed(),
                traffic_class: run.traffic_class,
                interface: 0,
                segment_bytes: run.segment_bytes,
                bytes: &mut buffers[number],
            };
            receiver.open(number, received, NOW, &mut packets);
        }
        opening += start.elapsed().as_nanos();
        assert_eq!(packets.writes().count(), 1);
    }
    let bits = (rounds * original.len() * 8) as f64;
    println!(
        "{name:18} seal {:6.2} Gbit/s {:5.0} ns a packet   open {:6.2} Gbit/s {:5.0} ns",
        bits / sealing as f64,
        sealing as f64 / (rounds * SEGMENTS) as f64,
        bits / opening as f64,
        opening as f64 / (rounds * SEGMENTS) as f64,
    );
}

fn sa(protection: Protection, direction: Direction) -> Sa {
    let (here, there): (SocketAddr, SocketAddr) = (
        ([198, 51, 100, 1], 4500).into(),
        ([203, 0, 113, 1], 4500).into(),
    );
    let selector = |net: u8| {
        vec![TrafficSelector {
            first: [10, net, 0, 0].into(),
            last: [10, net, 255, 255].into(),
            protocol: 0,
            ports: engine::selector::Ports::ANY,
        }]
    };
    let is_sender = direction == Direction::Outbound;
    let (local, remote) = if is_sender {
        (here, there)
    } else {
        (there, here)
    };
    let (own, peer) = if is_sender { (1, 2) } else { (2, 1) };
    Sa {
        direction,
        child: ChildId(1),
        layer: Layer::Ipsec(Ipsec {
            protocol: Protocol::Esp,
            spi: 0x1000_0001,
            protection,
            keys: Keys {
                encryption: Secret(vec![7; protection.encryption_key_len()]),
                integrity: Secret(vec![9; protection.integrity_key_len()]),
            },
        }),
        mode: Mode::Tunnel,
        has_esn: false,
        replay_window: 1024,
        path: Path::udp_with_marker(local, remote),
        local: selector(own),
        remote: selector(peer),
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

/// A TCP super-packet as a TUN device gives it.
fn frame() -> Vec<u8> {
    let length = (40 + SEGMENT * SEGMENTS) as u16;
    let mut frame = vec![1, 1, 40, 0, 0, 0, 20, 0, 16, 0];
    frame[4..6].copy_from_slice(&(SEGMENT as u16).to_le_bytes());
    let mut ip = vec![
        0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1,
    ];
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&ip);
    let mut tcp = [0; 20];
    tcp[..4].copy_from_slice(&[0x9c, 0x40, 0, 80]);
    (tcp[12], tcp[13]) = (0x50, 0x10);
    frame.extend_from_slice(&tcp);
    frame.extend((0..SEGMENT * SEGMENTS).map(|n| n as u8));
    frame
}
