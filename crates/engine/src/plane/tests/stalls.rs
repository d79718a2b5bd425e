//! Paths that lose large packets silently, and cases that only look like it.

use super::support::*;
use crate::plane::inner::be16;
use crate::plane::path_mtu::REPORT_HOLDS;
use crate::plane::{Notice, OutboundChange};
use crate::time::{Duration, Instant};
use wire::ip::protocol::{TCP, UDP};

const ACK: u8 = 16;
const STALLED: Notice = Notice::LargeUnanswered { child: CHILD };

/// The client's packets, one at a time, and the plane's notices.
struct Sender {
    pair: Pair,
    now: Instant,
}

impl Sender {
    fn new() -> Self {
        Self {
            pair: Pair::new(tunnel_sa(AES_GCM)),
            now: NOW,
        }
    }

    fn send(&mut self, frame: &[u8], after_ms: u64) -> Vec<Notice> {
        self.now = self.now + Duration::from_millis(after_ms);
        self.pair.datagrams.clear();
        let mut frame = frame.to_vec();
        self.pair
            .sender
            .seal(&mut frame, self.now, &mut self.pair.datagrams);
        self.pair.datagrams.notices().to_vec()
    }

    fn repeat(&mut self, frame: &[u8]) {
        for after in TIMEOUTS_MS {
            self.send(frame, after);
        }
    }

    /// The peer answers a small probe at once.
    fn doubt(&mut self) -> Option<Notice> {
        let doubt = OutboundChange::Doubt(CHILD);
        self.pair.sender.apply(doubt, self.now)
    }

    /// The size that the path is assumed to carry.
    fn path_mtu(&self) -> u16 {
        self.pair.sender.report().associations[0].path_mtu
    }
}

fn segment(sequence: u32, length: usize) -> Vec<u8> {
    let tcp = tcp(sequence, ACK, &[], &data(length));
    plain(&packet("10.1.0.1", "10.2.0.1", TCP, &tcp))
}

const SHRANK: Option<Notice> = Some(Notice::PathShrank {
    child: CHILD,
    mtu: 1_280,
});

/// The waits of a sender whose timeout doubles.
const TIMEOUTS_MS: [u64; 3] = [220, 440, 880];

#[test]
fn a_large_segment_repeated_three_times_is_told_and_makes_the_path_small_if_the_peer_answers() {
    let mut sender = Sender::new();
    let large = segment(1, 1_300);
    assert!(sender.send(&large, 0).is_empty());
    assert!(sender.send(&large, TIMEOUTS_MS[0]).is_empty());
    assert!(sender.send(&large, TIMEOUTS_MS[1]).is_empty());
    assert_eq!(sender.send(&large, TIMEOUTS_MS[2]), [STALLED]);
    // Nothing changes before the peer has answered. Each repetition probes again.
    assert_eq!(sender.path_mtu(), 1_500);
    assert_eq!(sender.send(&large, 1_760), [STALLED]);
    assert_eq!(sender.doubt(), SHRANK);
    assert_eq!(sender.path_mtu(), 1_280);
    // The sender inside is told the size, as on any path.
    assert!(sender.send(&large, 3_500).is_empty());
    let reply = sender.pair.datagrams.replies().next().expect("an answer");
    let fits = shape_of(&tunnel_sa(AES_GCM)).largest_packet(1_280);
    assert_eq!(usize::from(be16(&reply[10..], 26)), fits);
    // After ten minutes the large size is tried again, and fails again.
    sender.now = sender.now + REPORT_HOLDS;
    let other = segment(90_000, 1_300);
    for after in [0, TIMEOUTS_MS[0], TIMEOUTS_MS[1]] {
        assert!(sender.send(&other, after).is_empty());
    }
    assert_eq!(sender.path_mtu(), 1_500);
    assert_eq!(sender.send(&other, TIMEOUTS_MS[2]), [STALLED]);
}

#[test]
fn super_packets_count_by_their_segments() {
    let mut sender = Sender::new();
    let tcp = |length| {
        packet(
            "10.1.0.1",
            "10.2.0.1",
            TCP,
            &tcp(1, ACK, &[], &data(length)),
        )
    };
    let (first, again) = (super_packet(&tcp(13_000), 1_300), segment(1, 1_300));
    assert!(sender.send(&first, 0).is_empty());
    let repeated = TIMEOUTS_MS.map(|after| sender.send(&again, after));
    assert_eq!(repeated[2], [STALLED]);
    // Small segments in a large super-packet are small.
    let mut sender = Sender::new();
    let small = super_packet(&tcp(13_000), 500);
    for after in [0, 220, 440, 880, 1_760] {
        assert!(sender.send(&small, after).is_empty());
    }
}

#[test]
fn nothing_else_makes_a_path_doubtful() {
    let mut sender = Sender::new();
    // Small segments, datagrams, one-way or repeated, and what is acknowledged.
    let datagram = plain(&packet(
        "10.1.0.1",
        "10.2.0.1",
        UDP,
        &udp((1, 2), &data(1_300)),
    ));
    for number in 0..200 {
        assert!(sender.send(&segment(1, 500), 300).is_empty());
        assert!(sender.send(&datagram, 300).is_empty());
        assert!(
            sender
                .send(&segment(1 + 1_300 * number, 1_300), 10)
                .is_empty()
        );
    }
    // A burst of repetitions faster than any timeout.
    let large = segment(1_000_000, 1_300);
    for _ in 0..50 {
        assert!(sender.send(&large, 5).is_empty());
    }
    assert!(sender.doubt().is_none());
    assert_eq!(sender.path_mtu(), 1_500);
}

#[test]
fn a_loss_now_and_then_is_no_sign() {
    let mut sender = Sender::new();
    for number in 0..300 {
        let large = segment(1 + 1_300 * number, 1_300);
        assert!(sender.send(&large, 30).is_empty());
        if number % 7 == 0 {
            assert!(sender.send(&large, 250).is_empty());
        }
    }
    assert!(sender.doubt().is_none());
}

#[test]
fn an_answer_that_comes_late_changes_nothing() {
    let mut sender = Sender::new();
    let large = segment(1, 1_300);
    sender.send(&large, 0);
    sender.repeat(&large);
    sender.now = sender.now + Duration::from_secs(60);
    assert!(sender.doubt().is_none());
    assert_eq!(sender.path_mtu(), 1_500);
}

#[test]
fn a_server_that_died_inside_is_not_the_paths_fault() {
    let mut sender = Sender::new();
    let large = segment(1, 1_300);
    sender.send(&large, 0);
    sender.repeat(&large);
    assert_eq!(sender.doubt(), SHRANK);
    // Small segments are not answered either.
    let small = segment(1, 1_000);
    for after in [1_760, 3_520, 7_040] {
        sender.send(&small, after);
    }
    assert_eq!(sender.path_mtu(), 1_500);
    // The suspicion is not raised again for a while.
    for after in [14_000, 220, 440, 880, 1_760] {
        assert!(sender.send(&large, after).is_empty());
    }
}

#[test]
fn a_path_that_is_small_already_is_not_doubted() {
    let mut sender = Sender::new();
    sender
        .pair
        .sender
        .apply(OutboundChange::LinkMtu(CHILD, 1_280), NOW);
    let fits = segment(1, 1_150);
    for after in [0, 220, 440, 880, 1_760] {
        assert!(sender.send(&fits, after).is_empty());
    }
}
