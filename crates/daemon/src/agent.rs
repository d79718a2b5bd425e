//! Tunnel agents as a program (`docs/design/agents.md`): Client's way without root, tokens, and how
//! a machine at hand is left clean.

pub mod hygiene;
pub mod socks;
pub mod token;
