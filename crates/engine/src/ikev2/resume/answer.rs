//! The gateway's part of IKE_SESSION_RESUME.

use std::sync::Arc;

use crypto::rand::Stream;
use wire::ikev2::{Exchange, NotifyType, Payload};

use crate::config::{Childless, Connection};
use crate::counters::DropReason;
use crate::ike::retransmit::Answered;
use crate::ike::{Fault, Outbox, Role, Spis, Step};
use crate::ikev2::Abilities;
use crate::ikev2::answering::{Answering, Gate, read_first};
use crate::ikev2::auth::{ResumedForm, identification};
use crate::ikev2::between::Between;
use crate::ikev2::clear::{Clear, clear};
use crate::ikev2::fresh::{fresh_nonce, fresh_spi};
use crate::ikev2::init::{Init, announcements, detection, find_nat};
use crate::ikev2::keys::{Keys, Nonces, Seed};
use crate::ikev2::lost::Resumed;
use crate::ikev2::message::Message;
use crate::ikev2::parts::{Parts, childless_supported, names_read, notify};
use crate::ikev2::ppk::{Agreed, Mixed};
use crate::ikev2::ticket::Resumable;
use crate::ikev2::window::IkeSa;
use crate::sa::Path;
use crate::time::Instant;

/// The head of our answer.
const HEAD: Clear = Clear::answer(Exchange::IkeSessionResume);

impl Answering {
    /// Answers a first message that has a ticket. On a fault, `out` has what the peer is told, and
    /// nothing is kept.
    pub(in crate::ikev2) fn resume(
        candidates: &[Arc<Connection>],
        path: Path,
        message: &Message<'_>,
        mut gate: Gate<'_>,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Self, Fault> {
        let found = read_first(message, path, out)?;
        let parts = Parts::sort(message.octets(), &found.clear)?;
        let ticket = parts.notice(NotifyType::TicketOpaque);
        let (Some(ni), Some(ticket)) = (parts.nonce, ticket) else {
            return Err(DropReason::MalformedMessage.into());
        };
        gate.admit(message, (&parts, ni), path, (&mut *random, now), out)?;
        let opened = match &mut gate.tickets {
            Some(tickets) => tickets.open(&ticket.value, candidates, (gate.calendar, now)),
            None => Err(crate::ikev2::ticket::Refused::Policy),
        };
        let resumable = match opened {
            Ok(resumable) => resumable,
            Err(why) => {
                let refusal = [notify(NotifyType::TicketNack)];
                out.messages
                    .push(clear(HEAD, message.spis(), &refusal, path));
                return Err(Fault::TicketRefused(why.words()));
            }
        };
        out.heard(Step::Resume(1), message.size(), names_read(&found.clear));
        Self::go_on(message, (&parts, ni), resumable, path, random, out)
    }

    fn go_on(
        message: &Message<'_>,
        (parts, ni): (&Parts<'_>, &[u8]),
        resumable: Resumable,
        path: Path,
        random: &mut Stream,
        out: &mut Outbox,
    ) -> Result<Self, Fault> {
        let (asked, suite) = (message.spis(), resumable.suite);
        let connection = Arc::clone(&resumable.proven.connection);
        let spis = Spis {
            initiator: asked.initiator,
            responder: fresh_spi(random),
        };
        let nr = fresh_nonce(random).to_vec();
        let nonces = Nonces {
            initiator: ni,
            responder: &nr,
        };
        let work = &mut out.work;
        let seed = Seed::resumed((suite.prf, &resumable.d), nonces, work);
        let keys = Keys::derive(suite, &seed, nonces, spis, work)?;
        let peer = Abilities::announced(parts);
        let mut chain = vec![Payload::Nonce(nr.clone())];
        chain.extend(detection(spis, path));
        chain.extend(announcements(connection.fragments));
        if connection.childless != Childless::Never {
            chain.push(childless_supported());
        }
        let sent = clear(HEAD, spis, &chain, path);
        let may_fragment = peer.fragmentation && connection.fragments;
        let mut ppk = Agreed::announced(true);
        let own = connection.ppk.clone().filter(|_| resumable.has_ppk);
        ppk.mixed = own.map(|ppk| Mixed { ppk, p: None });
        let own = identification(&connection.local.identity);
        let own = Payload::IdentificationResponder(own).body();
        let spent = Resumed::spent(resumable.expires, resumable.id);
        Ok(Self {
            candidates: vec![connection],
            sa: IkeSa::new(spis, Role::Responder, suite, &keys, may_fragment).after_init(),
            init: Init {
                suite,
                request: message.octets().to_vec(),
                answer: sent.message.clone(),
                covers_both: false,
                nonces: (ni.to_vec(), nr),
                p: keys.p,
                between: Between::default(),
                ppk,
                nat: find_nat(asked, path, parts),
                peer,
                has_sha1: false,
                resumed: Some(Box::new(Resumed {
                    ids: (resumable.initiator, own),
                    proven: Some(resumable.proven),
                    used: Some((spent, resumable.own_spi)),
                    form: ResumedForm::Whole,
                })),
            },
            answered: Answered::send(message.octets(), Some(sent), out),
            looks_again: None,
            examining: None,
        })
    }
}
