//! Undoes the changes in a footprint.

use super::FootprintFile;
use crate::dns::{self, anchors};
use crate::nft;
use crate::routes::{self, Blocks};

/// Undoes the changes in a footprint. The packet filters of a firewall and of a mobile node outside
/// stay ([`nft::wall::lift`]).
pub async fn undo(file: &mut FootprintFile, blocks: Blocks) -> anyhow::Result<()> {
    // A failure in one part must not stop the others.
    let resolvers = dns::give_back(file);
    let anchors = anchors::give_back(file);
    let tables = nft::undo(file);
    routes::undo(file, blocks).await?;
    nft::bound::renew(file)?;
    resolvers?;
    anchors?;
    Ok(tables?)
}
