//! Group keys are renewed: everybody gets the next one, then it is in force.

use wire::ieee80211::{Address, Header, control};

use super::air::*;
use crate::link::wireless::handshake::{Akm, Failure};
use crate::link::wireless::*;
use crate::time::Duration;

/// The number of the key of a frame to all.
fn group_key_id(air: &mut Air) -> u8 {
    let to_all = data(Address::BROADCAST, WIRED);
    let mut sent = vec![0; to_all.len() + MAX_GROWTH];
    air.access_point.protect(&to_all, &mut sent).unwrap();
    sent[27] >> 6
}

fn securities() -> [Security; 4] {
    use LinkCipher::{Ccmp128, Gcmp256, Tkip, Wep104};
    [
        rsn(Akm::Psk, Tkip, master(1)),
        rsn(Akm::PskSha256, Ccmp128, master(1)),
        rsn(Akm::Sae, Gcmp256, password(b"mellon", true)),
        Security::DynamicWep(permit(Wep104)),
    ]
}

fn joined(security: &Security) -> Air {
    let mut air = Air::of(security);
    air.run(Duration::from_millis(10));
    if security.wants_session() {
        air.authenticate();
    }
    air.run(Duration::from_millis(500));
    air
}

#[test]
fn the_group_key_is_renewed_again_and_again() {
    for security in securities() {
        let mut air = joined(&security);
        let interval = Duration::from_secs(60);
        air.access_point.renew_group_every(interval, air.now);
        for round in 0..4 {
            assert_eq!(group_key_id(&mut air), 1 + round % 2);
            air.works();
            air.run(interval);
        }
        assert_eq!(air.failures(), []);
        if !security.wants_session() {
            assert_eq!(air.secured(AP), 2);
        }
    }
}

/// While a station lacks the next key, frames to all stay under the old one.
#[test]
fn a_lost_message_with_a_group_key_is_repeated() {
    let mut air = joined(&rsn(Akm::Psk, LinkCipher::Ccmp128, master(1)));
    let interval = Duration::from_secs(60);
    air.access_point.renew_group_every(interval, air.now);
    air.run(interval - Duration::from_millis(1));
    air.lost = Some(air.count + 1);
    air.run(Duration::from_millis(1));
    assert_eq!(group_key_id(&mut air), 1);
    air.works();
    air.run(Duration::from_secs(1));
    assert_eq!(group_key_id(&mut air), 2);
    air.works();
}

#[test]
fn who_does_not_take_a_group_key_is_left() {
    let mut air = joined(&rsn(Akm::Psk, LinkCipher::Ccmp128, master(1)));
    let gone = air.stations.pop().unwrap().0;
    air.access_point
        .renew_group_every(Duration::from_secs(60), air.now);
    air.run(Duration::from_secs(65));
    assert_eq!(air.failures(), [Failure::NoGroupAnswer.into()]);
    assert_eq!(air.access_point.station(gone), None);
    assert_eq!(air.access_point.stations(), [STATION]);
    let to_all = data(Address::BROADCAST, WIRED);
    assert_eq!(air.down(&to_all).unwrap().len(), 1);
}

/// A station joins again while all wait for its answer, and never gets keys.
#[test]
fn a_station_without_keys_holds_up_nobody() {
    let security = rsn(Akm::Ieee8021x, LinkCipher::Ccmp128, Credential::None);
    let mut air = joined(&security);
    air.access_point
        .renew_group_every(Duration::from_secs(60), air.now);
    air.stations.truncate(1);
    air.run(Duration::from_secs(60));
    assert_eq!(group_key_id(&mut air), 1);
    let mut out = AirOutbox::default();
    for mut frame in joining(&security, OTHER) {
        air.access_point.receive(&mut frame, air.now, &mut out);
    }
    assert_eq!(group_key_id(&mut air), 2);
}

/// It could read what is sent to groups otherwise.
#[test]
fn a_station_that_leaves_takes_a_key_without_worth() {
    for security in securities() {
        for is_told in [false, true] {
            let mut air = joined(&security);
            let mut out = AirOutbox::default();
            let (gone, mut station) = air.stations.pop().unwrap();
            match is_told {
                true => assert!(air.access_point.end(gone, air.now, &mut out)),
                false => station.close(air.now, &mut out),
            }
            air.carry(out);
            assert_eq!(group_key_id(&mut air), 1);
            // With SAE and OWE it is asked first whether it has left.
            air.run(Duration::from_secs(2));
            assert_eq!(group_key_id(&mut air), 2);
            let to_all = data(Address::BROADCAST, WIRED);
            assert_eq!(air.down(&to_all).unwrap().len(), 1);
            air.works_alone();
        }
    }
}

/// Nothing answers a packet with a key of WEP: it comes again until the station sends under it.
#[test]
fn keys_of_wep_are_sent_until_the_station_has_them() {
    let mut air = Air::of(&Security::DynamicWep(permit(LinkCipher::Wep104)));
    air.stations.truncate(1);
    air.run(Duration::from_millis(10));
    // That of the group, then that of the station.
    for lost in 1..=2 {
        air.lost = Some(air.count + lost);
        air.authenticate();
        air.run(Duration::from_secs(2));
        air.works_alone();
        let to_all = data(Address::BROADCAST, WIRED);
        assert_eq!(air.down(&to_all).unwrap().len(), 1);
    }
    let before = air.count;
    air.run(Duration::from_secs(100));
    let keys = air.carried[before..].iter().filter(|frame| {
        let (header, _) = Header::parse(frame).unwrap();
        header.control & control::KIND == control::DATA
    });
    assert_eq!(keys.count(), 0);
}

/// Nobody else had them, and frames are on their way.
#[test]
fn who_stays_keeps_its_own_key_of_wep_when_another_one_leaves() {
    let mut air = joined(&Security::DynamicWep(permit(LinkCipher::Wep104)));
    let (gone, _) = air.stations.pop().unwrap();
    let mut out = AirOutbox::default();
    assert!(air.access_point.end(gone, air.now, &mut out));
    air.carry(out);
    let late = |air: &mut Air| {
        let up = data(WIRED, STATION);
        let mut frame = vec![0; up.len() + MAX_GROWTH];
        let len = air.stations[0].1.protect(&up, &mut frame).unwrap();
        frame.truncate(len);
        (up, frame)
    };
    let (up, sent) = late(&mut air);
    air.run(Duration::from_secs(2));
    assert_eq!(group_key_id(&mut air), 2);
    let came = air.deliver(&sent, &mut AirOutbox::default());
    assert_eq!(came, [up]);
    // After the time it gets another one.
    let interval = Duration::from_secs(60);
    air.access_point.renew_group_every(interval, air.now);
    let (_, sent) = late(&mut air);
    air.run(interval);
    assert_eq!(group_key_id(&mut air), 1);
    let came = air.deliver(&sent, &mut AirOutbox::default());
    assert!(came.is_empty());
    air.works_alone();
}
