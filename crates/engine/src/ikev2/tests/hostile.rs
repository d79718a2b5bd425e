//! What strangers and a hostile peer send.

use proptest::prelude::*;

use wire::ikev2::{
    Exchange, Header, MAX_PAYLOADS, Message as WireMessage, Payload, write_payloads,
};

use super::world::{Setup, Who, World};
use crate::counters::DropReason;
use crate::ikev2::message::Message;
use crate::ikev2::seal::FRAGMENTS_KEPT;
use crate::ikev2::window::Read;
use crate::time::Duration;
use Who::{Gateway, Station};

/// What must not change: the IKE SAs and children of both ends.
fn state(world: &mut World) -> Vec<String> {
    let mut all = Vec::new();
    for who in Who::BOTH {
        let end = world.end(who);
        let pairs: Vec<u32> = end.pairs.iter().map(|it| it.negotiated.spi_in).collect();
        let session = end.session.as_mut().map(|it| {
            let inside = it.inside();
            let sas: Vec<_> = inside
                .sas
                .iter()
                .map(|sa| (sa.spis, sa.is_replaced))
                .collect();
            format!("{sas:?} {:?}", inside.children.all())
        });
        all.push(format!("{pairs:?} {session:?}"));
    }
    all
}

#[test]
fn a_changed_octet_anywhere_changes_nothing() {
    let mut world = Setup::default().established();
    world.rekey_child(Station);
    let asked = world.hold(Gateway).remove(0);
    let before = state(&mut world);
    for at in 0..asked.octets.len() {
        let mut changed = asked.clone();
        changed.octets[at] ^= 0x20;
        world.receive(Gateway, &changed);
        assert!(world.to_station.is_empty(), "octet {at} was answered");
        assert_eq!(state(&mut world), before, "octet {at}");
    }
    for len in 0..asked.octets.len() {
        let mut cut = asked.clone();
        cut.octets.truncate(len);
        world.receive(Gateway, &cut);
    }
    assert_eq!(state(&mut world), before);
    world.release(Gateway, vec![asked]);
    world.pass(5);
    world.assert_agreed(1);
}

#[test]
fn unencrypted_messages_change_nothing_once_there_are_keys() {
    let mut world = Setup::default().established();
    let before = state(&mut world);
    let spis = world.station.session.as_ref().unwrap().spis();
    for exchange in [
        Exchange::IkeAuth,
        Exchange::CreateChildSa,
        Exchange::Informational,
        Exchange::Other(200),
    ] {
        for is_response in [false, true] {
            for id in 0..4 {
                let chain = [wire::ikev2::Payload::Delete(wire::ikev2::Delete::IkeSa)];
                let (next_payload, body) = wire::ikev2::write_payloads(&chain);
                let header = wire::ikev2::Header {
                    spis: spis.into(),
                    next_payload,
                    minor_version: 0,
                    exchange,
                    flags: wire::ikev2::Flags::of(true, is_response),
                    message_id: id,
                };
                let (_, first) = world.history[0].clone();
                let mut forged = first;
                forged.octets = header.write(&body);
                world.receive(Gateway, &forged);
            }
        }
    }
    assert_eq!(state(&mut world), before);
    assert!(world.to_station.is_empty());
}

#[test]
fn a_repeated_request_is_answered_ten_times_and_no_more() {
    let mut world = Setup::default().established();
    world.probe(Station, 1);
    let asked = world.hold(Gateway).remove(0);
    for number in 0..30 {
        world.receive(Gateway, &asked);
        let answers = world.hold(Station).len();
        assert_eq!(answers, usize::from(number <= 10), "{number}");
    }
    let repeated = world.gateway.drops.of(DropReason::RetransmittedMessage);
    assert_eq!(repeated, 29);
}

/// A peer may go over to fragments, or to smaller ones, before it has our answer (RFC 7383 §2.6.1).
#[test]
fn a_request_that_comes_again_in_other_octets_gets_the_same_answer() {
    let mut world = Setup::default().established();
    world.probe(Station, 1);
    let asked = world.hold(Gateway).remove(0);
    world.receive(Gateway, &asked);
    let answer = world.hold(Station).remove(0);
    world.within(Station, |it, at| {
        it.current().forget_request();
        it.ask_probe(1, at);
    });
    let other = world.hold(Gateway).remove(0);
    assert_ne!(other.octets, asked.octets);
    for number in 0..20 {
        world.receive(Gateway, &other);
        let again = world.hold(Station);
        assert_eq!(again.len(), usize::from(number < 10), "{number}");
        assert!(again.iter().all(|it| it.octets == answer.octets));
    }
    // Not to a stranger.
    let mut world = Setup::default().established();
    world.probe(Station, 1);
    let mut forged = world.hold(Gateway).remove(0);
    world.receive(Gateway, &forged);
    world.hold(Station);
    *forged.octets.last_mut().unwrap() ^= 1;
    world.receive(Gateway, &forged);
    assert!(world.hold(Station).is_empty());
}

#[test]
fn an_answer_that_cannot_be_read_ends_the_session_and_is_not_waited_for() {
    for (ask, told) in [
        (World::probe as fn(&mut World, Who, u32), None),
        (
            |world, who, _| world.rekey_child(who),
            Some("child overtaken"),
        ),
    ] {
        let mut world = Setup::default().established();
        ask(&mut world, Station, 1);
        answers_badly(&mut world);
        assert!(world.station.session.is_none());
        let mut facts = world.station.facts.iter().rev();
        assert!(facts.next().unwrap().starts_with("failed"));
        assert_eq!(
            facts.next().filter(|_| told.is_some()).map(|it| &it[..]),
            told
        );
    }
}

/// The gateway has renewed the IKE SA: what comes under the old one harms nothing.
#[test]
fn an_answer_that_cannot_be_read_under_a_replaced_ike_sa_ends_nothing() {
    let mut world = Setup::default().established();
    world.rekey_ike(Station);
    while world.to_station.is_empty() {
        world.deliver(Gateway);
    }
    world.deliver(Station);
    // The delete of the old one is on the way. The gateway forgets it by itself.
    answers_badly(&mut world);
    assert!(world.station.session.is_some());
    world.pass(80);
    world.assert_agreed(1);
    assert_eq!(world.station.drops.of(DropReason::MalformedMessage), 1);
}

/// The gateway answers the station's request with a payload twice, and the station reads that.
fn answers_badly(world: &mut World) {
    let asked = world.hold(Gateway).remove(0);
    world.within(Gateway, |it, at| {
        let message = Message::parse(&asked.octets).unwrap();
        let sa = it.sas.iter_mut().find(|sa| sa.spis == message.spis());
        let sa = sa.expect("an IKE SA");
        let Ok(Read::New(opened)) = sa.read(asked.path, &message, at.now, at.out) else {
            panic!("a request");
        };
        let twice = [1, 2].map(|octet| Payload::Nonce(vec![octet; 32]));
        sa.answer(&opened, &twice, at);
    });
    world.run();
}

#[test]
fn an_answer_is_forgotten_when_no_peer_repeats_its_request_any_more() {
    let mut world = Setup::default().established();
    world.probe(Station, 1);
    let asked = world.hold(Gateway).remove(0);
    for (seconds, answers) in [(0, 1), (178, 1), (3, 0)] {
        world.pass(seconds);
        world.receive(Gateway, &asked);
        assert_eq!(world.hold(Station).len(), answers, "{seconds} s later");
    }
    assert_eq!(world.gateway.drops.of(DropReason::RetransmittedMessage), 3);
}

#[test]
fn a_message_of_who_has_proven_nothing_has_a_bound() {
    for (len, reason) in [
        (32 << 10, DropReason::UndecryptableMessage),
        ((32 << 10) + 1, DropReason::MalformedMessage),
    ] {
        let mut world = Setup::default().world();
        world.deliver(Gateway);
        world.deliver(Station);
        let mut asked = world.hold(Gateway).remove(0);
        let sealed = (len - 28) as u16;
        asked.octets.resize(len, 0);
        asked.octets[24..28].copy_from_slice(&(len as u32).to_be_bytes());
        asked.octets[30..32].copy_from_slice(&sealed.to_be_bytes());
        world.receive(Gateway, &asked);
        assert_eq!(world.gateway.drops.of(reason), 1, "{len}");
    }
}

#[test]
fn a_request_outside_the_window_is_dropped() {
    let mut world = Setup::default().established();
    world.probe(Station, 1);
    let skipped = world.hold(Gateway).remove(0);
    // The next request of a peer that does not wait for the answer.
    let session = world.station.session.as_mut().unwrap();
    session.inside().sas[0].asked = None;
    world.probe(Station, 2);
    let early = world.hold(Gateway).remove(0);
    world.receive(Gateway, &early);
    assert!(world.to_station.is_empty());
    assert_eq!(world.gateway.drops.of(DropReason::UnexpectedMessage), 1);
    world.receive(Gateway, &skipped);
    world.receive(Gateway, &early);
    assert_eq!(world.hold(Station).len(), 2);
}

#[test]
fn a_fragment_is_kept_only_if_it_is_authentic() {
    use super::world::Proof;
    let setup = Setup {
        station: Proof::Certificate,
        gateway: Proof::Certificate,
        ..Setup::default()
    };
    let mut world = setup.world();
    assert!(world.deliver(Gateway) && world.deliver(Station));
    let fragments = world.hold(Gateway);
    assert_eq!(fragments.len(), 2);
    for at in [20, 30, 33, 35, 60, 400] {
        let mut forged = fragments[0].clone();
        forged.octets[at] ^= 1;
        world.receive(Gateway, &forged);
        assert_eq!(world.gateway.session.as_ref().unwrap().fragment_octets(), 0);
    }
    // The last comes first, each comes twice.
    for fragment in [&fragments[1], &fragments[1], &fragments[0], &fragments[0]] {
        world.receive(Gateway, fragment);
    }
    world.run();
    world.assert_agreed(1);
    assert_eq!(world.gateway.session.as_ref().unwrap().fragment_octets(), 0);
}

/// A peer that has sent half a message, and is gone, holds nothing for long.
#[test]
fn fragments_of_a_message_that_is_not_completed_are_given_up() {
    let mut world = Setup::default().established();
    // 1,500 octets, in two fragments.
    let chain = [Payload::Nonce(vec![1; 250]), padding(1_250)];
    world.asks(Station, Exchange::Informational, &chain);
    let fragments = world.hold(Gateway);
    assert_eq!(fragments.len(), 2);
    world.receive(Gateway, &fragments[0]);
    world.station.session = None;
    let held = |world: &World| world.gateway.session.as_ref().unwrap().fragment_octets();
    assert!(held(&world) > 1_000);
    world.now = world.now + Duration::from_secs(30);
    // A repetition does not prolong its time.
    world.receive(Gateway, &fragments[0]);
    let rest = FRAGMENTS_KEPT - Duration::from_secs(30);
    world.pass(rest.as_secs() - 1);
    assert!(held(&world) > 1_000);
    assert_eq!(world.gateway.drops.of(DropReason::IncompleteMessage), 0);
    world.pass(1);
    assert_eq!(held(&world), 0);
    assert_eq!(world.gateway.drops.of(DropReason::IncompleteMessage), 1);
    // And the whole message is read if it comes after all.
    for fragment in &fragments {
        world.receive(Gateway, fragment);
    }
    assert_eq!(world.gateway.arrows.last().unwrap(), "informational 2: ");
}

fn padding(octets: usize) -> Payload {
    Payload::Other {
        kind: 200,
        body: vec![0; octets],
    }
}

#[test]
fn an_unknown_critical_payload_and_broken_syntax_are_answered_and_end_nothing() {
    let mut world = Setup::default().established();
    // A renewal of a child without anything that it needs.
    let chain = [Payload::Nonce(vec![1; 32])];
    world.asks(Station, Exchange::CreateChildSa, &chain);
    world.run();
    assert_eq!(
        world.gateway.arrows.last().unwrap(),
        "create child 2: N(INVALID_SYNTAX)"
    );
    world.assert_agreed(1);
    let chain = [1, 2].map(|octet| Payload::Nonce(vec![octet; 32]));
    world.asks(Station, Exchange::Informational, &chain);
    world.run();
    assert_eq!(
        world.gateway.arrows.last().unwrap(),
        "informational 2: N(INVALID_SYNTAX)"
    );
    world.assert_agreed(1);
}

#[test]
fn a_renewal_of_a_child_that_never_was_is_told() {
    use wire::ikev2::{Exchange, Notify, NotifyType, Payload, Protocol};
    let mut world = Setup::default().established();
    let notice = Notify::of_child(NotifyType::RekeySa, Protocol::Esp, 0x0bad_0bad);
    world.asks(Station, Exchange::CreateChildSa, &[Payload::Notify(notice)]);
    world.run();
    let last = world.gateway.arrows.last().unwrap();
    assert_eq!(last, "create child 2: N(CHILD_SA_NOT_FOUND)");
    world.assert_agreed(1);
}

/// An IKE_SA_INIT request with more payloads, of a type that nobody knows.
fn stuffed(octets: &[u8], more: usize) -> Vec<u8> {
    let read = WireMessage::parse(octets).unwrap();
    let mut chain: Vec<Payload> = read.clear.iter().map(|it| it.payload.clone()).collect();
    let unknown = Payload::Other {
        kind: 200,
        body: vec![0; 4],
    };
    chain.extend(vec![unknown; more]);
    let (next_payload, body) = write_payloads(&chain);
    let header = Header {
        next_payload,
        ..read.header
    };
    header.write(&body)
}

/// CVE-2026-12413: a peer fills its messages with payloads, and Libreswan's pluto ends.
#[test]
fn a_message_full_of_payloads_is_dropped_and_the_next_one_counts() {
    let own = {
        let mut world = Setup::default().world();
        let first = world.hold(Gateway).remove(0);
        WireMessage::parse(&first.octets).unwrap().clear.len()
    };
    for (more, is_taken) in [
        (1, true),
        (MAX_PAYLOADS - own, true),
        (MAX_PAYLOADS - own + 1, false),
        (900, false),
        (8000, false),
    ] {
        let mut world = Setup::default().world();
        let first = world.hold(Gateway).remove(0);
        let mut filled = first.clone();
        filled.octets = stuffed(&first.octets, more);
        world.receive(Gateway, &filled);
        assert_eq!(world.gateway.session.is_some(), is_taken, "{more}");
        if !is_taken {
            world.release(Gateway, vec![first]);
            world.run();
            world.assert_agreed(1);
        }
    }
    // Under keys too: the octets of a notification that nobody knows, again and again.
    for (more, is_read) in [
        (MAX_PAYLOADS - 1, true),
        (MAX_PAYLOADS + 1, false),
        (4000, false),
    ] {
        let mut world = Setup::default().established();
        world.asks(Station, Exchange::Informational, &vec![padding(4); more]);
        world.run();
        let answered = world.gateway.arrows.last().unwrap();
        let expected = ["informational 2: N(INVALID_SYNTAX)", "informational 2: "];
        assert_eq!(answered.trim(), expected[usize::from(is_read)].trim());
        world.assert_agreed(1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_octets_never_move_an_established_session(
        octets in proptest::collection::vec(any::<u8>(), 0..400),
        to_station in any::<bool>(),
    ) {
        let mut world = Setup::default().established();
        let before = state(&mut world);
        let (_, mut flight) = world.history[0].clone();
        let spis = world.station.session.as_ref().unwrap().spis();
        flight.octets = octets;
        // With the right SPIs, version and length it comes as far as it can.
        if flight.octets.len() >= 28 {
            flight.octets[..8].copy_from_slice(&spis.initiator.0);
            flight.octets[8..16].copy_from_slice(&spis.responder.0);
            flight.octets[17] = 0x20;
            let len = flight.octets.len() as u32;
            flight.octets[24..28].copy_from_slice(&len.to_be_bytes());
        }
        let to = if to_station { Station } else { Gateway };
        world.receive(to, &flight);
        prop_assert_eq!(state(&mut world), before);
        prop_assert!(world.to_station.is_empty() && world.to_gateway.is_empty());
    }

    #[test]
    fn a_random_first_message_makes_no_session_that_stays(
        octets in proptest::collection::vec(any::<u8>(), 28..400),
    ) {
        let mut world = Setup::default().world();
        let mut flight = world.hold(Gateway).remove(0);
        let head = flight.octets[..28].to_vec();
        flight.octets = octets;
        flight.octets[..28].copy_from_slice(&head);
        let len = flight.octets.len() as u32;
        flight.octets[24..28].copy_from_slice(&len.to_be_bytes());
        world.receive(Gateway, &flight);
        prop_assert!(world.gateway.session.is_none());
    }
}
