//! What a mobile node says of itself: for `status`, and for whoever waits until it is registered.

use engine::mip4::firewall::Side;
use engine::mip4::mobile_node::State;
use engine::time::Instant;
use wire::mip4::Code;

use super::MobileNodePart;
use crate::run::mobility::surroundings::is_routed;
use crate::status::MobilityStatus;

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
        ];
        let counts = counts.into_iter().filter(|(_, count)| *count > 0);
        let mut status = MobilityStatus {
            role: "mobile node".to_owned(),
            state: Some(self.state_word(&state).to_owned()),
            interface: self.link.map(|link| self.setup.interfaces[link].clone()),
            home_address: Some(config.home_address),
            home_agent: Some(config.home_agent),
            refused: counts.map(|(why, count)| (why.to_owned(), count)).collect(),
            side: self.setup.firewall.as_ref().map(|_| self.side().to_owned()),
            filtered: self.is_filtered(),
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
        match (state, self.link) {
            (State::Home, _) => "at home",
            (State::Registered { .. }, _) => "registered",
            (State::Unreachable, None) => "no link",
            (State::Unreachable, Some(_)) if self.is_at_home => "coming home",
            (State::Unreachable, Some(_)) => "registering",
        }
    }

    /// Why it is not registered, as far as it knows.
    pub(in crate::run::mobility) fn trouble(&self) -> String {
        let config = &self.setup.config;
        let Some(link) = self.link else {
            let all = self.setup.interfaces.join(", ");
            return format!("no interface of the file has a link ({all})");
        };
        let interface = &self.setup.interfaces[link];
        let outside = self.node.outside().and(self.setup.firewall.as_ref());
        let peer = outside.map_or(config.home_agent, |it| it.first.outside);
        if let Some(code) = self.denied {
            refused(code)
        } else if self.node.ignored().unauthenticated > 0 {
            "an answer came whose authenticator is wrong: the keys of `association` differ, or \
             somebody forges answers"
                .to_owned()
        } else if self.node.colocated().is_none() && !self.is_at_home {
            format!("{interface} has no address, and no foreign agent is heard there")
        } else if !is_routed(peer) {
            format!("this host has no route to {peer}")
        } else if outside.is_some() {
            format!(
                "nothing comes back from the firewall {peer}: `caravan status` there, and at the \
                 home agent, says what they refuse"
            )
        } else {
            format!("the home agent {peer} does not answer on {interface}")
        }
    }
}

/// Who has refused the registration, and with which code, by the name that drops have.
pub(super) fn refused(code: Code) -> String {
    let who = match code.is_from_foreign_agent() {
        true => "the foreign agent",
        false => "the home agent",
    };
    format!("{who} refuses the registration: denied-{}", code.number())
}
