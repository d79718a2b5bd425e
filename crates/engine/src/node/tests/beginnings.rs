//! A station that connects again and again, and its gateway's reports of that.

use super::*;
use crate::endpoint::Effect;
use crate::ike::Outbox;

fn reasons(world: &World, end: usize) -> Vec<String> {
    let reason = |event: &Event| match event {
        Event::IkeClosed { cause, .. } => Some(cause.to_string()),
        _ => None,
    };
    world.ends[end]
        .seen
        .events
        .iter()
        .filter_map(reason)
        .collect()
}

#[test]
fn a_station_that_refuses_its_gateway_has_not_restarted() {
    for is_aggressive in [false, true] {
        let mut world = World::new(70, move |connection, is_station| {
            connection.is_aggressive = is_aggressive;
            if is_station {
                let other = Identity::Fqdn("other.example".into());
                connection.remote.identities = vec![IdentityPattern::Is(other)];
            }
        });
        // A refused message 2 of aggressive mode may be forged, so its end takes time.
        world.run(Duration::from_secs(200));
        let failures = |event: &Event| matches!(event, Event::NegotiationFailed { .. });
        assert!(world.ends[0].count(failures) > 1);
        assert_eq!(world.ends[1].node.established(), 0);
        let refused = "the peer refused with AUTHENTICATION-FAILED";
        assert!(reasons(&world, 1).iter().all(|it| it == refused));
    }
}

#[test]
fn a_refusal_that_is_lost_does_not_make_a_restart_either() {
    let mut world = World::new(71, |connection, is_station| {
        connection.is_aggressive = false;
        if is_station {
            let other = Identity::Fqdn("other.example".into());
            connection.remote.identities = vec![IdentityPattern::Is(other)];
        }
    });
    // Six messages of main mode, then the refusal.
    world.network.loses = Some(7);
    world.run(Duration::from_secs(10));
    let reasons = reasons(&world, 1);
    assert_eq!(
        reasons[0],
        "the peer started again before anything was protected"
    );
    assert!(reasons.iter().all(|it| it != "the peer has restarted"));
}

#[test]
fn what_follows_a_delete_in_one_message_is_nothing() {
    let mut world = World::new(73, |_, _| {});
    world.run(Duration::from_secs(2));
    let session = world.ends[0].node.sessions.values().next().expect("one");
    let sa = session.ike.sa().expect("established");
    let contact = informational::notification(sa, NotifyType::InitialContact, None);
    let delete = informational::delete_ike(sa);
    let mut out = Outbox::default();
    informational::send(sa, vec![delete, contact], 0x54, &mut out);
    let message =
        super::super::session::with_marker(session.path(), out.messages[0].message.clone());
    let path = world.ends[1].path();
    world.deliver(1, path, &message);
    assert_eq!(world.ends[1].node.established(), 0);
}

/// The gateway's reasons for a killed station, with `meanwhile` in between.
fn reasons_of_a_restart(meanwhile: impl Fn(&mut World)) -> Vec<String> {
    let mut world = World::new(72, |connection, _| connection.is_aggressive = false);
    world.run(Duration::from_secs(2));
    meanwhile(&mut world);
    let seed = Seed::new([0x72; 32]);
    let station = endpoint(config(true, &world.change), &seed);
    world.replace(0, station);
    world.run(Duration::from_secs(2));
    world.assert_up();
    reasons(&world, 1)
}

#[test]
fn a_station_that_was_killed_has_restarted() {
    let reasons = reasons_of_a_restart(|_| {});
    assert_eq!(reasons, ["the peer has restarted"]);
}

#[test]
fn a_station_that_restarts_elsewhere_may_be_another_device() {
    let reasons = reasons_of_a_restart(World::rebind);
    let [reason] = &reasons[..] else {
        panic!("{reasons:?}");
    };
    assert!(
        reason.starts_with("the peer has restarted, at "),
        "{reason}"
    );
    assert!(
        reason.ends_with("two devices share one certificate or key"),
        "{reason}"
    );
}

#[test]
fn entropy_changes_what_a_node_draws_and_without_it_a_seed_is_all() {
    let first = |entropy: Option<[u8; 32]>| {
        let change: Change = Arc::new(|_, _| {});
        let mut station = endpoint(config(true, &change), &Seed::new([0x73; 32]));
        let inputs = entropy.iter().map(Input::Entropy).chain([Input::Wake]);
        let mut sent = Vec::new();
        for input in inputs {
            station.handle(input, Instant(1));
            while let Some(effect) = station.poll(Instant(1)) {
                if let Effect::Message(_, octets) = effect {
                    sent.push(octets);
                }
            }
        }
        sent
    };
    let [plain, same, stirred, other] = [None, None, Some([1; 32]), Some([2; 32])].map(first);
    assert!(!plain.is_empty() && plain == same);
    assert!(plain != stirred && stirred != other);
}
