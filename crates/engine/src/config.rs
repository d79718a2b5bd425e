//! The checked configuration of a [`crate::node::Node`]. Text never gets here: the daemon turns
//! its TOML into these types in one `TryFrom`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crypto::cert::{Certificate, TrustStore};
use crypto::rsa::PrivateKey;

use crate::identity::{Credential, Identity};
use crate::sa::{Mode, Protocol, Secret};
use crate::selector::TrafficSelector;
use crate::suite::{EspSuite, IkeSuite};
use crate::time::Duration;

mod check;

pub use crate::identity::IdentityPattern;
pub use check::{Finding, Severity};

/// All that a node is told.
pub struct Config {
    /// In order; a responder takes the first that fits.
    pub connections: Vec<Arc<Connection>>,
    /// Inner addresses to lend.
    pub pools: Vec<Pool>,
    /// Bounds.
    pub limits: Limits,
}

/// One peer, or one kind of peer.
pub struct Connection {
    /// Its key in the file.
    pub name: String,
    /// A hash of all that it says but the revocation lists: at a reload a connection of the same
    /// name and revision keeps its tunnels.
    pub revision: u64,
    /// Addresses that we use; empty: any.
    pub local_addrs: Vec<IpAddr>,
    /// Where to reach the peer; empty: we only respond.
    pub remote_addrs: Vec<SocketAddr>,
    /// Aggressive mode, else main mode.
    pub is_aggressive: bool,
    /// Phase 1, in order of preference.
    pub proposals: Vec<IkeSuite>,
    /// How we prove who we are.
    pub local: LocalAuth,
    /// Whom we accept and how it proves itself.
    pub remote: RemoteAuth,
    /// What is protected.
    pub children: Vec<Child>,
    /// We ask for an inner address by mode config; for each family wanted.
    pub wants_inner: InnerFamilies,
    /// Indices in [`Config::pools`] that we lend inner addresses from (tunnel mode) or map peers
    /// to (transport mode); at most one of each family.
    pub pools: Vec<usize>,
    /// Insecure algorithms were permitted. Checked when the configuration is made.
    pub is_legacy: bool,
    /// When an initiator starts.
    pub start: Start,
    /// When ESP goes in UDP.
    pub encapsulation: Encapsulation,
    /// IKE fragments: sent when the peer announces that it reads them.
    pub fragments: bool,
    /// R-U-THERE after this long without a sign of life; `None`: never.
    pub dpd_delay: Option<Duration>,
    /// No answer for this long: the peer is dead.
    pub dpd_timeout: Duration,
    /// NAT keepalive interval (RFC 3948 §4: 20 s); zero: none are sent.
    pub keepalive: Duration,
    /// ISAKMP SA lifetime that we offer.
    pub lifetime: Duration,
    /// A new ISAKMP SA is begun this long before the old one ends.
    pub rekey_margin: Duration,
    /// What a second tunnel of the same identity does.
    pub unique: Unique,
    /// Peers at once that a pre-shared key may have which is for many (`id = "*"`).
    pub peers_max: usize,
}

/// Families of inner address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InnerFamilies {
    /// IPv4.
    pub v4: bool,
    /// IPv6.
    pub v6: bool,
}

impl InnerFamilies {
    /// Whether an address of this one is wanted.
    pub fn has(self, is_v4: bool) -> bool {
        if is_v4 { self.v4 } else { self.v6 }
    }

    /// Whether an address of either is wanted.
    pub fn is_any(self) -> bool {
        self.v4 || self.v6
    }
}

/// When a tunnel is brought up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// As soon as the node runs, and again after every loss.
    AtOnce,
    /// At the first packet that matches.
    OnTraffic,
    /// Never by itself.
    Responder,
}

/// When ESP goes in UDP (RFC 3948). Through a NAT it always does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// With every peer that speaks RFC 3947: kernels cut and gather UDP, while each packet of IP
    /// protocol 50 is a system call of its own.
    Auto,
    /// Always: a peer that does not speak RFC 3947 gets no tunnel.
    Always,
    /// Through a NAT alone.
    ThroughNat,
}

/// What a second tunnel of the same identity does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unique {
    /// Replaces the first one at INITIAL-CONTACT (RFC 2407 §4.6.3.3) or a new phase 1.
    Replace,
    /// Stands beside it.
    Keep,
}

/// How we prove who we are.
pub struct LocalAuth {
    /// Sent in the ID payload.
    pub identity: Identity,
    /// With what.
    pub method: LocalMethod,
}

impl LocalAuth {
    /// Whether a peer takes both for one: INITIAL-CONTACT under one ends the tunnels of the other.
    /// Of one certificate it may know us by whichever name.
    pub fn is_same_peer(&self, other: &Self) -> bool {
        let credential = |own: &Self| match &own.method {
            LocalMethod::Signature { chain, .. } => {
                let leaf = chain.first()?;
                Credential::of_certificate(&leaf.names())
            }
            LocalMethod::PresharedKey(_) => None,
        };
        let (own, others) = (credential(self), credential(other));
        self.identity.is_same(&other.identity) || (own.is_some() && own == others)
    }
}

/// Our credential.
pub enum LocalMethod {
    /// RSA signatures.
    Signature {
        /// The private key.
        key: Arc<PrivateKey>,
        /// Our certificate first, then intermediates.
        chain: Vec<Certificate>,
    },
    /// A pre-shared key.
    PresharedKey(Arc<Secret>),
}

/// Whom we accept.
pub struct RemoteAuth {
    /// Accepted identities; see [`IdentityPattern`].
    pub identities: Vec<IdentityPattern>,
    /// How it proves itself.
    pub method: RemoteMethod,
}

/// The peer's credential.
pub enum RemoteMethod {
    /// RSA signatures by a certificate that this store trusts.
    Signature(Arc<TrustStore>),
    /// A pre-shared key.
    PresharedKey(Arc<Secret>),
}

/// What is protected under one name.
pub struct Child {
    /// Its key in the file.
    pub name: String,
    /// Tunnel or transport.
    pub mode: Mode,
    /// Phase 2, in order of preference.
    pub proposals: Vec<EspSuite>,
    /// Our side; empty: our inner address, or our own address in transport mode.
    pub local: Vec<TrafficSelector>,
    /// The peer's side; empty: its inner address, or its own address in transport mode.
    pub remote: Vec<TrafficSelector>,
    /// IPsec SA lifetime that we offer.
    pub lifetime: Duration,
    /// A new SA is begun this long before the old one ends.
    pub rekey_margin: Duration,
    /// Bytes after which it is renewed.
    pub lifetime_bytes: u64,
    /// Packets after which it is renewed.
    pub lifetime_packets: u64,
    /// Replay window in packets.
    pub replay_window: u32,
    /// Outer MTU assumed until the path tells less.
    pub path_mtu: u16,
}

/// Inner addresses to lend, and what goes with them.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its key in the file.
    pub name: String,
    /// First and last address, one family.
    pub first: IpAddr,
    /// Last address.
    pub last: IpAddr,
    /// Resolvers.
    pub dns: Vec<IpAddr>,
}

/// Bounds on what strangers can make us hold.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Half-open exchanges of aggressive mode, and a quarter as many more that addresses have
    /// where a station came up lately.
    pub half_open: usize,
    /// Half-open exchanges of main mode, above which the oldest unproven one makes room; half of
    /// them may have a proven address, above which the oldest of those does.
    pub half_open_total: usize,
    /// Half-open exchanges of one address and mode, and so many more of main mode that it has
    /// proven to be its own; an IPv6 address counts with all of its /64. Of the latter one network
    /// (an IPv4 /24, an IPv6 /48) has four times as many.
    pub half_open_per_address: usize,
    /// Quick modes at once under one ISAKMP SA.
    pub quick_modes: usize,
    /// Children of one peer: what a configuration holds may be asked for in many small pieces.
    pub children: usize,
    /// How long a half-open exchange may last.
    pub half_open_lifetime: Duration,
    /// Peers that have proven who they are have quotas of exchanges ([`crate::quotas`]); off where
    /// it is measured how many there can be.
    pub has_quotas: bool,
}

impl Config {
    /// The connection that took the place of one of an earlier configuration and says the same.
    pub(crate) fn successor(&self, old: &Connection) -> Option<&Arc<Connection>> {
        let is_same = |new: &&Arc<Connection>| new.name == old.name && new.revision == old.revision;
        self.connections.iter().find(is_same)
    }
}

impl Connection {
    /// A connection with the defaults; what has none is an argument. It responds only, uses main
    /// mode, and neither asks for an inner address nor lends one.
    pub fn new(
        name: &str,
        proposals: Vec<IkeSuite>,
        local: LocalAuth,
        remote: RemoteAuth,
        children: Vec<Child>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            revision: 0,
            local_addrs: Vec::new(),
            remote_addrs: Vec::new(),
            // Main mode hides identities, and costs a stranger more to begin.
            is_aggressive: false,
            proposals,
            local,
            remote,
            children,
            wants_inner: InnerFamilies::default(),
            pools: Vec::new(),
            is_legacy: false,
            start: Start::Responder,
            encapsulation: Encapsulation::Auto,
            fragments: true,
            dpd_delay: Some(DPD_DELAY),
            dpd_timeout: DPD_TIMEOUT,
            keepalive: KEEPALIVE,
            lifetime: IKE_LIFETIME,
            rekey_margin: IKE_REKEY_MARGIN,
            unique: Unique::Replace,
            peers_max: PEERS_MAX,
        }
    }

    /// Whether ESP is to go in UDP although there may be no NAT. AH cannot: a connection that
    /// proposes it goes in UDP only where it must.
    pub fn prefers_udp(&self) -> bool {
        let is_esp = |suite: &EspSuite| suite.protocol == Protocol::Esp;
        let mut children = self.children.iter();
        match self.encapsulation {
            Encapsulation::Always => true,
            Encapsulation::Auto => children.all(|child| child.proposals.iter().all(is_esp)),
            Encapsulation::ThroughNat => false,
        }
    }

    /// Whether it waits for peers of transport mode that no pool address stands for: our stack
    /// knows them by the addresses that they come from.
    pub fn has_bare_peers(&self) -> bool {
        let is_transport = |child: &Child| child.mode == Mode::Transport;
        let waits = self.remote_addrs.is_empty() && self.pools.is_empty();
        waits && self.children.iter().any(is_transport)
    }
}

impl Child {
    /// A child with the defaults, whose traffic is that of the inner addresses (tunnel mode) or
    /// of the two ends (transport mode).
    pub fn new(name: &str, mode: Mode, proposals: Vec<EspSuite>) -> Self {
        Self {
            name: name.to_owned(),
            mode,
            proposals,
            local: Vec::new(),
            remote: Vec::new(),
            lifetime: CHILD_LIFETIME,
            rekey_margin: CHILD_REKEY_MARGIN,
            lifetime_bytes: u64::MAX,
            lifetime_packets: u64::MAX,
            replay_window: REPLAY_WINDOW,
            path_mtu: PATH_MTU,
        }
    }
}

/// ISAKMP SA: swanctl's 4 hours and a tenth over, in which the next one is made.
pub const IKE_LIFETIME: Duration = Duration::from_secs(14_400 + 1_440);
/// The tenth.
pub const IKE_REKEY_MARGIN: Duration = Duration::from_secs(1_440);
/// IPsec SA: swanctl's hour and a tenth over.
pub const CHILD_LIFETIME: Duration = Duration::from_secs(3_600 + 360);
/// The tenth.
pub const CHILD_REKEY_MARGIN: Duration = Duration::from_secs(360);
/// A gateway asks a silent peer once a minute: many stations sleep.
pub const DPD_DELAY: Duration = Duration::from_secs(60);
/// Five questions, two seconds apart.
pub const DPD_TIMEOUT: Duration = Duration::from_secs(10);
/// More than use one key that they all know, as a rule.
pub const PEERS_MAX: usize = 1_000;
/// RFC 3948 §4.
pub const KEEPALIVE: Duration = Duration::from_secs(20);
/// Wide enough for what several threads and a long fat link reorder.
pub const REPLAY_WINDOW: u32 = 1_024;
/// Ethernet's.
pub const PATH_MTU: u16 = 1_500;

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Beyond it a first message that costs a public key operation is a bad bargain; main
            // mode's costs none.
            half_open: 500,
            // Some 20 MiB.
            half_open_total: 5_000,
            // A carrier's NAT has many stations behind one address.
            half_open_per_address: 100,
            // A child each, and renewals of both sides at once.
            quick_modes: 16,
            // Several subnets of both families, each with a port or two.
            children: 64,
            // Longer than the first five repetitions of an honest peer.
            half_open_lifetime: Duration::from_secs(30),
            has_quotas: true,
        }
    }
}
