//! Redirect (RFC 5685) at the level of sessions: who is sent away, and whom a station believes.

use std::net::IpAddr;
use std::sync::Arc;

use wire::ikev2::{Exchange, Gateway as Elsewhere, Notify, Payload, Redirect};

use super::world::{Flight, PASSWORD, Proof, Setup, Who, World};
use crate::config::Redirects;
use crate::counters::DropReason;
use crate::ikev2::Travel;
use crate::ikev2::clear::{Clear, clear};
use crate::ikev2::message::Message;
use Who::{Gateway, Station};

const OTHER: [u8; 4] = [192, 0, 2, 77];

fn other() -> Elsewhere {
    Elsewhere::Address(OTHER.into())
}

/// A station that goes where `redirects` allows.
fn world(setup: &Setup, redirects: Redirects, from: Option<IpAddr>) -> World {
    let mut world = setup.world();
    let mut connection = setup.connection(true);
    connection.redirects = redirects;
    world.station.connection = Arc::new(connection);
    let travel = Travel {
        is_willing: true,
        from,
    };
    world.begin_again(None, travel);
    world
}

fn to_others() -> Redirects {
    Redirects {
        networks: vec![([192, 0, 2, 64].into(), [192, 0, 2, 127].into())],
        ..Redirects::default()
    }
}

fn sent(world: &World) -> bool {
    let facts = &world.station.facts;
    facts.iter().any(|it| it.contains("192.0.2.77"))
}

#[test]
fn a_first_message_is_answered_with_another_gateway() {
    let mut world = world(&Setup::default(), to_others(), None);
    world.away = Some(other());
    world.run();
    assert!(world.names(Station)[0].ends_with("N(REDIRECT_SUPPORTED)"));
    assert_eq!(world.names(Gateway), ["init 2: N(REDIRECT)"]);
    assert!(world.gateway.session.is_none(), "nothing is kept");
    assert!(sent(&world), "{:?}", world.station.facts);
    assert!(world.station.session.is_none());
}

#[test]
fn who_cannot_go_elsewhere_is_served() {
    let mut world = Setup::default().world();
    world.away = Some(other());
    world.run();
    world.assert_agreed(1);
}

#[test]
fn who_comes_from_there_is_served() {
    for (from, is_served) in [(OTHER, true), ([192, 0, 2, 78], false)] {
        let mut world = world(&Setup::default(), to_others(), Some(from.into()));
        world.away = Some(other());
        world.run();
        assert!(world.names(Station)[0].ends_with("N(REDIRECTED_FROM)"));
        let is_up = world.gateway.session.is_some();
        assert_eq!(is_up, is_served, "{from:?}");
    }
}

#[test]
fn a_gateway_does_not_send_anybody_to_itself() {
    let mut world = world(&Setup::default(), Redirects::default(), None);
    world.away = Some(Elsewhere::Address([192, 0, 2, 1].into()));
    world.run();
    world.assert_agreed(1);
}

/// An answer to the station's first message, as somebody may forge it.
fn forged(world: &World, gateway: Elsewhere, nonce: &[u8]) -> Flight {
    let first = &world.history[0].1;
    let message = Message::parse(&first.octets).unwrap();
    let redirect = Redirect {
        gateway,
        nonce: nonce.to_vec(),
    };
    let head = Clear {
        exchange: Exchange::IkeSaInit,
        id: 0,
        is_initiator: false,
        is_response: true,
    };
    let chain = [Payload::Notify(Notify::redirect(&redirect))];
    let sent = clear(head, message.spis(), &chain, first.path);
    Flight {
        path: first.path.reversed(),
        octets: sent.message,
        name: sent.payloads,
    }
}

fn nonce(world: &World) -> Vec<u8> {
    let message = wire::ikev2::Message::parse(&world.history[0].1.octets).unwrap();
    let mut nonces = message.clear.iter().filter_map(|it| match &it.payload {
        Payload::Nonce(nonce) => Some(nonce.clone()),
        _ => None,
    });
    nonces.next().expect("a nonce")
}

#[test]
fn an_answer_without_the_right_nonce_is_dropped() {
    let mut world = world(&Setup::default(), to_others(), None);
    let right = nonce(&world);
    let mut wrong = right.clone();
    wrong[0] ^= 1;
    for nonce in [&wrong[..], &right[1..], &[]] {
        let flight = forged(&world, other(), nonce);
        world.receive(Station, &flight);
        assert!(world.station.session.is_some());
    }
    assert_eq!(world.station.drops.of(DropReason::WrongRedirect), 3);
    world.run();
    world.assert_agreed(1);
}

#[test]
fn a_gateway_that_the_configuration_does_not_name_is_not_gone_to() {
    for redirects in [Redirects::default(), Redirects::NONE] {
        let mut world = world(&Setup::default(), redirects, None);
        let flight = forged(&world, other(), &nonce(&world));
        world.receive(Station, &flight);
        assert!(!sent(&world));
        assert_eq!(world.station.drops.of(DropReason::WrongRedirect), 1);
        // Whoever has sent it: the right gateway may still answer.
        world.run();
        world.assert_agreed(1);
    }
}

#[test]
fn a_station_that_says_nothing_of_it_is_not_sent_anywhere() {
    let mut world = Setup::default().world();
    let flight = forged(&world, other(), &nonce(&world));
    world.receive(Station, &flight);
    assert!(world.station.session.is_some());
    assert_eq!(world.station.drops.of(DropReason::WrongRedirect), 1);
}

#[test]
fn names_lead_to_the_addresses_of_the_configuration_alone() {
    let named = Redirects {
        names: vec![("gw2.example".into(), vec![OTHER.into()])],
        ..Redirects::default()
    };
    let connection = Setup::default().connection(true);
    let to = |name: &str| named.addresses(&Elsewhere::Fqdn(name.into()), &connection);
    assert_eq!(to("GW2.example"), [IpAddr::from(OTHER)]);
    assert!(to("gw3.example").is_empty());
    assert!(named.addresses(&other(), &connection).is_empty());
    let own = Elsewhere::Address([192, 0, 2, 1].into());
    assert_eq!(named.addresses(&own, &connection).len(), 1);
    assert!(Redirects::NONE.addresses(&own, &connection).is_empty());
    assert!(!Redirects::default().lead_anywhere(&connection));
    assert!(named.lead_anywhere(&connection) && to_others().lead_anywhere(&connection));
}

#[test]
fn who_has_authenticated_is_sent_away_with_the_answer() {
    for (station, gateway) in [
        (Proof::Key("secret"), Proof::Key("secret")),
        (Proof::Certificate, Proof::Certificate),
        (Proof::Password(PASSWORD), Proof::Certificate),
    ] {
        let setup = Setup {
            station,
            gateway,
            wants_inner: true,
            ..Setup::default()
        };
        let mut world = world(&setup, to_others(), None);
        world.sends_away_after_auth = Some(other());
        world.run();
        let last = world.names(Gateway);
        let answer = last.iter().find(|it| it.contains("N(REDIRECT)")).unwrap();
        assert!(
            answer.starts_with("auth 2") && !answer.contains("TSi"),
            "{answer}"
        );
        assert!(sent(&world), "{:?}", world.station.facts);
        assert!(world.gateway.pairs.is_empty());
        // RFC 5685 §6: the station ends the IKE SA.
        let deleted = "IKE SA deleted".to_owned();
        assert!(
            world.gateway.facts.contains(&deleted),
            "{:?}",
            world.gateway.facts
        );
    }
}

#[test]
fn a_gateway_that_does_not_prove_itself_sends_nobody_away() {
    let setup = Setup {
        gateway: Proof::Key("wrong"),
        ..Setup::default()
    };
    let mut world = world(&setup, to_others(), None);
    let mut connection = Setup::default().connection(true);
    connection.redirects = to_others();
    world.station.connection = Arc::new(connection);
    let travel = Travel {
        is_willing: true,
        from: None,
    };
    world.begin_again(None, travel);
    world.sends_away_after_auth = Some(other());
    world.run();
    assert!(!sent(&world), "{:?}", world.station.facts);
    assert!(world.station.session.is_none());
}

#[test]
fn a_connected_station_is_told() {
    let mut world = world(&Setup::default(), to_others(), None);
    world.run();
    world.assert_agreed(1);
    world.step(Gateway, |session, random, now, out| {
        assert!(session.may_be_sent_to(&other()));
        session.send_away(&other(), random, now, out);
    });
    world.run();
    assert!(sent(&world), "{:?}", world.station.facts);
    // The node decides; until then the tunnel stays.
    world.assert_agreed(1);
    // A gateway that is sent away by its station stays where it is.
    let session = world.station.session.as_ref().unwrap();
    assert!(!session.may_be_sent_to(&other()));
}

#[test]
fn a_ticket_is_answered_with_another_gateway_too() {
    let setup = Setup {
        resumption: true,
        ..Setup::default()
    };
    let mut world = world(&setup, to_others(), None);
    world.run();
    let ticket = world.station.session.as_mut().unwrap().take_ticket();
    let travel = Travel {
        is_willing: true,
        from: None,
    };
    world.begin_again(ticket, travel);
    world.away = Some(other());
    world.run();
    assert_eq!(world.names(Gateway), ["resume 2: N(REDIRECT)"]);
    assert!(sent(&world), "{:?}", world.station.facts);
}
