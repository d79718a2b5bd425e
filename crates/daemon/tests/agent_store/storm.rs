//! Processes that use one key at once, and are killed.

use daemon::agent::store::{Store, StoreError, StoreRole};
use engine::agent::host::{Answer, Ask, State};
use engine::time::Calendar;

use crate::base::*;
use crate::process::{Deed, Process};

/// Processes at once.
const RIVALS: u8 = 4;
/// Keys of the calm storm.
const ROUNDS: u8 = 6;
/// More writes than a use has.
const WRITES_MAX: usize = 200;

/// How often something was said.
fn count(said: &[Vec<String>], what: &str) -> usize {
    said.iter().flatten().filter(|it| *it == what).count()
}

async fn issue(base: &Base, keys: impl Iterator<Item = u8>) {
    let mut desk = base.open(StoreRole::Administrator).await;
    let keys: Vec<_> = keys.map(|it| (handle(it), record(it))).collect();
    desk.issue(&keys).await.expect("issued");
}

async fn state(desk: &mut Store, key: u8) -> State {
    match desk.answer(&Ask::Find(handle(key))).await {
        Answer::Found(Some(record)) => record.state,
        _ => panic!("key {key} is not found"),
    }
}

#[test]
fn without_a_crash_one_process_of_many_uses_a_key() {
    let base = Base::new("calm");
    run(issue(&base, 0..ROUNDS));
    for key in 0..ROUNDS {
        let start = |number| Process::start(&base, Deed::Use, key, number);
        let mut rivals: Vec<Process> = (1..=RIVALS).map(start).collect();
        rivals.iter_mut().for_each(Process::go);
        let said: Vec<_> = rivals.into_iter().map(Process::said).collect();
        for what in ["taken", "spent", "noted", "finished"] {
            assert_eq!(count(&said, what), 1, "key {key}: {said:?}");
        }
        assert_eq!(count(&said, "refused"), usize::from(RIVALS) - 1, "{said:?}");
        let left = run(async { state(&mut base.open(StoreRole::Administrator).await, key).await });
        let winner = said.iter().position(|it| it.len() > 1).expect("a winner") + 1;
        let expected = State::Used {
            request: request(winner as u8),
            answer: Some(vec![winner as u8; 300]),
        };
        assert_eq!(left, expected);
    }
}

#[test]
fn lying_hosts_make_no_second_tunnel() {
    let base = Base::new("lies");
    run(issue(&base, 1..2));
    let start = |number| Process::start(&base, Deed::Spend, 1, number);
    let mut rivals: Vec<Process> = (1..=RIVALS).map(start).collect();
    rivals.iter_mut().for_each(Process::go);
    let said: Vec<_> = rivals.into_iter().map(Process::said).collect();
    assert_eq!(count(&said, "spent"), 1, "{said:?}");
    assert_eq!(
        count(&said, "spent before"),
        usize::from(RIVALS) - 1,
        "{said:?}"
    );
}

/// One process is killed before its first write, then before its second, and so on, while another
/// uses the same key.
#[test]
fn killed_between_any_two_writes_there_is_one_tunnel_or_none() {
    let base = Base::new("kills");
    let (mut none, mut one) = (0, 0);
    for nth in 1..WRITES_MAX {
        let key = nth as u8;
        run(issue(&base, [key].into_iter()));
        let mut victim = Process::start(&base, Deed::Use, key, 1);
        let mut rival = Process::start(&base, Deed::Use, key, 2);
        // Every second time the rival has its chance only afterwards.
        let is_race = nth % 2 == 0;
        if is_race {
            rival.go();
        }
        let is_killed = victim.kill_before_write(nth);
        if !is_race {
            rival.go();
        }
        let said = [victim.said(), rival.said()];
        assert_eq!(count(&said, "unavailable"), 0, "write {nth}: {said:?}");
        for what in ["taken", "spent", "finished"] {
            assert!(count(&said, what) <= 1, "write {nth}: {said:?}");
        }
        let tunnels = count(&said, "spent");
        (none, one) = (none + 1 - tunnels, one + tunnels);
        run(settle(&base, key, &said));
        if !is_killed && !is_race {
            assert!(nth > 8, "a use has more writes than {nth}");
            assert_eq!(tunnels, 1, "nobody was killed: {said:?}");
            assert!(
                none > 0 && one > 1,
                "{none} without a tunnel, {one} with one"
            );
            return;
        }
    }
    panic!("a use has more than {WRITES_MAX} writes");
}

/// What is left of a key after a storm: it goes on to its end, and is never used again.
async fn settle(base: &Base, key: u8, said: &[Vec<String>]) {
    let mut desk = base.open(StoreRole::Administrator).await;
    let found = state(&mut desk, key).await;
    let was_taken = count(said, "taken") > 0;
    assert!(
        !was_taken || found != State::Valid,
        "it was taken: {said:?}"
    );
    assert!(
        count(said, "refused") == 0 || found != State::Valid,
        "{said:?}"
    );
    let before = Calendar(AT.0 + 1);
    let swept = desk.answer(&Ask::Sweep { before }).await;
    let is_stuck = matches!(found, State::Taken { .. });
    assert!(matches!(swept, Answer::Swept(keys) if keys.contains(&handle(key)) == is_stuck));
    let after = state(&mut desk, key).await;
    match count(said, "finished") {
        0 => assert!(!matches!(after, State::Taken { .. }), "{said:?}"),
        _ => assert!(matches!(after, State::Used { .. }), "{said:?}"),
    }
    let take = Ask::Take {
        handle: handle(key),
        request: request(9),
        at: AT,
    };
    match after {
        State::Valid => assert!(desk.answer(&take).await == Answer::Taken),
        _ => assert!(desk.answer(&take).await == Answer::Unchanged(after)),
    }
    let mut at_target = base.open(target(9)).await;
    let is_new = at_target.spend(&spending(key, 9)).await.expect("an answer");
    assert!(
        !is_new || count(said, "spent") == 0,
        "a second tunnel: {said:?}"
    );
}

#[test]
fn a_host_that_is_killed_leaves_no_lock() {
    let base = Base::new("lock");
    run(async {
        let mut host = Process::start(&base, Deed::HoldHost, 0, 0);
        let second = Store::open(&base.database(), StoreRole::Host).await;
        match second {
            Ok(_) => assert!(base.is_shared()),
            Err(fault) => assert!(matches!(fault, StoreError::InUse { role: "Host", .. })),
        }
        host.kill();
        host.said();
        base.open(StoreRole::Host).await;
    });
}
