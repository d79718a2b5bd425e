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
    road.run(at(72_000), || false);
    assert_eq!(road.node.ignored().untrusted, before + 1);
    // It had led the packets to that address.
    assert_eq!(road.care_of(), [INNER]);
    assert!(matches!(
        road.node.state(),
        State::Registered { tunnel, .. } if tunnel.care_of == INNER
    ));
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
    let reply = |key: &[u8], identification| {
        let mut w = Writer::new();
        Reply {
            code: Code::Accepted,
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
    };
    let server = SocketAddrV4::new(HOME_AGENT, PORT);
    let right = request.identification;
    road.node.handle(server, &reply(b"wrong", right), road.now);
    road.node.handle(server, &reply(KEY, right ^ 1), road.now);
    let ignored = road.node.ignored();
    assert_eq!((ignored.unauthenticated, ignored.unexpected), (1, 1));
    assert!(!road.node.is_proven_inside());
    road.node.handle(server, &reply(KEY, right), road.now);
    assert!(road.node.is_proven_inside());
}
