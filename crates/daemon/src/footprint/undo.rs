//! How what a footprint tells is undone.

use super::FootprintFile;
use crate::routes::{self, Blocks};
use crate::{dns, nft};

/// Undoes what a footprint tells.
pub async fn undo(file: &mut FootprintFile, blocks: Blocks) -> anyhow::Result<()> {
    // What one part cannot undo keeps no other from it.
    let resolvers = dns::give_back(file);
    let tables = nft::undo(file);
    routes::undo(file, blocks).await?;
    nft::bound::renew(file)?;
    resolvers?;
    Ok(tables?)
}
