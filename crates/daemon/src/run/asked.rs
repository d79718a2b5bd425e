//! What the user asks a running process over its control socket.

use engine::node::{Command, Input};

use super::Process;
use crate::control::server::Asked;
use crate::control::{Reply, Request};

impl Process {
    pub(super) async fn on_asked(&mut self, asked: Asked) -> anyhow::Result<()> {
        let reply = match asked.request {
            Request::Status => Reply::Status {
                report: Box::new(self.report().await),
            },
            Request::Down { connection } => self.take_down(connection).await?,
            Request::Reload => match self.reload().await {
                Ok(()) => Reply::Done {
                    text: "the configuration was read again".to_owned(),
                },
                Err(error) => Reply::Failed {
                    text: format!("{error:#}"),
                },
            },
            Request::Rekey { connection, ike } => self.rekey(connection, ike).await?,
            Request::Stop => {
                self.input(Input::Command(Command::Stop)).await?;
                Reply::Done {
                    text: String::new(),
                }
            }
        };
        // Whoever asked may be gone.
        let _ = asked.reply.send(reply);
        Ok(())
    }

    async fn rekey(&mut self, connection: String, ike: bool) -> anyhow::Result<Reply> {
        let status = self.node.status(self.clock.now());
        let mut connections = status.connections.iter();
        let found = connections.find(|found| found.name == connection);
        let mut sessions = found.into_iter().flat_map(|found| &found.sessions);
        if !sessions.any(|session| !session.children.is_empty()) {
            let text = format!("{connection} is not up: there are no keys to renew");
            return Ok(Reply::Failed { text });
        }
        let command = match ike {
            true => Command::RekeyIke(connection),
            false => Command::RekeyChildren(connection),
        };
        self.input(Input::Command(command)).await?;
        Ok(Reply::Done {
            text: String::new(),
        })
    }

    async fn take_down(&mut self, connection: String) -> anyhow::Result<Reply> {
        let text = format!("{connection} is down");
        self.input(Input::Command(Command::Down(connection.clone())))
            .await?;
        self.downed.insert(connection.clone());
        self.host
            .apply(&self.loaded, &self.node, self.clock.now(), &self.downed)
            .await?;
        if self
            .loaded
            .names()
            .iter()
            .all(|name| self.downed.contains(name))
        {
            self.lifts = true;
            self.input(Input::Command(Command::Stop)).await?;
            return Ok(Reply::Ending { text });
        }
        Ok(Reply::Done { text })
    }
}
