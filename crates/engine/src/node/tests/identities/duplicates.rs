//! Two devices with one certificate.

use super::*;

const FIRST: [u8; 4] = [10, 0, 0, 10];
const SECOND: [u8; 4] = [10, 0, 0, 11];

fn device() -> Connection {
    certified_station(0, "CN=Ms", &["ms.example"], identity("ms.example"))
}

fn two_devices(device: impl Fn() -> Connection) -> Crowd {
    let mut crowd = Crowd::new(vec![certified_gateway(|_| {})]);
    crowd.enter(FIRST, device());
    crowd.enter(SECOND, device());
    crowd
}

fn established(crowd: &Crowd) -> usize {
    let events = crowd.members[0].events.iter();
    let is_it = |event: &&Event| matches!(event, Event::IkeEstablished { .. });
    events.filter(is_it).count()
}

fn shared(crowd: &Crowd) -> Vec<&Event> {
    let events = crowd.members[0].events.iter();
    let is_it = |event: &&Event| matches!(event, Event::CredentialShared { .. });
    events.filter(is_it).collect()
}

#[test]
fn the_one_that_is_ended_hears_why_and_waits() {
    let mut crowd = two_devices(device);
    assert!(!crowd.members[1].is_up() && crowd.members[2].is_up());
    let reason = "another device has come up with our identity";
    let heard = |event: &Event| match event {
        Event::NegotiationFailed { reason: why, .. } => why.starts_with(reason),
        _ => false,
    };
    assert!(crowd.members[1].events.iter().any(heard));
    crowd.run(Duration::from_secs(15));
    assert_eq!(established(&crowd), 2);
    // A change of routes is no reason to reconnect at once.
    let told = Ways::of_one(FIRST.into(), [GATEWAY.into()]);
    crowd.input(1, Input::Ways(told));
    crowd.run(Duration::from_secs(3));
    assert_eq!(established(&crowd), 2);
    // The user's command is.
    crowd.command(1, Command::Up("road".into()));
    crowd.run(Duration::from_secs(3));
    assert!(crowd.members[1].is_up() && !crowd.members[2].is_up());
}

#[test]
fn they_take_turns_more_and_more_slowly_and_the_gateway_says_so_now_and_then() {
    let waits_for_traffic = || {
        let mut device = device();
        device.start = Start::OnTraffic;
        device
    };
    for is_on_traffic in [false, true] {
        let mut crowd = match is_on_traffic {
            true => Crowd::new(vec![certified_gateway(|_| {})]),
            false => two_devices(device),
        };
        if is_on_traffic {
            crowd.enter(FIRST, waits_for_traffic());
            crowd.enter(SECOND, waits_for_traffic());
        }
        // Continuous traffic.
        for _ in 0..40 * 60 {
            for number in [1, 2] {
                crowd.input(number, Input::Notice(Notice::Acquire { child: ChildId(0) }));
            }
            crowd.run(Duration::from_secs(1));
        }
        let turns = established(&crowd);
        assert!((6..=20).contains(&turns), "{turns}");
        let told = shared(&crowd);
        assert_eq!(told.len(), 1);
        let Event::CredentialShared {
            peer,
            credential,
            places,
            ..
        } = told[0]
        else {
            unreachable!("found as one");
        };
        assert_eq!((peer.as_str(), *credential), ("ms.example", "certificate"));
        let mut places = [places.0.ip(), places.1.ip()];
        places.sort();
        assert_eq!(places, [IpAddr::from(FIRST), IpAddr::from(SECOND)]);
        for _ in 0..40 * 60 {
            crowd.run(Duration::from_secs(1));
        }
        assert!(shared(&crowd).len() <= 2);
    }
}

#[test]
fn a_peer_without_our_notification_is_told_by_delete_and_waits_the_second_time() {
    let mut crowd = Crowd::new(vec![certified_gateway(|_| {})]);
    crowd.enter(FIRST, device());
    let foreign = |crowd: &mut Crowd| {
        for session in crowd.members[0].endpoint.node.sessions.values_mut() {
            if session.ike.is_established() {
                session.ike.keys().peer.caravan = false;
            }
        }
    };
    foreign(&mut crowd);
    crowd.join(SECOND, vec![device()]);
    for _ in 0..20 * 60 * 20 {
        crowd.run(Duration::from_millis(50));
        foreign(&mut crowd);
    }
    let turns = established(&crowd);
    assert!((4..=30).contains(&turns), "{turns}");
    let deleted = |event: &Event| match event {
        Event::IkeClosed { cause, .. } => *cause == EndCause::DeletedByPeer,
        _ => false,
    };
    assert!(crowd.members[1].events.iter().any(deleted));
}

#[test]
fn one_device_that_restarts_or_moves_is_no_two() {
    let mut crowd = Crowd::new(vec![certified_gateway(|_| {})]);
    for address in [FIRST, SECOND, FIRST, FIRST] {
        let number = crowd.enter(address, device());
        assert!(crowd.members[number].is_up());
        crowd.run(Duration::from_secs(60));
        // Its power fails.
        crowd.members.remove(number);
    }
    assert_eq!(shared(&crowd).len(), 0);
}
