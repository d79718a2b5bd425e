//! A NAT that gives the station another port in the middle of an exchange.

use super::*;

/// Rebinds when `sent` datagrams have been sent, and says how long the tunnel took from there.
fn up_after_rebinding(seed: u8, is_aggressive: bool, sent: usize) -> Duration {
    let mut world = World::new(seed, move |connection, _| {
        connection.is_aggressive = is_aggressive;
    });
    while world.network.sent < sent {
        world.run(Duration::from_millis(1));
    }
    world.rebind();
    let from = world.now;
    while world.ends[0].seen.outbound.is_empty() || world.ends[1].seen.outbound.is_empty() {
        world.run(Duration::from_millis(10));
        assert!(world.now.since(from) < Duration::from_secs(100), "{sent}");
    }
    world.run(Duration::from_secs(1));
    world.assert_up();
    world.now.since(from)
}

#[test]
fn a_nat_may_rebind_after_any_message_of_a_handshake() {
    for is_aggressive in [true, false] {
        // phase 1, mode config, quick mode
        let messages = if is_aggressive { 8 } else { 11 };
        for sent in 1..=messages {
            let took = up_after_rebinding(64, is_aggressive, sent);
            assert!(
                took < Duration::from_secs(5),
                "{sent}, aggressive {is_aggressive}: {took:?}"
            );
        }
    }
}
