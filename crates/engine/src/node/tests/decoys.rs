//! Aggressive mode with pre-shared keys: strangers must not learn which identities exist.

use wire::isakmp::payloads;

use super::*;

/// A station with this identity, and a gateway of two fleets with a key and a name each.
fn world(identity: String) -> World {
    let mut world = World::new(115, move |connection, is_station| {
        if is_station {
            connection.local.identity = Identity::Fqdn(identity.clone());
            connection.remote.identities = vec![IdentityPattern::Any];
        }
    });
    let [mut one, mut two] = [(), ()].map(|()| config(false, &world.change));
    let other = Arc::get_mut(&mut two.connections[0]).expect("not shared");
    other.name = "other".into();
    other.local.identity = Identity::Fqdn("gw.example".into());
    other.remote.identities = vec![IdentityPattern::Is(Identity::Fqdn("other.example".into()))];
    other.remote.method = RemoteMethod::PresharedKey(Arc::new(Secret(b"another".to_vec())));
    other.local.method = LocalMethod::PresharedKey(Arc::new(Secret(b"another".to_vec())));
    one.connections.append(&mut two.connections);
    world.input(1, Input::Configure(Arc::new(one)));
    world
}

/// The kinds and lengths of message 2's payloads, and who answers.
fn answer(world: &mut World) -> (Vec<(PayloadKind, usize)>, Vec<u8>) {
    let first = world.first_message().expect("a first message");
    let path = arrives((GATEWAY, IKE_PORT), (NAT, IKE_PORT));
    world.network.wire.clear();
    world.network.log.clear();
    world.deliver(1, path, &first);
    assert_eq!(world.network.log.len(), 1);
    let (header, body) = Header::parse(&world.network.log[0]).expect("a message");
    assert_eq!(header.exchange, Exchange::Aggressive);
    let located = payloads(header.next_payload, body).expect("payloads");
    let name = located.iter().find_map(|it| match &it.payload {
        Payload::Identification(id) => Some(id.value.clone()),
        _ => None,
    });
    let shape = located
        .iter()
        .map(|it| (it.payload.kind(), it.body_range().len()));
    (shape.collect(), name.expect("an identity"))
}

#[test]
fn an_identity_that_nobody_has_is_answered_as_one_that_somebody_has() {
    let (known, name) = answer(&mut world("ms.example".into()));
    assert_eq!(name, b"sg.example");
    let mut names = Vec::new();
    for number in 0..16 {
        let identity = format!("nobody-{number}.example");
        let mut world = world(identity.clone());
        let (unknown, name) = answer(&mut world);
        assert_eq!(unknown, known);
        let half_open = world.ends[1].node.sessions.len();
        assert_eq!(half_open, 1);
        // A repeated request, from another address and with other values, meets the same
        // connection.
        let mut other = self::world(identity);
        other.nat().outside = [192, 0, 2, 101].into();
        assert_eq!(answer(&mut other).1, name);
        names.push(name);
    }
    names.sort();
    names.dedup();
    assert_eq!(names, [b"gw.example", b"sg.example"]);
}

#[test]
fn the_log_knows_better_and_nothing_comes_of_it() {
    let mut world = world("nobody.example".into());
    world.run(Duration::from_secs(40));
    let reason = world.ends[1].failure().expect("a line");
    assert_eq!(
        reason,
        "the peer identifies itself as nobody.example; we accept ms.example, other.example"
    );
    let heard = world.ends[0].failure().expect("a line");
    let end = "a peer that does not know us as nobody.example answers the same way";
    assert!(heard.ends_with(end), "{heard}");
    assert!(world.drops(1, DropReason::AuthenticationFailed) > 0);
    for end in &world.ends {
        assert_eq!(end.node.established(), 0);
    }
}

#[test]
fn a_third_message_that_proves_nothing_ends_alike_for_both() {
    let mut heard = Vec::new();
    for identity in ["ms.example", "nobody.example"] {
        let mut world = world(identity.into());
        answer(&mut world);
        let (header, _) = Header::parse(&world.network.log[0]).expect("a message");
        let (next_payload, body) = wire::isakmp::write_payloads(&[Payload::Hash(vec![7; 32])]);
        let third = Header {
            next_payload,
            flags: Flags::default(),
            ..header
        };
        let path = arrives((GATEWAY, IKE_PORT), (NAT, IKE_PORT));
        world.network.log.clear();
        world.deliver(1, path, &third.write(&body));
        let drops = world.drops(1, DropReason::AuthenticationFailed);
        // the station says nothing more
        let none = Config {
            connections: Vec::new(),
            ..config(true, &world.change)
        };
        world.replace(0, endpoint(none, &Seed::new([7; 32])));
        world.run(Duration::from_secs(60));
        heard.push((
            world.network.log.len(),
            drops - u64::from(identity != "ms.example"),
        ));
    }
    assert_eq!(heard[0], heard[1]);
}
