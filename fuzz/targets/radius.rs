//! RADIUS: what can be read is written again as it was, and nobody without the secret decides about
//! a peer. The first octet says what the others are: a packet (0), datagrams with a length before
//! each that somebody sends from the server's address (odd), or the attributes of a response that
//! the server makes (even).
#![no_main]

use std::net::SocketAddr;
use std::sync::Arc;

use crypto::hash::Hash;
use crypto::rand::Seed;
use engine::counters::{DropCounters, DropReason};
use engine::radius::{Client, Question, Server, Servers, Verdict};
use engine::sa::Secret;
use engine::time::Instant;
use libfuzzer_sys::fuzz_target;
use wire::eap::{Eap, EapCode, EapKind};
use wire::radius::{HEAD_LEN, MAX_LEN, Packet, without_padding};

const SECRET: &[u8] = b"a secret of the house";
const CODES: [u8; 4] = [2, 3, 11, 5];

fuzz_target!(|input: &[u8]| {
    let Some((first, octets)) = input.split_first() else {
        return;
    };
    match *first {
        0 => packet(octets),
        first if first % 2 == 1 => stranger(first, octets),
        first => server(first, octets),
    }
});

fn packet(datagram: &[u8]) {
    let Ok(octets) = without_padding(datagram) else {
        return;
    };
    if let Ok(packet) = Packet::parse(octets) {
        assert_eq!(packet.to_vec(), octets);
        assert!(octets.len() <= MAX_LEN);
        assert!(packet.eap().len() <= octets.len());
    }
}

/// A client with one open question, where its server is, and the request.
fn asking(first: u8) -> (Client, SocketAddr, Vec<u8>) {
    let address: SocketAddr = "192.0.2.5:1812".parse().expect("an address");
    let server = Server {
        address,
        secret: Secret(SECRET.to_vec()),
    };
    let mut client = Client::default();
    client.configure(Some(Arc::new(Servers {
        all: vec![Arc::new(server)],
        nas_identifier: "gateway".into(),
    })));
    let question = Question {
        server: None,
        user: b"alice".to_vec(),
        eap: Eap::of_kind(EapCode::Response, 1, EapKind::Identity, b"alice"),
        state: None,
        peer: "192.0.2.7".parse().expect("an address"),
    };
    let mut random = Seed::new([first; 32]).stream("radius", 0);
    client.ask(1, question, &mut random, Instant(0));
    let (to, request) = client.datagram().expect("a request");
    assert_eq!(to, address);
    (client, address, request)
}

/// It has seen the request, and has no secret.
fn stranger(first: u8, mut octets: &[u8]) {
    let (mut client, from, request) = asking(first);
    let mut drops = DropCounters::default();
    let mut sent = 0;
    while let Some((len, rest)) = octets.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len)).min(rest.len());
        let (datagram, rest) = rest.split_at(len);
        octets = rest;
        let mut datagram = datagram.to_vec();
        // The right identifier, which everybody sees.
        if let Some(id) = datagram.get_mut(1) {
            *id = request[1];
        }
        client.on_datagram(from, &datagram, Instant(1), &mut drops);
        sent += 1;
        assert!(client.verdict().is_none(), "a stranger decides");
    }
    let counted: u64 = DropReason::ALL.iter().map(|it| drops.of(*it)).sum();
    assert_eq!(counted, sent);
}

/// It has the secret, and says what the input says.
fn server(first: u8, octets: &[u8]) {
    let (mut client, from, request) = asking(first);
    let asked = &request[4..HEAD_LEN];
    let attributes = &octets[..octets.len().min(MAX_LEN - HEAD_LEN - 18)];
    let len = (HEAD_LEN + 18 + attributes.len()) as u16;
    let code = CODES[usize::from(first / 2) % CODES.len()];
    let mut response = vec![code, request[1]];
    response.extend(len.to_be_bytes());
    response.extend(asked);
    response.extend([80, 18]);
    response.extend([0; 16]);
    response.extend(attributes);
    let mac = Hash::Md5.hmac(SECRET, &[&response]);
    response[HEAD_LEN + 2..HEAD_LEN + 18].copy_from_slice(mac.as_ref());
    let whole = Hash::Md5.digest(&[&response, SECRET]);
    response[4..HEAD_LEN].copy_from_slice(whole.as_ref());
    let mut drops = DropCounters::default();
    client.on_datagram(from, &response, Instant(1), &mut drops);
    let counted: u64 = DropReason::ALL.iter().map(|it| drops.of(*it)).sum();
    assert_eq!(drops.of(DropReason::RadiusForged), 0);
    match client.verdict() {
        Some((ticket, verdict)) => {
            assert_eq!((ticket, counted), (1, 0));
            if let Verdict::Accept { key: Some(key), .. } = verdict {
                assert_eq!((key.0.len(), code), (64, 2));
            }
            // Once.
            client.on_datagram(from, &response, Instant(1), &mut drops);
            assert_eq!(drops.of(DropReason::RadiusUnasked), 1);
        }
        None => assert_eq!(counted, 1),
    }
}
