//! Lengths and counts that contradict their space.

use super::*;

#[test]
fn every_truncation_of_a_message_is_refused() {
    for message in [REQUEST, RESPONSE, INFORMATIONAL] {
        let datagram = hex(message);
        for len in 0..datagram.len() {
            assert!(Message::parse(&datagram[..len]).is_err(), "{len} octets");
        }
        // Also where the header tells the truncated length.
        for len in HEADER_LEN..datagram.len() {
            let mut short = datagram[..len].to_vec();
            short[24..28].copy_from_slice(&(len as u32).to_be_bytes());
            assert!(Message::parse(&short).is_err(), "{len} octets");
        }
        let longer = [&datagram[..], &[0]].concat();
        assert_eq!(Message::parse(&longer), Err(Malformed::Trailing("message")));
    }
}

#[test]
fn lengths_of_the_header_are_checked() {
    let good = hex(REQUEST);
    for (len, fault) in [
        (27, Malformed::Length("message")),
        (0, Malformed::Length("message")),
        (28, Malformed::Trailing("message")),
        (u32::MAX, Malformed::Truncated("message")),
    ] {
        let mut datagram = good.clone();
        datagram[24..28].copy_from_slice(&len.to_be_bytes());
        assert_eq!(Message::parse(&datagram), Err(fault), "{len}");
    }
}

#[test]
fn a_chain_of_too_many_payloads_is_refused() {
    let chain = |count: usize| {
        let mut octets = [43, 0, 0, 4].repeat(count);
        octets[4 * (count - 1)] = 0;
        octets
    };
    let most = payloads(PayloadKind::VendorId, &chain(MAX_PAYLOADS)).unwrap();
    assert_eq!(most.len(), MAX_PAYLOADS);
    for count in [MAX_PAYLOADS + 1, 10_000] {
        assert_eq!(
            payloads(PayloadKind::VendorId, &chain(count)),
            Err(Malformed::TooMany("payloads"))
        );
    }
}

#[test]
fn a_chain_fills_its_space() {
    for len in 0..4 {
        assert_eq!(
            payloads(PayloadKind::VendorId, &[0, 0, 0, len]),
            Err(Malformed::Length("payload"))
        );
    }
    assert_eq!(
        payloads(PayloadKind::VendorId, &[0, 0, 0, 4, 0]),
        Err(Malformed::Trailing("the last payload"))
    );
    assert_eq!(
        payloads(PayloadKind::None, &[0]),
        Err(Malformed::Trailing("the last payload"))
    );
    assert_eq!(payloads(PayloadKind::None, &[]), Ok(vec![]));
    assert_eq!(
        payloads(PayloadKind::VendorId, &[43, 0, 0, 4]),
        Err(Malformed::Truncated("generic header"))
    );
    assert_eq!(
        payloads(PayloadKind::VendorId, &[0, 0, 0xff, 0xff]),
        Err(Malformed::Truncated("payload"))
    );
}

#[test]
fn nonces_have_16_to_256_octets() {
    for (len, is_nonce) in [
        (0, false),
        (15, false),
        (16, true),
        (256, true),
        (257, false),
    ] {
        let mut chain = vec![0, 0];
        chain.extend((4 + len as u16).to_be_bytes());
        chain.extend(vec![1; len]);
        let read = payloads(PayloadKind::Nonce, &chain);
        assert_eq!(read.is_ok(), is_nonce, "{len} octets");
    }
}

fn sa(body: &str) -> Result<Vec<Located>, Malformed> {
    let body = hex(body);
    let mut chain = vec![0, 0];
    chain.extend((4 + body.len() as u16).to_be_bytes());
    chain.extend(body);
    payloads(PayloadKind::SecurityAssociation, &chain)
}

#[test]
fn proposals_and_transforms_that_contradict_their_counts_are_refused() {
    let cases = [
        ("", Malformed::Truncated("proposal")),
        // The only proposal says that another one follows.
        (
            "02 00 0010 01 01 00 01  00 00 0008 02 00 0002",
            Malformed::Truncated("proposal"),
        ),
        // The first octet is neither last nor another one.
        (
            "03 00 0010 01 01 00 01  00 00 0008 02 00 0002",
            Malformed::Value("substructure"),
        ),
        (
            "00 00 0010 01 01 00 01  02 00 0008 02 00 0002",
            Malformed::Value("substructure"),
        ),
        // One transform of two, and two of one.
        (
            "00 00 0010 01 01 00 02  00 00 0008 02 00 0002",
            Malformed::Length("proposal: number of transforms"),
        ),
        (
            "00 00 0010 01 01 00 02  03 00 0008 02 00 0002",
            Malformed::Truncated("transform"),
        ),
        (
            "00 00 0018 01 01 00 01  00 00 0008 02 00 0002  00 00 0008 02 00 0002",
            Malformed::Trailing("proposal"),
        ),
        (
            "00 00 0010 01 01 00 01  03 00 0008 02 00 0002",
            Malformed::Length("proposal: number of transforms"),
        ),
        ("00 00 0003", Malformed::Length("proposal")),
        (
            "00 00 000c 01 01 00 01  00 00 0003",
            Malformed::Length("transform"),
        ),
        (
            "00 00 0008 01 01 04 00",
            Malformed::Truncated("proposal SPI"),
        ),
        ("00 00 0008 01 01 00 81", Malformed::TooMany("transforms")),
        // An attribute longer than its transform.
        (
            "00 00 0014 01 01 00 01  00 00 000c 01 00 000c 000e0002",
            Malformed::Truncated("attribute value"),
        ),
        ("00 00 0008 01 01 00 00 00", Malformed::Trailing("payload")),
    ];
    for (body, fault) in cases {
        assert_eq!(sa(body), Err(fault), "{body}");
    }
    let one = "02 00 0008 01 01 00 00 ";
    let last = "00 00 0008 01 01 00 00";
    assert!(sa(&(one.repeat(MAX_PROPOSALS - 1) + last)).is_ok());
    assert_eq!(
        sa(&(one.repeat(MAX_PROPOSALS) + last)),
        Err(Malformed::TooMany("proposals"))
    );
}

#[test]
fn traffic_selectors_that_are_no_ranges_are_refused() {
    let read = |body: &str| {
        let body = hex(body);
        let mut chain = vec![0, 0, 0, 4 + body.len() as u8];
        chain.extend(body);
        payloads(PayloadKind::TrafficSelectorsInitiator, &chain)
    };
    let cases = [
        ("", Malformed::Truncated("number of traffic selectors")),
        (
            "02 000000 07 00 0010 0000 ffff 0a000000 0a0000ff",
            Malformed::Truncated("traffic selector type"),
        ),
        (
            "00 000000 07 00 0010 0000 ffff 0a000000 0a0000ff",
            Malformed::Trailing("payload"),
        ),
        (
            "01 000000 07 00 0003",
            Malformed::Length("traffic selector"),
        ),
        (
            "01 000000 07 00 000f 0000 ffff 0a000000 0a0000",
            Malformed::Truncated("last address"),
        ),
        (
            "01 000000 07 00 0011 0000 ffff 0a000000 0a0000ff 00",
            Malformed::Trailing("traffic selector"),
        ),
        (
            "01 000000 08 00 0010 0000 ffff 0a000000 0a0000ff",
            Malformed::Truncated("first address"),
        ),
        (
            "01 000000 07 00 0010 0000 ffff 0a000002 0a000001",
            Malformed::Value("address range"),
        ),
        (
            "01 000000 07 06 0010 0051 0050 0a000000 0a0000ff",
            Malformed::Value("port range"),
        ),
        (
            "01 000000 07 06 0010 ffff 0001 0a000000 0a0000ff",
            Malformed::Value("port range"),
        ),
    ];
    for (body, fault) in cases {
        assert_eq!(read(body), Err(fault), "{body}");
    }
    assert!(read("00 000000").is_ok());
}
