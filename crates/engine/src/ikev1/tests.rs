//! Phase 1 between two machines, also with hostile changes on the wire.

mod failures;
mod hostile;
pub(crate) mod pair;
mod phase1;
mod protection;
mod signatures;
