//! `[radius]`: the servers that a gateway asks about its peers.

use std::path::PathBuf;

use document::Fault;

use super::read::{Keys, ReadTable};

/// `[radius]`
#[derive(Debug)]
pub struct RadiusTable {
    /// Addresses of the servers, such as "10.1.0.5", with a port where it is not 1812. The first
    /// one is asked; the next ones if it does not answer.
    pub servers: Vec<String>,
    /// File with the secret that the servers share with us. Only its owner may read it.
    pub secret_file: PathBuf,
    /// What we call ourselves there (NAS-Identifier).
    pub nas_id: String,
}

impl ReadTable for RadiusTable {
    fn of(keys: &Keys<'_>) -> Result<Self, Fault> {
        Ok(Self {
            servers: keys.needed("servers", "such as servers = [\"10.1.0.5\"]")?,
            secret_file: keys.needed(
                "secret_file",
                "a file with the secret that the servers share with us",
            )?,
            nas_id: keys.or("nas_id", "caravan".to_owned())?,
        })
    }
}
