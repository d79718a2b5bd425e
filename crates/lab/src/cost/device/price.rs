//! The cost of one packet, with its parts and sizes.

use engine::link::wireless::{LegacyCipher, LinkCipher};
use serde::Serialize;

use super::{Device, Refusal, of_suite};
use crate::IP_BYTES_MAX;
use crate::cost::accounting::Accounting;
use crate::cost::bill::{self, Bill, Direction, Gap};
use crate::cost::cycles::frames::LLC_BYTES;
use crate::cost::policy::Policy;
use crate::cost::profile::{Profile, Unit};
use crate::cost::suite::Standing;

/// An IPv4 header alone.
const LEAST_BYTES: f64 = 20.0;
/// The accounting of frames of wireless links.
const IEEE80211: &str = "ieee80211";

/// The cost of one packet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Price {
    /// The profile.
    pub profile: String,
    /// The suite, or the cipher of a wireless link.
    pub suite: String,
    /// `seal` or `open`.
    pub direction: &'static str,
    /// The requested size.
    pub bytes: f64,
    /// The size of the clear IP packet.
    pub packet_bytes: f64,
    /// The accounting of the sizes.
    pub accounting: &'static str,
    /// Operations, if the profile counts them.
    pub operations: Option<f64>,
    /// Cycles, if the profile counts them or states its clock.
    pub cycles: Option<f64>,
    /// Time of the processor.
    pub time_s: f64,
    /// The same in ms.
    pub time_ms: f64,
    /// Only bytes have a cost: the time, and everything that depends on it, is a lower bound.
    pub is_lower_bound: bool,
    /// On the wire, including the outer IP header.
    pub protected_bytes: f64,
    /// The user's share of the bytes on the wire.
    pub payload_ratio: f64,
    /// Energy of the processor; none if no source gives the energy of a cycle.
    pub energy_j: Option<f64>,
    /// The source of the energy of a cycle.
    pub energy_source: Option<String>,
    /// `current`, `legacy` or `clear`.
    pub standing: &'static str,
    /// Why it is legacy.
    pub reasons: Vec<String>,
    /// Notes on the figures.
    pub notes: Vec<String>,
    /// Seconds and source of each part.
    pub parts: Vec<PricedPart>,
}

/// One part of a cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PricedPart {
    /// Algorithm or step of the path.
    pub what: String,
    /// Time of the processor.
    pub time_s: f64,
    /// The source of the number.
    pub source: String,
}

/// What a packet is protected by.
#[derive(Clone, Debug)]
pub enum Protection {
    /// A policy of IPsec or SKIP, or none.
    Policy(Policy),
    /// The cipher of a wireless link.
    Frame(LinkCipher),
}

/// What a packet becomes.
struct Sizes {
    /// The requested size, and that of the clear IP packet.
    asked: (f64, f64),
    accounting: &'static str,
    /// The user's share of the packet.
    payload: f64,
    protected: f64,
}

impl Protection {
    /// By the name of a suite, or of the cipher of a wireless link. The error lists the profile's
    /// suites.
    pub fn named(profile: &Profile, word: &str) -> Result<Self, Refusal> {
        let cipher = LinkCipher::ALL.into_iter().find(|it| it.name() == word);
        match cipher {
            Some(cipher) => Ok(Self::Frame(cipher)),
            None => of_suite(profile, word).map(Self::Policy),
        }
    }
}

impl From<Policy> for Protection {
    fn from(policy: Policy) -> Self {
        Self::Policy(policy)
    }
}

impl Device {
    /// The cost of a packet of `bytes`, as [`Device::price`] and [`Device::price_frame`] say.
    pub fn price_of(
        &self,
        protection: &Protection,
        bytes: f64,
        direction: Direction,
    ) -> Result<Price, Refusal> {
        match protection {
            Protection::Policy(policy) => self.price(policy, bytes, direction),
            Protection::Frame(cipher) => self.price_frame(*cipher, bytes, direction),
        }
    }

    /// The cost of a packet of `bytes` with `policy`. With a paper's profile, `bytes` is the packet
    /// size in that paper's terms ([`Profile::header_bytes`](crate::cost::Profile::header_bytes)).
    pub fn price(
        &self,
        policy: &Policy,
        bytes: f64,
        direction: Direction,
    ) -> Result<Price, Refusal> {
        self.price_as(policy, bytes, direction, self.profile.accounting())
    }

    /// The same with another accounting's sizes.
    pub fn price_as(
        &self,
        policy: &Policy,
        bytes: f64,
        direction: Direction,
        accounting: Accounting,
    ) -> Result<Price, Refusal> {
        let packet = self.packet(bytes)?;
        let word = policy.word();
        let bill = self.bill(policy, direction)?;
        let size = accounting.size(policy).map_err(|_no_formula| {
            let cell = format!("the formula of {}'s accounting", accounting.name());
            self.profile.missing(&word, Gap(cell))
        })?;
        let sizes = Sizes {
            asked: (bytes, packet),
            accounting: accounting.name(),
            payload: accounting.payload(packet),
            protected: size.at(packet),
        };
        let standing = policy.standing();
        let standing = (standing.word(), standing.reasons());
        Ok(self.priced(bill, &word, standing, direction, &sizes))
    }

    /// The cost of a packet of `bytes` in a frame of a wireless link, for a processor that does
    /// what most radios do themselves. The protected size has LLC, SNAP and what the cipher adds,
    /// without the header of the frame.
    pub fn price_frame(
        &self,
        cipher: LinkCipher,
        bytes: f64,
        direction: Direction,
    ) -> Result<Price, Refusal> {
        let packet = self.packet(bytes)?;
        let missing = |gap| self.profile.missing_work(cipher.name(), gap);
        let mut bill = self.profile.frame(cipher, direction).map_err(missing)?;
        let left_out = bill.missing.take().is_some();
        let sizes = Sizes {
            asked: (bytes, packet),
            accounting: IEEE80211,
            payload: Accounting::Rfc.payload(packet),
            protected: packet + LLC_BYTES + cipher.overhead() as f64,
        };
        let standing = match cipher.is_legacy() {
            true => (
                Standing::Legacy(Vec::new()).word(),
                vec![LegacyCipher(cipher).to_string()],
            ),
            false => (Standing::Current.word(), Vec::new()),
        };
        let mut price = self.priced(bill, cipher.name(), standing, direction, &sizes);
        price.is_lower_bound |= left_out;
        Ok(price)
    }

    /// The size of the clear IP packet.
    fn packet(&self, bytes: f64) -> Result<f64, Refusal> {
        let packet = bytes + self.profile.header_bytes();
        let is_whole = bytes >= 0.0 && libm::trunc(bytes) == bytes;
        if !is_whole || !(LEAST_BYTES..=f64::from(IP_BYTES_MAX)).contains(&packet) {
            return Err(Refusal::Absurd {
                key: "bytes",
                value: bytes,
                why: "is not the size of an IP packet: 20 (its header) to 65535 whole bytes",
            });
        }
        Ok(packet)
    }

    fn priced(
        &self,
        mut bill: Bill,
        word: &str,
        (standing, reasons): (&'static str, Vec<String>),
        direction: Direction,
        sizes: &Sizes,
    ) -> Price {
        let (bytes, packet) = sizes.asked;
        if let Some([first, last]) = bill.measured_bytes
            && !(first..=last).contains(&packet)
        {
            bill.note(format!(
                "{packet} bytes are outside the measured sizes: the fitted line is extended"
            ));
        }
        let units = bill.total().at(packet);
        let cycles = self.cycles(units);
        let energy = self.nj_per_cycle();
        let part = |part: &bill::Part| PricedPart {
            what: part.what.clone(),
            time_s: part.units.at(packet) / self.units_per_second,
            source: part.source.clone(),
        };
        Price {
            profile: self.profile.name.clone(),
            suite: word.to_owned(),
            direction: direction.word(),
            bytes,
            packet_bytes: packet,
            accounting: sizes.accounting,
            operations: (self.profile.unit() == Unit::Operations).then_some(units),
            cycles,
            time_s: units / self.units_per_second,
            time_ms: units / (self.units_per_second / 1e3),
            is_lower_bound: self.profile.prices_bytes_alone() && !bill.parts.is_empty(),
            protected_bytes: sizes.protected,
            payload_ratio: sizes.payload / sizes.protected,
            energy_j: energy.and_then(|(nj, _)| Some(cycles? * nj * 1e-9)),
            energy_source: energy.map(|(_, source)| source.to_owned()),
            standing,
            reasons,
            parts: bill.parts.iter().map(part).collect(),
            notes: bill.notes,
        }
    }
}
