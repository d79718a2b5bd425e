//! A profile with its clock: converts operations, cycles and ns to seconds, and computes costs.

mod price;

use crypto::cipher::Cipher;
use crypto::dh::long_term::Group;
use engine::link::wireless::LinkCipher;
use engine::plane::shape::TunnelShape;
use engine::sa::Encapsulation;
use engine::skip::words;
use engine::suite::SuiteFault;
use engine::work::{Task, Work};
use wire::skip::{CryptAlg, KijAlg, MacAlg};

use super::bill::{Bill, Direction};
use super::cycles::frames::{self, LLC_BYTES};
use super::cycles::skip::cipher_of;
use super::measured::HostPath;
use super::names;
use super::policy::Policy;
use super::profile::{Missing, Profile, Table, Unit};
use super::records::Records;
use super::suite::Suite;
use super::works::{Each, operation_of};
use crate::staircase::Staircase;

pub use price::{Price, PricedPart, Protection};

/// The speed of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clock {
    /// Million operations per second, for profiles in operations.
    Mips(f64),
    /// Million cycles per second, for profiles in cycles.
    MegaHertz(f64),
}

/// A profile with its clock.
#[derive(Clone, Debug)]
pub struct Device {
    profile: Profile,
    units_per_second: f64,
}

/// Why there is no cost.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The profile lacks it.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// No suite has that name.
    #[error("{why}; suites inside {profile} are {}", inside.join(", "))]
    UnknownSuite {
        /// The word, and the nearest valid one.
        why: String,
        /// The profile.
        profile: String,
        /// Its suites.
        inside: Vec<String>,
    },
    /// An impossible value.
    #[error("{key}: {} {why}", plain(*value))]
    Absurd {
        /// The argument.
        key: &'static str,
        /// Its value.
        value: f64,
        /// The limit.
        why: &'static str,
    },
    /// A clock is missing, or does not suit the profile.
    #[error("{profile}: {why}")]
    Clock {
        /// The profile.
        profile: String,
        /// What to do.
        why: &'static str,
    },
}

/// The time of some work, as far as the profile has costs for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkTime {
    /// The time of everything with a cost: a lower bound if something has none.
    pub seconds: f64,
    /// The first thing without a cost.
    pub missing: Option<Missing>,
}

impl WorkTime {
    /// The seconds, if everything has a cost.
    pub fn whole(self) -> Result<f64, Missing> {
        self.missing.map_or(Ok(self.seconds), Err)
    }
}

impl Device {
    /// A profile in operations needs MIPS. One in cycles takes MHz, or uses its own clock. A
    /// measured one has its clock and takes none.
    pub fn new(profile: Profile, clock: Option<Clock>) -> Result<Self, Refusal> {
        let refuse = |why| {
            let profile = profile.name.clone();
            Err(Refusal::Clock { profile, why })
        };
        let units_per_second = match (profile.unit(), clock) {
            (Unit::Operations, Some(Clock::Mips(mips))) => 1e6 * above_zero("mips", mips)?,
            (Unit::Operations, None) => {
                return refuse(
                    "it counts operations: give the MIPS of the processor, --mips 100 or mips = \
                     100 in its node",
                );
            }
            (Unit::Operations, Some(Clock::MegaHertz(_))) => {
                return refuse(
                    "it counts operations: give MIPS, not a clock in MHz, --mips 100 or mips = \
                     100 in its node",
                );
            }
            (Unit::Cycles, Some(Clock::MegaHertz(mhz))) => 1e6 * above_zero("clock", mhz)?,
            (Unit::Cycles, Some(Clock::Mips(_))) => {
                return refuse(
                    "it counts cycles: give a clock, not MIPS, --mhz 80 or clock = \"80 MHz\" in \
                     its node",
                );
            }
            (Unit::Cycles, None) => match profile.clock_mhz() {
                Some((mhz, _)) => 1e6 * mhz,
                None => {
                    return refuse(
                        "it has no clock: give one, --mhz 80 or clock = \"80 MHz\" in its node",
                    );
                }
            },
            (Unit::Nanoseconds, None) => 1e9,
            (Unit::Nanoseconds, Some(_)) => {
                return refuse("it was measured in ns at its own clock, which cannot be changed");
            }
        };
        Ok(Self {
            profile,
            units_per_second,
        })
    }

    /// The same device with this path through the host added; only measured profiles have one.
    pub fn on(mut self, host_path: HostPath) -> Self {
        if let Table::Measured(table) = self.profile.table {
            self.profile.table = Table::Measured(table.on(host_path));
        }
        self
    }

    /// Its cost table.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Seconds for a packet, as a function of the clear IP packet's size; zero without protection.
    pub fn service(&self, policy: &Policy, direction: Direction) -> Result<Staircase, Missing> {
        Ok(self
            .bill(policy, direction)?
            .total()
            .times(1.0 / self.units_per_second))
    }

    /// Seconds to put a tunnel of Mobile IP around a packet, or to take it away, as a function of
    /// the packet's size without it: as long as a copy, or nothing if no source says how long.
    pub fn tunnel(&self, shape: TunnelShape, direction: Direction) -> Staircase {
        let header = shape.header_bytes() as f64;
        self.profile
            .tunnel(shape.encapsulation.name(), direction, header)
            .times(1.0 / self.units_per_second)
    }

    /// Seconds to protect or unprotect a frame of a wireless link, as a function of the size of the
    /// IP packet in it; and what it leaves out because no source gives its cost.
    pub fn frame(
        &self,
        cipher: LinkCipher,
        direction: Direction,
    ) -> Result<(Staircase, Option<Missing>), Missing> {
        let missing = |gap| self.profile.missing_work(cipher.name(), gap);
        let mut bill = self.profile.frame(cipher, direction).map_err(missing)?;
        let left_out = bill.missing.take().map(missing);
        Ok((bill.total().times(1.0 / self.units_per_second), left_out))
    }

    /// Seconds to protect or unprotect a record of TLS, as a function of what it carries.
    pub fn record(&self, records: &Records, direction: Direction) -> Result<Staircase, Missing> {
        let bill = self.profile.record(records, direction);
        let word = records.suite.to_string();
        let bill = bill.map_err(|gap| self.profile.missing_work(&word, gap))?;
        Ok(bill.total().times(1.0 / self.units_per_second))
    }

    /// Its parts with sources and notes, in the profile's unit.
    pub fn bill(&self, policy: &Policy, direction: Direction) -> Result<Bill, Missing> {
        let bill = self.profile.bill(policy, direction);
        bill.map_err(|gap| self.profile.missing(&policy.word(), gap))
    }

    /// The time of an engine's work. The work names its algorithms; the policy only says how
    /// packets travel: the mode, and whether in UDP. Packets are priced at their mean size, in
    /// bytes of clear IP packets.
    pub fn work_time(&self, policy: &Policy, work: &Work) -> WorkTime {
        let mut time = WorkTime::default();
        for &(task, times, bytes) in work.entries() {
            let mean = bytes as f64 / times.max(1) as f64;
            match self.task_time(policy, task, mean) {
                Ok(each) => time.seconds += each * times as f64,
                Err(missing) => _ = time.missing.get_or_insert(missing),
            }
        }
        time
    }

    /// Seconds of an operation of `[per_operation]`, by its name.
    pub fn operation(&self, name: &str) -> Result<f64, Missing> {
        let units = self.profile.work(&Each::Cell(name.to_owned()));
        let units = units.map_err(|gap| self.profile.missing_work(name, gap))?;
        Ok(units / self.units_per_second)
    }

    fn task_time(&self, policy: &Policy, task: Task, bytes: f64) -> Result<f64, Missing> {
        let each = match task {
            Task::Seal(protocol, protection) => {
                let policy = policy.with(protocol, protection);
                return Ok(self.service(&policy, Direction::Seal)?.at(bytes));
            }
            Task::Open(protocol, protection) => {
                let policy = policy.with(protocol, protection);
                return Ok(self.service(&policy, Direction::Open)?.at(bytes));
            }
            Task::Encapsulate(form) => return self.tunnel_time(form, Direction::Seal, bytes),
            Task::Decapsulate(form) => return self.tunnel_time(form, Direction::Open, bytes),
            Task::KeyPair(_)
            | Task::Agree(_)
            | Task::KeyShare(_)
            | Task::KeySecret(_)
            | Task::KeyAnswer(_)
            | Task::Sign(_)
            | Task::Verify(_)
            | Task::SignCurve(_)
            | Task::VerifyCurve(_) => Each::Cell(operation_of(task).unwrap_or_default()),
            Task::MessageCipher(cipher) => Each::Cipher {
                cipher: names::of_cipher(cipher),
                bytes,
            },
            Task::MessageAead(cipher) => Each::Aead { cipher, bytes },
            Task::Prf(hash) => Each::Prf {
                hash: names::of_hash(hash),
                bytes,
            },
            Task::AgreeLongTerm(group) => cell(of_long_term(group), "agree"),
            Task::DeriveSkipKey(_)
            | Task::WrapPacketKey(_)
            | Task::SkipCipher(_)
            | Task::SkipMac(_) => return self.skip_time(task, bytes),
            Task::ProtectFrame(cipher) => {
                return self.frame_time(cipher, Direction::Seal, bytes);
            }
            Task::UnprotectFrame(cipher) => {
                return self.frame_time(cipher, Direction::Open, bytes);
            }
            Task::Cmac => frames::cmac(bytes),
            Task::KeyData => frames::key_data(bytes),
            Task::Passphrase => frames::passphrase(),
            // An agreement is one multiplication.
            Task::ScalePoint => cell("p256", "agree"),
            Task::HashToPoint => cell("p256", "hash-to-point"),
        };
        self.each_time(task, &each)
    }

    /// As [`Device::frame`], of a text with LLC, but what is left out is missing.
    fn frame_time(
        &self,
        cipher: LinkCipher,
        direction: Direction,
        bytes: f64,
    ) -> Result<f64, Missing> {
        let (time, left_out) = self.frame(cipher, direction)?;
        left_out.map_or(Ok(time.at(bytes - LLC_BYTES)), Err)
    }

    /// As [`Device::tunnel`], but what has no source is missing.
    fn tunnel_time(
        &self,
        encapsulation: Encapsulation,
        direction: Direction,
        bytes: f64,
    ) -> Result<f64, Missing> {
        let shape = TunnelShape {
            encapsulation,
            is_in_udp: false,
        };
        let time = self.tunnel(shape, direction);
        if time != Staircase::default() {
            return Ok(time.at(bytes));
        }
        let (task, act) = match direction {
            Direction::Seal => (Task::Encapsulate(encapsulation), "encapsulate"),
            Direction::Open => (Task::Decapsulate(encapsulation), "decapsulate"),
        };
        self.each_time(task, &cell(encapsulation.name(), act))
    }

    fn each_time(&self, task: Task, each: &Each) -> Result<f64, Missing> {
        let units = self.profile.work(each);
        let units = units.map_err(|gap| self.profile.missing_work(&in_words(task), gap))?;
        Ok(units / self.units_per_second)
    }

    /// Work of SKIP: its parts, one after the other.
    fn skip_time(&self, task: Task, bytes: f64) -> Result<f64, Missing> {
        let cipher = |cipher| Each::Cipher {
            cipher: names::of_cipher(cipher),
            bytes,
        };
        let md5 = Each::Hash { hash: "md5", bytes };
        let prf = || Each::Prf {
            hash: "sha256",
            bytes,
        };
        let keyed = |hash, key: usize| Each::Hash {
            hash,
            bytes: bytes + key as f64,
        };
        let parts = match task {
            Task::DeriveSkipKey(KijAlg::Hkdf) => vec![prf()],
            // RFC 5869 §2.3: two blocks for 36 octets
            Task::WrapPacketKey(KijAlg::Hkdf) => vec![prf(), prf()],
            Task::DeriveSkipKey(KijAlg::Des | KijAlg::TripleDes) => vec![md5],
            Task::WrapPacketKey(KijAlg::Des) | Task::SkipMac(MacAlg::DesCbc) => {
                vec![cipher(Cipher::Des)]
            }
            Task::WrapPacketKey(KijAlg::TripleDes) => vec![cipher(Cipher::TripleDes)],
            Task::SkipMac(mac @ MacAlg::Md5) => vec![keyed("md5", mac.key_len())],
            Task::SkipMac(mac @ MacAlg::Sha) => vec![keyed("sha1", mac.key_len())],
            Task::SkipCipher(crypt) => {
                let octets = cipher_of(crypt).map(|primitive| Each::Bytes { primitive, bytes });
                // Each packet has its own key.
                let set_key = (crypt == CryptAlg::Rc4).then(|| cell("rc4", "set-key"));
                octets.into_iter().chain(set_key).collect()
            }
            _ => Vec::new(),
        };
        parts.iter().map(|each| self.each_time(task, each)).sum()
    }

    fn cycles(&self, units: f64) -> Option<f64> {
        match self.profile.unit() {
            Unit::Operations => None,
            Unit::Cycles => Some(units),
            Unit::Nanoseconds => self.profile.clock_mhz().map(|(mhz, _)| units * mhz / 1e3),
        }
    }

    /// mW/MHz is nJ per cycle.
    fn nj_per_cycle(&self) -> Option<(f64, &str)> {
        match &self.profile.table {
            Table::Cycles(table) => {
                let power = table.mw_per_mhz.as_ref()?;
                Some((power.value, power.source.as_str()))
            }
            Table::Operations(_) | Table::Measured(_) => None,
        }
    }
}

/// A number without superfluous digits.
fn plain(value: f64) -> String {
    match value == 0.0 || (1e-6..1e15).contains(&value.abs()) {
        true => value.to_string(),
        false => format!("{value:e}"),
    }
}

/// The name of a task without a cost.
fn in_words(task: Task) -> String {
    match task {
        Task::Seal(..) => "sealing a packet".to_owned(),
        Task::Open(..) => "opening a packet".to_owned(),
        Task::Encapsulate(form) => format!("a packet into {}", form.name()),
        Task::Decapsulate(form) => format!("a packet out of {}", form.name()),
        Task::KeyPair(group) => format!("a Diffie-Hellman key pair of {}", names::of_group(group)),
        Task::Agree(group) => format!("a Diffie-Hellman secret of {}", names::of_group(group)),
        Task::Sign(bits) => format!("an RSA signature of {bits} bits"),
        Task::Verify(bits) => format!("the check of an RSA signature of {bits} bits"),
        Task::MessageCipher(cipher) => format!("IKE's messages under {}", names::of_cipher(cipher)),
        Task::MessageAead(cipher) => {
            format!("IKE's messages under {}", names::of_encryption(cipher))
        }
        Task::KeyShare(method) => format!("a first half of {}", names::of_method(method)),
        Task::KeySecret(method) => format!("a secret of {}", names::of_method(method)),
        Task::KeyAnswer(method) => format!("a second half of {}", names::of_method(method)),
        Task::SignCurve(kind) => format!("a signature of {}", names::of_key(kind)),
        Task::VerifyCurve(kind) => format!("the check of a signature of {}", names::of_key(kind)),
        Task::Prf(hash) => format!("IKE's prf with {}", names::of_hash(hash)),
        Task::AgreeLongTerm(group) => {
            format!(
                "a long-term Diffie-Hellman secret of {}",
                words::of_group(group)
            )
        }
        Task::DeriveSkipKey(kij) => format!(
            "the derivation of a key of SKIP with {}",
            words::of_kij(kij)
        ),
        Task::WrapPacketKey(kij) => format!("a packet key under {}", words::of_kij(kij)),
        Task::SkipCipher(crypt) => format!("SKIP's packets under {}", words::of_crypt(crypt)),
        Task::SkipMac(mac) => format!("SKIP's packets with {}", words::of_mac(mac)),
        Task::ProtectFrame(cipher) => format!("frames protected by {}", cipher.name()),
        Task::UnprotectFrame(cipher) => format!("frames freed from {}", cipher.name()),
        Task::Cmac => "AES-128-CMAC over a message".to_owned(),
        Task::KeyData => "the key data of a handshake".to_owned(),
        Task::Passphrase => "the key of a passphrase".to_owned(),
        Task::ScalePoint => "a multiple of a point of P-256".to_owned(),
        Task::HashToPoint => "a point of P-256 from a number".to_owned(),
    }
}

/// The operation of `[per_operation]` that costs the same: exponents are as long, and the primes.
fn of_long_term(group: Group) -> &'static str {
    match group {
        Group::Skip1024 => "modp1024",
        Group::Skip2048 => "modp2048",
        Group::Curve25519 => "x25519",
    }
}

/// The policy of a suite's bare name. The error lists the profile's suites.
pub fn of_suite(profile: &Profile, suite: &str) -> Result<Policy, Refusal> {
    let parsed = suite.parse::<Suite>();
    let suite = parsed.map_err(|fault| Refusal::UnknownSuite {
        why: match fault {
            // the list of suites helps more than the nearest of all words
            SuiteFault::Unknown { word, .. } => format!("no algorithm is called {word:?}"),
            fault => fault.to_string(),
        },
        profile: profile.name.clone(),
        inside: profile.suites().iter().map(ToString::to_string).collect(),
    })?;
    Ok(Policy::of(suite))
}

/// Less than any processor.
const LEAST_MILLIONS: f64 = 1e-3;
/// More than any processor.
const MOST_MILLIONS: f64 = 1e9;

fn above_zero(key: &'static str, value: f64) -> Result<f64, Refusal> {
    if (LEAST_MILLIONS..=MOST_MILLIONS).contains(&value) {
        return Ok(value);
    }
    Err(Refusal::Absurd {
        key,
        value,
        why: "is outside 0.001 to 1e9",
    })
}

fn cell(thing: &str, act: &str) -> Each {
    Each::Cell(format!("{thing}-{act}"))
}
