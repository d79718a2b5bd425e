//! First messages of IKEv2: which ones repeat another one, and what comes after them.

use wire::ikev2::{Header as Ikev2Header, PayloadKind as Kind};

use super::ikev2::speaks;
use super::*;
use crate::config::Version;

fn world(seed: u8, change: impl Fn(&mut Connection, bool) + Send + Sync + 'static) -> World {
    World::new(seed, move |connection, is_station| {
        speaks(connection, Version::V2);
        change(connection, is_station);
    })
}

#[test]
fn who_copies_the_spi_of_a_first_message_does_not_keep_its_owner_out() {
    let mut world = world(150, |_, _| {});
    let Datagram { path, octets, .. } = world.network.wire.first().expect("the first message");
    let (path, mut forged) = (*path, octets.clone());
    // It is quicker than the owner, with the same address and SPI. Its answer
    // is lost: otherwise the owner would take it for its own.
    *forged.last_mut().expect("octets") ^= 1;
    world.network.loses = Some(world.network.sent + 1);
    world.deliver(1, path, &forged);
    assert_eq!(world.ends[1].node.half_open.total(), 1);
    world.run(Duration::from_millis(200));
    world.assert_up();
    assert_eq!(world.network.sent, 5);
    // The copy is forgotten like any exchange that does not go on.
    world.run(Duration::from_secs(60));
    assert_eq!(world.ends[1].node.half_open.total(), 0);
    world.assert_up();
}

#[test]
fn a_first_message_that_is_repeated_begins_nothing_and_gets_the_same_answer() {
    let mut world = world(151, |_, _| {});
    let Datagram { path, octets, .. } = world.network.wire.remove(0);
    for _ in 0..3 {
        world.deliver(1, path, &octets);
    }
    assert_eq!(world.ends[1].node.half_open.total(), 1);
    let answers: BTreeSet<&Vec<u8>> = world.network.log[1..].iter().collect();
    assert_eq!((world.network.log.len(), answers.len()), (4, 1));
    // From another port it is another one.
    let mut elsewhere = path;
    elsewhere.remote.set_port(path.remote.port() ^ 1);
    world.deliver(1, elsewhere, &octets);
    assert_eq!(world.ends[1].node.half_open.total(), 2);
}

/// The message with a vendor ID before its other payloads.
fn with_vendor_id(message: &[u8]) -> Vec<u8> {
    const VENDOR: [u8; 8] = [0, 0, 0, 8, 1, 2, 3, 4];
    let (header, body) = Ikev2Header::parse(message).expect("a message");
    let mut vendor = VENDOR;
    vendor[0] = header.next_payload.number();
    let header = Ikev2Header {
        next_payload: Kind::VendorId,
        ..header
    };
    header.write(&[&vendor[..], body].concat())
}

/// The next steps cost signatures, so an address may have a few of them at once.
#[test]
fn a_payload_in_clear_before_sk_does_not_get_round_the_limit_of_costly_exchanges() {
    let mut world = world(152, |connection, is_station| {
        if is_station {
            wrong_key(connection);
        }
    });
    let mut strict = config(false, &world.change);
    strict.limits.half_open_per_address = 1;
    world.input(1, Input::Configure(Arc::new(strict)));
    // An exchange that failed keeps its entry for a while.
    world.run(Duration::from_millis(200));
    assert_eq!(world.ends[1].node.half_open.failed(), 1);
    world.command(0, Command::Up("road".into()));
    world.run(Duration::from_millis(50));
    let second = world.network.wire.pop().expect("IKE_AUTH");
    let (before, unread) = (
        world.drops(1, DropReason::TooManyHalfOpen),
        world.drops(1, DropReason::UndecryptableMessage),
    );
    let marked = [&second.octets[..4], &with_vendor_id(&second.octets[4..])].concat();
    for octets in [&second.octets, &marked] {
        world.deliver(1, second.path, octets);
    }
    assert_eq!(world.drops(1, DropReason::TooManyHalfOpen), before + 2);
    assert_eq!(world.drops(1, DropReason::UndecryptableMessage), unread);
}
