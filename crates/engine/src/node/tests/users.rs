//! Users of EAP: their tunnels, and the end of these when a user is removed.

use crypto::mschapv2::NtHash;

use super::ikev2::speaks;
use super::*;
use crate::config::Version;
use crate::eap::{Examiner, Login, LoginMethod, Users};
use crate::ikev1::tests::pair::{JANUARY_2027, pattern, signatures};

pub(super) fn examiner(names: &[&str]) -> Examiner {
    let mut users = Users::default();
    for name in names {
        users
            .add(name, NtHash::of_password("secret"))
            .expect("a user");
    }
    Examiner {
        users: Some(Arc::new(users)),
        ..Examiner::default()
    }
}

pub(super) fn users(names: &[&str]) -> RemoteMethod {
    RemoteMethod::Eap(Arc::new(examiner(names)))
}

fn world(seed: u8) -> World {
    examined_by(seed, || users(&["alice", "bob"]))
}

/// The station is the user alice.
pub(super) fn examined_by(
    seed: u8,
    examiner: impl Fn() -> RemoteMethod + Send + Sync + 'static,
) -> World {
    let mut world = World::new(seed, move |connection, is_station| {
        speaks(connection, Version::V2);
        let (own, trusted) = signatures("gateway", &["gateway", "mid"]);
        match is_station {
            true => {
                connection.local.identity = Identity::parse("alice").unwrap();
                connection.local.method = LocalMethod::Eap(Arc::new(Login {
                    user: "alice".into(),
                    method: LoginMethod::Password(NtHash::of_password("secret")),
                    server: None,
                }));
                connection.remote.identities = vec![pattern("gateway.example")];
                connection.remote.method = trusted;
            }
            false => {
                connection.local.identity = Identity::parse("gateway.example").unwrap();
                connection.local.method = own;
                connection.remote.identities = vec![IdentityPattern::Any];
                connection.remote.method = examiner();
            }
        }
    });
    for end in [0, 1] {
        world.input(end, Input::Calendar(JANUARY_2027));
    }
    world
}

pub(super) fn reload(world: &mut World, names: &'static [&'static str]) {
    let change = world.change.clone();
    let changed: Change = Arc::new(move |connection: &mut Connection, is_station| {
        change(connection, is_station);
        if !is_station {
            connection.remote.method = users(names);
        }
    });
    let config = Arc::new(config(false, &changed));
    world.input(1, Input::Configure(config));
}

#[test]
fn a_user_comes_up_and_loses_the_tunnel_when_removed() {
    let mut world = world(190);
    world.run(Duration::from_secs(2));
    world.assert_up();
    let status = world.ends[1].node.status(world.now);
    let peer = status.connections[0].sessions[0].peer.as_ref();
    assert_eq!(peer.expect("a peer").to_string(), "alice");
    reload(&mut world, &["alice"]);
    world.run(Duration::from_secs(1));
    world.assert_up();
    reload(&mut world, &["bob"]);
    let gateway = &world.ends[1];
    assert_eq!(gateway.node.established(), 0);
    assert!(gateway.seen.inbound.is_empty() && gateway.seen.outbound.is_empty());
    let is_removal = |cause: &EndCause| cause.code() == "user-removed";
    let is_it =
        |event: &Event| matches!(event, Event::IkeClosed { cause, .. } if is_removal(cause));
    assert!(gateway.told(is_it));
    world.run(Duration::from_secs(30));
    assert_eq!(world.ends[0].node.established(), 0);
    reload(&mut world, &["alice"]);
    world.run(Duration::from_secs(600));
    world.assert_up();
}

#[test]
fn a_user_comes_up_although_a_third_of_all_datagrams_is_lost() {
    for seed in 191..196 {
        let mut world = world(seed);
        world.network.loss = 0.3;
        world.run(Duration::from_secs(120));
        world.network.loss = 0.0;
        world.run(Duration::from_secs(60));
        world.assert_up();
    }
}

/// How often a station with a wrong password was refused, and how often it got no answer.
fn guesses(seed: u8, user: &'static str) -> (usize, u64) {
    let mut world = World::new(seed, move |connection, is_station| {
        speaks(connection, Version::V2);
        let (own, trusted) = signatures("gateway", &["gateway", "mid"]);
        match is_station {
            true => {
                connection.local.identity = Identity::parse(user).unwrap();
                connection.local.method = LocalMethod::Eap(Arc::new(Login {
                    user: user.into(),
                    method: LoginMethod::Password(NtHash::of_password("a guess")),
                    server: None,
                }));
                connection.remote.identities = vec![pattern("gateway.example")];
                connection.remote.method = trusted;
            }
            false => {
                connection.local.identity = Identity::parse("gateway.example").unwrap();
                connection.local.method = own;
                connection.remote.identities = vec![IdentityPattern::Any];
                connection.remote.method = users(&["alice"]);
            }
        }
    });
    for end in [0, 1] {
        world.input(end, Input::Calendar(JANUARY_2027));
    }
    for _ in 0..40 {
        world.run(Duration::from_secs(1));
        world.command(0, Command::Down("road".into()));
        world.command(0, Command::Up("road".into()));
    }
    let refused = |event: &Event| {
        matches!(event, Event::NegotiationFailed { reason, .. }
            if reason.contains("the password") || reason.contains("no user"))
    };
    let waits = |event: &Event| {
        matches!(event, Event::NegotiationFailed { reason, .. }
            if reason.contains("too many wrong passwords came from"))
    };
    assert!(world.ends[1].told(waits), "the log says why");
    let drops = world.drops(1, DropReason::OverQuota);
    (world.ends[1].count(refused), drops)
}

#[test]
fn names_of_users_and_of_nobody_have_the_same_quota() {
    let known = guesses(197, "alice");
    assert_eq!(known, guesses(197, "carol"));
    // One address: 10 at once, and one in 30 s.
    assert!((10..=12).contains(&known.0), "{known:?}");
    assert!(known.1 > 0, "{known:?}");
}
