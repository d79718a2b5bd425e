//! A hostile gateway of IKEv1 that holds keys. On demand it answers like an honest one, with or
//! without some changed octets, or with any payloads of an input under its own keys; after phase 1
//! it encrypts whatever an input says.

use std::collections::VecDeque;
use std::sync::Arc;

use crypto::rand::{Seed, Stream};
use engine::config::{Connection, LocalMethod};
use engine::ike::Outbox;
use engine::ikev1::IsakmpSa;
use engine::ikev1::decoy::Decoys;
use engine::ikev1::fragments::Assembly;
use engine::ikev1::message::Message;
use engine::ikev1::phase1::{Means, Phase1};
use engine::ikev1::quick::Quick;
use engine::sa::{Path, Via};
use engine::time::Instant;
use wire::isakmp::{Cookie, Exchange, Header};

use super::Host;
use super::hostile::Hostile;
use crate::phase_2::{Phase2, last_block};
use crate::responder::{Said, ikev1};
use crate::script::Sealed;
use crate::secrets::pki;
use crate::watch::CALENDAR;
use crate::whole::whole;

/// Messages of phase 2 that wait for the end of phase 1.
const MAX_EARLY: usize = 8;
/// Messages that wait for an answer. Beyond that, the oldest gets none.
const MAX_UNANSWERED: usize = 4;

/// One gateway.
pub struct Gateway {
    candidates: Vec<Arc<Connection>>,
    random: Stream,
    /// It follows where the client sends.
    path: Path,
    last_sent: Vec<u8>,
    last_heard: Vec<u8>,
    unanswered: VecDeque<Vec<u8>>,
    early: Vec<Vec<u8>>,
    phase_1: Option<Phase1>,
    hostile: Hostile,
    sa: Option<IsakmpSa>,
    phase_2: Phase2,
    assembly: Assembly,
    next_spi: u32,
}

impl Host for Gateway {
    type Peer = ikev1::Peer;
    const ANSWER_FACTOR: usize = 1;

    fn new(number: u8, own: Arc<Connection>, path: Path) -> Self {
        let modes = (own.is_aggressive, own.name.ends_with("rsa"));
        Self {
            hostile: Hostile::new(number, modes),
            candidates: vec![own],
            random: Seed::new([0x60 + number; 32]).stream("gateway", 0),
            path,
            last_sent: Vec::new(),
            last_heard: Vec::new(),
            unanswered: VecDeque::new(),
            early: Vec::new(),
            phase_1: None,
            sa: None,
            phase_2: Phase2::default(),
            assembly: Assembly::default(),
            next_spi: 0xc000_0000 | u32::from(number) << 8,
        }
    }

    fn client(name: &str) -> (String, Option<LocalMethod>) {
        match name.ends_with("rsa") {
            true => {
                let (key, certificate) = pki().station.clone();
                let chain = vec![certificate];
                let method = LocalMethod::Signature { key, chain };
                ("station@example".to_owned(), Some(method))
            }
            false => ("ms.psk.example".to_owned(), None),
        }
    }

    fn path(&self) -> Path {
        self.path
    }

    fn last_sent(&self) -> &[u8] {
        &self.last_sent
    }

    fn last_heard(&self) -> &[u8] {
        &self.last_heard
    }

    /// It has completed phase 1.
    fn has_proven(&self) -> bool {
        self.sa.is_some()
    }

    fn hear(&mut self, path: Path, datagram: &[u8], now: Instant) {
        if path.remote.ip() != self.path.remote.ip() {
            return;
        }
        self.path = path;
        self.last_heard = datagram.to_vec();
        let message = match path.via {
            Via::Udp => Some(datagram),
            _ => datagram.strip_prefix(&[0; 4]),
        };
        let assembly = &mut self.assembly;
        let whole = message.and_then(|message| whole(assembly, message, path.remote, now));
        let Some(whole) = whole else {
            return;
        };
        let Ok((header, _)) = Header::parse(&whole) else {
            return;
        };
        if is_phase_1(&header) {
            self.hostile.hear(&header, &whole);
            self.follow_phase_1(&header, &whole);
        } else {
            self.read(&header, &whole);
            if header.exchange != Exchange::QuickMode {
                return;
            }
        }
        self.unanswered.push_back(whole);
        if self.unanswered.len() > MAX_UNANSWERED {
            self.unanswered.pop_front();
        }
    }

    fn answer(&mut self, changes: &[u8], now: Instant) -> Said {
        let mut out = Outbox::default();
        let message = self.unanswered.pop_front().unwrap_or_default();
        let done = match Header::parse(&message) {
            Ok((header, _)) if is_phase_1(&header) => {
                self.answer_phase_1(&header, &message, now, &mut out)
            }
            Ok(_) => self.answer_quick(&message, now, &mut out),
            Err(_) => None,
        };
        if done.is_none() {
            return Vec::new();
        }
        let messages = out.messages.into_iter().map(|sent| sent.message);
        let changed = messages.map(|mut message| {
            for change in changes.as_chunks::<3>().0 {
                let at = usize::from(u16::from_be_bytes([change[0], change[1]]));
                let at = at % message.len();
                message[at] ^= change[2];
            }
            message
        });
        let messages: Vec<Vec<u8>> = changed.collect();
        messages
            .into_iter()
            .map(|message| self.send(message))
            .collect()
    }

    fn prove(&mut self, said: &Sealed) -> Said {
        let Some((message, sa)) = self.hostile.answer(self.seen(), said) else {
            return Said::new();
        };
        if let Some(sa) = sa {
            self.begin_phase_2(sa);
        }
        vec![self.send(message)]
    }

    fn protected(&mut self, exchange: u8, id: u8, sealed: &Sealed) -> Said {
        let sa = self.sa.as_ref();
        let message = sa.and_then(|sa| self.phase_2.seal(sa, exchange, id, sealed));
        message.map_or_else(Said::new, |message| vec![self.send(message)])
    }
}

impl Gateway {
    fn read(&mut self, header: &Header, message: &[u8]) {
        match &self.sa {
            Some(sa) => drop(self.phase_2.read(sa, header, message)),
            None if self.early.len() < MAX_EARLY => self.early.push(message.to_vec()),
            None => {}
        }
    }

    /// Aggressive mode's third message: phase 2 continues from its last block.
    fn follow_phase_1(&mut self, header: &Header, message: &[u8]) {
        let sa = self.sa.as_mut().filter(|sa| sa.cookies == header.cookies);
        if let Some(sa) = sa
            && header.flags.is_encrypted()
            && header.exchange == Exchange::Aggressive
        {
            sa.last_iv = last_block(message);
        }
    }

    fn begin_phase_2(&mut self, sa: IsakmpSa) {
        self.phase_2 = Phase2::default();
        for message in core::mem::take(&mut self.early) {
            if let Ok((header, _)) = Header::parse(&message) {
                self.phase_2.read(&sa, &header, &message);
            }
        }
        self.sa = Some(sa);
    }

    fn answer_phase_1(
        &mut self,
        header: &Header,
        message: &[u8],
        now: Instant,
        out: &mut Outbox,
    ) -> Option<()> {
        let seen = self.seen();
        let message = &Message::parse(message).ok()?;
        let random = &mut self.random;
        if header.cookies.responder == Cookie::ZERO {
            let (all, decoys) = (&self.candidates, Decoys::new(&Seed::new([7; 32])));
            let phase_1 = Phase1::respond(all, &decoys, seen, message, random, now, out);
            self.phase_1 = Some(phase_1.ok()?);
            return Some(());
        }
        let phase_1 = self.phase_1.as_mut()?;
        let means = Means {
            random,
            quotas: None,
            calendar: CALENDAR,
        };
        let (_, established) = phase_1.on_message(seen, message, means, now, out).ok()?;
        if let Some((sa, _)) = established {
            self.begin_phase_2(*sa);
        }
        Some(())
    }

    fn answer_quick(&mut self, message: &[u8], now: Instant, out: &mut Outbox) -> Option<()> {
        let sa = self.sa.as_ref()?;
        let message = Message::parse(message).ok()?;
        let (mut quick, offer) = Quick::offered(sa, &message, out).ok()?;
        let mut children = self.candidates[0].children.iter();
        let child = children.find(|child| child.mode == offer.mode)?;
        let own = self.path.remote.ip();
        self.next_spi += 1;
        let (spi, random) = (self.next_spi, &mut self.random);
        quick.accept(sa, child, spi, own, random, now, out).ok()?;
        for sent in &out.messages {
            let (header, _) = Header::parse(&sent.message).ok()?;
            self.phase_2.follow(&header, &sent.message);
        }
        Some(())
    }

    /// Adds the marker if the port needs one.
    fn send(&mut self, message: Vec<u8>) -> Vec<u8> {
        self.last_sent = match self.path.via {
            Via::Udp => message,
            _ => [&[0; 4], &message[..]].concat(),
        };
        self.last_sent.clone()
    }

    /// The path as the gateway sees it.
    fn seen(&self) -> Path {
        self.path.reversed()
    }
}

fn is_phase_1(header: &Header) -> bool {
    matches!(
        header.exchange,
        Exchange::IdentityProtection | Exchange::Aggressive
    )
}
