//! Quick crash detection (RFC 6290), as maker and as taker of tokens.
//!
//! ```text
//! both ends, in IKE_AUTH:  AUTH, N(QCD_TOKEN)                    under keys
//! after a renewal:         CREATE_CHILD_SA answer with N(QCD_TOKEN); the initiator sends its own
//!                          in an INFORMATIONAL
//!
//! taker                            maker, which has lost everything
//! any request under keys -->
//!                              <-- N(INVALID_IKE_SPI), N(QCD_TOKEN)         in clear
//! ```
//!
//! A token is a function of a secret and both SPIs, so its maker keeps nothing but the secret. Who
//! shows the token of an IKE SA is who gave it: the IKE SA is over at once, without a timeout. Left
//! out: tokens of the taker's address (RFC 6290 §5.2), and tokens in answer to ESP (RFC 6290 §8.2),
//! which need memory that outlives a crash.

use std::sync::Arc;

use crypto::hash::{Hash, is_equal};
use wire::ikev2::{Notify, NotifyType, Payload, Protocol};

use super::clear::{Clear, clear};
use super::message::Message;
use super::parts::Parts;
use super::window::MAX_SAS;
use crate::counters::DropReason;
use crate::ike::{Fact, Role, Sent, Spi, Spis};
use crate::rate::{Bucket, Rate};
use crate::sa::{Path, Secret};
use crate::time::{Duration, Instant};

/// Octets of a token: the least that it may have (RFC 6290 §5), so that an answer in clear is
/// hardly longer than what it answers.
const TOKEN_LEN: usize = 16;
/// Octets of the secret (RFC 6290 §5.1).
pub const SECRET_LEN: usize = 32;
/// Tokens of one message that are compared (RFC 6290 §4.5).
const MAX_TOKENS: usize = 4;
/// Messages with tokens that are looked at, of one session (RFC 6290 §8.1).
const LOOKS: Rate = Rate::new(10, Duration::from_millis(100));

/// Makes tokens. Wiped on drop.
pub struct Maker(Secret);

impl Maker {
    /// With this secret, which must outlive the process.
    pub fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// Its secret.
    pub(crate) fn secret(&self) -> &Secret {
        &self.0
    }

    /// The token of an IKE SA: the start of a mac over both SPIs (RFC 6290 §5.1).
    fn token(&self, spis: Spis) -> Vec<u8> {
        let mac = Hash::Sha256.hmac(&self.0.0, &[&spis.initiator.0, &spis.responder.0]);
        mac.as_ref()[..TOKEN_LEN].to_vec()
    }

    /// The token of an IKE SA as a notification.
    pub(super) fn notify(&self, spis: Spis) -> Payload {
        Payload::Notify(Notify {
            protocol: Protocol::Ike,
            ..Notify::new(NotifyType::QuickCrashDetection, self.token(spis))
        })
    }

    /// The answer to a request under keys of an IKE SA that we do not have; `None`: none is due.
    /// The caller has made sure that we have neither of its SPIs (RFC 6290 §9.2).
    pub(crate) fn answer(&self, message: &Message<'_>, path: Path) -> Option<Sent> {
        let spis = message.spis();
        let is_named = spis.initiator != Spi([0; 8]) && spis.responder != Spi([0; 8]);
        if message.is_response() || !message.is_protected() || !is_named {
            return None;
        }
        let chain = [
            Payload::Notify(Notify::new(NotifyType::InvalidIkeSpi, Vec::new())),
            self.notify(spis),
        ];
        let head = Clear {
            exchange: message.exchange(),
            id: message.id(),
            is_initiator: message.our_role() == Role::Initiator,
            is_response: true,
        };
        Some(clear(head, spis, &chain, path))
    }
}

/// A session's part; none without quick crash detection.
#[derive(Default)]
pub(super) struct Crash(Option<Box<Tokens>>);

/// Tokens in both directions.
struct Tokens {
    maker: Arc<Maker>,
    /// The peer's tokens, the newest last.
    taken: Vec<(Spis, Secret)>,
    looked: Bucket,
}

impl Crash {
    /// With both roles; `None`: neither.
    fn new(maker: Option<Arc<Maker>>) -> Self {
        Self(maker.map(|maker| {
            Box::new(Tokens {
                maker,
                taken: Vec::new(),
                looked: Bucket::default(),
            })
        }))
    }

    /// Both ends have authenticated: `parts` may have the peer's token.
    pub(super) fn begin(maker: Option<Arc<Maker>>, spis: Spis, parts: &Parts<'_>) -> Self {
        let mut crash = Self::new(maker);
        crash.take(spis, parts);
        crash
    }

    /// Our token of an IKE SA.
    pub(super) fn token(&self, spis: Spis) -> Option<Payload> {
        self.0.as_ref().map(|it| it.maker.notify(spis))
    }

    /// Whether we give tokens.
    pub(super) fn makes(&self) -> bool {
        self.0.is_some()
    }

    /// Keeps the peer's token of an IKE SA, if the message has one.
    pub(super) fn take(&mut self, spis: Spis, parts: &Parts<'_>) {
        let token = parts.notice(NotifyType::QuickCrashDetection);
        let token = token.and_then(|it| it.to_qcd_token().ok());
        let (Some(token), Some(it)) = (token, &mut self.0) else {
            return;
        };
        it.taken.retain(|(own, _)| *own != spis);
        if it.taken.len() >= MAX_SAS {
            it.taken.remove(0);
        }
        it.taken.push((spis, Secret(token.to_vec())));
    }

    /// An answer in clear: its sender may show that it is the peer, and that it has lost the IKE
    /// SA. `None`: it shows nothing. It may come from anywhere (RFC 6290 §3).
    pub(super) fn on_clear(&mut self, message: &Message<'_>, now: Instant) -> Option<Fact> {
        let tokens = self.0.as_mut()?;
        if message.is_protected() || !message.is_response() {
            return None;
        }
        let found = message.read().ok()?;
        let parts = Parts::sort(message.octets(), &found.clear).ok()?;
        parts.notice(NotifyType::QuickCrashDetection)?;
        if !tokens.looked.take_one(LOOKS, now) {
            return Some(Fact::Dropped(DropReason::OverQuota));
        }
        Some(match tokens.is_shown(message.spis(), &parts) {
            true => Fact::Crashed,
            false => Fact::Dropped(DropReason::WrongToken),
        })
    }
}

impl Tokens {
    /// Whether one of the message's tokens is the one that the peer gave for this IKE SA.
    fn is_shown(&self, spis: Spis, parts: &Parts<'_>) -> bool {
        let mut taken = self.taken.iter();
        let Some((_, own)) = taken.find(|(own, _)| *own == spis) else {
            return false;
        };
        let shown = parts.notices_of(NotifyType::QuickCrashDetection);
        let mut shown = shown
            .take(MAX_TOKENS)
            .filter_map(|it| it.to_qcd_token().ok());
        shown.any(|token| is_equal(token, &own.0))
    }
}
