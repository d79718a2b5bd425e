//! Published frames: header, cipher's header, data and MIC as one.

use wire::codec::Reader;
use wire::ieee80211::{Address, ExtendedIv, Header};

use super::super::protection::{Opener, Sealer, Sender};
use super::{LinkCipher, TemporalKey, hex, key};
use crate::counters::DropReason;

/// P802.11i/D7.0 annex I.7.4, the first also IEEE 802.11-2012 annex M.6.4: temporal key, header,
/// data, protected body. Later standards mask the order bit of data with quality of service, which
/// nobody here sets.
const CCMP: [[&str; 4]; 8] = [
    [
        "c97c1f67ce371185514a8a19f2bdd52f",
        "0848c32c0fd2e128a57c5030f1844408abaea5b8fcba8033",
        "f8ba1a55d02f85ae967bb62fb6cda8eb7e78a050",
        "0ce70020769703b5f3d0a2fe9a3dbf2342a643e43246e80c3c04d0197845ce0b16f97623",
    ],
    [
        "8f7a053fa577a5597529272097a603d5",
        "38c06a51ea100c846850eec1762c88deaf2ee9f46a07e0cc",
        "83a0634b5ed7627eb9df225e05740342de194117",
        "ea9700a0bacbf331814b6965d05bf2b2ed38d4beb069fe82714a610b542fbf8da06aa4ae",
    ],
    [
        "40cfb7a62e88013bd6d3affcc191041e",
        "b8c8dc61d9577df763c8b6a88adf3691dc4a8bca94dd60822085",
        "2c1bd036831c95496c5f4dbf3d559e72de802a18",
        "aea500a0f3a0dc2f89d8580340b626a0b6d4d013bf18f291b89646c8fd1f1f61a9fb4bb3",
    ],
    [
        "8c89a2ebc96c7602707fcf24b32d3833",
        "a8ca3a11712a9ddf11db8ef82273470159140dd646a2c02f67a5",
        "4fad2b1c290fa5ebd872fbc3f3a074898f8b2fbb",
        "e30f00205aa570f69d59b15f371448c230f4d739052e13ab3b1a7b1031fc88004f35ee3d",
    ],
    [
        "a574d5143bb25efddeff30122fdfd066",
        "88da184145dec69a7480f351946bc96be276fbe6c12780f24b19",
        "28969b954f263a8018a9ef70a8b051462481922e",
        "370e00a03ce0ffa7eb4ae4956a801da9624b7e0c18b23e615ec03af6ce0c3be197d305eb",
    ],
    [
        "f71eea4e1f58804b9717230ad0614641",
        "8852e11f5af28430fdabbff943b9f9a6ab1d98c7fe7350713d6a",
        "abfda22d3a0bfc9cc1fc079363c2fca143e6eb1d",
        "89890060a4ec816b9a709b60a39d40b1dfb612e18b5f114badb6cc86309a8d5c466bbb71",
    ],
    [
        "1bdb34980e038124a1db1a892bec366a",
        "187981469b50f4fd56f6efec9520169183570c4ccdee20a0",
        "98beca86f4b38da20cfdf24724c58eb835665339",
        "23e700e07340ec5e12c537ebf3ab584ef1fef9a1f3547a8c13b3225a2d0957ecfabe95b9",
    ],
    [
        "6eac1bf54bd54edb2321754303024c71",
        "b8d94c72552d5f72bb70ca3f3aae60c48ba9b5f82c2f50eb2a55",
        "57cb5c0e5fcd885e9a4239e9b9cad60d64375979",
        "ddcc00a06e99fdce4bf281ef8ec7739f91591b97a87dc14b3fa174626dba8ef7f08087dd",
    ],
];

#[test]
fn ccmp_is_as_published() {
    for [temporal, header, data, body] in CCMP {
        let key = key(LinkCipher::Ccmp128, &hex(temporal));
        holds(&key, &hex(header), &hex(data), &hex(body));
    }
}

/// IEEE P802.11ac/D7.0 annex M.11.1.
#[test]
fn gcmp_256_is_as_published() {
    let temporal = "c97c1f67ce371185514a8a19f2bdd52f000102030405060708090a0b0c0d0e0f";
    let header = "88480b000fd2e128a57c5030f18444085030f184440880330300";
    let data: Vec<u8> = (0..40).collect();
    let body = "082b00205f5f8900658343c8b14447d9211defd46ad89c710c6fc33333236e39\
        97b9176a5a8be779b21266555e70ad79114316859095473d5b1bd596b3dea3bf";
    let key = key(LinkCipher::Gcmp256, &hex(temporal));
    holds(&key, &hex(header), &data, &hex(body));
}

/// P802.11i/D7.0 annex I.7.3. From an access point, whose MIC key comes first.
#[test]
fn tkip_is_as_published() {
    let key = key(
        LinkCipher::Tkip,
        &hex("1234567890123456789012345678901234567890123456789012345678901234"),
    );
    let header = "08422c0002030405060802030405060702030405 0607d002";
    let data = "aaaa0300000008004500005400004000 4001a555c0a80a02c0a80a0108003ab0\
        00000000cd4c05000000000008090a0b0c0d0e0f101112131415161718191a1b\
        1c1d1e1f202122232425262728292a2b2c2d2e2f3031323334353637";
    let body = "0020012000000000c00e14fce7cfabc77547e666e57c0dac704a1e358a88c11c\
        8e2e282e3801027a4656055ee93e9c254702e9735805ddb5769ba73f1ebb56e8\
        44ef912285d3dd6e541e823873558adba079068abd7f7f50959675acc4b4de9a\
        a99c05f289a7c52fee5bfc14f6f8e5f8";
    holds(&key, &hex(header), &hex(data), &hex(body));
}

/// The sealer makes the body, the opener accepts it once, and nothing that is changed.
fn holds(key: &TemporalKey, header: &[u8], data: &[u8], body: &[u8]) {
    let (header, _) = Header::parse(header).unwrap();
    let iv = match key.cipher() {
        LinkCipher::Tkip => ExtendedIv::read_tkip(&mut Reader::new(body)),
        _ => ExtendedIv::read(&mut Reader::new(body)),
    };
    let iv = iv.unwrap();
    let sender = Sender {
        address: header.transmitter,
        is_authenticator: true,
        key_id: iv.key_id,
        last_number: iv.number - 1,
    };
    let mut made = vec![0; data.len() + key.cipher().overhead()];
    made[8..8 + data.len()].copy_from_slice(data);
    Sealer::new(key, sender).seal(&header, &mut made).unwrap();
    assert_eq!(made, body);

    let mut opener = Opener::new(key, sender);
    for at in 0..body.len() {
        // Without quality of service, the low bits of that octet have no meaning.
        let is_reserved = at == 2 && key.cipher() != LinkCipher::Tkip;
        if is_reserved || at == 3 || (at == 1 && key.cipher() == LinkCipher::Tkip) {
            continue;
        }
        let mut changed = body.to_vec();
        changed[at] ^= 1;
        assert!(opener.open(&header, &mut changed).is_err(), "{at}");
    }
    for end in 0..body.len() {
        let mut cut = body[..end].to_vec();
        assert!(opener.open(&header, &mut cut).is_err(), "{end}");
    }
    let elsewhere = Header {
        receiver: Address([9; 6]),
        third: Address([9; 6]),
        ..header
    };
    assert!(opener.open(&elsewhere, &mut body.to_vec()).is_err());
    let mut opened = body.to_vec();
    let clear = opener.open(&header, &mut opened).unwrap();
    assert_eq!(&opened[clear], data);
    let again = opener.open(&header, &mut body.to_vec());
    assert_eq!(again, Err(DropReason::Replayed));
}
