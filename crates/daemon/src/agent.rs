//! Tunnel agents: what `caravan tunnel-agent` runs around the machines of [`engine::agent`].
//!
//! [`backend`] builds ends of tunnels and takes them down.

pub mod backend;
