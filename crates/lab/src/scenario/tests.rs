use super::run::days_since_1970;
use super::*;
use crate::tandem;
use crate::tandem::capture::Wanted;

/// A scenario of the catalogue, with the files that it names.
macro_rules! filed {
    ($name:literal) => {
        include_str!(concat!(
            "../../../../python/caravan/catalogue/",
            $name,
            ".toml"
        ))
    };
}

const UMTS: &str = r#"
name = "umts"
title = "An IPsec VPN over UMTS"
policy = "3des-md5"
accounting = "paper-u"

[traffic]
model = "poisson"
rate = "512 kbit/s"
sizes = { model = "pareto", shape = 1.1, smallest = "81.5 B", largest = "66666 B" }

[[node]]
name = "ms"
role = "station"
device = "paper-u"
mips = 100

[[node]]
name = "sg"
role = "gateway"
device = "paper-u"
mips = 11000

[[node]]
name = "server"
role = "server"

[[link]]
from = "ms"
to = "sg"
link = "umts-radio"

[[link]]
from = "sg"
to = "server"
rate = "100 Mbit/s"
"#;

/// A file of a catalogue.
pub(super) fn entry(kind: Kind, name: &str, text: &str) -> Entry {
    Entry {
        kind,
        name: name.to_owned(),
        file: format!("{name}.toml"),
        text: text.to_owned(),
        digest: None,
    }
}

fn catalogue() -> Catalogue {
    let radio = "title = 'a'\nrate = '2 Mbit/s'\n[sources]\nrate = 'paper U table 3'\n";
    Catalogue::new([
        entry(Kind::Device, "paper-u", ""),
        entry(Kind::Policy, "3des-md5", ""),
        entry(Kind::Policy, "none", ""),
        entry(Kind::Link, "umts-radio", radio),
    ])
}

fn parse_edited(edits: &[&str]) -> Result<Scenario, Fault> {
    Scenario::edited("umts.toml", UMTS, edits, &catalogue())
}

/// The message for the scenario with one piece of its text replaced.
fn message(from: &str, to: &str) -> String {
    assert!(UMTS.contains(from), "{from}");
    let text = UMTS.replacen(from, to, 1);
    Scenario::parse("umts.toml", &text, &catalogue())
        .expect_err(to)
        .to_string()
}

#[test]
fn a_scenario_is_read_in_the_order_of_its_path() {
    let scenario = parse_edited(&[]).unwrap();
    let names: Vec<&str> = scenario.nodes.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["ms", "sg", "server"]);
    assert_eq!(scenario.gateway(), Some(1));
    assert_eq!(scenario.links[0].link.rate.up_bps, 2e6);
    assert_eq!(scenario.links[1].link.link, "");
    assert_eq!(scenario.calendar_s, 1_767_225_600);
}

#[test]
fn an_unknown_key_names_file_line_key_and_the_nearest() {
    let text = message("mips = 100", "mipz = 100");
    assert_eq!(
        text,
        "umts.toml:16:1: node.ms.mipz: unknown key 'mipz', the nearest valid one is 'mips'"
    );
    let text = message("rate = \"512", "rtae = \"512");
    assert!(
        text.contains("traffic.rtae: did you mean 'rate'? That key is missing"),
        "{text}"
    );
}

#[test]
fn impossible_values_are_refused_where_they_stand() {
    for (from, to, wanted) in [
        (
            "mips = 100",
            "mips = -100",
            "umts.toml:16:1: node.ms.mips: -100 is outside",
        ),
        ("mips = 100", "mips = 0", "0 is outside 0.001 to"),
        ("mips = 100", "mips = 1e-300", "1e-300 is outside 0.001 to"),
        ("mips = 100", "mips = nan", "outside"),
        (
            "mips = 100",
            "mips = 100\nclock = '1 MHz'",
            "both mips and clock",
        ),
        ("512 kbit/s", "-1 kbit/s", "negative"),
        ("512 kbit/s", "0 kbit/s", "above zero"),
        ("512 kbit/s", "1e30 kbit/s", "too large"),
        ("\"512 kbit/s\"", "512", "must be a number with its unit"),
        ("66666 B", "66 B", "must be above the smallest"),
        ("81.5 B", "1 B", "not the size of an IP packet"),
        (
            "\"3des-md5\"",
            "\"3des-md6\"",
            "nearest valid one is '3des-md5'",
        ),
        (
            "\"umts-radio\"",
            "\"umts-radar\"",
            "nearest valid one is 'umts-radio'",
        ),
        (
            "device = \"paper-u\"",
            "device = \"paper-x\"",
            "the nearest valid one is 'paper-u'",
        ),
        (
            "\"poisson\"",
            "\"possion\"",
            "the nearest valid one is 'poisson'",
        ),
        (
            "role = \"server\"",
            "role = \"server\"\nmips = 5",
            "node.server: this speed needs a device",
        ),
        (
            "device = \"paper-u\"\nmips = 100",
            "mips = 100",
            "speed needs a device",
        ),
        (
            "role = \"gateway\"",
            "role = \"relay\"",
            "only a station, a gateway, an agent, a firewall or a server",
        ),
        ("mips = 100", "mips = 1e300", "1e300 is outside"),
        ("name = \"umts\"", "name = ", "umts.toml:2:8: "),
        ("name = \"umts\"", "name = \"\"", "name: this text is empty"),
    ] {
        let text = message(from, to);
        assert!(text.contains(wanted), "{to}: {text}");
    }
}

#[test]
fn links_that_nothing_can_be_are_refused_where_they_stand() {
    for (from, to, wanted) in [
        (
            "from = \"ms\"",
            "from = \"ms\"\nqueue = \"0 B\"",
            "link.ms.queue: a queue needs room for at least one byte",
        ),
        (
            "from = \"ms\"",
            "from = \"ms\"\noverhead = \"1 MB\"",
            "link.ms.overhead: 1000000 bytes of overhead, limit 65535",
        ),
        (
            "from = \"ms\"",
            "from = \"ms\"\ndelay = \"1 d\"",
            "link.ms.delay: '1 d' is too long for a link, limit an hour",
        ),
    ] {
        let text = message(from, to);
        assert!(text.contains(wanted), "{to}: {text}");
    }
}

#[test]
fn a_chain_neither_branches_nor_closes() {
    for (from, to, wanted) in [
        ("to = \"server\"", "to = \"ms\"", "closes a cycle"),
        ("to = \"server\"", "to = \"sg\"", "to itself"),
        ("from = \"sg\"", "from = \"ms\"", "a second link from 'ms'"),
        (
            "to = \"server\"",
            "to = \"sevrer\"",
            "nearest valid one is 'server'",
        ),
        (
            "name = \"server\"",
            "name = \"sg\"",
            "two nodes are called 'sg'",
        ),
        (
            "role = \"server\"",
            "role = \"station\"",
            "end with a gateway or a server",
        ),
    ] {
        let text = message(from, to);
        assert!(text.contains(wanted), "{to}: {text}");
    }
    let aside = format!("{UMTS}\n[[node]]\nname = \"x\"\nrole = \"relay\"\n");
    let text = Scenario::parse("a", &aside, &catalogue())
        .unwrap_err()
        .to_string();
    assert!(text.contains("no link leads to 'x'"), "{text}");
}

#[test]
fn a_role_that_only_a_graph_has_is_told_what_a_graph_is() {
    let edits = [
        "node.sg.role=access-point",
        "node.sg.device=",
        "node.sg.mips=",
    ];
    let text = parse_edited(&edits).unwrap_err().to_string();
    let wanted = "a chain cannot have this role: only a graph can, which has [[flow]] instead of";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn a_policy_without_a_gateway_is_contradictory() {
    let edits = ["node.sg.role=relay", "node.sg.device=", "node.sg.mips="];
    let text = parse_edited(&edits).unwrap_err().to_string();
    assert!(text.contains("needs a gateway"), "{text}");
    let mut edits = edits.to_vec();
    edits.push("policy=none");
    assert_eq!(parse_edited(&edits).unwrap().gateway(), None);
}

#[test]
fn edits_reach_every_value_and_their_faults_name_them() {
    let scenario = parse_edited(&[
        "node.ms.mips=300",
        "link.ms.delay=20 ms",
        "traffic.rate = 64 kbit/s",
        "run.time=5 h",
        "link.1.rate={ up = '1 Mbit/s', down = '2 Mbit/s' }",
    ])
    .unwrap();
    let speed = scenario.nodes[0].computer.as_ref().unwrap().speed;
    assert_eq!(speed, Some(Speed::Mips(300.0)));
    assert_eq!(scenario.links[0].link.delay_s, 0.02);
    assert_eq!(scenario.links[0].link.rate.up_bps, 2e6, "of the file");
    assert_eq!(scenario.flows[0].traffic.model.rate_bps(), Some(64e3));
    assert_eq!(scenario.run.time_s, 18_000.0);
    assert_eq!(scenario.links[1].link.rate.down_bps, 2e6);
    for (edit, wanted) in [
        (
            "node.mz.mips=1",
            "--set node.mz.mips: unknown name 'mz', the nearest valid one is 'ms'",
        ),
        (
            "node.ms.mips=many",
            "--set node.ms.mips: must be a number, found text",
        ),
        (
            "rnu.time=5 h",
            "unknown key 'rnu', the nearest valid one is 'run'",
        ),
        ("seed", "KEY=VALUE"),
        ("a..b=1", "before and after each dot"),
        ("seed.x=1", "can only be set in a table"),
    ] {
        let text = match edit {
            "seed.x=1" => parse_edited(&["seed=1", edit]),
            edit => parse_edited(&[edit]),
        };
        let text = text.unwrap_err().to_string();
        assert!(text.contains(wanted), "{edit}: {text}");
    }
}

#[test]
fn a_name_cannot_leave_a_folder_or_be_a_path_in_an_edit() {
    for name in [
        "../../evil",
        "/tmp/evil",
        "..",
        ".",
        "é",
        "a b",
        "-a",
        "_l0-relay",
        "a.b",
        "a=b",
    ] {
        let fault = parse_edited(&[&format!("node.server.name='{name}'")]).unwrap_err();
        let said = fault.to_string();
        let wanted = "--set node.server.name: a name begins with a letter or a digit";
        assert!(said.starts_with(wanted), "{name}: {said}");
    }
    let long = parse_edited(&[&format!("node.server.name={}", "a".repeat(49))]);
    assert!(long.unwrap_err().to_string().contains("at most 48"));
    for name in ["../x", " x", "a/b"] {
        let fault = parse_edited(&[&format!("link.0.name='{name}'")]).unwrap_err();
        assert!(fault.to_string().contains("'_' or spaces"), "{name}");
    }
    assert!(parse_edited(&["link.0.name=the radio-link_2"]).is_ok());
}

#[test]
fn an_edit_that_breaks_the_file_is_blamed_and_not_the_file() {
    for (edit, wanted) in [
        ("traffic.rate=", "--set traffic.rate: this key is needed"),
        (
            "node.ms.device=",
            "--set node.ms.device: this speed needs a",
        ),
        ("node.ms.clock=1 MHz", "--set node.ms.clock: both mips and"),
        (
            "node.sg.role=station",
            "--set node.sg.role: a second station",
        ),
        ("node.sg.name=ms", "--set node.sg.name: two nodes are"),
        ("link.sg.to=ms", "--set link.sg.to: this link closes"),
        (
            "traffic.sizes.smallest=1 MB",
            "--set traffic.sizes.smallest: ",
        ),
        ("run.time=0 s", "--set run.time: the time must be"),
        (
            "link.9.rate=1 bit/s",
            "--set link.9.rate: unknown name '9', valid are 'ms', 'sg'",
        ),
    ] {
        let text = parse_edited(&[edit]).unwrap_err().to_string();
        assert!(text.starts_with(wanted), "{edit}: {text}");
    }
}

#[test]
fn a_word_that_is_no_slip_is_answered_with_all_that_would_do() {
    let text = message("\"poisson\"", "\"zebra\"");
    assert!(
        text.ends_with(
            "valid are 'poisson', 'constant', 'packet-call', 'closed-loop', 'pcap', 'tcp'"
        ),
        "{text}"
    );
    assert_eq!(nearest("xyz", ["mips", "clock"]), None);
}

#[test]
fn an_empty_file_says_that_it_is_empty() {
    for text in ["", "\n", "# nothing\n"] {
        let fault = Scenario::parse("a.toml", text, &catalogue()).unwrap_err();
        assert_eq!(fault.to_string(), "a.toml: the file is empty");
    }
}

#[test]
fn an_mtu_is_a_number_or_a_size() {
    for edit in [
        "link.ms.mtu=1500",
        "link.ms.mtu=1500 B",
        "link.ms.mtu=1.5 KB",
    ] {
        let scenario = parse_edited(&[edit]).unwrap();
        assert_eq!(scenario.links[0].link.mtu_bytes, Some(1500.0), "{edit}");
    }
    for (edit, wanted) in [
        ("link.ms.mtu=67", "67 is outside 68 to 65535"),
        ("link.ms.mtu=70 KB", "68 to 65535 whole bytes"),
        ("link.ms.mtu=99.5 B", "68 to 65535 whole bytes"),
        ("link.ms.mtu=99.5", "68 to 65535 whole bytes"),
        (
            "link.ms.mtu=1500 bytes",
            "unknown unit 'bytes', valid are B,",
        ),
    ] {
        let text = parse_edited(&[edit]).unwrap_err().to_string();
        assert!(text.contains(wanted), "{edit}: {text}");
    }
}

#[test]
fn the_tandem_refuses_what_only_the_event_kernel_has() {
    let tandem = |file: &str, text: &str, edits: &[&str]| {
        let catalogue = whole_catalogue();
        let scenario = Scenario::edited(file, text, edits, &catalogue).unwrap();
        tandem_of(&scenario, &catalogue).map_err(|fault| fault.to_string())
    };
    let text = filed!("scenarios/umts");
    for (edit, key) in [
        ("link.ms.loss=0.1", "loss"),
        ("link.0.loss=0.1", "loss"),
        ("link.ms.reorder=0.1", "reorder"),
        ("link.ms.queue=5 KB", "queue"),
        ("link.ms.mtu=1500", "mtu"),
        ("link.ms.trace=x", "trace"),
    ] {
        let said = tandem("umts.toml", text, &[edit]).unwrap_err();
        let wanted = format!(
            "--set {}: the tandem does not support {key}",
            edit.split('=').next().unwrap()
        );
        assert!(said.starts_with(&wanted), "{said}");
        assert!(said.contains("--events"), "{said}");
    }
    let lossy = text.replace("\"umts-radio\"", "\"umts-radio\"\nloss = 0.1");
    let said = tandem("lossy.toml", &lossy, &[]).unwrap_err();
    assert!(said.starts_with("lossy.toml:"), "{said}");
    assert!(said.contains(": link.ms.loss: the tandem"), "{said}");
    // A limit that no packet reaches is no reason: the catalogue's MTU, or a large one.
    let wimax = filed!("scenarios/wimax");
    assert!(tandem("wimax.toml", wimax, &[]).is_ok());
    assert!(tandem("wimax.toml", wimax, &["link.ss.mtu=900"]).is_ok());
    assert!(tandem("wimax.toml", wimax, &["link.ss.mtu=860"]).is_err());
    assert!(tandem("wimax.toml", wimax, &["link.ss.mtu=860", "link.ss.mtu="]).is_ok());
    assert!(tandem("umts.toml", text, &["link.ms.loss=0"]).is_ok());
}

#[test]
fn the_hash_follows_the_meaning_and_not_the_wording() {
    let plain = parse_edited(&[]).unwrap().hash();
    let spelled = UMTS
        .replace("512 kbit/s", "0.512 Mbit/s")
        .replace("# ", "#");
    let same = Scenario::parse("other.toml", &spelled, &catalogue()).unwrap();
    assert_eq!(plain, same.hash());
    assert_eq!(plain.len(), 64);
    assert_ne!(plain, parse_edited(&["seed=2"]).unwrap().hash());
    assert_ne!(plain, parse_edited(&["node.ms.mips=101"]).unwrap().hash());
}

/// The scenario's own numbers override those of the link file, so that an edit that names another
/// link file would have no effect.
#[test]
fn an_edit_of_the_link_is_refused_where_the_scenario_states_its_numbers() {
    let text = UMTS.replacen(
        "link = \"umts-radio\"",
        "rate = \"9 kbit/s\"\ndelay = \"1 ms\"",
        1,
    );
    let edited = |edits: &[&str]| Scenario::edited("own.toml", &text, edits, &catalogue());
    let fault = edited(&["link.ms.link=umts-radio"]).expect_err("nothing would change");
    assert!(fault.place.is_edit() && fault.place.key == "link.ms.link");
    assert!(fault.what.ends_with("--set link.ms.rate="), "{fault}");
    let taken = edited(&["link.ms.rate=", "link.ms.link=umts-radio"]).expect("a link");
    assert_eq!(
        taken.links[0].link.rate,
        parse_edited(&[]).unwrap().links[0].link.rate
    );
    let said = ["link.ms.link=umts-radio", "link.ms.rate=7 kbit/s"];
    assert_eq!(
        edited(&said).expect("both edits").links[0].link.rate.up_bps,
        7e3
    );
}

#[test]
fn a_link_file_says_where_each_number_is_from() {
    let fault = |text: &str| {
        LinkFile::parse("l", "l.toml", text)
            .unwrap_err()
            .to_string()
    };
    let text = fault("title = 'a'\nrate = '1 Mbit/s'\ndelay = '1 ms'\n[sources]\nrate = 'b'\n");
    assert_eq!(
        text,
        "l.toml:3:1: delay: this number has no source: add one to [sources]"
    );
    let text = fault("title = 'a'\nrate = '1 Mbit/s'\n[sources]\nrate = 'b'\nloss = 'c'\n");
    assert!(text.contains("l.toml:5:1: sources.loss"), "{text}");
    let text = fault("title = 'a'\n[sources]\n");
    assert!(text.contains("the key 'rate' is missing"), "{text}");
}

#[test]
fn a_star_edits_every_member_of_a_list() {
    const CHAIN: &str = filed!("scenarios/mobile");
    let catalogue = Catalogue::new([]);
    let edited = |key: &str| Scenario::edited("mobile.toml", CHAIN, &[key], &catalogue);
    let all = edited("link.*.half_duplex=true").expect("a scenario");
    assert!(all.links.len() > 1 && all.links.iter().all(|it| it.link.is_half_duplex));
    let one = edited("link.home.half_duplex=true").expect("a scenario");
    let halves = one.links.iter().filter(|it| it.link.is_half_duplex);
    assert_eq!(halves.count(), 1);
    // A table has keys, no members.
    let fault = edited("run.*.time=1 s").expect_err("no such key");
    assert!(fault.what.contains('*'), "{}", fault.what);
}

#[test]
fn dates_are_counted_as_the_calendar_has_them() {
    assert_eq!(days_since_1970(1970, 1, 1), Some(0));
    assert_eq!(days_since_1970(2000, 3, 1), Some(11_017));
    assert_eq!(days_since_1970(2024, 2, 29), Some(19_782));
    assert_eq!(days_since_1970(1969, 12, 31), None);
    let text = message("policy =", "calendar = 1969-12-31\npolicy =");
    assert!(text.contains("from 1970"), "{text}");
}

#[test]
fn the_hash_covers_what_a_recording_holds_wherever_it_is_held() {
    let hash = |text: &str, digest: Option<&str>| {
        let trace = Entry {
            kind: Kind::Trace,
            name: "air".into(),
            file: "air.trace".into(),
            text: text.into(),
            digest: digest.map(str::to_owned),
        };
        let entries = [Kind::Device, Kind::Link, Kind::Policy]
            .into_iter()
            .flat_map(|kind| catalogue().all(kind).cloned().collect::<Vec<_>>());
        let catalogue = Catalogue::new(entries.chain([trace]));
        let scenario = Scenario::edited("mine.toml", UMTS, &["link.ms.trace=air"], &catalogue);
        scenario.unwrap().hash()
    };
    assert_ne!(hash("1\n", None), hash("2\n", None));
    // of "1\n", by sha256sum
    let digest = "4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865";
    assert_eq!(hash("1\n", None), hash("", Some(digest)));
}

fn whole_catalogue() -> Catalogue {
    let entry = |kind, path: &str, text: &str| Entry {
        kind,
        name: path.rsplit('/').next().unwrap().to_owned(),
        file: format!("{path}.toml"),
        text: text.to_owned(),
        digest: None,
    };
    Catalogue::new([
        entry(Kind::Device, "devices/paper-u", filed!("devices/paper-u")),
        entry(Kind::Device, "devices/paper-w", filed!("devices/paper-w")),
        entry(
            Kind::Policy,
            "policies/3des-md5",
            filed!("policies/3des-md5"),
        ),
        entry(Kind::Link, "links/umts-radio", filed!("links/umts-radio")),
        entry(
            Kind::Link,
            "links/frame-relay-100",
            filed!("links/frame-relay-100"),
        ),
        entry(Kind::Link, "links/atm-155", filed!("links/atm-155")),
        entry(Kind::Link, "links/wimax", filed!("links/wimax")),
        entry(Kind::Link, "links/ethernet", filed!("links/ethernet")),
    ])
}

/// The queues of a scenario.
fn tandem_of(scenario: &Scenario, catalogue: &Catalogue) -> Result<tandem::Tandem, Uncomputable> {
    scenario.tandem(&scenario.resolved(catalogue)?, catalogue)
}

fn umts(edits: &[&str]) -> tandem::closed::Model {
    let catalogue = whole_catalogue();
    let text = filed!("scenarios/umts");
    let scenario = Scenario::edited("umts.toml", text, edits, &catalogue).unwrap();
    let traffic = scenario.tandem_traffic().unwrap().unwrap();
    tandem::closed::model(&tandem_of(&scenario, &catalogue).unwrap(), &traffic).unwrap()
}

#[test]
fn the_umts_scenario_has_the_capacities_that_are_known() {
    // At 100 MIPS, of the processor, in kbit/s.
    for (policy, kbps) in [("3des", 784.0), ("3des-md5", 771.0)] {
        let model = umts(&[&format!("policy={policy}")]);
        let capacity = model.queues[0].capacity_bps / 1e3;
        assert!((capacity - kbps).abs() < 1.0, "{policy}: {capacity}");
        assert_eq!(model.capacity_bps, model.queues[0].capacity_bps);
    }
    // Of the radio, in clear bits.
    for (policy, kbps) in [("none", 2000.0), ("null-md5", 1875.0), ("des-md5", 1867.0)] {
        let model = umts(&[&format!("policy={policy}"), "node.ms.mips=500"]);
        let capacity = model.queues[1].capacity_bps / 1e3;
        assert!((capacity - kbps).abs() < 1.0, "{policy}: {capacity}");
    }
    let waiting = umts(&["policy=des-md5", "traffic.rate=2000 kbit/s"]);
    let kilobytes = waiting.queues[0].queue_bytes.unwrap() / 1e3;
    assert!((kilobytes - 45.8).abs() < 0.1, "{kilobytes}");
}

#[test]
fn queues_stand_in_the_order_of_the_traffic() {
    let names = |edits: &[&str]| -> Vec<String> {
        let queues = umts(edits).queues;
        queues.into_iter().map(|queue| queue.name).collect()
    };
    let up = [
        "ms",
        "ms-node-b",
        "node-b-rnc",
        "rnc-sgsn",
        "sgsn-ggsn",
        "ggsn-sg",
        "sg",
        "sg-server",
    ];
    assert_eq!(names(&[]), up);
    let mut down = up;
    down.reverse();
    assert_eq!(names(&["traffic.direction=down"]), down);
}

#[test]
fn links_behind_the_gateway_carry_clear_packets() {
    let model = umts(&["traffic.sizes={ model = 'fixed', bytes = '480 B' }"]);
    // paper U equation (11): ceil((480 - 18) / 8) x 8 + 48 = 512 bytes
    assert_eq!(model.queues[1].service_s, 512.0 * 8.0 / 2e6);
    assert_eq!(model.queues[7].service_s, 480.0 * 8.0 / 100e6);
}

#[test]
fn what_no_level_can_compute_is_said_before_it_runs() {
    let catalogue = whole_catalogue();
    let text = filed!("scenarios/umts");
    for (edit, wanted) in [
        (
            "policy=aes128gcm16",
            "--set policy: paper-u has no formula for the size of",
        ),
        (
            "node.ms.mips=",
            "--set node.ms.mips: paper-u: it counts operations",
        ),
        (
            "node.ms.device=paper-w",
            "--set policy: paper-w has no cost of",
        ),
    ] {
        let edits = match edit {
            "node.ms.device=paper-w" => vec![edit, "accounting=rfc", "policy=aes128gcm16"],
            edit => vec![edit],
        };
        let scenario = Scenario::edited("umts.toml", text, &edits, &catalogue).unwrap();
        let text = tandem_of(&scenario, &catalogue).unwrap_err().to_string();
        assert!(text.starts_with(wanted), "{edit}: {text}");
        let is_accounting = text.contains("no formula");
        assert_eq!(
            text.contains("--set accounting=rfc"),
            is_accounting,
            "{text}"
        );
    }
}

#[test]
fn the_serial_source_of_paper_w_carries_400_kbps() {
    let catalogue = whole_catalogue();
    let text = filed!("scenarios/wimax");
    let scenario = Scenario::parse("wimax.toml", text, &catalogue).unwrap();
    let traffic = scenario.tandem_traffic().unwrap().unwrap();
    let run = tandem::Run {
        seconds: 60.0,
        warm_up: 1.0,
        replications: 1,
        seed: 1,
        first_replication: 0,
    };
    let tandem = tandem_of(&scenario, &catalogue).unwrap();
    let tally = tandem::simulate(&[tandem], &traffic, &run).unwrap();
    let packets_per_s = tally[0].outcome().unwrap().packets_per_s;
    // 800 application bytes a packet: 800 x 8 bits / (12.8 ms + 3.2 ms)
    assert!((packets_per_s * 6.4 - 400.0).abs() < 1.0, "{packets_per_s}");
}

#[test]
fn a_capture_may_be_one_stations() {
    let of = |station: &str| {
        let begins = UMTS.find("[traffic]").expect("its traffic");
        let ends = begins + UMTS[begins..].find("[[node]]").expect("its nodes");
        let traffic = format!("[traffic]\nmodel = \"pcap\"\nfile = \"x.pcap\"\n{station}\n");
        let text = [&UMTS[..begins], &traffic, &UMTS[ends..]].concat();
        Scenario::parse("my.toml", &text, &catalogue())
    };
    let all = of("").expect("everybody's packets");
    let one = of("station = \"2001:db8::1\"").expect("one station's packets");
    assert_ne!(all.hash(), one.hash());
    assert_eq!(all.flows[0].traffic.wanted(), Wanted::All);
    let address = "2001:db8::1".parse().expect("an address");
    assert_eq!(one.flows[0].traffic.wanted(), Wanted::From(address));
    let fault = of("station = \"ms\"").expect_err("a name").to_string();
    assert!(
        fault.contains("traffic.station: 'ms' is not an IP address"),
        "{fault}"
    );
}

#[test]
fn a_network_of_a_chain_is_in_its_hash() {
    let plain = parse_edited(&[]).unwrap();
    let six = parse_edited(&["link.ms.network=2001:db8:9::/64"]).unwrap();
    assert_ne!(plain.hash(), six.hash());
    assert!(!plain.json().contains("network"), "{}", plain.json());
    assert!(six.json().contains("2001:db8:9::/64"), "{}", six.json());
}

#[test]
fn an_edit_is_no_deeper_and_no_longer_than_a_file() {
    for (key, wanted) in [
        (
            "x.".repeat(60_000) + "b",
            "a key of 120001 bytes, limit 256",
        ),
        ("x.".repeat(100) + "b", "a key of 101 parts, limit 16"),
        ("x.".repeat(15) + "b", "unknown key"),
    ] {
        let fault = parse_edited(&[&format!("{key}=1")])
            .unwrap_err()
            .to_string();
        assert!(fault.contains(wanted), "{wanted}: {fault}");
    }
}

#[test]
fn a_calendar_with_an_offset_is_another_second() {
    let at = |text: &str| {
        let scenario = parse_edited(&[&format!("calendar={text}")]);
        scenario.map(|scenario| scenario.calendar_s)
    };
    let noon = at("2026-07-01T12:00:00Z").unwrap();
    assert_eq!(at("2026-07-01T12:00:00").unwrap(), noon);
    assert_eq!(at("2026-07-01T17:00:00+05:00").unwrap(), noon);
    assert_eq!(at("2026-07-01T08:30:00-03:30").unwrap(), noon);
    assert_eq!(at("1970-01-01T01:00:00+01:00").unwrap(), 0);
    let fault = at("1970-01-01T00:00:00+01:00").unwrap_err().to_string();
    assert!(fault.contains("must be a date from 1970 on"), "{fault}");
}
