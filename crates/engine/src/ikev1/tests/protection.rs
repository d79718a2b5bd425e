//! Phase 2 messages under the SA that phase 1 made.

use wire::isakmp::{Exchange, Payload};

use super::pair::Setup;
use crate::counters::DropReason;
use crate::ikev1::IsakmpSa;
use crate::ikev1::keys::keymat;
use crate::ikev1::message::Message;
use crate::sa::Protocol;
use crate::work::Work;

fn ends(suites: &'static str) -> (IsakmpSa, IsakmpSa) {
    let mut pair = Setup {
        suites,
        ..Setup::default()
    }
    .pair();
    pair.run();
    (pair.i.sa.unwrap().0, pair.r.sa.unwrap().0)
}

#[test]
fn sealed_with_a_hash_and_opened() {
    for suites in [
        "3des-md5-modp768",
        "aes256-sha1-modp768",
        "aes128-sha512-modp768",
    ] {
        let (a, b) = ends(suites);
        let (mut iv_a, mut iv_b) = (a.first_iv(7), b.first_iv(7));
        assert_eq!(iv_a, iv_b);
        assert_ne!(iv_a, a.first_iv(8));
        let mut work = Work::default();
        for len in 8..40 {
            let nonce = Payload::Nonce(vec![3; len]);
            let id = 7_u32.to_be_bytes();
            let chain = vec![nonce.clone()];
            let exchange = Exchange::QuickMode;
            let message = a.seal_hashed(exchange, 7, &mut iv_a, &[&id, b"Ni"], chain, &mut work);
            let message = &Message::parse(&message).unwrap();
            assert!(message.is_of_phase2());
            let before = iv_b;
            let wrong = b.open_hashed(message, &mut iv_b, &[&id, b"Nx"], &mut work);
            assert_eq!(wrong.err(), Some(DropReason::BadHash));
            assert_eq!(iv_b, before);
            let opened = b
                .open_hashed(message, &mut iv_b, &[&id, b"Ni"], &mut work)
                .unwrap();
            assert_eq!(opened.payloads[1].payload, nonce);
            assert_eq!(opened.content(&opened.payloads[1]), vec![3; len]);
            assert_eq!(iv_a, iv_b);
        }
    }
}

#[test]
fn an_altered_message_is_refused_wherever_it_is_altered() {
    let (a, b) = ends("aes128-sha1-modp768");
    let mut iv = a.first_iv(7);
    let mut work = Work::default();
    let id = 7_u32.to_be_bytes();
    let chain = vec![Payload::Nonce(vec![3; 20])];
    let message = a.seal_hashed(Exchange::QuickMode, 7, &mut iv, &[&id], chain, &mut work);
    // The hash covers only cookies and the first payload's kind of the header, and the whole body.
    for at in (0..16).chain(28..message.len() - 16) {
        let mut altered = message.clone();
        altered[at] ^= 1;
        let mut iv = b.first_iv(7);
        let opened = Message::parse(&altered)
            .and_then(|altered| b.open_hashed(&altered, &mut iv, &[&id], &mut work));
        assert!(opened.is_err());
        assert_eq!(iv, b.first_iv(7));
    }
    for len in 0..message.len() {
        let mut iv = b.first_iv(7);
        let opened = Message::parse(&message[..len])
            .and_then(|part| b.open_hashed(&part, &mut iv, &[&id], &mut work));
        assert!(opened.is_err());
    }
}

#[test]
fn keymat_is_long_enough_and_differs_by_all_that_it_is_made_of() {
    let (a, b) = ends("aes128-sha1-modp768");
    let esp = |sa: &IsakmpSa, spi| {
        keymat(sa, None, Protocol::Esp, spi, b"ni", b"nr", 72)
            .0
            .clone()
    };
    assert_eq!(esp(&a, 256), esp(&b, 256));
    assert_eq!(esp(&a, 256).len(), 72);
    assert_ne!(esp(&a, 256), esp(&a, 257));
    let pfs = keymat(&a, Some(b"shared"), Protocol::Esp, 256, b"ni", b"nr", 72)
        .0
        .clone();
    let ah = keymat(&a, None, Protocol::Ah, 256, b"ni", b"nr", 72)
        .0
        .clone();
    assert!(pfs != esp(&a, 256) && ah != esp(&a, 256));
    // K1 = prf(SKEYID_d, protocol | SPI | Ni_b | Nr_b), K2 = prf(SKEYID_d, K1 | ...).
    let seed = [&[3, 0, 0, 1, 0][..], b"ni", b"nr"].concat();
    let hash = a.suite.hash;
    let k1 = hash.hmac(&a.skeyid_d.0, &[&seed]);
    let k2 = hash.hmac(&a.skeyid_d.0, &[k1.as_ref(), &seed]);
    let start = [k1.as_ref(), k2.as_ref()].concat();
    assert_eq!(esp(&a, 256)[..40], start);
}
