//! The virtio-net header: it rewrites equal, and a header that checks out completes a checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::ip::Sum;
use wire::vnet::{LEN, LEN_WITH_BUFFERS, VnetHeader};

fuzz_target!(|input: &[u8]| {
    for len in [LEN, LEN_WITH_BUFFERS] {
        let Ok((header, packet)) = VnetHeader::split(input, len) else {
            return;
        };
        let mut again = vec![0; len];
        header.write(&mut again);
        assert_eq!(again, input[..len]);

        let mut completed = packet.to_vec();
        let done = header.complete_checksum(&mut completed);
        if header.check(packet.len()).is_err() {
            continue;
        }
        assert_eq!(done, Ok(()));
        if !header.needs_checksum() {
            assert_eq!(completed, packet);
        } else if header.csum_offset % 2 == 0 {
            // The new sum equals the former field: the pseudo-header's sum.
            let start = usize::from(header.csum_start);
            let at = start + usize::from(header.csum_offset);
            let pseudo = u16::from_be_bytes([packet[at], packet[at + 1]]);
            let sum = Sum::new().bytes(&completed[start..]).word(pseudo).folded();
            assert_eq!(sum, 0xffff);
        }
    }
});
