//! IKEv2: a message that can be read is rewritten to bytes that read equal, and its ranges tile the
//! datagram. The first octet says how the others are read: as a datagram, or as the clear text of
//! SK that begins with this kind of payload.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::ikev2::{
    ConfigAttribute, Configuration, Delete, DigitalSignature, HEADER_LEN, Located, MAX_PAYLOADS,
    Message, Notify, Payload, TrafficSelector, first_unknown_critical, payloads, sealed_frame,
    write_payloads,
};

fuzz_target!(|input: &[u8]| {
    let Some((first, octets)) = input.split_first() else {
        return;
    };
    match *first {
        0 => datagram(octets),
        first => {
            if let Ok(chain) = payloads(first.into(), octets) {
                check(&chain, 0, octets.len());
                rewrite(chain);
            }
        }
    }
});

fn datagram(datagram: &[u8]) {
    let Ok(message) = Message::parse(datagram) else {
        return;
    };
    let header = message.header;
    assert_eq!(header.write(&datagram[HEADER_LEN..]), datagram);
    match message.protected {
        None => check(&message.clear, HEADER_LEN, datagram.len()),
        Some(protected) => {
            let head_len = if protected.fragment.is_some() { 8 } else { 4 };
            let at = protected.sealed.start - head_len;
            check(&message.clear, HEADER_LEN, at);
            assert_eq!(protected.sealed.end, datagram.len());
            if let Some(fragment) = protected.fragment {
                assert!(fragment.number >= 1 && fragment.number <= fragment.total);
            }
            let sealed = &datagram[protected.sealed.clone()];
            let (mut frame, start) =
                sealed_frame(&header, protected.first, protected.fragment, sealed.len());
            frame[start..].copy_from_slice(sealed);
            let again = Message::parse(&frame).expect("what we write reads");
            let again = again.protected.expect("an encrypted payload");
            assert_eq!(again.first, protected.first);
            assert_eq!(again.fragment, protected.fragment);
            assert_eq!(&frame[again.sealed], sealed);
        }
    }
    rewrite(message.clear);
}

/// The ranges tile the octets from `start` to `end`, and each payload keeps its promises.
fn check(chain: &[Located], start: usize, end: usize) {
    assert!(chain.len() <= MAX_PAYLOADS);
    let mut at = start;
    for one in chain {
        assert_eq!(one.range.start, at);
        at = one.range.end;
        assert!(one.body_range().start <= at);
        keeps_its_promises(&one.payload);
    }
    assert_eq!(at, end);
    let unknown = first_unknown_critical(chain);
    assert!(unknown.is_none() || chain.iter().any(|one| one.is_critical));
}

fn rewrite(chain: Vec<Located>) {
    let read: Vec<Payload> = chain.into_iter().map(|one| one.payload).collect();
    let (first, written) = write_payloads(&read);
    let again = payloads(first, &written).expect("what we write reads");
    assert!(again.into_iter().map(|one| one.payload).eq(read));
}

fn keeps_its_promises(payload: &Payload) {
    match payload {
        Payload::Nonce(nonce) => assert!((16..=256).contains(&nonce.len())),
        Payload::SecurityAssociation(proposals) => assert!(!proposals.is_empty()),
        Payload::IdentificationInitiator(id) | Payload::IdentificationResponder(id) => {
            assert!(
                id.to_address()
                    .is_none_or(|_| matches!(id.value.len(), 4 | 16))
            );
        }
        Payload::CertificateRequest(request) => {
            let named = 20 * request.key_hashes().len();
            assert!(named == 0 || named == request.authorities.len());
        }
        Payload::Authentication(auth) => {
            if let Ok(signature) = DigitalSignature::parse(&auth.value) {
                assert_eq!(signature.to_value(), auth.value);
            }
        }
        Payload::Notify(notify) => data(notify),
        Payload::Delete(Delete::Children { spis, .. }) => assert!(spis.len() <= 256),
        Payload::TrafficSelectorsInitiator(selectors)
        | Payload::TrafficSelectorsResponder(selectors) => {
            for selector in selectors {
                if let TrafficSelector::Addresses(range) = selector {
                    assert!(range.first <= range.last);
                    assert_eq!(range.first.is_ipv4(), range.last.is_ipv4());
                    assert!(range.first_port <= range.last_port || range.is_opaque());
                }
            }
        }
        Payload::Configuration(configuration) => attributes(configuration),
        Payload::Eap(eap) => assert!(eap.octets().ends_with(eap.data())),
        _ => {}
    }
}

fn attributes(configuration: &Configuration) {
    for attribute in &configuration.attributes {
        if let Some((net, prefix_len)) = attribute.to_subnet() {
            assert!(prefix_len <= if net.is_ipv4() { 32 } else { 128 });
            assert_eq!(attribute.to_address(), Some(net));
        }
        if let Some(domain) = attribute.to_domain() {
            assert!(domain.bytes().all(|c| c.is_ascii_graphic()));
            assert_eq!(*attribute, ConfigAttribute::domain(domain));
        }
    }
}

/// What can be read of a notification, written again, is equal.
fn data(notify: &Notify) {
    let plain = |written: Notify| {
        assert_eq!(
            (written.kind, written.value),
            (notify.kind, notify.value.clone())
        );
    };
    if let Ok(method) = notify.to_method() {
        plain(Notify::invalid_ke(method));
    }
    if let Ok(algorithms) = notify.to_hash_algorithms() {
        plain(Notify::hash_algorithms(&algorithms));
    }
    if let Ok(address) = notify.to_additional_address() {
        plain(Notify::additional_address(address));
    }
    if let Ok(redirect) = notify.to_redirect() {
        plain(Notify::redirect(&redirect));
    }
    if let Ok(gateway) = notify.to_redirected_from() {
        plain(Notify::redirected_from(&gateway));
    }
    if let Ok(ticket) = notify.to_ticket() {
        plain(Notify::ticket(&ticket));
    }
    if let Ok((kind, identity)) = notify.to_ppk_identity() {
        plain(Notify::ppk_identity(kind, identity));
    }
    if let Ok(methods) = notify.to_auth_methods() {
        // An announcement may name authority 0, which says the same as none.
        let written = Notify::auth_methods(&methods);
        assert_eq!(written.to_auth_methods(), Ok(methods));
    }
    if let Ok(key) = notify.to_ppk_identity_key() {
        assert_eq!(
            1 + key.identity.len() + key.confirmation.len(),
            notify.value.len()
        );
    }
    let cookie = notify.to_cookie().map_or(1, <[u8]>::len);
    assert!((1..=64).contains(&cookie));
}
