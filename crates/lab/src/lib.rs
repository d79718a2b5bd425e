//! The cost of a security policy before it is deployed: the levels `model` and `simulate`.
//!
//! - [`staircase`]: the form of all functions of packet size, times and sizes.
//! - [`cost`]: the cost of algorithms on devices, and the bytes that suites add to packets.
//! - [`exchange`]: message sequences: rounds, bytes and the gap of a handover.
//! - [`scenario`]: the file with topology, devices, links, policy and traffic.
//! - [`tandem`]: FIFO queues in series, simulated packet by packet without an event queue.
//! - [`system`]: texts for system errors of files that the caller opens.
//! - [`kernel`]: the event kernel for everything with feedback; it runs the real `engine::Node`.
//!
//! Left out: files, threads and clocks. The input is text and the output is numbers. The caller
//! opens files and distributes replications over cores.

#![forbid(unsafe_code)]

pub mod cost;
pub mod exchange;
pub mod kernel;
pub mod scenario;
pub mod staircase;
pub mod system;
pub mod tandem;
mod time;

/// The largest value of the length field of an IP packet.
const IP_BYTES_MAX: u16 = u16::MAX;
