//! Handles the user's requests over the control socket.

use std::collections::BTreeSet;

use document::{likeness, unknown};
use engine::identity::Identity;
use engine::node::{Command, ConnectionState, Input};
use tokio::sync::oneshot;

use super::Process;
use super::mobility::MobilePart;
use super::outputs::Ended;
use super::report::complete;
use crate::control::server::Call;
use crate::control::{Reply, Request};

impl Process {
    pub(super) async fn on_call(&mut self, call: Call) -> anyhow::Result<()> {
        let reply = match call.request {
            Request::Status => return self.tell_status(call.reply).await,
            Request::Down { connection } => {
                let reply = self.take_down(connection).await?;
                // Blocks and routes are gone when the user gets the answer.
                self.reply_late(call.reply, reply);
                return Ok(());
            }
            Request::End { connection, peer } => self.end_peer(connection, peer).await?,
            Request::Reload => {
                self.reload(Some(call.reply));
                return Ok(());
            }
            Request::Rekey { connection, ike } => self.rekey(connection, ike).await?,
            Request::Forget { connection, peer } => self.forget(&connection, &peer).await?,
            Request::Drain {
                connection,
                to,
                leads_to,
            } => self.send_elsewhere(&connection, to, &leads_to).await?,
            Request::Stop => {
                self.leave().await?;
                self.input(Input::Command(Command::Stop)).await?;
                Reply::Done {
                    text: String::new(),
                }
            }
        };
        // The client may be gone.
        let _ = call.reply.send(reply);
        Ok(())
    }

    /// The steward adds what it knows, and the report goes to the user. A task waits for it.
    async fn tell_status(&mut self, asked: oneshot::Sender<Reply>) -> anyhow::Result<()> {
        let mut report = Box::new(self.report().await);
        let has_table = !self.loaded.engine.connections.is_empty();
        let table = has_table.then(|| self.host.table(&self.loaded));
        let asks = self.host.asks();
        tokio::spawn(async move {
            complete(&mut report, table, &asks).await;
            // Whoever asked may be gone.
            let _ = asked.send(Reply::Status { report });
        });
        Ok(())
    }

    async fn rekey(&mut self, connection: String, ike: bool) -> anyhow::Result<Reply> {
        let status = self.node.status(self.clock.now());
        let mut connections = status.connections.iter();
        let found = connections.find(|found| found.name == connection);
        if found.is_none_or(|found| found.state != ConnectionState::Established) {
            let text = format!("{connection} is not up: there are no keys to renew");
            return Ok(Reply::Failed { text });
        }
        let command = match ike {
            true => Command::RekeyIke(connection.clone()),
            false => Command::RekeyChildren(connection.clone()),
        };
        let text = match ike {
            true => format!("{connection}: new keys of IKE are being agreed on"),
            false => format!("{connection}: new keys are being agreed on"),
        };
        self.input(Input::Command(command)).await?;
        Ok(Reply::Done { text })
    }

    /// A client may use IKEv1 again.
    async fn forget(&mut self, connection: &str, peer: &Identity) -> anyhow::Result<Reply> {
        let marks = match self.upgraded.forget(connection, peer) {
            Ok(marks) => marks,
            Err(error) => {
                let text = format!("{connection}: cannot store that {peer} is forgotten: {error}");
                return Ok(Reply::Failed { text });
            }
        };
        if marks.is_empty() {
            let text = format!("{connection}: {peer} has not used IKEv2, or may use IKEv1 anyway");
            return Ok(Reply::Failed { text });
        }
        self.input(Input::Command(Command::Forget(marks))).await?;
        let text = format!("{connection}: {peer} may use IKEv1 until it uses IKEv2 again");
        Ok(Reply::Done { text })
    }

    async fn end_peer(&mut self, connection: String, peer: Identity) -> anyhow::Result<Reply> {
        let part = self.mobility.as_ref().map(MobilePart::name);
        if part.is_some_and(|name| name == connection) {
            return self.end_registration(&connection, &peer);
        }
        let mut all = self.loaded.engine.connections.iter();
        let is_station = |it: &engine::config::Connection| !it.remote_addrs.is_empty();
        if all.any(|it| it.name == connection && is_station(it)) {
            let text =
                format!("{connection} has one gateway: `caravan down {connection}` takes it down");
            return Ok(Reply::Failed { text });
        }
        let command = Command::End(connection.clone(), peer.clone());
        let ends = self.ends_of(Input::Command(command)).await?;
        let Some(ended) = ends.get(&connection) else {
            let text = self.unknown_peer(&connection, &peer);
            return Ok(Reply::Failed { text });
        };
        let text = format!("{connection}: {}", ended_peer(&peer, *ended));
        Ok(Reply::Done { text })
    }

    /// An agent's administrator ends the registration of a node.
    fn end_registration(&mut self, name: &str, peer: &Identity) -> anyhow::Result<Reply> {
        let address = peer.to_string().parse();
        let Ok(home) = address else {
            let text = format!("{peer} is not a home address, such as 10.18.3.17");
            return Ok(Reply::Failed { text });
        };
        Ok(match self.revoke(home)? {
            true => Reply::Done {
                text: format!("{name}: the registration of {home} has ended"),
            },
            false => Reply::Failed {
                text: format!("{name}: {home} is not registered"),
            },
        })
    }

    /// The error for an identity that no peer has.
    fn unknown_peer(&self, connection: &str, wanted: &Identity) -> String {
        let status = self.node.status(self.clock.now());
        let own = status.connections.iter().filter(|it| it.name == connection);
        // A half-open peer has no identity yet.
        let peers = own
            .flat_map(|it| &it.sessions)
            .filter_map(|it| it.peer.as_ref());
        unknown_peer(connection, wanted, &peers.collect())
    }

    pub(super) async fn take_down(&mut self, connection: String) -> anyhow::Result<Reply> {
        let names = self.loaded.names();
        if let Err(text) = known(&connection, &names) {
            return Ok(Reply::Failed { text });
        }
        let down = Input::Command(Command::Down(connection.clone()));
        let ends = self.ends_of(down).await?;
        if names.len() > 1 && self.awaits_clients(&connection) {
            let ended = ends.get(&connection).copied().unwrap_or_default();
            let text = ended_all(&connection, ended);
            return Ok(Reply::Done { text });
        }
        let text = format!("{connection} is down");
        self.downed.insert(connection.clone());
        if self
            .mobility
            .as_ref()
            .is_some_and(|it| it.name() == connection)
        {
            self.leave().await?;
            let tunnel = self.mobility.as_ref().and_then(MobilePart::connection);
            let tunnel = tunnel.map(str::to_owned);
            self.end_mobility()?;
            if let Some(tunnel) = tunnel {
                // Nobody else brings it up, or has packets for it.
                let down = Input::Command(Command::Down(tunnel.clone()));
                self.input(down).await?;
                self.downed.insert(tunnel);
            }
        }
        self.update_host();
        if names.iter().all(|name| self.downed.contains(name)) {
            self.lifts = true;
            self.input(Input::Command(Command::Stop)).await?;
            return Ok(Reply::Ending { text });
        }
        Ok(Reply::Done { text })
    }

    /// Whether clients begin this connection: it goes on as long as the program does.
    fn awaits_clients(&self, name: &str) -> bool {
        let mut all = self.loaded.engine.connections.iter();
        all.any(|it| it.name == name && it.remote_addrs.is_empty())
    }
}

/// Refuses a name that no connection has.
fn known(connection: &str, names: &[String]) -> Result<(), String> {
    let all = || names.iter().map(String::as_str);
    match all().any(|name| name == connection) {
        true => Ok(()),
        false => Err(unknown("connection", connection, all())),
    }
}

/// Names to list if none matches.
const NEAREST: usize = 3;

/// What the end of one peer's sessions ended.
fn ended_peer(peer: &Identity, ended: Ended) -> String {
    match ended.tunnels {
        0 => format!("{peer} had authenticated but had no tunnel yet; it is disconnected"),
        1 => format!("1 tunnel of {peer} ended"),
        several => format!("{several} tunnels of {peer} ended"),
    }
}

/// What `down` has ended of a connection that clients begin.
fn ended_all(connection: &str, ended: Ended) -> String {
    let tunnels = match ended.tunnels {
        0 => "no tunnel was up".to_owned(),
        1 => "1 tunnel ended".to_owned(),
        several => format!("{several} tunnels ended"),
    };
    format!("{connection}: {tunnels}; it still answers, so its clients may come again")
}

/// Lists the peers whose names are most like the wanted one.
fn unknown_peer(connection: &str, wanted: &Identity, peers: &BTreeSet<&Identity>) -> String {
    let wanted = wanted.to_string();
    let mut known: Vec<String> = peers.iter().map(ToString::to_string).collect();
    known.sort_by(|a, b| likeness(&wanted, b).total_cmp(&likeness(&wanted, a)));
    let rest = known.len().saturating_sub(NEAREST);
    known.truncate(NEAREST);
    let near = known.join("; ");
    match (known.is_empty(), rest) {
        (true, _) => format!("{connection} has no tunnel with anybody"),
        (_, 0) => format!("{connection} has no tunnel with {wanted}; it has one with {near}"),
        (_, more) => format!(
            "{connection} has no tunnel with {wanted}; the nearest names are {near}; `caravan \
             status {connection}` shows {more} more"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_begin_is_not_down_after_their_tunnels() {
        let told = |tunnels| {
            let sessions = tunnels + 1;
            ended_all("phones", Ended { sessions, tunnels })
        };
        let again = "it still answers, so its clients may come again";
        assert_eq!(told(0), format!("phones: no tunnel was up; {again}"));
        assert_eq!(told(1), format!("phones: 1 tunnel ended; {again}"));
        assert_eq!(told(7), format!("phones: 7 tunnels ended; {again}"));
    }

    #[test]
    fn the_end_of_a_peer_is_told_with_the_number_of_its_tunnels() {
        let peer = Identity::parse("ms1.example").expect("an identity");
        let told = |sessions, tunnels| ended_peer(&peer, Ended { sessions, tunnels });
        assert_eq!(told(1, 1), "1 tunnel of ms1.example ended");
        assert_eq!(told(3, 2), "2 tunnels of ms1.example ended");
        let none = "ms1.example had authenticated but had no tunnel yet; it is disconnected";
        assert_eq!(told(1, 0), none);
    }

    #[test]
    fn a_name_that_no_connection_has_is_refused_and_not_sent_to_a_terminal() {
        let names = ["road", "rail"].map(str::to_owned);
        assert_eq!(known("rail", &names), Ok(()));
        let fault = known("../../x\u{1b}[31m", &names).unwrap_err();
        assert_eq!(
            fault,
            "unknown connection '../../x\\u{1b}[31m', valid are 'road', 'rail'"
        );
        assert!(known("", &names).is_err());
    }

    #[test]
    fn an_identity_that_no_peer_has_is_told_with_the_nearest() {
        let told = |peers: &[&str]| {
            let read = |text: &str| Identity::parse(text).expect("an identity");
            let peers: Vec<Identity> = peers.iter().copied().map(read).collect();
            unknown_peer("ms", &read("ms1.exmaple"), &peers.iter().collect())
        };
        assert_eq!(told(&[]), "ms has no tunnel with anybody");
        assert_eq!(
            told(&["a.org", "ms1.example"]),
            "ms has no tunnel with ms1.exmaple; it has one with ms1.example; a.org"
        );
        assert_eq!(
            told(&[
                "C=GR, CN=x",
                "ms1.example",
                "ms2.example",
                "a.org",
                "ms3.example"
            ]),
            "ms has no tunnel with ms1.exmaple; the nearest names are ms1.example; ms2.example; \
             ms3.example; `caravan status ms` shows 2 more"
        );
    }
}
