//! Counted reasons: every packet or message that is dropped has one.

/// Why a packet or message was dropped. `status` shows each by [`DropReason::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
#[expect(missing_docs, reason = "name() says it")]
pub enum DropReason {
    // packets, inbound
    Truncated,
    UnknownSpi,
    UnknownTunnel,
    BadIcv,
    Replayed,
    OutsideWindow,
    BadPadding,
    SelectorMismatch,
    ForgedSource,
    WrongEncapsulation,
    BadInnerPacket,
    ClearPacket,
    NestedTooDeep,
    SequenceExhausted,
    // packets, outbound
    NoPolicy,
    NoSa,
    TooBig,
    TtlExpired,
    RoutingLoop,
    QueueFull,
    SendFailed,
    ForgedReport,
    UnprovenPath,
    // messages
    MalformedMessage,
    UnknownCookies,
    UnexpectedMessage,
    RetransmittedMessage,
    TooManyHalfOpen,
    TooManyFragments,
    BadHash,
    UndecryptableMessage,
    NoConnection,
    AuthenticationFailed,
    NoProposalChosen,
    UnsupportedExchange,
    TooManyExchanges,
    TooManySessions,
    IncompleteMessage,
    SelectorRefused,
    Reflected,
    BadPublicValue,
    SelectorTaken,
    NoInnerAddress,
    UnusableAddress,
    UnsupportedVersion,
    OverQuota,
    CookieAsked,
    Downgraded,
    WrongToken,
    TicketRefused,
    SentAway,
    WrongRedirect,
    // RADIUS
    RadiusMalformed,
    RadiusUnasked,
    RadiusUnsigned,
    RadiusForged,
    // SKIP
    SkipUnsupported,
    SkipUnknownName,
    SkipWrongAlgorithm,
    SkipOldN,
    SkipFutureN,
    SkipUnstoredN,
    SkipNoCalendar,
    // wireless links
    LinkUnsupportedFrame,
    LinkNotForUs,
    LinkUnknownStation,
    LinkNoKey,
    LinkBadMic,
    LinkCountermeasures,
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = Self::LinkCountermeasures as usize + 1;

    /// Every reason, in order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Truncated,
        Self::UnknownSpi,
        Self::UnknownTunnel,
        Self::BadIcv,
        Self::Replayed,
        Self::OutsideWindow,
        Self::BadPadding,
        Self::SelectorMismatch,
        Self::ForgedSource,
        Self::WrongEncapsulation,
        Self::BadInnerPacket,
        Self::ClearPacket,
        Self::NestedTooDeep,
        Self::SequenceExhausted,
        Self::NoPolicy,
        Self::NoSa,
        Self::TooBig,
        Self::TtlExpired,
        Self::RoutingLoop,
        Self::QueueFull,
        Self::SendFailed,
        Self::ForgedReport,
        Self::UnprovenPath,
        Self::MalformedMessage,
        Self::UnknownCookies,
        Self::UnexpectedMessage,
        Self::RetransmittedMessage,
        Self::TooManyHalfOpen,
        Self::TooManyFragments,
        Self::BadHash,
        Self::UndecryptableMessage,
        Self::NoConnection,
        Self::AuthenticationFailed,
        Self::NoProposalChosen,
        Self::UnsupportedExchange,
        Self::TooManyExchanges,
        Self::TooManySessions,
        Self::IncompleteMessage,
        Self::SelectorRefused,
        Self::Reflected,
        Self::BadPublicValue,
        Self::SelectorTaken,
        Self::NoInnerAddress,
        Self::UnusableAddress,
        Self::UnsupportedVersion,
        Self::OverQuota,
        Self::CookieAsked,
        Self::Downgraded,
        Self::WrongToken,
        Self::TicketRefused,
        Self::SentAway,
        Self::WrongRedirect,
        Self::RadiusMalformed,
        Self::RadiusUnasked,
        Self::RadiusUnsigned,
        Self::RadiusForged,
        Self::SkipUnsupported,
        Self::SkipUnknownName,
        Self::SkipWrongAlgorithm,
        Self::SkipOldN,
        Self::SkipFutureN,
        Self::SkipUnstoredN,
        Self::SkipNoCalendar,
        Self::LinkUnsupportedFrame,
        Self::LinkNotForUs,
        Self::LinkUnknownStation,
        Self::LinkNoKey,
        Self::LinkBadMic,
        Self::LinkCountermeasures,
    ];

    /// Kebab-case name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::UnknownSpi => "unknown-spi",
            Self::UnknownTunnel => "unknown-tunnel",
            Self::BadIcv => "bad-icv",
            Self::Replayed => "replayed",
            Self::OutsideWindow => "outside-window",
            Self::BadPadding => "bad-padding",
            Self::SelectorMismatch => "selector-mismatch",
            Self::ForgedSource => "forged-source",
            Self::WrongEncapsulation => "wrong-encapsulation",
            Self::BadInnerPacket => "bad-inner-packet",
            Self::ClearPacket => "clear-packet",
            Self::NestedTooDeep => "nested-too-deep",
            Self::SequenceExhausted => "sequence-exhausted",
            Self::NoPolicy => "no-policy",
            Self::NoSa => "no-sa",
            Self::TooBig => "too-big",
            Self::TtlExpired => "ttl-expired",
            Self::RoutingLoop => "routing-loop",
            Self::QueueFull => "queue-full",
            Self::SendFailed => "send-failed",
            Self::ForgedReport => "forged-report",
            Self::UnprovenPath => "unproven-path",
            Self::MalformedMessage => "malformed-message",
            Self::UnknownCookies => "unknown-cookies",
            Self::UnexpectedMessage => "unexpected-message",
            Self::RetransmittedMessage => "retransmitted-message",
            Self::TooManyHalfOpen => "too-many-half-open",
            Self::TooManyFragments => "too-many-fragments",
            Self::BadHash => "bad-hash",
            Self::UndecryptableMessage => "undecryptable-message",
            Self::NoConnection => "no-connection",
            Self::AuthenticationFailed => "authentication-failed",
            Self::NoProposalChosen => "no-proposal-chosen",
            Self::UnsupportedExchange => "unsupported-exchange",
            Self::TooManyExchanges => "too-many-exchanges",
            Self::TooManySessions => "too-many-sessions",
            Self::IncompleteMessage => "incomplete-message",
            Self::SelectorRefused => "selector-refused",
            Self::Reflected => "reflected",
            Self::BadPublicValue => "bad-public-value",
            Self::SelectorTaken => "selector-taken",
            Self::NoInnerAddress => "no-inner-address",
            Self::UnusableAddress => "unusable-address",
            Self::UnsupportedVersion => "unsupported-version",
            Self::OverQuota => "over-quota",
            Self::CookieAsked => "cookie-asked",
            Self::Downgraded => "downgraded",
            Self::WrongToken => "wrong-token",
            Self::TicketRefused => "ticket-refused",
            Self::SentAway => "sent-away",
            Self::WrongRedirect => "wrong-redirect",
            Self::RadiusMalformed => "radius-malformed",
            Self::RadiusUnasked => "radius-unasked",
            Self::RadiusUnsigned => "radius-unsigned",
            Self::RadiusForged => "radius-forged",
            Self::SkipUnsupported => "skip-unsupported",
            Self::SkipUnknownName => "skip-unknown-name",
            Self::SkipWrongAlgorithm => "skip-wrong-algorithm",
            Self::SkipOldN => "skip-old-n",
            Self::SkipFutureN => "skip-future-n",
            Self::SkipUnstoredN => "skip-unstored-n",
            Self::SkipNoCalendar => "skip-no-calendar",
            on_link => on_link.name_on_link(),
        }
    }

    /// Of a frame of a wireless link.
    fn name_on_link(self) -> &'static str {
        match self {
            Self::LinkUnsupportedFrame => "link-unsupported-frame",
            Self::LinkNotForUs => "link-not-for-us",
            Self::LinkUnknownStation => "link-unknown-station",
            Self::LinkNoKey => "link-no-key",
            Self::LinkBadMic => "link-bad-mic",
            _ => "link-countermeasures",
        }
    }
}

/// A count for each [`DropReason`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropCounters([u64; DropReason::COUNT]);

impl Default for DropCounters {
    fn default() -> Self {
        Self([0; DropReason::COUNT])
    }
}

impl DropCounters {
    /// Adds one.
    pub fn count(&mut self, reason: DropReason) {
        self.add(reason, 1);
    }

    /// Adds this many.
    pub fn add(&mut self, reason: DropReason, number: u64) {
        self.0[reason as usize] += number;
    }

    /// The count so far.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
