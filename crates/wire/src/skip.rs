//! SKIP: the header that carries a packet's key (draft-ietf-ipsec-skip-06 §2), and the AH and ESP
//! of its time (RFC 1826 §3, RFC 1827 §3).
//!
//! Protocol 57 precedes AH or ESP with SPI 1. Numbers from 250 are private: RC2, RC4, and Caravan's
//! own HKDF with AES-GCM-SIV (252). Left out: keys and their wrapping (`engine`), and
//! certificates.

mod ah;
mod algorithms;
mod esp;
mod header;
mod name;

pub use ah::{AH_FIXED_LEN, OldAh};
pub use algorithms::{Algorithms, CryptAlg, KijAlg, MacAlg};
pub use esp::{ESP_SPI_LEN, OldEsp, TRAILER_LEN, padding};
pub use header::{FIXED_LEN, MAX_LEN, SkipHeader};
pub use name::{MAX_MKID_LEN, Name, NotAName, Nsid};

/// The SPI of AH and ESP below a SKIP header.
pub const SPI: u32 = 1;

#[cfg(test)]
mod tests;
