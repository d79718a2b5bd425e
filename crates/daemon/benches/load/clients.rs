//! Clients of a gateway of another process, over UDP, whatever program it is: the same load for
//! all. Each has an address, an identity and a certificate of its own, so that the gateway can
//! reuse nothing of one for the next. They share one key, which would take long to make.
//!
//! Clients are made before time is taken. Then a fixed number of them connect at the same time.
//! Their tunnels stay at the gateway. With tickets each loses its tunnel afterwards and comes back:
//! then only that counts. Their addresses must be local
//! (`ip route add local 100.64.0.0/10 dev lo`), and nobody else may use ports 500 and 4500.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use crypto::cert::{Authority, Certificate, KeyMaterial, Request, SigningKey, TrustStore};
use crypto::sign::PrivateKey;
use engine::node::{Input, SOCKETS};
use engine::sa::{Path as Way, Secret, Via};
use engine::time::{Calendar, Instant};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::handshakes::{calendar, read, trusted};
use crate::pair::{Credentials, Datagrams, Station, Terms};

/// Days that certificates of clients are valid.
const DAYS: u32 = 2;
/// How long nothing may come from the gateway.
const PATIENCE: Duration = Duration::from_secs(20);
const MAX_DATAGRAM: usize = 65_536;

/// What makes the clients' credentials.
pub(crate) enum Maker {
    Shared(Arc<Secret>),
    Certified {
        authority: Box<Authority>,
        key_pem: String,
        trusted: Arc<TrustStore>,
    },
}

/// A client that connects, and its sockets.
struct Connecting {
    station: Station,
    sockets: [(UdpSocket, Via); 2],
    began: std::time::Instant,
}

impl Maker {
    pub(crate) fn new(keys: Option<&Path>, secret: Option<&str>) -> anyhow::Result<Self> {
        let Some(folder) = keys else {
            let secret = secret.context("neither keys nor a secret")?;
            return Ok(Self::Shared(Arc::new(Secret(secret.as_bytes().to_vec()))));
        };
        let authority = Authority::load(&read(folder, "ca.pem")?, &read(folder, "ca.key")?)?;
        Ok(Self::Certified {
            authority: Box::new(authority),
            key_pem: read(folder, "ms.example.key")?,
            trusted: trusted(folder)?,
        })
    }

    /// As many clients of a gateway.
    pub(crate) fn make(
        &self,
        count: u32,
        gateway: Ipv4Addr,
        terms: &Terms<'_>,
    ) -> anyhow::Result<Vec<Station>> {
        let own = match self {
            Self::Shared(_) => None,
            Self::Certified { key_pem, .. } => Some((
                Arc::new(PrivateKey::from_pem(key_pem)?),
                SigningKey::from_pem(key_pem)?,
            )),
        };
        // Addresses that end in zero belong to nobody.
        let numbers = 1..=count;
        let made = numbers.map(|number| {
            let identity = format!("ms{number}.example");
            let credentials = match (self, &own) {
                (Self::Certified { trusted, .. }, Some((key, pair))) => Credentials::Certified {
                    key: Arc::clone(key),
                    chain: self.certify(&identity, number, pair)?,
                    trusted: Arc::clone(trusted),
                },
                (Self::Shared(secret), _) => Credentials::Shared(Arc::clone(secret)),
                (Self::Certified { .. }, None) => bail!("certificates without a key"),
            };
            Station::towards(gateway, number, &identity, terms, &credentials)
        });
        made.collect()
    }

    fn certify(
        &self,
        identity: &str,
        number: u32,
        pair: &SigningKey,
    ) -> anyhow::Result<Vec<Certificate>> {
        let Self::Certified { authority, .. } = self else {
            return Ok(Vec::new());
        };
        let pem = authority.issue(&Request {
            subject: &format!("CN={identity}"),
            alternative_names: &[identity.to_owned()],
            key: KeyMaterial::Pair(pair),
            serial: &[&[0x70][..], &number.to_be_bytes()].concat(),
            now: calendar()?.0,
            days: DAYS,
        })?;
        Ok(Certificate::all_from_pem(&pem)?)
    }
}

/// Clients towards one gateway: how many connect at the same time, and what is measured.
pub(crate) struct Load {
    pub(crate) at_once: usize,
    /// The gateway's process: its CPU time counts.
    pub(crate) gateway: Pid,
}

impl Load {
    /// Connects all clients. With `has_tickets` they then lose their tunnels and go on with
    /// tickets, and only this is in the report.
    pub(crate) fn run(&self, stations: Vec<Station>, has_tickets: bool) -> anyhow::Result<Value> {
        let first = self.connect(stations, Instant(1))?;
        if !has_tickets {
            return Ok(first.report);
        }
        let (mut lost, mut begin) = (first.stations, Instant(1));
        for station in &mut lost {
            begin = begin.max(station.lose()?);
        }
        Ok(self.connect(lost, begin)?.report)
    }

    /// The clients' own clock begins with `begin`.
    fn connect(&self, stations: Vec<Station>, begin: Instant) -> anyhow::Result<Connected> {
        let (count, calendar) = (stations.len(), calendar()?);
        let mut waiting = stations.into_iter();
        let mut connecting: Vec<Connecting> = Vec::new();
        let (mut took_ms, mut connected) = (Vec::new(), Vec::with_capacity(count));
        let of_gateway = ClockId::pid_cpu_clock_id(self.gateway)
            .with_context(|| format!("no process {}", self.gateway))?;
        let cpu = || {
            let spent = (
                clock_gettime(of_gateway)?,
                clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?,
            );
            anyhow::Ok(spent)
        };
        let before = cpu()?;
        let began = std::time::Instant::now();
        let clock = || begin + began.elapsed();
        let mut heard = began;
        while took_ms.len() < count {
            while connecting.len() < self.at_once
                && let Some(station) = waiting.next()
            {
                connecting.push(Connecting::begin(station, calendar, clock())?);
            }
            if wait(&connecting, clock())? {
                heard = std::time::Instant::now();
            }
            if heard.elapsed() > PATIENCE {
                bail!(
                    "{} of {count} tunnels after {PATIENCE:?} of silence",
                    took_ms.len()
                );
            }
            for one in &mut connecting {
                one.receive(&clock)?;
            }
            let mut at = 0;
            while at < connecting.len() {
                if !connecting[at].station.is_up()? {
                    at += 1;
                    continue;
                }
                let one = connecting.swap_remove(at);
                took_ms.push(one.began.elapsed());
                connected.push(one.station);
            }
        }
        let wall = began.elapsed();
        let after = cpu()?;
        took_ms.sort();
        let each_ms = |span| Duration::from(span).as_secs_f64() * 1e3 / count as f64;
        let report = json!({
            "count": count,
            "at_once": self.at_once,
            "wall_s": wall.as_secs_f64(),
            "per_s": count as f64 / wall.as_secs_f64(),
            "gateway_cpu_ms": each_ms(after.0 - before.0),
            "clients_cpu_ms": each_ms(after.1 - before.1),
            "took_ms_median": took_ms[count / 2].as_secs_f64() * 1e3,
        });
        Ok(Connected {
            stations: connected,
            report,
        })
    }
}

/// Clients whose tunnels are up.
struct Connected {
    stations: Vec<Station>,
    report: Value,
}

/// Waits until something comes or a client wants to be woken. Returns whether something came.
fn wait(connecting: &[Connecting], now: Instant) -> anyhow::Result<bool> {
    let due = connecting.iter().filter_map(|one| one.station.due()).min();
    let left = due.map_or(PATIENCE, |due| due.since(now)).min(PATIENCE);
    // Rounded up, so that the deadline has passed.
    let left = PollTimeout::try_from(left + Duration::from_millis(1))?;
    let sockets = connecting.iter().flat_map(|one| &one.sockets);
    let polled = sockets.map(|(socket, _)| PollFd::new(socket.as_fd(), PollFlags::POLLIN));
    Ok(poll(&mut polled.collect::<Vec<_>>(), left)? > 0)
}

impl Connecting {
    fn begin(station: Station, calendar: Calendar, now: Instant) -> anyhow::Result<Self> {
        let address = station.address();
        let open = |(port, via)| {
            let socket = UdpSocket::bind((address, port));
            let socket = socket.with_context(|| format!("no socket at {address}:{port}"))?;
            socket.set_nonblocking(true)?;
            anyhow::Ok((socket, via))
        };
        let [first, second] = SOCKETS;
        let mut one = Self {
            station,
            sockets: [open(first)?, open(second)?],
            began: std::time::Instant::now(),
        };
        let sent = one.station.drain(now);
        one.send(sent)?;
        let sent = one.station.take(Input::Calendar(calendar), now);
        one.send(sent)?;
        one.wake(now)?;
        Ok(one)
    }

    /// Takes what has come, and wakes the client if it is time.
    fn receive(&mut self, clock: &impl Fn() -> Instant) -> anyhow::Result<()> {
        let mut octets = [0; MAX_DATAGRAM];
        for at in 0..self.sockets.len() {
            loop {
                let (socket, via) = &self.sockets[at];
                let (len, remote) = match socket.recv_from(&mut octets) {
                    Ok(received) => received,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                };
                let (local, via) = (socket.local_addr()?, *via);
                let way = Way { local, remote, via };
                let is_message = via == Via::Udp || octets[..len].starts_with(&[0; 4]);
                if is_message {
                    let input = Input::Datagram(way, &octets[..len]);
                    let sent = self.station.take(input, clock());
                    self.send(sent)?;
                }
            }
        }
        self.wake(clock())
    }

    fn wake(&mut self, now: Instant) -> anyhow::Result<()> {
        if self.station.due().is_some_and(|due| due <= now) {
            let sent = self.station.take(Input::Wake, now);
            self.send(sent)?;
        }
        Ok(())
    }

    fn send(&self, sent: Datagrams) -> anyhow::Result<()> {
        for (way, payload) in sent {
            let mut sockets = self.sockets.iter();
            let socket = sockets.find(|(_, via)| *via == way.via);
            let (socket, _) = socket.context("a path without a socket")?;
            socket.send_to(&payload, way.remote)?;
        }
        Ok(())
    }
}
