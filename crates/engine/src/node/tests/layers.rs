//! Two layers: ESP for the networks, and AH around it between both ends.

use wire::ip::protocol::{AH, ESP};

use super::*;
use crate::config::Version;
use crate::sa::Via;

/// AH of SHA-256 without its IP header.
const AH_OCTETS: usize = 28;

/// Both ends with two layers, before their first message has come.
fn layered(version: Version, seed: u8) -> World {
    World::of(version, seed, |connection, _| {
        connection.encapsulation = Encapsulation::Auto;
        let inside = Child {
            layer: ChildLayer::Inside,
            ..connection.children[0].clone()
        };
        let around = Child {
            name: "net-ah".into(),
            layer: ChildLayer::Around,
            proposals: vec!["ah-sha256-modp2048".parse().expect("a suite")],
            local: Vec::new(),
            remote: Vec::new(),
            ..inside.clone()
        };
        connection.children = vec![around, inside];
    })
}

/// The same without a NAT, after the first seconds.
fn settled(version: Version, seed: u8) -> World {
    let mut world = layered(version, seed);
    // The first message was already sent: it is lost and repeated.
    world.network.nat = None;
    world.network.wire.clear();
    world.run(Duration::from_secs(5));
    world.assert_up();
    world
}

/// What a packet of the station's looks like on the wire.
fn sent(world: &mut World) -> (Path, Vec<u8>) {
    let packet = datagram(world.ends[0].inner()[0], INSIDE.into(), 64);
    assert!(world.send(0, packet));
    let datagram = world.network.wire.pop().expect("a datagram");
    (datagram.path, datagram.octets)
}

fn suites(world: &World, end: usize) -> Vec<String> {
    let status = world.ends[end].node.status(world.now);
    let children = &status.connections[0].sessions[0].children;
    children.iter().map(|child| child.suite.clone()).collect()
}

#[test]
fn a_packet_is_sealed_by_esp_and_again_by_ah_and_comes_out_whole() {
    let mut world = settled(Version::V1, 210);
    for end in [0, 1] {
        let wanted = ["ah-sha256-modp2048", "aes128gcm16-modp2048"];
        assert_eq!(suites(&world, end), wanted);
    }
    let (path, octets) = sent(&mut world);
    assert_eq!(path.via, Via::Raw);
    assert_eq!((octets[9], octets[20 + AH_OCTETS + 9]), (AH, ESP));
    world.packet();
    world.run(Duration::from_secs(1));
    assert_eq!(world.ends[1].seen.opened.len(), 1);
    assert_eq!(world.ends[0].seen.opened.len(), 1);
}

#[test]
fn ikev2_agrees_on_both_layers_before_any_packet_asks_for_them() {
    let mut world = settled(Version::V2, 215);
    for end in [0, 1] {
        let wanted = ["ah-sha256", "aes128gcm16-modp2048"];
        assert_eq!(suites(&world, end), wanted);
    }
    // The layer around came with the authentication.
    let asked = |it: &&Act| **it == Act::Message(Step::Create(1));
    assert_eq!(world.ends[0].seen.trail.iter().filter(asked).count(), 1);
    assert_eq!(world.ends[0].failure(), None);
    world.packet();
    world.run(Duration::from_secs(1));
    assert_eq!(world.ends[1].seen.opened.len(), 1);
    assert_eq!(world.ends[0].seen.opened.len(), 1);
}

#[test]
fn esp_of_two_layers_is_taken_out_of_ah_alone() {
    let mut world = settled(Version::V1, 211);
    let (path, octets) = sent(&mut world);
    let now = world.now;
    let wrong = |world: &World| {
        let report = world.ends[1].endpoint.inbound.report();
        report.drops.of(DropReason::WrongEncapsulation)
    };
    let before = wrong(&world);
    let mut bare = octets[20 + AH_OCTETS..].to_vec();
    world.ends[1].endpoint.receive(path, &mut bare, now);
    world.settle(1);
    assert_eq!(world.ends[1].seen.opened.len(), 0);
    assert_eq!(wrong(&world), before + 1);
    let mut whole = octets;
    world.ends[1].endpoint.receive(path, &mut whole, now);
    world.settle(1);
    assert_eq!(world.ends[1].seen.opened.len(), 1);
}

#[test]
fn both_layers_are_renewed_and_packets_go_on() {
    let mut world = settled(Version::V1, 212);
    for end in [0, 1, 0] {
        world.command(end, Command::RekeyChildren("road".into()));
        world.run(Duration::from_secs(20));
        world.assert_up();
        let before = world.ends[1].seen.opened.len();
        world.packet();
        world.run(Duration::from_secs(1));
        assert_eq!(world.ends[1].seen.opened.len(), before + 1);
    }
    world.command(0, Command::RekeyIke("road".into()));
    world.run(Duration::from_secs(20));
    let before = world.ends[1].seen.opened.len();
    world.packet();
    world.run(Duration::from_secs(1));
    assert_eq!(world.ends[1].seen.opened.len(), before + 1);
}

#[test]
fn without_the_layer_around_nothing_leaves() {
    let mut world = settled(Version::V1, 213);
    let (around, spi) = {
        let mut all = world.ends[0].node.children.values();
        let around = all.find(|entry| entry.child().layer == ChildLayer::Around);
        let around = around.expect("a child");
        (around.id, around.current.as_ref().expect("a pair").spi_out)
    };
    let removed = crate::plane::OutboundChange::Remove(around, spi);
    let now = world.now;
    world.ends[0].endpoint.outbound.apply(removed, now);
    let packet = datagram(world.ends[0].inner()[0], INSIDE.into(), 64);
    assert!(!world.send(0, packet));
    assert!(world.network.wire.is_empty());
}

#[test]
fn two_layers_do_not_pass_a_nat_and_say_so() {
    let mut world = layered(Version::V1, 214);
    world.run(Duration::from_secs(5));
    assert_eq!(world.ends[0].seen.outbound.len(), 0);
    let failure = world.ends[0].failure().expect("a sentence");
    assert!(failure.contains("does not pass a NAT"), "{failure}");
}
