//! A conversation with charon over its vici socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use wire::vici::{PACKET_MAX, Packet, Section, Value};
use zeroize::Zeroize;

/// How long charon may take to answer. `terminate` waits for the other end.
const PATIENCE: Duration = Duration::from_secs(20);
/// Milliseconds that a delete waits for the other end.
const TERMINATE_MS: &str = "3000";
/// Events of one listing.
const EVENTS_MAX: usize = 4_096;

/// Why charon has not done it.
#[derive(Debug, thiserror::Error)]
pub(super) enum ViciError {
    /// The socket.
    #[error("charon's socket: {0}")]
    Io(#[from] io::Error),
    /// It says no.
    #[error("{0}")]
    Refused(String),
}

/// A connection to charon.
pub(super) struct Vici(UnixStream);

impl Vici {
    pub(super) async fn open(path: &Path) -> Result<Self, ViciError> {
        Ok(Self(UnixStream::connect(path).await?))
    }

    /// Asks, and wipes the question. An answer without success is an error.
    pub(super) async fn ask(
        &mut self,
        command: &str,
        question: Section,
    ) -> Result<Section, ViciError> {
        self.send(Packet::Request(command.to_owned(), question))
            .await?;
        match self.receive().await? {
            Packet::Response(answer) => match answer.text("success") {
                Some("no") => {
                    let text = answer.text("errmsg").unwrap_or("it does not say why");
                    Err(ViciError::Refused(text.to_owned()))
                }
                _ => Ok(answer),
            },
            _ => Err(strange(command)),
        }
    }

    /// Asks what this packet asks.
    pub(super) async fn ask_octets(&mut self, octets: &[u8]) -> Result<Section, ViciError> {
        match Packet::parse(octets) {
            Ok(Packet::Request(command, question)) => self.ask(&command, question).await,
            _ => Err(strange("a question")),
        }
    }

    /// Takes down and unloads all of a tunnel, and the key of this name.
    pub(super) async fn unload(&mut self, name: &str, key: Option<&str>) -> Result<(), ViciError> {
        let one = |key: &str| Section::new().with(key, name);
        let end = one("ike")
            .with("force", "yes")
            .with("timeout", TERMINATE_MS);
        let mut orders = vec![
            ("terminate", end),
            ("unload-conn", one("name")),
            ("unload-pool", one("name")),
            ("unload-shared", one("id")),
        ];
        orders.extend(key.map(|id| ("unload-key", Section::new().with("id", id))));
        for (command, order) in orders {
            match self.ask(command, order).await {
                // It has none of it.
                Ok(_) | Err(ViciError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        match self.has(name).await? {
            true => Err(ViciError::Refused(format!("{name} is still there"))),
            false => Ok(()),
        }
    }

    /// Whether it has a connection of this name.
    pub(super) async fn has(&mut self, name: &str) -> Result<bool, ViciError> {
        let own = Section::new().with("ike", name);
        let listed = self.list("list-conns", "list-conn", own).await?;
        Ok(listed.iter().any(|one| one.section(name).is_some()))
    }

    /// Asks for a list, whose items come as events of this name.
    pub(super) async fn list(
        &mut self,
        command: &str,
        event: &str,
        question: Section,
    ) -> Result<Vec<Section>, ViciError> {
        self.send(Packet::Register(event.to_owned())).await?;
        if self.receive().await? != Packet::Confirm {
            return Err(strange(event));
        }
        self.send(Packet::Request(command.to_owned(), question))
            .await?;
        let mut found = Vec::new();
        loop {
            match self.receive().await? {
                Packet::Event(name, item) if name == event && found.len() < EVENTS_MAX => {
                    found.push(item);
                }
                Packet::Event(..) => {}
                Packet::Response(_) => break,
                _ => return Err(strange(command)),
            }
        }
        self.send(Packet::Unregister(event.to_owned())).await?;
        while self.receive().await? != Packet::Confirm {}
        Ok(found)
    }

    async fn send(&mut self, mut packet: Packet) -> Result<(), ViciError> {
        let written = packet.to_vec();
        if let Packet::Request(_, section) = &mut packet {
            wipe(section);
        }
        let mut octets = written.map_err(|fault| ViciError::Refused(fault.to_string()))?;
        let length = u32::try_from(octets.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes();
        let sent = async {
            self.0.write_all(&length).await?;
            self.0.write_all(&octets).await
        };
        let sent = tokio::time::timeout(PATIENCE, sent).await;
        octets.zeroize();
        Ok(sent.map_err(io::Error::from)??)
    }

    async fn receive(&mut self) -> Result<Packet, ViciError> {
        let read = async {
            let length = self.0.read_u32().await? as usize;
            if length > PACKET_MAX {
                return Err(io::Error::other("its packet is too long"));
            }
            let mut octets = vec![0; length];
            self.0.read_exact(&mut octets).await?;
            Ok(octets)
        };
        let read = tokio::time::timeout(PATIENCE, read).await;
        let octets = read.map_err(io::Error::from)??;
        Packet::parse(&octets).map_err(|fault| ViciError::Refused(fault.to_string()))
    }
}

fn strange(what: &str) -> ViciError {
    ViciError::Refused(format!(
        "{what}: it does not know that, or answers something else"
    ))
}

/// Keys are among what charon is told.
pub(super) fn wipe(section: &mut Section) {
    for (_, value) in &mut section.0 {
        match value {
            Value::Section(inner) => wipe(inner),
            Value::Octets(octets) => octets.zeroize(),
            Value::List(items) => items.iter_mut().for_each(Zeroize::zeroize),
        }
    }
}
