//! What a session has done with its paths.

use super::ways::Ways;
use crate::sa::Path;
use crate::time::Instant;

/// A session's record of moves.
#[derive(Default)]
pub(super) struct Roaming {
    /// How often its path has changed.
    pub(super) moves: u32,
    /// Paths where the peer does not follow us.
    pub(super) refused: Vec<Path>,
    /// The path before the peer's last update, and when that came.
    pub(super) left: Option<(Path, Instant)>,
    /// Open requests were sent over other paths too.
    pub(super) is_testing: bool,
    /// The peer is told our addresses then, unless an update says so earlier.
    pub(super) tell_at: Option<Instant>,
    /// A test or the first race has chosen this path, while the routing table chose as in these.
    pub(super) chosen: Option<(Path, Ways)>,
}
