//! Address prefixes, and ranges as prefixes.

use core::fmt::{self, Display, Formatter};
use core::str::FromStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// [`covering`] is exact up to this many prefixes: those of a /28 without its ends.
const EXACT_MAX: usize = 6;

/// An address and its number of significant bits; the other bits are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    /// The first address.
    pub address: IpAddr,
    /// Bits, at most 32 or 128.
    pub length: u8,
}

impl Prefix {
    /// One address.
    pub fn host(address: IpAddr) -> Self {
        let length = bits(address);
        Self { address, length }
    }

    /// The network of this many bits that contains an address.
    pub fn around(own: IpAddr, length: u8) -> Self {
        let length = length.min(bits(own));
        let host = u32::from(bits(own) - length);
        let rest = u128::MAX.checked_shr(128 - host).unwrap_or(0);
        Self {
            address: address(number(own) & !rest, bits(own)),
            length,
        }
    }

    /// Every address of a family.
    pub fn everything(is_ipv6: bool) -> Self {
        let address = match is_ipv6 {
            false => Ipv4Addr::UNSPECIFIED.into(),
            true => Ipv6Addr::UNSPECIFIED.into(),
        };
        Self { address, length: 0 }
    }

    /// Whether it contains every address of `other`.
    pub fn contains(&self, other: &Self) -> bool {
        let shift = u32::from(self.width() - self.length);
        let front = |address: IpAddr| number(address).checked_shr(shift).unwrap_or(0);
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.length <= other.length
            && front(self.address) == front(other.address)
    }

    /// The first and the last address.
    pub fn ends(&self) -> (IpAddr, IpAddr) {
        let host = u32::from(self.width() - self.length);
        let rest = u128::MAX.checked_shr(128 - host).unwrap_or(0);
        let last = address(number(self.address) | rest, self.width());
        (self.address, last)
    }

    /// Whether it is one address.
    pub fn is_host(&self) -> bool {
        self.length == self.width()
    }

    fn width(&self) -> u8 {
        bits(self.address)
    }
}

impl Display for Prefix {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> Self {
        prefix.to_string()
    }
}

impl TryFrom<String> for Prefix {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("{text:?} is no prefix such as 10.0.0.0/8");
        let (address, length) = text.split_once('/').ok_or_else(fault)?;
        let address: IpAddr = address.parse().map_err(|_| fault())?;
        let length: u8 = length.parse().map_err(|_| fault())?;
        match length <= bits(address) {
            true => Ok(Self { address, length }),
            false => Err(fault()),
        }
    }
}

/// The fewest prefixes that cover a range of one family, 254 at most. Empty if `last` is before
/// `first` or of the other family.
pub fn prefixes(first: IpAddr, last: IpAddr) -> Vec<Prefix> {
    let width = bits(first);
    if width != bits(last) {
        return Vec::new();
    }
    let (mut at, end) = (number(first), number(last));
    let mut found = Vec::new();
    while at <= end {
        // The largest block that begins here and does not pass the end.
        let aligned = at.trailing_zeros().min(u32::from(width));
        let room = match (end - at).checked_add(1) {
            Some(count) => count.ilog2(),
            None => 128,
        };
        let size = aligned.min(room);
        found.push(Prefix {
            address: address(at, width),
            length: width - size as u8,
        });
        match 1u128
            .checked_shl(size)
            .and_then(|step| at.checked_add(step))
        {
            Some(next) => at = next,
            None => break,
        }
    }
    found
}

/// Prefixes for a pool's range: [`prefixes`], or a single prefix if the range is that prefix
/// without its first and last address, which a pool never lends (a /64 would take 126). A range of
/// few prefixes stays exact, because its neighbours may be hosts.
pub fn covering(first: IpAddr, last: IpAddr) -> Vec<Prefix> {
    let exact = prefixes(first, last);
    let (Some(first), Some(last)) = (number(first).checked_sub(1), number(last).checked_add(1))
    else {
        return exact;
    };
    if exact.len() <= EXACT_MAX {
        return exact;
    }
    let width = exact[0].width();
    let wide = prefixes(address(first, width), address(last, width));
    if wide.len() == 1 { wide } else { exact }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// An address as a number.
pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

fn address(number: u128, width: u8) -> IpAddr {
    match width {
        32 => IpAddr::V4(Ipv4Addr::from(number as u32)),
        _ => IpAddr::V6(Ipv6Addr::from(number)),
    }
}

/// The next address; the last one has none.
pub fn next(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4(u32::from(v4).saturating_add(1).into()),
        IpAddr::V6(v6) => IpAddr::V6(u128::from(v6).saturating_add(1).into()),
    }
}

/// The previous address; the first one has none.
pub fn previous(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4(u32::from(v4).saturating_sub(1).into()),
        IpAddr::V6(v6) => IpAddr::V6(u128::from(v6).saturating_sub(1).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(first: &str, last: &str) -> Vec<String> {
        let found = prefixes(first.parse().unwrap(), last.parse().unwrap());
        found.iter().map(Prefix::to_string).collect()
    }

    #[test]
    fn a_range_is_covered_by_the_fewest_prefixes() {
        assert_eq!(covered("10.0.0.0", "10.0.0.255"), ["10.0.0.0/24"]);
        assert_eq!(covered("10.0.0.7", "10.0.0.7"), ["10.0.0.7/32"]);
        assert_eq!(covered("0.0.0.0", "255.255.255.255"), ["0.0.0.0/0"]);
        assert_eq!(
            covered("10.0.0.10", "10.0.0.20"),
            [
                "10.0.0.10/31",
                "10.0.0.12/30",
                "10.0.0.16/30",
                "10.0.0.20/32"
            ]
        );
        let all = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        assert_eq!(covered("::", all), ["::/0"]);
        assert_eq!(covered("::1", all).len(), 128);
        assert_eq!(covered("fd00::", "fd00::ffff"), ["fd00::/112"]);
        assert!(covered("10.0.0.2", "10.0.0.1").is_empty());
        assert!(covered("10.0.0.2", "::1").is_empty());
    }

    #[test]
    fn a_pool_without_its_ends_is_one_prefix_unless_it_is_small() {
        let covered = |first: &str, last: &str| {
            let found = covering(first.parse().unwrap(), last.parse().unwrap());
            found.iter().map(Prefix::to_string).collect::<Vec<_>>()
        };
        assert_eq!(covered("10.99.0.1", "10.99.0.254"), ["10.99.0.0/24"]);
        let last = "fd00:99::ffff:ffff:ffff:fffe";
        assert_eq!(covered("fd00:99::1", last), ["fd00:99::/64"]);
        let small = ["10.0.0.1/32", "10.0.0.2/32"];
        assert_eq!(covered("10.0.0.1", "10.0.0.2"), small);
        let exact = covered("10.10.0.1", "10.10.0.250");
        assert!(exact.len() > 6 && !exact.iter().any(|p| p == "10.10.0.0/24"));
        assert_eq!(covered("0.0.0.0", "255.255.255.255"), ["0.0.0.0/0"]);
        assert!(covered("10.0.0.2", "10.0.0.1").is_empty());
    }

    #[test]
    fn a_prefix_contains_what_shares_its_first_bits() {
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        for (wide, narrow, is_inside) in [
            ("0.0.0.0/0", "10.0.0.0/8", true),
            ("::/0", "fd00::/64", true),
            ("::/0", "10.0.0.0/8", false),
            ("10.0.0.0/8", "10.255.0.0/16", true),
            ("10.0.0.0/8", "11.0.0.0/16", false),
            ("10.0.0.0/8", "0.0.0.0/0", false),
            ("10.0.0.7/32", "10.0.0.7/32", true),
            ("10.0.0.7/32", "10.0.0.6/32", false),
        ] {
            let (wide, narrow) = (prefix(wide), prefix(narrow));
            assert_eq!(wide.contains(&narrow), is_inside, "{wide} {narrow}");
        }
    }

    #[test]
    fn the_ends_of_a_prefix_are_its_range() {
        for text in [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.0.0.7/32",
            "::/0",
            "fd00::/64",
        ] {
            let prefix: Prefix = text.parse().unwrap();
            let (first, last) = prefix.ends();
            assert_eq!(prefixes(first, last), [prefix]);
        }
        let own: IpAddr = "10.1.2.3".parse().unwrap();
        assert_eq!(Prefix::around(own, 8).to_string(), "10.0.0.0/8");
        assert_eq!(Prefix::around(own, 32), Prefix::host(own));
        assert_eq!(Prefix::everything(false).to_string(), "0.0.0.0/0");
        assert_eq!(Prefix::everything(true).to_string(), "::/0");
    }

    #[test]
    fn text_goes_there_and_back() {
        for text in ["10.0.0.0/8", "fd00::/64", "0.0.0.0/0"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for text in ["10.0.0.0", "10.0.0.0/33", "x/8", "fd00::/129"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }
}
