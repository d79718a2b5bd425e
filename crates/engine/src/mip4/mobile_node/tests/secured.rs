//! A node that goes through a VPN gateway outside, and proves that it is inside (RFC 5265 §3, RFC
//! 5266 §3).

use super::*;

/// Given by the gateway.
const INNER: Ipv4Addr = Ipv4Addr::new(10, 18, 9, 7);
/// On a link inside.
const INSIDE: Ipv4Addr = Ipv4Addr::new(10, 20, 7, 7);
const MINUTE: Duration = Duration::from_secs(60);

fn road(is_told: bool) -> Road {
    let replay = ReplayProtection::Timestamps;
    let mut road = Road::new(Config {
        monitor: Some(MINUTE),
        ..config(replay)
    });
    if is_told {
        let mut own = agent_config(replay, None);
        own.trusted = vec![TrafficSelector::subnet(HOME.into(), 8)];
        road.agent = home_agent(own);
    }
    road
}

#[test]
fn outside_a_move_needs_no_registration_and_the_question_in_clear_no_answer() {
    let mut road = road(true);
    road.node.attach(Attachment::Secured(INNER), at(0));
    road.node.probe(Some(CARE_OF), at(0));
    road.run(at(200_000), || false);
    assert_eq!(road.care_of(), [INNER]);
    assert!(!road.node.is_proven_inside() && road.node.outside().is_none());
    // 0, 1, 3, 7, 15, 31, 63, 123, 183 s in clear, and one registration, whose first request has
    // the time at which the home agent was started.
    assert_eq!(road.requests, 11);
    let states = road.states.len();
    let elsewhere = Ipv4Addr::new(203, 0, 113, 7);
    road.node.probe(Some(elsewhere), road.now);
    let (from, ..) = sent(&drain(&mut road.node)).unwrap();
    assert_eq!(from, elsewhere, "at once");
    road.run(at(220_000), || false);
    assert_eq!(road.states.len(), states, "the registration holds");
    // After three quarters of 300 s the registration is renewed, and no sooner.
    road.run(at(230_000), || false);
    assert_eq!(road.care_of(), [INNER]);
    road.node.probe(None, road.now);
    let before = road.requests;
    road.run(at(400_000), || false);
    assert_eq!(road.requests, before, "nothing in clear any more");
}

#[test]
fn the_answer_in_clear_takes_the_node_inside_until_it_does_not_come_again() {
    let mut road = road(true);
    road.node.attach(Attachment::Secured(INNER), at(0));
    road.run(at(1_000), || false);
    assert_eq!(road.care_of(), [INNER]);
    road.node.probe(Some(INSIDE), road.now);
    road.run(at(2_000), || false);
    assert_eq!(road.care_of(), [INSIDE]);
    assert!(road.node.is_proven_inside());
    assert_eq!(road.node.secured(), None);
    let lost = |it: &State| *it == State::Unreachable;
    assert!(!road.states.iter().any(lost), "{:?}", road.states);
    // RFC 5265 §3.2.4: well before a minute has passed, although 300 s are granted.
    let before = road.requests;
    road.run(at(3_602_000), || false);
    assert_eq!(road.requests - before, 80);
    assert!(road.node.is_proven_inside());
    let last = road.now;
    road.run(last + Duration::from_secs(75), || true);
    assert!(!road.node.is_proven_inside());
    assert_eq!(road.node.state(), State::Unreachable);
}

/// The gateway's tunnel is up first, or the home agent is reached from everywhere by mistake.
#[test]
fn an_answer_without_the_home_agents_word_proves_nothing() {
    let mut road = road(false);
    road.node.attach(Attachment::Colocated(INSIDE), at(0));
    road.run(at(30_000), || false);
    assert_eq!(road.node.state(), State::Unreachable);
    assert!(!road.node.is_proven_inside());
    assert!(road.node.ignored().untrusted >= 3);
    road.node.attach(Attachment::Home, road.now);
    road.run(at(60_000), || false);
    assert_eq!(road.node.state(), State::Unreachable);
    let before = road.node.ignored().untrusted;
    road.node.attach(Attachment::Secured(INNER), road.now);
    road.run(at(70_000), || false);
    assert_eq!(road.care_of(), [INNER], "in the tunnel no word is needed");
    road.node.probe(Some(CARE_OF), road.now);
    let states = road.states.len();
    let mut places = Vec::new();
    for second in 71..3_600 {
        road.run(at(second * 1_000), || false);
        places.extend(road.care_of());
    }
    // A question each minute. None has led packets to that address, not for a moment.
    assert_eq!(road.node.ignored().untrusted - before, 59);
    places.dedup();
    assert_eq!((places, road.states.len()), (vec![INNER], states));
}

/// Before the tunnel is up, too.
#[test]
fn in_clear_nothing_is_registered_before_the_answer_proves_the_place() {
    let mut road = road(false);
    road.node.attach(Attachment::Colocated(CARE_OF), at(0));
    let (.., payload) = sent(&drain(&mut road.node)).unwrap();
    let request = request_of(&payload);
    assert_eq!((request.lifetime, request.care_of_address), (0, CARE_OF));
    road.run(at(300_000), || false);
    assert!(road.care_of().is_empty() && road.node.ignored().untrusted >= 5);
    // An answer that comes is followed at once by the registration; if that is lost, by the
    // question again.
    let mut road = self::road(true);
    road.node.attach(Attachment::Colocated(INSIDE), at(0));
    let mut messages = 0;
    let mut lost = || {
        messages += 1;
        // The question, its reply, the registration, the refusal of a clock at the start.
        messages == 5
    };
    road.run(at(900), &mut lost);
    road.run(at(5_000), &mut lost);
    assert_eq!(road.care_of(), [INSIDE]);
    assert!(road.node.is_proven_inside());
}

/// A network outside gives the node the address that its tunnel has. What is asked from there goes
/// through the tunnel, and so into a network inside.
#[test]
fn from_the_tunnels_own_address_nothing_is_asked_in_clear() {
    let mut road = road(true);
    road.node.attach(Attachment::Secured(INNER), at(0));
    road.node.probe(Some(INNER), at(0));
    road.run(at(200_000), || false);
    assert_eq!(road.care_of(), [INNER]);
    assert!(road.node.secured() == Some(INNER) && !road.node.is_proven_inside());
    assert_eq!(road.requests, 2);
}

/// A gateway's pool is a network inside, and somebody has a tunnel of his own there: he is on the
/// node's link, has given it his tunnel's address, and passes on what it asks.
#[test]
fn who_has_a_tunnel_of_his_own_takes_no_node_inside() {
    let pool = TrafficSelector::subnet(INNER.into(), 24);
    let forged = Ipv4Addr::new(10, 18, 9, 8);
    for tunnelled in [vec![pool], vec![]] {
        let is_mended = !tunnelled.is_empty();
        let mut road = road(true);
        let mut own = agent_config(ReplayProtection::Timestamps, None);
        own.trusted = vec![TrafficSelector::subnet(HOME.into(), 8)];
        own.tunnelled = tunnelled;
        road.agent = home_agent(own);
        // Before the node's tunnel is up, and beside it.
        road.node.attach(Attachment::Colocated(forged), at(0));
        road.run(at(5_000), || false);
        assert_eq!(road.node.is_proven_inside(), !is_mended);
        road.node.attach(Attachment::Secured(INNER), at(5_000));
        road.node.probe(Some(forged), at(5_000));
        road.run(at(200_000), || false);
        assert_eq!(road.node.is_proven_inside(), !is_mended);
        if is_mended {
            assert_eq!(road.care_of(), [INNER], "nor does he get its packets");
        }
    }
}

/// Replies of long ago, from when the node was inside: one of many is to the same fraction of a
/// second as a question.
#[test]
fn an_answer_to_another_second_proves_nothing() {
    let mut node = road(true).node;
    node.attach(Attachment::Colocated(CARE_OF), at(0));
    let request = request_of(&sent(&drain(&mut node)).unwrap().2);
    let server = SocketAddrV4::new(HOME_AGENT, PORT);
    let day = 86_400 << 32;
    for (code, identification) in [
        (Code::Accepted, request.identification - day),
        (
            Code::AcceptedWithoutSimultaneous,
            request.identification - day,
        ),
    ] {
        node.handle(server, &proof(code, KEY, identification), at(1));
    }
    assert_eq!(node.ignored().unexpected, 2);
    assert_eq!(drain(&mut node), []);
    let right = proof(Code::Accepted, KEY, request.identification);
    node.handle(server, &right, at(1));
    let next = request_of(&sent(&drain(&mut node)).unwrap().2);
    assert_eq!((next.lifetime, next.care_of_address), (300, CARE_OF));
}

#[test]
fn at_home_the_proof_is_renewed_too() {
    let mut road = road(true);
    road.node.attach(Attachment::Home, at(0));
    road.run(at(1_000), || false);
    assert!(road.node.state() == State::Home && road.node.is_proven_inside());
    let before = road.requests;
    road.run(at(181_000), || false);
    assert_eq!(road.requests - before, 4);
    assert_eq!(road.states, [State::Home]);
    let last = road.now;
    road.run(last + Duration::from_secs(75), || true);
    assert_eq!(road.node.state(), State::Unreachable);
    road.run(last + Duration::from_secs(150), || false);
    assert!(road.node.is_proven_inside());
}

#[test]
fn a_node_that_leaves_asks_no_more() {
    let mut road = road(true);
    road.node.attach(Attachment::Secured(INNER), at(0));
    road.node.probe(Some(CARE_OF), at(0));
    road.run(at(5_000), || false);
    road.node.leave(road.now);
    road.run(at(30_000), || false);
    assert_eq!(road.node.state(), State::Unreachable);
    assert!(road.care_of().is_empty());
    let before = road.requests;
    road.run(at(300_000), || false);
    assert_eq!((road.requests, road.node.deadline()), (before, None));
}

/// Anybody on the link can advertise.
#[test]
fn behind_the_gateway_no_advertisement_is_heard() {
    let mut road = road(true);
    road.node.attach(Attachment::Secured(INNER), at(0));
    road.run(at(2_000), || false);
    drain(&mut road.node);
    let before = road.node.state();
    let required = FOREIGN | AgentFlags::REGISTRATION_REQUIRED;
    for (from, flags) in [(HOME_AGENT, AgentFlags::HOME_AGENT), (AGENT, required)] {
        let icmp = advertisement(1, flags).to_icmp();
        road.node.hear(from, &icmp, road.now);
    }
    assert_eq!(drain(&mut road.node), []);
    assert_eq!(road.node.state(), before);
}

/// A forged answer to the question in clear, and one to a question of long ago.
#[test]
fn answers_in_clear_without_the_key_are_counted() {
    let mut road = road(true);
    road.node.attach(Attachment::Secured(INNER), at(0));
    road.run(at(1_000), || false);
    road.node.probe(Some(INSIDE), road.now);
    let request = request_of(&sent(&drain(&mut road.node)).unwrap().2);
    let reply = |key: &[u8], identification| proof(Code::Accepted, key, identification);
    let server = SocketAddrV4::new(HOME_AGENT, PORT);
    let mut right = request.identification;
    road.node.handle(server, &reply(b"wrong", right), road.now);
    road.node.handle(server, &reply(KEY, right ^ 1), road.now);
    let ignored = road.node.ignored();
    assert_eq!((ignored.unauthenticated, ignored.unexpected), (1, 1));
    assert!(!road.node.is_proven_inside());
    for lifetime in [0, 300] {
        assert!(!road.node.is_proven_inside());
        road.node.handle(server, &reply(KEY, right), road.now);
        let asked = sent(&drain(&mut road.node)).map(|it| request_of(&it.2));
        assert_eq!(asked.is_some(), lifetime == 0);
        right = asked.map_or(right, |it| it.identification);
    }
    assert!(road.node.is_proven_inside());
}

/// A reply that says that its node is inside.
fn proof(code: Code, key: &[u8], identification: u64) -> Vec<u8> {
    let mut w = Writer::new();
    Reply {
        code,
        lifetime: 300,
        home_address: HOME,
        home_agent: HOME_AGENT,
        identification,
    }
    .write(&mut w);
    Extension::TrustedNetworks.write(&mut w);
    let replay = ReplayProtection::Timestamps;
    let one = Association::new(0x1000, Algorithm::HmacMd5, replay, key).unwrap();
    one.sign(Authentication::MobileHome, &mut w);
    w.into_vec()
}
