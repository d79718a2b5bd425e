//! Each party revokes, releases, loses and hears what it must not believe.

use std::net::{Ipv4Addr, SocketAddrV4};

use wire::codec::Writer;
use wire::mip4::{Authentication, Message, PORT, Revocation, RevocationAcknowledgment};

use super::world::*;
use crate::mip4::home_agent::{self, Change};
use crate::mip4::mobile_node::State;
use crate::mip4::revocation::{Fault, Policy};
use crate::mip4::{foreign_agent, mobile_node};
use crate::selector::TrafficSelector;
use crate::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn visits(world: &World) -> Vec<usize> {
    let count = |it: &foreign_agent::ForeignAgent| it.visitors().count();
    world.foreign.iter().map(count).collect()
}

/// The revocations and acknowledgments that were sent.
fn messages(world: &World) -> Vec<Message> {
    let payload = |packet: &Packet| match packet {
        Packet::Udp { payload, .. } => Message::parse(payload).unwrap().0,
        Packet::Icmp { .. } => panic!("not ICMP"),
    };
    let sent = world.seen.revocations.iter();
    sent.map(|(_, packet)| payload(packet)).collect()
}

#[test]
fn the_home_agent_revokes_and_the_foreign_agent_tells_the_node() {
    let mut world = World::registered(ALL, Link::Agent(0));
    assert!(world.home.revoke(HOME, world.now));
    world.run(SECOND / 25);
    assert_eq!(world.seen.changes, [Change::Registered, Change::Revoked]);
    assert_eq!((world.care_of(), visits(&world)), (vec![], vec![0, 0]));
    world.run(SECOND / 25);
    assert_eq!(
        (world.seen.revoked.as_slice(), world.seen.informed),
        (&[true][..], 1)
    );
    let [
        Message::Revocation(sent),
        Message::RevocationAcknowledgment(answer),
    ] = messages(&world)[..]
    else {
        panic!("{:?}", messages(&world));
    };
    assert!(sent.is_from_home_agent && sent.informs && answer.informs);
    assert_eq!(
        (sent.home_domain, sent.foreign_domain),
        (HOME_AGENT, AGENTS[0].1)
    );
    // The node asks again, and may.
    world.run(SECOND * 3);
    assert!(world.agrees());
    assert_eq!(world.care_of(), [AGENTS[0].1]);
    assert_eq!(
        (world.seen.unacknowledged, world.seen.revocations.len()),
        (0, 2)
    );
    assert!(!world.home.revoke(Ipv4Addr::LOCALHOST, world.now));
}

/// RFC 3543 §3.2: who decides whether the node is told.
#[test]
fn the_node_is_told_as_the_agents_have_agreed() {
    let quiet = Policy {
        has_inform: true,
        informs: false,
    };
    let own = Policy {
        has_inform: false,
        informs: true,
    };
    for (home, foreign, informed) in [
        (INFORMS, quiet, 1),
        (quiet, INFORMS, 0),
        (quiet, own, 1),
        (own, quiet, 0),
    ] {
        for is_by_home_agent in [true, false] {
            let policies = Policies {
                home: Some(home),
                foreign: Some(foreign),
                node: false,
            };
            let mut world = World::registered(policies, Link::Agent(0));
            let now = world.now;
            match is_by_home_agent {
                true => assert!(world.home.revoke(HOME, now)),
                false => assert!(world.foreign[0].revoke(HOME, now)),
            }
            world.run(SECOND / 5);
            let told = (world.seen.informed, world.seen.unacknowledged);
            assert_eq!(told, (informed, 0), "{home:?} {foreign:?}");
            let last = messages(&world).pop();
            let Some(Message::RevocationAcknowledgment(answer)) = last else {
                panic!("{last:?}");
            };
            let is_agreed = home.has_inform && foreign.has_inform;
            assert_eq!(answer.informs, is_agreed && informed == 1);
        }
    }
}

#[test]
fn the_foreign_agent_revokes_and_the_binding_ends() {
    let mut world = World::registered(ALL, Link::Agent(0));
    assert!(world.foreign[0].revoke(HOME, world.now));
    world.run(SECOND / 25);
    assert_eq!(world.seen.changes, [Change::Registered, Change::Revoked]);
    assert_eq!((world.care_of(), visits(&world)), (vec![], vec![0, 0]));
    world.run(SECOND / 25);
    assert_eq!(
        (world.seen.revoked.as_slice(), world.seen.informed),
        (&[false][..], 1)
    );
    let (now, number) = (world.now, Ipv4Addr::LOCALHOST);
    assert!(!world.foreign[0].revoke(number, now));
}

/// The foreign agent's host, or its link, gets the address of a visitor.
#[test]
fn the_home_agent_hears_of_a_visitor_whose_address_is_taken_there() {
    let mut world = World::registered(ALL, Link::Agent(0));
    let taken = vec![TrafficSelector::host(HOME.into())];
    world.foreign[0].set_local(taken, world.now);
    world.run(SECOND / 25);
    assert_eq!(world.seen.changes, [Change::Registered, Change::Revoked]);
    assert_eq!((world.care_of(), visits(&world)), (vec![], vec![0, 0]));
}

/// The agent that a node has left need not wait for the end of the lifetime.
#[test]
fn an_agent_hears_that_its_visitor_is_elsewhere() {
    for there in [Link::Agent(1), Link::Home, Link::Colocated(CARE_OF)] {
        let mut world = World::registered(ALL, Link::Agent(0));
        world.go(there);
        world.run(SECOND * 2);
        assert!(world.agrees(), "{there:?}");
        assert_eq!(world.seen.informed, 0);
        assert_eq!(world.seen.unacknowledged, 0);
        // And back, as if nothing had been.
        world.go(Link::Agent(0));
        world.run(SECOND * 10);
        assert_eq!(visits(&world), [1, 0]);
        assert!(world.agrees());
    }
}

#[test]
fn a_colocated_node_hears_that_its_registration_has_ended() {
    let mut world = World::registered(ALL, Link::Colocated(CARE_OF));
    assert!(world.home.revoke(HOME, world.now));
    world.run(SECOND / 5);
    assert_eq!((world.seen.node_revoked, world.seen.unacknowledged), (1, 0));
    assert_eq!(world.node.state(), State::Unreachable);
    assert_eq!(world.seen.revocations.len(), 2);
    world.run(SECOND * 2);
    assert!(world.agrees());
    assert_eq!(world.care_of(), [CARE_OF]);
}

#[test]
fn who_has_not_agreed_is_not_told() {
    let none = Policies {
        home: None,
        foreign: None,
        node: false,
    };
    let only_home = Policies {
        home: ALL.home,
        ..none
    };
    let only_others = Policies { home: None, ..ALL };
    for policies in [none, only_home, only_others] {
        for link in [Link::Agent(0), Link::Colocated(CARE_OF)] {
            let mut world = World::registered(policies, link);
            assert!(world.home.revoke(HOME, world.now));
            world.run(SECOND * 5);
            assert_eq!((world.care_of(), world.seen.revocations.len()), (vec![], 0));
            assert!(world.tunnel().is_some());
        }
    }
}

/// RFC 3543 §4.2.2.1: later and later, with a new identifier each time, never after the binding's
/// own end.
#[test]
fn a_lost_revocation_is_repeated_within_bounds() {
    for is_by_home_agent in [true, false] {
        let mut world = World::registered(ALL, Link::Agent(0));
        world.revocation_loss = 256;
        let start = world.now;
        match is_by_home_agent {
            true => world.home.revoke(HOME, start),
            false => world.foreign[0].revoke(HOME, start),
        };
        world.go(Link::Detached);
        world.run(SECOND * 400);
        let sent: Vec<u64> = world
            .seen
            .revocations
            .iter()
            .map(|(at, _)| at.since(start).as_secs())
            .collect();
        assert_eq!(sent, [0, 1, 3, 7, 15, 31, 63]);
        assert_eq!(world.seen.unacknowledged, 1);
        let mut identifiers: Vec<u32> = messages(&world)
            .iter()
            .map(|it| match it {
                Message::Revocation(it) => it.identifier,
                other => panic!("{other:?}"),
            })
            .collect();
        identifiers.dedup();
        assert_eq!(identifiers.len(), sent.len());
    }
}

/// Both revoke at once; each hears the other after its own.
#[test]
fn revocations_that_cross_are_both_acknowledged() {
    let mut world = World::registered(ALL, Link::Agent(0));
    let now = world.now;
    assert!(world.home.revoke(HOME, now) && world.foreign[0].revoke(HOME, now));
    world.run(SECOND / 2);
    let sent = messages(&world);
    let is_answer = |it: &&Message| matches!(it, Message::RevocationAcknowledgment(_));
    assert_eq!((sent.len(), sent.iter().filter(is_answer).count()), (4, 2));
    world.run(SECOND * 200);
    assert_eq!(world.seen.unacknowledged, 0);
}

/// An acknowledgment that is lost is sent again.
#[test]
fn a_repeated_revocation_is_acknowledged_again() {
    for is_by_home_agent in [true, false] {
        let mut world = World::registered(ALL, Link::Agent(0));
        let now = world.now;
        match is_by_home_agent {
            true => world.home.revoke(HOME, now),
            false => world.foreign[0].revoke(HOME, now),
        };
        world.go(Link::Detached);
        // The first arrives, its answer does not.
        world.run(Duration::from_millis(1));
        world.revocation_loss = 256;
        world.run(SECOND / 2);
        assert_eq!((world.care_of(), visits(&world)), (vec![], vec![0, 0]));
        world.revocation_loss = 0;
        world.run(SECOND * 100);
        assert_eq!((messages(&world).len(), world.seen.unacknowledged), (4, 0));
        assert_eq!(world.seen.revoked.len(), 1);
    }
}

/// One of a revocation's addresses.
type End = fn(&mut Forged) -> &mut Ipv4Addr;

/// A message between the agents that an attacker may write, if he has the key.
struct Forged {
    revocation: Revocation,
    from: Ipv4Addr,
    to: Ipv4Addr,
    between: Authentication,
    spi: u32,
}

impl Forged {
    /// A right revocation by the home agent (or the foreign one) at this second.
    fn right(is_from_home_agent: bool, world: &World) -> Self {
        let ends = [HOME_AGENT, AGENTS[0].1];
        let seconds = world.now.since(at(0)).as_secs();
        Self {
            revocation: Revocation {
                is_from_home_agent,
                informs: false,
                home_address: HOME,
                home_domain: HOME_AGENT,
                foreign_domain: AGENTS[0].1,
                identifier: timestamp(seconds),
            },
            from: ends[usize::from(!is_from_home_agent)],
            to: ends[usize::from(is_from_home_agent)],
            between: Authentication::ForeignHome,
            spi: SHARED,
        }
    }

    fn payload(&self) -> Vec<u8> {
        let mut w = Writer::new();
        self.revocation.write(&mut w);
        association(self.spi).sign(self.between, &mut w);
        w.into_vec()
    }

    fn packet(&self) -> Packet {
        packet(self.from, self.to, self.payload())
    }
}

fn timestamp(seconds: u64) -> u32 {
    (1_795_000_000 + 2_208_988_800 + seconds) as u32
}

fn packet(from: Ipv4Addr, to: Ipv4Addr, payload: Vec<u8>) -> Packet {
    Packet::Udp {
        from: SocketAddrV4::new(from, PORT),
        to: SocketAddrV4::new(to, PORT),
        ttl: 64,
        link: None,
        payload,
    }
}

/// The last refusal, of whichever agent the message went to.
fn fault(world: &World, is_from_home_agent: bool) -> Option<Fault> {
    match is_from_home_agent {
        true => match world.seen.refused_abroad.last() {
            Some(foreign_agent::Refusal::Revocation(fault)) => Some(*fault),
            _ => None,
        },
        false => match world.seen.refused.last() {
            Some(home_agent::Refusal::Revocation(fault)) => Some(*fault),
            _ => None,
        },
    }
}

#[test]
fn what_is_forged_stale_reflected_or_for_others_changes_nothing() {
    for is_by_home_agent in [true, false] {
        let mut world = World::registered(ALL, Link::Agent(0));
        let now = world.now;
        let mut check = |change: &dyn Fn(&mut Forged), expected| {
            let mut forged = Forged::right(is_by_home_agent, &world);
            change(&mut forged);
            let before = (world.seen.refused.len(), world.seen.refused_abroad.len());
            world.inject(forged.packet());
            assert_eq!(fault(&world, is_by_home_agent), Some(expected));
            let after = (world.seen.refused.len(), world.seen.refused_abroad.len());
            assert_eq!(after.0 + after.1, before.0 + before.1 + 1, "{expected:?}");
            assert!(world.agrees() && world.now == now);
            assert_eq!(world.seen.revocations.len(), 0);
        };
        check(
            &|it| it.revocation.is_from_home_agent ^= true,
            Fault::Reflected,
        );
        check(&|it| it.spi = 0x4000, Fault::NotAuthenticated);
        check(
            &|it| it.between = Authentication::MobileHome,
            Fault::NotAuthenticated,
        );
        check(&|it| it.revocation.identifier = timestamp(0), Fault::Stale);
        check(&|it| it.revocation.identifier -= 1 << 31, Fault::Stale);
        check(
            &|it| it.revocation.home_address = Ipv4Addr::LOCALHOST,
            Fault::NoBinding,
        );
        let other = Ipv4Addr::new(198, 51, 100, 66);
        let (own, peer): (End, End) = match is_by_home_agent {
            true => (
                |it| &mut it.revocation.foreign_domain,
                |it| &mut it.revocation.home_domain,
            ),
            false => (
                |it| &mut it.revocation.home_domain,
                |it| &mut it.revocation.foreign_domain,
            ),
        };
        check(&|it| *own(it) = other, Fault::WrongAddress);
        check(&|it| *peer(it) = other, Fault::NoAssociation);
        // Each bit counts.
        let good = Forged::right(is_by_home_agent, &world);
        let mut payload = good.payload();
        for bit in 0..payload.len() * 8 {
            payload[bit / 8] ^= 1 << (bit % 8);
            world.inject(packet(good.from, good.to, payload.clone()));
            payload[bit / 8] ^= 1 << (bit % 8);
            assert!(world.agrees(), "bit {bit}");
        }
        for end in 0..payload.len() {
            world.inject(packet(good.from, good.to, payload[..end].to_vec()));
            assert!(world.agrees(), "end {end}");
        }
        assert_eq!(world.seen.revocations.len(), 0);
        // And the right one is right.
        world.inject(good.packet());
        assert!(!world.agrees());
    }
}

/// An old revocation does not end the registration that follows it.
#[test]
fn a_revocation_cannot_be_replayed() {
    for is_by_home_agent in [true, false] {
        let mut world = World::registered(ALL, Link::Agent(0));
        let now = world.now;
        match is_by_home_agent {
            true => world.home.revoke(HOME, now),
            false => world.foreign[0].revoke(HOME, now),
        };
        world.run(SECOND * 30);
        assert!(world.agrees());
        assert_eq!(world.care_of(), [AGENTS[0].1]);
        let (_, old) = world.seen.revocations[0].clone();
        for _ in 0..3 {
            world.inject(old.clone());
            assert_eq!(fault(&world, is_by_home_agent), Some(Fault::Stale));
        }
        assert!(world.agrees());
        // Nor does it get an answer after the visit.
        world.go(Link::Home);
        world.run(SECOND * 10);
        let answers = world.seen.revocations.len();
        world.inject(old);
        assert_eq!(world.seen.revocations.len(), answers);
    }
}

#[test]
fn acknowledgments_of_nothing_and_forged_ones_are_refused() {
    for is_by_home_agent in [true, false] {
        let mut world = World::registered(ALL, Link::Agent(0));
        world.revocation_loss = 256;
        let now = world.now;
        match is_by_home_agent {
            true => world.home.revoke(HOME, now),
            false => world.foreign[0].revoke(HOME, now),
        };
        world.go(Link::Detached);
        world.run(SECOND / 5);
        let seconds = now.since(at(0)).as_secs();
        let answer = |identifier, spi| {
            let mut w = Writer::new();
            RevocationAcknowledgment {
                informs: false,
                home_address: HOME,
                identifier,
            }
            .write(&mut w);
            association(spi).sign(Authentication::ForeignHome, &mut w);
            w.into_vec()
        };
        let (from, to) = match is_by_home_agent {
            true => (AGENTS[0].1, HOME_AGENT),
            false => (HOME_AGENT, AGENTS[0].1),
        };
        let right = timestamp(seconds);
        let elsewhere = Ipv4Addr::new(198, 51, 100, 66);
        for (from, identifier, spi, expected) in [
            (from, right + 1, SHARED, Fault::Unexpected),
            (elsewhere, right, SHARED, Fault::Unexpected),
            (from, right, 0x4000, Fault::NotAuthenticated),
        ] {
            world.inject(packet(from, to, answer(identifier, spi)));
            assert_eq!(fault(&world, !is_by_home_agent), Some(expected));
        }
        world.inject(packet(from, to, answer(right, SHARED)));
        let sent = world.seen.revocations.len();
        world.run(SECOND * 200);
        assert_eq!(
            (world.seen.revocations.len(), world.seen.unacknowledged),
            (sent, 0)
        );
        world.inject(packet(from, to, answer(right, SHARED)));
        assert_eq!(fault(&world, !is_by_home_agent), Some(Fault::Unexpected));
    }
}

#[test]
fn a_colocated_node_believes_only_its_home_agent() {
    let mut world = World::registered(ALL, Link::Colocated(CARE_OF));
    let right = |world: &World| Forged {
        revocation: Revocation {
            foreign_domain: CARE_OF,
            ..Forged::right(true, world).revocation
        },
        from: HOME_AGENT,
        to: CARE_OF,
        between: Authentication::MobileHome,
        spi: OWN,
    };
    let changes: [&dyn Fn(&mut Forged); 6] = [
        &|it| it.spi = 0x4000,
        &|it| it.between = Authentication::ForeignHome,
        &|it| it.revocation.is_from_home_agent = false,
        &|it| it.revocation.foreign_domain = AGENTS[0].1,
        &|it| it.revocation.home_domain = AGENTS[0].1,
        &|it| it.revocation.identifier = timestamp(0),
    ];
    for change in changes {
        let mut forged = right(&world);
        change(&mut forged);
        world.inject(forged.packet());
    }
    let expected = mobile_node::Ignored {
        malformed: 0,
        unexpected: 3,
        unauthenticated: 2,
        untrusted: 0,
        stale: 1,
    };
    assert_eq!((world.node.ignored(), world.agrees()), (expected, true));
    let good = right(&world).packet();
    world.inject(good.clone());
    assert_eq!(world.seen.node_revoked, 1);
    world.run(SECOND * 10);
    assert!(world.agrees());
    world.inject(good);
    assert_eq!((world.node.ignored().stale, world.agrees()), (2, true));
}

/// RFC 3543 §4.2.1.
#[test]
fn a_visitor_that_supports_revocation_is_not_relayed() {
    use wire::mip4::{Extension, Request, RequestFlags};
    let mut world = World::registered(ALL, Link::Agent(0));
    let mut w = Writer::new();
    Request {
        flags: RequestFlags(RequestFlags::REVERSE_TUNNEL),
        lifetime: 60,
        home_address: HOME,
        home_agent: HOME_AGENT,
        care_of_address: AGENTS[0].1,
        identification: 7,
    }
    .write(&mut w);
    Extension::RevocationSupport {
        informs: false,
        timestamp: 1,
    }
    .write(&mut w);
    association(OWN).sign(Authentication::MobileHome, &mut w);
    world.inject(Packet::Udp {
        from: SocketAddrV4::new(HOME, PORT),
        to: SocketAddrV4::new(AGENTS[0].0, PORT),
        ttl: 255,
        link: Some(Link::Agent(0)),
        payload: w.into_vec(),
    });
    let expected = foreign_agent::Refusal::UnexpectedRevocationSupport;
    assert_eq!(world.seen.refused_abroad, [expected]);
}
