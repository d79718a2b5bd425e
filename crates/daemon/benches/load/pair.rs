//! One gateway with its planes and one client after another, connected without a network.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use crypto::cert::{Certificate, TrustStore};
use crypto::rand::Seed;
use crypto::sign::PrivateKey;
use engine::config::{
    Child, ChildLayer, Childless, Config, Connection, Encapsulation, IdentityPattern,
    InnerFamilies, Limits, LocalAuth, LocalMethod, Pool, Redirects, RemoteAuth, RemoteMethod,
    Start, Unique, Version,
};
use engine::endpoint::{Effect, Endpoint};
use engine::identity::Identity;
use engine::node::{Command, Event, IKE_PORT, Input};
use engine::plane::Offloads;
use engine::sa::{Mode, Path, Secret};
use engine::selector::TrafficSelector;
use engine::time::{Calendar, Instant};
use nix::time::{ClockId, clock_gettime};
use wire::ip::{checksum, protocol};
use wire::vnet;

const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The network of the clients' addresses, a /10.
const STATIONS: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 0);
/// A host behind the gateway.
const INSIDE: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 1);
const OFFLOADS: Offloads = Offloads {
    has_vnet_header: true,
    has_udp_segments: true,
};
/// After this silence a client with a ticket probes its gateway.
const SILENCE: Duration = Duration::from_secs(1);
/// Longest time that a handshake may take, on the nodes' own clock.
const PATIENCE: Duration = Duration::from_secs(20);

/// The terms that both ends agree on.
pub(crate) struct Terms<'a> {
    pub(crate) version: Version,
    pub(crate) proposal: &'a str,
    pub(crate) esp_proposal: &'a str,
    /// Both ends have tickets (RFC 5723).
    pub(crate) has_tickets: bool,
}

/// How one end proves its identity, and whom it trusts.
#[derive(Clone)]
pub(crate) enum Credentials {
    Shared(Arc<Secret>),
    Certified {
        key: Arc<PrivateKey>,
        chain: Vec<Certificate>,
        trusted: Arc<TrustStore>,
    },
}

/// A responder, its planes, and the CPU time that they have used.
pub(crate) struct Gateway {
    endpoint: Endpoint,
    pub(crate) cpu: Duration,
    pub(crate) children: usize,
    failure: Option<String>,
}

/// An initiator and the address that the gateway sees.
pub(crate) struct Station {
    endpoint: Endpoint,
    address: IpAddr,
    /// Its address in the tunnel.
    inner: Option<Ipv4Addr>,
    children: usize,
    failure: Option<String>,
}

pub(crate) type Datagrams = VecDeque<(Path, Vec<u8>)>;

impl Gateway {
    pub(crate) fn new(terms: &Terms<'_>, credentials: &Credentials) -> anyhow::Result<Self> {
        let seed = Seed::new([1; 32]);
        let mut connection = connection(terms, credentials, "sg.example")?;
        connection.pools = vec![0];
        connection.children[0].local = inside();
        let pool = Pool {
            name: "inner".into(),
            first: Ipv4Addr::new(10, 64, 0, 1).into(),
            last: Ipv4Addr::new(10, 127, 255, 254).into(),
            dns: Vec::new(),
            domains: Vec::new(),
            trust_anchors: Vec::new(),
        };
        let config = config(connection, vec![pool]);
        let mut endpoint = Endpoint::new(config, &seed, OFFLOADS, vec![GATEWAY.into()]);
        while endpoint.poll(Instant(0)).is_some() {}
        Ok(Self {
            endpoint,
            cpu: Duration::ZERO,
            children: 0,
            failure: None,
        })
    }

    /// Advances the clock: due timers fire.
    pub(crate) fn wake(&mut self, now: Instant) -> anyhow::Result<()> {
        while due(&self.endpoint).is_some_and(|due| due <= now) {
            let mut sent = Datagrams::new();
            self.take(Input::Wake, now, &mut sent)?;
        }
        Ok(())
    }

    pub(crate) fn set_calendar(&mut self, calendar: Calendar, now: Instant) -> anyhow::Result<()> {
        self.take(Input::Calendar(calendar), now, &mut Datagrams::new())
    }

    /// Lets keys rest that no packet has used since the last call.
    pub(crate) fn rest(&mut self) {
        self.endpoint.rest();
    }

    /// The number of its ISAKMP SAs.
    pub(crate) fn established(&self) -> usize {
        self.endpoint.node.established()
    }

    /// Handles an input and drains the outputs. Only the gateway's work counts as its time.
    fn take(&mut self, input: Input<'_>, now: Instant, sent: &mut Datagrams) -> anyhow::Result<()> {
        let began = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
        self.endpoint.handle(input, now);
        while let Some(effect) = self.endpoint.poll(now) {
            match effect {
                Effect::Message(path, payload) => sent.push_back((path, payload)),
                Effect::Event(event) => self.note(event),
                _ => {}
            }
        }
        let ended = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
        self.cpu += Duration::from(ended - began);
        Ok(())
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::ChildEstablished { .. } => self.children += 1,
            Event::NegotiationFailed { reason, .. } => self.failure = Some(reason),
            _ => {}
        }
    }
}

impl Station {
    /// The client of this number, with an address of its own; `identity` is its ID payload.
    pub(crate) fn new(
        number: u32,
        identity: &str,
        terms: &Terms<'_>,
        credentials: &Credentials,
    ) -> anyhow::Result<Self> {
        Self::towards(GATEWAY, number, identity, terms, credentials)
    }

    /// The client of this number of the gateway at this address.
    pub(crate) fn towards(
        gateway: Ipv4Addr,
        number: u32,
        identity: &str,
        terms: &Terms<'_>,
        credentials: &Credentials,
    ) -> anyhow::Result<Self> {
        let mut octets = [2; 32];
        octets[..4].copy_from_slice(&number.to_be_bytes());
        let mut connection = connection(terms, credentials, identity)?;
        connection.remote_addrs = vec![(gateway, IKE_PORT).into()];
        connection.start = Start::AtOnce;
        connection.wants_inner.v4 = true;
        connection.dpd_delay = terms.has_tickets.then_some(SILENCE);
        connection.children[0].remote = inside();
        let address = Ipv4Addr::from_bits(STATIONS.to_bits() + number).into();
        let config = config(connection, Vec::new());
        Ok(Self {
            endpoint: Endpoint::new(config, &Seed::new(octets), OFFLOADS, vec![address]),
            address,
            inner: None,
            children: 0,
            failure: None,
        })
    }

    /// Its own address.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Whether its tunnel is up. An error if it has none and will have none.
    pub(crate) fn is_up(&self) -> anyhow::Result<bool> {
        match &self.failure {
            Some(reason) => bail!("no tunnel: {reason}"),
            None => Ok(self.children > 0),
        }
    }

    /// When it wants to be woken.
    pub(crate) fn due(&self) -> Option<Instant> {
        due(&self.endpoint)
    }

    /// Brings the tunnel up. Returns when both ends have it.
    pub(crate) fn connect(
        &mut self,
        gateway: &mut Gateway,
        calendar: Calendar,
        now: Instant,
    ) -> anyhow::Result<()> {
        let before = gateway.children;
        gateway.failure = None;
        let mut to_gateway = self.drain(now);
        to_gateway.extend(self.take(Input::Calendar(calendar), now));
        let mut at = now;
        loop {
            self.settle(gateway, to_gateway, at)?;
            if let Some(reason) = gateway.failure.take() {
                bail!("the gateway refuses: {reason}");
            }
            if self.children == 1 && gateway.children == before + 1 {
                return Ok(());
            }
            let due = due(&self.endpoint).filter(|due| due.since(now) < PATIENCE);
            let Some(due) = due else {
                bail!("no tunnel after {PATIENCE:?}");
            };
            at = due;
            to_gateway = self.take(Input::Wake, at);
        }
    }

    /// A packet through the tunnel and one back.
    pub(crate) fn exchange(&mut self, gateway: &mut Gateway, now: Instant) -> anyhow::Result<()> {
        let inner = self.inner.context("no inner address")?;
        let (own, theirs) = (&mut self.endpoint, &mut gateway.endpoint);
        carry(own, theirs, (inner, INSIDE), now)?;
        carry(theirs, own, (INSIDE, inner), now)
    }

    /// Loses the gateway, which does not notice. Returns when the client begins again.
    pub(crate) fn lose(&mut self) -> anyhow::Result<Instant> {
        self.children = 0;
        loop {
            let Some(at) = due(&self.endpoint) else {
                bail!("a client that waits for nothing");
            };
            self.endpoint.handle(Input::Wake, at);
            let (mut is_lost, mut next) = (false, None);
            while let Some(effect) = self.endpoint.poll(at) {
                if let Effect::Event(Event::RetryScheduled { in_ms, .. }) = effect {
                    is_lost = true;
                    next = Some(at + Duration::from_millis(in_ms));
                }
            }
            if let (true, Some(next)) = (is_lost, next) {
                return Ok(next);
            }
        }
    }

    /// Ends the tunnel at both ends.
    pub(crate) fn leave(&mut self, gateway: &mut Gateway, now: Instant) -> anyhow::Result<()> {
        let goodbye = self.take(Input::Command(Command::Stop), now);
        self.settle(gateway, goodbye, now)
    }

    /// Carries datagrams both ways until neither end sends more.
    fn settle(
        &mut self,
        gateway: &mut Gateway,
        mut to_gateway: Datagrams,
        now: Instant,
    ) -> anyhow::Result<()> {
        while let Some((path, payload)) = to_gateway.pop_front() {
            let mut answers = Datagrams::new();
            gateway.take(
                Input::Datagram(path.reversed(), &payload),
                now,
                &mut answers,
            )?;
            for (path, answer) in answers {
                ensure!(
                    path.remote.ip() == self.address,
                    "an answer to {}",
                    path.remote
                );
                to_gateway.extend(self.take(Input::Datagram(path.reversed(), &answer), now));
            }
        }
        Ok(())
    }

    /// Handles an input. Returns what it sends.
    pub(crate) fn take(&mut self, input: Input<'_>, now: Instant) -> Datagrams {
        self.endpoint.handle(input, now);
        self.drain(now)
    }

    /// What it sends by itself.
    pub(crate) fn drain(&mut self, now: Instant) -> Datagrams {
        let mut sent = Datagrams::new();
        while let Some(effect) = self.endpoint.poll(now) {
            match effect {
                Effect::Message(path, payload) => sent.push_back((path, payload)),
                Effect::Event(Event::ChildEstablished { .. }) => self.children += 1,
                Effect::Event(Event::InnerAddress { addresses, .. }) => {
                    self.inner = addresses.iter().find_map(|it| match it {
                        IpAddr::V4(v4) => Some(*v4),
                        IpAddr::V6(_) => None,
                    });
                }
                Effect::Event(Event::NegotiationFailed { reason, .. }) => {
                    self.failure = Some(reason);
                }
                _ => {}
            }
        }
        sent
    }
}

/// Carries a packet of UDP without data from one end to the other.
fn carry(
    from: &mut Endpoint,
    to: &mut Endpoint,
    (source, destination): (Ipv4Addr, Ipv4Addr),
    now: Instant,
) -> anyhow::Result<()> {
    let mut packet = [0; 28];
    packet[..10].copy_from_slice(&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, protocol::UDP]);
    packet[12..16].copy_from_slice(&source.octets());
    packet[16..20].copy_from_slice(&destination.octets());
    packet[25] = 8;
    let sum = checksum::checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut frame = [&[0; vnet::LEN][..], &packet].concat();
    ensure!(from.send(&mut frame, now), "a packet that was not sealed");
    while let Some(effect) = from.poll(now) {
        if let Effect::Sealed(path, octets) = effect {
            to.receive(path.reversed(), &mut octets.to_vec(), now);
        }
    }
    let mut opened = 0;
    while let Some(effect) = to.poll(now) {
        opened += usize::from(matches!(effect, Effect::Opened(_)));
    }
    ensure!(opened == 1, "a packet that did not arrive");
    Ok(())
}

fn due(endpoint: &Endpoint) -> Option<Instant> {
    endpoint.deadline().map(|deadline| deadline.at)
}

fn inside() -> Vec<TrafficSelector> {
    vec!["10.10.0.0/24".parse().expect("a prefix")]
}

fn config(connection: Connection, pools: Vec<Pool>) -> Config {
    let limits = Limits {
        half_open: 500,
        half_open_total: 1_000,
        half_open_per_address: 100,
        quick_modes: 16,
        children: 64,
        half_open_lifetime: Duration::from_secs(30),
        has_quotas: false,
        asks_cookies: false,
    };
    Config {
        connections: vec![Arc::new(connection)],
        pools,
        radius: None,
        limits,
    }
}

/// A responder's connection for anybody who proves an identity; clients fill in the rest.
fn connection(
    terms: &Terms<'_>,
    credentials: &Credentials,
    identity: &str,
) -> anyhow::Result<Connection> {
    let (local, remote) = match credentials.clone() {
        Credentials::Shared(secret) => (
            LocalMethod::PresharedKey(secret.clone()),
            RemoteMethod::PresharedKey(secret),
        ),
        Credentials::Certified {
            key,
            chain,
            trusted,
        } => (
            LocalMethod::Signature { key, chain },
            RemoteMethod::Signature(trusted),
        ),
    };
    let (mut proposals, mut ikev2_proposals) = (Vec::new(), Vec::new());
    match terms.version.has_v2() {
        true => ikev2_proposals.push(terms.proposal.parse()?),
        false => proposals.push(terms.proposal.parse()?),
    }
    Ok(Connection {
        name: "load".into(),
        revision: 1,
        local_addrs: Vec::new(),
        remote_addrs: Vec::new(),
        version: terms.version,
        ikev2_proposals,
        ppk: None,
        is_aggressive: terms.version == Version::V1,
        proposals,
        local: LocalAuth {
            identity: Identity::Fqdn(identity.into()),
            method: local,
        },
        remote: RemoteAuth {
            identities: vec![IdentityPattern::Any],
            method: remote,
        },
        children: vec![child(terms)?],
        wants_inner: InnerFamilies::default(),
        dnssec_domains: Vec::new(),
        pools: Vec::new(),
        is_legacy: true,
        takes_rsa_sha1: false,
        start: Start::Responder,
        encapsulation: Encapsulation::Always,
        fragments: true,
        full_transcript: true,
        is_eap_only: false,
        mobike: true,
        reauth: true,
        childless: Childless::Allow,
        crash_detection: false,
        resumption: terms.has_tickets,
        redirects: Redirects::default(),
        dpd_delay: None,
        dpd_timeout: Duration::from_secs(10),
        keepalive: Duration::from_secs(20),
        lifetime: Duration::from_secs(14_400),
        rekey_margin: Duration::from_secs(1_440),
        unique: Unique::Keep,
        peers_max: usize::MAX,
    })
}

fn child(terms: &Terms<'_>) -> anyhow::Result<Child> {
    Ok(Child {
        name: "net".into(),
        layer: ChildLayer::Alone,
        mode: Mode::Tunnel,
        proposals: vec![terms.esp_proposal.parse()?],
        local: Vec::new(),
        remote: Vec::new(),
        lifetime: Duration::from_secs(3_600),
        rekey_margin: Duration::from_secs(360),
        lifetime_bytes: u64::MAX,
        lifetime_packets: u64::MAX,
        replay_window: 1_024,
        path_mtu: 1_500,
    })
}
