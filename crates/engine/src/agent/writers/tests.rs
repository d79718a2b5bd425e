//! What every writer does. The languages themselves are checked by real programs and by grammars in
//! `python/tests/test_agent_texts.py`.

use crypto::cert::{Authority, Certificate, SigningKey};
use proptest::prelude::*;
use wire::agent::{Network, Tunneling};

use super::*;
use crate::agent::TunnelId;
use crate::agent::client::Tunnel;
use crate::agent::description::{
    Credential, Description, DescriptionFault, End, Inner, Key, Name, Ppk, Proposals, Side,
};
use crate::agent::ppk::TunnelPpk;
use crate::agent::target::SessionKey;
use crate::time::Duration;

fn name(text: &str) -> Name {
    Name::parse(text).expect("a name")
}

/// Suites that the old implementations have, and the new ones.
fn proposals() -> Proposals {
    let words = [
        "ike-aes128-sha256-modp2048",
        "ike-3des-md5-modp1024",
        "aes128gcm16",
        "aes128-sha256",
        "3des-md5",
        "ah-sha256",
        "ah-md5",
    ];
    Proposals::read(&words.map(str::to_owned), IkeVersion::V1, true).expect("suites")
}

fn authority(subject: &str) -> Vec<u8> {
    let key = SigningKey::generate(2048).expect("a key");
    let made = Authority::create(subject, key, &[1], 1_795_000_000, 10).expect("an authority");
    let all = Certificate::all_from_pem(made.certificate_pem()).expect("a certificate");
    all[0].der().to_vec()
}

fn description(side: Side, option: SecurityOption, credential: Credential) -> Description {
    let [client, target] = [
        ("198.51.100.7", "alice@host.example"),
        ("192.0.2.1", "gw.example"),
    ]
    .map(|(address, identity)| End {
        addresses: vec![address.parse().expect("an address")],
        identity: name(identity),
    });
    let (local, remote) = match side {
        Side::Client => (client, target),
        Side::Target => (target, client),
    };
    Description {
        tunnel: TunnelId([7; 16]),
        side,
        option,
        local,
        remote,
        credential,
        ike: IkeVersion::V1,
        ppk: None,
        proposals: proposals(),
        networks: ["10.10.0.0", "10.20.0.0"]
            .map(|address| Network {
                address: address.parse().expect("an address"),
                prefix_len: 16,
            })
            .to_vec(),
        inner: match side {
            Side::Client => Inner::Asked,
            Side::Target => Inner::Lent("10.99.0.7".parse().expect("an address")),
        },
        lifetime: Duration::from_secs(600),
        legacy: true,
    }
}

fn shared() -> Credential {
    Credential::PresharedKey(SessionKey([0xab; 32]))
}

fn certificates(peer: Vec<u8>) -> Credential {
    Credential::Certificates {
        chain: vec![peer.clone()],
        key: Key(vec![1, 2, 3]),
        peer: vec![peer],
    }
}

const SIDES: [Side; 2] = [Side::Client, Side::Target];

#[test]
fn each_writer_constructs_and_destroys_what_its_implementation_can_do() {
    let credentials = [shared(), certificates(authority("CN=Example CA"))];
    for kind in Kind::ALL {
        for (side, option) in pairs() {
            for (at, credential) in credentials.iter().enumerate() {
                let it = description(side, option, credential.clone());
                let is_manual = matches!(kind, Kind::Xfrm | Kind::Setkey);
                let needs_key = is_manual && at == 1 && option != SecurityOption::Native;
                match write(kind, &it) {
                    Ok(texts) => {
                        assert!(kind.options().has(option) && !needs_key);
                        check(&texts, &it);
                    }
                    Err(WriteFault::Option { .. }) => assert!(!kind.options().has(option)),
                    Err(WriteFault::Needs { .. }) => assert!(needs_key, "{kind:?} {option}"),
                    Err(fault) => panic!("{kind:?} {side:?} {option}: {fault}"),
                }
            }
        }
    }
}

/// IKEv2 with a PPK: who has it writes it, and nobody writes it in IKEv1's words.
#[test]
fn ikev2_and_its_ppk_are_written_by_who_has_them() {
    let words = [
        "ike-aes256gcm16-prfsha384-curve25519-ke1_mlkem768",
        "ike-aes256gcm16-prfsha384-curve25519",
        "ike-aes128-sha256-modp2048",
    ];
    for kind in Kind::ALL {
        for side in SIDES {
            let credential = certificates(authority("CN=Example CA"));
            let mut it = description(side, SecurityOption::Esp, credential);
            it.ike = IkeVersion::V2;
            it.proposals = Proposals::read(&words.map(str::to_owned), it.ike, false).unwrap();
            it.ppk = Some(Ppk::of_tunnel(it.tunnel, TunnelPpk::of_octets(&[0xcd; 32])));
            let texts = match write(kind, &it) {
                Err(WriteFault::Version { .. }) => {
                    assert!(!kind.ike().has(IkeVersion::V2), "{kind:?}");
                    continue;
                }
                Err(WriteFault::Needs { .. }) => {
                    assert!(!kind.ike().has_ppk(), "{kind:?}");
                    continue;
                }
                texts => texts.unwrap(),
            };
            check(&texts, &it);
            let whole = texts.to_private();
            assert!(*whole == texts.to_string() && whole.capacity() == whole.len());
            let files: Vec<&str> = texts.files.iter().map(|file| &file.text[..]).collect();
            let text = files.join("\n");
            assert_eq!(text.matches(&"cd".repeat(32)).count(), 1, "{kind:?}");
            let words = match kind {
                Kind::Caravan => ["ppk_id = \"cta-", "ke1_mlkem768", "curve25519"],
                Kind::StrongSwan => ["ppk_required = \"yes\"", "version = \"2\"", "curve25519"],
                Kind::Libreswan => ["ppk=insist", "ikev2=insist", "aes_gcm256-sha2_384-dh31"],
                other => panic!("{other:?}"),
            };
            for word in words {
                assert!(text.contains(word), "{kind:?} {word}: {text}");
            }
            let is_v1 = ["version = 1", "aggressive", "ikev1"];
            assert!(!is_v1.iter().any(|word| text.contains(word)), "{text}");
            let ends = (kind, side) == (Kind::Caravan, Side::Client);
            assert_eq!(text.contains("reauth = false"), ends, "{text}");
            // charon 5.9 and pluto do not have it.
            assert_eq!(text.contains("mlkem"), kind == Kind::Caravan, "{text}");
        }
    }
}

#[test]
fn unprotected_traffic_has_no_suite_of_ike_and_no_ppk() {
    for kind in Kind::ALL {
        for side in SIDES {
            let credential = certificates(authority("CN=Example CA"));
            let mut it = description(side, SecurityOption::Native, credential);
            if kind.ike().has(IkeVersion::V2) {
                it.ike = IkeVersion::V2;
                let words = ["ike-aes128-sha256-modp2048".to_owned()];
                it.proposals = Proposals::read(&words, it.ike, false).unwrap();
            }
            it.ppk = Some(Ppk::of_tunnel(it.tunnel, TunnelPpk::of_octets(&[0xcd; 32])));
            let whole = without_pem(&write(kind, &it).unwrap().to_string());
            for word in ["\tike=", "ppk", "PPK", &"cd".repeat(32)] {
                assert!(!whole.contains(word), "{kind:?} {word}: {whole}");
            }
            assert!(vici(&it, Charon::default()).unwrap().ppk.is_none());
        }
    }
}

/// A text without keys and certificates, in whose random octets a short word may stand.
fn without_pem(text: &str) -> String {
    let mut is_inside = false;
    let kept = text.lines().filter(|line| {
        is_inside |= line.contains("-----BEGIN ");
        let is_kept = !is_inside;
        is_inside &= !line.contains("-----END ");
        is_kept
    });
    kept.collect::<Vec<_>>().join("\n")
}

fn pairs() -> impl Iterator<Item = (Side, SecurityOption)> {
    let each = |side| SecurityOption::ALL.map(|option| (side, option));
    SIDES.into_iter().flat_map(each)
}

/// Every file is removed at the end, and nothing is constructed that is not destroyed.
fn check(texts: &Texts, it: &Description) {
    assert!(!texts.construct.is_empty() && !texts.destroy.is_empty());
    let destroyed: String = texts
        .destroy
        .iter()
        .map(|order| order.line(texts.kind))
        .collect();
    let script = texts
        .files
        .iter()
        .find(|file| file.path.ends_with(".down.ps1"));
    let destroyed = destroyed + script.map_or("", |file| &file.text);
    for file in &texts.files {
        assert!(
            destroyed.contains(&file.path),
            "{:?}: {}",
            texts.kind,
            file.path
        );
        assert!(file.path.starts_with(texts.kind.folder()));
    }
    let shown = texts.to_string();
    assert!(shown.contains(&it.name()));
    assert_eq!(shown.contains("HISTORICAL"), texts.kind.is_historical());
    let names_network = shown.contains("10.10.0.0");
    let is_left_to_racoon = texts.kind == Kind::Racoon && it.side == Side::Target;
    assert!(names_network || is_left_to_racoon, "{:?}", texts.kind);
}

#[test]
fn both_ends_of_manual_keys_agree_and_each_use_has_its_own() {
    for kind in [Kind::Xfrm, Kind::Setkey] {
        let words = SIDES.map(|side| {
            let texts = write(kind, &description(side, SecurityOption::AhEsp, shared()));
            let texts = texts.expect("texts");
            let text = texts.files[0].text.clone();
            let words = text.split([' ', '\n', ';']);
            let keys = words.filter(|word| word.starts_with("0x"));
            let mut keys: Vec<String> = keys.map(str::to_owned).collect();
            keys.sort();
            keys
        });
        assert_eq!(words[0], words[1]);
        let mut once = words[0].clone();
        once.dedup();
        // Two directions: ESP's SPI and two keys, AH's SPI and key.
        assert_eq!((once.len(), words[0].len()), (10, 10));
    }
}

#[test]
fn what_an_implementation_does_not_know_is_told_by_name() {
    let mut it = description(Side::Client, SecurityOption::Esp, shared());
    let words = ["ike-aes128-sha256-curve25519", "chacha20poly1305"];
    it.proposals =
        Proposals::read(&words.map(str::to_owned), IkeVersion::V1, false).expect("suites");
    for kind in Kind::ALL {
        let knows = matches!(kind, Kind::Caravan | Kind::StrongSwan);
        match write(kind, &it) {
            Ok(_) => assert!(knows, "{kind:?}"),
            Err(fault) => assert!(fault.to_string().contains(kind.name()) && !knows),
        }
    }
    it.local.addresses.clear();
    it.proposals = proposals();
    let fault = write(Kind::Racoon, &it).map(drop).unwrap_err();
    assert!(matches!(fault, WriteFault::Needs { .. }), "{fault}");
    let fault = write_in(Kind::Setkey, &it, "/x; reboot")
        .map(drop)
        .unwrap_err();
    assert!(matches!(fault, WriteFault::Text { .. }), "{fault}");
    assert_eq!(Kind::of_name("setkey"), Some(Kind::Setkey));
    assert_eq!(Kind::of_name("setkey "), None);
}

/// An authority names itself as it likes: cmd gets no such name, PowerShell gets it in its quotes.
#[test]
fn a_hostile_name_of_an_authority_stays_in_its_place() {
    let hostile = "CN=x'; Remove-Item C:\\ ’; & calc \"%PATH%\" `$(calc)";
    let it = description(
        Side::Client,
        SecurityOption::Esp,
        certificates(authority(hostile)),
    );
    let texts = write(Kind::Windows, &it).expect("texts");
    let script = texts
        .files
        .iter()
        .find(|file| file.path.ends_with(".up.ps1"));
    let script = &script.expect("a script").text;
    let quoted = script.split("-Authority ").nth(1).expect("an authority");
    let doubled = |text: &str| text.replace('\'', "''").replace('’', "’’");
    let subject = Certificate::from_der(match &it.credential {
        Credential::Certificates { peer, .. } => &peer[0],
        Credential::PresharedKey(_) => unreachable!("it has certificates"),
    });
    let subject = subject.expect("a certificate").subject();
    assert!(subject.contains("Remove-Item"));
    assert!(
        quoted.starts_with(&format!("'{}' -AuthorityType", doubled(&subject))),
        "{quoted}"
    );
    for kind in [Kind::Ipseccmd, Kind::Ipsecpol] {
        let fault = write(kind, &it).map(drop).unwrap_err();
        assert!(matches!(fault, WriteFault::Text { .. }), "{fault}");
    }
}

/// What Target says, with these words in it.
fn told(client: &str, target: &str, proposal: &str) -> Result<Description, DescriptionFault> {
    let tunnel = Tunnel {
        id: TunnelId([7; 16]),
        option: SecurityOption::Esp,
        tunneling: Tunneling {
            sealing_key: [0; 32],
            signing_key: [0; 32],
            option: 3,
            ike_version: 1,
            has_ppk: false,
            until: 1_795_000_600,
            addresses: vec!["192.0.2.1".parse().expect("an address")],
            networks: description(Side::Client, SecurityOption::Esp, shared()).networks,
            proposals: vec![
                "ike-aes128-sha256-modp2048".into(),
                "ike-3des-md5-modp1024".into(),
                "3des-md5".into(),
                proposal.into(),
            ],
            target_identity: target.into(),
            client_identity: client.into(),
            target_chain: Vec::new(),
            client_chain: Vec::new(),
        },
        ike: IkeVersion::V1,
        ppk: None,
        session_key: Some(SessionKey([0xab; 32])),
        lifetime: Duration::from_secs(600),
    };
    let mut it = Description::of_client(&tunnel, &Key(Vec::new()), true)?;
    it.local.addresses = vec!["198.51.100.7".parse().expect("an address")];
    Ok(it)
}

proptest! {
    /// Whatever the other end is called, it changes a text in one place alone: where its name is.
    #[test]
    fn no_name_and_no_proposal_of_the_other_end_leaves_its_place(
        client in "[a-z'\"$();{}#%&|<>`\\\\@. \\-]{1,12}|\\PC{1,12}|[a-z][a-z.]{1,12}@[a-z.]{1,9}",
        target in "[a-z'\"$();{}#%&|<>`\\\\@. \\-]{1,12}|\\PC{1,12}|[a-z][a-z0-9.\\-]{1,20}",
        proposal in "[a-z0-9'\"$();\\- ]{1,20}|aes256gcm16|ah-sha1|aes128-sha1-modp2048",
    ) {
        let Ok(it) = told(&client, &target, &proposal) else {
            return Ok(());
        };
        let is_read = client.contains(['\'', '"', '$', ';', ' ', '\\', '`', '#', '\u{7b}']);
        prop_assert!(!is_read, "a sign that some implementation reads");
        let usual_client = match client.contains('@') {
            true => "usual-client@example",
            false => "usual-client.example",
        };
        let usual_target = match target.contains('@') {
            true => "usual-target@example",
            false => "usual-target.example",
        };
        prop_assume!(client.parse::<std::net::IpAddr>().is_err());
        prop_assume!(target.parse::<std::net::IpAddr>().is_err());
        let usual = told(usual_client, usual_target, &proposal).expect("usual names");
        for kind in Kind::ALL {
            let (Ok(texts), Ok(expected)) = (write(kind, &it), write(kind, &usual)) else {
                return Err(TestCaseError::fail(format!("{kind:?} writes none of these")));
            };
            for (file, other) in texts.files.iter().zip(&expected.files) {
                let lines = file.text.lines().count();
                prop_assert_eq!(lines, other.text.lines().count());
                for (line, other) in file.text.lines().zip(other.text.lines()) {
                    let changed = other.replace(usual_client, &client);
                    let changed = changed.replace(usual_target, &target);
                    prop_assert_eq!(line, &changed);
                }
            }
        }
    }

    #[test]
    fn quoted_texts_are_read_back_as_they_were(text in "\\PC{0,20}|['\"\\\\’$` ]{0,8}") {
        let powershell = quote::powershell("a name", &text).expect("no control character");
        let inside = &powershell[1..powershell.len() - 1];
        let mut read = String::new();
        let mut rest = inside.chars();
        while let Some(c) = rest.next() {
            read.push(c);
            if matches!(c, '\'' | '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}') {
                prop_assert_eq!(rest.next(), Some(c));
            }
        }
        prop_assert_eq!(&read, &text);
        let shell = quote::word(Kind::StrongSwan, &text);
        if let Some(quoted) = shell.strip_prefix('\'') {
            let parts = quoted[..quoted.len() - 1].split("'\\''").collect::<Vec<_>>();
            prop_assert!(parts.iter().all(|part| !part.contains('\'')));
            prop_assert_eq!(&parts.join("'"), &text);
        } else {
            prop_assert_eq!(&shell, &text);
        }
        match quote::plain(Kind::Racoon, "a name", &text) {
            Ok(plain) => prop_assert!(!plain[1..plain.len() - 1].contains(['"', '\\', '\n'])),
            Err(_) => prop_assert!(text.contains(['"', '\\'])),
        }
    }
}
