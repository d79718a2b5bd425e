//! What a terminal is told of a message without an answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use engine::config::{Connection, RemoteMethod};
use engine::ike::Unanswered;

use crate::run::unsent::Unsent;

/// A message without an answer.
pub(super) struct Silence {
    pub(super) asked: Unanswered,
    /// How often it was sent, by Message ID: several exchanges may repeat at the same time.
    pub(super) times: BTreeMap<Option<u32>, u32>,
    /// An unauthenticated refusal. Anybody can send one, so it is only a hint.
    pub(super) refusal: Option<String>,
}

impl Silence {
    /// The description for the waiting terminal.
    pub(super) fn words(&self, unsent: &Unsent) -> String {
        let ip = self.asked.remote.ip();
        match &self.refusal {
            Some(refusal) => {
                format!("{ip} refuses, without proof that it is the gateway: {refusal}")
            }
            None => self
                .obstacle(unsent)
                .unwrap_or_else(|| self.asked.to_string()),
        }
    }

    /// A message was repeated, or something is said about it.
    pub(super) fn is_long(&self, unsent: &Unsent) -> bool {
        self.asked.tries > 1 || self.refusal.is_some() || self.obstacle(unsent).is_some()
    }

    pub(super) fn may_be_explained(&self, remote: SocketAddr) -> bool {
        self.asked.remote == remote && self.asked.unreachable.is_none()
    }

    /// The known obstacle: an error of our own host, or an ICMP report.
    pub(super) fn obstacle(&self, unsent: &Unsent) -> Option<String> {
        let is_told = self.asked.unreachable.is_some();
        let told = is_told.then(|| self.asked.to_string());
        let unsent = unsent.why(self.asked.remote);
        unsent.map(str::to_owned).or(told)
    }
}

/// Whether the peer of a connection authenticates with a pre-shared key.
pub(super) fn is_by_key(name: &str, connections: &[Arc<Connection>]) -> bool {
    let mut connections = connections.iter();
    let connection = connections.find(|connection| connection.name == name);
    let by_key = |it: &Arc<Connection>| matches!(it.remote.method, RemoteMethod::PresharedKey(_));
    connection.is_some_and(by_key)
}
