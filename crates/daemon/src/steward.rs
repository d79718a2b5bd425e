//! The host steward: one small process with the rights to change this host, beside the one that
//! speaks with the network and has none.
//!
//! `caravan up` and `caravan gateway` start it before they give up their rights, over a socket
//! pair. It has read the configuration itself, owns the footprint, makes routes, nftables and
//! resolvers, and obeys a short list of requests, each held against the configuration
//! ([`allowed`]). What it is asked beyond that it refuses and counts. When the socket closes,
//! whatever the other process died of, it takes back all but the blocks, and ends.
//!
//! [`serve`] is the steward, [`client`] the process that asks it.

pub mod allowed;
pub mod client;
pub mod serve;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use zeroize::Zeroizing;

use crate::config::Texts;
use crate::routes::{Desired, Prefix};

/// Longest request: routes to as many peers as a gateway holds.
pub const REQUEST_BYTES_MAX: usize = 16 << 20;
/// Longest reply: the texts of a configuration and of all files that it names.
pub const REPLY_BYTES_MAX: usize = 64 << 20;

/// What is asked of the steward.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "request",
    rename_all = "kebab-case",
    rename_all_fields = "kebab-case",
    deny_unknown_fields
)]
pub enum Request {
    /// The configuration's TUN device is there: bring it up, and keep out what comes in clear.
    Device {
        /// Largest inner packet.
        mtu: u16,
    },
    /// The largest inner packet is another one.
    Resize {
        /// Largest inner packet.
        mtu: u16,
    },
    /// Make routes and resolvers so.
    Apply {
        /// Routes and addresses.
        desired: Desired,
        /// Resolvers; none: those that were there before.
        resolvers: Vec<IpAddr>,
    },
    /// Which of our addresses, or of these, leads to a peer.
    LocalAddress {
        /// The peer.
        remote: IpAddr,
        /// Addresses to choose from; none: any.
        among: Vec<IpAddr>,
    },
    /// How many packets in clear were kept out.
    KeptOut,
    /// Read the configuration and its files again; nothing changes yet.
    Read,
    /// The configuration that was read last is in force from here on.
    Adopt,
    /// Take everything back and end.
    End {
        /// The blocks too.
        lifts: bool,
    },
}

/// The answer. The texts of a configuration hold secrets: it has no `Debug`.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// The first word, unasked: what is refused on this host from here on, by connection.
    Ready {
        /// Blocks of this process, those of an earlier one among them.
        blocks: BTreeMap<String, BTreeSet<Prefix>>,
        /// What restricts the steward itself.
        limits: Vec<String>,
    },
    /// It is done.
    Done,
    /// The host does not do it.
    Failed {
        /// Why.
        text: String,
    },
    /// The configuration does not name it, or the request is none.
    Refused {
        /// Why.
        text: String,
    },
    /// To [`Request::LocalAddress`].
    LocalAddress {
        /// `None`: no way there.
        address: Option<IpAddr>,
    },
    /// To [`Request::KeptOut`].
    KeptOut {
        /// `None`: nothing keeps them out.
        packets: Option<u64>,
        /// Requests that were refused.
        refused: u64,
    },
    /// To [`Request::Read`].
    Read {
        /// The configuration and the files that it names.
        texts: Texts,
    },
}

/// Reads a request; the reason where it is none.
pub fn parse(frame: &[u8]) -> Result<Request, String> {
    serde_json::from_slice(frame).map_err(|fault| format!("not a request: {fault}"))
}

/// Writes one frame: its length, then so many octets.
async fn write_frame(
    output: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
) -> io::Result<()> {
    // Replies may hold secrets.
    let text = Zeroizing::new(serde_json::to_vec(message).map_err(io::Error::other)?);
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    output.write_all(&length.to_be_bytes()).await?;
    output.write_all(&text).await?;
    output.flush().await
}

/// Reads one frame of so many octets at most; `None`: the other end has gone.
async fn read_frame(
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
