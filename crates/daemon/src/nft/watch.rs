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
use crate::footprint::FootprintFile;
use crate::sys::frame;

/// `NFNLGRP_NFTABLES` of linux/netfilter/nfnetlink.h.
const CHANGES_OF_TABLES: u32 = 7;
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

/// How nft lists a table, without its counters; `None` without a table.
pub(super) fn listing(table: &str) -> Option<String> {
    let arguments = ["--stateless", "list", "table", "inet", table];
    let output = start(&NFT, &arguments).ok()?.wait_with_output().ok()?;
    let listed = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(listed)
}

/// Tables that this process has loaded and that are not as it has loaded them.
pub fn disturbed(file: &FootprintFile) -> Vec<String> {
    let loaded = file.listings.iter();
    let others = loaded.filter(|(table, listed)| listing(table).as_ref() != Some(listed));
    others.map(|(table, _)| table.clone()).collect()
}
