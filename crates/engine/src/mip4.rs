//! Mobile IPv4 (RFC 5944): the machines of its nodes. UDP payloads and time in; UDP payloads,
//! bindings and deadlines out.
//!
//! [`association`] authenticates messages between two ends; by [`aaa`] a mobile node proves itself
//! to agents that have its AAA key. [`identification`] protects messages from replays,
//! [`tunnel`] says how packets travel, [`firewall`] which care-of addresses are behind a firewall,
//! [`security`] what secures a node's packets on the way there.
//! [`revocation`] ends registrations early.
//! [`mobile_node`] registers where it is, [`foreign_agent`] relays, [`home_agent`] keeps the
//! bindings. [`carriers`] turns what they agree on into SAs of the packet planes. The owner sends
//! the datagrams, answers ARP for home addresses, and owns the planes.

pub mod aaa;
pub mod association;
pub mod carriers;
pub mod detection;
pub mod endpoint;
pub mod firewall;
pub mod foreign_agent;
pub mod home_agent;
pub mod identification;
pub mod mobile_node;
mod pace;
pub mod revocation;
pub mod security;
pub mod tunnel;

#[cfg(test)]
mod tests;
