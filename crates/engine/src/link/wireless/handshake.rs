//! The four-way handshake and the group key handshake (IEEE 802.11-2020 §12.7.6, §12.7.7).
//!
//! Both ends know a pairwise master key. They exchange nonces, prove that they know it, and the
//! authenticator gives the group key. Each end is a machine: EAPOL packets and time in, an
//! [`Outbox`] out. The owner first sends its packets, then applies its facts in order: the last
//! message goes out before its key is installed. A key that is installed is never installed again,
//! whatever is repeated, as that would repeat packet numbers. Left out: renewal of the pairwise key
//! by an authenticator, fast transition, protected management frames, AKMs with SHA-384, requests
//! by the supplicant.

mod akm;
mod authenticator;
mod keys;
mod message;
mod outbox;
mod supplicant;

pub use akm::Akm;
pub use authenticator::{Authenticator, AuthenticatorConfig};
pub use keys::{MASTER_KEY_LEN, MasterKey};
pub use message::is_signed;
pub use outbox::{Fact, Failure, Outbox};
pub use supplicant::{PATIENCE, Supplicant, SupplicantConfig};

#[cfg(test)]
mod tests;
