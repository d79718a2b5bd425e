//! The host steward: a small process with the rights to change this host, beside the network
//! process, which has none.
//!
//! `caravan up` and `caravan gateway` start it over a socket pair before they drop their rights. It
//! reads the configuration itself, owns the footprint, and changes routes, nftables and resolvers.
//! It accepts a short list of requests and checks each against the configuration ([`allowed`]). It
//! refuses and counts all others. When the socket closes, however the other process died, it undoes
//! everything except the blocks, and ends.
//!
//! [`serve`] is the steward, [`client`] the process that sends it requests.

pub mod allowed;
pub mod client;
pub mod serve;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use zeroize::Zeroizing;

use crate::config::Texts;
use crate::dns::Resolvers;
use crate::routes::watch::Ways;
use crate::routes::{Desired, Prefix};

/// Longest request: routes to as many peers as a gateway can have.
pub const REQUEST_BYTES_MAX: usize = 16 << 20;
/// Longest reply: the texts of a configuration and all its files.
pub const REPLY_BYTES_MAX: usize = 64 << 20;

/// A request to the steward.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "request",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum Request {
    /// The configuration's TUN device exists: bring it up, and keep out unencrypted packets.
    Device {
        /// Largest inner packet.
        mtu: u16,
    },
    /// Change the largest inner packet.
    Resize {
        /// Largest inner packet.
        mtu: u16,
    },
    /// Apply these routes and resolvers.
    Apply {
        /// Routes and addresses.
        desired: Box<Desired>,
        /// Resolvers; empty: restore the former ones.
        resolvers: Resolvers,
    },
    /// Which of our addresses lead to these peers.
    Ways {
        /// The peers.
        peers: Vec<IpAddr>,
        /// Addresses that the configuration names.
        named: Vec<IpAddr>,
    },
    /// What has been counted.
    KeptOut,
    /// Read the configuration and its files again, without changing anything yet.
    Read,
    /// Put the configuration that was read last into force.
    Adopt,
    /// Undo everything and end.
    End {
        /// Also remove the blocks. The packet filter of a firewall, or of a mobile node outside,
        /// stays in any case: this process reads packets of strangers.
        lifts: bool,
    },
}

/// The reply. Texts of a configuration contain secrets: it has no `Debug`.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// The first message, sent without a request: the steward is ready.
    Ready {
        /// All blocks of this process, including those of an earlier one, by connection.
        blocks: BTreeMap<String, BTreeSet<Prefix>>,
        /// The restrictions of the steward itself.
        limits: Vec<String>,
    },
    /// It is done.
    Done,
    /// It is done but for the resolvers.
    DoneButResolvers {
        /// Which, and why.
        untaken: Untaken,
    },
    /// The host refused it.
    Failed {
        /// The reason.
        text: String,
    },
    /// The configuration does not allow it, or the request is malformed.
    Refused {
        /// The reason.
        text: String,
    },
    /// The reply to [`Request::Ways`].
    Ways {
        /// By peer, the best first.
        ways: Ways,
        /// All addresses of this host from which a program can speak.
        own: Vec<IpAddr>,
    },
    /// The reply to [`Request::KeptOut`].
    KeptOut {
        /// The counts.
        counts: Counts,
    },
    /// The reply to [`Request::Read`].
    Read {
        /// The configuration and its files.
        texts: Texts,
    },
}

/// What the steward counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Unencrypted packets that were dropped. `None`: nothing drops them.
    pub packets: Option<u64>,
    /// Refused requests.
    pub refused: u64,
    /// Tables of nftables that another program had removed or changed, and that were put back.
    pub put_back: u64,
    /// Rules and blocking routes that another program had removed, and that were put back.
    pub entries_put_back: u64,
    /// One of them could not be put back.
    pub is_open: bool,
    /// Whether keys of DNSSEC are in their file.
    pub has_trust_anchors: bool,
}

/// Resolvers that this host does not ask, although it should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Untaken {
    /// Those of the gateway; empty: the former ones.
    pub addresses: Vec<IpAddr>,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Untaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        match &all[..] {
            [] => write!(f, "the former resolvers are not back: {}", self.reason),
            _ => write!(
                f,
                "the gateway's resolvers {} are not in use: {}",
                all.join(", "),
                self.reason
            ),
        }
    }
}

/// Parses a request; otherwise the reason.
pub fn parse(frame: &[u8]) -> Result<Request, String> {
    serde_json::from_slice(frame).map_err(|fault| format!("not a request: {fault}"))
}

/// Writes one frame: its length, then the content.
pub(crate) async fn write_frame(
    output: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
) -> io::Result<()> {
    // Replies may contain secrets.
    let text = Zeroizing::new(serde_json::to_vec(message).map_err(io::Error::other)?);
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    output.write_all(&length.to_be_bytes()).await?;
    output.write_all(&text).await?;
    output.flush().await
}

/// Reads one frame of at most this many octets. `None`: the other end has gone.
pub(crate) async fn read_frame(
    input: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length).await {
        Err(fault) if fault.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    };
    let length = u32::from_be_bytes(length) as usize;
    if length > most {
        let text = format!("a frame of {length} octets is longer than {most}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut frame = Zeroizing::new(vec![0; length]);
    input.read_exact(&mut frame).await?;
    Ok(Some(frame))
}

#[cfg(test)]
mod tests;
