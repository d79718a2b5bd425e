//! A system that somebody else configures: the agent writes texts into a folder, and removes them.

use std::path::PathBuf;

use engine::agent::TunnelId;
use engine::agent::description::Description;
use engine::agent::objectives::Options;
use engine::agent::writers::{Kind, write};

use super::{BackendError, State, name_of, orders};

/// A folder with texts.
pub struct Files {
    kind: Kind,
    folder: PathBuf,
}

impl Files {
    /// Texts of this kind go into this folder, which must be there.
    pub fn new(kind: Kind, folder: PathBuf) -> Self {
        Self { kind, folder }
    }

    pub(super) fn options(&self) -> Options {
        self.kind.options()
    }

    pub(super) fn build(&self, description: &Description) -> Result<(), BackendError> {
        let texts = write(self.kind, description)?;
        let path = self.path(description.tunnel);
        orders::write_private(&path, texts.to_string().as_bytes())
    }

    pub(super) fn destroy(&self, tunnel: TunnelId) -> Result<(), BackendError> {
        orders::remove_files(&self.folder, &name_of(tunnel)).map(drop)
    }

    /// Whoever builds by the texts knows whether the tunnel is up.
    pub(super) fn state(&self, tunnel: TunnelId) -> State {
        match self.path(tunnel).exists() {
            true => State::Up,
            false => State::Absent,
        }
    }

    fn path(&self, tunnel: TunnelId) -> PathBuf {
        let name = name_of(tunnel);
        self.folder.join(format!("{name}.{}.txt", self.kind.name()))
    }
}
