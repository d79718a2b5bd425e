//! Compares the window with a set that remembers everything.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::Window;
use crate::counters::DropReason;

proptest! {
    #[test]
    fn window_agrees_with_a_set(
        packets in 64u32..=4096,
        steps in proptest::collection::vec((any::<bool>(), 0u64..6000), 1..400),
    ) {
        let mut window = Window::new(packets, true);
        let size = u64::from(packets.next_multiple_of(64));
        let mut seen = BTreeSet::new();
        let mut top = 0u64;
        for (forward, distance) in steps {
            let sequence = if forward { top + distance / 4 } else { top.saturating_sub(distance) };
            let want = if sequence == 0 || (sequence <= top && top - sequence >= size) {
                Err(DropReason::OutsideWindow)
            } else if seen.contains(&sequence) {
                Err(DropReason::Replayed)
            } else {
                Ok(())
            };
            if sequence == 0 && top == 0 {
                continue;
            }
            prop_assert_eq!(window.check(sequence), want);
            if want.is_ok() {
                prop_assert_eq!(window.accept(sequence), sequence > top);
                seen.insert(sequence);
                top = top.max(sequence);
            }
        }
    }

    #[test]
    fn upper_half_is_recovered(
        start in 1u64..1 << 40, ahead in 0u64..1 << 30, behind in 0u64..4096,
    ) {
        let mut window = Window::new(4096, true);
        // moves the window to `start` in jumps that the lower half can express
        let mut at = 0;
        while at < start {
            at = (at + (1 << 31)).min(start);
            prop_assert_eq!(window.expand(at as u32), Some(at));
            window.accept(at);
        }
        prop_assert_eq!(window.expand((start + ahead) as u32), Some(start + ahead));
        let older = start.saturating_sub(behind);
        prop_assert_eq!(window.expand(older as u32), Some(older));
    }
}

#[test]
fn each_size_holds_exactly_its_packets() {
    for packets in [64, 128, 1024, 4096] {
        let mut window = Window::new(packets, false);
        let top = 1_000_000;
        assert!(window.accept(top));
        let oldest = top - u64::from(packets) + 1;
        assert_eq!(window.check(oldest), Ok(()));
        assert!(!window.accept(oldest));
        assert_eq!(window.check(oldest), Err(DropReason::Replayed));
        assert_eq!(window.check(oldest - 1), Err(DropReason::OutsideWindow));
        assert_eq!(window.check(top), Err(DropReason::Replayed));
    }
}

#[test]
fn sequence_zero_never_passes() {
    let window = Window::new(64, false);
    assert_eq!(window.check(0), Err(DropReason::OutsideWindow));
}

#[test]
fn no_window_checks_nothing_and_is_never_newest() {
    let mut window = Window::new(0, false);
    assert_eq!(window.check(7), Ok(()));
    assert!(!window.accept(7));
    assert_eq!(window.check(7), Ok(()));
}
