//! Two ends with an air between them.

use wire::ieee80211::{Address, ETHERTYPE_EAPOL, EthernetHeader, Header, control};

use super::*;
use crate::counters::DropReason;
use crate::time::{Duration, Instant};
use crate::work::Task;

const AP: Address = Address([2, 0, 0, 0, 0, 1]);
const STATION: Address = Address([2, 0, 0, 0, 0, 2]);
const OTHER: Address = Address([2, 0, 0, 0, 0, 3]);
const WIRED: Address = Address([2, 0, 0, 0, 0, 9]);
const NOW: Instant = Instant(5);

struct Pair {
    station: Port,
    access_point: Port,
}

impl Pair {
    fn new(privacy: Privacy) -> Self {
        let mut access_point = Port::new(Role::AccessPoint, AP, privacy);
        assert!(access_point.join(STATION));
        Self {
            station: Port::new(Role::Station(AP), STATION, privacy),
            access_point,
        }
    }

    /// With keys of this cipher.
    fn keyed(cipher: LinkCipher) -> Self {
        let mut pair = Self::new(Privacy::Protected);
        let octets: Vec<u8> = (1..=cipher.key_len() as u8).collect();
        let pairwise = key(cipher, &octets);
        let group = GroupKey {
            key: key(cipher, &vec![0x77; cipher.key_len()]),
            key_id: 1,
            last_number: 0,
        };
        for (port, peer) in [(&mut pair.station, AP), (&mut pair.access_point, STATION)] {
            assert!(port.install_pairwise(peer, &pairwise));
            port.install_group(&group);
        }
        pair
    }

    /// Up, then down: what arrives at the other end.
    fn up(&mut self, frame: &[u8]) -> Result<Vec<u8>, DropReason> {
        let air = sent(&mut self.station, frame)?;
        received(&mut self.access_point, &air)
    }

    fn down(&mut self, frame: &[u8]) -> Result<Vec<u8>, DropReason> {
        let air = sent(&mut self.access_point, frame)?;
        received(&mut self.station, &air)
    }
}

fn sent(port: &mut Port, frame: &[u8]) -> Result<Vec<u8>, DropReason> {
    let mut air = vec![0; frame.len() + MAX_GROWTH];
    let len = port.protect(frame, &mut air)?;
    air.truncate(len);
    Ok(air)
}

fn received(port: &mut Port, air: &[u8]) -> Result<Vec<u8>, DropReason> {
    let mut air = air.to_vec();
    let opened = port.unprotect(&mut air, NOW)?;
    Ok(air[opened.frame].to_vec())
}

fn ethernet(destination: Address, source: Address, ethertype: u16, body: &[u8]) -> Vec<u8> {
    let header = EthernetHeader {
        destination,
        source,
        ethertype,
    };
    [header.octets().as_slice(), body].concat()
}

fn data(destination: Address, source: Address) -> Vec<u8> {
    ethernet(destination, source, 0x0800, b"an IP packet, not really")
}

#[test]
fn every_cipher_carries_frames_both_ways_and_to_all() {
    for cipher in LinkCipher::ALL {
        let mut pair = Pair::keyed(cipher);
        let (up, down) = (data(WIRED, STATION), data(STATION, WIRED));
        let to_all = data(Address::BROADCAST, WIRED);
        for _ in 0..3 {
            assert_eq!(pair.up(&up).as_ref(), Ok(&up), "{cipher:?}");
            assert_eq!(pair.down(&down).as_ref(), Ok(&down), "{cipher:?}");
            assert_eq!(pair.down(&to_all).as_ref(), Ok(&to_all), "{cipher:?}");
        }
        let air = sent(&mut pair.station, &up).unwrap();
        assert_eq!(air.len(), up.len() + 18 + cipher.overhead());
        assert!(!air.windows(9).any(|part| part == b"IP packet"));
        let clear = (up.len() - 14 + 8) as u64;
        let task = (Task::ProtectFrame(cipher), 4, 4 * clear);
        assert_eq!(pair.station.work().entries()[0], task);
        let task = (Task::UnprotectFrame(cipher), 3, 3 * clear);
        assert_eq!(pair.access_point.work().entries()[1], task);
    }
}

#[test]
fn a_repeated_frame_is_dropped_by_all_but_wep() {
    for cipher in LinkCipher::ALL {
        let mut pair = Pair::keyed(cipher);
        let first = sent(&mut pair.station, &data(WIRED, STATION)).unwrap();
        let second = sent(&mut pair.station, &data(WIRED, STATION)).unwrap();
        let ap = &mut pair.access_point;
        assert!(received(ap, &second).is_ok());
        for old in [&first, &second] {
            let is_wep = cipher.is_wep();
            let reason = received(ap, old).err();
            assert_eq!(
                reason,
                (!is_wep).then_some(DropReason::Replayed),
                "{cipher:?}"
            );
        }
    }
}

#[test]
fn a_changed_frame_is_dropped_and_counted() {
    for cipher in LinkCipher::ALL {
        let mut pair = Pair::keyed(cipher);
        let air = sent(&mut pair.station, &data(WIRED, STATION)).unwrap();
        let mut drops = 0;
        for at in 28..air.len() {
            let mut changed = air.clone();
            changed[at] ^= 0x40;
            let received = received(&mut pair.access_point, &changed);
            let is_number = cipher.overhead() > 8 && at < 32;
            let reason = received.unwrap_err();
            assert!(reason == DropReason::BadIcv || is_number, "{cipher:?} {at}");
            drops += 1;
        }
        let counted = DropReason::ALL.iter();
        let counted = counted.map(|it| pair.access_point.drops().of(*it));
        assert_eq!(counted.sum::<u64>(), drops);
        assert!(received(&mut pair.access_point, &air).is_ok());
    }
}

/// The addresses are in CCMP's and GCMP's additional data and in Michael. WEP does not see them.
#[test]
fn only_wep_lets_a_frame_be_redirected() {
    for cipher in LinkCipher::ALL {
        let mut pair = Pair::keyed(cipher);
        let mut air = sent(&mut pair.station, &data(WIRED, STATION)).unwrap();
        air[16..22].copy_from_slice(&OTHER.0);
        let redirected = received(&mut pair.access_point, &air);
        let expected = match cipher {
            LinkCipher::Wep40 | LinkCipher::Wep104 => Ok(data(OTHER, STATION)),
            LinkCipher::Tkip => Err(DropReason::LinkBadMic),
            _ => Err(DropReason::BadIcv),
        };
        assert_eq!(redirected, expected, "{cipher:?}");
    }
}

#[test]
fn a_shared_key_of_wep_serves_all_with_its_number() {
    for (cipher, octets) in [
        (LinkCipher::Wep40, &[5; 5][..]),
        (LinkCipher::Wep104, &[6; 13]),
    ] {
        let mut pair = Pair::new(Privacy::Protected);
        let shared = key(cipher, octets);
        pair.station.install_shared(&shared, 2);
        pair.access_point.install_shared(&shared, 2);
        let to_all = data(Address::BROADCAST, WIRED);
        assert_eq!(pair.down(&to_all).as_ref(), Ok(&to_all));
        let up = data(WIRED, STATION);
        assert_eq!(pair.up(&up).as_ref(), Ok(&up));
        pair.station.install_shared(&shared, 3);
        assert_eq!(pair.up(&up), Err(DropReason::LinkNoKey));
    }
}

/// The counter starts at zero: two senders with one key use the same IVs, as WEP's did.
#[test]
fn weps_iv_repeats_with_its_keystream() {
    let shared = key(LinkCipher::Wep40, &[5; 5]);
    let [mut a, mut b] = [STATION, OTHER].map(|own| {
        let mut port = Port::new(Role::Station(AP), own, Privacy::Protected);
        port.install_shared(&shared, 0);
        port
    });
    let one = sent(&mut a, &data(WIRED, STATION)).unwrap();
    let two = sent(&mut b, &data(WIRED, OTHER)).unwrap();
    assert_eq!(one[24..], two[24..]);
}

#[test]
fn without_a_key_only_eapol_passes() {
    let mut pair = Pair::new(Privacy::Protected);
    let eapol = ethernet(AP, STATION, ETHERTYPE_EAPOL, &[1, 1, 0, 0]);
    assert_eq!(pair.up(&eapol).as_ref(), Ok(&eapol));
    assert_eq!(pair.up(&data(WIRED, STATION)), Err(DropReason::LinkNoKey));
    let mut open = Pair::new(Privacy::Open);
    let clear = sent(&mut open.station, &data(WIRED, STATION)).unwrap();
    let dropped = received(&mut pair.access_point, &clear);
    assert_eq!(dropped, Err(DropReason::ClearPacket));
    let clear = received(&mut open.access_point, &clear);
    assert_eq!(clear, Ok(data(WIRED, STATION)));
}

/// Only key packets are taken in the clear once there is a key: they have a MIC.
#[test]
fn with_a_key_only_key_packets_pass_in_the_clear() {
    let mut pair = Pair::keyed(LinkCipher::Ccmp128);
    let is_protected = |air: &[u8]| Header::parse(air).unwrap().0.is_protected();
    let up = ethernet(AP, STATION, ETHERTYPE_EAPOL, &[2, 3, 0, 0]);
    let logoff = ethernet(AP, STATION, ETHERTYPE_EAPOL, &[2, 2, 0, 0]);
    let mut bare = Pair::new(Privacy::Protected);
    for (frame, expected) in [
        (&up, Ok(up.clone())),
        (&logoff, Err(DropReason::ClearPacket)),
    ] {
        assert!(is_protected(&sent(&mut pair.station, frame).unwrap()));
        assert_eq!(pair.up(frame).as_ref(), Ok(frame));
        let clear = sent(&mut bare.station, frame).unwrap();
        assert_eq!(received(&mut pair.access_point, &clear), expected);
        assert!(is_protected(&sent(&mut pair.station, frame).unwrap()));
    }
}

#[test]
fn frames_of_strangers_and_for_others_are_dropped() {
    let mut pair = Pair::keyed(LinkCipher::Ccmp128);
    let unknown = sent(&mut pair.access_point, &data(OTHER, WIRED));
    assert_eq!(unknown, Err(DropReason::LinkUnknownStation));
    let forged = sent(&mut pair.station, &data(WIRED, OTHER));
    assert_eq!(forged, Err(DropReason::ForgedSource));
    let mut stranger = Port::new(Role::Station(AP), OTHER, Privacy::Protected);
    stranger.install_pairwise(AP, &key(LinkCipher::Ccmp128, &[1; 16]));
    let air = sent(&mut stranger, &data(WIRED, OTHER)).unwrap();
    let dropped = received(&mut pair.access_point, &air);
    assert_eq!(dropped, Err(DropReason::LinkUnknownStation));
    let own = sent(&mut pair.station, &data(WIRED, STATION)).unwrap();
    let dropped = received(&mut pair.station, &own);
    assert_eq!(dropped, Err(DropReason::LinkNotForUs));
    // Its own broadcast, which the access point sends on to all.
    let echo = sent(&mut pair.access_point, &data(Address::BROADCAST, STATION)).unwrap();
    let dropped = received(&mut pair.station, &echo);
    assert_eq!(dropped, Err(DropReason::Reflected));
    let length = ethernet(WIRED, STATION, 0x40, &[0; 64]);
    assert_eq!(pair.up(&length), Err(DropReason::BadInnerPacket));
    let mut fragment = own.clone();
    fragment[1] |= (control::MORE_FRAGMENTS >> 8) as u8;
    let dropped = received(&mut pair.access_point, &fragment);
    assert_eq!(dropped, Err(DropReason::LinkUnsupportedFrame));
    let mut beacon = own;
    beacon[0] = control::BEACON as u8;
    beacon[1] = 0;
    let dropped = received(&mut pair.access_point, &beacon);
    assert_eq!(dropped, Err(DropReason::LinkUnsupportedFrame));
}

#[test]
fn a_station_that_left_has_no_key() {
    let mut pair = Pair::keyed(LinkCipher::Gcmp256);
    let air = sent(&mut pair.station, &data(WIRED, STATION)).unwrap();
    pair.access_point.leave(STATION);
    let dropped = received(&mut pair.access_point, &air);
    assert_eq!(dropped, Err(DropReason::LinkUnknownStation));
    assert!(
        !pair
            .access_point
            .install_pairwise(STATION, &key(LinkCipher::Gcmp256, &[1; 32]))
    );
    pair.access_point.join(STATION);
    let dropped = received(&mut pair.access_point, &air);
    assert_eq!(dropped, Err(DropReason::LinkNoKey));
    pair.station.leave(AP);
    assert_eq!(pair.up(&data(WIRED, STATION)), Err(DropReason::LinkNoKey));
}

#[test]
fn an_access_point_has_a_limit() {
    let mut ap = Port::new(Role::AccessPoint, AP, Privacy::Open);
    let station = |at: usize| Address([2, 1, 0, 0, (at >> 8) as u8, at as u8]);
    assert!((0..MAX_STATIONS).all(|at| ap.join(station(at))));
    assert!(!ap.join(STATION));
    assert!(ap.join(station(7)));
    ap.leave(station(7));
    assert!(ap.join(STATION));
}

#[test]
fn a_second_wrong_mic_within_a_minute_stops_tkip() {
    let mut pair = Pair::keyed(LinkCipher::Tkip);
    let forged = |pair: &mut Pair, at: Instant| {
        let mut air = sent(&mut pair.station, &data(WIRED, STATION)).unwrap();
        air[16..22].copy_from_slice(&OTHER.0);
        pair.access_point.unprotect(&mut air, at).unwrap_err()
    };
    let second = |seconds| Instant(0) + Duration::from_secs(seconds);
    assert_eq!(forged(&mut pair, second(1)), DropReason::LinkBadMic);
    // Too late for countermeasures, but soon enough before the next.
    assert_eq!(forged(&mut pair, second(62)), DropReason::LinkBadMic);
    assert!(!pair.access_point.mic_failures().are_active(second(62)));
    assert_eq!(forged(&mut pair, second(100)), DropReason::LinkBadMic);
    let failures = pair.access_point.mic_failures();
    assert_eq!(failures.until(), Some(second(160)));
    // No key is left; with a new one nothing passes before the time is over.
    assert_eq!(forged(&mut pair, second(101)), DropReason::LinkNoKey);
    let fresh = key(LinkCipher::Tkip, &[9; 32]);
    pair.access_point.install_pairwise(STATION, &fresh);
    pair.station.install_pairwise(AP, &fresh);
    let mut at = |time| {
        let mut air = sent(&mut pair.station, &data(WIRED, STATION)).unwrap();
        pair.access_point.unprotect(&mut air, time).map(|_| ())
    };
    assert_eq!(at(second(159)), Err(DropReason::LinkCountermeasures));
    assert_eq!(at(second(160)), Ok(()));
}

#[test]
fn a_key_ends_with_its_last_packet_number() {
    let mut pair = Pair::keyed(LinkCipher::Ccmp128);
    let group = GroupKey {
        key: key(LinkCipher::Ccmp128, &[3; 16]),
        key_id: 2,
        last_number: (1 << 48) - 2,
    };
    pair.station.install_group(&group);
    pair.access_point.install_group(&group);
    let to_all = data(Address::BROADCAST, WIRED);
    assert_eq!(pair.down(&to_all).as_ref(), Ok(&to_all));
    assert_eq!(pair.down(&to_all), Err(DropReason::SequenceExhausted));
}

#[test]
fn legacy_ciphers_need_the_word() {
    for cipher in LinkCipher::ALL {
        assert!(cipher.permit(true).is_ok());
        assert_eq!(cipher.permit(false).is_err(), cipher.is_legacy());
    }
    let refused = LinkCipher::Tkip.permit(false).unwrap_err();
    assert_eq!(refused.to_string(), "legacy = true is needed for tkip");
    let permitted = LinkCipher::Ccmp128.permit(false).unwrap();
    assert!(TemporalKey::new(permitted, &[0; 15]).is_none());
}

#[test]
fn a_buffer_that_is_too_small_is_no_panic() {
    let mut pair = Pair::keyed(LinkCipher::Gcmp256);
    let frame = data(WIRED, STATION);
    for len in 0..frame.len() + MAX_GROWTH {
        let small = pair.station.protect(&frame, &mut vec![0; len]);
        assert_eq!(small, Err(DropReason::TooBig));
    }
}

/// CVE-2020-24588: the bit that says a body is several frames is not protected. An attacker sets it
/// in a frame whose text he knows. Nobody here sends frames with quality of service, so none pass.
#[test]
fn quality_of_service_and_a_second_control_field_are_refused() {
    let mut pair = Pair::keyed(LinkCipher::Ccmp128);
    let air = sent(&mut pair.station, &data(WIRED, STATION)).unwrap();
    let mut ordered = air.clone();
    ordered[1] |= (control::ORDER >> 8) as u8;
    for qos in [0, 0x80] {
        let mut with_qos = air.clone();
        with_qos[0] = control::QOS_DATA as u8;
        with_qos.splice(24..24, [qos, 0]);
        let mut clear = with_qos.clone();
        clear[1] &= !(control::PROTECTED >> 8) as u8;
        for frame in [&ordered, &with_qos, &clear] {
            let dropped = received(&mut pair.access_point, frame);
            assert_eq!(dropped, Err(DropReason::LinkUnsupportedFrame));
        }
    }
    assert!(received(&mut pair.access_point, &air).is_ok());
}
