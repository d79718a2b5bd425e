//! The parts that fuzz targets and the program that makes their seeds share.

#![forbid(unsafe_code)]

pub mod mobility;
pub mod paths;
pub mod phase_2;
pub mod responder;
pub mod script;
pub mod sealed;
pub mod secrets;
pub mod station;
pub mod tunnel_agents;
pub mod watch;
pub mod whole;
