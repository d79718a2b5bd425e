//! Two sessions, the node's part of each in its simplest form, and the wire between them, which
//! loses, delays and repeats what a test says.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use crypto::cert::{
    Authority, Certificate, KeyMaterial, Request, SigningKey, TrustStore, private_key_pem,
};
use crypto::ml_dsa::{MlDsa, seed_to_pkcs8};
use crypto::mschapv2::NtHash;
use crypto::rand::{Seed, Stream};
use crypto::sign::PrivateKey;
use wire::ikev2::{Exchange, Gateway as Elsewhere, Payload};

use crate::config::{
    Child, Childless, Connection, Encapsulation, IdentityPattern, LocalAuth, LocalMethod, Ppk,
    RemoteAuth, RemoteMethod, Version,
};
use crate::eap::{Examiner, Login, LoginMethod, Users};
use crate::identity::Identity;
use crate::ike::round_trip::RoundTrip;
use crate::ike::{
    AgreedChild, ChildOffer, ChildRequest, Fact, Fault, FirstChild, Grant, Groups, Lease,
    NegotiatedChild, Notification, Outbox, Sent, Wanted,
};
use crate::ikev1::tests::pair::{JANUARY_2027, signatures};
use crate::ikev2::cookie::Cookies;
use crate::ikev2::crash::Maker;
use crate::ikev2::established::Established;
use crate::ikev2::message::Message;
use crate::ikev2::session::{Beginning, Means, Session};
use crate::ikev2::tasks::Awaited;
use crate::ikev2::ticket::Tickets;
use crate::ikev2::window::At;
use crate::ikev2::{Gate, Ticket, Travel};
use crate::radius::{Question, Verdict};
use crate::sa::{ChildId, Mode, Path, Protocol, Secret};
use crate::selector::TrafficSelector;
use crate::time::{Calendar, Duration, Instant};

/// How one end proves itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    Key(&'static str),
    Certificate,
    /// A certificate with a key of ML-DSA, by an authority of the same parameter set.
    MlDsa(MlDsa),
    /// A certificate with a key of this kind, by an authority of the same: `p256`, `p384`, `p521`,
    /// `ed25519`.
    Curve(&'static str),
    /// Of the station: the user alice with this password, whose right one is [`PASSWORD`].
    Password(&'static str),
    /// Of the station: its certificate by EAP-TLS.
    Tls,
}

pub(super) const PASSWORD: &str = "clientPass";

fn tls_login() -> LocalMethod {
    let LocalMethod::Signature { key, chain } = signatures("station", &["station"]).0 else {
        unreachable!("a certificate");
    };
    LocalMethod::Eap(Arc::new(Login {
        user: "somebody".into(),
        method: LoginMethod::Certificate(key, chain),
        server: None,
    }))
}

/// The key of ML-DSA and the certificate of an end with this name, and trust in its authority.
fn ml_dsa(set: MlDsa, name: &str) -> (LocalMethod, RemoteMethod) {
    let pem = |seed: u8| private_key_pem(&seed_to_pkcs8(set, &[seed; 32]));
    let key = |seed: u8| SigningKey::from_pem(&pem(seed)).unwrap();
    let now = JANUARY_2027.0;
    let authority = Authority::create("CN=ca", key(1), &[1], now, 30).unwrap();
    let issued = authority.issue(&Request {
        subject: "CN=end",
        alternative_names: &[name.to_owned()],
        key: KeyMaterial::Pair(&key(2)),
        serial: &[2],
        now,
        days: 30,
    });
    let method = LocalMethod::Signature {
        key: Arc::new(PrivateKey::from_pem(&pem(2)).unwrap()),
        chain: Certificate::all_from_pem(&issued.unwrap()).unwrap(),
    };
    let store = TrustStore {
        authorities: Certificate::all_from_pem(authority.certificate_pem()).unwrap(),
        ..TrustStore::default()
    };
    (method, RemoteMethod::Signature(Arc::new(store)))
}

/// The key and the certificate of both ends on this curve, and trust in its authority.
fn on_curve(curve: &str) -> (LocalMethod, RemoteMethod) {
    let pem = match curve {
        "p256" => include_str!("keys/p256.pem"),
        "p384" => include_str!("keys/p384.pem"),
        "p521" => include_str!("keys/p521.pem"),
        "ed25519" => include_str!("keys/ed25519.pem"),
        _ => unreachable!("no such file"),
    };
    let mut authorities = Certificate::all_from_pem(pem).unwrap();
    let chain = authorities.split_off(1);
    let method = LocalMethod::Signature {
        key: Arc::new(PrivateKey::from_pem(pem).unwrap()),
        chain,
    };
    let store = TrustStore {
        authorities,
        ..TrustStore::default()
    };
    (method, RemoteMethod::Signature(Arc::new(store)))
}

/// The gateway takes the user alice, and certificates.
pub(super) fn examiner() -> Examiner {
    let mut users = Users::default();
    users.add("alice", NtHash::of_password(PASSWORD)).unwrap();
    let RemoteMethod::Signature(trusted) = signatures("station", &["station"]).1 else {
        unreachable!("certificates");
    };
    Examiner {
        users: Some(Arc::new(users)),
        trusted: Some(trusted),
        ..Examiner::default()
    }
}

/// The settings of a test.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) station: Proof,
    pub(super) gateway: Proof,
    pub(super) station_suites: &'static str,
    pub(super) gateway_suites: &'static str,
    pub(super) esp: &'static str,
    /// Whether each end begins without a child, the station first.
    pub(super) childless: [Childless; 2],
    pub(super) is_natted: bool,
    pub(super) has_child: bool,
    pub(super) is_legacy: bool,
    pub(super) wants_inner: bool,
    pub(super) fragments: bool,
    /// Whether AUTH of each end is to cover both messages of IKE_SA_INIT, the station first.
    pub(super) full_transcript: [bool; 2],
    /// The station names the gateway that it wants.
    pub(super) names_gateway: bool,
    /// Each end's post-quantum pre-shared key, the station's first: its name, the key, whether it
    /// is required.
    pub(super) ppk: [Option<(&'static str, &'static str, bool)>; 2],
    /// Whether each end uses it in IKE_INTERMEDIATE too, the station first.
    pub(super) early_ppk: [bool; 2],
    /// Whether each end speaks MOBIKE, the station first.
    pub(super) mobike: [bool; 2],
    /// What the station tells of its addresses.
    pub(super) station_addresses: Vec<IpAddr>,
    /// All addresses of the gateway.
    pub(super) gateway_addresses: Vec<IpAddr>,
    /// Both ends have tokens of quick crash detection.
    pub(super) crash_detection: bool,
    /// Both ends have tickets.
    pub(super) resumption: bool,
    /// What the station says of gateways that send it elsewhere.
    pub(super) travel: Travel,
    pub(super) seed: u8,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            station: Proof::Key("secret"),
            gateway: Proof::Key("secret"),
            station_suites: "aes128gcm16-prfsha256-curve25519",
            gateway_suites: "aes128gcm16-prfsha256-curve25519",
            esp: "aes128gcm16",
            childless: [Childless::Allow; 2],
            is_natted: false,
            has_child: true,
            is_legacy: false,
            wants_inner: false,
            fragments: true,
            full_transcript: [true; 2],
            names_gateway: true,
            ppk: [None; 2],
            early_ppk: [false; 2],
            mobike: [false; 2],
            station_addresses: Vec::new(),
            gateway_addresses: Vec::new(),
            crash_detection: false,
            resumption: false,
            travel: Travel::default(),
            seed: 7,
        }
    }
}

pub(super) fn selector(text: &str) -> TrafficSelector {
    text.parse().unwrap()
}

fn ppk_of((id, text, is_required): (&str, &str, bool), is_early: bool) -> Arc<Ppk> {
    Arc::new(Ppk {
        id: id.into(),
        key: Secret(text.as_bytes().to_vec()),
        is_required,
        is_early,
    })
}

impl Setup {
    /// How an end proves itself, and how its peer does.
    fn methods(&self, is_station: bool) -> (LocalMethod, RemoteMethod) {
        let (own, peer) = match is_station {
            true => (self.station, self.gateway),
            false => (self.gateway, self.station),
        };
        let key = |text: &str| Arc::new(Secret(text.as_bytes().to_vec()));
        let local = match (own, is_station) {
            (Proof::Key(text), _) => LocalMethod::PresharedKey(key(text)),
            (Proof::Password(text), _) => LocalMethod::Eap(Arc::new(Login {
                user: "alice".into(),
                method: LoginMethod::Password(NtHash::of_password(text)),
                server: None,
            })),
            (Proof::Tls, _) => tls_login(),
            (Proof::MlDsa(set), true) => ml_dsa(set, "station@example").0,
            (Proof::MlDsa(set), false) => ml_dsa(set, "gateway.example").0,
            (Proof::Curve(curve), _) => on_curve(curve).0,
            (Proof::Certificate, true) => signatures("station", &["station"]).0,
            (Proof::Certificate, false) => signatures("gateway", &["gateway", "mid"]).0,
        };
        let remote = match peer {
            Proof::Key(text) => RemoteMethod::PresharedKey(key(text)),
            Proof::Password(_) | Proof::Tls => RemoteMethod::Eap(Arc::new(examiner())),
            Proof::Certificate => signatures("station", &["station"]).1,
            Proof::MlDsa(set) => ml_dsa(set, "any").1,
            Proof::Curve(curve) => on_curve(curve).1,
        };
        (local, remote)
    }

    pub(super) fn connection(&self, is_station: bool) -> Connection {
        let (local, remote) = self.methods(is_station);
        let (own, peer) = match is_station {
            true => ("station@example", "gateway.example"),
            false if matches!(self.station, Proof::Password(_)) => ("gateway.example", "*"),
            false => ("gateway.example", "*@example"),
        };
        let esp = self.esp.split(' ').map(|it| it.parse().unwrap()).collect();
        let mut child = Child::new("lan", Mode::Tunnel, esp);
        let (lan, station) = (selector("10.1.0.0/16"), selector("10.9.0.0/24"));
        (child.local, child.remote) = match is_station {
            true => (vec![station], vec![lan]),
            false => (vec![lan], vec![station]),
        };
        let suites = [self.gateway_suites, self.station_suites][usize::from(is_station)];
        let mut connection = Connection::new(
            if is_station { "home" } else { "stations" },
            Vec::new(),
            LocalAuth {
                identity: Identity::parse(own).unwrap(),
                method: local,
            },
            RemoteAuth {
                identities: match self.names_gateway || !is_station {
                    true => vec![IdentityPattern::parse(peer).unwrap()],
                    false => vec![IdentityPattern::Any],
                },
                method: remote,
            },
            vec![child],
        );
        connection.version = Version::V2;
        connection.ikev2_proposals = suites.split(' ').map(|it| it.parse().unwrap()).collect();
        connection.is_legacy = self.is_legacy;
        connection.encapsulation = Encapsulation::ThroughNat;
        let end = usize::from(!is_station);
        connection.ppk = self.ppk[end].map(|it| ppk_of(it, self.early_ppk[end]));
        connection.fragments = self.fragments;
        connection.full_transcript = self.full_transcript[end];
        connection.childless = self.childless[end];
        connection.mobike = self.mobike[end];
        connection.crash_detection = self.crash_detection;
        connection.resumption = self.resumption;
        if is_station {
            connection.remote_addrs = vec!["192.0.2.1:500".parse().unwrap()];
            connection.wants_inner.v4 = self.wants_inner;
        }
        connection
    }

    /// The station has sent its first message.
    pub(super) fn world(&self) -> World {
        World::new(self)
    }

    /// Both ends are established.
    pub(super) fn established(&self) -> World {
        let mut world = self.world();
        world.run();
        world.assert_agreed(usize::from(self.has_child));
        world.station.facts.clear();
        world.gateway.facts.clear();
        world
    }
}

/// A pair of SAs as an end's packet planes would have it.
pub(super) struct Pair {
    pub(super) child: ChildId,
    pub(super) negotiated: Box<NegotiatedChild>,
    /// It stays for receiving only.
    pub(super) is_redundant: bool,
}

/// One end.
pub(super) struct End {
    pub(super) session: Option<Session>,
    pub(super) connection: Arc<Connection>,
    pub(super) random: Stream,
    pub(super) pairs: Vec<Pair>,
    pub(super) lease: Option<Lease>,
    /// What has happened, in words.
    pub(super) facts: Vec<String>,
    pub(super) fault: Option<Fault>,
    /// Names of everything that was sent.
    pub(super) arrows: Vec<String>,
    pub(super) drops: crate::counters::DropCounters,
    /// For a server of RADIUS.
    pub(super) questions: Vec<Question>,
    /// Makes its tokens.
    pub(super) maker: Arc<Maker>,
    next_child: u32,
    next_spi: u32,
}

/// A datagram in flight.
#[derive(Clone)]
pub(super) struct Flight {
    pub(super) path: Path,
    pub(super) octets: Vec<u8>,
    pub(super) name: String,
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Station,
    Gateway,
}

use Who::{Gateway, Station};

/// Both ends.
pub(super) struct World {
    pub(super) station: End,
    pub(super) gateway: End,
    pub(super) now: Instant,
    pub(super) to_gateway: VecDeque<Flight>,
    pub(super) to_station: VecDeque<Flight>,
    /// Everything that ever was in flight, and where it went.
    pub(super) history: Vec<(Who, Flight)>,
    /// The gateway wants cookies.
    pub(super) cookies: Option<Cookies>,
    /// The gateway's keys of tickets, and those that it does not take any more.
    pub(super) tickets: Tickets,
    /// The date, at the beginning.
    pub(super) calendar: Calendar,
    /// The gateway sends stations there.
    pub(super) away: Option<Elsewhere>,
    /// The same, with the answer to their authentication.
    pub(super) sends_away_after_auth: Option<Elsewhere>,
    /// Connections of the gateway besides its own.
    pub(super) others: Vec<Arc<Connection>>,
    gateway_addresses: Vec<IpAddr>,
    is_natted: bool,
}

impl Who {
    pub(super) const BOTH: [Self; 2] = [Station, Gateway];

    pub(super) fn other(self) -> Self {
        match self {
            Station => Gateway,
            Gateway => Station,
        }
    }
}

impl World {
    fn new(setup: &Setup) -> Self {
        let seed = Seed::new([setup.seed; 32]);
        let end = |name: &str, is_station| End {
            session: None,
            connection: Arc::new(setup.connection(is_station)),
            random: seed.stream(name, 0),
            pairs: Vec::new(),
            lease: None,
            facts: Vec::new(),
            fault: None,
            arrows: Vec::new(),
            drops: crate::counters::DropCounters::default(),
            questions: Vec::new(),
            maker: Arc::new(Maker::new(Secret(name.repeat(8).into_bytes()))),
            next_child: if is_station { 100 } else { 200 },
            next_spi: if is_station { 0x1000_0000 } else { 0x2000_0000 },
        };
        let mut world = Self {
            station: end("station", true),
            gateway: end("gateway", false),
            now: Instant(0),
            to_gateway: VecDeque::new(),
            to_station: VecDeque::new(),
            history: Vec::new(),
            cookies: None,
            tickets: Tickets::default(),
            calendar: JANUARY_2027,
            away: None,
            sends_away_after_auth: None,
            others: Vec::new(),
            gateway_addresses: setup.gateway_addresses.clone(),
            is_natted: setup.is_natted,
        };
        let path = Path::udp(([10, 0, 0, 2], 500), ([192, 0, 2, 1], 500));
        let station = &mut world.station;
        let child = setup
            .has_child
            .then(|| station.first_child(setup.wants_inner));
        let beginning = Beginning {
            connection: Arc::clone(&station.connection),
            path,
            is_first_contact: true,
            round_trip: RoundTrip::default(),
            had: Vec::new(),
            child,
            addresses: setup.station_addresses.clone(),
            maker: station.maker(),
            travel: setup.travel,
            ticket: None,
        };
        let (session, out) = Session::initiate(beginning, &mut station.random, world.now);
        station.session = Some(session);
        world.flush(Station, out);
        world
    }

    /// The station begins again at a gateway that has lost it, perhaps with a ticket.
    pub(super) fn begin_again(&mut self, ticket: Option<Box<Ticket>>, travel: Travel) {
        for who in Who::BOTH {
            let end = self.end(who);
            end.session = None;
            end.pairs.clear();
            end.facts.clear();
            end.arrows.clear();
            end.fault = None;
            end.lease = None;
        }
        self.to_gateway.clear();
        self.to_station.clear();
        self.history.clear();
        let wants_inner = self.station.connection.wants_inner.is_any();
        let child = self.station.first_child(wants_inner);
        let beginning = Beginning {
            connection: Arc::clone(&self.station.connection),
            path: Path::udp(([10, 0, 0, 2], 500), ([192, 0, 2, 1], 500)),
            is_first_contact: true,
            round_trip: RoundTrip::default(),
            had: Vec::new(),
            child: Some(child),
            addresses: Vec::new(),
            maker: self.station.maker(),
            travel,
            ticket,
        };
        let random = &mut self.station.random;
        let (session, out) = Session::initiate(beginning, random, self.now);
        self.station.session = Some(session);
        self.flush(Station, out);
    }

    /// The same, begun by a station with another connection.
    pub(super) fn begun_by(mut self, connection: Arc<Connection>) -> Self {
        self.station.connection = Arc::clone(&connection);
        self.to_gateway.clear();
        self.history.clear();
        self.station.arrows.clear();
        let beginning = Beginning {
            connection,
            path: Path::udp(([10, 0, 0, 2], 500), ([192, 0, 2, 1], 500)),
            is_first_contact: true,
            round_trip: RoundTrip::default(),
            had: Vec::new(),
            child: Some(self.station.first_child(false)),
            addresses: Vec::new(),
            maker: self.station.maker(),
            travel: Travel::default(),
            ticket: None,
        };
        let random = &mut self.station.random;
        let (session, out) = Session::initiate(beginning, random, self.now);
        self.station.session = Some(session);
        self.flush(Station, out);
        self
    }

    pub(super) fn end(&mut self, who: Who) -> &mut End {
        match who {
            Station => &mut self.station,
            Gateway => &mut self.gateway,
        }
    }

    /// What is in flight to an end.
    pub(super) fn flights(&mut self, to: Who) -> &mut VecDeque<Flight> {
        match to {
            Station => &mut self.to_station,
            Gateway => &mut self.to_gateway,
        }
    }

    /// Takes everything that is in flight to an end off the wire.
    pub(super) fn hold(&mut self, to: Who) -> Vec<Flight> {
        self.flights(to).drain(..).collect()
    }

    /// Puts it back.
    pub(super) fn release(&mut self, to: Who, flights: Vec<Flight>) {
        self.flights(to).extend(flights);
    }

    fn flush(&mut self, from: Who, out: Outbox) {
        let end = self.end(from);
        if let Some(session) = &mut end.session {
            session.learn(&out);
        }
        end.drops.merge(&out.drops);
        for sent in out.messages {
            self.send(from, sent);
        }
    }

    fn send(&mut self, from: Who, sent: Sent) {
        let name = format!("{}: {}", sent.step, sent.payloads);
        let path = self.seen(from, sent.path);
        let datagrams = core::iter::once(sent.message).chain(sent.more);
        let flights: Vec<Flight> = datagrams
            .map(|octets| Flight {
                path,
                octets,
                name: name.clone(),
            })
            .collect();
        let name = match flights.len() {
            1 => name,
            parts => format!("{name} in {parts}"),
        };
        self.end(from).arrows.push(name);
        let to = from.other();
        let sent = flights.iter().map(|it| (to, it.clone()));
        self.history.extend(sent);
        self.flights(to).extend(flights);
    }

    /// A path as the other end sees it.
    fn seen(&self, from: Who, path: Path) -> Path {
        let mut seen = path.reversed();
        if self.is_natted && from == Station {
            let port = if path.local.port() == 500 {
                40_500
            } else {
                44_500
            };
            seen.remote = ([198, 51, 100, 7], port).into();
        } else if self.is_natted {
            let port = if seen.local.port() == 40_500 {
                500
            } else {
                4500
            };
            seen.local = ([10, 0, 0, 2], port).into();
        }
        seen
    }

    /// Delivers one datagram to an end, if there is one.
    pub(super) fn deliver(&mut self, to: Who) -> bool {
        let Some(flight) = self.flights(to).pop_front() else {
            return false;
        };
        self.receive(to, &flight);
        true
    }

    /// An end receives a datagram.
    pub(super) fn receive(&mut self, who: Who, flight: &Flight) {
        let now = self.now;
        let Ok(message) = Message::parse(&flight.octets) else {
            return self
                .end(who)
                .drops
                .count(crate::counters::DropReason::MalformedMessage);
        };
        let mut cookies = self.cookies.take();
        let mut tickets = core::mem::take(&mut self.tickets);
        let calendar = self.today();
        let away = self.away.clone();
        let addresses = self.gateway_addresses.clone();
        let others = self.others.clone();
        let end = self.end(who);
        let mut out = match &end.session {
            Some(session) => session.outbox(),
            None => Outbox::default(),
        };
        let mut facts = Vec::new();
        match &mut end.session {
            Some(session) => {
                let means = Means {
                    random: &mut end.random,
                    quotas: None,
                    may_ask: true,
                    calendar,
                    addresses: &addresses,
                    maker: Some(Arc::clone(&end.maker)),
                };
                facts = session.on_message(flight.path, &message, means, now, &mut out);
            }
            None if who == Gateway && message.is_first() && end.fault.is_none() => {
                let candidates = [vec![Arc::clone(&end.connection)], others].concat();
                let gate = Gate {
                    cookies: cookies.as_mut(),
                    away: away.as_ref(),
                    tickets: Some(&mut tickets),
                    is_full: false,
                    calendar,
                };
                let random = &mut end.random;
                let (path, out) = (flight.path, &mut out);
                match Session::respond(&candidates, path, &message, gate, random, now, out) {
                    Ok(mut session) => {
                        session.give_up_at(now + Duration::from_secs(30));
                        end.session = Some(session);
                    }
                    Err(fault) => end.facts.push(format!("refused: {fault}")),
                }
            }
            None => {}
        }
        self.cookies = cookies;
        self.tickets = tickets;
        self.flush(who, out);
        self.act(who, facts);
    }

    /// The node's part.
    fn act(&mut self, who: Who, facts: Vec<Fact>) {
        for fact in facts {
            self.act_on(who, fact);
        }
        let now = self.now;
        let end = self.end(who);
        let mut out = Outbox::default();
        if let Some(session) = &mut end.session {
            session.conclude(&mut end.random, now, &mut out);
        }
        self.flush(who, out);
    }

    fn act_on(&mut self, who: Who, fact: Fact) {
        let now = self.now;
        let away = self.sends_away_after_auth.clone();
        let is_established = matches!(fact, Fact::Established(_));
        if let Some(away) = away.filter(|_| is_established && who == Gateway) {
            return self.step(who, |session, random, now, out| {
                session.send_away(&away, random, now, out);
            });
        }
        let session = self.end(who).session.as_ref();
        let asks = matches!(
            fact,
            Fact::AsksTicket | Fact::AsksAddress(_) | Fact::AsksChild(_)
        );
        if asks && session.is_some_and(|it| it.is_sent_away()) {
            return;
        }
        let end = self.end(who);
        match fact {
            Fact::Pending | Fact::Heard | Fact::TicketTooLarge(..) => {}
            Fact::Dropped(reason) => end.drops.count(reason),
            Fact::Unproven(fault) | Fact::Unreadable(fault) => {
                end.drops.count(fault.drop_reason());
            }
            Fact::Unfit(fault) | Fact::Failed(fault) => {
                end.facts.push(format!("failed: {fault}"));
                end.fault = Some(fault);
                end.session = None;
            }
            Fact::Established(connection) => {
                end.facts
                    .push(format!("established with {}", connection.name));
            }
            Fact::Renewed => end.facts.push("renewed".into()),
            Fact::AsksTicket => self.give_ticket(),
            Fact::SentTo(gateway) => {
                end.facts.push(format!("sent to {gateway:?}"));
                end.session = None;
            }
            Fact::Crashed => {
                end.facts.push("the peer has lost everything".into());
                end.session = None;
                end.pairs.clear();
            }
            Fact::Childless(child, _) => end.facts.push(format!("child {} later", child.0)),
            Fact::AsksServer(question) => end.questions.push(*question),
            Fact::AsksAddress(wanted) => end.grant_address(&wanted),
            Fact::Lease(lease) => {
                let lease = lease.unwrap_or_default();
                end.facts.push(format!("lease {:?}", lease.addresses));
                end.lease = Some(lease);
            }
            Fact::AsksChild(offer) => {
                let out = end.grant_child(&offer, now);
                self.flush(who, out);
            }
            Fact::Child(agreed) => end.take_child(*agreed),
            Fact::ChildFailed(_, spi, fault) => end.facts.push(format!("child {spi:x}: {fault}")),
            Fact::ChildPostponed(_, _, after) => {
                let words = if after.is_some() { "busy" } else { "overtaken" };
                end.facts.push(format!("child {words}"));
            }
            Fact::Unread(..) => unreachable!("of IKEv1"),
            Fact::Told(_, notices) => {
                for notice in notices {
                    end.notice(notice);
                }
            }
        }
    }

    /// The date.
    pub(super) fn today(&self) -> Calendar {
        self.calendar.at(Instant(0), self.now)
    }

    /// The gateway gives the station a ticket.
    fn give_ticket(&mut self) {
        let at = (self.today(), self.now);
        let end = &mut self.gateway;
        let session = end.session.as_mut().expect("a session");
        let given = session.grant_ticket(&mut self.tickets, at, &mut end.random);
        if let Some(former) = given.former {
            self.tickets.spend(former.expires, former.id);
        }
        end.facts.push("ticket asked".into());
    }

    /// Delivers until nothing is in flight.
    pub(super) fn run(&mut self) {
        for _ in 0..1_000 {
            if !self.deliver(Gateway) && !self.deliver(Station) {
                return;
            }
        }
        panic!("the ends talk without end");
    }

    /// The same, but the datagram of this number is lost, and time passes until it was sent.
    pub(super) fn run_but(&mut self, lost: usize) {
        let mut number = 0;
        for _ in 0..200 {
            let to = match (self.to_gateway.is_empty(), self.to_station.is_empty()) {
                (false, _) => Gateway,
                (true, false) => Station,
                (true, true) if number <= lost => match self.wait() {
                    true => continue,
                    false => break,
                },
                (true, true) => break,
            };
            match number == lost {
                true => drop(self.flights(to).pop_front()),
                false => assert!(self.deliver(to)),
            }
            number += 1;
        }
    }

    /// The messages of an end so far, in words.
    pub(super) fn names(&self, who: Who) -> Vec<&str> {
        let end = match who {
            Station => &self.station,
            Gateway => &self.gateway,
        };
        end.arrows.iter().map(String::as_str).collect()
    }

    /// Why an end has failed.
    pub(super) fn fault(&mut self, who: Who) -> String {
        let fault = self.end(who).fault.take();
        fault.expect("a fault").to_string()
    }

    /// Advances time to the next deadline. Returns whether there was one.
    pub(super) fn wait(&mut self) -> bool {
        let deadline = |end: &End| end.session.as_ref()?.deadline();
        let next = [deadline(&self.station), deadline(&self.gateway)];
        let Some(next) = next.into_iter().flatten().min() else {
            return false;
        };
        self.now = self.now.max(next.at);
        for who in Who::BOTH {
            self.fire(who);
        }
        true
    }

    fn fire(&mut self, who: Who) {
        let now = self.now;
        let end = self.end(who);
        let Some(session) = &mut end.session else {
            return;
        };
        if session.deadline().is_none_or(|deadline| deadline.at > now) {
            return;
        }
        let mut out = session.outbox();
        let result = session.on_deadline(&mut end.random, now, &mut out);
        let facts = end
            .session
            .as_mut()
            .map_or(Vec::new(), Session::take_overtaken);
        let end = self.end(who);
        if let Err(fault) = result {
            end.facts.push(format!("failed: {fault}"));
            end.fault = Some(fault);
            end.session = None;
        }
        self.flush(who, out);
        self.act(who, facts);
    }

    /// Delivers and waits for this long.
    pub(super) fn pass(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        loop {
            self.run();
            let deadline = |end: &End| end.session.as_ref()?.deadline();
            let next = [deadline(&self.station), deadline(&self.gateway)];
            match next.into_iter().flatten().min() {
                Some(next) if next.at <= end => self.wait(),
                _ => break,
            };
        }
        self.now = end;
    }

    /// An end does something, and sends what comes of it.
    pub(super) fn step(
        &mut self,
        who: Who,
        step: impl FnOnce(&mut Session, &mut Stream, Instant, &mut Outbox),
    ) {
        let now = self.now;
        let end = self.end(who);
        let session = end.session.as_mut().expect("a session");
        let mut out = session.outbox();
        step(session, &mut end.random, now, &mut out);
        self.flush(who, out);
    }

    /// An established end does something within its session, and sends what comes of it.
    pub(super) fn within(&mut self, who: Who, step: impl FnOnce(&mut Established, &mut At<'_>)) {
        self.step(who, |session, random, now, out| {
            let mut at = At {
                path: session.path(),
                random,
                now,
                out,
            };
            step(session.inside(), &mut at);
        });
    }

    /// An established end asks this, whatever its role permits.
    pub(super) fn asks(&mut self, who: Who, exchange: Exchange, chain: &[Payload]) {
        self.within(who, |it, at| {
            it.current().ask(exchange, chain, Awaited::End, None, at);
        });
    }

    /// A server of RADIUS has answered the gateway.
    pub(super) fn examined(&mut self, verdict: Verdict) {
        let now = self.now;
        let end = &mut self.gateway;
        let session = end.session.as_mut().expect("a session");
        let mut out = session.outbox();
        let facts = session.examined(verdict, &mut end.random, now, &mut out);
        self.flush(Gateway, out);
        self.act(Gateway, facts);
    }

    /// Changes the connection of an end that has not begun.
    pub(super) fn change(&mut self, who: Who, change: impl FnOnce(&mut Connection)) {
        let connection = &mut self.end(who).connection;
        change(Arc::get_mut(connection).expect("nobody else has it"));
    }

    /// An end renews its child.
    pub(super) fn rekey_child(&mut self, who: Who) {
        let current = self.end(who).current().expect("a pair");
        let spi = current.negotiated.spi_in;
        self.rekey_pair(who, spi);
    }

    /// An end renews the pair with this SPI of its own.
    pub(super) fn rekey_pair(&mut self, who: Who, spi_in: u32) {
        let mut pairs = self.end(who).pairs.iter();
        let pair = pairs.find(|it| it.negotiated.spi_in == spi_in);
        let pair = pair.expect("a pair");
        let traffic = (
            pair.negotiated.local.clone(),
            pair.negotiated.remote.clone(),
        );
        let child = pair.child;
        self.begin_child(who, child, Some(spi_in), traffic);
    }

    /// An end asks for another child.
    pub(super) fn new_child(&mut self, who: Who) {
        let end = self.end(who);
        end.next_child += 1;
        let child = ChildId(end.next_child);
        let config = &end.connection.children[0];
        let traffic = (config.local.clone(), config.remote.clone());
        self.begin_child(who, child, None, traffic);
    }

    fn begin_child(
        &mut self,
        who: Who,
        child: ChildId,
        renews: Option<u32>,
        (local, remote): (Vec<TrafficSelector>, Vec<TrafficSelector>),
    ) {
        let end = self.end(who);
        let spi = end.take_spi();
        let connection = Arc::clone(&end.connection);
        self.step(who, |session, random, now, out| {
            let request = ChildRequest {
                child: &connection.children[0],
                spi,
                local,
                remote,
                needs_udp: false,
                groups: Groups::default(),
            };
            session
                .begin_child(child, request, renews, random, now, out)
                .expect("a request");
        });
    }

    /// An end deletes its child.
    pub(super) fn delete_child(&mut self, who: Who) {
        let end = self.end(who);
        let spi = end.current().expect("a pair").negotiated.spi_in;
        end.pairs.retain(|pair| pair.negotiated.spi_in != spi);
        self.step(who, |session, random, now, out| {
            session.delete_child(Protocol::Esp, spi, random, now, out);
        });
    }

    /// An end renews the IKE SA.
    pub(super) fn rekey_ike(&mut self, who: Who) {
        self.step(who, |session, random, now, out| {
            session.renew(random, now, out);
        });
    }

    /// An end ends the session.
    pub(super) fn leave(&mut self, who: Who) {
        self.step(who, |session, random, now, out| {
            session.leave(random, now, out);
        });
        self.end(who).pairs.clear();
    }

    /// Delivers all that is on the way. Each bit of `bits`, the lowest first, says which end gets
    /// its next message.
    pub(super) fn in_order(&mut self, mut bits: u32) {
        for _ in 0..100 {
            let first = if bits & 1 == 0 {
                Who::Gateway
            } else {
                Who::Station
            };
            bits >>= 1;
            if !self.deliver(first) && !self.deliver(first.other()) {
                break;
            }
        }
    }

    /// An end probes the other.
    pub(super) fn probe(&mut self, who: Who, number: u32) {
        self.step(who, |session, random, now, out| {
            session.probe(number, random, now, out);
        });
    }

    /// Both ends have the same IKE SA, one of them only, and these many children with the same
    /// keys.
    #[track_caller]
    pub(super) fn assert_agreed(&mut self, children: usize) {
        let faults = format!("{:?} {:?}", self.station.facts, self.gateway.facts);
        let arrows = format!("{:#?} {:#?}", self.station.arrows, self.gateway.arrows);
        let [mut a, mut b] = [Vec::new(), Vec::new()];
        for (who, spis) in [(Station, &mut a), (Gateway, &mut b)] {
            let end = self.end(who);
            let session = end.session.as_mut();
            let session = session.unwrap_or_else(|| panic!("{who:?} is over: {faults}"));
            assert!(session.is_established(), "{who:?}: {faults} {arrows}");
            let inside = session.inside();
            spis.extend(
                inside
                    .sas
                    .iter()
                    .map(|sa| (sa.spis, sa.d.0.clone(), sa.suite)),
            );
        }
        assert_eq!(a.len(), 1, "IKE SAs of the station: {faults} {arrows}");
        assert!(a == b, "the ends have different IKE SAs: {faults} {arrows}");
        let [a, b] = [&self.station, &self.gateway];
        assert_eq!(a.pairs.len(), children, "station: {faults} {arrows}");
        assert_eq!(b.pairs.len(), children, "gateway: {faults} {arrows}");
        for pair in &a.pairs {
            let (own, spi) = (&pair.negotiated, pair.negotiated.spi_out);
            let peers = b.pairs.iter().find(|it| it.negotiated.spi_in == spi);
            let peers = &peers
                .unwrap_or_else(|| panic!("{faults} {arrows}"))
                .negotiated;
            assert_eq!(own.spi_in, peers.spi_out);
            assert_eq!(own.suite, peers.suite);
            assert!(own.keys_in.0.0 == peers.keys_out.0.0 && own.keys_in.1.0 == peers.keys_out.1.0);
            assert!(own.keys_out.0.0 == peers.keys_in.0.0 && own.keys_out.1.0 == peers.keys_in.1.0);
            assert_eq!((&own.local, &own.remote), (&peers.remote, &peers.local));
        }
        for who in Who::BOTH {
            let end = self.end(who);
            let planes: Vec<u32> = end.pairs.iter().map(|it| it.negotiated.spi_in).collect();
            let inside = end.session.as_mut().expect("a session").inside();
            let mut known: Vec<u32> = inside.children.all().iter().map(|it| it.spi_in).collect();
            let mut planes = planes;
            known.sort_unstable();
            planes.sort_unstable();
            assert_eq!(known, planes, "{who:?}: {faults} {arrows}");
            assert!(inside.sas[0].asked.is_none() && inside.queue.is_empty());
        }
    }

    /// The gateway has refused the station, or knows that it was refused.
    pub(super) fn is_refused(&self) -> bool {
        let facts = &self.gateway.facts;
        let is_told = facts.iter().any(|it| it.contains("AUTHENTICATION_FAILED"));
        is_told || self.gateway.session.is_none() && self.gateway.fault.is_some()
    }

    /// Neither end has a session.
    #[track_caller]
    pub(super) fn assert_over(&self) {
        let facts = (&self.station.facts, &self.gateway.facts);
        assert!(self.station.session.is_none(), "{facts:?}");
        assert!(self.gateway.session.is_none(), "{facts:?}");
    }
}

impl End {
    /// Makes tokens, if the connection has them.
    fn maker(&self) -> Option<Arc<Maker>> {
        let has = self.connection.crash_detection;
        has.then(|| Arc::clone(&self.maker))
    }

    fn take_spi(&mut self) -> u32 {
        self.next_spi += 1;
        self.next_spi
    }

    /// The pair that packets are sent on: the newest that stands.
    pub(super) fn current(&self) -> Option<&Pair> {
        self.pairs.iter().rfind(|pair| !pair.is_redundant)
    }

    fn first_child(&mut self, wants_inner: bool) -> FirstChild {
        let config = &self.connection.children[0];
        let local = match wants_inner {
            true => vec![selector("0.0.0.0/0")],
            false => config.local.clone(),
        };
        FirstChild {
            child: ChildId(self.next_child),
            index: 0,
            spi: self.next_spi,
            local,
            remote: config.remote.clone(),
        }
    }

    fn grant_address(&mut self, wanted: &Wanted) {
        let lease = Lease {
            addresses: vec!["10.9.0.7".parse().unwrap()],
            dns: vec!["10.1.0.53".parse().unwrap()],
            ..Lease::default()
        };
        assert!(wanted.families.v4);
        self.lease = Some(lease.clone());
        if let Some(session) = &mut self.session {
            session.grant_address(&lease);
        }
    }

    fn grant_child(&mut self, offer: &ChildOffer, now: Instant) -> Outbox {
        let spi = self.take_spi();
        let connection = Arc::clone(&self.connection);
        let child = &connection.children[0];
        let common = |offered: &[TrafficSelector], own: &[TrafficSelector]| {
            let both = |it: &TrafficSelector| own.iter().find_map(|own| own.intersection(it));
            offered.iter().filter_map(both).collect::<Vec<_>>()
        };
        let inner: Vec<TrafficSelector> = match &self.lease {
            Some(lease) => lease
                .addresses
                .iter()
                .map(|it| TrafficSelector::host(*it))
                .collect(),
            None => child.remote.clone(),
        };
        let local = common(&offer.local, &child.local);
        let remote = common(&offer.remote, &inner);
        let id = offer.renews.unwrap_or_else(|| {
            self.next_child += 1;
            ChildId(self.next_child)
        });
        let session = self.session.as_mut().expect("a session");
        let mut out = session.outbox();
        if local.is_empty() || remote.is_empty() {
            session.refuse(Some(crate::ike::Refusal::Selectors));
            return out;
        }
        let grant = Grant {
            id,
            child,
            spi,
            local,
            remote,
            renews: None,
            exchanges_max: 16,
        };
        match session.grant_child(&grant, &mut self.random, now, &mut out) {
            Ok(Some(negotiated)) => {
                self.facts.push("child granted".into());
                self.pairs.push(Pair {
                    child: id,
                    negotiated,
                    is_redundant: false,
                });
            }
            Ok(None) => {}
            Err(fault) => {
                self.facts.push(format!("child refused: {fault}"));
                session.refuse(fault.refusal());
            }
        }
        out
    }

    fn take_child(&mut self, agreed: AgreedChild) {
        let is_redundant = agreed.is_redundant.expect("IKEv2 decides");
        self.facts.push(match (agreed.is_ours, is_redundant) {
            (false, _) => "child granted".into(),
            (true, true) => "child redundant".into(),
            (true, false) => "child agreed".into(),
        });
        self.pairs.push(Pair {
            child: agreed.child,
            negotiated: agreed.negotiated,
            is_redundant,
        });
    }

    fn notice(&mut self, notice: Notification) {
        match notice {
            Notification::DeletedChildren(spis) => {
                self.facts.push(format!("{} deleted", spis.len()));
                let is_gone = |pair: &Pair| spis.contains(&pair.negotiated.spi_out);
                self.pairs.retain(|pair| !is_gone(pair));
            }
            Notification::DeletedIke => {
                self.facts.push("IKE SA deleted".into());
                self.session = None;
                self.pairs.clear();
            }
            Notification::IAmHere(number) => self.facts.push(format!("answers {number}")),
            other => self.facts.push(format!("{other:?}")),
        }
    }
}
