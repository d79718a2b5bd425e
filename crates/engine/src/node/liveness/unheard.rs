//! Probing on demand (RFC 3706 §5.5): a station that sends but hears nothing probes its peer long
//! before its timer would. While it sends nothing, it needs no probe and no timer.
//!
//! The outbound plane reports the first packet after it was told to watch. A report of the inbound
//! plane says whether anything has come since. An unauthenticated hint (INVALID-SPI,
//! INVALID-COOKIE) makes the probe earlier. A hint in answer to the probe makes the gateway
//! authenticate again. Neither ends a tunnel.

use super::Liveness;
use crate::config::Start;
use crate::ikev1::in_clear::{InClear, Lost};
use crate::ikev1::message::Message;

use crate::node::session_id::SessionId;
use crate::node::{Event, Node};
use crate::plane::OutboundChange;
use crate::sa::{ChildId, Path};
use crate::time::{Duration, Instant};

/// A packet this long after the first one shows that we are still sending. A single packet does
/// not: the last packet of a conversation has no answer.
const GRACE: Duration = Duration::from_secs(1);
/// Time after the first packet until the check whether the peer was heard; later packets are
/// watched from then on.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// A packet without an answer says nothing about packets this much later.
const FORGOTTEN: Duration = Duration::from_secs(10);
/// Unauthenticated hints cause a probe at most this often.
const HINT_INTERVAL: Duration = Duration::from_secs(10);

/// A station's packets while its peer was silent.
#[derive(Default)]
pub(super) struct Unheard {
    /// The first packet after which nothing was heard.
    since: Option<Instant>,
    /// More packets followed.
    is_repeated: bool,
    pub(super) look_at: Option<Instant>,
    /// The next report is evaluated.
    is_looking: bool,
    /// When a hint last caused a probe.
    hinted_at: Option<Instant>,
    /// When a hint in answer to a probe was last followed.
    answered_at: Option<Instant>,
}

impl Liveness {
    /// Whether a station would set up its session again, which starts as `start` says; with
    /// `start = "on-traffic"`, only if packets have no answer.
    fn is_wanted(&self, start: Option<Start>) -> bool {
        let unheard = self.unheard.as_deref();
        matches!(start, Some(Start::AtOnce | Start::OnCommand))
            || unheard.is_some_and(|it| it.since.is_some())
    }
}

impl Node {
    /// Makes the outbound plane report the next packet of every child of a station's session that
    /// may probe its peer.
    pub(in crate::node) fn watch(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if session.liveness.ask_at.is_none() {
            return;
        }
        let children = session.held.children.clone();
        session.liveness.unheard.get_or_insert_default();
        for child in children {
            self.outputs.outbound(OutboundChange::Watch(child, now));
        }
    }

    /// A watched packet has left.
    pub(in crate::node) fn outbound_used(&mut self, child: ChildId, at: Instant) {
        let id = self.children.get(&child).and_then(|child| child.session);
        let Some(session) = id.and_then(|id| self.sessions.get_mut(&id)) else {
            return;
        };
        let patience = session.patience();
        let Some(unheard) = &mut session.liveness.unheard else {
            return;
        };
        let again = match unheard.since {
            Some(since) if at.since(since) < GRACE => Some(since + GRACE),
            Some(since) if at.since(since) < FORGOTTEN => {
                unheard.is_repeated = true;
                unheard.look_at = Some((since + patience).max(at + GRACE));
                None
            }
            _ => {
                unheard.since = Some(at);
                unheard.is_repeated = false;
                unheard.look_at = Some(at + LOOK_INTERVAL.min(patience));
                Some(at + GRACE)
            }
        };
        if let Some(from) = again {
            self.outputs.outbound(OutboundChange::Watch(child, from));
        }
        if let Some(id) = id {
            self.arm_session(id);
        }
    }

    /// Requests a report if it is time to know.
    pub(super) fn look(&mut self, id: SessionId, now: Instant) {
        let session = self.sessions.get_mut(&id);
        let Some(unheard) = session.and_then(|session| session.liveness.unheard.as_mut()) else {
            return;
        };
        if unheard.look_at.take_if(|at| *at <= now).is_none() {
            return;
        }
        unheard.is_looking = true;
        self.want_report();
    }

    /// Evaluates a report for every station that waited for it.
    pub(super) fn judge(&mut self, now: Instant) {
        let sessions = self.stations.sessions();
        for id in sessions.collect::<Vec<_>>() {
            self.judge_one(id, now);
        }
    }

    fn judge_one(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let patience = session.patience();
        let liveness = &mut session.liveness;
        let last_sign = liveness.last_sign;
        let is_asking = liveness.unanswered_since.is_some();
        let Some(unheard) = &mut liveness.unheard else {
            return;
        };
        let is_looking = core::mem::take(&mut unheard.is_looking);
        let Some(since) = unheard.since.filter(|_| is_looking) else {
            return;
        };
        if last_sign >= since {
            unheard.since = None;
            return self.watch(id, now);
        }
        if !unheard.is_repeated {
            return;
        }
        let is_time = now.since(since) >= patience;
        unheard.look_at = Some(match is_time {
            true => now + LOOK_INTERVAL,
            false => since + patience,
        });
        if is_time && !is_asking {
            self.ask(id, now);
        }
        self.arm_session(id);
    }

    /// The session of a station whose peer is at the other end of this path.
    pub(in crate::node) fn station_session_at(&self, path: Path) -> Option<SessionId> {
        let is_there = |id: &SessionId| self.sessions.get(id).is_some_and(|it| it.path() == path);
        self.stations.sessions().find(is_there)
    }

    /// An unencrypted message for no exchange of ours, or for one that is over. Anybody can send
    /// it, so the peer is probed. If it answers our probe with our own cookies, its sender can read
    /// our messages: the gateway must authenticate again, while the tunnel stays.
    pub(in crate::node) fn on_hint(&mut self, path: Path, message: &Message<'_>, now: Instant) {
        let Some(id) = self.station_session_at(path) else {
            return;
        };
        let said = InClear::read(message);
        let lost = said.as_ref().ok().and_then(InClear::lost);
        let (Ok(said), Some(lost), Some(session)) = (said, lost, self.sessions.get(&id)) else {
            return;
        };
        let is_ours = session.ike.is_established() && said.spis() == session.ike.spis();
        let is_asking = session.liveness.unanswered_since.is_some();
        if !is_asking {
            return self.ask_hinted(id, &lost.name(), now);
        }
        let start = session.connection().map(|it| it.start);
        let is_wanted = session.liveness.is_wanted(start);
        if is_ours && is_wanted && lost == Lost::Ike && self.takes_hint(id, true, now) {
            let complaint = "it does not know the tunnel (without proof): asking it for proof";
            self.tell_hint(id, complaint.to_owned());
            self.race_tunnel(id, now);
        }
    }

    /// An unauthenticated message says that the peer has lost the tunnel: probes the peer.
    pub(in crate::node) fn ask_hinted(&mut self, id: SessionId, hint: &str, now: Instant) {
        let session = self.sessions.get(&id);
        let is_asking = session.is_some_and(|it| it.liveness.unanswered_since.is_some());
        if !is_asking && self.takes_hint(id, false, now) {
            self.tell_hint(id, format!("{hint} (without proof): probing it"));
            self.ask(id, now);
        }
    }

    /// Whether a hint counts: one of each sort in [`HINT_INTERVAL`] does.
    fn takes_hint(&mut self, id: SessionId, is_answer: bool, now: Instant) -> bool {
        let session = self.sessions.get_mut(&id);
        let Some(unheard) = session.and_then(|it| it.liveness.unheard.as_mut()) else {
            return false;
        };
        let last = match is_answer {
            true => &mut unheard.answered_at,
            false => &mut unheard.hinted_at,
        };
        let is_due = last.is_none_or(|at| now.since(at) >= HINT_INTERVAL);
        if is_due {
            *last = Some(now);
        }
        is_due
    }

    fn tell_hint(&mut self, id: SessionId, complaint: String) {
        if let Some(session) = self.sessions.get(&id) {
            let connection = session.connection_name();
            let path = session.path();
            self.outputs.tell(Event::PeerComplains {
                connection,
                path,
                complaint,
                is_proven: false,
            });
        }
    }
}
