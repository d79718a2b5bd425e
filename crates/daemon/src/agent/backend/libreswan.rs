//! A running pluto, by its configuration and `ipsec auto`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use engine::agent::TunnelId;
use engine::agent::description::{Description, Side};
use engine::agent::objectives::SecurityOption;
use engine::agent::target::Seen;
use engine::agent::writers::{Kind, Order, Texts, leftovers, write_in};
use engine::ikev2::ppk::PpkExchange;

use super::{BackendError, State, name_of, orders};

/// pluto has a draft of RFC 9867 alone, for which its texts here do not ask: RFC 8784 it is.
const PPK_EXCHANGE: PpkExchange = PpkExchange::IkeAuth;

/// A running pluto.
pub struct Libreswan {
    /// The folder that its main file includes.
    folder: PathBuf,
    ends: BTreeMap<TunnelId, End>,
}

struct End {
    side: Side,
    option: SecurityOption,
    has_ppk: bool,
    destroy: Vec<Order>,
    has_been_up: bool,
}

impl Libreswan {
    /// The pluto whose ipsec.secrets includes this folder.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            ends: BTreeMap::new(),
        }
    }

    /// Whether pluto can be given a connection.
    pub(super) fn try_out(&self) -> Result<(), BackendError> {
        orders::check_folder(&self.folder)
    }

    /// Whether it runs, too.
    pub(super) async fn can_build(&self) -> Result<(), BackendError> {
        self.try_out()?;
        self.connections().await.map(drop)
    }

    pub(super) async fn build(&mut self, it: &Description) -> Result<(), BackendError> {
        let folder = self.folder.to_string_lossy();
        let mut texts = write_in(Kind::Libreswan, it, &folder)?;
        // The negotiation goes on while the agent does other things.
        for order in &mut texts.construct {
            if order.0.iter().any(|word| word == "--up") {
                order.0.insert(2, "--asynchronous".to_owned());
            }
        }
        self.ends.insert(
            it.tunnel,
            End {
                side: it.side,
                option: it.option,
                has_ppk: it.ppk.is_some(),
                destroy: texts.destroy.clone(),
                has_been_up: false,
            },
        );
        let built = self.construct(texts).await;
        if built.is_err() {
            let _ = self.destroy(it.tunnel).await;
        }
        built
    }

    async fn construct(&self, texts: Texts) -> Result<(), BackendError> {
        orders::write_files(&texts)?;
        orders::run(texts.construct).await
    }

    pub(super) async fn destroy(&mut self, tunnel: TunnelId) -> Result<(), BackendError> {
        let name = name_of(tunnel);
        // An end of a former agent.
        let former = || leftovers(tunnel, &self.folder.to_string_lossy());
        let orders = self.ends.get(&tunnel).map(|end| end.destroy.clone());
        let failed = orders::run_all(orders.unwrap_or_else(former)).await;
        orders::remove_files(&self.folder, &name)?;
        match self.connections().await? {
            text if text.contains(&format!("\"{name}")) => {
                Err(failed.into_iter().next().unwrap_or(BackendError::Refused {
                    what: "ipsec auto --delete".to_owned(),
                    text: format!("{name} is still there"),
                }))
            }
            _ => {
                self.ends.remove(&tunnel);
                Ok(())
            }
        }
    }

    pub(super) fn seen(&self, tunnel: TunnelId) -> Seen {
        let has_ppk = self.ends.get(&tunnel).is_some_and(|end| end.has_ppk);
        Seen {
            peer: None,
            ppk: has_ppk.then_some(PPK_EXCHANGE),
        }
    }

    pub(super) async fn state(&mut self, tunnel: TunnelId) -> Result<State, BackendError> {
        let listed = self.connections().await?;
        let name = format!("\"{}\"", name_of(tunnel));
        let mut mine = listed
            .lines()
            .filter(|line| line.contains(&name))
            .peekable();
        if mine.peek().is_none() {
            return Ok(State::Absent);
        }
        let is_up = mine.any(|line| line.contains("IPsec SA established"));
        let Some(end) = self.ends.get_mut(&tunnel) else {
            return Ok(if is_up { State::Up } else { State::Waiting });
        };
        end.has_been_up |= is_up;
        Ok(match is_up {
            _ if end.option == SecurityOption::Native => State::Open,
            true => State::Up,
            false if end.has_been_up && end.side == Side::Client => {
                State::Down("the tunnel was closed".to_owned())
            }
            false => State::Waiting,
        })
    }

    async fn connections(&self) -> Result<String, BackendError> {
        orders::output(&["ipsec", "auto", "--status"]).await
    }
}
