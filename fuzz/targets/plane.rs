//! The packet planes: what one seals the other opens. Arbitrary clear text of a peer with keys, and
//! arbitrary octets in a tunnel of Mobile IPv4, become packets as long as their headers say, or a
//! counted drop.
#![no_main]

use std::net::IpAddr;

use crypto::hash::Hash;
use crypto::packet::{Encryption, Integrity, PacketKey, Protection};
use crypto::rand::Seed;
use engine::counters::DropReason;
use engine::esp;
use engine::plane::{
    Datagrams, InboundChange, InboundPlane, Offloads, OutboundChange, OutboundPlane, Packets,
    Received,
};
use engine::sa::{
    ChildId, Direction, Encapsulation, Ipsec, Keys, Layer, Mode, Path, Protocol, Sa, Secret,
};
use engine::selector::{Ports, TrafficSelector};
use engine::time::Instant;
use libfuzzer_sys::fuzz_target;
use wire::ip::Flow;
use wire::vnet;

const NOW: Instant = Instant(1);
const SPI: u32 = 0x1234_5678;
const OFFLOADS: Offloads = Offloads {
    has_vnet_header: true,
    has_udp_segments: true,
};
/// Without a cipher, the fuzzer's octets arrive unchanged.
const PROTECTION: Protection = Protection {
    encryption: Encryption::Null,
    integrity: Integrity::Hmac(Hash::Md5),
};

fuzz_target!(|input: &[u8]| {
    let Some((&[first, ..], rest)) = input.split_at_checked(1) else {
        return;
    };
    if first & 4 != 0 {
        return tunnels(first, rest);
    }
    let mode = if first & 1 == 0 {
        Mode::Tunnel
    } else {
        Mode::Transport
    };
    let mut receiver = InboundPlane::new(OFFLOADS);
    receiver.apply(InboundChange::Install(Box::new(sa(
        mode,
        Direction::Inbound,
    ))));
    let mut packets = Packets::new();
    if first & 2 == 0 {
        frame(mode, rest, &mut receiver, &mut packets);
    } else {
        clear_texts(rest, &mut receiver, &mut packets);
    }
});

/// One frame out and in.
fn frame(mode: Mode, input: &[u8], receiver: &mut InboundPlane, packets: &mut Packets) {
    let random = Seed::new([1; 32]).stream("iv", 0);
    let mut sender = OutboundPlane::new(random, OFFLOADS);
    sender.apply(
        OutboundChange::Install(Box::new(sa(mode, Direction::Outbound))),
        NOW,
    );
    let mut datagrams = Datagrams::new();
    sender.seal(&mut input.to_vec(), NOW, &mut datagrams);
    for run in datagrams.runs() {
        let mut bytes = datagrams.bytes(run).to_vec();
        open(&mut bytes, run.segment_bytes, receiver, packets);
    }
    let drops = receiver.report().drops;
    for reason in [
        DropReason::BadIcv,
        DropReason::UnknownSpi,
        DropReason::Truncated,
        DropReason::BadPadding,
        DropReason::Replayed,
        DropReason::WrongEncapsulation,
    ] {
        assert_eq!(drops.of(reason), 0, "{}", reason.name());
    }
}

const FORMS: [Encapsulation; 3] = [
    Encapsulation::IpInIp,
    Encapsulation::Minimal,
    Encapsulation::Gre,
];

/// One frame through a tunnel, which may go through ESP, or octets from the network behind their
/// lengths: raw tunnels in each other and in ESP.
fn tunnels(first: u8, input: &[u8]) {
    let is_udp = first & 1 != 0;
    let mut receiver = InboundPlane::new(OFFLOADS);
    let esp = Sa {
        path: tunnel_path(false, Direction::Inbound),
        ..sa(Mode::Tunnel, Direction::Inbound)
    };
    receiver.apply(InboundChange::Install(Box::new(esp)));
    for form in FORMS {
        let sa = tunnel(form, is_udp, Direction::Inbound);
        receiver.apply(InboundChange::Install(Box::new(sa)));
    }
    let mut packets = Packets::new();
    if first & 2 != 0 {
        let mut input = input;
        while let Some((&length, rest)) = input.split_first() {
            let (octets, rest) = rest.split_at(rest.len().min(length.into()));
            input = rest;
            let path = tunnel_path(is_udp, Direction::Inbound);
            open_from(
                path,
                &mut octets.to_vec(),
                usize::MAX,
                &mut receiver,
                &mut packets,
            );
        }
        return;
    }
    let random = Seed::new([1; 32]).stream("iv", 0);
    let mut sender = OutboundPlane::new(random, OFFLOADS);
    let form = FORMS[usize::from(first >> 3) % FORMS.len()];
    let mut outer = tunnel(form, is_udp, Direction::Outbound);
    outer.is_nested = !is_udp && first & 0x40 != 0;
    if outer.is_nested {
        let ends = outer.path;
        let esp = Sa {
            path: ends,
            local: vec![TrafficSelector::host(ends.local.ip())],
            remote: vec![TrafficSelector::host(ends.remote.ip())],
            ..sa(Mode::Tunnel, Direction::Outbound)
        };
        sender.apply(OutboundChange::Install(Box::new(esp)), NOW);
    }
    sender.apply(OutboundChange::Install(Box::new(outer)), NOW);
    let mut datagrams = Datagrams::new();
    sender.seal(&mut input.to_vec(), NOW, &mut datagrams);
    let mut sent = 0;
    for run in datagrams.runs() {
        let mut bytes = datagrams.bytes(run).to_vec();
        sent += bytes.len().div_ceil(run.segment_bytes) as u64;
        let path = run.path.reversed();
        open_from(
            path,
            &mut bytes,
            run.segment_bytes,
            &mut receiver,
            &mut packets,
        );
    }
    // A packet to the end of a tunnel is taken more than once.
    let reports = receiver.report().associations;
    let taken: u64 = reports.iter().map(|report| report.packets).sum();
    assert!(taken >= sent, "{taken} of {sent}");
}

fn tunnel_path(is_udp: bool, direction: Direction) -> Path {
    let path = path(direction);
    match is_udp {
        true => Path::udp_with_type(path.local, path.remote),
        false => Path::raw(path.local.ip(), path.remote.ip()),
    }
}

fn tunnel(form: Encapsulation, is_udp: bool, direction: Direction) -> Sa {
    let all = || sa(Mode::Tunnel, direction).local;
    let name = (direction, ChildId(2), form.protocol().into());
    let path = tunnel_path(is_udp, direction);
    let mut sa = Sa::tunnel(name, form, path, all(), all());
    sa.path_mtu = 1400;
    sa
}

/// Clear texts, each behind its length and next header.
fn clear_texts(mut input: &[u8], receiver: &mut InboundPlane, packets: &mut Packets) {
    let key = PacketKey::new(PROTECTION, &[], &[7; 16]);
    let layout = esp::Layout::of(&PROTECTION);
    let mut sequence = 0;
    while let Some((&[length, next_header], rest)) = input.split_first_chunk() {
        let (clear, rest) = rest.split_at(rest.len().min(length.into()));
        input = rest;
        sequence += 1;
        let mut packet = vec![0; layout.sealed(clear.len())];
        packet[layout.clear_at()..][..clear.len()].copy_from_slice(clear);
        let length = clear.len();
        esp::seal(
            &key,
            &mut packet,
            length,
            SPI,
            sequence,
            false,
            next_header,
            |_| {},
        );
        open(&mut packet, usize::MAX, receiver, packets);
    }
}

fn open(bytes: &mut [u8], segment: usize, receiver: &mut InboundPlane, packets: &mut Packets) {
    open_from(path(Direction::Inbound), bytes, segment, receiver, packets);
}

fn open_from(
    path: Path,
    bytes: &mut [u8],
    segment: usize,
    receiver: &mut InboundPlane,
    packets: &mut Packets,
) {
    packets.clear();
    let length = bytes.len();
    let received = Received {
        path,
        traffic_class: 3,
        interface: 0,
        segment_bytes: segment.min(length).max(1),
        bytes,
    };
    receiver.open(0, received, NOW, packets);
    for write in packets.writes() {
        let mut frame = write.header.to_vec();
        for slice in write.slices {
            frame.extend_from_slice(&bytes[slice.range.clone()]);
        }
        let packet = &frame[vnet::LEN..];
        // Transport mode rebuilds a header for a payload that may not match its protocol.
        if let Ok(flow) = Flow::of(packet) {
            assert_eq!(flow.total_len, packet.len());
        }
    }
}

fn path(direction: Direction) -> Path {
    let (here, there) = (([10, 1, 0, 1], 4500), ([10, 2, 0, 1], 4500));
    let path = Path::udp_with_marker(here, there);
    match direction {
        Direction::Outbound => path,
        Direction::Inbound => path.reversed(),
    }
}

fn sa(mode: Mode, direction: Direction) -> Sa {
    let any = |first: IpAddr, last: IpAddr| TrafficSelector {
        first,
        last,
        protocol: 0,
        ports: Ports::ANY,
    };
    let all = vec![
        any([0; 4].into(), [255; 4].into()),
        any([0u8; 16].into(), [255u8; 16].into()),
    ];
    Sa {
        direction,
        child: ChildId(1),
        layer: Layer::Ipsec(Ipsec {
            protocol: Protocol::Esp,
            spi: SPI,
            protection: PROTECTION,
            keys: Keys {
                encryption: Secret(Vec::new()),
                integrity: Secret(vec![7; 16]),
            },
        }),
        mode,
        has_esn: false,
        replay_window: 1024,
        path: path(direction),
        local: all.clone(),
        remote: all,
        original: None,
        pool_address: None,
        soft_packets: u64::MAX,
        soft_bytes: u64::MAX,
        copies_df: true,
        path_mtu: 1400,
        is_nested: false,
        sent_on_from: None,
        carried_by: None,
        removes_header: false,
    }
}
