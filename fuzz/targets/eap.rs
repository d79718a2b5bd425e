//! EAP: what can be read is written again as it was, and neither end lets a stranger in. The first
//! octet says what the others are: a packet, the data of a method, or packets with a length before
//! each, which a hostile gateway sends to a station (even) or a hostile station to a gateway (odd).
#![no_main]

use std::sync::Arc;

use crypto::mschapv2::NtHash;
use crypto::rand::Seed;
use engine::eap::{
    Asked, Examiner, Login, LoginMethod, MAX_OCTETS, MAX_PACKETS, Own, Server, Station, Told, Users,
};
use fuzz::secrets::pki;
use fuzz::watch::CALENDAR;
use libfuzzer_sys::fuzz_target;
use wire::eap::mschapv2::{Request, Response};
use wire::eap::tls::Fragment;
use wire::eap::{Eap, EapCode, EapKind};

fuzz_target!(|input: &[u8]| {
    let Some((first, octets)) = input.split_first() else {
        return;
    };
    match *first {
        0 => {
            if let Ok(packet) = Eap::parse(octets) {
                assert_eq!(packet.octets(), octets);
            }
        }
        1 => data(octets),
        first if first % 2 == 0 => hostile_gateway(first, octets),
        first => hostile_station(first, octets),
    }
});

fn data(octets: &[u8]) {
    if let Ok(request) = Request::parse(octets) {
        let data = request.to_data();
        assert_eq!(data, octets);
    }
    if let Ok(response) = Response::parse(octets) {
        // Reserved octets and flags are not kept.
        assert_eq!(Response::parse(&response.to_data()), Ok(response));
    }
    if let Ok(fragment) = Fragment::parse(octets) {
        assert_eq!(Fragment::parse(&fragment.to_data()), Ok(fragment));
    }
}

/// Packets, each with two octets of length.
fn packets(mut octets: &[u8]) -> impl Iterator<Item = Eap> + '_ {
    core::iter::from_fn(move || {
        let (len, rest) = octets.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_be_bytes(*len)).min(rest.len());
        let (packet, rest) = rest.split_at(len);
        octets = rest;
        Some(Eap::parse(packet).ok())
    })
    .flatten()
}

/// It has proven itself in IKE, and does not know the password, nor has it a certificate that the
/// station trusts.
fn hostile_gateway(first: u8, octets: &[u8]) {
    let mut random = Seed::new([first; 32]).stream("eap", 0);
    let method = match first % 4 {
        0 => LoginMethod::Password(NtHash::of_password("a password")),
        _ => {
            let (key, certificate) = &pki().station;
            LoginMethod::Certificate(Arc::clone(key), vec![certificate.clone()])
        }
    };
    let login = Login {
        user: "alice".into(),
        method,
        server: None,
    };
    let trusted = Arc::clone(&pki().trust);
    let mut station = Station::new(Arc::new(login), trusted, CALENDAR.0);
    let mut taken = (0, 0);
    for packet in packets(octets) {
        match station.on_packet(&packet, &mut random) {
            Told::Answer(answer) => {
                assert_eq!(
                    (answer.code(), answer.id()),
                    (EapCode::Response, packet.id())
                );
                taken = (taken.0 + 1, taken.1 + packet.octets().len());
                assert!(taken.0 <= MAX_PACKETS && taken.1 <= MAX_OCTETS);
            }
            Told::Content(..) => panic!("a stranger knows the password"),
            Told::Over(_) | Told::Refused(_) => return,
        }
    }
}

/// It has neither a password nor a certificate.
fn hostile_station(first: u8, octets: &[u8]) {
    let mut random = Seed::new([first; 32]).stream("eap", 0);
    let mut users = Users::default();
    let hash = NtHash::of_password("a password");
    users.add("alice", hash).expect("a user");
    let examiner = Examiner {
        users: Some(Arc::new(users)),
        trusted: (first % 4 == 1).then(|| Arc::clone(&pki().trust)),
        asks_servers: false,
    };
    let own = Own {
        key: &pki().gateway.0,
        chain: &pki().gateway.1,
        now: CALENDAR.0,
    };
    let (mut server, mut asked) = Server::begin(&examiner, &own, &mut random).expect("a server");
    for packet in packets(octets) {
        // The right identifier is in the request: everybody has it.
        let kind = packet.kind().unwrap_or(EapKind::Nak);
        let answer = Eap::of_kind(EapCode::Response, asked.id(), kind, packet.data());
        match server.on_packet(&answer, &mut random) {
            Asked::More(next) => {
                assert_eq!(next.code(), EapCode::Request);
                asked = next;
            }
            Asked::Proven(..) => panic!("a stranger is let in"),
            Asked::Refused(verdict, _) => {
                assert_eq!(verdict.code(), EapCode::Failure);
                return;
            }
        }
    }
}
