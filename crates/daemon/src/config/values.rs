//! Values with units, as the files write them: `"90s"`, `"4h"`, `"64kb"`.

use core::net::IpAddr;
use core::time::Duration;

use serde::{Serialize, Serializer};
use zeroize::Zeroize;

/// A time span with its unit: ms, s, m, h or d.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

/// Octets with their unit: b, kb, mb, gb (powers of 1000) or kib, mib, gib.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// A transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// The network that somebody means who writes its first address without a prefix length, such as
/// 10.10.0.0.
pub fn meant_subnet(word: &str) -> Option<String> {
    let address: IpAddr = word.trim().parse().ok()?;
    let bits = match address {
        _ if address.is_unspecified() => 0,
        IpAddr::V4(v4) if v4.octets()[3] == 0 => 24,
        // A host's half of the address that is 0.
        IpAddr::V6(v6) if v6.to_bits() << 64 == 0 => 64,
        _ => return None,
    };
    Some(format!("{address}/{bits}"))
}

/// A secret written in the file itself. It has no `Debug`, and is wiped on drop.
#[derive(Clone)]
pub struct SecretText(String);

impl SecretText {
    /// Its octets.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<&str> for SecretText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Drop for SecretText {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

const SPANS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];
const SIZES: [(&str, u64); 7] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("b", 1),
];

impl Span {
    /// A span of whole seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Reads `"90s"`.
    pub fn parse(text: &str) -> Result<Self, String> {
        with_unit(text, &SPANS)
            .map(|ms| Self(Duration::from_millis(ms)))
            .ok_or_else(|| misread(text, "a time span", "90s"))
    }
}

impl Size {
    /// Reads `"64kb"`.
    pub fn parse(text: &str) -> Result<Self, String> {
        with_unit(text, &SIZES)
            .map(Self)
            .ok_or_else(|| misread(text, "a size", "64kb"))
    }
}

fn misread(text: &str, what: &str, example: &str) -> String {
    let usual = format!("write a number and its unit, such as \"{example}\"");
    match text {
        "" => usual,
        _ => format!("'{text}' is not {what}: {usual}"),
    }
}

fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    if number == 0 && unit.is_empty() {
        return Some(0);
    }
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim())?;
    number.checked_mul(*factor)
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}b", self.0))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}ms", self.0.as_millis()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_carry_their_unit() {
        assert_eq!(Span::parse("90s"), Ok(Span(Duration::from_secs(90))));
        assert_eq!(Span::parse("4h"), Ok(Span(Duration::from_secs(14_400))));
        assert_eq!(Span::parse("0"), Ok(Span(Duration::ZERO)));
        assert_eq!(Size::parse("64 KiB"), Ok(Size(65_536)));
        assert!(Span::parse("90").unwrap_err().contains("unit"));
        let fault = Size::parse("64x").unwrap_err();
        assert!(fault.starts_with("'64x' is not a size: "), "{fault}");
        assert!(Span::parse("99999999999999999999s").is_err());
        assert!(Size::parse("18446744073709551615gb").is_err());
    }
}
