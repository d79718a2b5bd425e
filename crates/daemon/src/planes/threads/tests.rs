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
