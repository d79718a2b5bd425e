//! Bytes to types and back, for every protocol that Caravan speaks.
//!
//! Nothing here knows time, keys or state. Parsed types cannot hold invalid values; values that a
//! document does not name are kept (`Other`), never lost.

#![forbid(unsafe_code)]

/// Maps an enum to the numbers of its document; `Other` keeps the rest.
macro_rules! numbered {
    ($name:ident: $repr:ty { $($variant:ident = $number:literal),+ $(,)? }) => {
        impl $name {
            /// The number on the wire.
            pub const fn number(self) -> $repr {
                match self {
                    $(Self::$variant => $number,)+
                    Self::Other(number) => number,
                }
            }
        }

        impl From<$repr> for $name {
            fn from(number: $repr) -> Self {
                match number {
                    $($number => Self::$variant,)+
                    other => Self::Other(other),
                }
            }
        }
    };
}

pub mod agent;
pub mod ah;
mod attribute;
pub mod codec;
pub mod eap;
pub mod esp;
pub mod ieee80211;
pub mod ikev2;
pub mod ip;
pub mod isakmp;
pub mod mip4;
pub mod radius;
pub mod skip;
pub mod socks;
pub mod token;
pub mod vici;
pub mod vnet;

#[cfg(test)]
mod tests {
    /// Octets of a hexadecimal text.
    pub(crate) fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let digit = |d: u8| (d as char).to_digit(16).unwrap() as u8;
        digits
            .chunks(2)
            .map(|d| digit(d[0]) << 4 | digit(d[1]))
            .collect()
    }
}
