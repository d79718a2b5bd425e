//! The frames of joining and key agreement have the sizes that the lab's catalogue says.

use wire::ieee80211::{Header, control};

use super::air::*;
use crate::link::wireless::handshake::Akm;
use crate::link::wireless::*;
use crate::time::Duration;

macro_rules! exchange {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../python/caravan/catalogue/exchanges/",
            $name,
            ".toml"
        ))
    };
}

/// Octets of the messages of a station, then of those of its access point, each in order. Both ends
/// of SAE send at once, so that the order between them says nothing.
type Sizes = [Vec<usize>; 2];

/// What an exchange of the catalogue says.
fn said(text: &str) -> Sizes {
    ["node", "peer"].map(|who| {
        let messages = text.split("[[message]]").skip(1);
        let theirs = messages.filter(|it| it.contains(&format!("from = \"{who}\"")));
        let sizes = theirs.map(|it| {
            let bytes = it.lines().find_map(|line| line.strip_prefix("bytes = "));
            bytes.expect("a size").parse().expect("a number")
        });
        sizes.collect()
    })
}

/// What one station that joins and its access point send: to the association, and then.
fn sent(security: &Security) -> [Sizes; 2] {
    let mut air = Air::of(security);
    air.stations.truncate(1);
    air.run(Duration::from_secs(1));
    assert_eq!(air.failures(), []);
    [false, true].map(|is_handshake| {
        [STATION, AP].map(|from| {
            let frames = air.carried.iter().filter(|frame| {
                let (header, _) = Header::parse(frame).expect("a frame");
                let kind = header.control & control::KIND;
                let is_probe = matches!(kind, control::PROBE_REQUEST | control::PROBE_RESPONSE);
                header.transmitter == from && !is_probe && header.is_management() != is_handshake
            });
            frames.map(Vec::len).collect()
        })
    })
}

#[test]
fn joining_has_the_sizes_of_the_catalogue() {
    use LinkCipher::Ccmp128;
    let psk = rsn(Akm::Psk, Ccmp128, master(1));
    let sae = |is_hash_to_element| rsn(Akm::Sae, Ccmp128, password(b"mellon", is_hash_to_element));
    let owe = rsn(Akm::Owe, Ccmp128, Credential::None);
    for (security, text) in [
        (Security::Open, exchange!("wifi-open")),
        (psk, exchange!("wifi-rsn")),
        (sae(false), exchange!("wifi-sae")),
        (sae(true), exchange!("wifi-sae")),
        (owe, exchange!("wifi-owe")),
    ] {
        let [joining, _] = sent(&security);
        assert_eq!(joining, said(text), "{text}");
    }
}

#[test]
fn the_handshake_has_the_sizes_of_the_catalogue() {
    use LinkCipher::{Ccmp128, Gcmp256, Tkip};
    let psk = |cipher| rsn(Akm::Psk, cipher, master(1));
    let [station, access_point] = said(exchange!("wifi-four-way"));
    assert_eq!([&station, &access_point], [&[153, 131], &[131, 187]]);
    let sae = rsn(Akm::Sae, Ccmp128, password(b"mellon", true));
    let owe = rsn(Akm::Owe, Ccmp128, Credential::None);
    // A group key of 16 octets more; the same without AES key wrap; the name of the master key.
    for (security, expected) in [
        (psk(Ccmp128), [131, 187]),
        (psk(Gcmp256), [131, 203]),
        (psk(Tkip), [131, 193]),
        (sae, [153, 187]),
        (owe, [153, 187]),
    ] {
        let [_, handshake] = sent(&security);
        assert_eq!(handshake, [station.clone(), expected.to_vec()]);
    }
}
