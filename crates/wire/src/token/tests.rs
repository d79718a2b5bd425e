use super::*;

const HANDLE: [u8; LABEL_LEN] = *b"0123456789abcdef";

fn token(label: &str) -> Token {
    Token {
        label: label.into(),
        serial: "7e3f".into(),
    }
}

#[test]
fn every_message_is_read_as_it_was_written_and_none_of_its_beginnings_is() {
    let asks = [
        Ask::List,
        Ask::Open("work".into()),
        Ask::Make(HANDLE),
        Ask::Find(HANDLE),
        Ask::Sign(HANDLE, b"octets".to_vec()),
        Ask::Destroy(HANDLE),
    ];
    for ask in asks {
        let octets = ask.to_vec().expect("within its limits");
        let (message, len) = cut(&octets).expect("whole").expect("whole");
        assert_eq!(len, octets.len());
        assert_eq!(Ask::parse(message), Ok(ask.clone()));
        for end in 0..octets.len() {
            assert_eq!(cut(&octets[..end]), Ok(None), "{ask:?}");
        }
        let is_open_ended = matches!(ask, Ask::Sign(..));
        for end in 0..message.len() {
            let is_read = Ask::parse(&message[..end]).is_ok();
            assert!(
                !is_read || is_open_ended && end > LABEL_LEN,
                "{ask:?} {end}"
            );
        }
    }
    let says = [
        Say::Tokens(vec![token("work"), token("another")]),
        Say::Open,
        Say::Public([7; PUBLIC_LEN]),
        Say::Signature([9; SIGNATURE_LEN]),
        Say::Refused(Refusal::PinLocked),
        Say::Refused(Refusal::Other(200)),
        Say::Removed,
        Say::Destroyed,
    ];
    for say in says {
        let octets = say.to_vec().expect("within its limits");
        let (message, _) = cut(&octets).expect("whole").expect("whole");
        assert_eq!(Say::parse(message), Ok(say.clone()));
        for end in 0..message.len() {
            assert!(Say::parse(&message[..end]).is_err(), "{say:?} {end}");
        }
        let longer = [message, &[0]].concat();
        assert_eq!(Say::parse(&longer), Err(Malformed::Trailing("an answer")));
    }
}

#[test]
fn limits_hold_in_both_directions() {
    let longest = Ask::Sign(HANDLE, vec![0; SIGNED_MAX]).to_vec();
    assert_eq!(longest.map(|octets| octets.len()), Some(MESSAGE_MAX));
    assert_eq!(Ask::Sign(HANDLE, vec![0; SIGNED_MAX + 1]).to_vec(), None);
    assert_eq!(Ask::Open("x".repeat(33)).to_vec(), None);
    assert_eq!(Say::Tokens(vec![token("x"); TOKENS_MAX + 1]).to_vec(), None);
    assert_eq!(Say::Tokens(vec![token("two\nlines")]).to_vec(), None);
    let long = (MESSAGE_MAX as u16 - 1).to_be_bytes();
    assert_eq!(cut(&long), Err(Malformed::Length("a message")));
    assert_eq!(cut(&[0, 0]), Err(Malformed::Length("a message")));
    assert_eq!(
        Ask::parse(b"\x02\x01\x1b"),
        Err(Malformed::Value("the label"))
    );
    assert_eq!(Say::parse(b"\x01\xff"), Err(Malformed::TooMany("tokens")));
    assert_eq!(Ask::parse(b"\x63"), Err(Malformed::Value("the kind")));
}
