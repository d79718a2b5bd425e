//! The engine's configuration of both ends of a simulated tunnel.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use engine::config::{
    Child, Config, Connection, Encapsulation, IdentityPattern, InnerFamilies, Limits, LocalAuth,
    LocalMethod, Pool, RemoteAuth, RemoteMethod, Start, Unique,
};
use engine::identity::Identity;
use engine::node::IKE_PORT;
use engine::sa::{Mode, Secret};
use engine::selector::TrafficSelector;
use engine::suite::{EspSuite, IkeSuite};

use crate::kernel::pki;
use crate::scenario::graph::POOLS;

/// A tunnel between station and gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Tunnel or transport.
    pub mode: Mode,
    /// Of packets, PFS included.
    pub esp: EspSuite,
    /// Of the exchange.
    pub ike: IkeSuite,
    /// Aggressive mode, else main mode.
    pub is_aggressive: bool,
    /// How the ends prove who they are.
    pub proof: Proof,
    /// ESP in UDP even where no NAT stands between.
    pub forces_udp: bool,
}

/// How the ends prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// By the certificates of [`pki`].
    Certificates,
    /// By a secret that everybody knows.
    Shared,
}

impl Tunnel {
    /// The end of a station whose gateway has this address.
    pub(super) fn station(&self, gateway: Ipv4Addr, inside: TrafficSelector, mtu: u32) -> Config {
        let mut connection = self.connection(true, mtu);
        connection.remote_addrs = vec![(gateway, IKE_PORT).into()];
        connection.start = Start::AtOnce;
        if self.mode == Mode::Tunnel {
            connection.wants_inner = InnerFamilies {
                v4: true,
                v6: false,
            };
            connection.children[0].remote = vec![inside];
        }
        config(connection, Vec::new())
    }

    /// The end of a gateway, whose inner addresses are in the range of this number. Several
    /// stations prove themselves by the same certificate: their messages are alike.
    pub(super) fn gateway(
        &self,
        (number, stations): (u8, usize),
        inside: TrafficSelector,
        mtu: u32,
    ) -> Config {
        let mut connection = self.connection(false, mtu);
        connection.pools = vec![0];
        if stations > 1 {
            connection.unique = Unique::Keep;
        }
        if self.mode == Mode::Tunnel {
            connection.children[0].local = vec![inside];
        }
        // as the daemon's documentation has it, a resolver goes with inner addresses
        let dns = match self.mode {
            Mode::Tunnel => vec![IpAddr::from(RESOLVER)],
            Mode::Transport => Vec::new(),
        };
        let pool = Pool {
            name: "inner".into(),
            first: pool(number).0.into(),
            last: pool(number).1.into(),
            dns,
        };
        config(connection, vec![pool])
    }

    fn connection(&self, is_station: bool, mtu: u32) -> Connection {
        let (own, peer) = if is_station {
            (pki::STATION, pki::GATEWAY)
        } else {
            (pki::GATEWAY, pki::STATION)
        };
        let identity = |name: &str| Identity::Fqdn(name.into());
        let (local, remote) = match self.proof {
            Proof::Certificates => pki::credentials(is_station),
            Proof::Shared => {
                let secret = Arc::new(Secret(b"in everybody's hands".to_vec()));
                let local = LocalMethod::PresharedKey(secret.clone());
                (local, RemoteMethod::PresharedKey(secret))
            }
        };
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
        let mut connection = Connection::new("road", vec![self.ike], local, remote, vec![child]);
        connection.is_aggressive = self.is_aggressive;
        connection.is_legacy = true;
        connection.encapsulation = match self.forces_udp {
            true => Encapsulation::Always,
            false => Encapsulation::ThroughNat,
        };
        connection
    }
}

/// The inner addresses of a gateway, or those that stand for peers in transport mode.
pub(super) fn pool(number: u8) -> (Ipv4Addr, Ipv4Addr) {
    let [a, b, ..] = POOLS.first.octets();
    let host = |host| Ipv4Addr::new(a, b, number, host);
    (host(1), host(254))
}

const RESOLVER: Ipv4Addr = Ipv4Addr::new(10, 10, 0, 53);

fn config(connection: Connection, pools: Vec<Pool>) -> Config {
    Config {
        connections: vec![Arc::new(connection)],
        pools,
        limits: Limits::default(),
    }
}
