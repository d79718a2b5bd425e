//! A server of RADIUS examines the station. Here it is our own server of EAP.

use crypto::rand::{Seed, Stream};
use std::sync::Arc;
use wire::eap::{Eap, EapCode, EapKind};

use super::world::{PASSWORD, Proof, Setup, Who, World, examiner};
use crate::config::{IdentityPattern, LocalMethod, RemoteMethod};
use crate::eap::{Asked, Examiner, Own, Server};
use crate::ikev1::tests::pair::{JANUARY_2027, signatures};
use crate::radius::tests::servers;
use crate::radius::{Question, Verdict};
use crate::sa::Secret;
use crate::time::Duration;

/// The server, and what it says at the end.
struct Radius {
    server: Server,
    /// The identifier of its own first request, which ours stands for.
    first: Option<u8>,
    random: Stream,
    user: Option<&'static [u8]>,
    has_key: bool,
    lasts: Option<Duration>,
}

impl Radius {
    fn new() -> Self {
        let LocalMethod::Signature { key, chain } = signatures("gateway", &["gateway", "mid"]).0
        else {
            unreachable!("a certificate");
        };
        let own = Own {
            key: &key,
            chain: &chain,
            now: JANUARY_2027.0,
        };
        let mut random = Seed::new([3; 32]).stream("server", 0);
        let (server, asked) = Server::begin(&examiner(), &own, &mut random).unwrap();
        Self {
            server,
            first: Some(asked.id()),
            random,
            user: None,
            has_key: true,
            lasts: None,
        }
    }

    fn answer(&mut self, question: &Question) -> Verdict {
        assert_eq!(question.user, b"alice");
        assert_eq!(question.peer, std::net::IpAddr::from([10, 0, 0, 2]));
        let mut packet = question.eap.clone();
        match self.first.take() {
            Some(id) => {
                assert!(question.server.is_none() && question.state.is_none());
                assert_eq!(packet.kind(), Some(EapKind::Identity));
                packet = Eap::of_kind(EapCode::Response, id, EapKind::Identity, packet.data());
            }
            None => assert_eq!(question.state.as_deref(), Some(&b"state"[..])),
        }
        match self.server.on_packet(&packet, &mut self.random) {
            Asked::More(eap) => Verdict::Challenge {
                eap,
                state: Some(b"state".to_vec()),
                server: Arc::clone(&servers(&["10.1.0.5:1812"]).all[0]),
            },
            Asked::Proven(_, eap, key) => Verdict::Accept {
                eap,
                user: self.user.map(<[u8]>::to_vec),
                key: self.has_key.then_some(key),
                lasts: self.lasts,
            },
            Asked::Refused(eap, _) => Verdict::Reject {
                eap: Some(eap),
                server: "10.1.0.5:1812".parse().unwrap(),
            },
        }
    }

    /// Lets both ends talk to the end.
    fn serve(&mut self, world: &mut World) {
        loop {
            world.run();
            let Some(question) = world.gateway.questions.pop() else {
                return;
            };
            assert!(world.gateway.questions.is_empty());
            let verdict = self.answer(&question);
            world.examined(verdict);
        }
    }
}

pub(super) fn world(station: Proof) -> World {
    let setup = Setup {
        station,
        gateway: Proof::Certificate,
        ..Setup::default()
    };
    let mut world = setup.world();
    world.change(Who::Gateway, |it| {
        let relay = Examiner {
            asks_servers: true,
            ..Examiner::default()
        };
        it.remote.method = RemoteMethod::Eap(Arc::new(relay));
        it.remote.identities = vec![IdentityPattern::Any];
    });
    world
}

const RIGHT: Proof = Proof::Password(PASSWORD);

fn identity(world: &World) -> String {
    let session = world.gateway.session.as_ref().unwrap();
    session.identity().unwrap().to_string()
}

#[test]
fn a_server_proves_the_station_and_its_key_ties_it_to_the_ike_sa() {
    let mut world = world(RIGHT);
    Radius::new().serve(&mut world);
    world.assert_agreed(1);
    assert_eq!(identity(&world), "alice");
    let first = &world.gateway.arrows[1];
    assert!(first.contains("IDr CERT CERT AUTH EAP"), "{first}");
}

#[test]
fn the_name_is_the_servers_if_it_gives_one() {
    for (name, shown) in [
        (&b"alice.smith"[..], "alice.smith"),
        // Not one of our own names: opaque.
        (b"OFFICE\\alice", "keyid:OFFICE\\alice"),
        (b"192.0.2.9", "keyid:192.0.2.9"),
        (b"al\x00\xff", "@#616c00ff"),
    ] {
        let mut world = world(RIGHT);
        let mut radius = Radius::new();
        radius.user = Some(name);
        radius.serve(&mut world);
        world.assert_agreed(1);
        assert_eq!(identity(&world), shown);
    }
}

#[test]
fn who_may_come_is_said_by_that_name() {
    for (pattern, is_taken) in [("bob", true), ("alice", false)] {
        let mut world = world(RIGHT);
        world.change(Who::Gateway, |it| {
            it.remote.identities = vec![IdentityPattern::parse(pattern).unwrap()];
        });
        let mut radius = Radius::new();
        radius.user = Some(b"bob");
        radius.serve(&mut world);
        match is_taken {
            true => world.assert_agreed(1),
            false => {
                world.assert_over();
                let why = world.fault(Who::Gateway);
                assert!(why.contains("identifies itself as bob"), "{why}");
            }
        }
    }
}

#[test]
fn a_method_without_a_key_is_refused() {
    let mut world = world(RIGHT);
    let mut radius = Radius::new();
    radius.has_key = false;
    radius.serve(&mut world);
    world.assert_over();
    let why = world.fault(Who::Gateway);
    assert!(why.contains("\"alice\" by a method without a key"), "{why}");
}

/// Who forwards EAP to a server does not know the key.
#[test]
fn a_key_that_is_not_the_stations_ends_the_exchange() {
    let mut world = world(RIGHT);
    let mut radius = Radius::new();
    loop {
        world.run();
        let Some(question) = world.gateway.questions.pop() else {
            break;
        };
        let mut verdict = radius.answer(&question);
        if let Verdict::Accept { key, .. } = &mut verdict {
            *key = Some(Secret(vec![7; 64]));
        }
        world.examined(verdict);
    }
    world.assert_over();
    let why = world.fault(Who::Gateway);
    assert!(why.contains("does not have the key of EAP"), "{why}");
}

#[test]
fn a_wrong_password_is_refused_by_the_server() {
    let mut world = world(Proof::Password("another"));
    Radius::new().serve(&mut world);
    world.assert_over();
    let why = world.fault(Who::Gateway);
    let told = "the RADIUS server 10.1.0.5:1812 refuses the user \"alice\"";
    assert!(why == told || why.contains("does not accept us"), "{why}");
    let why = world.fault(Who::Station);
    assert_eq!(why, "the gateway refuses the user's name or password");
}

#[test]
fn the_peer_hears_of_it_if_no_server_answers() {
    let mut world = world(RIGHT);
    world.run();
    assert_eq!(world.gateway.questions.len(), 1);
    world.examined(Verdict::Failed("no RADIUS server answers".into()));
    world.run();
    world.assert_over();
    assert_eq!(world.fault(Who::Gateway), "no RADIUS server answers");
    let why = world.fault(Who::Station);
    assert_eq!(why, "the gateway refuses the user without saying why");
}

#[test]
fn what_the_peer_repeats_while_the_server_thinks_is_not_asked_again() {
    let mut world = world(RIGHT);
    world.run();
    assert_eq!(world.gateway.questions.len(), 1);
    for _ in 0..3 {
        world.wait();
        world.run();
    }
    assert_eq!(world.gateway.questions.len(), 1);
    Radius::new().serve(&mut world);
    world.assert_agreed(1);
}

#[test]
fn an_answer_that_nobody_waits_for_changes_nothing() {
    let mut world = world(RIGHT);
    Radius::new().serve(&mut world);
    let facts = world.gateway.facts.len();
    world.examined(Verdict::Failed("late".into()));
    world.assert_agreed(1);
    assert_eq!(world.gateway.facts.len(), facts);
    // Before it has asked anything.
    let mut world = self::world(RIGHT);
    assert!(world.deliver(Who::Gateway));
    world.examined(Verdict::Failed("early".into()));
    Radius::new().serve(&mut world);
    world.assert_agreed(1);
}

#[test]
fn the_servers_time_ends_the_session() {
    let mut world = world(RIGHT);
    let mut radius = Radius::new();
    radius.lasts = Some(Duration::from_secs(90));
    radius.serve(&mut world);
    world.assert_agreed(1);
    let session = world.gateway.session.as_ref().unwrap();
    assert!((80..=90).contains(&session.lifetime_s()));
}
