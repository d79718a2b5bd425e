//! A gateway, those who speak to it, and the script that an input is.

mod peer;
pub mod script;
pub mod world;
