//! What the paper calls other considerations: parsing instead of binding, removed headers, several
//! firewalls, SKIP from end to end.

use std::net::Ipv4Addr;

use wire::skip::{Algorithms, CryptAlg, KijAlg, MacAlg, Name};

use super::packets::headers;
use super::world::*;
use crate::counters::DropReason;
use crate::firewall::access::Origin;
use crate::firewall::{Config, Mode, Template};
use crate::mip4::mobile_node::Attachment;
use crate::mip4::security::{Form, Other as Hears, Security, Skip};
use crate::selector::TrafficSelector;
use crate::skip::Association;

fn parsing() -> Options {
    Options {
        mode: Mode::PacketParsing,
        is_simultaneous: true,
        ..Options::default()
    }
}

/// Where the packets of SKIP on the wire go, from the firewall.
fn skip_to(world: &World) -> Vec<Ipv4Addr> {
    let packets = world.wire.iter().map(|sent| &sent.packet);
    let from_wall = packets.filter(|it| it[9] == 57 && it[12..16] == WALL.octets());
    from_wall
        .map(|it| Ipv4Addr::new(it[16], it[17], it[18], it[19]))
        .collect()
}

#[test]
fn a_firewall_that_parses_packets_carries_simultaneous_registrations() {
    let mut world = World::new(parsing());
    world.attach(0, Attachment::Colocated(CARE_OF));
    world.attach(0, Attachment::Colocated(ELSEWHERE));
    assert!(world.is_registered(0));
    world.wire.clear();
    assert!(world.send_to_node(&data(CORRESPONDENT, home(0))));
    let mut copies = skip_to(&world);
    copies.sort_unstable();
    assert_eq!(
        copies,
        [ELSEWHERE, CARE_OF],
        "each care-of address gets one"
    );
    assert_eq!(world.at_nodes[0], [data(CORRESPONDENT, home(0))]);
    assert_eq!(world.wall.firewall().bindings().count(), 0);
    assert_eq!(world.events, [], "nothing is bound");
    assert!(world.is_joined(0));
    // By binding, only the care-of address that was heard last gets its copy.
    let mut world = World::new(Options {
        mode: Mode::Binding,
        ..parsing()
    });
    world.attach(0, Attachment::Colocated(CARE_OF));
    world.attach(0, Attachment::Colocated(ELSEWHERE));
    world.wire.clear();
    assert!(world.send_to_node(&data(CORRESPONDENT, home(0))));
    assert_eq!(skip_to(&world), [ELSEWHERE]);
    assert_eq!(world.wall_drops(DropReason::NoPolicy), 1);
}

/// Two firewalls of one network have the same keys and tell each other nothing.
#[test]
fn a_second_firewall_that_has_never_heard_a_node_answers_it() {
    for (mode, answers) in [(Mode::PacketParsing, true), (Mode::Binding, false)] {
        let mut world = World::new(Options { mode, ..parsing() });
        world.attach(0, Attachment::Colocated(CARE_OF));
        assert!(world.is_registered(0));
        // What comes for the node takes the other firewall from here on.
        world.restart_wall();
        let before = world.at_nodes[0].len();
        assert!(world.send_to_node(&data(CORRESPONDENT, home(0))));
        assert_eq!(
            world.at_nodes[0].len(),
            before + usize::from(answers),
            "{mode:?}"
        );
        let lost = world.wall_drops(DropReason::NoPolicy);
        assert_eq!(lost, u64::from(!answers), "{mode:?}");
    }
}

#[test]
fn a_home_address_that_no_entry_has_finds_nobody() {
    let mut world = World::new(Options {
        nodes: 2,
        ..parsing()
    });
    world.attach(0, Attachment::Colocated(CARE_OF));
    world.attach(1, Attachment::Colocated(ELSEWHERE));
    assert!(world.is_joined(0) && world.is_joined(1));
    // The second node has a key, and speaks for the first one.
    let association = skip_association(&world.options, 1, true);
    let forged = in_tunnel(&data(home(0), CORRESPONDENT), (ELSEWHERE, AGENT));
    let packet = sealed(&association, ELSEWHERE, &forged, world.now);
    let before = (
        world.wall_drops(DropReason::ForgedSource),
        world.at_correspondent.len(),
    );
    world.inject(true, packet);
    let after = (
        world.wall_drops(DropReason::ForgedSource),
        world.at_correspondent.len(),
    );
    assert_eq!(after, (before.0 + 1, before.1));
}

#[test]
fn a_firewall_may_leave_out_the_header_in_the_middle() {
    for mode in [Mode::Binding, Mode::PacketParsing] {
        let mut world = World::new(Options {
            mode,
            removes_header: true,
            ..Options::default()
        });
        world.attach(0, Attachment::Colocated(CARE_OF));
        assert!(world.is_joined(0), "{mode:?}");
        assert_eq!(world.at_correspondent, [data(home(0), CORRESPONDENT)]);
        assert_eq!(world.at_nodes[0], [data(CORRESPONDENT, home(0))]);
        let seen: Vec<String> = world
            .wire
            .iter()
            .map(|sent| headers(&sent.packet))
            .collect();
        assert_eq!(seen.len(), 8);
        // Messages have nothing to leave out.
        assert!(seen[1].ends_with("ipip 198.51.100.7>10.18.0.1 udp 434>434 request"));
        assert_eq!(
            seen[5],
            "10.18.0.254>10.18.0.1 ipip 10.18.3.17>10.19.5.2 data"
        );
        let association = skip_association(&world.options, 0, true);
        let inner = opened(&association, &world.wire[7].packet, world.now);
        assert_eq!(inner, data(CORRESPONDENT, home(0)));
    }
}

#[test]
fn both_forms_are_accepted_where_the_short_one_is() {
    let mut world = World::new(Options {
        removes_header: true,
        ..Options::default()
    });
    world.attach(0, Attachment::Colocated(CARE_OF));
    // A firewall that leaves nothing out takes over.
    world.options.removes_header = false;
    world.restart_wall();
    assert!(world.is_joined(0));
    // The other way round, nobody expects the short form: it is dropped and counted.
    let mut world = World::new(Options::default());
    world.attach(0, Attachment::Colocated(CARE_OF));
    world.options.removes_header = true;
    world.restart_wall();
    assert!(!world.is_joined(0));
    assert_eq!(world.agent.drops().of(DropReason::SelectorMismatch), 1);
}

/// A template as the first firewall has it for the first node, with another association.
fn template(association: Association, inside: &[Ipv4Addr]) -> Template {
    Template {
        association,
        inside: inside
            .iter()
            .map(|it| TrafficSelector::host((*it).into()))
            .collect(),
        home_address: Some(home(0)),
        stored_n: 0,
        heard_n: 0,
    }
}

/// Both ends of an association with the first node, with these algorithms.
fn both_ends(crypt: CryptAlg, number: u8) -> [Association; 2] {
    let algorithms = Algorithms::new(KijAlg::TripleDes, crypt, MacAlg::Md5);
    let algorithms = algorithms.expect("they go together");
    let node = Name::ipv4(home(0));
    [[node, Name::NONE], [Name::NONE, node]].map(|names| association(algorithms, number, names))
}

fn skip(association: Association, firewall: Ipv4Addr, behind: Option<Skip>) -> Skip {
    Skip {
        association,
        firewall,
        form: Form::Raw,
        behind: behind.map(Box::new),
        others: Vec::new(),
        short_form: None,
        stored_n: 0,
        heard_n: 0,
    }
}

/// A firewall's configuration with one entry, for the first node.
fn one_entry(outside: Ipv4Addr, template: Template) -> Config {
    Config {
        outside,
        home_agents: Vec::new(),
        entries: vec![(Origin::Nomadic, template)],
        ..wall_config(&Options::default())
    }
}

fn add_wall(world: &mut World, config: Config, is_inner: bool) {
    let (outside, inside) = (config.outside, config.inside);
    let wall = wall_of(config, 90, world.now);
    world.others.push(Other {
        outside,
        inside,
        is_inner,
        wall,
    });
}

fn replace_wall(world: &mut World, config: Config) {
    world.wall = wall_of(config, 91, world.now);
}

/// The home agent ends SKIP of the first node itself.
fn secure_agent(world: &mut World, association: Association) {
    let config = Config {
        inside: AGENT,
        ..one_entry(AGENT, template(association, &[AGENT]))
    };
    let secured = world.agent.secure_home_agent(config, world.now);
    secured.expect("a good list");
}

/// The first node goes out with this security, registers, and is reached.
fn go_out(world: &mut World, security: Skip) {
    world.nodes[0].secure(Security::Skip(Box::new(security)));
    world.attach(0, Attachment::Colocated(CARE_OF));
    assert!(world.is_registered(0));
    assert!(world.is_joined(0));
}

/// The headers of each packet on the wire.
fn seen(world: &World) -> Vec<String> {
    let packets = world.wire.iter().map(|sent| headers(&sent.packet));
    packets.collect()
}

#[test]
fn a_firewall_of_its_own_key_answers_for_another_one() {
    // The home agent sends through the second firewall, the node through the first one.
    let mut world = World::new(Options {
        last_wall: WALL_2_INSIDE,
        ..parsing()
    });
    let [node_end, wall_end] = both_ends(CryptAlg::Des, 7);
    let config = Config {
        inside: WALL_2_INSIDE,
        home_agents: vec![AGENT],
        mode: Mode::PacketParsing,
        ..one_entry(WALL_2, template(wall_end, &[]))
    };
    add_wall(&mut world, config, false);
    let first = skip_association(&world.options, 0, true);
    let mut security = skip(first, WALL, None);
    security.others = vec![Hears {
        association: node_end,
        firewall: WALL_2,
        heard_n: 0,
    }];
    go_out(&mut world, security);
    let seen = seen(&world);
    assert!(seen[4].starts_with("198.51.100.7>203.0.113.1 skip"));
    assert!(seen[7].starts_with("203.0.113.9>198.51.100.7 skip"));
}

/// One SKIP header for each firewall on the way.
#[test]
fn a_chain_of_firewalls_takes_off_one_header_each() {
    let mut world = World::new(Options {
        last_wall: WALL_2_INSIDE,
        ..Options::default()
    });
    let [outer, outer_wall] = both_ends(CryptAlg::Des, 6);
    let [inner, inner_wall] = both_ends(CryptAlg::Des, 7);
    replace_wall(
        &mut world,
        one_entry(WALL, template(outer_wall.clone(), &[WALL_2])),
    );
    let config = Config {
        inside: WALL_2_INSIDE,
        home_agents: vec![AGENT],
        ..one_entry(WALL_2, template(inner_wall.clone(), &[]))
    };
    add_wall(&mut world, config, true);
    let security = skip(outer.clone(), WALL, Some(skip(inner, WALL_2, None)));
    go_out(&mut world, security);
    let seen = seen(&world);
    // Each of the paper's packets of SKIP is on two wires.
    assert_eq!(seen.len(), 12);
    let node = "1/10.18.3.17";
    assert_eq!(
        seen[6],
        format!("198.51.100.7>203.0.113.1 skip {node}>0/na ah esp")
    );
    assert_eq!(
        seen[7],
        format!("198.51.100.7>203.0.113.9 skip {node}>0/na ah esp")
    );
    assert!(seen[8].starts_with("10.18.0.253>10.18.0.1 ipip 198.51.100.7>10.18.0.1 ipip"));
    assert!(seen[9].starts_with("10.18.0.1>10.18.0.253 ipip 10.18.0.1>198.51.100.7 ipip"));
    assert_eq!(
        seen[10],
        format!("203.0.113.9>198.51.100.7 skip 0/na>{node} ah esp")
    );
    assert_eq!(
        seen[11],
        format!("203.0.113.1>198.51.100.7 skip 0/na>{node} ah esp")
    );
    let packets: Vec<&[u8]> = world.wire.iter().map(|sent| &sent.packet[..]).collect();
    assert_eq!(opened(&outer_wall, packets[6], world.now), packets[7]);
    assert_eq!(opened(&inner_wall, packets[7], world.now), packets[8][20..]);
    assert_eq!(opened(&outer, packets[11], world.now), packets[10]);
    // A move is followed by both.
    world.attach(0, Attachment::Colocated(ELSEWHERE));
    assert!(world.is_joined(0));
}

/// The paper's Fig. 4: the firewall sees only that it is SKIP for the home agent.
#[test]
fn skip_from_end_to_end_passes_the_firewall_as_it_is() {
    let mut world = World::new(Options {
        knows_outside: false,
        has_wall: false,
        ..Options::default()
    });
    let mut config = wall_config(&world.options);
    config.end_to_end = vec![AGENT];
    replace_wall(&mut world, config);
    let [node_end, agent_end] = both_ends(CryptAlg::Des, 7);
    secure_agent(&mut world, agent_end);
    let security = skip(node_end, AGENT, None);
    go_out(&mut world, security);
    let seen = seen(&world);
    let to = |prefix: &str| seen.iter().filter(|line| line.starts_with(prefix)).count();
    assert_eq!(to("198.51.100.7>10.18.0.1 skip"), 2);
    assert_eq!(to("10.18.0.1>198.51.100.7 skip"), 2);
    assert_eq!(world.wall.work().entries(), [], "the firewall does nothing");
    // Nothing else passes.
    let clear = data(CARE_OF, AGENT);
    world.inject(true, clear);
    assert_eq!(world.wall_drops(DropReason::ClearPacket), 1);
}

/// The paper's Fig. 5: the firewall checks who sends, and cannot read it.
#[test]
fn the_firewall_authenticates_what_is_encrypted_from_end_to_end() {
    let mut world = World::new(Options {
        knows_outside: false,
        ..Options::default()
    });
    let [outer, outer_wall] = both_ends(CryptAlg::None, 6);
    let [inner, inner_agent] = both_ends(CryptAlg::Des, 7);
    replace_wall(
        &mut world,
        one_entry(WALL, template(outer_wall.clone(), &[AGENT])),
    );
    secure_agent(&mut world, inner_agent);
    let security = skip(outer, WALL, Some(skip(inner, AGENT, None)));
    go_out(&mut world, security);
    let first = &world.wire[0].packet;
    // IP, SKIP with AH, then AH whose next header is IP: no ESP.
    assert_eq!((first[9], first[23], first[52]), (57, 51, 4));
    let inside = opened(&outer_wall, first, world.now);
    assert!(headers(&inside).starts_with("198.51.100.7>10.18.0.1 skip 1/10.18.3.17>0/na ah esp"));
    // A stranger's packet of SKIP for the home agent gets no further than the firewall.
    let before = world.wire.len();
    let [stranger, _] = both_ends(CryptAlg::Des, 8);
    let forged = sealed(&stranger, ELSEWHERE, &data(ELSEWHERE, AGENT), world.now);
    world.inject(true, forged);
    assert_eq!(world.wire.len(), before + 1);
    assert_eq!(world.wall_drops(DropReason::SkipWrongAlgorithm), 1);
}
