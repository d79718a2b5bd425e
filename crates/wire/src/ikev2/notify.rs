//! The notify payload (RFC 7296 §3.10). [`super::notify_data`] reads what is in it.

use super::Protocol;
use crate::codec::{Malformed, Reader, Writer};

/// Notify message types; the names are the RFCs', as in IANA's registry. Full transcripts are
/// draft-ietf-ipsecme-ikev2-downgrade-prevention-08.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the documents' own")]
pub enum NotifyType {
    UnsupportedCriticalPayload,
    InvalidIkeSpi,
    InvalidMajorVersion,
    InvalidSyntax,
    InvalidMessageId,
    InvalidSpi,
    NoProposalChosen,
    InvalidKePayload,
    AuthenticationFailed,
    SinglePairRequired,
    NoAdditionalSas,
    InternalAddressFailure,
    FailedCpRequired,
    TsUnacceptable,
    InvalidSelectors,
    UnacceptableAddresses,
    UnexpectedNatDetected,
    UseAssignedHomeAddress,
    TemporaryFailure,
    ChildSaNotFound,
    InvalidGroupId,
    AuthorizationFailed,
    StateNotFound,
    TsMaxQueue,
    InitialContact,
    SetWindowSize,
    AdditionalTsPossible,
    IpcompSupported,
    NatDetectionSourceIp,
    NatDetectionDestinationIp,
    Cookie,
    UseTransportMode,
    HttpCertLookupSupported,
    RekeySa,
    EspTfcPaddingNotSupported,
    NonFirstFragmentsAlso,
    MobikeSupported,
    AdditionalIp4Address,
    AdditionalIp6Address,
    NoAdditionalAddresses,
    UpdateSaAddresses,
    Cookie2,
    NoNatsAllowed,
    AuthLifetime,
    MultipleAuthSupported,
    AnotherAuthFollows,
    RedirectSupported,
    Redirect,
    RedirectedFrom,
    TicketLtOpaque,
    TicketRequest,
    TicketAck,
    TicketNack,
    TicketOpaque,
    LinkId,
    UseWespMode,
    RohcSupported,
    EapOnlyAuthentication,
    ChildlessIkev2Supported,
    QuickCrashDetection,
    Ikev2MessageIdSyncSupported,
    IpsecReplayCounterSyncSupported,
    Ikev2MessageIdSync,
    IpsecReplayCounterSync,
    SecurePasswordMethods,
    PskPersist,
    PskConfirm,
    ErxSupported,
    IfomCapability,
    Ikev2FragmentationSupported,
    SignatureHashAlgorithms,
    CloneIkeSaSupported,
    CloneIkeSa,
    Puzzle,
    UsePpk,
    PpkIdentity,
    NoPpkAuth,
    IntermediateExchangeSupported,
    Ip4Allowed,
    Ip6Allowed,
    AdditionalKeyExchange,
    UseAggfrag,
    SupportedAuthMethods,
    SaResourceInfo,
    UsePpkInt,
    PpkIdentityKey,
    IkeSaInitFullTranscriptAuth,
    Other(u16),
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notify {
    /// The protocol of `spi`; `None` without one.
    pub protocol: Protocol,
    /// 4 octets for a child, otherwise none.
    pub spi: Vec<u8>,
    /// The event.
    pub kind: NotifyType,
    /// Notification data.
    pub value: Vec<u8>,
}

impl Notify {
    /// A notification that names no child.
    pub fn new(kind: NotifyType, value: impl Into<Vec<u8>>) -> Self {
        Self {
            protocol: Protocol::None,
            spi: Vec::new(),
            kind,
            value: value.into(),
        }
    }

    /// A notification about a child: REKEY_SA, CHILD_SA_NOT_FOUND, INVALID_SELECTORS.
    pub fn of_child(kind: NotifyType, protocol: Protocol, spi: u32) -> Self {
        Self {
            protocol,
            spi: spi.to_be_bytes().to_vec(),
            kind,
            value: Vec::new(),
        }
    }

    /// The child that it is about.
    pub fn to_child(&self) -> Option<(Protocol, u32)> {
        let spi = <[u8; 4]>::try_from(&self.spi[..]).ok()?;
        let is_of_child = matches!(self.protocol, Protocol::Ah | Protocol::Esp);
        is_of_child.then(|| (self.protocol, u32::from_be_bytes(spi)))
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
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
        w.u8(self.protocol.number());
        w.u8(u8::try_from(self.spi.len()).expect("SPI of at most 255 octets"));
        w.u16(self.kind.number());
        w.bytes(&self.spi);
        w.bytes(&self.value);
    }
}

impl NotifyType {
    /// Whether the type is an error, private ones included (RFC 7296 §3.10.1).
    pub const fn is_error(self) -> bool {
        self.number() < FIRST_STATUS
    }
}

/// The first type that is a status.
const FIRST_STATUS: u16 = 16_384;

numbered!(NotifyType: u16 {
    UnsupportedCriticalPayload = 1,
    InvalidIkeSpi = 4,
    InvalidMajorVersion = 5,
    InvalidSyntax = 7,
    InvalidMessageId = 9,
    InvalidSpi = 11,
    NoProposalChosen = 14,
    InvalidKePayload = 17,
    AuthenticationFailed = 24,
    SinglePairRequired = 34,
    NoAdditionalSas = 35,
    InternalAddressFailure = 36,
    FailedCpRequired = 37,
    TsUnacceptable = 38,
    InvalidSelectors = 39,
    UnacceptableAddresses = 40,
    UnexpectedNatDetected = 41,
    UseAssignedHomeAddress = 42,
    TemporaryFailure = 43,
    ChildSaNotFound = 44,
    InvalidGroupId = 45,
    AuthorizationFailed = 46,
    StateNotFound = 47,
    TsMaxQueue = 48,
    InitialContact = 16384,
    SetWindowSize = 16385,
    AdditionalTsPossible = 16386,
    IpcompSupported = 16387,
    NatDetectionSourceIp = 16388,
    NatDetectionDestinationIp = 16389,
    Cookie = 16390,
    UseTransportMode = 16391,
    HttpCertLookupSupported = 16392,
    RekeySa = 16393,
    EspTfcPaddingNotSupported = 16394,
    NonFirstFragmentsAlso = 16395,
    MobikeSupported = 16396,
    AdditionalIp4Address = 16397,
    AdditionalIp6Address = 16398,
    NoAdditionalAddresses = 16399,
    UpdateSaAddresses = 16400,
    Cookie2 = 16401,
    NoNatsAllowed = 16402,
    AuthLifetime = 16403,
    MultipleAuthSupported = 16404,
    AnotherAuthFollows = 16405,
    RedirectSupported = 16406,
    Redirect = 16407,
    RedirectedFrom = 16408,
    TicketLtOpaque = 16409,
    TicketRequest = 16410,
    TicketAck = 16411,
    TicketNack = 16412,
    TicketOpaque = 16413,
    LinkId = 16414,
    UseWespMode = 16415,
    RohcSupported = 16416,
    EapOnlyAuthentication = 16417,
    ChildlessIkev2Supported = 16418,
    QuickCrashDetection = 16419,
    Ikev2MessageIdSyncSupported = 16420,
    IpsecReplayCounterSyncSupported = 16421,
    Ikev2MessageIdSync = 16422,
    IpsecReplayCounterSync = 16423,
    SecurePasswordMethods = 16424,
    PskPersist = 16425,
    PskConfirm = 16426,
    ErxSupported = 16427,
    IfomCapability = 16428,
    Ikev2FragmentationSupported = 16430,
    SignatureHashAlgorithms = 16431,
    CloneIkeSaSupported = 16432,
    CloneIkeSa = 16433,
    Puzzle = 16434,
    UsePpk = 16435,
    PpkIdentity = 16436,
    NoPpkAuth = 16437,
    IntermediateExchangeSupported = 16438,
    Ip4Allowed = 16439,
    Ip6Allowed = 16440,
    AdditionalKeyExchange = 16441,
    UseAggfrag = 16442,
    SupportedAuthMethods = 16443,
    SaResourceInfo = 16444,
    UsePpkInt = 16445,
    PpkIdentityKey = 16446,
    IkeSaInitFullTranscriptAuth = 16447,
});
