//! What a security policy costs before it is deployed: the levels `model` and `simulate`.
//!
//! - [`staircase`]: the one shape that times and sizes have.
//! - [`cost`]: what devices pay for algorithms, what suites add to packets.
//! - [`scenario`]: the file that names topology, devices, links, policy and traffic.
//! - [`tandem`]: first in, first out stations in series, streamed.
//! - [`system`]: words for what the system says of files that others open.
//! - [`kernel`]: the event queue for everything with feedback; runs the real `engine::Node`.
//!
//! Left out: files, threads and clocks. Texts come in and numbers go out; whoever calls opens
//! files and spreads replications over cores.

#![forbid(unsafe_code)]

pub mod cost;
pub mod kernel;
pub mod scenario;
pub mod staircase;
pub mod system;
pub mod tandem;
