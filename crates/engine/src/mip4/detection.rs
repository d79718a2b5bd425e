//! What a mobile node with a VPN gateway does as it goes in and out of its home network (RFC 5265
//! §3, RFC 5266 §3). While nothing proves that it is inside, it wants a tunnel, whose inner address
//! is its care-of address; meanwhile it asks its home agent in clear. With a home agent outside,
//! that one keeps the address at which the tunnel begins.
//!
//! On a link without an address, a foreign agent may be inside, or lead to the home agent outside.
//! With the latter the tunnel stays, and where the home agent inside is heard, or a foreign agent
//! that has a key with the node, the node asks through that one first. Anybody can advertise, so
//! each gets that once on a link, and again later only where no tunnel would rest for it.
//!
//! Neither machine has a node of IKE or of Mobile IPv4. The owner says what it sees ([`View`]) and
//! does what they say.
//!
//! Left out: a network outside that looks like home. There the node asks in clear alone, and is not
//! reached.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use super::mobile_node::{Attachment, State};
use crate::time::{Deadline, Duration, Instant};

/// How long a link without an address may have none, before a foreign agent is looked for: DHCP
/// takes a moment, and the registration through the tunnel would be lost.
const BARE_SPAN: Duration = Duration::from_secs(3);

/// How long an agent has to answer where advertisements alone say that it is home, or inside: three
/// requests.
pub const TRIAL: Duration = Duration::from_secs(7);

/// After which time an agent that has proven nothing is tried again, where no tunnel would rest for
/// it.
const AGAIN: Duration = Duration::from_secs(60);

/// What the owner sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// How the node is on its link, as far as that leads to somebody outside: co-located, or
    /// visiting without an address. None: it is at home, or on no link. During a trial
    /// ([`Detection::is_trying`]) a node that seems to be at home is visiting.
    pub place: Option<Attachment>,
    /// Whether it is on a link.
    pub has_link: bool,
    /// Whether its registration proves that it is inside.
    pub is_inside: bool,
    /// Whether it goes through the tunnel.
    pub is_secured: bool,
    /// Its registration with a home agent outside, if it has one.
    pub outside: Outside,
}

/// A registration with a home agent outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// There is no such home agent: MOBIKE moves the tunnel.
    None,
    /// The node is not registered there.
    Unreachable,
    /// Packets for the tunnel's outer address come by the node's own care-of address.
    Tunnelled,
    /// They come by a foreign agent.
    ByAgent,
}

/// What becomes of an agent's advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearing {
    /// The node hears it.
    Believe,
    /// So does it, as if it had just come to the link: nothing it knew there holds.
    Try,
    /// Not now: it was tried on this link and has proven nothing, or another one is on trial.
    Doubt,
}

/// What is to be done, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Bring the tunnel up, or take it down.
    pub connect: Option<bool>,
    /// Attach the node like this.
    pub attach: Option<Attachment>,
    /// Ask in clear from this address whether this is inside.
    pub ask_from: Option<Ipv4Addr>,
}

/// The way of a node through its gateway.
#[derive(Debug, Default)]
pub struct Detection {
    /// Agents that may be inside: the home agent, and foreign agents that have a key with the node.
    ours: BTreeSet<Ipv4Addr>,
    /// The tunnel's inner address, while it is up.
    inner: Option<Ipv4Addr>,
    /// Whether the tunnel is wanted, and whoever brings it up knows.
    is_wanted: bool,
    is_told: bool,
    /// The link has no address: until when one is waited for.
    bare_until: Option<Instant>,
    /// An agent of ours was heard on this link: until when it has to prove that it is inside.
    trial: Option<(Ipv4Addr, Instant)>,
    /// Those that were tried on this link, and until when.
    tried: BTreeMap<Ipv4Addr, Instant>,
}

impl Detection {
    /// Of a node on no link. `ours`: agents that may be inside.
    pub fn new(ours: impl IntoIterator<Item = Ipv4Addr>) -> Self {
        Self {
            ours: ours.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Other agents may be inside from now on.
    pub fn configure(&mut self, ours: impl IntoIterator<Item = Ipv4Addr>) {
        self.ours = ours.into_iter().collect();
    }

    /// The tunnel is up with this inner address, or it is down. Whether that is new.
    pub fn follow_tunnel(&mut self, inner: Option<Ipv4Addr>) -> bool {
        core::mem::replace(&mut self.inner, inner) != inner
    }

    /// Whoever brings the tunnel up may have forgotten it.
    pub fn forget(&mut self) {
        self.is_told = false;
    }

    /// Whether the tunnel is wanted.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Whether it is up.
    pub fn is_open(&self) -> bool {
        self.inner.is_some()
    }

    /// When [`Self::step`] is due.
    pub fn deadline(&self) -> Option<Deadline> {
        let bare = self.bare_until.map(|at| (at, "look for a foreign agent"));
        let trial = self
            .trial
            .map(|(_, at)| (at, "doubt that an agent is inside"));
        let all = bare.into_iter().chain(trial);
        all.map(|(at, why)| Deadline { at, why }).min()
    }

    /// The node has another link, or none. `found`: how it is there. Returns what to attach it to:
    /// while the tunnel is up it stays behind the gateway, on the next address the tunnel follows,
    /// and nothing else changes.
    pub fn come(&mut self, found: Attachment, view: &View, now: Instant) -> Attachment {
        (self.bare_until, self.trial) = (None, None);
        self.tried.clear();
        let Some(inner) = self.inner.filter(|_| view.is_secured) else {
            return found;
        };
        match found {
            Attachment::Home | Attachment::Secured(_) => return found,
            Attachment::Visiting if view.outside == Outside::None => {
                self.bare_until = Some(now + BARE_SPAN);
            }
            Attachment::Visiting | Attachment::Detached | Attachment::Colocated(_) => {}
        }
        Attachment::Secured(inner)
    }

    /// An agent that serves is heard on the node's link. What the tunnel carries waits for one of
    /// ours for a while.
    pub fn hear(&mut self, agent: Ipv4Addr, view: &View, now: Instant) -> Hearing {
        let is_bare = view.place == Some(Attachment::Visiting);
        // What has proven it needs no trial: a new one would end the registration.
        let is_open = is_bare && !view.is_inside && view.outside != Outside::None;
        let may_be_inside = is_open && self.ours.contains(&agent);
        if !may_be_inside {
            return Hearing::Believe;
        }
        if let Some((on_trial, _)) = self.trial {
            // One after the other.
            return match on_trial == agent {
                true => Hearing::Believe,
                false => Hearing::Doubt,
            };
        }
        let is_over = self.tried.get(&agent);
        let is_cut_off = view.outside == Outside::Unreachable;
        if is_over.is_some_and(|until| !is_cut_off || now < *until + AGAIN) {
            return Hearing::Doubt;
        }
        self.tried.insert(agent, now + TRIAL);
        self.trial = Some((agent, now + TRIAL));
        Hearing::Try
    }

    /// [`View::place`] of a node that has found this link and is attached like this.
    pub fn place(&self, found: Attachment, attached: Attachment) -> Option<Attachment> {
        let is_visiting = match attached {
            Attachment::Visiting | Attachment::Secured(_) => true,
            Attachment::Home => self.is_trying(),
            Attachment::Detached | Attachment::Colocated(_) => false,
        };
        match found {
            Attachment::Colocated(_) => Some(found),
            Attachment::Visiting => is_visiting.then_some(found),
            Attachment::Home | Attachment::Secured(_) | Attachment::Detached => None,
        }
    }

    /// Whether an agent of this link has to prove that it is inside.
    pub fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// What is to be done after any change.
    pub fn step(&mut self, view: &View, now: Instant) -> Step {
        let mut step = Step {
            connect: self.want(view),
            ..Step::default()
        };
        if self.bare_until.take_if(|until| *until <= now).is_some() {
            step.attach = Some(Attachment::Visiting);
        }
        let mut is_over = self.trial.take_if(|(_, until)| *until <= now).is_some();
        if view.is_inside {
            (self.trial, is_over) = (None, false);
            self.tried.clear();
        }
        let is_by_agent = view.outside == Outside::ByAgent;
        match (view.place, self.inner) {
            _ if view.is_inside => {}
            (Some(Attachment::Colocated(own)), Some(inner)) => {
                step.attach = Some(Attachment::Secured(inner));
                step.ask_from = Some(own);
            }
            (Some(Attachment::Visiting), Some(inner)) if is_by_agent && self.trial.is_none() => {
                step.attach = Some(Attachment::Secured(inner));
            }
            (Some(Attachment::Colocated(own)), None) if view.is_secured => {
                step.attach = Some(Attachment::Colocated(own));
            }
            (_, None) if view.is_secured => {
                step.attach = Some(match view.has_link {
                    true => Attachment::Visiting,
                    false => Attachment::Detached,
                });
            }
            _ if is_over => step.attach = Some(Attachment::Visiting),
            _ => {}
        }
        step
    }

    /// Whether to bring the tunnel up or to take it down, if that is new.
    fn want(&mut self, view: &View) -> Option<bool> {
        let may_begin = match view.outside {
            Outside::None => matches!(view.place, Some(Attachment::Colocated(_))),
            Outside::Unreachable => false,
            Outside::Tunnelled | Outside::ByAgent => view.place.is_some(),
        };
        let is_wanted = !view.is_inside && (may_begin || self.is_wanted);
        let was_wanted = core::mem::replace(&mut self.is_wanted, is_wanted);
        let was_told = core::mem::replace(&mut self.is_told, true);
        (was_wanted != is_wanted || is_wanted && !was_told).then_some(is_wanted)
    }
}

/// What a node does with its registration outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutsideStep {
    /// Nothing.
    Stay,
    /// Attach it to nothing.
    Detach,
    /// Take the registration back, through the agent by which it came.
    Leave,
    /// Take it back from this address.
    LeaveFrom(Ipv4Addr),
    /// Register like this.
    Attach(Attachment),
    /// The same, and what held before holds no more.
    Rejoin(Attachment),
}

/// The node as its home agent outside knows it.
#[derive(Debug, Default)]
pub struct Track {
    /// The node's link is another, or was lost: what holds there holds no more.
    is_lost: bool,
    /// The node was inside, and has taken its registration back from this address.
    left_from: Option<Ipv4Addr>,
}

impl Track {
    /// The node has lost its link, or has another one.
    pub fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Whether a registration there is that of the node's present link.
    pub fn holds(&self) -> bool {
        !self.is_lost && self.left_from.is_none()
    }

    /// How a node with this registration outside is reached.
    pub fn reach(&self, state: &State) -> Outside {
        match state {
            State::Registered { .. } if !self.holds() => Outside::Unreachable,
            State::Registered { .. } if state.delivering().is_some() => Outside::ByAgent,
            State::Registered { .. } => Outside::Tunnelled,
            State::Home | State::Unreachable => Outside::Unreachable,
        }
    }

    /// How the node is on its link ([`View::place`]), or it is proven to be inside, with this
    /// address. Inside, the registration is taken back.
    pub fn follow(
        &mut self,
        place: Option<Attachment>,
        inside: Option<Ipv4Addr>,
        state: &State,
    ) -> OutsideStep {
        let is_registered = matches!(state, State::Registered { .. });
        match (inside, place) {
            (Some(_), _) if !is_registered => OutsideStep::Detach,
            // From another network inside, the home agent is perhaps reached.
            (Some(from), _) => {
                let by_agent = self.holds() && state.delivering().is_some();
                let is_new = core::mem::take(&mut self.is_lost);
                match self.left_from.replace(from) == Some(from) && !is_new {
                    true => OutsideStep::Stay,
                    false if by_agent => OutsideStep::Leave,
                    false => OutsideStep::LeaveFrom(from),
                }
            }
            (None, None) => OutsideStep::Stay,
            (None, Some(place)) => {
                let was_lost = core::mem::take(&mut self.is_lost);
                match self.left_from.take().is_some() || was_lost {
                    true => OutsideStep::Rejoin(place),
                    false => OutsideStep::Attach(place),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
