//! SKIP on an inbound SA (draft-ietf-ipsec-skip-06): the packet brings its key.

use std::net::{IpAddr, Ipv4Addr};

use wire::skip::{Name, Nsid};

use crate::counters::DropReason;
use crate::plane::carried::{Bound, Carried, carried};
use crate::plane::inner::Inner;
use crate::sa::InLine;
use crate::selector::TrafficSelector;
use crate::skip;
use crate::time::{Calendar, Instant};
use crate::work::Work;

/// What SKIP needs to open packets.
pub(crate) struct InLineOpener {
    opener: skip::Opener,
    calendar: Option<(Calendar, Instant)>,
    /// The sender's name and ours.
    names: (Name, Name),
    from: Option<TrafficSelector>,
    is_authenticated: bool,
    /// A packet inside must have the source of the packet that carries it.
    pub(crate) sends_own: bool,
    /// Packets of Mobile IPv4 inside must carry it.
    home_address: Option<Ipv4Addr>,
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
            sends_own: in_line.sends_own,
            home_address: in_line.home_address,
        }
    }

    pub(crate) fn tell(&mut self, calendar: Option<(Calendar, Instant)>) {
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

    /// Whether the peer may have sent this packet, as far as its home address tells.
    pub(crate) fn is_its_own(&self, packet: &[u8]) -> bool {
        let Some(own) = self.home_address else {
            return true;
        };
        let inner = Inner::parse(packet);
        let carried = inner.map(|inner| carried(&inner, packet, Bound::FromNode));
        match carried {
            Some(Carried::Home(home)) => home == own,
            Some(Carried::Nothing | Carried::Later) => true,
            Some(Carried::Unreadable) | None => false,
        }
    }

    /// How many addresses it takes packets from, less one.
    pub(crate) fn span(&self) -> u32 {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.to_bits(),
            IpAddr::V6(_) => Ipv4Addr::BROADCAST.to_bits(),
        };
        let span = |from: TrafficSelector| bits(from.last).saturating_sub(bits(from.first));
        self.from.map_or(u32::MAX, span)
    }

    /// Whether its peer may be anywhere, and proves by its packets where it is.
    pub(crate) fn follows_its_peer(&self) -> bool {
        self.from.is_none() && self.is_authenticated
    }

    pub(crate) fn work(&self) -> &Work {
        self.opener.work()
    }
}
