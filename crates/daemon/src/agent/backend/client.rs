//! Client's end as a `caravan up` of its own, which nobody else drives and which leaves nothing
//! behind: its configuration and its key are given over a pipe and are on no disk.
//!
//! Between agent and tunnel is a third process, the [`attendant`]: however the agent ends, it takes
//! the tunnel down and removes what was left.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use engine::agent::TunnelId;
use engine::agent::description::{Credential, Description};
use engine::agent::target::Seen;
use engine::agent::writers::{Places, toml};
use engine::ikev2::ppk::PpkExchange;

use super::attendant::{self, Attended, Start};
use super::{BackendError, State, folder, name_of, orders};
use crate::control::client::{ask, find};
use crate::control::{ControlError, Reply, Request};
use crate::privileges;
use crate::status::{ConnectionState, ConnectionStatus, SessionStatus};
use crate::tun::Tun;
use crate::udp::{UdpConfig, UdpSockets};

/// The tunnel's device.
const DEVICE: &str = "caravan-agent";
/// Largest packet of a device that is made to be removed at once.
const MTU: u16 = 1_280;

/// Ends of this process.
pub struct Client {
    /// Where the folders of tunnels are.
    folder: PathBuf,
    /// How their processes log.
    logging: Vec<OsString>,
    ends: BTreeMap<TunnelId, End>,
}

struct End {
    attended: Attended,
    folder: PathBuf,
    has_been_up: bool,
    /// In which exchange IKE has taken the PPK.
    ppk: Option<PpkExchange>,
    /// Why the tunnel ended, as its process says.
    last_end: Option<String>,
}

impl Client {
    /// Folders of tunnels, which are gone after them, are in this one: /run, or that of a user.
    /// What dead agents have left there is removed.
    /// Their processes are told the options `logging`.
    pub fn new(folder: PathBuf, logging: Vec<OsString>) -> Self {
        folder::clear_all(&folder);
        Self {
            folder,
            logging,
            ends: BTreeMap::new(),
        }
    }

    /// Whether `caravan up` gets its rights, its ports, its device and its folder here.
    pub(super) fn try_out(&self) -> Result<(), BackendError> {
        let refused = |text: String| BackendError::Refused {
            what: "this machine".to_owned(),
            text,
        };
        privileges::require().map_err(|fault| refused(fault.to_string()))?;
        let ports = UdpConfig {
            ports: engine::node::SOCKETS.to_vec(),
            mark: None,
        };
        let sockets = UdpSockets::bind(ports);
        sockets.map_err(|fault| refused(no_ports(&fault)))?;
        let device = Tun::open(DEVICE, MTU);
        let text = |fault| format!("cannot make the TUN device {DEVICE}: {fault}");
        device.map_err(|fault| refused(text(fault)))?;
        orders::check_place(&self.folder)
    }

    pub(super) async fn build(&mut self, it: &Description) -> Result<(), BackendError> {
        let folder = self.folder.join(it.name());
        let started = Attended::start(&start(it, &folder).to_frame(), &self.logging);
        let attended = started.map_err(told)?;
        let end = End {
            attended,
            folder,
            has_been_up: false,
            ppk: None,
            last_end: None,
        };
        self.ends.insert(it.tunnel, end);
        Ok(())
    }

    pub(super) async fn destroy(&mut self, tunnel: TunnelId) -> Result<(), BackendError> {
        let Some(end) = self.ends.get_mut(&tunnel) else {
            return Ok(());
        };
        let status = end.attended.end().await.map_err(told)?;
        if !status.success() {
            // It was killed, or could not remove all.
            let folder = end.folder.clone();
            let cleared = move || folder::clear(&folder, attendant::GONE_MAX);
            let cleared = tokio::task::spawn_blocking(cleared).await;
            cleared
                .map_err(|fault| told(io::Error::other(fault)))?
                .map_err(told)?;
        }
        self.ends.remove(&tunnel);
        Ok(())
    }

    pub(super) async fn state(&mut self, tunnel: TunnelId) -> Result<State, BackendError> {
        let Some(end) = self.ends.get_mut(&tunnel) else {
            return Ok(State::Absent);
        };
        if let Some(status) = end.attended.ended() {
            let text = match end.has_been_up {
                true => format!("the tunnel's process has ended on this machine ({status})"),
                false => format!("the tunnel's process has ended ({status}): its log says why"),
            };
            return Ok(State::Down(text));
        }
        let (folder, name) = (end.folder.clone(), name_of(tunnel));
        let asked = tokio::task::spawn_blocking(move || {
            let running = find(&folder, &name)?;
            ask(&running, &Request::Status)
        });
        let answer = asked.await.map_err(|fault| BackendError::Process {
            what: "the control socket",
            source: io::Error::other(fault),
        })?;
        let report = match answer {
            // It starts, or it ends.
            Err(ControlError::NotRunning { .. } | ControlError::Ending(_)) => {
                return Ok(State::Waiting);
            }
            Err(error) => return Err(error.into()),
            Ok(Reply::Status { report }) => report,
            Ok(_) => return Ok(State::Waiting),
        };
        let Some(connection) = report.connections.first() else {
            return Ok(State::Waiting);
        };
        let state = state_of(connection, end.has_been_up);
        end.has_been_up |= state == State::Up;
        let mut sessions = connection.sessions.iter();
        end.ppk = sessions.find_map(SessionStatus::ppk_exchange);
        end.last_end.clone_from(&connection.last_end);
        Ok(state)
    }

    pub(super) fn seen(&self, tunnel: TunnelId) -> Seen {
        let ppk = self.ends.get(&tunnel).and_then(|end| end.ppk);
        Seen { peer: None, ppk }
    }

    pub(super) fn last_end(&self, tunnel: TunnelId) -> Option<String> {
        self.ends.get(&tunnel)?.last_end.clone()
    }

    pub(super) async fn close(mut self) {
        let all: Vec<TunnelId> = self.ends.keys().copied().collect();
        for end in self.ends.values_mut() {
            end.attended.let_go();
        }
        for tunnel in all {
            if let Err(error) = self.destroy(tunnel).await {
                tracing::warn!("{error}");
            }
        }
    }
}

const BUSY: &str = "another program has UDP port 500 or 4500 (`ss -ulpn` names it), such as \
                    charon, pluto or another agent's tunnel: end it, or use --socks, which takes \
                    others";

/// A guest may end what he has started, or do without the ports.
fn no_ports(fault: &io::Error) -> String {
    match fault.kind() {
        ErrorKind::AddrInUse => BUSY.to_owned(),
        _ => format!("cannot bind UDP ports: {fault}"),
    }
}

fn told(source: io::Error) -> BackendError {
    BackendError::Process {
        what: "a tunnel's process",
        source,
    }
}

/// What the attendant needs. Places of files are filled in where they are known.
pub(super) fn start(it: &Description, folder: &Path) -> Start {
    let [own, key, peer, ppk] = attendant::PLACES;
    let table = format!("[daemon]\ntun = \"{DEVICE}\"\n\n");
    let places = Places {
        own,
        key,
        peer,
        ppk,
    };
    let text = table + &toml(it, &places);
    let mut start = Start::new(it.name(), folder.to_owned(), text);
    if let Credential::Certificates { chain, key, peer } = &it.credential {
        let pem = |chain: &[Vec<u8>]| -> String {
            let all = chain.iter().map(|der| crypto::cert::certificate_pem(der));
            all.collect()
        };
        start.file(0, pem(chain).as_bytes());
        start.file(1, crypto::cert::private_key_pem(&key.0).as_bytes());
        start.file(2, pem(&peer[..1]).as_bytes());
    }
    if let Some(ppk) = &it.ppk {
        start.file(3, ppk.key.text().as_bytes());
    }
    start
}

/// A tunnel that was closed is asked for again, and refused.
fn state_of(connection: &ConnectionStatus, has_been_up: bool) -> State {
    // The tunnel's end tells more than the refusal of another.
    let failure = connection
        .last_end
        .as_ref()
        .or(connection.last_failure.as_ref());
    match (connection.state, failure) {
        (ConnectionState::Established | ConnectionState::InClear, _) => State::Up,
        (ConnectionState::Down, _) => State::Down("it was taken down".to_owned()),
        (_, Some(why)) if has_been_up && connection.last_failure.is_some() => {
            State::Down(why.clone())
        }
        _ => State::Waiting,
    }
}
