//! Keys and algorithms: the only crate that uses cipher crates.
//!
//! Secrets have no `Debug`, are wiped on drop and compared in constant time. Randomness is an
//! argument: a [`rand::Seed`] and named streams drawn from it.

#![deny(unsafe_code)]

pub mod aead;
pub mod cert;
pub mod cipher;
pub mod dh;
pub mod hash;
pub mod packet;
pub mod rand;
pub mod rsa;
mod sys;
