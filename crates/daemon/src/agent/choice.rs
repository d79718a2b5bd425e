//! The back-end that an agent's file chooses.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use nix::unistd::Uid;
use tracing::info;

use super::backend::Backend;
use super::backend::client::Client;
use super::backend::foreign::Files;
use super::backend::gateway::Gateway;
use super::backend::libreswan::Libreswan;
use super::backend::orders::check_folder;
use super::backend::rootless::{LISTEN, Rootless};
use super::backend::strongswan::StrongSwan;
use super::{Place, hygiene};
use crate::config::agent::{BackEndChoice, BackEndKind};

/// Where charon listens by default.
const VICI: &str = "/run/charon.vici";
/// The folder that Libreswan's main file includes by default.
const IPSEC_D: &str = "/etc/ipsec.d";

/// Which end it builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Target,
}

/// Whether it could be opened, as far as its file and the folder that it names show.
pub(super) fn check(choice: &BackEndChoice, end: End) -> anyhow::Result<()> {
    let usual = match choice.kind {
        // Client's tunnel has a folder of its own.
        BackEndKind::Caravan if end == End::Client => return Ok(()),
        BackEndKind::Caravan | BackEndKind::Files => ".",
        BackEndKind::Libreswan => IPSEC_D,
        BackEndKind::Socks | BackEndKind::StrongSwan => return Ok(()),
    };
    let folder = choice.folder.as_deref().unwrap_or(Path::new(usual));
    Ok(check_folder(folder)?)
}

/// Opens it. Client's is tried out, while nobody has heard of the key.
pub(super) async fn open(choice: BackEndChoice, end: End, place: Place) -> anyhow::Result<Backend> {
    let opened = opened(choice, end, place).await;
    if end == End::Target {
        return opened;
    }
    let tried = opened.and_then(|mut it| {
        it.try_out()?;
        Ok(it)
    });
    tried.context("this machine cannot make its end of a tunnel")
}

async fn opened(choice: BackEndChoice, end: End, place: Place) -> anyhow::Result<Backend> {
    let Place {
        runtime_dir,
        logging,
    } = place;
    let folder = |usual: &str| {
        choice
            .folder
            .clone()
            .unwrap_or_else(|| PathBuf::from(usual))
    };
    Ok(match choice.kind {
        BackEndKind::Socks if end == End::Target => {
            bail!("[back_end] kind = \"socks\" is Client's way without root; Target needs another")
        }
        BackEndKind::Socks => Backend::Rootless(Rootless::new(choice.listen.unwrap_or(LISTEN))),
        BackEndKind::Caravan if end == End::Client && !hygiene::may_use_tun() => {
            info!("a TUN device needs root, so the tunnel is reached by SOCKS");
            Backend::Rootless(Rootless::new(LISTEN))
        }
        BackEndKind::Caravan if end == End::Client => {
            Backend::Client(Client::new(passing_folder(runtime_dir), logging))
        }
        BackEndKind::Caravan => {
            let (Some(connection), Some(folder)) = (&choice.connection, &choice.folder) else {
                bail!("[back_end] needs connection and folder");
            };
            let folder = absolute(folder)?;
            Backend::Gateway(Gateway::new(runtime_dir, connection.clone(), folder))
        }
        BackEndKind::StrongSwan => {
            let socket = choice.socket.clone().unwrap_or_else(|| VICI.into());
            let context = || format!("no charon answers at {}", socket.display());
            let opened = StrongSwan::open(socket.clone(), logging).await;
            Backend::StrongSwan(opened.with_context(context)?)
        }
        BackEndKind::Libreswan => Backend::Libreswan(Libreswan::new(folder(IPSEC_D))),
        BackEndKind::Files => {
            let kind = choice.writer.context("[back_end] needs a writer")?;
            Backend::Files(Files::new(kind, folder(".")))
        }
    })
}

/// Where the folders of Client's tunnels are, for as long as they are up. It is short: the path of
/// a socket has 107 octets, and a tunnel's name is in it twice.
pub(super) fn passing_folder(runtime_dir: PathBuf) -> PathBuf {
    if Uid::effective().is_root() {
        return "/run".into();
    }
    let of_user = std::env::var_os("XDG_RUNTIME_DIR").filter(|it| !it.is_empty());
    of_user.map_or(runtime_dir, PathBuf::from)
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| path.display().to_string())
}
