use std::sync::Arc;

use crypto::rand::Seed;
use engine::ike::{NotReached, Unreachable};
use engine::plane::{InboundPlane, OutboundPlane};
use engine::sa::{Direction, Via};
use tokio::sync::mpsc;

use super::super::{Devices, News, OutboundOrder, Returned, orders};
use super::*;
use crate::tun::Tun;
use crate::udp::UdpConfig;

fn past(rested_ms: u64, moved: [u64; 2]) -> Past {
    Past {
        whole: Duration::from_millis(16),
        rested: Duration::from_millis(rested_ms),
        moved,
    }
}

#[test]
fn help_is_for_a_busy_thread_with_two_busy_directions() {
    assert!(past(0, [800, 200]).needs_help());
    assert!(past(1, [200, 800]).needs_help());
    assert!(!past(2, [500, 500]).needs_help(), "it has time to spare");
    assert!(!past(0, [1000, 10]).needs_help(), "one direction is idle");
}

#[test]
fn help_ends_when_there_is_little_to_do() {
    assert!(past(13, [0, 0]).is_rest());
    assert!(!past(12, [0, 0]).is_rest());
}

/// Both threads around a device that cannot be read, and a channel to control that is full.
struct Broken {
    first: First,
    second: Second,
    control: mpsc::Receiver<News>,
    /// Keep the queues open.
    _orders: (Orders<InboundOrder>, Orders<OutboundOrder>),
}

impl Broken {
    fn new() -> Self {
        let (news, control) = mpsc::channel(1);
        let remote = ([127, 0, 0, 1], 1).into();
        let what = Unreachable {
            why: NotReached::Port,
            by: [127, 0, 0, 1].into(),
        };
        news.try_send(News::Unreachable { remote, what })
            .expect("room for one");
        let loopback = UdpConfig {
            ports: vec![(0, Via::Udp), (0, Via::UdpWithMarker)],
            mark: None,
        };
        let (tun, clock) = (Tun::broken(), Clock::start());
        let (random, offloads) = (Seed::new([7; 32]).stream("outbound", 0), tun.offloads());
        let devices = Devices {
            tun: Arc::new(tun),
            udp: Arc::new(UdpSockets::bind(loopback).expect("loopback sockets")),
            raw: None,
            tap: None,
            clock,
            news,
            returned: Returned::default(),
        };
        let (to_outbound, outbound_queue) = orders().expect("a queue");
        let (to_inbound, inbound_queue) = orders().expect("a queue");
        let plane = OutboundPlane::new(random, offloads);
        let outbound = Outbound::new(&devices, plane, outbound_queue);
        let plane = InboundPlane::new(offloads);
        let inbound = Inbound::new(&devices, plane, inbound_queue, to_outbound.clone());
        let threads = pair(inbound, outbound, to_inbound.clone(), clock);
        let (first, second) = threads.expect("epoll");
        Self {
            first,
            second,
            control,
            _orders: (to_inbound, to_outbound),
        }
    }
}

/// Control takes the news that filled its channel, and then hears of the failure.
fn assert_failure_is_heard(mut first: First, mut control: mpsc::Receiver<News>) {
    let mut load = Load::new(first.clock);
    first.wait(true, &mut load);
    assert!(matches!(control.try_recv(), Ok(News::Unreachable { .. })));
    first.wait(true, &mut load);
    let told = control.try_recv();
    assert!(
        matches!(&told, Ok(News::Failed { direction: Direction::Outbound, reason })
            if reason.starts_with("reading the device")),
        "{told:?}"
    );
    first.wait(true, &mut load);
    assert!(control.try_recv().is_err(), "it is told once");
    assert!(first.failed.is_none());
}

#[test]
fn a_busy_control_hears_later_that_the_device_is_gone() {
    let mut broken = Broken::new();
    assert!(!broken.first.turn_outbound());
    assert!(broken.first.outbound.is_none());
    assert_failure_is_heard(broken.first, broken.control);
}

#[test]
fn a_busy_control_hears_later_that_the_device_of_the_second_thread_is_gone() {
    let mut broken = Broken::new();
    let outbound = broken.first.let_go().expect("the direction");
    broken.first.lending.try_send(outbound).expect("room");
    // Nothing else is lent.
    broken.first.lending = sync_channel(1).0;
    broken.second.run();
    broken.first.take_back();
    assert_failure_is_heard(broken.first, broken.control);
}
