//! The SKIP header.

use super::Nsid;
use super::name::{MAX_MKID_LEN, Name};
use crate::codec::{Malformed, Reader, Writer};

/// Octets before the encrypted packet key.
pub const FIXED_LEN: usize = 12;

/// Octets of the longest header: a key of 24 octets and two names of 16.
pub const MAX_LEN: usize = FIXED_LEN + 24 + 2 * MAX_MKID_LEN;

/// Encrypts the packet key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KijAlg {
    /// DES in CBC mode, 1.
    Des,
    /// 3DES with three keys in CBC mode, 2.
    TripleDes,
}

/// Encrypts the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CryptAlg {
    /// 0: there is no ESP.
    None,
    /// DES-CBC, 1 (RFC 1829).
    Des,
    /// 3DES-CBC with three keys, 2 (RFC 1851).
    TripleDes,
    /// RC2-CBC, 250: private use, the draft has no number for it.
    Rc2,
    /// RC4, 251: private use.
    Rc4,
}

/// Authenticates the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MacAlg {
    /// 0: there is no AH.
    None,
    /// Keyed MD5, 1 (RFC 1828).
    Md5,
    /// Keyed SHA, 3 (RFC 1852).
    Sha,
}

/// A SKIP header. The packet key is as on the wire: encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkipHeader<'a> {
    /// The sender's name.
    pub source: Name,
    /// The receiver's name.
    pub destination: Name,
    /// What follows: AH, ESP or IP.
    pub next_header: u8,
    /// The counter n.
    pub n: u32,
    /// How the packet key is encrypted.
    pub kij_alg: KijAlg,
    /// How the payload is encrypted.
    pub crypt_alg: CryptAlg,
    /// How the packet is authenticated.
    pub mac_alg: MacAlg,
    /// The encrypted packet key, of [`Self::key_len`] octets.
    pub encrypted_key: &'a [u8],
}

impl<'a> SkipHeader<'a> {
    /// Octets of the encrypted packet key: the longer key, in whole blocks of 8.
    pub fn key_len(crypt: CryptAlg, mac: MacAlg) -> usize {
        crypt.key_len().max(mac.key_len()).next_multiple_of(8)
    }

    /// Octets of a header.
    pub fn header_len(crypt: CryptAlg, mac: MacAlg, source: Nsid, destination: Nsid) -> usize {
        FIXED_LEN + Self::key_len(crypt, mac) + source.mkid_len() + destination.mkid_len()
    }

    /// Reads the header at the start of `packet`. Returns it and its length.
    pub fn parse(packet: &'a [u8]) -> Result<(Self, usize), Malformed> {
        let mut r = Reader::new(packet);
        if r.u8("SKIP version")? >> 4 != VERSION {
            return Err(Malformed::Value("SKIP version"));
        }
        let (from, to) = Name::read_spaces(&mut r)?;
        let next_header = r.u8("next header")?;
        let n = r.u32("counter n")?;
        let kij_alg = match r.u8("Kij algorithm")? {
            1 => KijAlg::Des,
            2 => KijAlg::TripleDes,
            _ => return Err(Malformed::Value("Kij algorithm")),
        };
        let crypt_alg = CryptAlg::read(r.u8("crypt algorithm")?)?;
        let mac_alg = MacAlg::read(r.u8("MAC algorithm")?)?;
        if r.u8("compression algorithm")? != 0 {
            return Err(Malformed::Value("compression algorithm"));
        }
        let encrypted_key = r.take(Self::key_len(crypt_alg, mac_alg), "encrypted packet key")?;
        let header = Self {
            source: Name::read_mkid(from, &mut r)?,
            destination: Name::read_mkid(to, &mut r)?,
            next_header,
            n,
            kij_alg,
            crypt_alg,
            mac_alg,
            encrypted_key,
        };
        Ok((header, packet.len() - r.len()))
    }

    /// Appends the header.
    pub fn write(&self, w: &mut Writer) {
        w.u8(VERSION << 4);
        w.u8(self.source.nsid() as u8);
        w.u8(self.destination.nsid() as u8);
        w.u8(self.next_header);
        w.u32(self.n);
        w.u8(self.kij_alg.number());
        w.u8(self.crypt_alg.number());
        w.u8(self.mac_alg.number());
        w.u8(0);
        w.bytes(self.encrypted_key);
        self.source.write_mkid(w);
        self.destination.write_mkid(w);
    }
}

impl KijAlg {
    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::Des => 1,
            Self::TripleDes => 2,
        }
    }

    /// Octets of its key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Des => 8,
            Self::TripleDes => 24,
        }
    }
}

impl CryptAlg {
    fn read(number: u8) -> Result<Self, Malformed> {
        Ok(match number {
            0 => Self::None,
            1 => Self::Des,
            2 => Self::TripleDes,
            250 => Self::Rc2,
            251 => Self::Rc4,
            _ => return Err(Malformed::Value("crypt algorithm")),
        })
    }

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Des => 1,
            Self::TripleDes => 2,
            Self::Rc2 => 250,
            Self::Rc4 => 251,
        }
    }

    /// Octets of its key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Des => 8,
            Self::TripleDes => 24,
            Self::Rc2 | Self::Rc4 => 16,
        }
    }
}

impl MacAlg {
    fn read(number: u8) -> Result<Self, Malformed> {
        Ok(match number {
            0 => Self::None,
            1 => Self::Md5,
            3 => Self::Sha,
            _ => return Err(Malformed::Value("MAC algorithm")),
        })
    }

    /// The number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Md5 => 1,
            Self::Sha => 3,
        }
    }

    /// Octets of its key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Md5 => 16,
            Self::Sha => 20,
        }
    }
}

const VERSION: u8 = 1;
