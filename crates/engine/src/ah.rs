//! The authentication header (RFC 4302), transport and tunnel mode.
