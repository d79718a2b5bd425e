//! The steps of phase 1 in both modes: the message that an exchange waits for, and what it leads
//! to.

use crypto::dh::KeyPair;
use wire::isakmp::{Located, payloads};

use super::exchange::{At, Core, Keyed};
use super::proposal::Method;
use super::protect::{self, Iv, Opened};
use super::{IsakmpSa, auth};
use crate::counters::DropReason;
use crate::ike::Fault;

/// The expected message, and the state that only that step needs.
pub(super) enum Awaited {
    Main2,
    Main3,
    Main4(KeyPair),
    Main5(Keyed),
    Main6(Keyed),
    Aggressive2(KeyPair),
    Aggressive3(Keyed),
    Done,
}

impl Awaited {
    /// The keys, in steps that have them.
    pub(super) fn keyed(&self) -> Option<&Keyed> {
        match self {
            Self::Main5(keyed) | Self::Main6(keyed) | Self::Aggressive3(keyed) => Some(keyed),
            _ => None,
        }
    }

    /// Whether the awaited message is the first to prove that the peer receives at its address.
    pub(super) fn is_half_open(&self) -> bool {
        matches!(self, Self::Main3 | Self::Aggressive3(_))
    }
}

/// What a step leads to.
pub(super) enum Next {
    /// The exchange waits for this message.
    Awaits(Awaited),
    /// Both ends have authenticated.
    Established(Box<IsakmpSa>),
}

/// Why a step fails, and what its message shows all the same.
pub(super) struct Failure {
    pub(super) fault: Fault,
    /// The message was read: the peer is not silent.
    pub(super) is_heard: bool,
    /// The last block of the message, if it was encrypted with the exchange's keys.
    pub(super) last_block: Option<Iv>,
}

impl<F: Into<Fault>> From<F> for Failure {
    fn from(fault: F) -> Self {
        Self {
            fault: fault.into(),
            is_heard: false,
            last_block: None,
        }
    }
}

/// A step whose message is encrypted: the last one of its role.
type SealedStep = fn(&mut Core, &Keyed, &Opened, &mut At<'_>) -> Result<Box<IsakmpSa>, Fault>;

impl Core {
    /// Processes the message that `step` waits for.
    pub(super) fn advance(&mut self, step: &Awaited, at: &mut At<'_>) -> Result<Next, Failure> {
        match step {
            Awaited::Main2 => Ok(Next::Awaits(self.main_2(at)?)),
            Awaited::Main3 => Ok(Next::Awaits(self.main_3(at)?)),
            Awaited::Main4(pair) => Ok(Next::Awaits(self.main_4(pair, at)?)),
            Awaited::Main5(keyed) => self.with_sealed(keyed, at, Self::main_5),
            Awaited::Main6(keyed) => self.with_sealed(keyed, at, Self::main_6),
            Awaited::Aggressive2(pair) => self.aggressive_2(pair, at).map(Next::Established),
            Awaited::Aggressive3(keyed) if at.message.header().flags.is_encrypted() => {
                self.with_sealed(keyed, at, Self::aggressive_3_sealed)
            }
            Awaited::Aggressive3(keyed) => {
                Ok(Next::Established(self.aggressive_3_clear(keyed, at)?))
            }
            Awaited::Done => Err(DropReason::UnexpectedMessage.into()),
        }
    }

    /// Decrypts the last message and processes it. What fails after that was encrypted with the
    /// exchange's keys.
    fn with_sealed(
        &mut self,
        keyed: &Keyed,
        at: &mut At<'_>,
        step: SealedStep,
    ) -> Result<Next, Failure> {
        let opened = self.read_sealed(keyed, at)?;
        let established = step(self, keyed, &opened, at);
        established.map(Next::Established).map_err(|fault| Failure {
            last_block: Some(opened.next_iv),
            ..fault.into()
        })
    }

    /// The payloads of an unencrypted message.
    pub(super) fn read_clear<'a>(at: &At<'a>) -> Result<(&'a [u8], Vec<Located>), DropReason> {
        let (header, body) = (at.message.header(), at.message.body());
        if header.flags.is_encrypted() {
            return Err(DropReason::UnexpectedMessage);
        }
        let located =
            payloads(header.next_payload, body).map_err(|_| DropReason::MalformedMessage)?;
        Ok((body, located))
    }

    /// Decrypts a phase 1 message. In main mode the cipher key depends on the pre-shared key, so a
    /// failure suggests another key.
    fn read_sealed(&self, keyed: &Keyed, at: &mut At<'_>) -> Result<Opened, Fault> {
        let key = &keyed.keys.cipher_key.0;
        let work = &mut at.out.work;
        let opened = protect::decrypt(self.suite.cipher, key, at.message, &keyed.iv, work);
        let is_by_key = self.method == Method::PresharedKey && !self.is_aggressive;
        opened.map_err(|reason| match reason {
            DropReason::UndecryptableMessage if is_by_key => auth::wrong_key(),
            _ => reason.into(),
        })
    }
}
