use super::*;
use crate::config::IdentityPattern;
use crate::identity::Identity;

fn peer(name: &str, pattern: &str) -> Peer {
    let claimed = Identity::Fqdn(name.into());
    let pattern = IdentityPattern::parse(pattern).expect("a pattern");
    Peer::of_preshared_key("road", &claimed, &[pattern])
}

fn at(seconds: u64) -> Instant {
    Instant(1) + Duration::from_secs(seconds)
}

fn exchanges(quotas: &mut Quotas, peer: &Peer, tries: usize, now: Instant) -> usize {
    tries - excesses(quotas, peer, tries, now).len()
}

fn excesses(quotas: &mut Quotas, peer: &Peer, tries: usize, now: Instant) -> Vec<Excess> {
    let taken = (0..tries).filter_map(|_| quotas.take_exchange(peer, 1_000, now).err());
    taken.collect()
}

#[test]
fn a_peer_has_a_burst_then_so_much_a_second_and_is_told_of_once_a_minute() {
    let mut quotas = Quotas::default();
    let (a, b) = (
        peer("a.example", "a.example"),
        peer("b.example", "b.example"),
    );
    let own = "a.example is over its quota of 60 key exchanges at once, then one every 3 s: \
               requests above it get no answer";
    for (seconds, served, is_told) in [(0, 60, true), (30, 10, false), (90, 20, true)] {
        let refused = excesses(&mut quotas, &a, 100, at(seconds));
        assert_eq!(refused.len(), 100 - served);
        let reason = DropReason::OverQuota;
        let line = is_told.then(|| own.to_owned());
        assert_eq!(refused[0], Excess { reason, line });
        let line = None;
        assert!(refused[1..].iter().all(|it| *it
            == Excess {
                reason,
                line: line.clone()
            }));
    }
    assert_eq!(
        exchanges(&mut quotas, &b, 100, at(0)),
        60,
        "another one's is its own"
    );
    assert_eq!(exchanges(&mut quotas, &a, 100, at(9_000)), 60);
    let children = (0..1_000).filter(|_| quotas.take_child(&a, 1_000, at(0)).is_ok());
    assert_eq!(children.count(), 256);
}

#[test]
fn lines_that_are_left_out_are_counted_for_whom_they_are_of() {
    let mut quotas = Quotas::default();
    let a = peer("a.example", "a.example");
    let written = (0..300).filter(|_| quotas.take_line(&a, at(0))).count();
    assert_eq!(written, 200);
    assert_eq!(quotas.left_out(), [("a.example of road".to_owned(), 100)]);
    assert!(quotas.left_out().is_empty());
}

#[test]
fn holders_of_one_key_have_a_common_bound_whatever_they_call_themselves() {
    let mut quotas = Quotas::default();
    let refused: Vec<Excess> = (0..10_000u32)
        .filter_map(|n| {
            let guest = peer(&format!("{n}.example"), "*");
            quotas.take_exchange(&guest, 100, at(0)).err()
        })
        .collect();
    assert_eq!(refused.len(), 10_000 - 100);
    let mut said = refused.iter().filter_map(|it| it.line.as_deref());
    let common = "100.example and the others with its key or server are over their quota of 100 \
                  key exchanges at once, then one every 0.1 s: requests above it get no answer";
    assert_eq!(said.next(), Some(common));
    assert_eq!(said.next(), None);
    let guest = peer("more.example", "*.example");
    assert!(quotas.take_exchange(&guest, 100, at(0)).is_err());
    assert!(quotas.take_exchange(&guest, 100, at(1)).is_ok());
    let staff = peer("staff.example", "staff.example");
    assert_eq!(exchanges(&mut quotas, &staff, 100, at(0)), 60);
}

#[test]
fn a_full_house_takes_those_who_are_there_and_the_next_when_one_leaves() {
    let mut quotas = Quotas::default();
    let guest = |n: u32| peer(&format!("{n}.example"), "*");
    for n in 0..3 {
        assert_eq!(quotas.take_exchange(&guest(n), 3, at(0)), Ok(()));
        quotas.enter(&guest(n));
    }
    let refused = |quotas: &mut Quotas| {
        let excess = quotas.take_exchange(&guest(3), 3, at(0)).err();
        let excess = excess.expect("a refusal");
        assert_eq!(excess.reason, DropReason::TooManySessions);
        excess.line
    };
    let line = refused(&mut quotas);
    assert!(line.is_some_and(|it| it.contains("max_peers")));
    assert_eq!(
        quotas.take_exchange(&guest(2), 3, at(0)),
        Ok(()),
        "it renews"
    );
    quotas.enter(&guest(2));
    quotas.leave(&guest(2));
    assert_eq!(refused(&mut quotas), None);
    quotas.leave(&guest(2));
    assert_eq!(quotas.take_exchange(&guest(3), 3, at(0)), Ok(()));
}

#[test]
fn those_whose_buckets_are_full_again_are_forgotten_and_never_more_are_kept_than_fit() {
    let mut quotas = Quotas::default();
    for n in 0..WATCHED_MAX as u64 + 100 {
        let name = format!("{n}.example");
        assert!(
            quotas
                .take_exchange(&peer(&name, &name), 1_000, at(n))
                .is_ok()
        );
        assert!(quotas.watched() <= WATCHED_MAX);
    }
    assert!(quotas.watched() < 200, "{}", quotas.watched());
    for n in 0..2 * WATCHED_MAX {
        let name = format!("x{n}.example");
        assert!(
            quotas
                .take_exchange(&peer(&name, &name), 1_000, at(9_000))
                .is_ok()
        );
        assert!(quotas.watched() <= WATCHED_MAX);
    }
}

#[test]
fn a_password_is_tried_a_few_times_and_then_slowly() {
    let user = Peer::of_user("phones", &Identity::parse("alice").unwrap());
    let other = Peer::of_user("phones", &Identity::parse("bob").unwrap());
    let mut quotas = Quotas::default();
    let from = [192, 0, 2, 7].into();
    let tries = |quotas: &mut Quotas, user, now| {
        let all = 0..1_000;
        all.take_while(|_| quotas.take_password(user, from, now).is_ok())
            .count()
    };
    let now = Instant(0) + Duration::from_secs(1_000);
    assert_eq!(tries(&mut quotas, &user, now), 20);
    assert_eq!(tries(&mut quotas, &other, now), 20);
    assert_eq!(tries(&mut quotas, &user, now + Duration::from_secs(9)), 0);
    assert_eq!(tries(&mut quotas, &user, now + Duration::from_secs(30)), 3);
    // Exchanges are another matter.
    assert!(quotas.take_exchange(&user, 1_000, now).is_ok());
    // Who guesses is stopped, and a user at another address is not.
    let carol = Peer::of_user("phones", &Identity::parse("carol").unwrap());
    let mut guesses = 0;
    while quotas.take_password(&carol, from, now).is_ok() {
        quotas.password_was_wrong(&carol, from, now);
        guesses += 1;
    }
    assert_eq!(guesses, 10);
    let elsewhere = [192, 0, 2, 8].into();
    assert!(quotas.take_password(&carol, elsewhere, now).is_ok());
}

#[test]
fn the_owner_of_a_network_does_not_lock_a_user_out_elsewhere() {
    let alice = Peer::of_user("phones", &Identity::parse("alice").unwrap());
    let sites = [1, 2, 3].map(|n| IpAddr::from([0x2001, 0xdb8, 1, n, 0, 0, 0, 1]));
    let mut quotas = Quotas::default();
    let mut lines = Vec::new();
    for seconds in 0..3_600 {
        for from in sites {
            let tried = quotas.take_password(&alice, from, at(seconds));
            match tried {
                Ok(()) => quotas.password_was_wrong(&alice, from, at(seconds)),
                Err(excess) => lines.extend(excess.line),
            }
        }
    }
    let said = "too many wrong passwords came from the network of 2001:db8:1:";
    assert!(lines.iter().any(|it| it.starts_with(said)), "{lines:?}");
    let elsewhere = [192, 0, 2, 9].into();
    for _ in 0..3 {
        let taken = quotas.take_password(&alice, elsewhere, at(3_600));
        assert_eq!(taken, Ok(()));
    }
}
