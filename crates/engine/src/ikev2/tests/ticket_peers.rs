//! A ticket is worth nothing once the certificate that it was given for has ended (RFC 5723 §6.2).
//! What a revocation does is in `node/tests/revoked.rs`.

use crypto::ml_dsa::MlDsa;

use super::resumption::{again, is_resumed, with_ticket_of};
use super::world::{Proof, Setup, Who, World};
use crate::ikev2::Ticket;
use crate::time::{Calendar, Duration};

/// The certificate of the station ends so long after the beginning.
const LEFT: u64 = 3_600;

fn begun() -> (World, Box<Ticket>) {
    let setup = Setup {
        station: Proof::MlDsa(MlDsa::Set44),
        gateway: Proof::Certificate,
        resumption: true,
        ..Setup::default()
    };
    let days = 30 * 86_400;
    let mut world = setup.world();
    world.calendar = Calendar(world.calendar.0 + days - LEFT as i64);
    with_ticket_of(world)
}

#[test]
fn a_ticket_ends_with_its_certificate() {
    let (mut world, ticket) = begun();
    let connection = world.station.connection.clone();
    let after = |seconds| world.now + Duration::from_secs(seconds);
    assert!(ticket.is_good(&connection, after(LEFT - 10)));
    assert!(!ticket.is_good(&connection, after(LEFT)));
    world.now = after(LEFT - 10);
    again(&mut world, ticket);
    world.run();
    assert_eq!(is_resumed(&world), [true; 2]);
    // A station that presents it nevertheless.
    let (mut world, ticket) = begun();
    world.now = world.now + Duration::from_secs(LEFT);
    again(&mut world, ticket);
    assert!(world.deliver(Who::Gateway));
    assert_eq!(world.gateway.arrows, ["resume 2: N(TICKET_NACK)"]);
    // The certificate does not help either.
    world.run();
    assert!(world.is_refused(), "{:?}", world.gateway.facts);
    assert!(world.station.session.is_none());
}
