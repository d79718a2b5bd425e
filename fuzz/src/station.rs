//! A station, the hostile gateways that it reaches, and the script that an input is.

mod gateway;
mod hostile;
pub mod world;
