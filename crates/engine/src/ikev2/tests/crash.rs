//! Quick crash detection (RFC 6290): tokens in both directions, after renewals, and forged ones.

use std::sync::Arc;

use wire::ikev2::{Exchange, Notify, NotifyType, Payload};

use super::world::{Flight, Proof, Setup, Who, World};
use crate::counters::DropReason;
use crate::ike::{Role, Sent};
use crate::ikev2::clear::{Clear, clear};
use crate::ikev2::message::Message;
use Who::{Gateway, Station};

fn setup() -> Setup {
    Setup {
        crash_detection: true,
        ..Setup::default()
    }
}

/// What an end that has lost everything answers to a request of the other.
fn answer_of_crashed(world: &mut World, crashed: Who) -> Option<Flight> {
    world.probe(crashed.other(), 7);
    let asked = world.hold(crashed).remove(0);
    let message = Message::parse(&asked.octets).expect("a message");
    let maker = Arc::clone(&world.end(crashed).maker);
    let sent = maker.answer(&message, asked.path)?;
    Some(flight(&sent))
}

fn flight(sent: &Sent) -> Flight {
    Flight {
        path: sent.path.reversed(),
        octets: sent.message.clone(),
        name: sent.payloads.clone(),
    }
}

#[test]
fn both_ends_give_their_tokens_after_auth() {
    let world = setup().established();
    let asked = &world.names(Station)[1];
    assert!(asked.contains("AUTH N(QUICK_CRASH_DETECTION)"), "{asked}");
    let answered = &world.names(Gateway)[1];
    assert!(
        answered.contains("AUTH N(QUICK_CRASH_DETECTION) SA"),
        "{answered}"
    );
}

#[test]
fn who_has_lost_everything_shows_it_at_the_next_request() {
    for crashed in Who::BOTH {
        let mut world = setup().established();
        let mut shown = answer_of_crashed(&mut world, crashed).expect("an answer");
        assert_eq!(shown.name, "N(INVALID_IKE_SPI) N(QUICK_CRASH_DETECTION)");
        // From anywhere.
        shown.path.remote = ([203, 0, 113, 9], 9).into();
        let other = crashed.other();
        world.receive(other, &shown);
        assert!(world.end(other).session.is_none(), "{crashed:?}");
        assert_eq!(world.end(other).facts, ["the peer has lost everything"]);
    }
}

#[test]
fn an_answer_is_hardly_longer_than_what_it_answers() {
    let mut world = setup().established();
    world.probe(Station, 7);
    let asked = world.hold(Gateway).remove(0);
    let message = Message::parse(&asked.octets).unwrap();
    let sent = world.gateway.maker.answer(&message, asked.path).unwrap();
    assert!(sent.octets() <= asked.octets.len() + 8);
}

#[test]
fn nothing_else_is_answered() {
    let mut world = setup().established();
    let maker = Arc::clone(&world.gateway.maker);
    let answers = |octets: &[u8]| {
        let message = Message::parse(octets).unwrap();
        maker.answer(&message, world.history[0].1.path).is_some()
    };
    let mut all = world.history.iter().map(|(_, it)| answers(&it.octets));
    // IKE_SA_INIT is in clear, the second message of IKE_AUTH is an answer.
    let all: Vec<bool> = core::iter::from_fn(|| all.next()).collect();
    assert_eq!(all, [false, false, true, false]);
    world.probe(Station, 1);
}

#[test]
fn a_wrong_token_changes_nothing() {
    let mut world = setup().established();
    let right = answer_of_crashed(&mut world, Gateway).expect("an answer");
    let len = right.octets.len();
    for bit in 0..128 {
        let mut wrong = right.clone();
        wrong.octets[len - 16 + bit / 8] ^= 1 << (bit % 8);
        world.receive(Station, &wrong);
        assert!(world.station.session.is_some(), "bit {bit}");
        world.now = world.now + core::time::Duration::from_millis(100);
    }
    assert_eq!(world.station.drops.of(DropReason::WrongToken), 128);
    world.receive(Station, &right);
    assert!(world.station.session.is_none());
}

#[test]
fn few_messages_with_tokens_are_looked_at_in_a_row() {
    let mut world = setup().established();
    let right = answer_of_crashed(&mut world, Gateway).expect("an answer");
    let mut wrong = right.clone();
    *wrong.octets.last_mut().unwrap() ^= 1;
    for _ in 0..1_000 {
        world.receive(Station, &wrong);
    }
    let looked = world.station.drops.of(DropReason::WrongToken);
    assert!((10..=11).contains(&looked), "{looked}");
    assert_eq!(
        world.station.drops.of(DropReason::OverQuota),
        1_000 - looked
    );
    // And soon again.
    world.now = world.now + core::time::Duration::from_secs(1);
    world.receive(Station, &right);
    assert!(world.station.session.is_none());
}

#[test]
fn one_of_four_tokens_may_be_the_right_one() {
    for (place, is_taken) in (0..6).map(|it| (it, it < 4)) {
        let mut world = setup().established();
        world.probe(Station, 7);
        let asked = world.hold(Gateway).remove(0);
        let message = Message::parse(&asked.octets).unwrap();
        let spis = message.spis();
        let mut chain = vec![Payload::Notify(Notify::new(
            NotifyType::InvalidIkeSpi,
            Vec::new(),
        ))];
        for number in 0..6 {
            chain.push(match number == place {
                true => world.gateway.maker.notify(spis),
                false => Payload::Notify(Notify::new(NotifyType::QuickCrashDetection, [9; 32])),
            });
        }
        let head = Clear {
            exchange: Exchange::Informational,
            id: message.id(),
            is_initiator: message.our_role() == Role::Initiator,
            is_response: true,
        };
        let sent = clear(head, spis, &chain, asked.path);
        world.receive(Station, &flight(&sent));
        assert_eq!(world.station.session.is_none(), is_taken, "{place}");
    }
}

#[test]
fn a_request_in_clear_with_the_right_token_changes_nothing() {
    let mut world = setup().established();
    let mut right = answer_of_crashed(&mut world, Gateway).expect("an answer");
    // The flags of the header: no response.
    right.octets[19] &= !0x20;
    world.receive(Station, &right);
    assert!(world.station.session.is_some());
}

#[test]
fn a_renewed_ike_sa_has_tokens_of_its_own() {
    for (renews, crashed) in [
        (Station, Gateway),
        (Station, Station),
        (Gateway, Gateway),
        (Gateway, Station),
    ] {
        let mut world = setup().established();
        let before = answer_of_crashed(&mut world, crashed).expect("an answer");
        world.pass(3);
        world.end(crashed.other()).facts.clear();
        let mut world = setup().established();
        world.rekey_ike(renews);
        world.pass(3);
        world.assert_agreed(1);
        let told = world.names(renews).join("\n");
        assert!(
            told.contains("informational 1: N(QUICK_CRASH_DETECTION)"),
            "{told}"
        );
        let other = crashed.other();
        world.receive(other, &before);
        assert!(world.end(other).session.is_some(), "a token of the old one");
        let shown = answer_of_crashed(&mut world, crashed).expect("an answer");
        world.receive(other, &shown);
        assert!(world.end(other).session.is_none(), "{renews:?} {crashed:?}");
    }
}

/// Its delete came, and the answer was lost: the other end does not know the IKE SA any more.
#[test]
fn the_token_of_a_replaced_ike_sa_ends_that_one_alone() {
    for renews in Who::BOTH {
        let other = renews.other();
        let mut world = setup().established();
        let session = world.end(renews).session.as_mut().unwrap();
        let replaced = session.inside().sas[0].spis;
        world.rekey_ike(renews);
        world.deliver(other);
        world.deliver(renews);
        let sent = world.hold(other);
        sent.iter().for_each(|it| world.receive(other, it));
        let lost = world.hold(renews);
        assert!(!lost.is_empty());
        let mut sent = sent.iter().map(|it| Message::parse(&it.octets).unwrap());
        let deleted = sent.find(|it| it.spis() == replaced).expect("a delete");
        let maker = Arc::clone(&world.end(other).maker);
        let shown = maker.answer(&deleted, lost[0].path.reversed());
        world.receive(renews, &flight(&shown.expect("an answer")));
        let session = world.end(renews).session.as_mut().expect("it lives");
        assert_eq!(session.inside().sas.len(), 1, "{renews:?}");
        world.pass(80);
        world.assert_agreed(1);
    }
}

/// Nothing begins under the new one before the station has used it, or before the old one is gone.
#[test]
fn what_waits_for_the_end_of_a_replaced_ike_sa_goes_on_at_its_token() {
    let mut world = setup().established();
    world.probe(Gateway, 7);
    let lost = world.hold(Station).remove(0);
    let request = Message::parse(&lost.octets).unwrap();
    world.rekey_ike(Station);
    assert!(world.deliver(Gateway));
    // The renewal of a child that ends meanwhile, and a new one.
    world.rekey_child(Gateway);
    world.new_child(Gateway);
    let ended = world.gateway.pairs.remove(0).negotiated.spi_in;
    let session = world.gateway.session.as_mut().expect("a session");
    session.inside().children.remove(ended);
    assert_eq!(session.inside().sas.len(), 2);
    assert!(!last(&world).starts_with("create child 1"), "it waits");
    // The station has forgotten the old one.
    let shown = world.station.maker.answer(&request, lost.path).unwrap();
    world.receive(Gateway, &flight(&shown));
    let session = world.gateway.session.as_mut().expect("it lives");
    assert_eq!(session.inside().sas.len(), 1);
    assert!(
        last(&world).starts_with("create child 1"),
        "{}",
        last(&world)
    );
    assert_eq!(world.gateway.facts.last().unwrap(), "child overtaken");
}

fn last(world: &World) -> &str {
    world.gateway.arrows.last().expect("a message")
}

#[test]
fn renewals_that_cross_leave_both_ends_with_the_right_tokens() {
    for seed in 1..9 {
        for crashed in Who::BOTH {
            let mut world = Setup { seed, ..setup() }.established();
            world.rekey_ike(Station);
            world.rekey_ike(Gateway);
            world.pass(80);
            world.assert_agreed(1);
            let shown = answer_of_crashed(&mut world, crashed).expect("an answer");
            world.receive(crashed.other(), &shown);
            assert!(world.end(crashed.other()).session.is_none(), "{seed}");
        }
    }
}

#[test]
fn with_eap_each_end_gives_its_token_once_it_may() {
    let mut world = Setup {
        station: Proof::Password(super::world::PASSWORD),
        gateway: Proof::Certificate,
        ..setup()
    }
    .world();
    world.run();
    world.assert_agreed(1);
    let station = world.names(Station);
    assert!(station[1].contains("N(QUICK_CRASH_DETECTION)"));
    let gateway = world.names(Gateway);
    let (last, before) = gateway.split_last().unwrap();
    assert!(last.contains("AUTH N(QUICK_CRASH_DETECTION)"), "{last}");
    let is_told = |it: &&str| it.contains("QUICK_CRASH_DETECTION");
    assert!(!before.iter().any(is_told), "to nobody unauthenticated");
    let shown = answer_of_crashed(&mut world, Gateway).expect("an answer");
    world.receive(Station, &shown);
    assert!(world.station.session.is_none());
}

#[test]
fn an_end_without_it_gives_no_token_and_keeps_none() {
    for has in Who::BOTH {
        let mut world = setup().world();
        world.to_gateway.clear();
        let mut connection = setup().connection(true);
        connection.crash_detection = has == Station;
        world.change(Gateway, |it| it.crash_detection = has == Gateway);
        let mut world = world.begun_by(Arc::new(connection));
        world.run();
        world.assert_agreed(1);
        let gives = |world: &World, who| {
            let names = world.names(who).join("\n");
            names.contains("QUICK_CRASH_DETECTION")
        };
        assert!(gives(&world, has) && !gives(&world, has.other()));
        let shown = answer_of_crashed(&mut world, has).expect("an answer");
        world.receive(has.other(), &shown);
        assert!(world.end(has.other()).session.is_some());
    }
}
