//! Refusals in both directions: what we tell the peer, what its refusal and its silence mean, and
//! which connections match a first message.

use std::sync::Arc;

use crypto::rand::Stream;
use wire::isakmp::{Cookies, Exchange, Located, NotifyType, Payload, write_payloads};

use super::auth::Proven;
use super::awaited::Awaited;
use super::exchange::{At, Core, Keyed};
use super::in_clear::notification_in_clear;
use super::message::Message;
use super::names_of;
use super::notify::{notify_name, notify_type};
use super::proposal::{self, Method};
use super::protect::{self, Iv};
use crate::config::Connection;
use crate::counters::DropReason;
use crate::ike::{Fault, Outbox, Refusal, Rejection, Step, Unanswered};
use crate::work::Work;

impl Core {
    /// Tells the peer why it is refused, encrypted if there are keys. Their IV follows the last
    /// block of phase 1, sent or received.
    pub(super) fn tell(
        &self,
        fault: &Fault,
        keyed: Option<(&Keyed, Iv)>,
        random: &mut Stream,
        out: &mut Outbox,
    ) {
        let kind = match fault {
            Fault::Incompatible { refusal, .. } => notify_type(*refusal),
            Fault::Unauthenticated(_) => NotifyType::AuthenticationFailed,
            _ => return,
        };
        let Some((keyed, last_block)) = keyed else {
            out.messages
                .push(notification_in_clear(self.cookies, kind, self.path, random));
            return;
        };
        let chain = vec![self.notify(kind, Vec::new())];
        let header = self.header(Exchange::Informational, random.u32().max(1));
        let id = header.message_id.to_be_bytes();
        let (_, body) = write_payloads(&chain);
        let hash = keyed.suite.hash;
        let hash = hash.hmac(&keyed.keys.skeyid_a.0, &[&id, &body]);
        let mut all = vec![Payload::Hash(hash.as_ref().to_vec())];
        all.extend(chain);
        let mut iv = self.notice_iv(last_block, header.message_id);
        let (cipher, key) = (keyed.suite.cipher, &keyed.keys.cipher_key.0);
        let message = protect::encrypt(cipher, key, header, &all, &mut iv, &mut out.work);
        out.messages
            .push(self.sent(Step::Informational, message, names_of(&all)));
    }

    /// Handles an aggressive responder's answer that does not verify, for the first time: the log
    /// and the sender learn it at once, and the exchange waits for a better one. The message is
    /// unauthenticated, so this is only a hint for both.
    pub(super) fn disbelieve(
        &self,
        fault: &Fault,
        cookies: Cookies,
        random: &mut Stream,
        out: &mut Outbox,
    ) {
        let Fault::Unauthenticated(why) = fault else {
            return;
        };
        let kind = NotifyType::AuthenticationFailed;
        out.messages
            .push(notification_in_clear(cookies, kind, self.path, random));
        out.rejections.push(Rejection {
            connection: Some(self.connection().name.clone()),
            path: self.path,
            why: why.clone(),
        });
    }

    /// Decrypts a notification during phase 1 and checks its hash.
    pub(super) fn open_notice(
        &self,
        keyed: &Keyed,
        message: &Message<'_>,
        work: &mut Work,
    ) -> Result<Vec<Located>, DropReason> {
        let iv = self.notice_iv(keyed.iv, message.id());
        let key = &keyed.keys.cipher_key.0;
        let mut opened = protect::decrypt(self.suite.cipher, key, message, &iv, work)?;
        let Some(Payload::Hash(hash)) = opened.payloads.first().map(|first| &first.payload) else {
            return Err(DropReason::BadHash);
        };
        let id = message.id().to_be_bytes();
        let parts = [&id[..], opened.after_first()];
        let expected = self.suite.hash.hmac(&keyed.keys.skeyid_a.0, &parts);
        if crypto::hash::is_equal(hash, expected.as_ref()) {
            Ok(core::mem::take(&mut opened.payloads))
        } else {
            Err(DropReason::BadHash)
        }
    }

    /// The error for a refusal by the peer.
    pub(super) fn refused_with(&self, kind: NotifyType) -> Fault {
        let name = notify_name(kind);
        // Only a hint: strongSwan announces it whether it is configured or not.
        let xauth = match self.peer.xauth {
            true => {
                "; it supports XAUTH and may want a user's name and password, which we do not have"
            }
            false => "",
        };
        if kind == NotifyType::NoProposalChosen {
            return Fault::Incompatible {
                what: format!("the peer refused with {name}; {}{xauth}", self.offered()),
                refusal: Refusal::Proposal,
            };
        }
        let mode = self.mode_words();
        Fault::Unauthenticated(format!("the peer refused with {name} in {mode}{xauth}"))
    }

    /// An initiator's offer in the configuration's words.
    pub(super) fn offered(&self) -> String {
        let suites = match self.is_aggressive {
            true => self.offered_suites(),
            false => self.connection().proposals.clone(),
        };
        let (suites, mode) = (proposal::words(&suites), self.mode_words());
        format!("we offer {suites} in {mode}")
    }

    fn mode_words(&self) -> &'static str {
        match self.is_aggressive {
            true => "IKEv1 aggressive mode",
            false => "IKEv1 main mode",
        }
    }

    /// The meaning of silence at this step.
    pub(super) fn timeout(&self, awaited: &Awaited) -> Fault {
        let step = match awaited {
            Awaited::Main2 => Step::Main(1),
            Awaited::Main3 => Step::Main(2),
            Awaited::Main4(_) => Step::Main(3),
            Awaited::Main5(_) => Step::Main(4),
            Awaited::Main6(_) => Step::Main(5),
            Awaited::Aggressive2(_) => Step::Aggressive(1),
            Awaited::Aggressive3(_) | Awaited::Done => Step::Aggressive(2),
        };
        Fault::TimedOut(Unanswered {
            step,
            remote: self.path.remote,
            moved_from: self.moved_from,
            tries: self.retransmit.as_ref().map_or(1, |it| it.sent()),
            is_by_key: self.method == Method::PresharedKey,
            unreachable: None,
        })
    }

    /// RFC 2409 appendix B: from the last block of phase 1, sent or received.
    fn notice_iv(&self, last_block: Iv, message_id: u32) -> Iv {
        let id = message_id.to_be_bytes();
        let digest = self.suite.hash.digest(&[last_block.as_ref(), &id]);
        Iv::truncated(self.suite.cipher, digest.as_ref())
    }
}

impl At<'_> {
    /// Charges a peer that connects to us for one more ISAKMP SA. If it has too many, its message
    /// is dropped: it will be repeated, and answered when there is room.
    pub(super) fn charge(&mut self, proven: &Proven) -> Result<(), DropReason> {
        let (peer, connection) = (&proven.identity, &proven.connection);
        let comes_to_us = connection.remote_addrs.is_empty();
        let Some(quotas) = self.quotas.as_deref_mut().filter(|_| comes_to_us) else {
            return Ok(());
        };
        let charged = quotas.take_exchange(peer, connection.peers_max, self.now);
        charged.map_err(|excess| {
            self.out.rejections.extend(excess.line.map(|why| Rejection {
                connection: Some(connection.name.clone()),
                path: self.path,
                why,
            }));
            excess.reason
        })
    }
}

/// Connections of the mode that the peer uses.
pub(super) fn of_mode(
    candidates: &[Arc<Connection>],
    is_aggressive: bool,
) -> Result<Vec<Arc<Connection>>, Fault> {
    let is_of_mode = |it: &&Arc<Connection>| {
        let is_usable = it.method().is_some() && !it.proposals.is_empty();
        it.is_aggressive == is_aggressive && is_usable
    };
    let found: Vec<_> = candidates.iter().filter(is_of_mode).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let (theirs, ours) = match is_aggressive {
        true => ("aggressive", "main"),
        false => ("main", "aggressive"),
    };
    Err(Fault::NoConnection(format!(
        "no mode in common: the peer uses IKEv1 {theirs} mode; we accept {ours} mode"
    )))
}
