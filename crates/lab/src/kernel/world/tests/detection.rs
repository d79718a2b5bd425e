//! A node with a VPN gateway that walks in and out, with all machines in virtual time: it asks
//! whether it is inside, with MOBIKE (RFC 5266) and with a home agent outside (RFC 5265).

use std::cell::RefCell;
use std::collections::BTreeMap;

use wire::ip::{Flow, protocol};
use wire::mip4::{Message, PORT};

use super::blocks::Blocks;
use super::*;
use crate::kernel::world::flows::Flowed;
use crate::kernel::world::moved::Gap;

const GATEWAY: &str = include_str!(
    "../../../../../../python/caravan/catalogue/studies/mvpn-today/scenarios/walk-gateway.toml"
);
const AGENT: &str = include_str!(
    "../../../../../../python/caravan/catalogue/studies/mvpn-today/scenarios/walk-agent.toml"
);
const POLICY: &str = include_str!(
    "../../../../../../python/caravan/catalogue/studies/mvpn-today/policies/aes256gcm16-psk.toml"
);
const RAW: &str = include_str!(concat!(
    "../../../../../../python/caravan/catalogue/studies/mvpn-today/policies/",
    "aes256gcm16-psk-raw.toml"
));
/// Both systems: the text, and whether it has a home agent outside.
const SYSTEMS: [(&str, bool); 2] = [(GATEWAY, false), (AGENT, true)];
/// Data from the node, one datagram in a millisecond, beside those to it.
const UP: &str = "[[flow]]\nname = \"up\"\nfrom = \"mn\"\nto = \"cn\"\nmodel = \"constant\"\n\
                  rate = \"672 kbit/s\"\nsizes = { model = \"fixed\", bytes = \"84 B\" }\n";
/// Another network inside with an address, in the place of the first visit to the foreign agent.
const LABORATORY: &str = "[[link]]\nname = \"laboratory\"\nfrom = []\nto = \"r2\"\n\
                          rate = \"10 Gbit/s\"\n";
/// One way to the gateway and the home agent outside, and to the home agent inside.
const DELAY_S: f64 = 0.040;
/// What links with a rate, the next datagram and a node that looks for an agent take besides.
const MORE_S: f64 = 0.014;

/// With this base of the second system.
fn catalogue(base: &str) -> Catalogue {
    Catalogue::new([
        entry(Kind::Policy, "aes256gcm16-psk", POLICY.to_owned()),
        entry(Kind::Policy, "aes256gcm16-psk-raw", RAW.to_owned()),
        entry(Kind::Scenario, "walk-gateway", base.to_owned()),
    ])
}

fn resolved(text: &str, edits: &[&str]) -> Result<Blueprint, String> {
    resolved_in(&catalogue(GATEWAY), text, edits)
}

fn resolved_in(catalogue: &Catalogue, text: &str, edits: &[&str]) -> Result<Blueprint, String> {
    let scenario = Scenario::edited("walk.toml", text, edits, catalogue);
    let scenario = scenario.map_err(|fault| fault.to_string())?;
    let resolved = scenario.resolved(catalogue);
    let resolved = resolved.map_err(|fault| fault.to_string())?;
    let blueprint = Blueprint::of(&scenario, &resolved, catalogue, &held());
    blueprint.map_err(|fault| fault.to_string())
}

fn walked(text: &str, edits: &[&str]) -> Flowed {
    run_of(resolved(text, edits).expect("a blueprint"))
}

fn run_of(blueprint: Blueprint) -> Flowed {
    let world = World::new(blueprint).expect("a world");
    world.run_flows().expect("runs")
}

/// Each move: its link, rounds, octets, and seconds until data came.
fn told(flowed: &Flowed) -> Vec<(&str, u64, u64, f64)> {
    let told = |gap: &Gap| gap.told.map(|it| (it.rounds, it.message_bytes));
    let moves = flowed.mobile[0].moves.iter();
    let moves = moves.map(|gap| {
        let (rounds, bytes) = told(gap).expect("of a node with a gateway");
        (
            &*gap.to,
            rounds,
            bytes,
            gap.data_gap_s.expect("data comes there"),
        )
    });
    moves.collect()
}

/// A handshake of three rounds, and a registration through its tunnel: octets of IKE, and of the
/// exchange of a registration with HMAC-MD5.
const HANDSHAKE_BYTES: u64 = 276 + 284 + 1378 + 1185 + 309 + 287;
const REGISTRATION_BYTES: u64 = 74 + 70;
/// Of a reply that says that its node is inside, and of the proof of a foreign agent.
const TRUSTED_BYTES: u64 = 4;
const PROOF_BYTES: u64 = 22;
/// Of a request for a tunnel in UDP, and its answer; and the node asks its gateway for the address
/// that it had before.
const IN_UDP_BYTES: u64 = 8;
const FORMER_BYTES: u64 = 4;

/// What the moves are, in units of the delay on the way of each round.
fn assert_walked(found: &[(&str, u64, u64, f64)], has_agent: bool) {
    let outside = REGISTRATION_BYTES + 2 * IN_UDP_BYTES;
    let (first, out) = match has_agent {
        true => (outside, 2.0 + 3.0 * 6.0 + 8.0),
        false => (0, 3.0 * 2.0 + 4.0),
    };
    let out_bytes = first + HANDSHAKE_BYTES + REGISTRATION_BYTES;
    let moved_bytes = match has_agent {
        true => outside,
        false => 1137 + 169 + 113 + 113,
    };
    let out_rounds = 4 + u64::from(has_agent);
    let agent = REGISTRATION_BYTES + 2 * PROOF_BYTES + TRUSTED_BYTES;
    let again = out_bytes + FORMER_BYTES;
    let branch = 2 * (REGISTRATION_BYTES + TRUSTED_BYTES);
    let home = REGISTRATION_BYTES + TRUSTED_BYTES;
    // Through the tunnel, which follows with MOBIKE, data comes at once.
    let branch_ways = if has_agent { 4.0 } else { 0.0 };
    let mut wanted = vec![
        ("visited", out_rounds, out_bytes, out, 0.0),
        ("hotel", 1, moved_bytes, 2.0, 0.0),
        ("company", 1, moved_bytes, 2.0, 0.0),
        ("branch", 2, branch, branch_ways, 0.0),
        ("agent", 1, agent, 2.0, 0.0),
        ("visited", out_rounds, again, out, 0.0),
        // With MOBIKE, a node from outside waits for an address first.
        ("agent", 1, agent, 2.0, if has_agent { 0.0 } else { 3.0 }),
        ("visited", out_rounds, again, out, 0.0),
        ("home", 1, home, 2.0, 0.0),
    ];
    if has_agent {
        // A foreign agent outside tunnels, and in no UDP: modes fvc, cvc, and fvc again.
        let by_agent = REGISTRATION_BYTES;
        wanted.extend([
            ("lounge", out_rounds, again - outside + by_agent, out, 0.0),
            ("visited", 1, moved_bytes, 2.0, 0.0),
            ("lounge", 1, by_agent, 2.0, 0.0),
        ]);
    }
    assert_eq!(found.len(), wanted.len());
    for ((to, rounds, bytes, gap_s), it) in found.iter().zip(wanted) {
        assert_eq!((*to, *rounds, *bytes), (it.0, it.1, it.2));
        let least_s = it.3 * DELAY_S + it.4;
        assert!(
            (least_s..least_s + MORE_S).contains(gap_s),
            "{to}: {gap_s} s, not {least_s} s"
        );
    }
}

#[test]
fn each_move_in_and_out_takes_its_rounds() {
    for (text, has_agent) in SYSTEMS {
        let flowed = walked(text, &[]);
        assert_walked(&told(&flowed), has_agent);
        assert!(flowed.mobile[0].failures.is_empty(), "{flowed:#?}");
        assert_eq!(flowed.unpriced, None);
        // It began at home, so its first tunnel came later.
        let exchange = &flowed.tunnels[0].exchange;
        assert!(exchange.is_up && exchange.messages.len() == 6);
        assert_eq!(exchange.wire_bytes, HANDSHAKE_BYTES);
    }
}

/// Between two networks inside the node asks, and registers. With MOBIKE the gateway is nearer than
/// the home agent and reached from inside, so the tunnel is up before the first answer: the node
/// registers through it, and asks again. The question is there first, so that the registration is
/// older than it and refused.
#[test]
fn from_one_network_inside_to_another_a_near_gateway_costs_two_rounds_more() {
    for (text, has_agent) in SYSTEMS {
        let text = format!("{text}\n{LABORATORY}");
        let flowed = walked(&text, &["move.5.to=laboratory"]);
        let moves = told(&flowed);
        let (to, rounds, bytes, gap_s) = moves[4];
        let asked = REGISTRATION_BYTES + TRUSTED_BYTES;
        let more = match has_agent {
            true => 0,
            false => asked + REGISTRATION_BYTES,
        };
        let wanted = (
            "laboratory",
            if has_agent { 2 } else { 4 },
            2 * asked + more,
        );
        assert_eq!((to, rounds, bytes), wanted);
        let least_s = 4.0 * DELAY_S;
        assert!((least_s..least_s + MORE_S).contains(&gap_s), "{gap_s}");
        // The next tunnel is one of the next network outside.
        assert_eq!(moves[5].1, moves[7].1);
    }
}

/// Its sender learns at each place what the tunnels there carry: the gateway, and both home agents,
/// say so of the first packet that is too large.
#[test]
fn a_download_survives_the_walk() {
    let stream = "model = \"constant\"\nrate = \"672 kbit/s\"\nsizes = { model = \"fixed\", \
                  bytes = \"84 B\" }";
    let base = GATEWAY.replace(stream, "model = \"tcp\"\nbytes = \"10 MB\"");
    assert_ne!(base, GATEWAY);
    for text in [&base, AGENT] {
        let blueprint = resolved_in(&catalogue(&base), text, &[]);
        let flowed = run_of(blueprint.expect("a blueprint"));
        let moved = flowed.flows[0].transferred.as_ref().expect("a transfer");
        assert!(moved.is_complete, "{moved:?} {:?}", flowed.drops);
        let large = flowed.drops.iter().filter(|it| it.reason == "too-big");
        assert!(
            large.map(|it| it.packets).sum::<u64>() <= 3,
            "{:?}",
            flowed.drops
        );
        // It goes on at all places but those that it was too quick for.
        let moves = flowed.mobile[0].moves.iter();
        let with_data = moves.filter(|gap| gap.data_gap_s.is_some_and(|gap_s| gap_s < 4.0));
        assert!(with_data.count() >= 5, "{:?}", flowed.mobile);
    }
}

/// The home agent trusts the gateway's pool too, as one does that trusts all private addresses. Yet
/// its answers to there say nothing of it: they would be longer. And the node keeps its tunnel.
#[test]
fn an_answer_through_the_tunnel_proves_nothing() {
    for (text, has_agent) in SYSTEMS {
        let mut blueprint = resolved(text, &[]).expect("a blueprint");
        let set = &mut blueprint.setup.tunnels[0];
        set.trusted.push(set.pool);
        let flowed = run_of(blueprint);
        let moves = told(&flowed);
        assert_walked(&moves, has_agent);
        // Nothing is missing but what was on its way, and during the gaps.
        let gaps_s: f64 = moves.iter().map(|it| it.3).sum();
        let streamed = flowed.flows[0].streamed.expect("datagrams");
        let missing = (streamed.sent - streamed.received) as f64;
        assert!(missing < (gaps_s + 1.0) * 1000.0, "{streamed:?}");
    }
}

/// Where the links outside have other stations, so that the node need not go there.
const OTHERS: &str = "[[node]]\nname = \"a\"\nrole = \"station\"\n\
                      [[node]]\nname = \"b\"\nrole = \"station\"\n\
                      [[node]]\nname = \"c\"\nrole = \"station\"\n";

#[test]
fn what_such_a_node_cannot_do_is_said_with_its_place() {
    let said = |text: &str, edits: &[&str]| match resolved(text, edits) {
        Ok(_) => String::new(),
        Err(said) => said,
    };
    let line = |what: &str| {
        1 + GATEWAY[..GATEWAY.find(what).expect("it")]
            .matches('\n')
            .count()
    };
    let stays = [
        "link.visited.from=['a']",
        "link.hotel.from=['b']",
        "link.company.from=['c']",
        "move.1.to=branch",
        "move.2.to=agent",
        "move.3.to=branch",
        "move.6.to=branch",
        "move.8.to=branch",
    ];
    let layer =
        "[[layer]]\nkind = \"ipsec\"\nfrom = \"mn\"\nto = \"gw\"\npolicy = \"aes256gcm16-psk\"\n";
    let never = said(&format!("{GATEWAY}\n{layer}{OTHERS}"), &stays);
    let place = GATEWAY.matches('\n').count() + 6;
    let wanted = format!(
        "walk.toml:{place}:1: layer.mn.policy: 'mn' is never outside of 'gw', so it needs no \
         tunnel: move it to a link before 'gw', or leave out its policy"
    );
    assert_eq!(never, wanted);
    let place = line("policy = ");
    let transport = POLICY.replace("mode = \"tunnel\"", "mode = \"transport\"");
    let catalogue = Catalogue::new([entry(Kind::Policy, "aes256gcm16-psk", transport)]);
    let scenario = Scenario::parse("walk.toml", GATEWAY, &catalogue).expect("a scenario");
    let mode = scenario.resolved(&catalogue).expect_err("no inner address");
    let wanted = format!(
        "walk.toml:{place}:1: policy: 'mn' goes home through its tunnel, whose inner address is \
         its care-of address: use a policy in tunnel mode"
    );
    assert_eq!(mode.to_string(), wanted);
    let udp = said(&GATEWAY.replace("udp = \"never\"", "udp = \"always\""), &[]);
    let wanted = "layer.mn.udp: 'mn' goes home through its tunnel, and nothing else leaves it: \
                  leave out udp";
    assert!(udp.ends_with(wanted), "{udp}");
    // The foreign agent's link behind it now leads outside.
    let outside = said(GATEWAY, &["link.fa.to=net"]);
    let wanted = "'mn' asks whether it is inside, and outside needs an address of its own, which \
                  no foreign agent gives: use a router in the place of 'fa', or a home agent \
                  outside";
    assert!(
        outside.contains("node.fa.role: ") && outside.ends_with(wanted),
        "{outside}"
    );
    // A home agent outside is reached through one.
    assert_eq!(said(AGENT, &["link.fa.to=net"]), "");
}

/// What is wrong with the packets of a capture, as they pass by.
#[derive(Default)]
struct Seen {
    /// The home agent, which shares the home link with the node.
    agent: Option<IpAddr>,
    /// The link of the node, and whether its home agent has answered there.
    place: String,
    since_ns: u64,
    is_answered: bool,
    /// The node's data in clear on each link inside.
    data: BTreeMap<String, u64>,
    faults: Vec<String>,
}

/// What a packet is, once all headers of tunnels without encryption are gone.
enum Bare {
    /// IKE or ESP.
    Secured,
    /// A registration: whether it is an accepted reply.
    Registration(bool),
    /// Of programs, made at this time.
    Data(u64),
    Other,
}

fn bare(packet: &[u8]) -> Bare {
    let Ok(flow) = Flow::of(packet) else {
        return Bare::Other;
    };
    let payload = &packet[flow.transport..flow.total_len];
    match (flow.protocol, flow.ports) {
        (protocol::ESP, _) | (protocol::UDP, Some((_, 500 | 4500) | (500 | 4500, _))) => {
            Bare::Secured
        }
        (protocol::IPV4, _) => bare(payload),
        (protocol::UDP, Some((from, to))) if [from, to].contains(&PORT) => {
            match Message::parse(&payload[8..]) {
                Ok((Message::Tunnel(_), at)) => bare(&payload[8 + at..]),
                Ok((Message::Reply(reply), _)) => Bare::Registration(reply.code.is_accepted()),
                _ => Bare::Registration(false),
            }
        }
        (protocol::UDP, _) => {
            let made = payload.get(8..16).and_then(|octets| octets.try_into().ok());
            made.map_or(Bare::Other, |made| Bare::Data(u64::from_be_bytes(made)))
        }
        _ => Bare::Other,
    }
}

/// The links on which the node is ever, those inside last.
const PLACES: [&str; 7] = [
    "visited", "hotel", "company", "lounge", "branch", "agent", "home",
];
const OUTSIDE: [&str; 9] = [
    "visited", "hotel", "nat", "company", "corp", "lounge", "xfa", "outside", "access",
];

impl Seen {
    fn look(&mut self, name: &str, at_ns: u64, packet: &[u8]) {
        let link = name.split(" - ").next().unwrap_or_default();
        let is_up = !name.ends_with(" back");
        let what = bare(packet);
        let flow = Flow::of(packet).ok();
        let (source, to) = flow.map(|flow| (flow.source, flow.destination)).unzip();
        // The home agent is on the home link too, and sends on there what came from elsewhere.
        let is_nodes = is_up && PLACES.contains(&link) && source != self.agent;
        let is_for_agent = matches!(what, Bare::Registration(_)) && to == self.agent;
        if is_nodes && self.place != link && (link != "home" || is_for_agent) {
            (self.place, self.is_answered) = (link.to_owned(), false);
            self.since_ns = at_ns;
        }
        let mut fault = |why: &str| {
            if self.faults.len() < 5 {
                self.faults.push(format!(
                    "{name} {at_ns} since {}: {why}: {packet:02x?}",
                    self.since_ns
                ));
            }
        };
        if OUTSIDE.contains(&link) && matches!(what, Bare::Data(_)) {
            fault("data in clear outside");
        }
        if self.place != link || OUTSIDE.contains(&link) {
            return;
        }
        match what {
            Bare::Registration(true) if !is_up => self.is_answered = true,
            Bare::Data(made_ns) if !is_nodes || made_ns < self.since_ns => {}
            Bare::Data(_) if !self.is_answered => fault("data before the answer"),
            Bare::Data(_) => *self.data.entry(link.to_owned()).or_default() += 1,
            _ => {}
        }
    }
}

#[test]
fn data_in_clear_leaves_inside_alone_and_only_after_the_answer() {
    for (text, _) in SYSTEMS {
        let blueprint = resolved(&format!("{text}\n{UP}"), &[]).expect("a blueprint");
        let agent = blueprint.setup.mobile[0].home_agent;
        let begin_ns = u64::try_from(blueprint.calendar.0).expect("after 1970") * 1_000_000_000;
        let mut world = World::new(blueprint).expect("a world");
        let seen = Rc::new(RefCell::new(Seen {
            agent: Some(agent.into()),
            ..Seen::default()
        }));
        let watched = Rc::clone(&seen);
        world.capture(Box::new(Blocks::new(
            move |name: &str, at_ns: u64, packet: &[u8]| {
                watched.borrow_mut().look(name, at_ns - begin_ns, packet);
            },
        )));
        let flowed = world.run_flows().expect("runs");
        let seen = seen.borrow();
        assert_eq!(seen.faults, [""; 0]);
        // There was something to see: data left in clear on each link inside.
        let all: Vec<&str> = seen.data.keys().map(String::as_str).collect();
        assert_eq!(all, ["agent", "branch", "home"]);
        assert!(seen.data.values().all(|count| *count > 1_000));
        // And its programs sent all the time: what could not go was dropped.
        let drops = flowed.drops.iter();
        let mut own = drops.filter(|it| it.place == "mn" && it.reason == "in-clear");
        assert!(own.any(|it| it.packets > 400), "{:?}", flowed.drops);
    }
}
