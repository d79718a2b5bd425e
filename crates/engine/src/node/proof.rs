//! Proof of a peer's new address. Until a peer that has moved answers from its new address, we send
//! it at most three times the bytes that came from there (RFC 9000 §8.1 and §9.3). Otherwise a
//! client, or an attacker who rewrites its datagrams, could make us flood another host.
//!
//! The probe is R-U-THERE with a number that cannot be guessed, so only a receiver at that address
//! can answer. A peer without dead peer detection is probed with a quick mode, whose answer covers
//! our nonce. If the new address stays silent, packets go to the old one again, which was proven.
//! Probes count towards the limit and take precedence over packets, because their answer ends the
//! limit. If nothing more may be sent, the next probe waits until something comes from there.
//!
//! A move to another port of the same address, as after a NAT rebinding, can hurt no other host and
//! has no limit.
//!
//! Where nothing of the kind has been shown, what comes from another address is answered sparingly.
//! An exchange that is half-open goes on with its first address alone: NATs keep that (RFC 6888 §3
//! REQ-2), and our answers there prove it. Later an answer to another address has at most three
//! times the octets of what it answers: everybody who has seen a message can repeat it from
//! elsewhere.
//!
//! In IKEv2 the probe has a COOKIE2 (RFC 4555 §3.7). All authentic messages from the new address
//! permit three times their size, our answers included, and open requests are withheld above that
//! (`mobike.rs`).

use std::net::IpAddr;

use crate::counters::DropReason;
use crate::ike::Outbox;
use crate::node::session_id::SessionId;
use crate::node::ways::Way;
use crate::node::{Event, Node};
use crate::plane::{InboundChange, OutboundChange};
use crate::sa::{ChildId, Path};
use crate::time::{Deadline, Duration, Instant};

/// Octets that may be sent for each received octet.
pub(super) const AMPLIFICATION: u64 = 3;
/// An authentic IKE message is at least this long.
pub(super) const LEAST_MESSAGE_BYTES: u64 = 76;
/// Octets reserved for probes: two probes, which any message allows.
pub(super) const FOR_QUESTIONS: u64 = AMPLIFICATION * LEAST_MESSAGE_BYTES;
/// Octets of updates that a mover sends to an address that its peer has named.
const FOR_UPDATE: u64 = 2 * FOR_QUESTIONS;
/// Time between two probes.
const INTERVAL: Duration = Duration::from_millis(500);
/// After this time without an answer, the peer is probed at its old address.
const PATIENCE: Duration = Duration::from_secs(3);
/// The largest random step between probe numbers, so that nobody can guess them.
pub(super) const JUMP: u32 = 1 << 24;
/// Wrong answers after which a probe does not count any more; the next one has a new number.
const GUESSES: u32 = 8;

/// An address from which the peer has not answered yet.
pub(super) struct Unproven {
    /// Where the peer was before.
    pub(super) proven: Path,
    since: Instant,
    ask_at: Instant,
    /// The number of the probe whose answer proves the address, and how many wrong answers are
    /// left.
    question: Option<(u32, u32)>,
    /// The number of an exchange whose answer proves it.
    exchange: Option<u32>,
    /// Octets of probes that may still be sent there.
    for_questions: u64,
    /// A request was too long for that.
    pub(super) is_withholding: bool,
}

impl Unproven {
    pub(super) fn deadline(&self) -> Deadline {
        Deadline {
            at: self.ask_at,
            why: "ask the peer whether it is at its new address",
        }
    }

    /// Whether a probe with this number and size may go to the new address; then its answer counts.
    pub(super) fn may_ask(&mut self, number: u32, octets: usize) -> bool {
        let may_go = self.pays(octets);
        if may_go {
            self.question = Some((number, GUESSES));
        }
        may_go
    }

    /// Takes requests that may not go there out of an outbox.
    pub(super) fn withhold(&mut self, there: IpAddr, out: &mut Outbox) {
        out.messages.retain(|sent| {
            let is_bound = sent.path.remote.ip() == there && sent.step.is_request();
            let may_go = !is_bound || self.pays(sent.octets());
            self.is_withholding |= !may_go;
            may_go
        });
    }

    /// Whether a request of this size may go there.
    pub(super) fn pays(&mut self, octets: usize) -> bool {
        let rest = self.for_questions.checked_sub(octets as u64);
        self.for_questions = rest.unwrap_or(self.for_questions);
        rest.is_some()
    }
}

impl Node {
    /// Takes out of an outbox what is more than an answer to `octets` from `path` may have, if the
    /// session's peer was not there: it was at `home`.
    pub(super) fn bound(&mut self, out: &mut Outbox, home: Path, path: Path, octets: usize) {
        let there = path.remote.ip();
        if home.remote.ip() == there {
            return;
        }
        let mut left = octets as u64 * AMPLIFICATION;
        let before = out.messages.len();
        out.messages.retain(|sent| {
            if sent.path.remote.ip() != there {
                return true;
            }
            let rest = left.checked_sub(sent.octets() as u64);
            left = rest.unwrap_or(left);
            rest.is_some()
        });
        let withheld = before - out.messages.len();
        self.drops.add(DropReason::UnprovenPath, withheld as u64);
    }

    /// The peer of a session has moved to an address from which `bytes` have come. The planes learn
    /// the limit before they learn of the move, and what may be sent after it ([`Node::allow`]):
    /// else it would go to where the peer was. If the peer is back at a proven address, there is no
    /// limit. Returns whether [`Node::prove`] must follow the move.
    pub(super) fn doubt(&mut self, id: SessionId, former: Path, bytes: u64, now: Instant) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else {
            return false;
        };
        let is_at = |path: Path| session.path().remote.ip() == path.remote.ip();
        let is_mover = session.ike.is_mover();
        let there = session.path().remote.ip();
        // Our own configuration names it.
        if is_mover && session.connection().is_some_and(|it| it.names(there)) {
            return true;
        }
        let (is_back, is_elsewhere) = match &session.unproven {
            Some(unproven) => (is_at(unproven.proven), !is_at(former)),
            None => (false, !is_at(former)),
        };
        if is_back {
            return true;
        }
        if is_elsewhere {
            let proven = session.unproven.as_ref().map_or(former, |it| it.proven);
            session.unproven = Some(Box::new(Unproven {
                proven,
                since: now,
                ask_at: now,
                question: None,
                exchange: None,
                // We go there by ourselves: the first question is no answer, as in IKE_SA_INIT.
                for_questions: if is_mover && bytes == 0 {
                    FOR_UPDATE
                } else {
                    0
                },
                is_withholding: false,
            }));
        }
        self.allow(id, 0);
        false
    }

    /// This many authentic octets came from the peer's address. If it is unproven, three times as
    /// many may go there.
    pub(super) fn allow(&mut self, id: SessionId, bytes: u64) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(unproven) = session.unproven.as_mut() else {
            return;
        };
        let mut bytes = bytes.saturating_mul(AMPLIFICATION);
        // In IKEv2 a probe waits for the answer to an open request.
        let wanted = FOR_QUESTIONS + session.ike.open_octets();
        let kept = bytes.min(wanted.saturating_sub(unproven.for_questions));
        unproven.for_questions += kept;
        bytes -= kept;
        // One allowance for all children of the session, spent by the first.
        for child in session.held.children.clone() {
            let allowed = OutboundChange::Allow(child, core::mem::take(&mut bytes));
            self.outputs.outbound(allowed);
        }
    }

    /// Limits a child that has just received an outbound SA, if its peer's address is unproven.
    pub(super) fn limit_new(&mut self, id: SessionId, child: ChildId) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        match session.unproven {
            Some(_) => self.outputs.outbound(OutboundChange::Allow(child, 0)),
            // It may have been limited under an earlier session.
            None => self.proven_at(child, session.path().remote.ip()),
        }
    }

    /// Tells the planes a child's proven address.
    pub(super) fn proven_at(&mut self, child: ChildId, address: IpAddr) {
        self.outputs
            .outbound(OutboundChange::Proven(child, address));
        self.outputs.inbound(InboundChange::Proven(child, address));
    }

    /// The peer has proven its address, and packets go there: the limit ends.
    pub(super) fn prove(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if session.unproven.take().is_none() {
            return;
        }
        let path = session.path();
        let connection = session.connection_name();
        for child in session.held.children.clone() {
            self.proven_at(child, path.remote.ip());
        }
        self.set_addresses(id);
        self.arm_session(id);
        if let Some(connection) = connection {
            self.outputs.tell(Event::PathProven { connection, path });
        }
    }

    /// Whether an answer over `path` proves the address that the session's packets go to. Counts
    /// wrong numbers.
    pub(super) fn proves(&mut self, id: SessionId, path: Path, number: u32) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else {
            return false;
        };
        let is_there = session.path().remote.ip() == path.remote.ip();
        let Some(unproven) = session.unproven.as_mut() else {
            return false;
        };
        match &mut unproven.question {
            Some((asked, _)) if *asked == number => is_there,
            Some((_, guesses)) => {
                *guesses -= 1;
                if *guesses == 0 {
                    unproven.question = None;
                }
                false
            }
            None => false,
        }
    }

    /// Whether the answer to this exchange of ours proves the address.
    pub(super) fn exchange_proves(&self, id: SessionId, path: Path, exchange: u32) -> bool {
        let Some(session) = self.sessions.get(&id) else {
            return false;
        };
        let asked = session.unproven.as_ref().and_then(|it| it.exchange);
        asked == Some(exchange) && session.path().remote.ip() == path.remote.ip()
    }

    /// Repeats the probe of a new address, and finally returns to the old one.
    pub(super) fn check_proof(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(unproven) = session.unproven.as_mut().filter(|it| it.ask_at <= now) else {
            return;
        };
        if now.since(unproven.since) >= PATIENCE {
            return self.revert(id, now);
        }
        unproven.ask_at = now + INTERVAL;
        let is_asked = unproven.exchange.is_some();
        if session.ike.answers_probes() {
            self.ask(id, now);
            return;
        }
        let first = session.held.children.first().copied();
        let begun: Vec<u32> = session.ike.own_exchanges();
        if let Some(child) = first.filter(|_| !is_asked) {
            self.rekey_child(child, now);
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            // An earlier exchange was sent to the peer's former address.
            let new = session
                .ike
                .own_exchanges()
                .into_iter()
                .find(|exchange| !begun.contains(exchange));
            if let (Some(unproven), Some(new)) = (session.unproven.as_mut(), new) {
                unproven.exchange = Some(new);
            }
        }
        self.arm_session(id);
    }

    /// Nobody answers at the new address. The old one may have had another encapsulation: an update
    /// of MOBIKE may leave port 500. Where no packet may go back, the new one is asked again.
    fn revert(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(unproven) = session.unproven.as_mut() else {
            return;
        };
        unproven.ask_at = now + PATIENCE;
        let proven = unproven.proven;
        session.liveness.start_over(now);
        let here = session.path();
        let back = match self.way_back(id, proven.remote.ip()) {
            Way::From(own) => Path {
                local: (own, proven.local.port()).into(),
                ..proven
            },
            Way::Unknown | Way::Nowhere => self.path_shown(id, proven),
        };
        match back == here {
            true => self.repeat_requests(id, now),
            false => self.relocate(id, back, 0, now),
        }
        self.arm_session(id);
    }

    /// The way of a mover to an address of its peer. It may be of the other family.
    fn way_back(&self, id: SessionId, remote: IpAddr) -> Way {
        let session = self.sessions.get(&id).filter(|it| it.ike.is_mover());
        let connection = session.and_then(|it| it.connection());
        connection.map_or(Way::Unknown, |it| self.ways.way_to(remote, &it.local_addrs))
    }
}
