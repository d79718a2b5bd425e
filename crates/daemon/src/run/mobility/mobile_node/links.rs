//! On which of its links a mobile node is, and whether that is home.

use std::net::Ipv4Addr;

use engine::mip4::detection::TRIAL;
use engine::mip4::mobile_node::Attachment;
use engine::site::is_unicast;
use engine::time::{Duration, Instant};
use nix::net::if_::if_nametoindex;
use tracing::{info, warn};
use wire::mip4::{AgentAdvertisement, AgentFlags};

use super::outside::Outer;
use super::{AGENTS_MAX, MobileNodePart};
use crate::ether::{self, Heard, Mac};
use crate::routes::leaves_by;
use crate::run::mobility::look::{self, Link};
use crate::run::mobility::{Common, Effect};

/// How long nobody is believed to be the home agent where it has not answered.
const DOUBT: Duration = Duration::from_secs(60);

/// How far apart the host follows new addresses of an agent on the link.
const MACS_APART: Duration = Duration::from_secs(1);
/// How long an advertisement of the home agent holds, at most (RFC 1256 §4.1).
const HEARD_MAX: Duration = Duration::from_secs(9_000);

impl MobileNodePart {
    /// Interfaces may have come, such as a modem that was plugged in.
    pub(super) fn find_links(&mut self, common: &mut Common) {
        for link in &mut common.links {
            if let Err(error) = link.follow() {
                warn!("cannot listen on the interface {}: {error}", link.name());
            }
        }
        let links = common.links.iter().filter_map(ether::Link::index).collect();
        if links != self.links {
            self.links = links;
            common.effects.push_back(Effect::Host);
        }
    }

    /// Looks at the interfaces, and tells the machine when the node has moved.
    pub(super) fn look(&mut self, now: Instant) {
        let mut interfaces = look::interfaces(&self.setup.interfaces);
        // With one interface there is no choice.
        if interfaces.len() > 1 {
            for (interface, name) in interfaces.iter_mut().zip(&self.setup.interfaces) {
                let own = interface.foreign(&self.setup);
                interface.is_dead = own.is_some_and(|own| !self.leaves_by(own, name));
            }
        }
        let home = self.setup.config.home_address;
        self.is_given = interfaces.iter().any(|it| it.addresses.contains(&home));
        let losses: Vec<_> = interfaces.iter().map(|it| it.losses).collect();
        let was_lost = self.link.is_some_and(|it| {
            let (before, now) = (self.losses[it], losses[it]);
            before.is_some() && now.is_some() && before != now
        });
        if let Some((doubted, before, until)) = self.doubted
            && (losses[doubted] != before || until <= now)
        {
            self.doubted = None;
        }
        self.losses = losses;
        if was_lost {
            // It may be back by now, and lead elsewhere.
            self.follow(Link::None, now);
        }
        let heard = self.home_heard.map(|(number, _)| number);
        self.follow(look::best(&self.setup, &interfaces, heard), now);
    }

    /// Whether requests from this address of an interface leave by it.
    fn leaves_by(&self, own: Ipv4Addr, interface: &str) -> bool {
        let to = match &self.setup.firewall {
            Some(it) if it.machine.is_none() || self.node.is_outside(own) => it.first.outside,
            _ => {
                let gateway = self.setup.gateway.as_ref();
                let gateway = gateway.and_then(|it| it.addresses.first().copied());
                let outside = self.setup.outside().map(|it| it.home_agent);
                outside.or(gateway).unwrap_or(self.setup.config.home_agent)
            }
        };
        let index = if_nametoindex(interface).ok();
        index.is_some() && leaves_by(own, to, self.mark) == index
    }

    fn follow(&mut self, found: Link, now: Instant) {
        let (link, attachment) = match found {
            Link::None => (None, Attachment::Detached),
            Link::AtHome(link) => (Some(link), Attachment::Home),
            Link::Heard(link) => (Some(link), Attachment::Home),
            Link::Address(link, own) => (Some(link), Attachment::Colocated(own)),
            Link::HomeAddress(link) | Link::Bare(link) => {
                let is_first = self.seen.is_none() && matches!(found, Link::HomeAddress(_));
                // The home address comes and goes with us: it says nothing later on.
                let stays = self.is_at_home && self.link == Some(link);
                match is_first || stays {
                    true => (Some(link), Attachment::Home),
                    false => (Some(link), Attachment::Visiting),
                }
            }
        };
        let is_same = link == self.link
            && match (self.seen, found) {
                (Some(before), found) if before.has_no_address() && found.has_no_address() => true,
                (seen, found) => seen == Some(found),
            };
        let has_come = matches!(found, Link::HomeAddress(_)) && self.seen != Some(found);
        // Once on a link: who gives it again and again proves nothing.
        if !is_same || has_come && !core::mem::replace(&mut self.was_given, true) {
            let may_be_home = link.is_none() || found.has_no_address();
            self.arrival = may_be_home.then_some(now + TRIAL);
            self.was_given &= is_same;
        }
        self.seen = Some(found);
        if is_same {
            return;
        }
        info!(
            interface = link.map(|it| &*self.setup.interfaces[it]),
            "{}",
            words(attachment)
        );
        if self.link != link {
            self.macs.clear();
        }
        let is_trial = matches!(found, Link::Heard(_)) && self.link.is_some();
        self.trial = is_trial.then_some(now + TRIAL);
        let before = core::mem::replace(&mut self.link, link);
        self.denied = None;
        self.begin_to_wait(now);
        self.home_heard.take_if(|(number, _)| Some(*number) != link);
        if attachment != Attachment::Home {
            self.is_at_home = false;
        }
        let is_other = self.link != before;
        let attachment = self.through_gateway(attachment, now);
        if is_other && attachment == Attachment::Visiting {
            // Agents of the former link are none of this one.
            self.node.attach(Attachment::Detached, now);
        }
        self.node.attach(attachment, now);
    }

    /// The home agent has fallen silent: this is another link.
    fn lose_home(&mut self, now: Instant) {
        self.home_heard = None;
        if self.node.attachment() != Attachment::Home {
            return;
        }
        let attachment = match self.seen {
            Some(Link::Address(_, own)) => Attachment::Colocated(own),
            Some(link) if link.has_no_address() => Attachment::Visiting,
            _ => return,
        };
        self.is_at_home = false;
        self.arrival = None;
        self.node.attach(attachment, now);
        // Another interface may have an address.
        self.look(now);
    }

    /// What is only believed for a time has proved itself or not.
    pub(super) fn doubt_in_time(&mut self, common: &mut Common, now: Instant) {
        if self.trial.is_some_and(|until| until <= now) {
            self.doubt(now);
        }
        if self.home_heard.is_some_and(|(_, until)| until <= now) {
            self.lose_home(now);
        }
        if self.arrival.take_if(|until| *until <= now).is_some() {
            common.effects.push_back(Effect::Host);
        }
    }

    /// Whether whoever advertised as the home agent on this interface has not answered there.
    fn is_doubted(&self, number: usize, now: Instant) -> bool {
        let mut doubted = self.doubted.into_iter();
        doubted.any(|(link, _, until)| link == number && now < until)
    }

    /// The home agent was heard on this link and does not answer there: anybody can advertise.
    fn doubt(&mut self, now: Instant) {
        self.trial = None;
        if let Some(link) = self.link {
            info!(
                interface = self.setup.interfaces[link],
                "the home agent does not answer here"
            );
            self.doubted = Some((link, self.losses[link], now + DOUBT));
            self.lose_home(now);
        }
    }

    pub(super) fn hear(&mut self, number: usize, heard: &Heard, now: Instant) {
        if self.link != Some(number) {
            self.hear_elsewhere(number, heard, now);
            return;
        }
        match heard {
            Heard::Agent { from, icmp } => {
                if let Ok(Some(advertisement)) = AgentAdvertisement::parse(icmp) {
                    self.hear_agent((number, *from), (&advertisement, icmp), now);
                }
            }
            Heard::Registration { from, payload, .. } => {
                let outer = self.outer.iter_mut();
                outer.for_each(|it| it.hear_reply(*from, payload, now));
                if self.node.through() == Some(*from.ip()) {
                    self.node.handle(*from, payload, now);
                }
            }
            Heard::ArpRequest { .. } | Heard::Broadcast { .. } => {}
        }
    }

    /// An agent of the link is heard.
    fn hear_agent(
        &mut self,
        (number, (mac, address)): (usize, (Mac, Ipv4Addr)),
        (advertisement, icmp): (&AgentAdvertisement, &[u8]),
        now: Instant,
    ) {
        let config = &self.setup.config;
        let is_far = |outer: &Outer| outer.is_far(address);
        let is_host = is_unicast(&address.into()) && !address.is_link_local();
        let is_strange = !is_host || address == config.home_address;
        if is_strange || self.outer.as_ref().is_some_and(is_far) {
            return;
        }
        self.note_agent(address, mac);
        let agent = &advertisement.agent;
        let (is_home, is_home_agent) = (
            address == self.setup.config.home_agent,
            agent.flags.has(AgentFlags::HOME_AGENT),
        );
        let is_free = agent.flags.has(AgentFlags::FOREIGN_AGENT)
            && !agent.flags.has(AgentFlags::BUSY)
            && agent.registration_lifetime > 0;
        let serves = if is_home { is_home_agent } else { is_free };
        let is_silenced = is_home && !self.may_be_home(number, advertisement.lifetime, now);
        if !is_silenced && (!serves || self.may_hear(address, now)) {
            if is_home && is_home_agent {
                let span = Duration::from_secs(advertisement.lifetime.into());
                self.home_heard = Some((number, now + span.min(HEARD_MAX)));
                self.wait.other_agent = None;
            } else if is_home_agent && self.home_heard.is_none() {
                self.wait.other_agent = Some(address);
            }
            let before = self.node.attachment();
            self.node.hear(address, icmp, now);
            if self.node.attachment() == Attachment::Home && before != Attachment::Home {
                // Anybody can advertise: the home agent itself has to answer.
                self.trial = Some(now + TRIAL);
            }
        }
        if !is_home {
            let outer = self.outer.iter_mut();
            outer.for_each(|it| it.hear(address, icmp, now));
        }
    }

    /// Whether an advertisement of the home agent may say that this link is home: not where it has
    /// not answered, nor where another agent proves that the node is inside.
    fn may_be_home(&self, number: usize, lifetime_s: u16, now: Instant) -> bool {
        let is_elsewhere = self.node.is_proven_inside() && self.node.through().is_some();
        lifetime_s > 0 && !is_elsewhere && !self.is_doubted(number, now)
    }

    /// Keeps where an agent is on the link. Of too many, those in use are kept.
    fn note_agent(&mut self, address: Ipv4Addr, mac: Mac) {
        let in_use = [
            self.node.through(),
            self.outer.as_ref().and_then(Outer::through),
        ];
        if self.macs.len() >= AGENTS_MAX && !self.macs.contains_key(&address) {
            let mut all = self.macs.keys().copied();
            if let Some(other) = all.find(|it| !in_use.contains(&Some(*it))) {
                self.macs.remove(&other);
            }
        }
        let former = self.macs.insert(address, mac);
        let is_other = former.is_some_and(|former| former != mac);
        self.has_new_mac |= is_other && in_use.contains(&Some(address));
    }

    /// The host follows an agent that has another address on the link; not each of two that claim
    /// to be the same.
    pub(super) fn tell_mac(&mut self, common: &mut Common, now: Instant) {
        if self.mac_due().is_some_and(|at| at <= now) {
            self.has_new_mac = false;
            self.mac_told = Some(now);
            common.effects.push_back(Effect::Host);
        }
    }

    /// When it follows next.
    pub(super) fn mac_due(&self) -> Option<Instant> {
        let earliest = self.mac_told.map_or(Instant(0), |at| at + MACS_APART);
        self.has_new_mac.then_some(earliest)
    }

    /// An interface that is not in use, but preferred to the one that is, may be at home.
    fn hear_elsewhere(&mut self, number: usize, heard: &Heard, now: Instant) {
        let Heard::Agent { from, icmp } = heard else {
            return;
        };
        let Ok(Some(advertisement)) = AgentAdvertisement::parse(icmp) else {
            return;
        };
        let is_doubted = self.is_doubted(number, now);
        let is_preferred = self.link.is_none_or(|link| number < link);
        let is_home = advertisement.agent.flags.has(AgentFlags::HOME_AGENT)
            && advertisement.lifetime > 0
            && from.1 == self.setup.config.home_agent;
        if is_home && is_preferred && !is_doubted {
            let span = Duration::from_secs(advertisement.lifetime.into());
            self.home_heard = Some((number, now + span.min(HEARD_MAX)));
            self.look(now);
        }
    }
}

/// Where the node is, for the log.
fn words(attachment: Attachment) -> String {
    match attachment {
        Attachment::Detached => "no interface has a link".to_owned(),
        Attachment::Home => "attached at home".to_owned(),
        Attachment::Colocated(own) => format!("attached elsewhere, with the address {own}"),
        Attachment::Secured(inner) => format!("attached through the VPN gateway, as {inner}"),
        Attachment::Visiting => {
            "attached elsewhere, without an address: a foreign agent is needed".to_owned()
        }
    }
}
