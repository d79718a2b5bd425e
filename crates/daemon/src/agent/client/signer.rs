//! Who has the one-time key: this process, from the sheet, or a token.

use std::time::Duration;

use anyhow::{Context as _, bail};
use crypto::ed25519::{Signature, SigningKey};
use engine::agent::Handle;
use engine::agent::sheet::Key;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::warn;

use crate::agent::token::TokenHelper;
use crate::token::TokenArgs;

/// Orders and answers that wait: a Client signs one request at a time.
const WAITING_MAX: usize = 4;

/// How long a token may take to end: an agent that was told to stop does not wait for a broken one.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// The holder of the key.
pub(super) enum Signer {
    /// This process.
    Here(Box<SigningKey>),
    /// A token, by a task of its own: it may ask its user.
    Token {
        /// What it does.
        orders: mpsc::Sender<Order>,
        /// Ends after the last order.
        task: JoinHandle<()>,
        /// What it says.
        told: mpsc::Receiver<Told>,
    },
    /// Nobody any longer.
    Gone,
}

/// What the token's task does.
pub(super) enum Order {
    /// Signs these octets.
    Sign(Vec<u8>),
    /// Destroys the key.
    Destroy,
}

/// What the token's task says.
pub(super) enum Told {
    /// It has signed, or could not.
    Signed(Option<Signature>),
    /// The token is gone.
    Gone,
}

impl Signer {
    /// The holder of a key of the sheet. It may wait for a person who types a PIN.
    pub(super) async fn of(key: Key, token: &TokenArgs) -> anyhow::Result<Self> {
        if let Some(signing) = key.signing() {
            if token.names_any() {
                bail!(
                    "the sheet has the secret of this key, so no token has it: leave --module, \
                     --token and --pin-file out"
                );
            }
            return Ok(Self::Here(Box::new(signing)));
        }
        let mut helper = TokenHelper::open(token).await?.context(
            "the secret of this key is on a token: --module, --token and --pin-file name it",
        )?;
        // It is asked before Host is: a key that is not there spends nothing.
        helper.find(key.handle).await?;
        let (orders, ordered) = mpsc::channel(WAITING_MAX);
        let (tell, told) = mpsc::channel(WAITING_MAX);
        let task = tokio::spawn(serve(helper, key.handle, ordered, tell));
        Ok(Self::Token { orders, task, told })
    }

    /// Signs, now or later.
    pub(super) fn sign(&self, octets: Vec<u8>) -> Option<Told> {
        match self {
            Self::Here(key) => Some(Told::Signed(Some(key.sign(&[&octets])))),
            Self::Token { orders, .. } => match orders.try_send(Order::Sign(octets)) {
                Ok(()) => None,
                Err(_) => Some(Told::Signed(None)),
            },
            Self::Gone => Some(Told::Signed(None)),
        }
    }

    /// Waits until the token is closed. A key that is spent is destroyed on it; one of which that
    /// is not known may still be used.
    pub(super) async fn close(self, is_spent: bool) {
        if let Self::Token { orders, task, .. } = self {
            if is_spent {
                let _ = orders.send(Order::Destroy).await;
            }
            drop(orders);
            let stop = task.abort_handle();
            if timeout(CLOSE_MAX, task).await.is_err() {
                // The helper is killed with its task.
                warn!("the token does not answer; a used key may still be on it");
                stop.abort();
            }
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

async fn serve(
    mut helper: TokenHelper,
    handle: Handle,
    mut ordered: mpsc::Receiver<Order>,
    tell: mpsc::Sender<Told>,
) {
    loop {
        let order = tokio::select! {
            order = ordered.recv() => order,
            why = helper.removed() => {
                warn!("{why}");
                let _ = tell.send(Told::Gone).await;
                return;
            }
        };
        let octets = match order {
            Some(Order::Sign(octets)) => octets,
            Some(Order::Destroy) => {
                // It works once, so nobody needs it again.
                if let Err(why) = helper.destroy(handle).await {
                    warn!("the token keeps the used key {handle}: {why}");
                }
                return;
            }
            None => return,
        };
        let signed = helper.sign(handle, &octets).await;
        let signed = signed.inspect_err(|why| warn!("{why}")).ok();
        if tell.send(Told::Signed(signed)).await.is_err() {
            return;
        }
    }
}
