//! Who has the one-time key: this process, from the sheet, or a token.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use crypto::ed25519::{Signature, SigningKey};
use engine::agent::sheet::Key;
use tokio::sync::mpsc;

use crate::agent::sheet_file::token_name;
use crate::token::{Token, TokenArgs};

/// Pause between two looks whether the token is there.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The holder of the key.
pub(super) enum Signer {
    /// This process.
    Here(Box<SigningKey>),
    /// A token, on a thread of its own: it may ask its user.
    Token {
        /// Octets to sign.
        orders: Sender<Vec<u8>>,
        /// Ends after the last order.
        thread: thread::JoinHandle<()>,
        /// What it says.
        told: mpsc::Receiver<Told>,
    },
    /// Nobody any longer.
    Gone,
}

/// What the token's thread says.
pub(super) enum Told {
    /// It has signed, or could not.
    Signed(Option<Signature>),
    /// The token is gone.
    Gone,
}

impl Signer {
    /// The holder of a key of the sheet.
    pub(super) fn of(key: Key, token: &TokenArgs) -> anyhow::Result<Self> {
        if let Some(signing) = key.signing() {
            return Ok(Self::Here(Box::new(signing)));
        }
        let token = token.open()?.context(
            "the secret of this key is on a token: --module, --token and --pin-file name it",
        )?;
        let name = token_name(key.handle);
        let (orders, ordered) = channel();
        let (tell, told) = mpsc::channel(4);
        let thread = thread::Builder::new()
            .name("token".to_owned())
            .spawn(move || serve(&token, &name, &ordered, &tell))?;
        Ok(Self::Token {
            orders,
            thread,
            told,
        })
    }

    /// Signs, now or later.
    pub(super) fn sign(&self, octets: Vec<u8>) -> Option<Told> {
        match self {
            Self::Here(key) => Some(Told::Signed(Some(key.sign(&[&octets])))),
            Self::Token { orders, .. } => match orders.send(octets) {
                Ok(()) => None,
                Err(_) => Some(Told::Signed(None)),
            },
            Self::Gone => Some(Told::Signed(None)),
        }
    }

    /// Waits until the token is closed.
    pub(super) fn close(self) {
        if let Self::Token { orders, thread, .. } = self {
            drop(orders);
            let _ = thread.join();
        }
    }

    /// What the token says next. Nothing is lost if this future is dropped.
    pub(super) async fn hear(&mut self) -> Told {
        match self {
            Self::Here(_) | Self::Gone => std::future::pending().await,
            Self::Token { told, .. } => told.recv().await.unwrap_or(Told::Gone),
        }
    }
}

fn serve(token: &Token, name: &str, ordered: &Receiver<Vec<u8>>, tell: &mpsc::Sender<Told>) {
    let mut has_signed = false;
    loop {
        let told = match ordered.recv_timeout(LOOK_EVERY) {
            Ok(octets) => {
                let signed = token.sign(name, &octets);
                let signed = signed.inspect_err(|fault| tracing::warn!("{fault:#}")).ok();
                let octets = signed.and_then(|octets| octets.try_into().ok());
                has_signed = true;
                Told::Signed(octets.map(Signature))
            }
            Err(RecvTimeoutError::Timeout) if token.is_there() => continue,
            Err(RecvTimeoutError::Timeout) => Told::Gone,
            Err(RecvTimeoutError::Disconnected) => {
                // It works once, so nobody needs it again.
                if has_signed && let Err(fault) = token.remove(name) {
                    tracing::warn!("the token keeps the used key {name}: {fault:#}");
                }
                return;
            }
        };
        let is_gone = matches!(told, Told::Gone);
        if tell.blocking_send(told).is_err() || is_gone {
            return;
        }
    }
}
