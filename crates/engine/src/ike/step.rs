//! The messages of IKE by their place in an exchange.

use core::fmt;

/// A message by its exchange and its number there, as in logs and costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Of IKEv1's main mode, 1 to 6 (RFC 2409 §5).
    Main(u8),
    /// Of its aggressive mode, 1 to 3 (RFC 2409 §5).
    Aggressive(u8),
    /// Of its quick mode, 1 to 3 (RFC 2409 §5.5).
    Quick(u8),
    /// Of mode config: 1 requests, 2 answers (draft-ietf-ipsec-isakmp-mode-cfg §3.2).
    Config(u8),
    /// A gateway pushes configuration (draft-ietf-ipsec-isakmp-mode-cfg §3.3).
    ConfigSet,
    /// The acknowledgement of a push.
    ConfigAck,
    /// An informational exchange (RFC 2408 §4.8).
    Informational,
    /// Of IKEv2's IKE_SA_INIT: 1 requests, 2 answers (RFC 7296 §1.2).
    Init(u8),
    /// Of IKE_SESSION_RESUME (RFC 5723 §4.3.2).
    Resume(u8),
    /// Of IKE_INTERMEDIATE (RFC 9242 §3.2).
    Intermediate(u8),
    /// Of IKE_AUTH (RFC 7296 §1.2).
    Auth(u8),
    /// Of CREATE_CHILD_SA (RFC 7296 §1.3).
    Create(u8),
    /// Of IKE_FOLLOWUP_KE (RFC 9370 §2.2.4).
    Followup(u8),
    /// Of INFORMATIONAL (RFC 7296 §1.4).
    Inform(u8),
}

impl Step {
    /// Whether it is a request of IKEv2; otherwise it answers one.
    pub(crate) fn is_request(self) -> bool {
        matches!(
            self,
            Self::Init(1)
                | Self::Resume(1)
                | Self::Intermediate(1)
                | Self::Auth(1)
                | Self::Create(1)
                | Self::Followup(1)
                | Self::Inform(1)
        )
    }

    /// Whether who sends it waits for an answer, of either version.
    pub fn wants_answer(self) -> bool {
        let is_answered = matches!(
            self,
            Self::Main(1 | 3 | 5) | Self::Aggressive(1) | Self::Quick(1) | Self::Config(1)
        );
        is_answered || self.is_request()
    }

    /// Whether the message comes before any answer of the peer.
    pub fn is_first(self) -> bool {
        matches!(
            self,
            Self::Main(1) | Self::Aggressive(1) | Self::Init(1) | Self::Resume(1)
        )
    }

    /// Its exchange in words.
    pub fn exchange(self) -> &'static str {
        match self {
            Self::Main(_) => "main",
            Self::Aggressive(_) => "aggressive",
            Self::Quick(_) => "quick",
            Self::Config(_) => "config",
            Self::ConfigSet => "config set",
            Self::ConfigAck => "config ack",
            Self::Informational | Self::Inform(_) => "informational",
            Self::Init(_) => "init",
            Self::Resume(_) => "resume",
            Self::Intermediate(_) => "intermediate",
            Self::Auth(_) => "auth",
            Self::Create(_) => "create child",
            Self::Followup(_) => "followup",
        }
    }

    /// Its number in the exchange, from 1; none: the exchange in words says it all.
    pub fn number(self) -> Option<u8> {
        match self {
            Self::Main(number)
            | Self::Aggressive(number)
            | Self::Quick(number)
            | Self::Config(number)
            | Self::Init(number)
            | Self::Resume(number)
            | Self::Intermediate(number)
            | Self::Auth(number)
            | Self::Create(number)
            | Self::Followup(number)
            | Self::Inform(number) => Some(number),
            Self::ConfigSet | Self::ConfigAck | Self::Informational => None,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.exchange())?;
        self.number()
            .map_or(Ok(()), |number| write!(f, " {number}"))
    }
}
