//! SKIP in the planes (draft-ietf-ipsec-skip-06): a mobile node with the name 10.18.3.17 sends from
//! its care-of address 198.51.100.7 to a firewall at 203.0.113.1, which knows it by its name.

use std::net::Ipv4Addr;

use crypto::dh::long_term::{Group, LongTermKey};
use crypto::rand::Seed;
use wire::ip::protocol::{SKIP, UDP};
use wire::skip::{Algorithms, CryptAlg, KijAlg, MacAlg, Name};

use super::support::*;
use crate::counters::DropReason;
use crate::plane::inner::be16;
use crate::plane::{InboundChange, Notice, OutboundChange, TooBig};
use crate::sa::{Aim, Direction, InLine, Layer, Lead, Path, Sa, Sender, Via};
use crate::selector::TrafficSelector;
use crate::skip::{Association, IvLen, Layout, MasterKey, Parts, Profile, Renewal};
use crate::time::{Calendar, Duration};
use crate::work::{Task, Work};

const FIREWALL: &str = "203.0.113.1";
const CARE_OF: &str = "198.51.100.7";
const ELSEWHERE: &str = "192.0.2.40";
const HOME_AGENT: &str = "10.18.0.1";
/// 2026-11-23 05:30 UTC.
const CALENDAR: Calendar = Calendar(1_795_411_800);

fn node() -> Name {
    Name::ipv4(Ipv4Addr::new(10, 18, 3, 17))
}

fn des_md5() -> Algorithms {
    Algorithms::new(KijAlg::TripleDes, CryptAlg::Des, MacAlg::Md5).expect("they go together")
}

fn des_alone() -> Algorithms {
    Algorithms::new(KijAlg::TripleDes, CryptAlg::Des, MacAlg::None).expect("they go together")
}

fn key(number: u64) -> LongTermKey {
    LongTermKey::generate(
        Group::Skip1024,
        &mut Seed::new([6; 32]).stream("skip", number),
    )
}

/// The two ends of an association; `remote` is the firewall's name of the node.
fn associations(profile: Profile, algorithms: Algorithms, remote: Name) -> [Association; 2] {
    let (mobile, gateway) = (key(1), key(2));
    let master = |own: &LongTermKey, peer: &LongTermKey| {
        MasterKey::agree(own, peer.public(), &mut Work::default()).expect("a good value")
    };
    let parts = |local, remote, master| Parts {
        profile,
        algorithms,
        local,
        remote,
        iv_len: IvLen::Whole,
        renewal: Renewal::DRAFT,
        master,
    };
    let both = [
        parts(remote, Name::NONE, master(&mobile, &gateway)),
        parts(Name::NONE, remote, master(&gateway, &mobile)),
    ];
    both.map(|parts| Association::new(parts).expect("they fit"))
}

fn sa(
    direction: Direction,
    association: Association,
    from: Option<TrafficSelector>,
    (own, peer): (&str, &str),
) -> Sa {
    let in_line = InLine {
        from,
        ..InLine::new(association, SPI)
    };
    let all = || vec![within("0.0.0.0", "255.255.255.255")];
    let mut sa = Sa::skip(
        (direction, CHILD),
        in_line,
        raw_path(own, peer),
        all(),
        all(),
    );
    sa.path_mtu = 1_500;
    sa
}

fn pair_of(profile: Profile, algorithms: Algorithms, remote: Name) -> Pair {
    let from = (remote == Name::NONE).then(|| TrafficSelector::host(ip(CARE_OF)));
    let [mobile, gateway] = associations(profile, algorithms, remote);
    let sending = sa(Direction::Outbound, mobile, None, (CARE_OF, FIREWALL));
    let receiving = sa(Direction::Inbound, gateway, from, (FIREWALL, "0.0.0.0"));
    let mut pair = Pair::of(sending, receiving, NO_OFFLOADS);
    pair.sender
        .apply(OutboundChange::Calendar(CALENDAR, NOW), NOW);
    pair.receiver.apply(InboundChange::Calendar(CALENDAR, NOW));
    pair
}

fn nomadic() -> Pair {
    pair_of(Profile::Draft, des_md5(), node())
}

fn registration(size: usize) -> Vec<u8> {
    packet(CARE_OF, HOME_AGENT, UDP, &udp((434, 434), &data(size)))
}

/// The same packet from another address. Nothing but its outer header is changed.
fn from_elsewhere(sent: &Sent) -> Sent {
    let mut moved = sent.clone();
    moved.path = raw_path(ELSEWHERE, FIREWALL);
    moved
}

#[test]
fn packets_are_ip_skip_ah_esp_and_come_out_as_they_were() {
    let mut pair = nomadic();
    let inner = registration(52);
    let sent = pair.seal(core::slice::from_ref(&inner));
    assert_eq!(sent[0].path, raw_path(CARE_OF, FIREWALL));
    let octets = &sent[0].bytes;
    assert_eq!((octets[9], octets[20 + 3]), (SKIP, 51));
    assert_eq!(octets[12..20], [198, 51, 100, 7, 203, 0, 113, 1]);
    // 20 of IP and 32 of SKIP, then AH with ESP in it, then ESP's SPI.
    assert_eq!(octets[52], 50);
    assert_eq!(octets[76..80], [0, 0, 0, 1]);
    let layout = Layout::new(des_md5(), [node().nsid(), Name::NONE.nsid()], IvLen::Whole);
    assert_eq!(octets.len(), layout.wire_bytes(inner.len()));
    assert_eq!(pair.open(&sent), [inner]);
    let report = pair.receiver.report();
    assert_eq!(
        (report.associations[0].packets, report.accepted_replays),
        (1, 0)
    );
}

/// The paper says 60 octets: that is its header with two names of 16. Its own setting has 32.
#[test]
fn sizes_of_the_header_follow_from_names_and_algorithms() {
    use wire::skip::Nsid::{Ipv4, Md5PublicValue, None};
    for (names, header) in [
        ([Md5PublicValue, Md5PublicValue], 60),
        ([Ipv4, None], 32),
        ([Md5PublicValue, None], 44),
        ([None, None], 28),
    ] {
        let layout = Layout::new(des_md5(), names, IvLen::Short);
        // 1006 octets need no padding; AH 24, SPI 4, IV 4, trailer 2.
        assert_eq!(layout.wire_bytes(1_006) - 1_006, 20 + header + 24 + 8 + 2);
        assert_eq!(layout.wire_bytes(1_007) - 1_007, 20 + header + 24 + 8 + 9);
    }
}

#[test]
fn the_firewall_follows_an_authentic_node_but_no_copy_of_its_packets() {
    let mut pair = nomadic();
    let sent = pair.seal(&[registration(52), registration(53)]);
    assert_eq!(pair.open(&sent[..1]).len(), 1);
    let bound = |path, bytes: usize| Notice::PathMoved {
        child: CHILD,
        path,
        bytes: bytes as u64,
    };
    let used = Notice::InboundUsed {
        child: CHILD,
        spi: SPI,
    };
    let home = bound(raw_path(FIREWALL, CARE_OF), sent[0].bytes.len());
    assert_eq!(pair.receiver_notices(), [home, used]);
    // A copy is handed on and counted. It moves nothing, wherever it comes from.
    let later = NOW + Duration::from_secs(5);
    assert_eq!(pair.open_at(later, &sent[..1]).len(), 1);
    assert_eq!(pair.receiver_notices(), []);
    assert_eq!(pair.receiver.report().accepted_replays, 1);
    let heard = pair.receiver.report().associations[0].last;
    assert_eq!(
        heard,
        Some(NOW),
        "a copy does not say that the node is alive"
    );
    // The MAC covers the source, so no one else can send the next packet from elsewhere.
    let mut stolen = from_elsewhere(&sent[1]);
    stolen.bytes[12..16].copy_from_slice(&[192, 0, 2, 40]);
    assert_eq!(pair.open_at(later, &[stolen]).len(), 0);
    assert_eq!(pair.received_drops(DropReason::BadIcv), 1);
    // The node itself moves.
    let moved = raw_path(ELSEWHERE, FIREWALL);
    pair.sender.apply(OutboundChange::Move(CHILD, moved), later);
    let sent = pair.seal(&[registration(54)]);
    assert_eq!(sent[0].path, moved);
    assert_eq!(pair.open_at(later, &sent).len(), 1);
    let there = bound(raw_path(FIREWALL, ELSEWHERE), sent[0].bytes.len());
    assert_eq!(pair.receiver_notices(), [there]);
}

#[test]
fn without_a_mac_nothing_moves_the_node() {
    let mut pair = pair_of(Profile::Draft, des_alone(), node());
    let sent = pair.seal(&[registration(52)]);
    assert_eq!(pair.open(&sent).len(), 1);
    assert_eq!(pair.open(&[from_elsewhere(&sent[0])]).len(), 1);
    assert_eq!(pair.receiver_notices(), []);
}

#[test]
fn an_entry_of_a_host_takes_packets_from_its_address_alone() {
    let mut pair = pair_of(Profile::Draft, des_md5(), Name::NONE);
    let mut sent = pair.seal(&[registration(52)]);
    assert_eq!(pair.open(&sent).len(), 1);
    assert_eq!(
        pair.receiver_notices().len(),
        1,
        "it is used, and does not move"
    );
    sent.push(from_elsewhere(&sent[0]));
    sent[1].bytes[12..16].copy_from_slice(&[192, 0, 2, 40]);
    assert_eq!(pair.open(&sent[1..]).len(), 0);
    assert_eq!(pair.received_drops(DropReason::SkipUnknownName), 1);
}

#[test]
fn strange_names_numbers_and_algorithms_are_dropped_and_counted() {
    let mut pair = nomadic();
    let sent = pair.seal(&[registration(52)]);
    let mut drops = |change: fn(&mut [u8]), reason| {
        let mut bad = sent.clone();
        change(&mut bad[0].bytes);
        assert_eq!(pair.open(&bad).len(), 0, "{reason:?}");
        assert_eq!(pair.received_drops(reason), 1, "{reason:?}");
    };
    drops(|octets| octets[51] ^= 1, DropReason::SkipUnknownName);
    drops(|octets| octets[33] ^= 1, DropReason::BadIcv);
    drops(|octets| octets[25] ^= 0x70, DropReason::SkipFutureN);
    drops(|octets| octets[20] = 0x20, DropReason::SkipUnsupported);
    let mut drops = |algorithms, reason| {
        let [mobile, _] = associations(Profile::Draft, algorithms, node());
        let other = sa(Direction::Outbound, mobile, None, (CARE_OF, FIREWALL));
        pair.sender
            .apply(OutboundChange::Install(Box::new(other)), NOW);
        let sent = pair.seal(&[registration(52)]);
        assert_eq!(pair.open(&sent).len(), 0);
        assert_eq!(pair.received_drops(reason), 1);
    };
    drops(des_alone(), DropReason::SkipWrongAlgorithm);
    for length in 0..sent[0].bytes.len() {
        let mut short = sent.clone();
        short[0].bytes.truncate(length);
        assert_eq!(pair.open(&short).len(), 0);
    }
    // Whatever came, one SA is all that is kept.
    assert_eq!(pair.receiver.report().associations.len(), 1);
}

#[test]
fn n_is_the_hour_and_needs_the_calendar() {
    let [mobile, gateway] = associations(Profile::Draft, des_md5(), node());
    let sending = sa(Direction::Outbound, mobile, None, (CARE_OF, FIREWALL));
    let receiving = sa(Direction::Inbound, gateway, None, (FIREWALL, "0.0.0.0"));
    let mut pair = Pair::of(sending, receiving, NO_OFFLOADS);
    assert_eq!(pair.seal(&[registration(9)]).len(), 0);
    assert_eq!(pair.sent_drops(DropReason::SkipNoCalendar), 1);
    pair.sender
        .apply(OutboundChange::Calendar(CALENDAR, NOW), NOW);
    let sent = pair.seal(&[registration(9)]);
    assert_eq!(pair.open(&sent).len(), 0);
    assert_eq!(pair.received_drops(DropReason::SkipNoCalendar), 1);
    pair.receiver.apply(InboundChange::Calendar(CALENDAR, NOW));
    // Half past five: the packet of this hour is good until seven.
    let minutes = |count| NOW + Duration::from_mins(count);
    assert_eq!(pair.open_at(minutes(89), &sent).len(), 1);
    assert_eq!(pair.open_at(minutes(90), &sent).len(), 0);
    assert_eq!(pair.received_drops(DropReason::SkipOldN), 1);
}

#[test]
fn the_papers_n_waits_for_the_disk() {
    let mut pair = pair_of(Profile::Paper, des_md5(), node());
    assert_eq!(pair.seal(&[registration(9)]).len(), 0);
    assert_eq!(pair.sent_drops(DropReason::SkipUnstoredN), 1);
    let Some(&Notice::StoreN { child, bound }) = pair.datagrams.notices().first() else {
        panic!("control is not told");
    };
    assert_eq!(pair.seal(&[registration(9)]).len(), 0);
    assert_eq!(pair.datagrams.notices(), [], "it was told already");
    pair.sender
        .apply(OutboundChange::StoredN(child, bound), NOW);
    let sent = pair.seal(&[registration(9)]);
    assert_eq!(pair.open(&sent), [registration(9)]);
}

/// A peer chooses how fast its n grows, but not how often the owner hears of it.
#[test]
fn the_highest_n_is_told_at_once_and_then_once_a_minute_at_most() {
    let mut pair = pair_of(Profile::Paper, des_md5(), node());
    pair.sender.apply(OutboundChange::StoredN(CHILD, 256), NOW);
    let mut told = Vec::new();
    for second in (0..240).step_by(20) {
        let at = NOW + Duration::from_secs(second);
        let sent = pair.seal_at(at, &[registration(9)]);
        assert_eq!(pair.open_at(at, &sent).len(), 1);
        told.extend(pair.receiver_notices().iter().filter_map(|it| match it {
            Notice::HeardN { child: CHILD, n } => Some((second, *n)),
            _ => None,
        }));
    }
    // n steps with the first packet after 30 s: each 40 s.
    assert_eq!(told, [(0, 0), (60, 1), (120, 3), (180, 4)]);
}

/// What was heard before a restart is refused after it.
#[test]
fn an_sa_that_knows_the_highest_n_takes_no_older_one() {
    let [mobile, gateway] = associations(Profile::Paper, des_md5(), node());
    let mut sent = Vec::new();
    for stored_n in [7, 1_000, 5_000] {
        let sending = sa_of(Direction::Outbound, &mobile, stored_n);
        let mut pair = Pair::of(sending, sa_of(Direction::Inbound, &gateway, 0), NO_OFFLOADS);
        let calendar = OutboundChange::Calendar(CALENDAR, NOW);
        pair.sender.apply(calendar, NOW);
        pair.sender
            .apply(OutboundChange::StoredN(CHILD, stored_n + 9), NOW);
        sent.extend(pair.seal(&[registration(9)]));
    }
    let receiving = sa_of(Direction::Inbound, &gateway, 1_000);
    let mut pair = Pair::of(
        sa_of(Direction::Outbound, &mobile, 0),
        receiving,
        NO_OFFLOADS,
    );
    pair.receiver.apply(InboundChange::Calendar(CALENDAR, NOW));
    assert_eq!(pair.open(&sent[..1]).len(), 0);
    assert_eq!(pair.received_drops(DropReason::SkipOldN), 1);
    assert_eq!(pair.open(&sent[1..2]).len(), 1);
    let heard = |it: &&Notice| matches!(it, Notice::HeardN { .. });
    assert_eq!(
        pair.receiver_notices().iter().filter(heard).count(),
        0,
        "it is known"
    );
    assert_eq!(pair.open(&sent[2..]).len(), 1, "however far it is above");
    let news = Notice::HeardN {
        child: CHILD,
        n: 5_000,
    };
    assert!(pair.receiver_notices().contains(&news));
}

/// An SA of `skip-paper` after a restart.
fn sa_of(direction: Direction, association: &Association, stored_n: u32) -> Sa {
    let ends = match direction {
        Direction::Outbound => (CARE_OF, FIREWALL),
        Direction::Inbound => (FIREWALL, "0.0.0.0"),
    };
    let mut sa = sa(direction, association.clone(), None, ends);
    if let Layer::Skip(in_line) = &mut sa.layer {
        in_line.stored_n = stored_n;
    }
    sa
}

#[test]
fn a_report_that_quotes_a_large_packet_makes_the_path_smaller() {
    let mut pair = nomadic();
    let sent = pair.seal(&[registration(1_300)]);
    assert_ne!(be16(&sent[0].bytes, 4), 0);
    let report = |quoted| TooBig {
        remote: (ip(FIREWALL), 0).into(),
        via: Via::Raw,
        mtu: 1_000,
        quoted,
    };
    let mut forged = sent[0].bytes[..28].to_vec();
    forged[5] ^= 1;
    assert!(pair.sender.too_big(&report(&forged), NOW));
    assert_eq!(
        pair.sender.report().associations[0].path_mtu,
        1_280,
        "a claim"
    );
    assert!(pair.sender.too_big(&report(&sent[0].bytes[..28]), NOW));
    assert_eq!(pair.sender.report().associations[0].path_mtu, 1_000);
    // The sender of the next one is told what fits: 20 + 32 + 24 + 12 before it, 2 behind.
    assert_eq!(pair.seal(&[registration(1_300)]).len(), 0);
    assert_eq!(pair.datagrams.replies().count(), 1);
    let largest = be16(pair.datagrams.replies().next().expect("one"), 26);
    assert_eq!(largest, 1_000 - (20 + 32 + 24 + 12) - 2);
    let whole = registration(usize::from(largest) - 28);
    let sent = pair.seal(core::slice::from_ref(&whole));
    assert_eq!(sent[0].bytes.len(), 1_000);
    assert_eq!(pair.open(&sent), [whole]);
}

#[test]
fn packets_are_cut_where_their_sender_lets_them() {
    let mut pair = nomadic();
    let mut large = registration(1_400);
    large[6] = 0;
    let length = large.len();
    crate::plane::sealer::finish_ip_header(&mut large[..20], length);
    let sent = pair.seal(&[large]);
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|sent| sent.bytes.len() <= 1_500));
    assert_eq!(pair.open(&sent).len(), 2);
}

#[test]
fn work_is_counted_by_algorithm_and_stays_when_the_sa_goes() {
    let mut pair = nomadic();
    pair.carry(&[registration(52), registration(53)]);
    let times = |work: &Work, task| {
        let found = work.entries().iter().find(|entry| entry.0 == task);
        found.map_or(0, |entry| entry.1)
    };
    let of = |work: &Work| {
        let tasks = [
            Task::WrapPacketKey(KijAlg::TripleDes),
            Task::SkipCipher(CryptAlg::Des),
            Task::SkipMac(MacAlg::Md5),
        ];
        tasks.map(|task| times(work, task))
    };
    assert_eq!(of(&pair.sender.report().work), [1, 2, 2]);
    assert_eq!(of(&pair.receiver.report().work), [1, 2, 2]);
    pair.sender.apply(OutboundChange::Remove(CHILD, SPI), NOW);
    pair.receiver.apply(InboundChange::Remove(CHILD, SPI));
    assert_eq!(of(&pair.sender.report().work), [1, 2, 2]);
    assert_eq!(of(&pair.receiver.report().work), [1, 2, 2]);
}

/// A chain of firewalls: one header for each (Gupta and Montenegro, 1998).
#[test]
fn an_sa_of_skip_goes_through_another() {
    const INNER_FIREWALL: &str = "203.0.113.9";
    let mut pair = nomadic();
    let [mobile, gateway] = associations(Profile::Draft, des_md5(), node());
    let to_inner = |mut sa: Sa| {
        sa.child = crate::sa::ChildId(8);
        sa
    };
    let mut nested = to_inner(sa(
        Direction::Outbound,
        mobile,
        None,
        (CARE_OF, INNER_FIREWALL),
    ));
    nested.is_nested = true;
    nested.remote = vec![TrafficSelector::host(ip(HOME_AGENT))];
    pair.sender
        .apply(OutboundChange::Install(Box::new(nested)), NOW);
    let inner = registration(52);
    let sent = pair.seal(core::slice::from_ref(&inner));
    assert_eq!(sent[0].path, raw_path(CARE_OF, FIREWALL));
    let outside = pair.open(&sent);
    assert_eq!(outside.len(), 1);
    assert_eq!(
        (outside[0][9], &outside[0][16..20]),
        (SKIP, &[203, 0, 113, 9][..])
    );
    let mut second = nomadic();
    let from_any = to_inner(sa(
        Direction::Inbound,
        gateway,
        None,
        (INNER_FIREWALL, "0.0.0.0"),
    ));
    second
        .receiver
        .apply(InboundChange::Install(Box::new(from_any)));
    let passed = Sent {
        path: Path::raw(ip(CARE_OF), ip(INNER_FIREWALL)),
        traffic_class: 0,
        bytes: outside[0].clone(),
    };
    assert_eq!(second.open(&[passed]), [inner]);
}

#[test]
fn an_sa_that_leads_elsewhere_keeps_its_key_and_its_count() {
    let mut pair = pair_of(Profile::Paper, des_md5(), node());
    let bound = crate::skip::counter::LEAP;
    pair.sender
        .apply(OutboundChange::StoredN(CHILD, bound), NOW);
    let sent = pair.seal(&[registration(52)]);
    assert_eq!(pair.open(&sent).len(), 1);
    let lead = |path, remote| {
        let lead = Lead {
            path,
            local: vec![within("0.0.0.0", "255.255.255.255")],
            remote,
            aim: Aim::Path,
            is_nested: false,
        };
        OutboundChange::Lead(CHILD, Box::new(lead))
    };
    let away = lead(
        raw_path(ELSEWHERE, FIREWALL),
        vec![TrafficSelector::host(ip(HOME_AGENT))],
    );
    pair.sender.apply(away, NOW);
    let again = pair.seal(&[registration(53)]);
    assert_eq!(again[0].path, raw_path(ELSEWHERE, FIREWALL));
    // The SKIP header up to the name has the same n, and the same wrapped key.
    assert_eq!(sent[0].bytes[20..52], again[0].bytes[20..52]);
    assert_eq!(pair.open(&again).len(), 1);
    assert_eq!(pair.sender.report().associations[0].packets, 2);
    // One that leads nowhere takes nothing.
    let nowhere = || lead(raw_path(ELSEWHERE, "0.0.0.0"), vec![]);
    pair.sender.apply(nowhere(), NOW);
    assert_eq!(pair.seal(&[registration(54)]).len(), 0);
    assert_eq!(pair.sent_drops(DropReason::NoPolicy), 1);
    // Where its lead is on its way, what came before it leaves with it.
    pair.sender.apply(OutboundChange::AwaitLead, NOW);
    assert_eq!(pair.seal(&[registration(55)]).len(), 0);
    assert_eq!(pair.sent_drops(DropReason::NoPolicy), 1);
    let there = vec![TrafficSelector::host(ip(HOME_AGENT))];
    let away = lead(raw_path(ELSEWHERE, FIREWALL), there);
    pair.sender.apply(away, NOW);
    assert_eq!(pair.release(NOW).len(), 1);
    // One that waits in vain is counted with the next.
    pair.sender.apply(nowhere(), NOW);
    pair.sender.apply(OutboundChange::AwaitLead, NOW);
    assert_eq!(pair.seal(&[registration(56)]).len(), 0);
    let later = NOW + crate::time::Duration::from_secs(1);
    assert_eq!(pair.seal_at(later, &[registration(57)]).len(), 0);
    assert_eq!(pair.sent_drops(DropReason::NoPolicy), 3);
    // The same at the other end.
    let nobody = Lead {
        path: raw_path(FIREWALL, "0.0.0.0"),
        local: vec![TrafficSelector::host(ip("10.18.0.2"))],
        remote: vec![within("0.0.0.0", "255.255.255.255")],
        aim: Aim::Path,
        is_nested: false,
    };
    pair.receiver
        .apply(InboundChange::Lead(CHILD, Box::new(nobody)));
    let later = NOW + Duration::from_secs(1);
    assert_eq!(pair.open_at(later, &again[..]).len(), 0);
    assert_eq!(pair.received_drops(DropReason::SelectorMismatch), 1);
}

#[test]
fn each_host_of_a_network_gets_its_packets_from_one_sa() {
    let [gateway, _] = associations(Profile::Draft, des_md5(), node());
    let mut sending = sa(Direction::Outbound, gateway, None, (FIREWALL, "0.0.0.0"));
    if let Layer::Skip(in_line) = &mut sending.layer {
        in_line.aim = Aim::Destination;
    }
    let receiving = nomadic_opener();
    let mut pair = Pair::of(sending, receiving, NO_OFFLOADS);
    pair.sender
        .apply(OutboundChange::Calendar(CALENDAR, NOW), NOW);
    let to = |host: &str| packet(HOME_AGENT, host, UDP, &udp((434, 434), &data(1_300)));
    let sent = pair.seal(&[to(CARE_OF), to(ELSEWHERE)]);
    let paths: Vec<_> = sent.iter().map(|sent| sent.path).collect();
    assert_eq!(
        paths,
        [raw_path(FIREWALL, CARE_OF), raw_path(FIREWALL, ELSEWHERE)]
    );
    // A router on the way to one of them is believed if it quotes a packet of ours.
    let report = |quoted| TooBig {
        remote: (ip(ELSEWHERE), 0).into(),
        via: Via::Raw,
        mtu: 1_000,
        quoted,
    };
    let mut forged = sent[1].bytes[..28].to_vec();
    forged[5] ^= 1;
    assert!(!pair.sender.too_big(&report(&forged), NOW));
    assert!(pair.sender.too_big(&report(&sent[1].bytes[..28]), NOW));
    assert_eq!(pair.sender.report().associations[0].path_mtu, 1_000);
    assert_eq!(pair.sender.link_to_ask(NOW), None, "there is no one link");
}

#[test]
fn a_node_may_send_from_its_own_address_alone() {
    let [mobile, _] = associations(Profile::Draft, des_md5(), node());
    let sending = sa(Direction::Outbound, mobile, None, (CARE_OF, FIREWALL));
    let mut receiving = nomadic_opener();
    if let Layer::Skip(in_line) = &mut receiving.layer {
        in_line.sender = Sender::Host;
    }
    let mut pair = Pair::of(sending, receiving, NO_OFFLOADS);
    pair.sender
        .apply(OutboundChange::Calendar(CALENDAR, NOW), NOW);
    pair.receiver.apply(InboundChange::Calendar(CALENDAR, NOW));
    let others = packet(ELSEWHERE, HOME_AGENT, UDP, &udp((434, 434), &data(52)));
    let sent = pair.seal(&[registration(52), others]);
    assert_eq!(pair.open(&sent), [registration(52)]);
    assert_eq!(pair.received_drops(DropReason::ForgedSource), 1);
}

/// A firewall's end of a mobile node's association.
fn nomadic_opener() -> Sa {
    let [_, gateway] = associations(Profile::Draft, des_md5(), node());
    sa(Direction::Inbound, gateway, None, (FIREWALL, "0.0.0.0"))
}
