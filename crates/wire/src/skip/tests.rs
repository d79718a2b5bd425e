use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::codec::{Malformed, Writer};
use crate::ip::protocol;

const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);

fn des_md5() -> Algorithms {
    algorithms(KijAlg::TripleDes, CryptAlg::Des, MacAlg::Md5)
}

fn algorithms(kij: KijAlg, crypt: CryptAlg, mac: MacAlg) -> Algorithms {
    Algorithms::new(kij, crypt, mac).unwrap()
}

fn header<'a>(source: Name, destination: Name, key: &'a [u8]) -> SkipHeader<'a> {
    SkipHeader {
        source,
        destination,
        next_header: protocol::AH,
        n: 0x0001_0203,
        algorithms: des_md5(),
        encrypted_key: key,
    }
}

/// The layout of draft-ietf-ipsec-skip-06 §2, spelled out by hand.
#[test]
fn a_header_is_laid_out_as_in_the_draft() {
    let key: Vec<u8> = (0..16).collect();
    let header = header(Name::ipv4(HOME), Name::NONE, &key);
    let mut w = Writer::new();
    header.write(&mut w);
    let mut expected = vec![0x10, 1, 0, 51, 0, 1, 2, 3, 2, 1, 1, 0];
    expected.extend(&key);
    expected.extend([10, 18, 3, 17]);
    assert_eq!(w.as_slice(), expected);
    expected.extend([0xff; 3]);
    assert_eq!(SkipHeader::parse(&expected), Ok((header, 32)));
}

/// The paper's 60 octets need two identifiers of 16; its own setting, NSID 1 and 0, needs 32.
#[test]
fn the_header_of_each_pair_of_name_spaces_has_its_size() {
    let len = |source, destination| SkipHeader::header_len(des_md5(), source, destination);
    assert_eq!(len(Nsid::Md5PublicValue, Nsid::Md5PublicValue), 60);
    assert_eq!(len(Nsid::Ipv4, Nsid::None), 32);
    assert_eq!(len(Nsid::Md5PublicValue, Nsid::None), 44);
    assert_eq!(len(Nsid::Ipv4, Nsid::Ipv4), 36);
    assert_eq!(len(Nsid::None, Nsid::None), 28);
    let triple = algorithms(KijAlg::TripleDes, CryptAlg::TripleDes, MacAlg::Md5);
    let triple_len = SkipHeader::header_len(triple, Nsid::None, Nsid::None);
    assert_eq!(triple_len, 36);
    // Keyed SHA's key of 20 octets fills blocks of 8; HKDF's field is a salt.
    let sha = algorithms(KijAlg::TripleDes, CryptAlg::Des, MacAlg::Sha);
    assert_eq!((sha.packet_key_len(), sha.field_len()), (20, 24));
    let hkdf = Algorithms::HKDF_AES_GCM_SIV;
    assert_eq!((hkdf.packet_key_len(), hkdf.field_len()), (32, 16));
}

#[test]
fn unknown_algorithms_versions_and_name_spaces_are_refused() {
    let key = [0; 16];
    let mut w = Writer::new();
    header(Name::ipv4(HOME), Name::NONE, &key).write(&mut w);
    let good = w.into_vec();
    let refused = |at: usize, value: u8| {
        let mut bad = good.clone();
        bad[at] = value;
        SkipHeader::parse(&bad).unwrap_err()
    };
    assert_eq!(refused(0, 0x20), Malformed::Value("SKIP version"));
    assert_eq!(refused(1, 12), Malformed::Value("NSID"));
    assert_eq!(refused(2, 255), Malformed::Value("NSID"));
    assert_eq!(refused(8, 3), Malformed::Value("Kij algorithm"));
    assert_eq!(refused(9, 3), Malformed::Value("crypt algorithm"));
    assert_eq!(refused(10, 4), Malformed::Value("MAC algorithm"));
    assert_eq!(refused(11, 1), Malformed::Value("compression algorithm"));
    for end in 0..good.len() {
        assert!(SkipHeader::parse(&good[..end]).is_err(), "{end}");
    }
    // Neither encrypted nor authenticated, or half of what goes together.
    let numbers = |numbers: [u8; 3]| {
        let mut packet = good.clone();
        packet[8..11].copy_from_slice(&numbers);
        SkipHeader::parse(&packet).map(|(header, _)| header.algorithms)
    };
    for apart in [
        [2, 0, 0],
        [252, 1, 1],
        [2, 252, 1],
        [2, 1, 252],
        [252, 252, 0],
    ] {
        let refused = Malformed::Value("choice of algorithms");
        assert_eq!(numbers(apart), Err(refused), "{apart:?}");
    }
    assert_eq!(numbers([252; 3]), Ok(Algorithms::HKDF_AES_GCM_SIV));
    let mac = algorithms(KijAlg::Des, CryptAlg::None, MacAlg::DesCbc);
    assert_eq!(numbers([1, 0, 2]), Ok(mac));
    // The reserved low half of the first octet is ignored.
    let mut reserved = good.clone();
    reserved[0] = 0x1f;
    assert!(SkipHeader::parse(&reserved).is_ok());
}

#[test]
fn names_are_shown_as_in_the_paper() {
    assert_eq!(Name::ipv4(HOME).to_string(), "1/10.18.3.17");
    assert_eq!(Name::NONE.to_string(), "0/na");
    let hash = Name::new(Nsid::Md5PublicValue, &[0xab; 16]).unwrap();
    assert_eq!(hash.to_string(), format!("8/{}", "ab".repeat(16)));
    assert_eq!(Name::new(Nsid::Ipv4, &[1, 2, 3]), None);
}

#[test]
fn a_name_is_read_as_it_is_shown() {
    let names = [
        Name::NONE,
        Name::ipv4(HOME),
        Name::new(Nsid::Mac, &[2, 0, 0, 0, 0xab, 1]).unwrap(),
        Name::new(Nsid::Md5PublicValue, &[0x5c; 16]).unwrap(),
    ];
    for name in names {
        assert_eq!(name.to_string().parse(), Ok(name));
    }
    assert_eq!("0".parse(), Ok(Name::NONE));
    for text in [
        "",
        "1",
        "1/10.0.0",
        "7/0200",
        "12/00",
        "2/0000000g",
        "0/00",
        "1/10.0.0.1/8",
    ] {
        assert_eq!(text.parse::<Name>(), Err(NotAName), "{text:?}");
    }
}

#[test]
fn ah_of_1995_has_no_sequence_number() {
    let mut packet = [0xff; 30];
    let len = OldAh::write(&mut packet, protocol::ESP, 16);
    assert_eq!(packet[..8], [50, 4, 0, 0, 0, 0, 0, 1]);
    assert_eq!(len, 24);
    let ah = OldAh::parse(&packet, 16).unwrap();
    assert_eq!(
        (ah.next_header, ah.data, ah.payload),
        (50, &[0; 16][..], &[0xff; 6][..])
    );
    assert_eq!(OldAh::parse(&packet, 20), Err(Malformed::Length("AH")));
    packet[7] = 2;
    let wrong = OldAh::parse(&packet, 16);
    assert_eq!(wrong, Err(Malformed::Value("SPI below SKIP")));
    assert!(OldAh::parse(&packet[..23], 16).is_err());
}

#[test]
fn esp_of_1995_holds_whole_blocks() {
    let packet = [0, 0, 0, 1, 9, 9, 9, 9, 1, 2, 3, 4, 5, 6, 7, 8];
    let esp = OldEsp::parse(&packet, 4, 8).unwrap();
    assert_eq!((esp.iv, esp.ciphertext.len()), (&[9; 4][..], 8));
    assert!(OldEsp::parse(&packet, 8, 8).is_err());
    assert!(OldEsp::parse(&packet[..8], 4, 8).is_err());
    assert_eq!(OldEsp::trailer(&[7, 0, 0, 2, 4]), Ok((1, 4)));
    assert_eq!(OldEsp::trailer(&[0, 4]), Ok((0, 4)));
    assert!(OldEsp::trailer(&[1, 4]).is_err());
    assert!(OldEsp::trailer(&[4]).is_err());
}

proptest! {
    #[test]
    fn padding_makes_whole_blocks(payload in 0..2_000usize) {
        prop_assert_eq!((payload + padding(payload, 8)) % 8, 6);
        prop_assert!(padding(payload, 8) < 8);
        prop_assert_eq!(padding(payload, 1), 0);
    }

    #[test]
    fn a_header_that_reads_is_written_again(mut packet in vec(any::<u8>(), 0..120), fix: bool) {
        if fix && packet.len() > 12 {
            packet[0] = 0x10;
            packet[1] %= 12;
            packet[2] %= 12;
            packet[8] = 1 + packet[8] % 2;
            packet[9] %= 3;
            packet[10] %= 2;
            packet[11] = 0;
        }
        if let Ok((header, len)) = SkipHeader::parse(&packet) {
            prop_assert!(len <= MAX_LEN);
            let mut w = Writer::new();
            header.write(&mut w);
            let mut expected = packet[..len].to_vec();
            expected[0] &= 0xf0;
            prop_assert_eq!(w.into_vec(), expected);
        }
    }
}
