//! Servers of RADIUS that examine peers of IKEv2: what sessions ask them, and what they answer.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use super::session_id::SessionId;
use super::timers::Timer;
use super::{Event, Node, Output};
use crate::radius::{Client, Question, ServerStatus, Ticket, Verdict};
use crate::site::{Network, Site};
use crate::time::Instant;

/// Open questions for peers of one network once so many are open in all. A server has numbers for
/// 256: strangers whose names it is slow to answer must leave some for others.
const QUESTIONS_PER_NETWORK: usize = 32;
/// Open questions up to which nobody waits: half of a server's numbers.
const PLENTY: usize = 128;

/// The client, and its timer.
#[derive(Default)]
pub(super) struct Radius {
    client: Client,
    armed: Option<Instant>,
    /// From where those come for whom something is asked.
    asking: BTreeMap<SessionId, Network>,
}

impl Radius {
    /// Whether one more question may be open for peers of this one's network.
    pub(super) fn may_ask(&self, peer: IpAddr) -> bool {
        let network = Site::of(peer).network();
        let of_network = self.asking.values().filter(|it| **it == network);
        self.asking.len() < PLENTY || of_network.count() < QUESTIONS_PER_NETWORK
    }

    pub(super) fn status(&self) -> Vec<ServerStatus> {
        self.client.status()
    }
}

const fn ticket(id: SessionId) -> Ticket {
    id.0 as Ticket
}

impl Node {
    /// Takes over the servers of the configuration.
    pub(super) fn configure_radius(&mut self, now: Instant) {
        self.radius.client.configure(self.config.radius.clone());
        self.drain_radius(now);
    }

    /// A session asks about a packet of its peer.
    pub(super) fn ask_server(&mut self, id: SessionId, question: Question, now: Instant) {
        let random = &mut self.random;
        let network = Site::of(question.peer).network();
        self.radius.asking.insert(id, network);
        self.radius.client.ask(ticket(id), question, random, now);
        self.drain_radius(now);
    }

    /// A session that waits for an answer is over.
    pub(super) fn forget_question(&mut self, id: SessionId) {
        self.radius.asking.remove(&id);
        self.radius.client.forget(ticket(id));
        self.arm_radius();
    }

    /// A datagram of a server.
    pub(super) fn on_radius(&mut self, from: SocketAddr, datagram: &[u8], now: Instant) {
        let drops = &mut self.drops;
        self.radius.client.on_datagram(from, datagram, now, drops);
        self.drain_radius(now);
    }

    pub(super) fn on_radius_timer(&mut self, now: Instant) {
        self.radius.armed = None;
        self.radius.client.on_deadline(&mut self.random, now);
        self.drain_radius(now);
    }

    /// Sends what is due, and tells sessions what was answered.
    fn drain_radius(&mut self, now: Instant) {
        while let Some((address, is_silent)) = self.radius.client.change() {
            self.outputs
                .tell(Event::RadiusServer { address, is_silent });
        }
        while let Some((to, datagram)) = self.radius.client.datagram() {
            self.outputs.push(Output::Radius(to, datagram));
        }
        while let Some((ticket, verdict)) = self.radius.client.verdict() {
            if let Ok(number) = u32::try_from(ticket) {
                self.radius.asking.remove(&SessionId(number));
                self.on_verdict(SessionId(number), verdict, now);
            }
        }
        self.arm_radius();
    }

    fn arm_radius(&mut self) {
        let deadline = self.radius.client.deadline();
        let armed = &mut self.radius.armed;
        self.timers.arm(Timer::Radius, armed, deadline);
    }

    /// A proof for a server of RADIUS, from this address, was wrong: the server has refused it, or
    /// its sender has gone away before the server could.
    pub(super) fn proof_was_wrong(&mut self, from: IpAddr, now: Instant) {
        if self.config.limits.has_quotas {
            self.quotas.was_wrong(from, now);
        }
    }

    fn on_verdict(&mut self, id: SessionId, verdict: Verdict, now: Instant) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let path = session.path();
        // A refused certificate, or a name that is not let in, is no guess.
        let is_guess = session.ike.v2().is_some_and(|ike| ike.has_sent_password());
        if is_guess && matches!(verdict, Verdict::Reject { .. }) {
            self.proof_was_wrong(path.remote.ip(), now);
        }
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let mut out = session.ike.outbox();
        let Some(ike) = session.ike.v2_mut() else {
            return;
        };
        let facts = ike.examined(verdict, &mut self.random, now, &mut out);
        self.flush(Some(id), out);
        for fact in facts {
            // The previous fact may have ended the session.
            if self.sessions.contains_key(&id) {
                self.on_ikev2_fact(id, path, fact, now);
            }
        }
        self.arm_session(id);
    }
}
