//! The pipe of `caravan-token`: a message that can be read is written again to the octets that it
//! had, in both directions; none is longer than its limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::token::{Ask, MESSAGE_MAX, Say, cut};

fuzz_target!(|input: &[u8]| {
    let mut rest = input;
    while let Ok(Some((message, len))) = cut(rest) {
        assert!((3..=MESSAGE_MAX).contains(&len) && message.len() + 2 == len);
        if let Ok(ask) = Ask::parse(message) {
            assert_eq!(ask.to_vec().as_deref(), Some(&rest[..len]));
        }
        if let Ok(say) = Say::parse(message) {
            assert_eq!(say.to_vec().as_deref(), Some(&rest[..len]));
        }
        for end in 0..len {
            assert_eq!(cut(&rest[..end]), Ok(None));
        }
        rest = &rest[len..];
    }
});
