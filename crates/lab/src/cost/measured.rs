//! Profiles written by `caravan bench`: the time in ns for every suite, cipher of wireless links,
//! key exchange and step of the packet path on a machine.
//!
//! Between the measured sizes a fitted line is used: a constant and a slope with the least relative
//! error, which is kept and reported.

use core::fmt;
use std::collections::BTreeMap;

use crypto::packet::{Encryption, Integrity, Protection};
use document::{Fault, Item, Table};
use engine::link::wireless::LinkCipher;
use engine::sa::Protocol;
use engine::suite::EspSuite;

use super::bill::{Bill, Direction, Gap, Part};
use super::cycles::MOST_MHZ;
use super::policy::Policy;
use super::records::Records;
use super::works::Each;
use crate::staircase::Staircase;

/// The profile of a measured machine.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) title: String,
    source: String,
    pub(super) tsc_mhz: Option<f64>,
    suites: BTreeMap<String, [Option<Fit>; 2]>,
    /// Of wireless links; empty in files of former versions.
    frames: BTreeMap<String, [Option<Fit>; 2]>,
    costs: BTreeMap<String, f64>,
    host_path: HostPath,
}

/// How packets travel through the host: what a measured device adds to the cost of its suites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostPath {
    /// None: the suite alone.
    None,
    /// Every packet alone through TUN device and socket: the cost of a lightly loaded gateway.
    #[default]
    Packet,
    /// Packets in bursts of 64: the cost of a busy gateway.
    Burst,
}

/// A line through measured points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fit {
    fixed_ns: f64,
    ns_per_byte: f64,
    /// Largest relative difference between line and measurement.
    error: f64,
    first_bytes: f64,
    last_bytes: f64,
}

/// The longest plausible measurement.
const MOST_NS: f64 = 1e12;

impl Measured {
    pub(super) fn read(table: &Table<'_>) -> Result<Self, Fault> {
        let device = table.need("device")?.table()?;
        let name = device.need("name")?.text()?.to_owned();
        let (cpu, date) = (device.need("cpu")?.text()?, device.need("date")?.text()?);
        let tsc_mhz = device.find("tsc_mhz");
        let tsc_mhz = tsc_mhz.map(|item| item.positive(MOST_MHZ)).transpose()?;
        let is_quick = device.need("is_quick")?.boolean()?;
        device.finish()?;
        table.or("missing", (), |item| {
            item.list()?
                .iter()
                .try_for_each(|name| name.text().map(drop))
        })?;
        let mut costs = BTreeMap::new();
        let frames = table.find("frame");
        let mut groups: Vec<_> = frames.map(|item| ("frame", item)).into_iter().collect();
        for group in ["suite", "exchange", "road"] {
            groups.push((group, table.need(group)?));
        }
        for (group, item) in groups {
            for (thing, values) in item.members()? {
                for (name, value) in values.members()? {
                    let key = format!("{group}.{thing}.{name}");
                    costs.insert(key, value.positive(MOST_NS)?);
                }
            }
        }
        let suites = Fit::both(table.need("suite")?, ["seal_ns_", "open_ns_"])?;
        let both = |item| Fit::both(item, ["protect_ns_", "unprotect_ns_"]);
        let frames = frames.map(both).transpose()?.unwrap_or_default();
        let quick = if is_quick { ", quick" } else { "" };
        Ok(Self {
            title: format!("{cpu}, measured {date}{quick}"),
            source: format!("caravan bench on {name}, {date}{quick}"),
            name,
            tsc_mhz,
            suites,
            frames,
            costs,
            host_path: HostPath::default(),
        })
    }

    /// The same machine with this path through the host added.
    pub(super) fn on(mut self, host_path: HostPath) -> Self {
        self.host_path = host_path;
        self
    }

    /// ns as functions of the clear IP packet's size. Without protection, Caravan is not in the
    /// path.
    pub(super) fn bill(&self, policy: &Policy, direction: Direction) -> Result<Bill, Gap> {
        let mut bill = Bill::default();
        if policy.suite.skip().is_some() {
            let cell = format!("suite.{}.{}_ns_*", policy.suite.word(), direction.word());
            return Err(Gap(cell));
        }
        let Some(suite) = policy.suite.ipsec() else {
            return Ok(bill);
        };
        if policy.around.is_some() {
            // `caravan bench` measures one layer.
            return Err(Gap(format!("suite.{}", policy.word())));
        }
        let fit = self.fit(suite, direction)?;
        let steps = match direction {
            Direction::Seal => ["tun.read", "udp.send"],
            Direction::Open => ["udp.receive", "tun.write"],
        };
        let how = match self.host_path {
            HostPath::None => None,
            HostPath::Packet => Some("packet"),
            HostPath::Burst => Some("burst"),
        };
        for step in steps {
            let Some(how) = how else { continue };
            let cell = format!("road.{step}_ns_{how}");
            bill.parts.push(Part {
                what: step.to_owned(),
                units: Staircase::constant(self.ns(&cell)?),
                source: self.source.clone(),
            });
        }
        // A sealed packet is read first and sent last; an opened one is received first.
        bill.parts.insert(
            usize::from(how.is_some()),
            fit.part(&esp_word(suite), &self.source),
        );
        bill.note(fit.to_string());
        bill.measured_bytes = Some([fit.first_bytes, fit.last_bytes]);
        Ok(bill)
    }

    /// ns of a frame of a wireless link as functions of the IP packet's size.
    pub(super) fn frame(&self, cipher: LinkCipher, direction: Direction) -> Result<Bill, Gap> {
        let (which, act) = match direction {
            Direction::Seal => (0, "protect"),
            Direction::Open => (1, "unprotect"),
        };
        let fit = self.frames.get(cipher.name()).and_then(|fits| fits[which]);
        let fit = fit.ok_or_else(|| Gap(format!("frame.{}.{act}_ns_*", cipher.name())))?;
        let mut bill = Bill::default();
        bill.parts.push(fit.part(cipher.name(), &self.source));
        bill.note(fit.to_string());
        bill.measured_bytes = Some([fit.first_bytes, fit.last_bytes]);
        Ok(bill)
    }

    /// ns as functions of the octets that a record of TLS carries: as many as a packet of ESP with
    /// the same algorithms takes.
    pub(super) fn record(&self, records: &Records, direction: Direction) -> Result<Bill, Gap> {
        let fit = self.fit(&records.suite, direction)?;
        let mut bill = Bill::default();
        bill.parts
            .push(fit.part(&esp_word(&records.suite), &self.source));
        bill.note("a record as a packet of ESP of its size");
        bill.measured_bytes = Some([fit.first_bytes, fit.last_bytes]);
        Ok(bill)
    }

    /// ns of one call of IKE's work.
    pub(super) fn work(&self, each: &Each) -> Result<f64, Gap> {
        match each {
            Each::Cell(cell) => {
                let (thing, act) = cell.rsplit_once('-').unwrap_or((cell, ""));
                self.ns(&format!("exchange.{thing}.{act}_ns"))
            }
            // A body costs as much as an ESP packet of its size with the cipher and a hash. This is
            // an upper bound, because the hash counts again as a prf.
            Each::Cipher { cipher, bytes } => {
                let suites = HASHES.iter().map(|hash| format!("{cipher}{hash}"));
                let found = suites
                    .filter_map(|suite| self.suites.get(&suite)?[0])
                    .next();
                let gap = || Gap(format!("suite.{cipher}-sha1"));
                Ok(found.ok_or_else(gap)?.at(*bytes))
            }
            // A message costs as much as an ESP packet of its size.
            Each::Aead { cipher, bytes } => {
                let protection = Protection {
                    encryption: *cipher,
                    integrity: Integrity::None,
                };
                let suite = EspSuite::new(Protocol::Esp, protection);
                Ok(self.fit(&suite, Direction::Seal)?.at(*bytes))
            }
            // `caravan bench` measures no algorithm of SKIP alone.
            Each::Bytes { primitive, .. } => Err(Gap(format!("suite.{primitive}"))),
            Each::Hash { hash, .. } => Err(Gap(format!("exchange.{hash}"))),
            // Measured at one size, which most calls do not reach: an upper bound for those.
            Each::Prf { hash, bytes } => {
                let cell = format!("exchange.prf-{hash}.prf_ns_{PRF_BYTES}");
                let calls = libm::ceil(bytes / f64::from(PRF_BYTES)).max(1.0);
                Ok(self.ns(&cell)? * calls)
            }
        }
    }

    /// Every value of the file, for people.
    pub(super) fn costs(&self) -> impl Iterator<Item = (&str, f64)> {
        self.costs.iter().map(|(name, ns)| (name.as_str(), *ns))
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    fn fit(&self, suite: &EspSuite, direction: Direction) -> Result<Fit, Gap> {
        let word = esp_word(suite);
        let which = match direction {
            Direction::Seal => 0,
            Direction::Open => 1,
        };
        let fit = self.suites.get(&word).and_then(|fits| fits[which]);
        fit.ok_or_else(|| Gap(format!("suite.{word}.{}_ns_*", direction.word())))
    }

    fn ns(&self, cell: &str) -> Result<f64, Gap> {
        let found = self.costs.get(cell).copied();
        found.ok_or_else(|| Gap(cell.to_owned()))
    }
}

/// Hashes with which a cipher may have been measured; first none.
const HASHES: [&str; 4] = ["", "-sha1", "-sha256", "-md5"];
/// Octets over which a prf is measured.
const PRF_BYTES: u32 = 512;

/// The bench's word for the algorithms of a suite, without PFS and ESN.
fn esp_word(suite: &EspSuite) -> String {
    let EspSuite {
        protocol,
        protection,
        ..
    } = *suite;
    debug_assert!(protocol == Protocol::Esp || protection.encryption == Encryption::Null);
    EspSuite::new(protocol, protection).to_string()
}

/// The accuracy of the line.
impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last, percent) = (self.first_bytes, self.last_bytes, 100.0 * self.error);
        write!(
            f,
            "fitted to {first} to {last} bytes, largest error {percent:.1} %"
        )?;
        if self.error > GOOD_FIT {
            f.write_str(": measure again on a quiet machine")?;
        }
        Ok(())
    }
}

/// Quiet machines stay below this: padding alone causes such steps in small packets.
const GOOD_FIT: f64 = 0.15;

impl Fit {
    /// `None` if nothing with that prefix was measured.
    fn read(prefix: &str, values: &BTreeMap<String, Item>) -> Result<Option<Self>, Fault> {
        let mut points = Vec::new();
        for (name, item) in values {
            if let Some(size) = name.strip_prefix(prefix) {
                let size: Result<u32, _> = size.parse();
                let size = size.map_err(|_| item.fault(format!("{name} needs a size")))?;
                points.push((f64::from(size), item.positive(MOST_NS)?, item));
            }
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let [(_, _, first), rest @ ..] = points.as_slice() else {
            return Ok(None);
        };
        if rest.is_empty() {
            return Err(first.fault("one size is not enough: the line needs at least two"));
        }
        let points: Vec<_> = points.iter().map(|(bytes, ns, _)| (*bytes, *ns)).collect();
        Ok(Some(Self::through(&points)))
    }

    /// Least squares of the relative differences; constant and slope are not negative.
    fn through(points: &[(f64, f64)]) -> Self {
        let sum = |term: fn(f64, f64) -> f64| points.iter().map(|&(x, y)| term(x, y)).sum::<f64>();
        let (w, wx) = (sum(|_, y| 1.0 / (y * y)), sum(|x, y| x / (y * y)));
        let (wxx, wy) = (sum(|x, y| x * x / (y * y)), sum(|_, y| 1.0 / y));
        let wxy = sum(|x, y| x / y);
        let free = (w * wxy - wx * wy) / (w * wxx - wx * wx);
        let start = (wy - free * wx) / w;
        let (fixed_ns, ns_per_byte) = if free < 0.0 {
            (wy / w, 0.0)
        } else if start < 0.0 {
            (0.0, wxy / wxx)
        } else {
            (start, free)
        };
        let off = |&(x, y): &(f64, f64)| ((fixed_ns + ns_per_byte * x) / y - 1.0).abs();
        Self {
            fixed_ns,
            ns_per_byte,
            error: points.iter().map(off).fold(0.0, f64::max),
            first_bytes: points[0].0,
            last_bytes: points[points.len() - 1].0,
        }
    }

    fn at(&self, bytes: f64) -> f64 {
        self.fixed_ns + self.ns_per_byte * bytes
    }

    /// Those of each thing, by two prefixes.
    fn both(
        item: &Item,
        prefixes: [&str; 2],
    ) -> Result<BTreeMap<String, [Option<Self>; 2]>, Fault> {
        let each = item.members()?.iter().map(|(name, item)| {
            let values = item.members()?;
            let fits = [
                Self::read(prefixes[0], values)?,
                Self::read(prefixes[1], values)?,
            ];
            Ok((name.clone(), fits))
        });
        each.collect()
    }

    fn part(&self, what: &str, source: &str) -> Part {
        Part {
            what: what.to_owned(),
            units: Staircase {
                fixed: self.fixed_ns,
                per_byte: self.ns_per_byte,
                steps: Vec::new(),
            },
            source: source.to_owned(),
        }
    }
}
