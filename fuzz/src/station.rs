//! A station and the hostile gateways that it reaches.

mod gateway;
mod hostile;
pub mod world;
