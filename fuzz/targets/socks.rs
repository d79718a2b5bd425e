//! SOCKS: what can be read of a stream is written again to the octets that it had; its beginnings
//! are unfinished, and what follows changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::codec::{Malformed, Reader};
use wire::socks::{Greeting, Login, MESSAGE_MAX, Request};

macro_rules! same {
    ($input:expr, $($message:ty),+) => {$({
        let mut reader = Reader::new($input);
        if let Ok(message) = <$message>::read(&mut reader) {
            let len = $input.len() - reader.len();
            assert!(len <= MESSAGE_MAX);
            let written: Option<Vec<u8>> = message.to_vec().into();
            assert_eq!(written.as_deref(), Some(&$input[..len]));
            for end in 0..len {
                let begun = <$message>::read(&mut Reader::new(&$input[..end])).err();
                assert!(matches!(begun, Some(Malformed::Truncated(_))), "{end}");
            }
        }
    })+};
}

fuzz_target!(|input: &[u8]| {
    same!(input, Greeting, Login<'_>, Request);
});
