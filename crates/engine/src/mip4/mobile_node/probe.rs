//! Whether a link is inside, asked in clear beside a registration through a VPN gateway (RFC 5265
//! §3.3). The registration holds until the answer proves it.

use core::mem;
use std::net::{Ipv4Addr, SocketAddrV4};

use wire::mip4::{Code, Located, PORT, Reply, Request};

use super::registration::{Pending, says_trusted};
use super::{Attachment, INTERVAL_MIN, MobileNode, Output};
use crate::mip4::identification::answers;
use crate::time::{Duration, Instant};

/// The longest time between two questions: the gateway may be on the way no more.
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// A question that is repeated until it is answered.
pub(super) struct Probe {
    care_of: Ipv4Addr,
    /// As it was asked last, and when.
    asked: Option<(Request, Instant)>,
    interval: Duration,
    pub(super) due: Instant,
}

impl MobileNode {
    /// Asks the home agent in clear from this address of the node's link, besides the registration
    /// through a VPN gateway. If the answer proves that the node is inside, it is attached there,
    /// and registered. `None`: asks no more.
    pub fn probe(&mut self, care_of: Option<Ipv4Addr>, now: Instant) {
        let care_of = care_of.filter(|_| self.secured().is_some());
        if care_of == self.probe.as_ref().map(|it| it.care_of) {
            return;
        }
        self.probe = care_of.map(|care_of| Probe {
            care_of,
            asked: None,
            interval: INTERVAL_MIN,
            due: now,
        });
        self.ask_in_clear(now);
    }

    /// The last question did not leave this host, and perhaps it can now.
    pub(super) fn probe_again(&mut self, now: Instant) {
        if let Some(probe) = &mut self.probe {
            probe.interval = INTERVAL_MIN;
            probe.due = now;
            self.ask_in_clear(now);
        }
    }

    pub(super) fn ask_in_clear(&mut self, now: Instant) {
        let Some(mut probe) = self.probe.take() else {
            return;
        };
        let there = Attachment::Colocated(probe.care_of);
        let attachment = mem::replace(&mut self.attachment, there);
        if let Some(request) = self.request(now) {
            let payload = self.signed(&request, now);
            self.outputs.push_back(Output::Send {
                from: probe.care_of,
                to: SocketAddrV4::new(self.config.home_agent, PORT),
                ttl: None,
                firewall: None,
                payload,
            });
            probe.asked = Some((request, now));
        }
        self.attachment = attachment;
        probe.due = now + probe.interval;
        probe.interval = (probe.interval * 2).min(INTERVAL_MAX);
        self.probe = Some(probe);
    }

    /// Whether a reply answers the question in clear.
    pub(super) fn is_answer_in_clear(&self, reply: &Reply, from: Ipv4Addr) -> bool {
        let asked = self.probe.as_ref().and_then(|it| it.asked.as_ref());
        asked.is_some_and(|(request, _)| {
            let is_ours = request.home_address == reply.home_address;
            // Two requests may be at the same fraction of a second. An accepted one gets its own
            // time.
            let is_its = match reply.code.is_accepted() {
                true => request.identification == reply.identification,
                false => answers(request.identification, reply.identification),
            };
            is_ours && is_its && from == self.config.home_agent
        })
    }

    /// The answer to the question in clear.
    pub(super) fn hear_in_clear(
        &mut self,
        reply: &Reply,
        payload: &[u8],
        list: &[Located],
        now: Instant,
    ) {
        if !self.is_authentic(reply, payload, list) {
            self.ignored.unauthenticated += 1;
            return;
        }
        let Some(mut probe) = self.probe.take() else {
            return;
        };
        let Some((request, sent)) = probe.asked.take() else {
            return;
        };
        let is_accepted = reply.code.is_accepted() && reply.lifetime > 0;
        if is_accepted && says_trusted(list) {
            self.attachment = Attachment::Colocated(probe.care_of);
            self.pending = None;
            self.accept(&Pending::of(request, sent), reply, list);
            return;
        }
        if is_accepted {
            // It sends to that address now, in clear.
            self.ignored.untrusted += 1;
            probe.interval = INTERVAL_MAX;
            probe.due = now + INTERVAL_MAX;
            self.register(now);
        } else if reply.code == Code::IdentificationMismatch {
            self.identifier.learn(reply.identification, true);
            probe.interval = INTERVAL_MIN;
            probe.due = (sent + INTERVAL_MIN).max(now);
        }
        self.probe = Some(probe);
    }
}
