//! A bounded reader and an appending writer. All our protocols are big-endian, except the fields of
//! IEEE 802.11.

use core::fmt;

/// Why bytes are not what they claim to be. One variant per cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// The buffer ends before the named field does.
    Truncated(&'static str),
    /// Bytes follow where none may.
    Trailing(&'static str),
    /// A length field contradicts the space it describes.
    Length(&'static str),
    /// A field holds a value its document forbids.
    Value(&'static str),
    /// More of the named thing than we accept. The limit is in the code that checks it.
    TooMany(&'static str),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated(what) => write!(f, "{what} is truncated"),
            Self::Trailing(what) => write!(f, "bytes follow the end of {what}"),
            Self::Length(what) => write!(f, "the length of {what} contradicts its space"),
            Self::Value(what) => write!(f, "{what} holds a forbidden value"),
            Self::TooMany(what) => write!(f, "too many of {what}"),
        }
    }
}

impl core::error::Error for Malformed {}

/// Reads big-endian fields from a slice and never past its end.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// How many bytes are left.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next `n` bytes, named `what` in the error.
    pub fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self
            .bytes
            .split_at_checked(n)
            .ok_or(Malformed::Truncated(what))?;
        self.bytes = tail;
        Ok(head)
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.bytes)
    }

    /// A reader over the next `n` bytes only.
    pub fn sub(&mut self, n: usize, what: &'static str) -> Result<Reader<'a>, Malformed> {
        self.take(n, what).map(Reader::new)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let (head, tail) = self
            .bytes
            .split_first_chunk()
            .ok_or(Malformed::Truncated(what))?;
        self.bytes = tail;
        Ok(*head)
    }

    /// One octet.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        self.array::<1>(what).map(|[octet]| octet)
    }

    /// Two octets.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, Malformed> {
        self.array(what).map(u16::from_be_bytes)
    }

    /// Two octets, the low one first.
    pub fn u16_le(&mut self, what: &'static str) -> Result<u16, Malformed> {
        self.array(what).map(u16::from_le_bytes)
    }

    /// Four octets.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.array(what).map(u32::from_be_bytes)
    }

    /// Eight octets.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, Malformed> {
        self.array(what).map(u64::from_be_bytes)
    }

    /// Ends the reading. An error if anything is left.
    pub fn finish(self, what: &'static str) -> Result<(), Malformed> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(Malformed::Trailing(what))
        }
    }
}

/// Appends big-endian fields to a buffer.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty buffer with room for so many octets, which does not grow up to there: a buffer that
    /// grows leaves a copy behind.
    pub fn with_room(octets: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(octets),
        }
    }

    /// One octet.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Two octets.
    pub fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// Two octets, the low one first.
    pub fn u16_le(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Four octets.
    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// Eight octets.
    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    /// The bytes as they are.
    pub fn bytes(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
    }

    /// How many bytes are written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing is written yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes a two-octet length over `at` once it is known. `at + 2` must be written already.
    pub fn patch_u16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// What was written.
    pub fn into_vec(self) -> Vec<u8> {
        self.bytes
    }

    /// What is written so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }
}
