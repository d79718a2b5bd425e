//! The MAC header with three addresses (IEEE 802.11-2020 §9.3.2, §9.3.3).

use super::address::Address;
use crate::codec::{Malformed, Reader, Writer};

/// Octets of the longest header.
pub const MAX_HEADER_LEN: usize = 26;

/// Bits and types of the frame control field.
pub mod control {
    /// Type and subtype together: these bits.
    pub const KIND: u16 = 0x00fc;
    /// Association request.
    pub const ASSOCIATION_REQUEST: u16 = 0x0000;
    /// Association response.
    pub const ASSOCIATION_RESPONSE: u16 = 0x0010;
    /// Probe request.
    pub const PROBE_REQUEST: u16 = 0x0040;
    /// Probe response.
    pub const PROBE_RESPONSE: u16 = 0x0050;
    /// Beacon.
    pub const BEACON: u16 = 0x0080;
    /// Disassociation.
    pub const DISASSOCIATION: u16 = 0x00a0;
    /// Authentication.
    pub const AUTHENTICATION: u16 = 0x00b0;
    /// Deauthentication.
    pub const DEAUTHENTICATION: u16 = 0x00c0;
    /// Data.
    pub const DATA: u16 = 0x0008;
    /// Data with quality of service.
    pub const QOS_DATA: u16 = 0x0088;
    /// From a station to its access point.
    pub const TO_DS: u16 = 0x0100;
    /// From an access point to its stations.
    pub const FROM_DS: u16 = 0x0200;
    /// More fragments follow.
    pub const MORE_FRAGMENTS: u16 = 0x0400;
    /// The body is encrypted.
    pub const PROTECTED: u16 = 0x4000;
    /// In strict order, or with another control field behind the header.
    pub const ORDER: u16 = 0x8000;
    /// The two bits of the type.
    pub(super) const TYPE: u16 = 0x000c;
    /// The subtype bit of data frames with a quality of service field.
    pub(super) const QOS: u16 = 0x0080;
}

/// Who a frame is between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A station to its access point: addresses are BSSID, source, destination.
    ToAccessPoint,
    /// An access point to its stations: addresses are destination, BSSID, source.
    FromAccessPoint,
    /// Management, or without an access point: destination, source, BSSID.
    Direct,
}

/// A MAC header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Frame control, see [`control`].
    pub control: u16,
    /// Duration, or an identifier.
    pub duration: u16,
    /// Address 1: who receives the frame from the air.
    pub receiver: Address,
    /// Address 2: who sends it into the air.
    pub transmitter: Address,
    /// Address 3.
    pub third: Address,
    /// Sequence number and, in the low four bits, the number of the fragment.
    pub sequence: u16,
    /// The quality of service field of such data frames.
    pub qos: Option<u16>,
}

impl Header {
    /// Reads the header at the start of `frame`. Returns it and its length.
    pub fn parse(frame: &[u8]) -> Result<(Self, usize), Malformed> {
        let mut r = Reader::new(frame);
        let header = Self::read(&mut r)?;
        Ok((header, frame.len() - r.len()))
    }

    /// Reads a header.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let control = r.u16_le("frame control")?;
        if control & 3 != 0 {
            return Err(Malformed::Value("802.11 version"));
        }
        if !matches!(control & control::TYPE, 0 | control::DATA) {
            return Err(Malformed::Value("frame type"));
        }
        let both = control::TO_DS | control::FROM_DS;
        if control & both == both {
            return Err(Malformed::Value("frame with four addresses"));
        }
        Ok(Self {
            control,
            duration: r.u16_le("duration")?,
            receiver: Address::read(r)?,
            transmitter: Address::read(r)?,
            third: Address::read(r)?,
            sequence: r.u16_le("sequence control")?,
            qos: match has_qos(control) {
                true => Some(r.u16_le("quality of service")?),
                false => None,
            },
        })
    }

    /// Octets of the header.
    #[expect(clippy::len_without_is_empty, reason = "no header is empty")]
    pub const fn len(&self) -> usize {
        if self.qos.is_some() { 26 } else { 24 }
    }

    /// Appends the header.
    pub fn write(&self, w: &mut Writer) {
        let mut room = [0; MAX_HEADER_LEN];
        let len = self.put(&mut room);
        w.bytes(&room[..len]);
    }

    /// Writes the header to the start of `frame`. Returns its length. Panics if `frame` is shorter.
    pub fn put(&self, frame: &mut [u8]) -> usize {
        frame[..2].copy_from_slice(&self.control.to_le_bytes());
        frame[2..4].copy_from_slice(&self.duration.to_le_bytes());
        frame[4..10].copy_from_slice(&self.receiver.0);
        frame[10..16].copy_from_slice(&self.transmitter.0);
        frame[16..22].copy_from_slice(&self.third.0);
        frame[22..24].copy_from_slice(&self.sequence.to_le_bytes());
        if let Some(qos) = self.qos {
            frame[24..26].copy_from_slice(&qos.to_le_bytes());
        }
        self.len()
    }

    /// Who it is between.
    pub const fn direction(&self) -> Direction {
        if self.control & control::TO_DS != 0 {
            Direction::ToAccessPoint
        } else if self.control & control::FROM_DS != 0 {
            Direction::FromAccessPoint
        } else {
            Direction::Direct
        }
    }

    /// Where the data come from.
    pub const fn source(&self) -> Address {
        match self.direction() {
            Direction::FromAccessPoint => self.third,
            _ => self.transmitter,
        }
    }

    /// Where the data go to.
    pub const fn destination(&self) -> Address {
        match self.direction() {
            Direction::ToAccessPoint => self.third,
            _ => self.receiver,
        }
    }

    /// Whether it is a management frame.
    pub const fn is_management(&self) -> bool {
        self.control & control::TYPE == 0
    }

    /// Whether the body is encrypted.
    pub const fn is_protected(&self) -> bool {
        self.control & control::PROTECTED != 0
    }

    /// Whether it is a part of something larger.
    pub const fn is_fragment(&self) -> bool {
        self.control & control::MORE_FRAGMENTS != 0 || self.sequence & 0xf != 0
    }
}

const fn has_qos(control: u16) -> bool {
    control & control::TYPE == control::DATA && control & control::QOS != 0
}
