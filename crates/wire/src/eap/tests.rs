//! Packets of methods: what is written is read, at every length, with every value.

use super::mschapv2::{Request, Response};
use super::tls::Fragment;
use super::{Eap, EapCode, EapKind};
use crate::codec::Malformed;
use crate::tests::hex;

fn requests() -> [Request; 3] {
    [
        Request::Challenge {
            id: 7,
            challenge: [0x5b; 16],
            name: b"gateway".to_vec(),
        },
        Request::Success {
            id: 7,
            text: b"S=407A5589115FD0D6209F510FE9C04566932CDA56 M=OK".to_vec(),
        },
        Request::Failure {
            id: 7,
            text: b"E=691 R=0 C=00112233445566778899AABBCCDDEEFF V=3 M=no".to_vec(),
        },
    ]
}

fn proof() -> Response {
    Response::Proof {
        id: 7,
        challenge: [0x21; 16],
        response: [0x82; 24],
        name: b"User".to_vec(),
    }
}

/// The layout of draft-kamath-pppext-eap-mschapv2-02 §2.1 and §2.2.
#[test]
fn a_challenge_and_a_proof_have_the_layout_of_the_draft() {
    let asked = Request::Challenge {
        id: 1,
        challenge: [0xab; 16],
        name: b"s".to_vec(),
    };
    let octets = format!("01 01 0016 10 {} 73", "ab".repeat(16));
    assert_eq!(asked.to_data(), hex(&octets));
    let proof = proof().to_data();
    let octets = format!(
        "02 07 003a 31 {} {} {} 00 55736572",
        "21".repeat(16),
        "00".repeat(8),
        "82".repeat(24)
    );
    assert_eq!(proof, hex(&octets));
}

#[test]
fn requests_and_responses_are_read_as_written_and_refused_when_cut() {
    for request in requests() {
        let data = request.to_data();
        assert_eq!(Request::parse(&data), Ok(request));
        for len in 0..data.len() {
            assert!(Request::parse(&data[..len]).is_err(), "{len}");
        }
        let longer = [&data[..], &[0]].concat();
        assert_eq!(
            Request::parse(&longer),
            Err(Malformed::Length("MSCHAPv2 packet"))
        );
    }
    let data = proof().to_data();
    assert_eq!(Response::parse(&data), Ok(proof()));
    for len in 0..data.len() {
        assert!(Response::parse(&data[..len]).is_err(), "{len}");
    }
    for short in [Response::Success, Response::Failure] {
        assert_eq!(Response::parse(&short.to_data()), Ok(short));
    }
}

#[test]
fn unknown_opcodes_and_wrong_sizes_are_refused() {
    // 7: the change of a password.
    let change = hex("07 01 0004");
    assert_eq!(
        Request::parse(&change),
        Err(Malformed::Value("MSCHAPv2 opcode"))
    );
    assert_eq!(
        Response::parse(&change),
        Err(Malformed::Value("MSCHAPv2 opcode"))
    );
    let mut short = proof().to_data();
    short[4] = 48;
    assert_eq!(
        Response::parse(&short),
        Err(Malformed::Length("MSCHAPv2 response"))
    );
    let long = Request::Success {
        id: 1,
        text: vec![b'M'; 513],
    };
    assert!(matches!(
        Request::parse(&long.to_data()),
        Err(Malformed::TooMany(_))
    ));
}

#[test]
fn a_packet_carries_a_method() {
    let data = proof().to_data();
    let packet = Eap::of_kind(EapCode::Response, 9, EapKind::MsChapV2, &data);
    let read = Eap::parse(packet.octets()).expect("a packet");
    assert_eq!(read.kind(), Some(EapKind::MsChapV2));
    assert_eq!((read.id(), read.data()), (9, &data[..]));
}

/// RFC 5216 §3.1.
#[test]
fn fragments_of_tls_are_read_as_written_and_have_a_limit() {
    for (text, fragment) in [
        (
            "20",
            Fragment {
                is_start: true,
                ..Fragment::default()
            },
        ),
        (
            "c0 00000102 16 03",
            Fragment {
                has_more: true,
                total: Some(258),
                data: vec![0x16, 3],
                ..Fragment::default()
            },
        ),
        (
            "40 01",
            Fragment {
                has_more: true,
                data: vec![1],
                ..Fragment::default()
            },
        ),
        ("00", Fragment::default()),
    ] {
        let octets = hex(text);
        assert_eq!(Fragment::parse(&octets), Ok(fragment.clone()), "{text}");
        assert_eq!(fragment.to_data(), octets);
    }
    assert_eq!(Fragment::parse(&[]), Ok(Fragment::default()));
    for len in 1..5 {
        let cut = &hex("80 00000102")[..len];
        assert!(Fragment::parse(cut).is_err(), "{len}");
    }
    let long = hex("80 00008001");
    assert!(matches!(Fragment::parse(&long), Err(Malformed::TooMany(_))));
}
