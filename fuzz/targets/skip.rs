//! SKIP: a header that can be read is rewritten to the same bytes, apart from reserved bits; AH and
//! ESP of its time end within the packet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::codec::Writer;
use wire::skip::{MAX_LEN, OldAh, OldEsp, SkipHeader};

fuzz_target!(|packet: &[u8]| {
    if let Ok((header, len)) = SkipHeader::parse(packet) {
        assert!(len <= MAX_LEN);
        let mut w = Writer::new();
        header.write(&mut w);
        assert_eq!(w.as_slice()[1..], packet[1..len]);
        assert!(!header.source.to_string().contains('\n'));
    }
    for len in [16, 20] {
        if let Ok(ah) = OldAh::parse(packet, len) {
            assert_eq!(ah.payload.len() + len + 8, packet.len());
        }
    }
    if let Ok(esp) = OldEsp::parse(packet, 4, 8) {
        assert_eq!(esp.ciphertext.len() + 8, packet.len());
    }
    if let Ok((payload, _)) = OldEsp::trailer(packet) {
        assert!(payload + 2 <= packet.len());
    }
});
