//! The checked configuration of a [`crate::node::Node`]. Nothing here is left to parse: the daemon
//! turns its TOML into these types in one `TryFrom`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crypto::cert::{Certificate, TrustStore};
use crypto::sign::PrivateKey;

use crate::eap::{Examiner, Login, LoginMethod, Users};
use crate::identity::{Credential, Identity};
use crate::radius::Servers;
use crate::sa::{Mode, Path, Protocol, Secret};
use crate::selector::TrafficSelector;
use crate::site::is_unicast;
use crate::suite::{EspSuite, IkeSuite, Ikev2Suite};
use crate::time::Duration;

mod check;
mod pool;
mod redirects;
#[cfg(test)]
mod tests;

pub use crate::identity::IdentityPattern;
pub use check::{Finding, Severity};
pub use pool::Pool;
pub use redirects::Redirects;

/// The configuration of a node.
pub struct Config {
    /// In order. A responder takes the first that matches.
    pub connections: Vec<Arc<Connection>>,
    /// Inner addresses to lend.
    pub pools: Vec<Pool>,
    /// Servers of RADIUS, for connections that ask them.
    pub radius: Option<Arc<Servers>>,
    /// Limits.
    pub limits: Limits,
}

/// One peer, or one kind of peer.
pub struct Connection {
    /// Its key in the file.
    pub name: String,
    /// A hash of everything except the revocation lists: at a reload, a connection with the same
    /// name and revision keeps its tunnels.
    pub revision: u64,
    /// Addresses that we use; empty: any.
    pub local_addrs: Vec<IpAddr>,
    /// The peer's addresses; empty: we only respond.
    pub remote_addrs: Vec<SocketAddr>,
    /// Which version of IKE it speaks.
    pub version: Version,
    /// IKEv1: aggressive mode; otherwise main mode.
    pub is_aggressive: bool,
    /// IKEv1: phase 1, in order of preference.
    pub proposals: Vec<IkeSuite>,
    /// IKEv2: the IKE SA, in order of preference.
    pub ikev2_proposals: Vec<Ikev2Suite>,
    /// IKEv2: a key that both ends have besides (RFC 8784).
    pub ppk: Option<Arc<Ppk>>,
    /// How we authenticate.
    pub local: LocalAuth,
    /// Which peers we accept and how they authenticate.
    pub remote: RemoteAuth,
    /// The protected traffic.
    pub children: Vec<Child>,
    /// The families of inner addresses that we request by mode config.
    pub wants_inner: InnerFamilies,
    /// IKEv2: domains for which a station takes keys of DNSSEC from its gateway (RFC 8598).
    pub dnssec_domains: Vec<String>,
    /// Indices in [`Config::pools`] for the inner addresses of peers (tunnel mode) or for mapping
    /// peers (transport mode); at most one of each family.
    pub pools: Vec<usize>,
    /// Insecure algorithms are permitted. Checked when the configuration is built.
    pub is_legacy: bool,
    /// IKEv2: RSA signatures with SHA-1 are made and believed where the peer announces no hashes.
    /// [`Self::is_legacy`] permits them, too.
    pub takes_rsa_sha1: bool,
    /// When an initiator starts.
    pub start: Start,
    /// When ESP is in UDP.
    pub encapsulation: Encapsulation,
    /// IKE fragments: sent if the peer announces that it supports them.
    pub fragments: bool,
    /// IKEv2: each end proves itself over both messages of IKE_SA_INIT, if the peer does
    /// (draft-ietf-ipsecme-ikev2-downgrade-prevention).
    pub full_transcript: bool,
    /// IKEv2: the gateway proves itself within EAP alone, if its client wants that (RFC 5998).
    pub is_eap_only: bool,
    /// IKEv2: addresses may change under a session (RFC 4555), if the peer announces that it
    /// supports it.
    pub mobike: bool,
    /// IKEv2: a station authenticates again before its gateway ends the session (RFC 4478).
    pub reauth: bool,
    /// Whether its IKE SAs begin without a child (RFC 6023).
    pub childless: Childless,
    /// IKEv2: both ends give each other tokens, by which one that has lost everything shows it (RFC
    /// 6290).
    pub crash_detection: bool,
    /// IKEv2: a gateway gives tickets to peers that ask, and a station asks for one, by which it
    /// goes on from a session that was lost (RFC 5723).
    pub resumption: bool,
    /// IKEv2: where a station lets itself be sent (RFC 5685).
    pub redirects: Redirects,
    /// Probe after this long without a sign of life; `None`: never.
    pub dpd_delay: Option<Duration>,
    /// Without an answer for this long, the peer is dead.
    pub dpd_timeout: Duration,
    /// NAT keepalive interval (RFC 3948 §4: 20 s); zero: none are sent.
    pub keepalive: Duration,
    /// ISAKMP SA lifetime that we offer.
    pub lifetime: Duration,
    /// A new ISAKMP SA is started this long before the old one ends.
    pub rekey_margin: Duration,
    /// What happens with a second tunnel of the same identity.
    pub unique: Unique,
    /// How many peers may use a shared pre-shared key (`id = "*"`), or a server of RADIUS, at the
    /// same time.
    pub peers_max: usize,
}

/// A post-quantum pre-shared key (RFC 8784): the keys of children and of later IKE SAs depend on
/// it, so a quantum computer that breaks the key exchange does not find them.
pub struct Ppk {
    /// Its name at both ends.
    pub id: String,
    /// The key.
    pub key: Secret,
    /// There is no tunnel without it.
    pub is_required: bool,
    /// It protects the first IKE SA too, by an exchange before IKE_AUTH, with a peer that can
    /// (RFC 9867).
    pub is_early: bool,
}

/// Versions of IKE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// IKEv1 (RFC 2409), deprecated by RFC 9395.
    V1,
    /// IKEv2 (RFC 7296).
    V2,
    /// Either, as the peer begins. An initiator does not choose: it never falls back.
    Either,
}

impl Version {
    /// Whether IKEv1 is spoken.
    pub const fn has_v1(self) -> bool {
        matches!(self, Self::V1 | Self::Either)
    }

    /// Whether IKEv2 is spoken.
    pub const fn has_v2(self) -> bool {
        matches!(self, Self::V2 | Self::Either)
    }
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
    /// Whether this family is wanted.
    pub fn has(self, is_v4: bool) -> bool {
        if is_v4 { self.v4 } else { self.v6 }
    }

    /// Whether any family is wanted.
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
    /// At [`crate::node::Command::Up`], and again after every loss until
    /// [`crate::node::Command::Down`].
    OnCommand,
    /// Never by itself.
    Responder,
}

/// Whether IKE SAs begin without a child, which then comes in an exchange of its own (RFC 6023).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Childless {
    /// A peer may begin so; we begin with a child.
    Allow,
    /// The same, and we begin so with a gateway that takes it.
    Prefer,
    /// Both ends begin so, or there is no tunnel.
    Force,
    /// We do not begin so, and announce that we do not take it.
    Never,
}

/// When ESP is in UDP (RFC 3948). Through a NAT it always is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// With every peer that supports RFC 3947: kernels split and gather UDP datagrams, while each
    /// packet of IP protocol 50 is a separate system call.
    Auto,
    /// Always. A peer without RFC 3947 gets no tunnel.
    Always,
    /// Only through a NAT.
    ThroughNat,
}

/// What happens with a second tunnel of the same identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unique {
    /// It replaces the first one, at INITIAL-CONTACT (RFC 2407 §4.6.3.3) or a new phase 1.
    Replace,
    /// Both stay.
    Keep,
}

/// How we authenticate.
pub struct LocalAuth {
    /// Sent in the ID payload.
    pub identity: Identity,
    /// Our credential.
    pub method: LocalMethod,
}

impl LocalAuth {
    /// Whether a peer may take both for the same: INITIAL-CONTACT by one then ends the tunnels of
    /// the other. It may know us by any name of our certificate.
    pub fn is_same_peer(&self, other: &Self) -> bool {
        let credential = |own: &Self| match &own.method {
            LocalMethod::Signature { chain, .. } => {
                let leaf = chain.first()?;
                Credential::of_certificate(&leaf.names())
            }
            LocalMethod::Eap(login) => match &login.method {
                LoginMethod::Certificate(_, chain) => {
                    Credential::of_certificate(&chain.first()?.names())
                }
                LoginMethod::Password(_) => {
                    let user = Users::identity_of(&login.user).ok()?;
                    Some(Credential::User(user.canonical()))
                }
            },
            LocalMethod::PresharedKey(_) => None,
        };
        let (own, others) = (credential(self), credential(other));
        self.identity.is_same(&other.identity) || (own.is_some() && own == others)
    }
}

/// Our credential.
pub enum LocalMethod {
    /// Signatures. IKEv1 takes only an RSA key.
    Signature {
        /// The private key.
        key: Arc<PrivateKey>,
        /// Our certificate first, then intermediates.
        chain: Vec<Certificate>,
    },
    /// A pre-shared key.
    PresharedKey(Arc<Secret>),
    /// IKEv2: a method of EAP, after the gateway has proven itself by a certificate.
    Eap(Arc<Login>),
}

/// The peers that we accept.
pub struct RemoteAuth {
    /// Accepted identities; see [`IdentityPattern`].
    pub identities: Vec<IdentityPattern>,
    /// How they authenticate.
    pub method: RemoteMethod,
}

/// The peer's credential.
pub enum RemoteMethod {
    /// Signatures by a certificate that this store trusts.
    Signature(Arc<TrustStore>),
    /// A pre-shared key.
    PresharedKey(Arc<Secret>),
    /// IKEv2: a method of EAP.
    Eap(Arc<Examiner>),
}

impl RemoteMethod {
    /// Whose certificates count, if certificates do.
    pub fn trust_store(&self) -> Option<&Arc<TrustStore>> {
        match self {
            Self::Signature(store) => Some(store),
            Self::Eap(examiner) => examiner.trusted.as_ref(),
            Self::PresharedKey(_) => None,
        }
    }
}

/// A named set of protected traffic.
#[derive(Clone)]
pub struct Child {
    /// Its key in the file.
    pub name: String,
    /// Where its SAs are among the layers of a packet.
    pub layer: ChildLayer,
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
    /// A new SA is started this long before the old one ends.
    pub rekey_margin: Duration,
    /// Bytes after which it is renewed.
    pub lifetime_bytes: u64,
    /// Packets after which it is renewed.
    pub lifetime_packets: u64,
    /// Replay window in packets.
    pub replay_window: u32,
    /// Outer MTU until the path reports less.
    pub path_mtu: u16,
}

/// Where a child's SAs are among the layers of a packet. Two of them, ESP inside AH, are the "SA
/// bundle" of RFC 2401 §4.5, and what RFC 4301 §4.1 calls nested SAs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChildLayer {
    /// They are the only ones.
    #[default]
    Alone,
    /// They seal first, and their packets leave through the SAs of [`Self::Around`] alone; inbound,
    /// they take only what came through those. Never in UDP.
    Inside,
    /// They seal the ESP packets between both ends again, and nothing else. Such a child has no
    /// selectors in its configuration.
    Around,
    /// They seal first, and another tunnel of this host or one of its links takes their packets:
    /// [`crate::mip4::carriers`]. Inbound, they take what came by either. Never in UDP.
    Carried,
}

/// Limits on what strangers can make us hold.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Half-open exchanges of aggressive mode. A quarter as many more are reserved for addresses
    /// where a client connected recently.
    pub half_open: usize,
    /// Half-open exchanges of main mode. Above this, the oldest unproven one is dropped. Half of
    /// them may have a proven address; above that, the oldest of those is dropped.
    pub half_open_total: usize,
    /// Half-open exchanges of one address and mode, and as many more in main mode with a proven
    /// address. An IPv6 address counts with its whole /64. A network (an IPv4 /24, an IPv6 /48) may
    /// have four times as many with proven addresses, and of IKEv2 without.
    pub half_open_per_address: usize,
    /// Quick modes at once under one ISAKMP SA.
    pub quick_modes: usize,
    /// Children of one peer: it could request a configured range in many small pieces.
    pub children: usize,
    /// How long a half-open exchange may last.
    pub half_open_lifetime: Duration,
    /// Authenticated peers have quotas of exchanges ([`crate::quotas`]). Measurements of the
    /// maximum turn them off.
    pub has_quotas: bool,
    /// IKEv2: every first message needs a cookie, as it otherwise does under load (RFC 7296 §2.6).
    /// Simulations of that load turn it on.
    pub asks_cookies: bool,
}

impl Config {
    /// The unchanged connection that replaces one of an earlier configuration.
    pub(crate) fn successor(&self, old: &Connection) -> Option<&Arc<Connection>> {
        let is_same = |new: &&Arc<Connection>| new.name == old.name && new.revision == old.revision;
        self.connections.iter().find(is_same)
    }

    /// The connections that a peer at the other end of `path` may belong to, in the order of the
    /// configuration; those that name its address come first.
    pub(crate) fn between(&self, path: Path) -> Vec<Arc<Connection>> {
        let (own, peer) = (path.local.ip(), path.remote.ip());
        let fits = |it: &&Arc<Connection>| {
            it.speaks_from(own) && (it.remote_addrs.is_empty() || it.names(peer))
        };
        let mut found: Vec<_> = self.connections.iter().filter(fits).cloned().collect();
        found.sort_by_key(|connection| !connection.names(peer));
        found
    }
}

impl Connection {
    /// Whether this address of ours is one that it uses.
    pub(crate) fn speaks_from(&self, own: IpAddr) -> bool {
        let is_own = |it: &IpAddr| it.to_canonical() == own.to_canonical();
        self.local_addrs.is_empty() || self.local_addrs.iter().any(is_own)
    }

    /// Whether a peer that has moved may be at the other end of this path.
    pub(crate) fn takes(&self, path: Path) -> bool {
        self.speaks_from(path.local.ip()) && self.has_room_at(path.remote.ip())
    }

    /// Whether it names this address of the peer's.
    pub(crate) fn names(&self, peer: IpAddr) -> bool {
        let is_peer = |it: &SocketAddr| it.ip().to_canonical() == peer.to_canonical();
        self.remote_addrs.iter().any(is_peer)
    }

    /// A connection with the defaults. Values without a default are arguments. It only responds,
    /// uses main mode, and neither requests nor assigns inner addresses.
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
            version: Version::V1,
            // Main mode hides identities, and costs a stranger more to start.
            is_aggressive: false,
            proposals,
            ikev2_proposals: Vec::new(),
            ppk: None,
            local,
            remote,
            children,
            wants_inner: InnerFamilies::default(),
            dnssec_domains: Vec::new(),
            pools: Vec::new(),
            is_legacy: false,
            takes_rsa_sha1: false,
            start: Start::Responder,
            encapsulation: Encapsulation::Auto,
            fragments: true,
            full_transcript: true,
            is_eap_only: false,
            mobike: true,
            reauth: true,
            childless: Childless::Allow,
            crash_detection: false,
            resumption: false,
            redirects: Redirects::default(),
            dpd_delay: Some(Self::dpd_delay_of(false)),
            dpd_timeout: DPD_TIMEOUT,
            keepalive: KEEPALIVE,
            lifetime: IKE_LIFETIME,
            rekey_margin: IKE_REKEY_MARGIN,
            unique: Unique::Replace,
            peers_max: PEERS_MAX,
        }
    }

    /// Makes it a station that connects to these addresses at once, with that role's defaults.
    pub fn make_station(&mut self, remote_addrs: Vec<SocketAddr>) {
        self.remote_addrs = remote_addrs;
        self.start = Start::AtOnce;
        self.dpd_delay = Some(Self::dpd_delay_of(true));
    }

    /// How long a peer may be silent before it is probed, by the role of this end.
    pub const fn dpd_delay_of(is_station: bool) -> Duration {
        match is_station {
            true => STATION_DPD_DELAY,
            false => GATEWAY_DPD_DELAY,
        }
    }

    /// Whether to use UDP for ESP even without a NAT. AH cannot: a connection that proposes it uses
    /// UDP only if it must.
    pub fn prefers_udp(&self) -> bool {
        let is_esp = |suite: &EspSuite| suite.protocol == Protocol::Esp;
        let mut children = self.children.iter();
        match self.encapsulation {
            Encapsulation::Always => true,
            Encapsulation::Auto => children.all(|child| child.proposals.iter().all(is_esp)),
            Encapsulation::ThroughNat => false,
        }
    }

    /// Whether a child is in UDP also without a NAT, or there is none. Only one that is alone in
    /// its packets can be.
    pub(crate) fn must_be_in_udp(&self, child: &Child) -> bool {
        self.encapsulation == Encapsulation::Always && child.may_be_in_udp()
    }

    /// Whether it accepts transport mode peers without a pool address, which our stack knows by
    /// their source addresses.
    pub fn has_bare_peers(&self) -> bool {
        let is_transport = |child: &Child| child.mode == Mode::Transport;
        let waits = self.remote_addrs.is_empty() && self.pools.is_empty();
        waits && self.children.iter().any(is_transport)
    }

    /// Whether a peer at this address can have tunnels. Without a pool address it is routed by its
    /// own, so that one must lead to one host. A route to a link-local address of IPv6 does not:
    /// programs name the link, and their packets leave there unencrypted.
    pub(crate) fn has_room_at(&self, peer: IpAddr) -> bool {
        let is_on_link = matches!(peer, IpAddr::V6(v6) if v6.is_unicast_link_local());
        !self.has_bare_peers() || is_unicast(&peer) && !is_on_link
    }
}

impl Child {
    /// Whether it may be in UDP: it is alone in its packets.
    pub(crate) fn may_be_in_udp(&self) -> bool {
        self.layer == ChildLayer::Alone
    }

    /// A child with the defaults. Its traffic is that of the inner addresses (tunnel mode) or of
    /// the two ends (transport mode).
    pub fn new(name: &str, mode: Mode, proposals: Vec<EspSuite>) -> Self {
        Self {
            name: name.to_owned(),
            layer: ChildLayer::Alone,
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

/// ISAKMP SA: swanctl's 4 hours, plus a tenth for making the next one.
pub const IKE_LIFETIME: Duration = Duration::from_secs(14_400 + 1_440);
/// The tenth.
pub const IKE_REKEY_MARGIN: Duration = Duration::from_secs(1_440);
/// IPsec SA: swanctl's hour, plus a tenth for making the next one.
pub const CHILD_LIFETIME: Duration = Duration::from_secs(3_600 + 360);
/// The tenth.
pub const CHILD_REKEY_MARGIN: Duration = Duration::from_secs(360);
/// A gateway probes a silent peer once a minute, because many clients sleep.
pub const GATEWAY_DPD_DELAY: Duration = Duration::from_secs(60);
/// A station has one gateway to probe, and its user waits until a dead one is replaced.
pub const STATION_DPD_DELAY: Duration = Duration::from_secs(20);
/// Five probes, two seconds apart.
pub const DPD_TIMEOUT: Duration = Duration::from_secs(10);
/// Usually more peers than share one key.
pub const PEERS_MAX: usize = 1_000;

/// Selectors of one side of a child of IKEv2 at most. Each costs every packet a comparison.
pub const SELECTORS_MAX: usize = 32;
/// RFC 3948 §4.
pub const KEEPALIVE: Duration = Duration::from_secs(20);
/// Wide enough for the reordering of several threads and a long fat link.
pub const REPLAY_WINDOW: u32 = 1_024;
/// Ethernet's.
pub const PATH_MTU: u16 = 1_500;

impl Default for Limits {
    fn default() -> Self {
        Self {
            // With more, first messages that cost a public key operation help an attacker more than
            // us. Main mode's cost none.
            half_open: 500,
            // About 20 MiB.
            half_open_total: 5_000,
            // A carrier's NAT has many clients behind one address.
            half_open_per_address: 100,
            // One for each child, and renewals of both sides at the same time.
            quick_modes: 16,
            // Several subnets of both families, each with a port or two.
            children: 64,
            // Longer than the first five repetitions of an honest peer.
            half_open_lifetime: Duration::from_secs(30),
            has_quotas: true,
            asks_cookies: false,
        }
    }
}
