//! A system that somebody else configures: the agent writes texts into a folder, and removes them.

use std::net::{IpAddr, UdpSocket};
use std::path::PathBuf;

use engine::agent::TunnelId;
use engine::agent::description::Description;
use engine::agent::objectives::{Options, SecurityOption};
use engine::agent::writers::{Kind, write};

use super::{BackendError, State, name_of, orders};

/// A folder with texts.
pub struct Files {
    kind: Kind,
    folder: PathBuf,
    has_session_keys: bool,
}

impl Files {
    /// Texts of this kind go into this folder, which must be there.
    pub fn new(kind: Kind, folder: PathBuf) -> Self {
        Self {
            kind,
            folder,
            has_session_keys: false,
        }
    }

    /// Tunnels come in the paper's own form, with a delivered key: without one, an implementation
    /// that has no IKE protects nothing.
    #[must_use]
    pub fn with_session_keys(mut self) -> Self {
        self.has_session_keys = true;
        self
    }

    /// For whom they are.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn options(&self) -> Options {
        match self.kind.has_ike() || self.has_session_keys {
            true => self.kind.options(),
            false => core::iter::once(SecurityOption::Native).collect(),
        }
    }

    /// Whether texts can be written.
    pub(super) fn try_out(&self) -> Result<(), BackendError> {
        orders::check_folder(&self.folder)
    }

    pub(super) fn build(&self, description: &Description) -> Result<(), BackendError> {
        let mut description = description.clone();
        if description.local.addresses.is_empty() {
            let remote = description.remote.addresses.first();
            let own = remote.and_then(|remote| own_address(*remote));
            description.local.addresses.extend(own);
        }
        let description = &description;
        let texts = write(self.kind, description)?;
        let path = self.path(description.tunnel);
        orders::write_private(&path, texts.to_private().as_bytes())
    }

    pub(super) fn destroy(&self, tunnel: TunnelId) -> Result<(), BackendError> {
        orders::remove_files(&self.folder, &name_of(tunnel)).map(drop)
    }

    /// Whoever builds by the texts knows whether the tunnel is up; we know that they are there.
    pub(super) fn state(&self, tunnel: TunnelId) -> State {
        match self.path(tunnel).exists() {
            true => State::Open,
            false => State::Absent,
        }
    }

    fn path(&self, tunnel: TunnelId) -> PathBuf {
        let name = name_of(tunnel);
        self.folder.join(format!("{name}.{}.txt", self.kind.name()))
    }
}

/// Our address towards another one. Nothing is sent.
fn own_address(remote: IpAddr) -> Option<IpAddr> {
    let any = match remote {
        IpAddr::V4(_) => "0.0.0.0:0",
        IpAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect((remote, IKE_PORT)).ok()?;
    socket.local_addr().ok().map(|own| own.ip())
}

const IKE_PORT: u16 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_implementation_without_ike_protects_nothing_without_a_delivered_key() {
        let of = |kind| Files::new(kind, PathBuf::from("."));
        let native: Options = core::iter::once(SecurityOption::Native).collect();
        for kind in Kind::ALL {
            let is_manual = matches!(kind, Kind::Xfrm | Kind::Setkey);
            assert_eq!(of(kind).options() == native, is_manual);
            assert_eq!(of(kind).with_session_keys().options(), kind.options());
        }
    }

    #[test]
    fn our_address_towards_loopback_is_there() {
        let loopback: IpAddr = "127.0.0.1".parse().expect("an address");
        assert_eq!(own_address(loopback), Some(loopback));
    }
}
