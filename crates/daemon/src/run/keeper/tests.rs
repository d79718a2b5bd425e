//! The task against a steward that the test plays. Time is paused: it passes only while every task
//! waits.

use std::process::Command;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::routes::Prefix;
use crate::run::report::{STEWARD_PATIENCE, complete};
use crate::status::{ConnectionStatus, StatusReport};
use crate::steward::{Counts, REQUEST_BYTES_MAX, Reply, Request, parse, read_frame, write_frame};

const HOUR: Duration = Duration::from_secs(3_600);

/// The steward's end of the socket.
pub(in crate::run) struct Played(UnixStream);

impl Played {
    /// A steward's client, and the steward that a test plays.
    pub(in crate::run) fn steward() -> (Steward, Self) {
        let (own, other) = UnixStream::pair().expect("a socket pair");
        let child = Command::new("true").spawn().expect("a process");
        (Steward::at(own, child), Self(other))
    }

    /// The next request.
    pub(in crate::run) async fn request(&mut self) -> Request {
        let frame = read_frame(&mut self.0, REQUEST_BYTES_MAX).await;
        parse(&frame.expect("a frame").expect("a request")).expect("a good request")
    }

    pub(in crate::run) async fn reply(&mut self, reply: Reply) {
        write_frame(&mut self.0, &reply).await.expect("written");
    }

    /// The routes and blocks of the next request, which is to apply a state.
    async fn applies(&mut self) -> HostState {
        match self.request().await {
            Request::Apply { desired, resolvers } => HostState {
                desired: *desired,
                resolvers,
            },
            other => panic!("{other:?}"),
        }
    }

    /// The peers of the next request, which is to find our addresses towards them.
    async fn finds(&mut self) -> Vec<IpAddr> {
        match self.request().await {
            Request::Ways { peers, .. } => peers,
            other => panic!("{other:?}"),
        }
    }

    async fn has_found(&mut self) {
        let (ways, own) = Default::default();
        self.reply(Reply::Ways { ways, own }).await;
    }

    /// Whether it gets no request for an hour.
    pub(in crate::run) async fn is_idle(&mut self) -> bool {
        timeout(HOUR, self.request()).await.is_err()
    }
}

fn keeper() -> (Keeper, Played) {
    let (steward, played) = Played::steward();
    (Keeper::start(steward), played)
}

/// A state that differs from those of other numbers.
fn state(number: u8) -> HostState {
    let address = IpAddr::from([10, 10, 0, number]);
    let desired = Desired {
        routes: [(Prefix::host(address), None)].into(),
        ..Desired::default()
    };
    let resolvers = Resolvers {
        addresses: vec![address],
        ..Resolvers::default()
    };
    HostState { desired, resolvers }
}

fn peers(number: u8) -> BTreeSet<IpAddr> {
    [IpAddr::from([192, 0, 2, number])].into()
}

fn is_applied(event: &KeeperEvent, wanted: u64) -> bool {
    matches!(event, KeeperEvent::Applied(number) if *number == wanted)
}

#[tokio::test(start_paused = true)]
async fn of_many_desired_states_the_newest_is_applied_and_nothing_waits_for_a_slow_steward() {
    let (mut keeper, mut played) = keeper();
    let begun = Instant::now();
    assert!(
        !keeper.is_up_to_date(),
        "without a state the host is not ready"
    );
    keeper.want(0, state(1));
    assert!(played.applies().await == state(1));
    // The steward is at it. Wanting takes no time, and the states in between are replaced.
    (2..=200).for_each(|number| keeper.want(0, state(number)));
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert!(timeout(HOUR, keeper.next_event()).await.is_err());
    played.reply(Reply::Done).await;
    assert!(is_applied(&keeper.next_event().await, 1));
    assert!(!keeper.is_up_to_date());
    assert!(played.applies().await == state(200));
    played.reply(Reply::Done).await;
    assert!(is_applied(&keeper.next_event().await, 200));
    assert!(keeper.is_up_to_date());
    assert!(played.is_idle().await);
}

#[tokio::test(start_paused = true)]
async fn a_silent_steward_keeps_no_status_report_and_no_desired_state_waiting() {
    let (mut keeper, mut played) = keeper();
    keeper.want(0, state(1));
    assert!(played.applies().await == state(1));
    // More reports than requests may wait.
    for _ in 0..2 * ASKS_MAX {
        let (mut report, asks) = (StatusReport::default(), keeper.asks());
        let begun = Instant::now();
        complete(&mut report, None, &asks).await;
        assert_eq!(begun.elapsed(), STEWARD_PATIENCE);
        assert!(report.warnings[0].contains("has not answered for 2 s"));
    }
    keeper.want(0, state(2));
    assert!(timeout(HOUR, keeper.next_event()).await.is_err());
    // It answers after all: what nobody waits for is not asked, and the newest state is applied.
    played.reply(Reply::Done).await;
    assert!(is_applied(&keeper.next_event().await, 1));
    assert!(played.applies().await == state(2));
    played.reply(Reply::Done).await;
    assert!(is_applied(&keeper.next_event().await, 2));
    let asks = keeper.asks();
    let report = async {
        let mut report = StatusReport::default();
        report.connections.push(ConnectionStatus {
            trust_anchor_file: Some("/run/caravan/home.trust-anchors".to_owned()),
            ..ConnectionStatus::default()
        });
        complete(&mut report, None, &asks).await;
        report
    };
    let serve = async {
        assert_eq!(played.request().await, Request::KeptOut);
        let counts = Counts {
            packets: Some(7),
            refused: 1,
            put_back: 2,
            entries_put_back: 3,
            is_open: false,
            has_trust_anchors: false,
        };
        played.reply(Reply::KeptOut { counts }).await;
    };
    let (report, ()) = tokio::join!(report, serve);
    let process = &report.process;
    assert_eq!((process.refused_requests, process.tables_put_back), (1, 2));
    // The steward could not write it.
    assert_eq!(report.connections[0].trust_anchor_file, None);
    assert_eq!(process.entries_put_back, 3);
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_steward_is_told_whether_it_works_or_rests() {
    let (mut keeper, played) = keeper();
    drop(played);
    assert!(matches!(
        keeper.next_event().await,
        KeeperEvent::StewardGone
    ));
    assert!(
        timeout(HOUR, keeper.next_event()).await.is_err(),
        "told once"
    );

    let (mut keeper, mut played) = self::keeper();
    keeper.want(0, state(1));
    assert!(played.applies().await == state(1));
    drop(played);
    assert!(matches!(
        keeper.next_event().await,
        KeeperEvent::Refused(1, _)
    ));
    // A failure may be forgiven after a reload. This is not.
    assert!(matches!(
        keeper.next_event().await,
        KeeperEvent::StewardGone
    ));
    assert!(!keeper.is_up_to_date());
    assert!(keeper.close(false).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_state_that_the_host_refuses_is_tried_again_only_when_it_is_wanted_again() {
    let (mut keeper, mut played) = keeper();
    keeper.want(0, state(1));
    played.applies().await;
    let text = "no such device".to_owned();
    played.reply(Reply::Failed { text }).await;
    let KeeperEvent::Refused(1, error) = keeper.next_event().await else {
        panic!("not failed")
    };
    assert_eq!(error.to_string(), "no such device");
    assert!(!keeper.is_up_to_date() && played.is_idle().await);
    keeper.want(0, state(1));
    assert!(played.applies().await == state(1));
    played.reply(Reply::Done).await;
    assert!(is_applied(&keeper.next_event().await, 2));
}

#[tokio::test(start_paused = true)]
async fn a_state_of_a_former_configuration_is_not_applied() {
    let (mut keeper, mut played) = keeper();
    let asks = keeper.asks();
    keeper.want(0, state(1));
    played.applies().await;
    // While it is applied, the steward is asked to adopt another configuration.
    let adopted = tokio::spawn(async move { ask(&asks, Ask::Adopt).await });
    sleep(Duration::from_millis(1)).await;
    keeper.want(0, state(2));
    played.reply(Reply::Done).await;
    assert!(is_applied(&keeper.next_event().await, 1));
    assert_eq!(played.request().await, Request::Adopt);
    played.reply(Reply::Done).await;
    assert!(adopted.await.expect("no panic").is_ok());
    assert!(played.is_idle().await);
    keeper.want(1, state(3));
    assert!(played.applies().await == state(3));
    played.reply(Reply::Done).await;
    assert!(is_applied(&keeper.next_event().await, 3));
}

#[tokio::test(start_paused = true)]
async fn a_state_and_a_question_that_come_together_are_both_served() {
    let (mut keeper, mut played) = keeper();
    for round in 1..=3 {
        keeper.ask_ways(peers(round), BTreeSet::new());
        keeper.want(0, state(round));
        // New addresses do not wait for routes and resolvers.
        assert_eq!(played.finds().await, Vec::from_iter(peers(round)));
        played.has_found().await;
        let found = keeper.next_event().await;
        assert!(matches!(found, KeeperEvent::Ways(..)));
        assert!(played.applies().await == state(round));
        played.reply(Reply::Done).await;
        assert!(is_applied(&keeper.next_event().await, round.into()));
    }
    assert!(played.is_idle().await);
}

#[tokio::test(start_paused = true)]
async fn a_storm_of_changes_leaves_the_steward_nine_tenths_of_its_time() {
    const SEARCH: Duration = Duration::from_millis(20);
    let (mut keeper, mut played) = keeper();
    let steward = tokio::spawn(async move {
        let mut searches = 0;
        while let Ok(asked) = timeout(HOUR, played.finds()).await {
            assert_eq!(asked, Vec::from_iter(peers(1)));
            sleep(SEARCH).await;
            played.has_found().await;
            searches += 1;
        }
        searches
    });
    let begun = Instant::now();
    keeper.ask_ways(peers(1), BTreeSet::new());
    keeper.next_event().await;
    assert_eq!(
        begun.elapsed(),
        SEARCH,
        "the first change is looked at at once"
    );
    // Ten thousand changes within ten seconds.
    let mut found = 0;
    let mut last = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        keeper.ask_ways(peers(1), BTreeSet::new());
        let pause = sleep(Duration::from_millis(1));
        tokio::pin!(pause);
        tokio::select! {
            () = &mut pause => {}
            event = keeper.next_event() => {
                assert!(matches!(event, KeeperEvent::Ways(..)));
                (found, last) = (found + 1, Instant::now());
            }
        }
    }
    assert!((45..=50).contains(&found), "{found}");
    // The last change is not lost.
    assert!(last.elapsed() < SEARCH * 10);
    let event = timeout(SEARCH * 11, keeper.next_event()).await;
    assert!(matches!(event, Ok(KeeperEvent::Ways(..))));
    assert_eq!(steward.await.expect("no panic"), found + 2);
}

#[tokio::test(start_paused = true)]
async fn another_question_does_not_wait_for_the_pause_after_the_last() {
    let (mut keeper, mut played) = keeper();
    for round in 1..=5 {
        let begun = Instant::now();
        keeper.ask_ways(peers(round), BTreeSet::new());
        assert_eq!(played.finds().await, Vec::from_iter(peers(round)));
        assert_eq!(begun.elapsed(), Duration::ZERO);
        sleep(Duration::from_millis(200)).await;
        played.has_found().await;
        keeper.next_event().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_for_what_is_being_applied_and_applies_the_newest_before_it() {
    for (is_refused, lifts) in [(false, true), (true, false)] {
        let (mut keeper, mut played) = keeper();
        keeper.want(0, state(1));
        assert!(played.applies().await == state(1));
        keeper.want(0, state(2));
        keeper.want(0, state(3));
        let closed = tokio::spawn(keeper.close(lifts));
        assert!(played.is_idle().await, "the steward is at it");
        played.reply(Reply::Done).await;
        // The blocks that stay are those of the newest state.
        assert!(played.applies().await == state(3));
        let text = "no".to_owned();
        let applied = if is_refused {
            Reply::Failed { text }
        } else {
            Reply::Done
        };
        played.reply(applied).await;
        assert_eq!(played.request().await, Request::End { lifts });
        assert!(!closed.is_finished());
        played.reply(Reply::Done).await;
        assert_eq!(closed.await.expect("no panic").is_err(), is_refused);
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_fails_is_not_a_state_that_the_host_refused() {
    let (mut keeper, mut played) = keeper();
    keeper.ask_ways(peers(1), BTreeSet::new());
    keeper.want(0, state(1));
    played.finds().await;
    let text = "no".to_owned();
    played.reply(Reply::Refused { text }).await;
    assert!(matches!(
        keeper.next_event().await,
        KeeperEvent::NotFound(_)
    ));
    played.applies().await;
    played.reply(Reply::Done).await;
    assert!(is_applied(&keeper.next_event().await, 1));
}

#[tokio::test(start_paused = true)]
async fn resolvers_that_cannot_be_taken_are_told_once_and_before_all_is_up() {
    let (mut keeper, mut played) = keeper();
    let untaken = Untaken {
        addresses: vec![IpAddr::from([10, 10, 0, 2])],
        reason: "cannot write /etc/resolv.conf: Read-only file system".to_owned(),
    };
    let but = Reply::DoneButResolvers {
        untaken: untaken.clone(),
    };
    let but = serde_json::to_vec(&but).expect("a reply");
    for number in 1..=3 {
        keeper.want(0, state(number));
        played.applies().await;
        let reply = match number {
            3 => Reply::Done,
            _ => serde_json::from_slice(&but).expect("the same"),
        };
        played.reply(reply).await;
        let told = match number {
            1 => Some(Some(&untaken)),
            2 => None,
            _ => Some(None),
        };
        if let Some(told) = told {
            let KeeperEvent::Resolvers(found) = keeper.next_event().await else {
                panic!("not told")
            };
            assert_eq!(found.as_ref(), told);
        }
        assert!(is_applied(&keeper.next_event().await, number.into()));
    }
}

#[tokio::test(start_paused = true)]
async fn many_requests_do_not_keep_the_newest_state_waiting() {
    let (mut keeper, mut played) = keeper();
    let (sender, answers): (Vec<_>, Vec<_>) = (0..ASKS_MAX).map(|_| oneshot::channel()).unzip();
    for reply in sender {
        assert!(keeper.asks().try_send(Ask::KeptOut(reply)).is_ok());
    }
    keeper.want(0, state(1));
    assert_eq!(played.request().await, Request::KeptOut);
    let counts = Counts::default();
    played.reply(Reply::KeptOut { counts }).await;
    assert!(played.applies().await == state(1));
    played.reply(Reply::Done).await;
    assert!(is_applied(&keeper.next_event().await, 1));
    assert_eq!(played.request().await, Request::KeptOut);
    drop(answers);
}

#[tokio::test(start_paused = true)]
async fn the_end_right_after_a_reload_applies_the_newest_state_if_the_steward_allows_it() {
    for is_refused in [false, true] {
        let (mut keeper, mut played) = keeper();
        let asks = keeper.asks();
        let adopted = tokio::spawn(async move { ask(&asks, Ask::Adopt).await });
        assert_eq!(played.request().await, Request::Adopt);
        keeper.want(0, state(2));
        let closed = tokio::spawn(keeper.close(false));
        sleep(Duration::from_millis(1)).await;
        played.reply(Reply::Done).await;
        assert!(adopted.await.expect("no panic").is_ok());
        assert!(played.applies().await == state(2));
        let text = "no".to_owned();
        played
            .reply(if is_refused {
                Reply::Refused { text }
            } else {
                Reply::Done
            })
            .await;
        assert_eq!(played.request().await, Request::End { lifts: false });
        played.reply(Reply::Done).await;
        assert!(closed.await.expect("no panic").is_ok());
    }
}
