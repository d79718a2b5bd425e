//! Mobile nodes, a firewall and a home agent, each with its planes, in virtual time.

mod alternatives;
mod machine;
mod nat;
mod packets;
mod world;
