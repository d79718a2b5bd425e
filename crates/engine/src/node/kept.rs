//! What a node keeps over a restart: the secret of its tokens of quick crash detection, the keys of
//! its tickets, and which of these may not be used any more. The caller writes it where only we can
//! read ([`Output::Keep`]) and gives it to the next node ([`Input::Kept`](super::Input::Kept)).
//!
//! It is told with each new secret and at the end, so a crash forgets which tickets were used
//! since.

use std::sync::Arc;

use crypto::counted::fixed;
use crypto::rand::{Seed, Stream};
use zeroize::Zeroizing;

use super::{Node, Output};
use crate::ikev2::crash::{Maker, SECRET_LEN};
use crate::ikev2::ticket::{KEY_LEN, TicketId, TicketKey, Tickets};
use crate::sa::Secret;
use crate::time::Calendar;

/// The form of what is kept.
const VERSION: u8 = 2;

/// Secrets that outlive the process.
pub(super) struct Kept {
    /// Of its own: other random numbers do not depend on whether these are drawn.
    random: Stream,
    maker: Option<Arc<Maker>>,
    tickets: Tickets,
    /// They have changed since the caller was told.
    is_new: bool,
}

impl Kept {
    pub(super) fn new(seed: &Seed) -> Self {
        Self {
            random: seed.stream("kept", 0),
            maker: None,
            tickets: Tickets::default(),
            is_new: false,
        }
    }

    /// Entropy of the operating system.
    pub(super) fn stir(&mut self, octets: &[u8; 32]) {
        self.random.stir(octets);
    }

    /// Makes tokens. Its secret is drawn when the first one is made.
    pub(super) fn maker(&mut self) -> Arc<Maker> {
        if let Some(maker) = &self.maker {
            return Arc::clone(maker);
        }
        let mut secret = Secret(vec![0; SECRET_LEN]);
        self.random.fill(&mut secret.0);
        let maker = Arc::new(Maker::new(secret));
        self.maker = Some(Arc::clone(&maker));
        self.is_new = true;
        maker
    }

    /// Tickets, and random numbers for them.
    pub(super) fn tickets(&mut self) -> (&mut Tickets, &mut Stream) {
        (&mut self.tickets, &mut self.random)
    }

    /// The keys of tickets may have changed.
    pub(super) fn note(&mut self, has_new_key: bool) {
        self.is_new |= has_new_key;
    }

    /// Takes what an earlier process kept. Nothing of it if it cannot be read: then there will be
    /// others.
    fn take(&mut self, octets: &[u8]) {
        if let Some(read) = Read::of(octets) {
            self.maker = read.maker.map(|secret| Arc::new(Maker::new(secret)));
            self.tickets.keys = read.keys;
            for (expires, id) in read.used {
                self.tickets.spend(expires, id);
            }
        }
    }

    /// A version, whether there is a secret of tokens and how many keys of tickets; then that
    /// secret, each key (its number, when it began to seal, and itself), and each used ticket (when
    /// it expires, and its name).
    fn to_octets(&self) -> Secret {
        let keys = &self.tickets.keys;
        let keys = &keys[keys.len().saturating_sub(usize::from(u8::MAX))..];
        let counts = [u8::from(self.maker.is_some()), keys.len() as u8];
        let mut out = Zeroizing::new([&[VERSION][..], &counts].concat());
        if let Some(maker) = &self.maker {
            out.extend_from_slice(&maker.secret().0);
        }
        for key in keys {
            out.extend_from_slice(&key.number.to_be_bytes());
            out.extend_from_slice(&key.since.0.to_be_bytes());
            out.extend_from_slice(&key.key.0);
        }
        for (expires, id) in self.tickets.used() {
            out.extend_from_slice(&expires.0.to_be_bytes());
            out.extend_from_slice(id);
        }
        Secret(out.to_vec())
    }
}

/// What was kept.
struct Read {
    maker: Option<Secret>,
    keys: Vec<TicketKey>,
    used: Vec<(Calendar, TicketId)>,
}

impl Read {
    fn of(octets: &[u8]) -> Option<Self> {
        let ([version, has_maker, keys], mut octets) = octets.split_first_chunk()?;
        let rest = &mut octets;
        if *version != VERSION || *has_maker > 1 {
            return None;
        }
        let secret = |rest: &mut &[u8], len| {
            let (secret, more) = rest.split_at_checked(len)?;
            *rest = more;
            Some(Secret(secret.to_vec()))
        };
        let maker = match has_maker {
            0 => None,
            _ => Some(secret(rest, SECRET_LEN)?),
        };
        let key = |rest: &mut &[u8]| {
            Some(TicketKey {
                number: u32::from_be_bytes(*fixed(rest)?),
                since: Calendar(i64::from_be_bytes(*fixed(rest)?)),
                key: secret(rest, KEY_LEN)?,
            })
        };
        let keys: Option<Vec<TicketKey>> = (0..*keys).map(|_| key(rest)).collect();
        let (keys, mut used) = (keys?, Vec::new());
        while !rest.is_empty() {
            let expires = Calendar(i64::from_be_bytes(*fixed(rest)?));
            used.push((expires, *fixed(rest)?));
        }
        Some(Self { maker, keys, used })
    }
}

impl Node {
    /// What an earlier process kept.
    pub(super) fn take_kept(&mut self, octets: &[u8]) {
        self.kept.take(octets);
    }

    /// The node ends: tells the caller which tickets were used, if it gives any.
    pub(super) fn keep_last(&mut self) {
        self.kept.note(!self.kept.tickets.keys.is_empty());
        self.keep_secrets();
    }

    /// Tells the caller secrets that are new.
    pub(super) fn keep_secrets(&mut self) {
        if core::mem::take(&mut self.kept.is_new) {
            self.outputs.push(Output::Keep(self.kept.to_octets()));
        }
    }
}
