//! A station and an access point with an air between them: they find each other, join, and carry
//! frames, whatever the security is.

use crypto::rand::Seed;
use wire::ieee80211::{Address, Header, control, element_id, reason, status};

use super::air::*;
use crate::counters::DropReason;
use crate::link::wireless::handshake::{Akm, Failure};
use crate::link::wireless::sae::SaeFailure;
use crate::link::wireless::*;
use crate::time::{Duration, Instant};
use crate::work::Task;

#[test]
fn two_stations_join_and_carry_frames_under_every_security() {
    for security in all() {
        let mut air = Air::of(&security);
        air.run(Duration::from_millis(10));
        if security.wants_session() {
            assert_eq!(air.up(&data(WIRED, STATION)), Err(DropReason::LinkNoKey));
            air.authenticate();
            air.run(Duration::from_millis(150));
        }
        let secured = [STATION, OTHER, AP].map(|peer| air.secured(peer));
        assert_eq!(secured, [1, 1, 2], "{:?}", security.cipher());
        air.works();
        assert_eq!(air.clear == 0, security.cipher().is_some());
        assert_eq!(air.failures(), []);
        let (is_secured, traffic) = air.access_point.station(STATION).unwrap();
        assert!(is_secured);
        assert_eq!((traffic.received_frames, traffic.sent_frames), (1, 1));
    }
}

/// EAP-TLS ends with a message to the station, whose key its owner learns late.
#[test]
fn keys_that_come_before_the_session_of_the_station_wait_for_it() {
    for security in all().into_iter().filter(Security::wants_session) {
        let mut air = Air::of(&security);
        air.stations.truncate(1);
        air.run(Duration::from_millis(10));
        for octet in [1, 2] {
            let session = [octet; 64];
            let mut out = AirOutbox::default();
            let given = air
                .access_point
                .session(STATION, &session, air.now, &mut out);
            assert_eq!(given, Ok(()));
            air.carry(out);
            air.run(Duration::from_millis(50));
            let mut out = AirOutbox::default();
            let given = air.stations[0].1.session(&session, air.now, &mut out);
            assert_eq!(given, Ok(()));
            air.carry(out);
            air.run(Duration::from_secs(2));
            let up = data(WIRED, STATION);
            assert_eq!(air.up(&up), Ok(vec![up]));
        }
        assert_eq!(air.secured(AP), 2, "{:?}", security.cipher());
    }
}

#[test]
fn any_frame_may_be_lost_once() {
    for security in all().into_iter().filter(|it| !it.wants_session()) {
        for lost in 1..=14 {
            let mut air = Air::of(&security);
            air.stations.truncate(1);
            air.lost = Some(lost);
            air.run(Duration::from_secs(12));
            let up = data(WIRED, STATION);
            assert_eq!(air.up(&up), Ok(vec![up]), "{:?} {lost}", security.cipher());
        }
    }
}

#[test]
fn another_key_is_told_and_nothing_passes() {
    let wrong = |ours: Security, theirs: Security, expected: LinkFailure| {
        let mut air = Air::new(ours, theirs);
        air.stations.truncate(1);
        air.run(Duration::from_secs(20));
        assert!(air.failures().contains(&expected), "{:?}", air.failures());
        assert!(air.up(&data(WIRED, STATION)).is_err());
    };
    use LinkCipher::Ccmp128;
    wrong(
        rsn(Akm::Psk, Ccmp128, master(1)),
        rsn(Akm::Psk, Ccmp128, master(2)),
        Failure::WrongKey.into(),
    );
    wrong(
        rsn(Akm::Sae, Ccmp128, password(b"mellon", false)),
        rsn(Akm::Sae, Ccmp128, password(b"friend", false)),
        SaeFailure::WrongPassword.into(),
    );
    // WEP alone notices nothing before data come.
    let mut air = Air::new(wep(7), wep(8));
    air.run(Duration::from_secs(1));
    assert_eq!(air.secured(AP), 2);
    assert_eq!(air.up(&data(WIRED, STATION)), Ok(vec![]));
    assert_eq!(air.access_point.drops().of(DropReason::BadIcv), 1);
}

#[test]
fn who_has_another_security_does_not_join() {
    let securities = all();
    for (at, ours) in securities.iter().enumerate() {
        for (with, theirs) in securities.iter().enumerate() {
            let mut air = Air::new(ours.clone(), theirs.clone());
            air.run(Duration::from_secs(3));
            // Kinds of WEP look the same in a probe response; so do the two methods of SAE with
            // one cipher, which these are not.
            let is_wep = |it: &Security| {
                it.has_key_packets() == it.wants_session()
                    && it.cipher().is_some_and(|it| it < LinkCipher::Tkip)
            };
            let are_alike = at == with || is_wep(ours) && is_wep(theirs);
            let has_joined = !air.access_point.stations().is_empty();
            assert_eq!(has_joined, are_alike, "{at} {with}");
        }
    }
}

#[test]
fn a_station_that_is_dismissed_or_moves_joins_again() {
    let mut air = Air::of(&rsn(Akm::Psk, LinkCipher::Ccmp128, master(1)));
    air.stations.truncate(1);
    air.run(Duration::from_millis(10));
    // A new access point of the same address knows nobody: it says so, and all begins anew.
    let other = network(rsn(Akm::Psk, LinkCipher::Ccmp128, master(1)));
    air.access_point = AccessPoint::new(other, AP, Seed::new([9; 32]));
    let mut frame = vec![0; 100 + MAX_GROWTH];
    let len = air.stations[0]
        .1
        .protect(&data(WIRED, STATION), &mut frame)
        .unwrap();
    let mut out = AirOutbox::default();
    let dropped = air
        .access_point
        .receive(&mut frame[..len], air.now, &mut out);
    assert_eq!(dropped, Received::Dropped(DropReason::LinkUnknownStation));
    air.carry(out);
    assert_eq!(
        air.failures(),
        [LinkFailure::PeerLeft(reason::NOT_ASSOCIATED)]
    );
    air.run(Duration::from_secs(2));
    air.works_alone();
    let mut out = AirOutbox::default();
    air.stations[0].1.search(air.now, &mut out);
    air.carry(out);
    air.run(Duration::from_millis(10));
    air.works_alone();
    let mut out = AirOutbox::default();
    air.access_point.close(air.now, &mut out);
    air.carry(out);
    assert_eq!(air.stations[0].1.access_point(), None);
    let refused = air.up(&data(WIRED, STATION));
    assert_eq!(refused, Err(DropReason::LinkUnknownStation));
}

#[test]
fn a_key_of_eap_is_refused_where_none_is_wanted() {
    let mut air = Air::of(&wep(7));
    air.run(Duration::from_millis(10));
    let mut out = AirOutbox::default();
    let access_point = &mut air.access_point;
    let not_of_eap = Err(SessionFault::NotOfEap);
    let refused = access_point.session(STATION, &SESSION, air.now, &mut out);
    assert_eq!(refused, not_of_eap);
    let refused = air.stations[0].1.session(&SESSION, air.now, &mut out);
    assert_eq!(refused, not_of_eap);
    let mut air = Air::of(&Security::DynamicWep(permit(LinkCipher::Wep104)));
    let session = |air: &mut Air, key: &[u8]| {
        let mut out = AirOutbox::default();
        let theirs = air.access_point.session(STATION, key, air.now, &mut out);
        [theirs, air.stations[0].1.session(key, air.now, &mut out)]
    };
    assert_eq!(
        session(&mut air, &SESSION),
        [Err(SessionFault::NotJoined); 2]
    );
    air.run(Duration::from_millis(10));
    assert_eq!(
        session(&mut air, &SESSION[1..]),
        [Err(SessionFault::Short); 2]
    );
}

#[test]
fn a_silent_access_point_is_asked_and_then_given_up() {
    let mut air = Air::of(&wep(7));
    air.stations.truncate(1);
    air.run(Duration::from_secs(60));
    assert_eq!(air.failures(), []);
    // It goes away without a word.
    let other = network(rsn(Akm::Psk, LinkCipher::Ccmp128, master(1)));
    air.access_point = AccessPoint::new(other, OTHER, Seed::new([9; 32]));
    // Five seconds, then three questions.
    air.run(Duration::from_secs(5 + 1 + 2 + 4 - 1));
    assert_eq!(air.failures(), []);
    air.run(Duration::from_secs(6));
    assert_eq!(air.failures(), [LinkFailure::NoAnswer("probe")]);
    air.access_point = AccessPoint::new(network(wep(7)), AP, Seed::new([1; 32]));
    air.run(Duration::from_secs(2));
    air.works_alone();
}

#[test]
fn a_station_that_only_listens_stays_a_member() {
    let mut air = Air::of(&wep(7));
    air.run(Duration::from_secs(1));
    let to_all = data(Address::BROADCAST, WIRED);
    for _ in 0..700 {
        air.run(Duration::from_secs(1));
        assert_eq!(air.down(&to_all).unwrap().len(), 2);
    }
    assert_eq!(air.failures(), []);
    assert_eq!(air.access_point.stations().len(), 2);
}

#[test]
fn strangers_get_no_room_that_members_need() {
    let security = wep(7);
    let mut access_point = AccessPoint::new(network(security), AP, Seed::new([1; 32]));
    let security = rsn(Akm::Psk, LinkCipher::Ccmp128, master(1));
    let mut other = AccessPoint::new(network(security.clone()), AP, Seed::new([1; 32]));
    let mut out = AirOutbox::default();
    for (it, security) in [(&mut access_point, wep(7)), (&mut other, security)] {
        for number in 0..2_100u16 {
            let [a, b] = number.to_be_bytes();
            let address = Address([2, 1, 0, 0, a, b]);
            for mut air in joining(&security, address) {
                it.receive(&mut air, Instant(0), &mut out);
            }
        }
        assert_eq!(it.stations().len(), MAX_STATIONS);
    }
    // With WEP all have keys at once, so the last ones are refused; else the first have gone.
    let last = Address([2, 1, 0, 0, 8, 0x33]);
    assert_eq!(access_point.station(last), None);
    assert!(other.station(last).is_some());
    // Who is long silent makes room for another, and goes in the end.
    for (after, member) in [(149, None), (150, Some((true, Traffic::default())))] {
        let now = Instant(0) + Duration::from_secs(after);
        for mut air in joining(&wep(7), last) {
            access_point.receive(&mut air, now, &mut out);
        }
        assert_eq!(access_point.station(last), member);
        assert_eq!(access_point.stations().len(), MAX_STATIONS);
    }
    let displaced = LinkEvent::Left(Address([2, 1, 0, 0, 0, 0]), LinkFailure::Displaced);
    assert!(out.events.contains(&displaced));
    let end = access_point.deadline().unwrap().at;
    assert_eq!(end, Instant(0) + Duration::from_secs(300));
    access_point.fire(end, &mut out);
    assert_eq!(access_point.stations(), [last]);
    let gone = LinkEvent::Left(Address([2, 1, 0, 0, 0, 7]), LinkFailure::Inactive);
    assert!(out.events.contains(&gone));
}

#[test]
fn a_frame_between_two_stations_goes_back_into_the_air() {
    let mut air = Air::of(&wep(7));
    air.run(Duration::from_millis(10));
    let way = |to| air.access_point.way_of(&data(to, STATION), air.now);
    let (up, back) = (true, true);
    assert_eq!(way(OTHER), Way { up: false, back });
    assert_eq!(way(WIRED), Way { up, back: false });
    assert_eq!(way(Address::BROADCAST), Way { up, back });
    let mut eapol = data(Address([1, 0x80, 0xc2, 0, 0, 3]), STATION);
    eapol[12..14].copy_from_slice(&[0x88, 0x8e]);
    assert_eq!(
        air.access_point.way_of(&eapol, air.now),
        Way { up, back: false }
    );
}

/// A wrong password is seen in the counts of both ends, while it is tried and afterwards.
#[test]
fn what_sae_drops_is_counted_by_both_ends() {
    let security = |text| rsn(Akm::Sae, LinkCipher::Ccmp128, password(text, true));
    let mut air = Air::new(security(b"mellon"), security(b"friend"));
    air.stations.truncate(1);
    let counts = |air: &Air| {
        let reason = DropReason::AuthenticationFailed;
        let ends = [air.stations[0].1.drops(), air.access_point.drops()];
        ends.map(|it| it.of(reason))
    };
    let points = |air: &Air| {
        let ends = [air.stations[0].1.work(), air.access_point.work()];
        ends.map(|work| {
            let entries = work.entries().iter();
            let scaled = entries.filter(|(task, ..)| *task == Task::ScalePoint);
            scaled.map(|(_, times, _)| *times).sum::<u64>()
        })
    };
    air.run(Duration::ZERO);
    assert_eq!((counts(&air), points(&air)), ([1, 1], [4, 4]));
    air.run(Duration::from_secs(1));
    let failed = SaeFailure::WrongPassword.into();
    assert!(air.failures().contains(&failed));
    assert_eq!((counts(&air), points(&air)), ([5, 5], [4, 4]));
}

/// The confirm of the station is lost; its access point sends its own again, which is answered.
#[test]
fn a_lost_confirm_of_sae_costs_a_repetition() {
    let mut air = Air::of(&rsn(
        Akm::Sae,
        LinkCipher::Ccmp128,
        password(b"mellon", true),
    ));
    air.stations.truncate(1);
    // Probe, answer, commit, commit, confirm; then the station's.
    air.lost = Some(6);
    air.run(Duration::from_millis(150));
    assert_eq!(air.failures(), []);
    air.works_alone();
}

#[test]
fn who_has_not_authenticated_does_not_join() {
    for security in [wep(7), rsn(Akm::Psk, LinkCipher::Ccmp128, master(1))] {
        let mut air = Air::of(&security);
        let mut request = joining(&security, STATION).pop().unwrap();
        let mut out = AirOutbox::default();
        let taken = air.access_point.receive(&mut request, air.now, &mut out);
        assert_eq!(taken, Received::Dropped(DropReason::LinkUnknownStation));
        let [frame] = &out.frames[..] else {
            panic!("one answer");
        };
        let (header, len) = Header::parse(frame).unwrap();
        assert_eq!(header.control, control::DEAUTHENTICATION);
        assert_eq!(frame[len..], reason::NOT_AUTHENTICATED.to_le_bytes());
        // It is told only while it is a stranger, as anybody can send this in its name.
        air.run(Duration::from_secs(11));
        air.works();
        let mut out = AirOutbox::default();
        let taken = air.access_point.receive(&mut request, air.now, &mut out);
        assert_eq!(taken, Received::Dropped(DropReason::LinkUnknownStation));
        assert!(out.frames.is_empty());
        air.works();
    }
}

/// Group 41, pairwise 42, key management 43.
#[test]
fn what_does_not_fit_has_its_status() {
    let security = rsn(Akm::Psk, LinkCipher::Ccmp128, master(1));
    let statuses = [
        (7, status::INVALID_GROUP_CIPHER),
        (13, status::INVALID_PAIRWISE_CIPHER),
    ];
    for (at, expected) in [statuses[0], statuses[1], (19, status::INVALID_AKM)] {
        let mut air = Air::of(&security);
        let mut frames = joining(&security, STATION);
        let mut out = AirOutbox::default();
        let request = frames.last_mut().unwrap();
        let element = request.len() - 22;
        assert_eq!(request[element], element_id::RSN);
        request[element + at] = 12;
        for mut frame in frames {
            air.access_point.receive(&mut frame, air.now, &mut out);
        }
        let response = out.frames.last().unwrap();
        assert_eq!(response[26..28], expected.to_le_bytes());
    }
}

/// Of one SSID, of no octets, or of another; and one without any.
#[test]
fn a_probe_for_any_network_is_answered_and_one_for_another_is_not() {
    let mut air = Air::of(&wep(7));
    let own = network(Security::Open).ssid;
    let longer = [&own[..], b"x"].concat();
    let named = |ssid: &[u8]| [&[0, ssid.len() as u8], ssid].concat();
    for (elements, is_answered) in [
        (named(&own), true),
        (named(b""), true),
        (named(b"another"), false),
        (named(&longer), false),
        (named(&own[1..]), false),
        (vec![], false),
        (vec![0], false),
    ] {
        for to in [Address::BROADCAST, AP] {
            let mut port = Port::new(Role::Station(Address::BROADCAST), OTHER, Privacy::Open);
            let mut probe = port.manage(control::PROBE_REQUEST, to, &elements);
            let mut out = AirOutbox::default();
            let received = air.access_point.receive(&mut probe, air.now, &mut out);
            let wanted = match is_answered {
                true => Received::Taken,
                false => Received::Dropped(DropReason::LinkNotForUs),
            };
            assert_eq!(received, wanted, "{elements:?}");
            assert_eq!(out.frames.len(), usize::from(is_answered), "{elements:?}");
            // The answer has the name, whatever was asked.
            let is_named = |frame: &Vec<u8>| frame[24 + 12..].starts_with(&named(&own));
            assert!(out.frames.iter().all(is_named));
        }
    }
}

#[test]
fn a_station_says_why_it_finds_nothing() {
    let psk = |cipher, octet| rsn(Akm::Psk, cipher, master(octet));
    let told = |theirs: Security| {
        let mut air = Air::new(theirs, psk(LinkCipher::Ccmp128, 1));
        air.stations.truncate(1);
        air.run(Duration::from_secs(9));
        let events = air.events.iter().map(|event| match event {
            LinkEvent::NotSuitable(AP, announced) => announced.to_string(),
            other => panic!("{other:?}"),
        });
        events.collect::<Vec<_>>()
    };
    assert_eq!(told(Security::Open), ["open"]);
    assert_eq!(told(wep(7)), ["WEP"]);
    let owe = rsn(Akm::Owe, LinkCipher::Gcmp256, Credential::None);
    assert_eq!(told(owe), ["owe with gcmp-256"]);
    assert_eq!(told(psk(LinkCipher::Tkip, 1)), ["psk with tkip"]);
    let mut air = Air::of(&psk(LinkCipher::Ccmp128, 1));
    air.stations.truncate(1);
    let other = network(Security::Open);
    let other = Network {
        ssid: b"another".to_vec(),
        ..other
    };
    air.access_point = AccessPoint::new(other, AP, Seed::new([9; 32]));
    air.run(Duration::from_secs(9));
    assert_eq!(air.events, [LinkEvent::NotFound]);
    air.access_point = AccessPoint::new(network(Security::Open), AP, Seed::new([9; 32]));
    air.run(Duration::from_secs(9));
    let open = LinkEvent::NotSuitable(AP, Announced::Open);
    assert_eq!(air.events, [LinkEvent::NotFound, open]);
    let mut air = Air::new(psk(LinkCipher::Ccmp128, 2), psk(LinkCipher::Ccmp128, 1));
    air.stations.truncate(1);
    air.run(Duration::from_secs(9));
    assert!(air.failures().contains(&LinkFailure::KeysRefused));
}
