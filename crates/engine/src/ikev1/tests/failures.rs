//! A failed negotiation says in one sentence what differed.

use super::pair::{Pair, Setup, pattern, preshared};
use crate::config::Connection;
use crate::ikev1::phase1::GRACE;

fn fail(setup: Setup, change: impl FnOnce(&mut Connection, &mut Connection)) -> Pair {
    let (mut station, mut gateway) = (setup.station(), setup.gateway());
    change(&mut station, &mut gateway);
    let mut pair = Pair::new(station, vec![gateway], setup.is_natted);
    pair.settle();
    assert!(pair.i.sa.is_none() || pair.r.sa.is_none());
    pair
}

/// The prefix of an aggressive initiator's reason: the answer is not authenticated.
pub(super) fn doubt_words(is_aggressive: bool) -> &'static str {
    if is_aggressive {
        "the peer's answer does not verify: "
    } else {
        ""
    }
}

/// A responder's log line for a first message with an unknown identity.
fn logged(pair: &Pair) -> String {
    let mut rejections = pair.r.out.rejections.iter();
    rejections.next().expect("a line").why.clone()
}

fn aggressive() -> Setup {
    Setup {
        is_aggressive: true,
        ..Setup::default()
    }
}

#[test]
fn no_proposal_in_common() {
    for is_aggressive in [false, true] {
        let setup = Setup {
            is_aggressive,
            suites: "aes256-sha256-modp1024 3des-sha1-modp1024",
            ..Setup::default()
        };
        let pair = fail(setup, |_, gateway| {
            gateway.proposals = vec!["aes128-sha256-modp2048".parse().unwrap()];
        });
        assert_eq!(
            pair.r.sentence(),
            "no proposal in common: the peer offers aes256-sha256-modp1024, 3des-sha1-modp1024; \
             we accept aes128-sha256-modp2048"
        );
        assert_eq!(
            pair.i.sentence(),
            format!(
                "the peer refused with NO-PROPOSAL-CHOSEN; we offer aes256-sha256-modp1024, \
                 3des-sha1-modp1024 in IKEv1 {} mode",
                if is_aggressive { "aggressive" } else { "main" }
            )
        );
        assert!(pair.now.since(crate::time::Instant(0)) <= GRACE);
    }
}

#[test]
fn another_mode() {
    let pair = fail(aggressive(), |_, gateway| gateway.is_aggressive = false);
    assert_eq!(
        pair.r.sentence(),
        "no mode in common: the peer uses IKEv1 aggressive mode; we accept main mode"
    );
    assert!(
        pair.i
            .sentence()
            .starts_with("the peer refused with NO-PROPOSAL-CHOSEN")
    );
}

/// A firewall may drop the port to which an exchange moves behind a NAT. A gateway that is
/// configured on that port has already answered there.
#[test]
fn a_firewall_is_suspected_only_where_nothing_has_answered_yet() {
    for (port, suspicion) in [
        (500, ", and so does a firewall that drops UDP 4500"),
        (4500, ""),
    ] {
        let setup = Setup {
            is_natted: true,
            ..Setup::default()
        };
        let pair = fail(setup, |station, _| {
            station.remote_addrs[0].set_port(port);
            (station.local.method, station.remote.method) = preshared("wrong");
        });
        let wanted = format!(
            "the peer answers but cannot read our authentication: a wrong PSK looks like \
             this{suspicion} (7 tries)"
        );
        assert_eq!(pair.i.sentence(), wanted);
    }
}

#[test]
fn another_preshared_key_in_main_mode() {
    let pair = fail(Setup::default(), |station, _| {
        (station.local.method, station.remote.method) = preshared("wrong");
    });
    assert_eq!(pair.r.sentence(), "the pre-shared key differs");
    assert_eq!(
        pair.i.sentence(),
        "the peer answers but cannot read our authentication: a wrong PSK looks like this (7 tries)"
    );
}

#[test]
fn another_preshared_key_in_aggressive_mode() {
    let pair = fail(aggressive(), |station, _| {
        (station.local.method, station.remote.method) = preshared("wrong");
    });
    let sentence = "the peer's answer does not verify: the pre-shared key differs; a peer that \
                    does not know us as station@example answers the same way";
    assert_eq!(pair.i.sentence(), sentence);
    let told = pair.i.out.rejections.iter().map(|rejection| &rejection.why);
    assert_eq!(told.collect::<Vec<_>>(), [sentence]);
    assert_eq!(
        pair.r.sentence(),
        "the peer refused with AUTHENTICATION-FAILED in IKEv1 aggressive mode"
    );
}

#[test]
fn an_identity_that_is_not_accepted() {
    for is_aggressive in [false, true] {
        let setup = Setup {
            is_aggressive,
            ..Setup::default()
        };
        let pair = fail(setup, |_, gateway| {
            gateway.remote.identities = vec![pattern("a@example"), pattern("b@example")];
        });
        let truth = "the peer identifies itself as station@example; we accept a@example, b@example";
        let mode = if is_aggressive { "aggressive" } else { "main" };
        let refused = format!("the peer refused with AUTHENTICATION-FAILED in IKEv1 {mode} mode");
        if is_aggressive {
            // With a pre-shared key, nobody learns which identities exist.
            let hidden = "the peer's answer does not verify: the pre-shared key differs; a peer \
                          that does not know us as station@example answers the same way";
            assert_eq!(pair.i.sentence(), hidden);
            assert_eq!(pair.r.sentence(), refused);
            assert_eq!(logged(&pair), truth);
        } else {
            assert_eq!(pair.r.sentence(), truth);
            assert_eq!(pair.i.sentence(), refused);
        }
        let pair = fail(setup, |station, _| {
            station.remote.identities = vec![pattern("other.example")];
        });
        assert_eq!(
            pair.i.sentence(),
            format!(
                "{}the peer identifies itself as gateway.example; we accept other.example",
                doubt_words(is_aggressive)
            )
        );
    }
}

#[test]
fn of_many_identities_that_are_accepted_a_few_are_named() {
    let setup = aggressive();
    let gateways = (0..200).map(|n| {
        let mut gateway = setup.gateway();
        gateway.remote.identities = vec![pattern(&format!("site-{n}.example"))];
        gateway
    });
    let mut pair = Pair::new(setup.station(), gateways.collect(), false);
    pair.settle();
    let sentence = logged(&pair);
    assert!(
        sentence.contains("we accept site-0.example, site-1"),
        "{sentence}"
    );
    assert!(
        sentence.ends_with("site-11.example and 188 more"),
        "{sentence}"
    );
}

#[test]
fn nobody_answers() {
    for is_aggressive in [false, true] {
        let mut pair = Setup {
            is_aggressive,
            ..Setup::default()
        }
        .pair();
        pair.i.sent.clear();
        while pair.wait() {
            pair.i.sent.clear();
        }
        let sentence = pair.i.sentence();
        assert!(
            sentence.starts_with("no reply from 192.0.2.1, UDP 500 ("),
            "{sentence}"
        );
    }
}
