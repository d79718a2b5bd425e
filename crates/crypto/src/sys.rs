//! aws-lc's C interface for what aws-lc-rs does not offer: hash states that can be copied (MD5,
//! SHA-1, SHA-2), MD4, AES and DES in CBC mode, AES-CCM, ChaCha20, numbers modulo a prime, points
//! of P-256, keys of RSA and ECDSA, HPKE, ML-KEM and ML-DSA with randomness as an argument. This is
//! the only unsafe code of this crate. Each file wraps one family behind safe functions; protocol
//! belongs elsewhere.
#![expect(
    unsafe_code,
    reason = "calls into aws-lc's C interface; every call is checked here"
)]

mod block;
mod ccm;
mod digest;
mod ecdsa;
mod ed25519;
pub(crate) mod hpke;
mod kem;
mod keystream;
mod md4;
mod ml_dsa;
mod modp;
mod p256;
mod rsa;

pub(crate) use block::{AesSchedule, DesSchedule};
pub(crate) use ccm::CcmContext;
pub(crate) use digest::{Chain, Running};
pub(crate) use ecdsa::{EcKey, EcSignature};
pub(crate) use ed25519::ed25519_secret;
pub(crate) use kem::{
    KEY_SEED_LEN as KEM_KEY_SEED_LEN, Kem, KemKey, SEED_LEN as KEM_SEED_LEN, encapsulate,
};
pub(crate) use keystream::{KEY_LEN, keystream};
pub(crate) use md4::md4;
pub(crate) use ml_dsa::ml_dsa_sign;
pub(crate) use modp::{add, exponentiate, multiply};
pub(crate) use p256::{add_points, is_on_curve, scale};
pub(crate) use rsa::Rsa;
