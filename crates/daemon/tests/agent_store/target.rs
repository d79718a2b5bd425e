//! Target's tables.

use std::collections::BTreeSet;

use daemon::agent::store::{Enrolment, Member, Store, StoreError, StoreRole};
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

async fn set(store: &mut Store, member: &Member, enrolment: Enrolment) {
    let who = (&member.user[..], &member.host[..]);
    let set = store.set_member(who, &member.access, enrolment).await;
    set.expect("set");
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
        let second = Store::open(&base.database(), target(1)).await;
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
        let second = Store::open(&base.database(), StoreRole::Host).await;
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
        set(&mut store, &alice, Enrolment::Kept).await;
        set(&mut store, &member("alice", "away"), Enrolment::Kept).await;
        let is_member = Standing::Member(alice.access.clone());
        let of = async |store: &mut Store, user, host, key| {
            let standing = store.standing(user, host, Some(&key)).await;
            standing.expect("a standing")
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

/// A word alone takes enrolment away: whoever changes a network does not open the door to Host.
#[test]
fn a_member_that_is_written_anew_keeps_his_enrolment_unless_a_word_says_otherwise() {
    let base = Base::new("anew");
    run(async {
        let mut store = base.open(target(1)).await;
        let (key, other) = (Digest([1; 32]), Digest([2; 32]));
        let mut alice = member("alice", "home");
        let away = member("alice", "away");
        set(&mut store, &alice, Enrolment::Kept).await;
        set(&mut store, &away, Enrolment::Kept).await;
        store
            .enrol("alice", "home", &[key])
            .await
            .expect("enrolled");
        let of = async |store: &mut Store, key: Option<Digest>| {
            let standing = store.standing("alice", "home", key.as_ref()).await;
            standing.expect("a standing")
        };
        alice.access.networks.clear();
        alice.access.options = Options::ALL;
        for enrolment in [Enrolment::Kept, Enrolment::Demanded] {
            set(&mut store, &alice, enrolment).await;
            let is_member = Standing::Member(alice.access.clone());
            assert_eq!(of(&mut store, Some(key)).await, is_member);
            for refused in [Some(other), None] {
                assert_eq!(of(&mut store, refused).await, Standing::KeyNotEnrolled);
            }
            alice.enrolled = Some(BTreeSet::from([key]));
            let all = store.members().await.expect("members");
            assert_eq!(all, [away.clone(), alice.clone()]);
        }
        set(&mut store, &alice, Enrolment::Void).await;
        let is_member = Standing::Member(alice.access.clone());
        for any in [Some(key), Some(other), None] {
            assert_eq!(of(&mut store, any).await, is_member);
        }
        // A demand without a key lets nobody in, and forgotten keys do not come back.
        set(&mut store, &alice, Enrolment::Demanded).await;
        assert_eq!(of(&mut store, Some(key)).await, Standing::KeyNotEnrolled);
    });
}

#[test]
fn a_member_that_is_removed_takes_his_keys_with_him() {
    let base = Base::new("removed");
    run(async {
        let mut store = base.open(target(1)).await;
        let (key, other) = (Digest([1; 32]), Digest([2; 32]));
        let alice = member("alice", "home");
        let of = async |store: &mut Store, key: Digest| {
            let standing = store.standing("alice", "home", Some(&key)).await;
            standing.expect("a standing")
        };
        set(&mut store, &alice, Enrolment::Demanded).await;
        store
            .enrol("alice", "home", &[key])
            .await
            .expect("enrolled");
        for is_there in [true, false] {
            let was_there = store.remove_member("alice", "home").await.expect("removed");
            assert_eq!(was_there, is_there);
        }
        assert_eq!(of(&mut store, key).await, Standing::Stranger);
        set(&mut store, &alice, Enrolment::Kept).await;
        store
            .enrol("alice", "home", &[other])
            .await
            .expect("enrolled");
        assert_eq!(of(&mut store, key).await, Standing::KeyNotEnrolled);
    });
}
