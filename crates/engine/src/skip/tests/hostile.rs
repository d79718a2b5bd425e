//! Truncated, changed, repeated, reflected and foreign packets.

use super::*;

/// Octets that no authentication covers: TTL and checksum; with AES-GCM-SIV also the type of
/// service, flags and fragment offset.
fn uncovered(algorithms: Algorithms) -> &'static [usize] {
    match algorithms {
        Algorithms::HKDF_AES_GCM_SIV => &[1, 6, 7, 8, 10, 11],
        _ => &[8, 10, 11],
    }
}

#[test]
fn each_changed_bit_is_refused() {
    for algorithms in every_fitting_choice() {
        if algorithms.mac() == MacAlg::None {
            continue;
        }
        let mut pair = Pair::of(algorithms);
        let [_, gateway] = parts_of(profile_of(algorithms), algorithms);
        let gateway = Association::new(gateway).unwrap();
        let good = pair.seal(b"some text of 27 octets here", MID_HOUR).unwrap();
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                // The reserved half of SKIP's first octet counts as zero.
                let is_reserved = at == IP_LEN && bit < 4;
                let is_free = uncovered(algorithms).contains(&at) || is_reserved;
                let fresh = Opener::new(&gateway, None).open(&mut bad, IP_LEN, MID_HOUR);
                assert_eq!(
                    fresh.is_ok(),
                    is_free,
                    "{algorithms:?} {at} {bit} {fresh:?}"
                );
            }
        }
        assert!(pair.open(&good, MID_HOUR).is_ok());
    }
}

#[test]
fn each_truncation_is_refused_without_panic() {
    for algorithms in every_fitting_choice() {
        let mut pair = Pair::of(algorithms);
        let good = pair.seal(b"some text", MID_HOUR).unwrap();
        for len in 0..good.len() {
            let opened = pair.open(&good[..len], MID_HOUR);
            assert!(opened.is_err(), "{algorithms:?} {len}");
        }
        let longer = [&good[..], &[0]].concat();
        let opened = pair.open(&longer, MID_HOUR);
        assert_eq!(opened, Err(DropReason::Truncated));
        for at in [0, 19, 61, usize::MAX] {
            let refused = pair.opener.open(&mut good.clone(), at, MID_HOUR);
            assert_eq!(refused, Err(DropReason::BadInnerPacket));
        }
    }
}

#[test]
fn each_refusal_has_its_reason() {
    let choice = algorithms(DES_MD5);
    let mut pair = Pair::of(choice);
    let good = pair.seal(b"text", MID_HOUR).unwrap();
    let mut refused = |at: usize, value: u8| {
        let mut bad = good.clone();
        bad[IP_LEN + at] = value;
        pair.open(&bad, MID_HOUR).unwrap_err()
    };
    assert_eq!(refused(0, 0x20), DropReason::SkipUnsupported);
    assert_eq!(refused(1, 99), DropReason::SkipUnsupported);
    assert_eq!(refused(9, 99), DropReason::SkipUnsupported);
    assert_eq!(refused(9, 250), DropReason::SkipWrongAlgorithm);
    assert_eq!(refused(8, 1), DropReason::SkipWrongAlgorithm);
    assert_eq!(refused(3, 50), DropReason::SkipWrongAlgorithm);
    assert_eq!(refused(28, 11), DropReason::SkipUnknownName);
    assert_eq!(refused(7, 0), DropReason::SkipOldN);
    assert_eq!(refused(4, 0x7f), DropReason::SkipFutureN);
    assert_eq!(refused(12, 0), DropReason::BadIcv);
    assert_eq!(refused(70, 0), DropReason::BadIcv);
    assert_eq!(refused(33, 5), DropReason::Truncated);
    assert_eq!(pair.open(&good[..60], MID_HOUR), Err(DropReason::Truncated));
    assert!(pair.open(&good, MID_HOUR).is_ok());
}

/// A stranger's packets leave no key, no n and no mark.
#[test]
fn a_packet_that_does_not_verify_changes_nothing() {
    let mut parts = parts_of(Profile::Paper, algorithms(DES_MD5));
    parts[0].renewal = Renewal::EVERY_PACKET;
    let mut pair = Pair::new(parts);
    let good = pair.seal(b"text", MID_HOUR).unwrap();
    for n in 0..100 {
        let mut bad = good.clone();
        bad[IP_LEN + 4] = n;
        bad[IP_LEN + 12] ^= n | 1;
        assert_eq!(pair.open(&bad, MID_HOUR), Err(DropReason::BadIcv));
        assert_eq!(pair.opener.kept(), (0, 0));
        assert_eq!(pair.opener.highest_n(), None);
    }
    let opened = pair.open(&good, MID_HOUR).unwrap();
    assert!(!opened.is_repeated && opened.is_newest);
    assert_eq!(pair.opener.kept(), (1, 1));
}

#[test]
fn a_repeated_packet_is_accepted_and_told_so() {
    for algorithms in every_fitting_choice() {
        let has_mac = algorithms.mac() != MacAlg::None;
        if algorithms == Algorithms::HKDF_AES_GCM_SIV || !has_mac {
            continue;
        }
        let mut pair = Pair::of(algorithms);
        // Equal packets are copies: without ESP, nothing but the text makes them differ.
        let packets: Vec<_> = (0..20)
            .map(|number| pair.seal(&[number; 9], MID_HOUR).unwrap())
            .collect();
        for packet in &packets {
            let opened = pair.open(packet, MID_HOUR).unwrap();
            assert!(!opened.is_repeated && opened.is_newest);
        }
        for packet in &packets {
            let opened = pair.open(packet, MID_HOUR).unwrap();
            assert!(opened.is_repeated && !opened.is_newest, "{algorithms:?}");
        }
    }
}

#[test]
fn skip_x25519_refuses_repeated_packets() {
    let mut pair = Pair::of(Algorithms::HKDF_AES_GCM_SIV);
    let packets: Vec<_> = (0..1_100)
        .map(|_| pair.seal(b"text", MID_HOUR).unwrap())
        .collect();
    assert_eq!(
        pair.open(&packets[5], MID_HOUR).map(|it| it.is_newest),
        Ok(true)
    );
    assert_eq!(
        pair.open(&packets[2], MID_HOUR).map(|it| it.is_newest),
        Ok(false)
    );
    for again in [2, 5] {
        assert_eq!(
            pair.open(&packets[again], MID_HOUR),
            Err(DropReason::Replayed)
        );
    }
    assert!(pair.open(&packets[1_099], MID_HOUR).is_ok());
    assert_eq!(
        pair.open(&packets[3], MID_HOUR),
        Err(DropReason::OutsideWindow)
    );
    // A sender that restarts a second later is above everything that it has sent.
    let second = later(MID_HOUR, Duration::from_secs(1));
    let [mobile, _] = parts_of(Profile::X25519, Algorithms::HKDF_AES_GCM_SIV);
    pair.sealer = Sealer::new(&Association::new(mobile).unwrap(), 0);
    assert!(pair.pass(b"text", second).0.is_newest);
}

/// A packet that comes back to its sender is not the peer's, even where names do not tell.
#[test]
fn a_reflected_packet_is_refused() {
    for profile in [Profile::Draft, Profile::X25519] {
        let choice = match profile {
            Profile::X25519 => Algorithms::HKDF_AES_GCM_SIV,
            _ => algorithms(DES_MD5),
        };
        let [mobile, _] = parts_of(profile, choice);
        let mut pair = Pair::new([mobile.clone(), mobile]);
        let packet = pair.seal(b"text", MID_HOUR).unwrap();
        assert_eq!(
            pair.open(&packet, MID_HOUR),
            Err(DropReason::SkipUnknownName)
        );
    }
    let nameless = parts_of(Profile::X25519, Algorithms::HKDF_AES_GCM_SIV).map(|mut parts| {
        parts.local = Name::NONE;
        parts.remote = Name::NONE;
        parts
    });
    let mut good = Pair::new(nameless.clone());
    let packet = good.seal(b"text", MID_HOUR).unwrap();
    assert!(good.open(&packet, MID_HOUR).is_ok());
    let [mobile, _] = nameless;
    let mut mirror = Pair::new([mobile.clone(), mobile]);
    assert_eq!(mirror.open(&packet, MID_HOUR), Err(DropReason::BadIcv));
}

#[test]
fn another_secret_does_not_open() {
    for algorithms in every_fitting_choice() {
        if algorithms.mac() == MacAlg::None {
            continue;
        }
        let profile = profile_of(algorithms);
        let [mobile, mut gateway] = parts_of(profile, algorithms);
        let group = gateway.master.group().unwrap();
        let stranger = long_term(group, 99);
        let own = long_term(group, 2);
        gateway.master = MasterKey::agree(&own, stranger.public(), &mut Work::default()).unwrap();
        let mut pair = Pair::new([mobile, gateway]);
        let packet = pair.seal(b"text", MID_HOUR).unwrap();
        assert_eq!(pair.open(&packet, MID_HOUR), Err(DropReason::BadIcv));
    }
}
