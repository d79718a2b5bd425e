//! ISAKMP: a message that can be read is rewritten to bytes that read equal, and its ranges tile
//! the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::isakmp::{Header, Payload, payloads, write_payloads};

fuzz_target!(|datagram: &[u8]| {
    let Ok((header, body)) = Header::parse(datagram) else {
        return;
    };
    assert_eq!(header.write(body), datagram);
    let Ok(located) = payloads(header.next_payload, body) else {
        return;
    };
    let mut end = 0;
    for one in &located {
        assert_eq!(one.range.start, end);
        end = one.range.end;
        if let Payload::Identification(id) = &one.payload {
            assert!(id.to_range().is_none_or(|(first, last)| first <= last));
            assert!(!id.to_string().contains('\n'));
        }
    }
    assert!(end <= body.len());
    let read: Vec<Payload> = located.into_iter().map(|one| one.payload).collect();
    let (first, written) = write_payloads(&read);
    assert!(written.len() <= end);
    let again = payloads(first, &written).expect("what we write reads");
    assert!(again.into_iter().map(|one| one.payload).eq(read));
});
