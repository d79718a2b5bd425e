use engine::sa::{Mode, Sa, Secret};
use engine::suite::EspSuite;

use super::*;

const CHILD: ChildId = ChildId(7);
const PEER: [u8; 4] = [192, 0, 2, 2];
const OTHER: [u8; 4] = [192, 0, 2, 3];

fn path(peer: [u8; 4]) -> Path {
    Path {
        local: ([192, 0, 2, 1], 0).into(),
        remote: (peer, 0).into(),
    }
}

fn install(spi: u32) -> Change {
    let suite: EspSuite = "aes128gcm16".parse().expect("a suite");
    Change::Install(Box::new(Sa {
        direction: Direction::Outbound,
        child: CHILD,
        spi,
        protocol: suite.protocol,
        mode: Mode::Tunnel,
        protection: suite.protection,
        encryption_key: Secret(vec![1; suite.protection.encryption_key_len()]),
        integrity_key: Secret(Vec::new()),
        has_esn: false,
        replay_window: 64,
        is_udp_encapsulated: false,
        path: path(PEER),
        local: Vec::new(),
        remote: Vec::new(),
        original: None,
        pool_address: None,
        soft_packets: u64::MAX,
        soft_bytes: u64::MAX,
        copies_df: true,
        path_mtu: 1500,
    }))
}

fn shrink(paths: &mut Paths, peer: [u8; 4]) -> Vec<(ChildId, u16)> {
    paths.shrink(peer.into(), 1300, Instant(1))
}

#[test]
fn a_path_concerns_its_child_until_the_last_sa_is_gone() {
    let mut paths = Paths::default();
    paths.note(&install(1));
    // Nothing waits for it any more: the child itself stays.
    paths.note(&Change::Forget(CHILD));
    assert_eq!(shrink(&mut paths, PEER), [(CHILD, 1300)]);
    paths.note(&Change::Move(CHILD, path(OTHER)));
    assert_eq!(shrink(&mut paths, PEER), []);
    assert_eq!(shrink(&mut paths, OTHER), [(CHILD, 1300)]);
    paths.note(&install(2));
    paths.note(&Change::Remove(CHILD, 1, Direction::Outbound));
    assert_eq!(shrink(&mut paths, PEER), [(CHILD, 1300)]);
    paths.note(&Change::Remove(CHILD, 2, Direction::Outbound));
    assert_eq!(shrink(&mut paths, PEER), []);
    assert!(paths.children.is_empty() && paths.by_peer.is_empty() && !paths.asks());
}

#[test]
fn a_path_is_asked_for_a_new_sa_and_again_while_it_is_smaller() {
    let mut paths = Paths::default();
    assert!(!paths.asks());
    paths.note(&install(1));
    assert_eq!(paths.due(Instant(1)), Some((CHILD, path(PEER), 1500)));
    paths.answered(CHILD, 1500);
    assert!(!paths.asks());
    shrink(&mut paths, PEER);
    assert!(paths.asks());
    assert_eq!(paths.due(Instant(2)), None);
    let later = Instant(1) + MTU_RETRY;
    assert_eq!(paths.due(later), Some((CHILD, path(PEER), 1500)));
    paths.answered(CHILD, 1300);
    assert_eq!(paths.due(later), None);
    assert!(paths.asks());
    paths.note(&install(2));
    assert_eq!(paths.due(later), Some((CHILD, path(PEER), 1500)));
}
