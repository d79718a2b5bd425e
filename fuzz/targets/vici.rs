//! vici: a packet that can be read is written again to the same octets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::vici::Packet;

fuzz_target!(|input: &[u8]| {
    if let Ok(packet) = Packet::parse(input) {
        assert_eq!(packet.to_vec().as_deref(), Ok(input));
    }
});
