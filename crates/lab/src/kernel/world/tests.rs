//! Tests of paper U's scenario with the real engine.

use std::cell::Cell;
use std::rc::Rc;

use engine::selector::TrafficSelector;

use super::tunnel::Tunnel;
use super::*;
use crate::kernel::trace::{Rewind, held};
use crate::kernel::{Subject, levels, trace};
use crate::scenario::{Catalogue, Entry, Kind, Scenario};

pub(super) mod blocks;
mod detection;
mod ikev2;
mod nested;

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
        digest: None,
    }
}

fn catalogue() -> Catalogue {
    let paper = include_str!("../../../../../python/caravan/catalogue/policies/3des-md5.toml");
    let clear = include_str!("../../../../../python/caravan/catalogue/policies/none.toml");
    let board = include_str!("../../../../../python/caravan/catalogue/devices/cortex-m4.toml");
    let small = include_str!("../../../../../python/caravan/catalogue/devices/cortex-m0plus.toml");
    let device = include_str!("../../../../../python/caravan/catalogue/devices/paper-u.toml");
    let raw = policy("raw", "aes128gcm16-modp2048", "transport", "ikev1-main");
    Catalogue::new([
        entry(Kind::Policy, "3des-md5", paper.into()),
        entry(Kind::Policy, "none", clear.into()),
        entry(Kind::Device, "paper-u", device.into()),
        entry(Kind::Device, "cortex-m4", board.into()),
        entry(Kind::Device, "cortex-m0plus", small.into()),
        policy(
            "aes",
            "aes128-sha256-modp2048",
            "transport",
            "ikev1-aggressive",
        ),
        policy("tunnel", "3des-md5-modp1024", "tunnel", "ikev1-aggressive"),
        policy("gcm", "aes128gcm16-modp2048", "tunnel", "ikev1-main"),
        Entry {
            text: raw.text.replace("udp = true", "udp = false"),
            ..raw
        },
        entry(Kind::Trace, "fast", "1\n2\n".into()),
        entry(Kind::Trace, "broken", "1\n0\n".into()),
    ])
}

pub(in crate::kernel) fn blueprint(edits: &[&str]) -> Result<Blueprint, String> {
    let catalogue = catalogue();
    let scenario = Scenario::edited("road.toml", ROAD, edits, &catalogue);
    let scenario = scenario.map_err(|fault| fault.to_string())?;
    let resolved = scenario.resolved(&catalogue);
    let resolved = resolved.map_err(|fault| fault.to_string())?;
    let blueprint = Blueprint::of(&scenario, &resolved, &catalogue, &held());
    blueprint.map_err(|fault| fault.to_string())
}

/// The same chain for the tandem.
pub(in crate::kernel) fn tandem(edits: &[&str]) -> crate::tandem::Tandem {
    let catalogue = catalogue();
    let scenario = Scenario::edited("road.toml", ROAD, edits, &catalogue);
    let scenario = scenario.expect("a scenario");
    let resolved = scenario.resolved(&catalogue).expect("a network");
    let tandem = scenario.tandem(&resolved, &catalogue);
    tandem.expect("a tandem")
}

pub(in crate::kernel) fn run(edits: &[&str]) -> Outcome {
    let world = World::new(blueprint(edits).expect("a blueprint"));
    world.expect("a world").run().expect("runs")
}

const SMALL: &str = "traffic.bytes=1 MB";

/// How often each end sent each message, from the station's log and from what it received.
fn sendings(outcome: &Outcome) -> Vec<(&str, usize)> {
    let mut found: Vec<(&str, usize)> = Vec::new();
    for row in &outcome.exchange.as_ref().expect("an exchange").messages {
        match found.iter_mut().find(|(what, _)| *what == row.what) {
            Some((_, times)) => *times += 1,
            None => found.push((&row.what, 1)),
        }
    }
    found
}

#[test]
fn simulated_ends_probe_a_silent_peer_after_the_times_of_real_ones() {
    let blueprint = blueprint(&[SMALL]).expect("a blueprint");
    let set = &blueprint.setup.tunnels[0];
    let tunnels = blueprint.tunnels_at(set.from);
    let inside = TrafficSelector::subnet(set.inside.first, set.inside.bits);
    let station = tunnels[0].0.station(set.gateway, inside, 1500, false);
    let gateway = Tunnel::gateway(&tunnels, inside, |_| 1500);
    let delay = |config: &engine::config::Config| config.connections[0].dpd_delay;
    assert_eq!(delay(&station), Some(Duration::from_secs(20)));
    assert_eq!(delay(&gateway), Some(Duration::from_secs(60)));
}

#[test]
fn a_processor_that_takes_seconds_for_a_message_sends_it_once() {
    // An STM32 at 80 MHz: half a second for its public value, 2.8 s for its signature.
    let outcome = run(&[
        "policy=gcm",
        "node.ms.device=cortex-m4",
        "traffic.bytes=100 KB",
    ]);
    let exchange = outcome.exchange.as_ref().expect("an exchange");
    assert!(
        exchange.is_up && exchange.handshake_s > Some(4.0),
        "{outcome:#?}"
    );
    assert!(
        sendings(&outcome).iter().all(|(_, times)| *times == 1),
        "{outcome:#?}"
    );
    assert!(outcome.drops.is_empty(), "{outcome:#?}");
}

#[test]
fn messages_of_ike_are_no_bytes_of_a_packet() {
    for seed in 1..16 {
        let outcome = run(&[
            "policy=gcm",
            "link.nat.loss=0.3",
            "traffic.bytes=1 KB",
            &format!("seed={seed}"),
        ]);
        if outcome.exchange.as_ref().is_some_and(|it| it.is_up) {
            assert_eq!(outcome.wire_bytes, [(64, 128), (480, 544)], "seed {seed}");
        }
    }
}

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

#[test]
fn the_same_seed_gives_the_same_run_on_every_machine() {
    let first = run(&[SMALL]);
    assert_eq!(first, run(&[SMALL]));
    let pinned: toml::Table = include_str!("../fingerprints.toml").parse().expect("toml");
    let pins = pinned["run"].as_array().expect("runs").iter();
    let (kept, found): (Vec<_>, Vec<_>) = pins
        .map(|pin| {
            let edits = pin["edits"].as_array().expect("edits").iter();
            let edits: Vec<&str> = edits.map(|edit| edit.as_str().expect("text")).collect();
            let kept = pin["fingerprint"].as_str().expect("text").to_owned();
            (kept, run(&edits).fingerprint)
        })
        .unzip();
    assert_eq!(kept, found);
    // without loss the seed changes keys, but no length or time
    let lossy = |seed| run(&[SMALL, seed, "link.nat.loss=0.02"]).fingerprint;
    assert_ne!(lossy("seed=1"), lossy("seed=2"));
}

#[test]
fn a_lossy_link_delays_the_handshake_and_slows_tcp_but_all_comes() {
    let edits = ["link.nat.loss=0.02", "traffic.bytes=500 KB"];
    let lossy = run(&edits);
    assert!(lossy.exchange.is_some_and(|one| one.is_up));
    let (lossy, clean) = (lossy.transferred, run(&edits[1..]).transferred);
    let (lossy, clean) = (lossy.expect("tcp"), clean.expect("tcp"));
    assert!(lossy.is_complete, "{lossy:?}");
    assert!(lossy.throughput_bps < clean.throughput_bps);
}

#[test]
fn real_packets_are_cut_at_what_a_datagram_holds() {
    let sizes = "traffic.sizes={ model = 'pareto', shape = 0.4, smallest = '81.5 B', \
                 largest = '66666 B' }";
    let rate = [
        "traffic.model=poisson",
        "traffic.bytes=",
        "traffic.rate=2 Mbit/s",
    ];
    let edits = [&rate[..], &["traffic.direction=up", sizes]].concat();
    let limited = ["run.time=60 s", "link.nat.rate=100 Mbit/s"];
    for (policy, limit_bytes) in [("none", 65_507), ("tunnel", 65_470)] {
        let policy = format!("policy={policy}");
        let outcome = run(&[&edits[..], &limited, &[&policy]].concat());
        let streamed = outcome.streamed.expect("datagrams");
        let cut = streamed.cut;
        assert_eq!(cut.limit_bytes, limit_bytes, "{outcome:#?}");
        assert!(
            cut.packets > 10 && cut.sent_mean_bytes < cut.asked_mean_bytes,
            "{cut:?}"
        );
        // the fragments of each are reassembled behind the NAT and at the gateway
        assert_eq!(streamed.received, streamed.sent, "{outcome:#?}");
    }
}

#[test]
fn a_gateway_may_end_the_chain_and_a_nat_may_be_absent() {
    let end = ROAD.find("[[node]]\nname = \"server\"").expect("a server");
    let links = ROAD.find("# The access link").expect("links");
    let last = ROAD.rfind("[[link]]").expect("a last link");
    let text = format!("{}{}", &ROAD[..end], &ROAD[links..last]);
    let catalogue = catalogue();
    for policy in ["3des-md5", "tunnel", "none", "raw"] {
        let mut text = text.clone();
        if policy == "raw" {
            let (from, to) = (
                text.find("[[node]]\nname = \"nat\""),
                text.find("[[node]]\nname = \"sg\""),
            );
            text.replace_range(from.expect("nat")..to.expect("sg"), "");
            let (from, to) = (
                text.find("[[link]]\nfrom = \"ms\""),
                text.find("# The queue"),
            );
            text.replace_range(from.expect("link")..to.expect("queue"), "");
            text = text.replace("from = \"nat\"", "from = \"ms\"");
        }
        let edits = [SMALL, &format!("policy={policy}")];
        let scenario = Scenario::edited("road.toml", &text, &edits, &catalogue);
        let scenario = scenario.expect(policy);
        let resolved = scenario.resolved(&catalogue).expect(policy);
        let blueprint = Blueprint::of(&scenario, &resolved, &catalogue, &held()).expect(policy);
        let outcome = World::new(blueprint).expect("a world").run().expect("runs");
        let transferred = outcome.transferred;
        assert!(
            transferred.is_some_and(|one| one.is_complete),
            "{policy}: {outcome:#?}"
        );
        assert_eq!(outcome.drops, [], "{policy}");
    }
}

#[test]
fn a_rebound_nat_moves_the_path_and_the_tunnel_goes_on() {
    let mut world = World::new(blueprint(&[SMALL]).expect("a blueprint")).expect("a world");
    world.kernel.start().expect("a world that can be");
    assert!(world.handshakes().expect("runs")[0].is_up);
    let nats = (0..).map_while(|number| Some((number, world.kernel.element(number)?)));
    let nat = nats
        .filter(|(_, element)| matches!(element, Element::Nat(_)))
        .last();
    let nat = nat.expect("a nat").0;
    if let Some(Element::Nat(router)) = world.kernel.element_mut(nat) {
        router.nat.rebind();
    }
    assert_eq!(
        world.round_trips().expect("runs").received,
        usize::from(PINGS)
    );
    let gateway = world.blueprint.graph.tunnels[0].to;
    let control = world
        .host(world.number(gateway))
        .and_then(|host| host.part.control());
    assert!(control.is_some_and(|control| control.log.moved > 0));
}

#[test]
fn a_capture_has_every_link_and_every_packet() {
    #[derive(Clone, Default)]
    struct Shared(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);
    impl Write for Shared {
        fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(octets);
            Ok(octets.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let shared = Shared::default();
    let mut world =
        World::new(blueprint(&["traffic.bytes=10 KB"]).expect("a blueprint")).expect("a world");
    world.capture(Box::new(shared.clone()));
    world.run().expect("runs");
    let file = shared.0.borrow();
    let (mut at, mut kinds) = (0, Vec::new());
    while at < file.len() {
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four"));
        let length = word(at + 4) as usize;
        assert_eq!(word(at + length - 4) as usize, length);
        kinds.push(word(at));
        at += length;
    }
    assert_eq!(kinds[0], 0x0a0d_0d0a);
    assert_eq!(kinds.iter().filter(|kind| **kind == 1).count(), 6);
    assert!(kinds.iter().filter(|kind| **kind == 6).count() > 120);
}

#[test]
fn a_capture_that_cannot_be_written_fails_the_run() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("no space left"))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut world =
        World::new(blueprint(&["traffic.bytes=10 KB"]).expect("a blueprint")).expect("a world");
    world.capture(Box::new(Full));
    let fault = world.run().expect_err("a full disk");
    assert_eq!(
        fault,
        crate::kernel::KernelFault::Capture("no space left".into())
    );
}

#[test]
fn what_the_kernel_does_not_run_is_named() {
    let capture = "traffic={ model = 'pcap', file = 'x.pcap' }";
    let stream = "traffic={ model = 'constant', rate = '1 Mbit/s', direction = 'down', \
                  sizes = { model = 'fixed', bytes = '480 B' } }";
    for (edit, said) in [
        (
            capture,
            "--set traffic.model: only the tandem replays captures",
        ),
        (
            "link.nat.trace=broken",
            "broken.toml:2: 0 ms comes after 1 ms",
        ),
        (
            "node.nat.udp_timeout=0 s",
            "--set node.nat.udp_timeout: this must be above zero",
        ),
        (
            "policy=aes128-sha256",
            "--set policy: it has no [keys], and the event kernel sets up tunnels with IKE",
        ),
        (
            "node.ms.device=paper-u",
            "--set node.ms.device: paper-u: it counts operations: give the MIPS of the processor, \
             --mips 100 or mips = 100 in its node",
        ),
    ] {
        let fault = blueprint(&[edit]).err().expect(edit);
        assert!(fault.starts_with(said), "{fault}");
    }
    let fault = blueprint(&["policy=none", stream])
        .err()
        .expect("a nat in the way");
    assert!(
        fault.contains("traffic.direction: the NAT drops datagrams from outside"),
        "{fault}"
    );
    assert!(run(&["link.nat.trace=fast", SMALL]).transferred.is_some());
    for policy in ["3des-md5", "tunnel"] {
        let policy = format!("policy={policy}");
        let outcome = run(&[&policy, stream, "run.time=5 s"]);
        let streamed = outcome.streamed.expect("datagrams");
        assert!(
            streamed.sent > 1000 && streamed.sent == streamed.received,
            "{outcome:#?}"
        );
    }
}

#[test]
fn what_the_kernel_refuses_of_a_file_has_its_line() {
    let station = "role = \"station\"";
    let device = "role = \"station\"\ndevice = \"paper-u\"";
    let fast = "role = \"station\"\ndevice = \"paper-u\"\nmips = 100";
    let policy = |name: &str| (format!("policy = \"{name}\""), "policy = \"3des-md5\"");
    for (with, (to, from), said) in [
        (
            device,
            policy("3des-md5"),
            "node.ms.device: paper-u: it counts operations",
        ),
        (fast, policy("aes"), "policy: paper-u has no cost of aes128"),
        (station, policy("aes128-sha256"), "policy: it has no [keys]"),
    ] {
        let text = ROAD.replacen(station, with, 1).replacen(from, &to, 1);
        let key = said
            .split(':')
            .next()
            .and_then(|key| key.rsplit('.').next());
        let written = format!("\n{} =", key.expect("a key"));
        let line = 2 + text[..text.find(&written).expect(said)]
            .matches('\n')
            .count();
        let catalogue = catalogue();
        let scenario = Scenario::parse("road.toml", &text, &catalogue).expect(said);
        let resolved = scenario.resolved(&catalogue).expect(said);
        let levels = levels::both_levels(&scenario, &resolved, &catalogue, &held(), None);
        let fault = levels.expect_err(said);
        let fault = fault.to_string();
        let wanted = format!("road.toml:{line}:1: {said}");
        assert!(fault.starts_with(&wanted), "{fault}, not {wanted}");
    }
}

/// Each direction reads the recording separately; a recording that is truncated meanwhile ends the
/// run.
#[test]
fn a_recording_that_changes_ends_the_run_with_the_links_name() {
    let opened = Rc::new(Cell::new(0));
    let count = opened.clone();
    let open: trace::Open = Rc::new(move |entry: &Entry| {
        count.set(count.get() + 1);
        let text = if count.get() < 3 { &entry.text } else { "1\n" };
        let text: Box<dyn Rewind> = Box::new(std::io::Cursor::new(text.to_owned()));
        Ok(text)
    });
    let catalogue = catalogue();
    let scenario = Scenario::edited("road.toml", ROAD, &["link.nat.trace=fast"], &catalogue);
    let scenario = scenario.expect("a scenario");
    let resolved = scenario.resolved(&catalogue).expect("a network");
    let fault = levels::both_levels(&scenario, &resolved, &catalogue, &open, None);
    let fault = fault.expect_err("a cut recording").to_string();
    assert!(fault.contains("link.nat"), "{fault}");
    assert!(
        fault.ends_with("the trace changed while it was replayed"),
        "{fault}"
    );
    assert_eq!(opened.get(), 3);
}

#[test]
fn more_datagrams_than_the_path_carries_end_in_a_fault_and_not_in_all_memory() {
    let stream = "traffic={ model = 'constant', rate = '400 Mbit/s', direction = 'up', \
                  sizes = { model = 'fixed', bytes = '100 B' } }";
    let edits = [
        stream,
        "policy=none",
        "link.nat.queue=1 GB",
        "link.nat.rate=10 kbit/s",
    ];
    let world = World::new(blueprint(&edits).expect("a blueprint")).expect("a world");
    let fault = world.run().expect_err("too much");
    assert!(
        matches!(
            fault,
            KernelFault::Overloaded {
                subject: Subject::Flow(0),
                ..
            }
        ),
        "{fault:?}"
    );
    let fault = fault.to_string();
    assert!(
        fault.contains("packets are in the network after"),
        "{fault}"
    );
}
