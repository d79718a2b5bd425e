//! A home agent on its home link: it answers ARP for nodes that are away, and leads their packets
//! into the tunnel device.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use crypto::rand::Stream;
use engine::mip4::carriers::{self, HomeCarriers, HomeNetwork};
use engine::mip4::home_agent::{Beacon, Change, Datagram, HomeAgent, Output, Refusal};
use engine::mip4::identification::Clock;
use engine::mip4::tunnel::Tunnel;
use engine::selector::TrafficSelector;
use engine::time::{Deadline, Duration, Instant};
use tracing::{debug, info, warn};
use wire::mip4::is_solicitation;

use super::firewall::FirewallPart;
use super::foreign_agent::is_request;
use super::homecoming::Homecomings;
use super::refusals::Refusals;
use super::shared::Places;
use super::{Common, Effect, Input, surroundings};
use crate::config::HomeAgentSetup;
use crate::count_file::CountFile;
use crate::ether::{ALL_HOSTS, Heard, Mac};
use crate::routes::{Desired, Prefix, roaming};
use crate::status::{BindingStatus, MobilityStatus};

/// How often a change of link-layer address is announced, and how far apart: a frame may be lost
/// (RFC 5944 §4.6).
const ANNOUNCEMENTS: u32 = 3;
const ANNOUNCED_APART: Duration = Duration::from_secs(1);

/// Broadcasts that nodes get within [`RATE_SPAN`]. Anybody on the link can send them, and each
/// goes through all tunnels that want it.
const BROADCASTS_MAX: u32 = 100;
const RATE_SPAN: Duration = Duration::from_secs(1);

/// How long a registration without an end counts as one of two that alternate.
const LIFETIME_UNBOUND: Duration = Duration::from_secs(3_600);

/// A bound on broadcasts.
#[derive(Default)]
struct Rate {
    /// Since when they are counted, and how many there are.
    span: Option<(Instant, u32)>,
}

impl Rate {
    /// Whether one more may go.
    fn takes(&mut self, now: Instant) -> bool {
        let current = self.span.filter(|(since, _)| now.since(*since) < RATE_SPAN);
        let (since, count) = current.unwrap_or((now, 0));
        self.span = Some((since, count.saturating_add(1)));
        count < BROADCASTS_MAX
    }
}

/// A home agent and its surroundings.
pub(super) struct HomeAgentPart {
    pub(super) agent: HomeAgent,
    beacon: Option<Beacon>,
    carriers: HomeCarriers,
    address: Ipv4Addr,
    /// The home network.
    network: TrafficSelector,
    broadcasts: Rate,
    homes: BTreeSet<Ipv4Addr>,
    /// Nodes that are away.
    away: BTreeSet<Ipv4Addr>,
    homecomings: Homecomings,
    /// Ends of tunnels that this host has no route to, by home address.
    unrouted: BTreeMap<Ipv4Addr, BTreeSet<Ipv4Addr>>,
    /// Where nodes have registered.
    pub(super) places: Places,
    /// Of registrations.
    refusals: Refusals,
    /// Announcements that are still to be made: when, where the address is if not here, and how
    /// often.
    announcements: BTreeMap<Ipv4Addr, (Instant, Option<Mac>, u32)>,
    /// Our own SKIP. Packets to nodes that are away go through it alone.
    own_skip: Option<FirewallPart>,
    /// It ends, and takes no more registrations.
    is_ending: bool,
}

impl HomeAgentPart {
    /// The agent, and what it needs of the planes from the beginning on.
    pub(super) fn new(
        (setup, counts): (&HomeAgentSetup, &CountFile),
        clock: Clock,
        now: Instant,
        (random, of_beacon): (Stream, Stream),
    ) -> anyhow::Result<(Self, Vec<carriers::Change>)> {
        let config = setup.config.clone();
        let lifetime = setup.advertised_lifetime;
        let beacon = lifetime.map(|lifetime| Beacon::new(&config, lifetime, now, of_beacon));
        let own = HomeNetwork {
            address: config.address,
            prefix_len: config.prefix_len,
        };
        let mut carriers = HomeCarriers::new(own, config.outside.clone());
        if setup.takes_short_form {
            carriers.take_short_form();
        }
        let own_skip = setup.own_skip.as_deref();
        let own_skip = own_skip
            .map(|it| FirewallPart::new(it, counts))
            .transpose()?;
        if own_skip.is_some() {
            carriers.nest_all();
        }
        let begun = carriers.begin(&config.trusts_traversal);
        let mut agent = HomeAgent::new(config.clone(), clock, now, random);
        agent.set_reserved(roaming::reserved());
        let part = Self {
            beacon,
            carriers,
            address: config.address,
            network: TrafficSelector::subnet(config.address.into(), config.prefix_len),
            broadcasts: Rate::default(),
            homes: config.clients.iter().map(|it| it.home_address).collect(),
            agent,
            away: BTreeSet::new(),
            homecomings: Homecomings::default(),
            unrouted: BTreeMap::new(),
            places: Places::default(),
            refusals: Refusals::default(),
            announcements: BTreeMap::new(),
            own_skip,
            is_ending: false,
        };
        Ok((part, begun))
    }

    /// The configuration has changed.
    pub(super) fn configure(&mut self, setup: &HomeAgentSetup, now: Instant) {
        let config = setup.config.clone();
        if let (Some(beacon), Some(lifetime)) = (&mut self.beacon, setup.advertised_lifetime) {
            beacon.configure(&config, lifetime);
        }
        self.homes = config.clients.iter().map(|it| it.home_address).collect();
        self.refusals.keep(&self.homes);
        self.agent.configure(config, now);
    }

    pub(super) fn handle(&mut self, input: &Input<'_>, common: &mut Common, now: Instant) {
        if let Some(skip) = &mut self.own_skip {
            skip.handle(input, common, now);
        }
        match *input {
            // Whoever it took would find nobody.
            Input::Datagram { payload, .. } if self.is_ending && is_request(payload) => {
                common.refuse("ending".to_owned());
            }
            Input::Datagram { from, to, payload } => {
                self.agent.handle(Datagram { from, to, payload }, now);
            }
            Input::Frame(_, heard) => self.hear(heard, common, now),
            Input::Wake => self.agent.handle_timeout(now),
            Input::Leave => {
                self.is_ending = true;
                for home in &self.homes {
                    self.agent.revoke(*home, now);
                }
            }
            Input::Look => self.agent.set_reserved(roaming::reserved()),
            Input::Unreachable(..)
            | Input::Applied
            | Input::LeaveOutside
            | Input::Unsent(_)
            | Input::Notice(_)
            | Input::Report(_)
            | Input::Stored(..)
            | Input::Tunnel(..)
            | Input::Configured => {}
        }
        let asked = match *input {
            Input::Datagram { payload, .. } => Some(payload),
            _ => None,
        };
        while let Some(output) = self.agent.poll() {
            self.execute(output, asked, common, now);
        }
        self.advertise(common, now);
        self.announce(common, now);
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        let announcements = self.announcements.values().map(|(at, ..)| Deadline {
            at: *at,
            why: "announce an address",
        });
        let beacon = self.beacon.as_ref().map(Beacon::deadline);
        let skip = self.own_skip.iter().filter_map(FirewallPart::deadline);
        let all = announcements.chain(beacon).chain(self.agent.deadline());
        all.chain(skip).min()
    }

    pub(super) fn want(&self, desired: &mut Desired) {
        // Without an address the device's reverse path filter would drop what comes out of it.
        desired.addresses.insert(self.address.into());
        let away = self.away.iter();
        let routes = away.map(|home| (Prefix::host((*home).into()), None));
        desired.routes.extend(routes);
    }

    /// All tunnels end.
    pub(super) fn end(&mut self) -> Vec<carriers::Change> {
        let homes: Vec<Ipv4Addr> = self.away.iter().copied().collect();
        let each = homes.into_iter();
        each.flat_map(|home| self.carriers.follow(home, &[]))
            .collect()
    }

    pub(super) fn status(&self, now: Instant) -> MobilityStatus {
        let mut bindings = Vec::new();
        for home in &self.homes {
            bindings.extend(self.agent.bindings(*home).map(|binding| {
                let tunnel = &binding.tunnel;
                BindingStatus {
                    home_address: *home,
                    care_of: tunnel.care_of,
                    encapsulation: tunnel.encapsulation.name().to_owned(),
                    udp: tunnel.udp,
                    firewall: tunnel.firewall,
                    reverse: tunnel.is_reverse,
                    colocated: tunnel.is_colocated,
                    left_s: binding.end.map(|end| end.since(now).as_secs_f64()),
                }
            }));
        }
        MobilityStatus {
            role: "home agent".to_owned(),
            address: Some(self.address),
            nodes: self.homes.len() as u64,
            bindings,
            refusals: self.refusals.status(now),
            entries: match &self.own_skip {
                Some(skip) => skip.status(now).entries,
                None => Vec::new(),
            },
            ..MobilityStatus::default()
        }
    }

    fn hear(&mut self, heard: &Heard, common: &mut Common, now: Instant) {
        match heard {
            Heard::ArpRequest { from, target } => {
                let is_own = from.1 == *target;
                if self.away.contains(target) && !is_own {
                    let answered = common.links[0].answer_arp(*from, *target);
                    common.sent(answered);
                }
            }
            Heard::Agent { from, icmp } => {
                if let Some(beacon) = &mut self.beacon
                    && is_solicitation(icmp)
                    && let Some(icmp) = beacon.solicited(now)
                {
                    let host = (from.0, ALL_HOSTS.1);
                    let sent = common.links[0].send_icmp(self.address, host, &icmp);
                    common.sent(sent);
                }
            }
            Heard::Registration {
                mac, from, payload, ..
            } => {
                let home = *from.ip();
                let is_coming = self.away.contains(&home) || self.homecomings.is_awaited(home, now);
                let is_ours = is_coming && self.homes.contains(&home);
                if is_ours && let Some(mac) = self.homecomings.hear(home, *mac, payload) {
                    let due = (now, Some(mac), ANNOUNCEMENTS);
                    self.announcements.insert(home, due);
                }
            }
            Heard::Broadcast { from, to, packet } => {
                if self.is_for_nodes(*from, *to) {
                    match self.broadcasts.takes(now) {
                        true => common.effects.push_back(Effect::Packet(packet.clone())),
                        false => common.refuse("too-many-broadcasts".to_owned()),
                    }
                }
            }
        }
    }

    /// Whether a broadcast goes to nodes that are away (RFC 5944 §4.3). What claims to come from
    /// one of them did not come from this link.
    fn is_for_nodes(&self, from: Ipv4Addr, to: Ipv4Addr) -> bool {
        let is_broadcast = to == self.network.last || to == Ipv4Addr::BROADCAST;
        let is_own = from == self.address || self.away.contains(&from);
        let mut bindings = self.away.iter().flat_map(|home| self.agent.bindings(*home));
        is_broadcast && !is_own && bindings.any(|one| one.tunnel.has_broadcasts)
    }

    /// Whether a message goes through our own SKIP: its receiver is not on the home link.
    fn is_sealed(&self, to: Ipv4Addr) -> bool {
        self.own_skip.is_some() && !self.network.contains_address(to.into())
    }

    /// `asked`: the message that was heard.
    fn execute(&mut self, output: Output, asked: Option<&[u8]>, common: &mut Common, now: Instant) {
        match output {
            Output::Send {
                from, to, payload, ..
            } if self.is_sealed(*to.ip()) => common.effects.push_back(Effect::Sealed {
                firewall: Some(*to.ip()),
                from,
                to,
                payload,
            }),
            Output::Send {
                from,
                to,
                payload,
                firewall: Some(firewall),
                ..
            } => {
                let changes = self.carriers.reply(*to.ip(), firewall);
                common.plane(changes);
                common.effects.push_back(Effect::Sealed {
                    firewall: Some(firewall),
                    from,
                    to,
                    payload,
                });
            }
            Output::Send {
                from, to, payload, ..
            } => common
                .effects
                .push_back(Effect::Datagram { from, to, payload }),
            Output::Tunnels {
                home_address,
                tunnels,
                why,
            } => {
                let request = asked.filter(|_| why == Change::Deregistered);
                if matches!(why, Change::Registered | Change::Deregistered) {
                    self.refusals.forget(home_address);
                }
                self.bind(home_address, &tunnels, why, common);
                self.place((home_address, &tunnels), why, now);
                let is_away = !tunnels.is_empty();
                self.intercept((home_address, is_away), request, common, now);
            }
            Output::Unacknowledged {
                home_address,
                care_of,
            } => info!(home = %home_address, %care_of, "nobody has acknowledged the revocation"),
            Output::Refused {
                from,
                home_address,
                why,
            } => {
                debug!(%from, home = ?home_address, "registration refused: {why:?}");
                let word = reason(why);
                if let Some(home) = home_address {
                    self.refuse(home, (*from.ip(), &word), now);
                }
                common.refuse(word);
            }
        }
    }

    /// A request that names this node was refused.
    fn refuse(&mut self, home: Ipv4Addr, (from, word): (Ipv4Addr, &str), now: Instant) {
        let is_ours = self.homes.contains(&home);
        if !self
            .refusals
            .add(Some(home).filter(|_| is_ours), (from, word), now)
        {
            return;
        }
        match is_ours {
            true => warn!("{home} at {from} is refused: {word}"),
            false => warn!(
                "{home} at {from} is refused: {word}: no [mobile_nodes.NAME] has this home address"
            ),
        }
    }

    /// These are the tunnels of a node now.
    fn bind(
        &mut self,
        home_address: Ipv4Addr,
        tunnels: &[Tunnel],
        why: Change,
        common: &mut Common,
    ) {
        let places: Vec<String> = tunnels.iter().map(|it| it.care_of.to_string()).collect();
        let reason = match why {
            Change::Registered => "registered",
            Change::Deregistered => "deregistered",
            Change::Expired => "its lifetime has ended",
            Change::Revoked => "revoked",
            Change::Completed => "its keepalive has come",
            Change::Copied => "its request has come from two places",
        };
        info!(home = %home_address, care_of = places.join(", "), "binding: {reason}");
        let ends = tunnels
            .iter()
            .map(|it| it.udp.map_or(it.care_of, |udp| *udp.ip()));
        let lost: BTreeSet<Ipv4Addr> = ends.filter(|it| !surroundings::is_routed(*it)).collect();
        // A renewal says nothing new.
        let known = self.unrouted.remove(&home_address).unwrap_or_default();
        for end in lost.difference(&known) {
            warn!(home = %home_address, "this host has no route to {end}");
        }
        if !lost.is_empty() {
            self.unrouted.insert(home_address, lost);
        }
        let changes = self.carriers.follow(home_address, tunnels);
        common.plane(changes);
    }

    /// Notes where a node is, and warns of two that have one address.
    fn place(&mut self, (home, tunnels): (Ipv4Addr, &[Tunnel]), why: Change, now: Instant) {
        match tunnels {
            [] => self.places.forget(home),
            [one] if why == Change::Registered => {
                let ends = self.agent.bindings(home).filter_map(|it| it.end);
                let lifetime = ends.map(|end| end.since(now)).max();
                let lifetime = lifetime.unwrap_or(LIFETIME_UNBOUND);
                if self.places.register((home, one.care_of), lifetime, now) {
                    for text in self.places.warnings(now) {
                        warn!("{text}");
                    }
                }
            }
            _ => {}
        }
    }

    /// A node has left home, or is back: from now on its packets come to us, or to it. `request`
    /// has brought it back.
    fn intercept(
        &mut self,
        (home, is_away): (Ipv4Addr, bool),
        request: Option<&[u8]>,
        common: &mut Common,
        now: Instant,
    ) {
        let had = match is_away {
            true => !self.away.insert(home),
            false => !self.away.remove(&home),
        };
        if had {
            return;
        }
        common.effects.push_back(Effect::Host);
        let place = match request.filter(|_| !is_away) {
            Some(request) => self.homecomings.accept(home, request, now).map(Some),
            None => {
                self.homecomings.forget(home);
                is_away.then_some(None)
            }
        };
        match place {
            Some(place) => self.announcements.insert(home, (now, place, ANNOUNCEMENTS)),
            None => self.announcements.remove(&home),
        };
    }

    fn announce(&mut self, common: &mut Common, now: Instant) {
        for (home, (due, mac, left)) in &mut self.announcements {
            if *due <= now {
                let announced = common.links[0].announce(*mac, *home);
                common.sent(announced);
                *due = now + ANNOUNCED_APART;
                *left -= 1;
            }
        }
        self.announcements.retain(|_, (_, _, left)| *left > 0);
    }

    fn advertise(&mut self, common: &mut Common, now: Instant) {
        if let Some(icmp) = self.beacon.as_mut().and_then(|it| it.next(now)) {
            let sent = common.links[0].send_icmp(self.address, ALL_HOSTS, &icmp);
            common.sent(sent);
        }
    }
}

/// A key for the count.
fn reason(why: Refusal) -> String {
    match why {
        Refusal::Malformed(_) => "malformed".to_owned(),
        Refusal::NotARequest => "not-a-request".to_owned(),
        Refusal::UnknownNode => "unknown-node".to_owned(),
        Refusal::NotAuthenticated => "not-authenticated".to_owned(),
        Refusal::UnexpectedForeignAuthenticator => "unexpected-foreign-authenticator".to_owned(),
        Refusal::CopiedRequest => "copied-request".to_owned(),
        Refusal::UnexpectedKeepalive => "unexpected-keepalive".to_owned(),
        Refusal::Denied(code) => format!("denied-{}", code.number()),
        Refusal::UntrustedNetwork => "untrusted-network".to_owned(),
        Refusal::UntrustedFirewall(_) => "untrusted-firewall".to_owned(),
        Refusal::Revocation(fault) => format!("revocation: {fault:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasts_have_a_bound_a_second() {
        let mut rate = Rate::default();
        let at = |milliseconds| Instant(0) + Duration::from_millis(milliseconds);
        let taken = |rate: &mut Rate, now| (0..300).filter(|_| rate.takes(now)).count();
        assert_eq!(taken(&mut rate, at(0)), BROADCASTS_MAX as usize);
        assert_eq!(taken(&mut rate, at(999)), 0);
        assert_eq!(taken(&mut rate, at(1_000)), BROADCASTS_MAX as usize);
    }
}
