//! The engine's machine of either end, as the loop sees it.

use crypto::rand::Seed;
use engine::counters::{DropCounters, DropReason};
use engine::link::wireless::{AccessPoint, AirOutbox, Received, SessionFault, Station, Way};
use engine::time::Instant;
use wire::ieee80211::Address;

use crate::config::wireless::{End, WirelessConfig};

/// One end.
pub(super) enum Machine {
    Station(Box<Station>),
    /// Whether it relays, and the machine.
    AccessPoint(bool, Box<AccessPoint>),
}

/// Why EAP's key is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("a station has one access point: session HEX")]
    WithAddress,
    #[error("an access point has several stations: session ADDRESS HEX")]
    WithoutAddress,
    #[error(transparent)]
    Fault(#[from] SessionFault),
}

impl Machine {
    pub(super) fn new(config: &WirelessConfig, own: Address, seed: Seed, now: Instant) -> Self {
        let network = config.network.clone();
        match config.role {
            End::Station => Self::Station(Box::new(Station::new(network, own, seed, now))),
            End::AccessPoint => {
                let mut it = AccessPoint::new(network, own, seed);
                if let Some(interval) = config.group_key_renewal {
                    it.renew_group_every(interval, now);
                }
                Self::AccessPoint(config.relay, Box::new(it))
            }
        }
    }

    pub(super) fn protect(&mut self, frame: &[u8], air: &mut [u8]) -> Result<usize, DropReason> {
        match self {
            Self::Station(it) => it.protect(frame, air),
            Self::AccessPoint(_, it) => it.protect(frame, air),
        }
    }

    /// Tells of a frame of the host, before [`Self::protect`].
    pub(super) fn note_host(&mut self, frame: &[u8], now: Instant) {
        if let Self::AccessPoint(_, it) = self {
            it.note_wired(frame, now);
        }
    }

    pub(super) fn receive(
        &mut self,
        air: &mut [u8],
        now: Instant,
        out: &mut AirOutbox,
    ) -> Received {
        match self {
            Self::Station(it) => it.receive(air, now, out),
            Self::AccessPoint(_, it) => it.receive(air, now, out),
        }
    }

    /// Where a frame from the air goes.
    pub(super) fn way_of(&self, frame: &[u8], now: Instant) -> Way {
        match self {
            Self::AccessPoint(true, it) => it.way_of(frame, now),
            _ => Way {
                up: true,
                back: false,
            },
        }
    }

    /// `station`: whose key it is, at an access point.
    pub(super) fn session(
        &mut self,
        station: Option<Address>,
        key: &[u8],
        now: Instant,
        out: &mut AirOutbox,
    ) -> Result<(), Refused> {
        match (self, station) {
            (Self::Station(it), None) => Ok(it.session(key, now, out)?),
            (Self::AccessPoint(_, it), Some(station)) => Ok(it.session(station, key, now, out)?),
            (Self::Station(_), Some(_)) => Err(Refused::WithAddress),
            (Self::AccessPoint(..), None) => Err(Refused::WithoutAddress),
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let deadline = match self {
            Self::Station(it) => it.deadline(),
            Self::AccessPoint(_, it) => it.deadline(),
        };
        deadline.map(|it| it.at)
    }

    pub(super) fn fire(&mut self, now: Instant, out: &mut AirOutbox) {
        match self {
            Self::Station(it) => it.fire(now, out),
            Self::AccessPoint(_, it) => it.fire(now, out),
        }
    }

    pub(super) fn close(&mut self, now: Instant, out: &mut AirOutbox) {
        match self {
            Self::Station(it) => it.close(now, out),
            Self::AccessPoint(_, it) => it.close(now, out),
        }
    }

    pub(super) fn drops(&self) -> DropCounters {
        match self {
            Self::Station(it) => it.drops(),
            Self::AccessPoint(_, it) => it.drops(),
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::link::wireless::{Network, Security};

    use super::*;

    #[test]
    fn a_key_without_its_station_is_refused_for_that() {
        let own = Address([2, 0, 0, 0, 0, 1]);
        let (seed, now) = (Seed::new([1; 32]), Instant(0));
        let network = Network {
            ssid: b"office".to_vec(),
            security: Security::Open,
        };
        let station = Station::new(network.clone(), own, seed.clone(), now);
        let access_point = AccessPoint::new(network, own, seed);
        let refused = |mut machine: Machine, address| {
            let mut out = AirOutbox::default();
            machine.session(address, &[7; 64], now, &mut out)
        };
        let station = Machine::Station(Box::new(station));
        assert_eq!(refused(station, Some(own)), Err(Refused::WithAddress));
        let access_point = Machine::AccessPoint(true, Box::new(access_point));
        assert_eq!(refused(access_point, None), Err(Refused::WithoutAddress));
    }
}
