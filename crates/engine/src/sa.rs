//! The security association that control passes to the packet plane: by value, for one direction
//! (RFC 4301 §4.4.2). Control negotiates it; [`crate::plane`] owns it from then on.

use core::fmt;
use std::net::{IpAddr, SocketAddr};

use crypto::packet::{PacketKey, Protection};
use zeroize::ZeroizeOnDrop;

use crate::selector::TrafficSelector;

/// How a datagram travels. The receiving socket determines it, not the port: a peer behind a NAT
/// may use any port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// IP protocol 50 or 51, without ports. Carries ESP or AH: the octets are the whole outer IP
    /// packet, its header included.
    Raw,
    /// UDP, as on port 500. Carries IKE messages alone, without a marker.
    Udp,
    /// UDP, as on port 4500 (RFC 3948 §2.2). Carries ESP, and IKE messages behind the non-ESP
    /// marker.
    UdpWithMarker,
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

/// IPsec protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// Encapsulating security payload, IP protocol 50.
    Esp,
    /// Authentication header, IP protocol 51.
    Ah,
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

/// The direction of an SA's packets, seen from us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// We seal.
    Outbound,
    /// We open.
    Inbound,
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

/// One header of ESP or AH, and what is behind it: what one SPI names.
pub struct Layer {
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

impl Layer {
    /// Prepares the keys: once for each SA.
    pub(crate) fn packet_key(&self) -> PacketKey {
        let Keys {
            encryption,
            integrity,
        } = &self.keys;
        PacketKey::new(self.protection, &encryption.0, &integrity.0)
    }
}

/// A security association in one direction.
pub struct Sa {
    /// Its direction.
    pub direction: Direction,
    /// Its child. A newer outbound SA of the same child takes over.
    pub child: ChildId,
    /// What protects its packets.
    pub layer: Layer,
    /// Tunnel or transport.
    pub mode: Mode,
    /// 64-bit sequence numbers (RFC 4304).
    pub has_esn: bool,
    /// Replay window in packets, 64 to 4096; 0: none, the only value without integrity.
    pub replay_window: u32,
    /// Tunnel endpoints, and whether ESP is in UDP (RFC 3948). AH is always raw. Authenticated
    /// traffic moves an inbound SA's remote end.
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
}

impl Sa {
    /// The address under which our own stack knows the peer of transport mode: its pool address, or
    /// the proven address in its selector.
    pub(crate) fn known_as(&self) -> IpAddr {
        let named = self.remote.first().filter(|remote| remote.is_host());
        let named = self.pool_address.or(named.map(|remote| remote.first));
        named.unwrap_or(self.path.remote.ip())
    }
}
