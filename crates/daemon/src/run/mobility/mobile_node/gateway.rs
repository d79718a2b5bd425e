//! The way home through a VPN gateway (RFC 5266): a tunnel of IKEv2 outside, whose inner address is
//! the care-of address, and none inside. The node of IKE moves the tunnel by itself (MOBIKE), so a
//! move outside needs no registration. With a home agent outside (`outside.rs`), the tunnel begins
//! at an address that never moves (RFC 5265).
//!
//! On a link without an address, with a home agent outside, the tunnel stays: a foreign agent there
//! may lead to that home agent. Where the home agent inside is heard, or a foreign agent that has a
//! key with the node, the node asks through that one first, once on each link.
//!
//! Left out: a network outside that looks like home. There the node asks in clear alone, and is not
//! reached.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use engine::mip4::mobile_node::Attachment;
use engine::time::{Duration, Instant};
use tracing::info;

use super::MobileNodePart;
use super::links::TRIAL;
use super::outside::Outer;
use crate::run::mobility::look::Link;
use crate::run::mobility::{Common, Effect};

/// How long a link without an address may have none, before a foreign agent is looked for: DHCP
/// takes a moment, and the registration through the tunnel would be lost.
const BARE_SPAN: Duration = Duration::from_secs(3);

/// What is known of the way.
#[derive(Default)]
pub(super) struct Way {
    /// The tunnel's inner address, while it is up.
    inner: Option<Ipv4Addr>,
    /// A NAT is between the tunnel's ends.
    is_natted: bool,
    /// Whether the node of IKE was told to bring it up.
    is_wanted: bool,
    /// The link has no address: until when one is waited for.
    bare_until: Option<Instant>,
    /// An agent was heard on this link that may be inside: until when it has to prove that.
    trial: Option<Instant>,
    /// Those that were tried on this link.
    tried: BTreeSet<Ipv4Addr>,
}

impl Way {
    /// The node of IKE may have forgotten what it was told.
    pub(super) fn forget(&mut self) {
        self.is_wanted = false;
    }

    /// Whether the tunnel is wanted.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    pub(super) fn bare_until(&self) -> Option<Instant> {
        self.bare_until
    }

    /// Until when an agent has to prove that it is inside.
    pub(super) fn trial(&self) -> Option<Instant> {
        self.trial
    }

    /// Whether a NAT is between the tunnel's ends.
    pub(super) fn is_natted(&self) -> bool {
        self.is_natted
    }

    /// Whether the tunnel is up.
    pub(super) fn is_open(&self) -> bool {
        self.inner.is_some()
    }
}

impl MobileNodePart {
    pub(in crate::run::mobility) fn connection(&self) -> Option<&str> {
        let gateway = self.setup.gateway.as_ref();
        gateway.map(|it| &*it.connection)
    }

    /// The tunnel has come or gone. What comes out of it needs the address on the tunnel device
    /// first.
    pub(super) fn follow_tunnel(
        &mut self,
        inner: Option<Ipv4Addr>,
        is_natted: bool,
        common: &mut Common,
    ) {
        self.gateway.is_natted = is_natted;
        if self.gateway.inner == inner {
            return;
        }
        self.gateway.inner = inner;
        if inner.is_some() {
            self.has_address = false;
            common.effects.push_back(Effect::Host);
        }
    }

    /// Wants the tunnel while nothing proves that the node is inside, and goes through it when it
    /// is up. Meanwhile the home agent is asked in clear (RFC 5265 §3.3).
    pub(super) fn pass_gateway(&mut self, common: &mut Common, now: Instant) {
        if self.setup.gateway.is_none() {
            return;
        }
        let own = match self.seen {
            Some(Link::Address(_, own)) => Some(own),
            _ => None,
        };
        let is_inside = self.node.is_proven_inside();
        let outer = self.outer.as_ref();
        let may_begin = match outer {
            Some(outer) => self.place_outside().is_some() && outer.is_led(),
            None => own.is_some(),
        };
        let is_wanted = !is_inside && (may_begin || self.gateway.is_wanted);
        if self.gateway.is_wanted != is_wanted {
            self.gateway.is_wanted = is_wanted;
            if outer.is_some() {
                common.effects.push_back(Effect::Host);
            }
            info!(
                "{}",
                if is_wanted {
                    "outside, or not known to be inside"
                } else {
                    "inside"
                }
            );
            common.effects.push_back(Effect::Connect(is_wanted));
        }
        if self.gateway.bare_until.is_some_and(|until| until <= now) {
            self.gateway.bare_until = None;
            self.node.attach(Attachment::Visiting, now);
        }
        self.gateway.trial.take_if(|until| *until <= now);
        let is_by_agent = self.outer.as_ref().and_then(Outer::agent).is_some();
        let is_secured = self.node.secured().is_some();
        match (own, self.gateway.inner) {
            (Some(own), Some(inner)) if !is_inside => {
                self.node.attach(Attachment::Secured(inner), now);
                self.node.probe(Some(own), now);
            }
            (None, Some(inner)) if !is_inside && is_by_agent && self.gateway.trial.is_none() => {
                self.node.attach(Attachment::Secured(inner), now);
            }
            (Some(own), None) if is_secured => {
                self.node.attach(Attachment::Colocated(own), now);
            }
            (None, None) if is_secured => {
                let attachment = match self.link {
                    Some(_) => Attachment::Visiting,
                    None => Attachment::Detached,
                };
                self.node.attach(attachment, now);
            }
            _ => {}
        }
    }

    /// To what the node is attached on another link. While the tunnel is up it stays behind the
    /// gateway: on the next address the tunnel follows, and nothing else changes.
    pub(super) fn through_gateway(&mut self, attachment: Attachment, now: Instant) -> Attachment {
        self.gateway.bare_until = None;
        self.gateway.trial = None;
        self.gateway.tried.clear();
        self.outer.iter_mut().for_each(Outer::lose);
        let secured = self.node.secured().filter(|_| self.gateway.is_open());
        let Some(inner) = secured else {
            return attachment;
        };
        match attachment {
            Attachment::Home | Attachment::Secured(_) => return attachment,
            Attachment::Visiting if self.outer.is_some() => {}
            Attachment::Visiting => self.gateway.bare_until = Some(now + BARE_SPAN),
            Attachment::Detached | Attachment::Colocated(_) => {}
        }
        self.node.probe(None, now);
        Attachment::Secured(inner)
    }

    /// An agent is heard on a link without an address. Anybody can advertise, so what the tunnel
    /// carries waits for one of ours for a while only.
    pub(super) fn try_agent(&mut self, agent: Ipv4Addr, now: Instant) {
        let config = &self.setup.config;
        let is_ours = agent == config.home_agent || config.foreign_agents.contains_key(&agent);
        let is_bare = self.place_outside() == Some(Attachment::Visiting);
        if !is_ours || !is_bare || self.outer.is_none() || !self.gateway.tried.insert(agent) {
            return;
        }
        self.gateway.trial = Some(now + TRIAL);
        if self.node.secured().is_some() {
            self.node.attach(Attachment::Visiting, now);
        }
    }
}
