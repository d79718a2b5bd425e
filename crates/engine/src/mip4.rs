//! Mobile IPv4 (RFC 5944): the machines of its nodes. UDP payloads and time in; UDP payloads,
//! bindings and deadlines out.
//!
//! [`association`] authenticates messages, [`identification`] protects them from replays.
//! [`home_agent`] keeps the bindings. The owner sends the datagrams, answers ARP for the home
//! addresses that have a binding, and carries their packets.

pub mod association;
pub mod home_agent;
pub mod identification;
