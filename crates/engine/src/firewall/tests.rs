//! Mobile nodes, a firewall and a home agent, each with its planes, in virtual time.

mod alternatives;
mod bad_input;
mod machine;
mod nat;
mod packets;
mod storm;
mod world;
