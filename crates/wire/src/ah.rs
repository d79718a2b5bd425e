//! The authentication header (RFC 4302 §2).
