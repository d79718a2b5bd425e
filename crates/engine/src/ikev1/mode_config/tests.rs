use proptest::prelude::*;

use super::*;
use crate::ike::{Fault, Outbox, Step};
use crate::ikev1::testing::isakmp_pair;

/// Passes octets to a request. Those without a valid header do not reach it.
fn takes(
    request: &mut ConfigRequest,
    sa: &IsakmpSa,
    octets: &[u8],
    out: &mut Outbox,
) -> Result<Lease, Fault> {
    request.on_message(sa, &Message::parse(octets)?, Instant(0), out)
}

fn requested(sa: &IsakmpSa, octets: &[u8], out: &mut Outbox) -> Result<AddressRequest, Fault> {
    super::requested(sa, &Message::parse(octets)?, out)
}

fn pushed(
    sa: &IsakmpSa,
    families: InnerFamilies,
    octets: &[u8],
    out: &mut Outbox,
) -> Result<(Lease, Sent), Fault> {
    super::pushed(sa, families, &Message::parse(octets)?, out)
}

fn open(
    sa: &IsakmpSa,
    octets: &[u8],
    message_id: u32,
    iv: &mut Iv,
    out: &mut Outbox,
) -> Result<Opened, Fault> {
    super::open(sa, &Message::parse(octets)?, message_id, iv, out)
}

const ID: u32 = 0x0a0b_0c0d;
const BOTH: InnerFamilies = InnerFamilies { v4: true, v6: true };
const V4: InnerFamilies = InnerFamilies {
    v4: true,
    v6: false,
};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn lent(addresses: &[&str], dns: &[&str]) -> Lease {
    Lease {
        addresses: addresses.iter().map(|text| ip(text)).collect(),
        dns: dns.iter().map(|text| ip(text)).collect(),
        ..Lease::default()
    }
}

/// What the gateway reads, and what the client accepts of its answer.
fn exchange(
    families: InnerFamilies,
    had: Option<IpAddr>,
    answer: &Lease,
) -> (AddressRequest, Result<Lease, Fault>) {
    let (station, gateway) = isakmp_pair("aes128-sha1-modp2048");
    let mut out = Outbox::default();
    // HASH, ATTR(REQUEST) -->
    let mut request =
        ConfigRequest::initiate(&station, families, had.as_slice(), ID, Instant(0), &mut out);
    let message = out.messages[0].message.clone();
    let asked = requested(&gateway, &message, &mut out).unwrap();
    // <-- HASH, ATTR(REPLY)
    let sent = reply(&gateway, &asked, answer, &mut out);
    assert_eq!(sent.payloads, "HASH ATTR");
    (
        asked,
        takes(&mut request, &station, &sent.message, &mut out),
    )
}

#[test]
fn a_station_gets_what_it_asks_for() {
    let answer = lent(&["10.9.0.7"], &["10.1.0.53", "2001:db8::53"]);
    let (asked, lease) = exchange(V4, None, &answer);
    assert_eq!((asked.message_id, asked.wanted.families), (ID, V4));
    assert!(asked.wanted.addresses.is_empty());
    assert_eq!(lease, Ok(lent(&["10.9.0.7"], &["10.1.0.53"])));

    let answer = lent(&["10.9.0.7", "2001:db8::7"], &["2001:db8::53"]);
    let (asked, lease) = exchange(BOTH, Some(ip("10.9.0.3")), &answer);
    assert_eq!(asked.wanted.families, BOTH);
    assert_eq!(asked.wanted.addresses, [ip("10.9.0.3")]);
    assert_eq!(lease, Ok(answer));
}

#[test]
fn a_refusal_is_a_lease_without_addresses() {
    let (_, lease) = exchange(V4, None, &Lease::default());
    assert_eq!(lease, Ok(Lease::default()));
    for text in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255"] {
        let (_, lease) = exchange(V4, None, &lent(&[text], &[text]));
        assert_eq!(lease, Ok(Lease::default()), "{text}");
    }
}

#[test]
fn a_request_as_strongswan_writes_it_is_answered() {
    let (station, gateway) = isakmp_pair("aes128-sha1-modp2048");
    let mut out = Outbox::default();
    let request = ConfigAttributes {
        kind: ConfigType::Request,
        identifier: 0,
        attributes: vec![
            attribute(ConfigKind::InternalIp4Address, Vec::new()),
            attribute(ConfigKind::InternalIp4Dns, Vec::new()),
            Attribute::long(28_672, Vec::new()),
        ],
    };
    let mut iv = station.first_iv(ID);
    let sent = seal(&station, ID, Step::Config(1), request, &mut iv, &mut out);
    let asked = requested(&gateway, &sent.message, &mut out).unwrap();
    assert_eq!(asked.wanted.families, V4);
    let answer = lent(&["10.9.0.7"], &["10.1.0.53"]);
    let kept = reply(&gateway, &asked, &answer, &mut out);
    let opened = open(&station, &kept.message, ID, &mut iv, &mut out).unwrap();
    let found = attributes(&opened, &[ConfigType::Reply]).unwrap();
    assert_eq!(found.identifier, 0);
    assert_eq!(
        found.attributes,
        [
            attribute(ConfigKind::InternalIp4Address, vec![10, 9, 0, 7]),
            attribute(ConfigKind::InternalIp4Dns, vec![10, 1, 0, 53]),
        ]
    );
}

#[test]
fn an_address_of_ipv6_may_carry_a_prefix_length() {
    for len in 15..=18 {
        let mut value = octets(ip("2001:db8::7"));
        value.resize(len, 64);
        let found = lent_address(&attribute(ConfigKind::InternalIp6Address, value));
        assert_eq!(found, (16..=17).contains(&len).then(|| ip("2001:db8::7")));
    }
}

#[test]
fn what_a_gateway_pushes_is_taken_and_acknowledged() {
    let (station, gateway) = isakmp_pair("aes128-sha1-modp2048");
    let mut out = Outbox::default();
    let set = ConfigAttributes {
        kind: ConfigType::Set,
        identifier: 9,
        attributes: lent_attributes(&lent(&["10.9.0.7", "2001:db8::7"], &["10.1.0.53"]), true),
    };
    let mut iv = gateway.first_iv(ID);
    // <-- HASH, ATTR(SET)
    let sent = seal(&gateway, ID, Step::ConfigSet, set, &mut iv, &mut out);
    let (taken, kept) = pushed(&station, V4, &sent.message, &mut out).unwrap();
    assert_eq!(taken, lent(&["10.9.0.7"], &["10.1.0.53"]));
    // HASH, ATTR(ACK) -->
    let opened = open(&gateway, &kept.message, ID, &mut iv, &mut out).unwrap();
    let ack = attributes(&opened, &[ConfigType::Ack]).unwrap();
    assert_eq!(ack.identifier, 9);
    assert_eq!(
        ack.attributes,
        [
            attribute(ConfigKind::InternalIp4Address, Vec::new()),
            attribute(ConfigKind::InternalIp4Dns, Vec::new()),
        ]
    );
    // A push is not a request, and vice versa.
    assert!(requested(&gateway, &sent.message, &mut out).is_err());
    assert!(pushed(&gateway, V4, &kept.message, &mut out).is_err());
}

#[test]
fn a_station_asks_again_until_it_is_answered() {
    let (station, gateway) = isakmp_pair("aes128-sha1-modp2048");
    let mut out = Outbox::default();
    let mut request = ConfigRequest::initiate(&station, V4, &[], ID, Instant(0), &mut out);
    assert_eq!(request.message_id(), ID);
    let at = request.deadline().unwrap().at;
    request.on_deadline(at, &mut out).unwrap();
    assert_eq!(out.messages[0], out.messages[1]);
    let message = out.messages[1].message.clone();
    // Our own reflected request is not a reply.
    assert!(takes(&mut request, &station, &message, &mut out).is_err());
    let asked = requested(&gateway, &message, &mut out).unwrap();
    let answer = lent(&["10.9.0.7"], &[]);
    let kept = reply(&gateway, &asked, &answer, &mut out).message;
    for at in 0..kept.len() {
        let mut wrong = kept.clone();
        wrong[at] ^= 0x41;
        let is_covered = ![17, 19].contains(&at);
        if is_covered {
            assert!(takes(&mut request, &station, &wrong, &mut out).is_err());
        }
        assert!(takes(&mut request, &station, &kept[..at], &mut out).is_err());
    }
    assert!(request.deadline().is_some());
    assert_eq!(takes(&mut request, &station, &kept, &mut out), Ok(answer));
    assert!(request.deadline().is_none());
}

#[test]
fn silence_ends_the_request() {
    let (station, _) = isakmp_pair("aes128-sha1-modp2048");
    let mut out = Outbox::default();
    let mut request = ConfigRequest::initiate(&station, BOTH, &[], ID, Instant(0), &mut out);
    let fault = loop {
        let at = request.deadline().unwrap().at;
        if let Err(fault) = request.on_deadline(at, &mut out) {
            break fault;
        }
    };
    assert!(
        matches!(&fault, Fault::TimedOut(asked) if asked.step == Step::Config(1)),
        "{fault}"
    );
}

proptest! {
    #[test]
    fn any_octets_are_dropped(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (sa, _) = isakmp_pair("aes128-sha1-modp2048");
        let mut out = Outbox::default();
        prop_assert!(requested(&sa, &octets, &mut out).is_err());
        prop_assert!(pushed(&sa, BOTH, &octets, &mut out).is_err());
    }

    #[test]
    fn any_attributes_are_read(
        kind in 0_u16..20,
        value in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let found = [Attribute::long(kind, value)];
        let lease = lease(&found, BOTH);
        prop_assert!(lease.addresses.len() + lease.dns.len() <= 1);
    }
}
