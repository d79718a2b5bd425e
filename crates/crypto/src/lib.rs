//! Keys and algorithms: the only crate that uses cipher crates.
//!
//! Secrets have no `Debug`, are wiped on drop and compared in constant time. Randomness is an
//! argument: a [`rand::Seed`] and named streams drawn from it.

#![deny(unsafe_code)]

pub mod aead;
pub mod cbc_mac;
pub mod ccm;
pub mod cert;
pub mod cipher;
pub mod cmac;
pub mod counted;
pub mod curve;
pub mod dh;
pub mod ed25519;
pub mod hash;
pub mod hpke;
pub mod key_exchange;
pub mod key_wrap;
pub mod message;
pub mod ml_dsa;
pub mod mschapv2;
pub mod p256;
pub mod packet;
pub mod passphrase;
pub mod pkcs12;
pub mod prf;
pub mod rand;
pub mod rc;
pub mod rsa;
pub mod sign;
mod sys;
pub mod tkip;
pub mod tls;
pub mod wep;

#[cfg(test)]
mod tests {
    /// Octets of a hexadecimal text.
    pub(crate) fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text
            .chars()
            .filter(|c| !c.is_whitespace())
            .map(|c| c.to_digit(16).expect("hexadecimal") as u8)
            .collect();
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()
    }
}
