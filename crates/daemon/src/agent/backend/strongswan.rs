//! A running charon, by vici: credentials and the connection are loaded for one tunnel, and
//! unloaded with it. Nothing is written to a disk.
//!
//! charon keeps the certificates of a connection until it ends or somebody clears its credentials.
//! They are trusted for nothing by themselves: the connection that named them is gone, and the one
//! of minutes is over soon.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::agent::TunnelId;
use engine::agent::description::{Description, Side};
use engine::agent::objectives::{Options, SecurityOption};
use engine::agent::target::Seen;
use engine::agent::writers::{Charon, Kind, Wiped, vici};
use engine::ikev2::ppk::PpkExchange;
use wire::codec::Malformed;
use wire::vici::{Packet, Section};

use super::attendant::{Attended, LOADED, Load};
use super::vici::{Vici, ViciError};
use super::{BackendError, State, name_of};

const NAME: &str = "strongSwan";
/// charon makes an IKE SA a moment after it was asked to initiate.
const BEGINS_WITHIN: Duration = Duration::from_secs(3);

/// charon knows RFC 8784 alone, up to strongSwan 6.1, and does not say in which exchange it was.
const PPK_EXCHANGE: PpkExchange = PpkExchange::IkeAuth;

/// A running charon.
pub struct StrongSwan {
    socket: PathBuf,
    /// How processes of tunnels log.
    logging: Vec<OsString>,
    /// Its ESP is the plugin kernel-libipsec.
    is_libipsec: bool,
    charon: Charon,
    ends: BTreeMap<TunnelId, End>,
}

/// An end that this process has built.
struct End {
    side: Side,
    option: SecurityOption,
    has_ppk: bool,
    built: Instant,
    has_been_up: bool,
    /// charon's name of the private key.
    key: Option<String>,
    /// Client's.
    attended: Option<Attended>,
}

impl StrongSwan {
    /// The charon at this socket. It is asked which data plane it has. Processes of tunnels are
    /// told the options `logging`.
    pub async fn open(socket: PathBuf, logging: Vec<OsString>) -> Result<Self, BackendError> {
        let stats = stats(&socket).await?;
        let is_libipsec = match stats.find("plugins") {
            Some(wire::vici::Value::List(all)) => all.iter().any(|one| one == b"kernel-libipsec"),
            _ => false,
        };
        let charon = Charon {
            has_mlkem: has_mlkem(&socket).await?,
        };
        Ok(Self {
            socket,
            logging,
            is_libipsec,
            charon,
            ends: BTreeMap::new(),
        })
    }

    /// Whether it answers.
    pub(super) async fn can_build(&self) -> Result<(), BackendError> {
        stats(&self.socket).await.map(drop)
    }

    pub(super) fn options(&self) -> Options {
        let all = SecurityOption::ALL.into_iter();
        all.filter(|option| self.lacks(*option).is_none()).collect()
    }

    /// kernel-libipsec has ESP alone, and no policy for what passes.
    fn lacks(&self, option: SecurityOption) -> Option<&'static str> {
        match option {
            SecurityOption::Native if self.is_libipsec => {
                Some("its plugin kernel-libipsec has no policy for unprotected traffic")
            }
            SecurityOption::Ah if self.is_libipsec => {
                Some("its plugin kernel-libipsec has ESP alone")
            }
            option => Kind::StrongSwan.lacks(option),
        }
    }

    pub(super) async fn build(&mut self, it: &Description) -> Result<(), BackendError> {
        if let Some(why) = self.lacks(it.option) {
            return Err(BackendError::Option {
                backend: NAME,
                option: it.option,
                why,
            });
        }
        let built = self.load(it).await;
        if built.is_err() {
            // The former error is the one to tell.
            let _ = self.destroy(it.tunnel).await;
        }
        built
    }

    /// Asks charon for all parts. Client's end has a process that takes it down, however this one
    /// ends.
    async fn load(&mut self, it: &Description) -> Result<(), BackendError> {
        let messages = vici(it, self.charon)?;
        let parts = [
            ("load-pool", messages.pool),
            ("load-shared", messages.shared),
            ("load-shared", messages.ppk),
            ("load-key", messages.key),
            ("load-conn", Some(messages.connection)),
        ];
        let parts = parts.into_iter();
        let mut questions: Vec<(&'static str, Wiped)> =
            parts.filter_map(|(what, it)| Some((what, it?))).collect();
        if it.side == Side::Client && it.option != SecurityOption::Native {
            // Negative: it answers at once, and the SA's state tells the rest.
            let begin = Section::new()
                .with("child", "net")
                .with("ike", it.name())
                .with("timeout", "-1");
            questions.push(("initiate", Wiped(begin)));
        }
        let mut end = End {
            side: it.side,
            option: it.option,
            has_ppk: it.ppk.is_some(),
            built: Instant::now(),
            has_been_up: false,
            key: None,
            attended: None,
        };
        if it.side == Side::Client {
            let attended = self.attended(it, questions)?;
            let attended = end.attended.insert(attended);
            let begun = begun(attended).await;
            let begun = begun.map(|key| end.key = key);
            self.ends.insert(it.tunnel, end);
            return begun;
        }
        let mut charon = self.connect().await?;
        for (what, mut question) in questions {
            let question = std::mem::take(&mut question.0);
            let answer = charon.ask(what, question).await.map_err(told(what));
            match answer {
                Ok(answer) if what == "load-key" => {
                    end.key = answer.text("id").map(str::to_owned);
                }
                Ok(_) => {}
                Err(error) => {
                    self.ends.insert(it.tunnel, end);
                    return Err(error);
                }
            }
        }
        self.ends.insert(it.tunnel, end);
        Ok(())
    }

    fn attended(
        &self,
        it: &Description,
        questions: Vec<(&'static str, Wiped)>,
    ) -> Result<Attended, BackendError> {
        let mut load = Load::new(it.name(), self.socket.clone());
        for (what, mut question) in questions {
            let packet = Packet::Request(what.to_owned(), std::mem::take(&mut question.0));
            let octets = packet.to_vec();
            if let Packet::Request(_, section) = packet {
                drop(Wiped(section));
            }
            let fault = |fault: Malformed| told(what)(ViciError::Refused(fault.to_string()));
            load.ask(octets.map_err(fault)?);
        }
        Attended::start(&load.to_frame(), &self.logging).map_err(process)
    }

    pub(super) async fn destroy(&mut self, tunnel: TunnelId) -> Result<(), BackendError> {
        let name = name_of(tunnel);
        if let Some(attended) = self
            .ends
            .get_mut(&tunnel)
            .and_then(|end| end.attended.as_mut())
        {
            attended.end().await.map_err(process)?;
        }
        let key = self.ends.get(&tunnel).and_then(|end| end.key.clone());
        let mut others = self.ends.iter().filter(|(other, _)| **other != tunnel);
        // Target's own key serves every tunnel.
        let is_last = others.all(|(_, end)| end.key != key);
        let key = key.filter(|_| is_last);
        let mut charon = self.connect().await?;
        let unloaded = charon.unload(&name, key.as_deref()).await;
        unloaded.map_err(told("unload"))?;
        self.ends.remove(&tunnel);
        Ok(())
    }

    pub(super) async fn seen(&mut self, tunnel: TunnelId) -> Seen {
        let has_ppk = self.ends.get(&tunnel).is_some_and(|end| end.has_ppk);
        Seen {
            peer: self.peer(tunnel).await,
            ppk: has_ppk.then_some(PPK_EXCHANGE),
        }
    }

    async fn peer(&self, tunnel: TunnelId) -> Option<IpAddr> {
        let name = name_of(tunnel);
        let mut charon = self.connect().await.ok()?;
        let own = Section::new().with("ike", &name);
        let listed = charon.list("list-sas", "list-sa", own).await.ok()?;
        let mut mine = listed.iter().filter_map(|sa| sa.section(&name));
        mine.find(|sa| has_child(sa))?
            .text("remote-host")?
            .parse()
            .ok()
    }

    pub(super) async fn state(&mut self, tunnel: TunnelId) -> Result<State, BackendError> {
        let name = name_of(tunnel);
        let mut charon = self.connect().await?;
        if !charon.has(&name).await.map_err(told("list-conns"))? {
            return Ok(State::Absent);
        }
        let own = Section::new().with("ike", &name);
        let listed = charon.list("list-sas", "list-sa", own).await;
        let sas = listed.map_err(told("list-sas"))?;
        let mine: Vec<&Section> = sas.iter().filter_map(|sa| sa.section(&name)).collect();
        let is_up = mine.iter().any(|sa| has_child(sa));
        let Some(end) = self.ends.get_mut(&tunnel) else {
            return Ok(if is_up { State::Up } else { State::Waiting });
        };
        end.has_been_up |= is_up;
        if end.attended.as_mut().is_some_and(|it| it.ended().is_some()) {
            // Nobody would take it down if this process were killed too.
            return Ok(State::Down("the process that ends it is gone".to_owned()));
        }
        Ok(match (is_up, end.side) {
            _ if end.option == SecurityOption::Native => State::Open,
            (true, _) => State::Up,
            // It initiates once. An SA that is gone will not come back.
            (_, Side::Client) if !mine.is_empty() => State::Waiting,
            (_, Side::Client) if end.has_been_up => State::Down("the tunnel was closed".to_owned()),
            (_, Side::Client) if end.built.elapsed() > BEGINS_WITHIN => {
                State::Down("IKE has failed: charon's log says why".to_owned())
            }
            _ => State::Waiting,
        })
    }

    /// Client's end does not outlive its agent.
    pub(super) async fn close(mut self) {
        let clients = self.ends.iter().filter(|(_, end)| end.side == Side::Client);
        let clients: Vec<TunnelId> = clients.map(|(tunnel, _)| *tunnel).collect();
        for tunnel in clients {
            if let Err(error) = self.destroy(tunnel).await {
                tracing::warn!("{error}");
            }
        }
    }

    async fn connect(&self) -> Result<Vici, BackendError> {
        Vici::open(&self.socket).await.map_err(told("connect"))
    }
}

/// charon's figures, with its plugins.
async fn stats(socket: &Path) -> Result<Section, BackendError> {
    let asked = async {
        let mut charon = Vici::open(socket).await?;
        charon.ask("stats", Section::new()).await
    };
    asked.await.map_err(told("its plugins"))
}

/// Whether it has ML-KEM and additional key exchanges: strongSwan has them from 6.0 on.
async fn has_mlkem(socket: &Path) -> Result<bool, BackendError> {
    let asked = async {
        let mut charon = Vici::open(socket).await?;
        charon.ask("get-algorithms", Section::new()).await
    };
    let known = asked.await.map_err(told("its algorithms"))?;
    let groups = known.section("ke").into_iter();
    let mut groups = groups.flat_map(|all| all.0.iter());
    Ok(groups.any(|(name, _)| name == "ML_KEM_768"))
}

/// What its process says of the start: charon's name of the key, which is unloaded with the tunnel
/// even if that process is killed.
async fn begun(attended: &mut Attended) -> Result<Option<String>, BackendError> {
    let line = attended.said().await.map_err(process)?;
    match line.strip_prefix(LOADED.trim_end()) {
        Some(key) => Ok(Some(key.trim().to_owned()).filter(|key| !key.is_empty())),
        None => Err(told("load")(ViciError::Refused(line))),
    }
}

fn process(source: std::io::Error) -> BackendError {
    BackendError::Process {
        what: "a tunnel's process",
        source,
    }
}

fn has_child(sa: &Section) -> bool {
    let children = sa.section("child-sas");
    let mut children = children.iter().flat_map(|all| all.sections());
    children.any(|(_, child)| child.text("state") == Some("INSTALLED"))
}

fn told(what: &'static str) -> impl Fn(ViciError) -> BackendError {
    move |error| BackendError::Refused {
        what: format!("charon ({what})"),
        text: error.to_string(),
    }
}
