//! A client and its hostile gateways.

pub mod gateway;
mod hostile;
pub mod ikev2;
pub mod world;

use std::sync::Arc;

use engine::config::{Connection, LocalMethod};
use engine::sa::Path;
use engine::time::Instant;

use crate::responder::{Said, Talker};
use crate::script::Sealed;

/// A hostile gateway that holds keys. What it cannot say yet it does not say.
pub trait Host {
    /// The peers that it would have as the gateway under test.
    type Peer: Talker;
    /// How many times as long as its datagram an answer to an unproven address may be.
    const ANSWER_FACTOR: usize;

    /// An idle gateway, number `number` of its input, with its side of a connection.
    fn new(number: u8, own: Arc<Connection>, path: Path) -> Self;

    /// The client's identity in a connection of this name, and its proof if that is not the shared
    /// key.
    fn client(name: &str) -> (String, Option<LocalMethod>);

    /// The path as the client sees it.
    fn path(&self) -> Path;

    /// For a repetition.
    fn last_sent(&self) -> &[u8];

    /// For a reflection.
    fn last_heard(&self) -> &[u8];

    /// Whether it has proven itself under the keys that it has.
    fn has_proven(&self) -> bool;

    /// A datagram of the client, perhaps to it.
    fn hear(&mut self, path: Path, datagram: &[u8], now: Instant);

    /// Answers its oldest unanswered message as an honest gateway would. Of each three octets of
    /// `changes`, the first two are a position in the answer, the third a change at that position.
    fn answer(&mut self, changes: &[u8], now: Instant) -> Said;

    /// Answers with these payloads, under its own keys.
    fn prove(&mut self, said: &Sealed) -> Said;

    /// Any message under its keys.
    fn protected(&mut self, exchange: u8, id: u8, sealed: &Sealed) -> Said;
}
