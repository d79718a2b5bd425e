//! Proposals with and without PFS: which are offered, in which order, and who can change that.

use super::*;
use crate::ike::Step;
use crate::ikev1::in_clear::write;

/// A station and a gateway whose children propose these.
fn world(seed: u8, station: &'static [&str], gateway: &'static [&str]) -> World {
    World::new(seed, move |connection, is_station| {
        let words = if is_station { station } else { gateway };
        let suites = words.iter().map(|word| word.parse().unwrap());
        connection.children[0].proposals = suites.collect();
    })
}

const BOTH: &[&str] = &["aes128gcm16-modp2048", "aes128gcm16"];
const WITH: &[&str] = &["aes128gcm16-modp2048"];
const WITHOUT: &[&str] = &["aes128gcm16"];

fn suites(world: &World, end: usize) -> Vec<String> {
    let events = world.ends[end].seen.events.iter();
    let suites = events.filter_map(|event| match event {
        Event::ChildEstablished { suite, .. } => Some(suite.clone()),
        _ => None,
    });
    suites.collect()
}

fn is_refusal(event: &Event) -> bool {
    matches!(event, Event::ProposalsRefused { .. })
}

#[test]
fn pfs_is_agreed_on_where_both_have_it() {
    for (seed, station, gateway) in [(100, BOTH, BOTH), (101, BOTH, WITH), (102, WITH, BOTH)] {
        let mut world = world(seed, station, gateway);
        world.run(Duration::from_secs(2));
        world.assert_up();
        assert_eq!(suites(&world, 0), WITH);
        assert!(!world.ends[0].told(is_refusal));
    }
}

#[test]
fn a_peer_without_pfs_is_asked_once_more_and_renewals_are_not_refused() {
    let mut world = world(103, BOTH, WITHOUT);
    world.run(Duration::from_secs(2));
    world.assert_up();
    assert_eq!(suites(&world, 0), WITHOUT);
    for end in [0, 1, 0] {
        world.command(end, Command::RekeyChildren("road".into()));
        world.run(Duration::from_secs(20));
        world.assert_up();
    }
    assert_eq!(suites(&world, 0).len(), 4);
    assert!(suites(&world, 0).iter().all(|suite| suite == WITHOUT[0]));
    assert_eq!(world.ends[0].count(is_refusal), 1);
    let refusal = world.ends[0]
        .seen
        .events
        .iter()
        .find_map(|event| match event {
            Event::ProposalsRefused { refusal, .. } => Some(refusal.as_str()),
            _ => None,
        });
    let words = "the peer refused with NO-PROPOSAL-CHOSEN; we asked for ";
    assert!(
        refusal.is_some_and(|refusal| refusal.starts_with(words)),
        "{refusal:?}"
    );
    // It is normal, and not a complaint.
    let complaints = |event: &Event| matches!(event, Event::PeerComplains { .. });
    assert_eq!(world.ends[0].count(complaints), 0);
    assert!(world.ends[0].failure().is_none());
    // A new tunnel tries the better ones again.
    world.command(0, Command::Down("road".into()));
    world.run(Duration::from_secs(2));
    world.command(0, Command::Up("road".into()));
    world.run(Duration::from_secs(2));
    world.assert_up();
    assert_eq!(world.ends[0].count(is_refusal), 2);
}

#[test]
fn a_station_that_wants_pfs_alone_gets_none_without_it_and_both_ends_say_why() {
    let mut world = world(104, WITH, WITHOUT);
    world.run(Duration::from_secs(2));
    assert!(suites(&world, 0).is_empty());
    assert_eq!(
        world.ends[1].failure().expect("a failure"),
        "PFS differs: the peer offers aes128gcm16-modp2048; child net accepts aes128gcm16 without \
         PFS"
    );
    let reason = world.ends[0].failure().expect("a failure");
    let end = "all of that is with PFS, which the peer may not want";
    assert!(
        reason.starts_with("the peer refused with NO-PROPOSAL-CHOSEN"),
        "{reason}"
    );
    assert!(reason.ends_with(end), "{reason}");
}

const DEFAULT: &[&str] = &[
    "aes128gcm16-curve25519",
    "aes128gcm16-modp2048",
    "aes128gcm16",
];

/// Phase 1 with `phase_1`, a station that proposes [`DEFAULT`], and a gateway that accepts these.
/// Returns the agreed suite, at first and at renewals from both ends, and the number of refusals.
fn defaults_met(seed: u8, phase_1: &'static str, gateway: &'static [&str]) -> (String, usize) {
    let mut world = World::new(seed, move |connection, is_station| {
        connection.proposals = vec![phase_1.parse().unwrap()];
        let words = if is_station { DEFAULT } else { gateway };
        let suites = words.iter().map(|word| word.parse().unwrap());
        connection.children[0].proposals = suites.collect();
    });
    world.run(Duration::from_secs(2));
    world.assert_up();
    let refused = world.ends[0].count(is_refusal);
    for end in [0, 1] {
        world.command(end, Command::RekeyChildren("road".into()));
        world.run(Duration::from_secs(20));
        world.assert_up();
    }
    let agreed = suites(&world, 0);
    assert_eq!(agreed.len(), 3);
    assert!(agreed.iter().all(|suite| *suite == agreed[0]), "{agreed:?}");
    assert_eq!(world.ends[0].count(is_refusal), refused);
    (agreed[0].clone(), refused)
}

#[test]
fn curve25519_is_offered_first_to_who_knows_it_and_every_other_peer_is_met_as_before() {
    let (curve, modp) = ("aes128-sha256-curve25519", "aes128-sha256-modp2048");
    let met = |phase_1, gateway| defaults_met(106, phase_1, gateway);
    let agreed = |word: &str, refused| (word.to_owned(), refused);
    assert_eq!(met(curve, DEFAULT), agreed(DEFAULT[0], 0));
    assert_eq!(met(curve, WITH), agreed(WITH[0], 1));
    assert_eq!(met(curve, WITHOUT), agreed(WITHOUT[0], 2));
    // A peer that knows only MODP never receives the curve.
    assert_eq!(met(modp, WITH), agreed(WITH[0], 0));
    assert_eq!(met(modp, WITHOUT), agreed(WITHOUT[0], 1));
    assert_eq!(met(modp, &DEFAULT[..1]), agreed(DEFAULT[0], 2));
}

#[test]
fn a_refusal_in_clear_takes_no_pfs_away() {
    let mut world = world(105, BOTH, BOTH);
    let is_asked = |event: &Event| {
        matches!(
            event,
            Event::Message {
                step: Step::Quick(1),
                ..
            }
        )
    };
    while !world.ends[0].told(is_asked) {
        world.run(Duration::from_millis(1));
    }
    let session = world.ends[0].node.sessions.values().next().expect("one");
    let (cookies, path) = (
        session.ike.sa().expect("established").cookies,
        session.path(),
    );
    let notify = wire::isakmp::Notify {
        protocol: ProtocolId::Esp,
        spi: Vec::new(),
        kind: NotifyType::NoProposalChosen,
        value: Vec::new(),
    };
    for id in 1..50 {
        let forged = write(cookies, Payload::Notify(notify.clone()), id);
        world.deliver(0, path, &super::session::with_marker(path, forged));
    }
    world.run(Duration::from_secs(2));
    world.assert_up();
    assert_eq!(suites(&world, 0), WITH);
}
