//! Client's end without root: a SOCKS server on loopback in front of a TCP/IP stack in this process
//! ([`crate::agent::socks`]). The machine has no other trace of it, and it ends with the agent.
//!
//! The password that it prints is drawn for each tunnel: other users of the machine have none.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use engine::agent::TunnelId;
use engine::agent::description::Description;
use engine::agent::objectives::{Options, SecurityOption};
use engine::agent::target::Seen;
use engine::node::EndCause;

use super::attendant::Held;
use super::{BackendError, State, client};
use crate::agent::socks::{self, Access, NAME, Order, Way, WayError};
use crate::config::{self, Names};
use crate::console;

/// Where it listens by default: the port of SOCKS.
pub const LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1080);

/// Ends of this process.
pub struct Rootless {
    listen: SocketAddr,
    /// Keeps the port until it is needed.
    kept: Option<TcpListener>,
    ways: BTreeMap<TunnelId, Way>,
}

impl Rootless {
    /// Each tunnel is reached at this address of loopback.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            kept: None,
            ways: BTreeMap::new(),
        }
    }

    /// Whether the address is free. Nobody else gets it from here on.
    pub(super) fn try_out(&mut self) -> Result<(), BackendError> {
        let refused = |text: String| BackendError::Refused {
            what: "the way without root".to_owned(),
            text,
        };
        if !self.listen.ip().is_loopback() {
            return Err(refused(WayError::NotLoopback(self.listen).to_string()));
        }
        let bound = TcpListener::bind(self.listen);
        let bound =
            bound.map_err(|fault| refused(WayError::Listen(self.listen, fault).to_string()));
        self.kept = Some(bound?);
        Ok(())
    }

    /// A process without root has no raw sockets, which AH needs.
    pub(super) fn options() -> Options {
        [SecurityOption::Esp].into_iter().collect()
    }

    pub(super) fn build(&mut self, it: &Description) -> Result<(), BackendError> {
        if it.option != SecurityOption::Esp {
            return Err(BackendError::Option {
                backend: "the way without root",
                option: it.option,
                why: "it has ESP in UDP alone",
            });
        }
        let refused = |text: String| BackendError::Refused {
            what: "the way without root".to_owned(),
            text,
        };
        let held = Held::of(&client::start(it, Path::new("/")));
        let held = held.map_err(|fault| refused(format!("{fault:#}")))?;
        let loaded = config::load(&held.path(), Names::Needed);
        let loaded = loaded.map_err(|fault| refused(fault.to_string()))?;
        drop(self.kept.take());
        let way = Way::start(Order {
            config: loaded.engine,
            listen: self.listen,
            access: Access::Password,
            // The agent ends it in time.
            until: None,
            reconnects: false,
        });
        let way = way.map_err(|fault| refused(fault.to_string()))?;
        let said = match way.login() {
            Some(login) => format!("socks5h://{NAME}:{}@{}\n", login.password(), way.address()),
            None => format!("socks5h://{}\n", way.address()),
        };
        let said = console::say(&said);
        said.map_err(|fault| refused(format!("cannot say where it is: {fault}")))?;
        self.ways.insert(it.tunnel, way);
        Ok(())
    }

    pub(super) async fn destroy(&mut self, tunnel: TunnelId) -> Result<(), BackendError> {
        let Some(way) = self.ways.remove(&tunnel) else {
            return Ok(());
        };
        // It waits until the peer has heard.
        let stopped = tokio::task::spawn_blocking(move || way.stop()).await;
        stopped.map(drop).map_err(|fault| BackendError::Process {
            what: "the way without root",
            source: io::Error::other(fault),
        })
    }

    pub(super) fn state(&self, tunnel: TunnelId) -> State {
        match self.ways.get(&tunnel).map(Way::state) {
            None => State::Absent,
            Some(socks::State::Waiting { .. }) => State::Waiting,
            Some(socks::State::Up { .. }) => State::Up,
            Some(socks::State::Over(end)) => State::Down(words(end)),
        }
    }

    pub(super) fn seen(&self, tunnel: TunnelId) -> Seen {
        let ppk = match self.ways.get(&tunnel).map(Way::state) {
            Some(socks::State::Up { ppk, .. }) => ppk,
            _ => None,
        };
        Seen { peer: None, ppk }
    }

    pub(super) fn last_end(&self, tunnel: TunnelId) -> Option<String> {
        match self.ways.get(&tunnel).map(Way::state) {
            Some(socks::State::Waiting { trouble }) => trouble,
            _ => None,
        }
    }

    pub(super) async fn close(mut self) {
        let all: Vec<TunnelId> = self.ways.keys().copied().collect();
        for tunnel in all {
            if let Err(error) = self.destroy(tunnel).await {
                tracing::warn!("{error}");
            }
        }
    }
}

fn words(end: socks::End) -> String {
    match end {
        socks::End::Stopped => "it was taken down".to_owned(),
        socks::End::TimeOver => "its time is over".to_owned(),
        socks::End::DeletedByPeer => EndCause::DeletedByPeer.to_string(),
        socks::End::Closed(cause) => cause.to_string(),
        socks::End::Failed(why) => why,
    }
}
