//! Identities of peers: several stations with certificates or keys at one gateway, each at its own
//! address. Nobody can end, borrow or take anything of another.

mod authorities;
mod captures;
mod contacts;
mod duplicates;
mod names;
mod transport;

use crypto::cert::{Authority, Certificate, KeyMaterial, Request, SigningKey, TrustStore};
use crypto::sign::PrivateKey;

use super::*;
use crate::endpoint::Effect;
use crate::ike::Outbox;

/// All test certificates are valid at this time.
const JANUARY_2027: Calendar = Calendar(1_800_000_000);

const CA_KEY: &str = include_str!("../../ikev1/tests/keys/gateway.key");
const KEYS: [&str; 2] = [
    include_str!("../../ikev1/tests/keys/station.key"),
    include_str!("../../ikev1/tests/keys/intruder.key"),
];

/// A gateway, which is the first, and stations.
pub(super) struct Crowd {
    members: Vec<Member>,
    now: Instant,
    wire: Vec<(Instant, Path, Vec<u8>)>,
}

/// One endpoint and its address.
struct Member {
    endpoint: Endpoint,
    address: IpAddr,
    events: Vec<Event>,
    /// The outbound plane's SAs: SPI and selector.
    outbound: BTreeMap<u32, String>,
}

impl Crowd {
    /// A gateway with these connections.
    pub(super) fn new(connections: Vec<Connection>) -> Self {
        let mut crowd = Self {
            members: Vec::new(),
            now: Instant(1),
            wire: Vec::new(),
        };
        crowd.join(GATEWAY, connections);
        crowd
    }

    /// Adds another node and returns its number.
    fn join(&mut self, address: [u8; 4], connections: Vec<Connection>) -> usize {
        let number = self.members.len();
        let limits = Limits::default();
        let mut octets = [number as u8; 32];
        octets[0] = address[3];
        let config = Config {
            connections: connections.into_iter().map(Arc::new).collect(),
            pools: if number == 0 { pools() } else { Vec::new() },
            radius: None,
            limits,
        };
        self.members.push(Member {
            endpoint: Endpoint::new(
                config,
                &Seed::new(octets),
                Offloads::default(),
                vec![address.into()],
            ),
            address: address.into(),
            events: Vec::new(),
            outbound: BTreeMap::new(),
        });
        self.drain(number);
        self.input(number, Input::Calendar(JANUARY_2027));
        number
    }

    /// A station that comes up for a few seconds of time.
    pub(super) fn enter(&mut self, address: [u8; 4], connection: Connection) -> usize {
        let number = self.join(address, vec![connection]);
        self.run(Duration::from_secs(3));
        number
    }

    pub(super) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let arrival = self.wire.iter().map(|datagram| datagram.0).min();
            let timers = self.members.iter().filter_map(Member::due);
            let due = timers.chain(arrival).min();
            let Some(at) = due.filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            if let Some(first) = self.wire.iter().position(|datagram| datagram.0 <= self.now) {
                let (_, path, payload) = self.wire.remove(first);
                let is_target = |member: &Member| member.address == path.local.ip();
                if let Some(number) = self.members.iter().position(is_target) {
                    self.input(number, Input::Datagram(path, &payload));
                }
                continue;
            }
            for number in 0..self.members.len() {
                if self.members[number].due().is_some_and(|at| at <= self.now) {
                    self.input(number, Input::Wake);
                }
            }
        }
        self.now = end;
    }

    fn input(&mut self, number: usize, input: Input<'_>) {
        self.members[number].endpoint.handle(input, self.now);
        self.drain(number);
    }

    pub(super) fn command(&mut self, number: usize, command: Command) {
        self.input(number, Input::Command(command));
    }

    fn drain(&mut self, number: usize) {
        let member = &mut self.members[number];
        while let Some(effect) = member.endpoint.poll(self.now) {
            match effect {
                Effect::Message(path, payload) => {
                    let seen = arrives(path.remote, (member.address, path.local.port()));
                    let at = self.now + Duration::from_millis(20);
                    self.wire.push((at, seen, payload));
                }
                Effect::Outbound(OutboundChange::Install(sa)) => {
                    let words: Vec<String> = sa.remote.iter().map(ToString::to_string).collect();
                    member.outbound.insert(sa.spi(), words.join(", "));
                }
                Effect::Outbound(OutboundChange::Remove(_, spi)) => {
                    member.outbound.remove(spi);
                }
                Effect::Event(event) => member.events.push(event),
                _ => {}
            }
        }
    }

    pub(super) fn gateway(&self) -> &Node {
        &self.members[0].endpoint.node
    }

    /// The peers with tunnels at the gateway, and their inner addresses.
    pub(super) fn guests(&self) -> Vec<(String, Vec<IpAddr>)> {
        let status = self.gateway().status(self.now);
        let sessions = status.connections.into_iter().flat_map(|it| it.sessions);
        sessions
            .map(|it| {
                let peer = it.peer.map(|peer| peer.to_string());
                (peer.unwrap_or_default(), it.inner)
            })
            .collect()
    }

    /// The destinations of the gateway's traffic.
    fn destinations(&self) -> Vec<String> {
        self.members[0].outbound.values().cloned().collect()
    }

    pub(super) fn drops(&self, reason: DropReason) -> u64 {
        self.gateway().drops().of(reason)
    }

    pub(super) fn is_up(&self, number: usize) -> bool {
        self.members[number].is_up()
    }

    /// The gateway's last refusal.
    pub(super) fn refusal(&self) -> String {
        let mut events = self.members[0].events.iter().rev();
        let last = events.find_map(|event| match event {
            Event::NegotiationFailed { reason, .. } => Some(reason.clone()),
            _ => None,
        });
        last.expect("a refusal")
    }
}

impl Member {
    fn due(&self) -> Option<Instant> {
        self.endpoint.deadline().map(|deadline| deadline.at)
    }

    fn is_up(&self) -> bool {
        !self.outbound.is_empty()
    }

    /// The last assigned inner address.
    fn inner(&self) -> IpAddr {
        let last = self.events.iter().rev().find_map(|event| match event {
            Event::InnerAddress { addresses, .. } => addresses.first().copied(),
            _ => None,
        });
        last.expect("an inner address")
    }

    /// An INITIAL-CONTACT in an exchange of its own.
    fn first_contact(&self) -> (Path, Vec<u8>) {
        let session = self
            .endpoint
            .node
            .sessions
            .values()
            .next()
            .expect("a session");
        let sa = session.ike.sa().expect("established");
        let contact = informational::notification(sa, NotifyType::InitialContact, None);
        let mut out = Outbox::default();
        informational::send(sa, vec![contact], 0x53, &mut out);
        let path = arrives(
            session.path().remote,
            (self.address, session.path().local.port()),
        );
        let message = out.messages[0].message.clone();
        (path, session::with_marker(session.path(), message))
    }
}

/// One end's connection, with the pre-shared key of the other tests.
fn connection(is_station: bool, change: impl FnOnce(&mut Connection)) -> Connection {
    let plain: Change = Arc::new(|_, _| {});
    let mut connections = config(is_station, &plain).connections;
    let mut connection = Arc::into_inner(connections.remove(0)).expect("the only one");
    change(&mut connection);
    connection
}

fn station(change: impl FnOnce(&mut Connection)) -> Connection {
    connection(true, change)
}

fn responder(change: impl FnOnce(&mut Connection)) -> Connection {
    connection(false, change)
}

/// A gateway whose pre-shared key is for this many, and a station of any name with the key.
pub(super) fn group_of(peers_max: usize) -> (Connection, impl Fn(&str) -> Connection) {
    let gateway = responder(|connection| {
        connection.is_aggressive = false;
        connection.remote.identities = vec![IdentityPattern::Any];
        connection.peers_max = peers_max;
    });
    let guest = |name: &str| {
        station(|connection| {
            connection.is_aggressive = false;
            connection.local.identity = identity(name);
        })
    };
    (gateway, guest)
}

fn key(connection: &mut Connection, key: &str) {
    let secret = Arc::new(Secret(key.as_bytes().to_vec()));
    connection.remote.method = RemoteMethod::PresharedKey(secret.clone());
    connection.local.method = LocalMethod::PresharedKey(secret);
}

fn identity(text: &str) -> Identity {
    Identity::parse(text).expect("an identity")
}

fn pattern(text: &str) -> IdentityPattern {
    IdentityPattern::parse(text).expect("a pattern")
}

fn selectors(texts: &[&str]) -> Vec<crate::selector::TrafficSelector> {
    let selector = |text: &&str| text.parse().expect("a selector");
    texts.iter().map(selector).collect()
}

fn authority() -> Authority {
    authority_named("CN=Authority")
}

fn authority_named(subject: &str) -> Authority {
    let key = SigningKey::from_pem(CA_KEY).expect("a key");
    Authority::create(subject, key, &[1], JANUARY_2027.0, 365).expect("an authority")
}

/// Gives it a certificate of the key of this number, and sets the trusted issuer.
fn certified(connection: &mut Connection, number: usize, subject: &str, names: &[&str]) {
    certify(connection, &authority(), number, subject, names);
    trust(connection, &authority());
}

fn certify(
    connection: &mut Connection,
    authority: &Authority,
    number: usize,
    subject: &str,
    names: &[&str],
) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let request = Request {
        subject,
        alternative_names: &names,
        key: KeyMaterial::Pem(KEYS[number]),
        serial: &[number as u8 + 2],
        now: JANUARY_2027.0,
        days: 30,
    };
    let certificate = authority.issue(&request).expect("a certificate");
    connection.local.method = LocalMethod::Signature {
        key: Arc::new(PrivateKey::from_pem(KEYS[number]).expect("a key")),
        chain: Certificate::all_from_pem(&certificate).expect("a certificate"),
    };
}

fn trust(connection: &mut Connection, authority: &Authority) {
    let authorities = Certificate::all_from_pem(authority.certificate_pem());
    connection.remote.method = RemoteMethod::Signature(Arc::new(TrustStore {
        authorities: authorities.expect("an authority"),
        ..TrustStore::default()
    }));
}

/// A gateway of certified stations of any name.
fn certified_gateway(change: impl FnOnce(&mut Connection)) -> Connection {
    responder(|connection| {
        certified(connection, 1, "CN=sg", &["sg.example"]);
        connection.remote.identities = vec![IdentityPattern::Any];
        change(connection);
    })
}

/// A certified station that claims one of its names.
fn certified_station(
    number: usize,
    subject: &str,
    names: &[&str],
    claimed: Identity,
) -> Connection {
    station(|connection| {
        certified(connection, number, subject, names);
        connection.local.identity = claimed;
    })
}
