//! The three machines together: revocation (RFC 3543).

mod revocation;
mod world;
