//! A gateway and its peers.

mod peer;
pub mod world;
