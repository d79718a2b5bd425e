//! The engine's configuration of both ends of a simulated tunnel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crypto::mschapv2::NtHash;
use engine::config::{
    Child, ChildLayer, Config, Connection, Encapsulation, IdentityPattern, InnerFamilies, Limits,
    LocalAuth, LocalMethod, Pool, RemoteAuth, RemoteMethod, Start, Unique, Version,
};
use engine::eap::{Examiner, Login, LoginMethod, Users};
use engine::identity::Identity;
use engine::node::IKE_PORT;
use engine::sa::{Mode, Secret};
use engine::selector::TrafficSelector;
use engine::suite::EspSuite;

use crate::cost::Proposal;
use crate::kernel::host::control::AROUND;
use crate::kernel::pki;
use crate::scenario::Network;
use crate::scenario::graph::setup::TunnelSetup;

/// A tunnel between a station and a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Tunnel or transport mode.
    pub mode: Mode,
    /// The suite for packets, PFS included.
    pub esp: EspSuite,
    /// The suite of AH around these packets, in a tunnel of its own.
    pub around: Option<EspSuite>,
    /// The suite of the IKE exchange, and so its version.
    pub ike: Proposal,
    /// IKEv1: whether phase 1 is in aggressive mode; otherwise it is in main mode.
    pub is_aggressive: bool,
    /// How the ends authenticate.
    pub proof: Proof,
    /// IKEv2: whether the gateway asks for a cookie.
    pub asks_cookie: bool,
    /// IKEv2: whether large messages are split.
    pub fragments: bool,
    /// IKEv2: whether the station goes on from a session that was lost.
    pub is_resumed: bool,
    /// Whether ESP is sent in UDP even without a NAT.
    pub forces_udp: bool,
    /// Whether the outer header is IPv6.
    pub is_outer_v6: bool,
    /// Whether the packets inside are IPv6.
    pub is_inner_v6: bool,
    /// The number of the policy at its gateway, from 0. The stations of each policy have a name and
    /// inner addresses of their own.
    pub rank: usize,
}

/// How the ends authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By the certificates of [`pki`].
    Certificates(pki::Kind),
    /// By a well-known pre-shared key.
    Shared,
    /// The station by a well-known password (EAP-MSCHAPv2), the gateway by its certificate.
    Password,
    /// Both by certificates, the station within EAP-TLS.
    Tls,
}

impl Tunnel {
    /// The configuration of a station whose gateway has this address. `waits`: only a command
    /// brings it up.
    pub(super) fn station(
        &self,
        gateway: IpAddr,
        inside: TrafficSelector,
        mtu: u32,
        waits: bool,
    ) -> Config {
        let mut connection = self.connection(true, mtu);
        connection.make_station(vec![(gateway, IKE_PORT).into()]);
        if self.mode == Mode::Tunnel {
            connection.wants_inner = InnerFamilies {
                v4: !self.is_inner_v6,
                v6: self.is_inner_v6,
            };
            connection.children[0].remote = vec![inside];
        }
        if waits {
            connection.start = Start::Responder;
        }
        self.surround(&mut connection);
        Config {
            connections: vec![Arc::new(connection)],
            pools: Vec::new(),
            radius: None,
            limits: Limits::default(),
        }
    }

    /// The configuration of a station whose gateway is a router: all its packets go through the
    /// tunnel, with the address that they have anyway.
    /// `waits`: only a command brings it up.
    pub(super) fn station_of_router(&self, set: &TunnelSetup, mtu: u32, waits: bool) -> Config {
        let mut connection = self.end_of_router(&[set], true, mtu);
        if waits {
            connection.start = Start::Responder;
        }
        Config {
            connections: vec![Arc::new(connection)],
            pools: Vec::new(),
            radius: None,
            limits: Limits::default(),
        }
    }

    /// One end of tunnels to a router: the initiator of one, or the router of all with this policy.
    fn end_of_router(&self, sets: &[&TunnelSetup], initiates: bool, mtu: u32) -> Connection {
        let mut connection = self.connection(initiates, mtu);
        let near = sets.iter().map(|set| subnet(set.pool)).collect();
        let far = sets.iter().take(1).map(|set| subnet(set.inside)).collect();
        let (local, remote) = match initiates {
            true => (near, far),
            false => (far, near),
        };
        connection.children[0].local = local;
        connection.children[0].remote = remote;
        connection.unique = Unique::Keep;
        if let Some(set) = sets.first().filter(|_| initiates) {
            connection.make_station(vec![(set.gateway, IKE_PORT).into()]);
        }
        self.surround(&mut connection);
        connection
    }

    /// The configuration of a gateway: a connection and a pool for each of its policies. Several
    /// stations with one policy use the same certificate, so that their messages have the same
    /// length, and the smallest MTU of their paths.
    pub(super) fn gateway(
        tunnels: &[(Self, &TunnelSetup)],
        inside: TrafficSelector,
        mtu_of: impl Fn(&TunnelSetup) -> u32,
    ) -> Config {
        let mut all = Config {
            connections: Vec::new(),
            pools: Vec::new(),
            radius: None,
            limits: limits_of(tunnels),
        };
        for (index, (tunnel, set)) in tunnels.iter().enumerate() {
            let others = &tunnels[..index];
            if others.iter().any(|(other, _)| other.rank == tunnel.rank) {
                continue;
            }
            let alike = tunnels
                .iter()
                .filter(|(other, _)| other.rank == tunnel.rank);
            let mtus = alike.clone().map(|(_, set)| mtu_of(set));
            let mtu = mtus.min().unwrap_or(u32::MAX);
            let mut connection = tunnel.connection(false, mtu);
            connection.pools = vec![all.pools.len()];
            if alike.count() > 1 {
                connection.unique = Unique::Keep;
            }
            if tunnel.mode == Mode::Tunnel {
                connection.children[0].local = vec![inside];
            }
            // as in the daemon's documentation, a DNS server is assigned with inner addresses
            let dns = match tunnel.mode {
                Mode::Tunnel if tunnel.is_inner_v6 => vec![IpAddr::from(RESOLVER_V6)],
                Mode::Tunnel => vec![IpAddr::from(RESOLVER)],
                Mode::Transport => Vec::new(),
            };
            let (first, last) = set.pool.hosts();
            all.pools.push(Pool {
                name: tunnel.name("inner"),
                first,
                last,
                dns,
                domains: Vec::new(),
                trust_anchors: Vec::new(),
            });
            tunnel.surround(&mut connection);
            all.connections.push(Arc::new(connection));
        }
        all
    }

    /// Puts the child of AH before that of ESP, whose packets leave through it.
    fn surround(&self, connection: &mut Connection) {
        let Some(around) = self.around else {
            return;
        };
        let inside = &mut connection.children[0];
        inside.layer = ChildLayer::Inside;
        let around = Child {
            name: AROUND.to_owned(),
            layer: ChildLayer::Around,
            proposals: vec![around],
            local: Vec::new(),
            remote: Vec::new(),
            ..inside.clone()
        };
        connection.children.insert(0, around);
    }

    /// The name of its connection.
    pub(super) fn connection_name(&self) -> String {
        self.name("road")
    }

    /// A name that is unique to the policy at its gateway.
    fn name(&self, first: &str) -> String {
        match self.rank {
            0 => first.to_owned(),
            rank => format!("{first}-{}", rank + 1),
        }
    }

    fn connection(&self, is_station: bool, mtu: u32) -> Connection {
        let (own, peer) = if is_station {
            (pki::STATIONS[self.rank], pki::GATEWAY)
        } else {
            (pki::GATEWAY, pki::STATIONS[self.rank])
        };
        let identity = |name: &str| Identity::Fqdn(name.into());
        let (local, remote) = self.methods(is_station);
        let local = LocalAuth {
            identity: identity(own),
            method: local,
        };
        let remote = RemoteAuth {
            identities: vec![IdentityPattern::Is(identity(peer))],
            method: remote,
        };
        let mut child = Child::new("net", self.mode, vec![self.esp]);
        child.path_mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        let name = self.connection_name();
        let mut connection = Connection::new(&name, Vec::new(), local, remote, vec![child]);
        match self.ike {
            Proposal::V1(suite) => connection.proposals = vec![suite],
            Proposal::V2(suite) => {
                connection.version = Version::V2;
                connection.ikev2_proposals = vec![suite];
            }
        }
        connection.is_aggressive = self.is_aggressive;
        connection.fragments = self.fragments;
        connection.resumption = self.is_resumed;
        connection.is_legacy = true;
        connection.encapsulation = match self.forces_udp {
            true => Encapsulation::Always,
            false => Encapsulation::ThroughNat,
        };
        connection
    }
}

impl Tunnel {
    /// What an end has, and what it takes.
    fn methods(&self, is_station: bool) -> (LocalMethod, RemoteMethod) {
        let certificates = |kind| pki::credentials(kind, is_station, self.rank);
        let (local, remote) = match self.proof {
            Proof::Certificates(kind) => return certificates(kind),
            Proof::Shared => {
                let secret = Arc::new(Secret(PASSWORD.as_bytes().to_vec()));
                let local = LocalMethod::PresharedKey(secret.clone());
                return (local, RemoteMethod::PresharedKey(secret));
            }
            Proof::Password | Proof::Tls => certificates(pki::Kind::Rsa2048),
        };
        let is_tls = self.proof == Proof::Tls;
        match (is_station, local, remote) {
            (true, LocalMethod::Signature { key, chain }, remote) => {
                let method = match is_tls {
                    true => LoginMethod::Certificate(key, chain),
                    false => LoginMethod::Password(NtHash::of_password(PASSWORD)),
                };
                let login = Login {
                    user: pki::STATIONS[self.rank].to_owned(),
                    method,
                    server: None,
                };
                (LocalMethod::Eap(Arc::new(login)), remote)
            }
            (false, local, RemoteMethod::Signature(trusted)) => {
                let mut users = Users::default();
                let hash = NtHash::of_password(PASSWORD);
                users
                    .add(pki::STATIONS[self.rank], hash)
                    .expect("a name of our own");
                let examiner = Examiner {
                    users: (!is_tls).then(|| Arc::new(users)),
                    trusted: is_tls.then_some(trusted),
                    asks_servers: false,
                };
                (local, RemoteMethod::Eap(Arc::new(examiner)))
            }
            (_, local, remote) => (local, remote),
        }
    }
}

/// The configuration of a router that ends tunnels: a connection for each that it begins, and one
/// for each policy of others. A station asks for its own address among those of its policy.
pub(super) fn router(
    tunnels: &[(Tunnel, &TunnelSetup)],
    router: usize,
    mtu_of: impl Fn(&TunnelSetup) -> u32,
) -> Config {
    let mut connections = Vec::new();
    for (index, (tunnel, set)) in tunnels.iter().enumerate() {
        let initiates = set.from == router;
        let is_alike = |(_, other): &&(Tunnel, &TunnelSetup)| {
            (other.to, other.rank) == (set.to, set.rank) && !initiates
        };
        if tunnels[..index].iter().any(|other| is_alike(&other)) {
            continue;
        }
        let alike: Vec<&TunnelSetup> = match initiates {
            true => vec![set],
            false => tunnels.iter().filter(is_alike).map(|it| it.1).collect(),
        };
        let mtu = alike.iter().map(|set| mtu_of(set)).min();
        let mtu = mtu.unwrap_or(u32::MAX);
        let mut connection = tunnel.end_of_router(&alike, initiates, mtu);
        connection.name = format!("{}-{}", connection.name, set.from);
        connections.push(Arc::new(connection));
    }
    Config {
        connections,
        pools: Vec::new(),
        radius: None,
        limits: limits_of(tunnels),
    }
}

/// A gateway asks all for a cookie, or nobody.
fn limits_of(tunnels: &[(Tunnel, &TunnelSetup)]) -> Limits {
    Limits {
        asks_cookies: tunnels.iter().any(|(tunnel, _)| tunnel.asks_cookie),
        ..Limits::default()
    }
}

fn subnet(network: Network) -> TrafficSelector {
    TrafficSelector::subnet(network.first, network.bits)
}

const PASSWORD: &str = "in everybody's hands";
const RESOLVER: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 53);
const RESOLVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd10, 0, 0, 0, 0, 0, 0, 53);
