mod accounting;
mod cycles;
mod faults;
mod frames;
mod hosts;
mod measured;
mod papers;
mod records;
mod skip;

use super::*;

/// The cost of one packet under a suite.
fn price(
    profile: &Profile,
    suite: &str,
    bytes: f64,
    clock: Option<Clock>,
    direction: Direction,
) -> Result<Price, Refusal> {
    let device = Device::new(profile.clone(), clock)?;
    device.price(&of_suite(profile, suite)?, bytes, direction)
}

/// Texts of the catalogue, by name.
macro_rules! texts {
    ($folder:literal: $($name:literal)*) => {
        &[$((
            $name,
            include_str!(concat!(
                "../../../../python/caravan/catalogue/",
                $folder,
                "/",
                $name,
                ".toml"
            )),
        )),*]
    };
}

const DEVICES: &[(&str, &str)] = texts!("devices":
    "paper-u"
    "paper-w"
    "apple-a7"
    "cortex-a8"
    "cortex-a9"
    "cortex-a15"
    "cortex-a53"
    "cortex-a53-soft"
    "cortex-a57"
    "cortex-a72"
    "cortex-m0plus"
    "cortex-m4"
    "cortex-m4-asm"
    "cortex-m4-hw"
    "cortex-m7"
    "cortex-m33"
    "cortex-m33-hw"
    "cortex-m33-l562"
    "cortex-m33-u585-c"
    "haswell"
    "skylake"
    "pentium-pro-200"
    "r3000-25"
);
const POLICIES: &[(&str, &str)] = texts!("policies":
    "none"
    "null-md5"
    "des"
    "3des"
    "des-md5"
    "3des-md5"
    "md5"
    "sha1"
    "aes128"
    "aes128-md5"
    "aes192"
    "aes256"
    "aes128-sha1"
    "aes128-sha256"
    "aes256-sha512"
    "aes128gcm16"
    "aes256gcm16"
    "chacha20poly1305"
    "null-sha256"
    "skip-des-md5-paper"
    "skip-des-md5-paper-ipv4"
    "skip-rc4-md5-paper"
    "skip-des-md5"
    "skip-3des-sha"
    "skip-x25519"
);

fn device(name: &str) -> Profile {
    let (_, text) = DEVICES
        .iter()
        .find(|(known, _)| *known == name)
        .expect(name);
    let profile = Profile::parse(name, text).expect(name);
    assert_eq!(profile.name, name);
    profile
}

fn policy(name: &str) -> Policy {
    let (_, text) = POLICIES
        .iter()
        .find(|(known, _)| *known == name)
        .expect(name);
    let policy = Policy::parse(name, text).expect(name);
    assert_eq!(policy.name, name);
    policy
}

fn devices() -> Vec<Profile> {
    DEVICES.iter().map(|(name, _)| device(name)).collect()
}

fn policies() -> Vec<Policy> {
    POLICIES.iter().map(|(name, _)| policy(name)).collect()
}

/// A clock rate that is valid for the profile.
fn clock_for(profile: &Profile) -> Option<Clock> {
    match profile.unit() {
        Unit::Operations => Some(Clock::Mips(100.0)),
        Unit::Cycles => Some(Clock::MegaHertz(1000.0)),
        Unit::Nanoseconds => None,
    }
}

#[test]
fn every_profile_names_the_source_of_every_number() {
    for profile in devices() {
        assert!(!profile.entries().is_empty(), "{}", profile.name);
        for entry in profile.entries() {
            assert!(
                entry.value > 0.0 && entry.source.len() > 6,
                "{}",
                entry.name
            );
        }
    }
}

#[test]
fn every_price_rises_with_the_size_and_none_costs_nothing() {
    for profile in devices() {
        let device = Device::new(profile.clone(), clock_for(&profile)).expect("a device");
        for suite in profile.suites() {
            let policy = Policy::of(suite.clone());
            for direction in [Direction::Seal, Direction::Open] {
                let service = device.service(&policy, direction).expect("a cost");
                let size = profile.accounting().size(&policy).expect("a size");
                for bytes in 40..3000 {
                    let (less, more) = (f64::from(bytes), f64::from(bytes + 1));
                    assert!(service.at(more) >= service.at(less) * (1.0 - 1e-12));
                    assert!(size.at(more) >= size.at(less));
                }
                let is_free = service.at(1500.0) == 0.0;
                assert_eq!(is_free, suite.ipsec().is_none(), "{} {suite}", profile.name);
            }
        }
    }
}

#[test]
fn policies_say_how_todays_standards_see_them() {
    for policy in policies() {
        let standing = policy.standing();
        match policy.name.as_str() {
            "none" => assert_eq!(standing, Standing::Clear),
            "aes128-sha1" | "aes128-sha256" | "aes256-sha512" | "aes128gcm16" | "aes256gcm16"
            | "chacha20poly1305" | "null-sha256" | "sha1" | "skip-x25519" => {
                assert_eq!(standing, Standing::Current, "{}", policy.name);
            }
            _ => assert_eq!(standing.word(), "legacy", "{}", policy.name),
        }
        let says_so = standing
            .reasons()
            .iter()
            .any(|why| why.contains("MUST NOT"));
        assert_eq!(standing.is_forbidden(), says_so, "{}", policy.name);
    }
    assert!(policy("des").standing().is_forbidden());
    let advised: Suite = "3des-sha1".parse().unwrap();
    assert!(matches!(advised.standing(), Standing::Legacy(_)));
    assert!(!advised.standing().is_forbidden());
    let Standing::Legacy(reasons) = policy("3des-md5").standing() else {
        panic!("3DES is legacy");
    };
    let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    let once: std::collections::BTreeSet<_> = reasons.iter().collect();
    assert_eq!(once.len(), reasons.len());
    assert!(reasons.iter().any(|reason| reason.contains("RFC 8221")));
    assert!(reasons.iter().any(|reason| reason.contains("RFC 8247")));
    let exchange = reasons
        .iter()
        .filter(|reason| reason.contains("in the exchange"));
    assert!(
        exchange
            .into_iter()
            .all(|reason| !reason.contains("RFC 8221"))
    );
}

#[test]
fn an_exchange_of_ikev1_is_deprecated_whatever_its_algorithms() {
    for policy in policies() {
        let said = policy.keys.and_then(|keys| keys.exchange.deprecated());
        let is_old = policy
            .keys
            .is_some_and(|keys| matches!(keys.proposal, Proposal::V1(_)));
        assert_eq!(said.is_some_and(|said| said.contains("RFC 9395")), is_old);
        // The five papers' policies, and nobody else's.
        let is_papers = policy.title.starts_with("Paper ");
        assert!(
            policy.keys.is_none() || is_old == is_papers,
            "{}",
            policy.name
        );
    }
}

#[test]
fn the_papers_words_name_the_engines_algorithms() {
    for (word, algorithms) in [
        ("md5", "ah-md5"),
        ("sha1", "ah-sha1"),
        ("3DES+MD5", "3des-md5"),
        ("Null+MD5", "null-md5"),
    ] {
        let suite: Suite = word.parse().expect("a suite");
        let named: Suite = algorithms.parse().expect("a suite");
        assert_eq!(suite.ipsec(), named.ipsec());
    }
    for word in PAPER_SUITES {
        assert_eq!(word.parse::<Suite>().expect("a suite").word(), word);
    }
    let unknown = "3dse-md5".parse::<Suite>().expect_err("no suite");
    assert!(unknown.to_string().contains("3des"), "{unknown}");
}
