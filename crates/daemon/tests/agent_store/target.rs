//! Target's tables.

use std::collections::BTreeSet;

use daemon::agent::store::{Member, StoreError, StoreRole};
use engine::agent::Digest;
use engine::agent::objectives::Options;
use engine::agent::target::{Access, Former, Progress, Standing};
use engine::time::Duration;
use wire::agent::Network;

use crate::base::*;

fn member(user: &str, host: &str) -> Member {
    let network = |address: &str, prefix_len| Network {
        address: address.parse().expect("an address"),
        prefix_len,
    };
    Member {
        user: user.into(),
        host: host.into(),
        access: Access {
            options: Options::of_number(0b0101),
            networks: vec![network("10.1.0.0", 16), network("fd00::", 8)],
            lifetime: Duration::from_secs(3_600),
        },
        enrolled: None,
    }
}

#[test]
fn a_key_is_spent_once_and_its_tunnel_is_known_until_it_ends() {
    let base = Base::new("spent");
    run(async {
        let mut one = base.open(target(1)).await;
        let mut other = base.open(target(2)).await;
        assert_eq!(one.former().await.expect("a list"), []);
        assert!(one.spend(&spending(5, 1)).await.expect("spent"));
        for number in [1, 2] {
            let again = spending(5, number);
            assert!(!one.spend(&again).await.expect("refused"), "the same key");
            assert!(
                !other.spend(&again).await.expect("refused"),
                "at another Target"
            );
        }
        let mut same_tunnel = spending(6, 1);
        same_tunnel.tunnel = spending(5, 1).tunnel;
        assert!(!one.spend(&same_tunnel).await.expect("refused"));
        assert!(other.spend(&spending(7, 1)).await.expect("spent"));
        let former = |key, has_arrived| Former {
            spending: spending(key, 1),
            has_arrived,
        };
        assert_eq!(one.former().await.expect("a list"), [former(5, false)]);
        let tunnel = spending(5, 1).tunnel;
        one.note(tunnel, Progress::Arrived).await.expect("noted");
        drop(one);
        let mut one = base.open(target(1)).await;
        assert_eq!(one.former().await.expect("a list"), [former(5, true)]);
        one.note(tunnel, Progress::Ended).await.expect("noted");
        one.note(tunnel, Progress::Arrived).await.expect("noted");
        one.note(spending(9, 9).tunnel, Progress::Ended)
            .await
            .expect("nothing to note");
        assert_eq!(one.former().await.expect("a list"), []);
        assert!(
            !one.spend(&spending(5, 3)).await.expect("refused"),
            "it stays spent"
        );
        assert_eq!(other.former().await.expect("a list"), [former(7, false)]);
    });
}

#[test]
fn there_is_one_target_of_a_name() {
    let base = Base::new("name");
    run(async {
        let one = base.open(target(1)).await;
        let second = daemon::agent::store::Store::open(&base.database(), target(1)).await;
        let fault = second.err().expect("it is refused");
        assert!(
            matches!(fault, StoreError::InUse { role: "Target", .. }),
            "{fault}"
        );
        drop(one);
        base.open(target(1)).await;
        let mut desk = base.open(StoreRole::Administrator).await;
        assert!(matches!(desk.former().await, Err(StoreError::NotTarget)));
        assert!(matches!(
            desk.spend(&spending(1, 1)).await,
            Err(StoreError::NotTarget)
        ));
    });
}

#[test]
fn hosts_share_a_server_and_no_file() {
    let base = Base::new("hosts");
    run(async {
        let _one = base.open(StoreRole::Host).await;
        let second = daemon::agent::store::Store::open(&base.database(), StoreRole::Host).await;
        assert_eq!(second.is_ok(), base.is_shared());
    });
}

#[test]
fn members_and_their_keys() {
    let base = Base::new("members");
    run(async {
        let mut store = base.open(target(1)).await;
        let (key, other) = (Digest([1; 32]), Digest([2; 32]));
        let alice = member("alice", "home");
        store.set_member(&alice).await.expect("set");
        store
            .set_member(&member("alice", "away"))
            .await
            .expect("set");
        let is_member = Standing::Member(alice.access.clone());
        let of = async |store: &mut daemon::agent::store::Store, user, host, key| {
            store
                .standing(user, host, Some(&key))
                .await
                .expect("a standing")
        };
        assert_eq!(of(&mut store, "alice", "home", key).await, is_member);
        for (user, host) in [
            ("alice", "work"),
            ("Alice", "home"),
            ("", ""),
            ("alice\0", "home"),
        ] {
            assert_eq!(of(&mut store, user, host, key).await, Standing::Stranger);
        }
        // Enrolled keys are demanded from then on, of this Host alone.
        store
            .enrol("alice", "home", &[key, key])
            .await
            .expect("enrolled");
        assert_eq!(of(&mut store, "alice", "home", key).await, is_member);
        assert_eq!(
            of(&mut store, "alice", "home", other).await,
            Standing::KeyNotEnrolled
        );
        assert_eq!(of(&mut store, "alice", "away", other).await, is_member);
        store
            .enrol("alice", "home", &[other])
            .await
            .expect("enrolled");
        assert_eq!(of(&mut store, "alice", "home", other).await, is_member);
        let fault = store.enrol("bob", "home", &[key]).await;
        assert!(matches!(fault, Err(StoreError::NoMember(who)) if who == "bob@home"));
    });
}

#[test]
fn a_member_that_is_written_anew_or_removed_keeps_nothing() {
    let base = Base::new("anew");
    run(async {
        let mut store = base.open(target(1)).await;
        let (key, other) = (Digest([1; 32]), Digest([2; 32]));
        let alice = member("alice", "home");
        store.set_member(&alice).await.expect("set");
        let away = member("alice", "away");
        store.set_member(&away).await.expect("set");
        store
            .enrol("alice", "home", &[key])
            .await
            .expect("enrolled");
        let of = async |store: &mut daemon::agent::store::Store, user, host, key| {
            store
                .standing(user, host, Some(&key))
                .await
                .expect("a standing")
        };
        // Written anew, a member has what is written, and nothing of before.
        let mut again = alice.clone();
        again.access.networks.clear();
        again.access.options = Options::ALL;
        again.enrolled = Some(BTreeSet::from([other]));
        store.set_member(&again).await.expect("set");
        assert_eq!(
            of(&mut store, "alice", "home", key).await,
            Standing::KeyNotEnrolled
        );
        let is_member = Standing::Member(again.access.clone());
        assert_eq!(of(&mut store, "alice", "home", other).await, is_member);
        let all = store.members().await.expect("members");
        assert_eq!(all, [member("alice", "away"), again]);
        // A member that is removed takes his keys with him.
        assert!(store.remove_member("alice", "home").await.expect("removed"));
        assert!(
            !store
                .remove_member("alice", "home")
                .await
                .expect("he was none")
        );
        assert_eq!(
            of(&mut store, "alice", "home", other).await,
            Standing::Stranger
        );
        store.set_member(&alice).await.expect("set");
        store
            .enrol("alice", "home", &[key])
            .await
            .expect("enrolled");
        assert_eq!(
            of(&mut store, "alice", "home", other).await,
            Standing::KeyNotEnrolled
        );
    });
}
