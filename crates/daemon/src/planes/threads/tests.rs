use std::os::fd::AsFd;

use super::*;

fn past(rested_ms: u64, moved: [u64; 2]) -> Past {
    Past {
        whole: Duration::from_millis(16),
        rested: Duration::from_millis(rested_ms),
        moved,
    }
}

#[test]
fn help_is_for_a_busy_thread_with_two_busy_directions() {
    assert!(past(0, [800, 200]).needs_help());
    assert!(past(1, [200, 800]).needs_help());
    assert!(!past(2, [500, 500]).needs_help(), "it has time to spare");
    assert!(!past(0, [1000, 10]).needs_help(), "one direction is idle");
}

#[test]
fn help_ends_when_there_is_little_to_do() {
    assert!(past(13, [0, 0]).is_rest());
    assert!(!past(12, [0, 0]).is_rest());
}

#[test]
fn a_thread_is_patient_only_where_answers_come_at_once() {
    let mut waiting = Waiting::new().expect("an epoll");
    let mut load = Load::new(Clock::start());
    for _ in 0..3 {
        assert_eq!(load.wait(&mut waiting, EpollTimeout::from(1u8)), 0);
        load.note(true);
        assert_eq!(load.patience, 0, "it took long");
    }
    let bell = nix::sys::eventfd::EventFd::from_value(1).expect("an eventfd");
    waiting.add(bell.as_fd(), BELL).expect("room for it");
    for _ in 0..100 {
        assert_eq!(load.wait(&mut waiting, EpollTimeout::NONE), 1);
        load.note(true);
    }
    assert!(load.patience > 0, "packets came all the time");
    bell.read().expect("it rang");
    for _ in 0..=MAX_PATIENCE {
        assert_eq!(load.wait(&mut waiting, EpollTimeout::from(1u8)), 0);
        load.note(true);
    }
    assert_eq!(load.patience, 0, "they come late");
}

#[test]
fn control_does_not_make_a_thread_patient() {
    let mut load = Load::new(Clock::start());
    load.was_short = true;
    load.note(true);
    assert!(load.patience > 0);
    load.note(false);
    assert_eq!(load.patience, 0);
}
