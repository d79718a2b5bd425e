//! A ticket is worth nothing once the certificate that it was given for has ended (RFC 5723 §6.2).
//! What a revocation does is in `node/tests/revoked.rs`.

use super::resumption::{again, is_resumed, with_ticket_of};
use super::world::{Proof, Setup, Who, World};
use crate::ikev2::Ticket;
use crate::time::{Calendar, Duration};

/// The end of the certificate in `keys/p256.pem`, in seconds since 1970.
const END: i64 = 4_949_488_448;
/// The beginning is so long before it.
const LEFT: u64 = 3_600;

fn begun() -> (World, Box<Ticket>) {
    let setup = Setup {
        station: Proof::Curve("p256"),
        gateway: Proof::Key("secret"),
        resumption: true,
        ..Setup::default()
    };
    let mut world = setup.world();
    world.calendar = Calendar(END - LEFT as i64);
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
    world.now = world.now + Duration::from_secs(LEFT + 60);
    again(&mut world, ticket);
    assert!(world.deliver(Who::Gateway));
    assert_eq!(world.gateway.arrows, ["resume 2: N(TICKET_NACK)"]);
    // The certificate does not help either.
    world.run();
    assert!(world.is_refused(), "{:?}", world.gateway.facts);
    assert!(world.station.session.is_none());
}
