//! The secrets that a node keeps over a restart: that of its tokens of quick crash detection, and
//! the keys of its tickets. The caller writes them where only we can read ([`Output::Keep`]) and
//! gives them to the next node ([`Input::Kept`](super::Input::Kept)).

use std::sync::Arc;

use crypto::rand::{Seed, Stream};
use zeroize::Zeroizing;

use super::{Node, Output};
use crate::ikev2::crash::{Maker, SECRET_LEN};
use crate::ikev2::ticket::{KEY_LEN, TicketKey, Tickets};
use crate::sa::Secret;
use crate::time::Calendar;

/// The form of what is kept.
const VERSION: u8 = 1;

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
        if let Some((maker, keys)) = read(octets) {
            self.maker = maker.map(|secret| Arc::new(Maker::new(secret)));
            self.tickets.keys = keys;
        }
    }

    /// A version, then the secret of tokens if there is one, then each key of tickets: its number,
    /// when it began to seal, and itself.
    fn to_octets(&self) -> Secret {
        let mut out = Zeroizing::new(vec![VERSION, u8::from(self.maker.is_some())]);
        if let Some(maker) = &self.maker {
            out.extend_from_slice(&maker.secret().0);
        }
        for key in &self.tickets.keys {
            out.extend_from_slice(&key.number.to_be_bytes());
            out.extend_from_slice(&key.since.0.to_be_bytes());
            out.extend_from_slice(&key.key.0);
        }
        Secret(out.to_vec())
    }
}

fn read(octets: &[u8]) -> Option<(Option<Secret>, Vec<TicketKey>)> {
    let ([version, has_maker], mut rest) = octets.split_first_chunk()?;
    let mut maker = None;
    match (*version, *has_maker) {
        (VERSION, 0) => {}
        (VERSION, 1) => {
            let (secret, more) = rest.split_at_checked(SECRET_LEN)?;
            (maker, rest) = (Some(Secret(secret.to_vec())), more);
        }
        _ => return None,
    }
    let mut keys = Vec::new();
    while !rest.is_empty() {
        let (number, more) = rest.split_first_chunk()?;
        let (since, more) = more.split_first_chunk()?;
        let (key, more) = more.split_at_checked(KEY_LEN)?;
        keys.push(TicketKey {
            number: u32::from_be_bytes(*number),
            since: Calendar(i64::from_be_bytes(*since)),
            key: Secret(key.to_vec()),
        });
        rest = more;
    }
    Some((maker, keys))
}

impl Node {
    /// What an earlier process kept.
    pub(super) fn take_kept(&mut self, octets: &[u8]) {
        self.kept.take(octets);
    }

    /// Tells the caller secrets that are new.
    pub(super) fn keep_secrets(&mut self) {
        if core::mem::take(&mut self.kept.is_new) {
            self.outputs.push(Output::Keep(self.kept.to_octets()));
        }
    }
}
