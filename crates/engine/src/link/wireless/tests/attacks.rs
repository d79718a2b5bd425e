//! What somebody in the air can do to a network, and what not.

use crypto::rand::Seed;
use wire::ieee80211::{Address, Header, control, reason};

use super::air::*;
use crate::counters::DropReason;
use crate::link::wireless::handshake::Akm;
use crate::link::wireless::*;
use crate::time::Duration;
use crate::work::Task;

/// A frame of the first station, as it goes into the air.
fn from_station(air: &mut Air) -> Vec<u8> {
    let frame = data(WIRED, STATION);
    let mut sent = vec![0; frame.len() + MAX_GROWTH];
    let len = air.stations[0].1.protect(&frame, &mut sent).unwrap();
    sent.truncate(len);
    sent
}

/// The group key of before is void, so frames under it are no replay that works.
#[test]
fn after_countermeasures_stations_get_another_group_key() {
    let mut air = Air::of(&rsn(Akm::Psk, LinkCipher::Tkip, master(1)));
    air.run(Duration::from_secs(1));
    air.works();
    let to_all = data(Address::BROADCAST, WIRED);
    let mut old = vec![0; to_all.len() + MAX_GROWTH];
    let len = air.access_point.protect(&to_all, &mut old).unwrap();
    old.truncate(len);
    for _ in 0..2 {
        let mut forged = from_station(&mut air);
        forged[16..22].copy_from_slice(&OTHER.0);
        let mut out = AirOutbox::default();
        air.deliver(&forged, &mut out);
        air.carry(out);
    }
    let stopped = LinkFailure::PeerLeft(reason::MIC_FAILURE);
    assert!(air.failures().contains(&LinkFailure::Countermeasures));
    assert!(air.failures().contains(&stopped));
    assert!(air.access_point.stations().is_empty());
    assert!(air.down(&to_all).is_err());
    air.run(Duration::from_secs(62));
    assert_eq!(air.access_point.stations().len(), 2);
    air.works();
    assert_eq!(air.deliver(&old, &mut AirOutbox::default()).len(), 0);
    let drops = air.stations[0].1.drops();
    assert_eq!(drops.of(DropReason::LinkNoKey), 1);
}

/// A commit with a point that is not on the curve costs no point, and keeps nobody out.
#[test]
fn bad_commits_cost_an_access_point_no_points() {
    for is_hash_to_element in [false, true] {
        let security = rsn(
            Akm::Sae,
            LinkCipher::Ccmp128,
            password(b"mellon", is_hash_to_element),
        );
        let mut air = Air::of(&security);
        let mut out = AirOutbox::default();
        let mut frame = commit(&security);
        for number in 0..1_000u16 {
            frame[13..15].copy_from_slice(&number.to_be_bytes());
            frame[127] ^= 1;
            let mut bad = frame.clone();
            let taken = air.access_point.receive(&mut bad, air.now, &mut out);
            frame[127] ^= 1;
            assert_eq!(taken, Received::Dropped(DropReason::BadPublicValue));
        }
        assert!(out.frames.is_empty());
        let work = air.access_point.work();
        assert!(work.entries().is_empty(), "{:?}", work.entries());
        assert_eq!(air.access_point.deadline(), None);
        air.run(Duration::from_secs(1));
        air.works();
    }
}

/// The commit of a station, as it goes into the air.
fn commit(security: &Security) -> Vec<u8> {
    let mut air = Air::of(security);
    air.stations.truncate(1);
    let mut out = AirOutbox::default();
    air.stations[0].1.fire(air.now, &mut out);
    let probe = out.frames.remove(0);
    air.deliver(&probe, &mut out);
    let answer = out.frames.remove(0);
    air.deliver(&answer, &mut out);
    out.frames.remove(0)
}

/// Anybody can send an association request in the name of a station.
#[test]
fn a_forged_association_request_leaves_an_exchange_of_sae_alone() {
    let security = rsn(Akm::Sae, LinkCipher::Ccmp128, password(b"mellon", true));
    let forged = joining(&security, STATION).pop().unwrap();
    let mut air = Air::of(&security);
    air.stations.truncate(1);
    let mut out = AirOutbox::default();
    air.stations[0].1.fire(air.now, &mut out);
    // Probe, answer, commit; commit and confirm are on their way to the station.
    for _ in 0..3 {
        let frame = out.frames.remove(0);
        air.deliver(&frame, &mut out);
    }
    assert_eq!(out.frames.len(), 2);
    let mut answer = AirOutbox::default();
    air.deliver(&forged, &mut answer);
    assert!(air.access_point.stations().is_empty());
    air.carry(out);
    air.works_alone();
}

/// What comes out behind the access point, and what goes into the air.
fn heard(air: &mut Air, frame: &[u8]) -> (Vec<Vec<u8>>, AirOutbox) {
    let mut out = AirOutbox::default();
    let frames = air.deliver(frame, &mut out);
    (frames, out)
}

/// A data frame in the clear, made by hand.
fn forged(direction: u16, addresses: [Address; 3], ethertype: u16, body: &[u8]) -> Vec<u8> {
    let header = Header {
        control: control::DATA | direction,
        duration: 0,
        receiver: addresses[0],
        transmitter: addresses[1],
        third: addresses[2],
        sequence: 0,
        qos: None,
    };
    let mut frame = vec![0; 24];
    header.put(&mut frame);
    frame.extend([0xaa, 0xaa, 3, 0, 0, 0]);
    frame.extend(ethertype.to_be_bytes());
    frame.extend(body);
    frame
}

fn join(air: &mut Air, security: &Security, address: Address) {
    for frame in joining(security, address) {
        air.deliver(&frame, &mut AirOutbox::default());
    }
}

const EAPOL: u16 = 0x888e;
const PAE: Address = Address([1, 0x80, 0xc2, 0, 0, 3]);

#[test]
fn who_has_no_keys_draws_no_frames_of_others_to_itself() {
    // With SAE nobody joins without the password.
    let is_sae = |it: &Security| matches!(it, Security::Rsn { akm: Akm::Sae, .. });
    for security in all().into_iter().filter(|it| !is_sae(it)) {
        let mut air = Air::of(&security);
        air.run(Duration::from_millis(10));
        let from_wired = data(STATION, WIRED);
        air.access_point.note_wired(&from_wired, air.now);
        join(&mut air, &security, WIRED);
        assert!(air.access_point.stations().contains(&WIRED));
        let way = |after: u64| {
            let now = air.now + Duration::from_secs(after);
            air.access_point.way_of(&data(WIRED, STATION), now)
        };
        let (up, back) = (true, false);
        assert_eq!(way(9), Way { up, back }, "{:?}", security.cipher());
        // Without keys it never does. In an open network it may have moved.
        let has_keys = !security.has_key_packets();
        assert_eq!(way(10).back, has_keys);
        air.run(Duration::from_secs(31));
        let is_member = air.access_point.stations().contains(&WIRED);
        assert_eq!(is_member, has_keys, "{:?}", security.cipher());
    }
}

#[test]
fn a_forged_association_leaves_a_link_with_keys_alone() {
    for security in all().into_iter().filter(Security::has_key_packets) {
        let mut air = Air::of(&security);
        air.run(Duration::from_millis(10));
        if security.wants_session() {
            air.authenticate();
        }
        air.run(Duration::from_secs(1));
        air.works();
        if matches!(security, Security::Rsn { akm: Akm::Sae, .. }) {
            // Without the password nobody gets so far.
            continue;
        }
        let before = air.events.len();
        for frame in joining(&security, STATION).into_iter().skip(1) {
            let mut out = AirOutbox::default();
            air.deliver(&frame, &mut out);
            air.carry(out);
        }
        if security.wants_session() {
            // Only EAP can tell who it is: the station is told, and begins anew.
            let told = LinkFailure::PeerLeft(reason::NOT_ASSOCIATED);
            assert!(air.failures().contains(&told));
            air.run(Duration::from_secs(2));
            air.authenticate();
            air.run(Duration::from_secs(1));
        } else {
            air.works();
            air.run(Duration::from_secs(10));
            assert_eq!(air.events.len(), before, "{:?}", security.cipher());
        }
        air.works();
    }
}

/// A frame of management in the clear, in the name of the first station.
fn managed(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut port = Port::new(Role::Station(AP), STATION, Privacy::Protected);
    port.manage(kind, AP, body)
}

/// SAE with both methods, and OWE.
fn asking() -> Vec<Security> {
    let asks = |it: &Security| {
        matches!(
            it,
            Security::Rsn {
                akm: Akm::Sae | Akm::Owe,
                ..
            }
        )
    };
    all().into_iter().filter(asks).collect()
}

/// Where no password keeps it out, or where it knows the password: with SAE and OWE.
#[test]
fn nobody_takes_the_place_of_a_station_that_answers() {
    for security in asking() {
        let mut air = Air::of(&security);
        air.run(Duration::from_secs(1));
        air.works();
        let before = air.events.len();
        // Both hear what is for their address.
        let outsider = Station::new(network(security), STATION, Seed::new([8; 32]), air.now);
        air.stations.push((STATION, outsider));
        let leaving = reason::LEAVING.to_le_bytes();
        for _ in 0..20 {
            air.run(Duration::from_millis(500));
            for kind in [control::DEAUTHENTICATION, control::DISASSOCIATION] {
                let mut out = AirOutbox::default();
                air.deliver(&managed(kind, &leaving), &mut out);
                air.carry(out);
            }
            assert_eq!(air.stations[2].1.access_point(), None);
            air.works();
        }
        let is_told = |it: &&LinkEvent| !matches!(it, LinkEvent::Left(AP, _));
        let told = air.events[before..].iter().filter(is_told);
        assert_eq!(told.count(), 0, "{:?}", air.events);
        // Once nobody answers, the name is free.
        let (_, gone) = air.stations.remove(0);
        drop(gone);
        air.run(Duration::from_secs(10));
        assert_eq!(air.stations[1].1.access_point(), Some(AP));
        air.stations.swap(0, 1);
        air.works();
    }
}

#[test]
fn a_station_that_says_so_leaves_once_it_does_not_answer() {
    for security in asking() {
        let mut air = Air::of(&security);
        air.run(Duration::from_secs(1));
        let mut out = AirOutbox::default();
        air.stations[0].1.close(air.now, &mut out);
        air.carry(out);
        assert_eq!(air.access_point.stations(), [STATION, OTHER]);
        air.run(Duration::from_millis(1_100));
        assert_eq!(air.access_point.stations(), [OTHER]);
        let left = LinkFailure::PeerLeft(reason::LEAVING);
        assert!(air.events.contains(&LinkEvent::Left(STATION, left)));
        // It may come again at once: then it waits as long.
        let mut out = AirOutbox::default();
        air.stations[0].1.search(air.now, &mut out);
        air.carry(out);
        air.run(Duration::from_secs(1));
        air.works();
        let mut out = AirOutbox::default();
        air.stations[0].1.search(air.now, &mut out);
        air.carry(out);
        air.run(Duration::from_millis(1_100));
        air.works();
    }
}

/// The refusal is in the clear: it delays a station, and no longer than the time that we reckon
/// with.
#[test]
fn a_forged_refusal_delays_a_station_for_a_while() {
    let security = rsn(Akm::Owe, LinkCipher::Ccmp128, Credential::None);
    let mut air = Air::of(&security);
    air.stations.truncate(1);
    let (mut out, mut answers) = (AirOutbox::default(), AirOutbox::default());
    air.stations[0].1.fire(air.now, &mut out);
    // Probe, answer, authentication, answer; the association request is lost.
    for _ in 0..4 {
        let frame = out.frames.remove(0);
        air.deliver(&frame, &mut out);
    }
    let mut body = vec![0, 0, 30, 0, 0, 0];
    body.extend([56, 5, 3, 255, 255, 255, 255]);
    let mut port = Port::new(Role::AccessPoint, AP, Privacy::Protected);
    let refusal = port.manage(control::ASSOCIATION_RESPONSE, STATION, &body);
    air.deliver(&refusal, &mut answers);
    assert!(answers.frames.is_empty() && answers.events.is_empty());
    air.run(Duration::from_millis(2_000));
    assert!(air.access_point.stations().is_empty());
    air.run(Duration::from_millis(200));
    air.works_alone();
}

#[test]
fn a_station_that_has_lost_its_keys_gets_new_ones() {
    for akm in [Akm::Psk, Akm::Owe] {
        let credential = if akm == Akm::Psk {
            master(1)
        } else {
            Credential::None
        };
        let security = rsn(akm, LinkCipher::Ccmp128, credential);
        let mut air = Air::of(&security);
        air.run(Duration::from_secs(1));
        let again = Station::new(network(security), STATION, Seed::new([8; 32]), air.now);
        air.stations[0].1 = again;
        // With OWE the one that has its name is asked first.
        let asked = if akm == Akm::Owe { 1_200 } else { 0 };
        air.run(Duration::from_millis(1_000 + asked));
        air.works();
        assert_eq!(air.secured(STATION), 2);
        assert_eq!(air.failures(), []);
    }
}

#[test]
fn who_has_no_key_of_its_access_point_is_told_so() {
    let security = rsn(Akm::Ieee8021x, LinkCipher::Ccmp128, Credential::None);
    let mut air = Air::of(&security);
    air.run(Duration::from_millis(10));
    let frame = forged(
        control::TO_DS | control::PROTECTED,
        [AP, STATION, WIRED],
        0,
        &[0; 40],
    );
    let (_, out) = heard(&mut air, &frame);
    let [told] = &out.frames[..] else {
        panic!("one answer");
    };
    assert_eq!(told[24..], reason::NOT_ASSOCIATED.to_le_bytes());
}

#[test]
fn nobody_without_keys_speaks_through_an_access_point() {
    let security = [
        rsn(Akm::Psk, LinkCipher::Ccmp128, master(1)),
        rsn(Akm::Owe, LinkCipher::Ccmp128, Credential::None),
        rsn(Akm::Ieee8021x, LinkCipher::Ccmp128, Credential::None),
    ];
    for (security, is_carried) in security.iter().zip([false, false, true]) {
        let mut air = Air::of(security);
        air.run(Duration::from_millis(10));
        join(&mut air, security, OTHER);
        for (to, is_for_it) in [
            (WIRED, false),
            (Address::BROADCAST, false),
            (AP, true),
            (PAE, true),
        ] {
            let frame = forged(control::TO_DS, [AP, OTHER, to], EAPOL, &[2, 0, 0, 1, 7]);
            let came = heard(&mut air, &frame).0.len();
            assert_eq!(came == 1, is_carried && is_for_it, "{to:?}");
        }
        for (from, is_it) in [(WIRED, false), (AP, true)] {
            let mut eapol = data(OTHER, from);
            eapol[12..14].copy_from_slice(&EAPOL.to_be_bytes());
            let sent = air.down(&eapol);
            assert_eq!(sent.is_ok(), is_carried && is_it, "{sent:?}");
        }
    }
}

#[test]
fn eapol_in_the_clear_is_not_of_a_station_with_keys() {
    let security = rsn(Akm::Ieee8021x, LinkCipher::Ccmp128, Credential::None);
    let mut air = Air::of(&security);
    air.run(Duration::from_millis(10));
    air.authenticate();
    air.run(Duration::from_secs(1));
    air.works();
    let logoff = forged(control::TO_DS, [AP, STATION, PAE], EAPOL, &[2, 2, 0, 0]);
    assert_eq!(heard(&mut air, &logoff).0.len(), 0);
    // Nor of the access point. Message 1 has no MIC; message 3 has a wrong one.
    let handshake = |information: u16| {
        let mut packet = vec![2, 3, 0, 95, 2];
        packet.extend(information.to_be_bytes());
        packet.extend([0, 16, 0, 0, 0, 0, 0, 0, 0, 99]);
        packet.resize(99, 7);
        packet[97..].fill(0);
        forged(control::FROM_DS, [STATION, AP, AP], EAPOL, &packet)
    };
    for information in [0x008a, 0x13ca] {
        let (_, out) = heard(&mut air, &handshake(information));
        assert!(out.frames.is_empty(), "{information:04x}");
    }
    let request = forged(
        control::FROM_DS,
        [STATION, AP, AP],
        EAPOL,
        &[2, 0, 0, 5, 1, 1, 0, 5, 1],
    );
    assert_eq!(heard(&mut air, &request).0.len(), 0);
    let mut eapol = data(AP, STATION);
    eapol[12..14].copy_from_slice(&EAPOL.to_be_bytes());
    let mut sent = vec![0; eapol.len() + MAX_GROWTH];
    air.stations[0].1.protect(&eapol, &mut sent).unwrap();
    assert!(Header::parse(&sent).unwrap().0.is_protected());
    air.works();
}

/// The access point's answer would go to all.
#[test]
fn a_group_sends_nothing() {
    let mut air = Air::of(&rsn(Akm::Psk, LinkCipher::Ccmp128, master(1)));
    air.run(Duration::from_secs(1));
    let all = Address::BROADCAST;
    for (direction, addresses) in [
        (control::TO_DS, [AP, all, AP]),
        (control::FROM_DS, [STATION, all, WIRED]),
    ] {
        let mut frame = forged(direction, addresses, 0x0800, &[0; 40]);
        let mut out = AirOutbox::default();
        let forged = Received::Dropped(DropReason::ForgedSource);
        let received = match addresses[0] == AP {
            true => air.access_point.receive(&mut frame, air.now, &mut out),
            false => air.stations[0].1.receive(&mut frame, air.now, &mut out),
        };
        assert_eq!(received, forged);
        assert!(out.frames.is_empty());
    }
    air.works();
}

/// The real message 1 comes before the station's session, among many that are not.
#[test]
fn forged_messages_do_not_displace_the_one_that_waits() {
    for (before, after) in [(0, 40), (7, 7), (40, 0)] {
        let security = rsn(Akm::Ieee8021x, LinkCipher::Ccmp128, Credential::None);
        let mut air = Air::of(&security);
        air.stations.truncate(1);
        air.run(Duration::from_millis(10));
        let flood = |air: &mut Air, count: u8| {
            for number in 0..count {
                let mut packet = vec![2, 3, 0, 95, 2, 0, 0x8a, 0, 16];
                packet.extend([0, 0, 0, 0, 0, 0, 0, 1 + number % 4]);
                packet.resize(99, number);
                packet[97..].fill(0);
                let frame = forged(control::FROM_DS, [STATION, AP, AP], EAPOL, &packet);
                assert!(heard(air, &frame).1.frames.is_empty());
            }
        };
        flood(&mut air, before);
        let mut out = AirOutbox::default();
        let given = air
            .access_point
            .session(STATION, &SESSION, air.now, &mut out);
        assert_eq!(given, Ok(()));
        air.carry(out);
        flood(&mut air, after);
        let mut out = AirOutbox::default();
        let given = air.stations[0].1.session(&SESSION, air.now, &mut out);
        assert_eq!(given, Ok(()));
        air.carry(out);
        air.works_alone();
    }
}

#[test]
fn associations_with_owe_are_bounded() {
    let security = rsn(Akm::Owe, LinkCipher::Ccmp128, Credential::None);
    let mut air = Air::of(&security);
    let mut frames = joining(&security, OTHER);
    let mut request = frames.pop().unwrap();
    let [_, mut authentication] = frames.try_into().unwrap();
    let flood = |air: &mut Air, request: &mut Vec<u8>, authentication: &mut Vec<u8>| {
        let mut out = AirOutbox::default();
        for number in 0..500u16 {
            for frame in [&mut *authentication, &mut *request] {
                frame[13..15].copy_from_slice(&number.to_be_bytes());
                air.access_point
                    .receive(&mut frame.clone(), air.now, &mut out);
            }
        }
    };
    let points = |air: &Air| {
        let work = air.access_point.work();
        let entries = work.entries().iter();
        let scaled = entries.filter(|(task, ..)| *task == Task::ScalePoint);
        scaled.map(|(_, times, _)| *times).sum::<u64>()
    };
    // Another group, or another length, costs no point. The group is before the public value.
    let group = request.len() - 34;
    request[group] = 20;
    flood(&mut air, &mut request, &mut authentication);
    assert_eq!(points(&air), 0);
    request[group] = 19;
    flood(&mut air, &mut request, &mut authentication);
    assert_eq!(points(&air), 2 * 256);
    // Nobody answers: message 1 is not repeated while so many are open, or few are left.
    air.stations.clear();
    air.run(Duration::from_secs(1));
    assert!(air.carried.len() <= 64, "{}", air.carried.len());
    flood(&mut air, &mut request, &mut authentication);
    assert_eq!(points(&air), 2 * (256 + 256));
    assert!(air.access_point.drops().of(DropReason::TooManyExchanges) == 488);
}
