//! Wireless links: Ethernet frames become protected frames of IEEE 802.11-2020, and back.
//!
//! [`Port`] is one end, a station or an access point: it frames, protects in the caller's buffer
//! and counts drops. [`handshake`] agrees the keys that it takes. [`Station`] and [`AccessPoint`]
//! run a port and everything before it: they find each other, join and agree keys. WEP and TKIP are
//! legacy: whoever chooses them asks [`LinkCipher::permit`], and their faults are kept, as they are
//! what a study prices. Left out: the radio itself, fragments, aggregation, power saving, protected
//! management frames.

mod aad;
mod access_point;
mod ccmp;
mod cipher;
mod countermeasures;
mod counts;
pub mod dynamic_wep;
mod gcmp;
pub mod handshake;
mod network;
mod outbox;
pub mod owe;
mod pace;
mod port;
mod protection;
pub mod sae;
mod session;
mod station;
mod tkip;

pub use access_point::{AccessPoint, Traffic, Way};
pub use cipher::{GroupKey, LegacyCipher, LinkCipher, PermittedCipher, TemporalKey};
pub use countermeasures::{COUNTERMEASURES, MicFailures};
pub use network::{Credential, MAX_SSID_LEN, Network, Security};
pub use outbox::{AirOutbox, Announced, LinkEvent, LinkFailure, Received};
pub use port::{MAX_GROWTH, MAX_STATIONS, Opened, Port, Privacy, Role};

pub use session::SessionFault;
pub use station::Station;

#[cfg(test)]
mod tests;
