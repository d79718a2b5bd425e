//! What a mobile node says of itself: for `status`, and for whoever waits until it is registered.

use std::net::{IpAddr, Ipv4Addr};

use engine::ike::{NotReached, Unreachable};
use engine::mip4::firewall::Side;
use engine::mip4::mobile_node::{Attachment, Ignored, State};
use engine::time::{Duration, Instant};
use tracing::warn;
use wire::mip4::Code;

use super::MobileNodePart;
use super::denials::refused;
use super::outside::Outer;
use crate::run::mobility::surroundings::{self, is_routed};
use crate::status::MobilityStatus;

/// How long a registration may take before the log says what is in the way: three requests.
const PATIENCE: Duration = Duration::from_secs(5);

/// A registration that does not come.
#[derive(Default)]
pub(super) struct Wait {
    /// When to look next at what is in the way.
    due: Option<Instant>,
    /// It has taken too long.
    is_long: bool,
    /// What the log has said of it.
    said: Option<String>,
    /// What had come before it.
    before: Ignored,
    /// What ICMP says about the home agent.
    pub(super) unreached: Option<Unreachable>,
    /// A home agent that is heard on this link and is not ours.
    pub(super) other_agent: Option<Ipv4Addr>,
}

impl Wait {
    /// It begins. This has come before.
    pub(super) fn new(before: Ignored, now: Instant) -> Self {
        Self {
            due: Some(now + PATIENCE),
            before,
            ..Self::default()
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }
}

impl MobileNodePart {
    pub(in crate::run::mobility) fn status(&self, now: Instant) -> MobilityStatus {
        let config = &self.setup.config;
        let state = self.node.state();
        let ignored = self.node.ignored();
        let counts = [
            ("malformed", ignored.malformed),
            ("unexpected", ignored.unexpected),
            ("unauthenticated", ignored.unauthenticated),
            ("stale", ignored.stale),
            ("untrusted", ignored.untrusted),
            (
                "outside-unauthenticated",
                self.outer.as_ref().map_or(0, Outer::unproven),
            ),
        ];
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        let mut status = MobilityStatus {
            role: "mobile node".to_owned(),
            state: Some(self.state_word(&state).to_owned()),
            interface: self.link.map(|link| self.setup.interfaces[link].clone()),
            home_address: Some(config.home_address),
            home_agent: Some(config.home_agent),
            refused: counts.map(|(why, count)| (why.to_owned(), count)).collect(),
            side: self.setup.has_outside().then(|| self.side().to_owned()),
            tunnel: self
                .connection()
                .filter(|_| self.layer.is_active())
                .map(str::to_owned),
            outside: self.outer.as_ref().map(Outer::status),
            filtered: self.is_filtered(),
            trouble: self.obstacle(now),
            ..MobilityStatus::default()
        };
        let firewall = self.setup.firewall.as_ref();
        status.firewall = firewall
            .filter(|_| self.layer.is_active())
            .map(|it| it.first.outside);
        if let State::Registered {
            tunnel, through, ..
        } = state
        {
            status.care_of = Some(tunnel.care_of);
            status.through = through;
            status.encapsulation = Some(tunnel.encapsulation.name().to_owned());
            status.udp = tunnel.udp;
            status.reverse = Some(tunnel.is_reverse);
            let end = self.node.end();
            status.left_s = end.map(|end| end.since(now).as_secs_f64());
        }
        status
    }

    /// Where it is, as far as it is proven.
    fn side(&self) -> &'static str {
        let firewall = self.setup.firewall.as_ref();
        let is_said = firewall.is_some_and(|it| it.side == Side::Outside);
        match (self.node.state(), self.is_outside()) {
            (State::Home, false) => "at home",
            (_, false) => "inside",
            (_, true) if self.layer.is_active() || is_said => "outside",
            (_, true) => "unknown",
        }
    }

    fn state_word(&self, state: &State) -> &'static str {
        let is_cut_off = self.outer.as_ref().is_some_and(Outer::is_cut_off);
        match (state, self.link) {
            (State::Home, _) => "at home",
            (State::Registered { .. }, _) if is_cut_off => "registering outside",
            (State::Registered { .. }, _) => "registered",
            (State::Unreachable, None) => "no link",
            (State::Unreachable, Some(_)) if self.is_at_home => "coming home",
            (State::Unreachable, Some(_)) => "registering",
        }
    }

    /// Once a registration has taken too long, the log says what is in the way, and again when that
    /// changes.
    pub(super) fn complain(&mut self, now: Instant) {
        if self.is_up() {
            self.wait = Wait::default();
            return;
        }
        let due = *self.wait.due.get_or_insert(now + PATIENCE);
        if due > now && self.denied.is_none() {
            return;
        }
        if due <= now {
            self.wait.due = Some(now + PATIENCE);
            self.wait.is_long = true;
        }
        let text = self.trouble();
        if self.wait.said.as_ref() != Some(&text) {
            warn!("not registered: {text}");
            self.wait.said = Some(text);
        }
    }

    /// What `status` says while it is not registered, or not with a home agent outside: then
    /// nothing comes through its tunnel.
    fn obstacle(&self, now: Instant) -> Option<String> {
        let is_known = self.link.is_none() || self.denied.is_some() || self.wait.is_long;
        let mut outer = self.outer.iter();
        let is_cut_off = outer.any(|it| it.is_cut_off_for(PATIENCE, now));
        (is_known && !self.is_up() || is_cut_off).then(|| self.trouble())
    }

    /// Why it is not registered, as far as it knows.
    pub(in crate::run::mobility) fn trouble(&self) -> String {
        let config = &self.setup.config;
        let agent = config.home_agent;
        let Some(link) = self.link else {
            return surroundings::no_link(&self.setup.interfaces);
        };
        let interface = &self.setup.interfaces[link];
        let outside = self.node.outside().and(self.setup.firewall.as_ref());
        let through = self.node.through();
        let peer = outside.map_or(agent, |it| it.first.outside);
        if let Some(text) = self.heard().reason(agent) {
            text
        } else if let Some(text) = self.gateway_trouble() {
            text
        } else if let (Some(through), Some(connection)) = (through, self.connection()) {
            format!(
                "nothing comes back through the foreign agent {through}. Only one inside takes the \
                 node past {connection}: outside, the link must give it an address (DHCP)"
            )
        } else if let Some(through) = through {
            format!(
                "nothing comes back through the foreign agent {through}: look at `caravan status` \
                 there, and at the home agent {agent}"
            )
        } else if self.node.colocated().is_none() && !self.is_at_home {
            format!("{interface} has no address, and no foreign agent is heard there")
        } else if let Some(other) = self.wait.other_agent.filter(|_| self.is_at_home) {
            format!(
                "the home agent {agent} does not answer on {interface}, but {other} advertises \
                 itself there as one: is `home_agent` right?"
            )
        } else if !is_routed(peer) {
            format!("this host has no route to {peer}")
        } else if outside.is_some() {
            format!(
                "nothing comes back from the firewall {peer}: look at `caravan status` there, and \
                 at the home agent; `caravan pki skip-check` compares the keys"
            )
        } else {
            self.silent_agent(interface)
        }
    }

    /// What was heard since it is not registered.
    fn heard(&self) -> Heard {
        let (before, now) = (self.wait.before, self.node.ignored());
        let is_in_clear = self.connection().is_some() && self.node.secured().is_none();
        Heard {
            denied: self.denied,
            is_untrusted: is_in_clear && now.untrusted > before.untrusted,
            is_unauthenticated: now.unauthenticated > before.unauthenticated,
        }
    }

    /// What is in the way outside, with a VPN gateway, where nothing is heard.
    fn gateway_trouble(&self) -> Option<String> {
        let connection = self.connection()?;
        let agent = self.setup.config.home_agent;
        let (place, outer) = (self.place_outside(), self.outer.as_ref());
        if let Some(text) = outer.filter(|_| place.is_some()).and_then(Outer::trouble) {
            let is_heard = outer.is_some_and(|it| it.through().is_some());
            return (place != Some(Attachment::Visiting) || is_heard).then_some(text);
        }
        if self.node.secured().is_some() {
            let is_natted = self.gateway.is_natted() && self.outer.is_some();
            return Some(silent_through(connection, agent, is_natted));
        }
        if outer.is_none() || place.is_none() {
            self.node.colocated()?;
        }
        Some(format!(
            "the home agent {agent} does not answer in clear, as it does inside, and {connection} \
             is not up: `caravan status {connection}` says why"
        ))
    }

    /// The home agent is asked in clear, and does not answer.
    fn silent_agent(&self, interface: &str) -> String {
        let agent = self.setup.config.home_agent;
        let firewall = self.setup.firewall.as_ref();
        let is_told_by_address = firewall.is_some_and(|it| it.machine.is_some());
        if let Some(own) = self.node.colocated().filter(|_| is_told_by_address) {
            return format!(
                "the home agent {agent} does not answer on {interface}. It is asked in clear, as \
                 from inside: `networks` of [mobile.firewall], or the home network, has the \
                 care-of address {own}. If that is outside, take it out, or write side = \
                 \"outside\""
            );
        }
        let own = [Some(self.setup.config.home_address), self.node.colocated()];
        let seen = match self.wait.unreached {
            Some(Unreachable {
                by: IpAddr::V4(by), ..
            }) if own.contains(&Some(by)) => {
                " (neither it nor a router to it is on the link)".to_owned()
            }
            Some(Unreachable { why, by }) => unreached(why, by),
            None => String::new(),
        };
        format!(
            "the home agent {agent} does not answer on {interface}{seen}: is `home_agent` right? \
             If so, look at `caravan status` there"
        )
    }
}

/// The tunnel is up, and nothing of the home agent's comes through it.
fn silent_through(connection: &str, agent: Ipv4Addr, is_natted: bool) -> String {
    let nothing = format!("nothing comes back from the home agent {agent} through {connection}");
    match is_natted {
        true => format!(
            "{nothing}: a NAT is between the home agent outside and the gateway. It lets no ESP \
             pass, which is in no UDP of its own there: let the gateway see the `home_address` of \
             [mobile.gateway.outside]"
        ),
        false => format!(
            "{nothing}: do its `vpn_networks`, its routes and the gateway's have the tunnel's \
             inner address?"
        ),
    }
}

/// Answers that have registered nothing.
struct Heard {
    denied: Option<Code>,
    /// The home agent does not say that the node is inside.
    is_untrusted: bool,
    is_unauthenticated: bool,
}

impl Heard {
    /// The strongest first: what the home agent has proven to say, before what anybody may have
    /// sent.
    fn reason(&self, agent: Ipv4Addr) -> Option<String> {
        if let Some(code) = self.denied {
            return Some(refused(code));
        }
        if self.is_untrusted {
            return Some(format!(
                "the home agent {agent} answers in clear and does not say that this is inside: \
                 this address is one of its `vpn_networks`, or its [home_agent] needs \
                 `trusted_networks`"
            ));
        }
        self.is_unauthenticated.then(|| {
            "an answer came whose authenticator is wrong: the keys of `association` differ, or \
             somebody forges answers"
                .to_owned()
        })
    }
}

/// What ICMP says about the way to a home agent. Anybody can send it, so it is only a hint.
fn unreached(why: NotReached, by: IpAddr) -> String {
    match why {
        NotReached::Port => format!(" ({by} says that nothing listens on UDP port 434)"),
        NotReached::Forbidden => format!(" ({by} says that a rule forbids it)"),
        NotReached::Network => format!(" ({by} says that it has no route there)"),
        NotReached::Host | NotReached::Neighbour | NotReached::NextHop => {
            format!(" ({by} says that it cannot reach this host)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nat_behind_a_home_agent_outside_is_named() {
        let agent = Ipv4Addr::new(10, 18, 3, 1);
        let said = |is_natted| silent_through("work", agent, is_natted);
        assert!(said(true).contains("a NAT is between the home agent outside and the gateway"));
        assert!(said(false).contains("vpn_networks") && !said(false).contains("NAT"));
    }

    /// A stranger's answer hides no word of the home agent.
    #[test]
    fn the_strongest_reason_is_told_first() {
        let agent = Ipv4Addr::new(10, 18, 3, 1);
        let mut heard = Heard {
            denied: Some(Code::HomeMobileAuthentication),
            is_untrusted: true,
            is_unauthenticated: true,
        };
        let said = |heard: &Heard| heard.reason(agent).expect("a reason");
        assert!(said(&heard).starts_with("the home agent refuses the registration: denied-131"));
        heard.denied = None;
        assert!(said(&heard).starts_with("the home agent 10.18.3.1 answers in clear"));
        heard.is_untrusted = false;
        assert!(said(&heard).starts_with("an answer came whose authenticator is wrong"));
        heard.is_unauthenticated = false;
        assert_eq!(heard.reason(agent), None);
    }
}
