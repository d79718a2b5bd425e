//! SAE (IEEE 802.11-2020 §12.4): two ends that know a password agree a master key, and who does
//! not know it learns nothing but that. Group 19, the curve P-256, alone.
//!
//! Both ends are equal: each commits, then confirms. The station begins. Left out: rejected groups,
//! as there is one; public keys of access points (SAE-PK).

mod element;
mod exchange;
mod machine;
mod token;

pub use element::{Password, PasswordToken};
pub use machine::{FirstCommit, Method, Sae, SaeConfig, SaeFailure, SaeKeys, SaeOutbox};
pub use token::{Admission, TOKEN_LEN, TokenGate};

#[cfg(test)]
mod tests;
