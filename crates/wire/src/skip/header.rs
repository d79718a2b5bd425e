//! The SKIP header.

use super::algorithms::Algorithms;
use super::name::{MAX_MKID_LEN, Name, Nsid};
use crate::codec::{Malformed, Reader, Writer};

/// Octets before the encrypted packet key.
pub const FIXED_LEN: usize = 12;

/// Octets of the longest header: a key of 24 octets and two names of 16.
pub const MAX_LEN: usize = FIXED_LEN + 24 + 2 * MAX_MKID_LEN;

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
    /// How packet key, payload and packet are protected.
    pub algorithms: Algorithms,
    /// The encrypted packet key, of [`Algorithms::field_len`] octets.
    pub encrypted_key: &'a [u8],
}

impl<'a> SkipHeader<'a> {
    /// Octets of a header.
    pub const fn header_len(algorithms: Algorithms, source: Nsid, destination: Nsid) -> usize {
        FIXED_LEN + algorithms.field_len() + source.mkid_len() + destination.mkid_len()
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
        let algorithms = Algorithms::read(&mut r)?;
        if r.u8("compression algorithm")? != 0 {
            return Err(Malformed::Value("compression algorithm"));
        }
        let encrypted_key = r.take(algorithms.field_len(), "encrypted packet key")?;
        let header = Self {
            source: Name::read_mkid(from, &mut r)?,
            destination: Name::read_mkid(to, &mut r)?,
            next_header,
            n,
            algorithms,
            encrypted_key,
        };
        Ok((header, packet.len() - r.len()))
    }

    /// Appends the header.
    pub fn write(&self, w: &mut Writer) {
        let mut room = [0; MAX_LEN];
        let len = self.put(&mut room);
        w.bytes(&room[..len]);
    }

    /// Writes the header to the start of `packet`. Returns its length. Panics if `packet` is
    /// shorter.
    pub fn put(&self, packet: &mut [u8]) -> usize {
        packet[..4].copy_from_slice(&[
            VERSION << 4,
            self.source.nsid() as u8,
            self.destination.nsid() as u8,
            self.next_header,
        ]);
        packet[4..8].copy_from_slice(&self.n.to_be_bytes());
        packet[8..11].copy_from_slice(&self.algorithms.numbers());
        packet[11] = 0;
        let mut at = FIXED_LEN;
        let (source, destination) = (self.source.mkid(), self.destination.mkid());
        for octets in [self.encrypted_key, source, destination] {
            packet[at..at + octets.len()].copy_from_slice(octets);
            at += octets.len();
        }
        at
    }
}

const VERSION: u8 = 1;
