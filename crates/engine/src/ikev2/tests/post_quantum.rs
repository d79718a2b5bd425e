//! Additional key exchanges (RFC 9370) in IKE_INTERMEDIATE (RFC 9242) and in IKE_FOLLOWUP_KE, and
//! what strangers make of them.

use wire::ikev2::{
    Exchange, Flags, Header, KeyExchange, Message as WireMessage, NotifyType, Payload,
    write_payloads,
};

use super::world::{Flight, Proof, Setup, Who, World};
use crate::counters::DropReason;
use crate::ikev2::cookie::Cookies;
use crate::ikev2::seal::covered;
use crate::ikev2::tasks::Awaited;
use crate::ikev2::window::At;
use Who::{Gateway, Station};

const HYBRID: &str = "aes256gcm16-prfsha384-curve25519-ke1_mlkem768";
const CLASSICAL: &str = "aes128gcm16-prfsha256-curve25519";
const BOTH: &str = "aes256gcm16-prfsha384-curve25519-ke1_mlkem768 aes128gcm16-prfsha256-curve25519";

fn setup(station: &'static str, gateway: &'static str) -> Setup {
    Setup {
        station_suites: station,
        gateway_suites: gateway,
        ..Setup::default()
    }
}

fn suite(world: &World) -> String {
    let session = world.gateway.session.as_ref().expect("a session");
    session.suite().expect("established").to_string()
}

#[test]
fn a_hybrid_takes_one_exchange_more() {
    let mut world = setup(HYBRID, HYBRID).world();
    world.run();
    world.assert_agreed(1);
    assert_eq!(suite(&world), HYBRID);
    assert_eq!(world.station.arrows.len(), 3);
    let first = &world.station.arrows[0];
    assert!(
        first.ends_with("N(INTERMEDIATE_EXCHANGE_SUPPORTED)"),
        "{first}"
    );
    // 1184 octets do not fit into what every path carries.
    assert_eq!(world.station.arrows[1], "intermediate 1: KE in 2");
    assert_eq!(world.gateway.arrows[1], "intermediate 2: KE");
    assert!(world.station.arrows[2].starts_with("auth 1: IDi IDr AUTH"));
}

#[test]
fn every_combination_is_agreed_and_renewed_from_either_end() {
    for suites in [
        "aes128gcm16-prfsha256-mlkem768",
        "aes128gcm16-prfsha256-curve25519-ke1_mlkem1024",
        "aes256-sha384-ecp384-ke1_mlkem768-ke2_mlkem1024",
        "chacha20poly1305-prfsha512-modp2048-ke3_curve25519-ke7_mlkem768",
        "3des-sha1-mlkem768-ke1_ecp256-ke2_ecp384-ke3_ecp521-ke4_curve25519-ke5_modp2048-\
         ke6_modp3072-ke7_mlkem1024",
    ] {
        for is_natted in [false, true] {
            let mut world = Setup {
                is_natted,
                is_legacy: true,
                ..setup(suites, suites)
            }
            .established();
            assert_eq!(suite(&world), suites);
            for who in Who::BOTH {
                world.rekey_ike(who);
                world.pass(5);
                world.assert_agreed(1);
                world.rekey_child(who.other());
                world.pass(5);
                world.assert_agreed(1);
            }
            assert_eq!(suite(&world), suites);
        }
    }
}

#[test]
fn all_proofs_cover_what_was_exchanged_in_between() {
    for (station, gateway) in [
        (Proof::Certificate, Proof::Certificate),
        (Proof::Key("secret"), Proof::Certificate),
        (Proof::Password("clientPass"), Proof::Certificate),
        (Proof::Tls, Proof::Certificate),
    ] {
        let setup = Setup {
            station,
            gateway,
            wants_inner: true,
            ..setup(HYBRID, HYBRID)
        };
        setup.established();
        // Each end believes that something else was exchanged.
        for who in Who::BOTH {
            let mut world = setup.world();
            for _ in 0..40 {
                let end = world.end(who);
                let between = end.session.as_mut().and_then(|it| it.between());
                if let Some(between) = between.filter(|it| !it.is_empty()) {
                    between[0] ^= 1;
                    break;
                }
                assert!(world.deliver(Gateway) || world.deliver(Station));
            }
            world.run();
            assert!(world.station.session.is_none() && world.is_refused());
        }
    }
}

#[test]
fn a_peer_without_it_gets_the_classical_suite() {
    for (station, gateway) in [(BOTH, CLASSICAL), (CLASSICAL, BOTH)] {
        let mut world = setup(station, gateway).world();
        world.run();
        world.assert_agreed(1);
        assert_eq!(suite(&world), CLASSICAL);
        assert_eq!(world.station.arrows.len(), 2);
        for who in Who::BOTH {
            world.rekey_ike(who);
            world.pass(5);
            world.assert_agreed(1);
        }
    }
    let mut world = setup(HYBRID, CLASSICAL).world();
    world.run();
    assert_eq!(world.gateway.arrows, ["init 2: N(NO_PROPOSAL_CHOSEN)"]);
    world.pass(4);
    let words = world.station.fault.take().expect("given up").to_string();
    assert!(words.contains(HYBRID), "{words}");
}

/// Changes a message of IKE_SA_INIT on the wire.
pub(super) fn rewrite(flight: &mut Flight, change: impl FnOnce(&mut Vec<Payload>)) {
    let read = WireMessage::parse(&flight.octets).expect("a message");
    let mut chain: Vec<Payload> = read.clear.iter().map(|it| it.payload.clone()).collect();
    change(&mut chain);
    let (next_payload, body) = write_payloads(&chain);
    let header = Header {
        next_payload,
        ..read.header
    };
    flight.octets = header.write(&body);
}

pub(super) fn without(chain: &mut Vec<Payload>, kind: NotifyType) {
    chain.retain(|it| !matches!(it, Payload::Notify(notify) if notify.kind == kind));
}

#[test]
fn whoever_takes_the_hybrid_out_of_the_offer_is_found_out() {
    let strip: [fn(&mut Vec<Payload>); 2] = [
        |chain| {
            for payload in chain {
                if let Payload::SecurityAssociation(proposals) = payload {
                    proposals.remove(0);
                }
            }
        },
        |chain| without(chain, NotifyType::IntermediateExchangeSupported),
    ];
    for strip in strip {
        let mut world = setup(BOTH, BOTH).world();
        let mut first = world.hold(Gateway).remove(0);
        rewrite(&mut first, strip);
        world.receive(Gateway, &first);
        world.run();
        // The gateway has chosen the classical suite, and the station's AUTH is of what it sent.
        let fault = world.gateway.fault.take().expect("refused").to_string();
        assert!(fault.contains("pre-shared key differs"), "{fault}");
        assert!(world.station.fault.is_some());
    }
    // A responder that chooses a method of IKE_INTERMEDIATE has that exchange.
    let mut world = setup(HYBRID, HYBRID).world();
    assert!(world.deliver(Gateway));
    let mut answer = world.hold(Station).remove(0);
    let kind = NotifyType::IntermediateExchangeSupported;
    rewrite(&mut answer, |chain| without(chain, kind));
    world.receive(Station, &answer);
    // It waits for a better answer, and here none comes.
    while world.station.session.is_some() {
        world.to_gateway.clear();
        assert!(world.wait());
    }
    let fault = world.station.fault.take().expect("given up").to_string();
    assert!(fault.contains("has no IKE_INTERMEDIATE"), "{fault}");
}

/// The octets that AUTH covers, put together by hand.
#[test]
fn what_is_covered_is_the_message_without_its_protection() {
    let clear = [7; 300];
    let head = |kind: u8, numbers: &[u8], sealed: usize| {
        let payload = 4 + numbers.len() + sealed;
        let mut all = vec![1; 8];
        all.extend([2; 8]);
        all.extend([kind, 0x20, 43, 0x08, 0, 0, 0, 1]);
        all.extend((28 + payload as u32).to_be_bytes());
        all.extend([34, 0]);
        all.extend((payload as u16).to_be_bytes());
        all.extend(numbers);
        all.extend(vec![9; sealed]);
        all
    };
    let mut expected = head(46, &[], 300);
    expected.truncate(32);
    expected.extend(clear);
    let whole = head(46, &[], 8 + 300 + 1 + 16);
    assert_eq!(covered(&whole, &clear).as_deref(), Some(&expected[..]));
    let fragment = head(53, &[0, 1, 0, 2], 8 + 200 + 1 + 16);
    assert_eq!(covered(&fragment, &clear).as_deref(), Some(&expected[..]));
    // A payload in clear before it is covered too, and names the encrypted one.
    let mut with_clear = head(40, &[], 0);
    with_clear.truncate(28);
    with_clear.extend([53, 0, 0, 20]);
    with_clear.extend([3; 16]);
    with_clear.extend(&fragment[28..]);
    let len = with_clear.len() as u32;
    with_clear[24..28].copy_from_slice(&len.to_be_bytes());
    let found = covered(&with_clear, &clear).expect("a message");
    assert_eq!((found[16], found[28]), (40, 46));
    assert_eq!(found[48..52], [34, 0, 1, 48]);
    assert_eq!(found[24..28], (found.len() as u32).to_be_bytes());
    assert_eq!(found[52..], clear);
    assert_eq!(covered(&[], &clear), None);
    assert_eq!(covered(&whole[..31], &clear), None);
}

/// A request that the station does not send by itself, before it is authenticated.
fn send_between(world: &mut World, exchange: Exchange, chain: &[Payload]) {
    world.step(Station, |session, random, now, out| {
        let path = session.path();
        let mut at = At {
            path,
            random,
            now,
            out,
        };
        let sa = session.unproven().expect("keys");
        sa.asked = None;
        sa.ask(exchange, chain, Awaited::Auth, None, &mut at);
    });
}

fn public_value(method: u16, len: usize) -> Payload {
    Payload::KeyExchange(KeyExchange {
        method,
        value: vec![9; len],
    })
}

#[test]
fn a_stranger_cannot_ask_for_more_exchanges_than_were_agreed() {
    // The classical suite was agreed, and nothing is due.
    let mut world = setup(CLASSICAL, BOTH).world();
    assert!(world.deliver(Gateway) && world.deliver(Station));
    world.to_gateway.clear();
    let session = world.station.session.as_mut().expect("a session");
    session.unproven().expect("keys").forget_request();
    send_between(
        &mut world,
        Exchange::IkeIntermediate,
        &[public_value(31, 32)],
    );
    world.run();
    assert!(world.gateway.session.is_none());
    let fault = world.gateway.fault.take().unwrap().to_string();
    assert!(fault.contains("no such exchange is due"), "{fault}");
    // What is not the method that is due ends the half-open session too, and so does a second one.
    let zero = Payload::KeyExchange(KeyExchange {
        method: 31,
        value: vec![0; 32],
    });
    for (suites, chain) in [
        (HYBRID, vec![]),
        (HYBRID, vec![public_value(37, 1568)]),
        (HYBRID, vec![public_value(36, 1183)]),
        (HYBRID, vec![public_value(36, 1185)]),
        // Coefficients outside the field.
        (
            HYBRID,
            vec![Payload::KeyExchange(KeyExchange {
                method: 36,
                value: vec![0xff; 1184],
            })],
        ),
        ("aes128gcm16-prfsha256-mlkem768-ke1_curve25519", vec![zero]),
    ] {
        let mut world = setup(suites, suites).world();
        assert!(world.deliver(Gateway) && world.deliver(Station));
        world.to_gateway.clear();
        let session = world.station.session.as_mut().expect("a session");
        session.unproven().expect("keys").forget_request();
        send_between(&mut world, Exchange::IkeIntermediate, &chain);
        while world.deliver(Gateway) {}
        assert!(world.gateway.session.is_none(), "{:?}", world.gateway.facts);
        assert!(world.gateway.fault.is_some());
        assert_eq!(
            world.gateway.arrows.last().unwrap(),
            "intermediate 2: N(INVALID_SYNTAX)"
        );
    }
}

#[test]
fn authentication_before_the_agreed_exchanges_is_refused() {
    let mut world = setup(HYBRID, HYBRID).world();
    assert!(world.deliver(Gateway) && world.deliver(Station));
    world.to_gateway.clear();
    let session = world.station.session.as_mut().expect("a session");
    session.unproven().expect("keys").forget_request();
    send_between(&mut world, Exchange::IkeAuth, &[]);
    world.run();
    let fault = world.gateway.fault.take().expect("refused").to_string();
    assert!(fault.contains("before the agreed exchanges"), "{fault}");
}

#[test]
fn a_repeated_exchange_is_answered_from_memory_and_seldom() {
    let mut world = setup(HYBRID, HYBRID).world();
    assert!(world.deliver(Gateway) && world.deliver(Station));
    let asked = world.hold(Gateway);
    assert_eq!(asked.len(), 2);
    for number in 0..30 {
        for fragment in &asked {
            world.receive(Gateway, fragment);
        }
        let answers = world.hold(Station).len();
        assert_eq!(answers, usize::from(number <= 10), "{number}");
    }
    // The keys have changed once: IKE_AUTH still follows.
    let mut world = setup(HYBRID, HYBRID).world();
    assert!(world.deliver(Gateway) && world.deliver(Station));
    let asked = world.hold(Gateway);
    for fragment in asked.iter().chain(&asked) {
        world.receive(Gateway, fragment);
    }
    world.run();
    world.assert_agreed(1);
}

#[test]
fn what_is_not_authentic_makes_no_work_and_is_not_kept() {
    let mut world = setup(HYBRID, HYBRID).world();
    assert!(world.deliver(Gateway) && world.deliver(Station));
    let fragments = world.hold(Gateway);
    for at in (0..fragments[0].octets.len()).step_by(7) {
        let mut forged = fragments[0].clone();
        forged.octets[at] ^= 1;
        world.receive(Gateway, &forged);
        let session = world.gateway.session.as_ref().expect("it waits");
        assert_eq!(session.fragment_octets(), 0, "octet {at}");
        assert!(world.to_station.is_empty());
    }
    for fragment in fragments.iter().rev() {
        world.receive(Gateway, fragment);
    }
    world.run();
    world.assert_agreed(1);
}

#[test]
fn a_half_open_session_with_exchanges_in_between_expires_as_others_do() {
    let mut world = setup(HYBRID, HYBRID).world();
    assert!(world.deliver(Gateway) && world.deliver(Station));
    world.now = crate::time::Instant(0) + crate::time::Duration::from_secs(20);
    while world.deliver(Gateway) {}
    assert_eq!(world.gateway.arrows[1], "intermediate 2: KE");
    world.to_station.clear();
    world.station.session = None;
    world.pass(11);
    assert!(world.gateway.session.is_none());
}

#[test]
fn cookies_come_before_any_of_it() {
    let mut world = setup(HYBRID, HYBRID).world();
    world.cookies = Some(Cookies::default());
    assert!(world.deliver(Gateway));
    assert!(world.gateway.session.is_none());
    world.run();
    world.assert_agreed(1);
}

#[test]
fn every_single_loss_is_repaired() {
    for lost in 0..9 {
        let mut world = setup(HYBRID, HYBRID).world();
        world.run_but(lost);
        world.pass(5);
        world.assert_agreed(1);
    }
}

#[test]
fn a_renewal_follows_up_with_the_additional_exchanges() {
    let mut world = setup(HYBRID, HYBRID).established();
    for who in Who::BOTH {
        world.end(who).arrows.clear();
        world.end(who.other()).arrows.clear();
        world.rekey_ike(who);
        world.pass(5);
        world.assert_agreed(1);
        let asked = &world.end(who).arrows;
        assert_eq!(asked[0], "create child 1: SA No KE");
        assert_eq!(asked[1], "followup 1: KE N(ADDITIONAL_KEY_EXCHANGE) in 2");
        let answered = &world.end(who.other()).arrows;
        assert_eq!(
            answered[0],
            "create child 2: SA No KE N(ADDITIONAL_KEY_EXCHANGE)"
        );
        assert_eq!(answered[1], "followup 2: KE");
        assert_eq!(suite(&world), HYBRID);
    }
}

#[test]
fn every_order_of_two_renewals_that_cross_ends_with_one_ike_sa() {
    for seed in 1..=3 {
        for bits in 0..1024_u32 {
            let mut world = Setup {
                seed,
                ..setup(HYBRID, HYBRID)
            }
            .established();
            world.rekey_ike(Station);
            world.rekey_ike(Gateway);
            world.in_order(bits);
            world.pass(60);
            world.assert_agreed(1);
        }
    }
}

/// The station's renewal, whose first exchange is done.
fn begun() -> World {
    let mut world = setup(HYBRID, HYBRID).established();
    world.rekey_ike(Station);
    assert!(world.deliver(Gateway) && world.deliver(Station));
    world
}

#[test]
fn a_renewal_that_is_not_finished_is_forgotten() {
    let mut world = begun();
    let asked = world.hold(Gateway);
    assert_eq!(asked.len(), 2);
    // The gateway begins nothing that depends on which IKE SA is the current one.
    world.rekey_child(Gateway);
    assert!(world.to_station.is_empty());
    world.now = world.now + crate::time::Duration::from_secs(21);
    world.step(Gateway, |session, random, now, out| {
        session.on_deadline(random, now, out).expect("no fault");
    });
    assert!(!world.to_station.is_empty());
    for fragment in &asked {
        world.receive(Gateway, fragment);
    }
    let last = world.gateway.arrows.last().unwrap();
    assert_eq!(last, "followup 2: N(STATE_NOT_FOUND)");
    world.pass(60);
    world.assert_agreed(1);
}

#[test]
fn a_link_that_nobody_gave_is_refused() {
    let mut world = begun();
    world.to_gateway.clear();
    // In the place of its own.
    world.within(Station, |it, _| it.current().forget_request());
    let chain = [
        public_value(36, 1184),
        crate::ikev2::parts::notify_with(NotifyType::AdditionalKeyExchange, vec![0; 8]),
    ];
    world.asks(Station, Exchange::IkeFollowupKe, &chain);
    while world.deliver(Gateway) {}
    let last = world.gateway.arrows.last().unwrap();
    assert_eq!(last, "followup 2: N(STATE_NOT_FOUND)");
    world.run();
    world.pass(30);
    world.assert_agreed(1);
}

#[test]
fn unencrypted_messages_of_the_new_exchanges_change_nothing() {
    let mut world = setup(HYBRID, HYBRID).established();
    let spis = world.station.session.as_ref().unwrap().spis();
    for exchange in [Exchange::IkeIntermediate, Exchange::IkeFollowupKe] {
        for id in 0..5 {
            let (next_payload, body) = write_payloads(&[public_value(36, 1184)]);
            let header = Header {
                spis: spis.into(),
                next_payload,
                minor_version: 0,
                exchange,
                flags: Flags::of(true, false),
                message_id: id,
            };
            let (_, mut forged) = world.history[0].clone();
            forged.octets = header.write(&body);
            world.receive(Gateway, &forged);
        }
    }
    assert!(world.to_station.is_empty());
    assert!(world.gateway.drops.of(DropReason::UnexpectedMessage) > 0);
    world.pass(5);
    world.assert_agreed(1);
}
