//! The mobility bindings of one node (RFC 5944 §3.8.1).

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::mip4::revocation::Agreement;
use crate::mip4::tunnel::Tunnel;
use crate::time::Instant;

/// A mobility binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Its tunnel.
    pub tunnel: Tunnel,
    /// Of the accepted request.
    pub identification: u64,
    /// When that was accepted.
    pub accepted: Instant,
    /// When it ends; never, if None.
    pub end: Option<Instant>,
    /// Where the accepted request came from.
    pub source: SocketAddrV4,
    /// What its sender and we have agreed on about revocation.
    pub revocation: Option<Agreement>,
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

    /// The newest half-bound tunnel that is meant has this end from now on. Whether there was one.
    pub(super) fn complete(
        &mut self,
        end: SocketAddrV4,
        is_meant: impl Fn(&Tunnel) -> bool,
    ) -> bool {
        let mut all = self.0.iter_mut().rev().map(|one| &mut one.tunnel);
        let found = all.find(|it| it.is_half_bound() && is_meant(it));
        found.is_some_and(|tunnel| {
            tunnel.udp = Some(end);
            true
        })
    }

    /// How many there would be if `care_of` were added to them.
    pub(super) fn count_with(&self, care_of: Ipv4Addr) -> usize {
        self.0.len() + usize::from(self.of(care_of).is_none())
    }

    /// Adds or renews one; others stay only if they are simultaneous. Returns those that end.
    pub(super) fn bind(&mut self, binding: Binding, keeps_others: bool) -> Vec<Binding> {
        let care_of = binding.tunnel.care_of;
        self.0.retain(|one| one.tunnel.care_of != care_of);
        let ended = match keeps_others {
            true => Vec::new(),
            false => std::mem::take(&mut self.0),
        };
        self.0.push(binding);
        ended
    }

    /// Ends all, or that of one care-of address. Returns those that end.
    pub(super) fn unbind(&mut self, care_of: Option<Ipv4Addr>) -> Vec<Binding> {
        let is_ended = |one: &mut Binding| care_of.is_none_or(|it| one.tunnel.care_of == it);
        self.0.extract_if(.., is_ended).collect()
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
