//! Tickets that are asked for, and what a station says that goes on by one.

use std::sync::Arc;

use super::resumption::{again, is_resumed, setup, with_ticket};
use super::world::{Setup, Who};
use crate::config::IdentityPattern;
use crate::ikev2::parts::notify;
use Who::{Gateway, Station};
use wire::ikev2::{Exchange, NotifyType};

/// The ticket says which gateway it is.
#[test]
fn a_station_that_spells_the_gateway_otherwise_goes_on_too() {
    let setup = Setup {
        names_gateway: true,
        ..setup()
    };
    let (mut world, ticket) = with_ticket(&setup);
    let mut connection = setup.connection(true);
    connection.remote.identities = vec![IdentityPattern::parse("GateWay.Example").unwrap()];
    world.station.connection = Arc::new(connection);
    again(&mut world, ticket);
    world.run();
    assert_eq!(is_resumed(&world), [true; 2]);
    let asked = world.names(Station)[1];
    assert!(asked.starts_with("auth 1: IDi AUTH"), "{asked}");
}

#[test]
fn who_asks_for_ticket_after_ticket_is_refused() {
    let (mut world, _) = with_ticket(&setup());
    let mut answers = Vec::new();
    for _ in 0..6 {
        world.within(Station, |it, at| it.ask_ticket(at));
        world.run();
        answers.push(world.names(Gateway).pop().unwrap().to_owned());
    }
    let given = answers.iter().filter(|it| it.contains("TICKET_LT_OPAQUE"));
    assert_eq!(given.count(), 4, "{answers:?}");
    assert!(answers[5].contains("TICKET_NACK"), "{answers:?}");
}

#[test]
fn a_request_beside_something_else_is_refused_and_answered() {
    let (mut world, _) = with_ticket(&setup());
    let chain = [NotifyType::TicketRequest, NotifyType::InitialContact].map(notify);
    world.asks(Station, Exchange::Informational, &chain);
    world.run();
    let answered = world.names(Gateway).pop().unwrap().to_owned();
    assert_eq!(answered, "informational 2: N(TICKET_NACK)");
}

/// Each costs a key exchange.
#[test]
fn who_renews_the_ike_sa_all_the_time_has_to_wait() {
    let mut world = setup().established();
    for _ in 0..9 {
        world.rekey_ike(Station);
        world.run();
    }
    let refused = world
        .names(Gateway)
        .join("\n")
        .matches("TEMPORARY_FAILURE")
        .count();
    assert_eq!(refused, 1);
    world.pass(80);
    world.assert_agreed(1);
}
