use proptest::prelude::*;

use super::*;

/// What hostile names are made of: the signs of every format, and what looks like them.
const SIGNS: &str = "'\"`$(){}<>&;#\\/|%@=!?*~^,. \u{2018}\u{2019}\u{201a}\u{201b}\u{201c}\u{201d}\
                     aé漢\u{1f511}\u{202e}\u{200b}\u{2028}]]>--CDATA";
const NETWORKS: &[(&str, u8)] = &[("10.10.0.0", 24), ("fd00:1::", 64)];

fn profile(text: &str, proof: Proof, networks: &[(&str, u8)]) -> Profile {
    let text = Text::new("a text", text).unwrap();
    let networks = networks
        .iter()
        .map(|(net, bits)| (net.parse().unwrap(), *bits));
    Profile {
        name: Text("phone1".into()),
        gateway: text.clone(),
        gateway_id: text.clone(),
        networks: networks.collect(),
        authority: vec![0x30, 3, 2, 1, 5],
        authority_name: Some(text),
        proof,
    }
}

fn both(text: &str) -> [Proof; 2] {
    let text = Text::new("a text", text).unwrap();
    [
        Proof::Certificate {
            identity: text.clone(),
            file: vec![7; 100],
        },
        Proof::User(text),
    ]
}

/// The first file, as text.
fn first(profile: &Profile, device: Device) -> String {
    let (mut parts, _) = profile.render(device).unwrap();
    String::from_utf8(parts.remove(0).octets).unwrap()
}

/// The verbatim strings of a script, as PowerShell reads them; nothing else in it is a quote.
fn powershell_strings(script: &str) -> Vec<String> {
    let is_quote = |c: char| matches!(c, '\'' | '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}');
    let mut all = Vec::new();
    for line in script.lines().filter(|line| !line.starts_with('#')) {
        let mut signs = line.chars().peekable();
        while let Some(sign) = signs.next() {
            assert!(
                !matches!(sign, '"' | '`' | '\u{201c}' | '\u{201d}' | '\u{201e}'),
                "{line}"
            );
            if !is_quote(sign) {
                continue;
            }
            let mut text = String::new();
            loop {
                let sign = signs.next().expect("a string that ends in its line");
                if is_quote(sign) && signs.next_if(|next| is_quote(*next)).is_none() {
                    break;
                }
                text.push(sign);
            }
            all.push(text);
        }
    }
    all
}

proptest! {
    #[test]
    fn no_name_leaves_its_place(
        picks in prop::collection::vec(0..SIGNS.chars().count(), 1..40),
        is_full in any::<bool>(),
    ) {
        let signs: Vec<char> = SIGNS.chars().collect();
        let text: String = picks.into_iter().map(|at| signs[at]).collect();
        let networks = if is_full { &[][..] } else { NETWORKS };
        for proof in both(&text) {
            let is_user = matches!(proof, Proof::User(_));
            let profile = profile(&text, proof, networks);

            let read = plist::Value::from_reader_xml(first(&profile, Device::Apple).as_bytes());
            let read = read.unwrap();
            let content = read.as_dictionary().unwrap()["PayloadContent"].as_array().unwrap();
            let vpn = content.last().unwrap().as_dictionary().unwrap();
            let ikev2 = vpn["IKEv2"].as_dictionary().unwrap();
            let keys = ["RemoteAddress", "RemoteIdentifier", "LocalIdentifier"];
            for key in keys.into_iter().chain(["ServerCertificateIssuerCommonName"]) {
                prop_assert_eq!(ikev2[key].as_string(), Some(&text[..]));
            }
            prop_assert_eq!(ikev2.contains_key("AuthName"), is_user);
            prop_assert_eq!(vpn.contains_key("IPv4"), is_full);
            prop_assert_eq!(content.len(), if is_user { 2 } else { 3 });

            let read: serde_json::Value =
                serde_json::from_str(&first(&profile, Device::Strongswan)).unwrap();
            prop_assert_eq!(&read["remote"]["addr"], &text);
            let key = if is_user { "eap_id" } else { "id" };
            prop_assert_eq!(&read["local"][key], &text);
            prop_assert_eq!(read.get("split-tunneling").is_none(), is_full);

            let script = first(&profile, Device::Windows);
            let strings = powershell_strings(script.trim_start_matches('\u{feff}'));
            prop_assert_eq!(strings.iter().filter(|it| **it == text).count(), 2);
            prop_assert_eq!(strings.contains(&"10.10.0.0/24".to_owned()), !is_full);
            prop_assert_eq!(script.contains("-SplitTunneling"), !is_full);

            let page = first(&profile, Device::Android);
            prop_assert_eq!(page.matches('<').count(), page.matches('>').count());
            // Seven fields of two cells each.
            let cells = page.matches("<td>").count();
            prop_assert_eq!(cells, 14);
            prop_assert_eq!(page.matches("</td>").count(), cells);
        }
    }
}

#[test]
fn a_text_is_one_line_that_every_format_can_hold() {
    for good in [
        "sg.example",
        "Zoë & \"Söhne\" <1>",
        "\u{1f511}",
        &"x".repeat(MAX_TEXT),
    ] {
        assert!(Text::new("a text", good).is_ok(), "{good:?}");
    }
    for bad in [
        "",
        "two\nlines",
        "a\rb",
        "a\tb",
        "\0",
        "\u{85}",
        "\u{ffff}",
        "\u{fffe}",
    ] {
        assert!(Text::new("a text", bad).is_err(), "{bad:?}");
    }
    assert!(Text::new("a text", &"x".repeat(MAX_TEXT + 1)).is_err());
}

#[test]
fn a_uuid_stays_with_its_device_and_gateway() {
    let one = |gateway: &str, of: &str| {
        let [proof, _] = both("phone1");
        profile(gateway, proof, &[]).uuid(of)
    };
    let uuid = one("sg.example", "vpn");
    assert_eq!(uuid, one("sg.example", "vpn"));
    assert_ne!(uuid, one("sg2.example", "vpn"));
    assert_ne!(uuid, one("sg.example", "root"));
    let fields: Vec<usize> = uuid.split('-').map(str::len).collect();
    assert_eq!(fields, [8, 4, 4, 4, 12]);
    // RFC 9562 §4: version and variant.
    assert_eq!(&uuid[14..15], "8");
    assert!("89ab".contains(&uuid[19..20]));
}

#[test]
fn passwords_differ_and_have_a_hundred_bits() {
    let all: Vec<_> = (0..64).map(|_| password().unwrap()).collect();
    for (at, password) in all.iter().enumerate() {
        assert_eq!(password.len(), 23);
        assert!(
            password
                .split('-')
                .all(|group| group.len() == SIGNS_A_GROUP)
        );
        assert!(
            password
                .bytes()
                .all(|sign| sign == b'-' || super::SIGNS.contains(&sign))
        );
        assert!(all[..at].iter().all(|other| **other != **password));
    }
    let signs: std::collections::BTreeSet<u8> = super::SIGNS.iter().copied().collect();
    assert_eq!(signs.len(), 32);
}

#[test]
fn windows_gets_a_default_route_of_ipv6_in_two_halves() {
    let [proof, _] = both("x");
    let script = first(
        &profile("sg.example", proof, &[("0.0.0.0", 0), ("::", 0)]),
        Device::Windows,
    );
    let routes: Vec<&str> = script
        .lines()
        .filter(|it| it.starts_with("Add-VpnConnectionRoute"))
        .collect();
    assert_eq!(routes.len(), 2, "{script}");
    assert!(routes[0].contains("'::/1'") && routes[1].contains("'8000::/1'"));
    assert!(!script.contains("-SplitTunneling"));
}

#[test]
fn networks_of_a_profile_are_whole() {
    assert_eq!(
        prefix("10.10.0.0/24").unwrap(),
        ("10.10.0.0".parse().unwrap(), 24)
    );
    assert_eq!(
        prefix("fd00::1").unwrap(),
        ("fd00::1".parse().unwrap(), 128)
    );
    for other in [
        "10.10.0.0/24[tcp/80]",
        "10.0.0.1-10.0.0.9",
        "garbage",
        "dynamic",
    ] {
        assert!(prefix(other).is_err(), "{other}");
    }
}
