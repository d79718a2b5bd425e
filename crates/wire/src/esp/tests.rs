use proptest::prelude::*;

use super::*;

#[test]
fn header_reads_back() {
    let mut packet = [9; 10];
    write_header(&mut packet, 0x0102_0304, 0xfffe_fdfc);
    assert_eq!(packet, [1, 2, 3, 4, 0xff, 0xfe, 0xfd, 0xfc, 9, 9]);
    let esp = Esp::new(&packet[..]).unwrap();
    assert_eq!(
        (esp.spi(), esp.sequence(), esp.body()),
        (0x0102_0304, 0xfffe_fdfc, &[9, 9][..])
    );
    for len in 0..HEADER_LEN {
        assert!(Esp::new(&packet[..len]).is_err());
    }
}

#[test]
fn port_4500_carries_three_things() {
    assert_eq!(UdpPayload::classify(&[0xff]), Ok(UdpPayload::Keepalive));
    assert_eq!(
        UdpPayload::classify(&[0, 0, 0, 0, 7]),
        Ok(UdpPayload::Ike(&[7]))
    );
    let esp = [0, 0, 1, 0, 0, 0, 0, 1];
    assert_eq!(UdpPayload::classify(&esp), Ok(UdpPayload::Esp(&esp)));
    for bad in [&[][..], &[0xff, 0xff], &[0, 0, 0], &[0xfe], &esp[..7]] {
        assert!(UdpPayload::classify(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn padding_counts_from_one() {
    let mut clear = [0xaa; 16];
    assert_eq!(write_trailer(&mut clear, 9, 16, 4), 16);
    assert_eq!(clear[9..], [1, 2, 3, 4, 5, 5, 4]);
    let whole = Trailer {
        payload_len: 9,
        next_header: 4,
    };
    assert_eq!(read_trailer(&clear), Ok(whole));
    for at in 9..14 {
        let mut wrong = clear;
        wrong[at] ^= 1;
        assert_eq!(read_trailer(&wrong), Err(Malformed::Value("ESP padding")));
    }
    assert_eq!(read_trailer(&[1]), Err(Malformed::Truncated("ESP trailer")));
    assert_eq!(
        read_trailer(&[1, 2, 4]),
        Err(Malformed::Length("ESP padding"))
    );
    assert_eq!(
        read_trailer(&[1, 3, 4]),
        Err(Malformed::Length("ESP padding"))
    );
    assert_eq!(
        read_trailer(&[0, 4]),
        Ok(Trailer {
            payload_len: 0,
            next_header: 4
        })
    );
}

proptest! {
    #[test]
    fn trailer_reads_back(
        payload in prop::collection::vec(any::<u8>(), 0..100),
        alignment in 1..=256usize,
        next_header: u8,
    ) {
        let mut clear = payload.clone();
        clear.resize(payload.len() + 258, 0);
        let len = write_trailer(&mut clear, payload.len(), alignment, next_header);
        prop_assert_eq!(len % alignment, 0);
        prop_assert_eq!(len, payload.len() + padding_len(payload.len(), alignment) + TRAILER_LEN);
        let trailer = Trailer { payload_len: payload.len(), next_header };
        prop_assert_eq!(read_trailer(&clear[..len]), Ok(trailer));
        prop_assert_eq!(&clear[..payload.len()], payload);
    }

    #[test]
    fn arbitrary_octets_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = UdpPayload::classify(&bytes);
        if let Ok(trailer) = read_trailer(&bytes) {
            let mut again = bytes.clone();
            let padding_len = bytes.len() - TRAILER_LEN - trailer.payload_len;
            if padding_len == padding_len % 4 && bytes.len() % 4 == 0 {
                write_trailer(&mut again, trailer.payload_len, 4, trailer.next_header);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
