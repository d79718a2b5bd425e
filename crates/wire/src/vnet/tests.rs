use proptest::prelude::*;

use super::*;
use crate::ip::protocol;

#[test]
fn header_has_the_layout_of_virtio() {
    // Linux gives this for a 3-segment TCP super-packet: NEEDS_CSUM, TCPV4 with ECN.
    let octets = [1, 0x81, 66, 0, 0xa8, 5, 34, 0, 16, 0, 0, 0, 0x45];
    let header = VnetHeader {
        flags: flags::NEEDS_CSUM,
        gso: Gso::TcpV4,
        has_ecn: true,
        hdr_len: 66,
        gso_size: 1448,
        csum_start: 34,
        csum_offset: 16,
        num_buffers: 0,
    };
    assert_eq!(
        VnetHeader::split(&octets, LEN_WITH_BUFFERS),
        Ok((header, &[0x45][..]))
    );
    assert_eq!(
        VnetHeader::split(&octets, LEN),
        Ok((header, &[0, 0, 0x45][..]))
    );
    let mut out = [9; LEN_WITH_BUFFERS];
    header.write(&mut out);
    assert_eq!(out, octets[..12]);
    for len in [LEN, LEN_WITH_BUFFERS] {
        for cut in 0..len {
            assert!(VnetHeader::split(&octets[..cut], len).is_err());
        }
    }
    assert_eq!(header.check(66), Ok(()));
    assert!(header.check(65).is_err());
    assert!(
        VnetHeader {
            gso_size: 0,
            ..header
        }
        .check(66)
        .is_err()
    );
    assert!(
        VnetHeader {
            csum_start: 49,
            ..header
        }
        .check(66)
        .is_err()
    );
    assert!(
        VnetHeader {
            csum_start: 0xffff,
            csum_offset: 0xffff,
            ..header
        }
        .check(66)
        .is_err()
    );
}

proptest! {
    #[test]
    fn what_is_written_reads_back(octets: [u8; 12]) {
        for len in [LEN, LEN_WITH_BUFFERS] {
            let (header, _) = VnetHeader::split(&octets, len).unwrap();
            let mut out = vec![0; len];
            header.write(&mut out);
            prop_assert_eq!(&out[..], &octets[..len]);
        }
    }

    #[test]
    fn completed_checksum_is_the_one_over_everything(
        source: [u8; 4],
        destination: [u8; 4],
        mut packet in prop::collection::vec(any::<u8>(), 20 + 20..200),
    ) {
        let (source, destination) = (source.into(), destination.into());
        let pseudo = Sum::pseudo_header(source, destination, protocol::TCP, packet.len() - 20);
        put16(&mut packet, 20 + 16, pseudo.folded());
        let header = VnetHeader {
            flags: flags::NEEDS_CSUM,
            csum_start: 20,
            csum_offset: 16,
            ..VnetHeader::default()
        };
        header.complete_checksum(&mut packet).unwrap();
        prop_assert_eq!(pseudo.bytes(&packet[20..]).finish(), 0);
    }

    #[test]
    fn arbitrary_headers_never_panic(octets: [u8; 12], mut packet: Vec<u8>) {
        let (header, _) = VnetHeader::split(&octets, LEN).unwrap();
        let is_good = header.check(packet.len()).is_ok();
        let done = header.complete_checksum(&mut packet);
        prop_assert!(!is_good || done.is_ok());
    }
}
