//! Cases of path building and of RFC 5280's rules, named after the matching cases of x509-limbo
//! (github.com/C2SP/x509-limbo). The certificates are ours. A verdict that differs from
//! x509-limbo's has its reason beside it. Left out: its cases of names, which belong to
//! `engine::identity`, and of name constraints, because we refuse all authorities that have them.

use super::*;
use rcgen::ExtendedKeyUsagePurpose::{self, Any, ClientAuth, CodeSigning, ServerAuth};
use rcgen::KeyUsagePurpose::{CrlSign, DigitalSignature, KeyCertSign};

/// Part of a refusal's text; `PASSES` for success.
const PASSES: &str = "";

type Tweak = fn(&mut CertificateParams);

#[test]
fn path_lengths() {
    let (three, two, one, none) = (most(3), most(2), most(1), most(0));
    let chain = |lengths: &[BasicConstraints]| {
        let mut all = vec![root("root")];
        for (at, length) in lengths.iter().enumerate() {
            let name = format!("ca {at}");
            all.push(limited(&name, all.last().unwrap(), *length));
        }
        let end = leaf(all.last().unwrap(), |_| {});
        verdict(&all[..1], &end, &all[1..])
    };
    let any = BasicConstraints::Unconstrained;
    for (id, lengths, wanted) in [
        ("ee-with-intermediate-pathlen-0", vec![none], PASSES),
        ("ee-with-intermediate-pathlen-1", vec![one], PASSES),
        ("ee-with-intermediate-pathlen-2", vec![two], PASSES),
        (
            "intermediate-violates-pathlen-0",
            vec![none, any],
            "CN=ca 0 may not be used for this: its path length",
        ),
        (
            "intermediate-pathlen-may-increase",
            vec![one, three],
            PASSES,
        ),
        (
            "intermediate-pathlen-too-long",
            vec![one, most(5), none],
            "CN=ca 0 may not be used for this: its path length",
        ),
    ] {
        told(&format!("pathlen::{id}"), &chain(&lengths), wanted);
    }
    // A self-issued certificate of an authority does not count.
    let old = limited("ca", &root("root"), most(0));
    let anchor = root("root");
    let first = limited("ca", &anchor, most(0));
    let renewed = limited("ca", &first, most(0));
    let end = leaf(&renewed, |_| {});
    let found = verdict(&[anchor], &end, &[old, first, renewed]);
    told("pathlen::self-issued-certs-pathlen", &found, PASSES);
    let anchor = root("root");
    let end = leaf(&anchor, |params| {
        params.is_ca = IsCa::Ca(most(0));
        params.key_usages = vec![DigitalSignature, KeyCertSign];
    });
    let id = "pathlen::validation-ignores-pathlen-in-leaf";
    told(id, &verdict(&[anchor], &end, &[]), PASSES);
}

#[test]
fn more_than_one_path() {
    let (anchor, stranger) = (root("root"), root("stranger"));
    let key = new_key();
    let again = || KeyPair::from_pem(&key.serialize_pem()).unwrap();
    let good = Made::authority("ca", Some(&anchor), again(), |_| {});
    let end = leaf(&good, |_| {});
    let expired: Tweak = |params| params.not_after = moment(NOW - 1);
    let others: [(&str, &Made, Tweak); 5] = [
        (
            "pathological::multiple-chains-expired-intermediate",
            &anchor,
            expired,
        ),
        ("bettertls::pathbuilding (no trust)", &stranger, |_| {}),
        (
            "bettertls::pathbuilding (no authority)",
            &anchor,
            |params| {
                params.is_ca = IsCa::ExplicitNoCa;
            },
        ),
        ("bettertls::pathbuilding (purpose)", &anchor, |params| {
            params.extended_key_usages = vec![CodeSigning];
        }),
        (
            "rfc5280::unknown-critical-extension-unrelated-intermediate",
            &anchor,
            |params| params.custom_extensions = vec![odd()],
        ),
    ];
    for (id, issuer, tweak) in others {
        let bad = Made::authority("ca", Some(issuer), again(), tweak);
        for path in [[bad.read(), good.read()], [good.read(), bad.read()]] {
            let found = trust(&[&anchor]).verify(&end, &path, NOW);
            told(id, &text(found), PASSES);
        }
        // The error tells what is wrong with the real issuer, and not that others lead nowhere.
        let path = [bad.read(), stranger.read()];
        let found = text(trust(&[&anchor]).verify(&end, &path, NOW));
        assert!(!found.is_empty(), "{id}");
        let is_known = found.contains("CN=root, which is not trusted");
        assert!(!is_known, "{id}: {found}");
    }
    let other = Made::authority("other", None, new_key(), |params| {
        params.custom_extensions = vec![odd()];
    });
    let id = "rfc5280::unknown-critical-extension-unrelated-root";
    told(id, &verdict(&[other, anchor], &end, &[good]), PASSES);
}

#[test]
fn paths_that_lead_nowhere_cost_little() {
    let anchor = root("root");
    let a = Made::authority("a", None, new_key(), |_| {});
    let b = Made::authority("b", Some(&a), new_key(), |_| {});
    let a_again = Made::authority("a", Some(&b), a.copy(), |_| {});
    let end = leaf(&b, |_| {});
    let id = "pathological::intermediate-cycle-distinct-cas";
    let found = verdict(&[anchor], &end, &[a, a_again, b]);
    told(id, &found, "which is not trusted");
    let anchor = root("root");
    let first = Made::authority("a", None, new_key(), |_| {});
    let second = Made::authority("a", Some(&first), new_key(), |_| {});
    let end = leaf(&second, |_| {});
    let id = "pathological::intermediate-cycle-same-logical-ca";
    let found = verdict(&[anchor], &end, &[first, second]);
    told(id, &found, "which is not trusted");
    for (has_one_name, has_one_key, wanted) in [
        (false, false, "longer than 8"),
        (false, true, "longer than 8"),
        (true, false, "more than 32 signatures"),
        (true, true, "more than 32 signatures"),
    ] {
        let key = new_key();
        let mut chain = vec![root("root")];
        for at in 0..40 {
            let name = if has_one_name {
                "same".into()
            } else {
                format!("ca {at}")
            };
            let key = match has_one_key {
                true => KeyPair::from_pem(&key.serialize_pem()).unwrap(),
                false => new_key(),
            };
            chain.push(Made::authority(&name, chain.last(), key, |params| {
                params.serial_number = Some(SerialNumber::from(at as u64 + 9));
            }));
        }
        let end = leaf(chain.last().unwrap(), |_| {});
        let found = verdict(&[root("else")], &end, &chain);
        let [name, key] =
            [has_one_name, has_one_key].map(|is| if is { "same" } else { "distinct" });
        let id = format!("pathological::pathological-chain-{name}-subject-{key}-key");
        told(&id, &found, wanted);
    }
}

#[test]
fn validity() {
    let of_end = |tweak: Tweak| {
        let anchor = root("root");
        let end = leaf(&anchor, tweak);
        verdict(&[anchor], &end, &[])
    };
    for (id, tweak, wanted) in [
        (
            "notbefore-exact",
            (|it| it.not_before = moment(NOW)) as Tweak,
            PASSES,
        ),
        (
            "not-yet-valid-1-second",
            |it| it.not_before = moment(NOW + 1),
            "is not valid before",
        ),
        ("notafter-exact", |it| it.not_after = moment(NOW), PASSES),
        (
            "expired-1-second",
            |it| it.not_after = moment(NOW - 1),
            "CN=end expired at 2027-01-15",
        ),
        (
            "expired-leaf",
            |it| it.not_after = moment(NOW - YEAR + 1),
            "CN=end expired at 2026",
        ),
    ] {
        told(&format!("rfc5280::validity::{id}"), &of_end(tweak), wanted);
    }
    let expired: Tweak = |params| params.not_after = moment(NOW - 1);
    let anchor = Made::authority("root", None, new_key(), expired);
    let end = leaf(&anchor, |_| {});
    let found = verdict(&[anchor], &end, &[]);
    told(
        "rfc5280::validity::expired-root",
        &found,
        "CN=root expired at",
    );
    let found = through(expired);
    told(
        "rfc5280::validity::expired-intermediate",
        &found,
        "CN=middle expired at",
    );
}

#[test]
fn what_an_authority_must_be() {
    let by_root = |tweak: Tweak| {
        let anchor = Made::authority("root", None, new_key(), tweak);
        let end = leaf(&anchor, |_| {});
        verdict(&[anchor], &end, &[])
    };
    let no_authority = "may not be used for this: it is not an authority's";
    for (id, tweak, wanted) in [
        (
            "unknown-critical-extension-root",
            (|it| it.custom_extensions = vec![odd()]) as Tweak,
            "is not processed",
        ),
        (
            "root-missing-basic-constraints",
            |it| it.is_ca = IsCa::NoCa,
            no_authority,
        ),
        (
            "root-inconsistent-ca-extensions",
            |it| it.key_usages = vec![CrlSign],
            "lacks keyCertSign",
        ),
    ] {
        told(&format!("rfc5280::{id}"), &by_root(tweak), wanted);
    }
    for (id, tweak, wanted) in [
        (
            "unknown-critical-extension-intermediate",
            (|it| it.custom_extensions = vec![odd()]) as Tweak,
            "is not processed",
        ),
        (
            "intermediate-ca-without-ca-bit",
            |it| it.is_ca = IsCa::ExplicitNoCa,
            no_authority,
        ),
        (
            "intermediate-ca-missing-basic-constraints",
            |it| it.is_ca = IsCa::NoCa,
            no_authority,
        ),
        (
            "ica-ku-keycertsign",
            |it| it.key_usages = vec![DigitalSignature],
            "lacks keyCertSign",
        ),
    ] {
        told(&format!("rfc5280::{id}"), &through(tweak), wanted);
    }
    let (known, stranger) = (root("known"), root("root"));
    let end = leaf(&stranger, |_| {});
    let found = verdict(&[known], &end, &[stranger]);
    told(
        "rfc5280::chain-untrusted-root",
        &found,
        "CN=root, which is not trusted",
    );
    // A configured certificate is an anchor; a sent one is not.
    let top = root("root");
    let middle = Made::authority("middle", Some(&top), new_key(), |_| {});
    let end = leaf(&middle, |_| {});
    let found = verdict(&[middle], &end, &[top]);
    told("rfc5280::root-and-intermediate-swapped", &found, PASSES);
}

#[test]
fn what_an_end_entity_must_be() {
    let of_end = |tweak: Tweak| {
        let anchor = root("root");
        let end = leaf(&anchor, tweak);
        verdict(&[anchor], &end, &[])
    };
    let as_authority: Tweak = |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![DigitalSignature, KeyCertSign];
    };
    for (id, tweak, wanted) in [
        ("no-keyusage", (|it| it.key_usages.clear()) as Tweak, PASSES),
        ("no-basicconstraints", |it| it.is_ca = IsCa::NoCa, PASSES),
        ("ca-as-leaf", as_authority, PASSES),
        (
            "unknown-critical-extension-ee",
            |it| it.custom_extensions = vec![odd()],
            "is not processed",
        ),
        (
            "nc::not-allowed-in-ee-critical",
            |params| {
                // Sequence { permittedSubtrees { dNSName example } }
                let names = [0x30, 13, 0xa0, 11, 0x30, 9, 0x82, 7];
                let content = [&names[..], b"example"].concat();
                let mut critical = CustomExtension::from_oid_content(&[2, 5, 29, 30], content);
                critical.set_criticality(true);
                params.custom_extensions = vec![critical];
            },
            "name constraints, and is no authority",
        ),
        (
            "eku::ee-without-eku",
            |it| it.extended_key_usages.clear(),
            PASSES,
        ),
        // A sequence of purposes may not be empty; an empty one admits nothing.
        (
            "eku::ee-eku-empty",
            |params| {
                let empty = CustomExtension::from_oid_content(&[2, 5, 29, 37], vec![0x30, 0]);
                params.custom_extensions = vec![empty];
            },
            "extended key usage has none of",
        ),
        // IKE's clients match TLS's clients; x509-limbo asks for servers.
        (
            "eku::ee-wrong-eku",
            |it| it.extended_key_usages = vec![ClientAuth],
            PASSES,
        ),
    ] {
        told(&format!("rfc5280::{id}"), &of_end(tweak), wanted);
    }
    // RFC 4945 §5.1.3.12 takes anyExtendedKeyUsage; the web does not.
    let found = of_end(|params| params.extended_key_usages = vec![Any]);
    told("webpki::eku::ee-anyeku", &found, PASSES);
    let end = |purposes: &[ExtendedKeyUsagePurpose]| {
        let anchor = Made::authority("root", None, new_key(), |params| {
            params.extended_key_usages = vec![CodeSigning];
        });
        let end = leaf(&anchor, |params| {
            params.extended_key_usages = purposes.to_vec()
        });
        verdict(&[anchor], &end, &[])
    };
    // An anchor is trusted for what it was configured for.
    told("webpki::eku::root-has-eku", &end(&[ServerAuth]), PASSES);
}

#[test]
fn what_cannot_be_read() {
    let anchor = root("root");
    let nameless = Made::authority("", None, new_key(), |params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
    });
    let issuer = Issuer::from_params(&nameless.params, &nameless.key);
    let public = SubjectPublicKeyInfo::from_pem(END_PUBLIC).unwrap();
    let end = params("end").signed_by(&public, &issuer).unwrap();
    told(
        "rfc5280::ee-empty-issuer",
        &text(Certificate::from_der(end.der())),
        "no issuer",
    );
    let read = |extensions: Vec<CustomExtension>| {
        let mut params = params("end");
        params.subject_alt_names = vec![SanType::DnsName("a.example".try_into().unwrap())];
        params.custom_extensions = extensions;
        let made = params.signed_by(&public, &anchor.issuer()).unwrap();
        text(Certificate::from_der(made.der()))
    };
    let names = || CustomExtension::from_oid_content(&[2, 5, 29, 17], vec![0x30, 0]);
    told(
        "rfc5280::duplicate-extensions",
        &read(vec![names()]),
        "comes twice",
    );
    let aia = CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], vec![0x04, 1, 7]);
    told("webpki::malformed-aia", &read(vec![aia]), "does not read");
}

#[test]
fn revocation() {
    let (anchor, other) = (root("root"), root("other"));
    let end = leaf(&anchor, |_| {});
    let verdict = |store: TrustStore| text(store.verify(&end, &[], NOW));
    let listed = |list| TrustStore {
        revocations: vec![list],
        ..trust(&[&anchor, &other])
    };
    for (id, list, wanted) in [
        (
            "revoked-certificate-with-crl",
            anchor.list(&[5], -9, 9),
            "was revoked at 2027-01-15",
        ),
        ("certificate-not-on-crl", anchor.list(&[6], -9, 9), PASSES),
        (
            "certificate-serial-on-crl-different-issuer",
            other.list(&[5], -9, 9),
            PASSES,
        ),
    ] {
        told(&format!("crl::{id}"), &verdict(listed(list)), wanted);
    }
    for (id, usages, wanted) in [
        (
            "issuer-missing-crlsign",
            &[KeyCertSign][..],
            "lacks cRLSign",
        ),
        ("issuer-no-keyusage-extension", &[], PASSES),
        (
            "issuer-valid-crlsign-and-keycertsign",
            &[KeyCertSign, CrlSign],
            PASSES,
        ),
    ] {
        let issuer = Made::authority("root", None, anchor.copy(), |params| {
            params.key_usages = usages.to_vec();
        });
        let store = TrustStore {
            revocations: vec![anchor.list(&[], -9, 9)],
            ..trust(&[&issuer])
        };
        told(&format!("crl::{id}"), &verdict(store), wanted);
    }
}

/// The verdict on an end entity whose intermediate authority is modified.
fn through(tweak: Tweak) -> String {
    let anchor = root("root");
    let middle = Made::authority("middle", Some(&anchor), new_key(), tweak);
    let end = leaf(&middle, |_| {});
    verdict(&[anchor], &end, &[middle])
}

fn verdict(anchors: &[Made], end: &Certificate, others: &[Made]) -> String {
    let anchors: Vec<&Made> = anchors.iter().collect();
    let others: Vec<_> = others.iter().map(Made::read).collect();
    text(trust(&anchors).verify(end, &others, NOW))
}

fn text<T>(found: Result<T, CertFault>) -> String {
    found
        .err()
        .map_or_else(String::new, |fault| fault.to_string())
}

fn told(id: &str, found: &str, wanted: &str) {
    let is_right = match wanted {
        PASSES => found.is_empty(),
        part => found.contains(part),
    };
    assert!(is_right, "{id}: {found:?}, wanted {wanted:?}");
}

fn limited(name: &str, issuer: &Made, length: BasicConstraints) -> Made {
    Made::authority(name, Some(issuer), new_key(), |params| {
        params.is_ca = IsCa::Ca(length);
    })
}

fn most(number: u8) -> BasicConstraints {
    BasicConstraints::Constrained(number)
}

/// An extension that nobody knows.
fn odd() -> CustomExtension {
    let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
    extension.set_criticality(true);
    extension
}
