//! The first message of an IKEv2 peer, and the answer that we speak an earlier version (RFC 7296
//! §1.5, §2.5). Its header has the same form as ours (RFC 7296 §3.1).
//!
//! Left out: everything else of IKEv2.

use super::{HEADER_LEN, NotifyType};
use crate::codec::Writer;

/// Offset of the version octet.
const VERSION_AT: usize = 17;
/// Major version 2, minor version 0.
const VERSION_2: u8 = 0x20;
/// The exchange of a first message.
const IKE_SA_INIT: u8 = 34;
/// Flag: the sender is the initiator of the IKE SA.
const INITIATOR: u8 = 0x08;
/// Flag: the message is a response.
const RESPONSE: u8 = 0x20;
/// The kind of a notify payload.
const NOTIFY: u8 = 41;
/// Octets of a notify payload without SPI and data.
const NOTIFY_LEN: usize = 8;

/// The major version in a datagram's header.
pub fn major_version(datagram: &[u8]) -> Option<u8> {
    datagram.get(VERSION_AT).map(|version| version >> 4)
}

/// A request of IKE_SA_INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstOfIkev2 {
    spi: [u8; 8],
}

impl FirstOfIkev2 {
    /// Reads a whole datagram; `None` for anything else.
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let (header, _) = datagram.split_first_chunk::<HEADER_LEN>()?;
        let spi = <[u8; 8]>::try_from(&header[..8]).ok()?;
        let len = u32::from_be_bytes(header[24..].try_into().ok()?);
        let is_first = spi != [0; 8]
            && header[8..16] == [0; 8]
            && header[VERSION_AT] == VERSION_2
            && header[18] == IKE_SA_INIT
            && header[19] == INITIATOR
            && header[20..24] == [0; 4]
            && usize::try_from(len) == Ok(datagram.len());
        is_first.then_some(Self { spi })
    }

    /// INVALID_MAJOR_VERSION, with SPIs, exchange and message ID of the request.
    pub fn refusal(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.bytes(&self.spi);
        w.bytes(&[0; 8]);
        w.u8(NOTIFY);
        w.u8(VERSION_2);
        w.u8(IKE_SA_INIT);
        w.u8(RESPONSE);
        w.u32(0);
        w.u32((HEADER_LEN + NOTIFY_LEN) as u32);
        // No next payload, no protocol, no SPI, no data.
        w.bytes(&[0, 0, 0, NOTIFY_LEN as u8, 0, 0]);
        w.u16(NotifyType::InvalidMajorVersion.number());
        w.into_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request of IKE_SA_INIT with a body of this many octets.
    fn request(body: usize) -> Vec<u8> {
        let mut datagram = vec![0xa5; 8];
        datagram.extend([0; 8]);
        datagram.extend([33, VERSION_2, IKE_SA_INIT, INITIATOR, 0, 0, 0, 0]);
        datagram.extend(((HEADER_LEN + body) as u32).to_be_bytes());
        datagram.extend(vec![7; body]);
        datagram
    }

    #[test]
    fn a_refusal_is_a_response_of_the_same_spis_exchange_and_message_id() {
        let asked = request(200);
        assert_eq!(major_version(&asked), Some(2));
        let refusal = FirstOfIkev2::parse(&asked).expect("a request").refusal();
        assert_eq!(refusal[..16], asked[..16]);
        assert_eq!(
            refusal[16..],
            [
                41, 0x20, 34, 0x20, 0, 0, 0, 0, 0, 0, 0, 36, 0, 0, 0, 8, 0, 0, 0, 5
            ]
        );
        assert_eq!(FirstOfIkev2::parse(&refusal), None);
    }

    #[test]
    fn nothing_else_is_a_first_message() {
        let asked = request(8);
        for len in 0..asked.len() {
            assert_eq!(FirstOfIkev2::parse(&asked[..len]), None, "{len}");
        }
        for at in (8..24).chain([24, 27]).filter(|at| *at != 16) {
            let mut other = asked.clone();
            other[at] ^= 0x40;
            assert_eq!(FirstOfIkev2::parse(&other), None, "octet {at}");
        }
        let mut nobody = asked;
        nobody[..8].fill(0);
        assert_eq!(FirstOfIkev2::parse(&nobody), None);
        assert_eq!(major_version(&[0; 17]), None);
    }
}
