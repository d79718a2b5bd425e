//! Notification and delete payloads (RFC 2408 §3.14, §3.15; RFC 2407 §4.6.3; RFC 3706 §5.2).

use super::ProtocolId;

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
    Other(u16),
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// Which SA it speaks of.
    pub protocol: ProtocolId,
    /// Its SPI: 16 octets of cookies, 4 octets, or none.
    pub spi: Vec<u8>,
    /// What happened.
    pub kind: NotifyType,
    /// Notification data.
    pub value: Vec<u8>,
}

/// SPIs that the sender has deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// Protocol of all of them.
    pub protocol: ProtocolId,
    /// 16 octets each for ISAKMP, 4 for AH and ESP. All of one length; at most 256.
    pub spis: Vec<Vec<u8>>,
}
