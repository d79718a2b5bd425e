//! Tests of the addresses and routes of graphs, and of graphs that are refused.

use engine::sa::Mode;

use super::setup::Setup;
use super::*;
use crate::cost::Policy;
use crate::scenario::tests::entry;
use crate::scenario::{Catalogue, Kind};

const HANDOVER: &str =
    include_str!("../../../../../python/caravan/catalogue/scenarios/handover.toml");
const MVPN: &str = include_str!("../../../../../python/caravan/catalogue/scenarios/firewall.toml");
const UMTS: &str = include_str!("../../../../../python/caravan/catalogue/scenarios/umts.toml");

fn catalogue() -> Catalogue {
    let link = "title = 'a'\nrate = '2 Mbit/s'\n[sources]\nrate = 'measured'\n";
    let links = ["umts-radio", "frame-relay-100", "atm-155"];
    let links = links.map(|name| entry(Kind::Link, name, link));
    let others = [
        entry(Kind::Device, "paper-u", ""),
        entry(Kind::Policy, "3des-md5", ""),
        entry(Kind::Policy, "skip-des-md5-paper", ""),
    ];
    Catalogue::new(links.into_iter().chain(others))
}

fn scenario(text: &str, edits: &[&str]) -> Result<Scenario, String> {
    let scenario = Scenario::edited("a.toml", text, edits, &catalogue());
    scenario.map_err(|fault| fault.to_string())
}

fn graph(text: &str, edits: &[&str]) -> Result<Graph, String> {
    Graph::of(&scenario(text, edits)?).map_err(|fault| fault.to_string())
}

/// The handover scenario with one piece of its text replaced.
fn changed(from: &str, to: &str) -> String {
    assert!(HANDOVER.contains(from), "{from}");
    HANDOVER.replacen(from, to, 1)
}

/// Node, link and address of each port.
fn ports(text: &str, edits: &[&str]) -> Vec<String> {
    let scenario = scenario(text, edits).expect("a scenario");
    let graph = Graph::of(&scenario).expect("a graph");
    let ports = graph.ports.iter().map(|port| {
        let (node, link) = (&scenario.nodes[port.node], &scenario.links[port.link]);
        format!("{} {} {}", node.name, link.name, port.address)
    });
    ports.collect()
}

#[test]
fn a_chain_has_the_addresses_of_the_testbeds_network() {
    let expected = [
        "ms ms 10.0.0.2",
        "ggsn sgsn 10.0.0.1",
        "ggsn ggsn 192.0.2.2",
        "sg ggsn 192.0.2.1",
        "sg sg 10.10.0.1",
        "server sg 10.10.0.2",
    ];
    assert_eq!(ports(UMTS, &[]), expected);
    let no_nat = [
        "ms ms 192.0.2.2",
        "sg ggsn 192.0.2.1",
        "sg sg 10.10.0.1",
        "server sg 10.10.0.2",
    ];
    assert_eq!(ports(UMTS, &["node.ggsn.role=relay"]), no_nat);
}

#[test]
fn a_station_has_an_address_on_each_link_that_it_ever_takes() {
    let expected = [
        "ms1 cell-a 100.64.0.2",
        "ms2 cell-a 100.64.0.3",
        "ms2 cell-b 100.64.1.2",
        "router cell-a 100.64.0.1",
        "router cell-b 100.64.1.1",
        "router router 192.0.2.2",
        "sg router 192.0.2.1",
        "sg sg 10.10.0.1",
        "server sg 10.10.0.2",
    ];
    assert_eq!(ports(HANDOVER, &[]), expected);
    let given = ports(HANDOVER, &["link.cell-a.network=172.16.4.0/22"]);
    assert_eq!(given[0], "ms1 cell-a 172.16.4.2");
}

#[test]
fn the_head_of_a_segment_is_the_node_that_forwards() {
    let heads = |text: &str| -> Vec<String> {
        let graph = Graph::of(&scenario(text, &[]).expect("a scenario")).expect("a graph");
        let segments = graph.segments.iter();
        segments.map(|segment| segment.head.to_string()).collect()
    };
    let expected = ["100.64.0.1", "100.64.1.1", "192.0.2.1", "10.10.0.1"];
    assert_eq!(heads(HANDOVER), expected);
    let more = "\n[[node]]\nname='far'\nrole='server'\n\
                [[link]]\nname='aside'\nfrom='router'\nto='far'\nrate='1 Mbit/s'\n";
    // the server is at the far end and has the first address, but the router forwards
    let graph = Graph::of(&scenario(&format!("{HANDOVER}{more}"), &[]).expect("a scenario"));
    let graph = graph.expect("a graph");
    let segment = graph.segments.last().expect("a segment");
    let far = graph.ports.iter().find(|port| port.address == segment.head);
    assert!(far.is_some_and(|port| port.is_near), "{graph:#?}");
}

#[test]
fn packets_take_the_shortest_way_and_of_two_alike_the_first() {
    // r1 and r2 both lead from the cell's router to the gateway, r3 is a detour
    let more = "\n[[node]]\nname='r1'\nrole='router'\n[[node]]\nname='r2'\nrole='router'\n\
                [[node]]\nname='r3'\nrole='router'\n\
                [[link]]\nname='a'\nfrom='router'\nto='r1'\nrate='1 Mbit/s'\n\
                [[link]]\nname='b'\nfrom='router'\nto='r2'\nrate='1 Mbit/s'\n\
                [[link]]\nname='c'\nfrom='r1'\nto='r3'\nrate='1 Mbit/s'\n\
                [[link]]\nname='d'\nfrom='r3'\nto='sg'\nrate='1 Mbit/s'\n\
                [[link]]\nname='e'\nfrom='r2'\nto='sg'\nrate='1 Mbit/s'\n\
                [[link]]\nname='f'\nfrom='r1'\nto='sg'\nrate='1 Mbit/s'\n";
    let text = changed(
        "from = \"router\"\nto = \"sg\"",
        "from = \"router\"\nto = \"r3\"",
    );
    let text = format!("{text}{more}");
    let scenario = scenario(&text, &[]).expect("a scenario");
    let graph = Graph::of(&scenario).expect("a graph");
    let index = |name: &str| {
        scenario
            .nodes
            .iter()
            .position(|it| it.name == name)
            .expect(name)
    };
    let link = |name: &str| {
        scenario
            .links
            .iter()
            .position(|it| it.name == name)
            .expect(name)
    };
    let to = |name: &str| graph.port(index("sg"), link(name)).expect(name).segment;
    let way = |segment| {
        let hop = graph.hop(index("router"), segment).expect("a way");
        (scenario.links[hop.link].name.as_str(), hop.segments)
    };
    assert_eq!(way(to("f")), ("a", 2));
    assert_eq!(way(to("e")), ("b", 2));
    // the link that the file names first, from the cell's router to r3
    assert_eq!(way(to("d")), ("router", 2));
    // the stations' cells from the gateway
    let back = graph
        .hop(index("sg"), graph.ports[0].segment)
        .expect("a way back");
    assert_eq!(back.segments, 3);
}

#[test]
fn each_station_is_protected_to_the_nearest_gateway_or_as_layers_say() {
    let graph = graph(HANDOVER, &[]).expect("a graph");
    let pairs = |graph: &Graph| {
        let tunnels = graph.tunnels.iter();
        tunnels
            .map(|tunnel| (tunnel.from, tunnel.to))
            .collect::<Vec<_>>()
    };
    assert_eq!(pairs(&graph), [(0, 3), (1, 3)]);
    let layer =
        "[[layer]]\nkind = \"ipsec\"\npolicy = \"aes128gcm16\"\nfrom = \"ms2\"\nto = \"sg\"\n";
    let text = changed("policy = \"aes128gcm16\"\n", "");
    let text = format!("{text}\n{layer}");
    let scenario = scenario(&text, &[]).expect("a scenario");
    assert_eq!(scenario.policy, "aes128gcm16");
    assert_eq!(pairs(&Graph::of(&scenario).expect("a graph")), [(1, 3)]);
}

/// The handover scenario with a layer for each station, which names this policy.
fn layered(policies: [&str; 2]) -> String {
    let layer = |(station, policy): (&str, &str)| {
        format!("\n[[layer]]\nkind = 'ipsec'\npolicy = '{policy}'\nfrom = '{station}'\nto = 'sg'\n")
    };
    let layers = ["ms1", "ms2"].into_iter().zip(policies).map(layer);
    changed("policy = \"aes128gcm16\"\n", "") + &layers.collect::<String>()
}

#[test]
fn each_layer_names_its_policy_and_the_hash_covers_it() {
    let of = |policies| scenario(&layered(policies), &[]).expect("a scenario");
    let two = of(["aes128gcm16", "3des-md5"]);
    let graph = Graph::of(&two).expect("a graph");
    let named: Vec<&str> = graph.tunnels.iter().map(|it| &*it.policy).collect();
    assert_eq!(named, ["aes128gcm16", "3des-md5"]);
    assert!(two.files.iter().any(|(name, _)| name == "policy/3des-md5"));
    let one = of(["aes128gcm16", "aes128gcm16"]);
    assert!(!one.json().contains("\"policy\":\"aes128gcm16\"}"));
    assert_ne!(one.hash(), two.hash());
    let fault = scenario(&layered(["aes128gcm16", "3des-md"]), &[]).expect_err("a slip");
    assert!(
        fault.contains("layer.ms2.policy: unknown policy '3des-md'"),
        "{fault}"
    );
}

/// Each text is the handover scenario with one piece replaced; each must be refused with these
/// words.
fn refuses(cases: &[(&str, &str, &str)]) {
    for (from, to, said) in cases {
        let fault = scenario(&changed(from, to), &[]).expect_err(said);
        assert!(fault.contains(said), "{fault}, not {said}");
    }
}

#[test]
fn a_layer_that_lacks_its_ends_is_refused() {
    for (kind, said) in [
        (
            "mobile-ip",
            "mobile-ip goes from a station to its home agent",
        ),
        ("skip", "skip goes from a station to a firewall"),
        ("access", "access goes from a station to an access point"),
        ("link-cipher", "the key 'link' is missing"),
        ("transport", "layer.ms2: the key 'flow' is missing"),
        ("ipsek", "the nearest valid one is 'ipsec'"),
    ] {
        let text = changed("policy = \"aes128gcm16\"\n", "");
        let ends = "policy = \"x\"\nfrom = \"ms2\"\nto = \"sg\"\n";
        let text = format!("{text}\n[[layer]]\nkind = {kind:?}\n{ends}");
        let fault = scenario(&text, &[]).expect_err(said);
        assert!(fault.contains(said), "{fault}, not {said}");
    }
}

#[test]
fn links_that_cannot_be_are_refused_where_they_stand() {
    refuses(&[
        ("name = \"cell-a\"\n", "", "or none, needs a name"),
        (
            "name = \"cell-b\"",
            "name = \"cell-a\"",
            "link.cell-a: two links are called 'cell-a'",
        ),
        ("\"ms2\"]", "\"ms1\"]", "this node is twice at one end"),
        (
            "from = []",
            "from = [\"ms1\"]",
            "exactly one link, which starts from it",
        ),
        (
            "role = \"router\"",
            "role = \"relay\"",
            "'router': a relay joins exactly two links",
        ),
        (
            "delay = \"20 ms\"",
            "network = \"10.0.0.1/24\"",
            "'10.0.0.1/24' is not a network",
        ),
        (
            "delay = \"20 ms\"",
            "network = \"2001:db8::1/64\"",
            "or of 32 to 120 bits, such as 2001:db8::/64",
        ),
    ]);
    for (edit, said) in [
        (
            "link.cell-a.network=10.99.7.0/24",
            "10.99.7.0/24 overlaps 10.99.0.0/16",
        ),
        (
            "link.cell-a.network=192.168.0.0/30",
            "is too small for host 3",
        ),
        (
            "link.router.to=server",
            "'sg': no link leads to this gateway",
        ),
    ] {
        let fault = graph(HANDOVER, &[edit]).expect_err(said);
        assert!(fault.contains(said), "{fault}, not {said}");
    }
}

#[test]
fn flows_and_moves_that_cannot_be_are_refused_where_they_stand() {
    let ends = "from = \"ms1\"\nto = \"server\"";
    let moves = "node = \"ms2\"\nto = \"cell-b\"";
    refuses(&[
        (
            "to = \"cell-b\"",
            "to = \"cell-c\"",
            "nearest valid one is 'cell-b'",
        ),
        (
            "to = \"cell-b\"",
            "to = \"sg\"",
            "stations cannot be on 'sg'",
        ),
        (
            "\"5 s\"",
            "\"50 s\"",
            "50 s is not before the end of the run at 12 s",
        ),
        (
            moves,
            "node = \"router\"\nto = \"cell-b\"",
            "only a station can move",
        ),
        (
            moves,
            "link = \"cell-b\"",
            "a move of a link must change exactly one of rate, delay, loss and up",
        ),
        (
            ends,
            "from = \"ms1\"\nto = \"router\"",
            "a flow needs a station at one end",
        ),
        (
            "to = \"server\"\nmodel",
            "to = \"server\"\ndirection = \"up\"\nmodel",
            "from and to already give the direction",
        ),
    ]);
}

#[test]
fn a_chain_that_branches_is_told_how_branches_are_written() {
    let chain = UMTS.replacen(
        "from = \"ms\"",
        "name = \"a\"\nfrom = [\"ms\", \"node-b\"]",
        1,
    );
    let fault = scenario(&chain.replace("to = \"node-b\"", "to = \"rnc\""), &[]);
    assert!(
        fault
            .expect_err("a branch")
            .contains("[[flow]] instead of [traffic]")
    );
}

#[test]
fn the_tandem_says_what_it_cannot_see_and_which_level_can() {
    let moving = scenario(HANDOVER, &[]).expect("a scenario");
    let fault = moving.chain().expect_err("it moves").to_string();
    assert!(
        fault.contains("the tandem cannot simulate moves"),
        "{fault}"
    );
    assert!(fault.contains("(simulate --events)"), "{fault}");
    let at = HANDOVER.find("[[move]]").expect("a move");
    let said = scenario(&HANDOVER[..at], &[]).expect_err("nobody there");
    assert!(
        said.contains("link.cell-b.from: no station is ever on 'cell-b'"),
        "{said}"
    );
    let still = HANDOVER[..at].replacen("\"ms1\", \"ms2\"]", "\"ms1\"]", 1);
    let still = scenario(&still.replacen("from = []", "from = [\"ms2\"]", 1), &[]);
    let fault = still
        .expect("a scenario")
        .chain()
        .expect_err("it branches")
        .to_string();
    assert!(
        fault.contains("can simulate only a chain, and this scenario branches"),
        "{fault}"
    );
}

#[test]
fn a_chain_written_as_a_graph_is_the_same_to_the_tandem() {
    let begins = UMTS.find("[traffic]").expect("traffic");
    let flow = "[[flow]]\nfrom = \"ms\"\nto = \"server\"\n";
    let rest = UMTS[begins + "[traffic]\n".len()..].replace("direction = \"up\"\n", "");
    let text = format!("{}{flow}{rest}", &UMTS[..begins]);
    let short = scenario(UMTS, &[]).expect("a chain");
    let long = scenario(&text, &[]).expect("a graph");
    assert_eq!(short.chain(), long.chain());
    assert_eq!(short.tandem_traffic(), long.tandem_traffic());
    assert_eq!(Graph::of(&short), Graph::of(&long));
}

#[test]
fn networks_of_ipv6_are_chosen_or_given_link_by_link() {
    let expected = [
        "ms1 cell-a 2001:db8:2::2",
        "ms2 cell-a 2001:db8:2::3",
        "ms2 cell-b 2001:db8:2:1::2",
        "router cell-a 2001:db8:2::1",
        "router cell-b 2001:db8:2:1::1",
        "router router 2001:db8::2",
        "sg router 2001:db8::1",
        "sg sg fd10::1",
        "server sg fd10::2",
    ];
    assert_eq!(ports(HANDOVER, &["family=6"]), expected);
    let inner = ports(HANDOVER, &["link.sg.network=fd00:1::/120"]);
    assert_eq!(&inner[7..], ["sg sg fd00:1::1", "server sg fd00:1::2"]);
    assert_eq!(inner[6], "sg router 192.0.2.1");
    let outer = ports(HANDOVER, &["family=6", "link.sg.network=10.1.2.0/24"]);
    assert_eq!(
        &outer[6..],
        [
            "sg router 2001:db8::1",
            "sg sg 10.1.2.1",
            "server sg 10.1.2.2"
        ]
    );
    assert_ne!(
        scenario(HANDOVER, &["family=6"])
            .expect("a scenario")
            .hash(),
        scenario(HANDOVER, &[]).expect("a scenario").hash()
    );
    assert_eq!(
        scenario(HANDOVER, &["family=4"])
            .expect("a scenario")
            .hash(),
        scenario(HANDOVER, &[]).expect("a scenario").hash()
    );
}

#[test]
fn what_crosses_from_one_family_to_the_other_is_refused() {
    for (text, edits, said) in [
        (
            UMTS,
            &["family=6"][..],
            "family: a NAT translates only IPv4, and 2001:db8:1::/64 is IPv6",
        ),
        (HANDOVER, &["family=5"], "family: must be 4 or 6, found 5"),
        (
            HANDOVER,
            &["link.cell-b.network=2001:db8:9::/64"],
            "link.cell-b.network: 'ms2' moves to 'cell-b', which has the other IP version",
        ),
        (
            HANDOVER,
            &["link.router.network=2001:db8:9::/64"],
            "no path leads from 'ms1' to",
        ),
        (
            HANDOVER,
            &["link.sg.network=fd99::/64"],
            "fd99::/64 overlaps fd99::/48",
        ),
    ] {
        let fault = graph(text, edits).expect_err(said);
        assert!(fault.contains(said), "{fault}, not {said}");
    }
}

/// Of the handover, whose tunnels have this mode.
fn setup(edits: &[&str], mode: Mode) -> Setup {
    let scenario = scenario(HANDOVER, edits).expect("a scenario");
    let graph = Graph::of(&scenario).expect("a graph");
    let suite = "3des-md5".parse().expect("a suite");
    let policy = Policy {
        mode,
        ..Policy::of(suite)
    };
    Setup::of(
        &scenario,
        &graph,
        vec![policy; graph.tunnels.len()],
        (Vec::new(), Vec::new()),
    )
}

#[test]
fn a_setup_says_where_flows_go_in_either_mode_and_in_clear() {
    let ends = |setup: &Setup| {
        let flows = setup.flows.iter();
        flows
            .map(|flow| {
                let station = flow.station_address.map(|address| address.to_string());
                (flow.server_address.to_string(), station, flow.port)
            })
            .collect::<Vec<_>>()
    };
    let tunnel = setup(&[], Mode::Tunnel);
    let first = &tunnel.tunnels[0];
    let told = [first.inside, first.pool].map(|network| network.to_string());
    assert_eq!(told, ["10.10.0.0/24", "10.99.0.0/24"]);
    assert_eq!(first.gateway.to_string(), "192.0.2.1");
    let inner = |port| ("10.10.0.2".to_owned(), None, port);
    assert_eq!(ends(&tunnel), [inner(9), inner(20_001), inner(20_002)]);
    assert!(tunnel.published.is_empty());
    let transport = setup(
        &[
            "flow.ms1 up.model=tcp",
            "flow.ms1 up.bytes=1 KB",
            "flow.ms1 up.rate=",
            "flow.ms1 up.sizes=",
        ],
        Mode::Transport,
    );
    let peer = |port| ("192.0.2.1".to_owned(), Some("10.99.0.1".to_owned()), port);
    assert_eq!(ends(&transport), [peer(5201), peer(20_001), peer(20_002)]);
    let published = transport.published.iter();
    let published = published.map(|one| (one.is_tcp, one.port, one.address.to_string()));
    let server = || "10.10.0.2".to_owned();
    assert_eq!(
        published.collect::<Vec<_>>(),
        [(true, 5201), (false, 20_001), (false, 20_002)].map(|(is_tcp, port)| (
            is_tcp,
            port,
            server()
        ))
    );
    let crossed = setup(&["family=6", "link.sg.network=10.1.2.0/24"], Mode::Tunnel);
    let first = &crossed.tunnels[0];
    let told = (first.gateway.to_string(), first.pool.to_string());
    assert_eq!(told, ("2001:db8::1".to_owned(), "10.99.0.0/24".to_owned()));
    let outer = setup(&["family=6"], Mode::Transport);
    assert_eq!(outer.tunnels[0].pool.to_string(), "fd99::/64");
    let clear = setup(&["policy=none"], Mode::Tunnel);
    assert!(clear.tunnels.is_empty());
    let own = [
        (9, "100.64.0.2"),
        (20_001, "100.64.0.3"),
        (20_002, "100.64.0.3"),
    ];
    let own = own.map(|(port, address)| ("192.0.2.1".to_owned(), Some(address.to_owned()), port));
    assert_eq!(ends(&clear), own);
}

#[test]
fn a_range_that_the_lab_chooses_avoids_those_that_the_file_gives() {
    let ports = |edits: &[&str]| ports(HANDOVER, edits);
    let behind = |ports: Vec<String>| {
        let server = ports.into_iter().find(|port| port.starts_with("server "));
        server.expect("a server")
    };
    assert_eq!(behind(ports(&[])), "server sg 10.10.0.2");
    // on a link earlier in the file, and on one later
    let earlier = ports(&["link.cell-a.network=10.10.0.0/24"]);
    assert_eq!(behind(earlier), "server sg 10.10.1.2");
    let later = ports(&["link.sg.network=100.64.0.0/24"]);
    assert_eq!(behind(later.clone()), "server sg 100.64.0.2");
    assert!(
        later.contains(&"ms1 cell-a 100.64.1.2".to_owned()),
        "{later:?}"
    );
    let fault = graph(HANDOVER, &["link.sg.network=100.64.0.0/15"]).expect_err("no range is left");
    let said = "--set link.sg.network: the networks that the file gives leave no range";
    assert!(fault.starts_with(said), "{fault}");
}

#[test]
fn flows_have_names_of_their_own() {
    let text = changed("name = \"ms2 down\"", "name = \"ms1 up\"");
    let fault = scenario(&text, &[]).expect_err("two flows with one name");
    let list = text[..text.rfind("[[flow]]").expect("the last")].lines();
    let line = list.count() + 1;
    let said = format!("a.toml:{line}:1: flow.ms1 up: two flows are called 'ms1 up'");
    assert!(fault.starts_with(&said), "{fault}");
    // a flow without a name has that of its node
    let text = changed("name = \"ms2 up\"\n", "").replace("name = \"ms2 down\"", "name = \"ms2\"");
    let fault = scenario(&text, &[]).expect_err("two flows with one name");
    assert!(
        fault.ends_with("two flows are called 'ms2': give each a name"),
        "{fault}"
    );
}

#[test]
fn the_names_of_other_texts_are_found_in_every_place() {
    let text = changed("policy = \"aes128gcm16\"\n", "");
    let layer =
        "[[layer]]\nkind = \"ipsec\"\npolicy = \"./mine.toml\"\nfrom = \"ms1\"\nto = \"sg\"\n";
    let text = text + layer;
    let edits = [
        "node.ms1.device=boards/mine.toml",
        "link.sg.link=wan",
        "link.router.trace=up.trace",
    ];
    let named = |edits: &[&str]| crate::scenario::named("a.toml", &text, edits);
    let name = |(kind, name): (Kind, &str)| (kind, name.to_owned());
    assert_eq!(
        named(&edits).expect("a text"),
        [
            (Kind::Device, "boards/mine.toml"),
            (Kind::Link, "wan"),
            (Kind::Policy, "./mine.toml"),
            (Kind::Trace, "up.trace"),
        ]
        .map(name)
    );
    let edits = ["layer.ms1.policy=3des-md5", "policy=./other.toml"];
    let policies = ["./other.toml", "3des-md5"].map(|text| name((Kind::Policy, text)));
    assert_eq!(named(&edits).expect("a text"), policies);
    assert!(named(&["node.nobody.device=x"]).is_err());
    // The base may have such a node.
    let text = "base = \"other\"\n[[node]]\nname = \"mn\"\n";
    let edits = [
        "node.nobody.device='x'",
        "node.nobody.mips=200",
        "node.mn.device=y",
    ];
    let found = crate::scenario::named("a.toml", text, &edits);
    let wanted = [
        (Kind::Device, "x"),
        (Kind::Device, "y"),
        (Kind::Scenario, "other"),
    ];
    assert_eq!(found.expect("a text"), wanted.map(name));
}

#[test]
fn a_mobile_node_has_an_address_at_home_and_one_on_each_link_that_it_takes() {
    let scenario = scenario(MVPN, &[]).expect("a scenario");
    let graph = Graph::of(&scenario).expect("a graph");
    let node = |name: &str| {
        scenario
            .nodes
            .iter()
            .position(|it| it.name == name)
            .expect(name)
    };
    let of_node = graph.ports.iter().filter(|port| port.node == node("mn"));
    let addresses: Vec<String> = of_node.map(|port| port.address.to_string()).collect();
    assert_eq!(
        addresses,
        [
            "10.18.3.2",
            "10.18.7.2",
            "203.0.113.2",
            "10.0.0.2",
            "10.0.1.2"
        ]
    );
    assert_eq!(graph.address(node("ha")), Some([10, 18, 3, 3].into()));
    let away = MVPN.replacen("from = [\"mn\", \"ha\"]", "from = [\"ha\"]", 1);
    let away = away.replacen(
        "name = \"u\"\nfrom = []",
        "name = \"u\"\nfrom = [\"mn\"]",
        1,
    );
    let graph = self::graph(&away, &[]).expect("a node that is never at home");
    let of_node = graph.ports.iter().filter(|port| port.node == node("mn"));
    let first: Vec<_> = of_node.filter(|port| port.is_first).collect();
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].address.to_string(), "203.0.113.2");
    let home = graph
        .ports
        .iter()
        .any(|port| port.address.to_string() == "10.18.3.3");
    assert!(home, "it has its home address all the same");
}

#[test]
fn a_firewall_leads_from_neither_side_to_the_other() {
    let scenario = scenario(MVPN, &[]).expect("a scenario");
    let graph = Graph::of(&scenario).expect("a graph");
    let node = |name: &str| {
        scenario
            .nodes
            .iter()
            .position(|it| it.name == name)
            .expect(name)
    };
    let knows = |from: &str, to: &str| {
        let address = graph.address(node(to)).expect(to);
        let port = graph.ports.iter().find(|port| port.address == address);
        graph.hop(node(from), port.expect(to).segment).is_some()
    };
    for (from, to) in [("r2", "cn1"), ("fw", "cn1"), ("fw", "cn3"), ("r1", "cn3")] {
        assert!(knows(from, to), "{from} leads to {to}");
    }
    for (from, to) in [("r1", "cn1"), ("net", "ha"), ("r2", "cn3"), ("h5", "cn2")] {
        assert!(!knows(from, to), "{from} leads to {to}");
    }
}

#[test]
fn mobile_nodes_and_their_agents_have_their_places() {
    for (from, to, said) in [
        (
            "to = \"ha\"",
            "to = \"fw\"",
            "mobile-ip goes from a station to its home agent",
        ),
        (
            "kind = \"mobile-ip\"",
            "kind = \"mobile-ip\"\nlifetime = \"0 s\"",
            "from 1 s",
        ),
        (
            "kind = \"mobile-ip\"",
            "kind = \"mobile-ip\"\nudp = \"no\"",
            "'never'",
        ),
        (
            "from = \"r1\"\nto = \"fw\"",
            "from = \"r1\"\nto = \"cn3\"",
            "a firewall needs a link",
        ),
        (
            "[\"mn\", \"ha\"]",
            "[\"mn\"]",
            "a home agent needs exactly one link",
        ),
        (
            "role = \"nat\"",
            "role = \"nat\"\nfilters_sources = true",
            "only a router",
        ),
    ] {
        assert!(MVPN.contains(from), "{from}");
        let fault = scenario(&MVPN.replacen(from, to, 1), &[]).expect_err(said);
        assert!(fault.contains(said), "{fault}, not {said}");
    }
    let second = "\n[[layer]]\nkind = \"mobile-ip\"\nfrom = \"mn\"\nto = \"ha\"\n";
    let fault = scenario(&(MVPN.to_owned() + second), &[]).expect_err("two homes");
    assert!(fault.contains("already has a home agent"), "{fault}");
}
