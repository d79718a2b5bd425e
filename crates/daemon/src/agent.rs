//! Tunnel agents as a program.

pub mod store;
