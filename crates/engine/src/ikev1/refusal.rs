//! Refusals in both directions: what we tell the peer, what its refusal and its silence mean, and
//! which connections match a first message.

use std::sync::Arc;

use crypto::rand::Stream;
use wire::isakmp::{Cookies, Exchange, Located, NotifyType, Payload, write_payloads};

use super::exchange::{Awaited, Core, Session};
use super::in_clear::notification_in_clear;
use super::message::Message;
use super::names_of;
use super::notify::{notify_name, notify_type};
use super::proposal::{self, Method};
use super::protect::{self, Iv};
use crate::config::Connection;
use crate::counters::DropReason;
use crate::ike::{Doubt, Fault, Outbox, Refusal, Step, Unanswered};
use crate::sa::Path;
use crate::work::Work;

impl Core {
    /// Tells the peer why it is refused, encrypted if there are keys.
    pub(super) fn tell(
        &self,
        fault: &Fault,
        session: Option<&Session>,
        random: &mut Stream,
        out: &mut Outbox,
    ) {
        let kind = match fault {
            Fault::Incompatible { refusal, .. } => notify_type(*refusal),
            Fault::Unauthenticated(_) => NotifyType::AuthenticationFailed,
            _ => return,
        };
        let Some(session) = session else {
            out.messages
                .push(notification_in_clear(self.cookies, kind, self.path, random));
            return;
        };
        let chain = vec![self.notify(kind, Vec::new())];
        let header = self.header(Exchange::Informational, random.u32().max(1));
        let id = header.message_id.to_be_bytes();
        let (_, body) = write_payloads(&chain);
        let hash = session.suite.hash;
        let hash = hash.hmac(&session.keys.skeyid_a.0, &[&id, &body]);
        let mut all = vec![Payload::Hash(hash.as_ref().to_vec())];
        all.extend(chain);
        let mut iv = self.notice_iv(session, header.message_id);
        let (cipher, key) = (session.suite.cipher, &session.keys.cipher_key.0);
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
        out.doubts.push(Doubt {
            connection: Some(self.connection().name.clone()),
            path: self.path,
            why: why.clone(),
        });
    }

    /// Decrypts a notification during phase 1 and checks its hash.
    pub(super) fn open_notice(
        &self,
        session: &Session,
        message: &Message<'_>,
        work: &mut Work,
    ) -> Result<Vec<Located>, DropReason> {
        let iv = self.notice_iv(session, message.id());
        let key = &session.keys.cipher_key.0;
        let mut opened = protect::decrypt(self.suite.cipher, key, message, &iv, work)?;
        let Some(Payload::Hash(hash)) = opened.payloads.first().map(|first| &first.payload) else {
            return Err(DropReason::BadHash);
        };
        let id = message.id().to_be_bytes();
        let parts = [&id[..], opened.after_first()];
        let expected = self.suite.hash.hmac(&session.keys.skeyid_a.0, &parts);
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
            tries: self.retransmit.as_ref().map_or(1, |it| it.sent()),
            is_by_key: self.method == Method::PresharedKey,
            unreachable: None,
        })
    }

    /// RFC 2409 appendix B: from the last block of phase 1, sent or received.
    fn notice_iv(&self, session: &Session, message_id: u32) -> Iv {
        let id = message_id.to_be_bytes();
        let last = self.sealed.as_ref().unwrap_or(&session.iv);
        let digest = self.suite.hash.digest(&[last.as_ref(), &id]);
        Iv::truncated(self.suite.cipher, digest.as_ref())
    }
}

/// Connections with matching addresses and mode, those that name the peer's address first.
pub(super) fn fitting(
    candidates: &[Arc<Connection>],
    path: Path,
    is_aggressive: bool,
) -> Result<Vec<Arc<Connection>>, Fault> {
    let (own, peer) = (
        path.local.ip().to_canonical(),
        path.remote.ip().to_canonical(),
    );
    let names_peer = |connection: &Connection| {
        let mut ends = connection.remote_addrs.iter();
        ends.any(|end| end.ip().to_canonical() == peer)
    };
    let mut found: Vec<&Arc<Connection>> = candidates
        .iter()
        .filter(|connection| {
            let locals = &connection.local_addrs;
            let is_here = locals.is_empty() || locals.iter().any(|l| l.to_canonical() == own);
            let is_there = connection.remote_addrs.is_empty() || names_peer(connection);
            let is_usable = connection.method().is_some() && !connection.proposals.is_empty();
            is_here && is_there && is_usable
        })
        .collect();
    if found.is_empty() {
        return Err(Fault::NoConnection(format!(
            "no connection between {own} and {peer} is configured"
        )));
    }
    found.retain(|connection| connection.is_aggressive == is_aggressive);
    if found.is_empty() {
        let (theirs, ours) = if is_aggressive {
            ("aggressive", "main")
        } else {
            ("main", "aggressive")
        };
        return Err(Fault::NoConnection(format!(
            "no mode in common: the peer uses IKEv1 {theirs} mode; we accept {ours} mode"
        )));
    }
    found.sort_by_key(|connection| !names_peer(connection));
    Ok(found.into_iter().map(Arc::clone).collect())
}
