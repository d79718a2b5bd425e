//! SKIP through NATs: raw it cannot pass, in UDP it can.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::world::*;
use crate::counters::DropReason;
use crate::firewall::access::EntryId;
use crate::mip4::mobile_node::Attachment;
use crate::mip4::security::Form;
use crate::skip::Profile;
use crate::skip::udp::{KEEPALIVE_INTERVAL, PORT};
use crate::time::Duration;

/// What many homes give to their first host.
const PRIVATE: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 5);

/// Each node has a NAT of its own.
fn own_nat(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, 101 + number as u8)
}

/// All nodes are behind one NAT.
fn shared_nat(_: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, 101)
}

fn behind(nat: fn(usize) -> Ipv4Addr, form: Form) -> World {
    World::new(Options {
        nodes: 2,
        nat: Some(nat),
        form,
        ..Options::default()
    })
}

#[test]
fn raw_skip_that_a_nat_has_changed_is_dropped_and_counted() {
    let mut world = behind(own_nat, Form::Raw);
    world.attach(0, Attachment::Colocated(PRIVATE));
    assert!(!world.is_registered(0));
    assert_eq!(world.wall_drops(DropReason::BadIcv), 1);
    assert_eq!(world.wall.firewall().bindings().count(), 0);
}

#[test]
fn two_nodes_with_one_private_care_of_address_are_told_apart() {
    for nat in [own_nat, shared_nat] {
        let mut world = behind(nat, Form::Udp);
        world.attach(0, Attachment::Colocated(PRIVATE));
        world.attach(1, Attachment::Colocated(PRIVATE));
        assert!(world.is_registered(0) && world.is_registered(1));
        for number in [0, 1, 0] {
            assert!(world.is_joined(number), "{number}");
        }
        let bindings = world.wall.firewall().bindings();
        let places: Vec<_> = bindings.map(|(id, it)| (id.0, it.care_of)).collect();
        let place = |number| (number, SocketAddrV4::new(nat(number), nat_port(number)));
        assert_eq!(places, [place(0), place(1)]);
        // Outside, everything is in UDP to or from our port.
        for sent in world.wire.iter().filter(|sent| sent.is_outside) {
            let ports = [&sent.packet[20..22], &sent.packet[22..24]];
            assert_eq!(sent.packet[9], 17);
            assert!(ports.contains(&&PORT.to_be_bytes()[..]));
        }
    }
}

#[test]
fn a_node_that_comes_out_from_behind_its_nat_is_followed() {
    let mut world = behind(own_nat, Form::Udp);
    world.attach(0, Attachment::Colocated(PRIVATE));
    assert!(world.is_joined(0));
    // A NAT that restarts gives another port: the next packet says which.
    world.options.nat = Some(|number| Ipv4Addr::new(198, 51, 100, 201 + number as u8));
    world.pass(Duration::from_secs(1));
    assert!(world.is_joined(0));
    let bindings = world.wall.firewall().bindings();
    let places: Vec<_> = bindings.map(|(id, it)| (id, *it.care_of.ip())).collect();
    assert_eq!(places, [(EntryId(0), Ipv4Addr::new(198, 51, 100, 201))]);
}

/// In UDP nothing proves the outer address, and the window of a firewall that starts is empty.
#[test]
fn a_firewall_that_restarts_follows_no_recorded_packet() {
    let mut world = World::new(Options {
        profile: Profile::X25519,
        nat: Some(own_nat),
        form: Form::Udp,
        ..Options::default()
    });
    world.attach(0, Attachment::Colocated(PRIVATE));
    for _ in 0..5 {
        assert!(world.is_joined(0));
        world.pass(Duration::from_secs(1));
    }
    let from_nat = |sent: &&Sent| sent.is_outside && sent.packet[12..16] == own_nat(0).octets();
    let recorded: Vec<_> = world.wire.iter().filter(from_nat).cloned().collect();
    world.restart_wall();
    let thief = SocketAddrV4::new(ELSEWHERE, 4444);
    for Sent { packet, .. } in &recorded {
        let again = datagram(thief, SocketAddrV4::new(WALL, PORT), &packet[28..], 9);
        world.inject(true, again);
    }
    assert!(recorded.len() > 5);
    assert_eq!(world.wall.firewall().bindings().count(), 0);
    // The node is followed by its next packet.
    world.pass(Duration::from_secs(1));
    assert!(world.is_joined(0));
    let bindings = world.wall.firewall().bindings();
    let places: Vec<_> = bindings.map(|(_, it)| *it.care_of.ip()).collect();
    assert_eq!(places, [own_nat(0)]);
}

#[test]
fn only_a_silent_node_sends_keepalives() {
    let mut world = behind(own_nat, Form::Udp);
    world.attach(0, Attachment::Colocated(PRIVATE));
    world.wire.clear();
    let keepalives = |world: &World| {
        let octets = world.wire.iter().filter(|sent| sent.packet.len() == 29);
        octets.filter(|sent| sent.packet[28] == 0xff).count()
    };
    for _ in 0..6 {
        world.pass(KEEPALIVE_INTERVAL / 2);
        assert!(world.is_joined(0));
    }
    assert_eq!(keepalives(&world), 0, "its packets keep the NAT's state");
    world.pass(KEEPALIVE_INTERVAL * 3);
    assert_eq!(keepalives(&world), 3);
    assert_eq!(world.wall.keepalives(), 3);
    // Raw packets need none.
    let mut world = World::new(Options::default());
    world.attach(0, Attachment::Colocated(CARE_OF));
    world.pass(KEEPALIVE_INTERVAL * 3);
    assert_eq!(keepalives(&world), 0);
}

#[test]
fn a_firewall_without_udp_binds_nobody_there() {
    let mut world = behind(own_nat, Form::Udp);
    world.options.form = Form::Raw;
    world.restart_wall();
    world.attach(0, Attachment::Colocated(PRIVATE));
    assert!(!world.is_registered(0));
    assert_eq!(world.wall.firewall().bindings().count(), 0);
}
