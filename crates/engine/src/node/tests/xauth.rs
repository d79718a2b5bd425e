//! Peers that want a user's name and password after phase 1.

use super::*;

#[test]
fn a_proposal_of_xauth_is_named() {
    for is_aggressive in [true, false] {
        let mut world = World::new(118, move |connection, _| {
            connection.is_aggressive = is_aggressive;
        });
        world.network.wire.clear();
        let mut first = world.first_message().expect("a first message");
        let method = [0x80, 3, 0, 1];
        let at = first.windows(4).position(|octets| octets == method);
        let at = at.expect("an authentication method");
        first[at + 2..at + 4].copy_from_slice(&65_001_u16.to_be_bytes());
        let path = arrives((GATEWAY, IKE_PORT), (NAT, IKE_PORT));
        world.deliver(1, path, &first);
        let reason = world.ends[1].failure().expect("a line");
        assert_eq!(
            reason,
            "the peer wants XAUTH, a user's name and password, which we do not speak: it offers \
             a pre-shared key with XAUTH; we accept a pre-shared key"
        );
        assert_eq!(world.drops(1, DropReason::NoProposalChosen), 1);
    }
}

#[test]
fn a_gateway_that_asks_for_a_password_is_told_that_there_is_none() {
    let mut world = World::new(119, |_, _| {});
    world.run(Duration::from_secs(2));
    let session = world.ends[1]
        .node
        .sessions
        .values()
        .next()
        .expect("a session");
    let (sa, path) = (session.ike.sa().expect("established"), session.path());
    let request = Payload::Attributes(ConfigAttributes {
        kind: ConfigType::Request,
        identifier: 9,
        attributes: vec![
            Attribute::short(16_520, 0),
            Attribute::long(16_521, Vec::new()),
        ],
    });
    let (id, mut work) = (78_u32, Work::default());
    let mut iv = sa.first_iv(id);
    let prefix = id.to_be_bytes();
    let transaction = Exchange::Transaction;
    let message = sa.seal_hashed(
        transaction,
        id,
        &mut iv,
        &[&prefix],
        vec![request],
        &mut work,
    );
    let message = super::session::with_marker(path, message);
    let path = world.ends[0].path();
    world.deliver(0, path, &message);
    let sentence = "the peer asks for XAUTH, a user's name and password, which we do not speak";
    assert_eq!(world.ends[0].failure().as_deref(), Some(sentence));
    let is_closed = |event: &Event| match event {
        Event::IkeClosed { cause, .. } => matches!(cause, EndCause::Failed(_)),
        _ => false,
    };
    assert!(world.ends[0].told(is_closed));
    world.run(Duration::from_millis(100));
    let complaint = "ATTRIBUTES-NOT-SUPPORTED";
    assert!(world.ends[1].told(
        |event| matches!(event, Event::PeerComplains { complaint: it, .. } if it == complaint)
    ));
    assert!(world.ends[1].told(|event| matches!(event, Event::IkeClosed { .. })));
}
