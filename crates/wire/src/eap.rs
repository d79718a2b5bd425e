//! EAP packets (RFC 3748 §4), and what methods write into them: [`mschapv2`] and
//! [`tls`].
//!
//! IKEv2 carries a packet in a payload (RFC 7296 §3.16), RADIUS in attributes (RFC 3579 §3.1).

pub mod mschapv2;
mod packet;
#[cfg(test)]
mod tests;
pub mod tls;

pub use packet::{Eap, EapCode, EapKind};
