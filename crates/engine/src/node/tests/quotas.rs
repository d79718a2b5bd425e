//! Limits of an authenticated peer: it must not exhaust the gateway's processor, its log or its
//! tables.

use super::identities::{Crowd, group_of};
use super::turns::of_version;
use super::*;
use crate::ikev1::in_clear::write;
use crate::ikev1::phase1::MAX_COMPLAINTS;

fn began(end: &End) -> usize {
    end.count(|event| matches!(event, Event::SessionBegan { .. }))
}

fn refusals(end: &End) -> usize {
    end.count(|event| match event {
        Event::NegotiationFailed { reason, .. } => reason.contains("is over its quota"),
        _ => false,
    })
}

#[test]
fn one_that_comes_and_goes_without_end_is_slowed_down_and_is_served_again() {
    for (seed, (version, is_aggressive)) in (147..).zip(MODES) {
        let mut world = World::of(version, seed, move |connection, _| {
            connection.is_aggressive = is_aggressive;
        });
        world.run(Duration::from_secs(2));
        for _ in 0..200 {
            world.command(0, Command::Down("road".into()));
            world.run(Duration::from_millis(100));
            world.command(0, Command::Up("road".into()));
            world.run(Duration::from_millis(400));
        }
        // 100 seconds of it.
        let times = began(&world.ends[1]);
        assert!((60..=60 + 35).contains(&times), "{times}");
        assert!(world.drops(1, DropReason::OverQuota) > 0);
        assert!((1..=2).contains(&refusals(&world.ends[1])));
        world.run(Duration::from_secs(90));
        world.assert_up();
        let ended = world.ends[1].count(|event| matches!(event, Event::SessionEnded { .. }));
        assert_eq!(
            ended + 1,
            began(&world.ends[1]),
            "every line of an account is there"
        );
    }
}

#[test]
fn one_that_renews_its_children_without_end_is_slowed_down_and_is_served_again() {
    for version in VERSIONS {
        let mut world = World::of(version, 152, |_, _| {});
        world.run(Duration::from_secs(2));
        for _ in 0..600 {
            world.command(0, Command::RekeyChildren("road".into()));
            world.run(Duration::from_millis(100));
        }
        let up = |event: &Event| matches!(event, Event::ChildEstablished { .. });
        // A minute of it.
        let times = world.ends[1].count(up);
        assert!((256..=256 + 4 * 64).contains(&times), "{times}");
        assert!(world.drops(1, DropReason::OverQuota) > 0);
        assert_eq!(refusals(&world.ends[1]), 1);
        world.run(Duration::from_secs(60));
        world.assert_up();
        world.command(0, Command::RekeyChildren("road".into()));
        let before = world.ends[1].count(up);
        world.run(Duration::from_secs(2));
        assert_eq!(world.ends[1].count(up), before + 1);
        assert!(!world.ends[0].told(|event| matches!(event, Event::IkeClosed { .. })));
    }
}

#[test]
fn sixty_children_that_are_renewed_each_minute_and_come_back_from_elsewhere_are_honest() {
    for version in VERSIONS {
        let mut world = of_version(version, 153, 60, |_| {});
        for _ in 0..10 {
            world.run(Duration::from_secs(54));
            for end in [0, 1] {
                world.command(end, Command::RekeyChildren("road".into()));
                world.run(Duration::from_secs(3));
            }
            world.command(0, Command::RekeyIke("road".into()));
        }
        let up = |world: &World| {
            let children: BTreeSet<&ChildId> = world.ends[1].seen.inbound.values().collect();
            children.len()
        };
        assert_eq!(up(&world), 60);
        for _ in 0..3 {
            world.command(0, Command::Down("road".into()));
            world.run(Duration::from_secs(1));
            world.rebind();
            world.command(0, Command::Up("road".into()));
            world.run(Duration::from_secs(5));
            assert_eq!(up(&world), 60);
        }
        assert_eq!(world.drops(1, DropReason::OverQuota), 0);
    }
}

#[test]
fn a_peer_has_so_many_lines_of_the_log_and_what_is_left_out_is_counted() {
    for version in VERSIONS {
        let mut world = World::of(version, 154, |_, _| {});
        let (path, message) = renewing(&mut world);
        let now = world.now;
        let gateway = &mut world.ends[1].node;
        gateway.handle(Input::Datagram(path, &message), now);
        let cause = next_cause(gateway);
        let lines = (0..300).filter(|_| gateway.takes_line(&cause, now));
        let written = lines.count();
        assert_eq!(written, 200);
        let left_out = gateway.lines_left_out();
        assert_eq!(left_out, [("ms.example of road".to_owned(), 100)]);
        // Events without a cause are always logged.
        while !matches!(gateway.poll(), Output::Wait(_)) {}
        gateway.handle(Input::Command(Command::Stop), now);
        let cause = next_cause(gateway);
        assert!(gateway.takes_line(&cause, now));
    }
}

/// The station begins to renew its child: the message by which it does.
fn renewing(world: &mut World) -> (Path, Vec<u8>) {
    world.run(Duration::from_secs(2));
    world.command(0, Command::RekeyChildren("road".into()));
    let sent = world.network.wire.pop().expect("a request");
    (sent.path, sent.octets)
}

/// The cause of the next event.
fn next_cause(node: &mut Node) -> Cause {
    loop {
        match node.poll() {
            Output::Event(_, cause) => return cause,
            Output::Wait(_) => panic!("no event"),
            _ => {}
        }
    }
}

#[test]
fn a_peer_that_its_packets_show_elsewhere_again_and_again_does_so_on_its_own_account() {
    for version in VERSIONS {
        let mut world = World::of(version, 156, |_, _| {});
        world.run(Duration::from_secs(2));
        let child = *world.ends[1].seen.inbound.values().next().expect("a child");
        let mut path = world.ends[1].path();
        let (now, gateway) = (world.now, &mut world.ends[1].node);
        let mut written = 0;
        for port in 7_000..7_300 {
            path.remote.set_port(port);
            let bytes = 100;
            gateway.handle(Input::Notice(Notice::PathMoved { child, path, bytes }), now);
            loop {
                match gateway.poll() {
                    Output::Event(Event::PathMoved { .. }, cause) => {
                        written += usize::from(gateway.takes_line(&cause, now));
                    }
                    Output::Wait(_) => break,
                    _ => {}
                }
            }
        }
        assert_eq!(written, 200);
        assert_eq!(
            gateway.lines_left_out(),
            [("ms.example of road".to_owned(), 100)]
        );
    }
}

#[test]
fn a_child_that_is_refused_and_comes_again_from_elsewhere_moves_nobody() {
    for version in VERSIONS {
        let mut world = World::of(version, 157, |_, _| {});
        world.run(Duration::from_secs(2));
        let session = world.ends[1].node.sessions.values().next().expect("one");
        let peer = session.ike.identity().expect("established").clone();
        let now = world.now;
        let quotas = &mut world.ends[1].node.quotas;
        while quotas.take_child(&peer, 1, now).is_ok() {}
        world.command(0, Command::RekeyChildren("road".into()));
        let Datagram {
            path,
            octets: message,
            ..
        } = world.network.wire.pop().expect("a quick mode");
        let elsewhere = Path {
            remote: "203.0.113.66:4500".parse().expect("an address"),
            ..path
        };
        world.deliver(1, elsewhere, &message);
        assert_eq!(world.drops(1, DropReason::OverQuota), 1);
        assert_eq!(world.ends[1].path(), path);
    }
}

#[test]
fn whoever_reads_the_cookies_of_an_exchange_has_a_few_lines_of_the_log() {
    let mut world = World::new(158, |_, _| {});
    let first = world.first_message().expect("a first message");
    let (header, _) = Header::parse(&first).expect("a header");
    let session = world.ends[0].node.sessions.values().next().expect("one");
    let path = session.path();
    let notify = Payload::Notify(wire::isakmp::Notify {
        protocol: ProtocolId::Isakmp,
        spi: Vec::new(),
        kind: NotifyType::NoProposalChosen,
        value: Vec::new(),
    });
    for id in 1..1_000 {
        let forged = write(header.cookies, notify.clone(), id);
        world.deliver(0, path, &forged);
    }
    let complaints = |event: &Event| matches!(event, Event::PeerComplains { .. });
    assert_eq!(world.ends[0].count(complaints), MAX_COMPLAINTS as usize);
}

#[test]
fn quick_modes_that_a_peer_leaves_unfinished_are_on_its_own_account() {
    let mut world = World::new(155, |_, _| {});
    let (path, message) = renewing(&mut world);
    let (now, gateway) = (world.now, &mut world.ends[1].node);
    gateway.handle(Input::Datagram(path, &message), now);
    let cause = loop {
        match gateway.poll() {
            Output::Event(Event::NegotiationFailed { reason, .. }, cause)
                if reason.contains("to quick 2") =>
            {
                break cause;
            }
            Output::Wait(deadline) => {
                let at = deadline.expect("it waits for the third message").at;
                gateway.handle(Input::Wake, at);
            }
            _ => {}
        }
    };
    let cause = cause.0.as_ref().map(ToString::to_string);
    assert_eq!(cause.as_deref(), Some("ms.example"));
}

#[test]
fn a_key_for_many_has_so_many_peers_and_the_next_comes_in_when_one_leaves() {
    let (gateway, guest) = group_of(2);
    let mut crowd = Crowd::new(vec![gateway]);
    let first = crowd.enter([192, 0, 2, 11], guest("a.example"));
    crowd.enter([192, 0, 2, 12], guest("b.example"));
    let third = crowd.enter([192, 0, 2, 13], guest("c.example"));
    assert_eq!(crowd.guests().len(), 2);
    assert!(crowd.drops(DropReason::TooManySessions) > 0);
    assert!(
        crowd
            .refusal()
            .contains("2 peers with the same pre-shared key")
    );
    // Connected peers can renew.
    crowd.command(first, Command::RekeyIke("road".into()));
    crowd.run(Duration::from_secs(10));
    assert!(crowd.is_up(first) && !crowd.is_up(third));
    crowd.command(first, Command::Down("road".into()));
    crowd.run(Duration::from_secs(150));
    assert!(crowd.is_up(third));
    assert_eq!(crowd.guests().len(), 2);
}

/// A repetition within a second is not looked at, and dropped for the reason of the first.
#[test]
fn a_request_that_is_repeated_is_counted_under_its_own_reason() {
    let mut world = World::new(159, |connection, is_station| {
        super::ikev2::speaks(connection, crate::config::Version::V2);
        if !is_station {
            connection.remote.identities = vec![IdentityPattern::Any];
            connection.peers_max = 0;
        }
    });
    world.run(Duration::from_millis(950));
    assert_eq!(world.network.log.len(), 4, "the request came twice");
    assert_eq!(world.drops(1, DropReason::TooManySessions), 2);
    assert_eq!(world.drops(1, DropReason::OverQuota), 0);
}
