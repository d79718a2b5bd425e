//! A whole message, and the frame of its encrypted payload: SK (RFC 7296 §3.14) or SKF (RFC 7383
//! §2.5).

use core::ops::Range;

use super::payload::read_chain;
use super::{FragmentNumbers, GENERIC_LEN, HEADER_LEN, Header, Located, PayloadKind};
use crate::codec::{Malformed, Writer};

/// A message as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The fixed header.
    pub header: Header,
    /// The payloads in clear; with SK or SKF those before it, usually none. Ranges count from the
    /// first octet of the datagram.
    pub clear: Vec<Located>,
    /// SK or SKF, if the message ends in one.
    pub protected: Option<Protected>,
}

/// The encrypted payload of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protected {
    /// Kind of the first payload within; `None` for an empty one, and in fragments after the first.
    pub first: PayloadKind,
    /// SKF's numbers; nothing with SK.
    pub fragment: Option<FragmentNumbers>,
    /// IV, ciphertext and ICV, in octets of the datagram, to its end. What is before it is
    /// authenticated and in clear (RFC 7296 §3.14, RFC 5282 §5.1, RFC 7383 §2.5).
    pub sealed: Range<usize>,
}

impl Message {
    /// Reads a datagram. A chain within SK is read after decryption, by [`super::payloads`].
    pub fn parse(datagram: &[u8]) -> Result<Self, Malformed> {
        let (header, _) = Header::parse(datagram)?;
        let (clear, sealed) = read_chain(header.next_payload, datagram, HEADER_LEN)?;
        let protected = sealed.map(|sealed| Protected {
            first: sealed.first,
            fragment: sealed.fragment,
            sealed: sealed.range,
        });
        Ok(Self {
            header,
            clear,
            protected,
        })
    }
}

/// Writes a message up to its encrypted payload, then `sealed_len` zero octets for IV, ciphertext
/// and ICV, all lengths filled in. Returns the datagram and where those octets begin.
///
/// `header.next_payload` is not used: SK or SKF is the only payload. `first` is the kind of the
/// first payload within; a fragment after the first has none (RFC 7383 §2.5). Panics if the payload
/// is larger than 65,535 octets.
pub fn sealed_frame(
    header: &Header,
    first: PayloadKind,
    fragment: Option<FragmentNumbers>,
    sealed_len: usize,
) -> (Vec<u8>, usize) {
    let kind = match fragment {
        None => PayloadKind::Encrypted,
        Some(_) => PayloadKind::EncryptedFragment,
    };
    let header = Header {
        next_payload: kind,
        ..*header
    };
    let head_len = GENERIC_LEN + fragment.map_or(0, |_| FragmentNumbers::LEN);
    let payload_len = head_len + sealed_len;
    let mut w = Writer::new();
    header.write_fields(payload_len, &mut w);
    w.u8(first.number());
    w.u8(0);
    w.u16(u16::try_from(payload_len).expect("payload below 64 KiB"));
    if let Some(numbers) = fragment {
        numbers.write(&mut w);
    }
    let start = w.len();
    let mut datagram = w.into_vec();
    datagram.resize(start + sealed_len, 0);
    (datagram, start)
}
