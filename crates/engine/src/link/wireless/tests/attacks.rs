//! What somebody in the air can do to a network, and what not.

use wire::ieee80211::{Address, reason};

use super::air::*;
use crate::counters::DropReason;
use crate::link::wireless::handshake::Akm;
use crate::link::wireless::*;
use crate::time::Duration;

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
