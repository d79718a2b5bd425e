//! aws-lc's C interface for what aws-lc-rs does not offer: hash states that can be copied (MD5,
//! SHA-1, SHA-2), AES and DES in CBC mode, ChaCha20, MODP exponentiation, raw RSA. This is the only
//! unsafe code of this crate. Each file wraps one family behind safe functions; protocol belongs
//! elsewhere.
#![expect(
    unsafe_code,
    reason = "calls into aws-lc's C interface; every call is checked here"
)]

mod block;
mod digest;
mod keystream;
mod modp;
mod rsa;

pub(crate) use block::{AesSchedule, DesSchedule};
pub(crate) use digest::{Chain, Running};
pub(crate) use keystream::{KEY_LEN, keystream};
pub(crate) use modp::exponentiate;
pub(crate) use rsa::Rsa;
