//! The ESP packet (RFC 4303 §2) and the non-ESP marker and keepalive of RFC 3948.
