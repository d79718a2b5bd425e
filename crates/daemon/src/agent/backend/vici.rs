//! A conversation with charon over its vici socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use engine::agent::writers::{Wiped, ppk_name};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout_at};
use wire::vici::{PACKET_MAX, Packet, Section};
use zeroize::Zeroizing;

/// How long charon may take for a conversation: `terminate` waits for the other end. An agent that
/// was told to stop waits for one that loads, and for one that unloads.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long it may take for a whole list.
const LIST_PATIENCE: Duration = Duration::from_secs(5);
/// Milliseconds that a delete waits for the other end.
const TERMINATE_MS: &str = "3000";
/// Packets and octets of charon for one question: we ask for one tunnel at a time.
const PACKETS_MAX: usize = 1_024;
const OCTETS_MAX: usize = 2 << 20;

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
pub(super) struct Vici {
    socket: UnixStream,
    ends: Instant,
    /// What is left of the time and size of this question.
    until: Instant,
    packets: usize,
    octets: usize,
}

impl Vici {
    pub(super) async fn open(path: &Path) -> Result<Self, ViciError> {
        Ok(Self::of(UnixStream::connect(path).await?))
    }

    fn of(socket: UnixStream) -> Self {
        Self {
            socket,
            ends: Instant::now() + PATIENCE,
            until: Instant::now(),
            packets: 0,
            octets: 0,
        }
    }

    /// A question begins, which may take so long in all.
    fn begin(&mut self, patience: Duration) {
        self.until = self.ends.min(Instant::now() + patience);
        (self.packets, self.octets) = (PACKETS_MAX, OCTETS_MAX);
    }

    /// Asks, and wipes the question. An answer without success is an error.
    pub(super) async fn ask(
        &mut self,
        command: &str,
        question: Section,
    ) -> Result<Section, ViciError> {
        self.begin(PATIENCE);
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
            ("unload-shared", Section::new().with("id", ppk_name(name))),
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
        self.begin(LIST_PATIENCE);
        self.send(Packet::Register(event.to_owned())).await?;
        if self.receive().await? != Packet::Confirm {
            return Err(strange(event));
        }
        self.send(Packet::Request(command.to_owned(), question))
            .await?;
        let mut found = Vec::new();
        loop {
            match self.receive().await? {
                Packet::Event(name, item) if name == event => found.push(item),
                Packet::Event(..) => {}
                Packet::Response(_) => break,
                _ => return Err(strange(command)),
            }
        }
        self.send(Packet::Unregister(event.to_owned())).await?;
        while self.receive().await? != Packet::Confirm {}
        Ok(found)
    }

    async fn send(&mut self, packet: Packet) -> Result<(), ViciError> {
        let written = packet.to_vec().map(Zeroizing::new);
        if let Packet::Request(_, section) = packet {
            drop(Wiped(section));
        }
        let octets = written.map_err(|fault| ViciError::Refused(fault.to_string()))?;
        let length = u32::try_from(octets.len())
            .unwrap_or(u32::MAX)
            .to_be_bytes();
        let sent = async {
            self.socket.write_all(&length).await?;
            self.socket.write_all(&octets).await
        };
        let sent = timeout_at(self.until, sent).await;
        Ok(sent.map_err(io::Error::from)??)
    }

    async fn receive(&mut self) -> Result<Packet, ViciError> {
        let left = self.octets.min(PACKET_MAX);
        let packets = self.packets.checked_sub(1).ok_or_else(too_much)?;
        let read = async {
            let length = self.socket.read_u32().await? as usize;
            if length > left {
                return Err(too_much());
            }
            let mut octets = vec![0; length];
            self.socket.read_exact(&mut octets).await?;
            Ok(octets)
        };
        let read = timeout_at(self.until, read).await;
        let octets = read.map_err(io::Error::from)??;
        (self.packets, self.octets) = (packets, self.octets - octets.len());
        Packet::parse(&octets).map_err(|fault| ViciError::Refused(fault.to_string()))
    }
}

fn too_much() -> io::Error {
    io::Error::other(format!(
        "it answers more than {PACKETS_MAX} packets or {OCTETS_MAX} octets"
    ))
}

fn strange(what: &str) -> ViciError {
    ViciError::Refused(format!(
        "{what}: it does not know that, or answers something else"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a list when charon says `first`, then `more` again and again, with a pause.
    async fn listed(
        first: &[Packet],
        more: Option<Packet>,
        pause: Duration,
    ) -> Result<usize, String> {
        let (ours, mut charon) = UnixStream::pair().expect("a pair");
        let octets = |packet: &Packet| {
            let packet = packet.to_vec().expect("short");
            let length = u32::try_from(packet.len()).expect("short").to_be_bytes();
            [&length[..], &packet].concat()
        };
        let first: Vec<u8> = first.iter().flat_map(octets).collect();
        let more = more.as_ref().map(octets);
        let speaks = tokio::spawn(async move {
            charon.write_all(&first).await.expect("it is heard");
            while let Some(more) = &more
                && charon.write_all(more).await.is_ok()
            {
                tokio::time::sleep(pause).await;
            }
            // Silent, and there.
            std::future::pending::<()>().await;
        });
        let listed = Vici::of(ours)
            .list("list-sas", "list-sa", Section::new())
            .await;
        speaks.abort();
        listed.map(|it| it.len()).map_err(|fault| fault.to_string())
    }

    fn item(name: &str, len: usize) -> Packet {
        Packet::Event(name.to_owned(), Section::new().with("x", vec![0; len]))
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_ends_though_charon_goes_on() {
        let answer = Packet::Response(Section::new());
        let whole = [
            Packet::Confirm,
            item("list-sa", 1),
            answer.clone(),
            Packet::Confirm,
        ];
        assert_eq!(listed(&whole, None, Duration::ZERO).await, Ok(1));
        for name in ["list-sa", "another"] {
            for len in [1, 30_000] {
                let more = Some(item(name, len));
                let said = listed(&[Packet::Confirm], more, Duration::ZERO).await;
                assert!(said.is_err_and(|it| it.contains("it answers more than")));
            }
            // One more each second.
            let began = Instant::now();
            let said = listed(
                &[Packet::Confirm],
                Some(item(name, 1)),
                Duration::from_secs(1),
            )
            .await;
            assert!(said.is_err() && began.elapsed() <= LIST_PATIENCE);
        }
        // Also after the answer.
        let more = Some(item("list-sa", 1));
        let said = listed(&whole[..3], more, Duration::ZERO).await;
        assert!(said.is_err_and(|it| it.contains("it answers more than")));
        let said = listed(&whole[..1], None, Duration::ZERO).await;
        assert!(said.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn all_questions_of_a_conversation_end_in_its_time() {
        let (ours, charon) = UnixStream::pair().expect("a pair");
        let began = Instant::now();
        let mut vici = Vici::of(ours);
        for _ in 0..5 {
            assert!(vici.ask("stats", Section::new()).await.is_err());
        }
        assert!(began.elapsed() <= PATIENCE, "{:?}", began.elapsed());
        drop(charon);
    }
}
