//! Recorded messages that are replayed at any later time, and our own messages that are reflected.

use super::*;
use crate::ike::Outbox;
use crate::ikev1::session::message_ids::{MAX_IDS, RENEWAL_IDS};

/// A notification that this end could send, with this message ID.
fn notification(world: &World, from: usize, message_id: u32, kind: NotifyType) -> Vec<u8> {
    let node = &world.ends[from].node;
    let (_, session) = node.sessions.iter().next_back().expect("a session");
    let sa = session.ike.sa().expect("established");
    let mut out = Outbox::default();
    let payload = informational::notification(sa, kind, None);
    informational::send(sa, vec![payload], message_id, &mut out);
    crate::node::session::with_marker(session.path(), out.messages.remove(0).message)
}

/// A child's delete by its inbound SPI.
fn delete(world: &World, from: usize, message_id: u32, spi: u32) -> Vec<u8> {
    let node = &world.ends[from].node;
    let session = node.sessions.values().next().expect("a session");
    let sa = session.ike.sa().expect("established");
    let mut out = Outbox::default();
    let payload = informational::delete_children(crate::sa::Protocol::Esp, &[spi]);
    informational::send(sa, vec![payload], message_id, &mut out);
    crate::node::session::with_marker(session.path(), out.messages.remove(0).message)
}

fn complaints(world: &World, end: usize) -> usize {
    world.ends[end].count(|event| matches!(event, Event::PeerComplains { .. }))
}

/// Status notifications of the station, which change nothing.
fn notify(world: &mut World, ids: core::ops::Range<u32>) {
    for message_id in ids {
        let path = world.ends[1].path();
        let status = NotifyType::Other(40_000);
        let octets = notification(world, 0, message_id, status);
        world.deliver(1, path, &octets);
    }
}

#[test]
fn what_was_taken_once_is_never_taken_again_however_many_exchanges_later() {
    let mut world = World::new(110, |_, _| {});
    world.run(Duration::from_secs(2));
    let path = world.ends[1].path();
    let old = notification(&world, 0, 1, NotifyType::InitialContact);
    let gone = delete(&world, 0, 2, 0xdead_beef);
    for octets in [&old, &gone] {
        world.deliver(1, path, octets);
    }
    notify(&mut world, 3..1_003);
    let heard = world.ends[1].seen.events.len();
    let before = world.drops(1, DropReason::RetransmittedMessage);
    for octets in [&old, &gone] {
        let mut elsewhere = path;
        elsewhere.remote = ([203, 0, 113, 7], 4_500).into();
        world.deliver(1, elsewhere, octets);
    }
    let after = world.drops(1, DropReason::RetransmittedMessage);
    assert_eq!(after, before + 2);
    assert_eq!(world.ends[1].path(), path);
    // They are only reported as read.
    let told = &world.ends[1].seen.events[heard..];
    assert!(
        told.iter()
            .all(|event| matches!(event, Event::Message { .. }))
    );
    world.assert_up();
}

#[test]
fn what_we_sent_ourselves_is_not_taken_however_much_later() {
    let mut world = World::new(111, |_, _| {});
    world.run(Duration::from_secs(2));
    world.command(0, Command::RekeyChildren("road".into()));
    world.run(Duration::from_secs(100));
    let sent = world.network.log.clone();
    notify(&mut world, 1..1_001);
    for end in [0, 1] {
        let path = world.ends[end].path();
        let (mut elsewhere, complaints_before) = (path, complaints(&world, end));
        elsewhere.remote = ([203, 0, 113, 7], 4_500).into();
        for octets in &sent {
            world.deliver(end, elsewhere, octets);
            // The hash covers no header: the same message as one of another exchange.
            for exchange in [5, 6, 32] {
                let mut other = octets.clone();
                if let Some(octet) = other.get_mut(4 + 18) {
                    *octet = exchange;
                }
                world.deliver(end, elsewhere, &other);
            }
        }
        assert_eq!(world.ends[end].path(), path);
        assert_eq!(complaints(&world, end), complaints_before);
    }
    world.network.wire.clear();
    world.run(Duration::from_secs(10));
    world.assert_up();
}

#[test]
fn an_isakmp_sa_is_renewed_before_its_message_ids_are_used_up() {
    let mut world = World::new(112, |_, _| {});
    world.run(Duration::from_secs(2));
    let many = u32::try_from(RENEWAL_IDS).unwrap();
    notify(&mut world, 1..many - 20);
    world.run(Duration::from_secs(2));
    let renewals = |world: &World| {
        world.ends[1].count(|event| matches!(event, Event::IkeEstablished { .. })) - 1
    };
    assert_eq!(renewals(&world), 0);
    notify(&mut world, many - 20..many + 20);
    world.run(Duration::from_secs(60));
    assert_eq!(renewals(&world), 1);
    world.assert_up();
}

#[test]
fn an_isakmp_sa_whose_message_ids_are_used_up_is_closed() {
    let mut world = World::new(113, |_, _| {});
    world.run(Duration::from_secs(2));
    // The gateway's renewal gets no answer.
    world.network.loss = 1.1;
    notify(&mut world, 1..u32::try_from(MAX_IDS).unwrap() + 1);
    world.run(Duration::from_secs(1));
    let is_it = |event: &Event| match event {
        Event::IkeClosed { cause, .. } => *cause == EndCause::MessageIdsUsedUp,
        _ => false,
    };
    assert!(world.ends[1].told(is_it));
    assert_eq!(world.ends[1].node.established(), 0);
}

#[test]
fn our_own_first_message_begins_no_exchange_with_ourselves() {
    for is_aggressive in [true, false] {
        let mut world = World::new(114, move |connection, _| {
            connection.is_aggressive = is_aggressive;
        });
        world.network.loss = 1.1;
        world.run(Duration::from_secs(1));
        let first = world.first_message().expect("a first message");
        let path = arrives((STATION, IKE_PORT), (GATEWAY, IKE_PORT));
        let before = world.network.sent;
        world.deliver(0, path, &first);
        assert_eq!(world.drops(0, DropReason::Reflected), 1);
        assert_eq!(world.network.sent, before);
        assert_eq!(world.ends[0].node.sessions.len(), 1);
    }
}
