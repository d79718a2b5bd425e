//! Bytes to types and back, for every protocol that Caravan speaks.
//!
//! Nothing here knows time, keys or state. Parsed types cannot hold invalid values; values that a
//! document does not name are kept (`Other`), never lost.

#![forbid(unsafe_code)]

pub mod ah;
pub mod codec;
pub mod esp;
pub mod ip;
pub mod isakmp;
pub mod vnet;
