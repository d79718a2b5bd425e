//! Mobile IP through a VPN gateway, with all machines in virtual time: with MOBIKE (RFC 5266), and
//! with a home agent outside (RFC 5265).

use super::*;
use crate::kernel::world::flows::Flowed;

const BY_MOBIKE: &str = include_str!(
    "../../../../../../python/caravan/catalogue/studies/mvpn-today/scenarios/visit-gateway.toml"
);
const BY_AGENT: &str = include_str!(
    "../../../../../../python/caravan/catalogue/studies/mvpn-today/scenarios/visit-agent.toml"
);
/// The link that the node moves to: 10 ms one way.
const DELAY_S: f64 = 0.010;

fn run(text: &str, edits: &[&str]) -> Flowed {
    let policies = ["aes128gcm16", "aes128gcm16-raw"].map(|name| {
        let text = format!(
            "name = {name:?}\ntitle = {name:?}\nsuite = \"aes128gcm16-modp2048\"\n\
             mode = \"tunnel\"\nudp = {}\n[keys]\nexchange = \"ikev2\"\n\
             proposal = \"aes128gcm16-prfsha256-curve25519\"\nproof = \"rsa2048\"\n",
            name == "aes128gcm16"
        );
        entry(Kind::Policy, name, text)
    });
    let link = "title = \"x\"\nrate = \"50 Mbit/s\"\ndelay = \"10 ms\"\n[sources]\nrate = \"x\"\n\
                delay = \"x\"\n";
    let link = entry(Kind::Link, "lte", link.to_owned());
    let catalogue = Catalogue::new(policies.into_iter().chain([link]));
    let scenario = Scenario::edited("visit.toml", text, edits, &catalogue).expect("a scenario");
    let resolved = scenario.resolved(&catalogue).expect("a network");
    let blueprint = Blueprint::of(&scenario, &resolved, &catalogue, &held()).expect("a blueprint");
    let world = World::new(blueprint).expect("a world");
    world.run_flows().expect("runs")
}

/// One round trip to where the node is made known, and what serialisation and the next datagram
/// take.
fn assert_one_round(flowed: &Flowed) {
    let [node] = &flowed.mobile[..] else {
        panic!("one node: {flowed:#?}")
    };
    let [gap] = &node.moves[..] else {
        panic!("one move: {node:#?}")
    };
    let gap_s = gap.data_gap_s.expect("data at the new place");
    assert!(
        (2.0 * DELAY_S..2.0 * DELAY_S + 0.001).contains(&gap_s),
        "{gap_s}"
    );
    assert!(node.failures.is_empty(), "{node:#?}");
    // Its home address was reachable all the time, and registered once, through the tunnel.
    let reachable = node.states.iter().filter(|state| state.is_reachable);
    assert_eq!(reachable.count(), 1, "{node:#?}");
    assert_eq!(flowed.unpriced, None);
}

/// Octets of each datagram on the link that the node has moved to.
fn octets(flowed: &Flowed) -> (u64, u64) {
    let link = flowed.links.iter().find(|link| link.name == "visited");
    let down = link.expect("a link").down;
    (down.delivered_bytes, down.delivered)
}

#[test]
fn with_mobike_a_move_outside_registers_nothing() {
    let flowed = run(BY_MOBIKE, &[]);
    let [tunnel] = &flowed.tunnels[..] else {
        panic!("one tunnel")
    };
    assert!(tunnel.exchange.is_up);
    assert_one_round(&flowed);
    assert_eq!(flowed.mobile[0].requests_outside, 0);
    // The update of the addresses, and the gateway's probe of the new one.
    assert_eq!((tunnel.later.len(), tunnel.moved), (4, 1), "{tunnel:#?}");
    // 84 octets in IP in IP and ESP in UDP; two of the messages came that way.
    let (bytes, packets) = octets(&flowed);
    let messages: u64 = tunnel.later.iter().filter(|it| !it.is_sent).count() as u64;
    let mean = bytes as f64 / packets as f64;
    assert!(messages == 2 && (mean - 168.0).abs() < 0.1, "{mean}");
}

#[test]
fn with_a_home_agent_outside_the_gateway_hears_nothing_of_a_move() {
    let flowed = run(BY_AGENT, &[]);
    let [tunnel] = &flowed.tunnels[..] else {
        panic!("one tunnel")
    };
    assert!(tunnel.exchange.is_up);
    assert_one_round(&flowed);
    assert_eq!((tunnel.later.len(), tunnel.moved), (0, 0), "{tunnel:#?}");
    // Two places, and the first time that home agent corrects the clock.
    assert_eq!(flowed.mobile[0].requests_outside, 3);
    // The same datagrams in ESP without UDP, and in IP in IP again.
    let (bytes, packets) = octets(&flowed);
    let mean = bytes as f64 / packets as f64;
    assert!((mean - 180.0).abs() < 0.1, "{mean}");
}

/// Where the home agent is as far away as the gateway, packets make the way twice.
#[test]
fn packets_go_by_way_of_the_home_agent_outside() {
    let delays = ["link.access.delay=40 ms", "link.outside.delay=40 ms"];
    let flowed = run(BY_AGENT, &delays);
    let node = &flowed.mobile[0];
    let gap_s = node.moves[0].data_gap_s.expect("data at the new place");
    let round_s = 2.0 * (DELAY_S + 0.040);
    assert!((round_s..round_s + 0.001).contains(&gap_s), "{gap_s}");
    let streamed = flowed.flows[0].streamed.as_ref().expect("datagrams");
    assert!(streamed.received > 0);
}

#[test]
fn the_home_agent_outside_is_not_behind_the_gateway() {
    let text = BY_AGENT.replace(
        "from = [\"xha\"]\nto = \"net\"",
        "from = [\"xha\"]\nto = \"r2\"",
    );
    let policy = |name| policy(name, "aes128gcm16-modp2048", "tunnel", "ikev2");
    let catalogue = Catalogue::new([policy("aes128gcm16-raw")]);
    let edits = ["link.visited.link=", "link.visited.rate=1 Mbit/s"];
    let scenario = Scenario::edited("visit.toml", &text, &edits, &catalogue);
    let resolved = scenario.and_then(|it| it.resolved(&catalogue));
    let said = resolved.expect_err("no way there").to_string();
    assert!(said.contains("'xha' is behind 'gw'"), "{said}");
}
