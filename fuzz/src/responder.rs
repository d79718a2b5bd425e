//! A gateway and those who speak to it.

mod peer;
pub mod world;
