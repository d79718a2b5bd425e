//! A gateway and its peers.

pub mod ikev1;
pub mod ikev2;
pub mod world;

use std::sync::Arc;

use engine::config::Connection;
use engine::sa::Path;
use engine::time::Instant;

use crate::script::Sealed;

/// Datagrams of a peer.
pub type Said = Vec<Vec<u8>>;

/// A peer that holds keys. What it cannot say yet it does not say.
pub trait Talker {
    /// Names of the gateway's connections for such peers.
    const NAMES: &'static [&'static str];

    /// The gateway's connections for such peers.
    fn connections() -> Vec<Arc<Connection>>;

    /// An idle peer, number `number` of its input.
    fn new(number: u8, kind: u8, path: Path) -> Self;

    /// The path as the gateway sees it.
    fn path(&self) -> Path;

    /// For a repetition.
    fn last_sent(&self) -> &[u8];

    /// For a reflection.
    fn last_heard(&self) -> &[u8];

    /// Its first message.
    fn first(&mut self) -> Said;

    /// Its next one in clear.
    fn third(&mut self) -> Said;

    /// Its proof.
    fn prove(&mut self, sealed: &Sealed) -> Said;

    /// Any message under its keys.
    fn protected(&mut self, exchange: u8, id: u8, sealed: &Sealed) -> Said;

    /// A datagram of the gateway, perhaps to this peer.
    fn hear(&mut self, path: Path, datagram: &[u8], now: Instant);
}
