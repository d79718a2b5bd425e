//! Mobile nodes, a firewall and a home agent, each with its planes, in virtual time.

mod machine;
mod packets;
mod world;
