//! The way home through a VPN gateway (RFC 5266): a tunnel of IKEv2 outside, whose inner address is
//! the care-of address, and none inside. The node of IKE moves the tunnel by itself (MOBIKE), so a
//! move outside needs no registration. With a home agent outside (`outside.rs`), the tunnel begins
//! at an address that never moves (RFC 5265). What happens when is in `engine::mip4::detection`.

use std::net::Ipv4Addr;

use engine::mip4::detection::{Detection, Hearing, Outside, View};
use engine::mip4::mobile_node::Attachment;
use engine::time::{Deadline, Instant};
use tracing::info;

use super::MobileNodePart;
use super::outside::Outer;
use crate::config::MobileSetup;
use crate::run::mobility::look::Link;
use crate::run::mobility::{Common, Effect};

/// What is known of the way.
pub(super) struct Way {
    detection: Detection,
    /// A NAT is between the tunnel's ends.
    is_natted: bool,
}

impl Way {
    pub(super) fn new(setup: &MobileSetup) -> Self {
        Self {
            detection: Detection::new(agents(setup)),
            is_natted: false,
        }
    }

    /// The configuration has changed.
    pub(super) fn configure(&mut self, setup: &MobileSetup) {
        self.detection.configure(agents(setup));
    }

    /// The node of IKE may have forgotten what it was told.
    pub(super) fn forget(&mut self) {
        self.detection.forget();
    }

    /// Whether the tunnel is wanted.
    pub(super) fn is_wanted(&self) -> bool {
        self.detection.is_wanted()
    }

    /// Whether it is up.
    pub(super) fn is_open(&self) -> bool {
        self.detection.is_open()
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.detection.deadline()
    }

    /// Whether a NAT is between the tunnel's ends.
    pub(super) fn is_natted(&self) -> bool {
        self.is_natted
    }
}

/// Those that may be inside.
fn agents(setup: &MobileSetup) -> impl Iterator<Item = Ipv4Addr> {
    let config = &setup.config;
    let foreign = config.foreign_agents.keys().copied();
    foreign.chain([config.home_agent])
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
        if self.gateway.detection.follow_tunnel(inner) && inner.is_some() {
            self.has_address = false;
            common.effects.push_back(Effect::Host);
        }
    }

    /// Wants the tunnel while nothing proves that the node is inside, and goes through it when it
    /// is up. Meanwhile the home agent is asked in clear (RFC 5265 §3.3).
    pub(super) fn pass_gateway(&mut self, common: &mut Common, now: Instant) {
        if self.setup.gateway.is_none() || self.is_ending {
            return;
        }
        let step = self.gateway.detection.step(&self.view(), now);
        if let Some(is_wanted) = step.connect {
            if self.outer.is_some() {
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
        if let Some(attachment) = step.attach {
            // What was heard of home is not true.
            self.home_heard = None;
            self.node.attach(attachment, now);
        }
        if step.ask_from.is_some() {
            self.node.probe(step.ask_from, now);
        }
    }

    /// To what the node is attached on another link.
    pub(super) fn through_gateway(&mut self, found: Attachment, now: Instant) -> Attachment {
        self.outer.iter_mut().for_each(Outer::lose);
        let attachment = self.gateway.detection.come(found, &self.view(), now);
        if matches!(attachment, Attachment::Secured(_)) {
            self.node.probe(None, now);
        }
        attachment
    }

    /// An agent that serves is heard. Whether the node may hear it: one of ours may prove that this
    /// is inside, and is tried once.
    pub(super) fn may_hear(&mut self, agent: Ipv4Addr, now: Instant) -> bool {
        match self.gateway.detection.hear(agent, &self.view(), now) {
            Hearing::Believe => {}
            Hearing::Try => {
                self.node.attach(Attachment::Detached, now);
                self.node.attach(Attachment::Visiting, now);
            }
            Hearing::Doubt => return false,
        }
        true
    }

    /// What the node sees.
    fn view(&self) -> View {
        View {
            place: self.place_outside(),
            has_link: self.link.is_some(),
            is_inside: self.node.is_proven_inside(),
            is_secured: self.node.secured().is_some(),
            outside: self.outer.as_ref().map_or(Outside::None, Outer::reach),
        }
    }

    /// How the node is on its link, as far as that leads to somebody outside.
    pub(super) fn place_outside(&self) -> Option<Attachment> {
        let found = match self.seen? {
            Link::Address(_, own) => Attachment::Colocated(own),
            it if it.has_no_address() => Attachment::Visiting,
            _ => Attachment::Home,
        };
        self.gateway.detection.place(found, self.node.attachment())
    }
}
