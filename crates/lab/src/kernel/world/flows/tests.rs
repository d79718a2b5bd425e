//! Tests of graphs with the real engine in them.

use super::super::Blueprint;
use super::*;
use crate::kernel::levels;
use crate::kernel::trace::held;
use crate::scenario::{Catalogue, Entry, Kind, Scenario, WholeLink, WholeRate};

const HANDOVER: &str =
    include_str!("../../../../../../python/caravan/catalogue/scenarios/handover.toml");
const POLICY: &str =
    include_str!("../../../../../../python/caravan/catalogue/policies/aes128gcm16.toml");
const TRANSPORT: &str =
    include_str!("../../../../../../python/caravan/catalogue/policies/3des-md5.toml");
const CBC: &str =
    include_str!("../../../../../../python/caravan/catalogue/policies/aes128-sha256.toml");
const BOARD: &str =
    include_str!("../../../../../../python/caravan/catalogue/devices/cortex-m4.toml");
const CLEAR: &str = include_str!("../../../../../../python/caravan/catalogue/policies/none.toml");

fn scenario(text: &str, edits: &[&str]) -> Result<(Scenario, Catalogue), String> {
    let policies = [
        ("aes128gcm16", POLICY),
        ("3des-md5", TRANSPORT),
        ("aes128-sha256", CBC),
        ("none", CLEAR),
    ];
    let policies = policies.map(|(name, text)| (Kind::Policy, name, text));
    let outer_6 = POLICY.replace("udp = true", "udp = true\nouter = 6");
    let others = [
        (Kind::Device, "cortex-m4", BOARD),
        (Kind::Policy, "outer-6", &*outer_6),
    ];
    let entries = policies.into_iter().chain(others);
    let catalogue = Catalogue::new(entries.map(|(kind, name, text)| Entry {
        kind,
        name: name.into(),
        file: format!("{name}.toml"),
        text: text.into(),
        digest: None,
    }));
    let scenario = Scenario::edited("handover.toml", text, edits, &catalogue);
    let scenario = scenario.map_err(|fault| fault.to_string())?;
    Ok((scenario, catalogue))
}

fn blueprint(text: &str, edits: &[&str]) -> Result<Blueprint, String> {
    let (scenario, catalogue) = scenario(text, edits)?;
    let resolved = scenario.resolved(&catalogue);
    let resolved = resolved.map_err(|fault| fault.to_string())?;
    let blueprint = Blueprint::of(&scenario, &resolved, &catalogue, &held());
    blueprint.map_err(|fault| fault.to_string())
}

fn run(text: &str, edits: &[&str]) -> Flowed {
    let world = World::new(blueprint(text, edits).expect("a blueprint")).expect("a world");
    world.run_flows().expect("runs")
}

/// The handover scenario without its move.
fn still() -> String {
    let at = HANDOVER.find("[[move]]").expect("a move");
    HANDOVER[..at]
        .replacen("from = []", "from = [\"ms3\"]", 1)
        .replacen(
            "[[node]]",
            "[[node]]\nname = \"ms3\"\nrole = \"station\"\n\n[[node]]",
            1,
        )
}

fn streamed(outcome: &Flowed, flow: usize) -> Streamed {
    outcome.flows[flow].streamed.expect("datagrams")
}

/// The datagrams of a flow that did not arrive, from the first that arrived to the last.
fn gaps(flow: &Flow) -> Vec<(u64, u64)> {
    let pairs = flow.numbers.windows(2);
    pairs.map(|pair| (pair[0].1 + 1, pair[1].0 - 1)).collect()
}

#[test]
fn stations_on_one_link_share_its_queue() {
    let outcome = run(&still(), &[]);
    assert_eq!(outcome.tunnels.len(), 3, "{outcome:#?}");
    assert!(outcome.tunnels.iter().all(|tunnel| tunnel.exchange.is_up));
    for flow in 0..3 {
        let streamed = streamed(&outcome, flow);
        assert!(streamed.sent > 1000, "{outcome:#?}");
        assert_eq!(streamed.sent, streamed.received, "{outcome:#?}");
    }
    assert_eq!(outcome.drops, [], "{outcome:#?}");
    let cell = outcome.links[0].up;
    let sent = streamed(&outcome, 0).sent + streamed(&outcome, 1).sent;
    // 500 octets in an ESP packet: 20 + 8 + 8 + 8 + 500 + 2 + 2 + 16; IKE may have a last word
    assert!((sent..sent + 4).contains(&cell.offered), "{cell:?}");
    assert!(
        (sent * 564..sent * 564 + 1000).contains(&cell.delivered_bytes),
        "{cell:?}"
    );
    // together they send more than the cell carries: both lose packets, and they share its capacity
    let full = run(
        &still(),
        &[
            "flow.ms1 up.rate=1500 kbit/s",
            "flow.ms2 up.rate=1500 kbit/s",
        ],
    );
    let came: f64 = (0..2)
        .map(|flow| streamed(&full, flow).throughput_bps)
        .sum();
    assert!((1.74e6..1.82e6).contains(&came), "{came}");
    for flow in 0..2 {
        let streamed = streamed(&full, flow);
        assert!(streamed.received < streamed.sent * 9 / 10, "{full:#?}");
        assert!(streamed.received > streamed.sent / 4, "{full:#?}");
    }
}

#[test]
fn a_station_that_moves_keeps_its_tunnel_and_loses_what_was_under_way() {
    let outcome = run(HANDOVER, &[]);
    assert!(
        outcome.tunnels.iter().all(|tunnel| tunnel.exchange.is_up),
        "{outcome:#?}"
    );
    assert!(outcome.tunnels[1].moved > 0, "{outcome:#?}");
    // the station that stays loses nothing
    assert_eq!(streamed(&outcome, 0).sent, streamed(&outcome, 0).received);
    // The node learns its address at once, so all of its 100 datagrams a second leave. Some
    // overtake those that were in the queue of the former link.
    assert_eq!(streamed(&outcome, 1).sent, streamed(&outcome, 1).received);
    // Nothing comes before the gateway has heard from there.
    let [(first, last)] = gaps(&outcome.flows[2])[..] else {
        panic!("one gap: {:#?}", outcome.flows[2]);
    };
    assert!(
        (497..=499).contains(&first) && (501..=505).contains(&last),
        "{first} {last}"
    );
    let reasons: Vec<&str> = outcome.drops.iter().map(|drop| drop.reason).collect();
    // What was under way to the former address; nothing is sent twice.
    assert_eq!(reasons, ["no-route"]);
    // MOBIKE: the update, its answer, and no new keys.
    let later: Vec<(&str, bool)> = outcome.tunnels[1]
        .later
        .iter()
        .map(|row| (&*row.what, row.is_sent))
        .collect();
    assert!(
        later.len() >= 2
            && later
                .iter()
                .all(|(what, _)| what.starts_with("informational")),
        "{later:?}"
    );
    assert!(later[0].1, "{later:?}");
    let rows = outcome.tunnels[1].later.iter();
    let works = rows.flat_map(|row| [&row.work, &row.peer_work]);
    assert!(works.into_iter().all(Vec::is_empty), "{outcome:#?}");
    // To the gateway and back over the new link, which takes 10 ms; datagrams come each 10 ms.
    let [gap] = &outcome.tunnels[1].moves[..] else {
        panic!("one move: {outcome:#?}");
    };
    assert_eq!(gap.to, "cell-b");
    let (answered, heard) = (gap.gap_s.expect("an answer"), gap.data_gap_s.expect("data"));
    assert!((0.020..0.025).contains(&answered), "{gap:?}");
    assert!((0.020..0.040).contains(&heard), "{gap:?}");
    assert_eq!(outcome.tunnels[0].moves, []);
    let (cell_a, cell_b) = (&outcome.links[0], &outcome.links[1]);
    assert!(
        cell_b.up.offered > 650 && cell_b.down.offered > 650,
        "{outcome:#?}"
    );
    assert!(cell_a.down.offered < 560, "{outcome:#?}");
}

#[test]
fn the_same_seed_gives_the_same_graph_on_every_machine() {
    let first = run(HANDOVER, &["run.time=6 s"]);
    assert_eq!(first, run(HANDOVER, &["run.time=6 s"]));
    let pinned: toml::Table = include_str!("../../fingerprints.toml")
        .parse()
        .expect("toml");
    let pinned = pinned["graph"]["fingerprint"].as_str().expect("text");
    assert_eq!(first.fingerprint, pinned);
}

#[test]
fn tcp_flows_of_two_stations_share_a_link_and_outlive_a_move() {
    let flows = HANDOVER.find("[[flow]]").expect("flows");
    let tcp = |name: &str, ends: &str| {
        format!("[[flow]]\nname = {name:?}\n{ends}\nmodel = \"tcp\"\nbytes = \"500 KB\"\n\n")
    };
    let text = format!(
        "{}{}{}[[move]]\nat = \"1 s\"\nnode = \"ms2\"\nto = \"cell-b\"\n",
        &HANDOVER[..flows],
        tcp("one", "from = \"ms1\"\nto = \"server\""),
        tcp("two", "from = \"server\"\nto = \"ms2\""),
    );
    for policy in ["aes128gcm16", "3des-md5"] {
        let policy = format!("policy={policy}");
        let outcome = run(&text, &[&policy, "run.time=30 s"]);
        let transferred = |flow: usize| outcome.flows[flow].transferred.expect("tcp");
        assert!(transferred(0).is_complete, "{outcome:#?}");
        // in transport mode a tunnel ends with its address, and a new one cannot carry the old flow
        let outlives = policy.ends_with("gcm16");
        assert_eq!(
            transferred(1).is_complete,
            outlives,
            "{policy}: {outcome:#?}"
        );
    }
}

/// The handover scenario up to its flows, then one TCP flow and the move.
fn transfer_and_move(at: &str) -> String {
    let flows = HANDOVER.find("[[flow]]").expect("flows");
    format!(
        "{}[[flow]]\nfrom = \"ms1\"\nto = \"server\"\nmodel = \"tcp\"\nbytes = \"50 MB\"\n\n\
         [[move]]\nat = \"{at}\"\nnode = \"ms2\"\nto = \"cell-b\"\n",
        &HANDOVER[..flows],
    )
}

#[test]
fn a_move_in_the_last_moment_does_not_lengthen_what_is_measured() {
    let came = |at: &str| {
        let edits = ["run.time=10 s", "link.cell-a.queue="];
        let outcome = run(&transfer_and_move(at), &edits);
        let transferred = outcome.flows[0].transferred.expect("tcp");
        assert!(!transferred.is_complete, "{outcome:#?}");
        transferred.received_bytes
    };
    // its node learns of the first within the run, of the second after it
    assert_eq!(came("9850 ms"), came("9950 ms"));
}

#[test]
fn a_flow_that_no_tunnel_takes_to_its_server_is_refused() {
    let layer =
        "[[layer]]\nkind = \"ipsec\"\npolicy = \"aes128gcm16\"\nfrom = \"ms1\"\nto = \"sg\"\n";
    let text = HANDOVER.replacen("policy = \"aes128gcm16\"\n", "", 1) + layer;
    let fault = blueprint(&text, &[]).err().expect("ms2 has no tunnel");
    assert!(
        fault.contains("flow.ms2 up.from: 'ms2' has no tunnel to 'sg'"),
        "{fault}"
    );
    // to the gateway itself it may talk in clear
    let text = text.replace(
        "from = \"ms2\"\nto = \"server\"",
        "from = \"ms2\"\nto = \"sg\"",
    );
    let text = text.replace(
        "from = \"server\"\nto = \"ms2\"",
        "from = \"sg\"\nto = \"ms2\"",
    );
    let outcome = run(&text, &["run.time=6 s"]);
    let streamed = [0, 1].map(|flow| streamed(&outcome, flow));
    assert_eq!(streamed[0].sent, streamed[0].received, "{outcome:#?}");
    assert!(streamed[1].received + 20 > streamed[1].sent, "{outcome:#?}");
}

/// The handover scenario without its move, with a layer and a policy for each of two stations.
fn layered(policies: [&str; 2]) -> String {
    let layer = |(station, policy): (&str, &str)| {
        format!("[[layer]]\nkind = 'ipsec'\npolicy = '{policy}'\nfrom = '{station}'\nto = 'sg'\n")
    };
    let layers = ["ms1", "ms2"].into_iter().zip(policies).map(layer);
    let still = HANDOVER[..HANDOVER.find("[[move]]").expect("a move")]
        .replacen("policy = \"aes128gcm16\"\n", "", 1)
        .replacen("\"ms1\", \"ms2\"]", "\"ms1\"]", 1)
        .replacen("from = []", "from = [\"ms2\"]", 1);
    still + &layers.collect::<String>()
}

#[test]
fn stations_of_one_gateway_have_policies_of_their_own() {
    // 500 octets: ESP of AES-GCM in a tunnel, and of 3DES with HMAC-MD5 in transport mode, in UDP
    let sizes = [564, 20 + 8 + 8 + 8 + 480 + 8 + 12];
    for (policies, sizes) in [
        (["aes128gcm16", "3des-md5"], sizes),
        (["3des-md5", "aes128gcm16"], [sizes[1], sizes[0]]),
    ] {
        let outcome = run(&layered(policies), &["run.time=4 s"]);
        assert!(
            outcome.tunnels.iter().all(|tunnel| tunnel.exchange.is_up),
            "{outcome:#?}"
        );
        for (flow, size) in sizes.into_iter().enumerate() {
            let streamed = streamed(&outcome, flow);
            assert!(streamed.sent > 300, "{outcome:#?}");
            assert_eq!(streamed.sent, streamed.received, "{outcome:#?}");
            // IKE may have a last word
            let cell = outcome.links[flow].up;
            let all = streamed.sent * size;
            assert!(
                (all..all + 1000).contains(&cell.delivered_bytes),
                "{size}: {cell:?}"
            );
        }
        let down = streamed(&outcome, 2);
        assert_eq!(down.sent, down.received, "{outcome:#?}");
    }
}

#[test]
fn a_link_counts_the_bytes_that_it_delivers() {
    let edits = ["flow.ms1 up.rate=1500 kbit/s", "link.cell-a.loss=0.2"];
    let outcome = run(&still(), &edits);
    let cell = outcome.links[0].up;
    assert!(cell.delivered < cell.offered * 9 / 10, "{cell:?}");
    // all are of one size, except a few of IKE
    let sealed = cell.delivered * 564;
    assert!(
        (sealed - 2000..sealed + 2000).contains(&cell.delivered_bytes),
        "{cell:?}"
    );
}

#[test]
fn outer_and_inner_packets_are_of_either_family() {
    // 500 octets in an ESP packet in UDP, without the outer IP header
    let sealed = 8 + 8 + 8 + 500 + 2 + 2 + 16;
    for (edits, header) in [
        (&["family=6"][..], 40),
        (&["family=6", "link.sg.network=10.1.2.0/24"], 40),
        (&["link.sg.network=fd10::/64"], 20),
    ] {
        let outcome = run(&still(), edits);
        let is_up = |tunnel: &Tunnelled| tunnel.exchange.is_up;
        assert!(outcome.tunnels.iter().all(is_up), "{edits:?}: {outcome:#?}");
        let sent = [0, 1]
            .map(|flow| streamed(&outcome, flow).sent)
            .iter()
            .sum::<u64>();
        for flow in 0..3 {
            let streamed = streamed(&outcome, flow);
            assert!(streamed.sent > 1000, "{edits:?}: {outcome:#?}");
            assert_eq!(streamed.sent, streamed.received, "{edits:?}: {outcome:#?}");
        }
        let (cell, all) = (outcome.links[0].up, sent * (header + sealed));
        assert!(
            (all..all + 1000).contains(&cell.delivered_bytes),
            "{edits:?}: {cell:?}"
        );
        assert_eq!(outcome.drops, [], "{outcome:#?}");
    }
}

#[test]
fn a_station_moves_between_networks_of_ipv6_and_keeps_its_tunnel() {
    let outcome = run(HANDOVER, &["family=6"]);
    assert!(outcome.tunnels[1].moved > 0, "{outcome:#?}");
    assert_eq!(streamed(&outcome, 0).sent, streamed(&outcome, 0).received);
    let up = streamed(&outcome, 1);
    assert_eq!(up.sent, up.received, "{outcome:#?}");
    let [(first, last)] = gaps(&outcome.flows[2])[..] else {
        panic!("one gap: {:#?}", outcome.flows[2]);
    };
    assert!(
        (497..=499).contains(&first) && (501..=505).contains(&last),
        "{first} {last}"
    );
}

#[test]
fn one_gateway_serves_stations_of_both_families() {
    // the second cell is of IPv6, and has a path of its own to the gateway
    let text = still().replacen(
        "name = \"cell-b\"",
        "name = \"cell-b\"\nnetwork = \"2001:db8:9::/64\"",
        1,
    );
    let text = text
        + "[[node]]\nname = 'r6'\nrole = 'router'\n"
        + "[[link]]\nname = 'last'\nfrom = 'r6'\nto = 'sg'\nrate = '1 Gbit/s'\n\
           network = '2001:db8:8::/64'\n"
        + "[[flow]]\nname = 'ms3'\nfrom = 'ms3'\nto = 'server'\nmodel = 'tcp'\n\
           bytes = '200 KB'\n";
    let (cell, rest) = text.split_at(text.find("name = \"cell-b\"").expect("the cell"));
    let text = cell.to_owned() + &rest.replacen("to = \"router\"", "to = \"r6\"", 1);
    let outcome = run(&text, &[]);
    let is_up = |tunnel: &Tunnelled| tunnel.exchange.is_up;
    assert!(outcome.tunnels.iter().all(is_up), "{outcome:#?}");
    for flow in 0..3 {
        let streamed = streamed(&outcome, flow);
        assert_eq!(streamed.sent, streamed.received, "{outcome:#?}");
    }
    let transferred = outcome.flows[3].transferred.expect("tcp");
    assert!(transferred.is_complete, "{outcome:#?}");
}

#[test]
fn what_ipv6_has_not_is_refused_where_it_stands() {
    for (edits, said) in [
        (
            &["family=6", "policy=none"][..],
            "without a tunnel mode policy, the gateway publishes this server by translating",
        ),
        (
            &["family=6", "policy=3des-md5"],
            "which works only with IPv4",
        ),
        (
            &["policy=outer-6"],
            "--set policy: its outer header is IPv6 and the path is IPv4",
        ),
    ] {
        let fault = blueprint(HANDOVER, edits).err().expect(said);
        assert!(fault.contains(said), "{fault}, not {said}");
    }
    // to the gateway itself transport mode leads in either family
    let text = still().replace("to = \"server\"\nmodel", "to = \"sg\"\nmodel");
    let text = text.replace(
        "from = \"server\"\nto = \"ms2\"",
        "from = \"ms2\"\nto = \"sg\"",
    );
    let outcome = run(&text, &["family=6", "policy=3des-md5"]);
    for flow in 0..3 {
        let streamed = streamed(&outcome, flow);
        assert!(streamed.sent > 900, "{outcome:#?}");
        assert_eq!(streamed.sent, streamed.received, "{outcome:#?}");
    }
}

#[test]
fn a_gateway_pays_for_each_tunnel_by_its_own_policy() {
    let policies = ["aes128gcm16", "aes128-sha256"];
    let board = ["node.sg.device=cortex-m4"];
    let blueprint = blueprint(&layered(policies), &board).expect("a blueprint");
    let gateway = blueprint
        .nodes
        .iter()
        .find(|one| one.name == "sg")
        .expect("sg");
    let costs = gateway.costs.as_ref().expect("a device");
    let of_peer = |rank: usize| {
        let (first, _) = blueprint.setup.tunnels[rank].pool.hosts();
        costs.of_peer(|| Some(first)).seal.at(1000.0)
    };
    let alone = |policy| {
        let blueprint = self::blueprint(&layered([policy; 2]), &board).expect("a blueprint");
        let costs = blueprint.nodes[3].costs.clone().expect("a device");
        costs.packet.seal.at(1000.0)
    };
    assert_eq!([of_peer(0), of_peer(1)], policies.map(alone));
    assert!(of_peer(0) != of_peer(1));
    // the second station waits longer for its packets if the first one's policy costs more
    let busy = |policies| {
        let edits = [
            "node.sg.device=cortex-m4",
            "node.sg.clock=40 MHz",
            "run.time=2 s",
        ];
        let mut world =
            World::new(self::blueprint(&layered(policies), &edits).expect("a blueprint"));
        let world = world.as_mut().expect("a world");
        world.kernel.start().expect("starts");
        let up = world.handshakes().expect("runs");
        assert!(up.iter().all(|exchange| exchange.is_up), "{up:#?}");
        let gateway = world.number(3);
        world
            .kernel
            .run(world.kernel.now() + QUIET * 10)
            .expect("runs");
        let before = world.host(gateway).expect("a host").busy_s();
        world.flows().expect("runs");
        world.host(gateway).expect("a host").busy_s() - before
    };
    let [both, gcm, cbc] = [policies, [policies[0]; 2], [policies[1]; 2]].map(busy);
    assert!(
        gcm.min(cbc) < both && both < gcm.max(cbc),
        "{gcm} {both} {cbc}"
    );
}

#[test]
fn links_change_while_packets_flow() {
    let change = |what: &str| {
        let step = format!("[[move]]\nat = \"6 s\"\nlink = \"cell-a\"\n{what}\n");
        let back = "[[move]]\nat = \"8 s\"\nlink = \"cell-a\"\nup = true\n";
        run(&(still() + &step + back), &[])
    };
    let lost = |outcome: &Flowed| streamed(outcome, 0).sent - streamed(outcome, 0).received;
    assert_eq!(lost(&change("up = false")), 200);
    assert_eq!(lost(&change("delay = \"300 ms\"")), 0);
    let slow = change("delay = \"300 ms\"");
    assert!(streamed(&slow, 0).mean_delay_s > 0.1, "{slow:#?}");
    let lossy = lost(&change("loss = 0.5"));
    assert!((220..380).contains(&lossy), "{lossy}");
    // 200 kbit/s for twice 400: the queue is full, and more than half is lost
    let narrow = change("rate = \"200 kbit/s\"");
    assert!(lost(&narrow) > 150, "{narrow:#?}");
}

#[test]
fn the_kernel_and_the_testbed_have_the_same_whole_numbers() {
    let edits = [
        "link.cell-b.rate={ up = '1000.6 bit/s', down = '0.2 bit/s' }",
        "link.cell-b.delay=0.4 us",
        "link.cell-b.queue=1500.6 B",
        "link.cell-b.overhead=20.2 B",
        "link.cell-b.mtu=1400",
    ];
    let (scenario, catalogue) = scenario(&still(), &edits).expect("a scenario");
    let resolved = scenario.resolved(&catalogue).expect("resolves");
    let of = |link: &WholeLink| link.name == "cell-b";
    let index = resolved.links.iter().position(of).expect("the link");
    let whole = &resolved.links[index];
    assert_eq!((whole.rate.up_bps, whole.rate.down_bps), (1001, 1));
    assert_eq!((whole.delay_ns, whole.queue_bytes), (400, Some(1501)));
    assert_eq!((whole.overhead_bytes, whole.mtu_bytes), (21, Some(1400)));
    let blueprint = blueprint(&still(), &edits).expect("a blueprint");
    let joint = &blueprint.joints[index];
    for (shape, bits) in [(&joint.up, 1001), (&joint.down, 1)] {
        assert!(matches!(shape.carrier, link::Carrier::Rate(rate) if rate == bits));
        assert_eq!(shape.delay, link::Delay::Fixed(Duration::from_nanos(400)));
        assert_eq!(shape.queue, link::Limit::Bytes(1501));
        assert_eq!((shape.overhead_bytes, shape.mtu), (21, Some(1400)));
    }
}

#[test]
fn moves_are_whole_too_and_in_the_order_of_time() {
    let moves = "[[move]]\nat = '2.0000000004 s'\nlink = 'cell-b'\ndelay = '0.4 us'\n\
                 [[move]]\nat = '1 s'\nlink = 'cell-b'\nrate = '1500.6 bit/s'\n";
    let text = still() + moves;
    let (scenario, catalogue) = scenario(&text, &[]).expect("a scenario");
    let resolved = scenario.resolved(&catalogue).expect("resolves");
    let times: Vec<u64> = resolved.moves.iter().map(|step| step.at_ns).collect();
    assert_eq!(times, [1_000_000_000, 2_000_000_000]);
    let change = |index: usize| match resolved.moves[index].change {
        Change::Link { to, .. } => to,
        Change::Station { .. } => panic!("it is of a link"),
    };
    let rate = WholeRate {
        up_bps: 1501,
        down_bps: 1501,
    };
    assert_eq!(change(0), WholeLinkChange::Rate(rate));
    assert_eq!(change(1), WholeLinkChange::DelayNs(400));
}

#[test]
fn several_nats_and_gateways_each_have_their_stations() {
    let text = "name = 'two'\ntitle = 'two'\n[run]\ntime = '3 s'\n".to_owned()
        + &["a", "b"].map(|at| {
            format!(
                "[[node]]\nname='ms-{at}'\nrole='station'\n[[node]]\nname='nat-{at}'\nrole='nat'\n\
                 [[node]]\nname='sg-{at}'\nrole='gateway'\n[[node]]\nname='server-{at}'\n\
                 role='server'\n\
                 [[link]]\nfrom='ms-{at}'\nto='nat-{at}'\nrate='1 Mbit/s'\n\
                 [[link]]\nfrom='nat-{at}'\nto='core'\nrate='1 Mbit/s'\n\
                 [[link]]\nname='to-{at}'\nfrom='core'\nto='sg-{at}'\nrate='1 Mbit/s'\n\
                 [[link]]\nfrom='sg-{at}'\nto='server-{at}'\nrate='1 Mbit/s'\n\
                 [[flow]]\nname='down {at}'\nfrom='server-{at}'\nto='ms-{at}'\nmodel='constant'\n\
                 rate='100 kbit/s'\nsizes={{ model='fixed', bytes='500 B' }}\n\
                 [[layer]]\nkind='ipsec'\npolicy='aes128gcm16'\nfrom='ms-{at}'\nto='sg-{at}'\n"
            )
        }).concat()
        + "[[node]]\nname='core'\nrole='router'\n";
    let outcome = run(&text, &[]);
    for flow in 0..2 {
        let streamed = streamed(&outcome, flow);
        assert!(
            streamed.sent > 70 && streamed.sent == streamed.received,
            "{outcome:#?}"
        );
    }
    let fault = blueprint(&text, &["flow.down a.to=ms-b"])
        .err()
        .expect("the other gateway's");
    assert!(
        fault.contains("the tunnel of 'ms-b' ends at 'sg-b', which does not lead to 'server-a'"),
        "{fault}"
    );
}

#[test]
fn in_clear_a_graph_carries_flows_and_what_it_cannot_is_said() {
    let up_alone = HANDOVER.replacen(
        "from = \"server\"\nto = \"ms2\"",
        "from = \"ms2\"\nto = \"sg\"",
        1,
    );
    let outcome = run(&up_alone, &["policy=none"]);
    assert!(outcome.tunnels.is_empty());
    for flow in 0..3 {
        let streamed = streamed(&outcome, flow);
        assert!(
            streamed.received + 2 >= streamed.sent && streamed.sent > 900,
            "{outcome:#?}"
        );
    }
    let fault = blueprint(HANDOVER, &["policy=3des-md5"])
        .err()
        .expect("one of several");
    assert!(
        fault.contains("cannot be told apart if there are several"),
        "{fault}"
    );
    let flow = |key: &str| format!("flow.ms1 up.{key}");
    let edits = ["model=pcap", "file=x.pcap", "sizes=", "rate="].map(flow);
    let edits = edits.each_ref().map(String::as_str);
    let fault = blueprint(HANDOVER, &edits).err().expect("the tandem's");
    assert!(
        fault.contains("model: only the tandem replays captures"),
        "{fault}"
    );
}

/// Two stations behind one router, and a TCP transfer of the first one.
const NEIGHBOURS: &str = r#"
name = "n"
title = "Two stations behind a router"
policy = "none"
[run]
time = "3 s"
[[node]]
name = "a"
role = "station"
[[node]]
name = "b"
role = "station"
[[node]]
name = "r"
role = "router"
[[node]]
name = "sg"
role = "gateway"
[[node]]
name = "server"
role = "server"
[[link]]
from = "a"
to = "r"
rate = "100 Mbit/s"
delay = "20 ms"
[[link]]
from = "b"
to = "r"
rate = "100 Mbit/s"
delay = "1 ms"
[[link]]
from = "r"
to = "sg"
rate = "1 Gbit/s"
[[link]]
from = "sg"
to = "server"
rate = "1 Gbit/s"
[[flow]]
name = "file"
from = "a"
to = "server"
model = "tcp"
bytes = "20 MB"
"#;

#[test]
fn a_link_that_no_packet_takes_changes_no_transfer() {
    let layer =
        "[[layer]]\nkind = \"ipsec\"\npolicy = \"aes128gcm16\"\nfrom = \"a\"\nto = \"sg\"\n";
    let text = NEIGHBOURS.replacen("policy = \"none\"\n", "", 1) + layer;
    let alone = run(&text, &[]);
    let slow = ["link.b.rate=9.6 kbit/s", "link.b.mtu=576"];
    let beside = run(&text, &slow);
    let transferred = alone.flows[0].transferred.expect("tcp");
    assert!(transferred.is_complete, "{alone:#?}");
    assert_eq!(alone.flows, beside.flows);
    let moved = "[[move]]\nat = \"1 s\"\nnode = \"a\"\nto = \"b\"\n";
    let limits = |text: &str, edits: &[&str]| {
        let blueprint = blueprint(text, edits).expect("a blueprint");
        (blueprint.window_bytes(0), blueprint.mtu_bytes(0, 3))
    };
    // twice what is under way in 40 ms and a slack of 50 ms at 100 Mbit/s; the links have no MTU
    let most = (2_250_000, 65_535);
    assert_eq!(limits(&text, &[]), most);
    assert_eq!(limits(&text, &slow), most);
    // a link to which the station moves later counts
    assert_eq!(limits(&(text + moved), &slow), (2_250_000, 576));
}

#[test]
fn a_nat_on_another_route_stops_no_datagrams() {
    let down = "[[flow]]\nname = \"down\"\nfrom = \"server\"\nto = \"b\"\nmodel = \"constant\"\n\
                rate = \"80 kbit/s\"\nsizes = { model = \"fixed\", bytes = \"1000 B\" }\n";
    let nat = "[[node]]\nname = \"nat\"\nrole = \"nat\"\n";
    let link = "[[link]]\nfrom = \"nat\"\nto = \"r\"\nrate = \"1 Mbit/s\"\n";
    let direct = "from = \"sg\"\nto = \"server\"";
    let behind = |station: &str| {
        let from = format!("from = \"{station}\"\nto = \"r\"");
        let to = format!("from = \"{station}\"\nto = \"nat\"");
        let text = NEIGHBOURS.replacen(&from, &to, 1).replacen(
            "role = \"gateway\"",
            "role = \"router\"",
            1,
        );
        assert!(text.contains(direct));
        text + nat + link + down
    };
    let outcome = run(&behind("a"), &["flow.file.bytes=10 KB"]);
    let streamed = streamed(&outcome, 1);
    assert!(streamed.sent > 20, "{outcome:#?}");
    assert_eq!(streamed.sent, streamed.received);
    let text = behind("b");
    let fault = blueprint(&text, &[]).err().expect("a NAT on the way");
    let line = text[..text.find("from = \"server\"").expect("the flow")]
        .lines()
        .count()
        + 1;
    let said = format!("handover.toml:{line}:1: flow.down.from: a NAT on the way drops");
    assert!(fault.starts_with(&said), "{fault}");
    assert!(!fault.contains("direction"), "{fault}");
}

#[test]
fn a_fault_of_a_policy_is_at_the_layer_of_its_station() {
    let layer = |station: &str| {
        format!(
            "[[layer]]\nkind = \"ipsec\"\npolicy = \"outer-6\"\nfrom = \"{station}\"\nto = \"sg\"\n"
        )
    };
    let text = NEIGHBOURS.replacen("policy = \"none\"\n", "", 1) + &layer("a") + &layer("b");
    let text = text.replacen(
        "from = \"a\"",
        "network = \"2001:db8:7::/64\"\nfrom = \"a\"",
        1,
    );
    let text = text
        .replacen(
            "from = \"r\"",
            "network = \"2001:db8:8::/64\"\nfrom = \"r\"",
            1,
        )
        .replacen("to = \"server\"\nmodel", "to = \"sg\"\nmodel", 1)
        + "[[link]]\nname = \"v4\"\nfrom = \"r\"\nto = \"sg\"\nrate = \"1 Gbit/s\"\n";
    let fault = blueprint(&text, &[]).err().expect("an IPv4 path");
    let line = text[..text.rfind("policy = ").expect("a layer")]
        .lines()
        .count()
        + 1;
    let said = format!("handover.toml:{line}:1: layer.b.policy: its outer header is IPv6");
    assert!(fault.starts_with(&said), "{fault}");
}

#[test]
fn a_fault_of_the_kernel_is_at_the_line_of_what_it_is_about() {
    let flow = |name: &str, rate: &str| {
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"b\"\nto = \"server\"\nmodel = \"constant\"\n\
             rate = \"{rate}\"\nsizes = {{ model = \"fixed\", bytes = \"100 B\" }}\n"
        )
    };
    let text = NEIGHBOURS.to_owned() + &flow("few", "8 kbit/s") + &flow("many", "800 Mbit/s");
    let said = |text: &str, edits: &[&str], line: &str| {
        let (scenario, catalogue) = scenario(text, edits).expect("a scenario");
        let resolved = scenario.resolved(&catalogue).expect("a network");
        let levels = levels::both_levels(&scenario, &resolved, &catalogue, &held(), None);
        let fault = levels.expect_err(line).to_string();
        let line = text[..text.rfind(line).expect(line)].lines().count() + 1;
        let rest = fault.strip_prefix(&format!("handover.toml:{line}:1: "));
        rest.unwrap_or_else(|| panic!("line {line}: {fault}"))
            .to_owned()
    };
    let edits = ["link.b.rate=1 bit/s", "flow.file.bytes=1 KB"];
    let fault = said(&text, &edits, "rate = \"800 Mbit/s\"");
    assert!(
        fault.starts_with("flow.many.rate: 400001 packets"),
        "{fault}"
    );
}
