//! The encapsulating security payload (RFC 4303), transport and tunnel mode, alone or in UDP (RFC 3948).
