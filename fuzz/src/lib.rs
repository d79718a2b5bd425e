//! What fuzz targets and the maker of their seeds share.

#![forbid(unsafe_code)]

pub mod paths;
pub mod phase_2;
pub mod responder;
pub mod script;
pub mod secrets;
pub mod station;
pub mod watch;
pub mod whole;
