//! Both modes, methods and roles reach an SA, with and without NAT.

use proptest::prelude::*;

use super::pair::{End, Setup, pattern, preshared};
use crate::config::Encapsulation;
use crate::ike::Step;
use crate::ikev1::keys::{Keys, skeyid_signatures};
use crate::sa::Via;
use crate::time::Duration;
use crate::work::{Task, Work};
use crypto::cipher::Cipher;
use crypto::dh::Group;
use crypto::hash::Hash;
use wire::isakmp::{Cookie, Cookies};

const SUITES: [&str; 7] = [
    "des-md5-modp768",
    "3des-md5-modp1024",
    "3des-sha1-modp1536",
    "aes128-sha256-modp2048",
    "aes192-sha384-modp3072",
    "aes256-sha512-modp4096",
    "aes128-sha256-curve25519",
];

#[test]
fn every_mode_and_suite_with_a_preshared_key_with_and_without_nat() {
    for suites in SUITES {
        for (is_aggressive, is_natted) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let setup = Setup {
                is_aggressive,
                suites,
                is_natted,
                ..Setup::default()
            };
            let mut pair = setup.pair();
            pair.run();
            pair.assert_established();
            let (i, r) = (pair.i.sa.unwrap().0, pair.r.sa.unwrap().0);
            assert_eq!(i.suite.to_string(), suites);
            assert_eq!((i.nat.is_local, i.nat.is_remote), (is_natted, false));
            assert_eq!((r.nat.is_local, r.nat.is_remote), (false, is_natted));
            assert!(i.nat.is_supported && r.nat.is_supported);
            let port = if is_natted { 4500 } else { 500 };
            assert_eq!((i.path.local.port(), i.path.remote.port()), (port, port));
            assert_eq!(r.path.local.port(), port);
            assert_eq!(i.identity.to_string(), "gateway.example");
            assert_eq!(r.identity.to_string(), "station@example");
            assert!(r.is_initial_contact && !i.is_initial_contact);
        }
    }
}

#[test]
fn main_mode_is_six_messages() {
    let mut pair = Setup {
        is_natted: true,
        ..Setup::default()
    }
    .pair();
    pair.run();
    pair.assert_established();
    let i = [
        "main 1: SA VID VID VID VID",   // -->
        "main 3: KE NONCE NAT-D NAT-D", // -->
        "main 5: ID HASH N",            // -->
    ];
    let r = [
        "main 2: SA VID VID VID VID",   // <--
        "main 4: KE NONCE NAT-D NAT-D", // <--
        "main 6: ID HASH",              // <--
    ];
    assert_eq!(pair.i.arrows(), i);
    assert_eq!(pair.r.arrows(), r);
    // RFC 3947 §4: the initiator floats at message 5, the responder follows.
    let ways = |end: &End| -> Vec<(Via, u16)> {
        let ways = end
            .log
            .iter()
            .map(|it| (it.path.via, it.path.remote.port()));
        ways.collect()
    };
    let marked = Via::UdpWithMarker;
    assert_eq!(
        ways(&pair.i),
        [(Via::Udp, 500), (Via::Udp, 500), (marked, 4500)]
    );
    assert_eq!(
        ways(&pair.r),
        [(Via::Udp, 40500), (Via::Udp, 40500), (marked, 44500)]
    );
    let heard: Vec<Step> = pair.r.out.received.iter().map(|r| r.step).collect();
    assert_eq!(heard, [Step::Main(1), Step::Main(3), Step::Main(5)]);
}

#[test]
fn aggressive_mode_is_three_messages() {
    let mut pair = Setup {
        is_aggressive: true,
        is_natted: true,
        ..Setup::default()
    }
    .pair();
    pair.run();
    pair.assert_established();
    let i = [
        "aggressive 1: SA KE NONCE ID VID VID VID VID", // -->
        "aggressive 3: HASH NAT-D NAT-D N",             // -->
    ];
    // <--
    let r = ["aggressive 2: SA KE NONCE ID HASH NAT-D NAT-D VID VID VID VID"];
    assert_eq!(pair.i.arrows(), i);
    assert_eq!(pair.r.arrows(), r);
    let ports: Vec<u16> = pair.i.log.iter().map(|m| m.path.remote.port()).collect();
    assert_eq!(ports, [500, 4500]);
}

#[test]
fn whoever_prefers_udp_is_followed_to_port_4500_and_no_nat_is_told_of() {
    use Encapsulation::{Always, Auto, ThroughNat};
    for (station_has, gateway_has, is_udp) in [
        (ThroughNat, ThroughNat, false),
        (ThroughNat, Always, true),
        (Always, ThroughNat, true),
        (Auto, ThroughNat, true),
        (ThroughNat, Auto, true),
        (Auto, Auto, true),
    ] {
        for is_aggressive in [false, true] {
            let setup = Setup {
                is_aggressive,
                ..Setup::default()
            };
            let (mut station, mut gateway) = (setup.station(), setup.gateway());
            station.encapsulation = station_has;
            gateway.encapsulation = gateway_has;
            let mut pair = super::pair::Pair::new(station, vec![gateway], false);
            pair.run();
            pair.assert_established();
            let (i, r) = (pair.i.sa.unwrap().0, pair.r.sa.unwrap().0);
            let port = if is_udp { 4500 } else { 500 };
            for (nat, path) in [(i.nat, i.path), (r.nat, r.path)] {
                assert_eq!((nat.is_local, nat.is_remote), (false, false));
                assert_eq!(nat.is_between(), is_udp);
                assert_eq!((path.local.port(), path.remote.port()), (port, port));
            }
        }
    }
}

#[test]
fn a_nat_is_found_behind_a_station_that_asks_for_udp_in_any_case() {
    for (is_aggressive, is_natted) in [(false, false), (false, true), (true, false), (true, true)] {
        let setup = Setup {
            is_aggressive,
            is_natted,
            ..Setup::default()
        };
        let (mut station, mut gateway) = (setup.station(), setup.gateway());
        station.encapsulation = Encapsulation::Auto;
        gateway.encapsulation = Encapsulation::Auto;
        let mut pair = super::pair::Pair::new(station, vec![gateway], is_natted);
        pair.run();
        pair.assert_established();
        let (i, r) = (pair.i.sa.unwrap().0.nat, pair.r.sa.unwrap().0.nat);
        assert_eq!((i.is_local, i.is_remote), (is_natted, false));
        assert_eq!((r.is_local, r.is_remote), (false, is_natted));
        assert!(i.is_between() && r.is_between());
    }
}

#[test]
fn a_gateway_that_cannot_tell_its_connections_apart_yet_pretends_for_all_or_none() {
    let setup = Setup {
        is_aggressive: false,
        ..Setup::default()
    };
    for (second, is_udp) in [
        (Encapsulation::Auto, true),
        (Encapsulation::ThroughNat, false),
    ] {
        let (station, mut first, mut other) = (setup.station(), setup.gateway(), setup.gateway());
        first.encapsulation = Encapsulation::Auto;
        other.encapsulation = second;
        let mut pair = super::pair::Pair::new(station, vec![first, other], false);
        pair.run();
        pair.assert_established();
        assert_eq!(pair.r.sa.unwrap().0.nat.is_between(), is_udp);
    }
}

#[test]
fn the_responder_chooses_by_its_own_preference() {
    let setup = Setup {
        suites: "3des-sha1-modp1024 aes128-sha256-modp1536 aes256-sha256-modp2048",
        ..Setup::default()
    };
    let mut gateway = setup.gateway();
    gateway.proposals = vec![
        "aes192-sha1-modp1024".parse().unwrap(),
        "aes128-sha256-modp1536".parse().unwrap(),
        "3des-sha1-modp1024".parse().unwrap(),
    ];
    let mut pair = super::pair::Pair::new(setup.station(), vec![gateway], false);
    pair.run();
    pair.assert_established();
    let suite = pair.i.sa.unwrap().0.suite.to_string();
    assert_eq!(suite, "aes128-sha256-modp1536");
}

#[test]
fn a_peer_without_curve25519_is_met_by_the_next_transform() {
    let both = "aes128-sha256-curve25519 aes128-sha256-modp1024";
    let (curve, modp) = ("aes128-sha256-curve25519", "aes128-sha256-modp1024");
    for (station, gateway, agreed) in [
        (both, modp, modp),
        (modp, both, modp),
        (both, curve, curve),
        (curve, both, curve),
        (both, both, curve),
    ] {
        let of = |suites| Setup {
            suites,
            ..Setup::default()
        };
        let (station, gateway) = (of(station).station(), of(gateway).gateway());
        let mut pair = super::pair::Pair::new(station, vec![gateway], false);
        pair.run();
        pair.assert_established();
        assert_eq!(pair.i.sa.unwrap().0.suite.to_string(), agreed);
        assert_eq!(pair.r.sa.unwrap().0.suite.to_string(), agreed);
    }
}

#[test]
fn an_aggressive_responder_takes_curve25519_and_modp() {
    let curve = "aes128-sha256-curve25519";
    for (station, agreed) in [
        (curve, curve),
        (
            "aes128-sha256-modp1024 aes128-sha256-curve25519",
            "aes128-sha256-modp1024",
        ),
        ("aes128-sha256-curve25519 aes128-sha256-modp1024", curve),
    ] {
        let of = |suites| Setup {
            is_aggressive: true,
            suites,
            ..Setup::default()
        };
        let gateway = of("aes128-sha256-modp1024 aes128-sha256-curve25519").gateway();
        let mut pair = super::pair::Pair::new(of(station).station(), vec![gateway], false);
        pair.run();
        pair.assert_established();
        assert_eq!(pair.i.sa.unwrap().0.suite.to_string(), agreed);
    }
}

#[test]
fn an_aggressive_initiator_offers_one_group() {
    let setup = Setup {
        is_aggressive: true,
        suites: "3des-sha1-modp1024 aes128-sha256-modp2048 aes256-sha256-modp1024",
        ..Setup::default()
    };
    let mut gateway = setup.gateway();
    gateway.proposals.reverse();
    let mut pair = super::pair::Pair::new(setup.station(), vec![gateway], false);
    pair.run();
    pair.assert_established();
    let suite = pair.i.sa.unwrap().0.suite.to_string();
    assert_eq!(suite, "aes256-sha256-modp1024");
}

#[test]
fn the_shorter_life_counts_and_main_mode_tells_it() {
    for (is_aggressive, station_s, gateway_s) in [
        (false, 3600, 90_000),
        (false, 90_000, 3600),
        (true, 90_000, 3600),
    ] {
        let setup = Setup {
            is_aggressive,
            ..Setup::default()
        };
        let (mut station, mut gateway) = (setup.station(), setup.gateway());
        station.lifetime = Duration::from_secs(station_s);
        gateway.lifetime = Duration::from_secs(gateway_s);
        let mut pair = super::pair::Pair::new(station, vec![gateway], false);
        pair.run();
        pair.assert_established();
        assert_eq!(pair.r.sa.unwrap().0.lifetime_s, 3600);
        let is_told = !is_aggressive || station_s == 3600;
        let expected = if is_told { 3600 } else { station_s };
        assert_eq!(pair.i.sa.unwrap().0.lifetime_s, expected);
    }
}

#[test]
fn a_main_mode_responder_finds_the_connection_by_the_identity() {
    let setup = Setup::default();
    let mut first = setup.gateway();
    first.name = "others".into();
    first.remote.identities = vec![pattern("other@example")];
    let mut keyed = setup.gateway();
    keyed.name = "another key".into();
    (keyed.local.method, keyed.remote.method) = preshared("another");
    let responders = vec![first, keyed, setup.gateway()];
    let mut pair = super::pair::Pair::new(setup.station(), responders, false);
    pair.run();
    pair.assert_established();
    assert_eq!(pair.r.sa.unwrap().1.name, "stations");
}

#[test]
fn a_responder_prefers_the_connection_that_names_the_address() {
    let setup = Setup::default();
    let mut named = setup.gateway();
    named.name = "named".into();
    named.remote_addrs = vec!["10.0.0.2:500".parse().unwrap()];
    let mut elsewhere = setup.gateway();
    elsewhere.local_addrs = vec!["192.0.2.99".parse().unwrap()];
    let responders = vec![elsewhere, setup.gateway(), named];
    let mut pair = super::pair::Pair::new(setup.station(), responders, false);
    pair.run();
    assert_eq!(pair.r.sa.unwrap().1.name, "named");
}

#[test]
fn the_work_is_counted_and_nothing_is_done_twice() {
    for is_aggressive in [false, true] {
        let mut pair = Setup {
            is_aggressive,
            ..Setup::default()
        }
        .pair();
        pair.run();
        for end in [&pair.i, &pair.r] {
            let times = |task: Task| {
                let mut entries = end.out.work.entries().iter();
                entries
                    .find(|entry| entry.0 == task)
                    .map_or(0, |entry| entry.1)
            };
            assert_eq!(times(Task::KeyPair(Group::Modp1024)), 1);
            assert_eq!(times(Task::Agree(Group::Modp1024)), 1);
            assert_eq!(
                times(Task::MessageCipher(Cipher::Aes128)),
                if is_aggressive { 1 } else { 2 }
            );
        }
    }
}

#[test]
fn a_responder_answers_message_1_without_a_timer() {
    for is_aggressive in [false, true] {
        let setup = Setup {
            is_aggressive,
            ..Setup::default()
        };
        let mut pair = setup.pair();
        let (_, first) = pair.next().unwrap();
        pair.deliver(true, &first);
        let until = pair.now + Duration::from_secs(30);
        let responder = pair.r.phase1.as_mut().unwrap();
        responder.give_up_at(until);
        pair.i.phase1 = None;
        while pair.wait() {}
        assert_eq!(pair.r.log.len(), 1, "one answer");
        let number = if is_aggressive {
            Step::Aggressive(2)
        } else {
            Step::Main(2)
        };
        let sentence = pair.r.sentence();
        assert!(sentence.contains(&format!(", to {number} (")), "{sentence}");
        assert_eq!(pair.now, until);
    }
}

#[test]
fn keys_are_those_of_nist() {
    // SP 800-135 test vectors, ikev1_dsa, SHA-1: https://csrc.nist.gov, component validation.
    let gxy = hex(
        "2a2e0bbe8da3657a83f3d35826e49e2d38e557e912a1b9e6c30c63577b3eab715466202862027f2c26f309\
         0743555579611771db0b92bef93834432a3a7762fc8a0f4889fd281d6082770d10a40d7bad61e832f041e6\
         20d6787e7f62ab2861ddfbe272e0d9d3cdec5f1bbf750e24b8b32d6d714968ad69ce5086c32ad2742ebc",
    );
    let (ni, nr) = (hex("ced5635da6796075"), hex("6244b427712fb776"));
    let cookie = |text: &str| Cookie(hex(text).try_into().unwrap());
    let cookies = Cookies {
        initiator: cookie("382e5c8b0a3fa307"),
        responder: cookie("ba4b7616700a2413"),
    };
    let skeyid = skeyid_signatures(Hash::Sha1, &ni, &nr, &gxy);
    assert_eq!(
        skeyid.as_ref(),
        hex("dc37ac99de6dcfbd1ee74af7fb36f9b4b0a7829d")
    );
    let suite = "aes128-sha1-modp1024".parse().unwrap();
    let keys = Keys::derive(suite, &skeyid, &gxy, cookies, &mut Work::default());
    assert_eq!(
        keys.skeyid_d.0,
        hex("486293ed547adb562cefdaf43d3d8457b196f2b6")
    );
    assert_eq!(
        keys.skeyid_a.0,
        hex("f4053b5ca07e59bb41b8f401037ca90b72b3917e")
    );
    // SKEYID_e is 49a1d53a80fb77e663552964fbbcb45092021473; AES-128 takes its first octets.
    assert_eq!(keys.cipher_key.0, hex("49a1d53a80fb77e663552964fbbcb450"));
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_loss_that_ends_is_survived(
        lost in prop::collection::vec(any::<bool>(), 0..12),
        is_aggressive: bool,
    ) {
        let suites = "aes128-sha1-modp768";
        let mut pair = Setup { is_aggressive, suites, ..Setup::default() }.pair();
        let mut fates = lost.into_iter();
        for _ in 0..100 {
            while let Some((to_responder, sent)) = pair.next() {
                if !fates.next().unwrap_or(false) {
                    pair.deliver(to_responder, &sent);
                }
            }
            if pair.is_established() {
                break;
            }
            // A lost third message is asked for again when quick mode begins.
            if is_aggressive && pair.i.sa.is_some() && pair.r.phase1.is_some() {
                super::hostile::stray_quick_mode(&mut pair);
            } else if !pair.wait() {
                break;
            }
        }
        let unreachable = pair.i.fault.is_some() || pair.r.fault.is_some();
        prop_assert!(pair.is_established() || unreachable);
        if pair.is_established() {
            pair.assert_established();
        }
    }
}
