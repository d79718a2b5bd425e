use proptest::prelude::*;

use super::*;

fn fault<T: FromStr<Err = SuiteFault> + fmt::Debug>(text: &str) -> String {
    text.parse::<T>().unwrap_err().to_string()
}

#[test]
fn ike_suites_read_and_print() {
    for text in [
        "aes128-sha256-modp2048",
        "3des-md5-modp1024",
        "aes256-sha1-modp1536",
        "des-sha384-modp768",
        "aes192-sha512-modp4096",
        "aes128-sha256-curve25519",
    ] {
        assert_eq!(text.parse::<IkeSuite>().unwrap().to_string(), text);
    }
    let same: IkeSuite = "modp3072-sha2_256-aes".parse().unwrap();
    assert_eq!(same.to_string(), "aes128-sha256-modp3072");
}

#[test]
fn every_suite_of_the_catalogue_prints_as_it_reads() {
    let all = EspSuite::catalogue();
    assert_eq!(all.len(), CATALOGUE.len());
    for (suite, words) in all.iter().zip(CATALOGUE) {
        assert_eq!(suite.to_string(), words);
        for group in [Group::Modp2048, Group::Curve25519] {
            let words = format!("{words}-{}", of_group(group));
            let with_pfs: EspSuite = words.parse().unwrap();
            assert_eq!(with_pfs.pfs, Some(group.into()));
            assert_eq!(with_pfs.to_string(), words);
        }
    }
}

#[test]
fn other_spellings_mean_the_same() {
    for (text, printed) in [
        ("aes128gcm128", "aes128gcm16"),
        ("aes256gcm-noesn", "aes256gcm16"),
        ("esn-sha-aes", "aes128-sha1-esn"),
        ("ah-sha2_256-esn", "ah-sha256-esn"),
    ] {
        assert_eq!(text.parse::<EspSuite>().unwrap().to_string(), printed);
    }
    assert_eq!(
        EspSuite::parse_ah("sha256-modp2048"),
        EspSuite::parse_ah("ah-sha256-modp2048")
    );
}

#[test]
fn faults_name_the_word_and_the_nearest_valid_one() {
    assert_eq!(
        fault::<IkeSuite>("aes128-sha265-modp2048"),
        r#""aes128-sha265-modp2048": no algorithm is called "sha265"; the nearest is "sha256""#
    );
    for (word, nearest) in [
        ("modp8192", "modp4096"),
        ("modp6144", "modp4096"),
        ("modp1000", "modp1024"),
        ("modp2084", "modp2048"),
        ("modp99999999999", "modp4096"),
        ("ecp256", "modp3072"),
        ("x25519", "curve25519"),
        ("curve25591", "curve25519"),
        ("curve2519", "curve25519"),
        ("curve448", "modp4096"),
        ("ecp521", "modp4096"),
        ("ecp192", "modp1024"),
    ] {
        let said = fault::<IkeSuite>(&format!("aes128-sha256-{word}"));
        assert!(
            said.ends_with(&format!("the nearest is {nearest:?}")),
            "{said}"
        );
    }
    assert!(fault::<IkeSuite>("aes128gcm16-md5-modp768").ends_with(r#"nearest is "aes128""#));
    assert!(fault::<EspSuite>("chacha20poly1350").ends_with(r#"nearest is "chacha20poly1305""#));
    assert!(fault::<EspSuite>("none").contains(r#""none""#));
    assert_eq!(
        fault::<IkeSuite>("rot13"),
        r#""rot13": no algorithm is called "rot13""#
    );
    assert_eq!(
        fault::<EspSuite>("aes128-3des-sha1"),
        r#""aes128-3des-sha1": "3des" is a second cipher; write a proposal for each"#
    );
}

#[test]
fn words_that_do_not_go_together_are_refused() {
    assert_eq!(
        fault::<EspSuite>("aes256"),
        r#""aes256": a hash is missing, such as "aes256-sha256""#
    );
    assert!(fault::<EspSuite>("null").contains("null protects nothing"));
    assert!(fault::<EspSuite>("aes128gcm16-sha256").contains("its own integrity"));
    assert!(fault::<EspSuite>("3des-esn").contains("esn needs integrity"));
    assert!(fault::<EspSuite>("sha256").contains("a cipher is missing"));
    assert!(fault::<IkeSuite>("aes128-sha256").contains("a group is missing"));
    assert!(EspSuite::parse_ah("aes128-sha256").is_err());
    assert!(EspSuite::parse_ah("modp2048").is_err());
    assert!(EspSuite::parse_esp("ah-sha256").is_err());
}

#[test]
fn legacy_is_des_3des_md5_short_groups_and_no_integrity() {
    for (text, reasons) in [
        ("aes128gcm16-modp2048", 0),
        ("null-sha256", 0),
        ("ah-sha1", 0),
        ("chacha20poly1305", 0),
        ("aes128gcm16-curve25519", 0),
        ("des", 2),
        ("3des-sha1", 1),
        ("3des-md5-modp1024", 3),
        ("null-md5", 1),
        ("ah-md5", 1),
        ("aes128-sha256-modp1536", 1),
    ] {
        let suite: EspSuite = text.parse().unwrap();
        assert_eq!(suite.legacy_reasons().len(), reasons, "{text}");
        assert_eq!(suite.standing() == Standing::Legacy, reasons > 0);
    }
    let ike: IkeSuite = "des-md5-modp768".parse().unwrap();
    assert_eq!(ike.legacy_reasons().len(), 3);
    let ike: IkeSuite = "3des-sha1-modp2048".parse().unwrap();
    let reason = "3DES in the exchange: no more than MAY, RFC 8247 §2.1";
    let [found] = ike.legacy_reasons()[..] else {
        panic!("one reason");
    };
    assert_eq!(found.to_string(), reason);
    assert!(!found.is_forbidden());
    let ike: IkeSuite = "aes128-md5-modp1024".parse().unwrap();
    let forbidden: Vec<bool> = ike
        .legacy_reasons()
        .iter()
        .map(Reason::is_forbidden)
        .collect();
    assert_eq!(forbidden, [true, false]);
    let ike: IkeSuite = "aes128-sha1-modp2048".parse().unwrap();
    assert_eq!(ike.standing(), Standing::Current);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        let _ = text.parse::<IkeSuite>();
        let _ = text.parse::<EspSuite>();
    }

    #[test]
    fn what_is_read_prints_as_something_equal(words in proptest::collection::vec(word(), 1..6)) {
        let text = words.join("-");
        if let Ok(suite) = text.parse::<EspSuite>() {
            prop_assert_eq!(suite.to_string().parse::<EspSuite>(), Ok(suite));
        }
        if let Ok(suite) = text.parse::<IkeSuite>() {
            prop_assert_eq!(suite.to_string().parse::<IkeSuite>(), Ok(suite));
        }
    }
}

fn word() -> impl Strategy<Value = &'static str> {
    let tables = words::ESP.iter().flat_map(|table| table.iter());
    let all: Vec<_> = tables.map(|(name, _)| *name).chain(["ah"]).collect();
    proptest::sample::select(all)
}
