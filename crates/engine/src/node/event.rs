//! Past facts that a node reports, for logs, status and the rest of the program.

use std::net::{IpAddr, SocketAddr};

use super::end_cause::EndCause;
use super::stay::{Stay, Summary};
use crate::dns::TrustAnchor;
use crate::identity::Mark;
use crate::ike::Step;
use crate::ikev2::ppk::PpkInUse;
use crate::sa::Path;

/// Past facts. Texts are one sentence, lower case, no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An IKE message was sent or received and understood (for traces and the demo). A repetition
    /// is told by its sender, each time it is sent; its receiver only counts it as
    /// [`crate::counters::DropReason::RetransmittedMessage`].
    Message {
        /// The connection, once known.
        connection: Option<String>,
        /// Its place in the exchange.
        step: Step,
        /// Sent by us.
        is_sent: bool,
        /// For sent messages, the Message ID, which tells exchanges apart.
        message_id: Option<u32>,
        /// For sent messages, the destination.
        remote: Option<SocketAddr>,
        /// UDP payload octets, all datagrams together, with their non-ESP markers. Of a received
        /// message each fragment counts once.
        bytes: usize,
        /// How many datagrams (more than one: fragments).
        datagrams: usize,
        /// Names of the payloads, such as "SA KE NONCE ID VID".
        payloads: String,
    },
    /// Both ends have authenticated.
    IkeEstablished {
        /// Connection.
        connection: String,
        /// Of IKE: 1 or 2.
        version: u8,
        /// Peer's identity as text.
        peer: String,
        /// Suite in proposal words.
        suite: String,
        /// The post-quantum pre-shared key in its keys.
        ppk: Option<PpkInUse>,
        /// Each end has proven itself over both messages of IKE_SA_INIT.
        has_full_transcript: bool,
        /// It goes on from a session that was lost.
        is_resumed: bool,
        /// Where.
        path: Path,
        /// We are behind a NAT, the peer is.
        nat: (bool, bool),
    },
    /// A client of a connection that takes either version has used IKEv2 for the first time: keep
    /// it for [`super::Command::Upgraded`].
    Upgraded {
        /// Connection.
        connection: String,
        /// Peer's identity as text.
        peer: String,
        /// What to remember it by.
        mark: Mark,
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
    /// The gateway gave us inner addresses: configure them.
    InnerAddress {
        /// Connection.
        connection: String,
        /// Addresses.
        addresses: Vec<IpAddr>,
        /// Resolvers.
        dns: Vec<IpAddr>,
        /// Domains whose names alone they resolve; empty: all names.
        domains: Vec<String>,
        /// Keys of DNSSEC for some of them.
        trust_anchors: Vec<TrustAnchor>,
        /// Domains whose keys are not used: malformed ones, or none that we have listed.
        refused_anchors: Vec<String>,
    },
    /// A child ended.
    ChildClosed {
        /// Connection.
        connection: String,
        /// Child.
        child: String,
        /// Why.
        cause: EndCause,
    },
    /// An IKE SA ended.
    IkeClosed {
        /// Connection.
        connection: String,
        /// Whether children ended with it. A successor takes over those of a renewed one.
        had_children: bool,
        /// Why.
        cause: EndCause,
    },
    /// A peer has connected: its first child is up.
    SessionBegan {
        /// Who.
        stay: Box<Stay>,
    },
    /// A peer has disconnected. A renewal does not cause this.
    SessionEnded {
        /// The peer.
        stay: Box<Stay>,
        /// The traffic and the cause.
        summary: Box<Summary>,
    },
    /// A negotiation failed: in one sentence, what differed.
    NegotiationFailed {
        /// Connection, if one was chosen.
        connection: Option<String>,
        /// The path to the peer.
        path: Path,
        /// What differed: the proposals, the identity, the certificate, the selector.
        reason: String,
    },
    /// A server of RADIUS has become silent, or answers again.
    RadiusServer {
        /// Where it is.
        address: SocketAddr,
        /// It does not answer.
        is_silent: bool,
    },
    /// The peer reports an error.
    PeerComplains {
        /// Connection, if one was chosen.
        connection: Option<String>,
        /// The path to the peer.
        path: Path,
        /// The error.
        complaint: String,
        /// It is authenticated. If not, anybody can have sent it: it is only a hint.
        is_proven: bool,
    },
    /// The peer has refused some of our proposals, authenticated; others are offered next.
    ProposalsRefused {
        /// Connection.
        connection: String,
        /// The path to the peer.
        path: Path,
        /// What was offered, and how the peer refused it.
        refusal: String,
    },
    /// Two devices at different addresses share a credential and end each other's tunnel.
    CredentialShared {
        /// Connection.
        connection: String,
        /// Peer's identity as text.
        peer: String,
        /// "certificate" or "pre-shared key".
        credential: &'static str,
        /// The addresses of both devices.
        places: (SocketAddr, SocketAddr),
    },
    /// The peer has moved.
    PathMoved {
        /// Connection.
        connection: String,
        /// The new path.
        path: Path,
    },
    /// A peer that had moved has proven its address, the new one or the old one.
    PathProven {
        /// Connection.
        connection: String,
        /// The proven path.
        path: Path,
    },
    /// One of several gateway addresses authenticated first.
    AddressChosen {
        /// Connection.
        connection: String,
        /// The one that is used.
        address: std::net::SocketAddr,
        /// The other addresses, and why they are not used.
        others: Vec<String>,
    },
    /// Large packets were lost, so smaller ones are sent for a time.
    PathShrank {
        /// Connection.
        connection: String,
        /// Child.
        child: String,
        /// The largest outer packet.
        mtu: u16,
    },
    /// A connection will be tried again.
    RetryScheduled {
        /// Connection.
        connection: String,
        /// Milliseconds until then.
        in_ms: u64,
        /// The number of the attempt.
        attempt: u32,
        /// The gateway has refused us, so the wait grows long. A changed configuration, and a
        /// reload of the same one, end it.
        is_refused: bool,
    },
    /// A peer gets no ticket (RFC 5723), or ours is not kept: the first message with it would not
    /// be one datagram.
    TicketTooLarge {
        /// Connection.
        connection: String,
        /// Peer's identity as text.
        peer: String,
        /// Octets of its ticket.
        octets: usize,
        /// The most that fit.
        most: usize,
    },
    /// Peers are sent to another gateway from now on, or no longer.
    Draining {
        /// The other gateway.
        to: Option<String>,
        /// Connected peers that are told.
        peers: usize,
    },
    /// Our gateway has sent us to another one, and we go there.
    SentToAnother {
        /// Connection.
        connection: String,
        /// The gateway that sends us.
        from: IpAddr,
        /// The other one.
        to: String,
    },
    /// Everything is down.
    Stopped,
}
