//! What the messages of a move are: those of IKE between a node and its gateway, and those of
//! registrations at its home agents. Registrations that nobody hears are left out, and inside also
//! what the tunnel's ends say to each other: no data waits for that.

use std::collections::BTreeSet;
use std::net::IpAddr;

use engine::ike::Step;
use engine::time::Instant;
use serde::Serialize;

use super::World;
use crate::kernel::host::Message;
use crate::kernel::host::mobile::Registration;
use crate::kernel::ip;

/// The messages of a move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Told {
    /// How often the node asked. A repeated request of IKE counts again, but what came before the
    /// last first message of a session does not.
    pub rounds: u64,
    /// Their datagrams.
    pub messages: u64,
    /// The IP packets of these datagrams, in octets.
    pub message_bytes: u64,
}

impl World {
    /// What a node with a gateway and its peers said in a stay at an address. `end`: when the next
    /// stay began.
    pub(super) fn told(
        &self,
        station: usize,
        address: IpAddr,
        (since, end): (Instant, Option<Instant>),
    ) -> Told {
        let is_here = |at: Instant| at >= since && end.is_none_or(|end| at < end);
        let log = self.log_of(self.number(station));
        let negotiated = log.messages.iter().filter(|it| is_here(it.at));
        let mut told = match self.is_inside_at(station, address) {
            true => Told::default(),
            false => Told::of_ike(&negotiated.collect::<Vec<_>>()),
        };
        let mut requests = BTreeSet::new();
        for one in self.registrations(station).filter(|it| is_here(it.at)) {
            if one.is_request {
                requests.insert((one.home, one.identification));
            }
            told.messages += 1;
            told.message_bytes += (one.bytes + ip::overhead_bytes(false)) as u64;
        }
        told.rounds += requests.len() as u64;
        told
    }

    /// Whether an address of a station is behind its gateway.
    pub(super) fn is_inside_at(&self, station: usize, address: IpAddr) -> bool {
        let mut sets = self.blueprint.setup.tunnels.iter();
        let set = sets.find(|set| set.from == station);
        set.is_some_and(|set| set.trusted.iter().any(|network| network.has(address)))
    }

    /// The registrations of a station that its home agents have heard.
    fn registrations(&self, station: usize) -> impl Iterator<Item = Registration> {
        let setup = &self.blueprint.setup;
        let all = setup.mobile.iter().chain(&setup.outside);
        let own = all.filter(move |it| it.layer.station == station);
        own.flat_map(move |own| {
            let host = self.host(self.number(own.layer.agent));
            let mobile = host.and_then(|host| host.part.mobile());
            let all = mobile
                .into_iter()
                .flat_map(|it| it.log.registrations.iter());
            all.filter(move |it| it.home == own.home).copied()
        })
    }
}

impl Told {
    /// Messages of IKE as a station sees them. If a session begins, those that set it up: what else
    /// is said then ends the former one.
    fn of_ike(messages: &[&Message]) -> Self {
        let headers = ip::overhead_bytes(false);
        let first = messages
            .iter()
            .rposition(|it| it.is_sent && it.step.is_first());
        let is_about_session = |step: Step| matches!(step, Step::Inform(_) | Step::Informational);
        let mut told = Self::default();
        for message in messages.iter().skip(first.unwrap_or(0)) {
            if first.is_some() && is_about_session(message.step) {
                continue;
            }
            let is_asked = message.is_sent && message.step.wants_answer();
            told.rounds += u64::from(is_asked);
            told.messages += message.datagrams as u64;
            told.message_bytes += (message.bytes + headers * message.datagrams) as u64;
        }
        told
    }
}
