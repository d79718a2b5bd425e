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
