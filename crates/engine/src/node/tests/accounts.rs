//! Session accounting: the beginning and the end of every stay are reported once, whatever ends it.

use super::revoked::{STATION_SERIAL, certified, reload};
use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

fn began(end: &End) -> Vec<&Stay> {
    let told = end.seen.events.iter().filter_map(|event| match event {
        Event::SessionBegan { stay } => Some(&**stay),
        _ => None,
    });
    told.collect()
}

fn ended(end: &End) -> Vec<(&Stay, &Summary)> {
    let told = end.seen.events.iter().filter_map(|event| match event {
        Event::SessionEnded { stay, summary } => Some((&**stay, &**summary)),
        _ => None,
    });
    told.collect()
}

/// The report of an end's only stay.
fn only(end: &End) -> (&Stay, &Summary) {
    let (began, ended) = (began(end), ended(end));
    assert_eq!((began.len(), ended.len()), (1, 1), "{:#?}", end.seen.events);
    assert_eq!(began[0].id, ended[0].0.id);
    ended[0]
}

fn up(seed: u8) -> World {
    let mut world = World::new(seed, |_, _| {});
    world.run(Duration::from_secs(2));
    world.assert_up();
    world
}

/// Packets of so many octets travel from an end to the other.
fn carry(world: &mut World, end: usize, times: usize, bytes: u16) {
    let ends = [world.ends[0].inner()[0], INSIDE.into()];
    for _ in 0..times {
        let packet = datagram(ends[end], ends[1 - end], bytes);
        assert!(world.send(end, packet));
    }
    world.run(Duration::from_millis(100));
}

/// The gateway's control gets an input, and its planes hear nothing of what it does. Returns its
/// next deadline.
fn control_alone(world: &mut World, input: Input<'_>) -> Option<Instant> {
    let now = world.now;
    let End { endpoint, seen } = &mut world.ends[1];
    endpoint.node.handle(input, now);
    loop {
        match endpoint.node.poll() {
            Output::Event(event, _) => seen.events.push(event),
            Output::Wait(deadline) => return deadline.map(|deadline| deadline.at),
            _ => {}
        }
    }
}

#[test]
fn a_beginning_names_who_where_and_as_whom() {
    let world = up(120);
    let (station, gateway) = (began(&world.ends[0])[0], began(&world.ends[1])[0]);
    assert_eq!(gateway.connection, "road");
    assert_eq!(gateway.identity, "ms.example");
    assert_eq!(gateway.remote.ip(), IpAddr::from(NAT));
    assert_eq!(gateway.inner, world.ends[0].inner());
    assert_eq!(station.identity, "sg.example");
    assert_eq!(station.inner, world.ends[0].inner());
    // Both ends use the same name.
    assert_eq!(station.id, gateway.id);
    assert_eq!(station.id.to_string().len(), 16);
}

#[test]
fn an_end_tells_how_long_and_how_much() {
    let mut world = up(121);
    world.run(Duration::from_secs(100));
    world.is_mute = true;
    carry(&mut world, 0, 7, 100);
    carry(&mut world, 1, 9, 1_000);
    world.command(0, Command::Down("road".into()));
    world.run(Duration::from_secs(5));
    assert_eq!(only(&world.ends[0]).1.cause, EndCause::TakenDown);
    let (_, summary) = only(&world.ends[1]);
    assert_eq!(summary.cause, EndCause::DeletedByPeer);
    let traffic = |packets, bytes| Traffic { packets, bytes };
    assert_eq!(summary.received, traffic(7, 700));
    assert_eq!(summary.sent, traffic(9, 9_000));
    assert!(summary.is_complete);
    assert!((100..103).contains(&summary.duration.as_secs()));
}

#[test]
fn a_renewal_is_no_end_and_what_passed_before_it_counts() {
    let mut world = World::new(122, |connection, _| {
        connection.lifetime = HOUR;
        connection.rekey_margin = Duration::from_secs(360);
    });
    world.run(Duration::from_secs(2));
    for _ in 0..10 {
        // each comes back
        carry(&mut world, 0, 1, 100);
        world.run(HOUR);
    }
    let renewals = world.ends[1].count(|event| matches!(event, Event::IkeEstablished { .. }));
    assert!(renewals >= 10, "{renewals}");
    assert!(ended(&world.ends[1]).is_empty() && ended(&world.ends[0]).is_empty());
    for end in [0, 1] {
        world.command(end, Command::RekeyIke("road".into()));
        world.command(end, Command::RekeyChildren("road".into()));
        world.run(Duration::from_secs(30));
    }
    let peer = Identity::Fqdn("ms.example".into());
    world.command(1, Command::End("road".into(), peer));
    world.run(Duration::from_millis(10));
    let (_, summary) = only(&world.ends[1]);
    assert_eq!(summary.cause, EndCause::TakenDown);
    assert_eq!(summary.received.packets, 10);
    assert_eq!((summary.sent.packets, summary.sent.bytes), (10, 1_000));
    assert!(summary.duration > 10 * HOUR);
    assert!(world.ends[1].node.accounts.are_empty());
}

#[test]
fn a_peer_that_falls_silent_ends_when_that_is_known() {
    let mut world = World::new(123, |connection, _| {
        connection.dpd_delay = Some(Duration::from_secs(10));
    });
    world.run(Duration::from_secs(2));
    world.network.loss = 1.0;
    world.run(Duration::from_secs(60));
    assert_eq!(only(&world.ends[1]).1.cause, EndCause::PeerSilent);
    assert!(only(&world.ends[1]).1.is_complete);
}

#[test]
fn a_peer_that_comes_back_anew_begins_anew() {
    let mut world = up(124);
    let seed = Seed::new([77; 32]);
    let station = endpoint(config(true, &world.change), &seed);
    world.replace(0, station);
    world.run(Duration::from_secs(5));
    let gateway = &world.ends[1];
    assert_eq!(began(gateway).len(), 2);
    let ended = ended(gateway);
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].1.cause, EndCause::PeerRestarted);
    assert_eq!(ended[0].0.id, began(gateway)[0].id);
    assert_ne!(began(gateway)[0].id, began(gateway)[1].id);
}

#[test]
fn a_revocation_and_a_changed_configuration_end_it() {
    let mut world = certified((Version::V1, true), 125);
    world.run(Duration::from_secs(2));
    reload(&mut world, 1, &[STATION_SERIAL]);
    let (stay, summary) = only(&world.ends[1]);
    assert_eq!(stay.identity, "ms.example");
    assert_eq!(summary.cause.code(), "certificate-refused");

    let mut world = up(126);
    let changed: Change = Arc::new(|connection: &mut Connection, _| connection.revision = 2);
    let other = config(false, &changed);
    world.input(1, Input::Configure(Arc::new(other)));
    assert_eq!(only(&world.ends[1]).1.cause, EndCause::ConfigurationChanged);
}

#[test]
fn a_program_that_stops_tells_every_end_first() {
    let mut world = up(127);
    world.command(1, Command::Stop);
    assert_eq!(only(&world.ends[1]).1.cause, EndCause::Stopped);
    assert_eq!(world.ends[1].seen.events.last(), Some(&Event::Stopped));
    assert_eq!(world.ends[1].count(|event| *event == Event::Stopped), 1);
}

#[test]
fn a_plane_that_does_not_answer_holds_no_end_up_for_long() {
    let mut world = up(128);
    let end = world.now + Duration::from_secs(6);
    let mut due = control_alone(&mut world, Input::Command(Command::Stop));
    assert!(!world.ends[1].told(|event| *event == Event::Stopped));
    while let Some(at) = due.filter(|at| *at <= end) {
        world.now = at;
        due = control_alone(&mut world, Input::Wake);
    }
    let (_, summary) = only(&world.ends[1]);
    assert!(!summary.is_complete);
    assert!(
        summary.duration < Duration::from_secs(4),
        "its end, not ours"
    );
    assert_eq!(world.ends[1].seen.events.last(), Some(&Event::Stopped));
    assert!(world.ends[1].node.accounts.are_empty());
}

#[test]
fn a_peer_that_never_had_a_child_was_not_connected() {
    let mut world = World::new(129, |connection, is_station| {
        if is_station {
            connection.children[0].remote = vec!["10.77.0.0/24".parse().unwrap()];
        }
    });
    world.run(Duration::from_secs(30));
    assert!(world.ends[1].told(|event| matches!(event, Event::IkeClosed { .. })));
    for end in &world.ends {
        assert!(began(end).is_empty() && ended(end).is_empty());
        assert!(end.node.accounts.are_empty());
    }
}
