//! The version of IKE and the PPK of a tunnel: who has them, and what comes of a key without.

use wire::agent::Verdict;

use super::world::*;
use crate::agent::audit::{Event, Step, Why};
use crate::agent::client::{self, Outcome};
use crate::agent::host::{Record, State};
use crate::agent::ike::{IkeAbilities, IkeVersion};
use crate::agent::objectives::Objectives;
use crate::ikev2::ppk::PpkExchange;
use crate::time::Duration;

/// A world in which one user has asked.
fn asked(change: impl FnOnce(&mut World), seat: impl FnOnce(&mut client::Config)) -> World {
    let mut world = World::new(90);
    change(&mut world);
    world.boot();
    world.sit(1, seat);
    world.run(Duration::from_secs(5));
    world.check();
    world
}

fn record(world: &World) -> &Record {
    &world.keys[&handle(1)]
}

fn refused(world: &World, why: Why, verdict: Verdict) {
    let outcome = Some(Outcome::Refused(why, Some(verdict)));
    assert_eq!(world.seats[0].outcome, outcome);
    assert!(record(world).state == State::Valid && world.ends.is_empty());
}

fn only(version: IkeVersion) -> IkeAbilities {
    core::iter::once(version).collect()
}

#[test]
fn both_ends_have_the_ppk_of_the_key_and_host_has_forgotten_it() {
    let world = asked(|_| {}, |_| {});
    let (seat, end) = (&world.seats[0], world.ends.values().next().unwrap());
    assert!(seat.was_up && end.ike == IkeVersion::V2);
    let expected = key_ppk(1).of_tunnel(end.tunnel);
    assert_eq!(seat.ppk, Some(*expected.octets()));
    assert_eq!(
        end.ppk.as_ref().map(|ppk| *ppk.octets()),
        Some(*expected.octets())
    );
    assert!(record(&world).ppk.is_none());
    let up = world.log.iter().filter(|it| it.step == Step::Up);
    assert!(up.clone().count() == 2 && up.clone().all(|it| it.has_ppk));
    assert!(up.clone().all(|it| it.ike == Some(IkeVersion::V2)));
    let is_early = |it: &Event| it.ppk_exchange == Some(PpkExchange::IkeIntermediate);
    assert!(up.clone().all(is_early));
    // Neither a message nor a line of the log has it, or what it is made of.
    for octets in [expected.octets(), key_ppk(1).octets()] {
        let mut payloads = world.sent.iter().map(|(_, _, payload)| payload);
        assert!(payloads.all(|it| !it.windows(8).any(|part| part == &octets[..8])));
        let digits: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        let mut lines = world.log.iter().map(|event| event.to_string());
        assert!(lines.all(|line| !line.contains(&digits)));
    }
}

/// The database has the key alone, as one of an earlier time has.
#[test]
fn a_key_of_which_host_has_no_ppk_is_not_spent() {
    let forget = |world: &mut World| world.keys.get_mut(&handle(1)).unwrap().ppk = None;
    let world = asked(forget, |_| {});
    refused(&world, Why::HostRefused, Verdict::NoPpk);
    assert_eq!(world.told(Step::Refused, Why::NoPpk), 1);
}

#[test]
fn a_host_whose_ppk_differs_makes_no_tunnel() {
    let other = |world: &mut World| world.keys.get_mut(&handle(1)).unwrap().ppk = Some(key_ppk(2));
    let world = asked(other, |_| {});
    assert!(!world.seats[0].was_up && record(&world).state != State::Valid);
}

/// A token gives no secret away, and an end with IKEv1 has no PPK: then nobody has one.
#[test]
fn a_tunnel_has_no_ppk_where_an_end_has_none() {
    let v1 = only(IkeVersion::V1);
    let v2 = only(IkeVersion::V2);
    for (target, client, has_key, version) in [
        (IkeAbilities::ALL, IkeAbilities::ALL, false, IkeVersion::V2),
        (v2, IkeAbilities::ALL, true, IkeVersion::V2),
        (IkeAbilities::ALL, v2, true, IkeVersion::V2),
        (v1, IkeAbilities::ALL, true, IkeVersion::V1),
        (IkeAbilities::ALL, v1, true, IkeVersion::V1),
    ] {
        let world = asked(
            |world| world.ike = target,
            |config| {
                config.ike = client;
                config.ppk = config.ppk.take().filter(|_| has_key);
            },
        );
        let end = world.ends.values().next().unwrap();
        assert!(world.seats[0].was_up && end.ike == version && end.ppk.is_none());
        assert!(world.seats[0].ppk.is_none() && record(&world).ppk.is_none());
        let up = world.log.iter().filter(|it| it.step == Step::Up);
        assert!(up.clone().count() == 2 && up.clone().all(|it| it.ike == Some(version)));
        assert!(
            up.clone()
                .all(|it| !it.has_ppk && it.ppk_exchange.is_none())
        );
    }
}

#[test]
fn ends_without_a_common_version_spend_no_key_unless_nothing_is_negotiated() {
    let v1 = only(IkeVersion::V1);
    let v2 = only(IkeVersion::V2);
    for (target, client) in [(v1, v2), (v2, v1)] {
        let world = asked(|world| world.ike = target, |config| config.ike = client);
        refused(&world, Why::HostRefused, Verdict::NoCommonVersion);
        let world = asked(
            |world| world.ike = target,
            |config| {
                config.ike = client;
                config.objectives = Objectives::default();
            },
        );
        assert!(world.seats[0].was_up);
    }
}

#[test]
fn the_log_of_unprotected_traffic_names_no_version_of_ike_and_no_ppk() {
    let none = |config: &mut client::Config| config.objectives = Objectives::default();
    let world = asked(|_| {}, none);
    assert!(world.seats[0].was_up && world.log.iter().any(|it| it.step == Step::Up));
    for event in &world.log {
        let line = event.to_string();
        assert!(!line.contains(" ike=") && !line.contains(" ppk"), "{line}");
    }
}

#[test]
fn the_log_says_in_which_exchange_the_ppk_was_taken() {
    for (exchange, field) in [
        (Some(PpkExchange::IkeAuth), " ppk=yes ppk-in=ike-auth "),
        (
            Some(PpkExchange::IkeIntermediate),
            " ppk=yes ppk-in=ike-intermediate ",
        ),
        (None, " ppk=yes until="),
    ] {
        let world = asked(|world| world.ppk_exchange = exchange, |_| {});
        let up = world.log.iter().filter(|it| it.step == Step::Up);
        let lines: Vec<String> = up.map(Event::to_string).collect();
        assert!(
            lines.len() == 2 && lines.iter().all(|it| it.contains(field)),
            "{lines:?}"
        );
        let before = world.log.iter().filter(|it| it.step == Step::Built);
        assert!(before.clone().count() == 1 && before.clone().all(|it| it.ppk_exchange.is_none()));
    }
}
