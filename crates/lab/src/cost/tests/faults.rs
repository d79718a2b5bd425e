//! Files that are wrong: file, line and key are named.

use proptest::prelude::*;

use super::*;

const GOOD: &str = r#"kind = "cycles"
name = "core"
title = "a core"
clock_mhz = { value = 100, source = "a data sheet" }

[per_byte]
aes128-cbc = { value = 2.0, source = "a table" }
sha1-seal = { value = 3.0, source = "a table" }
"#;

fn fault(text: &str) -> String {
    Profile::parse("core.toml", text)
        .expect_err("a fault")
        .to_string()
}

#[test]
fn values_that_nothing_has_are_refused_where_they_stand() {
    assert!(Profile::parse("core.toml", GOOD).is_ok());
    for absurd in ["0", "-2.0", "nan", "inf", "1e300"] {
        let text = fault(&GOOD.replace("2.0", absurd));
        assert!(
            text.starts_with("core.toml:7:16: per_byte.aes128-cbc.value: "),
            "{text}"
        );
    }
    let text = fault(&GOOD.replace("value = 100,", "value = 1e9,"));
    assert!(text.starts_with("core.toml:4:1: clock_mhz: "), "{text}");
}

#[test]
fn a_number_without_a_source_is_refused() {
    let text = fault(&GOOD.replace(r#", source = "a data sheet""#, ""));
    assert_eq!(
        text,
        "core.toml:4:1: clock_mhz: the key 'source' is missing"
    );
    let text = fault(&GOOD.replace("a data sheet", " "));
    assert!(
        text.starts_with("core.toml:4:28: clock_mhz.source: this text is empty"),
        "{text}"
    );
}

#[test]
fn an_unknown_key_names_the_nearest_one() {
    let text = fault(&GOOD.replace("clock_mhz", "clock_mzh"));
    assert_eq!(
        text,
        "core.toml:4:1: clock_mzh: unknown key 'clock_mzh', the nearest valid one is 'clock_mhz'"
    );
    let text = fault(&GOOD.replace("aes128-cbc", "aes128-cbv"));
    assert!(
        text.contains("per_byte.aes128-cbv") && text.contains("'aes128-cbc'"),
        "{text}"
    );
    let text = fault(&GOOD.replace("[per_byte]", "[per_operation]"));
    assert!(text.contains("unknown operation"), "{text}");
    let text = fault(&GOOD.replace("\"cycles\"", "\"cycle\""));
    assert!(text.contains("the nearest valid one is 'cycles'"), "{text}");
}

#[test]
fn what_is_missing_or_contradicts_is_named() {
    let text = fault(&GOOD.replace("kind = \"cycles\"\n", ""));
    assert!(text.contains("the key 'kind' is missing"), "{text}");
    let text = fault(&GOOD.replace("title = \"a core\"\n", ""));
    assert!(text.contains("the key 'title' is missing"), "{text}");
    let text = fault(&GOOD.replace("sha1-seal", "aes128-cbc-seal"));
    assert!(
        text.starts_with("core.toml:8:1: per_byte.aes128-cbc-seal: both directions"),
        "{text}"
    );
    assert!(fault(&GOOD.replace("\"core\"", "\"\"")).contains("core.toml:2:1: name"));
    assert!(fault("name = ").starts_with("core.toml:1:8: "));
    assert!(
        fault(&GOOD.replace("2.0", "\"two\""))
            .starts_with("core.toml:7:16: per_byte.aes128-cbc.value: ")
    );
}

#[test]
fn operations_are_checked_as_well() {
    let good = include_str!("../../../../../python/caravan/catalogue/devices/paper-u.toml");
    let refused = |from: &str, to: &str| fault(&good.replacen(from, to, 1));
    assert!(refused("block_bytes = 8", "block_bytes = 0").contains("cipher.des.block_bytes"));
    assert!(refused("added_bytes = 8", "added_bytes = -8").contains("mac.md5.added_bytes"));
    assert!(refused("2697", "-1").contains("cipher.des.encrypt"));
    assert!(refused("[cipher.des]", "[cipher.dse]").contains("'des'"));
    assert!(refused("accounting = \"paper-u\"", "accounting = \"u\"").contains("accounting"));
}

#[test]
fn a_policy_is_checked_where_it_stands() {
    let good = include_str!("../../../../../python/caravan/catalogue/policies/3des-md5.toml");
    let refused = |from: &str, to: &str| {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good);
        Policy::parse("p.toml", &text)
            .expect_err("a fault")
            .to_string()
    };
    assert!(refused("\"3des-md5-modp1024\"", "\"3dse-md5\"").starts_with("p.toml:5:1: suite: "));
    assert!(refused("mode =", "mood =").contains("'mode'"));
    assert!(refused("\"transport\"", "\"tunel\"").contains("p.toml:6:1: mode: "));
    assert!(
        refused("udp = true", "udp = true\nouter = 5")
            .contains("p.toml:8:1: outer: must be 4 or 6, found 5")
    );
    assert!(refused("\"3des-md5-modp1024\"", "\"none\"").contains("keys"));
    let at = refused("proposal = \"3des-md5-modp1024\"", "proposal = \"3des\"");
    assert!(at.starts_with("p.toml:11:1: keys.proposal: "), "{at}");
}

proptest! {
    /// Any typing error in a file is an error of that file or no error, never a panic.
    #[test]
    fn no_text_is_too_strange(at in 0_usize..400, slip in "[\\PC\\n]{0,6}", cut in 0_usize..40) {
        let paper = include_str!("../../../../../python/caravan/catalogue/devices/paper-u.toml");
        let bench = super::measured::BENCH;
        let policy = include_str!("../../../../../python/caravan/catalogue/policies/3des-md5.toml");
        for good in [GOOD, paper, bench, policy] {
            let at = at.min(good.len());
            let end = (at + cut).min(good.len());
            let text = format!("{}{slip}{}", &good[..at], &good[end..]);
            for fault in [Profile::parse("p", &text).err(), Policy::parse("p", &text).err()] {
                let lines = text.split('\n').count();
                let line = fault.and_then(|fault| fault.place.line);
                prop_assert!(line.is_none_or(|line| (1..=lines).contains(&line)));
            }
        }
    }
}
