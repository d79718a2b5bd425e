//! Writes `seeds/responder/`: recorded real handshakes of a client with the gateway of the fuzz
//! target, and scripts of peers that hold keys. Writes `seeds/station/`: clients whose hostile
//! gateway answers correctly up to some point. Writes `seeds/ikev2_*/`: the same of IKEv2. Writes
//! `seeds/mip4_*/` and `seeds/firewall/`: scripts for Mobile IPv4 and its firewall.
//!
//!     cargo run --example seeds
//!
//! With `--check` it plays them and writes nothing. It fails if one is not what is in git.

use std::net::IpAddr;
use std::sync::Arc;

use crypto::rand::Seed;
use engine::config::Config;
use engine::counters::DropReason;
use engine::endpoint::{Effect, Endpoint};
use engine::identity::Identity;
use engine::node::{Command, Input};
use engine::plane::Offloads;
use engine::sa::{Path, Via};
use engine::time::{Duration, Instant};
use wire::isakmp::phase2::{self, encapsulation, esp};
use wire::isakmp::{
    Attribute, ConfigAttributes, ConfigKind, ConfigType, Cookies, Delete, Exchange, Header,
    Identification, Notify, NotifyType, Payload, PayloadKind, Proposal, ProtocolId, SaPayload,
    Transform, payloads, write_payloads,
};

use fuzz::mobility;
use fuzz::responder::world::{self, Stage};
use fuzz::responder::{ikev1, ikev2};
use fuzz::script::{self, Op, Sealed};
use fuzz::secrets::pki;
use fuzz::station;
use fuzz::station::gateway::Gateway;
use fuzz::station::world::connection_to;
use fuzz::tunnel_agents;
use fuzz::watch::{CALENDAR, Sent};
use libfuzzer_sys as _; // the flags of `run.sh` make all code call it

/// Round trip latency.
const LATENCY: u16 = 2;
/// A recording ends after this many quiet steps.
const MAX_STEPS: usize = 40;

fn main() {
    let mut seeds: Vec<(String, Vec<Op>)> = Vec::new();
    for is_aggressive in [true, false] {
        for is_signed in [true, false] {
            for is_natted in [true, false] {
                seeds.push(recorded(is_aggressive, is_signed, is_natted));
            }
            seeds.push(scripted(is_aggressive, is_signed));
        }
    }
    seeds.push(fragments());
    seeds.push(flood());
    for (name, ops) in seeds {
        let mut stage = Stage::<ikev1::Peer>::default();
        let octets = script::write(&ops);
        let ops = script::read(&octets);
        ops.iter().for_each(|op| drop(stage.play(op)));
        let drops = stage.node().drops();
        let counted = DropReason::ALL.into_iter().filter(|it| drops.of(*it) > 0);
        counted.for_each(|it| println!("  {} {}", it.name(), drops.of(it)));
        keep("responder", &name, &octets, stage.facts());
        stage.end();
    }
    sessions();
    stations();
    machines();
}

/// The seeds of the `ikev2_responder` and `ikev2_station` targets.
fn sessions() {
    for (name, ops) in ikev2::seeds::all() {
        let mut stage = Stage::<ikev2::Peer>::default();
        ops.iter().for_each(|op| drop(stage.play(op)));
        keep("ikev2_responder", name, &script::write(&ops), stage.facts());
        stage.end();
    }
    for (name, ops) in station::ikev2::seeds::all() {
        let mut stage = station::world::Stage::<station::ikev2::Gateway>::default();
        ops.iter().for_each(|op| drop(stage.play(op)));
        keep("ikev2_station", name, &script::write(&ops), stage.facts());
        stage.end();
    }
}

/// The seeds of the machines of Mobile IPv4, of their firewall and of tunnel agents.
fn machines() {
    let all = mobility::seeds::all().into_iter();
    for (target, name, octets) in all.chain(tunnel_agents::seeds::all()) {
        keep(target, name, &octets, &[]);
    }
}

/// Writes a seed, and says what happens in it.
fn keep(target: &str, name: &str, octets: &[u8], facts: &[String]) {
    println!("{target} {name}: {} octets", octets.len());
    facts.iter().for_each(|fact| println!("  {fact}"));
    let folder = format!("{}/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    if std::env::args().any(|it| it == "--check") {
        let kept = std::fs::read(format!("{folder}/{name}"));
        let is_same = kept.is_ok_and(|it| it == octets);
        return assert!(
            is_same,
            "{target}/{name} is another one: run it without --check"
        );
    }
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(format!("{folder}/{name}"), octets).expect("a file");
}

/// The seeds of the `station` target.
fn stations() {
    let honest = (0..)
        .zip(ikev1::NAMES)
        .map(|(kind, name)| (name.to_owned(), answered(kind)));
    let hostile = (0..).zip(ikev1::NAMES).map(|(kind, name)| {
        let ops = under_own_keys(kind, name.starts_with('a'), name.ends_with("rsa"));
        (format!("own-{name}"), ops)
    });
    for (name, ops) in honest.chain(hostile) {
        let octets = script::write(&ops);
        let mut stage = station::world::Stage::<Gateway>::default();
        script::read(&octets)
            .iter()
            .for_each(|op| drop(stage.play(op)));
        keep("station", &name, &octets, stage.facts());
        stage.end();
    }
}

/// A client comes up, renews everything, receives every kind of notice, and goes down.
fn answered(kind: u8) -> Vec<Op> {
    let answer = Op::Exchange { peer: 0 };
    let lease = phase_2(Exchange::Transaction, 255, &[lent()]);
    let mut ops = vec![Op::Begin { kind, from: 0 }];
    ops.extend(vec![answer.clone(); 3]);
    ops.push(lease.clone());
    ops.extend(vec![answer.clone(); 2]);
    // Renews the children, then the ISAKMP SA.
    for what in [kind << 4, kind << 4 | 1] {
        ops.push(Op::Order { what });
        ops.extend(vec![answer.clone(); 4]);
        ops.push(Op::Wait(500));
    }
    for (id, payload) in (5..).zip(notices()) {
        ops.push(phase_2(Exchange::Informational, id, &[payload]));
        ops.push(Op::Again { peer: 0, from: 2 });
    }
    ops.push(phase_2(Exchange::QuickMode, 9, &tunnel(esp::AES_GCM_16)));
    ops.extend([
        Op::Reflect { peer: 0 },
        Op::Prove {
            peer: 0,
            sealed: Sealed {
                flags: 0,
                first: 0,
                chain: vec![0, 40, 1],
            },
        },
        Op::Wait(30_000),
        Op::Order {
            what: kind << 4 | 2,
        },
    ]);
    ops
}

/// A gateway that derives the keys of phase 1 itself: correctly, wrongly, and again.
fn under_own_keys(kind: u8, is_aggressive: bool, is_signed: bool) -> Vec<Op> {
    let mut stage = station::world::Stage::<Gateway>::default();
    let begin = Op::Begin { kind, from: 0 };
    let sent = stage.play(&begin);
    let (header, body) = sent
        .iter()
        .find_map(|(_, octets)| Header::parse(octets).ok())
        .expect("a first message");
    let offer = payloads(header.next_payload, body)
        .expect("payloads")
        .swap_remove(0);
    let exchange = [
        Payload::KeyExchange(vec![0; 96]),
        Payload::Nonce(vec![0; 16]),
    ];
    let identity = Identity::parse("gateway.example").expect("an identity");
    let mut proof = vec![Payload::Identification(identity.to_identification())];
    if is_signed {
        proof.extend(
            pki()
                .gateway
                .1
                .iter()
                .map(|certificate| Payload::Certificate {
                    encoding: 4,
                    body: certificate.der().to_vec(),
                }),
        );
        proof.push(Payload::Signature(vec![0; 256]));
    } else {
        proof.push(Payload::Hash(vec![0; 20]));
    }
    let own = |flags: u8, chain: &[Payload]| {
        let (first, chain) = write_payloads(chain);
        Op::Prove {
            peer: 0,
            sealed: Sealed {
                flags: station::world::UNDER_OWN_KEYS | flags,
                first: first.number(),
                chain,
            },
        }
    };
    let mut ops = vec![begin];
    let last = if is_aggressive {
        [&[offer.payload], &exchange[..], &proof].concat()
    } else {
        ops.extend([own(0, &[offer.payload]), own(0, &exchange)]);
        proof
    };
    if is_aggressive {
        // A forger could have sent it, so the exchange continues.
        ops.push(own(1, &last));
    }
    ops.push(own(0, &last));
    ops.push(phase_2(Exchange::Transaction, 255, &[lent()]));
    ops.extend(vec![Op::Exchange { peer: 0 }; 3]);
    if !is_aggressive {
        ops.extend([own(1, &last), own(0, &last)]);
    }
    ops.extend([
        Op::Wait(30_000),
        Op::Order {
            what: kind << 4 | 2,
        },
    ]);
    ops
}

/// A gateway's answer to a request for an inner address.
fn lent() -> Payload {
    let address = ConfigKind::InternalIp4Address.number();
    let resolver = ConfigKind::InternalIp4Dns.number();
    Payload::Attributes(ConfigAttributes {
        kind: ConfigType::Reply,
        identifier: 1,
        attributes: vec![
            Attribute::long(address, vec![10, 99, 0, 1]),
            Attribute::long(resolver, vec![10, 10, 0, 53]),
        ],
    })
}

/// A client's datagrams: phase 1, mode config, quick mode, then both renewals and the end.
fn recorded(is_aggressive: bool, is_signed: bool, is_natted: bool) -> (String, Vec<Op>) {
    let mut recording = Recording::new(is_aggressive, is_signed, is_natted);
    recording.run();
    for command in [Command::RekeyChildren, Command::RekeyIke, Command::Down] {
        recording.command(command("road".into()));
        recording.run();
    }
    let mode = if is_aggressive { "aggressive" } else { "main" };
    let method = if is_signed { "rsa" } else { "psk" };
    let nat = if is_natted { "-nat" } else { "" };
    (format!("recorded-{mode}-{method}{nat}"), recording.ops)
}

struct Recording {
    stage: Stage<ikev1::Peer>,
    station: Endpoint,
    now: Instant,
    own: IpAddr,
    ops: Vec<Op>,
    is_quiet: bool,
}

impl Recording {
    fn new(is_aggressive: bool, is_signed: bool, is_natted: bool) -> Self {
        let own: IpAddr = match is_natted {
            true => [10, 0, 0, 2].into(),
            false => world::path(0).remote.ip(),
        };
        let station = station(is_aggressive, is_signed);
        let now = Instant(1);
        let mut recording = Self {
            stage: Stage::default(),
            station: Endpoint::new(station, &Seed::new([9; 32]), Offloads::default(), vec![own]),
            now,
            own,
            ops: Vec::new(),
            is_quiet: false,
        };
        recording.drain();
        recording.input(Input::Calendar(CALENDAR));
        recording
    }

    fn command(&mut self, command: Command) {
        self.input(Input::Command(command));
    }

    /// Runs until the first second without a message.
    fn run(&mut self) {
        for _ in 0..MAX_STEPS {
            self.is_quiet = true;
            self.pass(LATENCY);
            if self.is_quiet {
                self.pass(100);
            }
            if self.is_quiet {
                return;
            }
        }
    }

    fn pass(&mut self, span: u16) {
        let sent = self.play(Op::Wait(span));
        self.now = self.now + Duration::from_millis(u64::from(span) * 10);
        self.receive(sent);
        let due = self.station.deadline().map(|deadline| deadline.at);
        if due.is_some_and(|due| due <= self.now) {
            self.input(Input::Wake);
        }
    }

    fn play(&mut self, op: Op) -> Sent {
        let sent = self.stage.play(&op);
        self.ops.push(op);
        sent
    }

    fn receive(&mut self, sent: Sent) {
        for (path, octets) in sent {
            self.is_quiet = false;
            let seen = Path {
                via: path.via,
                local: (self.own, path.local.port()).into(),
                remote: path.local,
            };
            self.input(Input::Datagram(seen, &octets));
        }
    }

    fn input(&mut self, input: Input<'_>) {
        self.station.handle(input, self.now);
        self.drain();
    }

    fn drain(&mut self) {
        let mut said = Vec::new();
        while let Some(effect) = self.station.poll(self.now) {
            if let Effect::Message(path, octets) = effect {
                said.push((path, octets));
            }
        }
        for (path, octets) in said {
            self.is_quiet = false;
            let from = if path.via == Via::Udp { 0 } else { 8 };
            let sent = self.play(Op::Datagram { from, octets });
            self.receive(sent);
        }
    }
}

/// The client of the `station` target, with one child.
fn station(is_aggressive: bool, is_signed: bool) -> Config {
    let mode = if is_aggressive { 'a' } else { 'm' };
    let name = format!("{mode}-{}", if is_signed { "rsa" } else { "psk" });
    let gateway = ([192, 0, 2, 1], 500).into();
    let mut connection = connection_to::<Gateway>(gateway, &name);
    connection.name = "road".into();
    connection.children.truncate(1);
    Config {
        connections: vec![Arc::new(connection)],
        pools: Vec::new(),
        ..world::config::<ikev1::Peer>()
    }
}

/// A peer that holds keys sends every kind of message.
fn scripted(is_aggressive: bool, is_signed: bool) -> (String, Vec<Op>) {
    let kind = u8::from(is_aggressive) | u8::from(is_signed) << 1;
    let mut ops = vec![Op::Begin { kind, from: 1 }];
    if !is_aggressive {
        ops.push(Op::Exchange { peer: 0 });
    }
    ops.push(proof(is_aggressive, is_signed));
    ops.push(phase_2(Exchange::Transaction, 1, &[request()]));
    for (id, chain) in [
        (2, tunnel(esp::AES_GCM_16)),
        (3, tunnel(esp::DES)),
        (4, transport()),
    ] {
        ops.push(phase_2(Exchange::QuickMode, id, &chain));
        ops.push(phase_2(Exchange::QuickMode, id, &[]));
    }
    for (id, payload) in (5..).zip(notices()) {
        ops.push(phase_2(Exchange::Informational, id, &[payload]));
        ops.push(Op::Again { peer: 0, from: 2 });
    }
    ops.extend([
        // The gateway renews a child, and the peer accepts.
        Op::Order { what: 3 },
        phase_2(Exchange::QuickMode, 255, &tunnel(esp::AES_GCM_16)),
        Op::Reflect { peer: 0 },
        Op::Wait(500),
        Op::Wait(60_000),
        Op::Order { what: 0x12 },
    ]);
    let mode = if is_aggressive { "aggressive" } else { "main" };
    let method = if is_signed { "rsa" } else { "psk" };
    (format!("scripted-{mode}-{method}"), ops)
}

fn proof(is_aggressive: bool, is_signed: bool) -> Op {
    let mut chain = Vec::new();
    if !is_aggressive {
        let name = if is_signed {
            "station@example"
        } else {
            "p0.psk.example"
        };
        let identity = Identity::parse(name).expect("an identity");
        chain.push(Payload::Identification(identity.to_identification()));
    }
    if is_signed {
        chain.push(Payload::Certificate {
            encoding: 4,
            body: pki().station.1.der().to_vec(),
        });
        chain.push(Payload::Signature(vec![0; 256]));
    } else {
        chain.push(Payload::Hash(vec![0; 20]));
    }
    chain.push(Payload::Notify(Notify {
        protocol: ProtocolId::Isakmp,
        spi: vec![0; 16],
        kind: NotifyType::InitialContact,
        value: Vec::new(),
    }));
    let (first, chain) = write_payloads(&chain);
    Op::Prove {
        peer: 0,
        sealed: Sealed {
            flags: 0,
            first: first.number(),
            chain,
        },
    }
}

fn phase_2(exchange: Exchange, id: u8, chain: &[Payload]) -> Op {
    let (first, chain) = write_payloads(chain);
    Op::Phase2 {
        peer: 0,
        exchange: exchange.number(),
        id,
        sealed: Sealed {
            flags: 0,
            first: first.number(),
            chain,
        },
    }
}

fn request() -> Payload {
    let wanted = [
        ConfigKind::InternalIp4Address,
        ConfigKind::InternalIp4Dns,
        ConfigKind::InternalIp4Netmask,
        ConfigKind::ApplicationVersion,
    ];
    let attributes = wanted.map(|kind| Attribute::long(kind.number(), Vec::new()));
    Payload::Attributes(ConfigAttributes {
        kind: ConfigType::Request,
        identifier: 7,
        attributes: attributes.into(),
    })
}

/// Traffic from the first address of the pool to the network behind the gateway.
fn tunnel(transform: u8) -> Vec<Payload> {
    let mut chain = quick(transform, encapsulation::TUNNEL);
    let inner = Identification::address(IpAddr::from([10, 99, 0, 1]));
    let net = Identification::subnet([10, 10, 0, 0].into(), 24);
    chain.extend([inner, net].map(Payload::Identification));
    chain
}

fn transport() -> Vec<Payload> {
    let mut chain = quick(esp::NULL, encapsulation::TRANSPORT);
    let path = world::path(1);
    for end in [path.remote, path.local] {
        let mut id = Identification::address(end.ip());
        (id.protocol, id.port) = (6, 0);
        chain.push(Payload::Identification(id));
    }
    chain.extend([path.remote, path.local].map(|end| Payload::NatOriginalAddress(end.ip())));
    chain
}

fn quick(transform: u8, mode: u16) -> Vec<Payload> {
    let mut attributes = vec![
        Attribute::short(phase2::ENCAPSULATION, mode),
        Attribute::short(phase2::LIFE_TYPE, phase2::life::SECONDS),
        Attribute::number(phase2::LIFE_DURATION, 3_600),
    ];
    attributes.push(match transform {
        esp::AES_GCM_16 => Attribute::short(phase2::KEY_LENGTH, 128),
        _ => Attribute::short(phase2::AUTHENTICATION, phase2::authentication::HMAC_MD5),
    });
    let proposal = Proposal {
        number: 1,
        protocol: ProtocolId::Esp,
        spi: vec![0xc0, 0, 0, transform],
        transforms: vec![Transform {
            number: 1,
            id: transform,
            attributes,
        }],
    };
    let offer = SaPayload {
        proposals: vec![proposal],
    };
    vec![Payload::Sa(offer), Payload::Nonce(vec![transform; 16])]
}

fn notices() -> Vec<Payload> {
    let notify = |kind, value: &[u8]| {
        Payload::Notify(Notify {
            protocol: ProtocolId::Isakmp,
            spi: vec![0; 16],
            kind,
            value: value.to_vec(),
        })
    };
    vec![
        notify(NotifyType::RUThere, &[0, 0, 0, 9]),
        notify(NotifyType::RUThereAck, &[0, 0, 0, 9]),
        notify(NotifyType::InitialContact, &[]),
        notify(NotifyType::NoProposalChosen, &[]),
        Payload::Delete(Delete {
            protocol: ProtocolId::Esp,
            spis: vec![vec![0xc0, 0, 0, esp::DES]],
        }),
    ]
}

/// A first message in two fragments, the later one first.
fn fragments() -> (String, Vec<Op>) {
    let recording = Recording::new(true, false, false);
    let first = recording.ops.into_iter().find_map(|op| match op {
        Op::Datagram { octets, .. } => Some(octets),
        _ => None,
    });
    let mut message = first.expect("a first message");
    // Vendor IDs make it long enough to be split.
    let (header, body) = Header::parse(&message).expect("a message");
    let mut chain: Vec<Payload> = wire::isakmp::payloads(header.next_payload, body)
        .expect("payloads")
        .into_iter()
        .map(|found| found.payload)
        .collect();
    chain.extend((0..20).map(|number| Payload::VendorId(vec![number; 60])));
    message = header.write(&write_payloads(&chain).1);
    let mut parts = engine::ikev1::fragments::split(message, 3);
    parts.reverse();
    let datagram = |octets| Op::Datagram { from: 0, octets };
    let mut ops: Vec<Op> = parts.into_iter().map(datagram).collect();
    ops.push(Op::Wait(2_000));
    ("fragments".into(), ops)
}

/// First messages of many clients, with garbage between them.
fn flood() -> (String, Vec<Op>) {
    let mut ops = Vec::new();
    for number in 0..6 {
        ops.push(Op::Begin {
            kind: number,
            from: number,
        });
        ops.push(Op::Again {
            peer: number,
            from: number + 1,
        });
        let header = Header {
            cookies: Cookies::default(),
            next_payload: PayloadKind::None,
            exchange: Exchange::Other(number),
            flags: wire::isakmp::Flags(number),
            message_id: number.into(),
        };
        let (from, octets) = (number, header.write(&[]));
        ops.push(Op::Datagram { from, octets });
    }
    ops.push(Op::Wait(3_100));
    ("flood".into(), ops)
}
