//! The scenarios and policies of paper P: what is computed against what is simulated, and what is
//! simulated against what real components were measured to send.

use std::rc::Rc;

use super::*;
use crate::kernel::trace::Open;
use crate::kernel::world::Flowed;
use crate::scenario::{Catalogue, Entry, Kind, Scenario};

macro_rules! filed {
    ($path:literal) => {
        include_str!(concat!(
            "../../../../../../python/caravan/catalogue/",
            $path,
            ".toml"
        ))
    };
}

const SCENARIOS: [(&str, &str); 9] = [
    ("m1", filed!("studies/wireless-policies/scenarios/m1")),
    ("m2", filed!("studies/wireless-policies/scenarios/m2")),
    ("m3", filed!("studies/wireless-policies/scenarios/m3")),
    ("m4", filed!("studies/wireless-policies/scenarios/m4")),
    ("m5", filed!("studies/wireless-policies/scenarios/m5")),
    ("m6", filed!("studies/wireless-policies/scenarios/m6")),
    ("m7", filed!("studies/wireless-policies/scenarios/m7")),
    ("m8", filed!("studies/wireless-policies/scenarios/m8")),
    ("m9", filed!("studies/wireless-policies/scenarios/m9")),
];
const POLICIES: [(&str, &str); 17] = [
    ("pn-1", filed!("studies/wireless-policies/policies/pn-1")),
    ("pn-2", filed!("studies/wireless-policies/policies/pn-2")),
    ("pn-3", filed!("studies/wireless-policies/policies/pn-3")),
    ("pn-4", filed!("studies/wireless-policies/policies/pn-4")),
    ("pn-5", filed!("studies/wireless-policies/policies/pn-5")),
    ("pn-6", filed!("studies/wireless-policies/policies/pn-6")),
    ("pn-7", filed!("studies/wireless-policies/policies/pn-7")),
    ("pn-8", filed!("studies/wireless-policies/policies/pn-8")),
    ("pn-9", filed!("studies/wireless-policies/policies/pn-9")),
    ("pn-10", filed!("studies/wireless-policies/policies/pn-10")),
    ("pn-11", filed!("studies/wireless-policies/policies/pn-11")),
    ("pn-12", filed!("studies/wireless-policies/policies/pn-12")),
    (
        "tls-1.2",
        filed!("studies/wireless-policies/policies/tls-1.2"),
    ),
    (
        "tls-1.3",
        filed!("studies/wireless-policies/policies/tls-1.3"),
    ),
    (
        "ipsec-3des-sha",
        filed!("studies/wireless-policies/policies/ipsec-3des-sha"),
    ),
    (
        "ipsec-3des-md5",
        filed!("studies/wireless-policies/policies/ipsec-3des-md5"),
    ),
    (
        "between-subnets",
        filed!("studies/wireless-policies/policies/between-subnets"),
    ),
];

/// A policy with access alone.
fn access(methods: &str) -> String {
    format!(
        "name = \"x\"\ntitle = \"x\"\nlegacy = true\n[[layer]]\nkind = \"access\"\nmethod = \
         {methods}\n"
    )
}

/// A processor with round numbers: 3DES 100, SHA-1 and MD5 20 cycles a byte, at 200 MHz.
const DEVICE: &str = "kind = \"cycles\"\nname = \"round\"\ntitle = \"round numbers\"\n\
clock_mhz = { value = 200, source = \"a test\" }\n\
per_packet = { value = 10000, source = \"a test\" }\n\
[per_byte]\n3des-cbc = { value = 100, source = \"a test\" }\n\
aes128-cbc = { value = 40, source = \"a test\" }\n\
sha1 = { value = 20, source = \"a test\" }\nmd5 = { value = 20, source = \"a test\" }\n\
sha256 = { value = 40, source = \"a test\" }\nrc4 = { value = 10, source = \"a test\" }\n\
crc32 = { value = 8, source = \"a test\" }\n\
aes256-gcm = { value = 20, source = \"a test\" }\n\
[per_operation]\nrc4-set-key = { value = 4000, source = \"a test\" }\n\
modp1536-generate = { value = 20000000, source = \"a test\" }\n\
modp1536-agree = { value = 20000000, source = \"a test\" }\n\
modp2048-generate = { value = 40000000, source = \"a test\" }\n\
modp2048-agree = { value = 40000000, source = \"a test\" }\n\
rsa2048-sign = { value = 80000000, source = \"a test\" }\n\
rsa2048-verify = { value = 3000000, source = \"a test\" }\n\
x25519-generate = { value = 2000000, source = \"a test\" }\n\
x25519-agree = { value = 2000000, source = \"a test\" }\n";

fn catalogue() -> Catalogue {
    catalogue_with("")
}

/// With this text as the policy `x`.
fn catalogue_with(policy: &str) -> Catalogue {
    let entry = |kind, (name, text): (&str, &str)| Entry {
        kind,
        name: name.to_owned(),
        file: format!("{name}.toml"),
        text: text.to_owned(),
        digest: None,
    };
    let policies = POLICIES.map(|it| entry(Kind::Policy, it));
    let scenarios = SCENARIOS.map(|it| entry(Kind::Scenario, it));
    let handshakes = [
        ("tls12-rsa2048", filed!("exchanges/tls12-rsa2048")),
        ("tls13-rsa2048", filed!("exchanges/tls13-rsa2048")),
        ("tls12-resumed", filed!("exchanges/tls12-resumed")),
        ("tls13-resumed", filed!("exchanges/tls13-resumed")),
    ];
    let handshakes = handshakes.map(|it| entry(Kind::Exchange, it));
    let others = [
        entry(Kind::Link, ("wifi-11b", filed!("links/wifi-11b"))),
        entry(Kind::Link, ("ethernet-100", filed!("links/ethernet-100"))),
        entry(Kind::Exchange, ("eap-md5", filed!("exchanges/eap-md5"))),
        entry(Kind::Exchange, ("eap-tls", filed!("exchanges/eap-tls"))),
        entry(
            Kind::Exchange,
            ("eap-tls-p256", filed!("exchanges/eap-tls-p256")),
        ),
        entry(
            Kind::Exchange,
            ("eap-tls-rsa1024", filed!("exchanges/eap-tls-rsa1024")),
        ),
        entry(
            Kind::Exchange,
            ("eap-tls-resumed", filed!("exchanges/eap-tls-resumed")),
        ),
        entry(Kind::Exchange, ("eap-peap", filed!("exchanges/eap-peap"))),
        entry(
            Kind::Exchange,
            ("eap-ttls-pap", filed!("exchanges/eap-ttls-pap")),
        ),
        entry(
            Kind::Exchange,
            ("wifi-four-way", filed!("exchanges/wifi-four-way")),
        ),
        entry(Kind::Device, ("round", DEVICE)),
        entry(Kind::Policy, ("x", policy)),
    ];
    let all = policies.into_iter().chain(scenarios);
    Catalogue::new(all.chain(handshakes).chain(others))
}

fn scenario(name: &str, edits: &[&str], catalogue: &Catalogue) -> Result<Scenario, String> {
    let text = SCENARIOS.iter().find(|(known, _)| *known == name);
    let text = text.expect("a scenario").1;
    let scenario = Scenario::edited(name, text, edits, catalogue);
    scenario.map_err(|fault| fault.to_string())
}

fn blueprint(name: &str, edits: &[&str]) -> Blueprint {
    blueprint_of(name, edits, &catalogue())
}

fn blueprint_of(name: &str, edits: &[&str], catalogue: &Catalogue) -> Blueprint {
    let scenario = scenario(name, edits, catalogue).expect("a scenario");
    let resolved = scenario.resolved(catalogue).expect("a network");
    let open: Open = Rc::new(|_: &Entry| Err(std::io::ErrorKind::NotFound.into()));
    Blueprint::of(&scenario, &resolved, catalogue, &open).expect("a blueprint")
}

fn simulated(blueprint: Blueprint) -> Flowed {
    let world = World::new(blueprint).expect("a world");
    world.run_flows().expect("a run")
}

const COMPUTE: [&str; 7] = [
    "node.mn1.device=round",
    "node.mn2.device=round",
    "node.fn1.device=round",
    "node.mn3.device=round",
    "node.r1.device=round",
    "node.r2.device=round",
    "node.cn1.device=round",
];

fn tcp_bps(flowed: &Flowed) -> f64 {
    let flow = flowed.flows.first().expect("a flow");
    let tcp = flow.transferred.expect("a transfer");
    assert!(tcp.is_complete, "{tcp:?}");
    tcp.throughput_bps
}

/// A policy on a scenario: what is computed, and what is simulated.
fn both(name: &str, policy: &str, edits: &[&str]) -> (Radio, Flowed) {
    let policy = format!("policy={policy}");
    let edits: Vec<&str> = edits.iter().copied().chain([&*policy]).collect();
    let blueprint = blueprint(name, &edits);
    let computed = model(&blueprint).expect("a model").expect("a radio");
    let flowed = simulated(blueprint);
    assert_eq!((&computed.unpriced, &flowed.unpriced), (&None, &None));
    (computed, flowed)
}

/// Each part of the time within 5 %, and the first round trip of TCP exactly.
fn check_times(name: &str, policy: &str, (computed, flowed): &(Radio, Flowed)) {
    let (own, other) = (&computed.admitted[0].parts, &flowed.admitted[0].parts);
    let case = format!("{name} {policy}: {own:?} {other:?}");
    assert!(flowed.admitted[0].is_complete, "{case}");
    for (computed, simulated) in [
        (own.eap_start_s, other.eap_start_s),
        (own.eap_s, other.eap_s),
        (own.registration_s, other.registration_s),
        (own.tunnel_s, other.tunnel_s),
        (own.transport_s, other.transport_s),
        (own.all_s, other.all_s),
    ] {
        assert_eq!(computed.is_some(), simulated.is_some(), "{case}");
        let near = |(one, two): (f64, f64)| (one / two - 1.0).abs() < 0.05;
        assert!(computed.zip(simulated).is_none_or(near), "{case}");
    }
    let flow = &computed.flows[0];
    let first = flowed.flows[0].transferred.and_then(|it| it.connected_s);
    let first = flow.response_s.expect("a response") / first.expect("a round trip");
    assert!((first - 1.0).abs() < 0.01, "{case} {flow:?} {first}");
}

#[test]
fn every_policy_takes_as_long_as_the_machines_do() {
    for (name, _) in SCENARIOS {
        for (policy, _) in POLICIES.iter().filter(|(name, _)| is_numbered(name)) {
            let mut edits = vec!["flow.data.bytes=10 KB", "run.time=10 s"];
            // In TLS a signature takes longer than all flights, so these are compared alone too.
            if policy.starts_with("tls-") {
                check_times(name, policy, &both(name, policy, &edits));
            }
            edits.extend(COMPUTE);
            check_times(name, policy, &both(name, policy, &edits));
        }
    }
}

/// PN-1 to PN-12, and TLS.
fn is_numbered(policy: &str) -> bool {
    policy.starts_with("pn-") || policy.starts_with("tls-")
}

/// Those whose packets differ: access adds nothing to them.
#[test]
fn every_kind_of_packet_is_carried_as_fast_as_computed() {
    for (name, _) in SCENARIOS {
        for policy in ["pn-2", "pn-4", "tls-1.3"] {
            let mut edits = vec!["flow.data.bytes=3 MB", "run.time=60 s"];
            edits.extend(COMPUTE);
            let found = both(name, policy, &edits);
            check_times(name, policy, &found);
            let flow = &found.0.flows[0];
            let ratio = flow.throughput_bps.expect("a rate") / tcp_bps(&found.1);
            assert!(
                (0.95..1.05).contains(&ratio),
                "{name} {policy} {flow:?} {ratio}"
            );
        }
    }
}

/// Access alone protects no packet, so it takes no throughput: not a bit per second.
#[test]
fn access_without_a_cipher_costs_no_throughput() {
    let udp = [
        "flow.data.model=constant",
        "flow.data.bytes=",
        "flow.data.rate=9 Mbit/s",
        "flow.data.sizes.model=fixed",
        "flow.data.sizes.bytes=1000 B",
        "run.time=3 s",
    ];
    for name in ["m1", "m6"] {
        let rates = ["pn-1", "pn-5", "pn-6"].map(|policy| {
            let policy = format!("policy={policy}");
            let mut edits = vec!["flow.data.bytes=1 MB", &*policy];
            edits.extend(COMPUTE);
            let tcp = tcp_bps(&simulated(blueprint(name, &edits)));
            let mut edits = vec![&*policy];
            edits.extend(COMPUTE.iter().chain(&udp));
            let flowed = simulated(blueprint(name, &edits));
            let udp = flowed.flows[0].streamed.expect("datagrams").throughput_bps;
            (tcp, udp)
        });
        assert_eq!(rates[0], rates[1], "{name}");
        assert_eq!(rates[0], rates[2], "{name}");
    }
}

/// A frame between two stations of an access point takes its airtime twice.
#[test]
fn between_two_stations_a_frame_passes_the_radio_twice() {
    let passages = |name: &str| {
        let blueprint = blueprint(name, &[]);
        let program = blueprint.program();
        let ends = (program.station, program.server);
        let journey = blueprint.journey(ends, 1000, false).expect("a way");
        let is_radio = |server: &Server| match server {
            Server::Link(link, _) => blueprint.is_radio(*link),
            Server::Node(_) => false,
        };
        let visits = journey.visits.iter();
        let visits = visits.filter(|(server, _)| is_radio(server));
        visits.map(|(server, _)| *server).collect::<Vec<_>>()
    };
    let of_m1 = passages("m1");
    assert_eq!(of_m1, [Server::Link(0, false); 2]);
    assert_eq!(passages("m2").len(), 1);
    assert_eq!(
        passages("m4"),
        [Server::Link(0, false), Server::Link(2, false)]
    );
    assert_eq!(passages("m9"), [Server::Link(2, false); 2]);
    let rate = |name: &str| tcp_bps(&simulated(blueprint(name, &["flow.data.bytes=1 MB"])));
    let share = rate("m1") / rate("m2");
    assert!((0.48..0.52).contains(&share), "{share}");
}

/// Frames of Ethernet and packets of RADIUS as hostapd 2.10, wpa_supplicant 2.10 and FreeRADIUS
/// 3.2.1 were counted to send them: 14 octets of Ethernet on each.
#[test]
fn access_has_the_messages_that_real_components_send() {
    for (method, frames, frame_bytes, packets, packet_bytes) in [
        ("eap-md5", 5, 151, 4, 643),
        ("eap-tls", 15, 4770, 14, 6769),
        ("eap-peap", 21, 3323, 20, 6127),
        ("eap-ttls-pap", 13, 2792, 12, 4504),
        ("eap-tls-p256", 11, 2723, 10, 4164),
        ("eap-tls-rsa1024", 11, 3372, 10, 4817),
        ("eap-tls-resumed", 7, 579, 6, 1460),
    ] {
        let catalogue = catalogue_with(&access(&format!("\"{method}\"")));
        let edits = ["policy=x", "flow.data.bytes=1 KB"];
        let flowed = simulated(blueprint_of("m2", &edits, &catalogue));
        let found = &flowed.admitted[0];
        assert!(found.is_complete, "{found:?}");
        let sums = (found.frames, found.frame_bytes + 14 * found.frames);
        assert_eq!(sums, (frames, frame_bytes), "{method}");
        let sums = (found.packets, found.packet_bytes + 14 * found.packets);
        assert_eq!(sums, (packets, packet_bytes), "{method}");
    }
    // The handshake of RSN follows, and is between station and access point alone.
    let catalogue = catalogue_with(&access("[\"eap-tls\", \"wifi-four-way\"]"));
    let edits = ["policy=x", "flow.data.bytes=1 KB"];
    let flowed = simulated(blueprint_of("m2", &edits, &catalogue));
    let found = &flowed.admitted[0];
    assert_eq!((found.frames, found.packets), (19, 14));
}

/// The station says nothing before: its coming is no frame.
#[test]
fn an_access_point_asks_when_a_station_has_come() {
    let near = |found: Option<f64>, wanted: f64| {
        let found = found.expect("a time");
        assert!((found - wanted).abs() < 1e-7, "{found} {wanted}");
    };
    // The question for its identity has 9 octets, and 36 around it.
    let question_s = 810e-6 + 45.0 * 8.0 / 11e6;
    let (computed, flowed) = both("m5", "pn-5", &["flow.data.bytes=1 KB"]);
    for parts in [&computed.admitted[0].parts, &flowed.admitted[0].parts] {
        near(parts.eap_start_s, question_s);
    }
    // The handshake of RSN begins with the access point, too, and is all of this access.
    let catalogue = catalogue_with(&access("\"wifi-four-way\""));
    let blueprint = blueprint_of("m2", &["policy=x", "flow.data.bytes=1 KB"], &catalogue);
    let computed = model(&blueprint).expect("a model").expect("a radio");
    let flowed = simulated(blueprint);
    let found = &flowed.admitted[0];
    assert!(found.is_complete && found.frames == 4, "{found:?}");
    let (one, other) = (&computed.admitted[0].parts, &found.parts);
    near(one.eap_start_s, other.eap_start_s.expect("a time"));
    near(one.eap_s, other.eap_s.expect("a time"));
}

/// The last frame of the four-way handshake is the station's: the registration waits behind it.
#[test]
fn what_follows_the_handshake_of_rsn_waits_for_its_last_frame() {
    let catalogue = catalogue_with(&access("[\"eap-tls\", \"wifi-four-way\"]"));
    let mut edits = vec!["policy=x", "flow.data.bytes=1 KB"];
    edits.extend(COMPUTE);
    for name in ["m5", "m6"] {
        let blueprint = blueprint_of(name, &edits, &catalogue);
        let computed = model(&blueprint).expect("a model").expect("a radio");
        check_times(name, "x", &(computed, simulated(blueprint)));
    }
}

/// A node that moves is let in by the next access point, registers, and has its data there.
#[test]
fn a_node_that_moves_asks_the_next_access_point() {
    let edits = [
        "policy=pn-8",
        "flow.data.to=cn1",
        "flow.data.bytes=12 MB",
        "move=[{at = \"5 s\", node = \"mn1\", to = \"air2\"}]",
    ];
    let flowed = simulated(blueprint("m1", &edits));
    let moved = &flowed.mobile[0].moves[0];
    assert_eq!(moved.to, "air2");
    let gap_s = moved.gap_s.expect("it is found");
    // 15 frames of EAP-TLS take 15 ms of the radio, the agent's solicitation waits 2 ms and more.
    assert!((0.018..0.1).contains(&gap_s), "{moved:?}");
    assert!(moved.data_gap_s.is_some(), "{moved:?}");
    let tcp = flowed.flows[0].transferred.expect("a transfer");
    assert!(tcp.received_bytes > 8_000_000, "{tcp:?}");
    assert_eq!(flowed.admitted[0].frames, 15);
}

/// A second station computes for itself; the gateway computes for both, half for each.
#[test]
fn a_station_takes_its_own_work_and_its_part_of_the_gateways() {
    let alone = both("m5", "pn-3", &COMPUTE).0;
    let flow = |name: &str, from: &str| {
        format!(
            "{{name = \"{name}\", from = \"{from}\", to = \"cn1\", model = \"tcp\", \
             bytes = \"1 MB\"}}"
        )
    };
    let flows = format!("flow=[{}, {}]", flow("data", "mn1"), flow("more", "mn2"));
    let edits = [&COMPUTE[..], &["policy=pn-3", &flows]].concat();
    let two = model(&blueprint("m5", &edits));
    let two = two.expect("a model").expect("a radio");
    assert_eq!(two.admitted.len(), 2);
    let own = alone.admitted[0].parts.tunnel_s.expect("a tunnel");
    for one in &two.admitted {
        let found = one.parts.tunnel_s.expect("a tunnel");
        assert!((found / own - 1.0).abs() < 1e-6, "{found} {own}");
    }
}

/// The access point's frames have the rate of its own direction.
#[test]
fn a_dialogue_has_both_rates_of_its_link() {
    let found = |edits: &[&str]| {
        let (computed, flowed) = both("m5", "pn-6", edits);
        check_times("m5", "pn-6", &(computed.clone(), flowed));
        computed.admitted[0].parts.eap_s.expect("EAP")
    };
    let even = found(&[]);
    let slow = found(&["link.air1.rate={up = \"11 Mbit/s\", down = \"1 Mbit/s\"}"]);
    // What comes from the access point has more than 2,400 bytes.
    let longer_s = 2400.0 * 8.0 * (1.0 / 1e6 - 1.0 / 11e6);
    assert!(slow > even + longer_s, "{slow} {even}");
}

#[test]
fn a_move_does_not_change_the_first_arrival() {
    let edits = ["policy=pn-12", "flow.data.to=cn1", "flow.data.bytes=12 MB"];
    let still = simulated(blueprint("m1", &edits));
    let moves = ["move=[{at = \"5 s\", node = \"mn1\", to = \"air2\"}]"];
    let moved = simulated(blueprint("m1", &[&edits[..], &moves[..]].concat()));
    assert_ne!(still.fingerprint, moved.fingerprint);
    assert_eq!(still.admitted[0], moved.admitted[0]);
}

#[test]
fn policies_in_layers_are_refused_where_they_stand() {
    let layer = |more: &str| format!("name = \"x\"\ntitle = \"x\"\n{more}");
    let wep = "[[layer]]\nkind = \"link-cipher\"\ncipher = \"wep-104\"\n";
    for (policy, said) in [
        (layer(wep), "legacy = true is needed for wep-104"),
        (
            access("\"eap-md5\"").replace("legacy = true\n", ""),
            "legacy = true is needed for eap-md5",
        ),
        (access("\"eap-tsl\""), "the nearest valid one is 'eap-tls'"),
        (access("[]"), "must be 1 to 8 exchanges"),
        (
            layer(&format!("legacy = true\n{wep}{wep}")),
            "one layer of each kind",
        ),
        (
            layer(&format!("suite = \"des\"\nlegacy = true\n{wep}")),
            "either layers or a suite",
        ),
        (
            layer("[[layer]]\nkind = \"ipsec\"\npolicy = \"3des-shal\"\n"),
            "unknown policy '3des-shal'",
        ),
    ] {
        let catalogue = catalogue_with(&policy);
        let fault = scenario("m1", &["policy=x"], &catalogue).expect_err(said);
        assert!(fault.contains(said), "{fault}, not {said}");
        assert!(fault.starts_with("x.toml:"), "{fault}");
    }
}

/// TLS as a policy `x`.
fn tls(version: &str, suite: &str, more: &str) -> String {
    format!(
        "name = \"x\"\ntitle = \"x\"\nlegacy = true\n[[layer]]\nkind = \"transport\"\nversion = \
         \"{version}\"\nsuite = \"{suite}\"\n{more}"
    )
}

fn tls_run(policy: &str, edits: &[&str]) -> (Radio, Flowed) {
    let catalogue = catalogue_with(policy);
    let edits: Vec<&str> = ["policy=x"].iter().chain(edits).copied().collect();
    let blueprint = blueprint_of("m5", &edits, &catalogue);
    let computed = model(&blueprint).expect("a model").expect("a radio");
    (computed, simulated(blueprint))
}

/// The octets of every record, and each flight, are what the links carry more than without TLS.
#[test]
fn records_and_flights_are_on_the_links() {
    let bytes = |policy: &str| {
        let edits = [policy, "flow.data.bytes=100000 B", "link.*.mtu=1500 B"];
        let flowed = simulated(blueprint("m5", &edits));
        let air = flowed.links.iter().find(|link| link.name == "air1");
        let air = air.expect("the air").clone();
        let headers = 40 * (air.up.delivered + air.down.delivered);
        air.up.delivered_bytes + air.down.delivered_bytes - headers
    };
    let clear = bytes("policy=pn-1");
    // Six records of 16,384 and one of 1,696 octets.
    let flights = 225 + 1427 + 80;
    assert_eq!(bytes("policy=tls-1.3"), clear + 7 * 22 + flights);
    let flights = 162 + 1270 + 93 + 242;
    assert_eq!(bytes("policy=tls-1.2"), clear + 7 * 29 + flights);
}

#[test]
fn a_resumed_session_needs_fewer_rounds_and_no_signature() {
    let of = |version: &str, method: &str| {
        let policy = tls(version, "aes256gcm16", &format!("method = \"{method}\"\n"));
        let edits: Vec<&str> = ["flow.data.bytes=10 KB"]
            .iter()
            .chain(&COMPUTE)
            .copied()
            .collect();
        let found = tls_run(&policy, &edits);
        check_times("m5", method, &found);
        found.1.admitted[0].parts.transport_s.expect("TLS")
    };
    let (full, resumed) = (
        of("tls-1.2", "tls12-rsa2048"),
        of("tls-1.2", "tls12-resumed"),
    );
    assert!(full > 0.4 && resumed < 0.01, "{full} {resumed}");
    // A fresh key exchange: four operations of X25519, one after the other.
    let (full, resumed) = (
        of("tls-1.3", "tls13-rsa2048"),
        of("tls-1.3", "tls13-resumed"),
    );
    assert!(
        full > 0.4 && (0.04..0.05).contains(&resumed),
        "{full} {resumed}"
    );
}

/// Slow processors limit a flow in TLS: 20 cycles a byte at 20 MHz are less than the air's rate.
#[test]
fn a_slow_processor_limits_tls_in_both() {
    let method = "method = \"tls13-rsa2048\"\n";
    for (policy, limit_bps) in [
        (tls("tls-1.3", "aes256gcm16", method), 4e6),
        (tls("tls-1.2", "3des-sha1", method), 20e6 * 8.0 / 120.0),
        (
            tls(
                "tls-1.3",
                "aes256gcm16",
                &format!("{method}record = \"1000 B\"\n"),
            ),
            4e6,
        ),
    ] {
        let mut edits = vec!["flow.data.bytes=2 MB", "run.time=60 s"];
        edits.extend(["node.mn1.device=round", "node.mn1.clock=10 MHz"]);
        if limit_bps < 4e6 {
            edits[3] = "node.mn1.clock=20 MHz";
        }
        let (computed, flowed) = tls_run(&policy, &edits);
        let rate = computed.flows[0].throughput_bps.expect("a rate");
        assert_eq!(computed.flows[0].narrowest, "mn1");
        assert!((rate / limit_bps - 1.0).abs() < 0.02, "{rate} {limit_bps}");
        let ratio = rate / tcp_bps(&flowed);
        assert!((0.95..1.05).contains(&ratio), "{policy} {ratio}");
    }
}

#[test]
fn what_tls_computes_without_a_source_is_named() {
    let method = "method = \"tls13-rsa2048\"\n";
    let policy = tls("tls-1.3", "chacha20poly1305", method);
    let edits = ["node.mn1.device=round", "flow.data.bytes=10 KB"];
    let (computed, flowed) = tls_run(&policy, &edits);
    let said = computed.unpriced.expect("no source");
    assert!(said.contains("per_byte.chacha20-poly1305"), "{said}");
    assert_eq!(flowed.unpriced, Some(said));
    assert!(flowed.admitted[0].is_complete);
}

#[test]
fn tls_is_refused_where_it_stands() {
    let method = "method = \"tls13-rsa2048\"\n";
    let good = tls("tls-1.3", "aes128gcm16", method);
    for (policy, said) in [
        (
            good.replace("aes128gcm16", "aes128-sha1"),
            "unknown suite of this TLS",
        ),
        (
            tls("tls-1.2", "3des-sha1", method).replace("legacy = true\n", ""),
            "legacy = true is needed for 3des-sha1",
        ),
        (
            good.replace("tls13-rsa2048", "tls13-rsa"),
            "the nearest valid one is 'tls13-rsa2048'",
        ),
        (
            format!("{good}record = \"20 KB\"\n"),
            "must be 64 B to 16384 B",
        ),
        (good.replace("version", "versoin"), "did you mean 'version'"),
    ] {
        let catalogue = catalogue_with(&policy);
        let fault = scenario("m1", &["policy=x"], &catalogue).expect_err(said);
        assert!(fault.contains(said), "{fault}, not {said}");
        assert!(fault.starts_with("x.toml:"), "{fault}");
    }
    // Of a method without a stream in TCP there is nothing to send.
    let catalogue = catalogue_with(&good.replace("tls13-rsa2048", "eap-md5"));
    let scenario = scenario("m1", &["policy=x"], &catalogue).expect("a scenario");
    let resolved = scenario.resolved(&catalogue).expect("a network");
    let open: Open = Rc::new(|_: &Entry| Err(std::io::ErrorKind::NotFound.into()));
    let fault = Blueprint::of(&scenario, &resolved, &catalogue, &open).err();
    let fault = fault.expect("no stream").to_string();
    assert!(
        fault.contains("'eap-md5' has no message with a stream in TCP"),
        "{fault}"
    );
}

/// A layer of the scenario is of one flow, and goes before the policy.
#[test]
fn a_layer_names_the_flow_that_it_protects() {
    let catalogue = catalogue();
    let layer = |flow: &str| {
        format!(
            "base = \"m5\"\n[[layer]]\nkind = \"transport\"\nflow = \"{flow}\"\nversion = \
             \"tls-1.2\"\nsuite = \"aes128gcm16\"\nmethod = \"tls12-resumed\"\n"
        )
    };
    let read = |flow: &str, edits: &[&str]| {
        let found = Scenario::edited("x", &layer(flow), edits, &catalogue);
        found.map_err(|fault| fault.to_string())
    };
    let found = read("data", &["policy=tls-1.3"]).expect("a scenario");
    let methods: Vec<&str> = found.transport.iter().map(|it| &*it.tls.method).collect();
    assert_eq!(methods, ["tls12-resumed"]);
    let fault = read("date", &[]).expect_err("no such flow");
    assert!(fault.contains("the nearest valid one is 'data'"), "{fault}");
    let udp = [
        "flow.data.model=constant",
        "flow.data.bytes=",
        "flow.data.rate=1 Mbit/s",
    ];
    let sizes = ["flow.data.sizes.model=fixed", "flow.data.sizes.bytes=100 B"];
    let fault = read("data", &[udp, [sizes[0], sizes[1], "seed=1"]].concat());
    let fault = fault.expect_err("datagrams");
    assert!(fault.contains("TLS is of flows by TCP"), "{fault}");
    let of_policy = scenario("m5", &["policy=tls-1.3"], &catalogue).expect("a scenario");
    assert_eq!(of_policy.transport.len(), 1);
}

#[test]
fn scenarios_with_a_base_are_that_base_and_their_own_keys() {
    let catalogue = catalogue();
    let away = scenario("m6", &[], &catalogue).expect("a scenario");
    assert_eq!(
        away.title,
        "M6: mobile node to mobile node, different domains, roaming"
    );
    assert_eq!((away.nodes.len(), away.links.len()), (14, 5));
    let near = |name: &str| {
        let joint = away.links.iter().find(|joint| joint.name == name);
        let near = &joint.expect("a link").near;
        near.iter()
            .map(|node| &*away.nodes[*node].name)
            .collect::<Vec<_>>()
    };
    assert_eq!(near("air1"), ["mn2", "fn1"]);
    assert_eq!(near("air2"), ["mn3", "mn1"]);
    assert!(away.files.iter().any(|(name, _)| name == "scenario/m1"));
    for (edit, said) in [
        ("node.mn2.address=10.18.1.17", "have one address"),
        ("node.ap1.radius=r3", "there is no node 'r3'"),
        ("node.ap1.radius=mn2", "must be a router"),
        ("node.r1.radius=r2", "only an access point"),
        ("node.mn1.ends_tunnels=true", "only a router"),
        (
            "link.lan1.from=[\"ha1\", \"fa1\", \"cn1\"]",
            "'ap1': an access point needs",
        ),
    ] {
        let found = scenario("m6", &[edit], &catalogue);
        let found = found.and_then(|it| it.resolved(&catalogue).map_err(|it| it.to_string()));
        let fault = found.expect_err(said);
        assert!(fault.contains(said), "{fault}, not {said}");
    }
    let alone = Scenario::parse("x", "base = \"m0\"\n", &catalogue).expect_err("no base");
    assert!(
        alone.to_string().contains("unknown scenario 'm0'"),
        "{alone}"
    );
}
