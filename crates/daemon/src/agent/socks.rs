//! A tunnel without root: a client's connection whose inner end is a TCP/IP stack in this process,
//! and a SOCKS server on loopback in front of it (RFC 1928).
//!
//! One thread does everything: UDP sockets of any port, so the tunnel is one through a NAT from the
//! start (RFC 3947, RFC 3948); the engine's endpoint; smoltcp; the connections of local programs.
//! It sleeps until a descriptor or a deadline needs it. Nothing of the host is changed: no device,
//! route, address or file.
//!
//! Names are resolved at the far end, by the resolvers that the gateway gives. Left out: commands
//! but CONNECT, AH and transport mode, which need raw sockets or the host's own stack.

mod access;
pub mod command;
mod device;
mod flow;
mod lookup;
mod stack;
mod tunnel;
mod turn;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use engine::config::{Config, InnerFamilies};
use engine::ikev2::ppk::PpkExchange;
use engine::node::{EndCause, IKE_PORT, NAT_T_PORT};
use engine::sa::{Mode, Protocol};
use tokio::sync::watch;

pub use access::{Access, Login, NAME};
use tunnel::Tunnel;
use turn::Server;

/// Connections of local programs at once, before another one is taken. Others wait in the queue of
/// the listener.
pub const CONNECTIONS_MAX: usize = 128;
/// Connections besides that have not logged in: every program of this machine can make them.
pub const STRANGERS_MAX: usize = 128;
/// How long each of those may take at least. If there are too many, the oldest is ended after it.
pub const STRANGER_MIN: Duration = Duration::from_millis(200);
/// How long a program may take to say what it wants.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// How long a connection at the far end may take to come up, for each address of a name.
pub const CONNECT_MAX: Duration = Duration::from_secs(20);
/// A connection on which nothing moves ends after this long (RFC 5382 §5 asks NATs for as much).
pub const IDLE_MAX: Duration = Duration::from_secs(2 * 3_600 + 240);
/// How long the far end may take to close after the program has gone.
pub const LINGER_MAX: Duration = Duration::from_secs(60);
/// How long the peer may take to hear that the tunnel ends.
pub const GOODBYE_MAX: Duration = Duration::from_secs(2);

/// What to start.
pub struct Order {
    /// One connection, which initiates and requests inner addresses.
    pub config: Config,
    /// Where to listen, on loopback. Port 0: any.
    pub listen: SocketAddr,
    /// Who may use it.
    pub access: Access,
    /// When the tunnel ends in any case.
    pub until: Option<Duration>,
    /// Whether it connects again after the peer has deleted the tunnel. Through losses it always
    /// does.
    pub reconnects: bool,
}

/// Why it cannot start.
#[derive(Debug, thiserror::Error)]
pub enum WayError {
    /// The configuration is for something else.
    #[error("{0}")]
    Unsuitable(&'static str),
    /// Others could reach it.
    #[error("{0} is not on loopback: other machines could use the tunnel; take 127.0.0.1 or ::1")]
    NotLoopback(SocketAddr),
    /// The address is taken, or not allowed.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The host refuses something else.
    #[error("cannot {0}: {1}")]
    Host(&'static str, io::Error),
}

/// How far the tunnel is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is being set up, for the first time or again.
    Waiting {
        /// What went wrong last.
        trouble: Option<String>,
    },
    /// It is up.
    Up {
        /// Our addresses in it.
        inner: Vec<IpAddr>,
        /// Its resolvers.
        dns: Vec<IpAddr>,
        /// In which exchange IKE has taken a post-quantum pre-shared key.
        ppk: Option<PpkExchange>,
    },
    /// It has ended, and so has its thread.
    Over(End),
}

/// Why it has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// We wanted it.
    Stopped,
    /// [`Order::until`] was reached.
    TimeOver,
    /// The peer deleted it.
    DeletedByPeer,
    /// Another cause that is final.
    Closed(EndCause),
    /// The thread could not go on.
    Failed(String),
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that programs made to us.
    pub accepted: u64,
    /// Connections to the far end that came up.
    pub connected: u64,
    /// Programs of another user, or whose user is not known.
    pub strangers: u64,
    /// Wrong passwords, and programs that offered none.
    pub refused_logins: u64,
    /// What is no SOCKS, and what took too long.
    pub misbehaved: u64,
    /// Requests that failed: destinations, names, commands.
    pub refused_requests: u64,
    /// Connections that were idle for too long.
    pub idle: u64,
    /// Packets of the stack that no tunnel took.
    pub unsealed: u64,
    /// Packets for a full queue of the stack.
    pub overflowed: u64,
    /// Datagrams that the kernel did not send.
    pub unsent: u64,
    /// Octets from programs into the tunnel.
    pub octets_out: u64,
    /// Octets from the tunnel to programs.
    pub octets_in: u64,
}

/// A running tunnel with its SOCKS server.
pub struct Way {
    address: SocketAddr,
    login: Option<Login>,
    states: watch::Receiver<State>,
    counts: watch::Receiver<Counts>,
    /// Its other end becomes readable when this one is closed.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Way {
    /// Opens its sockets and starts its thread.
    pub fn start(order: Order) -> Result<Self, WayError> {
        check(&order.config)?;
        let mut config = order.config;
        begin_with_marker(&mut config)?;
        if !order.listen.ip().is_loopback() {
            return Err(WayError::NotLoopback(order.listen));
        }
        let listener = TcpListener::bind(order.listen)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .map_err(|fault| WayError::Listen(order.listen, fault))?;
        let address = listener
            .local_addr()
            .map_err(|fault| WayError::Listen(order.listen, fault))?;
        let access = order.access;
        let login = match access {
            Access::Password => Some(Login::random().map_err(host("draw a password"))?),
            Access::SameUser => None,
        };
        let tunnel = Tunnel::open(config).map_err(host("open UDP sockets"))?;
        let (stop, stopped) = UnixStream::pair().map_err(host("make a socket pair"))?;
        let (tell_state, states) = watch::channel(State::Waiting { trouble: None });
        let (tell_counts, counts) = watch::channel(Counts::default());
        let server = Server::new(
            tunnel,
            (listener, address, login.clone()),
            stopped,
            (tell_state, tell_counts),
            (order.until, order.reconnects),
        );
        let thread = std::thread::Builder::new()
            .name("socks".into())
            .spawn(move || server.run())
            .map_err(host("start a thread"))?;
        Ok(Self {
            address,
            login,
            states,
            counts,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Name and password, if it demands them.
    pub fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    /// How far it is.
    pub fn state(&self) -> State {
        let state = self.states.borrow().clone();
        match (&state, self.states.has_changed()) {
            (State::Over(_), _) | (_, Ok(_)) => state,
            (_, Err(_)) => State::Over(End::Failed("its thread has ended".into())),
        }
    }

    /// Waits for another state, and returns it.
    pub async fn changed(&mut self) -> State {
        // An error says that the thread is gone, which `state` says too.
        let _ = self.states.changed().await;
        self.state()
    }

    /// What was counted, up to a second ago.
    pub fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Ends the tunnel: the peer is told, all connections are reset. Blocks for [`GOODBYE_MAX`] at
    /// most. Returns how it ended and what was counted.
    pub fn stop(mut self) -> (End, Counts) {
        self.end();
        let end = match self.state() {
            State::Over(end) => end,
            State::Waiting { .. } | State::Up { .. } => End::Stopped,
        };
        (end, self.counts())
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If it panicked, the state says so.
            let _ = thread.join();
        }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether this way can do what a configuration says.
fn check(config: &Config) -> Result<(), WayError> {
    let [connection] = &config.connections[..] else {
        return Err(WayError::Unsuitable(
            "a tunnel without root has one connection: put it into a file of its own",
        ));
    };
    if connection.remote_addrs.is_empty() {
        return Err(WayError::Unsuitable(
            "the connection has no remote_addrs: a tunnel without root begins by itself",
        ));
    }
    if connection.wants_inner == InnerFamilies::default() {
        return Err(WayError::Unsuitable(
            "the connection requests no inner address, and without root it cannot use the host's \
             own: add vips = [\"0.0.0.0\"]",
        ));
    }
    let mut children = connection.children.iter();
    if children.any(|child| child.mode != Mode::Tunnel) {
        return Err(WayError::Unsuitable(
            "transport mode protects the host's own packets, which needs root: use tunnel mode",
        ));
    }
    let mut children = connection.children.iter();
    let is_esp = |suite: &engine::suite::EspSuite| suite.protocol == Protocol::Esp;
    if !children.all(|child| child.proposals.iter().all(is_esp)) {
        return Err(WayError::Unsuitable(
            "AH does not pass through UDP, and raw sockets need root: propose ESP alone",
        ));
    }
    Ok(())
}

/// The peer is called at the port of ESP in UDP: from any port of ours, there is no other way.
fn begin_with_marker(config: &mut Config) -> Result<(), WayError> {
    for connection in &mut config.connections {
        let connection = Arc::get_mut(connection).ok_or(WayError::Unsuitable(
            "the connection is in use elsewhere in this process",
        ))?;
        let remote = connection.remote_addrs.iter_mut();
        remote
            .filter(|to| to.port() == IKE_PORT)
            .for_each(|to| to.set_port(NAT_T_PORT));
    }
    Ok(())
}

fn host(what: &'static str) -> impl FnOnce(io::Error) -> WayError {
    move |fault| WayError::Host(what, fault)
}

#[cfg(test)]
mod tests;
