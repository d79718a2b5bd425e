//! Notices that somebody else has removed or changed a table of ours: `nft flush ruleset` and the
//! reload of a firewall service take the tables of everybody.
//!
//! The kernel reports every change of nftables, ours too, so a report is only a reason to look. A
//! table is as it should be if nft lists it as it did after it was loaded, counters left out.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::unistd::read;
use rtnetlink::sys::Socket;
use rtnetlink::sys::protocols::NETLINK_NETFILTER;
use tokio::io::unix::AsyncFd;

use super::{NFT, start};
use crate::footprint::{FootprintFile, Listing};
use crate::sys::frame;

/// `NFNLGRP_NFTABLES` of linux/netfilter/nfnetlink.h.
const CHANGES_OF_TABLES: u32 = 7;
/// A request for the generation, and its answer (linux/netfilter/nf_tables.h): `NFT_MSG_GETGEN`,
/// `NFT_MSG_NEWGEN` and `NFTA_GEN_ID` of the subsystem `NFNL_SUBSYS_NFTABLES`.
const GET_GENERATION: u16 = 10 << 8 | 16;
const NEW_GENERATION: u16 = 10 << 8 | 15;
const GENERATION: u16 = 1;
/// Octets of `nlmsghdr`, of it with `nfgenmsg`, and of an attribute with its header.
const HEADER: usize = 16;
const HEADERS: usize = HEADER + 4;
const ATTRIBUTE: usize = 8;
/// What is read of a report at once. Nobody looks at it.
const READ_BYTES: usize = 8192;

/// The kernel's reports of changes.
pub struct Watch {
    socket: AsyncFd<OwnedFd>,
}

impl Watch {
    /// Needs CAP_NET_ADMIN, and must run within a tokio runtime.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.add_membership(CHANGES_OF_TABLES)?;
        socket.set_non_blocking(true)?;
        let socket = frame::watched(socket.as_fd().try_clone_to_owned()?)?;
        Ok(Self { socket })
    }

    /// Returns once nftables has changed. Cancel-safe.
    pub async fn changed(&self) -> io::Result<()> {
        let mut buffer = [0; READ_BYTES];
        loop {
            let mut ready = self.socket.readable().await?;
            let mut has_changed = false;
            loop {
                match read(self.socket.get_ref(), &mut buffer) {
                    // An overflow says that reports were lost.
                    Ok(_) | Err(Errno::ENOBUFS) => has_changed = true,
                    Err(Errno::EAGAIN) => break,
                    Err(Errno::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            ready.clear_ready();
            if has_changed {
                return Ok(());
            }
        }
    }
}

/// How often nftables has changed, as the kernel counts it. None if it does not say.
pub(super) fn generation() -> Option<u32> {
    let mut socket = Socket::new(NETLINK_NETFILTER).ok()?;
    socket.bind_auto().ok()?;
    let mut request = [0; HEADERS];
    request[..4].copy_from_slice(&(HEADERS as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&GET_GENERATION.to_ne_bytes());
    request[6..8].copy_from_slice(&(nix::libc::NLM_F_REQUEST as u16).to_ne_bytes());
    socket.send(&request, 0).ok()?;
    let (answer, _) = socket.recv_from_full().ok()?;
    read_generation(&answer)
}

fn read_generation(answer: &[u8]) -> Option<u32> {
    let half = |at: usize| Some(u16::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    let is_answer = half(4)? == NEW_GENERATION;
    let is_number = half(HEADERS)? as usize == ATTRIBUTE && half(HEADERS + 2)? == GENERATION;
    let number = u32::from_be_bytes(*answer.get(HEADERS + 4..)?.first_chunk()?);
    (is_answer && is_number).then_some(number)
}

/// What somebody else has done to a table.
#[derive(Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// It is not as it was loaded.
    Changed,
    /// Nobody knows: nftables has changed before it was listed.
    Unsure,
}

/// How nft lists a table, without its counters; `None` without a table.
pub(super) fn listing(table: &str) -> Option<String> {
    let arguments = ["--stateless", "list", "table", "inet", table];
    let output = start(&NFT, &arguments).ok()?.wait_with_output().ok()?;
    let listed = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(listed)
}

/// Tables that this process has loaded and that are not as it has loaded them.
pub fn disturbed(file: &mut FootprintFile) -> Vec<(String, Disturbance)> {
    let mut disturbed = Vec::new();
    for (table, known) in &mut file.listings {
        let listed = listing(table);
        let disturbance = match known {
            Listing::Known(known) => {
                (listed.as_ref() != Some(known)).then_some(Disturbance::Changed)
            }
            Listing::Of(loaded) => match listed {
                Some(listed) if loaded.is_some() && generation() == *loaded => {
                    *known = Listing::Known(listed);
                    None
                }
                Some(_) => Some(Disturbance::Unsure),
                None => Some(Disturbance::Changed),
            },
        };
        disturbed.extend(disturbance.map(|it| (table.clone(), it)));
    }
    disturbed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.18 on a little-endian machine answers.
    #[test]
    fn the_generation_is_read_from_the_kernels_answer() {
        let mut answer = vec![60, 0, 0, 0, 15, 10, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9];
        answer.extend([0, 0, 0, 7, 8, 0, 1, 0, 0, 0, 1, 7]);
        answer.extend([8, 0, 2, 0, 0, 0, 48, 57, 8, 0, 3, 0, b'n', b'f', b't', 0]);
        let expected = cfg!(target_endian = "little").then_some(263);
        assert_eq!(read_generation(&answer), expected);
        for end in 0..HEADERS + ATTRIBUTE {
            assert_eq!(read_generation(&answer[..end]), None, "{end}");
        }
        answer[4] = 2;
        assert_eq!(read_generation(&answer), None, "an error");
    }
}
