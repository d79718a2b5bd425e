//! The road of paper U with the real engine on it.

use super::*;
use crate::scenario::{Catalogue, Entry, Kind, Scenario};

const ROAD: &str = include_str!("../../../../../python/caravan/catalogue/scenarios/road.toml");

/// A policy of the catalogue's form.
fn policy(name: &str, suite: &str, mode: &str, exchange: &str) -> Entry {
    let text = format!(
        "name = {name:?}\ntitle = {name:?}\nsuite = {suite:?}\nmode = {mode:?}\nudp = true\n\
         [keys]\nexchange = {exchange:?}\nproposal = \"aes128-sha256-modp2048\"\n\
         proof = \"rsa2048\"\n"
    );
    entry(Kind::Policy, name, text)
}

fn entry(kind: Kind, name: &str, text: String) -> Entry {
    Entry {
        kind,
        name: name.into(),
        file: format!("{name}.toml"),
        text,
    }
}

fn catalogue() -> Catalogue {
    let paper = include_str!("../../../../../python/caravan/catalogue/policies/3des-md5.toml");
    let clear = include_str!("../../../../../python/caravan/catalogue/policies/none.toml");
    let board = include_str!("../../../../../python/caravan/catalogue/devices/cortex-m4.toml");
    let device = include_str!("../../../../../python/caravan/catalogue/devices/paper-u.toml");
    Catalogue::new([
        entry(Kind::Policy, "3des-md5", paper.into()),
        entry(Kind::Policy, "none", clear.into()),
        entry(Kind::Device, "paper-u", device.into()),
        entry(Kind::Device, "cortex-m4", board.into()),
        policy(
            "aes",
            "aes128-sha256-modp2048",
            "transport",
            "ikev1-aggressive",
        ),
        policy("tunnel", "3des-md5-modp1024", "tunnel", "ikev1-aggressive"),
        policy("gcm", "aes128gcm16-modp2048", "tunnel", "ikev1-main"),
        policy("ah", "sha1_96-modp2048", "transport", "ikev1-main"),
        entry(Kind::Trace, "fast", "1\n2\n".into()),
        entry(Kind::Trace, "broken", "1\n0\n".into()),
    ])
}

pub(in crate::kernel) fn plan(edits: &[&str]) -> Result<Plan, String> {
    let catalogue = catalogue();
    let scenario = Scenario::edited("road.toml", ROAD, edits, &catalogue);
    let scenario = scenario.map_err(|fault| fault.to_string())?;
    Plan::of(&scenario, &catalogue).map_err(|fault| fault.to_string())
}

pub(in crate::kernel) fn run(edits: &[&str]) -> Outcome {
    let world = World::new(plan(edits).expect("a road"));
    world.expect("a world").run().expect("runs")
}

const SMALL: &str = "traffic.bytes=1 MB";

#[test]
fn the_papers_tunnel_comes_up_in_six_messages_and_carries_tcp() {
    let outcome = run(&[SMALL]);
    let exchange = outcome.exchange.as_ref().expect("an exchange");
    assert!(exchange.is_up, "{outcome:#?}");
    let names: Vec<&str> = exchange.messages.iter().map(|row| &*row.what).collect();
    let paper = [
        "aggressive 1",
        "aggressive 2",
        "aggressive 3",
        "quick 1",
        "quick 2",
        "quick 3",
    ];
    assert_eq!(names, paper, "{outcome:#?}");
    // two round trips of 40 ms and what the messages take
    let handshake_s = exchange.handshake_s.expect("it is up");
    assert!((0.080..0.090).contains(&handshake_s), "{handshake_s}");
    assert!(
        outcome.transferred.expect("tcp").is_complete,
        "{outcome:#?}"
    );
    assert_eq!(outcome.round_trips.expect("pings").received, 20);
    // paper U equation (11) and the 8 octets of an IV that it leaves out
    assert_eq!(outcome.wire_bytes, [(64, 104), (480, 520)]);
}

#[test]
fn every_mode_and_exchange_comes_up_and_carries_tcp_both_ways() {
    for (name, edits, messages, wire) in [
        ("clear", vec!["policy=none"], 0, (64, 64)),
        ("tunnel", vec!["policy=tunnel"], 8, (64, 128)),
        ("gcm", vec!["policy=gcm"], 11, (64, 128)),
        ("up", vec!["traffic.direction=up"], 6, (64, 104)),
    ] {
        let outcome = run(&[&edits[..], &[SMALL]].concat());
        let exchange = outcome.exchange.as_ref();
        assert_eq!(
            exchange.map_or(0, |one| one.messages.len()),
            messages,
            "{name}"
        );
        assert!(exchange.is_none_or(|one| one.is_up), "{name}: {outcome:#?}");
        let transferred = outcome.transferred.expect("tcp");
        assert!(transferred.is_complete, "{name}: {outcome:#?}");
        assert_eq!(outcome.round_trips.expect("pings").received, 20, "{name}");
        assert_eq!(outcome.wire_bytes[0], wire, "{name}");
        assert_eq!(outcome.drops, [], "{name}");
    }
}

#[test]
fn tcp_gets_what_the_link_leaves_it() {
    for rate in ["2 Mbit/s", "10 Mbit/s"] {
        let edit = format!("link.nat.rate={rate}");
        let outcome = run(&[&edit, "traffic.bytes=4 MB"]);
        let transferred = outcome.transferred.expect("tcp");
        let rate_bps = if rate.starts_with('2') { 2e6 } else { 10e6 };
        let share = transferred.throughput_bps / rate_bps;
        // 1400-odd octets of payload in each packet of 1500, and the beginning of the transfer
        assert!((0.80..0.95).contains(&share), "{rate}: {share}");
        assert_eq!(outcome.drops, [], "{rate}");
    }
}
