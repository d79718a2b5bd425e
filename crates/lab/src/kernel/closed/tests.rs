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

/// The tandem takes datagrams over links without a queue limit.
const DATAGRAMS: [&str; 6] = [
    "link.nat.queue=",
    "traffic.bytes=",
    "traffic.model=constant",
    "traffic.rate=100 kbit/s",
    "traffic.sizes.model=fixed",
    "traffic.sizes.bytes=480 B",
];
const RELAY: [&str; 2] = ["node.nat.role=relay", "node.nat.udp_timeout="];

#[test]
fn a_chain_of_ipv6_agrees() {
    agree(&[&RELAY[..], &["family=6", "policy=gcm"]].concat(), 0.2);
}

/// GCM in UDP, then 3DES with a NAT, whatever its policy says about UDP.
#[test]
fn all_levels_have_the_same_sizes_of_packets() {
    let relay = |more: &[&'static str]| [&RELAY[..], more].concat();
    for (edits, wire) in [
        (vec!["policy=gcm"], [128, 544]),
        (relay(&["policy=gcm", "family=6"]), [148, 564]),
        // the network of a segment may be on any of its links
        (
            relay(&["policy=gcm", "link.nat.network=2001:db8:9::/64"]),
            [148, 564],
        ),
        // without UDP in the policy: a NAT on the path decides
        (vec!["policy=raw"], [108, 524]),
        (relay(&["policy=raw"]), [100, 516]),
    ] {
        let wire = [(64, wire[0]), (480, wire[1])];
        let outcome = run(&[&edits[..], &["traffic.bytes=10 KB"]].concat());
        assert_eq!(outcome.wire_bytes, wire, "{edits:?}");
        let closed = model(&blueprint(&edits).expect("a blueprint")).expect("a world");
        assert_eq!(closed.wire_bytes, wire, "{edits:?}");
        let protected = tandem(&[&edits[..], &DATAGRAMS].concat()).protected;
        for (clear, wire) in wire {
            assert_eq!(protected.at(f64::from(clear)), f64::from(wire), "{edits:?}");
        }
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
