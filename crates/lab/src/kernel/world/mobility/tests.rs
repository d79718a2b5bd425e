//! Tests of mobile nodes and home agents with their real machines.

use super::super::World;
use super::super::flows::Flowed;
use super::*;
use crate::kernel::trace::held;
use crate::scenario::{Catalogue, Scenario};

/// A node goes from its home to another network of its company, and comes back.
const MOBILE: &str =
    include_str!("../../../../../../python/caravan/catalogue/scenarios/mobile.toml");

fn run(edits: &[(&str, &str)]) -> Flowed {
    let mut text = MOBILE.to_owned();
    for (from, to) in edits {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    let catalogue = Catalogue::new([]);
    let scenario = Scenario::parse("mobile.toml", &text, &catalogue).expect("a scenario");
    let resolved = scenario.resolved(&catalogue).expect("a network");
    let blueprint = Blueprint::of(&scenario, &resolved, &catalogue, &held()).expect("a blueprint");
    let world = World::new(blueprint).expect("a world");
    world.run_flows().expect("runs")
}

/// Where a node was reachable, in order.
fn places(flowed: &Flowed) -> Vec<String> {
    let states = flowed.mobile[0].states.iter();
    let reachable = states.filter(|state| state.is_reachable);
    let places = reachable.map(|state| match state.care_of {
        Some(care_of) => care_of.to_string(),
        None => "home".to_owned(),
    });
    places.collect()
}

#[test]
fn a_download_survives_leaving_home_and_coming_back() {
    for (reverse, form) in [
        (true, "ip-in-ip"),
        (false, "ip-in-ip"),
        (true, "minimal"),
        (true, "gre"),
    ] {
        let layer =
            format!("kind = \"mobile-ip\"\nreverse_tunnel = {reverse}\nencapsulation = \"{form}\"");
        let flowed = run(&[("kind = \"mobile-ip\"", &layer)]);
        assert_eq!(places(&flowed), ["home", "10.18.7.2", "home"], "{form}");
        let moved = flowed.flows[0].transferred.as_ref().expect("a transfer");
        assert!(
            moved.is_complete,
            "{form} {reverse}: {moved:?} {:?}",
            flowed.drops
        );
        assert!(flowed.mobile[0].failures.is_empty());
        assert_eq!(flowed.unpriced, None);
        // Abroad it goes on: the sender learns what the tunnel carries, and sends less at a time.
        let abroad = flowed.links.iter().find(|it| it.name == "elsewhere");
        let abroad = abroad.expect("a link").down.delivered_bytes;
        assert!(
            abroad > 3_000_000,
            "{form} {reverse}: {abroad} octets abroad"
        );
    }
}

/// The node is reachable again after one round trip to its home agent: 2 ms each way over the two
/// links, and what serialisation takes.
#[test]
fn a_move_takes_one_registration() {
    let flowed = run(&[]);
    let states = &flowed.mobile[0].states;
    let away = states
        .iter()
        .position(|state| state.care_of.is_some())
        .expect("away");
    let gap_s = states[away].at_s - states[away - 1].at_s;
    assert!(!states[away - 1].is_reachable);
    assert!((0.004..0.006).contains(&gap_s), "{gap_s}");
    // One away, one at home again, and two at home in the beginning: the home agent refuses times
    // that are not later than its own start, and tells its clock.
    assert_eq!(flowed.mobile[0].requests, 4);
}

/// Minimal encapsulation adds 12 octets where IP in IP adds 20 and GRE 24.
#[test]
fn each_form_of_tunnel_has_its_size_on_the_wire() {
    let up = |form: &str| {
        let layer = format!("kind = \"mobile-ip\"\nencapsulation = \"{form}\"");
        let flow = "from = \"mn\"\nto = \"cn\"\nmodel = \"constant\"\nrate = \"80 kbit/s\"\n\
                    sizes = { model = \"fixed\", bytes = \"100 B\" }";
        let flowed = run(&[
            ("kind = \"mobile-ip\"", &layer),
            (
                "from = \"cn\"\nto = \"mn\"\nmodel = \"tcp\"\nbytes = \"12 MB\"",
                flow,
            ),
        ]);
        let link = flowed
            .links
            .iter()
            .find(|link| link.name == "elsewhere")
            .expect("a link");
        let registration = u64::from(flowed.mobile[0].request_bytes > 0);
        (link.up.delivered_bytes, link.up.delivered - registration)
    };
    let (plain, packets) = up("ip-in-ip");
    assert!(packets > 400, "{packets}");
    let (minimal, same) = up("minimal");
    assert_eq!(same, packets);
    assert_eq!(plain - minimal, 8 * packets);
    assert_eq!(up("gre").0 - plain, 4 * packets);
}

/// Abroad, a router that filters sources drops what a node sends from its home address; in a
/// reverse tunnel it passes.
#[test]
fn a_source_filter_stops_a_node_without_a_reverse_tunnel() {
    let filtered = |reverse: bool| {
        let flowed = run(&[
            (
                "name = \"r2\"\nrole = \"router\"",
                "name = \"r2\"\nrole = \"router\"\nfilters_sources = true",
            ),
            (
                "kind = \"mobile-ip\"",
                &format!("kind = \"mobile-ip\"\nreverse_tunnel = {reverse}"),
            ),
        ]);
        let dropped = flowed.drops.iter();
        let dropped = dropped.filter(|it| (&*it.place, it.reason) == ("r2", "foreign-source"));
        dropped.map(|it| it.packets).sum::<u64>()
    };
    assert_eq!(filtered(true), 0);
    assert!(filtered(false) > 0);
}

/// The network that is visited has a foreign agent as its router.
const VISITED: [(&str, &str); 2] = [
    (
        "[[node]]\nname = \"cn\"",
        r#"[[node]]
name = "fa"
role = "foreign-agent"

[[link]]
name = "trunk"
from = "fa"
to = "r2"
rate = "10 Mbit/s"
delay = "3 ms"
mtu = 1500

[[node]]
name = "cn""#,
    ),
    ("from = []\nto = \"r2\"", "from = []\nto = \"fa\""),
];

#[test]
fn a_download_survives_a_visit_at_a_foreign_agent() {
    for (reverse, form) in [(true, "ip-in-ip"), (false, "gre")] {
        let layer =
            format!("kind = \"mobile-ip\"\nreverse_tunnel = {reverse}\nencapsulation = \"{form}\"");
        let edits = [VISITED[0], VISITED[1], ("kind = \"mobile-ip\"", &layer)];
        let flowed = run(&edits);
        let moved = flowed.flows[0].transferred.as_ref().expect("a transfer");
        assert!(moved.is_complete, "{form}: {moved:?} {:?}", flowed.drops);
        assert!(flowed.mobile[0].failures.is_empty(), "{:?}", flowed.mobile);
        // Its care-of address is that of the agent, on the other side.
        let trunk = flowed.mobile[0].states.iter().find_map(|it| it.care_of);
        let trunk = trunk.expect("away").to_string();
        assert!(!trunk.starts_with("10.18."), "{trunk}");
        let gaps = flowed.mobile[0].moves.iter().map(|it| it.gap_s);
        let [Some(visit_s), Some(home_s)] = gaps.collect::<Vec<_>>()[..] else {
            panic!("{:?}", flowed.mobile);
        };
        // The agent advertises at most once a second, also if it is asked; then come request and
        // reply by way of the agent, 5 ms each way.
        assert!((0.010..1.1).contains(&visit_s), "{visit_s}");
        assert!(home_s < 0.1, "{home_s}");
        let abroad = flowed.links.iter().find(|it| it.name == "elsewhere");
        let abroad = abroad.expect("a link").down.delivered_bytes;
        assert!(abroad > 2_000_000, "{form}: {abroad} octets abroad");
        // On the link there is no tunnel: on the trunk each packet has a header more.
        let trunk = flowed.links.iter().find(|it| it.name == "trunk");
        let trunk = trunk.expect("a link").down;
        assert!(
            trunk.delivered_bytes > abroad + 15 * trunk.delivered,
            "{form}"
        );
    }
}

#[test]
fn what_the_kernel_does_not_simulate_is_refused_where_it_stands() {
    let second = r#"[[node]]
name = "second"
role = "station"

[[layer]]
kind = "mobile-ip"
from = "second"
to = "ha"

[[move]]
at = "4 s"
node = "second"
to = "elsewhere"

[[layer]]"#;
    let mut text = MOBILE.replacen("[[layer]]", second, 1);
    text = text.replacen("[\"mn\", \"ha\"]", "[\"mn\", \"second\", \"ha\"]", 1);
    for (from, to) in VISITED {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    let catalogue = Catalogue::new([]);
    let scenario = Scenario::parse("mobile.toml", &text, &catalogue).expect("a scenario");
    let resolved = scenario.resolved(&catalogue).expect("a network");
    let blueprint = Blueprint::of(&scenario, &resolved, &catalogue, &held());
    let fault = blueprint.err().expect("refused").to_string();
    let said = "node.fa.role: in the event kernel, a foreign agent has one mobile node on a link";
    assert!(fault.contains(said), "{fault}");
}
