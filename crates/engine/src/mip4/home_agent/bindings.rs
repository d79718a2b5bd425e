//! The mobility bindings of one node (RFC 5944 §3.8.1).

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::time::Instant;

/// How a packet is put into a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encapsulation {
    /// IP in IP (RFC 2003).
    IpInIp,
    /// Minimal encapsulation (RFC 2004).
    Minimal,
    /// GRE (RFC 2784).
    Gre,
}

/// The tunnel of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The care-of address.
    pub care_of: Ipv4Addr,
    /// What it is made of.
    pub encapsulation: Encapsulation,
    /// In UDP to this address and port, those that a NAT shows (RFC 3519).
    pub udp: Option<SocketAddrV4>,
    /// Whether the node's packets come through it too (RFC 3024).
    pub is_reverse: bool,
    /// Whether it gets broadcasts of the home network.
    pub has_broadcasts: bool,
    /// Whether the node itself is its end.
    pub is_colocated: bool,
}

/// A mobility binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Its tunnel.
    pub tunnel: Tunnel,
    /// Of the accepted request.
    pub identification: u64,
    /// When it ends; never, if None.
    pub end: Option<Instant>,
}

/// All bindings of a node, the newest last.
#[derive(Debug, Default)]
pub(super) struct Bindings(Vec<Binding>);

impl Bindings {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Binding> {
        self.0.iter()
    }

    pub(super) fn tunnels(&self) -> Vec<Tunnel> {
        self.0.iter().map(|one| one.tunnel).collect()
    }

    pub(super) fn of(&self, care_of: Ipv4Addr) -> Option<&Binding> {
        self.0.iter().find(|one| one.tunnel.care_of == care_of)
    }

    /// How many there would be if `care_of` were added to them.
    pub(super) fn count_with(&self, care_of: Ipv4Addr) -> usize {
        self.0.len() + usize::from(self.of(care_of).is_none())
    }

    /// Adds or renews one; others stay only if they are simultaneous.
    pub(super) fn bind(&mut self, binding: Binding, keeps_others: bool) {
        let care_of = binding.tunnel.care_of;
        self.0
            .retain(|one| keeps_others && one.tunnel.care_of != care_of);
        self.0.push(binding);
    }

    /// Ends all, or that of one care-of address. Whether there was one.
    pub(super) fn unbind(&mut self, care_of: Option<Ipv4Addr>) -> bool {
        let before = self.0.len();
        self.0
            .retain(|one| care_of.is_some_and(|it| one.tunnel.care_of != it));
        self.0.len() != before
    }

    /// Ends those whose lifetime is over. Whether there was one.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let before = self.0.len();
        self.0.retain(|one| one.end.is_none_or(|end| end > now));
        self.0.len() != before
    }

    pub(super) fn next_end(&self) -> Option<Instant> {
        self.0.iter().filter_map(|one| one.end).min()
    }
}
