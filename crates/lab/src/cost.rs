//! The costs of computation and protection, with the source of every number.
//!
//! - [`Profile`]: a device's cost table: a paper's operations, published cycles, or measurements of
//!   `caravan bench`. A [`Device`] is a profile with its clock, and computes costs.
//! - [`Policy`]: suite, mode and keys, and their rating by today's standards ([`Standing`]).
//! - [`Accounting`]: the size of protected packets, by a paper's formulas or exactly.
//! - [`Hosts`]: datagrams and TCP between two hosts of one device.
//!
//! Both time and size are a [`Staircase`](crate::staircase::Staircase) of the clear IP packet's
//! size.
//!
//! A device is a file of `devices/`, of one of three kinds. Every number is a cell with its source.
//! ```toml
//! kind = "cycles"                 # per byte of a primitive, per packet, per key operation
//! name = "a-core"
//! title = "for people"
//! clock_mhz = { value = 80, source = "data sheet, page 1" }       # or given with the question
//! mw_per_mhz = { value = 0.4, source = "data sheet, table 24" }   # or no energy is shown
//! [per_byte]                      # aes128-cbc, or aes128-cbc-seal and aes128-cbc-open
//! aes128-gcm = { value = 55, source = "a benchmark, line 12" }
//! [per_operation]
//! modp2048-agree = { value = 16e6, source = "a benchmark, line 40" }
//! ```
//! `kind = "operations"` counts blocks as papers do (`devices/paper-w.toml` has every key). A file
//! written by `caravan bench -o` can be used unchanged. A policy is a file of `policies/`:
//! ```toml
//! name = "aes128gcm16"
//! title = "for people"
//! suite = "aes128gcm16-modp2048"  # strongSwan's words or the papers'; a group is PFS
//! mode = "tunnel"                 # or transport
//! udp = true                      # ESP in UDP
//! outer = 4                       # or 6
//! around = "ah-sha256"            # AH around each ESP packet, a second tunnel; absent: one layer
//! [keys]                          # absent: manual keys
//! exchange = "ikev2"              # ikev1-main, ikev1-aggressive
//! proposal = "aes128gcm16-prfsha256-curve25519"   # IKEv1's: aes128-sha256-modp2048
//! proof = "rsa2048"               # rsa3072, rsa4096, psk; of IKEv2 also ecdsa-p256, ed25519,
//!                                 # ml-dsa-44, ml-dsa-65, ml-dsa-87, eap-mschapv2, eap-tls
//! cookie = true                   # of IKEv2: the gateway is under load; absent: false
//! fragments = false               # of IKEv2: whole messages; absent: true
//! resumed = true                  # of IKEv2: by a ticket of a lost session; absent: false
//! ```
//! With EAP the gateway proves itself by an RSA key of 2048 bits, and so does the station with
//! EAP-TLS.
//!
//! A policy of SKIP has neither suite nor keys, but:
//! ```toml
//! [skip]
//! profile = "skip-draft"          # or skip-paper; skip-x25519 has no other algorithms
//! kij = "3des"                    # or des
//! crypt = "des"                   # or none, 3des, rc2, rc4
//! mac = "keyed-md5"               # or none, des-mac, keyed-sha
//! names = ["ipv4", "none"]        # name spaces of sender and receiver
//! iv = "8 B"                      # or 4 B
//! ```
//!
//! Left out: costs that nobody published or measured. Asking for one is an error that names the
//! empty cell ([`Missing`]).

mod accounting;
mod aligned;
mod bill;
mod cell;
mod cycles;
mod device;
mod hosts;
mod measured;
mod names;
mod operations;
mod policy;
mod profile;
mod records;
mod skip;
mod suite;
mod works;

pub use accounting::{Accounting, NoFormula, Parts, UnknownAccounting};
pub use bill::{Bill, Direction, Part};
pub use cell::Cell;
pub use device::{Clock, Device, Price, PricedPart, Protection, Refusal, WorkTime, of_suite};
pub use hosts::{Cut, Hosts, Load, Sent, Wire};
pub use measured::HostPath;
pub use policy::{Exchange, Keys, Policy, Proof, Proposal};
pub use profile::{Entry, Missing, Profile, Unit};
pub use records::{HEADER_BYTES, RECORD_MAX, Records, TlsVersion};
pub use skip::{SkipParts, SkipSuite};
pub use suite::{PAPER_SUITES, Standing, Suite};
pub use works::{is_operation, operation_of};

#[cfg(test)]
mod tests;
