use std::net::SocketAddr;

use super::*;

/// Reads a whole message.
macro_rules! whole {
    ($kind:ty, $octets:expr) => {{
        let mut reader = Reader::new($octets);
        <$kind>::read(&mut reader).and_then(|it| reader.finish("the message").map(|()| it))
    }};
}

/// Each of its beginnings is unfinished, not wrong.
macro_rules! grows {
    ($kind:ty, $octets:expr) => {
        for len in 0..$octets.len() {
            let begun = whole!($kind, &$octets[..len]);
            assert!(matches!(begun, Err(Malformed::Truncated(_))), "{len}");
        }
    };
}

/// What curl 8 sends for `socks5h://user:pass@proxy` and `http://example.com/`.
const CURL: (&[u8], &[u8], &[u8]) = (
    b"\x05\x02\x00\x02",
    b"\x01\x04user\x04pass",
    b"\x05\x01\x00\x03\x0bexample.com\x00\x50",
);

#[test]
fn the_messages_of_curl_are_read_and_written() {
    let greeting = whole!(Greeting, CURL.0).expect("a greeting");
    assert_eq!(greeting.methods, [Method::None, Method::Password]);
    assert_eq!(greeting.to_vec(), CURL.0);
    grows!(Greeting, CURL.0);
    let login = whole!(Login<'_>, CURL.1).ok().expect("a login");
    assert_eq!((login.name, login.password), (&b"user"[..], &b"pass"[..]));
    assert_eq!(login.to_vec().as_deref(), Some(CURL.1));
    let request = whole!(Request, CURL.2).expect("a request");
    let name = Destination::Name("example.com".into());
    assert_eq!((request.command, request.port), (Command::Connect, 80));
    assert_eq!(request.destination, name);
    assert_eq!(request.to_vec().as_deref(), Some(CURL.2));
    grows!(Request, CURL.2);
}

#[test]
fn a_login_grows_too() {
    for len in 0..CURL.1.len() {
        let begun = whole!(Login<'_>, &CURL.1[..len]).err();
        assert!(matches!(begun, Some(Malformed::Truncated(_))), "{len}");
    }
}

#[test]
fn addresses_of_both_families_are_read_and_written() {
    for (head, address) in [
        (&b"\x05\x01\x00\x01\x0a\x00\x00\x09"[..], "10.0.0.9"),
        (
            &b"\x05\x03\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"[..],
            "2001:db8::1",
        ),
    ] {
        let octets = [head, b"\x01\xbb"].concat();
        let request = whole!(Request, &octets).expect("a request");
        let address = address.parse().expect("an address");
        assert_eq!(request.destination, Destination::Address(address));
        assert_eq!(request.port, 443);
        assert_eq!(request.to_vec(), Some(octets.clone()));
        grows!(Request, octets);
    }
}

#[test]
fn what_is_not_socks_is_refused_at_its_first_octet() {
    let value = |what| Some(Malformed::Value(what));
    assert_eq!(
        whole!(Greeting, b"GET / HTTP/1.1").err(),
        value("the version")
    );
    assert_eq!(whole!(Greeting, b"\x04\x01").err(), value("the version"));
    assert_eq!(whole!(Login<'_>, b"\x05").err(), value("the version"));
    let reserved = whole!(Request, b"\x05\x01\x01").err();
    assert_eq!(reserved, value("the reserved octet"));
    let kind = whole!(Request, b"\x05\x01\x00\x02").err();
    assert_eq!(kind, value("the address type"));
    for name in [&b"\x00"[..], b"\x03a b", b"\x02a\n", b"\x02\xc3\xa9"] {
        let octets = [b"\x05\x01\x00\x03", name, b"\x00\x50"].concat();
        assert_eq!(
            whole!(Request, &octets).err(),
            value("the name"),
            "{name:?}"
        );
    }
    for login in [&b"\x01\x00\x04pass"[..], b"\x01\x04user\x00"] {
        let refused = whole!(Login<'_>, login).err();
        assert!(matches!(refused, Some(Malformed::Length(_))), "{login:?}");
    }
}

#[test]
fn unknown_numbers_are_kept_and_answers_have_their_form() {
    let request = whole!(Request, b"\x05\x7f\x00\x01\x01\x02\x03\x04\x00\x07").expect("one");
    assert_eq!(request.command, Command::Other(0x7f));
    let greeting = whole!(Greeting, b"\x05\x01\x80").expect("one");
    assert_eq!(greeting.methods, [Method::Other(0x80)]);
    assert_eq!(Method::Refused.to_vec(), [5, 255]);
    assert_eq!(Login::answer(true), [1, 0]);
    assert_eq!(Login::answer(false), [1, 1]);
    let bound: SocketAddr = "10.0.0.1:4660".parse().expect("an address");
    let answer = Outcome::ConnectionRefused.answer(bound);
    assert_eq!(answer, [5, 5, 0, 1, 10, 0, 0, 1, 0x12, 0x34]);
}
