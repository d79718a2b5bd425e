//! AES-GCM (RFC 4106) and ChaCha20-Poly1305 (RFC 7634), both with a 16-octet ICV, by aws-lc-rs.
