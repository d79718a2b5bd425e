//! What the node decides of a session's addresses (RFC 4555).

use std::net::IpAddr;

use crypto::rand::Stream;

use super::Session;
use crate::ike::Outbox;
use crate::sa::Path;
use crate::time::Instant;

impl Session {
    /// Whether both ends speak MOBIKE.
    pub fn has_mobike(&self) -> bool {
        self.established().is_some_and(|it| it.peer.mobike)
    }

    /// Whether we decide where both ends send.
    pub fn is_mover(&self) -> bool {
        self.established().is_some_and(|it| it.is_mover())
    }

    /// The peer's addresses besides the one that it uses.
    pub fn peer_addresses(&self) -> &[IpAddr] {
        self.established().map_or(&[], |it| &it.mobility.peers)
    }

    /// Whether the peer was told these addresses of ours.
    pub fn is_told(&self, own: &[IpAddr]) -> bool {
        self.established()
            .is_some_and(|it| it.mobility.told.as_deref() == Some(own))
    }

    /// Our addresses are these besides the path's. The next update says so. `is_proven`: whether
    /// the peer's address is; otherwise the update is short.
    pub fn set_addresses(&mut self, own: Vec<IpAddr>, is_proven: bool) {
        if let Some(it) = self.established_mut() {
            it.set_addresses(own, is_proven);
        }
    }

    /// We have lost our address, and send from another one: the peer is told which.
    pub fn note_lost(&mut self) {
        if let Some(it) = self.established_mut() {
            it.note_lost();
        }
    }

    /// As [`Self::set_addresses`], and the peer is told at once unless it knows.
    pub fn tell_addresses(
        &mut self,
        own: Vec<IpAddr>,
        is_proven: bool,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) {
        self.set_addresses(own, is_proven);
        self.with(random, now, out, |it, at| it.pump(at));
    }

    /// The session has moved: repeats its open requests at once.
    pub fn repeat(&mut self, now: Instant, out: &mut Outbox) {
        if let Some(it) = self.established_mut() {
            it.sas.iter_mut().for_each(|sa| sa.begin_again(now, out));
        }
    }

    /// Octets of its open requests.
    pub fn open_octets(&self) -> u64 {
        let sas = self.established().into_iter().flat_map(|it| &it.sas);
        sas.map(|sa| sa.open_octets() as u64).sum()
    }

    /// Sends the open request over another path too (RFC 4555 §3.10).
    pub fn try_over(&mut self, path: Path, out: &mut Outbox) {
        if let Some(it) = self.established_mut() {
            it.sas[0].try_over(path, out);
        }
    }
}
