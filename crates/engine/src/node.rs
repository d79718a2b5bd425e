//! The control plane: every IKE exchange, connection, lease and timer of one station or gateway.
//!
//! One thread owns a `Node`: give it an [`Input`], then drain [`Output`]s until `Wait`.

use std::net::IpAddr;
use std::sync::Arc;

use crate::config::Config;
use crate::plane::{Change, Notice, SaReport};
use crate::sa::{Direction, Path};
use crate::time::{Calendar, Deadline};

/// What can happen to a node.
pub enum Input<'a> {
    /// A UDP payload that is not ESP: an IKE message. On port 4500 the non-ESP marker is still on
    /// it (RFC 3948 §2.2).
    Datagram(Path, &'a [u8]),
    /// From a packet plane.
    Notice(Notice),
    /// What the inbound plane has seen, in answer to [`Output::WantsReport`]: signs of life.
    Report(&'a [SaReport]),
    /// From the user.
    Command(Command),
    /// Our own address towards `remote` is `local` (or the link is gone: `None`).
    LocalAddress {
        /// The peer.
        remote: IpAddr,
        /// What the routing table says.
        local: Option<IpAddr>,
    },
    /// A deadline came.
    Wake,
    /// A new configuration; tunnels whose connection did not change stay up.
    Configure(Arc<Config>),
    /// Calendar time, from time to time and before certificates are checked.
    Calendar(Calendar),
}

/// What the user orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Bring a connection up.
    Up(String),
    /// Take it down: deletes are sent.
    Down(String),
    /// Renew phase 1 of a connection.
    RekeyIke(String),
    /// Renew the children of a connection.
    RekeyChildren(String),
    /// Everything down: deletes are sent, then [`Event::Stopped`].
    Stop,
}

/// What a node wants done.
pub enum Output {
    /// Send a UDP payload, non-ESP marker included where the path's local port is 4500.
    Datagram(Path, Vec<u8>),
    /// Tell the plane of this direction.
    Plane(Direction, Change),
    /// A past fact for logs, status and the rest of the program.
    Event(Event),
    /// Answer with [`Input::Report`].
    WantsReport,
    /// Answer with [`Input::LocalAddress`]: we are about to reach this peer.
    WantsLocalAddress(IpAddr),
    /// Nothing more; wake me then.
    Wait(Option<Deadline>),
}

/// Past facts. Texts are one sentence, lower case, no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An IKE message was sent or received and understood (for traces and the demo).
    Message {
        /// The connection, once known.
        connection: Option<String>,
        /// "aggressive 1", "quick 2", "informational".
        what: String,
        /// Sent by us.
        is_sent: bool,
        /// UDP payload octets, all datagrams together.
        bytes: usize,
        /// How many datagrams (more than one: fragments).
        datagrams: usize,
        /// Names of the payloads, such as "SA KE NONCE ID VID".
        payloads: String,
    },
    /// Phase 1 is done.
    IkeEstablished {
        /// Connection.
        connection: String,
        /// Peer's identity as text.
        peer: String,
        /// Suite in proposal words.
        suite: String,
        /// Where.
        path: Path,
        /// We are behind a NAT, the peer is.
        nat: (bool, bool),
    },
    /// A child is up (or renewed).
    ChildEstablished {
        /// Connection.
        connection: String,
        /// Child.
        child: String,
        /// Suite in proposal words.
        suite: String,
        /// Our SPI and the peer's.
        spis: (u32, u32),
        /// A renewal of one that was up.
        is_rekey: bool,
    },
    /// We were lent inner addresses: configure them.
    InnerAddress {
        /// Connection.
        connection: String,
        /// Addresses.
        addresses: Vec<IpAddr>,
        /// Resolvers.
        dns: Vec<IpAddr>,
    },
    /// A child ended.
    ChildClosed {
        /// Connection.
        connection: String,
        /// Child.
        child: String,
        /// Why.
        reason: String,
    },
    /// An IKE SA ended.
    IkeClosed {
        /// Connection.
        connection: String,
        /// Why.
        reason: String,
    },
    /// A negotiation failed: in one sentence, what differed.
    NegotiationFailed {
        /// Connection, if one was chosen.
        connection: Option<String>,
        /// With whom.
        path: Path,
        /// What differed: the proposals, the identity, the certificate, the selector.
        reason: String,
    },
    /// The peer is elsewhere.
    PathMoved {
        /// Connection.
        connection: String,
        /// Where.
        path: Path,
    },
    /// A connection will be tried again.
    RetryScheduled {
        /// Connection.
        connection: String,
        /// In so many milliseconds.
        in_ms: u64,
        /// Which attempt comes.
        attempt: u32,
    },
    /// Everything is down.
    Stopped,
}
