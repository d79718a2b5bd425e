//! The security association that control passes to the packet plane: by value, for one direction
//! (RFC 4301 §4.4.2). Control negotiates it; [`crate::plane`] owns it from then on. A tunnel of
//! Mobile IPv4 is one too, although nothing in it is secured: the planes carry it the same way.

mod kinds;
mod sender;

use core::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crypto::packet::{Protection, RestingKey};
use zeroize::ZeroizeOnDrop;

pub use self::kinds::{Direction, Encapsulation, Protocol};
pub use self::sender::{Mobile, Reserved, Sender};
use crate::selector::TrafficSelector;
use crate::skip::Association;

/// How a datagram travels. The receiving socket determines it, not the port: a peer behind a NAT
/// may use any port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// IP without ports. Carries ESP, AH, or a packet in a tunnel: the octets are the whole outer
    /// IP packet, its header included.
    Raw,
    /// UDP, as on port 500. Carries IKE messages alone, without a marker.
    Udp,
    /// UDP, as on port 4500 (RFC 3948 §2.2). Carries ESP, and IKE messages behind the non-ESP
    /// marker.
    UdpWithMarker,
    /// UDP, as on port 434. The first octet is the type of a message of Mobile IPv4. Type 4 carries
    /// a packet in a tunnel (RFC 3519 §3.3).
    UdpWithType,
    /// UDP, as on port 61057 ([`crate::skip::udp`]). Carries whole packets of SKIP.
    UdpWithSkip,
}

/// How a datagram travels, its source and its destination, seen from us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// How it travels.
    pub via: Via,
    /// Our address. Its port is 0 if the path is raw.
    pub local: SocketAddr,
    /// The peer's, as we see it: behind a NAT, the NAT's. Its port is 0 if the path is raw.
    pub remote: SocketAddr,
}

impl Path {
    /// In UDP, without a marker.
    pub fn udp(local: impl Into<SocketAddr>, remote: impl Into<SocketAddr>) -> Self {
        Self {
            via: Via::Udp,
            local: local.into(),
            remote: remote.into(),
        }
    }

    /// In UDP, with the non-ESP marker before IKE messages.
    pub fn udp_with_marker(local: impl Into<SocketAddr>, remote: impl Into<SocketAddr>) -> Self {
        Self {
            via: Via::UdpWithMarker,
            ..Self::udp(local, remote)
        }
    }

    /// In UDP, with the types of Mobile IPv4's messages.
    pub fn udp_with_type(local: impl Into<SocketAddr>, remote: impl Into<SocketAddr>) -> Self {
        Self {
            via: Via::UdpWithType,
            ..Self::udp(local, remote)
        }
    }

    /// In UDP, with whole packets of SKIP.
    pub fn udp_with_skip(local: impl Into<SocketAddr>, remote: impl Into<SocketAddr>) -> Self {
        Self {
            via: Via::UdpWithSkip,
            ..Self::udp(local, remote)
        }
    }

    /// Without UDP.
    pub fn raw(local: IpAddr, remote: IpAddr) -> Self {
        Self {
            via: Via::Raw,
            ..Self::udp((local, 0), (remote, 0))
        }
    }

    /// The same path with the two ends exchanged: what the peer sees if there is no NAT.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self {
            via: self.via,
            local: self.remote,
            remote: self.local,
        }
    }

    /// Between the ends of `to`, travelling as this path does.
    #[must_use]
    pub(crate) fn led_to(self, to: Self) -> Self {
        match self.via {
            Via::Raw => Self::raw(to.local.ip(), to.remote.ip()),
            via => Self { via, ..to },
        }
    }
}

/// Modes (RFC 4301 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// A whole IP packet is protected.
    Tunnel,
    /// The payload of the IP packet is protected.
    Transport,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tunnel => "tunnel mode",
            Self::Transport => "transport mode",
        })
    }
}

/// A key, wiped on drop.
#[derive(Clone, ZeroizeOnDrop)]
pub struct Secret(pub Vec<u8>);

/// Names a child (a pair of SAs and its successors by rekey) within one `Node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChildId(pub u32);

/// The addresses as each end saw itself before any NAT (RFC 3947 §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginalAddresses {
    /// What the peer used as its own address.
    pub peer: IpAddr,
    /// What the peer used as ours.
    pub own: IpAddr,
}

/// What an SA puts around a packet.
pub enum Layer {
    /// ESP or AH.
    Ipsec(Ipsec),
    /// A tunnel of Mobile IPv4, without keys.
    Tunnel {
        /// Its form. With [`Encapsulation::Minimal`], a packet that is a fragment travels as
        /// [`Encapsulation::IpInIp`] (RFC 2004 §3), and so does every packet in UDP.
        encapsulation: Encapsulation,
        /// Tells the tunnels of one child and direction apart, as an SPI does. Control chooses it.
        number: u32,
    },
    /// SKIP: the packets of two names carry their keys.
    Skip(Box<InLine>),
    /// Nothing: packets of other SAs leave as they are, by a link that leads to the other end of
    /// the path. Outbound only.
    Nothing {
        /// As of a tunnel.
        number: u32,
    },
}

/// SKIP on an SA: AH and ESP of 1995 with keys in line.
pub struct InLine {
    /// Names, algorithms and the secret of both.
    pub association: Association,
    /// Tells the SAs of one child and direction apart, as an SPI does. Control chooses it.
    pub number: u32,
    /// Inbound: the outer addresses from which packets are taken. `None`: from any, and the SA
    /// follows its peer, if its packets prove who sent them. An SA whose remote name is the address
    /// needs one.
    pub from: Option<TrafficSelector>,
    /// Inbound: what its peer may write, beyond what the selectors say.
    pub sender: Sender,
    /// Outbound: where its packets go.
    pub aim: Aim,
    /// Of `skip-paper`. Outbound: every n that was ever sent is below this
    /// ([`crate::plane::Notice::StoreN`]). Inbound: the highest n of an authentic packet
    /// ([`crate::plane::Notice::HeardN`]), 0 if none is known.
    pub stored_n: u32,
}

/// Where an outbound SA of SKIP sends its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aim {
    /// To the other end of its path; nowhere while that is unspecified.
    #[default]
    Path,
    /// Each to its own destination: the hosts of a network have one SA.
    Destination,
    /// A mobile node's. It takes the packets of Mobile IPv4 that carry this home address, whatever
    /// their destination, to the other end of its path; while that is unspecified, each to its own
    /// destination.
    Home(Ipv4Addr),
}

/// New ends and traffic of an SA of SKIP, which keeps its keys and counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    /// Its ends, seen from us. It may travel otherwise than before.
    pub path: Path,
    /// Our side's traffic.
    pub local: Vec<TrafficSelector>,
    /// The peer's side's traffic. Empty: none.
    pub remote: Vec<TrafficSelector>,
    /// Outbound: where its packets go.
    pub aim: Aim,
    /// Outbound: as [`Sa::is_nested`].
    pub is_nested: bool,
}

impl Lead {
    /// Whether its traffic goes to this address.
    pub fn takes(&self, destination: IpAddr) -> bool {
        self.remote
            .iter()
            .any(|one| one.contains_address(destination))
    }
}

impl InLine {
    /// Packets of any address, each SA to the end of its path; no n was sent or seen before.
    pub fn new(association: Association, number: u32) -> Self {
        Self {
            association,
            number,
            from: None,
            sender: Sender::Any,
            aim: Aim::Path,
            stored_n: 0,
        }
    }
}

/// One header of ESP or AH, and what is behind it: what one SPI names.
pub struct Ipsec {
    /// ESP or AH.
    pub protocol: Protocol,
    /// Inbound: ours. Outbound: the peer's. Over 255.
    pub spi: u32,
    /// Algorithms.
    pub protection: Protection,
    /// Their keys.
    pub keys: Keys,
}

/// Keys of one layer, for all its packets.
#[derive(Clone)]
pub struct Keys {
    /// Encryption key, including the salt.
    pub encryption: Secret,
    /// Integrity key.
    pub integrity: Secret,
}

impl Ipsec {
    /// The keys, which are prepared for the first packet.
    pub(crate) fn packet_key(&self) -> RestingKey {
        let Keys {
            encryption,
            integrity,
        } = &self.keys;
        RestingKey::new(self.protection, &encryption.0, &integrity.0)
    }
}

/// A security association in one direction.
pub struct Sa {
    /// Its direction.
    pub direction: Direction,
    /// Its child. A newer outbound SA of the same child takes over. Tunnels of several children for
    /// the same traffic are simultaneous bindings: each gets every packet (RFC 5944 §4.2.3).
    pub child: ChildId,
    /// What is around its packets.
    pub layer: Layer,
    /// Tunnel or transport.
    pub mode: Mode,
    /// 64-bit sequence numbers (RFC 4304).
    pub has_esn: bool,
    /// Replay window in packets, 64 to 4096; 0: none, the only value without integrity.
    pub replay_window: u32,
    /// Tunnel endpoints, and whether ESP is in UDP (RFC 3948), or a tunnel (RFC 3519). AH is always
    /// raw. Authenticated traffic moves the remote end of ESP and AH; a tunnel takes packets only
    /// from exactly these ends.
    pub path: Path,
    /// Our side's traffic.
    pub local: Vec<TrafficSelector>,
    /// The peer's side's traffic.
    pub remote: Vec<TrafficSelector>,
    /// Transport mode through a NAT: addresses before translation, for checksum repair.
    pub original: Option<OriginalAddresses>,
    /// Transport mode at a gateway: the pool address that represents this peer to our own stack
    /// (RFC 3948 §5.2), so that peers with equal addresses stay apart.
    pub pool_address: Option<IpAddr>,
    /// Packets after which control is told to rekey ([`crate::plane::Notice::SoftLimit`]).
    pub soft_packets: u64,
    /// Bytes after which control is told to rekey.
    pub soft_bytes: u64,
    /// Copy DF from the inner header. A packet with DF that is too big causes ICMP to the sender.
    pub copies_df: bool,
    /// Largest outer IP packet until the path MTU is lower.
    pub path_mtu: u16,
    /// On a raw path: its packets are not sent. The child that takes packets between the ends of
    /// `path` seals them again, and its SA decides what happens to them. Without such a child they
    /// are dropped. Inbound, ESP and a tunnel of Mobile IPv4 take only packets that another SA
    /// carried.
    pub is_nested: bool,
    /// Outbound, if it is nested: this child alone takes its packets, whatever its selectors say.
    pub carried_by: Option<ChildId>,
    /// Outbound: the outer header of packets that are IP in IP is left out before they are sealed.
    pub removes_header: bool,
    /// Inbound: its packets come in by the interface of this index (0: by any), and are for the
    /// outbound plane ([`crate::plane::Packets::returned`]), not for the TUN device.
    pub sent_on_from: Option<u32>,
}

impl Sa {
    /// A tunnel of Mobile IPv4 between the ends of `path`, which is raw or has message types. Not
    /// nested.
    pub fn tunnel(
        (direction, child, number): (Direction, ChildId, u32),
        encapsulation: Encapsulation,
        path: Path,
        local: Vec<TrafficSelector>,
        remote: Vec<TrafficSelector>,
    ) -> Self {
        Self {
            direction,
            child,
            layer: Layer::Tunnel {
                encapsulation,
                number,
            },
            mode: Mode::Tunnel,
            has_esn: false,
            replay_window: 0,
            path,
            local,
            remote,
            original: None,
            pool_address: None,
            soft_packets: u64::MAX,
            soft_bytes: u64::MAX,
            copies_df: true,
            path_mtu: u16::MAX,
            is_nested: false,
            carried_by: None,
            removes_header: false,
            sent_on_from: None,
        }
    }

    /// Packets of other SAs that leave by a link as they are, outbound, to the other end of a raw
    /// path.
    pub fn nothing(
        (child, number): (ChildId, u32),
        path: Path,
        local: Vec<TrafficSelector>,
        remote: Vec<TrafficSelector>,
    ) -> Self {
        let name = (Direction::Outbound, child, number);
        Self {
            layer: Layer::Nothing { number },
            ..Self::tunnel(name, Encapsulation::IpInIp, path, local, remote)
        }
    }

    /// SKIP between the ends of `path`, which is raw or carries packets of SKIP. Not nested.
    pub fn skip(
        (direction, child): (Direction, ChildId),
        in_line: InLine,
        path: Path,
        local: Vec<TrafficSelector>,
        remote: Vec<TrafficSelector>,
    ) -> Self {
        let name = (direction, child, in_line.number);
        Self {
            layer: Layer::Skip(Box::new(in_line)),
            ..Self::tunnel(name, Encapsulation::IpInIp, path, local, remote)
        }
    }

    /// What tells the SAs of one child and direction apart: the SPI, or a number.
    pub fn spi(&self) -> u32 {
        match &self.layer {
            Layer::Ipsec(ipsec) => ipsec.spi,
            Layer::Tunnel { number, .. } | Layer::Nothing { number } => *number,
            Layer::Skip(in_line) => in_line.number,
        }
    }

    /// The address under which our own stack knows the peer of transport mode: its pool address, or
    /// the proven address in its selector.
    pub(crate) fn known_as(&self) -> IpAddr {
        let named = self.remote.first().filter(|remote| remote.is_host());
        let named = self.pool_address.or(named.map(|remote| remote.first));
        named.unwrap_or(self.path.remote.ip())
    }
}
