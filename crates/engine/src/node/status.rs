//! The state of a node, for display.

use std::net::IpAddr;

use super::Node;
use super::children::{ChildEntry, listed, protocol_name};
use super::session::Session;
use super::stations::{State, Station};
use crate::config::Version;
use crate::identity::Identity;
use crate::ike::Role;
use crate::ikev2::ppk::PpkInUse;
use crate::radius::ServerStatus;
use crate::sa::{Mode, Path};
use crate::suite::Standing;
use crate::time::{Duration, Instant};

/// The state of a node at one moment.
#[derive(Clone, Debug)]
pub struct Status {
    /// In the order of the configuration.
    pub connections: Vec<ConnectionStatus>,
    /// Half-open exchanges.
    pub half_open: usize,
    /// Octets of fragments that wait for the rest of their message.
    pub fragment_octets: usize,
    /// Name, assigned addresses and total addresses of each pool.
    pub pools: Vec<(String, usize, u128)>,
    /// Servers of RADIUS.
    pub radius: Vec<ServerStatus>,
    /// The gateway to which peers are sent.
    pub draining: Option<String>,
}

/// A connection.
#[derive(Clone, Debug)]
pub struct ConnectionStatus {
    /// Its key in the file.
    pub name: String,
    /// Which versions of IKE it speaks.
    pub version: Version,
    /// How far it is.
    pub state: ConnectionState,
    /// Whether the file permits insecure algorithms.
    pub is_legacy: bool,
    /// For a station that is up: children that are not up, and where they lead.
    pub missing: Vec<String>,
    /// For a station that is up: children that are up, and what the gateway does not protect of
    /// what they ask for, or only in part.
    pub narrowed: Vec<String>,
    /// For a station that waits: how long until its next attempt.
    pub retry_in: Option<Duration>,
    /// For a station whose gateway has several addresses: those that are not used, and why.
    pub passed_over: Vec<String>,
    /// Established or in progress.
    pub sessions: Vec<SessionStatus>,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// At least one child of one session can carry packets.
    Established,
    /// The peers initiate, and none has a child.
    Listening,
    /// The user wants this station down.
    Down,
    /// The first packet that matches brings the station up.
    AwaitingTraffic,
    /// Nobody has said yet which of our addresses leads to the peer.
    AwaitingAddress,
    /// An attempt is in progress.
    Connecting,
    /// The station was up and has lost its children.
    Up,
    /// The next attempt waits.
    AwaitingRetry,
}

/// An IKE SA (of IKEv1: an ISAKMP SA).
#[derive(Clone, Debug)]
pub struct SessionStatus {
    /// The proven identity; none while half open.
    pub peer: Option<Identity>,
    /// The path to the peer.
    pub path: Path,
    /// The proven path; the peer may send from elsewhere.
    pub home: Path,
    /// Our role.
    pub role: Role,
    /// Of IKE: 1 or 2.
    pub version: u8,
    /// In proposal words; empty while half open.
    pub suite: String,
    /// Whether the suite is legacy.
    pub is_legacy: bool,
    /// IKEv2: whether an end has proven itself by RSA with SHA-1: the other announces no hashes.
    pub has_signed_sha1: bool,
    /// Whether we are behind a NAT, and whether the peer is.
    pub nat: (bool, bool),
    /// The post-quantum pre-shared key in its keys (RFC 8784, RFC 9867).
    pub ppk: Option<PpkInUse>,
    /// Whether each end has proven itself over both messages of IKE_SA_INIT
    /// (draft-ietf-ipsecme-ikev2-downgrade-prevention).
    pub has_full_transcript: bool,
    /// Whether it goes on from a session that was lost (RFC 5723).
    pub is_resumed: bool,
    /// Whether addresses may change under it (RFC 4555).
    pub has_mobike: bool,
    /// How often its path has changed.
    pub moves: u32,
    /// The peer's addresses besides the one in use.
    pub peer_addresses: Vec<IpAddr>,
    /// Time since it was established.
    pub age: Option<Duration>,
    /// Inner addresses that we or the peer were assigned.
    pub inner: Vec<IpAddr>,
    /// Its children.
    pub children: Vec<ChildStatus>,
}

/// A pair of SAs.
#[derive(Clone, Debug)]
pub struct ChildStatus {
    /// Its key in the file.
    pub name: String,
    /// The ID in reports of the planes.
    pub id: crate::sa::ChildId,
    /// Our inbound SPI.
    pub spi_in: u32,
    /// The peer's SPI.
    pub spi_out: u32,
    /// In proposal words.
    pub suite: String,
    /// Whether the suite is legacy.
    pub is_legacy: bool,
    /// ESP or AH.
    pub protocol: &'static str,
    /// Tunnel or transport.
    pub mode: Mode,
    /// ESP in UDP.
    pub is_udp_encapsulated: bool,
    /// Our side's traffic.
    pub local: String,
    /// The peer's side's.
    pub remote: String,
    /// The pool address that stands for a transport mode peer.
    pub pool_address: Option<IpAddr>,
    /// Time since these SAs were agreed.
    pub age: Duration,
}

impl From<State> for ConnectionState {
    fn from(state: State) -> Self {
        match state {
            State::Down => Self::Down,
            State::AwaitingTraffic => Self::AwaitingTraffic,
            State::AwaitingAddress => Self::AwaitingAddress,
            State::Racing | State::Connecting(_) => Self::Connecting,
            State::Up(_) => Self::Up,
            State::Backoff(_) => Self::AwaitingRetry,
        }
    }
}

impl Node {
    /// The current state.
    pub fn status(&self, now: Instant) -> Status {
        let connections = self.config.connections.iter().map(|connection| {
            let is_own = |session: &Session| {
                let own = session.connection();
                own.is_some_and(|own| std::sync::Arc::ptr_eq(own, connection))
            };
            let station = self.stations.iter().find(|station| {
                !station.is_retired && std::sync::Arc::ptr_eq(&station.connection, connection)
            });
            let own = self.sessions.values().filter(|session| is_own(session));
            let sessions: Vec<SessionStatus> = own
                .map(|session| self.session_status(session, now))
                .collect();
            let is_established = sessions.iter().any(|it| !it.children.is_empty());
            ConnectionStatus {
                name: connection.name.clone(),
                version: connection.version,
                state: match (is_established, station) {
                    (true, _) => ConnectionState::Established,
                    (false, None) => ConnectionState::Listening,
                    (false, Some(station)) => station.state.into(),
                },
                missing: station.map(|it| self.missing(it)).unwrap_or_default(),
                narrowed: station.map(|it| self.narrowed(it)).unwrap_or_default(),
                retry_in: station
                    .filter(|_| !is_established)
                    .and_then(|it| it.state.retry_in(now)),
                passed_over: station.map(|it| it.not_used()).unwrap_or_default(),
                is_legacy: connection.is_legacy,
                sessions,
            }
        });
        let pools = self.config.pools.iter().map(|pool| {
            (
                pool.name.clone(),
                self.leases.live(&pool.name),
                super::leases::size(pool),
            )
        });
        Status {
            connections: connections.collect(),
            half_open: self.half_open.total(),
            fragment_octets: self.assembly.octets() + self.fragments_of_ikev2(),
            pools: pools.collect(),
            radius: self.radius.status(),
            draining: self.draining(),
        }
    }

    /// For a station that is up, where its children lead that are not up.
    fn missing(&self, station: &Station) -> Vec<String> {
        let all = self.children_of(station);
        let missing = all.filter(|entry| entry.current.is_none());
        let named = missing.map(|entry| match &entry.remote[..] {
            [] => entry.child().name.clone(),
            remote => format!("{} to {}", entry.child().name, listed(remote)),
        });
        named.collect()
    }

    /// For a station that is up, what the gateway leaves out of its children that are.
    fn narrowed(&self, station: &Station) -> Vec<String> {
        let all = self.children_of(station);
        let narrowed = all.filter_map(|entry| {
            let lost = entry.narrowed()?;
            Some(format!("{} for {lost}", entry.child().name))
        });
        narrowed.collect()
    }

    /// The children of a station that is up.
    fn children_of(&self, station: &Station) -> impl Iterator<Item = &ChildEntry> {
        let is_up = matches!(station.state, State::Up(_));
        let children = station.children.iter().filter(move |_| is_up);
        children.filter_map(|child| self.children.get(child))
    }

    /// Octets of authentic fragments that wait for the rest of their message.
    fn fragments_of_ikev2(&self) -> usize {
        let held = self.sessions.values().map(|it| it.ike.fragment_octets());
        held.sum::<usize>() + self.farewells.fragment_octets()
    }

    /// Whether a connection has an established session.
    pub fn is_connected(&self, connection: &str) -> bool {
        let mut all = self.sessions.values();
        all.any(|it| it.is_of(connection) && it.ike.is_established())
    }

    /// How many sessions are established.
    pub fn established(&self) -> usize {
        self.sessions
            .values()
            .filter(|session| session.ike.is_established())
            .count()
    }

    fn session_status(&self, session: &Session, now: Instant) -> SessionStatus {
        let (ike, nat) = (&session.ike, session.ike.nat());
        let children = session.held.children.iter().filter_map(|child| {
            let entry = self.children.get(child)?;
            let pair = entry.current.as_ref()?;
            Some(ChildStatus {
                name: entry.child().name.clone(),
                id: entry.id,
                spi_in: pair.spi_in,
                spi_out: pair.spi_out,
                suite: pair.suite.to_string(),
                is_legacy: pair.suite.standing() == Standing::Legacy,
                protocol: protocol_name(pair.suite.protocol),
                mode: pair.mode,
                is_udp_encapsulated: pair.is_udp_encapsulated,
                local: listed(&pair.local),
                remote: listed(&pair.remote),
                pool_address: entry.pool_address,
                age: now.since(pair.since),
            })
        });
        let here = session.path().remote.ip();
        let others = ike.peer_addresses().iter().filter(|it| **it != here);
        SessionStatus {
            peer: ike.identity().map(|peer| peer.identity().clone()),
            path: session.path(),
            home: session.home(),
            role: ike.role(),
            version: ike.version(),
            suite: ike.suite().map(|(words, _)| words).unwrap_or_default(),
            is_legacy: ike
                .suite()
                .is_some_and(|(_, standing)| standing == Standing::Legacy),
            has_signed_sha1: ike.has_signed_sha1(),
            nat: (nat.is_local, nat.is_remote),
            ppk: ike.ppk().cloned(),
            has_full_transcript: ike.has_full_transcript(),
            is_resumed: ike.is_resumed(),
            has_mobike: ike.has_mobike(),
            moves: session.moves(),
            peer_addresses: others.copied().collect(),
            age: ike.since().map(|since| now.since(since)),
            inner: session
                .held
                .lease
                .iter()
                .flat_map(|lease| lease.addresses.clone())
                .collect(),
            children: children.collect(),
        }
    }
}
