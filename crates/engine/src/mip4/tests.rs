//! The three machines together: revocation (RFC 3543), and storms.

mod revocation;
mod storm;
mod world;
