//! The ten steps, undisturbed.

use wire::agent::{Inquiry, Kind, Message};

use super::adversaries::by_host_to_target;
use super::world::*;
use crate::agent::ARRIVAL_MAX;
use crate::agent::audit::{Role, Step, Why};
use crate::agent::client::Outcome;
use crate::agent::host::State;
use crate::agent::objectives::{Objective, Objectives, SecurityOption};
use crate::agent::target::Came;
use crate::time::{Calendar, Duration};

#[test]
fn ten_steps_make_one_tunnel_that_ends_in_time_at_both_ends() {
    let mut world = World::new(1);
    world.boot();
    let seat = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    assert!(world.seats[seat].was_up);
    assert_eq!(world.ends.len(), 1);
    // Target can show who has asked.
    let spending = world.spent.values().next().unwrap();
    let (evidence, host) = (&spending.evidence, host_keys().identity().sealing);
    assert!(evidence.holds(handle(1), host) && !evidence.holds(handle(2), host));
    let expected = [
        (Role::Client, Step::Requested),
        (Role::Host, Step::Authenticated),
        (Role::Host, Step::KeyTaken),
        (Role::Host, Step::Referred),
        (Role::Target, Step::Admitted),
        (Role::Target, Step::Built),
        (Role::Target, Step::Authorized),
        (Role::Host, Step::Authorized),
        (Role::Host, Step::KeyUsed),
        (Role::Client, Step::Accepted),
        (Role::Client, Step::Up),
        (Role::Target, Step::Up),
    ];
    let told: Vec<_> = world.log.iter().map(|it| (it.role, it.step)).collect();
    assert_eq!(told, expected);
    // Who, by which key, to what, until when: each role says it by itself.
    for role in [Role::Client, Role::Host, Role::Target] {
        let whole = world.log.iter().filter(|it| it.role == role).any(|it| {
            it.user.as_deref() == Some(USER)
                && it.key == Some(handle(1))
                && it.tunnel.is_some()
                && it.until.is_some_and(|until| until > Calendar(TODAY.0))
        });
        assert!(whole, "{role:?}");
    }
    world.run(LIFETIME);
    assert_eq!((world.ends.len(), world.seats[seat].tunnel), (0, None));
    let outcome = world.seats[seat].outcome;
    // Whichever end is first tells the other, and Client knows that this was its time.
    let over = Why::TimeOver;
    assert_eq!(outcome, Some(Outcome::Ended(over)));
    assert!(world.told(Step::Ended, over) >= 1);
    assert!(matches!(world.keys[&handle(1)].state, State::Used { .. }));
    assert!(world.target.as_ref().unwrap().is_empty());
    world.run(Duration::from_secs(700));
    assert_eq!(world.hosts[0].as_ref().unwrap().exchanges(), 0);
    world.check();
}

/// The demo's last ten seconds.
#[test]
fn a_key_is_refused_the_second_time_and_its_holder_is_told_why() {
    let mut world = World::new(2);
    world.boot();
    world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    let again = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    let outcome = world.seats[again].outcome;
    assert!(matches!(
        outcome,
        Some(Outcome::Refused(Why::KeyUsed, Some(_)))
    ));
    assert_eq!(world.told(Step::Refused, Why::KeyUsed), 2);
    assert_eq!(world.ends.len(), 1);
    world.check();
}

#[test]
fn objectives_pick_the_option_of_both_ends() {
    let sets: [(&[Objective], SecurityOption); 4] = [
        (&[], SecurityOption::Native),
        (&[Objective::NonRepudiation], SecurityOption::Ah),
        (&[Objective::DataExchangeConf], SecurityOption::Esp),
        (&Objective::ALL, SecurityOption::AhEsp),
    ];
    for (list, option) in sets {
        let mut world = World::new(3);
        world.boot();
        let objectives: Objectives = list.iter().copied().collect();
        let seat = world.sit(1, |config| config.objectives = objectives);
        world.run(Duration::from_secs(5));
        assert_eq!(world.seats[seat].option, Some(option));
        assert_eq!(world.ends.values().next().unwrap().option, option);
    }
}

#[test]
fn a_logout_ends_the_tunnel_at_both_ends() {
    let mut world = World::new(4);
    world.boot();
    let seat = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    let now = world.now;
    world.seats[seat].client.as_mut().unwrap().log_out(now);
    world.run(Duration::from_secs(1));
    assert_eq!((world.ends.len(), world.seats[seat].tunnel), (0, None));
    assert_eq!(world.told(Step::Ended, Why::LoggedOut), 1);
    assert_eq!(world.told(Step::Ended, Why::ClosedByPeer), 1);
}

/// Nobody has to look for the lines of the former agent.
#[test]
fn a_target_that_starts_again_tells_of_the_end_all_that_is_known() {
    let mut world = World::new(4);
    world.boot();
    world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    world.start(Node::Target);
    let (id, now) = (*world.ends.keys().next().unwrap(), world.now);
    let [inner, peer] = [[10, 77, 0, 1].into(), [192, 0, 2, 7].into()];
    let target = world.target.as_mut().unwrap();
    target.recall(id, Some(inner), Some(peer));
    target.close(id, now);
    world.run(Duration::from_secs(5));
    let mut lines = world.log.iter().filter(|it| it.role == Role::Target);
    let ended = lines.find(|it| it.step == Step::Ended).unwrap();
    assert_eq!(ended.option, Some(SecurityOption::AhEsp));
    assert_eq!((ended.inner, ended.peer), (Some(inner), Some(peer)));
    assert!(ended.user.is_some() && ended.key.is_some() && ended.until.is_some());
}

#[test]
fn a_tunnel_that_target_ends_before_its_time_has_not_ended_as_promised() {
    let mut world = World::new(4);
    world.boot();
    let seat = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    let (id, now) = (*world.ends.keys().next().unwrap(), world.now);
    world.target.as_mut().unwrap().close(id, now);
    world.run(Duration::from_secs(5));
    let outcome = world.seats[seat].outcome;
    assert_eq!(outcome, Some(Outcome::Ended(Why::ClosedByPeer)));
    // The line about the end names the tunnel, and until when it should have been up.
    let mut lines = world.log.iter().filter(|it| it.role == Role::Client);
    let ended = lines.find(|it| it.step == Step::Ended).unwrap();
    assert_eq!((ended.tunnel, ended.until.is_some()), (Some(id), true));
}

/// A second Host of the same database repeats the answer of the first, to the same octets alone.
#[test]
fn the_same_octets_get_the_same_answer_from_any_host() {
    let mut world = World::new(5);
    world.boot();
    let seat = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    let from = address(Node::Client(seat));
    let to_client = |world: &World, from: Node| {
        let list = world.sent.iter();
        let list = list.filter(|(by, to, _)| *by == from && *to == address(Node::Client(seat)));
        list.map(|(.., payload)| payload.clone())
            .collect::<Vec<_>>()
    };
    let request = world.sent[0].2.clone();
    let first = to_client(&world, Node::Host(0));
    for _ in 0..20 {
        world.deliver(Node::Host(1), from, &request);
        world.run(Duration::from_millis(100));
    }
    let second = to_client(&world, Node::Host(1));
    assert_eq!(first.len(), 1);
    // It is repeated a few times only: an answer is longer than its request.
    assert_eq!(second.len(), 9);
    assert!(second.iter().all(|it| *it == first[0]));
    let mut changed = request;
    *changed.last_mut().unwrap() ^= 1;
    world.deliver(Node::Host(1), from, &changed);
    world.run(Duration::from_secs(1));
    assert_eq!(to_client(&world, Node::Host(1)).len(), 9);
    assert_eq!(world.told(Step::Refused, Why::WrongSignature), 1);
}

/// The log says to what, and to whom: the lines of Target that tell of a tunnel have all of it.
#[test]
fn targets_log_says_where_a_tunnel_leads() {
    let mut world = World::new(7);
    world.boot();
    let seat = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    let told = world.log.iter().filter(|it| it.role == Role::Target);
    let up = told
        .clone()
        .find(|it| it.step == Step::Up)
        .expect("it is up")
        .to_string();
    assert!(
        up.ends_with(" inner=10.77.0.1 peer=192.0.2.0 networks=10.9.0.0/16"),
        "{up}"
    );
    let built = told
        .clone()
        .find(|it| it.step == Step::Built)
        .expect("it is built")
        .to_string();
    assert!(
        built.ends_with(" inner=10.77.0.1 networks=10.9.0.0/16"),
        "{built}"
    );
    assert!(world.seats[seat].was_up);
}

/// An end that only exists as a text, or that protects nothing, sees nobody come.
#[test]
fn an_end_that_cannot_see_its_peer_is_never_said_to_be_up() {
    let mut world = World::new(8);
    world.boot();
    let seat = world.sit(1, |_| {});
    world.run(Duration::from_millis(500));
    let id = *world.ends.keys().next().expect("it is built");
    let now = world.now;
    let target = world.target.as_mut().expect("it runs");
    target.arrived(id, Came::Unseen, now);
    // Nor does it go after the time in which others must have come.
    world.seats[seat].client = None;
    world.run(ARRIVAL_MAX + Duration::from_secs(60));
    assert_eq!(world.ends.len(), 1);
    world.run(LIFETIME);
    assert!(world.ends.is_empty());
    let mut of_target = world.log.iter().filter(|it| it.role == Role::Target);
    assert!(of_target.clone().all(|it| it.step != Step::Up));
    let ended = of_target.find(|it| it.step == Step::Ended);
    assert_eq!(ended.and_then(|it| it.why), Some(Why::TimeOver));
}

/// The administrator throws a guest out: he is no member any longer.
#[test]
fn who_is_no_member_any_longer_is_thrown_out() {
    let mut world = World::new(9);
    world.boot();
    let seat = world.sit(1, |_| {});
    world.run(Duration::from_secs(100));
    assert!(world.seats[seat].tunnel.is_some());
    world.access = None;
    world.run(Duration::from_secs(35));
    assert!(world.ends.is_empty() && world.seats[seat].tunnel.is_none());
    assert_eq!(world.told(Step::Ended, Why::NotMember), 1);
    world.check();
}

/// The paper's own form takes the same steps.
#[test]
fn a_shared_pair_makes_a_tunnel_where_it_is_allowed() {
    for is_allowed in [true, false] {
        let mut world = World::new(6);
        world.accepts_legacy = is_allowed;
        world.boot();
        let key = world.shared(9);
        let seat = world.sit(9, |config| config.pair = Some(World::pair(&key)));
        world.run(Duration::from_secs(70));
        assert_eq!(world.seats[seat].was_up, is_allowed);
        assert_eq!(world.seats[seat].session_key.is_some(), is_allowed);
        let outcome = world.seats[seat].outcome;
        let refused = Some(Outcome::Refused(Why::NoAnswer, None));
        assert_eq!(outcome == refused, !is_allowed, "{outcome:?}");
        world.check();
    }
}

/// Hosts that share a database have one name: each is answered where it is.
#[test]
fn two_hosts_that_inquire_at_once_are_both_answered_by_one_look() {
    let mut world = World::new(3);
    world.boot();
    for number in [0, 1] {
        let (nonce, time) = ([number; 16], TODAY.0 as u64 + 1);
        let body = Inquiry { nonce, time }.to_vec();
        let payload = by_host_to_target(&world, Kind::Inquiry, &body);
        let from = address(Node::Host(usize::from(number)));
        world.deliver(Node::Target, from, &payload);
    }
    world.run(Duration::from_secs(1));
    for number in [0, 1] {
        let offers = world.sent.iter().filter(|(from, to, payload)| {
            let is_offer = |message| match message {
                Message::Sealed(sealed) => sealed.kind == Kind::Offer,
                Message::Retry(_) => false,
            };
            let is_there = *from == Node::Target && *to == address(Node::Host(number));
            is_there && Message::parse(payload).is_ok_and(is_offer)
        });
        assert_eq!(offers.count(), 1, "{number}");
    }
}
