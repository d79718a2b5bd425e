//! Who is bound where, who is not, and what is refused.

use std::net::{Ipv4Addr, SocketAddrV4};

use wire::ip::protocol;
use wire::mip4::{AgentAdvertisement, AgentFlags, MobilityAgent};
use wire::skip::{Algorithms, CryptAlg, KijAlg, MacAlg, Name, Nsid};

use super::world::*;
use crate::counters::DropReason;
use crate::firewall::access::{EntryId, ListFault, Origin};
use crate::firewall::bindings::KEPT_FOR;
use crate::firewall::endpoint::{Effect, Endpoint};
use crate::firewall::{Config, Event, Fault, Firewall, Mode, Passage, Way};
use crate::mip4::firewall::Side;
use crate::mip4::identification::Clock;
use crate::mip4::mobile_node::Attachment;
use crate::mip4::security::Form;
use crate::sa::Path;
use crate::selector::TrafficSelector;
use crate::skip::{Association, Profile};
use crate::time::{Duration, Instant};

const A: EntryId = EntryId(0);
const B: EntryId = EntryId(1);

fn raw(address: Ipv4Addr) -> SocketAddrV4 {
    SocketAddrV4::new(address, 0)
}

fn two() -> World {
    World::new(Options {
        nodes: 2,
        ..Options::default()
    })
}

fn bound(world: &World) -> Vec<(EntryId, Ipv4Addr)> {
    let bindings = world.wall.firewall().bindings();
    bindings.map(|(id, it)| (id, *it.care_of.ip())).collect()
}

#[test]
fn the_first_packet_binds_and_a_move_binds_anew() {
    let mut world = World::new(Options::default());
    world.attach(0, Attachment::Colocated(CARE_OF));
    assert!(world.is_joined(0));
    world.attach(0, Attachment::Colocated(ELSEWHERE));
    assert!(world.is_joined(0));
    let (first, then) = (raw(CARE_OF), raw(ELSEWHERE));
    let expected = [
        Event::Bound {
            entry: A,
            care_of: first,
        },
        Event::Moved {
            entry: A,
            former: first,
            care_of: then,
        },
    ];
    assert_eq!(world.events, expected);
    assert_eq!(bound(&world), [(A, ELSEWHERE)]);
    // The former address gets nothing any more.
    let former = data(AGENT, CARE_OF);
    let tunnelled = tunnelled(&former);
    world.inject(false, tunnelled);
    assert_eq!(world.wall_drops(DropReason::NoPolicy), 1);
}

/// A packet in the home agent's tunnel to the firewall.
fn tunnelled(packet: &[u8]) -> Vec<u8> {
    in_tunnel(packet, (AGENT, WALL_INSIDE))
}

#[test]
fn an_address_of_a_node_that_is_heard_is_not_given_away() {
    let mut world = two();
    world.attach(0, Attachment::Colocated(CARE_OF));
    world.attach(1, Attachment::Colocated(ELSEWHERE));
    // B has a key, and pretends to be where A is. A is heard.
    world.pass(KEPT_FOR - Duration::from_secs(4));
    assert!(world.is_joined(0));
    world.attach(1, Attachment::Colocated(CARE_OF));
    let taken = Event::Taken {
        entry: B,
        care_of: raw(CARE_OF),
        by: A,
    };
    assert_eq!(world.events.last(), Some(&taken));
    let here = [(A, CARE_OF), (B, ELSEWHERE)];
    assert_eq!(bound(&world), here);
    world.pass(KEPT_FOR - Duration::from_secs(5));
    assert_eq!(bound(&world), here, "A was heard less than a minute ago");
    // A is switched off. B asks again and again, and gets the address a minute later.
    world.attach(0, Attachment::Detached);
    world.pass(KEPT_FOR * 2);
    assert_eq!(bound(&world), [(B, CARE_OF)]);
    assert!(world.is_registered(1));
    let told = world.events.iter().filter(|event| **event == taken);
    assert_eq!(told.count(), 1, "the log has it once");
    let displaced = Event::Displaced {
        entry: A,
        care_of: raw(CARE_OF),
        by: B,
    };
    assert!(world.events.contains(&displaced));
    // The home agent takes A to be there still: what is for A is not sealed for B.
    let lost = world.wall_drops(DropReason::NoPolicy);
    assert!(world.send_to_node(&data(CORRESPONDENT, home(0))));
    assert_eq!(world.wall_drops(DropReason::NoPolicy), lost + 1);
    assert!(world.is_joined(1));
    // A comes back elsewhere.
    world.attach(0, Attachment::Colocated(ELSEWHERE));
    assert_eq!(bound(&world), [(A, ELSEWHERE), (B, CARE_OF)]);
    assert!(world.is_joined(0) && world.is_joined(1));
}

#[test]
fn an_authentic_node_is_not_bound_to_an_address_inside() {
    let mut world = two();
    let home = home(1);
    for stolen in [AGENT, WALL_INSIDE, home] {
        // It is outside, and says that it is there: what is sent there would go to it.
        world.attach(0, Attachment::Colocated(stolen));
        assert_eq!(bound(&world), [], "{stolen}");
    }
    world.attach(0, Attachment::Colocated(CARE_OF));
    assert_eq!(bound(&world), [(A, CARE_OF)]);
}

#[test]
fn a_link_outside_cannot_tell_a_node_that_it_is_at_home() {
    let mut world = World::new(Options::default());
    world.attach(0, Attachment::Colocated(CARE_OF));
    assert!(world.is_joined(0));
    for flags in [AgentFlags::HOME_AGENT, AgentFlags::REGISTRATION_REQUIRED] {
        let agent = MobilityAgent {
            sequence: 1,
            registration_lifetime: 300,
            flags: AgentFlags(flags),
            care_of_addresses: vec![ELSEWHERE],
        };
        let forged = AgentAdvertisement {
            routes_common_traffic: true,
            lifetime: 1_800,
            routers: Vec::new(),
            agent,
            challenge: None,
        };
        let from = match flags {
            AgentFlags::HOME_AGENT => AGENT,
            _ => ELSEWHERE,
        };
        world.nodes[0].hear(from, &forged.to_icmp(), world.now);
        world.settle();
        assert!(world.is_joined(0), "{flags:#x}");
    }
}

#[test]
fn a_silent_node_is_forgotten_and_bound_again_at_the_same_address() {
    let mut world = World::new(Options::default());
    world.attach(0, Attachment::Colocated(CARE_OF));
    // It renews: nothing ends while it is heard.
    world.pass(Duration::from_secs(3_600));
    assert_eq!(world.events.len(), 1);
    world.attach(0, Attachment::Detached);
    world.pass(Duration::from_secs(601));
    let expired = Event::Expired {
        entry: A,
        care_of: raw(CARE_OF),
    };
    assert_eq!(world.events.last(), Some(&expired));
    assert_eq!(bound(&world), []);
    assert_eq!(world.wall.deadline(), None);
    world.attach(0, Attachment::Colocated(CARE_OF));
    assert_eq!(bound(&world), [(A, CARE_OF)]);
    assert!(world.is_joined(0));
}

#[test]
fn a_firewall_that_restarts_binds_by_the_next_packet() {
    for profile in Profile::ALL {
        let mut world = World::new(Options {
            profile,
            ..Options::default()
        });
        world.attach(0, Attachment::Colocated(CARE_OF));
        assert!(world.is_joined(0), "{profile}");
        world.restart_wall();
        world.pass(Duration::from_secs(2));
        assert_eq!(bound(&world), []);
        assert!(world.is_joined(0), "{profile}");
        assert_eq!(bound(&world), [(A, CARE_OF)]);
    }
}

#[test]
fn the_papers_n_is_on_disk_before_it_is_sent() {
    let mut world = World::new(Options {
        profile: Profile::Paper,
        ..Options::default()
    });
    assert_eq!(world.disk[&0].sent, 256);
    world.attach(0, Attachment::Colocated(CARE_OF));
    assert!(world.is_registered(0), "the first reply was not lost");
    // n steps each 30 s while packets are sent: the bound leaps ahead of it.
    for _ in 0..200 {
        world.pass(Duration::from_secs(31));
        assert!(world.is_joined(0));
    }
    assert!(world.disk[&0].sent > 256);
    assert_eq!(world.wall_drops(DropReason::SkipUnstoredN), 0);
}

/// The last packet of SKIP that was on the wire to or from the firewall.
fn recorded(world: &World, is_from_node: bool) -> Vec<u8> {
    let ends = match is_from_node {
        true => [CARE_OF, WALL],
        false => [WALL, CARE_OF],
    };
    let is_it = |sent: &&Sent| sent.packet[12..20] == ends.map(|it| it.octets()).concat();
    world.wire.iter().rfind(is_it).expect("one").packet.clone()
}

/// Long ago a stranger recorded a packet of the node. The firewall restarts, and hears it before
/// the node, whose n is far beyond it.
#[test]
fn an_old_recorded_packet_does_not_lock_a_node_out_of_a_restarted_firewall() {
    for is_disk_kept in [true, false] {
        let mut world = World::new(Options {
            profile: Profile::Paper,
            form: Form::Udp,
            ..Options::default()
        });
        world.attach(0, Attachment::Colocated(CARE_OF));
        let old = recorded(&world, true);
        world.node_disks[0].sent += 5_000;
        world.restart_node(0);
        world.pass(Duration::from_mins(1));
        assert!(world.is_joined(0), "what is heard is told once a minute");
        if !is_disk_kept {
            world.disk.get_mut(&0).expect("its entry").heard = 0;
        }
        world.restart_wall();
        world.inject(true, old);
        let refused = u64::from(is_disk_kept);
        assert_eq!(world.wall_drops(DropReason::SkipOldN), refused);
        assert!(world.is_joined(0), "{is_disk_kept}");
    }
}

/// The same with a node that restarts.
#[test]
fn an_old_recorded_packet_does_not_lock_the_firewall_out_of_a_restarted_node() {
    for is_disk_kept in [true, false] {
        let mut world = World::new(Options {
            profile: Profile::Paper,
            form: Form::Udp,
            ..Options::default()
        });
        world.attach(0, Attachment::Colocated(CARE_OF));
        let old = recorded(&world, false);
        world.disk.get_mut(&0).expect("its entry").sent += 5_000;
        world.restart_wall();
        assert!(world.is_joined(0));
        if !is_disk_kept {
            world.node_disks[0].heard = 0;
        }
        // Its first request is lost, so the firewall says nothing before the stranger.
        world.loss = 256;
        world.restart_node(0);
        world.loss = 0;
        world.inject(true, old);
        let refused = u64::from(is_disk_kept);
        assert_eq!(world.nodes[0].drops().of(DropReason::SkipOldN), refused);
        world.pass(Duration::from_secs(8));
        assert!(world.is_joined(0), "{is_disk_kept}");
    }
}

#[test]
fn inside_nothing_is_secured() {
    let mut world = World::new(Options::default());
    world.attach(0, Attachment::Colocated(INSIDE));
    assert!(world.is_registered(0));
    assert!(world.is_joined(0));
    assert!(
        world
            .wire
            .iter()
            .all(|sent| sent.packet[9] != protocol::SKIP)
    );
    assert_eq!(bound(&world), []);
    // From outside to inside, and back.
    world.attach(0, Attachment::Colocated(CARE_OF));
    assert!(world.is_joined(0));
    world.wire.clear();
    world.attach(0, Attachment::Colocated(INSIDE));
    assert!(world.is_joined(0));
    assert!(
        world
            .wire
            .iter()
            .all(|sent| sent.packet[9] != protocol::SKIP)
    );
}

#[test]
fn a_node_inside_that_asks_for_the_firewall_is_relayed() {
    let mut world = World::new(Options::default());
    world.nodes[0].set_side(Side::Outside, world.now);
    world.attach(0, Attachment::Colocated(INSIDE));
    assert!(world.is_registered(0));
    assert_eq!(bound(&world), [(A, INSIDE)]);
    assert!(world.is_joined(0));
    let secured = world
        .wire
        .iter()
        .filter(|sent| sent.packet[9] == protocol::SKIP);
    assert_eq!(secured.count(), 4);
    // Its user says where it is.
    world.pass(Duration::from_secs(2));
    world.wire.clear();
    world.nodes[0].set_side(Side::ByAddress, world.now);
    world.settle();
    assert!(world.is_joined(0));
    assert!(
        world
            .wire
            .iter()
            .all(|sent| sent.packet[9] != protocol::SKIP)
    );
}

/// The home agent's configuration names no care-of addresses: the node's requests name the
/// firewall.
#[test]
fn requests_alone_may_tell_the_home_agent_of_the_firewall() {
    let mut world = World::new(Options {
        knows_outside: false,
        ..Options::default()
    });
    world.attach(0, Attachment::Colocated(CARE_OF));
    assert!(world.is_registered(0));
    assert!(world.is_joined(0));
    assert_eq!(world.wire.len(), 8);
    // A reply that denies goes the same way: the node's clock is wrong, and it learns the time.
    let mut world = World::new(Options {
        knows_outside: false,
        ..Options::default()
    });
    let wrong = Clock::new(Instant(0), Duration::from_secs(CALENDAR.0 as u64 - 400));
    world.nodes[0].set_clock(wrong);
    world.attach(0, Attachment::Colocated(CARE_OF));
    assert!(!world.is_registered(0));
    world.pass(Duration::from_secs(3));
    assert!(world.is_registered(0));
    assert!(world.is_joined(0));
}

#[test]
fn what_no_entry_or_tunnel_allows_is_dropped_and_counted() {
    let mut world = World::new(Options::default());
    world.attach(0, Attachment::Colocated(CARE_OF));
    let delivered = world.at_correspondent.len();
    let drops = |world: &mut World, is_outside, packet: Vec<u8>, reason| {
        let (before, sent) = (world.wall_drops(reason), world.wire.len());
        world.inject(is_outside, packet);
        assert_eq!(world.wall_drops(reason), before + 1, "{reason:?}");
        assert_eq!(world.wire.len(), sent + 1, "nothing follows");
    };
    // A packet in clear, and a tunnel, from outside.
    drops(
        &mut world,
        true,
        data(CARE_OF, WALL),
        DropReason::WrongEncapsulation,
    );
    let mut forged = tunnelled(&data(CARE_OF, AGENT));
    forged[12..16].copy_from_slice(&CARE_OF.octets());
    forged[16..20].copy_from_slice(&WALL.octets());
    drops(&mut world, true, forged, DropReason::UnknownTunnel);
    // The home agent's tunnel, for an address where no node is.
    let nowhere = tunnelled(&data(AGENT, ELSEWHERE));
    drops(&mut world, false, nowhere, DropReason::NoPolicy);
    // In its tunnel, a packet that is not its own.
    let others = tunnelled(&data(CORRESPONDENT, CARE_OF));
    drops(&mut world, false, others, DropReason::SelectorMismatch);
    assert_eq!(world.at_correspondent.len(), delivered);
}

#[test]
fn a_node_reaches_its_home_agent_alone() {
    let mut world = World::new(Options::default());
    world.attach(0, Attachment::Colocated(CARE_OF));
    // Its key is right, but the packet is for somebody else, or not from itself.
    let association = skip_association(&world.options, 0, true);
    for (ends, reason) in [
        ((CARE_OF, CORRESPONDENT), DropReason::SelectorMismatch),
        ((ELSEWHERE, AGENT), DropReason::ForgedSource),
    ] {
        let inner = in_tunnel(&data(home(0), CORRESPONDENT), ends);
        world.inject(true, sealed(&association, CARE_OF, &inner, world.now));
        assert_eq!(world.wall_drops(reason), 1);
    }
}

/// Hosts with fixed addresses, and a network of hosts, without Mobile IP.
fn with_fixed_entries() -> Config {
    let mut config = wall_config(&Options::default());
    let servers = TrafficSelector::subnet(Ipv4Addr::new(10, 19, 0, 0).into(), 16);
    for (number, origin) in [
        (1, Origin::Host(HOST)),
        (2, Origin::Network([192, 168, 4, 0].into(), 24)),
    ] {
        let (_, mut template) = config.entries[0].clone();
        template.association = by_address(number, MacAlg::Md5);
        template.inside = vec![servers];
        template.home_address = None;
        config.entries.push((origin, template));
    }
    config
}

const HOST: Ipv4Addr = Ipv4Addr::new(192, 168, 4, 20);

/// An association of two ends whose addresses are their names.
fn by_address(number: u8, mac: MacAlg) -> Association {
    let algorithms = Algorithms::new(KijAlg::TripleDes, CryptAlg::Rc4, mac);
    association(
        algorithms.expect("they go together"),
        number,
        [Name::NONE; 2],
    )
}

#[test]
fn hosts_and_networks_exchange_ordinary_packets() {
    let seed = crypto::rand::Seed::new([3; 32]);
    let now = Instant(0);
    let wall = Endpoint::new(with_fixed_entries(), &seed, CALENDAR, now);
    let mut wall = wall.expect("a good list");
    let member = |host: u8| Ipv4Addr::new(192, 168, 4, host);
    for (number, host) in [(1, HOST), (2, member(9)), (2, member(8))] {
        let association = by_address(number, MacAlg::Md5);
        let inner = data(host, CORRESPONDENT);
        let mut packet = sealed(&association, host, &inner, now);
        wall.receive(Path::raw(WALL.into(), host.into()), &mut packet, now);
        assert_eq!(wall.poll(), Some(Effect::Opened(inner)), "{host}");
        assert!(wall.carries(CORRESPONDENT.into(), host.into()));
        assert!(wall.send(&mut data(CORRESPONDENT, host), now));
        let Some(Effect::Sealed(path, octets)) = wall.poll() else {
            panic!("nothing was sealed for {host}");
        };
        assert_eq!(path, Path::raw(WALL.into(), host.into()));
        assert_eq!(
            opened(&association, &octets, now),
            data(CORRESPONDENT, host)
        );
    }
    // One of a network may not pretend to be another one.
    let of_another = sealed(
        &by_address(2, MacAlg::Md5),
        member(9),
        &data(member(8), CORRESPONDENT),
        now,
    );
    let path = Path::raw(WALL.into(), member(9).into());
    wall.receive(path, &mut of_another.clone(), now);
    assert_eq!(wall.drops().of(DropReason::ForgedSource), 1);
    assert!(!wall.carries(AGENT.into(), HOST.into()), "no server");
    assert!(!wall.send(&mut data(AGENT, HOST), now));
    assert_eq!(wall.drops().of(DropReason::NoPolicy), 1);
}

/// SAs with one other end learn the size of the link, and those with many.
#[test]
fn what_does_not_fit_the_link_is_told_to_its_sender() {
    let seed = crypto::rand::Seed::new([3; 32]);
    let now = Instant(0);
    let wall = Endpoint::new(with_fixed_entries(), &seed, CALENDAR, now);
    let mut wall = wall.expect("a good list");
    wall.set_link_mtu(1_000, now);
    for host in [HOST, Ipv4Addr::new(192, 168, 4, 9)] {
        let mut large = large_data(CORRESPONDENT, host, 1_000);
        assert!(!wall.send(&mut large, now), "{host}");
        let Some(Effect::Opened(report)) = wall.poll() else {
            panic!("its sender is not told");
        };
        assert_eq!((report[9], report[20], report[21]), (protocol::ICMP, 3, 4));
        assert_eq!(report[16..20], CORRESPONDENT.octets());
        // IP 20, SKIP 28, AH 24 and ESP 4 before it, 2 behind.
        assert_eq!(report[26..28], 922_u16.to_be_bytes());
        assert!(wall.send(&mut large_data(CORRESPONDENT, host, 922), now));
        assert!(matches!(wall.poll(), Some(Effect::Sealed(_, it)) if it.len() == 1_000));
    }
}

#[test]
fn what_the_hosts_filter_must_pass_follows_from_the_configuration() {
    let passages = with_fixed_entries().passages();
    let text = |passage: &Passage| format!("{:?} {} > {}", passage.way, passage.from, passage.to);
    let lines: Vec<String> = passages.iter().map(text).collect();
    let expected = [
        "In 0.0.0.0/0[57] > 203.0.113.1[57]",
        "In 10.18.0.1[4] > 10.18.0.254[4]",
        "In 192.168.4.0/24[57] > 203.0.113.1[57]",
        "In 192.168.4.20[57] > 203.0.113.1[57]",
        "Out 10.18.0.254[4] > 10.18.0.1[4]",
        "Out 203.0.113.1[57] > 0.0.0.0/0[57]",
        "Out 203.0.113.1[57] > 192.168.4.0/24[57]",
        "Out 203.0.113.1[57] > 192.168.4.20[57]",
        "Sealed 10.19.0.0/16 > 192.168.4.0/24",
        "Sealed 10.19.0.0/16 > 192.168.4.20",
        "Opened 192.168.4.0/24 > 10.19.0.0/16",
        "Opened 192.168.4.20 > 10.19.0.0/16",
        "Returned 0.0.0.0/0 > 10.18.0.1",
        "Returned 10.18.0.1 > 0.0.0.0/0",
    ];
    assert_eq!(lines, expected);
    // In UDP, and from end to end.
    let mut more = with_fixed_entries();
    more.takes_udp = true;
    more.end_to_end = vec![[203, 0, 113, 40].into()];
    let passages = more.passages();
    let added = passages
        .iter()
        .map(text)
        .filter(|line| !lines.contains(line));
    let expected = [
        "In 0.0.0.0/0[udp] > 203.0.113.1[udp/61057]",
        "Out 203.0.113.1[udp/61057] > 0.0.0.0/0[udp]",
        "Forwarded 0.0.0.0/0[57] > 203.0.113.40[57]",
        "Forwarded 203.0.113.40[57] > 0.0.0.0/0[57]",
    ];
    assert_eq!(added.collect::<Vec<_>>(), expected);
    // Without nomadic entries nobody else may knock.
    let mut fixed = with_fixed_entries();
    fixed.entries.remove(0);
    fixed.home_agents.clear();
    let ways = fixed.passages();
    let anyone = |passage: &&Passage| passage.from.prefix_len() == Some(0);
    assert_eq!(ways.iter().filter(anyone).count(), 0);
    assert!(ways.iter().all(|passage| passage.way != Way::Returned));
}

/// An association with a node whose name is no address.
fn nameless_key() -> Association {
    let algorithms = Algorithms::new(KijAlg::TripleDes, CryptAlg::Des, MacAlg::Md5);
    let name = Name::new(Nsid::Md5PublicValue, &[9; 16]).expect("16 octets");
    association(algorithms.expect("they go together"), 9, [Name::NONE, name])
}

#[test]
fn configurations_that_would_let_anybody_in_are_refused() {
    let refused = |change: fn(&mut Config)| {
        let mut config = with_fixed_entries();
        change(&mut config);
        Firewall::new(config).err()
    };
    let nameless = refused(|config| config.entries[1].0 = Origin::Nomadic);
    assert_eq!(nameless, Some(Fault::List(ListFault::Nameless(B))));
    let open = refused(|config| {
        config.entries[1].1.association = by_address(1, MacAlg::None);
    });
    assert_eq!(open, Some(Fault::Unauthenticated(B)));
    let nowhere = refused(|config| config.entries[1].1.inside.clear());
    assert_eq!(nowhere, Some(Fault::NothingInside(B)));
    let no_agent = refused(|config| config.home_agents.clear());
    assert_eq!(no_agent, Some(Fault::NothingInside(A)));
    let parsing = refused(|config| {
        config.mode = Mode::PacketParsing;
        config.entries[0].1.association = nameless_key();
        config.entries[0].1.home_address = None;
    });
    assert_eq!(parsing, Some(Fault::NoHomeAddress(A)));
    let twice = refused(|config| {
        let mut again = config.entries[0].clone();
        again.1.association = nameless_key();
        config.entries[1] = again;
    });
    assert_eq!(twice, Some(Fault::RepeatedHome(A, B)));
    let many = refused(|config| config.home_agents = vec![AGENT; 1_001]);
    assert_eq!(many, Some(Fault::TooManyHomeAgents(1_001)));
    assert!(refused(|_| {}).is_none());
}
