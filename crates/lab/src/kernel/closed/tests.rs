//! Compares formulas with the kernel.

use super::*;
use crate::kernel::world::tests::{blueprint, run, tandem};

fn agree(edits: &[&str], within: f64) {
    let closed = model(&blueprint(edits).expect("a blueprint")).expect("a world");
    let outcome = run(edits);
    assert_eq!(closed.wire_bytes, outcome.wire_bytes, "{edits:?}");
    let near = |what: &str, formula: f64, simulated: f64, within: f64| {
        let relative = simulated / formula - 1.0;
        assert!(
            relative.abs() < within,
            "{edits:?}: {what}: {formula} {simulated}"
        );
    };
    let round_trips = outcome.round_trips.expect("pings");
    near("round trip", closed.round_trip_s, round_trips.mean_s, 0.001);
    if let Some(exchange) = outcome.exchange {
        assert_eq!(
            closed.handshake_wire_bytes, exchange.wire_bytes,
            "{edits:?}"
        );
        let handshake_s = exchange.handshake_s.expect("up");
        near(
            "handshake",
            closed.handshake_s.expect("priced"),
            handshake_s,
            0.005,
        );
    }
    let transferred = outcome.transferred.expect("tcp");
    near(
        "tcp",
        closed.throughput_bps,
        transferred.throughput_bps,
        within,
    );
}

#[test]
fn formulas_and_kernel_agree_where_the_link_limits() {
    agree(&["policy=none"], 0.08);
    agree(&[], 0.08);
    agree(
        &[
            "policy=tunnel",
            "link.nat.rate=2 Mbit/s",
            "traffic.bytes=4 MB",
        ],
        0.05,
    );
    agree(&["policy=gcm", "traffic.direction=up"], 0.08);
}

#[test]
fn a_slow_processor_limits_in_both() {
    let edits = [
        "policy=aes",
        "node.ms.device=cortex-m4",
        "node.ms.clock=2400 MHz",
        "link.nat.rate=1 Gbit/s",
        "link.nat.delay=1 ms",
    ];
    agree(&edits, 0.15);
    let closed = model(&blueprint(&edits).expect("a blueprint")).expect("a world");
    assert_eq!(closed.narrowest, "ms");
}

#[test]
fn a_chain_of_ipv6_agrees_and_has_the_sizes_of_the_tandem() {
    let chain = ["family=6", "node.nat.role=relay", "node.nat.udp_timeout="];
    let edits = [&chain[..], &["policy=gcm"]].concat();
    agree(&edits, 0.2);
    let closed = model(&blueprint(&edits).expect("a blueprint")).expect("a world");
    // IPv4 has 128 and 544
    assert_eq!(closed.wire_bytes, [(64, 148), (480, 564)]);
    let datagrams = [
        "policy=gcm",
        "link.nat.queue=",
        "traffic.bytes=",
        "traffic.model=constant",
        "traffic.rate=100 kbit/s",
        "traffic.sizes.model=fixed",
        "traffic.sizes.bytes=480 B",
    ];
    let protected = tandem(&[&chain[..], &datagrams].concat()).protected;
    for (clear, wire) in closed.wire_bytes {
        assert_eq!(protected.at(f64::from(clear)), f64::from(wire));
    }
}

#[test]
fn what_has_no_price_is_named_and_not_made_up() {
    let edits = ["node.ms.device=paper-u", "node.ms.mips=100"];
    let closed = model(&blueprint(&edits).expect("a blueprint")).expect("a world");
    assert_eq!(closed.handshake_s, None);
    let unpriced = closed.unpriced.expect("a reason");
    assert!(
        unpriced.starts_with("ms: ") && unpriced.contains("paper-u"),
        "{unpriced}"
    );
    let outcome = run(&[&edits[..], &["traffic.bytes=100 KB"]].concat());
    assert!(
        outcome
            .unpriced
            .is_some_and(|what| what.starts_with("ms: "))
    );
    assert!(outcome.transferred.is_some_and(|one| one.is_complete));
}

/// The M0+ has costs for RSA but none for Diffie-Hellman, and computes a secret and a signature for
/// one message.
#[test]
fn what_has_a_cost_takes_its_time_beside_what_has_none() {
    let edits = ["policy=aes", "node.ms.device=cortex-m0plus"];
    let outcome = run(&[&edits[..], &["traffic.bytes=100 KB"]].concat());
    let missing = "per_operation.modp2048-generate is empty";
    assert!(outcome.unpriced.is_some_and(|what| what.ends_with(missing)));
    let signature_s = 207_424_000.0 / 64e6;
    let taken = outcome
        .exchange
        .and_then(|one| one.handshake_s)
        .expect("up");
    assert!(taken > signature_s, "{taken}");
}
