//! Mobile IPv4 (RFC 5944): what its machines share.
//!
//! [`association`] authenticates messages, [`identification`] protects them from replays.

pub mod association;
pub mod identification;
