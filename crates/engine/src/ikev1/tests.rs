//! Phase 1 between two machines, and against what the wire can do to it.

mod failures;
mod hostile;
pub(crate) mod pair;
mod phase1;
mod protection;
mod signatures;
