//! Keys and requests that are wrong, agents that are busy, databases that fail, clocks that differ.

use std::net::SocketAddr;

use wire::agent::{Fate, Kind, Message, Request, Verdict};

use super::world::*;
use crate::agent::audit::{Step, Why};
use crate::agent::client::{Config, Outcome};
use crate::agent::envelope;
use crate::agent::host::{self, State};
use crate::agent::objectives::{Options, SecurityOption};
use crate::agent::target;
use crate::time::{Calendar, Duration};

/// How a request ends, and whether its key is still valid.
fn outcome(
    prepare: impl FnOnce(&mut World),
    change: impl FnOnce(&mut Config),
) -> (World, Outcome, bool) {
    let mut world = World::new(40);
    prepare(&mut world);
    world.boot();
    let seat = world.sit(1, change);
    world.run(Duration::from_secs(100));
    assert!(world.ends.is_empty() && world.seats[seat].tunnel.is_none());
    let outcome = world.seats[seat].outcome.expect("it is over");
    let key = world.keys.get(&handle(1));
    let is_valid = key.is_some_and(|it| it.state == State::Valid);
    // What its user is told of the key is so.
    let state = key.map(|it| &it.state);
    match world.seats[seat].client.as_ref().unwrap().fate() {
        Fate::NotSpent => assert!(matches!(state, Some(State::Valid | State::Revoked))),
        Fate::Spent => assert!(matches!(
            state,
            Some(State::Used { .. } | State::Failed { .. })
        )),
        Fate::Unknown => {
            assert_eq!(
                outcome,
                Outcome::Refused(Why::NoAnswer, None),
                "Host has told it"
            );
        }
    }
    (world, outcome, is_valid)
}

fn refused(why: Why, verdict: Verdict) -> Outcome {
    Outcome::Refused(why, Some(verdict))
}

fn esp_alone() -> Options {
    [SecurityOption::Esp].into_iter().collect()
}

#[test]
fn a_key_that_is_unknown_gets_no_answer() {
    let (world, outcome, _) = outcome(|world| world.keys.clear(), |_| {});
    assert_eq!(outcome, Outcome::Refused(Why::NoAnswer, None));
    let drops = world.hosts[0].as_ref().unwrap().drops();
    assert!(drops[&host::Discard::UnknownKey] >= 3);
}

#[test]
fn a_wrong_signature_gets_no_answer_and_changes_nothing() {
    let (world, outcome, is_valid) = outcome(
        |world| world.issue(1, host::Half::Public(one_time(2).public())),
        |_| {},
    );
    assert_eq!(outcome, Outcome::Refused(Why::NoAnswer, None));
    assert!(is_valid);
    assert!(world.told(Step::Refused, Why::WrongSignature) >= 1);
}

#[test]
fn holders_of_revoked_and_expired_keys_and_wrong_users_are_told() {
    let (_, outcome_of_revoked, _) = outcome(
        |world| assert!(world.keys.get_mut(&handle(1)).unwrap().revoke()),
        |_| {},
    );
    let expected = refused(Why::KeyRevoked, Verdict::KeyRevoked);
    assert_eq!(outcome_of_revoked, expected);
    let (_, outcome_of_expired, _) = outcome(
        |world| world.keys.get_mut(&handle(1)).unwrap().not_after = Calendar(TODAY.0 - 1),
        |_| {},
    );
    let expected = refused(Why::KeyExpired, Verdict::KeyExpired);
    assert_eq!(outcome_of_expired, expected);
    let (world, outcome, is_valid) = outcome(|_| {}, |config| config.user = "mallory".into());
    assert_eq!(outcome, refused(Why::HostRefused, Verdict::Denied));
    assert!(is_valid);
    assert_eq!(world.told(Step::Refused, Why::WrongUser), 1);
}

#[test]
fn an_option_that_an_end_cannot_do_costs_no_key() {
    // Client's own back-end: nobody hears of it.
    let (world, outcome_of_client, is_valid) =
        outcome(|_| {}, |config| config.options = esp_alone());
    let expected = Outcome::Refused(Why::OptionNotAtClient, None);
    assert_eq!((outcome_of_client, is_valid), (expected, true));
    assert!(world.sent.is_empty());
    // Target's.
    let (world, outcome, is_valid) = outcome(|world| world.options = esp_alone(), |_| {});
    let expected = refused(Why::OptionNotAtTarget, Verdict::OptionUnavailable);
    assert_eq!((outcome, is_valid), (expected, true));
    // Host says so, and Client.
    assert_eq!(world.told(Step::Refused, Why::OptionNotAtTarget), 2);
}

#[test]
fn who_is_no_member_or_not_on_the_access_list_has_spent_his_key() {
    let (world, denied, is_valid) = outcome(|world| world.access = None, |_| {});
    assert_eq!(denied, refused(Why::HostRefused, Verdict::Denied));
    assert!(!is_valid);
    assert_eq!(world.told(Step::Refused, Why::NotMember), 1);
    assert_eq!(world.told(Step::KeyFailed, Why::TargetRefused), 1);
    let (world, denied, _) = outcome(
        |world| world.access.as_mut().unwrap().options = esp_alone(),
        |_| {},
    );
    assert_eq!(denied, refused(Why::HostRefused, Verdict::Denied));
    assert_eq!(world.told(Step::Refused, Why::NotAllowed), 1);
}

#[test]
fn a_client_with_a_wrong_clock_is_told_the_time_and_comes_in() {
    for ahead in [-86_400, -301, 301, 86_400 * 365] {
        let mut world = World::new(41);
        world.ahead[0] = ahead;
        world.boot();
        let seat = world.sit(1, |_| {});
        world.run(Duration::from_secs(5));
        assert!(world.seats[seat].was_up, "{ahead}");
        assert_eq!(world.told(Step::Refused, Why::ClocksApart), 1);
        let told: Vec<i64> = world
            .told_times
            .iter()
            .map(|(ours, told)| ours.0 - told.0)
            .collect();
        assert_eq!(told, [ahead]);
        world.run(LIFETIME);
        assert_eq!(world.seats[seat].tunnel, None);
        assert!(world.ends.is_empty());
    }
    let mut world = World::new(42);
    world.ahead[0] = 299;
    world.boot();
    let seat = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    assert!(world.seats[seat].was_up);
    assert_eq!(world.told(Step::Refused, Why::ClocksApart), 0);
}

/// The time that Host tells is too far ahead, or after the keys: nothing is signed for it.
#[test]
fn no_request_is_signed_for_a_far_day() {
    let signed_for = |world: &World| -> Vec<i64> {
        let sent = world
            .sent
            .iter()
            .filter(|(from, ..)| *from == Node::Client(0));
        let times = sent.filter_map(|(.., payload)| {
            let Ok(Message::Sealed(sealed)) = Message::parse(payload) else {
                return None;
            };
            let opened = envelope::open(&sealed, &host_keys().sealing).ok()?;
            Some(Request::parse(&opened.body).ok()?.time as i64 - TODAY.0)
        });
        times.collect()
    };
    // Client's clock is behind by more than a day.
    let (world, refused_by, is_valid) = outcome(|world| world.ahead[0] = -86_500, |_| {});
    assert_eq!(refused_by, refused(Why::HostRefused, Verdict::ClocksApart));
    assert!(is_valid && world.told_times.is_empty());
    assert!(signed_for(&world).iter().all(|time| *time < -86_000));
    // Host's is after the keys' last time, and so is Client's: still nothing is signed for it.
    for ahead in [[-80_000, 7_000, 7_000], [100_000, 7_000, 7_000]] {
        let (world, _, is_valid) = outcome(
            |world| world.ahead = ahead,
            |config| config.head.not_after = Calendar(TODAY.0 + 5_000),
        );
        assert!(is_valid && world.told_times.is_empty(), "{ahead:?}");
        assert!(signed_for(&world).iter().all(|time| *time <= 5_000));
    }
}

/// Target does not hear a Host of another time, not even its inquiry: no key is spent.
#[test]
fn a_host_with_a_wrong_clock_spends_no_key() {
    for ahead in [-400, 400] {
        let (_, _, is_valid) = outcome(|world| world.ahead[1] = ahead, |_| {});
        assert!(is_valid);
    }
}

#[test]
fn a_database_that_never_answers_ends_in_a_refusal_and_no_tunnel() {
    let (_, outcome, is_valid) = outcome(|world| world.broken = 256, |_| {});
    assert_eq!(outcome, Outcome::Refused(Why::NoAnswer, None));
    assert!(is_valid);
}

/// Strangers ask with random handles, ten thousand a second, from forged addresses.
#[test]
fn an_honest_client_comes_in_while_strangers_flood_the_host() {
    let mut world = World::new(43);
    world.boot();
    let flood = |world: &mut World, count: u32| {
        for _ in 0..count {
            let mut octets = vec![0; 200];
            world.chance.fill(&mut octets);
            octets[..4].copy_from_slice(b"CTA\x03");
            octets[4..6].copy_from_slice(&[1, 0]);
            let number = world.chance.u32() | 0x0100_0000;
            let from = SocketAddr::from((number.to_be_bytes(), 7));
            world.deliver(Node::Host(0), from, &octets);
        }
    };
    flood(&mut world, 300);
    let seat = world.sit(1, |config| config.head.addresses.truncate(1));
    for _ in 0..300 {
        flood(&mut world, 100);
        world.run(Duration::from_millis(10));
    }
    assert!(world.seats[seat].was_up);
    let host = world.hosts[0].as_ref().unwrap();
    assert!(host.drops()[&host::Discard::NeedsCookie] > 20_000);
    assert!(host.exchanges() < 200, "{}", host.exchanges());
}

/// Somebody writes the name of Host and Target and forges the address of each, all the time, and
/// repeats what they have said. Nothing of it is opened, and a user comes in beside it.
#[test]
fn forged_and_repeated_messages_between_agents_take_nothing_from_true_ones() {
    let mut world = World::new(47);
    world.boot();
    let flood = |world: &mut World| {
        let mut junk = vec![0; 200];
        world.chance.fill(&mut junk);
        let agents = [
            (Node::Host(0), host_keys(), Node::Target, Kind::Inquiry),
            (Node::Host(0), host_keys(), Node::Target, Kind::Referral),
            (Node::Target, target_keys(), Node::Host(0), Kind::Offer),
            (
                Node::Target,
                target_keys(),
                Node::Host(0),
                Kind::Authorization,
            ),
        ];
        for (from, keys, to, kind) in agents {
            junk[..6].copy_from_slice(&[b'C', b'T', b'A', 3, kind.number(), 0]);
            junk[6..22].copy_from_slice(&keys.identity().name().0);
            // A time that is near, as a stranger knows it too.
            junk[22..30].copy_from_slice(&world.milliseconds(0).to_be_bytes());
            for _ in 0..50 {
                junk[60] = junk[60].wrapping_add(1);
                world.deliver(to, address(from), &junk);
            }
        }
        for (from, to, payload) in world.sent.clone() {
            for node in [Node::Host(0), Node::Target] {
                if to == address(node) && matches!(from, Node::Host(_) | Node::Target) {
                    world.deliver(node, address(from), &payload);
                }
            }
        }
    };
    flood(&mut world);
    let seat = world.sit(1, |config| config.head.addresses.truncate(1));
    for _ in 0..300 {
        flood(&mut world);
        world.run(Duration::from_millis(10));
    }
    assert!(world.seats[seat].was_up);
    let target = world.target.as_ref().unwrap().drops();
    assert!(target[&target::Discard::Forged] >= 30_000, "{target:?}");
    assert!(target[&target::Discard::Repeated] >= 100, "{target:?}");
    assert!(
        !target.contains_key(&target::Discard::OverRate),
        "{target:?}"
    );
    let drops = world.hosts[0].as_ref().unwrap().drops();
    assert!(drops[&host::Discard::Forged] >= 100, "{drops:?}");
    assert!(!drops.contains_key(&host::Discard::OverRate), "{drops:?}");
    assert!(!drops.contains_key(&host::Discard::NotProven), "{drops:?}");
}

/// Target allows a Host so many tunnels: the next is refused before its key is spent, whoever asks,
/// until one ends.
#[test]
fn a_host_has_no_more_tunnels_than_target_allows_it() {
    for places in [[2, 16], [16, 2]] {
        let mut world = World::new(50);
        world.places = places;
        for number in 2..6 {
            world.issue(number, host::Half::Public(one_time(number).public()));
        }
        world.boot();
        let mut seats = Vec::new();
        for number in 1..=2 {
            seats.push(world.sit(number, |_| {}));
            world.run(Duration::from_secs(3));
        }
        assert!(seats.iter().all(|seat| world.seats[*seat].was_up));
        let late = world.sit(3, |_| {});
        world.run(Duration::from_secs(5));
        let no_room = Some(refused(Why::HostRefused, Verdict::NoRoom));
        assert_eq!(world.seats[late].outcome, no_room);
        assert!(world.keys[&handle(3)].state == State::Valid);
        assert_eq!(world.told(Step::Refused, Why::NoRoom), 1);
        // Somebody leaves.
        let now = world.now;
        world.seats[seats[0]].client.as_mut().unwrap().log_out(now);
        world.run(Duration::from_secs(5));
        let next = world.sit(3, |_| {});
        world.run(Duration::from_secs(5));
        assert!(world.seats[next].was_up);
        assert_eq!(world.ends.len(), 2);
        world.check();
    }
}

/// The log of Target cannot be written, then that of Host.
#[test]
fn an_agent_without_a_log_begins_nothing_and_keeps_what_it_has() {
    let mut world = World::new(49);
    for number in 2..6 {
        world.issue(number, host::Half::Public(one_time(number).public()));
    }
    world.boot();
    let first = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    let unavailable = Some(refused(Why::HostRefused, Verdict::StoreUnavailable));
    // Target has offered this very moment: the key is spent, and nothing is built.
    let second = world.sit(2, |_| {});
    let offers = world.effects[&Node::Target] + 2;
    while world.effects[&Node::Target] < offers {
        world.run(Duration::from_millis(1));
    }
    world.target.as_mut().unwrap().set_ready(false);
    world.run(Duration::from_secs(70));
    assert_eq!(world.seats[second].outcome, unavailable);
    assert_eq!(world.told(Step::Refused, Why::LogUnavailable), 1);
    assert!(world.keys[&handle(2)].state != State::Valid);
    // From then on it says so before.
    let third = world.sit(3, |_| {});
    world.run(Duration::from_secs(5));
    let not_ready = Some(refused(Why::HostRefused, Verdict::NotReady));
    assert_eq!(world.seats[third].outcome, not_ready);
    assert!(world.keys[&handle(3)].state == State::Valid);
    world.target.as_mut().unwrap().set_ready(true);
    for host in world.hosts.iter_mut().flatten() {
        host.set_ready(false);
    }
    let fourth = world.sit(4, |_| {});
    world.run(Duration::from_secs(70));
    assert_eq!(world.seats[fourth].outcome, unavailable);
    assert!(world.keys[&handle(4)].state == State::Valid);
    assert_eq!(world.ends.len(), 1);
    assert!(world.seats[first].tunnel.is_some());
    for host in world.hosts.iter_mut().flatten() {
        host.set_ready(true);
    }
    for number in [3, 4] {
        let seat = world.sit(number, |_| {});
        world.run(Duration::from_secs(5));
        assert!(world.seats[seat].was_up, "{number}");
    }
    world.check();
}

/// Its gateway does not run, say. It is asked at each request.
#[test]
fn a_target_that_cannot_build_costs_no_key_and_says_so_at_once() {
    let mut world = World::new(51);
    for number in 2..5 {
        world.issue(number, host::Half::Public(one_time(number).public()));
    }
    world.boot();
    for (number, can_build) in [(1, true), (2, false), (3, true), (4, false)] {
        world.can_build = can_build;
        let seat = world.sit(number, |_| {});
        world.run(Duration::from_secs(5));
        assert_eq!(world.seats[seat].was_up, can_build, "{number}");
        if !can_build {
            let not_ready = Some(refused(Why::HostRefused, Verdict::NotReady));
            assert_eq!(world.seats[seat].outcome, not_ready);
            assert!(world.keys[&handle(number)].state == State::Valid);
        }
    }
    assert_eq!(world.told(Step::Refused, Why::NotReady), 2);
    assert_eq!(world.ends.len(), 2);
    world.check();
}

/// The answer says whether a Target that is not there has cost a key.
#[test]
fn a_target_that_goes_after_its_offer_costs_a_key_and_client_is_told() {
    let (_, never_there, is_valid) = outcome(
        |world| {
            world.crash_at = Some((Node::Target, 1));
            world.comes_back = false;
        },
        |_| {},
    );
    let unreachable = refused(Why::HostRefused, Verdict::TargetUnreachable);
    assert_eq!((never_there, is_valid), (unreachable, true));
    let (world, gone, is_valid) = outcome(
        |world| {
            world.crash_at = Some((Node::Target, 3));
            world.comes_back = false;
        },
        |_| {},
    );
    let not_built = refused(Why::HostRefused, Verdict::NotBuilt);
    assert_eq!((gone, is_valid), (not_built, false));
    assert_eq!(world.told(Step::KeyFailed, Why::NoAnswer), 1);
}

/// A token's key is destroyed only if Host says that it is used.
#[test]
fn a_key_is_spent_when_host_says_so() {
    let is_spent = |world: &World| world.seats[0].client.as_ref().unwrap().fate() == Fate::Spent;
    let (world, _, is_valid) = outcome(|world| world.options = esp_alone(), |_| {});
    assert!(is_valid && !is_spent(&world));
    let (world, ..) = outcome(|world| world.keys.clear(), |_| {});
    assert!(!is_spent(&world));
    let mut world = World::new(48);
    world.boot();
    world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    assert!(is_spent(&world));
    let again = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    assert_eq!(
        world.seats[again].client.as_ref().unwrap().fate(),
        Fate::Spent
    );
}

/// Found by the fuzz target `agent_client`.
#[test]
fn a_signature_that_nobody_asked_for_changes_nothing() {
    let mut world = World::new(46);
    world.boot();
    let seat = world.sit(1, |_| {});
    world.run(Duration::from_millis(60));
    let now = world.now;
    let signature = one_time(1).sign(&[b"again"]);
    let client = world.seats[seat].client.as_mut().unwrap();
    client.signed(Some(signature), now);
    client.signed(None, now);
    world.run(Duration::from_secs(5));
    assert!(world.seats[seat].was_up);
}

/// Steps out of order, and messages of agents that nobody knows.
#[test]
fn messages_that_nobody_waits_for_are_counted() {
    let mut world = World::new(44);
    world.boot();
    world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    let sent = world.sent.clone();
    let mut other = World::new(45);
    other.boot();
    for (from, _, payload) in &sent {
        for to in [Node::Host(0), Node::Target] {
            other.deliver(to, address(*from), payload);
        }
    }
    let drops = other.hosts[0].as_ref().unwrap().drops();
    assert!(drops[&host::Discard::Unexpected] >= 2, "{drops:?}");
    let stranger = SocketAddr::from(([198, 51, 100, 1], 51_516));
    for (.., payload) in &sent {
        other.deliver(Node::Target, stranger, payload);
    }
    let drops = other.target.as_ref().unwrap().drops();
    assert!(drops[&target::Discard::Stranger] >= 2, "{drops:?}");
    other.deliver(Node::Target, stranger, b"CTA");
    assert!(other.target.as_ref().unwrap().drops()[&target::Discard::Malformed] >= 1);
}
