//! Name spaces (NSID) and master key identifiers (MKID).

use core::fmt;
use core::str::FromStr;
use std::net::Ipv4Addr;

use crate::codec::{Malformed, Reader};

/// Octets of the longest master key identifier.
pub const MAX_MKID_LEN: usize = 16;

/// A name space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Nsid {
    /// The IP address in the IP header is the name; there is no MKID.
    None = 0,
    /// An IPv4 address.
    Ipv4 = 1,
    /// A POSIX user number.
    PosixUid = 2,
    /// An IPv6 address.
    Ipv6 = 3,
    /// MD5 of a DNS name.
    Md5Dns = 4,
    /// MD5 of an ISO distinguished name.
    Md5Dn = 5,
    /// MD5 of an ASCII string.
    Md5Ascii = 6,
    /// An IEEE 802 address.
    Mac = 7,
    /// MD5 of the Diffie-Hellman public value.
    Md5PublicValue = 8,
    /// MD5 of a mailbox.
    Md5Mailbox = 9,
    /// MD5 of a bank account.
    Md5BankAccount = 10,
    /// MD5 of a NIS name.
    Md5Nis = 11,
}

impl Nsid {
    /// Octets of a master key identifier in this name space.
    pub const fn mkid_len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Ipv4 | Self::PosixUid => 4,
            Self::Mac => 6,
            _ => 16,
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Self::of(r.u8("NSID")?).ok_or(Malformed::Value("NSID"))
    }

    fn of(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::None,
            1 => Self::Ipv4,
            2 => Self::PosixUid,
            3 => Self::Ipv6,
            4 => Self::Md5Dns,
            5 => Self::Md5Dn,
            6 => Self::Md5Ascii,
            7 => Self::Mac,
            8 => Self::Md5PublicValue,
            9 => Self::Md5Mailbox,
            10 => Self::Md5BankAccount,
            11 => Self::Md5Nis,
            _ => return None,
        })
    }
}

/// A name: name space and master key identifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    nsid: Nsid,
    /// Octets behind the identifier's length are zero.
    mkid: [u8; MAX_MKID_LEN],
}

impl Name {
    /// No name: the IP address counts.
    pub const NONE: Self = Self {
        nsid: Nsid::None,
        mkid: [0; MAX_MKID_LEN],
    };

    /// A name. None if `mkid` does not have the length of its name space.
    pub fn new(nsid: Nsid, mkid: &[u8]) -> Option<Self> {
        let mut name = Self { nsid, ..Self::NONE };
        (mkid.len() == nsid.mkid_len()).then(|| {
            name.mkid[..mkid.len()].copy_from_slice(mkid);
            name
        })
    }

    /// The name of a node with a home address.
    pub fn ipv4(address: Ipv4Addr) -> Self {
        let mut name = Self {
            nsid: Nsid::Ipv4,
            ..Self::NONE
        };
        name.mkid[..4].copy_from_slice(&address.octets());
        name
    }

    /// The name space.
    pub const fn nsid(&self) -> Nsid {
        self.nsid
    }

    /// The master key identifier.
    pub fn mkid(&self) -> &[u8] {
        &self.mkid[..self.nsid.mkid_len()]
    }

    pub(super) fn read_spaces(r: &mut Reader<'_>) -> Result<(Nsid, Nsid), Malformed> {
        Ok((Nsid::read(r)?, Nsid::read(r)?))
    }

    pub(super) fn read_mkid(nsid: Nsid, r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mkid = r.take(nsid.mkid_len(), "MKID")?;
        Ok(Self::new(nsid, mkid).expect("the length is the name space's"))
    }
}

/// As in the paper: `1/10.18.3.17`; `0/na` for no name; other identifiers in hexadecimal.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.nsid as u8)?;
        match (self.nsid, self.mkid()) {
            (Nsid::None, _) => f.write_str("na"),
            (Nsid::Ipv4, &[a, b, c, d]) => write!(f, "{}", Ipv4Addr::new(a, b, c, d)),
            (_, octets) => octets.iter().try_for_each(|octet| write!(f, "{octet:02x}")),
        }
    }
}

/// Not a name as [`Name`] shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAName;

/// What [`fmt::Display`] shows. `0` alone is no name too.
impl FromStr for Name {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let (space, mkid) = text.split_once('/').unwrap_or((text, "na"));
        let number = space.parse().map_err(|_| NotAName)?;
        match Nsid::of(number).ok_or(NotAName)? {
            Nsid::None if mkid == "na" => Ok(Self::NONE),
            Nsid::Ipv4 => mkid.parse().map(Self::ipv4).map_err(|_| NotAName),
            nsid => {
                let mut octets = [0; MAX_MKID_LEN];
                let (pairs, rest) = mkid.as_bytes().as_chunks::<2>();
                if !rest.is_empty() || pairs.len() > MAX_MKID_LEN {
                    return Err(NotAName);
                }
                for (octet, pair) in octets.iter_mut().zip(pairs) {
                    let digit = |it: u8| char::from(it).to_digit(16).ok_or(NotAName);
                    *octet = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
                }
                Self::new(nsid, &octets[..pairs.len()]).ok_or(NotAName)
            }
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
