//! A client and its hostile gateways.

mod gateway;
mod hostile;
pub mod world;
