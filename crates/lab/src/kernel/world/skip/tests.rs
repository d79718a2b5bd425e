//! Nodes outside of their firewall, with the real machines. The network is that of paper M, Fig. 1.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;

use crate::cost::{Clock, Device, Direction, Policy, Profile};
use crate::exchange::{Exchange, Way};
use crate::kernel::trace::held;
use crate::kernel::world::moved::Gap;
use crate::kernel::world::tests::blocks::Blocks;
use crate::kernel::world::{Blueprint, Flowed, World};
use crate::scenario::{Catalogue, Entry, Kind, LinkFile, Scenario};

const MVPN: &str =
    include_str!("../../../../../../python/caravan/catalogue/scenarios/firewall.toml");
const PAPER: &str =
    include_str!("../../../../../../python/caravan/catalogue/policies/skip-des-md5-paper.toml");
const MODERN: &str =
    include_str!("../../../../../../python/caravan/catalogue/policies/skip-x25519.toml");
const PENTIUM: &str =
    include_str!("../../../../../../python/caravan/catalogue/devices/pentium-pro-200.toml");
const REGISTRATION: &str =
    include_str!("../../../../../../python/caravan/catalogue/exchanges/mobile-ip.toml");

/// The firewall of another company, before `net`, whose network has public addresses.
const SECOND: &str = r#"
[[node]]
name = "fb"
role = "firewall"
announces = true

[[link]]
name = "guest"
from = []
to = "fb"
rate = "10 Mbit/s"
network = "198.51.100.0/24"
mtu = 1500

[[link]]
from = "fb"
to = "net"
rate = "10 Mbit/s"
delay = "3 ms"
mtu = 1500

[[layer]]
kind = "skip"
from = "mn"
to = "fb"
policy = "skip-des-md5-paper"
"#;
/// Datagrams for the node, one in a millisecond.
const TICKS: &str = "model = \"constant\"\nrate = \"800 kbit/s\"\nsizes = { model = \"fixed\", \
                     bytes = \"100 B\" }";

fn catalogue() -> Catalogue {
    let entry = |kind, name: &str, text: &str| Entry {
        kind,
        name: name.into(),
        file: format!("{name}.toml"),
        text: text.into(),
        digest: None,
    };
    Catalogue::new([
        entry(Kind::Policy, "skip-des-md5-paper", PAPER),
        entry(Kind::Policy, "skip-x25519", MODERN),
        entry(Kind::Device, "pentium-pro-200", PENTIUM),
    ])
}

fn edited(edits: &[(&str, &str)]) -> String {
    let mut text = MVPN.to_owned();
    for (from, to) in edits {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    text
}

fn blueprint(text: &str) -> Result<Blueprint, String> {
    let catalogue = catalogue();
    let scenario = Scenario::parse("mvpn.toml", text, &catalogue);
    let scenario = scenario.map_err(|fault| fault.to_string())?;
    let resolved = scenario.resolved(&catalogue);
    let resolved = resolved.map_err(|fault| fault.to_string())?;
    let blueprint = Blueprint::of(&scenario, &resolved, &catalogue, &held());
    blueprint.map_err(|fault| fault.to_string())
}

fn run(text: &str) -> Flowed {
    let world = World::new(blueprint(text).expect("a blueprint"));
    world.expect("a world").run_flows().expect("runs")
}

/// The text until its first move, then these: second and link. Before them the node has been on all
/// other links, which need someone.
fn with_moves(text: &str, moves: &[(u32, &str)]) -> String {
    let (before, _) = text.split_once("[[move]]").expect("moves");
    let step =
        |at: f64, to: &str| format!("[[move]]\nat = \"{at} s\"\nnode = \"mn\"\nto = \"{to}\"\n");
    let others = ["inside", "u", "hotel", "company"].into_iter();
    let others = others.filter(|other| !moves.iter().any(|(_, to)| to == other));
    let others = others.chain(["home"]).zip(1..);
    let before = before.to_owned()
        + &others
            .map(|(to, at)| step(f64::from(at) * 0.8, to))
            .collect::<String>();
    let moves = moves.iter().map(|(at, to)| step(f64::from(*at), to));
    before + &moves.collect::<String>()
}

fn drops(flowed: &Flowed, place: &str, reason: &str) -> u64 {
    let all = flowed.drops.iter();
    let own = all.filter(|it| (&*it.place, it.reason) == (place, reason));
    own.map(|it| it.packets).sum()
}

/// The last moves.
fn gaps(flowed: &Flowed, count: usize) -> Vec<(&str, f64, f64)> {
    let moves = &flowed.mobile[0].moves;
    let moves = moves[moves.len() - count..].iter();
    let gap = |it: &Gap| (it.gap_s.expect("reachable"), it.data_gap_s.expect("data"));
    let gaps = moves.map(|it| (&*it.to, gap(it).0, gap(it).1));
    gaps.collect()
}

/// What is wrong with the packets of a capture, as they pass by.
#[derive(Default)]
struct Seen {
    packets: u64,
    faults: Vec<String>,
}

impl Seen {
    fn look(&mut self, name: &str, packet: &[u8]) {
        self.packets += 1;
        let inside = ["home", "inside", "fw - r2", "r2 - ", "h2 - ", "h3 - "];
        let inside = inside.iter().chain(&["h4 - ", "h5 - "]);
        let is_inside = { inside }.any(|start| name.starts_with(start));
        let ends = [&packet[12..16], &packet[16..20]];
        let is_of = |end: &[u8], first: &[u8]| end.starts_with(first);
        let mut fault = |what: &str| {
            if self.faults.len() < 5 {
                self.faults.push(format!("{name}: {what}: {packet:02x?}"));
            }
        };
        // The home network, the six hops and the perimeter; care-of addresses outside.
        let private: [&[u8]; 3] = [&[10, 18], &[10, 19], &[192, 168, 4]];
        let abroad: [&[u8]; 3] = [&[203, 0, 113], &[10, 0, 0], &[100, 64]];
        let has = |list: &[&[u8]]| ends.iter().any(|end| list.iter().any(|it| is_of(end, it)));
        if is_inside && has(&abroad) {
            fault("a care-of address inside");
        }
        if !is_inside && has(&private) {
            fault("a private address outside");
        }
        // Not even in what is encrypted: of the registrations and acknowledgements.
        let nodes = [
            [10, 18, 3, 2],
            [10, 18, 3, 3],
            [10, 19, 5, 1],
            [192, 168, 4, 2],
        ];
        let is_node = |at: &[u8]| nodes.iter().any(|node| at == node);
        if !is_inside && packet.len() < 300 && packet.windows(4).any(is_node) {
            fault("a private address in clear");
        }
        let is_reset = packet[9] == 6 && packet[33] & 4 != 0;
        if is_reset {
            fault("a reset");
        }
    }
}

#[test]
fn a_download_survives_ten_moves_through_the_firewall() {
    let mut world = World::new(blueprint(MVPN).expect("a blueprint")).expect("a world");
    let seen = Rc::new(RefCell::new(Seen::default()));
    let watched = Rc::clone(&seen);
    world.capture(Box::new(Blocks::new(
        move |name: &str, _at_ns, packet: &[u8]| watched.borrow_mut().look(name, packet),
    )));
    let flowed = world.run_flows().expect("runs");
    let moved = flowed.flows[0].transferred.as_ref().expect("a transfer");
    assert!(moved.is_complete, "{moved:?} {:?}", flowed.drops);
    let stays = flowed.mobile[0].moves.iter().map(|it| &*it.to);
    let stays: Vec<&str> = stays.collect();
    // The ten of the testbed.
    let ten = [
        "hotel", "u", "home", "company", "inside", "hotel", "company", "inside", "u", "home",
    ];
    assert_eq!(stays, ten);
    // Octets came at each place, and before the timer of TCP ended: nothing waited for a size.
    for (to, reachable_s, data_s) in gaps(&flowed, 10) {
        assert!(
            reachable_s < 0.5 && data_s < 1.0,
            "{to} {reachable_s} {data_s}"
        );
    }
    let seen = seen.borrow();
    assert!(seen.packets > 300_000, "{}", seen.packets);
    assert_eq!(seen.faults, [""; 0]);
    assert_eq!(flowed.mobile[0].failures, [""; 0]);
}

/// What a registration of 100 octets through SKIP and its reply compute, at both ends, on a Pentium
/// Pro with this clock.
fn skip_work_s(policy: &Policy, mhz: f64) -> f64 {
    let profile = Profile::parse("pentium", PENTIUM).expect("a device");
    let device = Device::new(profile, Some(Clock::MegaHertz(mhz))).expect("a clock");
    let each = [Direction::Seal, Direction::Open].map(|direction| {
        let service = device.service(policy, direction);
        service.expect("a price").at(100.0)
    });
    2.0 * each.iter().sum::<f64>()
}

/// The real machines against the formula: one registration through SKIP, and the way of the first
/// packet back.
#[test]
fn the_gap_of_a_move_is_that_of_the_formula() {
    let policy = Policy::parse("policy", PAPER).expect("a policy");
    for (delay_ms, clock) in [(2, None), (60, None), (20, Some("1 MHz"))] {
        let mut text = edited(&[
            ("model = \"tcp\"\nbytes = \"48 MB\"", TICKS),
            ("delay = \"2 ms\"", &format!("delay = \"{delay_ms} ms\"")),
            ("time = \"90 s\"", "time = \"12 s\""),
        ]);
        if let Some(clock) = clock {
            // So slow a processor takes few datagrams.
            text = text.replace("800 kbit/s", "8 kbit/s");
            for (name, role) in [("mn", "station"), ("fw", "firewall")] {
                let node = format!("name = \"{name}\"\nrole = \"{role}\"");
                let device = format!("{node}\ndevice = \"pentium-pro-200\"\nclock = \"{clock}\"");
                text = text.replace(&node, &device);
            }
        }
        let flowed = run(&with_moves(&text, &[(5, "u")]));
        let [("u", reachable_s, data_s)] = gaps(&flowed, 1)[..] else {
            panic!("{:?}", flowed.mobile);
        };
        // One link for the whole path: two with a delay, and one packet at a time on seven.
        let link = format!(
            "title = \"a\"\nrate = \"{} kbit/s\"\ndelay = \"{} ms\"\n[sources]\nrate = \"a\"\n\
             delay = \"a\"\n",
            10_000 / 6,
            2 * delay_ms
        );
        let link = LinkFile::parse("a", "a", &link).expect("a link").link;
        let size = policy.suite.skip().expect("SKIP").size();
        let way = Way {
            behind: &[],
            peer: None,
            link: &link,
            size,
            device: None,
            detection_s: 0.0,
            data_bytes: 120,
        };
        let exchange = Exchange::parse("mobile-ip", REGISTRATION).expect("an exchange");
        let taken = exchange.over(&way).expect("sizes");
        let compute_s = clock.map_or(0.0, |_| skip_work_s(&policy, 1.0));
        let expected_s = taken.gap_s.expect("bytes are known") + compute_s;
        let data_s = Some(data_s).filter(|_| clock.is_none());
        for (what, found_s) in [("reply", Some(reachable_s)), ("data", data_s)] {
            let Some(found_s) = found_s else {
                continue;
            };
            let difference_s = (found_s - expected_s).abs();
            assert!(
                difference_s < 0.010_f64.max(0.15 * expected_s),
                "{what} after {found_s} s, by the formula {expected_s} s ({delay_ms} ms, {clock:?})"
            );
        }
        // Without what is computed the formula would be wrong.
        assert!(
            clock.is_none() || compute_s > 0.2 * expected_s,
            "{compute_s}"
        );
    }
}

/// The MAC covers the outer addresses, which a NAT changes.
#[test]
fn raw_skip_does_not_pass_a_nat() {
    let text = edited(&[
        (
            "policy = \"skip-des-md5-paper\"",
            "policy = \"skip-des-md5-paper\"\nudp = \"never\"",
        ),
        ("time = \"90 s\"", "time = \"20 s\""),
    ]);
    let flowed = run(&with_moves(&text, &[(5, "hotel"), (10, "u")]));
    let [.., hotel, u] = &flowed.mobile[0].moves[..] else {
        panic!("{:?}", flowed.mobile);
    };
    assert_eq!((hotel.gap_s, hotel.data_gap_s), (None, None));
    assert!(drops(&flowed, "fw", "bad-icv") > 0, "{:?}", flowed.drops);
    assert!(u.gap_s.is_some() && u.data_gap_s.is_some());
}

/// Behind the firewall of another company there are two headers of SKIP, and one elsewhere.
#[test]
fn a_node_crosses_two_firewalls() {
    let layer = "[[layer]]\nkind = \"mobile-ip\"";
    let text = edited(&[(layer, &format!("{SECOND}\n{layer}"))]);
    let text = text.replace("bytes = \"48 MB\"", "bytes = \"16 MB\"");
    let flowed = run(&with_moves(
        &text,
        &[(5, "u"), (8, "guest"), (11, "home"), (14, "guest")],
    ));
    let moved = flowed.flows[0].transferred.as_ref().expect("a transfer");
    assert!(moved.is_complete, "{moved:?} {:?}", flowed.drops);
    let gaps = gaps(&flowed, 4);
    for (to, reachable_s, _) in gaps {
        assert!(reachable_s < 1.0, "{to}: {reachable_s}");
    }
    let guest = flowed.links.iter().find(|link| link.name == "guest");
    let octets = guest.expect("a link").down.delivered_bytes;
    assert!(octets > 2_000_000, "{octets}");
}

/// Until the sender knows what the two tunnels carry, each new size costs it a timeout, unless they
/// make its segments smaller.
#[test]
fn a_sender_learns_the_size_of_two_tunnels_by_timeouts() {
    let flows = "model = \"tcp\"\nbytes = \"10 KB\"\nat = \"8 s\"\n[[flow]]\nname = \
                 \"second\"\nfrom = \"cn1\"\nto = \"mn\"\nmodel = \"tcp\"\nbytes = \"10 \
                 KB\"\nat = \"30 s\"";
    let text = edited(&[
        ("model = \"tcp\"\nbytes = \"48 MB\"", flows),
        ("time = \"90 s\"", "time = \"60 s\""),
    ]);
    let text = with_moves(&text, &[(6, "u")]);
    let timeouts = |text: &str| {
        let flowed = run(text);
        let flows = flowed.flows.iter();
        let transfers = flows.map(|flow| flow.transferred.expect("a transfer"));
        let found = transfers.map(|one| {
            assert!(one.is_complete, "{one:?}");
            let connected_s = one.connected_s.expect("connected");
            assert!((0.008..0.02).contains(&connected_s), "{connected_s}");
            (one.timeouts, one.seconds)
        });
        found.collect::<Vec<_>>()
    };
    let kept = timeouts(&text.replace("seed = 1", "seed = 1\nclamps_mss = false"));
    assert_eq!((kept[0].0, kept[1].0), (2, 0));
    // The timer is 1 s, then 2 s.
    assert!(kept[0].1 > 3.0 && kept[1].1 < 0.2, "{kept:?}");
    let clamped = timeouts(&text);
    assert_eq!((clamped[0].0, clamped[1].0), (0, 0));
    assert!(clamped[0].1 < 0.2, "{clamped:?}");
}

/// On one wire, what goes to the home agent and back takes its time twice.
#[test]
fn a_half_duplex_link_carries_one_direction_at_a_time() {
    let text = edited(&[
        ("bytes = \"48 MB\"", "bytes = \"4 MB\"\nat = \"6 s\""),
        ("time = \"90 s\"", "time = \"40 s\""),
    ]);
    let text = with_moves(&text, &[(5, "inside")]);
    let seconds = |text: &str| {
        let moved = run(text).flows[0].transferred.expect("a transfer");
        assert!(moved.is_complete, "{moved:?}");
        moved.seconds
    };
    let shared = text.replace("name = \"home\"", "name = \"home\"\nhalf_duplex = true");
    let ratio = seconds(&shared) / seconds(&text);
    assert!((1.7..2.3).contains(&ratio), "{ratio}");
}

/// A station without Mobile IP, whose correspondent is behind the firewall; with each kind of keys.
#[test]
fn a_station_without_a_home_reaches_what_is_behind_its_firewall() {
    for policy in ["skip-des-md5-paper", "skip-x25519"] {
        let text = format!(
            "name = \"a\"\ntitle = \"a\"\n[run]\ntime = \"20 s\"\n[[node]]\nname = \"mn\"\nrole = \
             \"station\"\n[[node]]\nname = \"fw\"\nrole = \"firewall\"\n[[node]]\nname = \
             \"cn\"\nrole = \"server\"\n[[link]]\nfrom = \"mn\"\nto = \"fw\"\nrate = \"10 \
             Mbit/s\"\nmtu = 1500\n[[link]]\nfrom = \"fw\"\nto = \"cn\"\nrate = \"10 \
             Mbit/s\"\nmtu = 1500\n[[flow]]\nfrom = \"cn\"\nto = \"mn\"\nmodel = \"tcp\"\nbytes \
             = \"2 MB\"\n[[layer]]\nkind = \"skip\"\nfrom = \"mn\"\nto = \"fw\"\npolicy = \
             \"{policy}\"\n"
        );
        let flowed = run(&text);
        let moved = flowed.flows[0].transferred.as_ref().expect("a transfer");
        assert!(moved.is_complete, "{moved:?} {:?}", flowed.drops);
        // Nothing but SKIP: larger than what it carries.
        let octets = |at: usize| flowed.links[at].down.delivered_bytes;
        assert!(
            octets(0) > octets(1) + octets(1) / 20,
            "{} {}",
            octets(0),
            octets(1)
        );
    }
}

#[test]
fn what_leads_nowhere_is_refused_where_it_stands() {
    let refused = |text: &str| blueprint(text).err().expect("refused");
    // A firewall that leads to neither the home agent nor another firewall of the node.
    let apart = SECOND.replace("to = \"net\"", "to = \"x\"");
    let apart = "[[node]]\nname = \"x\"\nrole = \"server\"\n".to_owned() + &apart;
    let layer = "[[layer]]\nkind = \"mobile-ip\"";
    let text = edited(&[(layer, &format!("{apart}\n{layer}"))]);
    let text = with_moves(&text, &[(5, "u"), (10, "guest")]);
    let fault = refused(&text);
    assert!(fault.contains("'fb' does not lead 'mn' inside"), "{fault}");
    let fault = refused(&edited(&[(
        "policy = \"skip-des",
        "udp = \"maybe\"\npolicy = \"skip-des",
    )]));
    assert!(fault.contains("'behind-nat'"), "{fault}");
    let router = "name = \"r1\"\nrole = \"router\"";
    let fault = refused(&edited(&[(router, &format!("{router}\nannounces = true"))]));
    assert!(fault.contains("only a firewall"), "{fault}");
}

/// Each firewall has an address that the file gives, so that nothing in the capture is mistaken.
#[test]
fn the_capture_knows_its_addresses() {
    let blueprint = blueprint(MVPN).expect("a blueprint");
    let of = |name: &str| {
        let all = &blueprint.nodes;
        let index = all.iter().position(|it| it.name == name).expect(name);
        blueprint.graph.address(index).expect("an address")
    };
    assert_eq!(of("ha"), Ipv4Addr::new(10, 18, 3, 3));
    assert_eq!(of("cn1"), Ipv4Addr::new(10, 19, 5, 1));
    assert_eq!(of("fw"), Ipv4Addr::new(192, 0, 2, 1));
}
