//! What computing and protection cost, with the source of every number.
//!
//! - [`Profile`]: a device's cost table: a paper's operations, published cycles, or what
//!   `caravan bench` measured. A [`Device`] is one with its clock, and prices.
//! - [`Policy`]: suite, mode and keys, and how today's standards see them ([`Standing`]).
//! - [`Accounting`]: how large packets get, after the papers or truly.
//!
//! Both time and size are a [`Staircase`](crate::staircase::Staircase) of the clear IP packet's
//! size. Left out: costs that nobody published or measured. Asking for one is an error that names
//! the empty cell ([`Missing`]).

mod accounting;
mod bill;
mod cycles;
mod device;
mod file;
mod measured;
mod names;
mod operations;
mod policy;
mod profile;
mod suite;
mod works;

pub use accounting::{Accounting, NoFormula, UnknownAccounting};
pub use bill::{Bill, Direction, Part};
pub use device::{Clock, Device, Price, PricedPart, Refusal, price};
pub use file::{Cell, Fault};
pub use measured::Road;
pub use policy::{Exchange, Keys, Policy, Proof};
pub use profile::{Entry, Missing, Profile, Unit};
pub use suite::{PAPER_SUITES, Standing, Suite};

#[cfg(test)]
mod tests;
