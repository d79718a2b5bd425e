//! The firewall of a mobile private network: its machine, between the planes and the host.

use std::collections::BTreeSet;
use std::net::IpAddr;

use engine::firewall::access::{EntryId, Origin};
use engine::firewall::{Event, Firewall, Output};
use engine::mip4::carriers::Change;
use engine::time::{Deadline, Instant};
use nix::net::if_::if_nametoindex;
use tracing::{info, warn};

use super::surroundings;
use super::{Common, Effect, Input};
use crate::config::FirewallSetup;
use crate::count_file::{CountFile, heard};
use crate::routes::{Desired, Prefix};
use crate::status::{EntryStatus, MobilityStatus};

/// A firewall at work.
pub(super) struct FirewallPart {
    firewall: Firewall,
    setup: FirewallSetup,
    /// The index of the link outside: one that comes again is set up again.
    outside: Option<u32>,
}

impl FirewallPart {
    /// `counts` says how far n has come with each peer.
    pub(super) fn new(setup: &FirewallSetup, counts: &CountFile) -> anyhow::Result<Self> {
        surroundings::check_outside(setup)?;
        let mut config = setup.config.clone();
        for (origin, template) in &mut config.entries {
            let pair = pair(*origin, &template.association);
            template.stored_n = counts.bound(&pair);
            template.heard_n = counts.bound(&heard(&pair, &template.association));
        }
        Ok(Self {
            firewall: Firewall::new(config)?,
            outside: if_nametoindex(setup.outside_interface.as_str()).ok(),
            setup: setup.clone(),
        })
    }

    pub(super) fn handle(&mut self, input: &Input<'_>, common: &mut Common, now: Instant) {
        match input {
            Input::Notice(notice) => self.firewall.handle(notice, now),
            Input::Report(associations) => self.firewall.report(associations, now),
            Input::Stored(number, bound) => {
                let entry = EntryId(*number as usize);
                self.firewall.n_is_stored(entry, *bound);
            }
            Input::Wake => self.firewall.handle_timeout(now),
            Input::Look => {
                let outside = if_nametoindex(self.setup.outside_interface.as_str()).ok();
                if outside != self.outside {
                    self.outside = outside;
                    common.effects.push_back(Effect::Host);
                }
            }
            Input::Datagram { .. }
            | Input::Frame(..)
            | Input::Unreachable(..)
            | Input::Applied
            | Input::Unsent(_)
            | Input::Leave
            | Input::LeaveOutside
            | Input::Tunnel(..)
            | Input::Configured => {}
        }
        while let Some(output) = self.firewall.poll() {
            self.execute(output, common);
        }
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.firewall.deadline()
    }

    fn execute(&mut self, output: Output, common: &mut Common) {
        match output {
            Output::Inbound(change) => common.plane(vec![Change::Inbound(change)]),
            Output::Outbound(change) => common.plane(vec![Change::Outbound(change)]),
            Output::WantsReport => common.effects.push_back(Effect::WantsReport),
            Output::StoreN { entry, bound } => {
                let (origin, template) = &self.setup.config.entries[entry.0];
                common.effects.push_back(Effect::StoreN {
                    pair: pair(*origin, &template.association),
                    number: entry.0 as u32,
                    bound,
                });
            }
            Output::KeepN { entry, n } => {
                let (origin, template) = &self.setup.config.entries[entry.0];
                let pair = pair(*origin, &template.association);
                let pair = heard(&pair, &template.association);
                common.effects.push_back(Effect::KeepN { pair, n });
            }
            Output::Event(event) => {
                self.log(event);
                common.effects.push_back(Effect::Host);
            }
        }
    }

    fn log(&self, event: Event) {
        let name = |entry: EntryId| &*self.setup.names[entry.0];
        match event {
            Event::Bound { entry, care_of } => info!(entry = name(entry), %care_of, "bound"),
            Event::Moved {
                entry,
                former,
                care_of,
            } => info!(entry = name(entry), %former, %care_of, "moved"),
            Event::Displaced { entry, care_of, by } => {
                info!(entry = name(entry), %care_of, by = name(by), "displaced: it was silent");
            }
            Event::Taken { entry, care_of, by } => warn!(
                entry = name(entry),
                %care_of,
                by = name(by),
                "not bound: the address is another node's, which is alive"
            ),
            Event::Expired { entry, care_of } => info!(entry = name(entry), %care_of, "forgotten"),
        }
    }

    /// Packets between mobile nodes and home agents come out of the device and go into it again.
    /// What hosts and networks of the list get, and nodes from networks inside, goes into it.
    pub(super) fn want(&self, desired: &mut Desired) {
        let config = &self.setup.config;
        // Without an address the device's reverse path filter would drop what comes out of it.
        desired.addresses.insert(config.inside.into());
        desired.roaming.links = self.outside.into_iter().collect();
        desired.roaming.returned = config.home_agents.iter().copied().collect();
        let tunnel = |prefix: Prefix| (prefix, None);
        let fixed = config
            .entries
            .iter()
            .filter_map(|(origin, _)| prefix(*origin));
        desired.routes.extend(fixed.map(tunnel));
        let bound = self.firewall.bindings().filter(|(entry, _)| {
            let (_, template) = &config.entries[entry.0];
            !template.inside.is_empty()
        });
        let bound = bound.map(|(_, binding)| IpAddr::V4(*binding.care_of.ip()));
        desired.routes.extend(bound.map(Prefix::host).map(tunnel));
    }

    pub(super) fn status(&self, now: Instant) -> MobilityStatus {
        let bindings: Vec<_> = self.firewall.bindings().collect();
        let entries = self.setup.config.entries.iter().zip(&self.setup.names);
        let entries = entries
            .enumerate()
            .map(|(number, ((origin, template), name))| {
                let binding = bindings.iter().find(|(entry, _)| entry.0 == number);
                let (local, remote) = template.association.names();
                EntryStatus {
                    name: name.clone(),
                    address: place(*origin),
                    local: local.to_string(),
                    remote: remote.to_string(),
                    profile: template.association.profile().to_string(),
                    legacy: template.association.is_legacy(),
                    bits: template.association.strength().bits(),
                    care_of: binding.map(|(_, it)| it.care_of),
                    silent_s: binding.map(|(_, it)| now.since(it.last).as_secs_f64()),
                }
            });
        MobilityStatus {
            role: "firewall".to_owned(),
            address: Some(self.setup.config.outside),
            entries: entries.collect(),
            ..MobilityStatus::default()
        }
    }
}

/// All pairs, as they are stored.
pub(super) fn pairs(setup: &FirewallSetup) -> BTreeSet<String> {
    let entries = setup.config.entries.iter();
    let both = entries.flat_map(|(origin, template)| {
        let pair = pair(*origin, &template.association);
        [heard(&pair, &template.association), pair]
    });
    both.collect()
}

/// The pair of an association, as it is stored.
fn pair(origin: Origin, association: &engine::skip::Association) -> String {
    let (local, remote) = association.names();
    format!("{local} {remote} {}", place(origin))
}

fn place(origin: Origin) -> String {
    match origin {
        Origin::Host(address) => address.to_string(),
        Origin::Network(first, bits) => format!("{first}/{bits}"),
        Origin::Nomadic => "*".to_owned(),
    }
}

fn prefix(origin: Origin) -> Option<Prefix> {
    match origin {
        Origin::Host(address) => Some(Prefix::host(address.into())),
        Origin::Network(first, bits) => Some(Prefix {
            address: first.into(),
            length: bits,
        }),
        Origin::Nomadic => None,
    }
}
