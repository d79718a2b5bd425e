//! Notification and delete payloads (RFC 2408 §3.14, §3.15; RFC 2407 §4.6.3; RFC 3706 §5.2).

use super::ProtocolId;
use super::sa::DOI_IPSEC;
use crate::codec::{Malformed, Reader, Writer};

/// SPIs that one delete payload may name.
pub const MAX_DELETED_SPIS: usize = 256;

/// Notify message types; the names are the RFCs'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the documents' own")]
pub enum NotifyType {
    InvalidPayloadType,
    DoiNotSupported,
    SituationNotSupported,
    InvalidCookie,
    InvalidMajorVersion,
    InvalidMinorVersion,
    InvalidExchangeType,
    InvalidFlags,
    InvalidMessageId,
    InvalidProtocolId,
    InvalidSpi,
    InvalidTransformId,
    AttributesNotSupported,
    NoProposalChosen,
    BadProposalSyntax,
    PayloadMalformed,
    InvalidKeyInformation,
    InvalidIdInformation,
    InvalidCertEncoding,
    InvalidCertificate,
    CertTypeUnsupported,
    InvalidCertAuthority,
    InvalidHashInformation,
    AuthenticationFailed,
    InvalidSignature,
    AddressNotification,
    NotifySaLifetime,
    CertificateUnavailable,
    UnsupportedExchangeType,
    UnequalPayloadLengths,
    Connected,
    ResponderLifetime,
    ReplayStatus,
    InitialContact,
    RUThere,
    RUThereAck,
    /// A private type of ours (RFC 2408 §3.14.1): another device with the receiver's identity has
    /// connected, and the SA ends for this one.
    Superseded,
    Other(u16),
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// The protocol of the SA.
    pub protocol: ProtocolId,
    /// Its SPI: 16 octets of cookies, 4 octets, or none.
    pub spi: Vec<u8>,
    /// The event.
    pub kind: NotifyType,
    /// Notification data.
    pub value: Vec<u8>,
}

/// SPIs that the sender has deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// Protocol of all of them.
    pub protocol: ProtocolId,
    /// 16 octets each for ISAKMP, 4 for AH and ESP. All have one length; at most 256.
    pub spis: Vec<Vec<u8>>,
}

impl Notify {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        read_doi(r)?;
        let protocol = r.u8("notification protocol")?.into();
        let spi_len = r.u8("notification SPI size")?;
        let kind = r.u16("notify message type")?.into();
        Ok(Self {
            protocol,
            spi: r.take(spi_len.into(), "notification SPI")?.to_vec(),
            kind,
            value: r.rest().to_vec(),
        })
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.u32(DOI_IPSEC);
        w.u8(self.protocol.number());
        w.u8(u8::try_from(self.spi.len()).expect("SPI of at most 255 octets"));
        w.u16(self.kind.number());
        w.bytes(&self.spi);
        w.bytes(&self.value);
    }
}

impl NotifyType {
    /// Whether the type is an error (RFC 2408 §3.14.1), private ones included.
    pub const fn is_error(self) -> bool {
        matches!(self.number(), 1..=16383)
    }
}

impl Delete {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        read_doi(r)?;
        let protocol = r.u8("delete protocol")?.into();
        let spi_len = usize::from(r.u8("delete SPI size")?);
        let count = usize::from(r.u16("number of SPIs")?);
        if count > MAX_DELETED_SPIS {
            return Err(Malformed::TooMany("deleted SPIs"));
        }
        if spi_len == 0 && count > 0 {
            return Err(Malformed::Length("delete SPI"));
        }
        let mut spis = Vec::with_capacity(count);
        for _ in 0..count {
            spis.push(r.take(spi_len, "delete SPI")?.to_vec());
        }
        Ok(Self { protocol, spis })
    }

    pub(super) fn write(&self, w: &mut Writer) {
        let spi_len = self.spis.first().map_or(0, Vec::len);
        assert!(self.spis.len() <= MAX_DELETED_SPIS, "at most 256 SPIs");
        w.u32(DOI_IPSEC);
        w.u8(self.protocol.number());
        w.u8(u8::try_from(spi_len).expect("SPI of at most 255 octets"));
        w.u16(self.spis.len() as u16);
        for spi in &self.spis {
            assert_eq!(spi.len(), spi_len, "deleted SPIs are of one length");
            w.bytes(spi);
        }
    }
}

/// Zero is the generic ISAKMP domain, which RFC 2408 §3.14 allows in phase 1.
fn read_doi(r: &mut Reader<'_>) -> Result<(), Malformed> {
    match r.u32("domain of interpretation")? {
        0 | DOI_IPSEC => Ok(()),
        _ => Err(Malformed::Value("domain of interpretation")),
    }
}

numbered!(NotifyType: u16 {
    InvalidPayloadType = 1,
    DoiNotSupported = 2,
    SituationNotSupported = 3,
    InvalidCookie = 4,
    InvalidMajorVersion = 5,
    InvalidMinorVersion = 6,
    InvalidExchangeType = 7,
    InvalidFlags = 8,
    InvalidMessageId = 9,
    InvalidProtocolId = 10,
    InvalidSpi = 11,
    InvalidTransformId = 12,
    AttributesNotSupported = 13,
    NoProposalChosen = 14,
    BadProposalSyntax = 15,
    PayloadMalformed = 16,
    InvalidKeyInformation = 17,
    InvalidIdInformation = 18,
    InvalidCertEncoding = 19,
    InvalidCertificate = 20,
    CertTypeUnsupported = 21,
    InvalidCertAuthority = 22,
    InvalidHashInformation = 23,
    AuthenticationFailed = 24,
    InvalidSignature = 25,
    AddressNotification = 26,
    NotifySaLifetime = 27,
    CertificateUnavailable = 28,
    UnsupportedExchangeType = 29,
    UnequalPayloadLengths = 30,
    Connected = 16384,
    ResponderLifetime = 24576,
    ReplayStatus = 24577,
    InitialContact = 24578,
    RUThere = 36136,
    RUThereAck = 36137,
    Superseded = 40_500,
});
