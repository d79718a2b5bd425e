//! SKIP on an inbound SA (draft-ietf-ipsec-skip-06): the packet brings its key.

use std::net::IpAddr;

use wire::ip::protocol;
use wire::skip::{Name, Nsid};

use crate::counters::DropReason;
use crate::plane::carried::{Carried, Heading, carried, is_about_another};
use crate::plane::inner::Inner;
use crate::sa::{InLine, Mobile, Sender};
use crate::selector::TrafficSelector;
use crate::skip::{self, Profile};
use crate::time::{Calendar, Duration, Instant};
use crate::work::Work;

/// How often the highest n is told: a peer chooses how fast n grows.
const TELL_INTERVAL: Duration = Duration::from_mins(1);

/// What SKIP needs to open packets.
pub(crate) struct InLineOpener {
    opener: skip::Opener,
    calendar: Option<(Calendar, Instant)>,
    /// The sender's name and ours.
    names: (Name, Name),
    from: Option<TrafficSelector>,
    is_authenticated: bool,
    sender: Sender,
    /// n is a count, not the hour.
    is_counted: bool,
    /// The highest n that the owner knows.
    told_n: Option<u32>,
    /// When it was told.
    told_at: Option<Instant>,
}

impl InLineOpener {
    pub(crate) fn new(in_line: &InLine) -> Self {
        let association = &in_line.association;
        let (local, remote) = association.names();
        let highest_n = (in_line.stored_n > 0).then_some(in_line.stored_n);
        Self {
            opener: skip::Opener::new(association, highest_n),
            calendar: None,
            names: (remote, local),
            from: in_line.from,
            is_authenticated: association.is_authenticated(),
            sender: in_line.sender.clone(),
            is_counted: association.profile() == Profile::Paper,
            told_n: highest_n,
            told_at: None,
        }
    }

    /// What was sent before the first of these times does not say where the peer is.
    pub(crate) fn tell(&mut self, calendar: Option<(Calendar, Instant)>) {
        if let (Some((begun, _)), None) = (calendar, self.calendar) {
            self.opener.begin(begun);
        }
        self.calendar = calendar.or(self.calendar);
    }

    pub(crate) fn open(
        &mut self,
        packet: &mut [u8],
        at: usize,
        now: Instant,
    ) -> Result<skip::Opened, DropReason> {
        let (told, moment) = self.calendar.ok_or(DropReason::SkipNoCalendar)?;
        let calendar = told.at(moment, now);
        let time = skip::SkipTime { calendar, now };
        self.opener.open(packet, at, time)
    }

    /// The highest n of an authentic packet, if the owner should know it now.
    pub(crate) fn n_to_tell(&mut self, now: Instant) -> Option<u32> {
        let is_due = |at: Instant| now.since(at) >= TELL_INTERVAL;
        if !self.is_counted || !self.told_at.is_none_or(is_due) {
            return None;
        }
        let highest = self.opener.highest_n();
        if highest <= self.told_n {
            return None;
        }
        (self.told_n, self.told_at) = (highest, Some(now));
        highest
    }

    pub(crate) fn names(&self) -> (Name, Name) {
        self.names
    }

    /// Whether packets may come from this address.
    pub(crate) fn takes_from(&self, source: IpAddr) -> bool {
        match self.from {
            Some(from) => from.contains_address(source),
            // Without a name, its address is all that tells who sent a packet.
            None => self.names.0.nsid() != Nsid::None,
        }
    }

    /// Whether the peer may have written this packet, which came in one from `outer`.
    pub(crate) fn check(&self, outer: IpAddr, packet: &[u8]) -> Result<(), DropReason> {
        if self.sender == Sender::Any {
            return Ok(());
        }
        let inner = Inner::parse(packet).ok_or(DropReason::BadInnerPacket)?;
        if inner.flow.source != outer {
            return Err(DropReason::ForgedSource);
        }
        match &self.sender {
            Sender::Mobile(node) => node.check(&inner, packet),
            Sender::Any | Sender::Host => Ok(()),
        }
    }

    /// Where packets may come from. `None`: from anywhere.
    pub(crate) fn from(&self) -> Option<TrafficSelector> {
        self.from
    }

    /// Whether its peer may be anywhere, and proves by its packets where it is.
    pub(crate) fn follows_its_peer(&self) -> bool {
        self.from.is_none() && self.is_authenticated
    }

    pub(crate) fn work(&self) -> &Work {
        self.opener.work()
    }
}

impl Mobile {
    /// What is plain, or a later fragment, must be from an address that is nobody else's. A packet
    /// of Mobile IPv4 proves more: the node's home address. It may have a care-of address inside,
    /// where it asks for the firewall by mistake.
    fn check(&self, inner: &Inner, packet: &[u8]) -> Result<(), DropReason> {
        let (own, flow) = (self.home_address, &inner.flow);
        let IpAddr::V4(source) = flow.source else {
            return Err(DropReason::SelectorMismatch);
        };
        // Nothing between the node and us can send what its key protects.
        if is_about_another(inner, packet) {
            return Err(DropReason::ForgedSource);
        }
        let is_plain = match carried(inner, packet, Heading::FromNode) {
            Carried::Unreadable => return Err(DropReason::BadInnerPacket),
            Carried::Home(home) if own.is_some_and(|own| own != home) => {
                return Err(DropReason::ForgedSource);
            }
            Carried::Home(home) if own.is_none() && self.reserved.holds(home, None) => {
                return Err(DropReason::ForgedSource);
            }
            Carried::Home(_) => own.is_none(),
            Carried::Later => true,
            Carried::Nothing => {
                let is_mobile = matches!(flow.protocol, protocol::ICMP | protocol::SKIP);
                let mut inside = self.inside.iter();
                let is_for_inside = inside.any(|one| one.contains_address(flow.destination));
                if !is_mobile && !is_for_inside {
                    return Err(DropReason::SelectorMismatch);
                }
                true
            }
        };
        let is_others = match is_plain {
            true => self.reserved.holds(source, own),
            false => self.reserved.has_host(source, own),
        };
        match is_others {
            true => Err(DropReason::ForgedSource),
            false => Ok(()),
        }
    }
}
