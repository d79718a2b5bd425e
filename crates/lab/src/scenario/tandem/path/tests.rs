//! A node away from home, behind a firewall or not: which queues its packets pass, and their sizes.

use super::*;
use crate::scenario::{Entry, Kind};

/// 8 Mbit/s: a byte takes a microsecond.
const TEXT: &str = r#"
name = "away"
title = "a node away from home"

[[node]]
name = "mn"
role = "station"

[[node]]
name = "r1"
role = "router"

[[node]]
name = "fw"
role = "firewall"

[[node]]
name = "r2"
role = "router"

[[node]]
name = "ha"
role = "home-agent"

[[node]]
name = "cn"
role = "server"

[[link]]
name = "cell"
from = "mn"
to = "r1"
rate = "8 Mbit/s"
delay = "3 ms"

[[link]]
name = "outside"
from = "r1"
to = "fw"
rate = "8 Mbit/s"

[[link]]
name = "private"
from = "fw"
to = "r2"
rate = "8 Mbit/s"
delay = "2 ms"

[[link]]
name = "home"
from = ["ha"]
to = "r2"
rate = "8 Mbit/s"

[[link]]
name = "lan"
from = "r2"
to = "cn"
rate = "8 Mbit/s"
delay = "1 ms"

[[flow]]
name = "up"
from = "mn"
to = "cn"
model = "constant"
rate = "8 kbit/s"
sizes = { model = "fixed", bytes = "1000 B" }
"#;
const MOBILE: &str = "[[layer]]\nkind = \"mobile-ip\"\nfrom = \"mn\"\nto = \"ha\"\n";
const SKIP: &str = "[[layer]]\nkind = \"skip\"\nfrom = \"mn\"\nto = \"fw\"\npolicy = \"des\"\n";
/// 20 of IP, 32 of SKIP, 24 of AH, 12 of ESP; blocks of 8.
const POLICY: &str = "name = \"des\"\ntitle = \"des\"\n[skip]\nprofile = \"skip-draft\"\ncrypt = \
                      \"des\"\nmac = \"keyed-md5\"\n";
const DEVICE: &str =
    include_str!("../../../../../../python/caravan/catalogue/devices/r3000-25.toml");

fn catalogue() -> Catalogue {
    let entry = |kind, name: &str, text: &str| Entry {
        kind,
        name: name.to_owned(),
        file: format!("{name}.toml"),
        text: text.to_owned(),
        digest: None,
    };
    Catalogue::new([
        entry(Kind::Policy, "des", POLICY),
        entry(Kind::Device, "r3000-25", DEVICE),
    ])
}

/// The bytes of a packet of 1000 in each link, by name, and the delay of all.
fn bytes_of(layers: &str, edits: &[&str]) -> (Vec<(String, f64)>, f64) {
    let text = format!("{TEXT}{layers}");
    let catalogue = catalogue();
    let scenario = Scenario::edited("away", &text, edits, &catalogue).expect("a scenario");
    let resolved = scenario.resolved(&catalogue).expect("addresses");
    let tandem = scenario.tandem(&resolved, &catalogue).expect("queues");
    let queues = tandem.queues.iter().map(|queue| {
        let bytes = queue.service.at(1000.0) * 1e6;
        (queue.name.clone(), bytes)
    });
    let delay_s = scenario.propagation_s(&resolved).expect("a path");
    (queues.collect(), delay_s)
}

fn rounded(queues: &[(String, f64)]) -> Vec<(&str, i64)> {
    queues
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.round() as i64))
        .collect()
}

#[test]
fn skip_ends_at_the_firewall_and_both_tunnels_at_the_agent() {
    let (queues, delay_s) = bytes_of(&format!("{MOBILE}{SKIP}"), &[]);
    // 1020 and 2 are 128 blocks of 8
    let outside = 20 + 32 + 24 + 12 + 1024;
    let expected = [
        ("mn", 0),
        ("cell", outside),
        ("outside", outside),
        ("fw", 0),
        ("private", 1040),
        ("home", 1040),
        ("ha", 0),
        ("home", 1000),
        ("lan", 1000),
    ];
    assert_eq!(rounded(&queues), expected);
    assert!((delay_s - 6e-3).abs() < 1e-12);
    let down = ["flow.up.from=cn", "flow.up.to=mn"];
    let (queues, _) = bytes_of(&format!("{MOBILE}{SKIP}"), &down);
    let mut back = expected;
    back.reverse();
    assert_eq!(rounded(&queues), back);
}

/// Without a reverse tunnel the node's own packets are clear inside, and never see the agent.
#[test]
fn a_triangle_uses_the_agent_on_the_way_down_alone() {
    let layers = format!("{}reverse_tunnel = false\n{SKIP}", MOBILE);
    let (queues, delay_s) = bytes_of(&layers, &[]);
    let outside = 20 + 32 + 24 + 12 + 1008;
    let expected = [
        ("mn", 0),
        ("cell", outside),
        ("outside", outside),
        ("fw", 0),
        ("private", 1000),
        ("lan", 1000),
    ];
    assert_eq!(rounded(&queues), expected);
    assert!((delay_s - 6e-3).abs() < 1e-12);
    let (queues, _) = bytes_of(&layers, &["flow.up.from=cn", "flow.up.to=mn"]);
    assert!(queues.iter().any(|(name, _)| name == "ha"));
}

#[test]
fn skip_alone_has_no_tunnel_inside() {
    let (queues, _) = bytes_of(SKIP, &[]);
    assert_eq!(rounded(&queues)[4..], [("private", 1000), ("lan", 1000)]);
}

#[test]
fn mobile_ip_alone_adds_its_header_as_far_as_the_agent() {
    let open = ["node.fw.role=router"];
    let sizes = |layers: &str| {
        let (queues, _) = bytes_of(layers, &open);
        rounded(&queues)
            .into_iter()
            .map(|(_, bytes)| bytes)
            .collect::<Vec<_>>()
    };
    assert_eq!(sizes(MOBILE), [0, 1020, 1020, 1020, 1020, 0, 1000, 1000]);
    let gre = format!("{MOBILE}encapsulation = \"gre\"\nudp = \"never\"\n");
    assert_eq!(sizes(&gre)[1], 1024);
    let udp = format!("{MOBILE}udp = \"always\"\n");
    assert_eq!(sizes(&udp)[1], 1032);
}

#[test]
fn both_ends_of_skip_compute() {
    let edits = ["node.mn.device=r3000-25", "node.fw.device=r3000-25"];
    let (queues, _) = bytes_of(SKIP, &edits);
    let (seal, open) = (queues[0].1, queues[3].1);
    // 1008 bytes of DES at 214.53 kB/s are 4699 us; keyed MD5 of 1096 at 1802.24 more than 622
    assert!((5300.0..5450.0).contains(&seal), "{seal}");
    assert!((seal - open).abs() < 1.0);
    let text = format!("{TEXT}{SKIP}");
    let catalogue = catalogue();
    let scenario = Scenario::edited("away", &text, &edits, &catalogue).expect("a scenario");
    let resolved = scenario.resolved(&catalogue).expect("addresses");
    let bare = scenario.priced_by_bytes_alone(&resolved, &catalogue);
    assert_eq!(bare, ["mn", "fw"]);
}

/// Both ways over the same links, and the delay twice.
#[test]
fn an_echo_is_the_way_there_and_back() {
    let text = format!("{TEXT}{MOBILE}{SKIP}");
    let catalogue = catalogue();
    let scenario = Scenario::edited("away", &text, &[], &catalogue).expect("a scenario");
    let found = scenario.round_trip_s(&catalogue, 1000.0).expect("queues");
    let outside = f64::from(20 + 32 + 24 + 12 + 1024);
    let one_way = (2.0 * outside + 2.0 * 1040.0 + 2.0 * 1000.0) * 1e-6 + 6e-3;
    assert!((found - 2.0 * one_way).abs() < 1e-9, "{found}");
}

#[test]
fn layers_take_policies_of_their_kind() {
    let refused = |layers: &str, edits: &[&str]| {
        let catalogue = catalogue();
        let text = format!("{TEXT}{layers}");
        let scenario = Scenario::edited("away", &text, edits, &catalogue)?;
        scenario.resolved(&catalogue).map(drop)
    };
    let of_ipsec = SKIP.replace("\"des\"", "\"aes128gcm16\"");
    let fault = refused(&of_ipsec, &[]).expect_err("ESP").to_string();
    assert!(fault.contains("[skip]"), "{fault}");
    let gateway = [
        "node.fw.role=gateway",
        "node.r2.role=server",
        "flow.up.to=r2",
    ];
    let layer = SKIP.replace("kind = \"skip\"", "kind = \"ipsec\"");
    let short = TEXT
        .split("[[node]]\nname = \"ha\"")
        .next()
        .expect("a part");
    let links = "[[link]]\nname = \"cell\"\nfrom = \"mn\"\nto = \"r1\"\nrate = \"8 Mbit/s\"\n\
                 [[link]]\nname = \"outside\"\nfrom = \"r1\"\nto = \"fw\"\nrate = \"8 Mbit/s\"\n\
                 [[link]]\nname = \"private\"\nfrom = \"fw\"\nto = \"r2\"\nrate = \"8 Mbit/s\"\n";
    let flow = TEXT.split("[[flow]]").nth(1).expect("a flow");
    let text = format!("{short}{links}[[flow]]{flow}{layer}");
    let catalogue = catalogue();
    let scenario = Scenario::edited("away", &text, &gateway, &catalogue).expect("a scenario");
    let fault = scenario.resolved(&catalogue).expect_err("SKIP").to_string();
    assert!(fault.contains("layer of the kind skip"), "{fault}");
}

#[test]
fn a_move_needs_the_event_kernel() {
    let step = "[[move]]\nat = \"1 s\"\nnode = \"mn\"\nto = \"home\"\n";
    let text = format!("{TEXT}{MOBILE}{step}");
    let catalogue = catalogue();
    let scenario = Scenario::edited("away", &text, &[], &catalogue).expect("a scenario");
    let fault = scenario.chain().expect_err("it moves").to_string();
    assert!(fault.contains("moves"), "{fault}");
}
