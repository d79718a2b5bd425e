//! Servers of RADIUS behind a gateway. Here they are our own server of EAP.

use crypto::rand::Stream;
use wire::eap::{Eap, EapCode, EapKind};
use wire::radius::{Code, Kind, Packet};

use super::users::{examined_by, examiner};
use super::*;
use crate::eap::{Asked, Examiner, Own, Server};
use crate::ikev1::tests::pair::{JANUARY_2027, signatures};
use crate::node::session_id::SessionId;
use crate::radius::Question;
use crate::radius::tests::{Reply, servers};

const ONE: &str = "10.1.0.5:1812";
const TWO: &str = "10.1.0.6:1812";

/// A server with its exchanges, whose numbers are its State.
struct Radius {
    exchanges: Vec<Server>,
    random: Stream,
    /// Servers that do not answer.
    dead: Vec<&'static str>,
    /// Every so many datagrams one is lost.
    loses: usize,
    datagrams: usize,
    session_timeout: Option<u32>,
    users: &'static [&'static str],
    /// Every name is refused at once.
    refuses_names: bool,
    /// What repeated requests get again.
    answered: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Radius {
    fn new() -> Self {
        Self {
            exchanges: Vec::new(),
            random: Seed::new([8; 32]).stream("radius", 0),
            dead: Vec::new(),
            loses: 0,
            datagrams: 0,
            session_timeout: None,
            users: &["alice"],
            refuses_names: false,
            answered: BTreeMap::new(),
        }
    }

    fn is_lost(&mut self) -> bool {
        self.datagrams += 1;
        self.loses > 0 && self.datagrams.is_multiple_of(self.loses)
    }

    fn answer(&mut self, to: SocketAddr, request: &[u8]) -> Option<Vec<u8>> {
        if self.dead.iter().any(|it| to == it.parse().unwrap()) || self.is_lost() {
            return None;
        }
        if let Some(response) = self.answered.get(request).cloned() {
            return (!self.is_lost()).then_some(response);
        }
        let packet = Packet::parse(request).expect("a request");
        let mut eap = Eap::parse(&packet.eap()).expect("a packet");
        if self.refuses_names {
            let refusal = Eap::verdict(false, eap.id());
            return Some(Reply::of(Code::AccessReject, &refusal).to(request));
        }
        let state = packet.all(Kind::State).next();
        let number = match state {
            Some(octets) => usize::from(octets[0]),
            None => {
                let LocalMethod::Signature { key, chain } =
                    signatures("gateway", &["gateway", "mid"]).0
                else {
                    unreachable!("a certificate");
                };
                let own = Own {
                    key: &key,
                    chain: &chain,
                    now: JANUARY_2027.0,
                };
                let users = examiner(self.users);
                let (server, asked) = Server::begin(&users, &own, &mut self.random).unwrap();
                // Our gateway has asked in its place.
                eap = Eap::of_kind(EapCode::Response, asked.id(), EapKind::Identity, eap.data());
                self.exchanges.push(server);
                self.exchanges.len() - 1
            }
        };
        let reply = match self.exchanges[number].on_packet(&eap, &mut self.random) {
            Asked::More(eap) => {
                Reply::of(Code::AccessChallenge, &eap).with(Kind::State, &[number as u8])
            }
            Asked::Proven(_, eap, key) => {
                let mut reply = Reply::of(Code::AccessAccept, &eap).with_key(request, &key.0);
                if let Some(seconds) = self.session_timeout {
                    reply = reply.with(Kind::SessionTimeout, &seconds.to_be_bytes());
                }
                reply
            }
            Asked::Refused(eap, _) => Reply::of(Code::AccessReject, &eap),
        };
        let response = reply.to(request);
        self.answered.insert(request.to_vec(), response.clone());
        (!self.is_lost()).then_some(response)
    }

    /// Lets time pass, in steps that are a server's round trip.
    fn run(&mut self, world: &mut World, span: Duration) {
        let end = world.now + span;
        while world.now < end {
            world.run(Duration::from_millis(5));
            for (to, request) in core::mem::take(&mut world.ends[1].seen.radius) {
                if let Some(response) = self.answer(to, &request) {
                    world.input(1, Input::Radius(to, &response));
                }
            }
        }
    }
}

fn relay() -> RemoteMethod {
    RemoteMethod::Eap(Arc::new(Examiner {
        asks_servers: true,
        ..Examiner::default()
    }))
}

fn world(seed: u8, addresses: &[&str]) -> World {
    let mut world = examined_by(seed, relay);
    configure(&mut world, addresses);
    world
}

fn configure(world: &mut World, addresses: &[&str]) {
    let config = Config {
        radius: Some(servers(addresses)),
        ..config(false, &world.change)
    };
    world.input(1, Input::Configure(Arc::new(config)));
}

fn silences(world: &World, silent: bool) -> usize {
    world.ends[1].count(
        |event| matches!(event, Event::RadiusServer { is_silent, .. } if *is_silent == silent),
    )
}

#[test]
fn a_server_lets_a_user_in() {
    let mut world = world(200, &[ONE]);
    let mut radius = Radius::new();
    radius.run(&mut world, Duration::from_secs(2));
    world.assert_up();
    let status = world.ends[1].node.status(world.now);
    let peer = status.connections[0].sessions[0].peer.as_ref();
    assert_eq!(peer.expect("a peer").to_string(), "alice");
    let [server] = &status.radius[..] else {
        panic!("one server");
    };
    assert_eq!(server.address, ONE.parse().unwrap());
    assert_eq!((server.counts.accepts, server.counts.rejects), (1, 0));
    assert!(server.counts.requests >= 3 && !server.is_silent);
    // A reload asks nobody again, and ends nothing.
    configure(&mut world, &[TWO]);
    radius.run(&mut world, Duration::from_secs(1));
    world.assert_up();
}

#[test]
fn datagrams_on_either_side_may_be_lost() {
    for loses in [3, 4, 7] {
        let mut world = world(201, &[ONE]);
        world.network.loss = 0.1;
        let mut radius = Radius::new();
        radius.loses = loses;
        radius.run(&mut world, Duration::from_secs(120));
        world.assert_up();
    }
}

#[test]
fn another_server_takes_over_and_the_first_one_is_used_again_once_it_answers() {
    let mut world = world(202, &[ONE, TWO]);
    let mut radius = Radius::new();
    radius.dead = vec![ONE];
    radius.run(&mut world, Duration::from_secs(15));
    world.assert_up();
    assert_eq!(silences(&world, true), 1);
    let status = world.ends[1].node.status(world.now).radius;
    assert!(status[0].is_silent && !status[1].is_silent);
    assert_eq!(
        (status[0].counts.requests, status[0].counts.repeats),
        (1, 2)
    );
    assert_eq!(status[1].counts.accepts, 1);
    radius.dead.clear();
    radius.run(&mut world, Duration::from_secs(90));
    world.command(0, Command::Down("road".into()));
    radius.run(&mut world, Duration::from_secs(5));
    world.command(0, Command::Up("road".into()));
    radius.run(&mut world, Duration::from_secs(5));
    world.assert_up();
    let status = world.ends[1].node.status(world.now).radius;
    assert_eq!((status[0].is_silent, status[0].counts.accepts), (false, 1));
    assert_eq!(silences(&world, false), 1);
}

#[test]
fn a_station_hears_in_bounded_time_that_no_server_answers() {
    let mut world = world(203, &[ONE, TWO]);
    let mut radius = Radius::new();
    radius.dead = vec![ONE, TWO];
    while world.ends[0].failure().is_none() {
        radius.run(&mut world, Duration::from_millis(100));
        assert!(world.now < Instant(0) + Duration::from_secs(11));
    }
    let why = world.ends[1].failure().expect("a failure");
    assert!(why.starts_with("no RADIUS server answers"), "{why}");
    let why = world.ends[0].failure().expect("a failure");
    assert!(why.contains("the gateway refuses the user"), "{why}");
    // It tries again by itself, and comes up.
    radius.dead.clear();
    radius.run(&mut world, Duration::from_secs(60));
    world.assert_up();
}

#[test]
fn a_station_is_back_soon_after_servers_that_were_down_for_long() {
    let mut world = world(209, &[ONE, TWO]);
    let mut radius = Radius::new();
    radius.dead = vec![ONE, TWO];
    radius.run(&mut world, Duration::from_secs(1_800));
    radius.dead.clear();
    // Its wait, and the time until a silent server is tried again.
    radius.run(&mut world, Duration::from_secs(100));
    world.assert_up();
}

#[test]
fn a_question_of_a_session_that_is_over_is_forgotten() {
    let mut world = world(204, &[ONE]);
    let mut radius = Radius::new();
    radius.dead = vec![ONE];
    radius.run(&mut world, Duration::from_millis(500));
    world.command(1, Command::Stop);
    world.run(Duration::from_secs(60));
    let status = world.ends[1].node.status(world.now).radius;
    assert_eq!(status[0].counts.unanswered, 0);
}

fn accepts(world: &World) -> u64 {
    let status = world.ends[1].node.status(world.now);
    status.radius[0].counts.accepts
}

fn is_end(cause: &'static str) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::IkeClosed { cause: it, .. } if it.code() == cause)
}

#[test]
fn before_the_servers_time_is_over_a_station_authenticates_again_and_keeps_its_address() {
    let mut world = world(205, &[ONE]);
    let mut radius = Radius::new();
    radius.session_timeout = Some(3600);
    radius.run(&mut world, Duration::from_secs(2));
    let inner = world.ends[0].inner();
    let mut sent = 0;
    while world.now < Instant(0) + Duration::from_secs(3 * 3600 + 1500) {
        world.packet();
        sent += 1;
        radius.run(&mut world, Duration::from_secs(5));
    }
    // 24 minutes before its end.
    assert_eq!(accepts(&world), 6);
    assert_eq!(world.ends[0].inner(), inner);
    world.assert_up();
    for end in [0, 1] {
        assert!(!world.ends[end].told(is_end("expired")));
        assert_eq!(world.ends[end].node.sessions.len(), 1);
    }
    assert_eq!(world.ends[0].count(is_end("authenticated-again")), 5);
    // One may be under way when a session takes over.
    let opened = world.ends[0].seen.opened.len();
    assert!(opened + 5 >= sent, "{opened} of {sent}");
}

#[test]
fn the_servers_time_ends_a_tunnel_that_no_server_lets_go_on() {
    let mut world = world(211, &[ONE]);
    let mut radius = Radius::new();
    radius.session_timeout = Some(1800);
    radius.run(&mut world, Duration::from_secs(20));
    radius.dead = vec![ONE];
    radius.run(&mut world, Duration::from_secs(1778));
    // Its attempts have come to nothing, and the tunnel has stayed.
    world.assert_up();
    let failed = |event: &Event| matches!(event, Event::NegotiationFailed { .. });
    assert!(world.ends[0].told(failed));
    radius.run(&mut world, Duration::from_secs(4));
    assert!(world.ends[1].told(is_end("expired")));
    assert_eq!(accepts(&world), 1);
    radius.dead.clear();
    radius.run(&mut world, Duration::from_secs(120));
    world.assert_up();
    assert!(accepts(&world) > 1);
}

/// strongSwan begins again at once if its time is less than its `over_time`, so it is not told.
#[test]
fn a_short_time_of_the_servers_is_not_told() {
    let mut world = world(212, &[ONE]);
    let mut radius = Radius::new();
    radius.session_timeout = Some(1700);
    radius.run(&mut world, Duration::from_secs(1690));
    assert_eq!(accepts(&world), 1);
    world.assert_up();
    radius.run(&mut world, Duration::from_secs(20));
    assert!(world.ends[1].told(is_end("expired")));
}

#[test]
fn what_no_server_has_said_is_dropped_and_counted() {
    let mut world = world(206, &[ONE]);
    let mut radius = Radius::new();
    radius.dead = vec![ONE];
    radius.run(&mut world, Duration::from_millis(500));
    world.input(1, Input::Radius(ONE.parse().unwrap(), &[2; 20]));
    world.input(1, Input::Radius(TWO.parse().unwrap(), &[0; 3]));
    assert_eq!(world.drops(1, DropReason::RadiusMalformed), 2);
    radius.dead.clear();
    radius.run(&mut world, Duration::from_secs(5));
    world.assert_up();
}

/// A wrong password whose sender has the server's last question, and goes silent.
fn guessed(seed: u8) -> World {
    let mut world = world(seed, &[ONE]);
    let mut radius = Radius::new();
    radius.users = &["bob"];
    let asked = |world: &World| world.ends[1].node.status(world.now).radius[0].counts;
    while asked(&world).requests < 2 {
        radius.run(&mut world, Duration::from_millis(5));
    }
    assert_eq!(asked(&world).rejects, 0);
    world.network.wire.clear();
    world.network.loss = 1.0;
    world
}

/// Whether this counts as a wrong password of the station's address.
fn counts(mut world: World, end: impl FnOnce(&mut World)) -> bool {
    end(&mut world);
    world.run(Duration::from_secs(32));
    assert_eq!(world.ends[1].node.half_open.total(), 0, "it is over");
    // One less than may come from an address, and as many from another one for comparison.
    let (from, other) = (IpAddr::from(NAT), IpAddr::from([203, 0, 113, 7]));
    let now = world.now;
    let quotas = &mut world.ends[1].node.quotas;
    for _ in 0..9 {
        quotas.was_wrong(from, now);
        quotas.was_wrong(other, now);
    }
    assert!(quotas.may_try(other, now).is_ok());
    quotas.may_try(from, now).is_err()
}

/// Who guesses reads in the server's last question that the password was wrong.
#[test]
fn a_wrong_password_counts_though_its_sender_does_not_wait_for_the_refusal() {
    assert!(counts(guessed(207), |_| {}));
}

#[test]
fn a_gateway_that_ends_the_exchange_itself_counts_nothing() {
    assert!(!counts(guessed(207), |world| world.command(1, Command::Stop)));
}

#[test]
fn a_refused_name_is_no_wrong_password() {
    let mut world = world(210, &[ONE]);
    let mut radius = Radius::new();
    radius.refuses_names = true;
    radius.run(&mut world, Duration::from_secs(600));
    let rejects = world.ends[1].node.status(world.now).radius[0]
        .counts
        .rejects;
    assert!(rejects > 15, "{rejects}");
    let (from, now) = (IpAddr::from(NAT), world.now);
    let quotas = &mut world.ends[1].node.quotas;
    for _ in 0..10 {
        assert!(quotas.may_try(from, now).is_ok());
        quotas.was_wrong(from, now);
    }
    assert!(quotas.may_try(from, now).is_err());
}

#[test]
fn a_peer_that_has_tried_nothing_yet_and_one_that_is_let_in_have_guessed_nothing() {
    for requests in [1, 2] {
        let mut world = world(208, &[ONE]);
        let mut radius = Radius::new();
        while world.ends[1].node.status(world.now).radius[0]
            .counts
            .requests
            < requests
        {
            radius.run(&mut world, Duration::from_millis(5));
        }
        if requests == 1 {
            world.network.wire.clear();
            world.network.loss = 1.0;
        }
        radius.run(&mut world, Duration::from_secs(40));
        let now = world.now;
        let quotas = &mut world.ends[1].node.quotas;
        for _ in 0..10 {
            let from = IpAddr::from(NAT);
            assert!(quotas.may_try(from, now).is_ok());
            quotas.was_wrong(from, now);
        }
    }
}

/// A server is slow to refuse, and a stranger can make it so.
#[test]
fn one_network_does_not_take_all_numbers_of_a_server() {
    let mut world = world(219, &[ONE]);
    let mut radius = Radius::new();
    radius.dead = vec![ONE];
    let ask = |world: &mut World, number: u32, peer: IpAddr| {
        let question = Question {
            server: None,
            user: b"nobody@elsewhere".to_vec(),
            eap: Eap::of_kind(EapCode::Response, 1, EapKind::Identity, b"nobody@elsewhere"),
            state: None,
            peer,
        };
        let now = world.now;
        world.ends[1]
            .node
            .ask_server(SessionId(number), question, now);
    };
    for number in 0..128 {
        ask(&mut world, 1_000 + number, NAT.into());
    }
    let may_ask = |world: &World, peer: [u8; 4]| world.ends[1].node.radius.may_ask(peer.into());
    assert!(may_ask(&world, [198, 51, 100, 7]));
    radius.run(&mut world, Duration::from_millis(300));
    let requests = |world: &World| {
        let status = world.ends[1].node.status(world.now).radius;
        status[0].counts.requests
    };
    // The station's name waits, and is not refused: it comes again.
    assert_eq!(requests(&world), 128);
    assert!(world.drops(1, DropReason::OverQuota) > 0);
    assert!(world.ends[0].failure().is_none());
    radius.dead.clear();
    radius.run(&mut world, Duration::from_secs(10));
    world.assert_up();
}
