//! Random questions: the database answers as a table in memory does, whose rule is
//! [`Record::apply`], and holds the same keys afterwards, whenever it is opened again.

use std::collections::BTreeMap;

use daemon::agent::store::{Store, StoreRole, Which};
use engine::agent::Handle;
use engine::agent::host::{ANSWER_LIVES, Answer, Ask, Record, State};
use engine::time::Calendar;
use proptest::prelude::*;

use crate::base::*;

const KEYS: u8 = 4;

#[derive(Clone, Debug)]
enum Step {
    Asks(Ask),
    Revokes(Which),
    /// The process ends, and another one opens the database.
    Restarts,
}

/// The table in memory.
#[derive(Default)]
struct Model {
    keys: BTreeMap<Handle, Record>,
    taken_at: BTreeMap<Handle, Calendar>,
}

impl Model {
    fn answer(&mut self, ask: &Ask) -> Answer {
        let handle = match ask {
            Ask::Find(handle)
            | Ask::Take { handle, .. }
            | Ask::Refuse { handle, .. }
            | Ask::Finish { handle, .. } => handle,
            Ask::Sweep { before } => return Answer::Swept(self.sweep(ask, *before)),
        };
        let Some(record) = self.keys.get_mut(handle) else {
            return Answer::Found(None);
        };
        let answer = record.apply(ask);
        if let (Answer::Taken, Ask::Take { at, .. }) = (&answer, ask) {
            self.taken_at.insert(*handle, *at);
        }
        answer
    }

    fn sweep(&mut self, ask: &Ask, before: Calendar) -> Vec<Handle> {
        let forgotten = Calendar(before.0 - ANSWER_LIVES.as_secs() as i64);
        let mut swept = Vec::new();
        for (handle, record) in &mut self.keys {
            if record.apply(ask) == Answer::Finished {
                swept.push(*handle);
            }
            if record.not_after < before {
                record.ppk = None;
            }
            let is_old = self.taken_at.get(handle).is_some_and(|at| *at < forgotten);
            if let State::Used { answer, .. } = &mut record.state
                && is_old
            {
                *answer = None;
            }
        }
        swept
    }

    fn revoke(&mut self, which: &Which) -> usize {
        let is_meant = |handle: &Handle, record: &Record| match which {
            Which::Handle(it) => it == handle,
            Which::User(user) => *user == record.user,
            Which::All => true,
        };
        let keys = self
            .keys
            .iter_mut()
            .filter(|(it, record)| is_meant(it, record));
        keys.filter_map(|(_, record)| record.revoke().then_some(()))
            .count()
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let handles = || (0..=KEYS).prop_map(handle);
    let requests = || (1..3_u8).prop_map(request);
    let find = handles().prop_map(Ask::Find);
    let take = (handles(), requests(), 0..1_200_i64).prop_map(|(handle, request, at)| Ask::Take {
        handle,
        request,
        at: Calendar(at),
    });
    let refuse = (handles(), 1..12_u8, any::<bool>());
    let refuse = refuse.prop_map(|(handle, number, is_wrong_user)| Ask::Refuse {
        handle,
        request: request(number),
        is_wrong_user,
    });
    let answers = prop::option::of(prop::collection::vec(any::<u8>(), 0..40));
    let finish = (handles(), requests(), answers);
    let finish = finish.prop_map(|(handle, request, answer)| Ask::Finish {
        handle,
        request,
        answer,
    });
    let sweep = (0..2_500_i64).prop_map(|before| Ask::Sweep {
        before: Calendar(before),
    });
    let which = prop_oneof![
        4 => handles().prop_map(Which::Handle),
        2 => (0..3_u8).prop_map(|user| Which::User(format!("user {user}"))),
        1 => Just(Which::All),
    ];
    let step = prop_oneof![
        2 => find.prop_map(Step::Asks),
        6 => take.prop_map(Step::Asks),
        4 => refuse.prop_map(Step::Asks),
        6 => finish.prop_map(Step::Asks),
        2 => sweep.prop_map(Step::Asks),
        1 => which.prop_map(Step::Revokes),
        1 => Just(Step::Restarts),
    ];
    prop::collection::vec(step, 1..40)
}

async fn check(base: &Base, steps: Vec<Step>) {
    let mut store = base.open(StoreRole::Host).await;
    let mut model = Model::default();
    // One handle more is asked for than there are keys.
    let keys: Vec<_> = (0..KEYS).map(|it| (handle(it), record(it))).collect();
    store.issue(&keys).await.expect("issued");
    model.keys.extend(keys);
    for step in steps {
        match &step {
            Step::Asks(ask) => {
                let answer = store.answer(ask).await;
                assert!(answer != Answer::Unavailable, "{step:?}");
                assert!(answer == model.answer(ask), "{step:?}");
            }
            Step::Revokes(which) => {
                let count = store.revoke(which.clone()).await.expect("revoked");
                assert_eq!(count, model.revoke(which), "{step:?}");
            }
            Step::Restarts => {
                drop(store);
                store = base.open(StoreRole::Host).await;
            }
        }
        compare(&mut store, &model).await;
    }
}

async fn compare(store: &mut Store, model: &Model) {
    let keys = store.keys().await.expect("keys");
    assert!(keys.is_sorted_by_key(|(handle, record)| (record.user.clone(), *handle)));
    let keys: BTreeMap<Handle, Record> = keys.into_iter().collect();
    assert!(keys == model.keys, "the tables hold other keys");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(24)
    })]

    #[test]
    fn the_database_is_the_model(steps in steps()) {
        let base = Base::new("model");
        run(check(&base, steps));
    }
}
