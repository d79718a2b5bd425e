//! Tunnel agents: messages, bodies and lines of a sheet that can be read are written again to what
//! reads equal; a log that verifies is what was appended, up to a torn line.
#![no_main]

use engine::agent::chain;
use engine::agent::sheet::{Head, Key};
use libfuzzer_sys::fuzz_target;
use wire::agent::{Authorization, Inquiry, Message, Offer, Referral, Request, Response, Tunneling};

fuzz_target!(|input: &[u8]| {
    if let Ok(message) = Message::parse(input) {
        let written = match &message {
            Message::Sealed(sealed) => sealed.to_vec(),
            Message::Retry(retry) => retry.to_vec(),
        };
        assert_eq!(written, input);
    }
    macro_rules! same {
        ($($body:ident)+) => {$(
            if let Ok(body) = $body::parse(input) {
                assert_eq!(body.to_vec(), input);
            }
        )+};
    }
    same!(Request Referral Authorization Response Inquiry Offer);
    if let Ok(tunneling) = Tunneling::parse(input) {
        let written = tunneling.to_vec();
        assert_eq!(written.as_deref(), Ok(input));
    }
    let Ok(text) = core::str::from_utf8(input) else {
        return;
    };
    if let Ok(head) = text.parse::<Head>() {
        let line = head.to_line().expect("within its limits");
        assert_eq!(line.parse(), Ok(head));
    }
    if let Ok(key) = text.parse::<Key>() {
        let line = key.to_line();
        let again: Key = line.parse().expect("what we write reads");
        assert_eq!(*again.to_line(), *line);
    }
    let mut head = chain::Head::start("log");
    let mut log: Vec<u8> = text
        .split('\u{1f}')
        .flat_map(|text| head.append(text).into_bytes())
        .collect();
    let whole = log.len();
    log.extend(input.iter().filter(|octet| **octet != b'\n'));
    let read = chain::verify("log", &log, Some(head), None).expect("what was appended");
    assert_eq!((read.head, read.octets), (head, whole));
    let _ = chain::verify("log", input, None, None);
});
