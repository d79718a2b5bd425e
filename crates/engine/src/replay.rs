//! The anti-replay window (RFC 4303 §3.4.3, RFC 6479), 64 to 4096 packets, with ESN.
