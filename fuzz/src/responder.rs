//! A gateway and those who speak to it.

mod peer;
mod secrets;
pub mod world;
