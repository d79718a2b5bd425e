use super::*;

fn identity(text: &str) -> Identity {
    Identity::parse(text).unwrap()
}

fn subject(text: &str) -> Name {
    let Identity::DistinguishedName(der) = identity(text) else {
        panic!("{text} is no distinguished name");
    };
    Name::Subject(der)
}

fn dns(name: &str) -> Name {
    Name::Dns(name.into())
}

fn certified(claimed: &str, names: &[Name]) -> Peer {
    Peer::of_certificate("road", &identity(claimed), names).expect("a name of it")
}

fn preshared(claimed: &str, pattern: &str) -> Peer {
    let patterns = [IdentityPattern::parse(pattern).unwrap()];
    Peer::of_preshared_key("road", &identity(claimed), &patterns)
}

#[test]
fn whichever_name_of_its_certificate_a_peer_claims_it_is_one_peer() {
    let address = Name::Address([192, 0, 2, 7].into());
    let names = [
        subject("C=CH, CN=Ms"),
        dns("Ms.example"),
        dns("other.example"),
        address,
    ];
    let first = certified("ms.example", &names);
    for claimed in [
        "MS.Example",
        "other.example",
        "192.0.2.7",
        "c=ch, cn=ms",
        "C=CH, CN=Ms",
    ] {
        assert_eq!(certified(claimed, &names), first, "{claimed}");
    }
    assert_eq!(
        certified("OTHER.example", &names).to_string(),
        "other.example"
    );
    assert_eq!(certified("c=ch, cn=ms", &names).to_string(), "C=CH, CN=Ms");
    let stranger = Peer::of_certificate("road", &identity("www.example"), &names);
    assert_eq!(stranger, None);
}

#[test]
fn a_renewed_certificate_is_the_same_peer_and_one_of_other_names_is_not() {
    let first = certified("ms.example", &[subject("CN=ms"), dns("ms.example")]);
    let renewed = [subject("CN=MS"), dns("MS.example"), dns("new.example")];
    assert_eq!(certified("new.example", &renewed), first);
    let others = [
        [subject("CN=ms"), dns("ms2.example")],
        [subject("CN=ms2"), dns("ms.example")],
    ];
    assert_ne!(certified("ms2.example", &others[0]), first);
    assert_ne!(certified("ms.example", &others[1]), first);
}

#[test]
fn a_certificate_without_a_subject_is_its_first_alternative_name() {
    let empty = Name::Subject(vec![0x30, 0]);
    let one = [empty.clone(), dns("a.example"), dns("b.example")];
    let other = [empty.clone(), dns("b.example")];
    assert_eq!(certified("b.example", &one), certified("a.example", &one));
    assert_ne!(certified("b.example", &one), certified("b.example", &other));
    let names = core::slice::from_ref(&empty);
    let claimed = Identity::DistinguishedName(vec![0x30, 0]);
    assert_eq!(Peer::of_certificate("road", &claimed, names), None);
}

#[test]
fn a_pre_shared_key_is_what_it_was_configured_for() {
    let one = preshared("MS.Example", "Ms.example");
    assert_eq!(one.to_string(), "Ms.example");
    assert_eq!(one, preshared("ms.example", "*"));
    let group = preshared("a.example", "*.example");
    assert_ne!(group, preshared("b.example", "*.example"));
    assert_eq!(group, preshared("A.example", "*.example"));
}

#[test]
fn names_of_other_types_connections_and_credentials_are_other_peers() {
    let peers = [
        preshared("fqdn:ms@example", "*"),
        preshared("email:ms@example", "*"),
        preshared("keyid:ms@example", "*"),
        preshared("fqdn:192.0.2.1", "*"),
        preshared("192.0.2.1", "*"),
        preshared("fqdn:CN=ms", "*"),
        preshared("CN=ms", "*"),
        certified("CN=ms", &[subject("CN=ms")]),
        Peer::of_preshared_key("guests", &identity("CN=ms"), &[IdentityPattern::Any]),
    ];
    for (at, one) in peers.iter().enumerate() {
        for other in &peers[at + 1..] {
            assert_ne!(one, other);
        }
    }
}

#[test]
fn a_user_is_one_peer_in_any_case_and_one_of_a_server_is_one_of_many() {
    for [name, other] in [
        ["alice", "Alice"],
        ["alice@corp.example", "ALICE@Corp.example"],
    ] {
        let (name, other) = (identity(name), identity(other));
        let user = Peer::of_user("road", &name);
        assert_eq!(user, Peer::of_user("road", &other));
        let of_server = Peer::of_server_user("road", &other);
        assert_eq!(of_server, user);
        assert_eq!((user.group(), of_server.group()), (None, Some("road")));
    }
    let alice = Peer::of_user("road", &identity("Alice@corp.example"));
    assert_ne!(alice, Peer::of_user("road", &identity("bob@corp.example")));
    assert!(alice.is_called(&identity("aLICE@corp.example")));
    assert!(!alice.is_called(&identity("bob@corp.example")));
}
