//! n: hours, the paper's steps, restarts.

use super::counter::{AHEAD, LEAP, hours};
use super::*;

#[test]
fn n_counts_whole_hours_since_1995() {
    assert_eq!(hours(Calendar(788_918_399)), 0);
    assert_eq!(hours(Calendar(788_918_400)), 0);
    assert_eq!(hours(Calendar(788_918_400 + 3_599)), 0);
    assert_eq!(hours(Calendar(788_918_400 + 3_600)), 1);
    assert_eq!(hours(Calendar(i64::MAX)), u32::MAX);
    assert_eq!(hours(Calendar(i64::MIN)), 0);
    // Python: (datetime(2026, 11, 23, 5) - datetime(1995, 1, 1)) // timedelta(hours=1)
    assert_eq!(hours(MID_HOUR.calendar), 279_581);
}

#[test]
fn the_hour_may_differ_by_one() {
    for choice in [algorithms(DES_MD5), Algorithms::HKDF_AES_GCM_SIV] {
        let mut pair = Pair::of(choice);
        let mut sent = |span: Duration| pair.seal(b"x", later(MID_HOUR, span)).unwrap();
        let packets: Vec<_> = (0..4).map(|hours| sent(hours * HOUR)).collect();
        let at = later(MID_HOUR, HOUR);
        let mut open = |packet: &[u8], time| pair.opener.open(&mut packet.to_vec(), IP_LEN, time);
        assert_eq!(open(&packets[3], at), Err(DropReason::SkipFutureN));
        assert!(open(&packets[0], at).is_ok());
        assert!(open(&packets[1], at).is_ok());
        assert!(open(&packets[2], at).is_ok());
        let evening = later(MID_HOUR, 3 * HOUR);
        assert_eq!(open(&packets[1], evening), Err(DropReason::SkipOldN));
        assert!(open(&packets[3], evening).is_ok());
    }
}

/// An older hour is accepted, but does not say where the peer is.
#[test]
fn a_packet_of_an_earlier_hour_is_not_the_newest() {
    let mut pair = Pair::of(algorithms(DES_MD5));
    let old = pair.seal(b"x", MID_HOUR).unwrap();
    let after = later(MID_HOUR, HOUR);
    assert!(pair.pass(b"y", after).0.is_newest);
    let opened = pair.open(&old, after).unwrap();
    assert!(!opened.is_newest && !opened.is_repeated);
}

/// A peer whose clock was an hour ahead must not wait until then to be heard again.
#[test]
fn an_hour_that_is_not_yet_ours_makes_no_packet_old() {
    let mut pair = Pair::of(algorithms(DES_MD5));
    let hasty = pair.seal(b"x", later(MID_HOUR, HOUR)).unwrap();
    assert!(pair.open(&hasty, MID_HOUR).unwrap().is_newest);
    let right = pair.seal(b"y", MID_HOUR).unwrap();
    assert!(pair.open(&right, MID_HOUR).unwrap().is_newest);
    // An hour later it is an old one.
    let old = pair.seal(b"z", MID_HOUR).unwrap();
    let after = later(MID_HOUR, HOUR);
    assert!(!pair.open(&old, after).unwrap().is_newest);
}

fn paper() -> Pair {
    Pair::of(algorithms((KijAlg::Des, CryptAlg::Des, MacAlg::Md5)))
}

#[test]
fn the_papers_n_steps_at_30_s_and_at_512_kb() {
    let mut pair = paper();
    let mut n = |seconds: u64, clear: usize| {
        let time = later(MID_HOUR, Duration::from_secs(seconds));
        pair.pass(&vec![0; clear], time).0.n
    };
    assert_eq!((n(0, 10), n(29, 10), n(30, 10), n(59, 10)), (0, 0, 1, 1));
    assert_eq!(n(60, 65_000), 2);
    // 8 * 65,000 is below 524,288, 9 * 65,000 above it.
    let passed: Vec<_> = (0..8).map(|_| n(60, 65_000)).collect();
    assert_eq!(passed, [2, 2, 2, 2, 2, 2, 2, 3]);
}

/// At the paper's 269 KB/s the draft's window would be left after 4 s; this one holds.
#[test]
fn n_outruns_the_drafts_window_but_not_the_papers() {
    let mut pair = paper();
    let mut packets = Vec::new();
    for second in 0..600_u64 {
        let time = later(MID_HOUR, Duration::from_secs(second));
        for _ in 0..5 {
            packets.push(pair.seal(&[0; 53_800], time).unwrap());
        }
        store(&mut pair.sealer);
    }
    assert!(pair.open(&packets[0], MID_HOUR).is_ok());
    // Everything between is lost.
    let last = packets.last().unwrap();
    let n = peek(last, IP_LEN).unwrap().0.n;
    assert!(n > 250, "{n}");
    assert!(pair.open(last, MID_HOUR).unwrap().is_newest);
    assert_eq!(pair.open(&packets[0], MID_HOUR), Err(DropReason::SkipOldN));
    assert_eq!(pair.opener.highest_n(), Some(n));
}

#[test]
fn the_receivers_bounds_of_the_papers_n_are_exact() {
    let mut accepted = counter::Accepted::steps(Some(1_000));
    let check = |accepted: &counter::Accepted, n| accepted.check(n, MID_HOUR);
    assert_eq!(check(&accepted, 998), Err(DropReason::SkipOldN));
    assert_eq!(check(&accepted, 999), Ok(()));
    assert_eq!(check(&accepted, 1_000 + AHEAD), Ok(()));
    assert_eq!(
        check(&accepted, 1_001 + AHEAD),
        Err(DropReason::SkipFutureN)
    );
    let mut accept = |n| accepted.accept(n, MID_HOUR);
    assert!(!accept(999) && accept(1_000) && accept(2_000));
    assert_eq!(check(&accepted, 1_000), Err(DropReason::SkipOldN));
    let end = counter::Accepted::steps(Some(u32::MAX));
    assert_eq!(check(&end, u32::MAX), Ok(()));
}

/// However often the sender dies, and at whatever moment, it sends no n of an earlier life.
#[test]
fn no_n_is_sent_again_after_a_restart() {
    let [mobile, gateway] = parts_of(Profile::Paper, algorithms(DES_MD5));
    let mobile = Association::new(mobile).unwrap();
    let mut pair = paper();
    pair.opener = Opener::new(&Association::new(gateway).unwrap(), None);
    let (mut disk, mut highest, mut writes) = (0, None, 0);
    for life in 0..40_u64 {
        pair.sealer = Sealer::new(&mobile, disk);
        // Nothing is sent before the first bound is on the disk.
        assert_eq!(pair.seal(b"x", MID_HOUR), Err(DropReason::SkipUnstoredN));
        for step in 0..life * 11 {
            if let Some(bound) = store(&mut pair.sealer) {
                disk = bound;
                writes += 1;
            }
            let time = later(MID_HOUR, Duration::from_secs(30 * step));
            let packet = pair.seal(b"x", time).unwrap();
            let opened = pair.open(&packet, time).unwrap();
            assert!(highest.is_none_or(|(lived, n)| opened.n > n || lived == life));
            assert!(opened.n < disk);
            highest = Some((life, opened.n));
        }
    }
    let sent: u64 = (0..40).map(|life| life * 11).sum();
    assert!(writes < 40 + sent / u64::from(LEAP / 2), "{writes} writes");
    assert!(disk < 40 * LEAP + sent as u32);
}

#[test]
fn a_sender_whose_disk_is_slow_stops_at_the_bound() {
    let mut pair = paper();
    let mut sent = 0;
    for step in 0..2 * u64::from(LEAP) {
        match pair.seal(b"x", later(MID_HOUR, Duration::from_secs(30 * step))) {
            Ok(_) => sent += 1,
            Err(reason) => assert_eq!(reason, DropReason::SkipUnstoredN),
        }
    }
    assert_eq!(sent, LEAP);
    assert!(store(&mut pair.sealer).is_some());
    let after = later(MID_HOUR, Duration::from_secs(60 * u64::from(LEAP)));
    assert!(pair.seal(b"x", after).is_ok());
}

#[test]
fn the_last_n_ends_the_association() {
    let [mobile, _] = parts_of(Profile::Paper, algorithms(DES_MD5));
    let mut pair = paper();
    pair.sealer = Sealer::new(&Association::new(mobile).unwrap(), u32::MAX - 2);
    store(&mut pair.sealer);
    let mut outcomes = Vec::new();
    for step in 0..4 {
        let time = later(MID_HOUR, Duration::from_secs(30 * step));
        outcomes.push(
            pair.seal(b"x", time)
                .map(|packet| peek(&packet, IP_LEN).unwrap().0.n),
        );
    }
    assert_eq!(outcomes[..2], [Ok(u32::MAX - 2), Ok(u32::MAX - 1)]);
    assert_eq!(outcomes[2], Err(DropReason::SkipUnstoredN));
    assert_eq!(outcomes[3], Err(DropReason::SequenceExhausted));
}

/// What is on disk of a former key says nothing of the new one.
#[test]
fn a_new_key_of_the_same_names_has_another_fingerprint() {
    let parts = parts_of(Profile::Paper, algorithms(DES_MD5));
    let renewed = Parts {
        master: MasterKey::manual(&[7; 32]),
        ..parts[1].clone()
    };
    let [mobile, gateway] = parts.map(|parts| Association::new(parts).unwrap());
    let renewed = Association::new(renewed).unwrap();
    assert_eq!(mobile.fingerprint(), gateway.fingerprint());
    assert_eq!(gateway.names(), renewed.names());
    assert_ne!(gateway.fingerprint(), renewed.fingerprint());
}
