//! Whether a link is inside, asked in clear beside a registration through a VPN gateway (RFC 5265
//! §3.3). The registration holds until the answer proves it.
//!
//! RFC 5265 asks by a registration. Its home agent would send to the link's address at once, also
//! where it says nothing about the node's place.

use core::mem;
use std::net::{Ipv4Addr, SocketAddrV4};

use wire::mip4::{Code, Located, PORT, Reply, Request};

use super::registration::{Pending, says_trusted};
use super::{Attachment, INTERVAL_MIN, MobileNode, Output};
use crate::time::{Duration, Instant};

/// The longest time between two questions: the gateway may be on the way no more.
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// A question that is repeated until the answer proves that the node is inside.
pub(super) struct Probe {
    care_of: Ipv4Addr,
    /// The last answer proves it: what is asked next is a registration.
    is_inside: bool,
    /// As it was asked last, and when.
    asked: Option<(Request, Instant)>,
    interval: Duration,
    pub(super) due: Instant,
}

impl MobileNode {
    /// Asks the home agent in clear from this address of the node's link, besides the registration
    /// through a VPN gateway. If the answer proves that the node is inside, it is registered and
    /// attached there. `None`: asks no more. So does the tunnel's own address, which a network
    /// outside may give the node: what is asked from there goes through the tunnel.
    pub fn probe(&mut self, care_of: Option<Ipv4Addr>, now: Instant) {
        let inner = self.secured();
        let care_of = care_of.filter(|own| inner.is_some_and(|inner| inner != *own));
        if care_of == self.probe.as_ref().map(|it| it.care_of) {
            return;
        }
        self.probe = care_of.map(|care_of| Probe {
            care_of,
            is_inside: false,
            asked: None,
            interval: INTERVAL_MIN,
            due: now,
        });
        self.ask_in_clear(now);
    }

    /// Whether the next request only asks if the node is inside. Until that is proven, nothing
    /// leads its packets to an address of the link, where they would come in clear, or to somebody
    /// who has passed the request on.
    pub(super) fn must_ask_first(&self) -> bool {
        let is_in_clear = self.config.monitor.is_some() && self.colocated().is_some();
        is_in_clear && self.through.is_none() && !self.is_leaving && !self.is_proven_inside()
    }

    /// The question: to end a binding to the node's own address. There is none, so nothing
    /// changes, but the reply says where the node is.
    pub(super) fn question(&mut self, now: Instant) -> Option<Request> {
        let request = self.request(now)?;
        Some(Request {
            lifetime: 0,
            ..request
        })
    }

    /// The last question did not leave this host, and perhaps it can now.
    pub(super) fn probe_again(&mut self, now: Instant) {
        if let Some(probe) = &mut self.probe {
            probe.interval = INTERVAL_MIN;
            probe.due = now;
            self.ask_in_clear(now);
        }
    }

    /// Asks, or registers if the last answer proves that the node is inside.
    pub(super) fn ask_in_clear(&mut self, now: Instant) {
        // A node that leaves asks no more.
        let Some(mut probe) = self.probe.take().filter(|_| !self.is_leaving) else {
            return;
        };
        let there = Attachment::Colocated(probe.care_of);
        let attachment = mem::replace(&mut self.attachment, there);
        let request = match mem::take(&mut probe.is_inside) {
            true => self.request(now),
            false => self.question(now),
        };
        if let Some(request) = request {
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
        let is_its = asked.is_some_and(|(request, _)| self.is_reply_to(request, reply));
        is_its && from == self.config.home_agent
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
        let is_question = request.lifetime == 0;
        let is_accepted = reply.code.is_accepted() && (is_question || reply.lifetime > 0);
        if is_accepted && says_trusted(list) {
            if is_question {
                probe.is_inside = true;
                probe.interval = INTERVAL_MIN;
                self.probe = Some(probe);
                self.ask_in_clear(now);
                return;
            }
            self.attachment = Attachment::Colocated(probe.care_of);
            self.pending = None;
            self.accept(&Pending::of(request, sent), reply, list);
            return;
        }
        if is_accepted {
            self.ignored.untrusted += 1;
            probe.interval = INTERVAL_MAX;
            probe.due = now + INTERVAL_MAX;
            if !is_question {
                // It sends to that address now, in clear.
                self.register(now);
            }
        } else if reply.code == Code::IdentificationMismatch {
            self.identifier.learn(reply.identification, true);
            probe.interval = INTERVAL_MIN;
            probe.due = (sent + INTERVAL_MIN).max(now);
        }
        self.probe = Some(probe);
    }
}
