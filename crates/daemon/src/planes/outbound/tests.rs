use std::net::IpAddr;

use crypto::rand::Seed;
use engine::sa::{ChildId, Encapsulation, Path, Sa};
use engine::selector::TrafficSelector;
use tokio::sync::mpsc;

use super::super::orders;
use super::*;
use crate::capture::udp_packet;
use crate::tun::Tun;
use crate::udp::{UdpConfig, UdpSockets};

/// Without a raw socket a tunnel that is raw sends nothing.
#[test]
fn control_hears_that_its_own_packet_was_not_sent() {
    let (news, mut control) = mpsc::channel(4);
    let loopback = UdpConfig {
        ports: vec![(0, Via::Udp), (0, Via::UdpWithMarker)],
        mark: None,
    };
    let tun = Tun::broken();
    let (random, offloads) = (Seed::new([7; 32]).stream("outbound", 0), tun.offloads());
    let devices = Devices {
        tun: Arc::new(tun),
        udp: Arc::new(UdpSockets::bind(loopback).expect("loopback sockets")),
        raw: None,
        tap: None,
        clock: Clock::start(),
        news,
    };
    let (to_outbound, queue) = orders().expect("a queue");
    let mut outbound = Outbound::new(&devices, OutboundPlane::new(random, offloads), queue);
    let give = |order| to_outbound.give(order).expect("the queue is open");

    let ends: [IpAddr; 2] = [[203, 0, 113, 7].into(), [192, 0, 2, 1].into()];
    let tunnel = Sa::tunnel(
        (Direction::Outbound, ChildId(1), 1),
        Encapsulation::IpInIp,
        Path {
            via: Via::Raw,
            local: (ends[0], 0).into(),
            remote: (ends[1], 0).into(),
        },
        vec![TrafficSelector::host(ends[0])],
        vec![TrafficSelector::host(ends[1])],
    );
    give(OutboundOrder::Change(OutboundChange::Install(Box::new(
        tunnel,
    ))));
    assert!(outbound.listen());
    assert!(control.try_recv().is_err());

    let packet = udp_packet((ends[0], 434).into(), (ends[1], 434).into(), 0, &[1; 60]);
    give(OutboundOrder::Packet(packet));
    assert!(outbound.listen());
    assert!(matches!(control.try_recv(), Ok(News::Unsent)));
    assert!(control.try_recv().is_err());
}
