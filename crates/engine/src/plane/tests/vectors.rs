//! Published packets are opened. Their authors chose the IVs, so they cannot be sealed again.

use super::support::*;
use crate::esp;
use crate::sa::{Ipsec, Keys, Layer, Mode, Sa, Secret};
use crypto::cipher::Cipher;
use crypto::packet::{Encryption, Integrity, PacketKey, Protection};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16))
        .collect::<Result<_, _>>()
        .expect("digits")
}

/// RFC 7634 appendix A: an ICMP echo in tunnel mode.
#[test]
fn chacha20_poly1305_opens_the_packet_of_rfc_7634() {
    let protection = Protection {
        encryption: Encryption::ChaCha20Poly1305,
        integrity: Integrity::None,
    };
    let sa = Sa {
        layer: Layer::Ipsec(Ipsec {
            spi: 0x0102_0304,
            keys: Keys {
                encryption: Secret((0x80..=0xa3).collect()),
                ..layer(protection).keys
            },
            ..layer(protection)
        }),
        local: vec![within("198.51.100.5", "198.51.100.5")],
        remote: vec![within("192.0.2.5", "192.0.2.5")],
        ..tunnel_sa(protection)
    };
    let mut pair = Pair::new(sa);
    let bytes = hex("01020304 00000005 1011121314151617
         24039428b97f417e3c13753a4f05087b67c352e6a7fab1b982d466ef407ae5c6
         14ee8099d52844eb61aa95dfab4c02f72aa71e7c4c4f64c9befe2facc638e8f3
         cbec163fac469b502773f6fb94e664da9165b82829f641e0
         76aaa8266b7fb0f7b11b369907e1ad43");
    let path = path("198.51.100.1", "203.0.113.1");
    let sent = Sent {
        path,
        traffic_class: 0,
        bytes,
    };
    let mut want = hex("45000054a6f200004001e778c6336405c0000205
         08005b7a3a080000553bec1000073627");
    want.extend(0x08..=0x37);
    want.truncate(0x54);
    assert_eq!(pair.open(&[sent]), [plain(&want)]);
}

/// RFC 3602 §4 case 5: an ICMP echo in transport mode.
#[test]
fn aes_cbc_opens_the_packet_of_rfc_3602() {
    let protection = Protection {
        encryption: Encryption::Cbc(Cipher::Aes128),
        integrity: Integrity::None,
    };
    let path = raw_path("192.168.123.3", "192.168.123.100");
    let sa = Sa {
        layer: Layer::Ipsec(Ipsec {
            spi: 0x4321,
            keys: Keys {
                encryption: Secret(hex("90d382b410eeba7ad938c46cec1a82bf")),
                ..layer(protection).keys
            },
            ..layer(protection)
        }),
        mode: Mode::Transport,
        path,
        local: vec![within("192.168.123.3", "192.168.123.3")],
        remote: vec![within("192.168.123.100", "192.168.123.100")],
        ..tunnel_sa(protection)
    };
    let mut pair = Pair::new(sa);
    let bytes = hex("4500007c08f200004032f9a5c0a87b03c0a87b64 00004321 00000001
         e96e8c08ab465763fd098d45dd3ff893
         f663c25d325c18c6a9453e194e120849a4870b66cc6b9965330013b4898dc856
         a4699e523a55db080b59ec3a8e4b7e52775b07d1db34ed9c538ab50c551b874a
         a269add047ad2d5913ac19b7cfbad4a6");
    let sent = Sent {
        path,
        traffic_class: 0,
        bytes,
    };
    let mut want = hex("4500005408f200004001f9fec0a87b03c0a87b64
         08000ebda70a00008e9c083db95b0700");
    want.extend(0x08..=0x37);
    assert_eq!(pair.open(&[sent]), [plain(&want)]);
}

/// draft-mcgrew-gcm-test-01, the first case: AES-128-GCM with an ESN whose upper half is 87654321.
#[test]
fn aes_gcm_opens_a_packet_with_extended_sequence_number() {
    let protection = AES_GCM;
    let key = hex("4c80cdefbb5d10da906ac73c3613a634 2e443b68");
    let key = PacketKey::new(protection, &key, &[]);
    let mut packet = hex("00004321 00000000 4956ed7e3b244cfe
         fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34
         cfa2436f14a3f3cf65925bf1f4a13c5d15b21e1884f5ff6247aeabb786b93bce
         61bc17d768fd9732459018148f6cbe722fd04796562dfdb4");
    let opened = esp::open(&key, &mut packet, Some(0x8765_4321));
    let text = opened.expect("a right ICV");
    let (clear, next_header) = esp::strip(&packet, text).expect("a right trailer");
    assert_eq!(next_header, 1);
    let want = "45000048699a000080114db7c0a80102c0a801010a9bf15638d30100";
    assert_eq!(packet[clear][..28], hex(want));
}
