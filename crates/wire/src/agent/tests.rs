use super::*;
use crate::tests::hex;

pub(super) fn request() -> Request {
    Request {
        request_id: [1; 16],
        target: [2; 32],
        user_id: "alice".into(),
        objectives: 0b11,
        options: 0b100,
        ike: 0b110,
        time: 1_795_000_000,
        lifetime: 3_600,
        fresh: Some(Fresh {
            sealing_key: [3; 32],
            tunnel_key: vec![4; 3],
        }),
    }
}

fn tunneling() -> Tunneling {
    Tunneling {
        sealing_key: [1; 32],
        signing_key: [2; 32],
        option: 3,
        ike_version: 2,
        has_ppk: true,
        until: 1_795_000_600,
        addresses: vec![
            [192, 0, 2, 1].into(),
            [0x2001u16, 0, 0, 0, 0, 0, 0, 1].into(),
        ],
        networks: vec![Network {
            address: [10, 0, 0, 0].into(),
            prefix_len: 8,
        }],
        proposals: vec!["aes128gcm16".into()],
        target_identity: "target.example".into(),
        client_identity: "alice@host.example".into(),
        target_chain: vec![vec![5; 9]],
        client_chain: vec![vec![6; 7], vec![]],
    }
}

fn sealed() -> Sealed {
    Sealed {
        kind: Kind::Request,
        cookie: Some([7; 16]),
        label: [8; 16],
        proof: Proof::default(),
        encapsulated: [9; 32],
        ciphertext: vec![10; 5],
    }
}

/// A whole text reads back, and no part of it does.
fn check<'a, T: PartialEq + core::fmt::Debug>(
    octets: &'a [u8],
    parse: impl Fn(&'a [u8]) -> Result<T, Malformed>,
    expected: &T,
) {
    assert_eq!(parse(octets).as_ref(), Ok(expected));
    for len in 0..octets.len() {
        assert!(parse(&octets[..len]).is_err(), "{len} octets");
    }
    // What is read may borrow from it.
    assert!(parse([octets, &[0]].concat().leak()).is_err());
}

/// The layout of `docs/design/agents.md`, written by hand.
#[test]
fn a_request_is_laid_out_as_documented() {
    let octets = hex("01010101010101010101010101010101
         0202020202020202020202020202020202020202020202020202020202020202
         05 616c696365 03 04 06 000000006afd86c0 00000e10 01
         0303030303030303030303030303030303030303030303030303030303030303
         0003 040404");
    assert_eq!(request().to_vec(), octets);
    let message = hex(
        "43544103 01 10 07070707070707070707070707070707 08080808080808080808080808080808
         0909090909090909090909090909090909090909090909090909090909090909 0a0a0a0a0a",
    );
    assert_eq!(sealed().to_vec(), message);
    let message = hex("43544103 06 00 08080808080808080808080808080808
         000001a1ee4ca100 0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b
         0909090909090909090909090909090909090909090909090909090909090909 0a0a0a0a0a");
    assert_eq!(inquiry().to_vec(), message);
}

/// A message of Host to Target.
fn inquiry() -> Sealed {
    Sealed {
        kind: Kind::Inquiry,
        cookie: None,
        proof: Proof {
            time_ms: 0x1a1_ee4c_a100,
            mac: [11; 16],
        },
        ..sealed()
    }
}

#[test]
fn bodies_read_back_whole_and_only_whole() {
    check(&request().to_vec(), Request::parse, &request());
    let plain = Request {
        fresh: None,
        ..request()
    };
    check(&plain.to_vec(), Request::parse, &plain);
    let referral = Referral {
        handle: [1; 16],
        key: [2; 32],
        time: 3,
        request: vec![4; 10],
        signature: [5; 64],
        ppk: Some(Ppk(&[6; 32])),
    };
    check(&referral.to_vec(), Referral::parse, &referral);
    assert!(!format!("{referral:?}").contains("6, 6"));
    let plain = Referral {
        ppk: None,
        ..referral
    };
    check(&plain.to_vec(), Referral::parse, &plain);
    let authorization = Authorization {
        request: [1; 32],
        verdict: Verdict::Other(200),
        option: 3,
        until: 9,
        part: vec![4; 10],
    };
    check(
        &authorization.to_vec(),
        Authorization::parse,
        &authorization,
    );
    let response = Response {
        request: [1; 32],
        verdict: Verdict::KeyUsed,
        time: 9,
        part: vec![4; 10],
    };
    check(&response.to_vec(), Response::parse, &response);
    let inquiry = Inquiry {
        nonce: [1; 16],
        time: 2,
    };
    check(&inquiry.to_vec(), Inquiry::parse, &inquiry);
    let offer = Offer {
        nonce: [1; 16],
        options: 0b1111,
        ike: 0b111,
        lifetime: 60,
        room: 300,
    };
    check(&offer.to_vec(), Offer::parse, &offer);
    let octets = tunneling().to_vec().unwrap();
    check(&octets, Tunneling::parse, &tunneling());
}

#[test]
fn messages_read_back_and_short_ones_do_not() {
    let octets = sealed().to_vec();
    assert_eq!(Message::parse(&octets), Ok(Message::Sealed(sealed())));
    for len in 0..octets.len() - sealed().ciphertext.len() + 1 {
        assert!(Message::parse(&octets[..len]).is_err(), "{len} octets");
    }
    let between = inquiry().to_vec();
    for len in 0..between.len() - sealed().ciphertext.len() + 1 {
        assert!(Message::parse(&between[..len]).is_err(), "{len} octets");
    }
    let retry = Retry {
        label: [1; 16],
        cookie: [2; 16],
    };
    assert!(retry.to_vec().len() < octets.len());
    check(&retry.to_vec(), Message::parse, &Message::Retry(retry));
    for kind in Kind::ALL {
        let message = Sealed {
            kind,
            cookie: None,
            proof: match kind.is_between_agents() {
                true => inquiry().proof,
                false => Proof::default(),
            },
            ..sealed()
        };
        let parsed = Message::parse(&message.to_vec());
        assert_eq!(parsed, Ok(Message::Sealed(message)));
    }
}

#[test]
fn what_is_above_a_limit_or_makes_no_sense_is_refused() {
    let long = Sealed {
        ciphertext: vec![0; MESSAGE_MAX],
        ..sealed()
    };
    let too_many = Err(Malformed::TooMany("octets of an agent's message"));
    assert_eq!(Message::parse(&long.to_vec()), too_many);
    let mut octets = sealed().to_vec();
    for (at, value) in [(0, b'D'), (3, 1), (4, 8), (5, 15)] {
        let before = std::mem::replace(&mut octets[at], value);
        assert!(Message::parse(&octets).is_err(), "octet {at}");
        octets[at] = before;
    }
    // A cookie is of requests alone.
    octets[4] = Kind::Offer.number();
    assert!(Message::parse(&octets).is_err());
    for user_id in ["", "two\nlines", &"x".repeat(64)] {
        let request = Request {
            user_id: user_id.into(),
            ..request()
        };
        let is_good = user_id.len() == 64;
        assert_eq!(Request::parse(&request.to_vec()).is_ok(), is_good);
    }
    let mut wide = tunneling();
    wide.networks[0].prefix_len = 33;
    assert_eq!(wide.to_vec(), Err(Malformed::Value("prefix of a network")));
    let mut many = tunneling();
    many.client_chain = vec![vec![0; 5]; CHAIN + 1];
    assert!(matches!(many.to_vec(), Err(Malformed::TooMany(_))));
    many.client_chain = vec![vec![0; 2_049]];
    assert!(matches!(many.to_vec(), Err(Malformed::TooMany(_))));
}

const CHAIN: usize = 4;

/// The IP packets of messages in the study `tunnel-agents`, in the order of the ten steps: a User
/// ID of 12 octets, RSA-2048, two certificates of 800 octets. Around a body: IP and UDP, the rest
/// of the message, a signature, a tag of 16 octets. Fragments have 20 more.
#[test]
fn messages_have_the_sizes_that_a_study_counts() {
    let request = Request {
        user_id: "user@example".into(),
        fresh: Some(Fresh {
            sealing_key: [3; 32],
            tunnel_key: vec![4; 294],
        }),
        ..request()
    };
    let info = Tunneling {
        addresses: vec![[192, 0, 2, 1].into()],
        proposals: vec!["x".repeat(22), "x".repeat(20)],
        client_identity: request.user_id.clone(),
        target_chain: vec![vec![5; 800]],
        client_chain: vec![vec![6; 800]],
        ..tunneling()
    };
    let info = info.to_vec().expect("within its limits").len();
    let (nonce, time) = ([1; 16], 2);
    let part = vec![0; KEY_LEN + KEY_LEN + info + SIGNATURE_LEN + 16];
    let offer = Offer {
        nonce,
        options: 1,
        ike: 1,
        lifetime: 2,
        room: 3,
    };
    let referral = Referral {
        handle: [1; 16],
        key: [2; 32],
        time,
        request: request.to_vec(),
        signature: [5; 64],
        ppk: None,
    };
    let authorization = Authorization {
        request: [1; 32],
        verdict: Verdict::Granted,
        option: 3,
        until: 9,
        part: part.clone(),
    };
    let response = Response {
        request: [1; 32],
        verdict: Verdict::Granted,
        time,
        part,
    };
    let messages = [
        (Kind::Request, request.to_vec()),
        (Kind::Inquiry, Inquiry { nonce, time }.to_vec()),
        (Kind::Offer, offer.to_vec()),
        (Kind::Referral, referral.to_vec()),
        (Kind::Authorization, authorization.to_vec()),
        (Kind::Response, response.to_vec()),
    ];
    let packets = messages.map(|(kind, body)| {
        let message = Sealed {
            kind,
            cookie: None,
            ciphertext: vec![0; body.len() + SIGNATURE_LEN + 16],
            ..sealed()
        };
        let packet = 28 + message.to_vec().len();
        packet + if packet > 1_500 { 20 } else { 0 }
    });
    assert_eq!(packets, [567, 210, 210, 714, 2_161, 2_136]);
}
