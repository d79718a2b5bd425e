//! Lost, repeated, truncated, changed, reflected and forged messages.

use proptest::prelude::*;
use wire::isakmp::{Exchange, Flags, Header, Payload, PayloadKind, payloads, write_payloads};

use super::pair::{Pair, Setup};
use crate::counters::DropReason;
use crate::ike::Sent;
use crate::ike::retransmit::ANSWERS_TO_DUPLICATES;
use crate::ikev1::phase1::{GRACE, MAX_DOUBTS};
use crate::quotas::Quotas;
use crate::time::Duration;
use crate::work::Task;

const BOTH: [bool; 2] = [false, true];

fn setup(is_aggressive: bool) -> Setup {
    Setup {
        is_aggressive,
        suites: "aes128-sha1-modp768",
        ..Setup::default()
    }
}

/// An unencrypted message with each payload changed.
fn rewritten(sent: &Sent, change: impl Fn(Payload) -> Payload) -> Sent {
    let (header, body) = Header::parse(&sent.message).unwrap();
    let located = payloads(header.next_payload, body).unwrap();
    let chain: Vec<Payload> = located.into_iter().map(|l| change(l.payload)).collect();
    Sent {
        message: header.write(&write_payloads(&chain).1),
        ..sent.clone()
    }
}

/// A quick mode message that the responder cannot read yet.
pub(super) fn stray_quick_mode(pair: &mut Pair) {
    let header = Header {
        cookies: pair.i.sa.as_ref().unwrap().0.cookies,
        next_payload: PayloadKind::Hash,
        exchange: Exchange::QuickMode,
        flags: Flags::ENCRYPTION,
        message_id: 99,
    };
    let path = pair.seen(true, pair.i.sa.as_ref().unwrap().0.path);
    pair.responder_gets(path, &header.write(&[0; 64]));
}

#[test]
fn a_peer_that_has_had_too_much_has_its_signature_checked_once_a_second_and_is_served_later() {
    for is_aggressive in BOTH {
        let setup = Setup {
            has_certificates: true,
            ..setup(is_aggressive)
        };
        let mut quotas = Quotas::default();
        let mut pair = setup.pair();
        pair.run();
        let peer = pair.r.sa.as_ref().unwrap().0.identity.clone();
        while quotas.take_exchange(&peer, 1, pair.now).is_ok() {}
        let mut pair = setup.pair();
        pair.quotas = Some(quotas);
        let mut last = None;
        while let Some((to_responder, sent)) = pair.next() {
            pair.deliver(to_responder, &sent);
            last = Some(sent).filter(|_| to_responder).or(last);
        }
        let checked = |pair: &Pair| {
            let done = pair.r.out.work.entries().iter();
            let checks = done.filter(|(task, ..)| matches!(task, Task::Verify(_)));
            checks.map(|(_, times, _)| times).sum::<u64>()
        };
        let (last, before) = (last.unwrap(), checked(&pair));
        assert!(pair.r.sa.is_none() && before > 0);
        for _ in 0..100 {
            pair.deliver(true, &last);
        }
        assert_eq!(checked(&pair), before);
        assert_eq!(pair.r.out.drops.of(DropReason::OverQuota), 101);
        pair.now = pair.now + Duration::from_secs(1);
        pair.deliver(true, &last);
        pair.deliver(true, &last);
        assert_eq!(checked(&pair), 2 * before);
        pair.now = pair.now + Duration::from_secs(3);
        pair.deliver(true, &last);
        assert!(pair.r.sa.is_some());
    }
}

#[test]
fn each_message_lost_once_is_sent_again() {
    for is_aggressive in BOTH {
        let count = if is_aggressive { 2 } else { 6 };
        for lost in 0..count {
            let mut pair = setup(is_aggressive).pair();
            let mut number = 0;
            for _ in 0..40 {
                while let Some((to_responder, sent)) = pair.next() {
                    if number != lost {
                        pair.deliver(to_responder, &sent);
                    }
                    number += 1;
                }
                if pair.is_established() || !pair.wait() {
                    break;
                }
            }
            pair.assert_established();
        }
    }
}

#[test]
fn a_lost_third_aggressive_message_comes_again_when_quick_mode_begins() {
    let mut pair = setup(true).pair();
    for _ in 0..2 {
        let (to_responder, sent) = pair.next().unwrap();
        pair.deliver(to_responder, &sent);
    }
    // aggressive 3 -->  lost
    pair.next().unwrap();
    assert!(pair.i.sa.is_some() && pair.r.sa.is_none());
    // quick 1 -->, <-- aggressive 2, aggressive 3 -->
    stray_quick_mode(&mut pair);
    pair.run();
    pair.assert_established();
    // The answers to strays are bounded, too.
    let mut pair = setup(true).pair();
    for _ in 0..2 {
        let (to_responder, sent) = pair.next().unwrap();
        pair.deliver(to_responder, &sent);
    }
    (0..1000).for_each(|_| stray_quick_mode(&mut pair));
    assert_eq!(pair.r.log.len(), 1 + ANSWERS_TO_DUPLICATES as usize);
}

#[test]
fn duplicates_do_no_harm_and_are_counted() {
    for is_aggressive in BOTH {
        let mut pair = setup(is_aggressive).pair();
        for _ in 0..40 {
            let Some((to_responder, sent)) = pair.next() else {
                break;
            };
            pair.deliver(to_responder, &sent);
            pair.deliver(to_responder, &sent);
        }
        pair.assert_established();
        let drops = |out: &crate::ike::Outbox| out.drops.of(DropReason::RetransmittedMessage);
        assert!(drops(&pair.i.out) > 0 && drops(&pair.r.out) > 0);
    }
}

#[test]
fn one_first_message_repeated_is_answered_a_bounded_number_of_times() {
    for is_aggressive in BOTH {
        let mut pair = setup(is_aggressive).pair();
        let (_, first) = pair.next().unwrap();
        (0..1000).for_each(|_| pair.deliver(true, &first));
        assert_eq!(pair.r.log.len(), 1 + ANSWERS_TO_DUPLICATES as usize);
        assert!(pair.r.log.iter().all(|sent| *sent == pair.r.log[0]));
    }
}

#[test]
fn messages_cut_at_every_length_are_dropped() {
    for is_aggressive in BOTH {
        let mut pair = setup(is_aggressive).pair();
        while let Some((to_responder, sent)) = pair.next() {
            for len in 0..sent.message.len() {
                let mut cut = sent.clone();
                cut.message.truncate(len);
                pair.deliver(to_responder, &cut);
                // With a matching length field.
                if len >= 28 {
                    cut.message[24..28].copy_from_slice(&(len as u32).to_be_bytes());
                    pair.deliver(to_responder, &cut);
                }
            }
            pair.deliver(to_responder, &sent);
        }
        assert!(pair.i.fault.is_none(), "{:?}", pair.i.fault);
        pair.assert_established();
    }
}

#[test]
fn reflected_messages_are_dropped() {
    for is_aggressive in BOTH {
        let mut pair = setup(is_aggressive).pair();
        while let Some((to_responder, sent)) = pair.next() {
            // Back to its sender, as if from the peer.
            let path = sent.path;
            if to_responder {
                pair.initiator_gets(path, &sent.message);
            } else {
                pair.responder_gets(path, &sent.message);
            }
            pair.deliver(to_responder, &sent);
        }
        pair.assert_established();
        let reflected = [&pair.i, &pair.r].map(|end| end.out.drops.of(DropReason::Reflected));
        assert!(reflected[0] + reflected[1] > 0);
    }
}

#[test]
fn a_forged_second_aggressive_message_does_not_end_the_exchange() {
    let mut pair = setup(true).pair();
    let (_, first) = pair.next().unwrap();
    pair.deliver(true, &first);
    let (_, second) = pair.next().unwrap();
    // aggressive 2, HASH_R wrong <--
    let forged = rewritten(&second, |payload| match payload {
        Payload::Hash(hash) => Payload::Hash(vec![0; hash.len()]),
        other => other,
    });
    pair.deliver(false, &forged);
    assert_eq!(pair.i.out.drops.of(DropReason::AuthenticationFailed), 1);
    // aggressive 2 <--
    pair.deliver(false, &second);
    pair.run();
    pair.assert_established();
}

#[test]
fn forged_second_aggressive_messages_cost_a_bounded_number_of_shared_values() {
    let mut pair = setup(true).pair();
    let (_, first) = pair.next().unwrap();
    pair.deliver(true, &first);
    let (_, second) = pair.next().unwrap();
    for n in 0..200 {
        // aggressive 2, another nonce each time <--
        let forged = rewritten(&second, |payload| match payload {
            Payload::Nonce(nonce) => Payload::Nonce(vec![n; nonce.len()]),
            other => other,
        });
        pair.deliver(false, &forged);
    }
    let agreed = Task::Agree(crypto::dh::Group::Modp768);
    let entries = pair.i.out.work.entries();
    let times = entries.iter().find(|entry| entry.0 == agreed).unwrap().1;
    assert_eq!(times, u64::from(MAX_DOUBTS));
}

#[test]
fn a_public_value_that_is_none_is_refused_before_it_costs_anything() {
    let prime = crypto::dh::Group::Modp768.prime().expect("a prime");
    let last = |octet: u8| [&[0; 95][..], &[octet]].concat();
    let below = |by: u8| [&prime[..95], &[prime[95] - by]].concat();
    let values = [
        last(0),
        last(1),
        below(1),
        below(0),
        vec![0xff; 96],
        vec![2; 95],
        vec![9; 32],
    ];
    assert_refused_at_no_cost("aes128-sha1-modp768", &values);
    // On Curve25519: 0, 1, p - 1, p and p + 1, once with the ignored bit, and wrong lengths.
    let near_p = |first: u8, last: u8| [&[first][..], &[0xff; 30], &[last]].concat();
    let values = [
        vec![0; 32],
        [&[1][..], &[0; 30], &[0x80]].concat(),
        near_p(0xec, 0x7f),
        near_p(0xed, 0xff),
        near_p(0xee, 0x7f),
        vec![9; 31],
        vec![9; 33],
        vec![2; 96],
    ];
    assert_refused_at_no_cost("aes128-sha1-curve25519", &values);
}

fn assert_refused_at_no_cost(suites: &'static str, values: &[Vec<u8>]) {
    for is_aggressive in BOTH {
        for value in values {
            let setup = Setup {
                suites,
                ..setup(is_aggressive)
            };
            let mut pair = setup.pair();
            let mut forged = 0;
            while let Some((to_responder, sent)) = pair.next() {
                let is_clear = !Header::parse(&sent.message).unwrap().0.flags.is_encrypted();
                // An aggressive responder keeps no state of a first message that it refuses.
                let is_first = is_aggressive && forged == 0;
                if is_clear && !is_first {
                    let bad = rewritten(&sent, |payload| match payload {
                        Payload::KeyExchange(_) => Payload::KeyExchange(value.clone()),
                        other => other,
                    });
                    let end = if to_responder { &pair.r } else { &pair.i };
                    let before = end.out.drops.of(DropReason::BadPublicValue);
                    let work = end.out.work.entries().len();
                    if bad.message != sent.message {
                        pair.deliver(to_responder, &bad);
                        let end = if to_responder { &pair.r } else { &pair.i };
                        let after = end.out.drops.of(DropReason::BadPublicValue);
                        assert_eq!(after, before + 1, "{value:?}");
                        assert_eq!(end.out.work.entries().len(), work);
                    }
                }
                forged += 1;
                pair.deliver(to_responder, &sent);
            }
            pair.assert_established();
        }
    }
}

#[test]
fn our_own_public_value_nonce_and_cookie_are_not_the_peer_s() {
    for is_aggressive in BOTH {
        let mut pair = setup(is_aggressive).pair();
        let mut own = Vec::new();
        let mut tried = 0;
        while let Some((to_responder, sent)) = pair.next() {
            let (header, body) = Header::parse(&sent.message).unwrap();
            if header.flags.is_encrypted() {
                pair.deliver(to_responder, &sent);
                continue;
            }
            let chain = payloads(header.next_payload, body).unwrap();
            let is_half =
                |payload: &Payload| matches!(payload, Payload::KeyExchange(_) | Payload::Nonce(_));
            if to_responder {
                own.extend(chain.into_iter().map(|l| l.payload).filter(is_half));
                pair.deliver(to_responder, &sent);
                continue;
            }
            for back in own.clone() {
                let mirrored = rewritten(&sent, |payload| match payload.kind() == back.kind() {
                    true => back.clone(),
                    false => payload,
                });
                tried += usize::from(mirrored.message != sent.message);
                pair.deliver(false, &mirrored);
            }
            let mut mirrored = sent.clone();
            let (initiator, responder) = mirrored.message[..16].split_at_mut(8);
            responder.copy_from_slice(initiator);
            tried += 1;
            pair.deliver(false, &mirrored);
            pair.deliver(false, &sent);
        }
        let dropped = pair.i.out.drops.of(DropReason::Reflected);
        let cookies = pair.i.out.drops.of(DropReason::UnknownCookies);
        assert_eq!(dropped + cookies, tried as u64);
        assert!(tried >= 3 && dropped >= 3, "{tried} {dropped}");
        pair.assert_established();
    }
}

#[test]
fn a_choice_that_was_not_offered_is_a_doubt_and_its_sentence_ends_the_exchange() {
    let mut pair = setup(false).pair();
    let (_, first) = pair.next().unwrap();
    pair.deliver(true, &first);
    let (_, second) = pair.next().unwrap();
    // main 2, everything as offered except hash 1 (MD5) <--
    let forged = rewritten(&second, |payload| match payload {
        Payload::Sa(mut sa) => {
            let attributes = &mut sa.proposals[0].transforms[0].attributes;
            let hash = attributes.iter_mut().find(|a| a.kind == 2).unwrap();
            hash.value = wire::isakmp::AttributeValue::Short(1);
            Payload::Sa(sa)
        }
        other => other,
    });
    pair.deliver(false, &forged);
    while pair.i.fault.is_none() && pair.wait() {
        pair.i.sent.clear();
        pair.r.sent.clear();
    }
    assert_eq!(pair.now.since(crate::time::Instant(0)), GRACE);
    assert_eq!(
        pair.i.sentence(),
        "no proposal in common: the peer offers aes128-md5-modp768; we accept aes128-sha1-modp768"
    );
}

#[test]
fn what_an_offer_leaves_out_and_all_that_a_gateway_accepts_are_named() {
    let refused = |kept: &[u16], method: u16| {
        let by_certificate = Setup {
            has_certificates: true,
            ..setup(false)
        };
        let gateways = vec![setup(false).gateway(), by_certificate.gateway()];
        let mut pair = Pair::new(setup(false).station(), gateways, false);
        let (_, first) = pair.next().unwrap();
        // Encryption 1, hash 2, authentication 3, group 4.
        let offer = rewritten(&first, |payload| match payload {
            Payload::Sa(mut sa) => {
                let attributes = &mut sa.proposals[0].transforms[0].attributes;
                attributes.retain(|it| !matches!(it.kind, 1 | 2) || kept.contains(&it.kind));
                let method = wire::isakmp::AttributeValue::Short(method);
                let mut by = attributes.iter_mut().filter(|it| it.kind == 3);
                by.next().unwrap().value = method;
                Payload::Sa(sa)
            }
            other => other,
        });
        pair.deliver(true, &offer);
        pair.r.sentence()
    };
    assert_eq!(
        refused(&[], 1),
        "no proposal in common: the peer offers modp768 without cipher and hash; we accept \
         aes128-sha1-modp768"
    );
    assert_eq!(
        refused(&[1, 2], 65_005),
        "the peer wants XAUTH, a user's name and password, which we do not speak: it offers RSA \
         signatures with XAUTH; we accept a pre-shared key, RSA signatures"
    );
    assert_eq!(
        refused(&[1, 2], 2),
        "no authentication method in common: the peer offers DSS signatures; we accept a \
         pre-shared key, RSA signatures"
    );
}

#[test]
fn a_forged_refusal_does_not_end_the_exchange() {
    for is_aggressive in BOTH {
        let mut pair = setup(is_aggressive).pair();
        let (_, first) = pair.next().unwrap();
        // informational NO-PROPOSAL-CHOSEN, unencrypted <--
        let notify = Payload::Notify(wire::isakmp::Notify {
            protocol: wire::isakmp::ProtocolId::Isakmp,
            spi: Vec::new(),
            kind: wire::isakmp::NotifyType::NoProposalChosen,
            value: Vec::new(),
        });
        let (header, _) = Header::parse(&first.message).unwrap();
        let (next_payload, body) = write_payloads(&[notify]);
        let header = Header {
            next_payload,
            exchange: Exchange::Informational,
            message_id: 5,
            ..header
        };
        pair.initiator_gets(first.path, &header.write(&body));
        assert!(
            pair.i.phase1.as_ref().unwrap().deadline().unwrap().at.0 <= GRACE.as_nanos() as u64
        );
        pair.deliver(true, &first);
        pair.run();
        pair.assert_established();
    }
}

#[test]
fn garbage_in_place_of_sealed_messages_is_dropped() {
    for is_aggressive in BOTH {
        let mut pair = setup(is_aggressive).pair();
        while let Some((to_responder, sent)) = pair.next() {
            let (header, body) = Header::parse(&sent.message).unwrap();
            if header.flags.is_encrypted() {
                let mut forged = sent.clone();
                forged.message = header.write(&vec![0x5a; body.len()]);
                pair.deliver(to_responder, &forged);
            }
            pair.deliver(to_responder, &sent);
        }
        pair.assert_established();
    }
}

#[test]
fn an_unsealed_third_aggressive_message_is_accepted() {
    let mut pair = setup(true).pair();
    for _ in 0..2 {
        let (to_responder, sent) = pair.next().unwrap();
        pair.deliver(to_responder, &sent);
    }
    let (_, third) = pair.next().unwrap();
    let mut opened = None;
    if let crate::ikev1::awaited::Awaited::Aggressive3(session) =
        &pair.r.phase1.as_ref().unwrap().step
    {
        let key = &session.keys.cipher_key.0;
        let cipher = crypto::cipher::Cipher::Aes128;
        let work = &mut crate::work::Work::default();
        let message = crate::ikev1::message::Message::parse(&third.message).unwrap();
        opened = crate::ikev1::protect::decrypt(cipher, key, &message, &session.iv, work).ok();
    }
    let opened = opened.unwrap();
    let end = opened.payloads.last().unwrap().range.end;
    let header = Header {
        flags: Flags::default(),
        ..opened.header
    };
    let mut clear = third.clone();
    clear.message = header.write(&opened.body[..end]);
    pair.deliver(true, &clear);
    let (r, _) = pair.r.sa.as_ref().unwrap();
    // RFC 2409 appendix B: there is no ciphertext block yet, so the hash of the public values is
    // used.
    assert_ne!(r.last_iv, pair.i.sa.as_ref().unwrap().0.last_iv);
    assert!(!r.is_initial_contact, "not protected, not believed");
}

#[test]
fn unknown_payloads_and_vendors_and_the_commit_bit_are_passed_over() {
    for is_aggressive in BOTH {
        let mut pair = setup(is_aggressive).pair();
        let (_, mut first) = pair.next().unwrap();
        let (mut header, body) = Header::parse(&first.message).unwrap();
        let located = payloads(header.next_payload, body).unwrap();
        let mut chain: Vec<Payload> = located.into_iter().map(|l| l.payload).collect();
        // draft-ietf-ipsec-nat-t-ike-02, and an unknown one.
        chain.push(Payload::VendorId(vec![0x90; 16]));
        chain.push(Payload::Other {
            kind: 200,
            body: vec![1, 2, 3],
        });
        header.flags = Flags::COMMIT;
        first.message = header.write(&write_payloads(&chain).1);
        pair.deliver(true, &first);
        pair.run();
        pair.assert_established();
    }
}

#[test]
fn a_peer_without_nat_traversal_is_served() {
    for is_aggressive in BOTH {
        let mut pair = Setup {
            is_natted: true,
            ..setup(is_aggressive)
        }
        .pair();
        let (_, mut first) = pair.next().unwrap();
        let (header, body) = Header::parse(&first.message).unwrap();
        let located = payloads(header.next_payload, body).unwrap();
        let chain: Vec<Payload> = located
            .into_iter()
            .map(|l| l.payload)
            .filter(|payload| !matches!(payload, Payload::VendorId(_)))
            .collect();
        first.message = header.write(&write_payloads(&chain).1);
        pair.deliver(true, &first);
        while let Some((to_responder, sent)) = pair.next() {
            assert!(!sent.payloads.contains("NAT-D") || to_responder);
            pair.deliver(to_responder, &sent);
        }
        let (r, _) = pair.r.sa.as_ref().unwrap();
        assert!(!r.nat.is_supported && !r.peer.dpd && !r.peer.fragmentation);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_octets_never_panic(
        octets in prop::collection::vec(any::<u8>(), 0..200),
        is_aggressive: bool,
    ) {
        let mut pair = setup(is_aggressive).pair();
        let (_, first) = pair.next().unwrap();
        // The fixed header of a real message before the random body.
        let mut message = first.message[..28].to_vec();
        message.extend(&octets);
        let len = message.len() as u32;
        message[24..28].copy_from_slice(&len.to_be_bytes());
        let path = pair.seen(true, first.path);
        pair.responder_gets(path, &octets);
        pair.responder_gets(path, &message);
        pair.initiator_gets(first.path, &octets);
        pair.initiator_gets(first.path, &message);
    }

    #[test]
    fn a_flipped_bit_never_gives_different_keys(
        which in 0usize..6,
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
        is_aggressive: bool,
    ) {
        let mut pair = setup(is_aggressive).pair();
        let mut number = 0;
        while let Some((to_responder, sent)) = pair.next() {
            if number == which {
                let mut flipped = sent.clone();
                let at = at.index(flipped.message.len());
                flipped.message[at] ^= 1 << bit;
                pair.deliver(to_responder, &flipped);
            } else {
                pair.deliver(to_responder, &sent);
            }
            number += 1;
        }
        if let (Some((i, _)), Some((r, _))) = (&pair.i.sa, &pair.r.sa) {
            prop_assert!(i.skeyid_d.0 == r.skeyid_d.0);
            prop_assert!(i.cipher_key.0 == r.cipher_key.0);
            prop_assert_eq!(i.suite, r.suite);
        }
    }
}
