//! Phase 1 as a machine: main or aggressive mode, either role. The modes themselves are in
//! `main_mode.rs` and `aggressive.rs`.

use std::sync::Arc;

use crypto::rand::Stream;
use wire::isakmp::Cookies;

use super::{Fault, IsakmpSa, Outbox};
use crate::config::Connection;
use crate::sa::Path;
use crate::time::{Calendar, Deadline, Instant};

/// A phase 1 exchange, from its first message until its last one need not be sent again.
pub struct Phase1 {
    cookies: Cookies,
    path: Path,
}

impl Phase1 {
    /// Begins an exchange with the connection's peer. `is_first_contact`: we have no other SA
    /// with it and say so (RFC 2407 §4.6.3.3).
    pub fn initiate(
        connection: Arc<Connection>,
        path: Path,
        is_first_contact: bool,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Self {
        let _ = (connection, is_first_contact, random, now, out, path);
        panic!("phase 1")
    }

    /// Answers a first message, picking the first of `candidates` that fits it.
    pub fn respond(
        candidates: &[Arc<Connection>],
        path: Path,
        message: &[u8],
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Self, Fault> {
        let _ = (candidates, path, message, random, now, out);
        panic!("phase 1")
    }

    /// Its name; the responder's half is zero until known.
    pub fn cookies(&self) -> Cookies {
        self.cookies
    }

    /// Where the peer is; floats to port 4500 behind a NAT (RFC 3947 §4).
    pub fn path(&self) -> Path {
        self.path
    }

    /// A message of this exchange (already reassembled). A duplicate of the last one is answered
    /// with our last message again; forged or stale ones are dropped without ending the exchange
    /// (`Ok`, counted by the node through `Outbox::drops`).
    pub fn on_message(
        &mut self,
        path: Path,
        message: &[u8],
        random: &mut Stream,
        now: Instant,
        calendar: Calendar,
        out: &mut Outbox,
    ) -> Result<(), Fault> {
        let _ = (path, message, random, now, calendar, out);
        panic!("phase 1")
    }

    /// Retransmission or end of life.
    pub fn deadline(&self) -> Option<Deadline> {
        panic!("phase 1")
    }

    /// Sends again, or gives up.
    pub fn on_deadline(&mut self, now: Instant, out: &mut Outbox) -> Result<(), Fault> {
        let _ = (now, out);
        panic!("phase 1")
    }

    /// The product, once, when the exchange has succeeded.
    pub fn take_established(&mut self) -> Option<(IsakmpSa, Arc<Connection>)> {
        panic!("phase 1")
    }
}
