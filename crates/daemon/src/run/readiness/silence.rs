//! What a terminal is told of a message without an answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use engine::ike::Unanswered;

/// A message without an answer.
pub(super) struct Silence {
    pub(super) asked: Unanswered,
    /// How often it was sent, by Message ID: several exchanges may repeat at the same time.
    pub(super) times: BTreeMap<Option<u32>, u32>,
    /// An unauthenticated refusal. Anybody can send one, so it is only a hint.
    pub(super) refusal: Option<String>,
    /// Why our own host did not send it the last time.
    pub(super) unsent: Option<String>,
}

impl Silence {
    /// The description for the waiting terminal.
    pub(super) fn words(&self) -> String {
        let ip = self.asked.remote.ip();
        match &self.refusal {
            Some(refusal) => {
                format!("{ip} refuses, without proof that it is the gateway: {refusal}")
            }
            None => self.obstacle().unwrap_or_else(|| self.asked.to_string()),
        }
    }

    /// A message was repeated, or something is said about it.
    pub(super) fn is_long(&self) -> bool {
        self.asked.tries > 1 || self.refusal.is_some() || self.obstacle().is_some()
    }

    pub(super) fn may_be_explained(&self, remote: SocketAddr) -> bool {
        self.asked.remote == remote && self.asked.unreachable.is_none()
    }

    /// The known obstacle: an error of our own host, or an ICMP report.
    pub(super) fn obstacle(&self) -> Option<String> {
        let is_told = self.asked.unreachable.is_some();
        let told = is_told.then(|| self.asked.to_string());
        self.unsent.clone().or(told)
    }
}
