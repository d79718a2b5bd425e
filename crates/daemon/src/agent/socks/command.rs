//! `caravan socks`: a connection of a configuration without root.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, bail};
use tokio::signal::unix::{SignalKind, signal};
use tracing::warn;

use super::{Access, End, NAME, Order, State, Way};
use crate::agent::hygiene;
use crate::config::{self, Names};
use crate::console;

/// Options of `caravan socks`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The configuration, as for `caravan up`
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Where to listen, on loopback; port 0 is any
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:1080")]
    listen: SocketAddr,
    /// Demand no password, and take programs of this user alone: for browsers
    #[arg(long)]
    same_user: bool,
}

/// Runs until ^C or SIGTERM.
pub fn run(args: &Args) -> anyhow::Result<()> {
    hygiene::keep_private();
    let loaded = config::load(&args.config, Names::Needed)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let access = match args.same_user {
        true => Access::SameUser,
        false => Access::Password,
    };
    let order = Order {
        config: loaded.engine,
        listen: args.listen,
        access,
        until: None,
        reconnects: true,
    };
    runtime.block_on(serve(order))
}

async fn serve(order: Order) -> anyhow::Result<()> {
    let mut interrupted = signal(SignalKind::interrupt()).context("cannot take signals")?;
    let mut terminated = signal(SignalKind::terminate()).context("cannot take signals")?;
    let mut way = Way::start(order)?;
    let address = way.address();
    console::say(&match way.login() {
        Some(login) => format!("socks5h://{NAME}:{}@{address}\n", login.password()),
        None => format!("socks5h://{address}\n"),
    })?;
    let mut was_up = false;
    loop {
        let state = tokio::select! {
            state = way.changed() => state,
            _ = interrupted.recv() => break,
            _ = terminated.recv() => break,
        };
        match state {
            State::Up { inner, .. } if !was_up => {
                let inner: Vec<String> = inner.iter().map(ToString::to_string).collect();
                console::say(&format!("up: {}\n", inner.join(", ")))?;
                was_up = true;
            }
            State::Up { .. } => {}
            State::Waiting { trouble } => {
                if std::mem::take(&mut was_up) {
                    console::say("down\n")?;
                }
                trouble
                    .into_iter()
                    .for_each(|it| warn!("no tunnel yet: {it}"));
            }
            State::Over(End::Failed(why)) => bail!("the tunnel without root has failed: {why}"),
            State::Over(_) => break,
        }
    }
    way.stop();
    Ok(())
}
